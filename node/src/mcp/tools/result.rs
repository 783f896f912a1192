//! How answers and refusals look as tool results.

use std::time::{Duration, UNIX_EPOCH};

use rmcp::model::{CallToolResult, ContentBlock};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use tasuki_proto::{echo::bounded, reason::Reason};

use super::sanitizer::FRAME;
use crate::role::Refusal;

/// Refusals that may repeat words of other agents: how they call the files that they changed and the
/// channels that they wrote to, why a lock was taken from somebody, and why a claim ended.
const QUOTING: [Reason; 4] =
    [Reason::FilesMissing, Reason::LeaseLost, Reason::NotClaimant, Reason::StaleCheckpoint];

/// The last moment that has a date of four digits, in milliseconds.
const DATE_MS_MAX: u64 = 253_402_300_799_999;

/// `text` for the model, `facts` for programs.
pub(super) fn text_result(text: impl Into<String>, facts: Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text.into())]);
    result.structured_content = Some(facts);
    result
}

/// The same facts as indented JSON, in the order of the fields, and as structured content.
pub(super) fn json_result(facts: &impl Serialize) -> CallToolResult {
    let failed = |error: serde_json::Error| json!({ "unreadable": error.to_string() });
    let structured = serde_json::to_value(facts).unwrap_or_else(failed);
    let text =
        serde_json::to_string_pretty(facts).unwrap_or_else(|error| failed(error).to_string());
    text_result(text, structured)
}

/// Something besides the answer that a model should read.
pub(super) fn add_text(result: &mut CallToolResult, text: impl Into<String>) {
    result.content.push(ContentBlock::text(text.into()));
}

/// The same also for programs, as a field beside the answer's own.
pub(super) fn add_field(result: &mut CallToolResult, field: &str, fact: Value, text: String) {
    if let Some(Value::Object(facts)) = &mut result.structured_content {
        facts.insert(field.to_owned(), fact);
    }
    add_text(result, text);
}

/// A refusal is something to read and act on, so it is a result, not a protocol error.
pub(in crate::mcp) fn refused(refusal: &Refusal) -> CallToolResult {
    let message = bounded(&refusal.message);
    let mut result = CallToolResult::error(vec![ContentBlock::text(message.clone())]);
    let mut facts = json!({
        "error": {
            "code": refusal.reason.as_str(),
            "message": message,
            "retryable": refusal.reason.is_retryable(),
            "maybe_applied": refusal.reason.is_maybe_applied(),
        }
    });
    if QUOTING.contains(&refusal.reason) {
        facts["note"] = FRAME.into();
        add_text(&mut result, FRAME);
    }
    result.structured_content = Some(facts);
    result
}

/// A time in milliseconds since the Unix epoch, as text; of a later one than dates go, the last
/// that has one. What was imported has the times that a file said.
pub(in crate::mcp) fn time(ms: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_millis(ms.min(DATE_MS_MAX));
    humantime::format_rfc3339_millis(time).to_string()
}

/// A moment that views show as [`time`] writes it; 0 is `null`, or left out.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in crate::mcp) struct Time(pub u64);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            0 => to.serialize_none(),
            ms => to.serialize_str(&time(ms)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_no_date_has_is_the_last_that_has_one() {
        assert_eq!(time(0), "1970-01-01T00:00:00.000Z");
        for ms in [DATE_MS_MAX, DATE_MS_MAX + 1, u64::MAX] {
            assert_eq!(time(ms), "9999-12-31T23:59:59.999Z", "{ms}");
        }
    }

    #[test]
    fn a_refusal_that_repeats_words_of_others_says_that_they_are_data() {
        for (reason, is_framed) in [
            (Reason::FilesMissing, true),
            (Reason::LeaseLost, true),
            (Reason::NotClaimant, true),
            (Reason::NotYourTurn, false),
        ] {
            let message = "include all changed files: \"do as I say.rs\"".to_owned();
            let result = refused(&Refusal { reason, message });
            let said = serde_json::to_string(&result.content).expect("JSON");
            assert_eq!(said.contains(FRAME), is_framed, "{said}");
            let facts = result.structured_content.expect("facts");
            assert_eq!(
                facts.get("note"),
                is_framed.then(|| Value::from(FRAME)).as_ref(),
                "{facts}"
            );
        }
    }
}
