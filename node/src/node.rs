//! A running node: its identity, its link to the broker, and the actors of its roles.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use ractor::{Actor as _, ActorRef, SpawnErr};
use tasuki_broker::grpc::Carrier;
use tasuki_proto::{
    id::{NodeId, RoleId, Toolset, WorkspaceId},
    limits::{ROLES_MAX, TOOLSETS_MAX},
};
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
};

use crate::{
    hooks::{self, Hooks, spec::Hook, work_event::Hosted},
    identity::{DataLock, Identity, IdentityError},
    link::{self, HostedRole, Link, LinkState},
    mirror::{self, Mirror},
    presence::Presence,
    role::{Actions, Overview, actor::RoleContext, handle::Handle, supervisor::Supervisor},
    toolset,
};

/// A role to host, with the tools its agent gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleSpec {
    pub role: RoleId,
    pub toolsets: Vec<Toolset>,
    /// Takes part in the loop `main` only where fewer than two other roles do.
    pub is_standby: bool,
}

/// What a node is started with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The broker's address, such as `http://127.0.0.1:7420`.
    pub broker: String,
    /// Reaches it, where it is in this process.
    pub carrier: Option<Carrier>,
    pub workspace: WorkspaceId,
    pub roles: Vec<RoleSpec>,
    /// Where the node's identity is kept; one process at a time.
    pub data: PathBuf,
    /// End another live node's claim on these roles.
    pub take_over: bool,
    /// The user said that `data` was moved, so no other node runs on a copy of it.
    pub is_moved: bool,
}

/// Why a node does not start. A broker that cannot be reached is no reason.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error("a node hosts at least one role; name one with --role")]
    NoRole,
    #[error("{0} roles are more than the {ROLES_MAX} that one node hosts")]
    TooManyRoles(usize),
    #[error("role {0} is named twice")]
    RoleTwice(RoleId),
    #[error("role {role} has {count} toolsets; the limit is {TOOLSETS_MAX}")]
    TooManyToolsets { role: RoleId, count: usize },
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Link(#[from] link::StartError),
    #[error("the actors of the roles do not start")]
    Actors(#[from] SpawnErr),
}

/// A running node.
pub struct Node {
    settings: Settings,
    identity: Arc<Identity>,
    link: Link,
    state: watch::Receiver<LinkState>,
    handles: BTreeMap<RoleId, Arc<Handle>>,
    supervisor: ActorRef<()>,
    supervision: Option<JoinHandle<()>>,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("node", self.identity.node())
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Node {
    /// Takes the data directory, starts the roles, and connects in the background.
    pub async fn start(settings: Settings) -> Result<Self, NodeError> {
        let lock = DataLock::take(&settings.data)?;
        Self::start_locked(lock, settings).await
    }

    /// The same, of a data directory that this process has already.
    pub async fn start_locked(lock: DataLock, settings: Settings) -> Result<Self, NodeError> {
        check(&settings.roles)?;
        let identity = Arc::new(Identity::open_locked(lock, settings.is_moved)?);
        let hosted: Vec<_> = settings
            .roles
            .iter()
            .map(|spec| HostedRole {
                role: spec.role.clone(),
                toolsets: spec.toolsets.clone(),
                is_standby: spec.is_standby,
                presence: Presence::default(),
            })
            .collect();
        let link_settings = link::Settings {
            broker: settings.broker.clone(),
            carrier: settings.carrier.clone(),
            workspace: settings.workspace.clone(),
            node: identity.node().clone(),
            roles: hosted.clone(),
            take_over: settings.take_over,
        };
        let link = Link::start(link_settings, identity.clone())?;
        let surroundings = |hosted: &HostedRole| RoleContext {
            role: hosted.role.clone(),
            presence: hosted.presence.clone(),
            link: link.clone(),
        };
        let (started, actors) = oneshot::channel();
        let arguments = (hosted.iter().map(surroundings).collect(), started);
        let (supervisor, supervision) = Supervisor::spawn(None, Supervisor, arguments).await?;
        let actors = actors.await.unwrap_or_default();
        assert_eq!(actors.len(), hosted.len(), "a supervisor that started has started its actors");
        let handles = hosted
            .into_iter()
            .zip(actors)
            .map(|(HostedRole { role, presence, .. }, actor)| {
                (role.clone(), Arc::new(Handle::new(role, presence, &link, actor)))
            })
            .collect();
        let state = link.state();
        let supervision = Some(supervision);
        Ok(Self { settings, identity, link, state, handles, supervisor, supervision })
    }

    /// What the agent playing `role` can ask for; `None` when this node does not host it.
    pub fn actions(&self, role: &RoleId) -> Option<Arc<dyn Actions>> {
        let handle = self.handles.get(role)?;
        Some(handle.clone())
    }

    /// What can be seen of the workspace without playing a role.
    pub fn overview(&self) -> Arc<dyn Overview> {
        Arc::new(self.link.clone())
    }

    /// Begins what is to be done when something happens at the roles of this node.
    ///
    /// # Errors
    /// When what is kept of it in the data directory cannot be read.
    pub fn start_hooks(&self, hooks: Vec<Hook>) -> io::Result<Hooks> {
        let with = |set: &str| {
            let has = |spec: &&RoleSpec| spec.toolsets.iter().any(|it| it.as_str() == set);
            self.settings.roles.iter().filter(has).map(|spec| spec.role.clone()).collect()
        };
        let hosted = Hosted {
            roles: self.settings.roles.iter().map(|spec| spec.role.clone()).collect(),
            workers: with(toolset::SWARM_WORKER),
            acceptors: with(toolset::SWARM_ACCEPTOR),
        };
        let workspace = self.settings.workspace.clone();
        let writer = hooks::document::Writer { workspace, node: self.id().clone() };
        Hooks::start(hooks, &self.settings.data, hosted, writer, Arc::new(self.link.clone()))
    }

    /// Keeps mailboxes on disk; `roots` are the projects they belong to, `within` where the operator
    /// has them.
    pub fn start_mirror(
        &self,
        roots: watch::Receiver<mirror::Roots>,
        within: Option<PathBuf>,
        groups: mirror::Groups,
    ) -> Mirror {
        Mirror::start(mirror::Settings {
            data: self.settings.data.clone(),
            workspace: self.settings.workspace.clone(),
            roots,
            within,
            source: Arc::new(self.link.clone()),
            groups,
        })
    }

    /// The connection to the broker, for what belongs to no role.
    pub const fn link(&self) -> &Link {
        &self.link
    }

    pub fn roles(&self) -> &[RoleSpec] {
        &self.settings.roles
    }

    pub fn id(&self) -> &NodeId {
        self.identity.node()
    }

    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The connection to the broker as it stands.
    pub fn link_state(&self) -> LinkState {
        self.state.borrow().clone()
    }

    /// The same, for whoever waits for it to change.
    pub fn watch_link(&self) -> watch::Receiver<LinkState> {
        self.state.clone()
    }

    /// Answers waits with `still_waiting`, takes on nothing new, gives commands and receipts
    /// until `within` to end, and gives the data directory free.
    pub async fn shutdown(mut self, within: Duration) {
        self.link.shutdown(within).await;
        self.supervisor.stop(None);
        if let Some(supervision) = self.supervision.take()
            && let Err(error) = supervision.await
        {
            tracing::warn!(%error, "the supervisor of the roles had failed");
        }
    }
}

impl Drop for Node {
    /// A node that is dropped without [`Node::shutdown`] leaves nothing running.
    fn drop(&mut self) {
        self.link.abandon();
        self.supervisor.stop(None);
    }
}

fn check(roles: &[RoleSpec]) -> Result<(), NodeError> {
    if roles.is_empty() {
        return Err(NodeError::NoRole);
    }
    if ROLES_MAX < roles.len() {
        return Err(NodeError::TooManyRoles(roles.len()));
    }
    let mut names = BTreeSet::new();
    for spec in roles {
        if !names.insert(&spec.role) {
            return Err(NodeError::RoleTwice(spec.role.clone()));
        }
        let count = spec.toolsets.len();
        if TOOLSETS_MAX < count {
            return Err(NodeError::TooManyToolsets { role: spec.role.clone(), count });
        }
    }
    Ok(())
}
