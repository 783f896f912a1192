//! B of the turn loop: it waits for its turn, does what it is told, hands over.

use serde_json::json;

use super::{Call, DONE, Move, Part, Said};

/// The role that the model plays.
pub const ROLE: &str = "B";

#[derive(Debug)]
pub struct Turns;

impl Part for Turns {
    fn begin(&self) -> Call {
        wait()
    }

    fn next(&self, said: &Said<'_>) -> Option<Move> {
        let facts = &said.facts;
        if facts.says("is_finished", true) {
            Some(Move::Say(DONE))
        } else if facts.says("can_start", true) {
            Some(Move::Call(hand_over(facts.text("instruction").unwrap_or_default())))
        } else if facts.says("still_waiting", true)
            || said.text.contains("Handover successful")
            || facts.get("ended_turn").is_some()
        {
            Some(Move::Call(wait()))
        } else {
            None
        }
    }
}

pub fn wait() -> Call {
    Call::new("await_my_turn", json!({ "agent_id": ROLE }))
}

/// Having done this.
pub fn hand_over(step: &str) -> Call {
    Call::new(
        "handover_work",
        json!({
            "current_agent_id": ROLE,
            "work_summary": done(step),
            "next_instruction": format!("see to {step}"),
            "is_task_complete": false,
        }),
    )
}

/// B's summary of a turn in which it was asked for `step`.
pub fn done(step: &str) -> String {
    format!("did {step}")
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            Heard,
            tests::{check, result},
        },
        *,
    };

    #[test]
    fn it_plays_its_turns_and_nothing_else() {
        let turn = r#"{ "can_start": true, "is_finished": false, "instruction": "step 1" }"#;
        let hands_over = Move::Call(hand_over("step 1"));
        let waits = Move::Call(wait());
        for (heard, expected) in [
            (Heard::Prompt, &waits),
            (result(turn), &hands_over),
            (result(&json!({ "output": turn }).to_string()), &hands_over),
            (Heard::Woken(turn.to_owned()), &hands_over),
            (result(r#"{"can_start":false,"still_waiting":true}"#), &waits),
            (result("Handover successful. Turn switched."), &waits),
            (result(r#"{"can_start":false,"ended_turn":3}"#), &waits),
            (result(r#"{"can_start":false,"is_finished":true}"#), &Move::Say(DONE)),
        ] {
            check(&Turns, &heard, expected);
        }
    }
}
