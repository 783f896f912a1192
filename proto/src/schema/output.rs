//! An agent's output that is to have a form.

use serde_json::Value;

use super::{MESSAGE_BYTES_MAX, Mismatch, check_value, cut};

/// What an agent is told whose output is to have a form.
pub fn instruction(schema: &Value) -> String {
    format!("Answer with JSON alone that matches this JSON Schema: {schema}")
}

/// Checks that an output meets the schema. It may stand in one fence of Markdown. An error is a
/// sentence that names the first violations and where they are.
pub fn check_output(schema: &Value, output: &str) -> Result<(), String> {
    let value = parse_output(output)?;
    check_value(schema, &value, without_fence(output).len()).map_err(|why| {
        let message = match why {
            Mismatch::Schema(why) => format!("The output schema {why}."),
            Mismatch::TakesTooLong => "The output cannot be checked: with its JSON Schema that takes \
                                       too long. Make the schema simpler, above all where it refers \
                                       to itself."
                .to_owned(),
            Mismatch::Violations(them) => format!("The output does not match its JSON Schema: {them}."),
        };
        cut(&message, MESSAGE_BYTES_MAX)
    })
}

/// The value that an output is, which may stand in one fence of Markdown. An error is a sentence.
pub fn parse_output(output: &str) -> Result<Value, String> {
    let text = without_fence(output);
    serde_json::from_str(text).map_err(|why| format!("The output is not JSON: {why}."))
}

/// What stands in a fence, if all of the text is one.
fn without_fence(text: &str) -> &str {
    const FENCE: &str = "```";
    let text = text.trim();
    let inner = text.strip_prefix(FENCE).and_then(|inner| inner.strip_suffix(FENCE));
    match inner.and_then(|inner| inner.split_once('\n')) {
        Some((language, body)) if is_json(language.trim()) => body,
        Some(_) | None => text,
    }
}

fn is_json(language: &str) -> bool {
    language.is_empty() || language.eq_ignore_ascii_case("json")
}
