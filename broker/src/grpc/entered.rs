//! A caller inside a workspace that it may see: the only way from a handler to a workspace.
//!
//! - **E6** Nothing is asked of a workspace that the caller's token does not have; for such a
//!   caller it is as if it were not there.
//! - **E7** Nothing is done as a role that the token does not have, and nothing as a person
//!   without the right to steer.

use std::{collections::BTreeSet, sync::Arc};

use tasuki_proto::{
    id::{IdempotencyKey, NodeId, RoleId, Sequence, TokenId, WorkspaceId},
    limits::WORKSPACE_DEFAULT,
    reason::Reason,
    token::Right,
    wire,
};
use tokio::sync::{OwnedSemaphorePermit, broadcast, oneshot};
use tonic::{Request, Status};

use super::{auth, parse, refuse};
use crate::{
    access::{Grant, Tokens},
    hash::Hash,
    journal::{JournalError, StoredRecord, bodies::Bodies},
    rules::{
        self, Caller, Command, Event, Record, Rejection,
        access::Roles,
        mailbox, privacy,
        swarm::{self, words},
    },
    search::{Ask, Found, Search, SearchError},
    workspace::{ExecuteError, Executed, Handle, Question, Sink, Told, View, WaitId, Workspaces},
};

/// What handlers share: nothing of it leads to a workspace but [`Door::enter`].
#[derive(Debug, Clone)]
pub(super) struct Door {
    workspaces: Workspaces,
    tokens: Tokens,
    search: Search,
}

/// A call's messages and who sent them.
pub(super) fn grant<T>(request: &Request<T>) -> Result<Grant, Status> {
    let grant = request.extensions().get::<Grant>().cloned();
    // Without the layer in front nobody is anybody.
    grant.ok_or_else(|| Reason::Unauthenticated.status("nobody looked at who calls"))
}

impl Door {
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

    /// Into the workspace that `caller` names.
    pub(super) fn enter(
        &self,
        grant: &Grant,
        caller: Option<&wire::Caller>,
    ) -> Result<Entered, Status> {
        let (workspace, node) = match caller {
            Some(it) => (it.workspace.as_str(), parse::node(it)?),
            None => ("", None),
        };
        let workspace = if workspace.is_empty() { WORKSPACE_DEFAULT } else { workspace };
        let workspace: WorkspaceId = parse::id("workspace", workspace)?;
        if !grant.has_workspace(&workspace) {
            return Err(Reason::UnknownWorkspace.status(format!(
                "there is no workspace {workspace}, or none that your token may see"
            )));
        }
        let caller = Caller { node, token: grant.token().cloned() };
        Ok(Entered { door: self.clone(), workspace, caller, grant: grant.clone() })
    }
}

/// A caller inside a workspace.
#[derive(Debug, Clone)]
pub(super) struct Entered {
    door: Door,
    pub(super) workspace: WorkspaceId,
    caller: Caller,
    grant: Grant,
}

impl Entered {
    /// The node that calls, where one does.
    pub(super) fn node(&self) -> Option<&NodeId> {
        self.caller.node.as_ref().map(|(node, _)| node)
    }

    pub(super) fn has_right(&self, right: Right) -> bool {
        self.grant.has_right(right)
    }

    /// Carries out a command as far as the caller may (E7).
    pub(super) async fn execute(
        &self,
        key: Option<(IdempotencyKey, Hash)>,
        command: Command,
    ) -> Result<Executed, Status> {
        if let Some(role) = command.role() {
            self.may_act_as(role)?;
        }
        if let Command::Register(it) = &command {
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
        if (command.person().is_some() || overrides) && !self.grant.has_right(Right::Steer) {
            return Err(auth::lacks(Right::Steer));
        }
        if matches!(&command, Command::Swarm(it) if it.is_for_all())
            && !self.grant.has_right(Right::Send)
        {
            return Err(auth::lacks(Right::Send));
        }
        let words = self.grant.words(command.bytes())?;
        self.carry_out(key, command, words).await
    }

    /// Keeps a file whose bytes have had their place among the token's words, `words`, since the
    /// first of them came.
    pub(super) async fn keep(
        &self,
        keep: mailbox::Keep,
        words: Option<OwnedSemaphorePermit>,
    ) -> Result<Executed, Status> {
        self.may_act_as(&keep.role)?;
        self.carry_out(None, Command::Mail(mailbox::Command::Keep(keep)), words).await
    }

    async fn carry_out(
        &self,
        key: Option<(IdempotencyKey, Hash)>,
        command: Command,
        _words: Option<OwnedSemaphorePermit>,
    ) -> Result<Executed, Status> {
        let request = rules::Request { caller: self.caller.clone(), key, command };
        let executed = self.door.workspaces.execute(&self.workspace, request).await;
        executed.map_err(|error| refuse::executing(self.with_names(error)))
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
            false => rules::listed(found.iter().map(String::as_str)),
        };
        let rejection = swarm::Rejection::FilesMissing { issue, missing, names };
        ExecuteError::Rejected(rejection.into())
    }

    /// Runs `look` on the workspace's state.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Result<T, Status> {
        self.door.workspaces.look(&self.workspace, look).await.map_err(refuse::executing)
    }

    /// Whether the registration of the calling node is its latest.
    async fn check(&self) -> Result<(), Status> {
        let caller = self.caller.clone();
        let checked = self.look(move |view| view.workspace.directory.check(&caller, None)).await?;
        checked.map_err(|rejection| refuse::rejected(&rejection))
    }

    /// The place of one more parked wait of the caller's token.
    pub(super) fn wait(&self) -> Result<Option<OwnedSemaphorePermit>, Status> {
        self.grant.wait()
    }

    /// Parks a wait. Whether the caller's registration lets it ask is part of the answer.
    pub(super) async fn park(
        &self,
        question: Question,
        hold_ms: u64,
        sink: impl FnOnce() -> Sink,
    ) -> Result<(Handle, WaitId), Status> {
        self.may_act_as(question.role())?;
        let (workspaces, caller) = (&self.door.workspaces, self.caller.clone());
        let parked = workspaces.park(&self.workspace, question, caller, hold_ms, sink).await;
        parked.map_err(refuse::executing)
    }

    /// What a role was offered goes to the next.
    pub(super) fn decline(&self, role: RoleId) -> Result<(), Status> {
        self.may_act_as(&role)?;
        self.door.workspaces.decline(&self.workspace, role, self.caller.clone());
        Ok(())
    }

    /// Waits for the one answer to a question. Dropping the future removes the wait.
    pub(super) async fn wait_for(&self, question: Question, hold_ms: u64) -> Result<Told, Status> {
        let (reply, told) = oneshot::channel();
        let sink: Sink = Box::new(move |told| {
            // The caller may be gone; the answer is still there for its next call.
            let _ = reply.send(told);
        });
        let (handle, id) = self.park(question.clone(), hold_ms, || sink).await?;
        let mut guard = CancelOnDrop(Some((handle, question, id)));
        let told = told.await;
        guard.0 = None;
        let lost = |_| Reason::Unavailable.status("the wait was lost; ask again");
        told.map_err(lost)?.map_err(|rejection| refuse::rejected(&rejection))
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
        let seen = self.door.workspaces.seen(&self.workspace, node, roles).await;
        seen.map_err(refuse::executing)
    }

    /// Records as they become durable, from here on.
    pub(super) async fn subscribe(&self) -> Result<broadcast::Receiver<Arc<Record>>, Status> {
        self.door.workspaces.subscribe(&self.workspace).await.map_err(refuse::executing)
    }

    /// Looks for mail that the role which asks may read.
    pub(super) async fn search(&self, ask: Ask, include: Sequence) -> Result<Found, Status> {
        self.may_act_as(&ask.reader)?;
        let found = self.door.search.search(&self.workspace, ask, include).await;
        found.map_err(|why| match why {
            SearchError::Unavailable(why) => Reason::Unavailable.status(why.to_string()),
            SearchError::Unanswerable => refuse::invalid("query", &why),
        })
    }

    /// The records that the workspace keeps on disk.
    pub(super) fn records(
        &self,
        from: Sequence,
        records_max: usize,
    ) -> Result<Vec<StoredRecord>, JournalError> {
        self.door.workspaces.journal().read(&self.workspace, from, records_max)
    }

    /// What it keeps on disk beside them.
    pub(super) fn bodies(&self) -> Bodies<'_> {
        Bodies::new(&**self.door.workspaces.journal(), &self.workspace)
    }

    /// Whether a token may still act.
    pub(super) fn is_good(&self, token: &TokenId) -> bool {
        self.door.tokens.is_good(token)
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
        let grant = self.grant.clone();
        events.iter().filter(move |event| match event {
            Event::Mail(it) => {
                let roles = it.roles();
                roles.is_empty() || roles.into_iter().any(|role| grant.has_role(role))
            }
            Event::NodeRegistered(_)
            | Event::LoopOpened(_)
            | Event::ParticipantsSet(_)
            | Event::HandedOver(_)
            | Event::TurnReclaimed(_)
            | Event::RoundStarted(_)
            | Event::TurnHanded(_)
            | Event::TurnSeen(_)
            | Event::TurnLapsed(_)
            | Event::LeaseRenewed(_)
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
        seen.await?.map_err(|rejection| refuse::rejected(&rejection))
    }

    /// Whether the token allows this role (E7).
    pub(super) fn may_act_as(&self, role: &RoleId) -> Result<(), Status> {
        if self.grant.has_role(role) {
            return Ok(());
        }
        let roles = match &self.grant {
            Grant::Token(live) => match &live.scope.roles {
                Roles::Only(roles) if !roles.is_empty() => {
                    roles.iter().map(RoleId::as_str).collect::<Vec<_>>().join(", ")
                }
                Roles::Only(_) | Roles::Any => "none".to_owned(),
            },
            Grant::Open => "none".to_owned(),
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
