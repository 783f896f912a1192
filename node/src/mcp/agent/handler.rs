//! What an agent's client may ask for, and where each request is answered.

#![expect(deprecated, reason = "clients of earlier versions set a level so")]

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
        CompleteResult, CustomRequest, CustomResult, DiscoverResult, GetPromptRequestParams,
        GetPromptResponse, GetTaskParams, GetTaskResult, Implementation, InitializeRequestParams,
        InitializeResult, JsonObject, ListPromptsResult, ListResourceTemplatesResult,
        ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
        ReadResourceResponse, ServerCapabilities, ServerConfig, SetLevelRequestParams,
        SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
        UpdateTaskParams,
    },
    service::{RequestContext, SubscriptionContext},
    transport::streamable_http_server::session::SessionRestoreMarker,
};
use tasuki_proto::echo::echo;

use super::Agent;
use crate::mcp::{
    caught::caught,
    gateway, malformed, notices, prompts,
    request_context::{FRESH_MS, fresh, is_legacy, probe, takes_tasks, thread, traced},
    resources::{self, Subject},
    run_resource,
    tools::{self, Call},
    transport::bearer::Bearer,
};

impl ServerHandler for Agent {
    fn get_info(&self) -> ServerConfig {
        if let Some(server) = self.scope.server() {
            return gateway::server_info(server);
        }
        let mut server = Implementation::new("tasuki", env!("CARGO_PKG_VERSION"));
        server.title = Some("Tasuki".to_owned());
        let mut capabilities = ServerCapabilities::builder()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_tasks()
            .build();
        if gateway::has_completions(&self.host, &self.scope) {
            capabilities.completions = Some(JsonObject::new());
        }
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
            gateway::settled(&self.host, &self.scope).await;
            let mut answer = self.negotiate_initialize(&request)?;
            context.peer.set_peer_info(request);
            // Versions that begin so know nothing of extensions that are declared with each
            // request.
            answer.capabilities.extensions = None;
            if context.extensions.get::<SessionRestoreMarker>().is_some()
                && let Ok(overview) = self.notifier()
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
        gateway::settled(&self.host, &self.scope).await;
        let versions = self.supported_protocol_versions().into_owned();
        Ok(DiscoverResult::from_server_info(versions, self.get_info()).with_ttl_ms(FRESH_MS))
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        if (gateway::lists_all(&self.host, &self.scope) || self.scope.server().is_some())
            && let Some(client) = self.legacy_client(&context)
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
        if self.scope.server().is_some()
            && let Some(client) = self.legacy_client(&context)
        {
            self.notices.prompts_listed(&client);
        }
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
        self.while_wanted("prompts/get", &context, got).await
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let of_servers = gateway::resources(&self.host, &self.scope);
        if let Some(client) = self.legacy_client(&context) {
            self.notices.listed(client).await;
        }
        let overview = match self.overview() {
            Err(_) if gateway::is_shown(&self.host, &self.scope) => {
                let mut list = ListResourcesResult::with_all_items(of_servers.await);
                (list.ttl_ms, list.cache_scope) = fresh(&context);
                return Ok(list);
            }
            overview => overview?,
        };
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
                // It was read above, if there is one.
                Subject::Server(_) => Err(resources::unknown(uri)),
            };
            read.map(Into::into)
        };
        self.while_wanted("resources/read", &context, read).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let subscribed = async {
            let overview = self.notifier()?;
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
            let subject = self.subject(&request.uri)?;
            if let Some(client) = self.client(self.notifier()?, &context) {
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
        Some(notices::acceptable(requested, |uri| self.subject(uri).ok()))
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
                    let subject = |uri: &str| self.subject(uri).ok();
                    let (host, scope) = (&self.host, &self.scope);
                    self.notices.listen(host, scope, news, &subscription, subject).await;
                }
                None => tokio::select! {
                    () = subscription.cancelled() => {}
                    () = self.host.stopping.cancelled() => {}
                },
            }
        };
        caught("subscriptions/listen", listened).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let completed = gateway::complete(&self.host, &self.scope, request, &context);
        self.while_wanted("completion/complete", &context, completed).await
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let set = gateway::set_level(&self.host, &self.scope, request, &context);
        self.while_wanted("logging/setLevel", &context, set).await
    }

    /// For the headers that repeat a call's arguments.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        gateway::listing(&self.host, &self.scope, name)
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
        if let Some(task) = self.host.tasks.of_server(&request.task_id, &asker) {
            let got = gateway::get_task(&self.host, &task, &request.task_id, &context);
            return self.while_wanted("tasks/get", &context, got).await;
        }
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
        let asker = self.asker(&context, None);
        if let Some(task) = self.host.tasks.of_server(&request.task_id, &asker) {
            let updated = gateway::update_task(&self.host, &task, request, &context);
            return self.while_wanted("tasks/update", &context, updated).await;
        }
        let updated = async { self.host.tasks.update(&request.task_id, &asker) };
        caught("tasks/update", updated).await?
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let asker = self.asker(&context, None);
        if let Some(task) = self.host.tasks.of_server(&request.task_id, &asker) {
            let canceled = gateway::cancel_task(&self.host, &task, &context);
            return self.while_wanted("tasks/cancel", &context, canceled).await;
        }
        let cancelled = async { self.host.tasks.cancel(&request.task_id, &asker) };
        caught("tasks/cancel", cancelled).await?
    }
}

#[cfg(test)]
mod tests {
    use rmcp::{model::ClientRequest, service::Service};

    use super::*;

    /// There is one for each session, and one for each call that waits.
    #[test]
    fn what_waits_for_a_request_is_small() {
        fn size<F>(
            _: impl FnOnce(&'static Agent, ClientRequest, RequestContext<RoleServer>) -> F,
        ) -> usize {
            size_of::<F>()
        }
        let size = size(|agent, request, context| agent.handle_request(request, context));
        assert!(size <= 4096, "{size}");
    }
}
