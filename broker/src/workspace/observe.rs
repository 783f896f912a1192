//! What all workspaces in memory have at this moment, for metrics.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use super::{
    handle::{Handle, IN_FLIGHT_KIB_MAX, IN_FLIGHT_MAX},
    state::observe::Observed,
    supervisor::Workspaces,
};
use crate::metrics::WorkspaceMetrics;

/// For all workspaces to say what they have: one that is busy for longer is left out.
const OBSERVED_WITHIN: Duration = Duration::from_secs(1);

/// What is admitted and not yet answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlight {
    pub requests: usize,
    pub kib: usize,
}

impl Workspaces {
    /// What they count.
    pub fn metrics(&self) -> &Arc<WorkspaceMetrics> {
        &self.shared().metrics
    }

    pub fn in_flight(&self) -> InFlight {
        let open = self.handles().into_iter().map(|it| it.admission);
        // One that falls asleep has all places itself.
        let open = open.filter(|places| !places.is_closed());
        let requests = open.map(|places| IN_FLIGHT_MAX - places.available_permits()).sum();
        let kib = IN_FLIGHT_KIB_MAX - self.shared().in_flight_kib.available_permits();
        InFlight { requests, kib }
    }

    /// What those have that are in memory. It keeps none of them there.
    pub async fn observe(&self) -> Observed {
        let ask = |handle: Handle| {
            let (tell, told) = oneshot::channel();
            // An actor that is gone has nothing; so has nobody who asked and left.
            let asked = handle.send(move |state| drop(tell.send(state.observe())));
            asked.ok().map(|()| told)
        };
        let asked: Vec<_> = self.handles().into_iter().filter_map(ask).collect();
        let until = Instant::now() + OBSERVED_WITHIN;
        let mut all = Observed::default();
        for told in asked {
            if let Ok(Ok(observed)) = timeout_at(until, told).await {
                all = all.plus(observed);
            }
        }
        all
    }

    fn handles(&self) -> Vec<Handle> {
        self.shared().awake.read().values().cloned().collect()
    }
}
