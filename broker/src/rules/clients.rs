//! The answers a workspace can still repeat: the transport layer against doing things twice.
//!
//! A client numbers its intents. The latest [`KEY_WINDOW`] answers of each client are kept and
//! given again; a key below the window is refused and never executed. A client that was quiet
//! for long is *retired* when room is needed: only its highest counter stays.
//!
//! A client is its token's: the same name with another token is another client, so that nobody can
//! read another's answers or push its window.
//!
//! W3 says what this is for: a key that had an effect with one token never has another with it. It
//! is answered, or it is refused.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{ClientId, IdempotencyKey, Sequence, Timestamp, TokenId},
    limits::KEY_WINDOW,
};

use super::{Kept, Rejection, Reply};
use crate::hash::Hash;

/// Clients whose answers are kept. Past it the one quiet the longest is retired.
pub const CLIENTS_MAX: usize = 1024;

/// Clients of which only the highest counter is kept.
pub const RETIRED_MAX: usize = 65_536;

/// Clients of one token whose answers are kept, a sixteenth of all: a node is one client, and so
/// is whoever types commands beside it. Past it the token's own quietest is retired.
pub const CLIENTS_PER_TOKEN_MAX: usize = 64;

/// Clients of one token of which only the highest counter is kept, one in 32 of all: some seventy
/// new ones a day.
pub const RETIRED_PER_TOKEN_MAX: usize = 2048;

/// How long a retired client is remembered at least, in milliseconds: no retry lasts 30 days.
pub const RETIRED_MS_MIN: u64 = 30 * 24 * 3600 * 1000;

/// Whose client it is; `None` where the broker asked for no token.
pub type Owner = Option<TokenId>;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Clients {
    by_owner: BTreeMap<Owner, Owned>,
    /// Derived: of all owners.
    active: usize,
    /// Derived: of all owners.
    retired: usize,
}

/// The clients of one token. Never without any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Owned {
    active: BTreeMap<ClientId, Client>,
    retired: BTreeMap<ClientId, Retired>,
    /// Derived: the retired, by when they were last heard.
    by_last: BTreeSet<(Timestamp, ClientId)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Client {
    #[n(0)]
    pub highest: u64,
    #[n(1)]
    pub last: Timestamp,
    #[n(2)]
    pub answers: BTreeMap<u64, Answer>,
    /// Where it was retired before: the highest counter then. Up to it no answer is known.
    #[n(3)]
    pub retired_at: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Answer {
    #[n(0)]
    pub request: Hash,
    #[n(1)]
    pub sequence: Sequence,
    #[n(2)]
    pub reply: Reply,
    #[n(3)]
    pub is_repeat: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Retired {
    #[n(0)]
    pub highest: u64,
    #[n(1)]
    pub last: Timestamp,
}

/// What a snapshot holds.
#[derive(Debug, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotItem<'a> {
    #[n(0)]
    /// Answers name what was granted, so they are not exported.
    #[serde(skip)]
    Active(#[n(0)] Cow<'a, Owner>, #[n(1)] Cow<'a, ClientId>, #[n(2)] Cow<'a, Client>),
    #[n(1)]
    Retired(#[n(0)] Cow<'a, Owner>, #[n(1)] Cow<'a, ClientId>, #[n(2)] Cow<'a, Retired>),
}

impl Kept for Clients {
    type Item<'a> = SnapshotItem<'a>;

    fn items(&self) -> impl Iterator<Item = SnapshotItem<'_>> {
        let active = self.active().map(|(owner, id, it)| {
            SnapshotItem::Active(Cow::Borrowed(owner), Cow::Borrowed(id), Cow::Borrowed(it))
        });
        active.chain(self.retired().map(|(owner, id, it)| {
            SnapshotItem::Retired(Cow::Borrowed(owner), Cow::Borrowed(id), Cow::Borrowed(it))
        }))
    }

    fn restore(&mut self, item: SnapshotItem<'_>) -> Result<(), &'static str> {
        match item {
            SnapshotItem::Active(owner, id, it) => {
                self.activate(&owner, id.into_owned(), it.into_owned())
            }
            SnapshotItem::Retired(owner, id, it) => {
                self.retire(&owner, id.into_owned(), it.into_owned())
            }
        }
        Ok(())
    }
}

impl Clients {
    /// Those whose answers are kept.
    pub fn active(&self) -> impl Iterator<Item = (&Owner, &ClientId, &Client)> {
        let owners = self.by_owner.iter();
        owners.flat_map(|(owner, own)| own.active.iter().map(move |(id, it)| (owner, id, it)))
    }

    /// Those of which only the highest counter is kept.
    pub fn retired(&self) -> impl Iterator<Item = (&Owner, &ClientId, &Retired)> {
        let owners = self.by_owner.iter();
        owners.flat_map(|(owner, own)| own.retired.iter().map(move |(id, it)| (owner, id, it)))
    }

    /// The answer given before to `owner` under `key`; `None` when the key is new.
    pub(super) fn answer(
        &self,
        owner: &Owner,
        key: &IdempotencyKey,
        request: Hash,
        now: Timestamp,
    ) -> Result<Option<&Answer>, Rejection> {
        let expired = |highest| Rejection::KeyExpired { key: key.clone(), highest };
        let own = self.by_owner.get(owner);
        if let Some(client) = own.and_then(|own| own.active.get(&key.client)) {
            return match client.answers.get(&key.counter) {
                Some(answer) if answer.request == request => Ok(Some(answer)),
                Some(_) => Err(Rejection::KeyReused { key: key.clone() }),
                None if client.is_expired(key.counter) => Err(expired(client.highest)),
                None => Ok(None),
            };
        }
        match own.and_then(|own| own.retired.get(&key.client)) {
            Some(retired) if key.counter <= retired.highest => Err(expired(retired.highest)),
            Some(_) => Ok(None),
            None => self.check_room(owner, now).map(|()| None),
        }
    }

    /// Keeps what `key` was answered.
    pub(super) fn remember(
        &mut self,
        owner: &Owner,
        key: &IdempotencyKey,
        answer: Answer,
        now: Timestamp,
    ) {
        let client = match self.by_owner.get_mut(owner) {
            Some(own) if own.active.contains_key(&key.client) => own.active.get_mut(&key.client),
            Some(_) | None => {
                self.admit(owner, &key.client, now);
                self.by_owner.get_mut(owner).and_then(|own| own.active.get_mut(&key.client))
            }
        };
        let client = client.expect("it is there, or was just put there");
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

    /// Whether one more client can be remembered. Retiring makes none: what counts is how many
    /// are known.
    fn check_room(&self, owner: &Owner, now: Timestamp) -> Result<(), Rejection> {
        if let Some(token) = owner
            && self.is_owner_full(owner)
            && self.by_owner[owner].forgettable(now).is_none()
        {
            return Err(Rejection::TooManyClientsOfToken { token: token.clone() });
        }
        if self.is_full() && self.forgettable(now).is_none() {
            return Err(Rejection::TooManyClients);
        }
        Ok(())
    }

    /// A client that is new, or was retired, has its answers kept from here on.
    fn admit(&mut self, owner: &Owner, id: &ClientId, now: Timestamp) {
        let retired_at = self.forget(owner, id).map(|retired| retired.highest);
        if retired_at.is_none() {
            self.make_room(owner, now);
        }
        let own = self.by_owner.get(owner);
        let is_own_full =
            owner.is_some() && own.is_some_and(|own| CLIENTS_PER_TOKEN_MAX <= own.active.len());
        if is_own_full {
            let quietest = own.and_then(Owned::quietest).cloned().expect("it has some");
            self.put_aside(owner, &quietest);
        } else if CLIENTS_MAX <= self.active {
            let quietest =
                self.active().min_by_key(|(owner, id, client)| (client.last, *owner, *id));
            let (owner, id, _) = quietest.expect("there are some");
            let (owner, id) = (owner.clone(), id.clone());
            self.put_aside(&owner, &id);
        }
        let highest = retired_at.unwrap_or_default();
        let client = Client { highest, last: now, answers: BTreeMap::new(), retired_at };
        self.activate(owner, id.clone(), client);
    }

    /// Forgets all answers and keeps which keys there were: what the answers name was granted
    /// before a restore.
    pub(super) fn fence(&mut self) {
        let all: Vec<(Owner, ClientId)> =
            self.active().map(|(owner, id, _)| (owner.clone(), id.clone())).collect();
        for (owner, id) in all {
            self.put_aside(&owner, &id);
        }
    }

    /// Forgets what may be forgotten where a limit is reached.
    fn make_room(&mut self, owner: &Owner, now: Timestamp) {
        if self.is_owner_full(owner)
            && let Some(id) = self.by_owner[owner].forgettable(now).cloned()
        {
            self.forget(owner, &id);
        }
        if self.is_full()
            && let Some((owner, id)) = self.forgettable(now)
        {
            let (owner, id) = (owner.clone(), id.clone());
            self.forget(&owner, &id);
        }
    }

    fn is_full(&self) -> bool {
        CLIENTS_MAX + RETIRED_MAX <= self.active + self.retired
    }

    fn is_owner_full(&self, owner: &Owner) -> bool {
        let known = self.by_owner.get(owner).map_or(0, |own| own.active.len() + own.retired.len());
        owner.is_some() && CLIENTS_PER_TOKEN_MAX + RETIRED_PER_TOKEN_MAX <= known
    }

    fn forgettable(&self, now: Timestamp) -> Option<(&Owner, &ClientId)> {
        let oldest =
            self.by_owner.iter().filter_map(|(owner, own)| Some((own.by_last.first()?, owner)));
        let ((last, id), owner) = oldest.min()?;
        is_forgettable(*last, now).then_some((owner, id))
    }

    fn activate(&mut self, owner: &Owner, id: ClientId, client: Client) {
        let own = self.by_owner.entry(owner.clone()).or_default();
        self.active += usize::from(own.active.insert(id, client).is_none());
    }

    fn retire(&mut self, owner: &Owner, id: ClientId, it: Retired) {
        let own = self.by_owner.entry(owner.clone()).or_default();
        own.by_last.insert((it.last, id.clone()));
        self.retired += usize::from(own.retired.insert(id, it).is_none());
    }

    /// Keeps only the highest counter.
    fn put_aside(&mut self, owner: &Owner, id: &ClientId) {
        let own = self.by_owner.get_mut(owner).expect("it has this one");
        let client = own.active.remove(id).expect("just found");
        self.active -= 1;
        self.retire(owner, id.clone(), Retired { highest: client.highest, last: client.last });
    }

    fn forget(&mut self, owner: &Owner, id: &ClientId) -> Option<Retired> {
        let own = self.by_owner.get_mut(owner)?;
        let it = own.retired.remove(id)?;
        own.by_last.remove(&(it.last, id.clone()));
        self.retired -= 1;
        if own.active.is_empty() && own.retired.is_empty() {
            self.by_owner.remove(owner);
        }
        Some(it)
    }
}

impl Client {
    /// Whether a key had its answer, if any, so long ago that nobody knows it.
    fn is_expired(&self, counter: u64) -> bool {
        is_below_window(counter, self.highest) || self.retired_at.is_some_and(|it| counter <= it)
    }
}

impl Owned {
    fn quietest(&self) -> Option<&ClientId> {
        let quietest = self.active.iter().min_by_key(|(id, client)| (client.last, *id));
        quietest.map(|(id, _)| id)
    }

    fn forgettable(&self, now: Timestamp) -> Option<&ClientId> {
        let (last, id) = self.by_last.first()?;
        is_forgettable(*last, now).then_some(id)
    }
}

fn is_forgettable(last: Timestamp, now: Timestamp) -> bool {
    RETIRED_MS_MIN <= now.millis_since(last)
}

fn is_below_window(counter: u64, highest: u64) -> bool {
    KEY_WINDOW <= highest.saturating_sub(counter)
}

#[cfg(test)]
mod tests;
