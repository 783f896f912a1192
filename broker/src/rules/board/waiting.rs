//! Who waits for a board to change, and what they are answered. Shows state, changes nothing.

use std::collections::BTreeSet;

use tasuki_proto::{
    board::ChannelName,
    id::{BoardName, CheckpointNumber, RoleId},
};

use super::Boards;

/// "Has this board changed?" Of one role's waits for the same channels the newest counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Question {
    pub board: BoardName,
    pub role: RoleId,
    /// Only these; empty: any.
    pub channels: BTreeSet<ChannelName>,
    /// The checkpoint that is known.
    pub after: CheckpointNumber,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub question: Question,
    /// What was written to since; empty: nothing, or nothing of these.
    pub changed: BTreeSet<ChannelName>,
    /// There is a newer checkpoint of what is asked about.
    pub is_there: bool,
}

impl Boards {
    /// What somebody is answered who waits. A board may not be there yet.
    pub fn answer(&self, question: &Question) -> Answer {
        let board = self.find(&question.board).filter(|it| question.after < it.head());
        let changed = board.map(|it| it.changed_since(question.after)).unwrap_or_default();
        let is_asked =
            |it: &ChannelName| question.channels.is_empty() || question.channels.contains(it);
        let changed: BTreeSet<ChannelName> =
            changed.into_iter().filter(|it| is_asked(it)).cloned().collect();
        let is_there = match question.channels.is_empty() {
            true => board.is_some(),
            false => !changed.is_empty(),
        };
        Answer { question: question.clone(), changed, is_there }
    }
}
