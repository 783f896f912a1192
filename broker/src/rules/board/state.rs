//! The boards of a workspace: what there is, where its values are, and what an event changes.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    board::{ChannelName, Reducer, ResultName},
    id::{BoardName, CheckpointNumber, PersonId, RoleId, Timestamp},
};

use super::{
    BoardId, Change, ChannelIndex, ChannelState, Event, Origin, Rejection, Schema, StoredResult,
    Updated, results::Results,
};
use crate::{
    hash::Hash,
    rules::{Kept, Principal, rejection::listed_for},
};

/// Names that one that is unknown is compared with: there may be thousands.
const NAMES_COMPARED_MAX: usize = 100;

/// The boards of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Boards {
    /// The newest board, from 1.
    pub last: BoardId,
    by_name: BTreeMap<BoardName, Board>,
    /// Derived.
    names: BTreeMap<BoardId, BoardName>,
    /// The highest checkpoint of any board that was deleted: a new board goes on from there, so that
    /// a number never means two checkpoints of one name.
    pub floor: CheckpointNumber,
    /// Derived: checkpoints of all boards.
    checkpoints: usize,
    /// Derived: results of all boards.
    results: usize,
}

/// One board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Board {
    pub id: BoardId,
    pub created: Timestamp,
    pub schema: Schema,
    pub origin: Option<Origin>,
    /// Those that ever had a value; their index is their number.
    pub channels: Vec<(ChannelName, Reducer)>,
    /// At least one. The last is the head.
    pub checkpoints: BTreeMap<CheckpointNumber, Checkpoint>,
    /// Derived.
    by_channel: BTreeMap<ChannelName, ChannelIndex>,
    /// Derived.
    write_keys: BTreeMap<String, CheckpointNumber>,
    /// Derived: each channel at the head.
    head_states: Vec<ChannelState>,
    /// Derived: the checkpoint with which each channel last became another, also because a fork
    /// left behind what was written to it.
    written: Vec<CheckpointNumber>,
    pub(super) results: Results,
}

/// One version of a board.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Checkpoint {
    /// [`CheckpointNumber::NONE`] of the first.
    #[n(0)]
    pub parent: CheckpointNumber,
    #[n(1)]
    pub at: Timestamp,
    /// Who wrote it: a role or a person.
    #[n(2)]
    pub role: Option<RoleId>,
    #[n(3)]
    pub person: Option<PersonId>,
    #[n(4)]
    pub write_key: Option<String>,
    /// Of what was asked for, to recognise it under its write key.
    #[n(5)]
    pub content: Hash,
    /// Each channel at most once.
    #[n(6)]
    pub changes: Vec<Change>,
}

/// Where the value of a channel is: what its reducer makes of the whole value and the updates after
/// it, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueParts {
    pub channel: ChannelName,
    pub index: ChannelIndex,
    pub reducer: Reducer,
    pub whole: Option<CheckpointNumber>,
    pub updates: Vec<CheckpointNumber>,
    /// The checkpoint that last wrote to it.
    pub changed_at: CheckpointNumber,
}

impl Board {
    fn new(id: BoardId, created: Timestamp, schema: Schema, origin: Option<Origin>) -> Self {
        Self {
            id,
            created,
            schema,
            origin,
            channels: Vec::new(),
            checkpoints: BTreeMap::new(),
            by_channel: BTreeMap::new(),
            write_keys: BTreeMap::new(),
            head_states: Vec::new(),
            written: Vec::new(),
            results: Results::default(),
        }
    }

    /// Begins anew, without checkpoints.
    pub(super) fn forget_all(&mut self) {
        self.checkpoints.clear();
        self.write_keys.clear();
        self.head_states.clear();
        self.written.clear();
    }

    /// The newest checkpoint.
    pub fn head(&self) -> CheckpointNumber {
        self.checkpoints.last_key_value().map_or(CheckpointNumber::NONE, |(number, _)| *number)
    }

    /// The checkpoint that was written under a key.
    pub fn written_under(&self, write_key: &str) -> Option<CheckpointNumber> {
        self.write_keys.get(write_key).copied()
    }

    pub fn channel(&self, name: &ChannelName) -> Option<ChannelIndex> {
        self.by_channel.get(name).copied()
    }

    /// Names of what a checkpoint wrote to, in order.
    pub fn changed<'a>(&'a self, checkpoint: &'a Checkpoint) -> BTreeSet<&'a ChannelName> {
        let written = checkpoint.changes.iter().filter(|it| it.update.is_some());
        written.map(|it| &self.channels[usize::from(it.channel)].0).collect()
    }

    /// Channels that became others with any newer checkpoint.
    pub fn changed_since(&self, known: CheckpointNumber) -> BTreeSet<&ChannelName> {
        let changed = self.channels.iter().zip(&self.written);
        changed.filter(|(_, at)| known < **at).map(|((name, _), _)| name).collect()
    }

    /// A checkpoint and those that it goes back to, the newest first.
    fn ancestors(
        &self,
        at: CheckpointNumber,
    ) -> impl Iterator<Item = (CheckpointNumber, &Checkpoint)> {
        let mut next = at;
        // As a rule a parent is the one before, so that stepping is quicker than looking each up.
        let found = self.checkpoints.range(..=at).rev().filter(move |(number, it)| {
            let is_next = **number == next;
            if is_next {
                next = it.parent;
            }
            is_next
        });
        found.map(|(number, it)| (*number, it))
    }

    /// Where the values of all channels are that have one at a checkpoint; of these, if any are
    /// named. By name.
    pub fn value_parts(
        &self,
        at: CheckpointNumber,
        only: Option<&BTreeSet<ChannelIndex>>,
    ) -> Vec<ValueParts> {
        let mut found: Vec<Option<ValueParts>> = vec![None; self.channels.len()];
        let mut open = only.map_or(self.channels.len(), BTreeSet::len);
        for (number, checkpoint) in self.ancestors(at) {
            if open == 0 {
                break;
            }
            for change in &checkpoint.changes {
                if only.is_some_and(|it| !it.contains(&change.channel)) {
                    continue;
                }
                let index = usize::from(change.channel);
                let (channel, reducer) = &self.channels[index];
                let parts = found[index].get_or_insert_with(|| ValueParts {
                    channel: channel.clone(),
                    index: change.channel,
                    reducer: *reducer,
                    whole: None,
                    updates: Vec::new(),
                    changed_at: number,
                });
                let is_known = parts.whole.is_some()
                    || (*reducer == Reducer::LastValue && !parts.updates.is_empty());
                if is_known {
                    continue;
                }
                match change.whole {
                    Some(_) => parts.whole = Some(number),
                    None => parts.updates.push(number),
                }
                if change.whole.is_some() || *reducer == Reducer::LastValue {
                    open -= 1;
                }
            }
        }
        let mut found: Vec<ValueParts> = found.into_iter().flatten().collect();
        found.iter_mut().for_each(|it| it.updates.reverse());
        found.sort_unstable_by(|one, other| one.channel.cmp(&other.channel));
        found
    }

    /// Each channel at a checkpoint.
    pub(super) fn states(&self, at: CheckpointNumber) -> Cow<'_, [ChannelState]> {
        if at == self.head() {
            Cow::Borrowed(&self.head_states)
        } else {
            Cow::Owned(self.states_at(at))
        }
    }

    fn states_at(&self, at: CheckpointNumber) -> Vec<ChannelState> {
        let mut states = vec![ChannelState::default(); self.channels.len()];
        let ancestors: Vec<&Checkpoint> = self.ancestors(at).map(|(_, it)| it).collect();
        for change in ancestors.iter().rev().flat_map(|it| &it.changes) {
            let index = usize::from(change.channel);
            states[index].apply(change, self.channels[index].1);
        }
        states
    }

    /// What has so many updates at the head that its whole value is worth keeping.
    pub fn unfolded(&self) -> BTreeSet<ChannelIndex> {
        let head = self.checkpoints.values().next_back();
        let changes = head.iter().flat_map(|it| &it.changes);
        let is_due = |it: &&Change| {
            it.whole.is_none()
                && self.head_states.get(usize::from(it.channel)).is_some_and(ChannelState::is_due)
        };
        changes.filter(is_due).map(|it| it.channel).collect()
    }

    pub(super) fn add(&mut self, number: CheckpointNumber, checkpoint: Checkpoint) {
        let head = self.head();
        assert!(head < number, "BD1: checkpoint {number} after {head}");
        assert!(checkpoint.parent < number, "BD1: checkpoint {number} of {}", checkpoint.parent);
        if let Some(key) = &checkpoint.write_key {
            let before = self.write_keys.insert(key.clone(), number);
            assert!(before.is_none(), "BD4: {key:?} names {before:?} and {number}");
        }
        self.written.resize(self.channels.len(), CheckpointNumber::NONE);
        if checkpoint.parent == head {
            self.head_states.resize_with(self.channels.len(), ChannelState::default);
        } else {
            self.head_states = self.states_at(checkpoint.parent);
            let left_behind = (Bound::Excluded(checkpoint.parent), Bound::Unbounded);
            for (_, it) in self.checkpoints.range(left_behind) {
                let is_root = self.is_root(it);
                for change in it.changes.iter().filter(|it| it.update.is_some() || is_root) {
                    self.written[usize::from(change.channel)] = number;
                }
            }
        }
        // Who wrote to its channels last may be forgotten.
        let is_root = self.is_root(&checkpoint);
        for change in &checkpoint.changes {
            let index = usize::from(change.channel);
            self.head_states[index].apply(change, self.channels[index].1);
            if change.update.is_some() || is_root {
                self.written[index] = number;
            }
        }
        self.checkpoints.insert(number, checkpoint);
    }

    fn add_channels(&mut self, channels: &[(ChannelName, Reducer)]) {
        for (name, reducer) in channels {
            let index = ChannelIndex::try_from(self.channels.len()).expect("few channels");
            self.by_channel.insert(name.clone(), index);
            self.channels.push((name.clone(), *reducer));
        }
    }

    /// What has updates after the last whole value at a checkpoint.
    pub fn unfolded_at(&self, at: CheckpointNumber) -> BTreeSet<ChannelIndex> {
        let states = self.states(at);
        let unfolded = (0..).zip(states.iter()).filter(|(_, it)| 0 < it.updates);
        unfolded.map(|(channel, _)| channel).collect()
    }

    fn fold(&mut self, at: CheckpointNumber, values: &[(ChannelIndex, u32)]) {
        let head = self.head();
        let Some(checkpoint) = self.checkpoints.get_mut(&at) else { return };
        for (channel, bytes) in values {
            match checkpoint.changes.iter_mut().find(|it| it.channel == *channel) {
                Some(change) => change.whole = Some(*bytes),
                None => checkpoint.changes.push(Change {
                    channel: *channel,
                    update: None,
                    whole: Some(*bytes),
                    messages: Vec::new(),
                }),
            }
        }
        // The head has what was written since, if it goes back to there.
        let newer: Vec<(CheckpointNumber, &Checkpoint)> =
            self.ancestors(head).take_while(|(number, _)| at <= *number).collect();
        if newer.last().is_none_or(|(number, _)| *number != at) {
            return;
        }
        let mut states = Vec::new();
        for (channel, _) in values {
            let (index, reducer) = (*channel, self.channels[usize::from(*channel)].1);
            let mut state = ChannelState::default();
            for (_, checkpoint) in newer.iter().rev() {
                let change = checkpoint.changes.iter().find(|it| it.channel == index);
                change.into_iter().for_each(|it| state.apply(it, reducer));
            }
            states.push((index, state.bytes, state.updates));
        }
        for (channel, bytes, updates) in states {
            let state = &mut self.head_states[usize::from(channel)];
            (state.bytes, state.updates) = (bytes, updates);
        }
    }
}

impl Boards {
    /// By name.
    pub fn iter(&self) -> impl Iterator<Item = (&BoardName, &Board)> {
        self.by_name.iter()
    }

    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Those whose names come after this one, or are it.
    pub fn from(&self, name: &str) -> impl Iterator<Item = (&BoardName, &Board)> {
        self.by_name.range::<str, _>((Bound::Included(name), Bound::Unbounded))
    }

    pub(super) fn checkpoint_count(&self) -> usize {
        self.checkpoints
    }

    pub(super) fn result_count(&self) -> usize {
        self.results
    }

    pub fn find(&self, name: &BoardName) -> Option<&Board> {
        self.by_name.get(name)
    }

    /// The board of this name.
    ///
    /// # Errors
    /// [`Rejection::UnknownBoard`] names those there are.
    pub fn get(&self, name: &BoardName) -> Result<&Board, Rejection> {
        self.find(name).ok_or_else(|| {
            let names = self.by_name.keys().take(NAMES_COMPARED_MAX);
            let known = listed_for(name.as_str(), names.map(BoardName::as_str));
            Rejection::UnknownBoard { board: name.clone(), known }
        })
    }

    /// A checkpoint of a board; the head, where none is named.
    ///
    /// # Errors
    /// When one of them is not there.
    pub fn checkpoint(
        &self,
        name: &BoardName,
        number: Option<CheckpointNumber>,
    ) -> Result<(&Board, CheckpointNumber), Rejection> {
        let board = self.get(name)?;
        let head = board.head();
        let checkpoint = number.unwrap_or(head);
        if board.checkpoints.contains_key(&checkpoint) {
            return Ok((board, checkpoint));
        }
        Err(Rejection::UnknownCheckpoint { board: name.clone(), checkpoint, head })
    }

    /// Whether there is such a checkpoint.
    pub fn has(&self, board: BoardId, checkpoint: CheckpointNumber) -> bool {
        self.by_id(board).is_some_and(|(_, it)| it.checkpoints.contains_key(&checkpoint))
    }

    pub(super) fn by_id(&self, id: BoardId) -> Option<(&BoardName, &Board)> {
        self.by_name.get_key_value(self.names.get(&id)?)
    }

    pub(in crate::rules) fn apply(&mut self, now: Timestamp, by: &Principal, event: &Event) {
        match event {
            Event::Updated(it) => self.apply_update(now, by, it),
            Event::Folded(it) => {
                if let Some(board) = self.by_name.get_mut(&it.board) {
                    board.fold(it.checkpoint, &it.values);
                }
            }
            Event::Deleted(it) => {
                if let Some(board) = self.by_name.remove(&it.board) {
                    self.floor = self.floor.max(board.head());
                    self.names.remove(&board.id);
                    self.checkpoints -= board.checkpoints.len();
                    self.results -= board.results.len();
                }
            }
            Event::ResultsStored(it) => {
                if let Some(board) = self.by_name.get_mut(&it.board) {
                    self.results -= board.results.len();
                    for (name, stored) in it.stored(now, by) {
                        board.results.insert(it.checkpoint, name, stored);
                    }
                    self.results += board.results.len();
                }
            }
            Event::Pruned(it) => {
                if let Some(board) = self.by_name.get_mut(&it.board) {
                    self.checkpoints -= board.checkpoints.len();
                    self.results -= board.results.len();
                    board.prune(it.oldest);
                    self.checkpoints += board.checkpoints.len();
                    self.results += board.results.len();
                }
            }
        }
    }

    fn apply_update(&mut self, now: Timestamp, by: &Principal, it: &Updated) {
        if let Some(created) = &it.created {
            let (schema, origin) = (created.schema.clone(), created.origin.clone());
            let board = Board::new(created.id, now, schema, origin);
            self.last = created.id;
            self.names.insert(created.id, it.board.clone());
            self.by_name.insert(it.board.clone(), board);
        }
        let board = self.by_name.get_mut(&it.board).expect("it is made with its first update");
        board.add_channels(&it.channels);
        let checkpoint = Checkpoint {
            parent: it.parent,
            at: now,
            role: by.role.clone(),
            person: by.person.clone(),
            write_key: it.write_key.clone(),
            content: it.content,
            changes: it.changes.clone(),
        };
        board.add(it.checkpoint, checkpoint);
        self.checkpoints += 1;
    }
}

/// What a snapshot holds.
#[derive(Debug, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotItem<'a> {
    #[n(0)]
    Last(#[n(0)] BoardId),
    /// Its checkpoints follow.
    #[n(1)]
    Board(#[n(0)] Cow<'a, BoardName>, #[n(1)] Cow<'a, BoardFacts>),
    #[n(2)]
    Checkpoint(#[n(0)] Cow<'a, BoardName>, #[n(1)] CheckpointNumber, #[n(2)] Cow<'a, Checkpoint>),
    #[n(3)]
    Floor(#[n(0)] CheckpointNumber),
    /// After the checkpoints of its board.
    #[n(4)]
    Result(
        #[n(0)] Cow<'a, BoardName>,
        #[n(1)] CheckpointNumber,
        #[n(2)] Cow<'a, ResultName>,
        #[n(3)] Cow<'a, StoredResult>,
    ),
}

/// A board without its checkpoints.
#[derive(Debug, Clone, Encode, Decode, Serialize, Deserialize)]
pub struct BoardFacts {
    #[n(0)]
    pub id: BoardId,
    #[n(1)]
    pub created: Timestamp,
    #[n(2)]
    pub schema: Schema,
    #[n(3)]
    pub origin: Option<Origin>,
    #[n(4)]
    pub channels: Vec<(ChannelName, Reducer)>,
}

impl Kept for Boards {
    type Item<'a> = SnapshotItem<'a>;

    fn items(&self) -> impl Iterator<Item = SnapshotItem<'_>> {
        let last = (self.last != 0).then_some(SnapshotItem::Last(self.last));
        let boards = self.by_name.iter().flat_map(|(name, it)| {
            let facts = BoardFacts {
                id: it.id,
                created: it.created,
                schema: it.schema.clone(),
                origin: it.origin.clone(),
                channels: it.channels.clone(),
            };
            let board = SnapshotItem::Board(Cow::Borrowed(name), Cow::Owned(facts));
            let checkpoints = it.checkpoints.iter().map(|(number, it)| {
                SnapshotItem::Checkpoint(Cow::Borrowed(name), *number, Cow::Borrowed(it))
            });
            let results = it.results.iter().map(|(at, result, it)| {
                let (name, result) = (Cow::Borrowed(name), Cow::Borrowed(result));
                SnapshotItem::Result(name, at, result, Cow::Borrowed(it))
            });
            std::iter::once(board).chain(checkpoints).chain(results)
        });
        let floor = (self.floor != CheckpointNumber::NONE).then_some(self.floor);
        last.into_iter().chain(floor.map(SnapshotItem::Floor)).chain(boards)
    }

    fn restore(&mut self, item: SnapshotItem<'_>) -> Result<(), &'static str> {
        match item {
            SnapshotItem::Last(id) => self.last = id,
            SnapshotItem::Floor(number) => self.floor = number,
            SnapshotItem::Board(name, facts) => {
                let facts = facts.into_owned();
                if self.last < facts.id {
                    return Err("a board has a number that was not given yet");
                }
                let mut board = Board::new(facts.id, facts.created, facts.schema, facts.origin);
                board.add_channels(&facts.channels);
                self.names.insert(facts.id, name.clone().into_owned());
                self.by_name.insert(name.into_owned(), board);
            }
            SnapshotItem::Checkpoint(name, number, checkpoint) => {
                let Some(board) = self.by_name.get_mut(&*name) else {
                    return Err("a checkpoint is of a board that is not there");
                };
                let channels = board.channels.len();
                if checkpoint.changes.iter().any(|it| channels <= usize::from(it.channel)) {
                    return Err("a checkpoint is about a channel that is not there");
                }
                if number <= board.head() || number <= checkpoint.parent {
                    return Err("a checkpoint is out of order");
                }
                board.add(number, checkpoint.into_owned());
                self.checkpoints += 1;
            }
            SnapshotItem::Result(name, at, result, stored) => {
                let board = self.by_name.get_mut(&*name);
                let Some(board) = board.filter(|it| it.checkpoints.contains_key(&at)) else {
                    return Err("a result is of a checkpoint that is not there");
                };
                board.results.insert(at, result.into_owned(), stored.into_owned());
                self.results += 1;
            }
        }
        Ok(())
    }
}
