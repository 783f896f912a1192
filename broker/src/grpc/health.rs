//! `grpc.health.v1`: healthy means that a durable write succeeded, not that a socket is open.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures::Stream;
use tokio::{
    sync::{Mutex, Semaphore, mpsc},
    time::{Instant, MissedTickBehavior},
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse,
    health_check_response::ServingStatus,
    health_server::{Health, HealthServer},
};

use super::auth;
use crate::workspace::Workspaces;

/// How long a probing write may take before the broker counts as not serving.
const PROBE_WITHIN: Duration = Duration::from_secs(2);

/// How long what a probe found is told to others: whoever asks more often learns no more, and
/// makes no writes.
const FRESH: Duration = Duration::from_secs(1);

/// Between two probes for somebody who watches.
const WATCH_EVERY: Duration = Duration::from_secs(5);

/// Watches at once: each is a stream and a task.
const WATCHES_MAX: usize = 64;

pub(super) fn server(probe: Probe) -> HealthServer<HealthService> {
    HealthServer::new(HealthService { probe, watches: Arc::new(Semaphore::new(WATCHES_MAX)) })
}

/// Whether the broker serves. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct Probe {
    workspaces: Workspaces,
    stopping: CancellationToken,
    /// When a probe ended, and whether its write succeeded.
    latest: Arc<Mutex<Option<(Instant, bool)>>>,
}

impl Probe {
    pub fn new(workspaces: &Workspaces, stopping: CancellationToken) -> Self {
        Self { workspaces: workspaces.clone(), stopping, latest: Arc::default() }
    }

    /// Whether a durable write succeeds, and it is not stopping.
    pub async fn is_serving(&self) -> bool {
        self.is_written().await && !self.stopping.is_cancelled()
    }

    /// Whether a durable write succeeded within [`FRESH`]. All who ask meanwhile wait for one.
    async fn is_written(&self) -> bool {
        let mut latest = self.latest.clone().lock_owned().await;
        if let Some((at, is_written)) = *latest
            && at.elapsed() < FRESH
        {
            return is_written;
        }
        let workspaces = self.workspaces.clone();
        // Goes on when its caller leaves: callers that leave at once must not make a write each.
        let probing = tokio::spawn(async move {
            let probe = workspaces.journal().probe();
            let is_written = matches!(tokio::time::timeout(PROBE_WITHIN, probe).await, Ok(Ok(())));
            *latest = Some((Instant::now(), is_written));
            is_written
        });
        probing.await.unwrap_or(false)
    }
}

#[derive(Debug, Clone)]
pub(super) struct HealthService {
    probe: Probe,
    watches: Arc<Semaphore>,
}

impl HealthService {
    async fn status(&self) -> HealthCheckResponse {
        let status = match self.probe.is_serving().await {
            true => ServingStatus::Serving,
            false => ServingStatus::NotServing,
        };
        HealthCheckResponse { status: status.into() }
    }
}

/// The services one may ask about; empty is the broker as a whole.
fn check_name(name: &str) -> Result<(), Status> {
    let is_known = name.is_empty() || auth::is_service(name);
    if is_known { Ok(()) } else { Err(Status::not_found("unknown service")) }
}

#[tonic::async_trait]
impl Health for HealthService {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        check_name(&request.into_inner().service)?;
        Ok(Response::new(self.status().await))
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        check_name(&request.into_inner().service)?;
        let Ok(watch) = self.watches.clone().try_acquire_owned() else {
            return Err(Status::resource_exhausted("too many health watches"));
        };
        let (changes, stream) = mpsc::channel(1);
        let health = self.clone();
        tokio::spawn(async move {
            let _watch = watch;
            let mut told = None;
            let mut every = tokio::time::interval(WATCH_EVERY);
            every.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    _ = every.tick() => {}
                    () = changes.closed() => return,
                }
                let status = health.status().await;
                if told != Some(status.status) {
                    told = Some(status.status);
                    if changes.send(Ok(status)).await.is_err() {
                        return;
                    }
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}
