//! Files by name or by pattern, and whether two of those can mean the same file.
//!
//! A pattern is matched segment by segment: `*` is any text without `/`, `?` one character,
//! `[a-z]` and `[!a-z]` one of these or none of them, and a segment `**` any number of segments.
//! A path without wildcards and a pattern that ends with `/` are everything below as well: nobody
//! here knows whether a path is a directory, so `**/*.css` is on `src`, and on `main.rs`.
//!
//! Two of them, of `m` and `n` bytes, are compared in at most `2mn + m + n` steps: no token, and no
//! segment, of one is compared more than once with one of the other, and comparing two of them
//! takes no more steps than they have bytes. That many it takes where one side has no wildcard for
//! any text; two that both have one differ at an end or meet, which takes some `m + n`. How many
//! pairs of them one turn compares is what an [`Effort`] bounds.

use std::cell::Cell;

use minicbor::{Decode, Decoder, Encode, decode};
use serde::{Deserialize, Serialize};
use tasuki_proto::limits::{LOCK_PATH_BYTES_MAX, REPOSITORY_BYTES_MAX};

/// A file, or files, in a repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Encode, Serialize, Deserialize)]
#[serde(try_from = "Exported")]
pub struct LockKey {
    #[n(0)]
    repository: String,
    /// Without `.`, `..` and empty segments; `**` where `/` at the end asked for everything below.
    #[n(1)]
    path: String,
    /// The file system it is on takes `A` and `a` for the same.
    #[n(2)]
    is_case_folded: bool,
}

impl<'b, C> Decode<'b, C> for LockKey {
    fn decode(from: &mut Decoder<'b>, _: &mut C) -> Result<Self, decode::Error> {
        from.array()?;
        Self::new(from.str()?, from.str()?, from.bool()?).map_err(decode::Error::message)
    }
}

#[derive(Deserialize)]
struct Exported {
    repository: String,
    path: String,
    is_case_folded: bool,
}

impl TryFrom<Exported> for LockKey {
    type Error = String;

    fn try_from(it: Exported) -> Result<Self, String> {
        Self::new(&it.repository, &it.path, it.is_case_folded)
    }
}

/// Wildcards in one pattern: what is compared with others stays quick to compare.
const WILDCARDS_MAX: usize = 16;

fn check_length(path: &str) -> Result<(), String> {
    if LOCK_PATH_BYTES_MAX < path.len() {
        return Err(format!("a path is longer than {LOCK_PATH_BYTES_MAX} bytes"));
    }
    Ok(())
}

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
        check_length(path)?;
        let is_plain = !path.starts_with('/') && !path.contains(['\\', '\0']);
        let segments: Vec<&str> = path.split('/').filter(|it| !matches!(*it, "" | ".")).collect();
        if !is_plain || segments.is_empty() || segments.contains(&"..") {
            return Err(format!("{path:?} is no path inside a repository, with '/' in between"));
        }
        let mut path_of = segments.join("/");
        let has_wildcards = path_of.contains(['*', '?', '[']);
        if has_wildcards && path.ends_with('/') {
            path_of += "/**";
            // It is checked again when it is read from disk.
            check_length(&path_of)?;
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

    /// All segments, folded.
    pub(super) fn folded_segments(&self) -> impl Iterator<Item = String> {
        self.path.split('/').map(fold)
    }

    /// Whether there is a path that both are on.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.overlaps_within(other, &Effort::unbounded())
    }

    /// The same where it is counted how long that takes. The answer is right also where the effort
    /// is spent over it.
    pub fn overlaps_within(&self, other: &Self, effort: &Effort) -> bool {
        if self.repository != other.repository {
            return false;
        }
        let is_folded = self.is_case_folded || other.is_case_folded;
        if self.is_apart(other, is_folded, effort) {
            return false;
        }
        effort.spend(self.path.len() + other.path.len());
        let (left, right) = (self.segments(is_folded), other.segments(is_folded));
        let is_common = |a: &Token, b: &Token| {
            effort.spend(a.weight() + b.weight());
            a.meets(b)
        };
        let fit = |a: &Segment, b: &Segment| meet(a, b, &is_common);
        match (self.has_wildcards(), other.has_wildcards()) {
            (true, true) => meet(&left, &right, &fit),
            (false, false) => begin_alike(&left, &right, &fit),
            (false, true) => is_on(&left, &right, &fit),
            (true, false) => is_on(&right, &left, &fit),
        }
    }

    /// Whether the plain text of two segments in the same place differs: most that do not overlap
    /// are told apart by that.
    fn is_apart(&self, other: &Self, is_folded: bool, effort: &Effort) -> bool {
        let is_in_place = |(a, b): &(&str, &str)| *a != "**" && *b != "**";
        let both = self.path.split('/').zip(other.path.split('/'));
        let mut begin = both.take_while(is_in_place);
        if begin.any(|(a, b)| differ(a, b, is_folded, effort)) {
            return true;
        }
        // A path without wildcards may go on below.
        let has_ends = self.has_wildcards() && other.has_wildcards();
        let both = self.path.rsplit('/').zip(other.path.rsplit('/'));
        let mut end = both.take_while(is_in_place);
        has_ends && end.any(|(a, b)| differ(a, b, is_folded, effort))
    }

    fn segments(&self, is_folded: bool) -> Vec<Item<Segment>> {
        let one = |it: &str| match it {
            "**" => Item::Star,
            it => Item::One(tokens(it, is_folded).expect("checked when it was made")),
        };
        self.path.split('/').map(one).collect()
    }
}

/// Whether what two segments begin or end with differs, as far as neither has a wildcard there.
pub(super) fn differ(left: &str, right: &str, is_folded: bool, effort: &Effort) -> bool {
    // Folding keeps an ASCII character one of one byte.
    let is_text =
        |byte: u8, wildcards: &[u8]| !wildcards.contains(&byte) && (!is_folded || byte.is_ascii());
    let is_same = |a: u8, b: u8| a == b || (is_folded && a.eq_ignore_ascii_case(&b));
    let mut looked = 0;
    let mut is_other = |(a, b): (u8, u8)| {
        looked += 1;
        !is_same(a, b)
    };
    let both = left.bytes().zip(right.bytes());
    let mut begin = both.take_while(|(a, b)| is_text(*a, b"*?[") && is_text(*b, b"*?["));
    let both = left.bytes().rev().zip(right.bytes().rev());
    let mut end = both.take_while(|(a, b)| is_text(*a, b"*?]") && is_text(*b, b"*?]"));
    let differs = begin.any(&mut is_other) || end.any(&mut is_other);
    effort.spend(1 + looked / BYTES_AT_ONCE);
    differs
}

/// Whether all segments of one fit those of the other in the same places, as far as both have one.
fn begin_alike<T>(left: &[Item<T>], right: &[Item<T>], fit: &impl Fn(&T, &T) -> bool) -> bool {
    left.iter().zip(right).all(|both| match both {
        (Item::One(a), Item::One(b)) => fit(a, b),
        (Item::Star, _) | (_, Item::Star) => true,
    })
}

/// Whether a path without wildcards, or something below it, is on a pattern: behind a `**` anything
/// may be.
fn is_on<T>(path: &[Item<T>], pattern: &[Item<T>], fit: &impl Fn(&T, &T) -> bool) -> bool {
    let star = pattern.iter().position(Item::is_star);
    let named = &pattern[..star.unwrap_or(pattern.len())];
    begin_alike(path, named, fit) && (star.is_some() || path.len() <= pattern.len())
}

/// Bytes of plain text that are compared in one step.
pub(super) const BYTES_AT_ONCE: usize = 8;

/// What comparing may still take, in steps of some nanoseconds: a workspace does nothing else
/// meanwhile.
#[derive(Debug)]
pub struct Effort(Cell<usize>);

impl Effort {
    pub const fn new(steps: usize) -> Self {
        Self(Cell::new(steps))
    }

    /// For what was let in before, under whichever bound.
    pub const fn unbounded() -> Self {
        Self::new(usize::MAX)
    }

    pub fn is_spent(&self) -> bool {
        self.0.get() == 0
    }

    /// How many steps are left.
    pub fn left(&self) -> usize {
        self.0.get()
    }

    /// Has something done with a part of it.
    pub fn share<T>(&self, most: usize, work: impl FnOnce(&Self) -> T) -> T {
        let given = most.min(self.left());
        let part = Self::new(given);
        let done = work(&part);
        self.spend(given - part.left());
        done
    }

    pub(super) fn spend(&self, steps: usize) {
        self.0.set(self.0.get().saturating_sub(steps));
    }
}

/// A place of a pattern: of a segment's, made of tokens, and of a path's, made of segments.
#[derive(Debug)]
enum Item<T> {
    /// Any number of them.
    Star,
    One(T),
}

type Segment = Vec<Item<Token>>;

#[derive(Debug)]
enum Token {
    Char(u32),
    /// Any one character.
    Any,
    /// A character in one of these ranges, which are in order and apart.
    Class(Vec<(u32, u32)>),
}

/// What a segment is made of; `None` where a class does not end.
fn tokens(segment: &str, is_folded: bool) -> Option<Segment> {
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
            '*' => Item::Star,
            '?' => Item::One(Token::Any),
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
                        ranges.push((u32::from(low), u32::from(high)));
                    } else {
                        ranges.push((u32::from(low), u32::from(low)));
                    }
                }
                Item::One(Token::class(ranges, is_negated))
            }
            c => Item::One(Token::Char(u32::from(c))),
        });
    }
    Some(tokens)
}

/// Whether there is something that both are on, if two of their items `fit` where there is
/// something that both of these are on. Each item of one is compared at most once with each of the
/// other.
fn meet<T>(mut left: &[Item<T>], mut right: &[Item<T>], fit: &impl Fn(&T, &T) -> bool) -> bool {
    while let ([Item::One(a), next_left @ ..], [Item::One(b), next_right @ ..]) = (left, right) {
        if !fit(a, b) {
            return false;
        }
        (left, right) = (next_left, next_right);
    }
    while let ([next_left @ .., Item::One(a)], [next_right @ .., Item::One(b)]) = (left, right) {
        if !fit(a, b) {
            return false;
        }
        (left, right) = (next_left, next_right);
    }
    let has_star = |it: &[Item<T>]| it.iter().any(Item::is_star);
    match (has_star(left), has_star(right)) {
        // What stands between the ends of one goes before what stands between those of the other:
        // the stars of each are on the rest.
        (true, true) => true,
        (true, false) => takes_in(left, right, fit),
        (false, true) => takes_in(right, left, fit),
        (false, false) => left.is_empty() && right.is_empty(),
    }
}

/// Whether what stands between the stars of `pattern` is in `fixed`, which has none, one behind the
/// other: where one is found first, there is the most room for the rest.
fn takes_in<T>(pattern: &[Item<T>], mut fixed: &[Item<T>], fit: &impl Fn(&T, &T) -> bool) -> bool {
    for piece in pattern.split(Item::is_star).filter(|it| !it.is_empty()) {
        let fits = |(a, b): (&Item<T>, &Item<T>)| match (a, b) {
            (Item::One(a), Item::One(b)) => fit(a, b),
            (Item::Star, _) | (_, Item::Star) => true,
        };
        let place =
            fixed.windows(piece.len()).position(|window| piece.iter().zip(window).all(fits));
        let Some(place) = place else { return false };
        fixed = &fixed[place + piece.len()..];
    }
    true
}

impl<T> Item<T> {
    const fn is_star(&self) -> bool {
        matches!(self, Self::Star)
    }
}

impl Token {
    fn class(mut ranges: Vec<(u32, u32)>, is_negated: bool) -> Self {
        ranges.retain(|(low, high)| low <= high);
        ranges.sort_unstable();
        let mut apart: Vec<(u32, u32)> = Vec::with_capacity(ranges.len() + 1);
        for (low, high) in ranges {
            match apart.last_mut() {
                Some(last) if low <= last.1 => last.1 = last.1.max(high),
                Some(_) | None => apart.push((low, high)),
            }
        }
        if !is_negated {
            return Self::Class(apart);
        }
        let mut others = Vec::with_capacity(apart.len() + 1);
        let mut first = 0;
        for (low, high) in apart {
            if first < low {
                others.push((first, low - 1));
            }
            first = high + 1;
        }
        if first <= u32::from(char::MAX) {
            others.push((first, u32::from(char::MAX)));
        }
        Self::Class(others)
    }

    /// Whether there is a character that both are.
    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) | (_, Self::Any) => true,
            (Self::Char(a), Self::Char(b)) => a == b,
            (Self::Char(c), Self::Class(ranges)) | (Self::Class(ranges), Self::Char(c)) => {
                ranges.iter().any(|(low, high)| (low..=high).contains(&c))
            }
            (Self::Class(left), Self::Class(right)) => {
                let (mut left, mut right) = (left.as_slice(), right.as_slice());
                while let ([a, next_left @ ..], [b, next_right @ ..]) = (left, right) {
                    if a.0 <= b.1 && b.0 <= a.1 {
                        return true;
                    }
                    if a.1 < b.1 {
                        left = next_left;
                    } else {
                        right = next_right;
                    }
                }
                false
            }
        }
    }

    /// How many steps it takes to go over it.
    fn weight(&self) -> usize {
        match self {
            Self::Char(_) | Self::Any => 1,
            Self::Class(ranges) => ranges.len().max(1),
        }
    }
}

fn fold(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}
