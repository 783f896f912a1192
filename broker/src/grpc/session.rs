//! A caller inside a workspace that it may see: the only way from a handler to a workspace.
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
    id::{IdempotencyKey, NodeId, RoleId, Sequence, TokenId, WorkspaceId},
    limits::WORKSPACE_DEFAULT,
    reason::Reason,
    token::Right,
    wire,
};
use tokio::sync::{OwnedSemaphorePermit, broadcast, oneshot};
use tonic::{Request, Status};

use super::{auth, parse, status};
use crate::{
    access::{Grant, Tokens},
    hash::Hash,
    journal::{JournalError, StoredRecord, bodies::Bodies},
    rules::{
        self, Caller, Command, Event, Record, Rejection,
        access::Roles,
        directory, mailbox, privacy,
        swarm::{self, words},
    },
    search::{Found, Search, SearchError, SearchRequest},
    workspace::{
        ExecuteError, Executed, Handle, Question, View, WaitId, WaitOutcome, WaitReply, Workspaces,
    },
};

/// Workspaces named where one is unknown.
const NAMES_SHOWN_MAX: usize = 20;

/// What handlers share: nothing of it leads to a workspace but [`Services::enter_any`].
#[derive(Debug, Clone)]
pub(super) struct Services {
    workspaces: Workspaces,
    tokens: Tokens,
    search: Search,
}

/// A call that was let through.
#[derive(Debug, Clone)]
pub(super) struct Admitted {
    pub(super) grant: Grant,
    /// The call's full name.
    pub(super) call: &'static str,
    /// How large what it brings is.
    pub(super) bytes: usize,
}

impl Admitted {
    /// Who makes a call whose messages come in a stream, and which call it is.
    pub(super) fn stream<T>(request: &Request<T>) -> Result<Self, Status> {
        let admitted = request.extensions().get::<Self>().cloned();
        // The layer in front inserts it.
        admitted.ok_or_else(|| Reason::Unauthenticated.status("authentication did not run"))
    }

    /// Who makes a call, which one it is, how large, and its message.
    pub(super) fn open<M: Message>(request: Request<M>) -> Result<(Self, M), Status> {
        let admitted = Self::stream(&request)?;
        let message = request.into_inner();
        Ok((Self { bytes: message.encoded_len(), ..admitted }, message))
    }
}

/// The idempotency key of a mutating call, with the hash of what is asked. The call's name is part
/// of it: the same bytes mean another thing in another call. Made by [`WorkspaceSession::key`] alone.
#[derive(Debug, Clone)]
pub(super) struct Key(IdempotencyKey, Hash);

impl Services {
    pub(super) fn new(workspaces: Workspaces, tokens: Tokens, search: Search) -> Self {
        Self { workspaces, tokens, search }
    }

    pub(super) const fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Whether a durable write succeeds.
    pub(super) async fn probe(&self) -> Result<(), JournalError> {
        self.workspaces.journal().probe().await
    }

    /// Into the workspace that a call's message names by its caller, which `caller` takes out of
    /// it: what is left is what is asked. There is such a workspace.
    pub(super) fn enter<M: Message>(
        &self,
        request: Request<M>,
        caller: impl FnOnce(&mut M) -> Option<wire::Caller>,
    ) -> Result<(WorkspaceSession, M), Status> {
        let (admitted, mut message) = Admitted::open(request)?;
        let caller = caller(&mut message);
        Ok((self.enter_as(&admitted, caller.as_ref())?, message))
    }

    /// The same for a message that is open already.
    pub(super) fn enter_as(
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
    fn names(&self) -> BTreeSet<WorkspaceId> {
        let mut names = self.workspaces.names();
        names.extend(self.tokens.workspaces());
        names.insert(WORKSPACE_DEFAULT.parse().expect("the default is an id"));
        names
    }

    /// Into the workspace that `caller` names, whether or not there is one: for a node, which makes
    /// the one that it registers in.
    pub(super) fn enter_any(
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
        let caller = Caller { node, token: admitted.grant.token().cloned() };
        Ok(WorkspaceSession {
            services: self.clone(),
            workspace,
            caller,
            admitted: admitted.clone(),
        })
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

/// A caller inside a workspace.
#[derive(Debug, Clone)]
pub(super) struct WorkspaceSession {
    services: Services,
    pub(super) workspace: WorkspaceId,
    caller: Caller,
    admitted: Admitted,
}

impl WorkspaceSession {
    /// The node that calls, where one does.
    pub(super) fn node(&self) -> Option<&NodeId> {
        self.caller.node.as_ref().map(|(node, _)| node)
    }

    pub(super) fn has_right(&self, right: Right) -> bool {
        self.admitted.grant.has_right(right)
    }

    /// The key of a mutating call. `request` is everything but the connection it came over.
    pub(super) fn key<M: Message>(
        &self,
        key: Option<wire::IdempotencyKey>,
        request: &M,
    ) -> Result<Key, Status> {
        let Some(key) = key else {
            let why = "is missing: every mutating call carries an idempotency key";
            return Err(status::invalid("key", &why));
        };
        if key.counter == 0 || key.counter == u64::MAX {
            let why = "is out of range; counters begin at 1";
            return Err(status::invalid("key.counter", &why));
        }
        let client = parse::id("key.client_id", &key.client_id)?;
        let asked = request.encode_to_vec();
        let hash = Hash::of_fields([self.admitted.call.as_bytes(), &asked]);
        Ok(Key(IdempotencyKey { client, counter: key.counter }, hash))
    }

    /// Carries out a command as far as the caller may (E7).
    pub(super) async fn execute(
        &self,
        key: Option<Key>,
        command: Command,
    ) -> Result<Executed, Status> {
        if let Some(role) = command.role() {
            self.may_act_as(role)?;
        }
        if let Command::Directory(directory::Command::Register(it)) = &command {
            for spec in &it.roles {
                self.may_act_as(&spec.role)?;
            }
        }
        if let Command::Privacy(privacy::Command::Publish(it)) = &command {
            for role in &it.roles {
                self.may_act_as(role)?;
            }
        }
        let overrides = matches!(&command, Command::Swarm(it) if it.overrides());
        if (command.person().is_some() || overrides) && !self.admitted.grant.has_right(Right::Steer)
        {
            return Err(auth::lacks(Right::Steer));
        }
        if matches!(&command, Command::Swarm(it) if it.is_for_all())
            && !self.admitted.grant.has_right(Right::Send)
        {
            return Err(auth::lacks(Right::Send));
        }
        let words = self.admitted.grant.words(self.admitted.bytes)?;
        self.carry_out(key, command, words).await
    }

    /// Keeps a file whose bytes have had their place among the token's words, `words`, since the
    /// first of them came.
    pub(super) async fn keep(
        &self,
        keep: mailbox::StoreAttachment,
        words: Option<OwnedSemaphorePermit>,
    ) -> Result<Executed, Status> {
        self.may_act_as(&keep.role)?;
        self.carry_out(None, Command::Mail(mailbox::Command::StoreAttachment(keep)), words).await
    }

    async fn carry_out(
        &self,
        key: Option<Key>,
        command: Command,
        _words: Option<OwnedSemaphorePermit>,
    ) -> Result<Executed, Status> {
        let key = key.map(|Key(key, hash)| (key, hash));
        let request = rules::Request { caller: self.caller.clone(), key, command };
        let executed =
            self.services.workspaces.execute(&self.workspace, request, self.admitted.bytes).await;
        executed.map_err(|error| status::executing(self.with_names(error)))
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

    /// Runs `look` on the workspace's state.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Result<T, Status> {
        self.services.workspaces.look(&self.workspace, look).await.map_err(status::executing)
    }

    /// Whether the registration of the calling node is its latest.
    async fn check(&self) -> Result<(), Status> {
        let caller = self.caller.clone();
        let checked = self.look(move |view| view.workspace.directory.check(&caller, None)).await?;
        checked.map_err(|rejection| status::rejected(&rejection))
    }

    /// The place of one more parked wait of the caller's token.
    pub(super) fn wait(&self) -> Result<Option<OwnedSemaphorePermit>, Status> {
        self.admitted.grant.wait()
    }

    /// Parks a wait. Whether the caller's registration lets it ask is part of the answer.
    pub(super) async fn park(
        &self,
        question: Question,
        hold_ms: u64,
        sink: impl FnOnce() -> WaitReply,
    ) -> Result<(Handle, WaitId), Status> {
        self.may_act_as(question.role())?;
        let (workspaces, caller) = (&self.services.workspaces, self.caller.clone());
        let parked = workspaces.park(&self.workspace, question, caller, hold_ms, sink).await;
        parked.map_err(status::executing)
    }

    /// What a role was offered goes to the next.
    pub(super) fn decline(&self, role: RoleId) -> Result<(), Status> {
        self.may_act_as(&role)?;
        self.services.workspaces.decline(&self.workspace, role, self.caller.clone());
        Ok(())
    }

    /// Waits for the one answer to a question. Dropping the future removes the wait.
    pub(super) async fn wait_for(
        &self,
        question: Question,
        hold_ms: u64,
    ) -> Result<WaitOutcome, Status> {
        let (reply, told) = oneshot::channel();
        let sink: WaitReply = Box::new(move |told| {
            // The caller may be gone; the answer is still there for its next call.
            let _ = reply.send(told);
        });
        let (handle, id) = self.park(question.clone(), hold_ms, || sink).await?;
        let mut guard = CancelOnDrop(Some((handle, question, id)));
        let told = told.await;
        guard.0 = None;
        let lost = |_| Reason::Unavailable.status("the wait was lost; ask again");
        told.map_err(lost)?.map_err(|rejection| status::rejected(&rejection))
    }

    /// Signs of life of the calling node and its roles.
    pub(super) async fn seen(
        &self,
        node: NodeId,
        roles: Vec<(RoleId, u64, String)>,
    ) -> Result<(), Status> {
        for (role, ..) in &roles {
            self.may_act_as(role)?;
        }
        self.check().await?;
        let seen = self.services.workspaces.seen(&self.workspace, node, roles).await;
        seen.map_err(status::executing)
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
        self.may_act_as(&ask.reader)?;
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

    /// Of a node that wants to register: the token it was registered with, if that one is no
    /// longer good.
    pub(super) async fn orphan_of(&self, node: &NodeId) -> Result<Option<TokenId>, Status> {
        if self.caller.token.is_none() {
            return Ok(None);
        }
        let node = node.clone();
        let owner = self.look(move |view| {
            view.workspace.directory.nodes.get(&node).and_then(|it| it.token.clone())
        });
        let owner = owner.await?;
        Ok(owner.filter(|owner| !self.is_good(owner)))
    }

    /// Of what happened, what the caller may be told: mail only of roles it may act as.
    pub(super) fn may_know<'a>(&self, events: &'a [Event]) -> impl Iterator<Item = &'a Event> {
        let grant = self.admitted.grant.clone();
        events.iter().filter(move |event| match event {
            Event::Mail(it) => {
                let roles = it.roles();
                roles.is_empty() || roles.into_iter().any(|role| grant.has_role(role))
            }
            Event::Directory(_)
            | Event::Turn(_)
            | Event::Privacy(_)
            | Event::Swarm(_)
            | Event::Access(_) => true,
        })
    }

    /// Looks as `role`, which the caller must be allowed to act as, and over a registration that
    /// hosts it.
    pub(super) async fn look_as<T: Send + 'static>(
        &self,
        role: &RoleId,
        look: impl FnOnce(&View<'_>) -> Result<T, Rejection> + Send + 'static,
    ) -> Result<T, Status> {
        self.may_act_as(role)?;
        let (caller, role) = (self.caller.clone(), role.clone());
        let seen = self.look(move |view| {
            view.workspace.directory.check(&caller, Some(&role))?;
            look(view)
        });
        seen.await?.map_err(|rejection| status::rejected(&rejection))
    }

    /// Whether the token allows this role (E7).
    pub(super) fn may_act_as(&self, role: &RoleId) -> Result<(), Status> {
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

/// Removes a parked wait when its caller goes away.
struct CancelOnDrop(Option<(Handle, Question, WaitId)>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some((handle, question, id)) = self.0.take() {
            handle.cancel(question, id);
        }
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

    #[test]
    fn what_a_call_brings_is_measured_whole() {
        let mib = || vec!["x".repeat(1024 * 1024)];
        let rerun = wire::Rerun { commands: mib(), ..Default::default() };
        let (changed_files, rerun) = (mib(), Some(rerun));
        let words = wire::SubmissionWords { changed_files, rerun, ..Default::default() };
        let message = wire::SubmitTaskRequest { words: Some(words), ..Default::default() };
        let mut request = Request::new(message);
        let known = Admitted { grant: Grant::Stranger, call: "/a/call", bytes: 0 };
        request.extensions_mut().insert(known);
        let (admitted, message) = Admitted::open(request).unwrap();
        assert!(2 * 1024 * 1024 < admitted.bytes && admitted.bytes == message.encoded_len());
    }
}
