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
        CallToolRequestParams, CallToolResponse, ClientCapabilities, JsonObject,
        LoggingMessageNotificationParam, ProgressNotificationParam, Tool,
    },
};
use serde_json::json;
use tasuki_proto::{
    id::RoleId,
    limits::{
        EXPORTED_TOOLS_MAX, EXPORTS_BYTES_MAX, TOOL_LISTING_BYTES_MAX, TOOL_NAME_BYTES_MAX,
        TOOL_PROGRESS_BYTES_MAX, TOOL_RESULT_BYTES_MAX,
    },
    wire::{self, serve_tools_request::Said as What},
};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

use super::{
    super::{
        Gateway,
        call::Caller,
        client::{Asked, Told},
        names,
        server::{Server, Shown},
        settings::is_like,
    },
    remote_role::outcome_of,
};
use crate::{
    client::retry::{Backoff, chance},
    link::Link,
};

/// What is said to the broker and not sent yet.
const UNSENT_MAX: usize = 64;

/// After a stream that stood for so long, pauses begin at the first again.
const STEADY: Duration = Duration::from_secs(60);

/// What is on its way to the broker.
type Said = mpsc::Sender<wire::ServeToolsRequest>;

/// Some tools of servers here that a role lets others call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    pub role: RoleId,
    /// Names as agents here see them (`server__tool`); `*` at the end stands for anything.
    pub tools: Vec<String>,
    /// Roles that may call them, likewise. None: every role.
    pub callers: Vec<String>,
}

/// What of an export there is now: a tool, where it is, and who may call it.
#[derive(Clone)]
struct Exported {
    server: Arc<Server>,
    tool: Tool,
    callers: Vec<String>,
}

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
            let (mut backoff, mut refused) = (Backoff::default(), Backoff::turned_away());
            loop {
                exporter.link.connected().await;
                let pause = match exporter.open().await {
                    Ok((orders, said)) => {
                        refused.reset();
                        let began = Instant::now();
                        let ended = exporter.serve(orders, said).await;
                        tracing::debug!(?ended, "tools are to be exported anew");
                        if STEADY <= began.elapsed() {
                            backoff.reset();
                        }
                        backoff.pause(chance())
                    }
                    Err(why) => {
                        tracing::debug!(%why, "tools are not exported");
                        refused.pause(chance())
                    }
                };
                tokio::select! {
                    () = sleep(pause) => {}
                    () = exporter.link.reconnected() => {}
                }
            }
        };
        tokio::select! {
            () = serving => {}
            () = stopping.cancelled() => {}
        }
    }

    async fn open(&self) -> Result<(Streaming<wire::ToolOrder>, Said), String> {
        let (said, unsent) = mpsc::channel(UNSENT_MAX);
        let first = wire::ServeToolsRequest::default();
        let orders = self.link.serve_tools(first, unsent).await;
        Ok((orders.map_err(|refusal| refusal.message)?, said))
    }

    /// Serves over one stream, until that ends. Calls that are under way end with it: nobody could
    /// be told what became of them.
    async fn serve(
        self: &Arc<Self>,
        mut orders: Streaming<wire::ToolOrder>,
        said: Said,
    ) -> Result<(), String> {
        let mut changes = self.gateway.watch();
        let mut told: BTreeMap<RoleId, wire::RoleTools> = BTreeMap::new();
        let mut calls = JoinSet::new();
        let open: Arc<Mutex<BTreeMap<u64, CancellationToken>>> = Arc::default();
        let mut is_changed = true;
        loop {
            if std::mem::take(&mut is_changed) {
                // Words that are to leave go by what counts now.
                let may_leave = self.link.may_export().await;
                may_leave.map_err(|refusal| refusal.message)?;
                let roles: BTreeSet<&RoleId> = self.exports.iter().map(|it| &it.role).collect();
                for role in roles {
                    let tools = self.listed(role);
                    let before = told.get(role).map(|it| &it.tools[..]).unwrap_or_default();
                    if before != tools.tools {
                        say(&said, What::Tools(tools.clone())).await?;
                        told.insert(role.clone(), tools);
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
                if let Some(taken_back) = open.lock().remove(&number) {
                    taken_back.cancel();
                }
                continue;
            };
            let taken_back = CancellationToken::new();
            open.lock().insert(number, taken_back.clone());
            let (exporter, said, open) = (Arc::clone(self), said.clone(), Arc::clone(&open));
            calls.spawn(async move {
                let caller = Elsewhere { number, said: said.clone() };
                let result = tokio::select! {
                    result = exporter.answer(call, &caller) => Some(result),
                    () = taken_back.cancelled() => None,
                };
                open.lock().remove(&number);
                if let Some(result) = result {
                    let answer = wire::ToolAnswer { number, result: Some(result) };
                    say(&said, What::Answer(answer)).await.ok();
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
                    it.role == *role && it.tools.iter().any(|pattern| is_like(&name, pattern))
                });
                let Some(export) = exports else { continue };
                if !server.settings.access.allows(role, &tool.name) {
                    continue;
                }
                let own = tool.name.to_string();
                let exported = Exported {
                    server: Arc::clone(server),
                    tool: tool.clone(),
                    callers: export.callers.clone(),
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
        all
    }

    fn listed(&self, role: &RoleId) -> wire::RoleTools {
        let (mut tools, mut room) = (Vec::new(), EXPORTS_BYTES_MAX);
        for (name, it) in self.exported(role) {
            let listing = serde_json::to_string(&it.tool).unwrap_or_default();
            let callers: usize = it.callers.iter().map(String::len).sum();
            let bytes = name.len() + listing.len() + callers;
            if TOOL_LISTING_BYTES_MAX < listing.len()
                || room < bytes
                || EXPORTED_TOOLS_MAX <= tools.len()
                || TOOL_NAME_BYTES_MAX < name.len()
            {
                tracing::warn!(%role, tool = name, "a tool is not exported: it, or all together, is too large");
                continue;
            }
            room -= bytes;
            tools.push(wire::ExportedTool { name, listing, callers: it.callers });
        }
        wire::RoleTools { role: role.to_string(), tools }
    }

    async fn answer(&self, call: wire::ToolCall, caller: &Elsewhere) -> wire::ToolResult {
        let called = match self.link.may_answer_calls().await {
            Ok(()) => self.call(call, caller).await,
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

    async fn call(
        &self,
        call: wire::ToolCall,
        caller: &Elsewhere,
    ) -> Result<(wire::CallOutcome, String), ErrorData> {
        let unknown = || {
            let text = format!("the role {} does not export this tool any more", call.target);
            ErrorData::invalid_params(text, None)
        };
        let role: RoleId = call.target.parse().map_err(|_| unknown())?;
        let it = self.exported(&role).remove(&call.tool).ok_or_else(unknown)?;
        // Its list of callers may have changed since the broker was told.
        if !it.callers.is_empty() && !it.callers.iter().any(|who| is_like(&call.role, who)) {
            return Err(unknown());
        }
        let arguments: JsonObject = match call.arguments.as_str() {
            "" => JsonObject::new(),
            text => serde_json::from_str(text)
                .map_err(|_| ErrorData::invalid_params("the arguments are no object", None))?,
        };
        let request = CallToolRequestParams::new(it.tool.name.clone()).with_arguments(arguments);
        let answered = it.server.call(request, &ClientCapabilities::default(), caller).await?;
        match answered {
            CallToolResponse::Complete(result) => {
                let outcome = match result.is_error {
                    Some(true) => wire::CallOutcome::Failed,
                    Some(false) | None => wire::CallOutcome::Succeeded,
                };
                Ok((outcome, json!(result).to_string()))
            }
            CallToolResponse::InputRequired(_) | CallToolResponse::Task(_) | _ => {
                Err(it.server.error("asks its user, who is on another machine"))
            }
        }
    }
}

async fn say(said: &Said, what: What) -> Result<(), String> {
    let request = wire::ServeToolsRequest { caller: None, said: Some(what) };
    said.send(request).await.map_err(|_| "the stream has ended".to_owned())
}

/// A caller on another node.
struct Elsewhere {
    number: u64,
    said: Said,
}

#[async_trait]
impl Caller for Elsewhere {
    async fn progress(&self, it: ProgressNotificationParam) {
        let written = |message: Option<&str>| {
            json!({ "progress": it.progress, "total": it.total, "message": message }).to_string()
        };
        let mut progress = written(it.message.as_deref());
        if TOOL_PROGRESS_BYTES_MAX < progress.len() {
            progress = written(None);
        }
        let progress = wire::ToolProgress { number: self.number, progress };
        say(&self.said, What::Progress(progress)).await.ok();
    }

    async fn log(&self, _: LoggingMessageNotificationParam) {}

    async fn ask(&self, _: Asked) -> Result<Told, ErrorData> {
        let why = "a call from another machine cannot ask its user";
        Err(ErrorData::invalid_request(why, None))
    }
}
