//! An agent that was launched: it waits for its turn, and once it has it, it hands it over, or nothing
//! is left of its quota.

use serde_json::json;

use super::{Call, Move, Part, Said};

const WAIT: &str = "await_my_turn";

/// What becomes of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    HandOver,
    Limit,
}

#[derive(Debug)]
pub struct Relay {
    pub role: &'static str,
    pub then: Then,
}

impl Part for Relay {
    fn begin(&self) -> Call {
        Call::new(WAIT, json!({ "agent_id": self.role }))
    }

    fn next(&self, said: &Said<'_>) -> Option<Move> {
        let facts = &said.facts;
        if facts.says("can_start", true) {
            return Some(match self.then {
                Then::Limit => Move::Limit,
                Then::HandOver => Move::Call(Call::new(
                    "handover_work",
                    json!({
                        "current_agent_id": self.role,
                        "work_summary": "went on",
                        "next_instruction": "go on",
                        "is_task_complete": false,
                    }),
                )),
            });
        }
        let is_over = said.text.contains("Handover successful")
            || facts.get("ended_turn").is_some()
            || facts.says("still_waiting", true);
        is_over.then(|| Move::Call(self.begin()))
    }
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
    fn a_turn_is_handed_over_or_uses_up_the_quota() {
        let turn = result(r#"{"can_start":true,"instruction":"x"}"#);
        let relay = Relay { role: "A", then: Then::HandOver };
        check(&relay, &Heard::Prompt, &Move::Call(relay.begin()));
        check(&relay, &result(r#"{"ended_turn":1}"#), &Move::Call(relay.begin()));
        let Move::Call(call) = (&relay as &dyn Part).answer(&turn, 0).0 else {
            panic!("it calls nothing")
        };
        assert!(call.is_of("handover_work") && call.arguments["current_agent_id"] == "A");
        check(&Relay { role: "A", then: Then::Limit }, &turn, &Move::Limit);
    }
}
