//! How a server stands and what it offers, for whoever looks.

use std::{sync::Arc, time::Duration};

use rmcp::model::ServerCapabilities;
use tokio::time::Instant;

use super::listing::Offer;

/// The tools of a server that is away are shown for so long.
pub const GRACE: Duration = Duration::from_secs(60);

/// How a server stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    Starting,
    Ready,
    Offline { why: String, since: Instant },
}

/// What others look at.
#[derive(Debug, Clone)]
pub struct View {
    pub phase: Phase,
    pub offer: Arc<Offer>,
    /// It has answered, or failed, at least once.
    pub is_settled: bool,
    /// How often it was started again.
    pub restarts: u64,
    /// Its name and version, as it says.
    pub version: String,
    pub protocol: String,
    /// As it said last; `None`: it said nothing yet.
    pub capabilities: Option<ServerCapabilities>,
}

impl View {
    /// Since when it is away; `None`: it is not.
    pub const fn offline_since(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Starting | Phase::Ready => None,
            Phase::Offline { since, .. } => Some(*since),
        }
    }

    /// Whether its tools are shown, and as what.
    pub fn shown(&self) -> Shown {
        Shown::of(self.offline_since())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    Online,
    Offline,
    Gone,
}

impl Shown {
    /// How tools are shown whose server, or role, is away since then.
    pub(super) fn of(offline_since: Option<Instant>) -> Self {
        match offline_since {
            None => Self::Online,
            Some(since) if since.elapsed() < GRACE => Self::Offline,
            Some(_) => Self::Gone,
        }
    }
}
