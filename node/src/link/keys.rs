//! Idempotency keys, one per intent, handed out so that none can expire while in use.
//!
//! The broker refuses a key that is [`KEY_WINDOW`] below the highest it saw from the client.
//! **L2** The newest key is less than [`SPAN_MAX`] above the oldest in use: one command that has
//! to be sent again and again holds the others up before they push it out of the window.

use std::{collections::BTreeSet, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tasuki_proto::{
    id::{ClientId, IdempotencyKey},
    limits::KEY_WINDOW,
    reason::Reason,
    wire,
};
use tokio::sync::Notify;

use crate::{
    identity::{Identity, IdentityError},
    refusal::Refusal,
};

/// Between the oldest key in use and the newest: half the broker's window.
pub const SPAN_MAX: u64 = KEY_WINDOW / 2;

/// Hands out the keys of one client. All roles of a node share it.
#[derive(Debug, Clone)]
pub struct Keys {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    identity: Arc<Identity>,
    in_use: Mutex<InUse>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct InUse {
    counters: BTreeSet<u64>,
    newest: u64,
}

/// A key in use until dropped.
#[derive(Debug)]
pub struct Key {
    shared: Arc<Shared>,
    key: IdempotencyKey,
}

impl Keys {
    pub fn new(identity: Arc<Identity>) -> Self {
        let shared = Shared { identity, in_use: Mutex::default(), freed: Notify::new() };
        Self { shared: Arc::new(shared) }
    }

    /// A key for a new intent. Waits while the oldest in use is too far back.
    pub async fn next(&self) -> Result<Key, Refusal> {
        loop {
            let freed = self.shared.freed.notified();
            match self.shared.take() {
                Taken::Key(key) => return Ok(Key { shared: self.shared.clone(), key }),
                Taken::TooFar => freed.await,
                Taken::NoneReserved => self.on_disk(Identity::reserve).await?,
            }
        }
    }

    /// The client whose keys these are.
    pub fn client(&self) -> ClientId {
        self.shared.identity.client()
    }

    /// For a client whose counters the broker has seen from somebody else.
    pub async fn renew_client(&self) -> Result<(), Refusal> {
        self.on_disk(Identity::renew_client).await
    }

    async fn on_disk(
        &self,
        change: fn(&Identity) -> Result<(), IdentityError>,
    ) -> Result<(), Refusal> {
        let identity = self.shared.identity.clone();
        let changed = tokio::task::spawn_blocking(move || change(&identity)).await;
        let why = match changed {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        Err(Refusal {
            reason: Reason::Unavailable,
            message: format!("This node cannot name a new command: {why}. Nothing was sent."),
        })
    }
}

enum Taken {
    Key(IdempotencyKey),
    TooFar,
    NoneReserved,
}

impl Shared {
    fn take(&self) -> Taken {
        let mut in_use = self.in_use();
        if let Some(oldest) = in_use.counters.first()
            && SPAN_MAX <= (in_use.newest + 1).saturating_sub(*oldest)
        {
            return Taken::TooFar;
        }
        let Some(key) = self.identity.next_key() else { return Taken::NoneReserved };
        in_use.counters.insert(key.counter);
        in_use.newest = key.counter;
        Taken::Key(key)
    }

    fn in_use(&self) -> MutexGuard<'_, InUse> {
        self.in_use.lock()
    }
}

impl Key {
    pub const fn id(&self) -> &IdempotencyKey {
        &self.key
    }

    pub fn wire(&self) -> wire::IdempotencyKey {
        wire(&self.key)
    }
}

pub fn wire(key: &IdempotencyKey) -> wire::IdempotencyKey {
    let IdempotencyKey { client, counter } = key;
    wire::IdempotencyKey { client_id: client.to_string(), counter: *counter }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.shared.in_use().counters.remove(&self.key.counter);
        self.shared.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn an_old_key_in_use_holds_new_ones_up() {
        let data = tempfile::tempdir().expect("a directory");
        let keys = Keys::new(Arc::new(Identity::open(data.path()).expect("free")));
        let oldest = keys.next().await.expect("a key");
        for _ in 1..SPAN_MAX {
            keys.next().await.expect("a key");
        }
        let mut next = Box::pin(keys.next());
        assert!(next.as_mut().now_or_never().is_none(), "L2: the span is full");
        drop(oldest);
        next.await.expect("a key");
    }
}
