//! The roles this node hosts and what all connections to them share.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use parking_lot::Mutex;
use rmcp::model::Implementation;
use tasuki_proto::{
    echo::echo,
    id::{InvalidId, RoleId},
    nearest::did_you_mean,
    reason::Reason,
    run::StepId,
};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::{
    hold::Learning,
    in_flight_acks::InFlightAcks,
    instances::{Instances, Playing},
    tasks::Tasks,
    tools::{FencingTokens, LockGrants, SuspendedCalls, label, label_as},
    transport::server::Settings,
};
use crate::{
    commands::Commands,
    file_access::Files,
    gateway::{Gateway, Server},
    hooks::Hooks,
    limiter::{Limiter, Shares},
    mail_directories::Directories,
    mirror::Mirror,
    repository::Repositories,
    role::{Actions, Overview, Refusal, player::Instance},
    runs::{
        client::{RunCaller, RunClient},
        host::RunsHost,
    },
    toolset::{self, ToolVisibility, ToolsetChoice},
    wake::{
        pending::Tools,
        service::{ActiveCall, Around, Waker},
    },
};

/// Tool calls in flight, of all connections together: each holds a task and a wait. Each role has an
/// equal share.
const CALLS_MAX: usize = 4096;

/// The share of a role that is one of many: a few waits, and what a model calls side by side.
const CALLS_OF_ROLE_MIN: usize = 16;

/// The same of sub-agents that run here, of all together: several waits of each that a node takes in.
const STEP_CALLS_MAX: usize = 256;

/// Of those, calls of one sub-agent.
const STEP_CALLS_SHARE: usize = 16;

/// What a sub-agent is shown: it starts others, and speaks to whoever started it.
const STEP_TOOLSETS: [ToolsetChoice; 2] = [
    ToolsetChoice { set: toolset::RUNS, shown: ToolVisibility::Core },
    ToolsetChoice { set: toolset::RUN_STEP, shown: ToolVisibility::Core },
];

/// The place of a call among those under way, until it is dropped.
pub(super) type Places = Vec<OwnedSemaphorePermit>;

/// Calls of sub-agents that are under way: of all, and of each of them.
#[derive(Debug)]
struct StepCalls {
    all: Limiter,
    shares: Mutex<BTreeMap<StepId, Limiter>>,
}

impl StepCalls {
    fn new() -> Self {
        let all = Limiter::new("calls of sub-agents", STEP_CALLS_MAX);
        Self { all, shares: Mutex::default() }
    }

    fn try_acquire(&self, step: StepId) -> Result<Places, Refusal> {
        let mut shares = self.shares.lock();
        // Those of steps that have ended are among them.
        shares.retain(|_, share| share.in_use() != 0);
        let share = shares.entry(step);
        let share =
            share.or_insert_with(|| Limiter::new("calls of this sub-agent", STEP_CALLS_SHARE));
        Ok(vec![share.try_acquire()?, self.all.try_acquire()?])
    }
}

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
    /// The tools of other MCP servers; `None`: there are none.
    pub gateway: Option<Arc<Gateway>>,
    /// The files of the node; `Err`: why there are none.
    pub files: Result<Arc<Files>, String>,
    /// What agents may run; `Err`: why nothing.
    pub commands: Result<Arc<Commands>, String>,
    /// The tokens that agents were given with what they hold.
    pub claims: FencingTokens,
    /// Locks on their way to the agent of each role.
    pub grants: LockGrants,
    /// Calls of servers that wait for what a client's user says.
    pub suspended: SuspendedCalls,
    /// Waits that clients poll instead of holding a call.
    pub tasks: Arc<Tasks>,
    /// Wakes the agents of the roles.
    pub waker: Waker,
    /// How long a session's wait goes on after its stream broke.
    pub resume_within: Duration,
    /// Tool calls in flight, of each role.
    calls: Shares,
    /// The same of sub-agents.
    step_calls: StepCalls,
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
            gateway,
            files,
            commands,
            pages: _,
            wake_file,
            workspace,
            guard: _,
        } = settings;
        let calls = Shares::new("calls of this role", CALLS_MAX, CALLS_OF_ROLE_MIN, roles.keys());
        let learning = Learning::new(holds_file, clock.clone(), stopping.clone());
        let choices = |role: &RoleId| {
            toolsets.get(role).cloned().unwrap_or_else(|| toolset::usual_toolsets(role))
        };
        let woken = roles.iter().map(|(role, it)| (Arc::clone(it), Tools::of(&choices(role))));
        let around = Around {
            news: overview.as_ref().map(|it| it.news().clone()),
            file: wake_file,
            workspace,
            clock: clock.clone(),
            stopping: stopping.clone(),
        };
        let waker = Waker::new(woken, around);
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
            gateway,
            files,
            commands,
            mirror,
            waker,
            resume_within,
            instances: Arc::new(Instances::new(roles.keys(), &shared, clock)),
            learning: Arc::new(learning),
            claims: FencingTokens::default(),
            grants: LockGrants::default(),
            suspended: SuspendedCalls::default(),
            tasks: Arc::new(Tasks::new(task_key)),
            in_flight_acks: roles
                .keys()
                .map(|role| (role.clone(), InFlightAcks::default()))
                .collect(),
            roles,
            calls,
            step_calls: StepCalls::new(),
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
        self.calls.in_use() + self.step_calls.all.in_use()
    }

    /// Room for one call as `role`.
    pub(super) fn admit(&self, role: &RoleId) -> Result<Option<OwnedSemaphorePermit>, Refusal> {
        self.calls.try_acquire(role)
    }

    /// The same for a sub-agent.
    pub(super) fn admit_step(&self, step: StepId) -> Result<Places, Refusal> {
        self.step_calls.try_acquire(step)
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

    /// The same for whoever named another.
    pub(super) fn names_for(&self, role: &str) -> String {
        self.names() + &did_you_mean(role, self.roles.keys().map(RoleId::as_str))
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
    Step(Arc<RunClient>),
    /// One role, and of all that it has one other MCP server, under that server's own names.
    Server(Arc<dyn Actions>, Arc<Server>),
}

impl Scope {
    pub(super) const fn is_step(&self) -> bool {
        matches!(self, Self::Step(_))
    }

    /// A call's place: a sub-agent's at once, a role's once it is known which one calls.
    pub(super) fn admitted(&self, host: &Host) -> Result<OnceLock<Places>, Refusal> {
        let Self::Step(client) = self else { return Ok(OnceLock::new()) };
        Ok(match client.caller() {
            RunCaller::Step(key) => OnceLock::from(host.admit_step(key.step())?),
            RunCaller::Role(role) => OnceLock::from(Vec::from_iter(host.admit(role)?)),
        })
    }

    /// The one role, if this address or this node has only one.
    pub(super) fn only<'a>(&'a self, host: &'a Host) -> Option<&'a Arc<dyn Actions>> {
        match self {
            Self::One(actions) | Self::Server(actions, _) => Some(actions),
            Self::All => host.only(),
            Self::Step(_) => None,
        }
    }

    /// A call of the one role is under way, as long as what is returned is kept.
    pub(super) fn begin(
        &self,
        host: &Host,
        client: Option<&Implementation>,
        thread: Option<&str>,
    ) -> Option<ActiveCall> {
        let role = self.only(host)?.role();
        Some(host.waker.begin(role, &label(client), thread))
    }

    /// The roles an address may speak for.
    pub(super) fn roles<'a>(&'a self, host: &'a Host) -> Vec<&'a RoleId> {
        match self {
            Self::One(actions) | Self::Server(actions, _) => vec![actions.role()],
            Self::All => host.roles.keys().collect(),
            Self::Step(_) => Vec::new(),
        }
    }

    /// The roles whose own tools, prompts and resources an address shows.
    pub(super) fn shown_roles<'a>(&'a self, host: &'a Host) -> Vec<&'a RoleId> {
        if self.server().is_some() { Vec::new() } else { self.roles(host) }
    }

    /// The one server that an address shows, if it shows nothing else.
    pub(super) const fn server(&self) -> Option<&Arc<Server>> {
        match self {
            Self::Server(_, server) => Some(server),
            Self::One(_) | Self::All | Self::Step(_) => None,
        }
    }

    /// The toolsets of those roles, or of a sub-agent.
    pub(super) fn toolsets(&self, host: &Host) -> Vec<ToolsetChoice> {
        match self {
            Self::One(_) | Self::All | Self::Server(..) => {
                self.shown_roles(host).into_iter().flat_map(|role| host.toolsets(role)).collect()
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
            (Self::One(actions) | Self::Server(actions, _), None) => Ok(Arc::clone(actions)),
            (Self::One(actions) | Self::Server(actions, _), Some(named))
                if named == actions.role().as_str() =>
            {
                Ok(Arc::clone(actions))
            }
            (Self::One(actions) | Self::Server(actions, _), Some(named)) => {
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
                        host.names_for(role.as_str())
                    ),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sub_agent_that_floods_takes_nothing_from_the_others() {
        let run = "run_1700000000000_00af".parse().unwrap();
        let [one, two] = [1, 2].map(|number| StepId { run, number });
        let calls = StepCalls::new();
        let flood: Vec<_> =
            (0..STEP_CALLS_SHARE).map(|_| calls.try_acquire(one).unwrap()).collect();
        let refusal = calls.try_acquire(one).unwrap_err();
        assert!(refusal.message.starts_with("16 calls of this sub-agent"), "{refusal}");
        let other = calls.try_acquire(two).unwrap();
        assert_eq!(calls.all.in_use(), STEP_CALLS_SHARE + 1);
        drop((flood, other));
        drop(calls.try_acquire(two).unwrap());
        assert_eq!((calls.all.in_use(), calls.shares.lock().len()), (0, 1), "none is kept");
    }
}
