//! Forgetting old checkpoints, while everything at those that remain stays readable.
//!
//! A checkpoint that remains and goes on from a forgotten one is a *root*. Before anything is
//! forgotten each root gets whole values, so that nothing before it is needed; which messages there
//! are is remembered with it. A root still says which parent it had.

use tasuki_proto::{
    board::Reducer,
    id::{BoardName, CheckpointNumber},
    limits::PRUNED_FORKS_MAX,
};

use super::{
    Board, BoardId, Boards, Checkpoint, Event, MessageMark, Pruned, Rejection, Reply, ValueParts,
};
use crate::rules::{Decision, turn::Actor};

/// Forget checkpoints of a board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prune {
    pub by: Actor,
    pub board: BoardName,
    pub id: BoardId,
    /// The oldest that remains.
    pub oldest: CheckpointNumber,
}

impl Board {
    /// The oldest checkpoint that remains of so many, at least one.
    pub fn oldest_of(&self, keep: usize) -> CheckpointNumber {
        let mut numbers = self.checkpoints.keys().rev();
        let oldest = numbers.by_ref().take(keep.max(1)).last();
        oldest.copied().unwrap_or(CheckpointNumber::NONE)
    }

    /// Whether it goes on from a checkpoint that was forgotten.
    pub(super) fn is_root(&self, checkpoint: &Checkpoint) -> bool {
        let parent = checkpoint.parent;
        parent != CheckpointNumber::NONE && !self.checkpoints.contains_key(&parent)
    }

    /// Those that would be roots.
    fn roots(&self, oldest: CheckpointNumber) -> impl Iterator<Item = CheckpointNumber> {
        let is_root = move |it: &Checkpoint| {
            it.parent != CheckpointNumber::NONE && (it.parent < oldest || self.is_root(it))
        };
        let remaining = self.checkpoints.range(oldest..);
        remaining.filter(move |(_, it)| is_root(it)).map(|(number, _)| *number)
    }

    /// What is to be made whole before all that is older is forgotten, with where it is.
    ///
    /// # Errors
    /// [`Rejection::TooManyForks`], since each fork has a copy of all values.
    pub fn parts_of_roots(
        &self,
        name: &BoardName,
        oldest: CheckpointNumber,
    ) -> Result<Vec<(CheckpointNumber, Vec<ValueParts>)>, Rejection> {
        let forks = self.roots(oldest).count();
        if PRUNED_FORKS_MAX < forks {
            return Err(Rejection::TooManyForks { board: name.clone(), forks });
        }
        let parts = self.roots(oldest).map(|root| {
            let parts = self.value_parts(root, None).into_iter();
            let parts =
                parts.filter(|it| it.whole.iter().chain(&it.updates).any(|at| *at < oldest));
            (root, parts.collect::<Vec<_>>())
        });
        Ok(parts.filter(|(_, parts)| !parts.is_empty()).collect())
    }

    pub(super) fn prune(&mut self, oldest: CheckpointNumber) {
        let roots: Vec<CheckpointNumber> = self.roots(oldest).collect();
        for root in roots {
            let states = self.states(root).into_owned();
            let checkpoint = self.checkpoints.get_mut(&root).expect("it is one of them");
            for change in &mut checkpoint.changes {
                let index = usize::from(change.channel);
                if self.channels[index].1 == Reducer::AddMessages {
                    let messages = &states[index].messages;
                    change.messages = messages.iter().copied().map(MessageMark::Put).collect();
                }
            }
        }
        let kept = self.checkpoints.split_off(&oldest);
        self.forget_all();
        kept.into_iter().for_each(|(number, it)| self.add(number, it));
        self.results.prune(oldest);
    }
}

impl Boards {
    pub(super) fn decide_prune(&self, asked: &Prune) -> Result<Decision, Rejection> {
        let name = || asked.board.clone();
        if self.get(&asked.board)?.id != asked.id {
            return Err(Rejection::MadeAnew { board: name() });
        }
        let (board, oldest) = self.checkpoint(&asked.board, Some(asked.oldest))?;
        if !board.parts_of_roots(&asked.board, oldest)?.is_empty() {
            return Err(Rejection::ChangedWhilePruned { board: name() });
        }
        let forgotten = board.checkpoints.range(..oldest).count() as u64;
        let reply = Reply::Pruned(forgotten, oldest);
        if forgotten == 0 {
            return Ok(Decision::repeat(reply));
        }
        Ok(Decision::new([Event::Pruned(Pruned { board: name(), oldest })], reply))
    }
}
