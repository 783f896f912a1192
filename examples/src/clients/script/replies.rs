//! An agent that a run starts: it has no tools of ours, and its task says what the model does.

use serde_json::Value;

use super::{ASIDE, Call, Move, Part, Said};

/// What refuses, and what never answers, in a task.
pub const REFUSE: &str = "REFUSE[]";
pub const HANG: &str = "HANG[]";

const REPLY: &str = "REPLY[";
const END: &str = "]";

#[derive(Debug)]
pub struct Replies;

impl Part for Replies {
    /// Nothing comes to it that it does not reply to.
    fn begin(&self) -> Call {
        Call::new("none", Value::Null)
    }

    fn next(&self, _said: &Said<'_>) -> Option<Move> {
        None
    }

    fn reply(&self, spoken: &str) -> Option<Move> {
        if spoken.contains(REFUSE) {
            return Some(Move::Refuse);
        }
        if spoken.contains(HANG) {
            return Some(Move::Hang);
        }
        let words = spoken.split_once(REPLY).and_then(|(_, rest)| rest.split_once(END));
        // Clients ask for more than they were asked: a title, a summary.
        Some(words.map_or(Move::Say(ASIDE), |(words, _)| Move::Reply(words.to_owned())))
    }
}

/// A task whose answer is this.
pub fn reply(words: &str) -> String {
    format!("Do nothing, and answer with {REPLY}{words}{END} and nothing else.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_answered_as_it_says() {
        let moved = |spoken: &str| Replies.reply(spoken).unwrap();
        assert_eq!(moved(&format!("Task: {}", reply("one"))), Move::Reply("one".to_owned()));
        assert_eq!(moved(REFUSE), Move::Refuse);
        assert_eq!(moved(HANG), Move::Hang);
        assert_eq!(moved("Give this conversation a title."), Move::Say(ASIDE));
    }
}
