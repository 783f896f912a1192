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
mod changes;
mod clean;
mod client;
mod find;
mod listing;
pub mod names;
mod ordered;
mod pins;
#[cfg(unix)]
mod program;
mod provider;
mod remote;
mod report;
mod roles;
mod server;
pub mod settings;
mod stdio;
#[cfg(test)]
mod tests;
mod view;

use std::{collections::BTreeMap, fmt, path::Path, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream::select_all};
use tasuki_proto::id::RoleId;
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
    changes::ResourceSubscription,
    client::{Asked, Told},
    listing::{Held, LIST_MAX, Offer},
    provider::{RoleProvider, ToolProvider},
    report::{HeldTool, RefusedTool, ServerReport},
    roles::{RemoteRole, RoleView},
    server::Server,
    view::{GRACE, Phase, Shown, View},
};
use self::{
    pins::Pins,
    roles::{Exporter, Roles},
    settings::{Export, GatewaySettings},
};
use crate::{
    clock::Clock,
    link::{Link, news::News},
};

/// Several changes within it are one.
const GATHERED_WITHIN: Duration = Duration::from_millis(100);

/// All servers of a node.
pub struct Gateway {
    servers: Vec<Arc<Server>>,
    roles: Option<Arc<Roles>>,
    exports: Vec<Export>,
    /// The services of each role of this node.
    services: Vec<Arc<dyn RoleProvider>>,
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
    /// this program; what changes there is told in `news`. With a `link` the tools of other nodes'
    /// roles are offered, too. Blocks on the disk.
    pub fn open(
        settings: GatewaySettings,
        data: &Path,
        keeper: &Path,
        clock: &Clock,
        news: &News,
        link: Option<Link>,
    ) -> Self {
        let server = |settings: settings::ServerSettings| {
            // One file that cannot be read bars its own server alone.
            let pins = Pins::open(data, settings.name.as_str()).map_err(|why| why.to_string());
            Arc::new(Server::new(settings, pins, keeper.to_owned(), clock.clone(), news.clone()))
        };
        let servers = settings.servers.into_iter().map(server).collect();
        let roles = link.map(|link| Arc::new(Roles::new(link, data)));
        let (catalogue, began) = (watch::Sender::default(), Instant::now());
        let (exports, services) = (settings.exports, Vec::new());
        Self { servers, roles, exports, services, catalogue, began }
    }

    /// Offers the services of this node's roles, too.
    #[must_use]
    pub fn with_services(mut self, services: Vec<Arc<dyn RoleProvider>>) -> Self {
        if let Some(roles) = &self.roles {
            let own = services.iter().flat_map(|of_role| {
                let tools = of_role.tools().into_iter();
                tools.map(move |(tool, _)| (of_role.role().clone(), tool.name.to_string()))
            });
            roles.leave_out(own);
        }
        self.services = services;
        self
    }

    /// Keeps all servers running until `stopping`, and ends them then.
    pub async fn run(self: Arc<Self>, stopping: CancellationToken) {
        let mut running = JoinSet::new();
        for server in &self.servers {
            running.spawn(Arc::clone(server).run(stopping.clone()));
        }
        if let Some(roles) = &self.roles {
            running.spawn(Arc::clone(roles).run(stopping.clone()));
            if !self.exports.is_empty() || !self.services.is_empty() {
                let (link, exports) = (roles.link().clone(), self.exports.clone());
                let exporter = Exporter { gateway: Arc::clone(&self), link, exports };
                running.spawn(exporter.run(stopping.clone()));
            }
        }
        self.gather(&stopping).await;
        while running.join_next().await.is_some() {}
    }

    /// Puts together what there is, whenever that changed.
    async fn gather(&self, stopping: &CancellationToken) {
        let servers = self.servers.iter().map(|it| WatchStream::from_changes(it.watch()));
        let servers = servers.map(|it| it.map(|_| ()).boxed());
        let roles = self.roles.iter().map(|it| WatchStream::from_changes(it.watch()));
        let roles = roles.map(|it| it.map(|_| ()).boxed());
        let mut changes = select_all(servers.chain(roles));
        loop {
            let views: Vec<_> = self.servers.iter().map(|it| (Arc::clone(it), it.view())).collect();
            let roles = self.roles();
            let roles: Vec<_> = roles.into_iter().map(|it| (Arc::clone(&it), it.view())).collect();
            // Tools of whoever is away go when its time is over.
            let away = views.iter().filter_map(|(_, view)| view.offline_since());
            let away = away.chain(roles.iter().filter_map(|(_, view)| view.offline_since));
            let now = Instant::now();
            let due = away.map(|since| since + GRACE).filter(|due| now < *due).min();
            let services = self.services.clone();
            let is_synced = self.roles.as_ref().is_none_or(|roles| roles.is_synced());
            let all = spawn_blocking(move || {
                let mut all = Catalogue::new(&views, &services, &roles);
                all.is_settled = is_synced && views.iter().all(|(_, view)| view.is_settled);
                all
            });
            if let Ok(all) = all.await {
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

    /// The roles of this node that have services.
    pub(crate) fn services(&self) -> &[Arc<dyn RoleProvider>] {
        &self.services
    }

    /// The roles of others that export tools, or did.
    pub fn roles(&self) -> Vec<Arc<RemoteRole>> {
        self.roles.as_ref().map(|roles| roles.all()).unwrap_or_default()
    }

    /// Whether a tool of this name that these roles may call changed, and waits for a person.
    pub fn is_held(&self, name: &str, roles: &[&RoleId]) -> bool {
        self.servers().iter().any(|server| {
            let is_meant = |own: &&String| {
                names::exposed(&server.settings.name, own) == name
                    && roles.iter().all(|role| server.settings.access.allows(role, own))
            };
            server.view().offer.held.keys().any(|own| is_meant(&own))
        })
    }

    /// Approves changes of tools of a server or a role, each by the digest of what somebody looked
    /// at. Answers which; `None`: there is none of this name.
    pub async fn approve(
        &self,
        name: &str,
        tools: &BTreeMap<String, String>,
    ) -> Option<Result<Vec<String>, String>> {
        if let Some(server) = self.server(name) {
            return Some(server.approve(tools).await);
        }
        let roles = self.roles.as_ref()?;
        let approved = roles.role(name)?.approve(tools).await;
        roles.changed();
        Some(approved)
    }

    /// What there is now.
    pub fn catalogue(&self) -> Arc<Catalogue> {
        self.catalogue.borrow().clone()
    }

    /// Tells of changes of it.
    pub fn watch(&self) -> watch::Receiver<Arc<Catalogue>> {
        self.catalogue.subscribe()
    }

    /// What there is once each server has answered or failed, and it is known what roles export: whoever asks right after the start wants
    /// no empty list. Nobody waits for that longer than [`LIST_MAX`] after the start.
    pub async fn settled(&self) -> Arc<Catalogue> {
        let mut catalogue = self.watch();
        let whole = catalogue.wait_for(|it| it.is_settled);
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
