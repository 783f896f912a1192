//! Which lock is on which file, to be looked up.
//!
//! A path without wildcards stands for itself and what is named below it, so it does not matter
//! whether who locked it knew that it is a directory. Such paths are in one tree by their folded
//! segments; patterns are in another ([`Tree`]), and those it finds are compared one by one.

use std::collections::{BTreeMap, BTreeSet};

use tasuki_proto::swarm::LockId;

use super::{
    pattern::{Effort, LockKey},
    tree::Tree,
};

/// Steps that it takes to come to a lock, before it is compared.
const FOUND_STEPS: usize = 8;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Index {
    /// By repository and folded path, with a separator behind each segment, so that what is below
    /// a directory stands right behind it.
    paths: BTreeMap<(String, String), BTreeSet<(LockId, LockKey)>>,
    /// With wildcards, by repository.
    patterns: BTreeMap<String, Tree>,
    /// In all of the above.
    len: usize,
    pattern_len: usize,
}

impl Index {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn patterns(&self) -> usize {
        self.pattern_len
    }

    pub(super) fn insert(&mut self, lock: LockId, key: &LockKey) {
        let is_new = if key.has_wildcards() {
            self.pattern_len += 1;
            let same = self.patterns.entry(key.repository().to_owned()).or_default();
            same.insert(lock, key)
        } else {
            self.paths.entry(place(key)).or_default().insert((lock, key.clone()))
        };
        assert!(is_new, "a lock has each of its keys once");
        self.len += 1;
    }

    pub(super) fn remove(&mut self, lock: LockId, key: &LockKey) {
        if key.has_wildcards() {
            if let Some(same) = self.patterns.get_mut(key.repository()) {
                same.remove(lock, key);
                if same.is_empty() {
                    self.patterns.remove(key.repository());
                }
            }
            self.pattern_len -= 1;
        } else {
            let place = place(key);
            if let Some(same) = self.paths.get_mut(&place) {
                same.remove(&(lock, key.clone()));
                if same.is_empty() {
                    self.paths.remove(&place);
                }
            }
        }
        self.len -= 1;
    }

    /// A lock that counts and is on a file that `key` is on, too. Where the effort is spent, there
    /// may be one that is not found.
    pub(super) fn overlapping(
        &self,
        key: &LockKey,
        counts: impl Fn(LockId) -> bool,
        effort: &Effort,
    ) -> Option<(LockId, &LockKey)> {
        let mut near = self.near(key, effort);
        let found = near.find(|(lock, other)| counts(*lock) && other.overlaps_within(key, effort));
        found.map(|(lock, key)| (*lock, key))
    }

    /// All locks that are on a file that `key` is on, too; not all where the effort is spent.
    pub(super) fn all_overlapping(
        &self,
        key: &LockKey,
        effort: &Effort,
    ) -> impl Iterator<Item = LockId> {
        let near = self.near(key, effort);
        near.filter(move |(_, other)| other.overlaps_within(key, effort)).map(|(lock, _)| *lock)
    }

    /// What may be on a file that `key` is on, as far as the effort goes.
    fn near(&self, key: &LockKey, effort: &Effort) -> impl Iterator<Item = &(LockId, LockKey)> {
        let patterns = self.patterns.get(key.repository());
        let patterns = patterns.map(|tree| tree.near(key, effort)).unwrap_or_default();
        let all = patterns.into_iter().chain(self.above(key, effort)).chain(self.below(key));
        all.take_while(move |_| {
            effort.spend(FOUND_STEPS);
            !effort.is_spent()
        })
    }

    /// Paths that lead to where the key's wildcards begin, or to its end.
    fn above(&self, key: &LockKey, effort: &Effort) -> impl Iterator<Item = &(LockId, LockKey)> {
        let literal = key.folded_literal();
        let ends: Vec<usize> = literal.match_indices('/').map(|(at, _)| at + 1).collect();
        let repository = key.repository().to_owned();
        let lookup = move |end: usize| {
            effort.spend(end);
            self.paths.get(&(repository.clone(), literal[..end].to_owned()))
        };
        ends.into_iter().filter_map(lookup).flatten()
    }

    /// Paths behind that place.
    fn below(&self, key: &LockKey) -> impl Iterator<Item = &(LockId, LockKey)> {
        let literal = key.folded_literal();
        let first = (key.repository().to_owned(), literal.clone());
        let repository = first.0.clone();
        let same = self.paths.range(first..).take_while(move |((other, path), _)| {
            *other == repository && path.starts_with(&literal)
        });
        same.flat_map(|(_, keys)| keys)
    }
}

fn place(key: &LockKey) -> (String, String) {
    (key.repository().to_owned(), key.folded_literal())
}
