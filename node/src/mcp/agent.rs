//! What an MCP client talks to: the server's side of one connection, session or request.

mod handler;

use std::sync::{Arc, OnceLock};

use rmcp::{ErrorData, Peer, RoleServer, model::Implementation, service::RequestContext};
use tasuki_proto::id::RoleId;
use tokio_util::sync::CancellationToken;

use super::{
    address::Address,
    caught::caught,
    gateway,
    hold::Transport,
    host::{Host, Scope},
    instances::Open,
    liveness,
    notices::{Client, Notices, SubscriptionRegistry},
    prompts,
    request_context::is_legacy,
    resources::Subject,
    run_resource,
    tasks::Asker,
    transport::{bearer::Bearer, service::ConnectionGuard},
};
use crate::{
    role::{Connected, Overview, player::Ended},
    toolset::{self, ToolsetChoice},
};

/// The header that names a session.
const SESSION_HEADER: &str = "mcp-session-id";

#[derive(Clone)]
pub(super) struct Agent {
    pub(super) host: Arc<Host>,
    pub(super) scope: Scope,
    pub(super) link: Link,
    /// What this client is told of by itself.
    pub(super) notices: Arc<Notices>,
}

/// How long this handler lives.
#[derive(Clone)]
pub(super) enum Link {
    /// As long as a session that connections come and go under, or one request.
    Requests,
    /// As long as one connection, which is a sign of the agent's life.
    Connection {
        address: Address,
        line: ConnectionGuard,
        /// Of the request that opened it.
        by: Option<Bearer>,
        present: Arc<OnceLock<Connected>>,
        _open: Arc<Open>,
    },
}

impl Agent {
    fn instructions(&self) -> String {
        if self.scope.is_step() {
            return prompts::STEP_INSTRUCTIONS.to_owned();
        }
        let role = self.scope.only(&self.host).map(|actions| actions.role());
        let toolsets = role.map(|role| self.host.toolsets(role)).unwrap_or_default();
        let role = role.map(|role| (role, &toolsets[..]));
        let order = &self.host.order;
        prompts::instructions(role, order, &self.host.names(), self.has_loops(), self.has_mail())
    }

    /// Whether any role of this address takes turns.
    fn has_loops(&self) -> bool {
        !self.players().is_empty()
    }

    /// Whether any role of this address has mail.
    fn has_mail(&self) -> bool {
        let mut roles = self.scope.shown_roles(&self.host).into_iter();
        roles.any(|role| self.host.has_set(role, toolset::MAIL))
    }

    /// The roles of this address, with their toolsets.
    fn equipped(&self) -> impl Iterator<Item = (&RoleId, Vec<ToolsetChoice>)> {
        let roles = self.scope.shown_roles(&self.host).into_iter();
        roles.map(|role| (role, self.host.toolsets(role)))
    }

    /// The roles of this address that take turns.
    fn players(&self) -> Vec<&RoleId> {
        let mut roles = self.scope.shown_roles(&self.host);
        roles.retain(|role| self.host.has_set(role, toolset::LOOP));
        roles
    }

    /// Whether any role of this address starts sub-agents.
    fn has_runs(&self) -> bool {
        run_resource::client(&self.host, &self.scope).is_some()
    }

    /// Where loops and runs are looked at, if this address shows any.
    fn overview(&self) -> Result<&dyn Overview, ErrorData> {
        let has_resources = self.has_loops() || self.has_runs();
        let overview = self.host.overview.as_deref().filter(|_| has_resources);
        overview.ok_or_else(|| ErrorData::invalid_request("this address has no resources", None))
    }

    /// What tells of changes, if this address has any resources.
    fn notifier(&self) -> Result<&dyn Overview, ErrorData> {
        let shows_servers = gateway::is_shown(&self.host, &self.scope);
        let overview = self.host.overview.as_deref().filter(|_| shows_servers);
        overview.map_or_else(|| self.overview(), Ok)
    }

    /// What is at `uri`, there or not, if this address shows such.
    fn subject(&self, uri: &str) -> Result<Subject, ErrorData> {
        if let Some(resource) = gateway::subject(&self.host, &self.scope, uri) {
            return Ok(Subject::Server(resource));
        }
        let subject = Subject::named(uri)?;
        let is_run = subject.run().is_some();
        let is_shown = if is_run { self.has_runs() } else { self.has_loops() };
        let hidden = || ErrorData::invalid_request("this address shows no such resources", None);
        is_shown.then_some(subject).ok_or_else(hidden)
    }

    /// Whom to tell of changes, on the connection or session that a request came in on.
    fn client<'a>(
        &'a self,
        overview: &'a dyn Overview,
        context: &'a RequestContext<RoleServer>,
    ) -> Option<Client<'a>> {
        let session = match &self.link {
            Link::Connection { .. } => None,
            Link::Requests => {
                let parts = context.extensions.get::<http::request::Parts>()?;
                let session = parts.headers.get(SESSION_HEADER)?.to_str().ok()?;
                Some((parts.extensions.get::<SubscriptionRegistry>()?, session))
            }
        };
        let (host, scope, news) = (&*self.host, &self.scope, overview.news());
        Some(Client { host, scope, news, peer: &context.peer, session })
    }

    /// Whom to tell of changed lists, if the client is of a version that is told without asking.
    fn legacy_client<'a>(&'a self, context: &'a RequestContext<RoleServer>) -> Option<Client<'a>> {
        let overview = self.notifier().ok().filter(|_| is_legacy(context))?;
        self.client(overview, context)
    }

    /// What the request says, else the one that opened the connection.
    pub(super) fn address(&self, context: &RequestContext<RoleServer>) -> Address {
        let of_request = context.extensions.get::<http::request::Parts>();
        let of_request = of_request.map(Address::of).unwrap_or_default();
        match &self.link {
            Link::Requests => of_request,
            Link::Connection { address, .. } => of_request.or(address),
        }
    }

    fn asker<'a>(
        &'a self,
        context: &RequestContext<RoleServer>,
        client: Option<&'a Implementation>,
    ) -> Asker<'a> {
        let who = self.address(context).who();
        Asker { host: &self.host, scope: &self.scope, who, client }
    }

    /// Whose token a request was let in with, or the one that opened its connection.
    fn bearer(&self, context: &RequestContext<RoleServer>) -> Option<Bearer> {
        let of_request = context.extensions.get::<http::request::Parts>().and_then(Bearer::of);
        let by = match &self.link {
            Link::Requests => of_request,
            Link::Connection { by, .. } => of_request.or(by.as_ref()),
        };
        by.cloned()
    }

    /// Resolves when the token that a request was let in with is no longer good.
    async fn revoked(&self, context: &RequestContext<RoleServer>) {
        match self.bearer(context) {
            Some(by) => by.gone().await,
            None => std::future::pending().await,
        }
    }

    fn transport(&self) -> Transport {
        match &self.link {
            Link::Connection { line, .. } if line.what == Ended::Connection => Transport::Stdio,
            Link::Connection { .. } | Link::Requests => Transport::Http,
        }
    }

    /// What ends with the connection, or the session, of a request.
    fn gone<'a>(
        &'a self,
        context: &'a RequestContext<RoleServer>,
    ) -> Option<&'a CancellationToken> {
        match &self.link {
            Link::Requests => context.extensions.get::<ConnectionGuard>().map(|line| &line.gone),
            Link::Connection { line, .. } => Some(&line.gone),
        }
    }

    /// Resolves when nobody is there any more to hear of a request.
    async fn left(&self, context: &RequestContext<RoleServer>) {
        match self.gone(context) {
            Some(gone) => gone.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Resolves when nobody wants, or may have, the answer to a request any more.
    async fn is_unwanted(&self, context: &RequestContext<RoleServer>) -> ErrorData {
        tokio::select! {
            // The client takes it back; dropping the work drops its wait.
            () = context.ct.cancelled() => {}
            () = self.left(context) => {}
            // Its stream is broken off, so it is not told here.
            () = self.revoked(context) => {}
        }
        ErrorData::internal_error("cancelled", None)
    }

    /// Does what a request asks for, as long as somebody wants the answer.
    fn while_wanted<'a, T>(
        &'a self,
        method: &'static str,
        context: &'a RequestContext<RoleServer>,
        work: impl Future<Output = Result<T, ErrorData>> + 'a,
    ) -> impl Future<Output = Result<T, ErrorData>> {
        let work = caught(method, work);
        async move {
            tokio::select! {
                biased;
                done = work => done?,
                error = self.is_unwanted(context) => Err(error),
            }
        }
    }

    /// A connection is a sign of life as soon as its agent has spoken.
    fn is_heard(&self, client: Option<&Implementation>) {
        if let (Link::Connection { present, address, .. }, Some(actions)) =
            (&self.link, self.scope.only(&self.host))
        {
            let who = address.who();
            present.get_or_init(|| {
                self.host.looked(&**actions, &who, client);
                actions.connected(&who)
            });
        }
    }

    /// A connection whose agent does not answer any more is no sign of life.
    fn is_asked(&self, peer: Peer<RoleServer>) {
        let (Link::Connection { line, address, .. }, Some(actions)) =
            (&self.link, self.scope.only(&self.host))
        else {
            return;
        };
        let (gone, actions, who) = (line.gone.clone(), Arc::clone(actions), address.who());
        tokio::spawn(async move {
            let asking = liveness::ask(peer, |is_answered| actions.answers(is_answered, &who));
            gone.run_until_cancelled(asking).await;
        });
    }
}
