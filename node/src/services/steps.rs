//! One service, from its input to its result.

#![expect(deprecated, reason = "servers of earlier versions log so")]

use std::{
    sync::{
        Weak,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use rmcp::{
    ErrorData,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, LoggingMessageNotificationParam,
        NumberOrString, ProgressNotificationParam, ProgressToken, RequestMetaObject,
    },
};
use serde_json::{Map, Value, json};
use tasuki_proto::{
    echo::echo,
    limits::{TOOL_ARGUMENTS_BYTES_MAX, TOOL_RESULT_BYTES_MAX},
    reason::Reason,
    schema::{Mismatch, check_value, parse_output},
};
use tokio::task::spawn_blocking;
use uuid::Uuid;

use super::{
    DEPTH_MAX, Services,
    agent::{self, AgentTask},
    error::ServiceError,
    no_user,
};
use crate::{
    gateway::{Asked, Caller, TIMED_OUT, Told},
    service_settings::{ATTEMPT_KEY, Action, INPUT, PREVIOUS, Service, Step},
    template::{Arguments, Values},
};

/// In `_meta` of a call: the name of one attempt, which stays the same when it is made again.
pub(crate) const ATTEMPT_META: &str = "tasuki/attempt";

/// In `_meta` of a call: how many services call one another above it.
pub(crate) const DEPTH_META: &str = "tasuki/depth";

/// The key of an attempt.
const ATTEMPT_KEY_BYTES_MAX: usize = 200;

/// For a value to be held against its schema.
const CHECKED_WITHIN: Duration = Duration::from_secs(10);

/// For whoever called to take progress.
const PROGRESS_TAKEN_WITHIN: Duration = Duration::from_secs(1);

/// Where a call comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) attempt_key: Option<String>,
    /// Services above it.
    pub(crate) depth: u32,
}

impl Origin {
    /// As the caller's request says.
    pub(crate) fn of_meta(meta: Option<&RequestMetaObject>) -> Self {
        let field = |name: &str| meta.and_then(|meta| meta.get(name));
        let key = field(ATTEMPT_META).and_then(Value::as_str);
        let key = key.filter(|it| !it.is_empty() && it.len() <= ATTEMPT_KEY_BYTES_MAX);
        let depth = field(DEPTH_META).and_then(Value::as_u64).unwrap_or_default();
        Self {
            attempt_key: key.map(str::to_owned),
            depth: u32::try_from(depth).unwrap_or(u32::MAX),
        }
    }
}

impl Services {
    pub(super) async fn call_from(
        &self,
        service: &Service,
        input: Map<String, Value>,
        origin: Origin,
        caller: &dyn Caller,
    ) -> Result<Value, ServiceError> {
        if DEPTH_MAX <= origin.depth {
            let (role, name) = (&service.role, &service.name);
            return Err(ServiceError::Failed(format!(
                "{role}__{name} was not started: {DEPTH_MAX} services call one another above it, \
                 which is the limit."
            )));
        }
        let place = self.calls.try_acquire();
        let _place = place.map_err(|refusal| ServiceError::Unavailable(refusal.message))?;
        let working = Box::pin(self.work(service, input, origin, caller));
        let worked = tokio::time::timeout(service.timeout, working).await;
        worked.unwrap_or(Err(ServiceError::TimedOut(service.timeout)))
    }

    async fn work(
        &self,
        service: &Service,
        input: Map<String, Value>,
        origin: Origin,
        caller: &dyn Caller,
    ) -> Result<Value, ServiceError> {
        let input = check_input(service, input).await?;
        let key = origin.attempt_key.unwrap_or_else(|| Uuid::new_v4().simple().to_string());
        let mut values = Values::default();
        values.set(INPUT, input);
        values.set(ATTEMPT_KEY, Value::String(key.clone()));
        let total = service.steps.len();
        let mut last = Value::Null;
        for (number, step) in (1..).zip(&service.steps) {
            let place = Place { service, key: &key, depth: origin.depth, number, total };
            let done = Box::pin(self.step(&place, step, &values, caller)).await;
            last = done.map_err(|why| why.of_step(number, total))?;
            if number < total {
                if let Some(name) = &step.name {
                    values.set(name, last.clone());
                }
                values.set(PREVIOUS, last.clone());
            }
        }
        let bytes = last.to_string().len();
        if TOOL_RESULT_BYTES_MAX < bytes {
            return Err(ServiceError::Failed(format!(
                "The result has {bytes} bytes; the limit is {TOOL_RESULT_BYTES_MAX}."
            )));
        }
        Ok(last)
    }

    async fn step(
        &self,
        place: &Place<'_>,
        step: &Step,
        values: &Values,
        caller: &dyn Caller,
    ) -> Result<Value, ServiceError> {
        let told = StepCaller { caller, place, told: AtomicU32::new(0) };
        match &step.action {
            Action::Agent { agent, prompt } => {
                let prompt = prompt.fill(values).map_err(ServiceError::Failed)?;
                let (role, output) = (&place.service.role, step.output.as_ref());
                let timeout = place.service.timeout;
                let task = AgentTask { role, agent, prompt: &prompt, output, timeout };
                agent::run(&self.runs, &task, &told).await
            }
            Action::Tool { tool, arguments } => {
                let value = self.call_tool(place, tool, arguments, values, &told).await?;
                match &step.output {
                    Some(schema) => formed(schema, value).await,
                    None => Ok(value),
                }
            }
        }
    }

    /// Calls a tool of the gateway as the service's role.
    async fn call_tool(
        &self,
        place: &Place<'_>,
        name: &str,
        arguments: &Arguments,
        values: &Values,
        caller: &dyn Caller,
    ) -> Result<Value, ServiceError> {
        let role = &place.service.role;
        let arguments = arguments.fill(values).map_err(ServiceError::Failed)?;
        let gateway = self.gateway.get().and_then(Weak::upgrade);
        let stopped = || ServiceError::Unavailable("This node offers no tools.".to_owned());
        let gateway = gateway.ok_or_else(stopped)?;
        let known = gateway.catalogue().tool(name).cloned();
        let tool = match known {
            Some(tool) => Some(tool),
            None => gateway.settled().await.tool(name).cloned(),
        };
        let tool = tool.filter(|it| it.provider.allows(role, &it.own)).ok_or_else(|| {
            let why = match gateway.is_held(name, &[role]) {
                true => "changed and is held back; see `tasuki gateway approve`".to_owned(),
                false => format!("is not there, or {role} may not call it"),
            };
            ServiceError::Unavailable(format!("The tool {} {why}.", echo(name)))
        })?;
        let mut request = CallToolRequestParams::new(tool.own.clone()).with_arguments(arguments);
        request.meta = Some(place.meta());
        let answered = tool.provider.call(role, request, caller).await;
        match answered.map_err(|error| refused(name, &error))? {
            CallToolResponse::Complete(result) => result_value(name, result),
            CallToolResponse::InputRequired(_) | CallToolResponse::Task(_) | _ => {
                let why = format!("The tool {name} asks its user, and a service has none.");
                Err(ServiceError::Failed(why))
            }
        }
    }
}

/// Which step of which call.
struct Place<'a> {
    service: &'a Service,
    key: &'a str,
    depth: u32,
    number: usize,
    total: usize,
}

impl Place<'_> {
    fn meta(&self) -> RequestMetaObject {
        let mut meta = RequestMetaObject::default();
        // Each step is an attempt of its own.
        let key = match self.total {
            1 => self.key.to_owned(),
            _ => format!("{}/{}", self.key, self.number),
        };
        meta.insert(ATTEMPT_META.to_owned(), json!(key));
        meta.insert(DEPTH_META.to_owned(), json!(self.depth + 1));
        meta
    }
}

/// What a tool said went wrong.
fn refused(name: &str, error: &ErrorData) -> ServiceError {
    let text = format!("The tool {name}: {}", error.message);
    let reason = error.data.as_ref().and_then(|it| it.get("reason")).and_then(Value::as_str);
    let is_unknown = reason == Some(Reason::OutcomeUnknown.as_str())
        || error.code == TIMED_OUT
        || error.message.contains("may or may not have taken effect");
    if is_unknown { ServiceError::OutcomeUnknown(text) } else { ServiceError::Failed(text) }
}

/// The structured content of a result, else its text.
fn result_value(name: &str, result: CallToolResult) -> Result<Value, ServiceError> {
    let texts: Vec<&str> =
        result.content.iter().filter_map(|it| it.as_text().map(|it| it.text.as_str())).collect();
    let text = texts.join("\n");
    if result.is_error == Some(true) {
        let kind = result.structured_content.as_ref().and_then(|it| it.pointer("/error/kind"));
        let is_unknown = kind.and_then(Value::as_str) == Some(Reason::OutcomeUnknown.as_str());
        let text = format!("The tool {name} failed: {}", tasuki_proto::echo::bounded(&text));
        return Err(match is_unknown {
            true => ServiceError::OutcomeUnknown(text),
            false => ServiceError::Failed(text),
        });
    }
    Ok(result.structured_content.unwrap_or(Value::String(text)))
}

/// A tool's result that matches. Servers that know no structured content write JSON as a text.
async fn formed(schema: &Value, value: Value) -> Result<Value, ServiceError> {
    let parsed = value.as_str().and_then(|text| parse_output(text).ok());
    let first = match check_result(schema, value).await {
        Ok(value) => return Ok(value),
        Err(why) => why,
    };
    let invalid = |first| ServiceError::InvalidOutput { first, second: None };
    match parsed {
        Some(parsed) => check_result(schema, parsed).await.map_err(invalid),
        None => Err(invalid(first)),
    }
}

async fn check_input(service: &Service, input: Map<String, Value>) -> Result<Value, ServiceError> {
    let input = Value::Object(input);
    let bytes = input.to_string().len();
    if TOOL_ARGUMENTS_BYTES_MAX < bytes {
        let why = format!("it has {bytes} bytes; the limit is {TOOL_ARGUMENTS_BYTES_MAX}");
        return Err(ServiceError::InvalidInput(why));
    }
    let schema = Value::Object(service.input.clone());
    let checked = check(schema, input).await;
    checked.map_err(|why| ServiceError::InvalidInput(why.trim_end_matches('.').to_owned()))
}

/// The value, where it matches; else a sentence that names what does not.
pub(super) async fn check_result(schema: &Value, value: Value) -> Result<Value, String> {
    check(schema.clone(), value).await
}

/// Holds a value against a schema, on a thread that may block.
async fn check(schema: Value, value: Value) -> Result<Value, String> {
    let checking = spawn_blocking(move || {
        let bytes = value.to_string().len();
        check_value(&schema, &value, bytes).map(|()| value)
    });
    match tokio::time::timeout(CHECKED_WITHIN, checking).await {
        Ok(Ok(Ok(value))) => Ok(value),
        Ok(Ok(Err(Mismatch::Violations(them)))) => Err(format!("{them}.")),
        Ok(Ok(Err(Mismatch::Schema(why)))) => Err(format!("The schema {why}.")),
        Ok(Ok(Err(Mismatch::TakesTooLong))) | Err(_) => {
            Err("It takes too long to be checked; make the schema simpler.".to_owned())
        }
        Ok(Err(_)) => Err("It could not be checked.".to_owned()),
    }
}

/// Tells whoever called how far it is. It counts on by itself.
pub(super) async fn tell_progress(caller: &dyn Caller, words: &str) {
    let token = ProgressToken(NumberOrString::Number(0));
    let mut progress = ProgressNotificationParam::new(token, 0.0);
    progress.message = Some(words.to_owned());
    // One that does not read does not get it.
    tokio::time::timeout(PROGRESS_TAKEN_WITHIN, caller.progress(progress)).await.ok();
}

/// Whoever called a service, as one of its steps reaches it: progress of all steps counts on.
struct StepCaller<'a> {
    caller: &'a dyn Caller,
    place: &'a Place<'a>,
    told: AtomicU32,
}

/// Progress of one step, of what is counted.
const STEP_PROGRESS: u32 = 1_000_000;

#[async_trait]
impl Caller for StepCaller<'_> {
    async fn progress(&self, mut progress: ProgressNotificationParam) {
        let told = self.told.fetch_add(1, Ordering::Relaxed).min(STEP_PROGRESS - 1);
        let Place { number, total, .. } = self.place;
        let before = u32::try_from(number - 1).unwrap_or_default() * STEP_PROGRESS;
        progress.progress = f64::from(before + told + 1);
        progress.total = None;
        if *total != 1 {
            let words = progress.message.unwrap_or_default();
            progress.message = Some(format!("step {number} of {total}: {words}"));
        }
        self.caller.progress(progress).await;
    }

    async fn log(&self, message: LoggingMessageNotificationParam) {
        self.caller.log(message).await;
    }

    async fn ask(&self, _: Asked) -> Result<Told, ErrorData> {
        Err(no_user())
    }
}

/// A result as a tool gives it: objects as structured content, and all of it as text.
pub(super) fn to_result(value: Value) -> CallToolResult {
    match value {
        Value::Object(_) => CallToolResult::structured(value),
        Value::String(text) => CallToolResult::success(vec![rmcp::model::ContentBlock::text(text)]),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            CallToolResult::success(vec![rmcp::model::ContentBlock::text(value.to_string())])
        }
    }
}
