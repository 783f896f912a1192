//! The tools of other MCP servers, offered by this node as if they were its own.
//!
//! Each server has a task of its own that starts it, lists it and starts it again ([`Server`]). What
//! all of them offer is put together in a [`Catalogue`] whenever one of them changed, so a list costs
//! an agent nothing but its own size. A call goes straight to its server.
//!
//! Not here: how agents reach this (`mcp/tools/gateway`), and what the configuration file looks
//! like (`config/gateway`).

mod breaker;
mod call;
mod catalogue;
mod clean;
mod client;
mod find;
mod listing;
pub mod names;
mod ordered;
mod pins;
#[cfg(unix)]
mod program;
mod remote;
mod server;
pub mod settings;
mod stdio;

use std::{fmt, path::Path, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream::select_all};
use tokio::{
    sync::watch,
    task::{JoinSet, spawn_blocking},
    time::{Instant, sleep, sleep_until, timeout_at},
};
use tokio_stream::wrappers::WatchStream;
use tokio_util::sync::CancellationToken;

pub use self::{
    call::{Caller, TIMED_OUT},
    catalogue::{Catalogue, OfferedPrompt, OfferedTool, split_uri},
    client::{Asked, Told},
    listing::{Held, LIST_MAX, Offer},
    server::{GRACE, Phase, Server, Shown, View},
};
use self::{pins::Pins, settings::GatewaySettings};
use crate::clock::Clock;

/// Several changes within it are one.
const GATHERED_WITHIN: Duration = Duration::from_millis(100);

/// All servers of a node.
pub struct Gateway {
    servers: Vec<Arc<Server>>,
    catalogue: watch::Sender<Arc<Catalogue>>,
    began: Instant,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.servers.iter().map(|it| it.name());
        f.debug_list().entries(names).finish()
    }
}

impl Gateway {
    /// Reads what was taken of each server. Servers that are programs run under `keeper`, which is
    /// this program. Blocks on the disk.
    pub fn open(settings: GatewaySettings, data: &Path, keeper: &Path, clock: &Clock) -> Self {
        let server = |settings: settings::ServerSettings| {
            // One file that cannot be read bars its own server alone.
            let pins = Pins::open(data, &settings.name).map_err(|why| why.to_string());
            Arc::new(Server::new(settings, pins, keeper.to_owned(), clock.clone()))
        };
        let servers = settings.servers.into_iter().map(server).collect();
        let began = Instant::now();
        Self { servers, catalogue: watch::Sender::default(), began }
    }

    /// Keeps all servers running until `stopping`, and ends them then.
    pub async fn run(&self, stopping: CancellationToken) {
        let mut running = JoinSet::new();
        for server in &self.servers {
            running.spawn(Arc::clone(server).run(stopping.clone()));
        }
        self.gather(&stopping).await;
        while running.join_next().await.is_some() {}
    }

    /// Puts together what there is, whenever that changed.
    async fn gather(&self, stopping: &CancellationToken) {
        let views = self.servers.iter().map(|it| WatchStream::from_changes(it.watch()));
        let mut changes = select_all(views);
        loop {
            let views: Vec<_> = self.servers.iter().map(|it| (Arc::clone(it), it.view())).collect();
            // Tools of a server that is away go when its time is over.
            let due = views.iter().filter_map(|(_, view)| match &view.phase {
                Phase::Offline { since, .. } if view.shown() == Shown::Offline => {
                    Some(*since + GRACE)
                }
                Phase::Offline { .. } | Phase::Starting | Phase::Ready => None,
            });
            let due = due.min();
            if let Ok(all) = spawn_blocking(move || Catalogue::new(&views)).await {
                self.catalogue.send_replace(Arc::new(all));
            }
            tokio::select! {
                changed = changes.next() => {
                    if changed.is_none() {
                        return stopping.cancelled().await;
                    }
                    sleep(GATHERED_WITHIN).await;
                }
                () = until(due) => {}
                () = stopping.cancelled() => return,
            }
        }
    }

    pub fn servers(&self) -> &[Arc<Server>] {
        &self.servers
    }

    pub fn server(&self, name: &str) -> Option<&Arc<Server>> {
        self.servers.iter().find(|it| it.name() == name)
    }

    /// What there is now.
    pub fn catalogue(&self) -> Arc<Catalogue> {
        self.catalogue.borrow().clone()
    }

    /// Tells of changes of it.
    pub fn watch(&self) -> watch::Receiver<Arc<Catalogue>> {
        self.catalogue.subscribe()
    }

    /// What there is once each server has answered or failed: whoever asks right after the start wants
    /// no empty list. Nobody waits for that longer than [`LIST_MAX`] after the start.
    pub async fn settled(&self) -> Arc<Catalogue> {
        let mut catalogue = self.watch();
        let whole = catalogue.wait_for(|it| it.settled == self.servers.len());
        timeout_at(self.began + LIST_MAX, whole).await.ok();
        self.catalogue()
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}
