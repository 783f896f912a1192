//! What the scripted model does: it plays a part until the work is finished.
//!
//! It judges only by what was said last, by itself and by its client, as its client shows it to a
//! model; the same words always lead to the same move. It never invents work, and what it says
//! repeats what it was asked for, so that the broker's history shows whether anything was lost or
//! done twice.
//!
//! - `facts`: the JSON in a tool's words, whatever the client wraps it in.
//! - `turns`: B of the turn loop. `work`: a worker of an issue. `idle`: an agent that waits for
//!   nothing and is woken. `hooked`: one with hooks. `relay`: one that was launched. `replies`: one without tools, whose task says what to answer.
//!   `gateway`: one that calls tools of other MCP servers.

mod facts;
pub mod gateway;
pub mod hooked;
pub mod idle;
pub mod relay;
pub mod replies;
pub mod turns;
pub mod work;

use std::fmt;

use serde_json::Value;

use self::facts::Facts;

/// So many failed calls the model puts up with before it gives up.
const FAILURES_MAX: usize = 8;

/// What the client told the model last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// A person spoke.
    Prompt,
    /// What a tool said, in whatever wrapping the client has, and the call it said it to.
    Result(String, Option<Call>),
    /// The client spoke by itself: something in the background is over.
    Woken(String),
    /// A person spoke, and the client offers tools, but has none of ours yet.
    Early,
    /// A question of the client's own, without tools: for a title, a summary, a model.
    Aside,
}

/// One call of a tool, by its own name or as its client calls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub tool: String,
    pub arguments: Value,
}

/// What the model does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    Call(Call),
    /// The model's turn ends.
    Say(&'static str),
    /// The same in words that it was asked for.
    Reply(String),
    /// The request is refused, for good.
    Refuse,
    /// Nothing is left of the quota.
    Limit,
    /// No answer comes.
    Hang,
}

/// A move, and what led to it if that was no answer; mostly an error.
pub type Answer = (Move, Option<String>);

/// The model's last words when the work is finished.
pub const DONE: &str = "DONE: the work is finished.";

/// Its words while its call goes on without it.
pub const WAITING: &str = "I go on when I hear of it.";

const GAVE_UP: &str = "GAVE UP: the tools keep failing.";
const EARLY: &str = "The tools are not there.";
const ASIDE: &str = "Working with others";

/// A tool's words.
#[derive(Debug)]
pub struct Said<'a> {
    facts: Facts,
    text: &'a str,
    /// What it was an answer to.
    to: Option<&'a Call>,
}

/// What the model plays.
pub trait Part: fmt::Debug + Send + Sync {
    /// The first call, and the one after whatever is not understood.
    fn begin(&self) -> Call;

    /// The move after these words; `None`: they are none of our tools'.
    fn next(&self, said: &Said<'_>) -> Option<Move>;

    /// The move after what the client or a person said, where that needs no tool.
    fn reply(&self, _spoken: &str) -> Option<Move> {
        None
    }
}

impl dyn Part + '_ {
    /// The next move, after so many failures.
    pub fn answer(&self, heard: &Heard, failures: usize) -> Answer {
        /// Of an error that is kept for the report, in characters.
        const KEPT_CHARS_MAX: usize = 400;
        let begin = || Move::Call(self.begin());
        let next =
            |text: &str, to: Option<&Call>| self.next(&Said { facts: Facts::of(text), text, to });
        match heard {
            Heard::Aside => (Move::Say(ASIDE), None),
            Heard::Early => (Move::Say(EARLY), None),
            Heard::Prompt => (begin(), None),
            Heard::Woken(text) => (next(text, None).unwrap_or_else(begin), None),
            Heard::Result(text, to) => match next(text, to.as_ref()) {
                Some(next) => (next, None),
                None if text.contains("background") => (Move::Say(WAITING), None),
                None => {
                    let why = text.chars().take(KEPT_CHARS_MAX).collect();
                    let is_enough = FAILURES_MAX <= failures;
                    (if is_enough { Move::Say(GAVE_UP) } else { begin() }, Some(why))
                }
            },
        }
    }
}

impl Call {
    fn new(tool: &str, arguments: Value) -> Self {
        Self { tool: tool.to_owned(), arguments }
    }

    /// Whether it calls this tool.
    fn is_of(&self, tool: &str) -> bool {
        is_name_of(&self.tool, tool)
    }
}

/// Whether a client calls a tool so: they put names of their own before a tool's, and Codex has `_` in
/// place of `-`.
pub fn is_name_of(name: &str, tool: &str) -> bool {
    name.replace('-', "_").ends_with(&tool.replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a part does after it heard this, and nothing was unclear.
    pub(super) fn check(part: &dyn Part, heard: &Heard, expected: &Move) {
        assert_eq!(part.answer(heard, 0), (expected.clone(), None), "{heard:?}");
    }

    pub(super) fn result(text: &str) -> Heard {
        Heard::Result(text.to_owned(), None)
    }

    #[test]
    fn a_part_rests_while_its_client_waits_for_it() {
        let part: &dyn Part = &turns::Turns;
        let begin = Move::Call(part.begin());
        let moved = result("It was moved to the background as task k48y3gqka.");
        check(part, &moved, &Move::Say(WAITING));
        check(part, &Heard::Woken("A background task has ended.".to_owned()), &begin);
        check(part, &Heard::Prompt, &begin);
        check(part, &Heard::Aside, &Move::Say(ASIDE));
        check(part, &Heard::Early, &Move::Say(EARLY));
    }

    #[test]
    fn a_part_tries_again_after_an_error_but_not_for_ever() {
        let part: &dyn Part = &turns::Turns;
        let (failed, why) = (result("timed out after 60 s"), "timed out after 60 s".to_owned());
        let again = (Move::Call(part.begin()), Some(why.clone()));
        assert_eq!(part.answer(&failed, 0), again);
        assert_eq!(part.answer(&failed, FAILURES_MAX), (Move::Say(GAVE_UP), Some(why)));
    }
}
