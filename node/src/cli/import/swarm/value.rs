//! JSON that another program wrote: what is there is taken, what is missing is empty.

use serde_json::Value;
use tasuki_proto::wire;

/// What the original wrote where there was nothing to say.
const NOTHING: &str = "<nil>";

/// Milliseconds are told from seconds by their size: as seconds these are some 33,000 years.
const MILLISECONDS: u64 = 1_000_000_000_000;

/// An object's fields.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a>(pub &'a Value);

impl<'a> Fields<'a> {
    pub(super) fn get(self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|it| !it.is_null())
    }

    /// The object of this name, or one without fields.
    pub(super) fn object(self, name: &str) -> Self {
        Self(self.get(name).unwrap_or(&Value::Null))
    }

    /// The first of these that says something.
    pub(super) fn text(self, names: &[&str]) -> String {
        let texts = names.iter().filter_map(|name| self.get(name)).filter_map(Value::as_str);
        let mut said = texts.filter(|it| !it.is_empty() && *it != NOTHING);
        said.next().unwrap_or_default().to_owned()
    }

    pub(super) fn texts(self, name: &str) -> Vec<String> {
        let list = self.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let texts = list.iter().filter_map(Value::as_str).filter(|it| *it != NOTHING);
        texts.map(ToOwned::to_owned).collect()
    }

    /// A text, or the lines of a list.
    pub(super) fn lines(self, name: &str) -> String {
        let text = self.text(&[name]);
        if text.is_empty() { self.texts(name).join("\n") } else { text }
    }

    pub(super) fn number(self, name: &str) -> u64 {
        let value = self.get(name);
        let number = value.and_then(|it| it.as_u64().or_else(|| it.as_str()?.parse().ok()));
        number.unwrap_or(0)
    }

    pub(super) fn is(self, name: &str) -> bool {
        let value = self.get(name);
        value.is_some_and(|it| it.as_bool() == Some(true) || it.as_str() == Some("passed"))
    }

    /// Milliseconds since 1970, of a number or of a written time; 0 where there is none.
    pub(super) fn time(self, names: &[&str]) -> u64 {
        names.iter().map(|name| self.one_time(name)).find(|ms| *ms != 0).unwrap_or(0)
    }

    fn one_time(self, name: &str) -> u64 {
        let written = self.get(name).and_then(Value::as_str);
        let written = written.and_then(|it| it.parse::<jiff::Timestamp>().ok());
        if let Some(at) = written {
            return u64::try_from(at.as_millisecond()).unwrap_or(0);
        }
        match self.number(name) {
            ms @ MILLISECONDS.. => ms,
            seconds => seconds.saturating_mul(1000),
        }
    }

    pub(super) fn results(self, name: &str) -> Vec<wire::CommandResult> {
        let list = self.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let result = |it: &Value| {
            let it = Fields(it);
            let exit_code = it.get("exit_code").and_then(Value::as_i64).unwrap_or(0);
            wire::CommandResult {
                command: it.text(&["command"]),
                has_passed: it.is("passed"),
                exit_code: i32::try_from(exit_code).unwrap_or(-1),
                output: it.text(&["output"]),
            }
        };
        list.iter().map(result).collect()
    }
}

/// At most so many bytes of it, and whether that is less than there was.
pub(super) fn cut(text: String, limit: usize) -> (String, bool) {
    if text.len() <= limit {
        return (text, false);
    }
    (text[..text.floor_char_boundary(limit)].to_owned(), true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_or_of_another_kind_is_empty() {
        let value = json!({
            "text": "<nil>", "also": "x", "list": ["a", 1, "<nil>", "b"], "number": "7",
            "ms": 1_700_000_000_001_u64, "s": 1_700_000_000, "written": "2023-11-14T22:13:20Z",
            "passed": true, "test_result": "passed", "null": null, "object": 3,
        });
        let it = Fields(&value);
        assert_eq!(it.text(&["none", "text", "null", "also"]), "x");
        assert_eq!((it.texts("list"), it.texts("text")), (vec!["a".into(), "b".into()], vec![]));
        assert_eq!((it.lines("list"), it.lines("also")), ("a\nb".into(), "x".into()));
        assert_eq!((it.number("number"), it.number("also")), (7, 0));
        assert_eq!(it.time(&["none", "ms"]), 1_700_000_000_001);
        assert_eq!(
            (it.time(&["s"]), it.time(&["written"])),
            (1_700_000_000_000, 1_700_000_000_000)
        );
        assert!(it.is("passed") && it.is("test_result") && !it.is("also"));
        assert_eq!(it.object("object").text(&["x"]), "");
        assert_eq!(Fields(&json!([1])).text(&["x"]), "");
        assert_eq!(cut("äö".to_owned(), 3), ("ä".to_owned(), true));
    }
}
