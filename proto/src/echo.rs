//! What somebody gave, as a refusal says it back: quoted, and never whole.
//!
//! Whoever gives a name of a megabyte would otherwise be sent two, and so would a model.

use std::fmt;

use crate::visible;

/// Of one text that is said back, in characters: enough to know it again.
const ECHO_CHARS_MAX: usize = 60;

/// Everything that a refusal says, in bytes.
pub const REFUSAL_BYTES_MAX: usize = 4096;

/// Of a longer one so much of the end stays, in bytes: there it says what to do.
const END_BYTES: usize = 1024;

#[derive(Debug, Clone, Copy)]
struct Echo<'a>(&'a str);

impl fmt::Display for Echo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((end, _)) = self.0.char_indices().nth(ECHO_CHARS_MAX) else {
            return write!(f, "{:?}", self.0);
        };
        write!(f, "{:?}… ({} bytes)", &self.0[..end], self.0.len())
    }
}

/// A text of a caller's within a sentence.
pub fn echo(text: &str) -> impl fmt::Display + Copy + '_ {
    Echo(text)
}

/// A whole refusal, as it may be shown to a model: nothing hidden, and cut in the middle where it
/// is too long.
pub fn bounded(refusal: &str) -> String {
    let (refusal, _) = visible::shown(refusal);
    if refusal.len() <= REFUSAL_BYTES_MAX {
        return refusal.into_owned();
    }
    let begin = &refusal[..refusal.floor_char_boundary(REFUSAL_BYTES_MAX - 2 * END_BYTES)];
    let end = &refusal[refusal.ceil_char_boundary(refusal.len() - END_BYTES)..];
    let left_out = refusal.len() - begin.len() - end.len();
    format!("{begin}… ({left_out} bytes left out) …{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_said_back_so_that_it_can_be_known_again() {
        assert_eq!(echo("a b").to_string(), "\"a b\"");
        assert_eq!(echo("a\n\u{202e}\u{e0041}").to_string(), r#""a\n\u{202e}\u{e0041}""#);
        let long = "é".repeat(1_000_000);
        assert_eq!(echo(&long).to_string(), format!("\"{}\"… (2000000 bytes)", "é".repeat(60)));
    }

    #[test]
    fn a_long_refusal_keeps_its_begin_and_its_end() {
        let short = "a b: do this";
        assert_eq!(bounded(short), short);
        assert_eq!(bounded("hid\u{e0041}den"), "hidden");
        let long = bounded(&format!("`x` {} do this", "é".repeat(1_000_000)));
        assert!(long.len() <= REFUSAL_BYTES_MAX, "{}", long.len());
        assert!(long.starts_with("`x` é") && long.ends_with("é do this"), "{long}");
        assert!(long.contains("bytes left out"));
    }
}
