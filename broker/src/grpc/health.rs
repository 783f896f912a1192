//! `grpc.health.v1`: healthy means that a durable write succeeded, not that a socket is open.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures::Stream;
use tokio::{
    sync::{Mutex, Semaphore, mpsc},
    time::{Instant, MissedTickBehavior},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse,
    health_check_response::ServingStatus,
    health_server::{Health, HealthServer},
};

use super::{Services, auth};

/// How long a probing write may take before the broker counts as not serving.
const PROBE_WITHIN: Duration = Duration::from_secs(2);

/// How long what a probe found is told to others: whoever asks more often learns no more, and
/// makes no writes.
const FRESH: Duration = Duration::from_secs(1);

/// Between two probes for somebody who watches.
const WATCH_EVERY: Duration = Duration::from_secs(5);

/// Watches at once: each is a stream and a task.
const WATCHES_MAX: usize = 64;

pub(super) fn server(services: Services) -> HealthServer<Probe> {
    HealthServer::new(Probe {
        services,
        watches: Arc::new(Semaphore::new(WATCHES_MAX)),
        latest: Arc::default(),
    })
}

#[derive(Debug, Clone)]
pub(super) struct Probe {
    services: Services,
    watches: Arc<Semaphore>,
    /// When a probe ended, and whether its write succeeded.
    latest: Arc<Mutex<Option<(Instant, bool)>>>,
}

impl Probe {
    async fn status(&self) -> HealthCheckResponse {
        let is_written = self.is_written().await;
        let status = if is_written && !self.services.stopping.is_cancelled() {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        HealthCheckResponse { status: status.into() }
    }

    /// Whether a durable write succeeded within [`FRESH`]. All who ask meanwhile wait for one.
    async fn is_written(&self) -> bool {
        let mut latest = self.latest.clone().lock_owned().await;
        if let Some((at, is_written)) = *latest
            && at.elapsed() < FRESH
        {
            return is_written;
        }
        let services = self.services.clone();
        // Goes on when its caller leaves: callers that leave at once must not make a write each.
        let probing = tokio::spawn(async move {
            let probed = tokio::time::timeout(PROBE_WITHIN, services.probe()).await;
            let is_written = matches!(probed, Ok(Ok(())));
            *latest = Some((Instant::now(), is_written));
            is_written
        });
        probing.await.unwrap_or(false)
    }
}

/// The services one may ask about; empty is the broker as a whole.
fn check_name(name: &str) -> Result<(), Status> {
    let is_known = name.is_empty() || auth::is_service(name);
    if is_known { Ok(()) } else { Err(Status::not_found("unknown service")) }
}

#[tonic::async_trait]
impl Health for Probe {
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
        let probe = self.clone();
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
                let status = probe.status().await;
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
