//! Idempotency keys of forms: one for each form that was rendered, however often it is sent.
//!
//! A form names its key by chance; the counter is given when it is first sent, so that pages may
//! stay open for days. Sent again later than [`KEPT_MAX`] others, or after a restart, it is a new
//! command, which the rules know again where that matters: a turn is named, and a letter has a
//! reference of its own.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use tasuki_proto::wire;

/// Forms whose counter is remembered: as many as the broker remembers answers of a client.
const KEPT_MAX: usize = 256;

/// Bytes of chance in a name.
const CHANCE_BYTES: usize = 16;

#[derive(Debug)]
pub(super) struct Keys {
    client_id: String,
    sent: Mutex<Sent>,
}

#[derive(Debug, Default)]
struct Sent {
    highest: u64,
    counters: BTreeMap<String, u64>,
    /// Oldest first.
    names: VecDeque<String>,
}

impl Keys {
    pub(super) fn new() -> Self {
        Self { client_id: format!("web-{}", chance()), sent: Mutex::default() }
    }

    /// The key of the form with this name.
    pub(super) fn of_form(&self, name: &str) -> wire::IdempotencyKey {
        let mut sent = self.sent.lock();
        let counter = match sent.counters.get(name) {
            Some(counter) => *counter,
            None => {
                sent.highest += 1;
                let counter = sent.highest;
                sent.counters.insert(name.to_owned(), counter);
                sent.names.push_back(name.to_owned());
                if KEPT_MAX < sent.names.len()
                    && let Some(oldest) = sent.names.pop_front()
                {
                    sent.counters.remove(&oldest);
                }
                counter
            }
        };
        wire::IdempotencyKey { client_id: self.client_id.clone(), counter }
    }
}

/// A name that nobody guesses and no other has.
pub(super) fn chance() -> String {
    let mut bytes = [0; CHANCE_BYTES];
    getrandom::fill(&mut bytes).expect("the system's random source works");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use tasuki_proto::limits::KEY_WINDOW;

    use super::*;

    #[test]
    fn a_form_that_is_sent_twice_has_one_key() {
        let keys = Keys::new();
        let (one, other) = (keys.of_form("a"), keys.of_form("b"));
        assert_eq!((one.counter, other.counter), (1, 2));
        assert_eq!(keys.of_form("a"), one);
        for number in 0..KEPT_MAX {
            keys.of_form(&number.to_string());
        }
        assert_eq!(KEPT_MAX as u64, KEY_WINDOW);
        assert_eq!(keys.of_form("a").counter, 3 + KEY_WINDOW);
        assert!(keys.sent.lock().counters.len() <= KEPT_MAX);
    }
}
