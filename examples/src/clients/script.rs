//! What the scripted model does: it plays B until the work is finished.
//!
//! It judges only by what it was told last, as its client shows it to a model; the same words
//! always lead to the same move. It never invents a turn: it hands over when it was told to
//! start, and what it says repeats what it was asked for, so that the broker's history shows
//! whether a turn was lost or played twice.

use serde_json::{Value, json};

/// The role that the model plays.
pub const ROLE: &str = "B";

/// So many failed calls the model puts up with before it gives up.
const FAILURES_MAX: usize = 8;

/// What the client told the model last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// A person spoke.
    Prompt,
    /// What a tool said, in whatever wrapping the client has.
    Result(String),
    /// The client spoke by itself: something in the background is over.
    Woken(String),
    /// A person spoke, and the client offers tools, but has none of ours yet.
    Early,
    /// A question of the client's own, without tools: for a title, a summary, a model.
    Aside,
}

/// What a tool's words come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// It is B's turn, to do this.
    Turn(String),
    StillWaiting,
    HandedOver,
    Finished,
    /// The call goes on without the model.
    InBackground,
    /// Anything else; mostly an error.
    Unclear(String),
}

/// What the model does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    Await,
    /// Having done this.
    HandOver(String),
    /// The model's turn ends.
    Say(&'static str),
}

/// The model's last words when the work is finished.
pub const DONE: &str = "DONE: the work is finished.";

const GAVE_UP: &str = "GAVE UP: the tools keep failing.";
const WAITING: &str = "I go on when I hear that it is my turn.";
const EARLY: &str = "The tools of the turn loop are not there.";
const ASIDE: &str = "Waiting for a turn";

impl Heard {
    /// What it comes to, where a tool or the client's background spoke.
    pub fn told(&self) -> Option<Told> {
        match self {
            Self::Result(text) | Self::Woken(text) => Some(told(text)),
            Self::Prompt | Self::Early | Self::Aside => None,
        }
    }

    /// The next move, after so many failures.
    pub fn answer(&self, failures: usize) -> Move {
        match self {
            Self::Aside => Move::Say(ASIDE),
            Self::Early => Move::Say(EARLY),
            Self::Prompt => Move::Await,
            Self::Result(text) | Self::Woken(text) => match told(text) {
                Told::Turn(step) => Move::HandOver(step),
                Told::Finished => Move::Say(DONE),
                Told::StillWaiting | Told::HandedOver => Move::Await,
                Told::InBackground if matches!(self, Self::Result(_)) => Move::Say(WAITING),
                Told::InBackground => Move::Await,
                Told::Unclear(_) if FAILURES_MAX <= failures => Move::Say(GAVE_UP),
                Told::Unclear(_) => Move::Await,
            },
        }
    }
}

impl Move {
    /// The tool and its arguments, for the moves that call one.
    pub fn call(&self) -> Option<(&'static str, Value)> {
        match self {
            Self::Await => Some(("await_my_turn", json!({ "agent_id": ROLE }))),
            Self::HandOver(step) => Some((
                "handover_work",
                json!({
                    "current_agent_id": ROLE,
                    "work_summary": done(step),
                    "next_instruction": format!("see to {step}"),
                    "is_task_complete": false,
                }),
            )),
            Self::Say(_) => None,
        }
    }
}

/// B's summary of a turn in which it was asked for `step`.
pub fn done(step: &str) -> String {
    format!("did {step}")
}

fn told(text: &str) -> Told {
    /// Of an error that is kept for the report, in characters.
    const KEPT_CHARS_MAX: usize = 400;
    // Some clients show a result as JSON within JSON.
    let plain = text.replace('\\', "");
    if is(&plain, "is_finished") {
        Told::Finished
    } else if is(&plain, "can_start") {
        Told::Turn(field(&plain, "instruction").unwrap_or_default().to_owned())
    } else if is(&plain, "still_waiting") {
        Told::StillWaiting
    } else if plain.contains("Handover successful") || plain.contains("\"ended_turn\"") {
        Told::HandedOver
    } else if plain.contains("background") {
        Told::InBackground
    } else {
        Told::Unclear(text.chars().take(KEPT_CHARS_MAX).collect())
    }
}

/// Does the JSON somewhere in `text` say that `name` is true?
fn is(text: &str, name: &str) -> bool {
    value(text, name).is_some_and(|value| value.starts_with("true"))
}

/// The text that the JSON somewhere in `text` gives for `name`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    value(text, name)?.strip_prefix('"')?.split('"').next()
}

fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, after) = text.split_once(&format!("\"{name}\""))?;
    Some(after.trim_start().strip_prefix(':')?.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(heard: &Heard, expected: &Move) {
        assert_eq!(&heard.answer(0), expected, "{heard:?}");
    }

    fn result(text: &str) -> Heard {
        Heard::Result(text.to_owned())
    }

    #[test]
    fn it_plays_its_turns_and_nothing_else() {
        let turn = r#"{ "can_start": true, "is_finished": false, "instruction": "step 1" }"#;
        let hand_over = Move::HandOver("step 1".to_owned());
        check(&Heard::Prompt, &Move::Await);
        check(&result(turn), &hand_over);
        check(&result(&serde_json::to_string(turn).unwrap()), &hand_over);
        check(&Heard::Woken(turn.to_owned()), &hand_over);
        check(&result(r#"{"can_start":false,"still_waiting":true}"#), &Move::Await);
        check(&result("Handover successful. Turn switched."), &Move::Await);
        check(&result(r#"{"can_start":false,"is_finished":true}"#), &Move::Say(DONE));
        check(&Heard::Aside, &Move::Say(ASIDE));
        check(&Heard::Early, &Move::Say(EARLY));
    }

    #[test]
    fn it_rests_while_its_client_waits_for_it() {
        check(&result("It was moved to the background as task k48y3gqka."), &Move::Say(WAITING));
        check(&Heard::Woken("A background task has ended.".to_owned()), &Move::Await);
    }

    #[test]
    fn it_tries_again_after_an_error_but_not_for_ever() {
        let failed = result("timed out after 60 s");
        check(&failed, &Move::Await);
        assert_eq!(failed.answer(FAILURES_MAX), Move::Say(GAVE_UP));
        assert_eq!(failed.told(), Some(Told::Unclear("timed out after 60 s".to_owned())));
    }
}
