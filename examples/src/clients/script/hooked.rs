//! An agent with hooks: it works until it is told of urgent mail, ends its turn with the letter left,
//! goes on when it is told to, and puts it away.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use serde_json::json;

use super::{
    Call, Move, Part, Said, WAITING,
    idle::{Idle, ROLE},
};

/// How the node begins what it says by a hook.
pub const CARD: &str = "Tasuki: you play role B";
pub const URGENT: &str = "Tasuki: urgent for role B";
pub const NOT_DONE: &str = "Tasuki: role B is not done";

/// What it makes of its conversation when its client makes that shorter.
pub const SUMMARY: &str = "<summary>Nothing is left to do.</summary>";

/// How clients ask for that: Claude Code, Codex.
const COMPACTIONS: [&str; 2] = ["Respond with TEXT ONLY", "CONTEXT CHECKPOINT COMPACTION"];

#[derive(Debug, Default)]
pub struct Hooked {
    /// Nothing is left of its quota.
    pub is_used_up: Arc<AtomicBool>,
}

impl Part for Hooked {
    fn begin(&self) -> Call {
        Call::new("loop_status", json!({}))
    }

    fn next(&self, said: &Said<'_>) -> Option<Move> {
        if let Some(holder) = said.facts.text("holder") {
            // With the turn it would have to ask its user.
            let has_turn = holder == ROLE;
            return Some(if has_turn { Move::Say(WAITING) } else { Move::Call(self.begin()) });
        }
        Idle.next(said)
    }

    fn reply(&self, spoken: &str) -> Option<Move> {
        if COMPACTIONS.iter().any(|it| spoken.contains(it)) {
            return Some(Move::Say(SUMMARY));
        }
        if self.is_used_up.load(Ordering::SeqCst) {
            return Some(Move::Limit);
        }
        if spoken.contains(URGENT) {
            return Some(Move::Say(WAITING));
        }
        let (_, left) = spoken.split_once(NOT_DONE)?;
        let is_letter = left.contains("letter");
        Some(if is_letter { Move::Call(Idle.begin()) } else { Move::Say(WAITING) })
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::result, *};

    #[test]
    fn it_works_until_it_is_told_otherwise() {
        let hooked = Hooked::default();
        let part: &dyn Part = &hooked;
        let next = |holder: &str| part.answer(&result(&json!({ "holder": holder }).to_string()), 0);
        assert_eq!(next("A"), (Move::Call(hooked.begin()), None));
        assert_eq!(next("B"), (Move::Say(WAITING), None));
        assert_eq!(part.reply("Begin."), None);
        assert_eq!(part.reply(&format!("{URGENT}: letter 1.")), Some(Move::Say(WAITING)));
        let left = |what: &str| part.reply(&format!("{NOT_DONE}: {what}."));
        assert_eq!(left("letter 1"), Some(Move::Call(Idle.begin())));
        assert_eq!(left("turn 2"), Some(Move::Say(WAITING)));
        assert_eq!(part.reply("Respond with TEXT ONLY."), Some(Move::Say(SUMMARY)));
        hooked.is_used_up.store(true, Ordering::SeqCst);
        assert_eq!(part.reply("Go on."), Some(Move::Limit));
    }
}
