//! JSON that another program wrote: what is there is taken, what is missing is empty.

use serde_json::Value;
use tasuki_proto::{limits::TIME_MS_MAX, wire};

/// What the original wrote where there was nothing to say.
const NOTHING: &str = "<nil>";

/// Of a value that is told as it is written, in bytes.
const SHOWN_BYTES_MAX: usize = 64;

/// Milliseconds are told from seconds by their size: as seconds these are some 33,000 years.
const MILLISECONDS: u64 = 1_000_000_000_000;

/// Where times are written.
const TIMES: [&str; 7] = [
    "created_at",
    "updated_at",
    "submitted_at",
    "reviewed_at",
    "delivered_at",
    "replied_at",
    "timestamp",
];

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

    /// 0 where there is none.
    ///
    /// # Errors
    /// What is there as it is written, if that is no whole number that fits.
    pub(super) fn number(self, name: &str) -> Result<u64, String> {
        let Some(value) = self.get(name).filter(|it| !is_nothing(it)) else { return Ok(0) };
        let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
        number.ok_or_else(|| cut(value.to_string(), SHOWN_BYTES_MAX).0)
    }

    /// Times that are there and cannot be read, or are later than any there is, each with its name.
    pub(super) fn odd_times(self) -> impl Iterator<Item = String> {
        let odd = move |name: &&str| {
            let value = self.get(name).filter(|it| !is_nothing(it))?;
            let is_time = |it: &str| it.parse::<jiff::Timestamp>().is_ok();
            let is_possible = |it: u64| milliseconds(it) <= TIME_MS_MAX;
            let is_read =
                value.as_str().is_some_and(is_time) || self.number(name).is_ok_and(is_possible);
            (!is_read).then(|| format!("{name} {}", cut(value.to_string(), SHOWN_BYTES_MAX).0))
        };
        TIMES.iter().filter_map(odd)
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
        let ms = milliseconds(self.number(name).unwrap_or(0));
        if TIME_MS_MAX < ms { 0 } else { ms }
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

/// A time as a number of milliseconds, which says by its size whether it is one of seconds.
fn milliseconds(number: u64) -> u64 {
    if MILLISECONDS <= number { number } else { number.saturating_mul(1000) }
}

/// Whether there is nothing to be read.
fn is_nothing(value: &Value) -> bool {
    value.as_str().is_some_and(|it| matches!(it, "" | NOTHING))
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
        assert_eq!((it.number("number"), it.number("none")), (Ok(7), Ok(0)));
        assert_eq!((it.number("text"), it.number("null")), (Ok(0), Ok(0)));
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

    #[test]
    fn what_is_there_and_cannot_be_read_is_told_as_it_is() {
        for (value, told) in [
            (json!(-1), "-1"),
            (json!(1.5), "1.5"),
            (json!(1e30), "1e+30"),
            (json!("18446744073709551616"), "\"18446744073709551616\""),
            (json!("7x"), "\"7x\""),
            (json!([7]), "[7]"),
            (json!({}), "{}"),
            (json!(true), "true"),
        ] {
            let object = json!({ "n": value, "created_at": value });
            assert_eq!(Fields(&object).number("n"), Err(told.to_owned()));
            let odd: Vec<String> = Fields(&object).odd_times().collect();
            assert_eq!(odd, [format!("created_at {told}")]);
            assert_eq!(Fields(&object).time(&["created_at"]), 0);
        }
        // Microseconds, nanoseconds, and seconds beyond the year 9999.
        for late in [1_700_000_000_000_000_u64, 1_700_000_000_000_000_000, 253_402_300_800] {
            let object = json!({ "created_at": late, "submitted_at": 1_700_000_000 });
            let odd: Vec<String> = Fields(&object).odd_times().collect();
            assert_eq!(odd, [format!("created_at {late}")]);
            let time = Fields(&object).time(&["created_at", "submitted_at"]);
            assert_eq!(time, 1_700_000_000_000, "the next one that is one");
        }
        for value in [
            json!(0),
            json!(TIME_MS_MAX),
            json!("0"),
            json!(""),
            json!(null),
            json!(NOTHING),
            json!("0001-01-01T00:00:00Z"),
            json!("2023-11-14T22:13:20Z"),
            json!(1_700_000_000),
        ] {
            let object = json!({ "updated_at": value });
            assert_eq!(Fields(&object).odd_times().count(), 0, "{object}");
        }
    }
}
