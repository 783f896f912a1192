//! A caller inside a workspace that it may see: the only way from a call to a workspace.
//!
//! - **E6** Nothing is asked of a workspace that the caller's token does not have; for such a
//!   caller it is as if it were not there. Nothing but the registration of a node is asked of one
//!   that there is not.
//! - **E7** Nothing is done as a role that the token does not have, and nothing as a person
//!   without the right to steer.

use std::{collections::BTreeSet, sync::Arc};

use prost::Message;
use tasuki_proto::{
    echo::echo,
    id::{
        Epoch, FencingToken, IdempotencyKey, NodeId, RoleId, Sequence, Timestamp, TokenId,
        WorkspaceId,
    },
    limits::WORKSPACE_DEFAULT,
    reason::Reason,
    rpc::{ResponseEnvelope, RpcResponse},
    run::{RunId, StepId},
    token::Right,
    wire,
};
use tokio::sync::{OwnedSemaphorePermit, broadcast, watch};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Status};

use super::{
    Later, LaterRefusal, at_once, auth, endpoint::Endpoint, parse, refuse, relay::ToolRouter,
    run::Reads, status,
};
use crate::{
    access::{Grant, Tokens},
    connection::Peer,
    hash::Hash,
    journal::{JournalError, StoredRecord, bodies::Bodies, sled::SledJournal},
    rules::{
        self, Caller, Command, Record, Rejection, Reply,
        access::Roles,
        presence::RoleReport,
        run::{self, Report},
        swarm::{self, words},
    },
    search::{Found, Search, SearchError, SearchRequest},
    workspace::{
        ExecuteError, Executed, ParkedWait, Question, Reported, View, WaitReply, Workspaces,
    },
};

/// Workspaces named where one is unknown.
const NAMES_SHOWN_MAX: usize = 20;

/// What all calls share: nothing of it leads to a workspace but [`Services::enter_any`], and
/// [`Services::open`] to that of the broker itself.
#[derive(Debug, Clone)]
pub(super) struct Services {
    pub(super) workspaces: Workspaces,
    search: Search,
    pub(super) tokens: Tokens,
    /// Ends streams when the broker stops.
    pub(super) stopping: CancellationToken,
    pub(super) reads: Reads,
    pub(super) tools: ToolRouter,
    /// For what is about all workspaces.
    pub(super) storage: SledJournal,
}

/// A call that was let through.
#[derive(Debug, Clone)]
pub(super) struct Admitted {
    pub(super) grant: Grant,
    /// The connection it came over.
    pub(super) peer: Option<Arc<Peer>>,
    /// How large what it brings is.
    pub(super) bytes: usize,
}

impl Admitted {
    /// Who makes a call, and which call it is.
    pub(super) fn of<T>(request: &Request<T>) -> Result<Self, Status> {
        let admitted = request.extensions().get::<Self>().cloned();
        // The layer in front inserts it.
        admitted.ok_or_else(|| Reason::Unauthenticated.status("authentication did not run"))
    }

    /// The same of a call whose one message is there, with how large that is.
    fn open<M: Message>(request: Request<M>) -> Result<(Self, M), Status> {
        let admitted = Self::of(&request)?;
        let message = request.into_inner();
        Ok((Self { bytes: message.encoded_len(), ..admitted }, message))
    }
}

impl Services {
    pub(super) fn new(
        workspaces: Workspaces,
        tokens: Tokens,
        search: Search,
        stopping: CancellationToken,
        storage: SledJournal,
    ) -> Self {
        Self {
            workspaces,
            tokens,
            search,
            stopping,
            reads: Reads::default(),
            tools: ToolRouter::default(),
            storage,
        }
    }

    /// Who makes a call and where, and its message without what says so. A call that names no
    /// caller is made to the broker itself, whose records are in the system workspace.
    pub(super) fn open<R: Endpoint>(
        &self,
        request: Request<R>,
    ) -> Result<(WorkspaceSession, R), Status> {
        let (admitted, mut message) = Admitted::open(request)?;
        let mut session = match message.envelope().caller.map(Option::take) {
            None => self.session(&admitted, WorkspaceId::system(), None),
            Some(caller) if R::MAKES_WORKSPACE => {
                // A node that registers has no epoch yet.
                let workspace = caller.map(|it| it.workspace).unwrap_or_default();
                self.enter_any(&admitted, Some(&wire::Caller { workspace, ..Default::default() }))?
            }
            Some(caller) => self.enter(&admitted, caller.as_ref())?,
        };
        if R::CALL.has_key {
            let key = message.envelope().key.and_then(Option::take);
            let hash = Hash::of_fields([R::CALL.path.as_bytes(), &message.intent()]);
            session.key = Some((parse::idempotency_key(key)?, hash));
        }
        if let Some(role) = message.envelope().role {
            session.asker = parse::optional("role", role)?;
        }
        Ok((session, message))
    }

    /// Into the workspace that a caller names. There is such a workspace.
    pub(super) fn enter(
        &self,
        admitted: &Admitted,
        caller: Option<&wire::Caller>,
    ) -> Result<WorkspaceSession, Status> {
        let session = self.enter_any(admitted, caller)?;
        if self.exists(&session.workspace) {
            return Ok(session);
        }
        Err(Reason::UnknownWorkspace.status(format!(
            "there is no workspace {}; nothing was done. There {}. Make one with `tasuki up \
             --workspace NAME`, `tasuki node --workspace NAME`, or `tasuki-broker invite \
             --workspace NAME`",
            session.workspace,
            listed(
                self.names().into_iter().filter(|it| admitted.grant.has_workspace(it)).collect()
            ),
        )))
    }

    fn exists(&self, workspace: &WorkspaceId) -> bool {
        // Callers that name none mean this one, also before anything happened in it.
        workspace.as_str() == WORKSPACE_DEFAULT
            || self.workspaces.exists(workspace)
            || self.tokens.names(workspace)
    }

    /// For whoever may see all of them.
    pub(super) fn names(&self) -> BTreeSet<WorkspaceId> {
        let mut names = self.workspaces.names();
        names.extend(self.tokens.workspaces());
        names.insert(WORKSPACE_DEFAULT.parse().expect("the default is an id"));
        names
    }

    /// Into the workspace that a caller names, whether or not there is one: for a node, which makes
    /// the one that it registers in.
    fn enter_any(
        &self,
        admitted: &Admitted,
        caller: Option<&wire::Caller>,
    ) -> Result<WorkspaceSession, Status> {
        let (workspace, node) = match caller {
            Some(it) => (it.workspace.as_str(), parse::node(it)?),
            None => ("", None),
        };
        let workspace = if workspace.is_empty() { WORKSPACE_DEFAULT } else { workspace };
        let workspace: WorkspaceId = parse::id("workspace", workspace)?;
        if !admitted.grant.has_workspace(&workspace) {
            // Of others it learns nothing, not even whether they are.
            let own = admitted.grant.workspace().map(|own| format!("; it may see {own}"));
            return Err(Reason::UnknownWorkspace.status(format!(
                "there is no workspace {workspace}, or none that your token may see{}",
                own.unwrap_or_default()
            )));
        }
        Ok(self.session(admitted, workspace, node))
    }

    fn session(
        &self,
        admitted: &Admitted,
        workspace: WorkspaceId,
        node: Option<(NodeId, Epoch)>,
    ) -> WorkspaceSession {
        let caller = Caller { node, token: admitted.grant.token().cloned() };
        let (services, admitted) = (self.clone(), admitted.clone());
        WorkspaceSession { services, workspace, caller, admitted, key: None, asker: None }
    }
}

/// Names in a sentence, as many as one reads.
fn listed(names: BTreeSet<WorkspaceId>) -> String {
    let is = if names.len() == 1 { "is" } else { "are" };
    let shown: Vec<&str> = names.iter().take(NAMES_SHOWN_MAX).map(WorkspaceId::as_str).collect();
    let others = match names.len().saturating_sub(NAMES_SHOWN_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{is} {}{others}", shown.join(", "))
}

/// What an answer rests on.
struct Basis {
    repeated: bool,
    sequence: Sequence,
    now: Timestamp,
}

impl Basis {
    fn new(view: &View<'_>, repeated: bool, sequence: Sequence) -> Self {
        Self { repeated, sequence, now: view.now }
    }
}

/// A caller inside a workspace.
#[derive(Debug, Clone)]
pub(super) struct WorkspaceSession {
    pub(super) services: Services,
    pub(super) workspace: WorkspaceId,
    pub(super) caller: Caller,
    pub(super) admitted: Admitted,
    /// Of a mutating call, with the hash of what is asked. The call's name is part of it: the same
    /// bytes mean another thing in another call.
    pub(super) key: Option<(IdempotencyKey, Hash)>,
    /// The role that acts or asks, where the request names one.
    pub(super) asker: Option<RoleId>,
}

impl WorkspaceSession {
    /// The node that calls, where one does.
    pub(super) fn node(&self) -> Option<&NodeId> {
        self.caller.node.as_ref().map(|(node, _)| node)
    }

    /// The role that acts or asks, where it takes one.
    pub(super) fn role(&self) -> Result<RoleId, Status> {
        self.asker.clone().map_or_else(|| parse::id("role", ""), Ok)
    }

    pub(super) fn has_right(&self, right: Right) -> bool {
        self.admitted.grant.has_right(right)
    }

    /// Executes a command as far as the caller may, and answers with what `render` makes of the
    /// reply and of the state right after it, in the same turn of the workspace's actor.
    pub(super) async fn execute<T: RpcResponse>(
        &self,
        command: impl Into<Command>,
        render: impl FnOnce(&View<'_>, Reply) -> Result<Later<T>, Rejection> + Send + 'static,
    ) -> Result<T, Status> {
        let executed = self.execute_within(self.reserve_bytes()?, command, |view, done| {
            let basis = Basis::new(view, done.is_repeat, done.sequence);
            Ok((render(view, done.reply)?, basis))
        });
        self.finish(executed.await?).map_err(status::after_effect)
    }

    /// A place for what the call brings among the bytes that its token has in flight.
    pub(super) fn reserve_bytes(&self) -> Result<Option<OwnedSemaphorePermit>, Status> {
        self.admitted.grant.reserve_bytes(self.admitted.bytes)
    }

    /// Executes a command whose bytes have their place already.
    pub(super) async fn execute_within<T: Send + 'static>(
        &self,
        _reserved: Option<OwnedSemaphorePermit>,
        command: impl Into<Command>,
        render: impl FnOnce(&View<'_>, Executed) -> Result<T, Rejection> + Send + 'static,
    ) -> Result<T, Status> {
        let command = command.into();
        self.check_rights(&command)?;
        let (caller, key) = (self.caller.clone(), self.key.clone());
        let request = rules::Request { caller, key, command };
        let (workspaces, bytes) = (&self.services.workspaces, self.admitted.bytes);
        let rendered = workspaces.execute(&self.workspace, request, bytes, render).await;
        let rendered = rendered.and_then(|it| it.map_err(ExecuteError::Rejected));
        rendered.map_err(|error| status::executing(self.with_names(error)))
    }

    /// The same of the command that `prepare` makes of the state for the role that acts, or says why
    /// it makes none. What a call names is looked up there, and not before: a repeat is answered
    /// from what is kept under its key, whatever the names mean by then. `render` gets what
    /// `prepare` made beside the command; nothing for a repeat.
    pub(super) async fn execute_prepared_within<P: Send + 'static, T: Send + 'static>(
        &self,
        _reserved: Option<OwnedSemaphorePermit>,
        prepare: impl FnOnce(&View<'_>) -> Result<(Command, P), LaterRefusal> + Send + 'static,
        render: impl FnOnce(&View<'_>, Executed, Option<P>) -> Result<T, Rejection> + Send + 'static,
    ) -> Result<T, Status> {
        let role = self.role()?;
        self.check_role(&role)?;
        let session = self.clone();
        let prepare = move |view: &View<'_>| -> Result<(Command, P), LaterRefusal> {
            let (command, prepared) = prepare(view)?;
            session.check_rights(&command).map_err(refuse)?;
            Ok((command, prepared))
        };
        let asked = (self.caller.clone(), self.key.clone(), role);
        let (workspaces, bytes) = (&self.services.workspaces, self.admitted.bytes);
        let executed =
            workspaces.execute_prepared(&self.workspace, asked, bytes, prepare, render).await;
        let rendered = match executed {
            Ok(Ok(rendered)) => rendered.map_err(ExecuteError::Rejected),
            Ok(Err(refuse)) => return Err(refuse(self)),
            Err(error) => Err(error),
        };
        rendered.map_err(|error| status::executing(self.with_names(error)))
    }

    /// The same, answered as [`Self::execute`] answers.
    pub(super) async fn execute_prepared<P: Send + 'static, T: RpcResponse>(
        &self,
        prepare: impl FnOnce(&View<'_>) -> Result<(Command, P), LaterRefusal> + Send + 'static,
        render: impl FnOnce(&View<'_>, Reply, Option<P>) -> Result<Later<T>, Rejection> + Send + 'static,
    ) -> Result<T, Status> {
        let reserved = self.reserve_bytes()?;
        let executed = self.execute_prepared_within(reserved, prepare, |view, done, prepared| {
            let basis = Basis::new(view, done.is_repeat, done.sequence);
            Ok((render(view, done.reply, prepared)?, basis))
        });
        self.finish(executed.await?).map_err(status::after_effect)
    }

    fn finish<T: RpcResponse>(&self, (later, basis): (Later<T>, Basis)) -> Result<T, Status> {
        let mut response = later(self)?;
        let ResponseEnvelope { repeated, sequence, now_ms } = response.envelope();
        repeated.into_iter().for_each(|field| *field = basis.repeated);
        sequence.into_iter().for_each(|field| *field = basis.sequence.get());
        now_ms.into_iter().for_each(|field| *field = basis.now.as_millis());
        Ok(response)
    }

    /// Whether the caller may give this command (E7).
    pub(super) fn check_rights(&self, command: &Command) -> Result<(), Status> {
        let needs = command.needs();
        command.role().into_iter().chain(needs.roles).try_for_each(|role| self.check_role(role))?;
        if command.person().is_some() {
            self.check_right(Right::Steer)?;
        }
        needs.right.map_or(Ok(()), |right| self.check_right(right))
    }

    pub(super) fn check_right(&self, right: Right) -> Result<(), Status> {
        if self.has_right(right) { Ok(()) } else { Err(auth::lacks(right)) }
    }

    /// A refusal over files that a delivery does not name, with their names: the rules know only
    /// which they are.
    fn with_names(&self, error: ExecuteError) -> ExecuteError {
        let ExecuteError::Rejected(Rejection::Swarm(swarm::Rejection::FilesMissing {
            issue,
            missing,
            names,
        })) = error
        else {
            return error;
        };
        let mut found = BTreeSet::new();
        for (submission, files) in &missing {
            let words = words::Artifacts::default();
            let place = swarm::Words::Submission { issue, submission: *submission, words };
            // Without them it says whose files they are.
            let Ok(swarm::Words::Submission { words, .. }) = self.bodies().words(place) else {
                continue;
            };
            let is_missing = |it: &String| files.contains(&swarm::FileHash::of(it));
            found.extend(words.changed_files.into_iter().filter(is_missing));
        }
        let names = match found.is_empty() {
            true => names,
            false => {
                let named: Vec<String> = found.iter().map(|it| echo(it).to_string()).collect();
                rules::listed(named.iter().map(String::as_str))
            }
        };
        let rejection = swarm::Rejection::FilesMissing { issue, missing, names };
        ExecuteError::Rejected(rejection.into())
    }

    /// Runs `query` on the workspace's state, as `asker`, where it asks as a role: then it must be
    /// allowed to act as that, and over a registration that hosts it.
    pub(super) async fn query<T: Send + 'static>(
        &self,
        asker: Option<&RoleId>,
        query: impl FnOnce(&View<'_>) -> Result<T, Rejection> + Send + 'static,
    ) -> Result<T, Status> {
        if let Some(role) = asker {
            self.check_role(role)?;
        }
        let asker = asker.map(|role| (self.caller.clone(), role.clone()));
        let query = move |view: &View<'_>| {
            if let Some((caller, role)) = &asker {
                view.workspace.directory.check(caller, Some(role))?;
            }
            query(view)
        };
        let seen = self.services.workspaces.query(&self.workspace, query).await;
        let seen = seen.map_err(status::executing)?;
        seen.map_err(|rejection| status::rejected(&rejection))
    }

    /// The same, answered as a command is that changed nothing.
    pub(super) async fn show<T: RpcResponse>(
        &self,
        asker: Option<&RoleId>,
        render: impl FnOnce(&View<'_>) -> Result<Later<T>, Rejection> + Send + 'static,
    ) -> Result<T, Status> {
        let shown = self.query(asker, |view| {
            Ok((render(view)?, Basis::new(view, false, view.workspace.sequence)))
        });
        self.finish(shown.await?)
    }

    /// Parks a wait. Whether the caller's registration lets it ask is part of the answer.
    pub(super) async fn park(
        &self,
        question: Question,
        hold_ms: u64,
        reply: impl FnOnce() -> WaitReply,
    ) -> Result<ParkedWait, Status> {
        question.role().map_or(Ok(()), |role| self.check_role(role))?;
        if let Question::Run(run::Question::Steps(_)) = &question {
            self.check_right(Right::Host)?;
        }
        let (workspaces, caller) = (&self.services.workspaces, self.caller.clone());
        let parked = workspaces.park(&self.workspace, question, caller, hold_ms, reply).await;
        parked.map_err(status::executing)
    }

    /// What a role was offered goes to the next.
    pub(super) fn decline(&self, role: RoleId) -> Result<(), Status> {
        self.check_role(&role)?;
        self.services.workspaces.decline(&self.workspace, role, self.caller.clone());
        Ok(())
    }

    /// Takes what a node says of its roles, and answers with what `render` makes of the state.
    pub(super) async fn seen<T: RpcResponse>(
        &self,
        node: NodeId,
        roles: Vec<(RoleId, RoleReport)>,
        render: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Result<T, Status> {
        roles.iter().try_for_each(|(role, ..)| self.check_role(role))?;
        let caller = self.caller.clone();
        let response = self.show(None, move |view| {
            view.workspace.directory.check(&caller, None)?;
            Ok(at_once(render(view)))
        });
        let response = response.await?;
        let seen = self.services.workspaces.seen(&self.workspace, node, roles).await;
        seen.map(|()| response).map_err(status::executing)
    }

    /// Takes a node's report of a step that it runs.
    pub(super) async fn report(
        &self,
        step: StepId,
        token: FencingToken,
        report: Report,
    ) -> Result<Reported, Status> {
        let (workspaces, caller) = (&self.services.workspaces, self.caller.clone());
        let reported = workspaces.report(&self.workspace, caller, (step, token), report).await;
        reported.map_err(status::executing)
    }

    /// Says when a run changed, from here on.
    pub(super) async fn watch(&self, run: RunId) -> Result<watch::Receiver<()>, Status> {
        self.services.workspaces.watch(&self.workspace, run).await.map_err(status::executing)
    }

    /// Records as they become durable, from here on.
    pub(super) async fn subscribe(&self) -> Result<broadcast::Receiver<Arc<Record>>, Status> {
        self.services.workspaces.subscribe(&self.workspace).await.map_err(status::executing)
    }

    /// Looks for mail that the role which asks may read.
    pub(super) async fn search(
        &self,
        ask: SearchRequest,
        include: Sequence,
    ) -> Result<Found, Status> {
        self.check_role(&ask.reader)?;
        let found = self.services.search.search(&self.workspace, ask, include).await;
        found.map_err(|why| match why {
            SearchError::Unavailable(why) => Reason::Unavailable.status(why.to_string()),
            SearchError::Unanswerable => status::invalid("query", &why),
        })
    }

    /// The records that the workspace keeps on disk.
    pub(super) fn records(
        &self,
        from: Sequence,
        records_max: usize,
    ) -> Result<Vec<StoredRecord>, JournalError> {
        self.services.workspaces.journal().read(&self.workspace, from, records_max)
    }

    /// What it keeps on disk beside them.
    pub(super) fn bodies(&self) -> Bodies<'_> {
        Bodies::new(&**self.services.workspaces.journal(), &self.workspace)
    }

    /// Whether a token may still act.
    pub(super) fn is_good(&self, token: &TokenId) -> bool {
        self.services.tokens.is_good(token)
    }

    /// Whether the token allows this role (E7).
    pub(super) fn check_role(&self, role: &RoleId) -> Result<(), Status> {
        if self.admitted.grant.has_role(role) {
            return Ok(());
        }
        let roles = match &self.admitted.grant {
            Grant::Token(live) => match &live.scope.roles {
                Roles::Only(roles) if !roles.is_empty() => {
                    roles.iter().map(RoleId::as_str).collect::<Vec<_>>().join(", ")
                }
                Roles::Only(_) | Roles::Any => "none".to_owned(),
            },
            Grant::Open | Grant::Stranger => "none".to_owned(),
        };
        Err(Reason::RoleForbidden
            .status(format!("your token does not allow the role {role}; it allows: {roles}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a request tell whether it was made before, and those of a map have no order.
    #[test]
    fn what_is_said_again_has_the_same_bytes() {
        let all = prost_types::FileDescriptorSet::decode(tasuki_proto::DESCRIPTORS).unwrap();
        let ours = all.file.iter().filter(|file| file.package() == "tasuki.v1");
        for message in ours.flat_map(|file| &file.message_type) {
            let is_map = |it: &prost_types::DescriptorProto| {
                it.options.as_ref().is_some_and(prost_types::MessageOptions::map_entry)
            };
            assert!(!message.nested_type.iter().any(is_map), "{} has a map", message.name());
        }
    }

    /// Holds E6: a call that names no caller is let into the system workspace without a look at
    /// which workspace its token has.
    #[test]
    fn every_call_but_those_about_access_says_which_workspace_it_is_made_to() {
        fn check<R: Endpoint>() {
            let names_none = R::default().envelope().caller.is_none();
            let path = R::CALL.path;
            assert_eq!(names_none, path.starts_with("/tasuki.v1.Access/"), "E6: {path}");
        }
        macro_rules! check_all {
            ($($request:ident)*) => { $(check::<wire::$request>();)* };
        }
        tasuki_proto::for_each_request!(check_all);
    }

    #[test]
    fn what_a_call_brings_is_measured_whole() {
        let mib = || vec!["x".repeat(1024 * 1024)];
        let rerun = wire::Rerun { commands: mib(), ..Default::default() };
        let (changed_files, rerun) = (mib(), Some(rerun));
        let words = wire::SubmissionWords { changed_files, rerun, ..Default::default() };
        let message = wire::SubmitTaskRequest { words: Some(words), ..Default::default() };
        let mut request = Request::new(message);
        let known = Admitted { grant: Grant::Stranger, peer: None, bytes: 0 };
        request.extensions_mut().insert(known);
        let (admitted, message) = Admitted::open(request).unwrap();
        assert!(2 * 1024 * 1024 < admitted.bytes && admitted.bytes == message.encoded_len());
    }
}
