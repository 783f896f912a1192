//! All threads, by number and by id.
//!
//! A number is forever: that of a thread which was removed stays empty. Threads stand in chunks, so
//! that a growing shelf is never copied; a chunk of which all are removed takes no memory.

use std::{collections::BTreeSet, iter};

use tasuki_proto::mail::MessageId;

use super::thread::{Thread, ThreadNumber};

/// Threads of one chunk: at 96 bytes each some 400 KB.
const CHUNK: usize = 4096;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadTable {
    /// Each full, but for the last, and for those of which all threads are removed.
    chunks: Vec<Vec<Thread>>,
    /// Of the thread that begins next.
    next: ThreadNumber,
    /// Derived: by the first eight digits of the id.
    by_short: BTreeSet<(u32, ThreadNumber)>,
}

/// What is at one number or more of them.
#[derive(Debug, Clone, Copy)]
pub enum Slot<'a> {
    Thread(&'a Thread),
    /// So many threads one after the other were removed.
    Removed(u32),
}

impl ThreadTable {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_short.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_short.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Thread> {
        self.chunks.iter().flatten().filter(|it| !it.is_empty())
    }

    /// The number of the thread that begins next.
    pub fn next(&self) -> ThreadNumber {
        self.next
    }

    /// All numbers, in order.
    pub fn slots(&self) -> impl Iterator<Item = Slot<'_>> {
        let mut numbers = (0..self.next.0).map(ThreadNumber).peekable();
        iter::from_fn(move || {
            if let Some(thread) = self.at(numbers.next()?) {
                return Some(Slot::Thread(thread));
            }
            let mut count = 1;
            while numbers.next_if(|it| !self.has(*it)).is_some() {
                count += 1;
            }
            Some(Slot::Removed(count))
        })
    }

    pub fn get(&self, number: ThreadNumber) -> &Thread {
        let at = number.0 as usize;
        &self.chunks[at / CHUNK][at % CHUNK]
    }

    pub fn has(&self, number: ThreadNumber) -> bool {
        self.at(number).is_some()
    }

    fn at(&self, number: ThreadNumber) -> Option<&Thread> {
        let at = number.0 as usize;
        self.chunks.get(at / CHUNK)?.get(at % CHUNK).filter(|it| !it.is_empty())
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
        self.by_short.insert((thread.id.short(), self.next));
        self.place(thread)
    }

    /// So many that were removed, before those that come next.
    pub(super) fn push_removed(&mut self, count: u32) {
        for _ in 0..count {
            let number = self.place(Thread::removed());
            self.free(number);
        }
    }

    /// Takes a thread out.
    pub(super) fn remove(&mut self, number: ThreadNumber) {
        let thread = std::mem::replace(self.get_mut(number), Thread::removed());
        self.by_short.remove(&(thread.id.short(), number));
        self.free(number);
    }

    fn place(&mut self, thread: Thread) -> ThreadNumber {
        let number = self.next;
        self.next = ThreadNumber(number.0 + 1);
        if (number.0 as usize).is_multiple_of(CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK.min(self.len().max(4))));
        }
        self.chunks.last_mut().expect("just seen").push(thread);
        number
    }

    /// Lets go of a chunk in which nothing is left and to which nothing comes any more.
    fn free(&mut self, number: ThreadNumber) {
        let chunk = &mut self.chunks[number.0 as usize / CHUNK];
        if chunk.len() == CHUNK && chunk.iter().all(Thread::is_empty) {
            *chunk = Vec::new();
        }
    }

    pub(super) fn get_mut(&mut self, number: ThreadNumber) -> &mut Thread {
        let at = number.0 as usize;
        &mut self.chunks[at / CHUNK][at % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::rules::mailbox::Head;

    fn thread(number: u32) -> Thread {
        let heads = smallvec![Head { to: 1, sender: 0, kind: 1, hops: 0 }];
        Thread::new(MessageId::from_bits(u128::from(number + 1) << 96), heads, smallvec![], vec![])
    }

    /// As a snapshot has it.
    fn copied(table: &ThreadTable) -> ThreadTable {
        let mut copy = ThreadTable::default();
        for slot in table.slots() {
            match slot {
                Slot::Thread(thread) => _ = copy.push(thread.clone()),
                Slot::Removed(count) => copy.push_removed(count),
            }
        }
        copy
    }

    #[test]
    fn numbers_stay_when_threads_are_removed_and_whole_chunks_take_no_memory() {
        let chunk = u32::try_from(CHUNK).unwrap();
        let all = 2 * chunk + 5;
        let mut table = ThreadTable::default();
        for number in 0..all {
            assert_eq!(table.push(thread(number)), ThreadNumber(number));
        }
        for number in (0..chunk).chain([chunk + 1, all - 1]) {
            table.remove(ThreadNumber(number));
            assert!(!table.has(ThreadNumber(number)));
            assert_eq!(table.find(thread(number).id), None);
        }
        assert_eq!(table.len(), 2 * CHUNK + 5 - CHUNK - 2);
        assert_eq!(table.iter().count(), table.len());
        assert_eq!(table.chunks[0].capacity(), 0);
        assert_eq!(table.find(thread(chunk).id), Some(ThreadNumber(chunk)));
        assert_eq!(copied(&table), table);
        assert_eq!(table.push(thread(all)), ThreadNumber(all));
        for number in chunk..=all {
            if table.has(ThreadNumber(number)) {
                table.remove(ThreadNumber(number));
            }
        }
        assert!(table.is_empty());
        assert_eq!(copied(&table), table);
        assert_eq!(table.push(thread(all + 1)), ThreadNumber(all + 1));
    }
}
