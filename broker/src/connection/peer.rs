//! The other end of a connection, as far as everything above HTTP/2 needs to know it.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{
        Arc, Weak,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tasuki_proto::id::TokenId;
use tokio_util::sync::CancellationToken;

use super::{limits::JOINS_PER_CONNECTION_MAX, slots::ConnectionSlot};

/// Tokens shown on one connection that are remembered. A connection that shows more is cut: a
/// node has one, a proxy in front of many nodes is not foreseen.
const BEARERS_MAX: usize = 64;

/// For the answer that says why to leave before the connection is cut.
const LAST_WORDS: Duration = Duration::from_millis(400);

/// One accepted connection.
#[derive(Debug)]
pub struct Peer {
    pub address: SocketAddr,
    cut: CancellationToken,
    failures: AtomicU32,
    joining: AtomicU32,
    bearers: Mutex<BTreeSet<TokenId>>,
    /// Its connection's, which may be gone while a call is still answered.
    slot: Weak<ConnectionSlot>,
}

impl Peer {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            cut: CancellationToken::new(),
            failures: AtomicU32::new(0),
            joining: AtomicU32::new(0),
            bearers: Mutex::default(),
            slot: Weak::new(),
        }
    }

    pub(super) fn at(self, slot: &Arc<ConnectionSlot>) -> Self {
        Self { slot: Arc::downgrade(slot), ..self }
    }

    /// Ends the connection as if the network had.
    pub(crate) fn cut(&self) {
        self.cut.cancel();
    }

    /// The same once its last words had time to leave.
    pub(crate) fn cut_soon(self: &Arc<Self>) {
        let peer = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(LAST_WORDS).await;
            if let Some(peer) = peer.upgrade() {
                peer.cut();
            }
        });
    }

    /// Cancelled once the connection is to end.
    pub(crate) const fn is_cut(&self) -> &CancellationToken {
        &self.cut
    }

    /// Counts a call that showed no good token; says how many there were.
    pub(crate) fn failed(&self) -> u32 {
        self.failures.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A place for a call without a token; `None` when as many are under way as may be.
    pub(crate) fn join(self: &Arc<Self>) -> Option<Joining> {
        let slot = Joining(Arc::clone(self));
        let others = self.joining.fetch_add(1, Ordering::Relaxed);
        (others < JOINS_PER_CONNECTION_MAX).then_some(slot)
    }

    /// Whoever is at the other end was answered: the connection does not give way to newcomers.
    pub(crate) fn become_known(&self) {
        if let Some(slot) = self.slot.upgrade() {
            slot.become_known();
        }
    }

    /// Notes that a good token was shown here; whether it is the first time.
    pub(crate) fn bears(&self, token: &TokenId) -> bool {
        let mut bearers = self.bearers.lock();
        if bearers.contains(token) {
            return false;
        }
        if BEARERS_MAX <= bearers.len() {
            self.cut();
            return false;
        }
        self.become_known();
        bearers.insert(token.clone())
    }
}

/// A call without a token that is under way.
#[derive(Debug)]
pub(crate) struct Joining(Arc<Peer>);

impl Drop for Joining {
    fn drop(&mut self) {
        self.0.joining.fetch_sub(1, Ordering::Relaxed);
    }
}
