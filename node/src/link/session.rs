//! Registers this node, and says every few seconds that it is there.
//!
//! A registration lasts over reconnects and restarts of the broker. It is made again when the
//! broker calls it stale, unless another process has registered the same node since: two
//! processes fencing each other in turns would help nobody.

use std::{sync::Arc, time::Duration};

use tasuki_proto::{
    id::Epoch,
    limits::{HEARTBEAT_MS, NODE_SILENT_MS_MAX},
    reason::Reason,
    wire::{self, directory_client::DirectoryClient},
};
use tokio::{sync::watch, time};
use tonic::{Response, Status, transport::Channel};

use super::{
    Shared,
    channel::ATTEMPT_MS_MAX,
    retry::{Backoff, Failure, chance},
    state::Phase,
};
use crate::{clock, role::Refusal};

/// Between two tries of a registration that was refused, in milliseconds.
const REFUSED_PAUSE_MS: u64 = 2_000;

/// Runs until the link is dropped.
pub(super) async fn run(shared: Arc<Shared>) {
    let ended = shared.ended.clone();
    let directory = shared.directory();
    let stale = shared.stale.subscribe();
    let heartbeat = Duration::from_millis(HEARTBEAT_MS);
    let mut session = Session { shared, directory, stale, heartbeat, epoch: Epoch::NONE };
    ended.run_until_cancelled(session.live()).await;
}

struct Session {
    shared: Arc<Shared>,
    directory: DirectoryClient<Channel>,
    /// The latest epoch that the broker called stale.
    stale: watch::Receiver<u64>,
    heartbeat: Duration,
    epoch: Epoch,
}

impl Session {
    async fn live(&mut self) {
        loop {
            self.register().await;
            self.keep().await;
            self.shared.enter(Phase::Connecting, self.epoch);
            while let Some(refusal) = self.fenced_by().await {
                self.shared.enter(Phase::Refused(refusal), self.epoch);
                time::sleep(self.heartbeat).await;
            }
        }
    }

    /// Returns once registered.
    async fn register(&mut self) {
        loop {
            let refusal = match self.register_once().await {
                Ok(registered) => {
                    self.epoch = registered.epoch.into();
                    if registered.heartbeat_ms != 0 {
                        let ms = registered.heartbeat_ms.min(NODE_SILENT_MS_MAX / 3);
                        self.heartbeat = Duration::from_millis(ms);
                    }
                    self.shared.enter(Phase::Connected, self.epoch);
                    return;
                }
                Err(refusal) => refusal,
            };
            self.shared.enter(Phase::Refused(refusal), self.epoch);
            time::sleep(Duration::from_millis(REFUSED_PAUSE_MS)).await;
        }
    }

    /// One intent to register, however often it has to be sent.
    async fn register_once(&mut self) -> Result<wire::RegisterResponse, Refusal> {
        let key = self.shared.keys.next().await?;
        let settings = &self.shared.settings;
        let request = wire::RegisterRequest {
            caller: Some(self.shared.stranger()),
            key: Some(key.wire()),
            node: settings.node.to_string(),
            roles: settings.roles.iter().map(super::HostedRole::spec).collect(),
            take_over: settings.take_over,
            software: concat!("tasuki ", env!("CARGO_PKG_VERSION")).to_owned(),
            instance: self.shared.instance.clone(),
        };
        let mut backoff = Backoff::default();
        loop {
            let why = match within(self.directory.register(request.clone())).await {
                Ok(registered) => return Ok(registered),
                Err(Failure::Refused(refusal)) => {
                    if matches!(refusal.reason, Reason::KeyExpired | Reason::KeyReused) {
                        tracing::warn!(%refusal, "the data directory was copied or is an old one");
                        self.shared.keys.renew_client().await?;
                    }
                    return Err(refusal);
                }
                Err(Failure::NotTaken(refusal)) => refusal.message,
                Err(Failure::Lost(why) | Failure::StaleEpoch(why)) => why,
            };
            self.shared.enter(Phase::Down(why), self.epoch);
            time::sleep(backoff.pause(chance())).await;
        }
    }

    /// Sends heartbeats until the registration is stale.
    async fn keep(&mut self) {
        let mut backoff = Backoff::default();
        loop {
            let request = wire::HeartbeatRequest {
                caller: Some(self.shared.caller()),
                roles: self.shared.presences(clock::now()),
            };
            let why = match within(self.directory.heartbeat(request)).await {
                Ok(_) => {
                    backoff.reset();
                    self.shared.enter(Phase::Connected, self.epoch);
                    tokio::select! {
                        () = time::sleep(self.heartbeat) => {}
                        () = self.shared.suspect.notified() => {}
                        _ = self.stale.changed() => {}
                    }
                    if *self.stale.borrow_and_update() == self.epoch.get() {
                        return;
                    }
                    continue;
                }
                Err(Failure::StaleEpoch(_)) => return,
                Err(Failure::Refused(refusal) | Failure::NotTaken(refusal)) => refusal.message,
                Err(Failure::Lost(why)) => why,
            };
            self.shared.enter(Phase::Down(why), self.epoch);
            time::sleep(backoff.pause(chance())).await;
        }
    }

    /// Whether another live process registered this node after this one did.
    async fn fenced_by(&mut self) -> Option<Refusal> {
        let settings = &self.shared.settings;
        if settings.take_over {
            return None;
        }
        let request = wire::ListNodesRequest { caller: Some(self.shared.stranger()) };
        let listed = within(self.directory.list_nodes(request)).await.ok()?;
        let newer = listed.nodes.into_iter().find(|node| {
            node.node == settings.node.as_str() && self.epoch.get() < node.epoch && node.is_present
        })?;
        Some(Refusal {
            reason: Reason::StaleEpoch,
            message: format!(
                "Another process runs node {} since epoch {}; this one had epoch {}. Stop one of \
                 them, or give this one a data directory of its own.",
                newer.node, newer.epoch, self.epoch
            ),
        })
    }
}

/// One call, cut off when the broker does not answer.
async fn within<T>(call: impl Future<Output = Result<Response<T>, Status>>) -> Result<T, Failure> {
    match time::timeout(Duration::from_millis(ATTEMPT_MS_MAX), call).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(Failure::of(&status)),
        Err(_) => Err(Failure::Lost(format!("no answer within {ATTEMPT_MS_MAX} ms"))),
    }
}
