//! All threads, by number and by id.
//!
//! Threads are never taken out, so a number is forever. They stand in chunks, so that a growing
//! shelf is never copied.

use std::collections::BTreeSet;

use tasuki_proto::mail::MessageId;

use super::thread::{Thread, ThreadNumber};

/// Threads of one chunk: at 96 bytes each some 400 KB.
const CHUNK: usize = 4096;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadTable {
    chunks: Vec<Vec<Thread>>,
    /// Derived: by the first eight digits of the id.
    by_short: BTreeSet<(u32, ThreadNumber)>,
}

impl ThreadTable {
    pub fn len(&self) -> usize {
        self.by_short.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_short.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Thread> {
        self.chunks.iter().flatten()
    }

    pub fn get(&self, number: ThreadNumber) -> &Thread {
        let at = number.0 as usize;
        &self.chunks[at / CHUNK][at % CHUNK]
    }

    pub fn has(&self, number: ThreadNumber) -> bool {
        (number.0 as usize) < self.len()
    }

    pub fn find(&self, id: MessageId) -> Option<ThreadNumber> {
        let first = (id.short(), ThreadNumber::default());
        let same = self.by_short.range(first..).take_while(|(short, _)| *short == id.short());
        same.map(|(_, number)| *number).find(|number| self.get(*number).id == id)
    }

    /// Threads whose ids begin with these hexadecimal digits, by id; none for other text.
    pub fn with_prefix(&self, digits: &str) -> impl Iterator<Item = ThreadNumber> {
        /// Digits of an id.
        const DIGITS: usize = 32;
        let digits = digits.get(..DIGITS.min(digits.len())).unwrap_or_default();
        let (count, bits) = (digits.len(), u128::from_str_radix(digits, 16).ok());
        let range = bits.map(|bits| {
            let left = 4 * (DIGITS - count);
            let low = bits << left;
            (low, low | ((1 << left) - 1))
        });
        let short = |bits| MessageId::from_bits(bits).short();
        let found = range.map(|(low, high)| {
            let ends = ThreadNumber(u32::MAX);
            let near =
                self.by_short.range((short(low), ThreadNumber::default())..=(short(high), ends));
            near.map(|(_, number)| *number)
                .filter(move |number| (low..=high).contains(&self.get(*number).id.bits()))
        });
        found.into_iter().flatten()
    }

    pub(super) fn push(&mut self, thread: Thread) -> ThreadNumber {
        let number = ThreadNumber(u32::try_from(self.len()).expect("at most THREADS_MAX"));
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK.min(self.len().max(4))));
        }
        self.by_short.insert((thread.id.short(), number));
        self.chunks.last_mut().expect("just seen").push(thread);
        number
    }

    pub(super) fn get_mut(&mut self, number: ThreadNumber) -> &mut Thread {
        let at = number.0 as usize;
        &mut self.chunks[at / CHUNK][at % CHUNK]
    }
}
