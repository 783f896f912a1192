//! One token, and what it has open.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::{Mutex, MutexGuard};
use tasuki_proto::{
    id::{Timestamp, TokenId},
    token::SecretHash,
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{
    CALLS_PER_TOKEN_MAX, CONNECTIONS_PER_TOKEN_MAX, Denied, HELD_PER_TOKEN_MAX,
    IN_FLIGHT_PER_TOKEN_KIB_MAX, PAGES_PER_TOKEN_MAX, STREAMS_PER_TOKEN_MAX, WAITS_PER_TOKEN_MAX,
};
use crate::{
    connection::Peer,
    rules::access::{Scope, Token},
};

/// A token that is remembered, good or not.
#[derive(Debug)]
pub struct ActiveToken {
    pub(crate) id: TokenId,
    /// Does not change (R3).
    pub(crate) scope: Scope,
    pub(crate) label: String,
    pub(crate) expires: Option<Timestamp>,
    pub(crate) calls: Arc<Semaphore>,
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) waits: Arc<Semaphore>,
    pub(crate) held: Arc<Semaphore>,
    pub(crate) pages: Arc<Semaphore>,
    pub(crate) in_flight_kib: Arc<Semaphore>,
    /// Cancelled once nobody may act with it any more.
    pub(crate) ended: CancellationToken,
    used_ms: AtomicU64,
    secrets: Mutex<Secrets>,
    /// Connections it was shown on.
    connections: Mutex<Vec<Weak<Peer>>>,
}

#[derive(Debug)]
struct Secrets {
    newest: SecretHash,
    old: Option<(SecretHash, Timestamp)>,
    is_revoked: bool,
    /// The old one is being ended, since the new one was used.
    is_ending: bool,
}

impl ActiveToken {
    pub(super) fn new(id: TokenId, token: &Token) -> Self {
        let live = Self {
            id,
            scope: token.scope.clone(),
            label: token.label.clone(),
            expires: token.expires,
            calls: Arc::new(Semaphore::new(CALLS_PER_TOKEN_MAX)),
            streams: Arc::new(Semaphore::new(STREAMS_PER_TOKEN_MAX)),
            waits: Arc::new(Semaphore::new(WAITS_PER_TOKEN_MAX)),
            held: Arc::new(Semaphore::new(HELD_PER_TOKEN_MAX)),
            pages: Arc::new(Semaphore::new(PAGES_PER_TOKEN_MAX)),
            in_flight_kib: Arc::new(Semaphore::new(IN_FLIGHT_PER_TOKEN_KIB_MAX)),
            ended: CancellationToken::new(),
            used_ms: AtomicU64::new(0),
            secrets: Mutex::new(Secrets {
                newest: token.secret,
                old: None,
                is_revoked: false,
                is_ending: false,
            }),
            connections: Mutex::default(),
        };
        live.update(token);
        live
    }

    pub(super) fn update(&self, token: &Token) {
        let mut secrets = self.secrets();
        if secrets.newest != token.secret {
            secrets.is_ending = false;
        }
        secrets.newest = token.secret;
        secrets.old.clone_from(&token.old);
        secrets.is_revoked = token.revoked.is_some();
        drop(secrets);
        if token.revoked.is_some() {
            self.end();
        }
    }

    /// Whether `shown` is a secret of this token, and then whether it is the newest. Takes the
    /// same time whatever differs.
    pub(super) fn recognise(&self, shown: &SecretHash, now: Timestamp) -> Option<bool> {
        let secrets = self.secrets();
        let is_old = secrets.old.as_ref().is_some_and(|(old, until)| old == shown && now < *until);
        let is_newest = secrets.newest == *shown;
        (is_newest | is_old).then_some(is_newest)
    }

    /// Whether its bearer may still act.
    pub(super) fn check(&self, now: Timestamp) -> Result<(), Denied> {
        match self.expires {
            Some(expires) if expires <= now => Err(Denied::Expired),
            Some(_) | None if self.secrets().is_revoked => Err(Denied::Revoked),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether there is an old secret that nobody has begun to end; then somebody has.
    pub(super) fn takes_old(&self) -> bool {
        let mut secrets = self.secrets();
        let takes = secrets.old.is_some() && !secrets.is_ending;
        secrets.is_ending |= takes;
        takes
    }

    /// Ending it failed: the next use of the newest secret tries again.
    pub(super) fn keeps_old(&self) {
        self.secrets().is_ending = false;
    }

    pub(super) fn used(&self, now: Timestamp) {
        self.used_ms.fetch_max(now.as_millis(), Ordering::Relaxed);
    }

    /// When it was last shown, in milliseconds since the Unix epoch; 0: not since the start.
    pub(crate) fn used_ms(&self) -> u64 {
        self.used_ms.load(Ordering::Relaxed)
    }

    /// Calls and streams under way.
    pub(crate) fn open_calls(&self) -> usize {
        let taken = |all: usize, left: &Semaphore| all - left.available_permits();
        taken(CALLS_PER_TOKEN_MAX, &self.calls) + taken(STREAMS_PER_TOKEN_MAX, &self.streams)
    }

    /// Notes that it was shown on a connection, which ends with it.
    pub(crate) fn shown_on(&self, peer: &Arc<Peer>) {
        if !peer.bears(&self.id) {
            return;
        }
        let mut connections = self.connections();
        connections.retain(|other| 0 < other.strong_count());
        // The oldest may be of a process that is gone without a word.
        if CONNECTIONS_PER_TOKEN_MAX <= connections.len()
            && let Some(oldest) = connections.remove(0).upgrade()
        {
            oldest.cut();
        }
        connections.push(Arc::downgrade(peer));
        drop(connections);
        // It may have ended since it was looked at, and did not know of this connection.
        if self.ended.is_cancelled() {
            peer.cut_soon();
        }
    }

    /// Tells its streams that it ended, then cuts its connections (E1).
    pub(super) fn end(&self) {
        if self.ended.is_cancelled() {
            return;
        }
        self.ended.cancel();
        let connections = std::mem::take(&mut *self.connections());
        for peer in connections.iter().filter_map(Weak::upgrade) {
            peer.cut_soon();
        }
    }

    fn secrets(&self) -> MutexGuard<'_, Secrets> {
        self.secrets.lock()
    }

    fn connections(&self) -> MutexGuard<'_, Vec<Weak<Peer>>> {
        self.connections.lock()
    }
}
