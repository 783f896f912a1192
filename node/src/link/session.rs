//! Registers this node, and says every few seconds that it is there.
//!
//! A registration lasts over reconnects and restarts of the broker. It is made again when the
//! broker calls it stale, unless another process has registered the same node since: two
//! processes fencing each other in turns would help nobody.

use std::{
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tasuki_proto::{
    id::Epoch,
    limits::{HEARTBEAT_MS, NODE_SILENT_MS_MAX},
    reason::Reason,
    rpc::{self, Rpc},
    wire,
};
use tokio::{
    sync::watch,
    time::{self, Instant},
};
use tonic::Response;

use super::{
    Shared,
    state::{Phase, turned_away},
};
use crate::{
    client::{
        channel::ATTEMPT_MS_MAX,
        retry::{Backoff, Failure, chance},
    },
    clock,
    refusal::Refusal,
};

/// Between two tries of a registration that was refused, in milliseconds.
const REFUSED_PAUSE_MS: u64 = 2_000;

/// For an answer over a connection that is in doubt, in milliseconds: several times what the
/// slowest network takes.
const LOOK_MS_MAX: u64 = 2_000;

/// A connection that ended is made anew within this, in milliseconds: nodes that lost it at the
/// same moment do not all come back at the same moment.
const SPREAD_MS: u64 = 200;

/// Between two heartbeats, in milliseconds, however often calls or connections fail.
const SUSPECT_MS_MIN: u64 = 50;

/// Before an attempt that a call asked for, in milliseconds: agents may ask often.
const WANTED_MS_MIN: u64 = 250;

/// Runs until the link is dropped.
pub(super) async fn run(shared: Arc<Shared>) {
    let ended = shared.ended.clone();
    let (stale, looks) = (shared.stale.subscribe(), shared.looks.subscribe());
    let mut session = Session {
        shared,
        stale,
        looks,
        heartbeat: Duration::from_millis(HEARTBEAT_MS),
        epoch: Epoch::NONE,
        is_suspect: false,
        is_renewed: false,
    };
    ended.run_until_cancelled(session.live()).await;
}

struct Session {
    shared: Arc<Shared>,
    /// The latest epoch that the broker called stale.
    stale: watch::Receiver<u64>,
    /// Changes when the connection comes under doubt other than by a call that failed.
    looks: watch::Receiver<u64>,
    heartbeat: Duration,
    epoch: Epoch,
    /// The next answer is due sooner than usual.
    is_suspect: bool,
    /// Became a new client, and has not registered as one yet.
    is_renewed: bool,
}

impl Session {
    async fn live(&mut self) {
        loop {
            self.register().await;
            self.send_heartbeats().await;
            self.shared.enter(Phase::Connecting, self.epoch);
            while let Some(refusal) = self.fenced_by().await {
                self.shared.enter(Phase::Refused(refusal), self.epoch);
                time::sleep(self.heartbeat).await;
            }
        }
    }

    /// Returns once registered.
    async fn register(&mut self) {
        let mut away = Backoff::turned_away();
        loop {
            let (refusal, pause) = match self.register_once().await {
                Ok(registered) => {
                    self.epoch = registered.epoch.into();
                    self.is_renewed = false;
                    self.set_heartbeat(registered.heartbeat_ms);
                    self.shared.client.auth().taken();
                    self.shared.enter(Phase::Connected, self.epoch);
                    return;
                }
                Err(RegisterError::Renewed) => continue,
                Err(RegisterError::TurnedAway(refusal)) if self.shows_another(&refusal) => continue,
                Err(RegisterError::TurnedAway(refusal)) => {
                    (turned_away(refusal), away.pause(chance()))
                }
                Err(RegisterError::Refused(refusal)) => {
                    (refusal, Duration::from_millis(REFUSED_PAUSE_MS))
                }
            };
            self.shared.enter(Phase::Refused(refusal), self.epoch);
            time::sleep(pause).await;
        }
    }

    /// One intent to register, however often it has to be sent.
    async fn register_once(&mut self) -> Result<wire::RegisterResponse, RegisterError> {
        let key = self.shared.keys.next().await.map_err(RegisterError::Refused)?;
        let settings = &self.shared.settings;
        let request = wire::RegisterRequest {
            caller: Some(self.shared.anonymous_caller()),
            key: Some(key.wire()),
            node: settings.node.to_string(),
            roles: settings.roles.iter().map(super::HostedRole::spec).collect(),
            take_over: settings.take_over,
            software: concat!("tasuki ", env!("CARGO_PKG_VERSION")).to_owned(),
            instance: self.shared.instance.clone(),
        };
        let mut backoff = Backoff::default();
        loop {
            let why = match self.ask(request.clone()).await {
                Ok(registered) => return Ok(registered),
                Err(Failure::TurnedAway(refusal)) => {
                    return Err(RegisterError::TurnedAway(refusal));
                }
                Err(Failure::Refused(refusal)) => {
                    let is_key = matches!(refusal.reason, Reason::KeyExpired | Reason::KeyReused);
                    if is_key && !self.is_renewed {
                        tracing::warn!(
                            %refusal,
                            "another process used this node's keys: the data directory was copied, \
                             or is an old one. This node goes on as a new client"
                        );
                        self.shared.keys.renew_client().await.map_err(RegisterError::Refused)?;
                        self.is_renewed = true;
                        return Err(RegisterError::Renewed);
                    }
                    return Err(RegisterError::Refused(refusal));
                }
                Err(Failure::NotTaken(refusal)) => refusal.message,
                Err(Failure::Lost(why) | Failure::Unsure(why) | Failure::StaleEpoch(why)) => why,
            };
            self.shared.enter(Phase::Down(why), self.epoch);
            self.pause(&mut backoff).await;
        }
    }

    /// How often the broker wants to hear of this node; 0 changes nothing.
    fn set_heartbeat(&mut self, heartbeat_ms: u64) {
        if heartbeat_ms != 0 {
            let heartbeat_ms = heartbeat_ms.min(NODE_SILENT_MS_MAX / 3);
            self.heartbeat = Duration::from_millis(heartbeat_ms);
            self.shared.heartbeat_ms.store(heartbeat_ms, Ordering::Relaxed);
        }
    }

    /// Sends heartbeats until the registration is stale.
    async fn send_heartbeats(&mut self) {
        let (mut backoff, mut away) = (Backoff::default(), Backoff::turned_away());
        loop {
            let request = wire::HeartbeatRequest {
                caller: Some(self.shared.caller()),
                roles: self.shared.presences(clock::now()),
            };
            let why = match self.ask(request).await {
                Ok(told) => {
                    self.set_heartbeat(told.heartbeat_ms);
                    backoff.reset();
                    away.reset();
                    self.shared.client.auth().taken();
                    self.shared.enter(Phase::Connected, self.epoch);
                    self.wait_for_next().await;
                    if *self.stale.borrow_and_update() == self.epoch.get() {
                        return;
                    }
                    continue;
                }
                Err(Failure::StaleEpoch(_)) => return,
                // This machine joined anew meanwhile: whether the node may become the new
                // token's is judged when it registers.
                Err(Failure::TurnedAway(refusal)) if refusal.reason == Reason::NodeForbidden => {
                    return;
                }
                Err(Failure::TurnedAway(refusal)) if self.shows_another(&refusal) => continue,
                Err(Failure::TurnedAway(refusal)) => {
                    self.shared.enter(Phase::Refused(turned_away(refusal)), self.epoch);
                    time::sleep(away.pause(chance())).await;
                    continue;
                }
                Err(Failure::Refused(refusal) | Failure::NotTaken(refusal)) => refusal.message,
                Err(Failure::Lost(why) | Failure::Unsure(why)) => why,
            };
            self.shared.enter(Phase::Down(why), self.epoch);
            self.pause(&mut backoff).await;
        }
    }

    /// Whether there is a token that was not turned away with this.
    fn shows_another(&self, refusal: &Refusal) -> bool {
        refusal.reason == Reason::Unauthenticated && self.shared.client.auth().turned_away()
    }

    /// Between two heartbeats of a connection that stands; ends when that is in question.
    async fn wait_for_next(&mut self) {
        let began = Instant::now();
        let shared = &self.shared;
        tokio::select! {
            () = time::sleep(self.heartbeat) => {}
            _ = self.stale.changed() => {}
            () = shared.heartbeat_early.notified() => {}
            _ = self.looks.changed() => self.is_suspect = true,
            () = shared.suspect.notified() => self.is_suspect = true,
            () = shared.client.connections().lost() => {
                time::sleep(Duration::from_millis(chance() % SPREAD_MS)).await;
                self.is_suspect = true;
            }
        }
        time::sleep_until(began + Duration::from_millis(SUSPECT_MS_MIN)).await;
    }

    /// Between two attempts. A look from outside ends it at once, a call that is refused for want
    /// of a connection soon.
    async fn pause(&mut self, backoff: &mut Backoff) {
        if std::mem::take(&mut self.is_suspect) {
            return;
        }
        // A certificate that is not trusted ends when this machine joins again.
        self.shared.client.auth().read_again();
        let pause = backoff.pause(chance());
        let shared = &self.shared;
        let wanted = async {
            time::sleep(Duration::from_millis(WANTED_MS_MIN)).await;
            shared.wanted.notified().await;
        };
        tokio::select! {
            () = time::sleep(pause) => {}
            () = wanted => {}
            _ = self.looks.changed() => {
                backoff.reset();
                self.is_suspect = true;
            }
        }
    }

    /// One call, cut off when the broker does not answer. When the connection is in doubt that is
    /// soon, and the next call gets a new one.
    async fn ask<R: Rpc>(&mut self, request: R) -> Result<R::Response, Failure> {
        let mut call = pin!(rpc::send(self.shared.client.channel(), request));
        let look = Duration::from_millis(LOOK_MS_MAX);
        let mut is_suspect = std::mem::take(&mut self.is_suspect);
        let patience = if is_suspect { look } else { Duration::from_millis(ATTEMPT_MS_MAX) };
        let mut deadline = Instant::now() + patience;
        loop {
            tokio::select! {
                biased;
                answer = &mut call => {
                    return answer.map(Response::into_inner).map_err(|status| Failure::of(&status));
                }
                () = time::sleep_until(deadline) => {
                    if is_suspect {
                        self.shared.client.connections().cut();
                        self.is_suspect = true;
                    }
                    return Err(Failure::Lost("no answer in time".to_owned()));
                }
                _ = self.looks.changed() => {
                    is_suspect = true;
                    deadline = deadline.min(Instant::now() + look);
                }
            }
        }
    }

    /// This node as the broker has it, if it does and can be asked.
    async fn own_node(&mut self) -> Option<wire::Node> {
        let caller = Some(self.shared.anonymous_caller());
        let mut request = wire::ListNodesRequest { caller, ..Default::default() };
        loop {
            let page = self.ask(request.clone()).await.ok()?;
            let own = self.shared.settings.node.as_str();
            let found = page.nodes.into_iter().find(|it| it.node == own);
            if found.is_some() || page.next.is_empty() {
                return found;
            }
            request.after = page.next;
        }
    }

    /// Whether another live process registered this node after this one did.
    async fn fenced_by(&mut self) -> Option<Refusal> {
        if self.shared.settings.take_over {
            return None;
        }
        let own = self.own_node().await?;
        let newer = Some(own).filter(|it| self.epoch.get() < it.epoch && it.is_present)?;
        Some(Refusal {
            reason: Reason::StaleEpoch,
            message: format!(
                "Another process registered as node {} (epoch {}) after this one (epoch {}), so \
                 this one may not act: one of the two runs on a copy of the other's data \
                 directory. Stop the other one, and this one goes on by itself; or stop this one, \
                 and start it with an empty directory: `tasuki node --data DIR`.",
                newer.node, newer.epoch, self.epoch
            ),
        })
    }
}

/// Why a registration is not made.
enum RegisterError {
    Refused(Refusal),
    /// Under the keys of a client that others used; now there is a new one.
    Renewed,
    /// Coming back soon would be held against this node.
    TurnedAway(Refusal),
}
