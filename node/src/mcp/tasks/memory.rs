//! What this process remembers of tasks, for as long as there is room: which wait of a question
//! is the newest, and how tasks ended that were told of their end.
//!
//! What is forgotten, or was known to the process before, costs nobody a turn: the newest wait is
//! then the newest that is heard of, and a task that is asked about after its end is told what is
//! true by then.

use std::{collections::BTreeMap, sync::Arc};

use rmcp::model::DetailedTask;

use crate::mcp::question::Question;

/// Questions whose newest wait is remembered.
const QUESTIONS_MAX: usize = 4_096;

/// Tasks whose end is remembered.
const ENDS_MAX: usize = 1_024;

/// What these tell together, in bytes of text: a dozen of the largest handovers.
const ENDS_BYTES_MAX: usize = 8 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Memory {
    newest: Recent<Question, u64>,
    ends: Recent<String, Arc<DetailedTask>>,
}

impl Memory {
    /// When a wait begins that is newer than all others of its question.
    pub(super) fn begin(&mut self, question: &Question, now_ms: u64) -> u64 {
        let created_ms = self.newest.get(question).map_or(now_ms, |it| now_ms.max(*it + 1));
        self.newest.put(question.clone(), created_ms, 0);
        self.newest.keep(QUESTIONS_MAX, 0);
        created_ms
    }

    /// The newest wait of a question, of which one is heard that began at `created_ms`.
    pub(super) fn heard_of(&mut self, question: &Question, created_ms: u64) -> u64 {
        match self.newest.get(question) {
            Some(newest) if created_ms <= *newest => *newest,
            Some(_) | None => self.begin(question, created_ms),
        }
    }

    /// The end of which a task was told; it stays its end.
    pub(super) fn end(&mut self, id: &str) -> Option<Arc<DetailedTask>> {
        self.ends.get(id).cloned()
    }

    pub(super) fn told(&mut self, id: &str, end: &Arc<DetailedTask>, bytes: usize) {
        if self.ends.get(id).is_none() {
            self.ends.put(id.to_owned(), Arc::clone(end), bytes);
            self.ends.keep(ENDS_MAX, ENDS_BYTES_MAX);
        }
    }
}

/// What was used last.
#[derive(Debug)]
struct Recent<K, V> {
    by_key: BTreeMap<K, Used<V>>,
    by_use: BTreeMap<u64, K>,
    /// Counts uses.
    clock: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Used<V> {
    at: u64,
    bytes: usize,
    value: V,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { by_key: BTreeMap::new(), by_use: BTreeMap::new(), clock: 0, bytes: 0 }
    }
}

impl<K: Ord + Clone, V> Recent<K, V> {
    fn get<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
    {
        let used = self.by_key.get_mut(key)?;
        self.clock += 1;
        let key = self.by_use.remove(&used.at)?;
        self.by_use.insert(self.clock, key);
        used.at = self.clock;
        Some(&used.value)
    }

    fn put(&mut self, key: K, value: V, bytes: usize) {
        self.clock += 1;
        let used = Used { at: self.clock, bytes, value };
        if let Some(before) = self.by_key.insert(key.clone(), used) {
            self.by_use.remove(&before.at);
            self.bytes -= before.bytes;
        }
        self.by_use.insert(self.clock, key);
        self.bytes += bytes;
    }

    /// Forgets what was not used for longest.
    fn keep(&mut self, count: usize, bytes: usize) {
        while count < self.by_key.len() || bytes < self.bytes {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            self.bytes -= self.by_key.remove(&oldest).map_or(0, |it| it.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{Task, TaskPayload, TaskStatus};

    use super::*;
    use crate::mcp::question::What;

    fn question(name: &str) -> Question {
        Question { role: "B".parse().unwrap(), what: What::Turn(name.parse().unwrap()) }
    }

    #[test]
    fn each_wait_that_begins_is_the_newest_whatever_the_clock_says() {
        let mut memory = Memory::default();
        let (main, side) = (question("main"), question("side"));
        assert_eq!(memory.begin(&main, 100), 100);
        assert_eq!(memory.begin(&main, 100), 101);
        assert_eq!(memory.begin(&main, 50), 102);
        assert_eq!(memory.begin(&side, 50), 50);
        assert_eq!(memory.heard_of(&main, 100), 102);
        assert_eq!(memory.heard_of(&main, 102), 102);
    }

    #[test]
    fn after_a_restart_the_newest_that_is_heard_of_counts() {
        let mut memory = Memory::default();
        let main = question("main");
        for (created, newest) in [(100, 100), (90, 100), (120, 120), (100, 120)] {
            assert_eq!(memory.heard_of(&main, created), newest);
        }
    }

    #[test]
    fn an_end_stays_and_what_is_remembered_is_bounded() {
        let mut memory = Memory::default();
        let end = |id: &str| {
            let task = Task::new(id, TaskStatus::Cancelled, "", "");
            Arc::new(DetailedTask::new(task, TaskPayload::Cancelled))
        };
        memory.told("a", &end("first"), 1);
        memory.told("a", &end("second"), 1);
        assert_eq!(memory.end("a").unwrap().task.task_id, "first");
        for number in 0..2 * ENDS_MAX {
            assert!(memory.end("a").is_some(), "asked about lately: {number}");
            memory.told(&format!("t{number}"), &end(""), 1);
        }
        assert_eq!(memory.ends.by_key.len(), ENDS_MAX);
        memory.told("large", &end(""), ENDS_BYTES_MAX);
        assert_eq!((memory.ends.by_key.len(), memory.ends.bytes), (1, ENDS_BYTES_MAX));
        memory.told("too large", &end(""), ENDS_BYTES_MAX + 1);
        assert_eq!((memory.ends.by_key.len(), memory.ends.bytes), (0, 0));
        for number in 0..QUESTIONS_MAX + 10 {
            memory.begin(&question(&format!("l{number}")), 1);
        }
        assert_eq!(memory.newest.by_key.len(), QUESTIONS_MAX);
        assert_eq!(memory.newest.by_use.len(), QUESTIONS_MAX);
    }
}
