//! The roles this node hosts and what all connections to them share.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use rmcp::model::Implementation;
use tasuki_proto::{
    echo::echo,
    id::{InvalidId, RoleId},
    reason::Reason,
};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::{
    hold::Learning,
    in_flight_acks::InFlightAcks,
    instances::{Instances, Playing},
    run_resource::WatchedRuns,
    tasks::Tasks,
    tools::{FencingTokens, LockGrants, label, label_as},
    transport::server::Settings,
};
use crate::{
    hooks::Hooks,
    limiter::{Limiter, Shares},
    mail_directories::Directories,
    mirror::Mirror,
    repository::Repositories,
    role::{Actions, Overview, Refusal, player::Instance},
    runs::{client::RunClient, host::RunsHost},
    toolset::{self, ToolVisibility, ToolsetChoice},
};

/// Tool calls in flight, of all connections together: each holds a task and a wait. Each role has an
/// equal share.
const CALLS_MAX: usize = 4096;

/// The same of sub-agents that run here, of all together: several waits of each that a node takes in.
const STEP_CALLS_MAX: usize = 256;

/// What a sub-agent is shown: it starts others, and speaks to whoever started it.
const STEP_TOOLSETS: [ToolsetChoice; 2] = [
    ToolsetChoice { set: toolset::RUNS, shown: ToolVisibility::Core },
    ToolsetChoice { set: toolset::RUN_STEP, shown: ToolVisibility::Core },
];

pub(super) struct Host {
    pub roles: BTreeMap<RoleId, Arc<dyn Actions>>,
    /// Answers on their way to the agent of each role.
    pub in_flight_acks: BTreeMap<RoleId, InFlightAcks>,
    /// Names that stand for several receivers.
    pub groups: BTreeMap<String, Vec<RoleId>>,
    /// Where the mailboxes of roles belong on disk.
    pub directories: Directories,
    /// What agents may attach files from, and save them to.
    pub project: Option<PathBuf>,
    /// What they attach nothing of, also where it lies in the project: directories and files.
    pub private: Vec<PathBuf>,
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
    /// The roles that take turns, the one that begins first; empty: names say who begins.
    pub order: Vec<RoleId>,
    /// `None`: nobody is shown loops as resources.
    pub overview: Option<Arc<dyn Overview>>,
    /// `None`: nothing is done when something happens to mail.
    pub hooks: Option<Hooks>,
    /// `None`: there are no runs of sub-agents here.
    pub runs: Option<Arc<RunsHost>>,
    /// Those that clients are told of as they go on.
    pub watched_runs: WatchedRuns,
    /// The tokens that agents were given with what they hold.
    pub claims: FencingTokens,
    /// Locks on their way to the agent of each role.
    pub grants: LockGrants,
    /// Waits that clients poll instead of holding a call.
    pub tasks: Arc<Tasks>,
    /// How long a session's wait goes on after its stream broke.
    pub resume_within: Duration,
    /// Tool calls in flight, of each role.
    calls: Shares,
    /// The same of sub-agents.
    step_calls: Limiter,
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
            order,
            overview,
            groups,
            directories,
            project,
            private,
            mirror,
            task_key,
            resume_within,
            clock,
            hooks,
            runs,
            guard: _,
        } = settings;
        let calls = Shares::new("calls of this role", CALLS_MAX, roles.keys());
        let learning = Learning::new(holds_file, clock.clone(), stopping.clone());
        Self {
            hold,
            toolsets,
            order,
            overview,
            groups,
            directories,
            project,
            private,
            repositories: Repositories::default(),
            hooks,
            runs,
            watched_runs: WatchedRuns::default(),
            mirror,
            resume_within,
            instances: Arc::new(Instances::new(roles.keys(), &shared, clock)),
            learning: Arc::new(learning),
            claims: FencingTokens::default(),
            grants: LockGrants::default(),
            tasks: Arc::new(Tasks::new(task_key)),
            in_flight_acks: roles
                .keys()
                .map(|role| (role.clone(), InFlightAcks::default()))
                .collect(),
            roles,
            calls,
            step_calls: Limiter::new("calls of sub-agents", STEP_CALLS_MAX),
            stopping,
        }
    }

    pub(super) fn toolsets(&self, role: &RoleId) -> Vec<ToolsetChoice> {
        self.toolsets.get(role).cloned().unwrap_or_else(|| toolset::usual_toolsets(role))
    }

    pub(super) fn has_set(&self, role: &RoleId, set: &str) -> bool {
        self.toolsets(role).iter().any(|choice| choice.set == set)
    }

    /// Tool calls that have begun and are not over.
    pub(super) fn calls_in_flight(&self) -> usize {
        self.calls.in_use() + self.step_calls.in_use()
    }

    /// Room for one call as `role`.
    pub(super) fn admit(&self, role: &RoleId) -> Result<Option<OwnedSemaphorePermit>, Refusal> {
        self.calls.try_acquire(role)
    }

    /// `who` acts or waits as a role, which is a sign of life of it.
    pub(super) fn enter(
        &self,
        actions: &dyn Actions,
        who: &Instance,
        client: Option<&Implementation>,
    ) -> Result<Playing, Refusal> {
        let client = label(client);
        let playing = self.instances.enter(actions.role(), who, &client)?;
        actions.called(&label_as(&client, who), self.voice(actions.role(), who));
        Ok(playing)
    }

    /// `who` looks at what concerns a role. Whether that is a sign of life of it: nobody else plays
    /// it.
    pub(super) fn looked(
        &self,
        actions: &dyn Actions,
        who: &Instance,
        client: Option<&Implementation>,
    ) -> bool {
        self.heard(actions, who, &label(client))
    }

    /// The same of a client by its name and version; empty: they are not known.
    pub(super) fn heard(&self, actions: &dyn Actions, who: &Instance, client: &str) -> bool {
        let counts = self.instances.looked(actions.role(), who, client);
        if counts {
            actions.called(&label_as(client, who), self.voice(actions.role(), who));
        }
        counts
    }

    /// Whose signs of life are the role's, once `who` gave one; `None`: those of everybody who may
    /// play it.
    fn voice<'a>(&self, role: &RoleId, who: &'a Instance) -> Option<&'a Instance> {
        (!self.instances.is_shared(role)).then_some(who)
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
    /// A sub-agent that runs here, and no role.
    Step(Arc<StepCaller>),
}

/// A sub-agent that runs on this node, known by its key.
#[derive(Debug)]
pub(super) struct StepCaller {
    /// Speaks as the step.
    pub client: RunClient,
}

impl Scope {
    pub(super) const fn is_step(&self) -> bool {
        matches!(self, Self::Step(_))
    }

    /// A call's place: a sub-agent's at once, a role's once it is known which one calls.
    pub(super) fn admitted(
        &self,
        host: &Host,
    ) -> Result<OnceLock<Option<OwnedSemaphorePermit>>, Refusal> {
        match self {
            Self::One(_) | Self::All => Ok(OnceLock::new()),
            Self::Step(_) => Ok(OnceLock::from(Some(host.step_calls.try_acquire()?))),
        }
    }

    /// The one role, if this address or this node has only one.
    pub(super) fn only<'a>(&'a self, host: &'a Host) -> Option<&'a Arc<dyn Actions>> {
        match self {
            Self::One(actions) => Some(actions),
            Self::All => host.only(),
            Self::Step(_) => None,
        }
    }

    /// The roles an address may speak for.
    pub(super) fn roles<'a>(&'a self, host: &'a Host) -> Vec<&'a RoleId> {
        match self {
            Self::One(actions) => vec![actions.role()],
            Self::All => host.roles.keys().collect(),
            Self::Step(_) => Vec::new(),
        }
    }

    /// The toolsets of those roles, or of a sub-agent.
    pub(super) fn toolsets(&self, host: &Host) -> Vec<ToolsetChoice> {
        match self {
            Self::One(_) | Self::All => {
                self.roles(host).into_iter().flat_map(|role| host.toolsets(role)).collect()
            }
            Self::Step(_) => STEP_TOOLSETS.to_vec(),
        }
    }

    /// Whom a call is for, when its parameter `field` says `named`.
    pub(super) fn resolve(
        &self,
        host: &Host,
        field: &str,
        named: Option<&str>,
    ) -> Result<Arc<dyn Actions>, Refusal> {
        match (self, named) {
            (Self::Step(_), _) => Err(Refusal {
                reason: Reason::RoleForbidden,
                message: "A sub-agent plays no role, so this tool is not for it. Call ask_parent \
                          or report_to_parent to reach whoever started you."
                    .to_owned(),
            }),
            (Self::One(actions), None) => Ok(Arc::clone(actions)),
            (Self::One(actions), Some(named)) if named == actions.role().as_str() => {
                Ok(Arc::clone(actions))
            }
            (Self::One(actions), Some(named)) => {
                let role = actions.role();
                Err(Refusal {
                    reason: Reason::RoleForbidden,
                    message: format!(
                        "`{field}` is {named}, but this connection is for role {role}. Omit \
                         `{field}` or set it to {role:?}.",
                        named = echo(named),
                        role = role.as_str()
                    ),
                })
            }
            (Self::All, None) => host.only().map(Arc::clone).ok_or_else(|| Refusal {
                reason: Reason::RoleRequired,
                message: format!(
                    "`{field}` is missing, and this node hosts several roles: {}. Set it to your \
                     role.",
                    host.names()
                ),
            }),
            (Self::All, Some(named)) => {
                let role: RoleId = named.parse().map_err(|error: InvalidId| Refusal {
                    reason: Reason::InvalidArgument,
                    message: format!("`{field}` is not a role name: {} {error}.", echo(named)),
                })?;
                host.roles.get(&role).map(Arc::clone).ok_or_else(|| Refusal {
                    reason: Reason::UnknownRole,
                    message: format!(
                        "`{field}` is {role}, which this node does not host. It hosts: {}.",
                        host.names()
                    ),
                })
            }
        }
    }
}
