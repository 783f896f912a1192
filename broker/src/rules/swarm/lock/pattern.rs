//! Files by name or by pattern, and whether two of those can mean the same file.
//!
//! A pattern is matched segment by segment: `*` is any text without `/`, `?` one character,
//! `[a-z]` and `[!a-z]` one of these or none of them, and a segment `**` any number of segments.
//! A path without wildcards, and a pattern that ends with `/`, are everything below as well.

use std::collections::BTreeSet;

use tasuki_proto::limits::{LOCK_PATH_BYTES_MAX, REPOSITORY_BYTES_MAX};

/// A file, or files, in a repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockKey {
    repository: String,
    /// Without `.`, `..` and empty segments; `**` where `/` at the end asked for everything below.
    path: String,
    /// The file system it is on takes `A` and `a` for the same.
    is_case_folded: bool,
}

/// Wildcards in one pattern: what is compared with others stays quick to compare.
const WILDCARDS_MAX: usize = 16;

impl LockKey {
    /// A file or a pattern.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn new(repository: &str, path: &str, is_case_folded: bool) -> Result<Self, String> {
        if REPOSITORY_BYTES_MAX < repository.len() {
            return Err(format!(
                "the repository's name is longer than {REPOSITORY_BYTES_MAX} bytes"
            ));
        }
        if LOCK_PATH_BYTES_MAX < path.len() {
            return Err(format!("a path is longer than {LOCK_PATH_BYTES_MAX} bytes"));
        }
        let is_plain = !path.starts_with('/') && !path.contains(['\\', '\0']);
        let segments: Vec<&str> = path.split('/').filter(|it| !matches!(*it, "" | ".")).collect();
        if !is_plain || segments.is_empty() || segments.contains(&"..") {
            return Err(format!("{path:?} is no path inside a repository, with '/' in between"));
        }
        let mut path_of = segments.join("/");
        let has_wildcards = path_of.contains(['*', '?', '[']);
        if has_wildcards && path.ends_with('/') {
            path_of += "/**";
        }
        if WILDCARDS_MAX < path_of.matches(['*', '?', '[']).count() {
            return Err(format!("{path:?} has more than {WILDCARDS_MAX} wildcards"));
        }
        let key = Self { repository: repository.to_owned(), path: path_of, is_case_folded };
        for segment in key.path.split('/') {
            tokens(segment, false).ok_or_else(|| format!("{path:?} has a '[' without its ']'"))?;
        }
        Ok(key)
    }

    pub fn repository(&self) -> &str {
        &self.repository
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    pub const fn is_case_folded(&self) -> bool {
        self.is_case_folded
    }

    pub fn has_wildcards(&self) -> bool {
        self.path.contains(['*', '?', '['])
    }

    /// The segments before the first with a wildcard, folded, a `/` behind each.
    pub(super) fn folded_literal(&self) -> String {
        let literal = self.path.split('/').take_while(|it| !it.contains(['*', '?', '[']));
        literal.map(|it| fold(it) + "/").collect()
    }

    /// Whether there is a path that both are on.
    pub fn overlaps(&self, other: &Self) -> bool {
        if self.repository != other.repository {
            return false;
        }
        let is_folded = self.is_case_folded || other.is_case_folded;
        let (left, right) = (self.segments(is_folded), other.segments(is_folded));
        // Which places of `right` each place of `left` can be reached with.
        let mut reached = BTreeSet::from([(0, 0)]);
        let mut open = vec![(0, 0)];
        let mut reach = |at: (usize, usize), open: &mut Vec<(usize, usize)>| {
            if reached.insert(at) {
                open.push(at);
            }
        };
        while let Some((i, j)) = open.pop() {
            let (a, b) = (left.get(i), right.get(j));
            match (a, b) {
                (None, None) => return true,
                (Some(Segment::Any), _) => reach((i + 1, j), &mut open),
                (Some(Segment::One(_)) | None, _) => {}
            }
            if matches!(b, Some(Segment::Any)) {
                reach((i, j + 1), &mut open);
            }
            match (a, b) {
                (Some(Segment::Any), Some(Segment::One(_))) => reach((i, j + 1), &mut open),
                (Some(Segment::One(_)), Some(Segment::Any)) => reach((i + 1, j), &mut open),
                (Some(Segment::One(a)), Some(Segment::One(b))) if meet(a, b) => {
                    reach((i + 1, j + 1), &mut open);
                }
                (Some(_) | None, Some(_) | None) => {}
            }
        }
        false
    }

    fn segments(&self, is_folded: bool) -> Vec<Segment> {
        let one = |it: &str| match it {
            "**" => Segment::Any,
            it => Segment::One(tokens(it, is_folded).expect("checked when it was made")),
        };
        let mut segments: Vec<Segment> = self.path.split('/').map(one).collect();
        if !self.has_wildcards() {
            segments.push(Segment::Any);
        }
        segments
    }
}

enum Segment {
    /// Any number of segments.
    Any,
    One(Vec<Token>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Char(char),
    /// Any text.
    Star,
    /// Any one character.
    Any,
    /// One of these, or none of them.
    Class {
        ranges: Vec<(char, char)>,
        is_negated: bool,
    },
}

/// What a segment is made of; `None` where a class does not end.
fn tokens(segment: &str, is_folded: bool) -> Option<Vec<Token>> {
    let folded;
    let segment = if is_folded {
        folded = fold(segment);
        &folded
    } else {
        segment
    };
    let mut tokens = Vec::new();
    let mut chars = segment.chars().peekable();
    while let Some(c) = chars.next() {
        tokens.push(match c {
            '*' => {
                if tokens.last() == Some(&Token::Star) {
                    continue;
                }
                Token::Star
            }
            '?' => Token::Any,
            '[' => {
                let is_negated = chars.next_if(|it| matches!(it, '!' | '^')).is_some();
                let mut ranges = Vec::new();
                loop {
                    let low = chars.next()?;
                    if low == ']' && !ranges.is_empty() {
                        break;
                    }
                    let mut ahead = chars.clone();
                    if ahead.next() == Some('-')
                        && let Some(high) = ahead.next()
                        && high != ']'
                    {
                        chars = ahead;
                        ranges.push((low, high));
                    } else {
                        ranges.push((low, low));
                    }
                }
                Token::Class { ranges, is_negated }
            }
            c => Token::Char(c),
        });
    }
    Some(tokens)
}

/// Whether there is a text that both are on.
fn meet(left: &[Token], right: &[Token]) -> bool {
    let is_star = |tokens: &[Token], at: usize| tokens.get(at) == Some(&Token::Star);
    let mut row: Vec<bool> = vec![false; right.len() + 1];
    // `row[j]`: the places `i` and `j` can be reached with the same text.
    for i in 0..=left.len() {
        let mut next = vec![false; right.len() + 1];
        if i == 0 {
            row[0] = true;
        }
        for j in 0..=right.len() {
            if !row[j] {
                continue;
            }
            if is_star(right, j) {
                row[j + 1] = true;
            }
            if is_star(left, i) {
                next[j] = true;
            }
            if let (Some(a), Some(b)) = (left.get(i), right.get(j)) {
                match (a, b) {
                    // A star takes in what the other is on, and stays.
                    (Token::Star, Token::Star) => {}
                    (Token::Star, _) => row[j + 1] = true,
                    (_, Token::Star) => next[j] = true,
                    (a, b) if a.meets(b) => next[j + 1] = true,
                    (_, _) => {}
                }
            }
        }
        if i == left.len() {
            return row[right.len()];
        }
        row = next;
    }
    false
}

impl Token {
    /// Whether there is a character that both are.
    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any | Self::Star, _) | (_, Self::Any | Self::Star) => true,
            (Self::Char(a), Self::Char(b)) => a == b,
            (Self::Char(c), class @ Self::Class { .. })
            | (class @ Self::Class { .. }, Self::Char(c)) => class.has(*c),
            (
                a @ Self::Class { ranges: left, is_negated: not_left },
                b @ Self::Class { ranges: right, is_negated: not_right },
            ) => {
                // Where two unions of ranges meet, they meet at an end of one; and beside an end,
                // where one is what is left out.
                let ends = left.iter().chain(right).flat_map(|(low, high)| [*low, *high]);
                let beside = |c: char| {
                    let before = u32::from(c).checked_sub(1).and_then(char::from_u32);
                    let after = char::from_u32(u32::from(c) + 1);
                    [Some(c), before, after]
                };
                (*not_left && *not_right)
                    || ends.flat_map(beside).flatten().any(|c| a.has(c) && b.has(c))
            }
        }
    }

    fn has(&self, c: char) -> bool {
        match self {
            Self::Char(own) => *own == c,
            Self::Star | Self::Any => true,
            Self::Class { ranges, is_negated } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *is_negated
            }
        }
    }
}

fn fold(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}
