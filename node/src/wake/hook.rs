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
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Raw {
    session_id: String,
    conversation_id: String,
    stop_hook_active: bool,
    loop_count: u64,
    source: String,
}

/// How a session begins that was made shorter.
const COMPACTED: &str = "compact";

/// Reads what a client wrote. What cannot be read says nothing.
pub fn read(input: &[u8]) -> Input {
    let raw: Raw = serde_json::from_slice(input).unwrap_or_default();
    let session = if raw.session_id.is_empty() { raw.conversation_id } else { raw.session_id };
    let is_again = raw.stop_hook_active || raw.loop_count != 0 || raw.source == COMPACTED;
    Input { session, is_again }
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
        (_, HookEvent::Prompt) => return Answer::default(),
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

    #[test]
    fn what_clients_say_is_read_as_they_say_it() {
        let again = |session: &str, is_again| Input { session: session.to_owned(), is_again };
        for (said, expected) in [
            (
                r#"{"session_id":"7d1b","transcript_path":"/t.jsonl","cwd":"/w",
                    "permission_mode":"default","hook_event_name":"Stop","stop_hook_active":false,
                    "last_assistant_message":"done"}"#,
                again("7d1b", false),
            ),
            (
                r#"{"session_id":"019a-b","turn_id":"t","transcript_path":null,"cwd":"/w",
                    "hook_event_name":"Stop","model":"m","permission_mode":"default",
                    "stop_hook_active":true,"last_assistant_message":null}"#,
                again("019a-b", true),
            ),
            (
                r#"{"conversation_id":"c-1","generation_id":"g","hook_event_name":"stop",
                    "cursor_version":"3.7","workspace_roots":["/w"],"status":"completed",
                    "loop_count":2}"#,
                again("c-1", true),
            ),
            (r#"{"session_id":"7d1b","source":"compact"}"#, again("7d1b", true)),
            (r#"{"session_id":"7d1b","source":"startup"}"#, again("7d1b", false)),
            ("", Input::default()),
            ("[]", Input::default()),
            (r#"{"session_id":7}"#, Input::default()),
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
        let woken = Answer { out: String::new(), err: "T\n".to_owned(), exit: 2 };
        assert_eq!(answer(Claude, Wait, Some("T")), woken);
        assert_eq!(answer(Claude, Wait, None), Answer::default());
    }
}
