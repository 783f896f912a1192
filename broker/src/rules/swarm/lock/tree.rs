//! Locked patterns by their segments, so that few have to be compared with what is asked about.
//!
//! What is not found here does not meet: segments in the same place, up to a `**`, begin and end
//! alike as far as neither has a wildcard. What is found may meet. All text is folded, which
//! serves both kinds of file systems.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use tasuki_proto::swarm::LockId;

use super::pattern::{BYTES_AT_ONCE, Effort, LockKey, differ};

/// Steps that it takes to come to a place of the tree.
const PLACE_STEPS: usize = 4;

/// Any number of segments.
const STAR: &str = "**";

/// A place: what begins alike.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tree {
    /// What ends here.
    here: BTreeSet<(LockId, LockKey)>,
    /// By the next segment: what is before its first wildcard, then all of it.
    next: BTreeMap<String, BTreeMap<String, Self>>,
}

/// One segment, folded.
struct Segment {
    text: String,
    /// Where its first wildcard is, or its end.
    literal: usize,
}

/// How what is left of the segments asked about is met.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// It has no wildcard: it may be a directory above what is here.
    Plain,
    Pattern,
    /// A `**` of the tree is on what was before it.
    Star,
}

impl Tree {
    pub(super) fn is_empty(&self) -> bool {
        self.here.is_empty() && self.next.is_empty()
    }

    /// Whether it was not there before.
    pub(super) fn insert(&mut self, lock: LockId, key: &LockKey) -> bool {
        let mut place = self;
        for segment in segments(key) {
            let alike = place.next.entry(segment.literal().to_owned()).or_default();
            place = alike.entry(segment.text).or_default();
        }
        place.here.insert((lock, key.clone()))
    }

    pub(super) fn remove(&mut self, lock: LockId, key: &LockKey) {
        self.remove_below(&segments(key), &(lock, key.clone()));
    }

    fn remove_below(&mut self, rest: &[Segment], entry: &(LockId, LockKey)) {
        let Some((first, rest)) = rest.split_first() else {
            self.here.remove(entry);
            return;
        };
        let Some(alike) = self.next.get_mut(first.literal()) else { return };
        if let Some(place) = alike.get_mut(&first.text) {
            place.remove_below(rest, entry);
            if place.is_empty() {
                alike.remove(&first.text);
            }
        }
        if alike.is_empty() {
            self.next.remove(first.literal());
        }
    }

    /// What may be on a file that `key` is on, as far as the effort goes, the oldest lock first.
    pub(super) fn near(&self, key: &LockKey, effort: &Effort) -> Vec<&(LockId, LockKey)> {
        effort.spend(key.path().len() / BYTES_AT_ONCE);
        let kind = if key.has_wildcards() { Asked::Pattern } else { Asked::Plain };
        let mut found = Vec::new();
        self.gather(&segments(key), kind, effort, &mut found);
        found.sort_unstable();
        // Behind a `**` something is found once for each place where it may begin.
        found.dedup();
        found
    }

    fn gather<'a>(
        &'a self,
        asked: &[Segment],
        kind: Asked,
        effort: &Effort,
        found: &mut Vec<&'a (LockId, LockKey)>,
    ) {
        effort.spend(PLACE_STEPS);
        if effort.is_spent() {
            return;
        }
        let Some((first, rest)) = asked.split_first() else {
            if kind == Asked::Plain {
                return self.gather_all(effort, found);
            }
            found.extend(&self.here);
            if let Some(place) = self.next.get("").and_then(|it| it.get(STAR)) {
                place.gather(asked, kind, effort, found);
            }
            return;
        };
        if first.text == STAR {
            return self.gather_all(effort, found);
        }
        for (text, place) in self.alike(first, effort) {
            if text != STAR {
                if !differ(text, &first.text, false, effort) {
                    place.gather(rest, kind, effort, found);
                }
            } else if kind != Asked::Pattern {
                // What is asked about is a directory for all one knows, or this is another `**`:
                // so many ways are not gone.
                place.gather_all(effort, found);
            } else {
                for begin in 0..=asked.len() {
                    place.gather(&asked[begin..], Asked::Star, effort, found);
                }
            }
        }
    }

    fn gather_all<'a>(&'a self, effort: &Effort, found: &mut Vec<&'a (LockId, LockKey)>) {
        effort.spend(PLACE_STEPS);
        if effort.is_spent() {
            return;
        }
        found.extend(&self.here);
        self.next.values().flat_map(BTreeMap::values).for_each(|it| it.gather_all(effort, found));
    }

    /// The places behind segments that begin as this one does, as far as neither has a wildcard.
    fn alike(&self, asked: &Segment, effort: &Effort) -> Vec<(&str, &Self)> {
        let literal = asked.literal();
        let mut found: Vec<(&str, &Self)> = Vec::new();
        let longer = self.next.range::<str, _>((Bound::Included(literal), Bound::Unbounded));
        let longer = longer.take_while(|(text, _)| match asked.has_wildcards() {
            true => text.starts_with(literal),
            false => *text == literal,
        });
        found.extend(longer.flat_map(|(_, alike)| alike).map(|(text, it)| (text.as_str(), it)));
        let mut end = Bound::Excluded(literal);
        while let Some((shorter, alike)) =
            self.next.range::<str, _>((Bound::Unbounded, end)).next_back()
        {
            effort.spend(1 + literal.len() / BYTES_AT_ONCE);
            let common = common(literal, shorter);
            if common == shorter.len() {
                let goes_on = alike.iter().filter(|(text, _)| shorter.len() < text.len());
                found.extend(goes_on.map(|(text, it)| (text.as_str(), it)));
                end = Bound::Excluded(&literal[..common]);
            } else {
                end = Bound::Included(&literal[..common]);
            }
        }
        found
    }
}

impl Segment {
    fn literal(&self) -> &str {
        &self.text[..self.literal]
    }

    fn has_wildcards(&self) -> bool {
        self.literal < self.text.len()
    }
}

fn segments(key: &LockKey) -> Vec<Segment> {
    let segment = |text: String| {
        let literal = text.find(['*', '?', '[']).unwrap_or(text.len());
        Segment { text, literal }
    };
    key.folded_segments().map(segment).collect()
}

/// How many bytes both begin with.
fn common(left: &str, right: &str) -> usize {
    let both = left.chars().zip(right.chars());
    both.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
}
