//! A role of another node, of which this node offers the tools.

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
        CallToolRequestParams, CallToolResponse, CallToolResult, ProgressNotificationParam, Tool,
    },
};
use serde::Deserialize;
use serde_json::json;
use tasuki_proto::{
    id::RoleId,
    limits::TOOL_META_BYTES_MAX,
    pattern::matches_any,
    reason::Reason,
    wire::{self, call_tool_response::Said},
};
use tokio::{
    sync::watch,
    task::spawn_blocking,
    time::{Instant, sleep},
};

use super::super::{
    call::{Caller, TIMED_OUT, tell},
    listing::{Offer, judge},
    names,
    pins::Pins,
    provider::ToolProvider,
    view::Shown,
};
use crate::{limiter::Limiter, link::Link, refusal::Refusal};

/// For a role to come back whose node went away during a call that may be repeated.
const BACK_WITHIN: Duration = Duration::from_secs(15);

/// Between two tries of it.
const AGAIN_AFTER: Duration = Duration::from_millis(300);

/// How names in `_meta` begin that nodes read.
const OWN_META: &str = "tasuki/";

/// A role's tools as they stand.
#[derive(Debug, Clone, Default)]
pub struct RoleView {
    pub offer: Arc<Offer>,
    /// Since when its node is away; `None`: it is there.
    pub offline_since: Option<Instant>,
}

impl RoleView {
    /// Whether its tools are shown, and as what.
    pub fn shown(&self) -> Shown {
        Shown::of(self.offline_since)
    }
}

#[derive(Debug)]
pub struct RemoteRole {
    name: RoleId,
    link: Link,
    calls: Arc<Limiter>,
    pins: Arc<Mutex<Pins>>,
    /// What its node exported last, for when a change of it is approved.
    exported: Mutex<Vec<wire::ExportedTool>>,
    callers: Mutex<BTreeMap<String, Vec<String>>>,
    view: watch::Sender<RoleView>,
    /// One review at a time.
    reviewing: tokio::sync::Mutex<()>,
}

impl RemoteRole {
    pub(super) fn new(name: RoleId, link: Link, pins: Pins, calls: Arc<Limiter>) -> Self {
        Self {
            name,
            link,
            calls,
            pins: Arc::new(Mutex::new(pins)),
            exported: Mutex::default(),
            callers: Mutex::default(),
            view: watch::Sender::default(),
            reviewing: tokio::sync::Mutex::default(),
        }
    }

    pub fn name(&self) -> &RoleId {
        &self.name
    }

    pub fn view(&self) -> RoleView {
        self.view.borrow().clone()
    }

    pub(super) fn set_offline(&self) {
        self.view.send_modify(|it| {
            it.offline_since.get_or_insert_with(Instant::now);
        });
    }

    /// Takes over what its node exports now; so the node is there.
    pub(super) async fn update(&self, exported: Vec<wire::ExportedTool>) {
        let _alone = self.reviewing.lock().await;
        self.review(&exported).await;
        *self.exported.lock() = exported;
        self.view.send_modify(|view| view.offline_since = None);
    }

    /// Approves changes of tools, each by the digest of what somebody looked at.
    pub(in crate::gateway) async fn approve(
        &self,
        tools: &BTreeMap<String, String>,
    ) -> Result<Vec<String>, String> {
        let approved = Pins::approve_held(&self.pins, &self.view().offer.held, tools).await?;
        let _alone = self.reviewing.lock().await;
        let exported = self.exported.lock().clone();
        self.review(&exported).await;
        Ok(approved)
    }

    /// Decides which of these tools are shown.
    async fn review(&self, exported: &[wire::ExportedTool]) {
        let mut tools = Vec::new();
        let (mut callers, mut unreadable) = (BTreeMap::new(), BTreeSet::new());
        for exported in exported {
            match serde_json::from_str::<Tool>(&exported.listing) {
                Ok(mut tool) => {
                    tool.name = exported.name.clone().into();
                    tools.push(tool);
                    callers.insert(exported.name.clone(), exported.callers.clone());
                }
                Err(_) => drop(unreadable.insert(exported.name.clone())),
            }
        }
        let pins = Arc::clone(&self.pins);
        let name = self.name.clone();
        let expose = move |own: &str| names::exposed_of_role(name.as_str(), own);
        let judged = spawn_blocking(move || judge(expose, tools, &mut pins.lock())).await;
        let Ok(mut offer) = judged else {
            return;
        };
        for name in unreadable {
            offer.refused.insert(name, "its listing cannot be read".to_owned());
        }
        *self.callers.lock() = callers;
        self.view.send_modify(|view| view.offer = Arc::new(offer));
    }

    /// One call, and what became of it.
    async fn attempt(
        &self,
        role: &RoleId,
        request: &CallToolRequestParams,
        caller: &dyn Caller,
    ) -> Result<wire::ToolResult, Refusal> {
        let arguments = match &request.arguments {
            Some(arguments) => json!(arguments).to_string(),
            None => String::new(),
        };
        let call = wire::CallToolRequest {
            caller: None,
            role: role.to_string(),
            target: self.name.to_string(),
            tool: request.name.to_string(),
            arguments,
            timeout_ms: 0,
            meta: own_meta(request),
        };
        let mut answers = self.link.call_tool(call).await?;
        let mut takes_news = true;
        loop {
            match answers.message().await {
                Ok(Some(wire::CallToolResponse { said: Some(Said::Progress(it)) })) => {
                    if let Ok(Progress { progress, total, message }) = serde_json::from_str(&it) {
                        let mut told = ProgressNotificationParam::new(
                            // Whoever passes it on knows the token of its own client.
                            rmcp::model::ProgressToken(rmcp::model::NumberOrString::Number(0)),
                            progress,
                        );
                        (told.total, told.message) = (total, message);
                        tell(&mut takes_news, caller.progress(told)).await;
                    }
                }
                Ok(Some(wire::CallToolResponse { said: Some(Said::Result(it)) })) => return Ok(it),
                Ok(Some(wire::CallToolResponse { said: None })) => {}
                Ok(None) => {
                    return Err(lost("the broker disconnected before the call was answered"));
                }
                Err(status) => {
                    return Err(match Reason::of(&status) {
                        Some(reason) => Refusal { reason, message: status.message().to_owned() },
                        None => lost(&format!("the connection ended: {}", status.message())),
                    });
                }
            }
        }
    }

    fn is_repeatable(&self, tool: &str) -> bool {
        let view = self.view();
        let tool = view.offer.tools.iter().find(|it| it.name == tool);
        let hints = tool.and_then(|it| it.annotations.as_ref());
        hints.is_some_and(|it| it.read_only_hint == Some(true) || it.idempotent_hint == Some(true))
    }

    /// What a refusal is to whoever called.
    fn refused(&self, refusal: &Refusal) -> ErrorData {
        if refusal.reason == Reason::UnknownTool {
            return ErrorData::invalid_params(refusal.message.clone(), None);
        }
        let data = json!({ "role": self.name, "reason": refusal.reason.as_str() });
        ErrorData::internal_error(refusal.message.clone(), Some(data))
    }
}

/// What of a call's `_meta` goes to another node: what nodes themselves say there.
fn own_meta(request: &CallToolRequestParams) -> String {
    let mut own = request.meta.clone().unwrap_or_default();
    own.retain(|name, _| name.starts_with(OWN_META));
    let text = if own.is_empty() { String::new() } else { json!(own).to_string() };
    if text.len() <= TOOL_META_BYTES_MAX { text } else { String::new() }
}

/// Whether a call that may be repeated may be answered next time.
const fn is_for_now(refusal: &Refusal) -> bool {
    matches!(
        refusal.reason,
        Reason::OutcomeUnknown | Reason::UnknownTool | Reason::Unavailable | Reason::Overloaded
    )
}

fn lost(why: &str) -> Refusal {
    let message = format!("{why}; the call may or may not have taken effect");
    Refusal { reason: Reason::OutcomeUnknown, message }
}

/// Of a progress notification, as it goes between nodes.
#[derive(Debug, Deserialize)]
struct Progress {
    progress: f64,
    total: Option<f64>,
    message: Option<String>,
}

#[async_trait]
impl ToolProvider for RemoteRole {
    fn name(&self) -> &str {
        self.name.as_str()
    }

    fn allows(&self, role: &RoleId, tool: &str) -> bool {
        let callers = self.callers.lock();
        let Some(patterns) = callers.get(tool) else { return false };
        *role != self.name && matches_any(patterns, role.as_str())
    }

    async fn call(
        &self,
        role: &RoleId,
        request: CallToolRequestParams,
        caller: &dyn Caller,
    ) -> Result<CallToolResponse, ErrorData> {
        let place = self.calls.try_acquire();
        let _place = place.map_err(|refusal| ErrorData::internal_error(refusal.message, None))?;
        let mut called = self.attempt(role, &request, caller).await;
        let is_lost = matches!(&called, Err(it) if it.reason == Reason::OutcomeUnknown);
        if let Err(first) = &called
            && is_lost
            && self.is_repeatable(&request.name)
        {
            let first = first.clone();
            // Its node may be the one that is away, or this one's connection: it takes a while until
            // both know of each other again.
            let until = Instant::now() + BACK_WITHIN;
            while called.as_ref().is_err_and(is_for_now) && Instant::now() < until {
                sleep(AGAIN_AFTER).await;
                called = self.attempt(role, &request, caller).await;
            }
            // That a repeat was not made says nothing of the first call.
            if called.as_ref().is_err_and(is_for_now) {
                called = Err(first);
            }
        }
        let result = called.map_err(|refusal| self.refused(&refusal))?;
        if !result.error.is_empty() {
            let error = serde_json::from_str(&result.error);
            return Err(error.unwrap_or_else(|_| self.error("answered with what is no error")));
        }
        match serde_json::from_str::<CallToolResult>(&result.result) {
            Ok(result) => Ok(CallToolResponse::Complete(result)),
            Err(_) => Err(self.error("answered with what is no result of a tool")),
        }
    }

    fn error(&self, why: &str) -> ErrorData {
        let text = format!("role {} {why}", self.name);
        ErrorData::internal_error(text, Some(json!({ "role": self.name })))
    }
}

/// How a call ended, by its error.
pub(super) fn outcome_of(error: &ErrorData) -> wire::CallOutcome {
    if error.code == TIMED_OUT { wire::CallOutcome::TimedOut } else { wire::CallOutcome::Failed }
}
