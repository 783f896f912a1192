//! `grpc.health.v1`: healthy means that a durable write succeeded, not that a socket is open.

use std::{pin::Pin, time::Duration};

use futures::Stream;
use tokio::{sync::mpsc, time::MissedTickBehavior};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse,
    health_check_response::ServingStatus,
    health_server::{Health, HealthServer},
};

use super::Service;

/// How long a probing write may take before the broker counts as not serving.
const PROBE_WITHIN: Duration = Duration::from_secs(2);

/// Between two probes for somebody who watches.
const WATCH_EVERY: Duration = Duration::from_secs(5);

/// Watches at once: each costs a durable write every few seconds.
const WATCHES_MAX: usize = 64;

pub(super) fn server(service: Service) -> HealthServer<Probe> {
    HealthServer::new(Probe {
        service,
        watches: std::sync::Arc::new(tokio::sync::Semaphore::new(WATCHES_MAX)),
    })
}

#[derive(Debug, Clone)]
pub(super) struct Probe {
    service: Service,
    watches: std::sync::Arc<tokio::sync::Semaphore>,
}

impl Probe {
    async fn status(&self) -> HealthCheckResponse {
        let probe = tokio::time::timeout(PROBE_WITHIN, self.service.door.probe());
        let is_stopping = self.service.stopping.is_cancelled();
        let status = match probe.await {
            Ok(Ok(())) if !is_stopping => ServingStatus::Serving,
            Ok(Ok(()) | Err(_)) | Err(_) => ServingStatus::NotServing,
        };
        HealthCheckResponse { status: status.into() }
    }
}

/// The services one may ask about; empty is the broker as a whole.
fn check_name(name: &str) -> Result<(), Status> {
    let known = [
        "",
        "tasuki.v1.Access",
        "tasuki.v1.Directory",
        "tasuki.v1.Feed",
        "tasuki.v1.TurnLoop",
        "tasuki.v1.Waits",
    ];
    if known.contains(&name) { Ok(()) } else { Err(Status::not_found("unknown service")) }
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
