//! What clients say to their hooks, and how each is answered. Pure.
//!
//! Claude Code and Codex have the same protocol: JSON on standard input, JSON on standard output.
//! Cursor's differs in its fields. A hook that has nothing to say says nothing, and never fails: a
//! node that is gone stops nobody's work.

use serde::Deserialize;
use serde_json::{Value, json};

use super::client::{HookClient, HookEvent};

/// What a client wrote, in bytes; the rest is not read.
pub const INPUT_BYTES_MAX: u64 = 1024 * 1024;

/// The exit code of a hook by which Claude Code wakes an idle session.
const WAKES: u8 = 2;

/// What of a client's input counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Input {
    /// The conversation, by the client's own name for it.
    pub session: String,
    /// The turn went on because of a hook already, or a session goes on that was made shorter.
    pub is_again: bool,
    /// The tool that was called, as the client names it.
    pub tool: String,
    /// Why nobody works in the session any more.
    pub gone: Option<Gone>,
}

/// Why nobody works in a session any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gone {
    Ended,
    /// Nothing is left of its quota; what it said.
    Quota(String),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Raw {
    session_id: String,
    conversation_id: String,
    stop_hook_active: bool,
    loop_count: u64,
    source: String,
    hook_event_name: String,
    tool_name: String,
    reason: String,
    error: String,
    last_assistant_message: Option<String>,
}

/// How a session begins that was made shorter.
const COMPACTED: &str = "compact";

/// Reasons of an end after which the same person goes on in the same program.
const GOES_ON: [&str; 3] = ["clear", "resume", COMPACTED];

/// Errors of the model's API that say that nothing is left.
const USED_UP: [&str; 2] = ["rate_limit", "billing_error"];

/// What is kept of the words with which a client says so, in characters.
const SAID_CHARS_MAX: usize = 200;

/// Reads what a client wrote. What cannot be read says nothing.
pub fn read(input: &[u8]) -> Input {
    let raw: Raw = serde_json::from_slice(input).unwrap_or_default();
    let gone = raw.gone();
    let session = if raw.session_id.is_empty() { raw.conversation_id } else { raw.session_id };
    let is_again = raw.stop_hook_active || raw.loop_count != 0 || raw.source == COMPACTED;
    Input { session, is_again, tool: raw.tool_name, gone }
}

impl Raw {
    fn gone(&self) -> Option<Gone> {
        match self.hook_event_name.as_str() {
            "SessionEnd" if !GOES_ON.contains(&self.reason.as_str()) => Some(Gone::Ended),
            "StopFailure" if USED_UP.contains(&self.error.as_str()) => {
                let said = self.last_assistant_message.as_deref().and_then(|it| it.lines().next());
                let said = said.unwrap_or(&self.error).chars().take(SAID_CHARS_MAX);
                Some(Gone::Quota(said.collect()))
            }
            _ => None,
        }
    }
}

/// What a hook leaves behind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    pub out: String,
    pub err: String,
    pub exit: u8,
}

/// Answers a client with `text`, or with nothing.
pub fn answer(client: HookClient, event: HookEvent, text: Option<&str>) -> Answer {
    let value = match (client, event) {
        // It takes nothing for a broken hook.
        (HookClient::Cursor, HookEvent::Prompt) => json!({ "continue": true }),
        (HookClient::Cursor, _) if text.is_none() => json!({}),
        (_, HookEvent::Prompt | HookEvent::Failure | HookEvent::SessionEnd) => {
            return Answer::default();
        }
        (_, _) if text.is_none() => return Answer::default(),
        (_, HookEvent::Wait) => {
            let err = text.map(|text| format!("{text}\n")).unwrap_or_default();
            return Answer { err, exit: WAKES, ..Answer::default() };
        }
        (HookClient::Claude | HookClient::Codex, HookEvent::SessionStart) => {
            context("SessionStart", text)
        }
        (HookClient::Claude | HookClient::Codex, HookEvent::Tool) => context("PostToolUse", text),
        (HookClient::Claude | HookClient::Codex, HookEvent::Stop) => {
            json!({ "decision": "block", "reason": text })
        }
        (HookClient::Cursor, HookEvent::SessionStart | HookEvent::Tool) => {
            json!({ "additional_context": text })
        }
        (HookClient::Cursor, HookEvent::Stop) => json!({ "followup_message": text }),
    };
    Answer { out: format!("{value}\n"), ..Answer::default() }
}

fn context(event: &str, text: Option<&str>) -> Value {
    json!({ "hookSpecificOutput": { "hookEventName": event, "additionalContext": text } })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the clients wrote, by version: `hook-inputs/CLIENT-VERSION/EVENT.json`.
    macro_rules! captured {
        ($name:literal) => {
            include_str!(concat!("../../tests/hook-inputs/", $name, ".json"))
        };
    }

    #[test]
    fn what_clients_say_is_read_as_they_say_it() {
        const CLAUDE: &str = "5ff312ce-ed1d-4b42-a6f5-ebf15641144e";
        const CODEX: &str = "01a215df-1d89-7fd3-b9ac-92baf8f287de";
        let of = |session: &str| Input { session: session.to_owned(), ..Input::default() };
        let again = |session: &str| Input { is_again: true, ..of(session) };
        let tool = |session: &str| Input { tool: "mcp__tasuki__loop_status".into(), ..of(session) };
        let gone = |session: &str, gone: Gone| Input { gone: Some(gone), ..of(session) };
        let limit = "API Error: Request rejected (429) · This request would exceed your account's \
                     rate limit. Please try again later.";
        for (said, expected) in [
            (captured!("claude-code-2.1.330/session-start"), of(CLAUDE)),
            (captured!("claude-code-2.1.330/session-start-compact"), again(CLAUDE)),
            (captured!("claude-code-2.1.330/prompt"), of(CLAUDE)),
            (captured!("claude-code-2.1.330/tool"), tool(CLAUDE)),
            (captured!("claude-code-2.1.330/stop"), of(CLAUDE)),
            (captured!("claude-code-2.1.330/stop-again"), again(CLAUDE)),
            (
                captured!("claude-code-2.1.330/stop-failure"),
                gone(CLAUDE, Gone::Quota(limit.to_owned())),
            ),
            (captured!("claude-code-2.1.330/session-end-clear"), of(CLAUDE)),
            (captured!("claude-code-2.1.330/session-end-exit"), gone(CLAUDE, Gone::Ended)),
            (captured!("claude-code-2.1.330/session-end-killed"), gone(CLAUDE, Gone::Ended)),
            (captured!("codex-0.169.0/session-start-compact"), again(CODEX)),
            (captured!("codex-0.169.0/prompt"), of(CODEX)),
            (captured!("codex-0.169.0/tool"), tool(CODEX)),
            (captured!("codex-0.169.0/stop"), of(CODEX)),
            (captured!("codex-0.169.0/session-end"), gone(CODEX, Gone::Ended)),
            // Cursor was not run: as its documentation says.
            (
                r#"{"conversation_id":"c-1","generation_id":"g","hook_event_name":"stop",
                    "cursor_version":"3.7","workspace_roots":["/w"],"status":"completed",
                    "loop_count":2}"#,
                again("c-1"),
            ),
            ("", Input::default()),
            ("[]", Input::default()),
            (r#"{"session_id":7}"#, Input::default()),
            (r#"{"hook_event_name":"StopFailure","error":"overloaded"}"#, Input::default()),
        ] {
            assert_eq!(read(said.as_bytes()), expected, "{said}");
        }
    }

    #[test]
    fn each_client_is_answered_in_its_own_way() {
        use HookClient::{Claude, Codex, Cursor};
        use HookEvent::{Prompt, SessionStart, Stop, Tool, Wait};
        let start = "{\"hookSpecificOutput\":{\"additionalContext\":\"T\",\"hookEventName\":\
                     \"SessionStart\"}}\n";
        let tool = "{\"hookSpecificOutput\":{\"additionalContext\":\"T\",\"hookEventName\":\
                    \"PostToolUse\"}}\n";
        let block = "{\"decision\":\"block\",\"reason\":\"T\"}\n";
        for (client, event, out) in [
            (Claude, SessionStart, start),
            (Codex, SessionStart, start),
            (Cursor, SessionStart, "{\"additional_context\":\"T\"}\n"),
            (Claude, Tool, tool),
            (Codex, Tool, tool),
            (Cursor, Tool, "{\"additional_context\":\"T\"}\n"),
            (Claude, Stop, block),
            (Codex, Stop, block),
            (Cursor, Stop, "{\"followup_message\":\"T\"}\n"),
            (Claude, Prompt, ""),
            (Codex, Prompt, ""),
            (Cursor, Prompt, "{\"continue\":true}\n"),
        ] {
            let of = |out: &str| Answer { out: out.to_owned(), ..Answer::default() };
            assert_eq!(answer(client, event, Some("T")), of(out), "{client:?} {event:?}");
            let nothing = match (client, event) {
                (Cursor, Prompt) => out,
                (Cursor, _) => "{}\n",
                (Claude | Codex, _) => "",
            };
            assert_eq!(answer(client, event, None), of(nothing), "{client:?} {event:?}");
        }
        for event in [HookEvent::Failure, HookEvent::SessionEnd] {
            assert_eq!(answer(Claude, event, Some("T")), Answer::default(), "{event:?}");
        }
        let woken = Answer { out: String::new(), err: "T\n".to_owned(), exit: 2 };
        assert_eq!(answer(Claude, Wait, Some("T")), woken);
        assert_eq!(answer(Claude, Wait, None), Answer::default());
    }
}
