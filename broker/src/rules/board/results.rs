//! Results that are stored at a checkpoint: what was worked out from it and is in no channel yet.
//!
//! A result has a name. The first value stays, unless whoever stores another says that it replaces
//! it. Values are kept beside the records, each under a number of its own, so that none is ever
//! written over.

use std::collections::{BTreeMap, BTreeSet};

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    board::ResultName,
    id::{BoardName, CheckpointNumber, PersonId, RoleId, Timestamp},
    limits::{
        BOARD_RESULTS_BYTES_MAX, CHECKPOINT_RESULTS_BYTES_MAX, CHECKPOINT_RESULTS_MAX, RESULTS_MAX,
    },
};

use super::{Board, BoardId, Boards, Event, Rejection, Reply};
use crate::rules::{Body, Decision, Principal, turn::Actor};

/// Store results at a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreResults {
    pub by: Actor,
    pub board: BoardName,
    pub checkpoint: CheckpointNumber,
    /// Each name once, in their order, with its value as JSON.
    pub results: Vec<(ResultName, String)>,
    /// A name that is there gets the new value.
    pub is_replacing: bool,
}

/// Results were stored.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ResultsStored {
    #[n(0)]
    pub board: BoardName,
    #[n(1)]
    pub checkpoint: CheckpointNumber,
    #[n(2)]
    pub results: Vec<NewResult>,
}

/// A result, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct NewResult {
    #[n(0)]
    pub name: ResultName,
    /// Of all that were ever stored at the checkpoint, from 1.
    #[n(1)]
    pub number: u32,
    #[n(2)]
    pub bytes: u32,
}

/// A result that is there, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct StoredResult {
    #[n(0)]
    pub number: u32,
    #[n(1)]
    pub bytes: u32,
    #[n(2)]
    pub at: Timestamp,
    /// Who stored it: a role or a person.
    #[n(3)]
    pub role: Option<RoleId>,
    #[n(4)]
    pub person: Option<PersonId>,
}

/// The value of a result, as JSON, kept beside the records.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct ResultValue {
    #[n(0)]
    pub place: ResultPlace,
    #[n(1)]
    pub json: String,
}

/// Where the value of a result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct ResultPlace {
    #[n(0)]
    pub board: BoardId,
    #[n(1)]
    pub checkpoint: CheckpointNumber,
    #[n(2)]
    pub number: u32,
}

/// The results of a board.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Results {
    by_checkpoint: BTreeMap<CheckpointNumber, BTreeMap<ResultName, StoredResult>>,
    /// Derived: of all values.
    bytes: u64,
    /// Derived.
    count: usize,
}

impl Results {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn insert(
        &mut self,
        checkpoint: CheckpointNumber,
        name: ResultName,
        result: StoredResult,
    ) {
        self.bytes += u64::from(result.bytes);
        self.count += 1;
        let before = self.by_checkpoint.entry(checkpoint).or_default().insert(name, result);
        if let Some(before) = before {
            self.bytes -= u64::from(before.bytes);
            self.count -= 1;
        }
    }

    /// Forgets those of older checkpoints.
    pub(super) fn prune(&mut self, oldest: CheckpointNumber) {
        self.by_checkpoint = self.by_checkpoint.split_off(&oldest);
        let results = || self.by_checkpoint.values().flat_map(BTreeMap::values);
        let (bytes, count) = (results().map(|it| u64::from(it.bytes)).sum(), results().count());
        (self.bytes, self.count) = (bytes, count);
    }

    /// By checkpoint and name.
    pub(super) fn iter(
        &self,
    ) -> impl Iterator<Item = (CheckpointNumber, &ResultName, &StoredResult)> {
        let all = self.by_checkpoint.iter();
        all.flat_map(|(at, it)| it.iter().map(|(name, result)| (*at, name, result)))
    }
}

impl Board {
    /// Those at a checkpoint, by name.
    pub fn results_at(
        &self,
        at: CheckpointNumber,
    ) -> impl Iterator<Item = (&ResultName, &StoredResult)> {
        self.results.by_checkpoint.get(&at).into_iter().flatten()
    }
}

impl Boards {
    /// Whether there is such a result.
    pub fn has_result(&self, place: &ResultPlace) -> bool {
        self.by_id(place.board).is_some_and(|(_, board)| {
            board.results_at(place.checkpoint).any(|(_, it)| it.number == place.number)
        })
    }

    pub(super) fn decide_results(&self, asked: &StoreResults) -> Result<Decision, Rejection> {
        let (board, at) = self.checkpoint(&asked.board, Some(asked.checkpoint))?;
        let there: BTreeMap<_, _> = board.results_at(at).collect();
        let is_kept = |name: &ResultName| !asked.is_replacing && there.contains_key(name);
        let mut number = there.values().map(|it| it.number).max().unwrap_or(0);
        let (mut stored, mut bodies, mut kept) = (Vec::new(), Vec::new(), 0);
        for (index, (name, json)) in asked.results.iter().enumerate() {
            if is_kept(name) {
                kept |= 1 << index;
                continue;
            }
            number += 1;
            let bytes = u32::try_from(json.len()).expect("at most CHANNEL_BYTES_MAX");
            stored.push(NewResult { name: name.clone(), number, bytes });
            let place = ResultPlace { board: board.id, checkpoint: at, number };
            bodies.push(Body::BoardResult(ResultValue { place, json: json.clone() }));
        }
        let reply = Reply::ResultsStored(kept);
        if stored.is_empty() {
            return Ok(Decision::repeat(reply));
        }
        self.check_room(asked, board, &there, &stored)?;
        let (board, checkpoint) = (asked.board.clone(), at);
        let event = Event::ResultsStored(ResultsStored { board, checkpoint, results: stored });
        Ok(Decision { bodies, ..Decision::new([event], reply) })
    }

    fn check_room(
        &self,
        asked: &StoreResults,
        board: &Board,
        there: &BTreeMap<&ResultName, &StoredResult>,
        stored: &[NewResult],
    ) -> Result<(), Rejection> {
        let names: BTreeSet<&ResultName> = stored.iter().map(|it| &it.name).collect();
        let replaced = there.iter().filter(|(name, _)| names.contains(*name));
        let (replaced_count, replaced_bytes) = replaced
            .fold((0, 0), |(count, bytes), (_, it)| (count + 1, bytes + u64::from(it.bytes)));
        let added: u64 = stored.iter().map(|it| u64::from(it.bytes)).sum();
        let (name, checkpoint) = (|| asked.board.clone(), asked.checkpoint);
        if CHECKPOINT_RESULTS_MAX < there.len() - replaced_count + stored.len() {
            return Err(Rejection::TooManyResults { board: name(), checkpoint });
        }
        if RESULTS_MAX < self.result_count() - replaced_count + stored.len() {
            return Err(Rejection::TooManyResultsInAll);
        }
        let before: u64 = there.values().map(|it| u64::from(it.bytes)).sum();
        let bytes = before - replaced_bytes + added;
        if (CHECKPOINT_RESULTS_BYTES_MAX as u64) < bytes {
            return Err(Rejection::ResultsTooLarge { board: name(), checkpoint, bytes });
        }
        if (BOARD_RESULTS_BYTES_MAX as u64) < board.results.bytes - replaced_bytes + added {
            return Err(Rejection::BoardResultsTooLarge { board: name() });
        }
        Ok(())
    }
}

impl ResultsStored {
    /// What is kept of each.
    pub(super) fn stored<'a>(
        &'a self,
        at: Timestamp,
        by: &'a Principal,
    ) -> impl Iterator<Item = (ResultName, StoredResult)> + 'a {
        self.results.iter().map(move |it| {
            let (role, person) = (by.role.clone(), by.person.clone());
            let stored = StoredResult { number: it.number, bytes: it.bytes, at, role, person };
            (it.name.clone(), stored)
        })
    }
}
