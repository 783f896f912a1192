//! Where names and runs of signs are in a text, and where a name's parts are.

use std::ops::Range;

use super::fold::{Kind, kind};

/// Byte offsets in the text.
pub(in crate::search) type Span = Range<usize>;

/// Joints in a row that still hold a name together: `https://x`.
const JOINTS_MAX: usize = 3;

/// Parts of one word. What has more is no name but encoded data.
const PARTS_MAX: usize = 10;

/// Changes between letters and digits in one word at which it is cut: `log4j`, `h264x`. What has
/// more is a hash.
const TURNS_MAX: usize = 3;

/// What spans that were found are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::search) enum Group {
    /// Words held together by joints; often just one.
    Name,
    /// Signs side by side.
    Run,
}

/// Goes through a text.
#[derive(Debug, Clone)]
pub(in crate::search) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(in crate::search) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The next group; `spans` are its words or signs.
    pub(in crate::search) fn next(&mut self, spans: &mut Vec<Span>) -> Option<Group> {
        spans.clear();
        loop {
            let c = self.peek()?;
            match kind(c) {
                Kind::Letter => {
                    self.name(spans);
                    return Some(Group::Name);
                }
                Kind::Sign => {
                    while self.peek().is_some_and(|c| kind(c) == Kind::Sign) {
                        let start = self.at;
                        self.step();
                        let end = self.tail(|kind| kind == Kind::Mark);
                        spans.push(start..end);
                    }
                    return Some(Group::Run);
                }
                Kind::Mark | Kind::Hidden | Kind::Joint | Kind::Gap => self.step(),
            }
        }
    }

    fn name(&mut self, spans: &mut Vec<Span>) {
        loop {
            let start = self.at;
            let end = self.tail(|kind| matches!(kind, Kind::Letter | Kind::Mark));
            spans.push(start..end);
            let mut ahead = self.text[end..].char_indices();
            let joints = ahead.by_ref().take_while(|(_, c)| kind(*c) == Kind::Joint).count();
            let after = self.text[end..].char_indices().nth(joints);
            match after {
                Some((skip, c))
                    if (1..=JOINTS_MAX).contains(&joints) && kind(c) == Kind::Letter =>
                {
                    self.at = end + skip;
                }
                Some(_) | None => return,
            }
        }
    }

    /// Goes on as long as `belongs`, past what is hidden; returns the end of what shows.
    fn tail(&mut self, belongs: impl Fn(Kind) -> bool) -> usize {
        let mut end = self.at;
        while let Some(c) = self.peek() {
            let kind = kind(c);
            if belongs(kind) {
                self.step();
                end = self.at;
            } else if kind == Kind::Hidden {
                self.step();
            } else {
                break;
            }
        }
        end
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn step(&mut self) {
        self.at += self.peek().map_or(0, char::len_utf8);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Upper,
    Lower,
    Digit,
}

/// The parts of a word that begins at `base`; none when it is not put together.
pub(in crate::search) fn parts(word: &str, base: usize, into: &mut Vec<Span>) {
    into.clear();
    let mut turns = 0;
    let mut start = 0;
    let mut before: Option<Case> = None;
    let mut last = 0;
    for (at, c) in word.char_indices() {
        let case = if c.is_numeric() {
            Case::Digit
        } else if c.is_uppercase() {
            Case::Upper
        } else if c.is_alphabetic() {
            Case::Lower
        } else {
            continue;
        };
        let cut = match (before, case) {
            (None, _) | (Some(Case::Lower), Case::Lower) | (Some(Case::Digit), Case::Digit) => None,
            (Some(Case::Upper), Case::Upper) => None,
            (Some(Case::Lower), Case::Upper) => Some(at),
            // The last capital belongs to what follows: `HTTPServer`, but `URLs`.
            (Some(Case::Upper), Case::Lower) => {
                (start < last && &word[at..] != "s").then_some(last)
            }
            (Some(Case::Digit), Case::Upper | Case::Lower)
            | (Some(Case::Upper | Case::Lower), Case::Digit) => {
                turns += 1;
                Some(at)
            }
        };
        if let Some(cut) = cut {
            into.push(base + start..base + cut);
            start = cut;
        }
        before = Some(case);
        last = at;
    }
    if into.is_empty() {
        return;
    }
    into.push(base + start..base + word.len());
    if PARTS_MAX < into.len() || TURNS_MAX < turns {
        into.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(word: &str) -> String {
        let mut spans = Vec::new();
        parts(word, 0, &mut spans);
        spans.into_iter().map(|it| &word[it]).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn names_come_apart_where_people_see_their_parts() {
        for (word, same) in [
            ("parseHttpHeader", "parse|Http|Header"),
            ("HTTPServer", "HTTP|Server"),
            ("getHTTPResponseCode", "get|HTTP|Response|Code"),
            ("GitHub", "Git|Hub"),
            ("iOS", "i|OS"),
            ("URLs", ""),
            ("userIDs", "user|IDs"),
            ("HTTP", ""),
            ("plain", ""),
            ("Plain", ""),
            ("sha256", "sha|256"),
            ("log4j", "log|4|j"),
            ("v1", "v|1"),
            ("H2O", "H|2|O"),
            ("42", ""),
            ("ÉcoleÉtude", "École|Étude"),
            // Hashes and encoded data stay whole.
            ("ded66c6a58c1", ""),
            ("aGVsbG8gd29ybGQhIGhvdyBhcmUgeW91", ""),
        ] {
            assert_eq!(cut(word), same, "{word}");
        }
    }

    fn groups(text: &str) -> String {
        let mut scanner = Scanner::new(text);
        let mut spans = Vec::new();
        let mut said = Vec::new();
        while let Some(group) = scanner.next(&mut spans) {
            let words: Vec<_> = spans.iter().map(|it| &text[it.clone()]).collect();
            said.push(match group {
                Group::Name => words.join("~"),
                Group::Run => format!("[{}]", words.join("|")),
            });
        }
        said.join(" ")
    }

    #[test]
    fn a_text_is_names_and_runs_of_signs() {
        for (text, same) in [
            ("Hello, world!", "Hello world"),
            ("foo::bar snake_case_name", "foo~bar snake~case~name"),
            ("src/grpc/feed.rs.", "src~grpc~feed~rs"),
            ("https://x.org/a", "https~x~org~a"),
            ("a----b", "a b"),
            ("__init__", "init"),
            ("don't", "don t"),
            ("修复login页面", "[修|复] login [页|面]"),
            ("修复，登录", "[修|复] [登|录]"),
            ("か\u{3099}く ｶﾞ", "[か\u{3099}|く] [ｶﾞ]"),
            ("서버가", "[서|버|가]"),
            ("\u{1112}\u{1161}\u{11ab}글", "[\u{1112}\u{1161}\u{11ab}|글]"),
            ("ไทย", "[ไ|ท|ย]"),
            ("naïve e\u{301}cole", "naïve e\u{301}cole"),
            ("in\u{200b}visible\u{200b} x", "in\u{200b}visible x"),
            ("", ""),
            ("… -- 🚀", ""),
        ] {
            assert_eq!(groups(text), same, "{text}");
        }
    }
}
