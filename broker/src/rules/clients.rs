//! The answers a workspace can still repeat: the transport layer against doing things twice.
//!
//! A client numbers its intents. The latest [`KEY_WINDOW`] answers of each client are kept and
//! given again; a key below the window is refused and never executed. A client that was quiet
//! for long is *retired* when room is needed: only its highest counter stays.
//!
//! - **W3** A key that had an effect never has another: it is answered, or it is refused.

use std::collections::BTreeMap;

use tasuki_proto::{
    id::{ClientId, IdempotencyKey, Sequence, Timestamp},
    limits::KEY_WINDOW,
};

use super::{Rejection, Reply};
use crate::hash::Hash;

/// Clients whose answers are kept. Past it the one quiet the longest is retired.
pub const CLIENTS_MAX: usize = 1024;

/// Clients of which only the highest counter is kept.
pub const RETIRED_MAX: usize = 65_536;

/// How long a retired client is remembered at least, in milliseconds: no retry lasts 30 days.
pub const RETIRED_MS_MIN: u64 = 30 * 24 * 3600 * 1000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Clients {
    pub active: BTreeMap<ClientId, Client>,
    pub retired: BTreeMap<ClientId, Retired>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    pub highest: u64,
    pub last: Timestamp,
    pub answers: BTreeMap<u64, Answer>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub request: Hash,
    pub sequence: Sequence,
    pub reply: Reply,
    pub is_repeat: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retired {
    pub highest: u64,
    pub last: Timestamp,
}

impl Clients {
    /// The answer given before under `key`; `None` when the key is new.
    pub(super) fn answer(
        &self,
        key: &IdempotencyKey,
        request: Hash,
        now: Timestamp,
    ) -> Result<Option<&Answer>, Rejection> {
        let expired = |highest| Rejection::KeyExpired { key: key.clone(), highest };
        if let Some(client) = self.active.get(&key.client) {
            return match client.answers.get(&key.counter) {
                Some(answer) if answer.request == request => Ok(Some(answer)),
                Some(_) => Err(Rejection::KeyReused { key: key.clone() }),
                None if is_below_window(key.counter, client.highest) => {
                    Err(expired(client.highest))
                }
                None => Ok(None),
            };
        }
        match self.retired.get(&key.client) {
            Some(retired) if key.counter <= retired.highest => Err(expired(retired.highest)),
            Some(_) => Ok(None),
            None => {
                let is_full = CLIENTS_MAX <= self.active.len()
                    && RETIRED_MAX <= self.retired.len()
                    && self.forgettable(now).is_none();
                if is_full { Err(Rejection::TooManyClients) } else { Ok(None) }
            }
        }
    }

    /// Keeps what `key` was answered.
    pub(super) fn remember(&mut self, key: &IdempotencyKey, answer: Answer, now: Timestamp) {
        if !self.active.contains_key(&key.client) {
            let highest = self.retired.remove(&key.client).map_or(0, |retired| retired.highest);
            self.make_room(now);
            let client = Client { highest, last: now, answers: BTreeMap::new() };
            self.active.insert(key.client.clone(), client);
        }
        let client = self.active.get_mut(&key.client).expect("just put there");
        client.last = now;
        client.highest = client.highest.max(key.counter);
        let earlier = client.answers.insert(key.counter, answer);
        assert!(earlier.is_none(), "W3: {key} had an effect before: {earlier:?}");
        while let Some((oldest, _)) = client.answers.first_key_value()
            && is_below_window(*oldest, client.highest)
        {
            client.answers.pop_first();
        }
    }

    fn make_room(&mut self, now: Timestamp) {
        if self.active.len() < CLIENTS_MAX {
            return;
        }
        let quietest = self.active.iter().min_by_key(|(id, client)| (client.last, *id));
        let Some(id) = quietest.map(|(id, _)| id.clone()) else { return };
        let client = self.active.remove(&id).expect("just found");
        if RETIRED_MAX <= self.retired.len()
            && let Some(forgotten) = self.forgettable(now).cloned()
        {
            self.retired.remove(&forgotten);
        }
        self.retired.insert(id, Retired { highest: client.highest, last: client.last });
    }

    fn forgettable(&self, now: Timestamp) -> Option<&ClientId> {
        let (id, oldest) = self.retired.iter().min_by_key(|(id, retired)| (retired.last, *id))?;
        (RETIRED_MS_MIN <= now.millis_since(oldest.last)).then_some(id)
    }
}

fn is_below_window(counter: u64, highest: u64) -> bool {
    KEY_WINDOW <= highest.saturating_sub(counter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_counter_is_a_counter_like_any_other() {
        let mut clients = Clients::default();
        let (now, hash) = (Timestamp::from_millis(1), Hash::of(b"request"));
        for counter in [1, u64::MAX - 1] {
            let key = IdempotencyKey { client: "a".parse().unwrap(), counter };
            assert_eq!(clients.answer(&key, hash, now), Ok(None));
            let answer = Answer {
                request: hash,
                sequence: Sequence::NONE.next(),
                reply: Reply::Done,
                is_repeat: false,
            };
            clients.remember(&key, answer, now);
            assert!(clients.answer(&key, hash, now).unwrap().is_some());
        }
        let old = IdempotencyKey { client: "a".parse().unwrap(), counter: 1 };
        let refused = clients.answer(&old, hash, now);
        assert!(matches!(refused, Err(Rejection::KeyExpired { .. })), "{refused:?}");
    }
}
