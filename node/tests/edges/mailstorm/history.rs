//! What agents were told, and what must be true for it to have been true.
//!
//! - Each letter that was called stored or queued is there, in the thread that was named, once.
//!   Words without a name of their own may be there again when they were said again after
//!   somebody had seen them.
//! - A sender's letters are in the order in which it said them, in each thread and over all.
//! - What was shown once is never shown otherwise, and is what the sender said.
//! - How far an entry got at a receiver never goes back.
//! - A role has a thread in one box, and in its inbox for as long as something was not handed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tasuki_proto::wire::{Box, MailEntry};

use crate::book::Thread;

/// One letter, by its words, which nobody says twice.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) from: String,
    pub(super) number: u64,
    pub(super) to: BTreeSet<String>,
    /// The thread it answers in.
    pub(super) answers: Option<String>,
    /// It has a name by which it is known again.
    pub(super) is_named: bool,
    /// How often it was said.
    pub(super) tries: u64,
    /// What its sender was told in the end: thread, and the entry's number if it was stored.
    pub(super) told: Option<(String, Option<u64>)>,
}

#[derive(Debug, Default)]
pub(super) struct History {
    /// Answers that came.
    pub(super) steps: u64,
    /// Calls that had to be made again.
    pub(super) again: u64,
    /// Why the latest was.
    pub(super) latest: String,
    pub(super) letters: BTreeMap<String, Letter>,
    pub(super) moves: u64,
    /// Letters and moves that were called queued.
    pub(super) queued: u64,
    /// What stood in a thread under a number.
    shown: BTreeMap<(String, u64), (String, String)>,
    /// How far an entry got at a role, and when that was known first.
    far: BTreeMap<(String, u64, String), (u8, u64)>,
    /// Counts calls and answers.
    moment: u64,
}

impl History {
    /// Before a call: what is known by then must be in its answer.
    pub(super) fn begins(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// Entries of `thread` as an answer has them to a call that began at `asked`.
    pub(super) fn saw(&mut self, asked: u64, thread: &Value) {
        let id = thread["message_id"].as_str().unwrap();
        for entry in thread["entries"].as_array().unwrap() {
            let number = entry["number"].as_u64().unwrap();
            let (from, text) = (entry["from"].as_str().unwrap(), entry["text"].as_str().unwrap());
            let shown = (from.to_owned(), text.to_owned());
            let before = self.shown.entry((id.to_owned(), number)).or_insert_with(|| shown.clone());
            assert_eq!(*before, shown, "entry {number} of {id} became another");
            // What a node remembers may be behind.
            if thread["seen_ms_ago"].is_number() {
                continue;
            }
            self.moment += 1;
            for (role, receipt) in entry["receipts"].as_object().into_iter().flatten() {
                let rank = rank(receipt.as_str().unwrap());
                let key = (id.to_owned(), number, role.clone());
                let (known, since) = self.far.entry(key).or_insert((rank, self.moment));
                assert!(
                    *known <= rank || asked <= *since,
                    "entry {number} of {id} at {role} went from {known} back to {rank}"
                );
                if *known < rank {
                    (*known, *since) = (rank, self.moment);
                }
            }
        }
    }

    pub(super) fn summary(&self) -> String {
        let letters = self.letters.len();
        let (moves, queued, again) = (self.moves, self.queued, self.again);
        format!(
            "{letters} letters and {moves} moves, {queued} queued, {again} calls again ({})",
            self.latest
        )
    }

    /// Whether all of it fits what there is.
    pub(super) fn check(&self, all: &BTreeMap<String, Thread>) {
        let mut found: BTreeMap<&str, Vec<(&str, &MailEntry)>> = BTreeMap::new();
        for (id, thread) in all {
            for (number, entry) in (1..).zip(&thread.entries) {
                assert_eq!(entry.number, number, "{id}");
                found.entry(&entry.text).or_default().push((id, entry));
            }
            check_boxes(id, thread);
        }
        for (text, places) in &mut found {
            let letter = self.letters.get(*text).unwrap_or_else(|| panic!("nobody said {text:?}"));
            places.sort_by_key(|(_, entry)| (entry.at_ms, entry.number));
            letter.check(text, places);
        }
        for (text, letter) in &self.letters {
            assert!(
                letter.told.is_none() || found.contains_key(text.as_str()),
                "{letter:?} is lost"
            );
        }
        for ((id, number), (from, text)) in &self.shown {
            let entry = &all[id].entries[usize::try_from(number - 1).unwrap()];
            assert_eq!((&entry.sender, &entry.text), (from, text), "entry {number} of {id}");
        }
        for ((id, number, role), (rank, _)) in &self.far {
            let entry = &all[id].entries[usize::try_from(number - 1).unwrap()];
            let receipt = entry.receipts.iter().find(|it| it.role == *role).unwrap();
            let is_so = [
                receipt.stored_ms != 0,
                receipt.handed_ms != 0,
                receipt.seen_ms != 0,
                receipt.acted_ms != 0,
            ];
            assert!(
                is_so[usize::from(*rank)],
                "entry {number} of {id} at {role} was {rank}: {entry:?}"
            );
        }
        self.check_order(&found);
    }

    fn check_order(&self, found: &BTreeMap<&str, Vec<(&str, &MailEntry)>>) {
        let mut latest: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        let mut of_thread: BTreeMap<(&str, &str), (u64, u32)> = BTreeMap::new();
        let mut in_order: Vec<_> = self.letters.iter().collect();
        in_order.sort_by_key(|(_, letter)| letter.number);
        for (text, letter) in in_order {
            let Some((thread, entry)) = found.get(text.as_str()).map(|it| it[0]) else { continue };
            let here = (entry.at_ms, letter.number);
            let before = latest.insert(&letter.from, here).unwrap_or_default();
            assert!(before <= here, "{}: {before:?}, then {here:?}", letter.from);
            let here = (letter.number, entry.number);
            let before = of_thread.insert((&letter.from, thread), here).unwrap_or_default();
            assert!(before.1 < here.1, "{} in {thread}: {before:?}, then {here:?}", letter.from);
        }
    }
}

impl Letter {
    /// `places`: where its words are, the oldest first.
    fn check(&self, text: &str, places: &[(&str, &MailEntry)]) {
        for (thread, entry) in places {
            assert_eq!(entry.sender, self.from, "{text:?}");
            let to: BTreeSet<String> = entry.receivers.iter().cloned().collect();
            assert_eq!(to, self.to, "{text:?}");
            let begins = entry.number == 1;
            assert_eq!(begins, self.answers.is_none(), "{text:?} is {entry:?}");
            assert!(self.answers.as_ref().is_none_or(|it| it == thread), "{text:?} is in {thread}");
        }
        for pair in places.windows(2) {
            let (before, after) = (pair[0].1, pair[1].1);
            let seen = before.receipts.iter().map(|it| it.seen_ms).filter(|it| *it != 0).min();
            let was_seen = seen.is_some_and(|seen| seen <= after.at_ms);
            let may_be = !self.is_named && 1 < self.tries && was_seen;
            assert!(may_be, "{text:?} is there {} times: {places:?}\n{self:?}", places.len());
        }
        let Some((thread, number)) = &self.told else { return };
        let is_told = |(id, entry): &(&str, &MailEntry)| {
            id == thread && number.is_none_or(|number| number == u64::from(entry.number))
        };
        // Without a name, nothing but the broker knows that it is the same, and it was away.
        let may_be_elsewhere = !self.is_named && 1 < self.tries && number.is_none();
        assert!(
            may_be_elsewhere || places.iter().any(is_told),
            "{text:?}: {self:?} is at {places:?}"
        );
    }
}

fn check_boxes(id: &str, thread: &Thread) {
    let (mut all, mut unhanded) = (BTreeSet::new(), BTreeSet::new());
    for entry in &thread.entries {
        all.extend([&entry.sender].into_iter().chain(&entry.receivers));
        let of_entry = entry.receipts.iter().filter(|it| it.handed_ms == 0);
        unhanded.extend(of_entry.map(|it| &it.role));
    }
    let has: BTreeSet<_> = thread.boxes.keys().collect();
    assert_eq!(has, all, "{id}");
    for (role, boxes) in &thread.boxes {
        assert_eq!(boxes.len(), 1, "{role} has {id} in {boxes:?}");
        let is_waiting = unhanded.contains(role);
        assert!(!is_waiting || boxes[0] == Box::Inbox, "{role} was not handed {id}: {boxes:?}");
        let is_receiver = thread.entries.iter().any(|it| it.receivers.contains(role));
        assert!(is_receiver || boxes[0] == Box::Outbox, "{role} only wrote in {id}: {boxes:?}");
    }
}

/// How far that is.
fn rank(receipt: &str) -> u8 {
    match receipt {
        "stored" => 0,
        // Put aside is what was handed too often.
        "handed" | "dead" => 1,
        "seen" => 2,
        "acted" => 3,
        other => panic!("nobody promised {other}"),
    }
}
