//! A server at an address of its own, with tools, a resource and tasks, as a test changes it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock,
        CreateTaskResult, DetailedTask, ElicitRequestParams, GetTaskParams, GetTaskResult,
        ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
        Resource, ResourceUpdatedNotificationParam, ServerCapabilities, ServerConfig,
        SubscribeRequestParams, SubscriptionFilter, Task, TaskPayload, TaskStatus, Tool,
        UnsubscribeRequestParams,
    },
    service::{RequestContext, SubscriptionContext},
};
use serde_json::json;
use tasuki_node::{
    mcp::{McpService, serve_with},
    role::Connected,
};
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::{CancellationToken, DropGuard};

pub(super) const RESOURCE: &str = "test://one";

/// What a server of these tests does, as a test changes it.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) tools: Vec<Tool>,
    /// Calls are not answered.
    pub(super) hangs: bool,
}

/// A server at an address of its own.
#[derive(Clone)]
pub(super) struct Downstream {
    pub(super) script: Arc<watch::Sender<Script>>,
    pub(super) calls: Arc<AtomicUsize>,
    pub(super) cancelled: Arc<watch::Sender<usize>>,
    /// How often its resource changed.
    pub(super) updated: Arc<watch::Sender<usize>>,
    /// Who wants to hear of that.
    pub(super) subscribers: Arc<watch::Sender<usize>>,
}

pub(super) fn tool(name: &str, description: &str) -> Tool {
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    Tool::new(name.to_owned(), description.to_owned(), schema.as_object().unwrap().clone())
}

impl Downstream {
    pub(super) fn new(tools: Vec<Tool>) -> Self {
        Self {
            script: Arc::new(watch::Sender::new(Script { tools, hangs: false })),
            calls: Arc::default(),
            cancelled: Arc::default(),
            updated: Arc::default(),
            subscribers: Arc::default(),
        }
    }

    pub(super) async fn start(&self) -> (String, DropGuard) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        tokio::spawn(serve_with(listener, self.clone(), BTreeMap::new(), None, stop.clone()));
        (url, stop.drop_guard())
    }
}

impl McpService for Downstream {
    type Handler = Self;

    fn of_requests(&self) -> Self {
        self.clone()
    }

    fn of_connection(&self, _opening: &http::request::Parts) -> Self {
        self.clone()
    }

    fn connected(&self, _opening: &http::request::Parts, _client: &str) -> Option<Connected> {
        None
    }
}

impl ServerHandler for Downstream {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities)
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(vec![Resource::new(RESOURCE, "one")]))
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if request.uri != RESOURCE {
            return Err(ErrorData::resource_not_found("there is no such resource", None));
        }
        self.subscribers.send_modify(|count| *count += 1);
        let (mut updated, mut subscribers) =
            (self.updated.subscribe(), self.subscribers.subscribe());
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    Ok(()) = updated.changed() => {
                        let updated = ResourceUpdatedNotificationParam::new(RESOURCE);
                        context.peer.notify_resource_updated(updated).await.unwrap();
                    }
                    Ok(()) = subscribers.changed() => {
                        if *subscribers.borrow_and_update() == 0 {
                            return;
                        }
                    }
                }
            }
        });
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscribers.send_modify(|count| *count -= 1);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let mut accepted = requested.clone();
        if let Some(uris) = &mut accepted.resource_subscriptions {
            uris.retain(|uri| uri == RESOURCE);
        }
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut updated = self.updated.subscribe();
        let wants = context.accepted().resource_subscriptions.as_ref().map_or(0, Vec::len);
        self.subscribers.send_modify(|count| *count += wants);
        loop {
            tokio::select! {
                Ok(()) = updated.changed() => {
                    context.sink().notify_resource_updated(RESOURCE).await.ok();
                }
                () = context.cancelled() => {
                    self.subscribers.send_modify(|count| *count -= wants);
                    return Ok(());
                }
            }
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let result = CallToolResult::success(vec![ContentBlock::text("done")]);
        let result = json!(result).as_object().unwrap().clone();
        let payload = TaskPayload::Completed { result };
        Ok(GetTaskResult::new(DetailedTask::new(task(&request.task_id), payload)))
    }

    async fn cancel_task(
        &self,
        _request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.script.borrow().tools.clone()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let arguments = json!(request.arguments);
        if let Some(token) = context.meta.get_progress_token() {
            for step in 1..=3 {
                let progress = ProgressNotificationParam::new(token.clone(), f64::from(step));
                context.peer.notify_progress(progress.with_total(3.0)).await.unwrap();
            }
        }
        match &*request.name {
            "slow" => {
                return Ok(CallToolResponse::Task(CreateTaskResult::new(task("own"))));
            }
            "fail" => return Err(ErrorData::invalid_params("no such thing", Some(json!(7)))),
            "ask" => {
                let answer = context.peer.create_elicitation(question()).await;
                let answer = format!("{:?}", answer.map(|it| it.action));
                return Ok(CallToolResult::success(vec![ContentBlock::text(answer)]).into());
            }
            _ => {}
        }
        let hangs = self.script.borrow().hangs;
        if hangs {
            context.ct.cancelled().await;
            self.cancelled.send_modify(|count| *count += 1);
        }
        let mut result = CallToolResult::success(vec![ContentBlock::text(arguments.to_string())]);
        result.structured_content = Some(json!({ "said": arguments }));
        Ok(result.into())
    }
}

fn task(id: &str) -> Task {
    let time = "2026-01-01T00:00:00Z".to_owned();
    Task::new(id, TaskStatus::Working, time.clone(), time)
}

fn question() -> ElicitRequestParams {
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: "May I?".to_owned(),
        requested_schema: rmcp::model::ElicitationSchema::new(BTreeMap::new()),
    }
}
