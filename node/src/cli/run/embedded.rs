//! Broker and node in this process, for as long as one command takes, where nothing else runs that it
//! could use.
//!
//! They listen on ports of their own on this machine, so nothing that is configured is in their way.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use futures::future::OptionFuture;
use tasuki_broker::server;
use tasuki_proto::{
    host::dashboard::Dashboard,
    wire::{self, RunMode, StepStatus},
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::{Failure, Output, start::Missing};
use crate::{
    cli::{
        access,
        broker::Broker,
        hosting::{self, Hosting, sentence},
        runs::{client::RunsClient, list::each},
        runs_setup::BrokerPlace,
        shared_broker::{self, NodePlace, SharedBroker},
        up,
    },
    config::Config,
    identity::{DataLock, Identity},
    link::{LinkState, Phase},
};

/// For the node to be connected: a broker elsewhere may be slow to reach.
const CONNECTED_WITHIN: Duration = Duration::from_secs(15);

/// Between two looks at what goes on.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// For other commands to read how their runs ended, in milliseconds.
const READ_WITHIN_MS: u64 = 500;

/// Runs of a moment, the newest.
const NEWEST: u64 = 50;

/// What runs in this process.
pub(super) struct Embedded {
    config: Config,
    /// `None`: it is elsewhere.
    broker: Option<server::Broker>,
    hosting: Hosting,
}

impl Embedded {
    /// Starts what is missing, and waits until the node is connected. `None`: another process has
    /// started both meanwhile.
    pub(super) async fn start(
        config: &Config,
        missing: Missing,
        output: &mut Output,
    ) -> Result<Option<Self>, Failure> {
        hosting::refuse_untrusted(config)?;
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut config = hosting::claim_node(config)?;
        config.listen.value = any;
        config.broker_listen.value = any;
        config.dashboard.value = Dashboard::Off;
        let NodePlace::Free(lock) = shared_broker::take_node(&config).await? else {
            return Ok(None);
        };
        let broker = match missing {
            Missing::Node => {
                access::check(&config)?;
                None
            }
            Missing::BrokerAndNode => {
                let settings = up::broker_settings(&config)?;
                match Box::pin(shared_broker::start_or_find(&config, settings)).await? {
                    SharedBroker::Running(running) => {
                        config.broker.value = Some(running.url);
                        None
                    }
                    SharedBroker::Started(broker) => {
                        config.broker.value = Some(broker.local_url().to_owned());
                        Box::pin(cancel_left(&config, output)).await;
                        Some(*broker)
                    }
                }
            }
        };
        match Box::pin(start_node(&config, lock, broker.is_some())).await {
            Ok(hosting) => Ok(Some(Self { config, broker, hosting })),
            Err(failure) => {
                stop_broker(broker.as_ref()).await.ok();
                Err(failure)
            }
        }
    }

    /// By which commands reach it.
    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// Resolves once nothing runs here, nothing that was asked for here is to be started, and what
    /// came of it was read.
    pub(super) async fn idle(&self) {
        loop {
            self.hosting.steps().idle().await;
            // Those of a broker elsewhere go on there.
            if self.broker.is_none() {
                return;
            }
            match Box::pin(has_others(&self.config)).await {
                Ok(true) => sleep(LOOK_EVERY).await,
                Ok(false) | Err(_) => return,
            }
        }
    }

    /// Resolves when something of it ends though nobody asked it to.
    pub(super) async fn failed(&mut self) -> Failure {
        let storage = OptionFuture::from(self.broker.as_ref().map(server::Broker::failed));
        tokio::select! {
            Some(why) = storage => Failure::local(format!("The storage failed: {why}.")),
            failure = self.hosting.ended() => failure,
        }
    }

    pub(super) async fn shut_down(self) -> Result<(), Failure> {
        self.hosting.shut_down(&self.config).await;
        stop_broker(self.broker.as_ref()).await
    }
}

/// Cancels what this node asked for and would start now. Nobody can be waiting for it: no broker ran.
async fn cancel_left(config: &Config, output: &mut Output) {
    let open = own_open_runs(config).await.unwrap_or_else(|why| {
        tracing::debug!(%why, "what is left of earlier commands is not known");
        Vec::new()
    });
    let broker = Broker::new(config);
    for run in open.into_iter().filter(would_start) {
        let speaker = (run.role, run.person, None);
        let canceled = RunsClient { broker: broker.clone(), speaker }.cancel(&run.run_id).await;
        output.note(&match canceled {
            Ok(_) => format!("{} of an earlier command was left, and is canceled.", run.run_id),
            Err(why) => format!("{} of an earlier command goes on: {}", run.run_id, why.message),
        });
    }
}

/// Whether steps of it begin once its node is there. What ran when the node was gone is lost, and a
/// chain ends with that.
fn would_start(run: &wire::Run) -> bool {
    let is_parallel = run.mode() == RunMode::Parallel;
    run.steps.iter().any(|step| match step.status() {
        StepStatus::Ready => true,
        StepStatus::Waiting => is_parallel,
        StepStatus::Unspecified
        | StepStatus::Running
        | StepStatus::Succeeded
        | StepStatus::Failed
        | StepStatus::Canceled
        | StepStatus::Lost => false,
    })
}

/// What this node asked for that has not ended. What is below another run ends with it.
async fn own_open_runs(config: &Config) -> Result<Vec<wire::Run>, Failure> {
    let known = Identity::known(&config.data.value).ok().flatten();
    let Some(own) = known.map(|own| own.to_string()) else { return Ok(Vec::new()) };
    let mut open = Vec::new();
    let request = wire::ListRunsRequest { only_open: true, ..Default::default() };
    each(&Broker::new(config), request, u64::MAX, |run, _| {
        open.extend((run.node == own && run.parent.is_none()).then(|| run.clone()));
        Ok(())
    })
    .await?;
    Ok(open)
}

/// Whether other commands wait for runs, or may still read how they ended: the own run is the only
/// one that ended just now.
async fn has_others(config: &Config) -> Result<bool, Failure> {
    if !own_open_runs(config).await?.is_empty() {
        return Ok(true);
    }
    let mut ended = 0;
    each(&Broker::new(config), wire::ListRunsRequest::default(), NEWEST, |run, now_ms| {
        let is_new = now_ms.saturating_sub(run.ended_ms) < READ_WITHIN_MS;
        ended += u32::from(is_new && run.parent.is_none());
        Ok(())
    })
    .await?;
    Ok(1 < ended)
}

async fn start_node(config: &Config, lock: DataLock, has_broker: bool) -> Result<Hosting, Failure> {
    let listener = hosting::listen("--listen", config.listen.value).await?;
    let broker = Broker::new(config);
    let url = broker.url.clone();
    // The roles of an own broker are nobody else's. Who types this wants agents to run here, wherever
    // the broker is.
    let place = if has_broker { BrokerPlace::HereBriefly } else { BrokerPlace::Here };
    let started = Hosting::start(config, (url, None), place, has_broker, lock, false, listener);
    let hosting = started.await?;
    match connected(hosting.watch_link(), &broker).await {
        Ok(()) => Ok(hosting),
        Err(failure) => {
            hosting.shut_down(config).await;
            Err(failure)
        }
    }
}

/// Resolves once the broker has this node, or will not have it.
async fn connected(mut link: watch::Receiver<LinkState>, broker: &Broker) -> Result<(), Failure> {
    let is_settled = |it: &LinkState| matches!(it.phase, Phase::Connected | Phase::Refused(_));
    let settled = timeout(CONNECTED_WITHIN, link.wait_for(is_settled)).await;
    let settled = settled.ok().and_then(Result::ok).ok_or_else(|| broker.unreachable())?;
    let Phase::Refused(refusal) = &settled.phase else { return Ok(()) };
    let why = refusal.message.trim_end_matches('.');
    Err(Failure::reason(
        refusal.reason,
        format!(
            "The broker refuses this machine's node: {why}. Name another node with --on; `tasuki \
             runs runners` shows them."
        ),
    ))
}

async fn stop_broker(broker: Option<&server::Broker>) -> Result<(), Failure> {
    match broker {
        Some(broker) => broker.stop().await.map_err(|why| Failure::local(sentence(&why))),
        None => Ok(()),
    }
}
