//! What an MCP client talks to: the server's side of one connection, session or request.

use std::sync::{Arc, OnceLock};

use rmcp::{
    ErrorData, Peer, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CustomRequest, CustomResult,
        DiscoverResult, GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult,
        Implementation, InitializeRequestParams, InitializeResult, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
        SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{RequestContext, SubscriptionContext},
    transport::streamable_http_server::session::SessionRestoreMarker,
};
use tasuki_proto::{echo::echo, id::RoleId};
use tokio_util::sync::CancellationToken;

use super::{
    address::Address,
    caught::caught,
    gateway,
    hold::Transport,
    host::{Host, Scope},
    instances::Open,
    liveness, malformed,
    notices::{self, Client, Notices, SubscriptionRegistry},
    prompts,
    request_context::{FRESH_MS, fresh, is_legacy, probe, takes_tasks, thread, traced},
    resources::{self, Subject},
    run_resource,
    tasks::Asker,
    tools::{self, Call},
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
        self.scope.roles(&self.host).into_iter().any(|role| self.host.has_set(role, toolset::MAIL))
    }

    /// The roles of this address, with their toolsets.
    fn equipped(&self) -> impl Iterator<Item = (&RoleId, Vec<ToolsetChoice>)> {
        let roles = self.scope.roles(&self.host).into_iter();
        roles.map(|role| (role, self.host.toolsets(role)))
    }

    /// The roles of this address that take turns.
    fn players(&self) -> Vec<&RoleId> {
        let mut roles = self.scope.roles(&self.host);
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

    /// What is at `uri`, there or not, if this address shows such.
    fn subject(&self, uri: &str) -> Result<Subject, ErrorData> {
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

impl ServerHandler for Agent {
    fn get_info(&self) -> ServerConfig {
        let mut server = Implementation::new("tasuki", env!("CARGO_PKG_VERSION"));
        server.title = Some("Tasuki".to_owned());
        let mut capabilities = ServerCapabilities::builder()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_tasks()
            .build();
        if self.overview().is_ok() || gateway::is_shown(&self.host, &self.scope) {
            let resources = ServerCapabilities::builder()
                .enable_resources()
                .enable_resources_list_changed()
                .enable_resources_subscribe()
                .build();
            capabilities.resources = resources.resources;
        }
        let mut info = ServerConfig::new(capabilities);
        info.server_info = server;
        info.instructions = Some(self.instructions());
        info
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let initialized = async {
            self.is_heard(Some(&request.client_info));
            self.is_asked(context.peer.clone());
            let mut answer = self.negotiate_initialize(&request)?;
            context.peer.set_peer_info(request);
            // Versions that begin so know nothing of extensions that are declared with each
            // request.
            answer.capabilities.extensions = None;
            if context.extensions.get::<SessionRestoreMarker>().is_some()
                && let Ok(overview) = self.overview()
                && let Some(client) = self.client(overview, &context)
            {
                self.notices.restored(client).await;
            }
            Ok::<_, ErrorData>(answer)
        };
        caught("initialize", initialized).await?
    }

    async fn discover(
        &self,
        _context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        Ok(DiscoverResult::from_server_info(versions, self.get_info()).with_ttl_ms(FRESH_MS))
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        if is_legacy(&context)
            && gateway::lists_all(&self.host, &self.scope)
            && let Some(overview) = self.host.overview.as_deref()
            && let Some(client) = self.client(overview, &context)
        {
            self.notices.tools_listed(&client);
        }
        let mut list = ListToolsResult::with_all_items(tools::list(&self.host, &self.scope).await);
        (list.ttl_ms, list.cache_scope) = fresh(&context);
        Ok(list)
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let mut list = prompts::list(self.equipped(), &self.host.order);
        list.prompts.extend(gateway::prompts(&self.host, &self.scope).await);
        (list.ttl_ms, list.cache_scope) = fresh(&context);
        Ok(list)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let got = async {
            match gateway::get_prompt(&self.host, &self.scope, &request, &context).await {
                Some(got) => got,
                None => prompts::get(self.equipped(), &self.host.order, &request).map(Into::into),
            }
        };
        tokio::select! {
            biased;
            got = caught("prompts/get", got) => got?,
            error = self.is_unwanted(&context) => Err(error),
        }
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let of_servers = gateway::resources(&self.host, &self.scope);
        let overview = match self.overview() {
            Err(_) if gateway::is_shown(&self.host, &self.scope) => {
                return Ok(ListResourcesResult::with_all_items(of_servers.await));
            }
            overview => overview?,
        };
        if is_legacy(&context)
            && let Some(client) = self.client(overview, &context)
        {
            self.notices.listed(client).await;
        }
        let cursor = page.and_then(|page| page.cursor);
        let players = self.players();
        let listed = async {
            let mut list = resources::list(overview, &players, cursor.as_deref()).await?;
            if list.next_cursor.is_none() {
                list.resources.extend(of_servers.await);
            }
            Ok(list)
        };
        caught("resources/list", listed).await?
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut list = resources::templates(self.has_loops(), self.has_runs());
        list.resource_templates.extend(gateway::templates(&self.host, &self.scope).await);
        (list.ttl_ms, list.cache_scope) = fresh(&context);
        Ok(list)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let read = async {
            if let Some(read) = gateway::read(&self.host, &self.scope, &request, &context).await {
                return read;
            }
            let (overview, uri) = (self.overview()?, &*request.uri);
            let read = match self.subject(uri)? {
                Subject::Loop(loop_id) => {
                    let role = self.scope.only(&self.host).map(|actions| actions.role());
                    resources::read(overview, role, &loop_id, uri).await
                }
                Subject::Run(run) => run_resource::read(&self.host, &self.scope, run, uri).await,
            };
            read.map(Into::into)
        };
        tokio::select! {
            biased;
            read = caught("resources/read", read) => read?,
            error = self.is_unwanted(&context) => Err(error),
        }
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let subscribed = async {
            let overview = self.overview()?;
            let subject = self.subject(&request.uri)?;
            let Some(client) = self.client(overview, &context) else {
                return Err(ErrorData::invalid_request("there is no session to be told on", None));
            };
            let subscribed = self.notices.subscribe(subject, client).await;
            subscribed.map_err(|why| ErrorData::invalid_request(why, None))
        };
        caught("resources/subscribe", subscribed).await?
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let unsubscribed = async {
            let subject = Subject::named(&request.uri)?;
            if let Some(client) = self.client(self.overview()?, &context) {
                self.notices.unsubscribe(&subject, client).await;
            }
            Ok::<_, ErrorData>(())
        };
        caught("resources/unsubscribe", unsubscribed).await?
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let overview = self.host.overview.as_deref();
        overview.into_iter().for_each(|overview| self.notices.accepted(overview.news()));
        Some(notices::acceptable(requested, self.has_loops(), self.has_runs()))
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let listened = async {
            // An open stream is a sign of the agent's life.
            let context = subscription.request_context();
            let who = self.address(context).who();
            let _present = self.scope.only(&self.host).map(|actions| {
                self.host.looked(&**actions, &who, context.client_info().as_ref());
                actions.connected(&who)
            });
            match self.host.overview.as_deref() {
                Some(overview) => {
                    let news = overview.news();
                    self.notices.listen(&self.host, &self.scope, news, &subscription).await;
                }
                None => tokio::select! {
                    () = subscription.cancelled() => {}
                    () = self.host.stopping.cancelled() => {}
                },
            }
        };
        caught("subscriptions/listen", listened).await
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let client = context.client_info();
        self.is_heard(client.as_ref());
        let admitted = match self.scope.admitted(&self.host) {
            Ok(admitted) => admitted,
            Err(refusal) => return Ok(tools::refused(&refusal).into()),
        };
        let (address, by) = (self.address(&context), self.bearer(&context));
        let _under_way = self.scope.begin(&self.host, client.as_ref(), thread(&context));
        let call = Call {
            host: &self.host,
            scope: &self.scope,
            arguments: request.arguments.unwrap_or_default(),
            client,
            who: address.who(),
            only: by.as_ref().and_then(Bearer::role),
            hold: address.hold.or(self.host.hold),
            // A task is for a role to take up again; a sub-agent is gone with its process.
            takes_tasks: takes_tasks(&context) && !self.scope.is_step(),
            transport: self.transport(),
            gone: self.gone(&context),
            probe: probe(&context),
            inputs: request.input_responses.unwrap_or_default(),
            request_state: request.request_state,
            context: &context,
            admitted,
        };
        let work = caught("tools/call", tools::call(&request.name, call));
        tokio::select! {
            biased;
            done = traced(&context, work) => match done? {
                Some(answered) => answered,
                None => Err(ErrorData::invalid_params(
                    format!("there is no tool {} here that you may call", echo(&request.name)),
                    None,
                )),
            },
            error = self.is_unwanted(&context) => Err(error),
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(malformed::refuse(request, is_legacy(&context)))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let client = context.client_info();
        self.is_heard(client.as_ref());
        let asker = self.asker(&context, client.as_ref());
        let probe = probe(&context);
        let getting = self.host.tasks.get(&request.task_id, &asker, probe.as_ref());
        tokio::select! {
            biased;
            task = caught("tasks/get", getting) => task?.map(GetTaskResult::new),
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
        }
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let updated =
            async { self.host.tasks.update(&request.task_id, &self.asker(&context, None)) };
        caught("tasks/update", updated).await?
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let cancelled =
            async { self.host.tasks.cancel(&request.task_id, &self.asker(&context, None)) };
        caught("tasks/cancel", cancelled).await?
    }
}
