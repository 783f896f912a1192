//! The roles this node hosts and what all connections to them share.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use tasuki_proto::{
    echo::echo,
    id::{InvalidId, RoleId},
    reason::Reason,
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{
    hold::Learning,
    instances::Instances,
    shown::Shown,
    tasks::Tasks,
    tools::{Claims, Grants},
    transport::server::Settings,
};
use crate::{
    config::{self, ToolsetChoice},
    hooks::Hooks,
    mail_directories::Directories,
    mirror::Mirror,
    repository::Repositories,
    role::{Actions, Overview, Refusal},
};

/// Tool calls in flight, of all connections together: each holds a task and a wait.
const CALLS_MAX: usize = 4096;

pub(super) struct Host {
    pub roles: BTreeMap<RoleId, Arc<dyn Actions>>,
    /// Mail on its way to the agent of each.
    pub shown: BTreeMap<RoleId, Shown>,
    /// Names that stand for several receivers.
    pub groups: BTreeMap<String, Vec<RoleId>>,
    /// Where the mailboxes of roles belong on disk.
    pub directories: Directories,
    /// What agents may attach files from, and save them to.
    pub project: Option<PathBuf>,
    /// Whose files agents lock.
    pub repositories: Repositories,
    /// `None`: no mailbox is kept on disk.
    pub mirror: Option<Mirror>,
    /// Which agent plays each.
    pub instances: Arc<Instances>,
    /// What held calls teach of clients' patience.
    pub learning: Arc<Learning>,
    /// The hold of a connection that does not say.
    pub hold: Option<Duration>,
    /// The tools of each role; of one that is not here, what is usual for its name.
    pub toolsets: BTreeMap<RoleId, Vec<ToolsetChoice>>,
    /// `None`: nobody is shown loops as resources.
    pub overview: Option<Arc<dyn Overview>>,
    /// `None`: nothing is done when something happens to mail.
    pub hooks: Option<Hooks>,
    /// The tokens that agents were given with what they hold.
    pub claims: Claims,
    /// Locks on their way to the agent of each role.
    pub grants: Grants,
    /// Waits that clients poll instead of holding a call.
    pub tasks: Arc<Tasks>,
    /// How long a session's wait goes on after its stream broke.
    pub resume_within: Duration,
    /// Calls that may still begin.
    pub calls: Semaphore,
    /// Answer waits.
    pub stopping: CancellationToken,
}

impl Host {
    pub(super) fn new(
        roles: Vec<Arc<dyn Actions>>,
        settings: Settings,
        stopping: CancellationToken,
    ) -> Self {
        let roles: BTreeMap<RoleId, Arc<dyn Actions>> =
            roles.into_iter().map(|actions| (actions.role().clone(), actions)).collect();
        let Settings {
            sessions_dir: _,
            holds_file,
            shared,
            hold,
            toolsets,
            overview,
            groups,
            directories,
            project,
            mirror,
            task_key,
            resume_within,
            clock,
            hooks,
            guard: _,
        } = settings;
        let learning = Learning::new(holds_file, clock.clone(), stopping.clone());
        Self {
            hold,
            toolsets,
            overview,
            groups,
            directories,
            project,
            repositories: Repositories::default(),
            hooks,
            mirror,
            resume_within,
            instances: Arc::new(Instances::new(roles.keys(), &shared, clock)),
            learning: Arc::new(learning),
            claims: Claims::default(),
            grants: Grants::default(),
            tasks: Arc::new(Tasks::new(task_key)),
            shown: roles.keys().map(|role| (role.clone(), Shown::default())).collect(),
            roles,
            calls: Semaphore::new(CALLS_MAX),
            stopping,
        }
    }

    pub(super) fn toolsets(&self, role: &RoleId) -> Vec<ToolsetChoice> {
        self.toolsets.get(role).cloned().unwrap_or_else(|| config::usual_toolsets(role))
    }

    pub(super) fn has_set(&self, role: &RoleId, set: &str) -> bool {
        self.toolsets(role).iter().any(|choice| choice.set == set)
    }

    /// Tool calls that have begun and are not over.
    pub(super) fn calls_in_flight(&self) -> usize {
        CALLS_MAX - self.calls.available_permits()
    }

    /// `A, B`, or `none`.
    pub(super) fn names(&self) -> String {
        let names: Vec<&str> = self.roles.keys().map(RoleId::as_str).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }

    pub(super) fn only(&self) -> Option<&Arc<dyn Actions>> {
        let mut roles = self.roles.values();
        roles.next().filter(|_| roles.next().is_none())
    }
}

/// Whom an address speaks for.
#[derive(Clone)]
pub(super) enum Scope {
    /// One role; a parameter may only repeat it.
    One(Arc<dyn Actions>),
    /// Every role of the node; the tool's own parameter says which.
    All,
}

impl Scope {
    /// The one role, if this address or this node has only one.
    pub(super) fn only<'a>(&'a self, host: &'a Host) -> Option<&'a Arc<dyn Actions>> {
        match self {
            Self::One(actions) => Some(actions),
            Self::All => host.only(),
        }
    }

    /// The roles an address may speak for.
    pub(super) fn roles<'a>(&'a self, host: &'a Host) -> Vec<&'a RoleId> {
        match self {
            Self::One(actions) => vec![actions.role()],
            Self::All => host.roles.keys().collect(),
        }
    }

    /// The toolsets of those roles.
    pub(super) fn toolsets(&self, host: &Host) -> Vec<ToolsetChoice> {
        self.roles(host).into_iter().flat_map(|role| host.toolsets(role)).collect()
    }

    /// Whom a call is for, when its parameter `field` says `named`.
    pub(super) fn resolve(
        &self,
        host: &Host,
        field: &str,
        named: Option<&str>,
    ) -> Result<Arc<dyn Actions>, Refusal> {
        match (self, named) {
            (Self::One(actions), None) => Ok(Arc::clone(actions)),
            (Self::One(actions), Some(named)) if named == actions.role().as_str() => {
                Ok(Arc::clone(actions))
            }
            (Self::One(actions), Some(named)) => {
                let role = actions.role();
                Err(Refusal {
                    reason: Reason::RoleForbidden,
                    message: format!(
                        "`{field}` names {named}, but this connection is for role {role}. \
                         Leave `{field}` out or give {role:?}.",
                        named = echo(named),
                        role = role.as_str()
                    ),
                })
            }
            (Self::All, None) => host.only().map(Arc::clone).ok_or_else(|| Refusal {
                reason: Reason::RoleRequired,
                message: format!(
                    "`{field}` is missing, and this node hosts several roles: {}. \
                     Say which one you are.",
                    host.names()
                ),
            }),
            (Self::All, Some(named)) => {
                let role: RoleId = named.parse().map_err(|error: InvalidId| Refusal {
                    reason: Reason::InvalidArgument,
                    message: format!("`{field}` is not a role's name: {} {error}.", echo(named)),
                })?;
                host.roles.get(&role).map(Arc::clone).ok_or_else(|| Refusal {
                    reason: Reason::UnknownRole,
                    message: format!(
                        "`{field}` names {role}, which this node does not host. \
                         It hosts: {}.",
                        host.names()
                    ),
                })
            }
        }
    }
}
