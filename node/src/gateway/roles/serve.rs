//! What the roles here export, and the calls of it by roles of other nodes.

#![expect(deprecated, reason = "servers and clients of earlier versions ask and log so")]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use parking_lot::Mutex;
use rmcp::{
    ErrorData,
    model::{
        CallToolRequestParams, CallToolResponse, JsonObject, LoggingMessageNotificationParam,
        ProgressNotificationParam, Tool,
    },
};
use serde_json::json;
use tasuki_proto::{
    id::RoleId,
    limits::{
        EXPORTED_TOOLS_MAX, EXPORTS_BYTES_MAX, TOOL_LISTING_BYTES_MAX, TOOL_NAME_BYTES_MAX,
        TOOL_PROGRESS_BYTES_MAX, TOOL_RESULT_BYTES_MAX,
    },
    pattern::{self, matches_any},
    wire::{self, serve_tools_request::Said as Message},
};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

use super::{
    super::{
        Gateway,
        call::Caller,
        client::{Asked, Told},
        names,
        provider::ToolProvider,
        settings::Export,
        view::Shown,
    },
    remote_role::outcome_of,
};
use crate::{
    link::{Link, reopen::Reopening},
    refusal::Refusal,
};

/// What is said to the broker and not sent yet.
const UNSENT_MAX: usize = 64;

/// After a stream that stood for so long, pauses begin at the first again.
const STEADY: Duration = Duration::from_secs(60);

/// Sends to the broker.
type Outbound = mpsc::Sender<wire::ServeToolsRequest>;

/// What of an export there is now: a tool, where it is, and who may call it.
struct Exported {
    provider: Arc<dyn ToolProvider>,
    tool: Tool,
    callers: Vec<String>,
    record: bool,
}

/// By the names under which callers know them.
type ExportedTools = BTreeMap<String, Exported>;

/// Serves the exports of this node's roles.
pub(in crate::gateway) struct Exporter {
    pub(in crate::gateway) gateway: Arc<Gateway>,
    pub(in crate::gateway) link: Link,
    pub(in crate::gateway) exports: Vec<Export>,
}

impl Exporter {
    /// Serves until `stopping`.
    pub(in crate::gateway) async fn run(self, stopping: CancellationToken) {
        let exporter = Arc::new(self);
        let serving = async {
            let mut reopening = Reopening::new();
            loop {
                exporter.link.connected().await;
                let registered_again = exporter.link.registered_again();
                match exporter.open().await {
                    Ok((orders, outbound)) => {
                        reopening.opened();
                        let began = Instant::now();
                        let ended = tokio::select! {
                            ended = exporter.serve(orders, outbound) => ended,
                            () = registered_again => Ok(()),
                        };
                        tracing::debug!(?ended, "tools are to be exported anew");
                        if STEADY <= began.elapsed() {
                            reopening.received();
                        }
                        reopening.after_end(&exporter.link).await;
                    }
                    Err(refusal) => {
                        tracing::debug!(%refusal, "tools are not exported");
                        reopening.after_refusal(&exporter.link).await;
                    }
                }
            }
        };
        tokio::select! {
            () = serving => {}
            () = stopping.cancelled() => {}
        }
    }

    async fn open(&self) -> Result<(Streaming<wire::ToolOrder>, Outbound), Refusal> {
        let (outbound, unsent) = mpsc::channel(UNSENT_MAX);
        Ok((self.link.serve_tools(unsent).await?, outbound))
    }

    /// Serves over one stream, until that ends. Calls that are under way end with it: nobody could
    /// be told what became of them.
    async fn serve(
        self: &Arc<Self>,
        mut orders: Streaming<wire::ToolOrder>,
        outbound: Outbound,
    ) -> Result<(), String> {
        let mut changes = self.gateway.watch();
        let mut sent: BTreeMap<RoleId, wire::RoleTools> = BTreeMap::new();
        let mut calls = JoinSet::new();
        let open: Arc<Mutex<BTreeMap<u64, CancellationToken>>> = Arc::default();
        let of_services = self.gateway.services().iter().map(|it| it.role());
        let roles: BTreeSet<&RoleId> =
            self.exports.iter().map(|it| &it.role).chain(of_services).collect();
        let mut exported: Arc<BTreeMap<RoleId, ExportedTools>> = Arc::default();
        let mut is_changed = true;
        loop {
            if std::mem::take(&mut is_changed) {
                // What may leave goes by what counts now.
                let may_leave = self.link.may_export().await;
                may_leave.map_err(|refusal| refusal.message)?;
                exported = Arc::new(
                    roles.iter().map(|role| ((*role).clone(), self.exported(role))).collect(),
                );
                for (role, tools) in &*exported {
                    let listed = listed(role, tools);
                    let before = sent.get(role).map(|it| &it.tools[..]).unwrap_or_default();
                    if before != listed.tools {
                        send(&outbound, Message::Tools(listed.clone())).await?;
                        sent.insert(role.clone(), listed);
                    }
                }
            }
            let order = tokio::select! {
                order = orders.message() => order,
                changed = changes.changed() => {
                    changed.map_err(|why| why.to_string())?;
                    is_changed = true;
                    continue;
                }
                Some(_) = calls.join_next() => continue,
            };
            let Some(order) = order.map_err(|why| why.message().to_owned())? else {
                return Ok(());
            };
            let number = order.number;
            let Some(call) = order.call else {
                if let Some(cancel) = open.lock().remove(&number) {
                    cancel.cancel();
                }
                continue;
            };
            let cancel = CancellationToken::new();
            open.lock().insert(number, cancel.clone());
            let (exporter, exported) = (Arc::clone(self), Arc::clone(&exported));
            let (outbound, open) = (outbound.clone(), Arc::clone(&open));
            calls.spawn(async move {
                let caller = RemoteCaller { number, outbound: outbound.clone() };
                let answering = exporter.answer(&exported, call, &caller);
                let result = cancel.run_until_cancelled(answering).await;
                open.lock().remove(&number);
                if let Some(result) = result {
                    let answer = wire::ToolAnswer { number, result: Some(result) };
                    send(&outbound, Message::Answer(answer)).await.ok();
                }
            });
        }
    }

    /// What a role exports now, by the names under which its callers know it.
    fn exported(&self, role: &RoleId) -> ExportedTools {
        let mut all = ExportedTools::new();
        let mut twice = BTreeSet::new();
        for server in self.gateway.servers() {
            let view = server.view();
            if view.shown() == Shown::Gone {
                continue;
            }
            for tool in &view.offer.tools {
                let name = names::exposed(&server.settings.name, &tool.name);
                let exports = self.exports.iter().find(|it| {
                    it.role == *role
                        && it.tools.iter().any(|pattern| pattern::matches(pattern, &name))
                });
                let Some(export) = exports else { continue };
                if !server.settings.access.allows(role, &tool.name) {
                    continue;
                }
                let own = tool.name.to_string();
                let provider = Arc::clone(server);
                let exported = Exported {
                    provider,
                    tool: tool.clone(),
                    callers: export.callers.clone(),
                    record: export.record,
                };
                if all.insert(own.clone(), exported).is_some() {
                    twice.insert(own);
                }
            }
        }
        // Nobody could tell which of two is meant.
        for name in &twice {
            tracing::warn!(%role, tool = name, "two servers have an exported tool of this name; neither is exported");
        }
        all.retain(|name, _| !twice.contains(name));
        // What is declared to be a service of the role is meant by its name.
        for services in self.gateway.services().iter().filter(|it| it.role() == role) {
            for (tool, callers) in services.tools() {
                let provider: Arc<dyn ToolProvider> = Arc::clone(services) as _;
                let name = tool.name.to_string();
                all.insert(name, Exported { provider, tool, callers, record: false });
            }
        }
        all
    }

    async fn answer(
        &self,
        exported: &BTreeMap<RoleId, ExportedTools>,
        call: wire::ToolCall,
        caller: &RemoteCaller,
    ) -> wire::ToolResult {
        let called = match self.link.may_answer_calls().await {
            Ok(()) => run_call(exported, call, caller).await,
            Err(refusal) => Err(ErrorData::invalid_request(refusal.message, None)),
        };
        let called = called.and_then(|(outcome, result)| {
            let bytes = result.len();
            if TOOL_RESULT_BYTES_MAX < bytes {
                let why = format!(
                    "the result is {bytes} bytes long, and at most {TOOL_RESULT_BYTES_MAX} are \
                     passed on. The tool was run"
                );
                return Err(ErrorData::internal_error(why, None));
            }
            Ok((outcome, result))
        });
        match called {
            Ok((outcome, result)) => {
                wire::ToolResult { outcome: outcome.into(), result, ..Default::default() }
            }
            Err(mut error) => {
                let mut said = json!(error).to_string();
                if TOOL_RESULT_BYTES_MAX < said.len() {
                    error =
                        ErrorData::new(error.code, "the error is too long to be passed on", None);
                    said = json!(error).to_string();
                }
                let outcome = outcome_of(&error).into();
                wire::ToolResult { outcome, error: said, ..Default::default() }
            }
        }
    }
}

/// What the broker is told of these tools: as many as it takes.
fn listed(role: &RoleId, exported: &ExportedTools) -> wire::RoleTools {
    let (mut tools, mut room) = (Vec::new(), EXPORTS_BYTES_MAX);
    for (name, Exported { tool, callers, record, .. }) in exported {
        let listing = serde_json::to_string(tool).unwrap_or_default();
        let bytes = name.len() + listing.len() + callers.iter().map(String::len).sum::<usize>();
        if TOOL_LISTING_BYTES_MAX < listing.len()
            || room < bytes
            || EXPORTED_TOOLS_MAX <= tools.len()
            || TOOL_NAME_BYTES_MAX < name.len()
        {
            tracing::warn!(%role, tool = name, "a tool is not exported: it, or all together, is too large");
            continue;
        }
        room -= bytes;
        let (name, callers) = (name.clone(), callers.clone());
        tools.push(wire::ExportedTool { name, listing, callers, record: *record });
    }
    wire::RoleTools { role: role.to_string(), tools }
}

/// Calls an exported tool. Answers how that ended, and its result as JSON.
async fn run_call(
    exported: &BTreeMap<RoleId, ExportedTools>,
    call: wire::ToolCall,
    caller: &RemoteCaller,
) -> Result<(wire::CallOutcome, String), ErrorData> {
    let unknown = || {
        let text = format!("role {} does not export this tool any more", call.target);
        ErrorData::invalid_params(text, None)
    };
    let role: RoleId = call.target.parse().map_err(|_| unknown())?;
    let exported = exported.get(&role).and_then(|tools| tools.get(&call.tool));
    // The list of callers may have changed since the broker was told.
    let exported = exported.filter(|it| matches_any(&it.callers, &call.role));
    let Exported { provider, tool, .. } = exported.ok_or_else(unknown)?;
    let by: RoleId = call.role.parse().map_err(|_| unknown())?;
    let arguments: JsonObject = match call.arguments.as_str() {
        "" => JsonObject::new(),
        text => serde_json::from_str(text)
            .map_err(|_| ErrorData::invalid_params("the arguments are no object", None))?,
    };
    let mut request = CallToolRequestParams::new(tool.name.clone()).with_arguments(arguments);
    request.meta = serde_json::from_str(&call.meta).ok();
    match provider.call(&by, request, caller).await? {
        CallToolResponse::Complete(result) => {
            let outcome = match result.is_error {
                Some(true) => wire::CallOutcome::Failed,
                Some(false) | None => wire::CallOutcome::Succeeded,
            };
            Ok((outcome, json!(result).to_string()))
        }
        CallToolResponse::InputRequired(_) | CallToolResponse::Task(_) | _ => {
            Err(provider.error("asks its user, who is on another machine"))
        }
    }
}

async fn send(outbound: &Outbound, message: Message) -> Result<(), String> {
    let request = wire::ServeToolsRequest { caller: None, said: Some(message) };
    outbound.send(request).await.map_err(|_| "the stream has ended".to_owned())
}

/// A caller on another node.
struct RemoteCaller {
    number: u64,
    outbound: Outbound,
}

#[async_trait]
impl Caller for RemoteCaller {
    async fn progress(&self, it: ProgressNotificationParam) {
        let written = |message: Option<&str>| {
            json!({ "progress": it.progress, "total": it.total, "message": message }).to_string()
        };
        let mut progress = written(it.message.as_deref());
        if TOOL_PROGRESS_BYTES_MAX < progress.len() {
            progress = written(None);
        }
        let progress = wire::ToolProgress { number: self.number, progress };
        send(&self.outbound, Message::Progress(progress)).await.ok();
    }

    async fn log(&self, _: LoggingMessageNotificationParam) {}

    async fn ask(&self, _: Asked) -> Result<Told, ErrorData> {
        let why = "a call from another machine cannot ask its user";
        Err(ErrorData::invalid_request(why, None))
    }
}
