//! The JSON in a tool's words: clients show it bare, among words of their own, or as a text within
//! JSON of their own.

use serde_json::{Deserializer, Value};

/// JSON within JSON that is looked into, in levels.
const DEPTH_MAX: usize = 4;

/// Every object in a text, the outer before the inner.
#[derive(Debug, Default)]
pub(super) struct Facts(Vec<Value>);

impl Facts {
    pub(super) fn of(text: &str) -> Self {
        let mut it = Self::default();
        it.read(text, DEPTH_MAX);
        it
    }

    /// What the first object that has this field says in it.
    pub(super) fn get(&self, field: &str) -> Option<&Value> {
        self.0.iter().find_map(|it| it.get(field))
    }

    /// The same where it is a text.
    pub(super) fn text(&self, field: &str) -> Option<&str> {
        self.get(field)?.as_str()
    }

    /// Whether any object says just this in it.
    pub(super) fn says(&self, field: &str, what: impl Into<Value>) -> bool {
        let what = Some(what.into());
        self.0.iter().any(|it| it.get(field) == what.as_ref())
    }

    fn read(&mut self, text: &str, depth: usize) {
        let mut rest = text;
        while let Some(start) = rest.find('{') {
            let mut values = Deserializer::from_str(&rest[start..]).into_iter::<Value>();
            let end = match values.next() {
                Some(Ok(value)) => {
                    self.keep(&value, depth);
                    start + values.byte_offset()
                }
                Some(Err(_)) | None => start + 1,
            };
            rest = &rest[end..];
        }
    }

    fn keep(&mut self, value: &Value, depth: usize) {
        match value {
            Value::Object(fields) => {
                self.0.push(value.clone());
                fields.values().for_each(|it| self.keep(it, depth));
            }
            Value::Array(items) => items.iter().for_each(|it| self.keep(it, depth)),
            Value::String(text) if 0 < depth => self.read(text, depth - 1),
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_tool_said_is_found_in_any_wrapping() {
        let plain = r#"{ "can_start": true, "task": { "id": "task-1" } }"#;
        let in_text = json!({ "output": format!("<untrusted>\n{plain}\n</untrusted>") });
        let blocks = json!([{ "type": "text", "text": plain }]);
        for text in [
            plain.to_owned(),
            format!("Wall time: {{}} 1 s\nOutput:\n{plain}"),
            in_text.to_string(),
            blocks.to_string(),
        ] {
            let facts = Facts::of(&text);
            assert!(facts.says("can_start", true), "{text}");
            assert_eq!(facts.text("id"), Some("task-1"), "{text}");
        }
        assert!(Facts::of(&plain[..20]).get("can_start").is_none(), "what was cut off is not read");
    }
}
