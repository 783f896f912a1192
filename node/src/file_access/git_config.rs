//! Reads the settings of a Git configuration file. Pure.
//!
//! The grammar is Git's own, so that a value means here what it means to Git: quotes, escapes,
//! lines that go on, bytes that are no UTF-8. What is not understood is an error, since it could
//! say anything.

use std::{ffi::OsString, os::unix::ffi::OsStringExt as _};

/// What Git passes over at the beginning of a file.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One setting of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    /// The section without its subsection, in lower case.
    pub section: String,
    /// In lower case.
    pub key: String,
    /// Empty where none is given.
    pub value: OsString,
}

/// Parses a file.
///
/// # Errors
/// The number of the first line that is not understood.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Setting>, usize> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let mut lines = Scanner { bytes: text, line: 1 };
    lines.settings().ok_or(lines.line)
}

struct Scanner<'a> {
    /// Those that are left.
    bytes: &'a [u8],
    /// Where the first of them is.
    line: usize,
}

impl Scanner<'_> {
    /// The next byte; a line's end is `\n`, however it is written. `None`: the file's end.
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        let rest = if *first == b'\r' && rest.first() == Some(&b'\n') { &rest[1..] } else { rest };
        let is_end = *first == b'\n' || rest.len() + 1 < self.bytes.len();
        self.bytes = rest;
        self.line += usize::from(is_end);
        Some(if is_end { b'\n' } else { *first })
    }

    fn settings(&mut self) -> Option<Vec<Setting>> {
        let (mut all, mut section) = (Vec::new(), String::new());
        while let Some(byte) = self.next() {
            match byte {
                b'#' | b';' => self.skip_line(),
                b'[' => section = self.section()?,
                _ if is_space(byte) => {}
                _ if byte.is_ascii_alphabetic() => {
                    let (key, value) = self.setting(byte)?;
                    all.push(Setting { section: section.clone(), key, value });
                }
                _ => return None,
            }
        }
        Some(all)
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|byte| byte != b'\n') {}
    }

    /// After its bracket.
    fn section(&mut self) -> Option<String> {
        let mut name = String::new();
        loop {
            match self.next()? {
                b']' => break,
                byte if is_key(byte) || byte == b'.' => {
                    name.push(char::from(byte.to_ascii_lowercase()));
                }
                byte if is_space(byte) => {
                    self.subsection(byte)?;
                    break;
                }
                _ => return None,
            }
        }
        let own = name.split('.').next().unwrap_or_default();
        Some(own.to_owned())
    }

    /// After a blank: a text in quotes, and the bracket.
    fn subsection(&mut self, mut byte: u8) -> Option<()> {
        while is_space(byte) {
            if byte == b'\n' {
                return None;
            }
            byte = self.next()?;
        }
        if byte != b'"' {
            return None;
        }
        loop {
            let byte = match self.next()? {
                b'"' => break,
                b'\\' => self.next()?,
                byte => byte,
            };
            if byte == b'\n' {
                return None;
            }
        }
        (self.next()? == b']').then_some(())
    }

    fn setting(&mut self, first: u8) -> Option<(String, OsString)> {
        let mut key = String::from(char::from(first.to_ascii_lowercase()));
        let mut byte = self.next();
        while let Some(it) = byte.filter(|it| is_key(*it)) {
            key.push(char::from(it.to_ascii_lowercase()));
            byte = self.next();
        }
        while matches!(byte, Some(b' ' | b'\t')) {
            byte = self.next();
        }
        let value = match byte {
            None | Some(b'\n') => Vec::new(),
            Some(b'=') => self.value()?,
            Some(_) => return None,
        };
        Some((key, OsString::from_vec(value)))
    }

    /// Blanks at both ends are none of it, unless they are in quotes.
    fn value(&mut self) -> Option<Vec<u8>> {
        let (mut value, mut kept, mut is_quoted) = (Vec::new(), 0, false);
        loop {
            match self.next() {
                None | Some(b'\n') if is_quoted => return None,
                None | Some(b'\n') => break,
                Some(b'#' | b';') if !is_quoted => {
                    self.skip_line();
                    break;
                }
                Some(b'"') => is_quoted = !is_quoted,
                Some(b'\\') => match self.next()? {
                    b'\n' => {}
                    b't' => value.push(b'\t'),
                    b'b' => value.push(8),
                    b'n' => value.push(b'\n'),
                    byte @ (b'\\' | b'"') => value.push(byte),
                    _ => return None,
                },
                Some(0) => return None,
                Some(byte) if is_space(byte) && !is_quoted => {
                    if !value.is_empty() {
                        value.push(byte);
                    }
                    continue;
                }
                Some(byte) => value.push(byte),
            }
            kept = value.len();
        }
        value.truncate(kept);
        Some(value)
    }
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

const fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

    use super::*;

    #[test]
    fn a_value_is_what_git_reads() {
        for (text, expected) in [
            (&b"[core]\n\thooksPath = tools/hooks # ours\n"[..], &b"tools/hooks"[..]),
            (b"[core] HooksPath=\"tools/h#ooks\" ; ours", b"tools/h#ooks"),
            (b"[CORE]\r\nhooksPath = tools/\\\r\nhooks\r\n", b"tools/hooks"),
            (b"[core]hooksPath = tools/\\\"hooks\\\"", b"tools/\"hooks\""),
            (b"[core \"x\\\"y\"]\nhooksPath = \" a b \" \t\n", b" a b "),
            (b"[core.x]\nhooksPath = a  \\t  b   \n", b"a  \t  b"),
            (b"\xef\xbb\xbf[core]\nhooksPath=\xff\n", b"\xff"),
            (b"# \xff\n[core]\nhooksPath", b""),
            (b"[core]\nhooksPath = \"a\" \"b\"\n", b"a b"),
        ] {
            let shown = text.escape_ascii();
            let [it] = &parse(text).unwrap()[..] else { panic!("{shown}") };
            assert_eq!((it.section.as_str(), it.key.as_str()), ("core", "hookspath"), "{shown}");
            assert_eq!(it.value, OsStr::from_bytes(expected), "{shown}");
        }
        let all = parse(b"a = 1\n[b] c = 2\n[include]\npath = d\n").unwrap();
        let all: Vec<_> = all.iter().map(|it| (it.section.as_str(), it.key.as_str())).collect();
        assert_eq!(all, [("", "a"), ("b", "c"), ("include", "path")]);
    }

    #[test]
    fn what_git_does_not_take_is_an_error() {
        for (text, line) in [
            (&b"[core\n"[..], 2),
            (b"[core]\n= x", 2),
            (b"[core]\na = \\x", 2),
            (b"[core]\na = \"b\nc\"", 3),
            (b"\n\xff = 1", 2),
            (b"[core \"a] b = c", 1),
            (b"[core]\na b", 2),
        ] {
            assert_eq!(parse(text).unwrap_err(), line, "{}", text.escape_ascii());
        }
    }
}
