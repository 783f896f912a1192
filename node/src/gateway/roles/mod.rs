//! Tools of roles on other nodes, and those that the roles here export to them.
//!
//! A tool that another role exports is offered like one of a server that is called as the role is:
//! `qa__run_tests`. What its node says of it is judged as a server's words are (GW1): cleaned, and
//! held when it changes. A role whose node went away is shown as offline for a while, then it is
//! gone.
//!
//! Not here: the calls of the broker (`link/relay`).

mod remote_role;
mod serve;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::{FutureExt as _, TryStreamExt as _};
use parking_lot::Mutex;
use tasuki_proto::{id::RoleId, wire};
use tokio::{sync::watch, task::spawn_blocking};
use tokio_util::sync::CancellationToken;

pub use self::remote_role::{RemoteRole, RoleView};
pub(super) use self::serve::Exporter;
use super::{pins::Pins, view::Shown};
use crate::{
    limiter::Limiter,
    link::{Link, reopen::Reopening},
};

/// Roles of others whose tools are offered here: each has up to 1 MiB of listings. What more there
/// are is left out.
const REMOTE_ROLES_MAX: usize = 256;

/// Calls of other nodes' tools that are under way: each is a stream, of which a token has a number.
const CALLS_MAX: usize = 32;

/// What other roles export, as it was told last.
#[derive(Debug)]
pub(super) struct Roles {
    link: Link,
    data: PathBuf,
    all: Mutex<BTreeMap<RoleId, Arc<RemoteRole>>>,
    /// Services of this node's roles, which come back by way of the broker.
    own: Mutex<BTreeSet<(RoleId, String)>>,
    changes: watch::Sender<u64>,
    /// What there is was told once.
    is_synced: AtomicBool,
    calls: Arc<Limiter>,
}

impl Roles {
    pub(super) fn new(link: Link, data: &Path) -> Self {
        let (data, changes) = (data.to_owned(), watch::Sender::new(0));
        let calls = Arc::new(Limiter::new("calls of other nodes' tools", CALLS_MAX));
        let (all, is_synced) = (Mutex::default(), AtomicBool::new(false));
        Self { link, data, all, own: Mutex::default(), changes, is_synced, calls }
    }

    /// What is offered without the broker.
    pub(super) fn leave_out(&self, own: impl Iterator<Item = (RoleId, String)>) {
        self.own.lock().extend(own);
    }

    pub(super) const fn link(&self) -> &Link {
        &self.link
    }

    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Whether what there is was told.
    pub(super) fn is_synced(&self) -> bool {
        self.is_synced.load(Ordering::Acquire)
    }

    pub(super) fn all(&self) -> Vec<Arc<RemoteRole>> {
        self.all.lock().values().cloned().collect()
    }

    pub(super) fn role(&self, name: &str) -> Option<Arc<RemoteRole>> {
        self.all.lock().values().find(|it| it.name().as_str() == name).cloned()
    }

    /// Follows what roles export until `stopping`.
    pub(super) async fn run(self: Arc<Self>, stopping: CancellationToken) {
        let following = async {
            let mut reopening = Reopening::new();
            loop {
                self.link.connected().await;
                match self.link.watch_tools().await {
                    Ok(tools) => {
                        reopening.opened();
                        let watching = tools.try_for_each(|role_tools| {
                            reopening.received();
                            self.update(role_tools).map(Ok)
                        });
                        let ended = watching.await;
                        tracing::debug!(?ended, "tools of roles are to be watched again");
                        // Whether they are there nobody knows.
                        self.all().iter().for_each(|role| role.set_offline());
                        self.changed();
                        reopening.after_end(&self.link).await;
                    }
                    Err(refusal) => {
                        tracing::debug!(%refusal, "tools of other roles are not known");
                        reopening.after_refusal(&self.link).await;
                    }
                }
            }
        };
        tokio::select! {
            () = following => {}
            () = stopping.cancelled() => {}
        }
    }

    pub(super) fn changed(&self) {
        self.changes.send_modify(|number| *number += 1);
    }

    /// Takes over what a role exports now.
    async fn update(&self, mut role_tools: wire::RoleTools) {
        if role_tools.role.is_empty() {
            // That was all there is.
            self.is_synced.store(true, Ordering::Release);
            return self.changed();
        }
        let Ok(name) = role_tools.role.parse::<RoleId>() else { return };
        role_tools.tools.retain(|it| {
            let tool = (name.clone(), it.name.clone());
            !self.own.lock().contains(&tool)
        });
        let known = self.all.lock().get(&name).cloned();
        if role_tools.tools.is_empty() {
            if let Some(role) = known {
                role.set_offline();
                self.changed();
            }
            return;
        }
        let role = match known {
            Some(role) => role,
            None => {
                let (data, of) = (self.data.clone(), name.clone());
                // A role's name is none of a server's: it cannot begin like this.
                let pins = spawn_blocking(move || Pins::open(&data, &format!("role.{of}")));
                let pins = match pins.await {
                    Ok(Ok(pins)) => pins,
                    Ok(Err(why)) => {
                        tracing::warn!(%why, role = %name, "tools of a role are left out");
                        return;
                    }
                    Err(_) => return,
                };
                let mut all = self.all.lock();
                if REMOTE_ROLES_MAX <= all.len() {
                    all.retain(|_, it| it.view().shown() != Shown::Gone);
                }
                if REMOTE_ROLES_MAX <= all.len() {
                    tracing::warn!(
                        role = %name,
                        "tools of a role are left out: those of {REMOTE_ROLES_MAX} others are \
                         offered already"
                    );
                    return;
                }
                let calls = Arc::clone(&self.calls);
                let new = RemoteRole::new(name.clone(), self.link.clone(), pins, calls);
                Arc::clone(all.entry(name).or_insert_with(|| Arc::new(new)))
            }
        };
        role.update(role_tools.tools).await;
        self.changed();
    }
}
