//! What agents and people were told, against what the broker kept.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Loops and what is in them, as a node tells it.
pub(super) type Histories = BTreeMap<String, Vec<Value>>;

/// Words are said once: an intent is known by its words.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Who was given each turn of each loop.
    given: BTreeMap<(String, u64), String>,
    /// What was acknowledged, and of which loop.
    done: BTreeMap<String, String>,
    /// What was refused and cannot have been carried out.
    refused: BTreeSet<String>,
    /// What nobody asked about again.
    unknown: BTreeSet<String>,
    /// The latest turn of each loop that anybody was given.
    pub(super) turns: BTreeMap<String, u64>,
    /// Calls that had to be made again.
    pub(super) again: usize,
}

impl Ledger {
    pub(super) fn given(&mut self, of: &str, turn: u64, role: &str) {
        let had = self.given.entry((of.to_owned(), turn)).or_insert_with(|| role.to_owned());
        assert_eq!(had, role, "turn {turn} of {of} was given to two");
        let latest = self.turns.entry(of.to_owned()).or_default();
        *latest = turn.max(*latest);
    }

    pub(super) fn done(&mut self, of: &str, words: &str) {
        let had = self.done.insert(words.to_owned(), of.to_owned());
        assert_eq!(had, None, "{words} was done twice");
    }

    pub(super) fn refused(&mut self, words: &str) {
        self.refused.insert(words.to_owned());
    }

    pub(super) fn unknown(&mut self, words: &str) {
        self.unknown.insert(words.to_owned());
    }

    /// Holds the histories of all loops against what was told.
    pub(super) fn check(&self, histories: &Histories) {
        let mut kept = BTreeMap::new();
        for (of, history) in histories {
            for (entry, number) in history.iter().zip(1_u64..) {
                assert_eq!(entry["number"], number, "{of}: {entry}");
                assert_eq!(entry["ended_turn"], number, "{of}: {entry}");
                let next = if entry["is_task_complete"] == true { 0 } else { number + 1 };
                assert_eq!(entry["turn"], next, "{of}: {entry}");
                let words = match entry["kind"].as_str().unwrap() {
                    "handover" => {
                        let holder = self.given.get(&(of.clone(), number));
                        assert_eq!(entry["from"].as_str(), holder.map(String::as_str), "{entry}");
                        &entry["summary"]
                    }
                    _ => &entry["reason"],
                };
                let words = words.as_str().unwrap().to_owned();
                let twice = kept.insert(words, of.clone());
                assert_eq!(twice, None, "{of}: {entry}");
            }
        }
        for (words, of) in &self.done {
            assert_eq!(kept.get(words), Some(of), "{words} was acknowledged");
        }
        for (words, of) in &kept {
            assert!(!self.refused.contains(words), "{of}: {words} was refused");
            let is_known = self.done.contains_key(words) || self.unknown.contains(words);
            assert!(is_known, "{of}: nobody said {words}");
        }
    }

    pub(super) fn summary(&self) -> String {
        let Self { given, done, refused, unknown, again, .. } = self;
        format!(
            "{} turns given, {} commands acknowledged, {} refused, {} left unknown, {again} calls \
             made again",
            given.len(),
            done.len(),
            refused.len(),
            unknown.len()
        )
    }
}
