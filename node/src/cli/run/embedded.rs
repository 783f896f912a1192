//! Broker and node in this process, for as long as one command takes, where nothing else runs that it
//! could use.
//!
//! They listen on ports of their own on this machine, so nothing that is configured is in their way.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use tasuki_broker::server;
use tasuki_proto::reason::Reason;
use tokio::{sync::watch, time::timeout};

use super::{Failure, place::Missing};
use crate::{
    cli::{
        access,
        broker::Broker,
        hosting::{self, Hosting},
        runs_setup::BrokerPlace,
        up,
    },
    config::Config,
    link::{LinkState, Phase},
};

/// For the node to be connected: a broker elsewhere may be slow to reach.
const CONNECTED_WITHIN: Duration = Duration::from_secs(15);

/// What runs in this process.
pub(super) struct Embedded {
    config: Config,
    /// `None`: it is elsewhere.
    broker: Option<server::Broker>,
    hosting: Hosting,
}

impl Embedded {
    /// Starts what is missing, and waits until the node is connected.
    pub(super) async fn start(config: &Config, missing: Missing) -> Result<Self, Failure> {
        hosting::refuse_untrusted(config)?;
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut config = config.clone();
        config.listen.value = any;
        config.broker_listen.value = any;
        let broker = match missing {
            Missing::Node => {
                access::check(&config)?;
                None
            }
            Missing::BrokerAndNode => {
                let started = server::Broker::start(up::broker_settings(&config)?).await;
                Some(started.map_err(|why| Failure::local(hosting::sentence(&why)))?)
            }
        };
        if let Some(broker) = &broker {
            config.broker.value = Some(broker.local_url().to_owned());
        }
        match Box::pin(start_node(&config, broker.is_some())).await {
            Ok(hosting) => Ok(Self { config, broker, hosting }),
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

    /// Resolves when something of it ends though nobody asked it to.
    pub(super) async fn failed(&mut self) -> Failure {
        let Self { broker, hosting, .. } = self;
        let storage = async {
            match broker {
                Some(broker) => broker.failed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            why = storage => Failure::local(format!("The storage failed: {why}.")),
            failure = hosting.ended() => failure,
        }
    }

    pub(super) async fn shut_down(self) -> Result<(), Failure> {
        self.hosting.shut_down(&self.config).await;
        stop_broker(self.broker.as_ref()).await
    }
}

async fn start_node(config: &Config, has_broker: bool) -> Result<Hosting, Failure> {
    let listener = hosting::listen("--listen", config.listen.value).await?;
    let broker = Broker::new(config);
    let url = broker.url.clone();
    // The roles of an own broker are nobody else's. Who types this wants agents to run here, wherever
    // the broker is.
    let started = Hosting::start(config, url, BrokerPlace::Here, has_broker, false, listener);
    let hosting = started.await?;
    match connected(hosting.watch_link(), &broker).await {
        Ok(()) => Ok(hosting),
        Err(failure) => {
            hosting.shut_down(config).await;
            Err(failure)
        }
    }
}

/// Resolves once the broker has this node.
async fn connected(mut link: watch::Receiver<LinkState>, broker: &Broker) -> Result<(), Failure> {
    let settled = async {
        loop {
            match &link.borrow_and_update().phase {
                Phase::Connected => return Ok(()),
                Phase::Refused(refusal) => {
                    return Err(Failure::reason(refusal.reason, refused(&refusal.message)));
                }
                Phase::Connecting | Phase::Down(_) => {}
            }
            if link.changed().await.is_err() {
                let text = "The node ended before it was connected.";
                return Err(Failure::reason(Reason::Unavailable, text));
            }
        }
    };
    timeout(CONNECTED_WITHIN, settled).await.unwrap_or_else(|_| Err(broker.unreachable()))
}

/// Why a node is not taken, with what else there is.
fn refused(message: &str) -> String {
    format!(
        "The broker refuses this machine's node: {}. Name another node with --on; `tasuki runs \
         runners` shows them.",
        message.trim_end_matches('.')
    )
}

async fn stop_broker(broker: Option<&server::Broker>) -> Result<(), Failure> {
    match broker {
        Some(broker) => broker.stop().await.map_err(|why| Failure::local(hosting::sentence(&why))),
        None => Ok(()),
    }
}
