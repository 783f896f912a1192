//! The services of one role as tools of the gateway: for roles of this node, and to be exported.

use std::sync::Arc;

use async_trait::async_trait;
use rmcp::{
    ErrorData,
    model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Tool},
};
use serde_json::{Value, json};
use tasuki_proto::id::RoleId;

use super::{
    Services,
    error::ServiceError,
    steps::{Origin, to_result},
};
use crate::{
    gateway::{Caller, RoleProvider, TIMED_OUT, ToolProvider},
    service_settings::Service,
};

/// All services of one role.
#[derive(Debug)]
pub(super) struct ServiceProvider {
    role: RoleId,
    services: Arc<Services>,
}

impl ServiceProvider {
    pub(super) const fn new(role: RoleId, services: Arc<Services>) -> Self {
        Self { role, services }
    }
}

impl RoleProvider for ServiceProvider {
    fn role(&self) -> &RoleId {
        &self.role
    }

    fn tools(&self) -> Vec<(Tool, Vec<String>)> {
        let all = self.services.of_role(&self.role);
        all.map(|it| (listing(it), it.callers.clone())).collect()
    }
}

/// As `tools/list` has it.
fn listing(service: &Service) -> Tool {
    let (name, description) = (service.name.clone(), service.description.clone());
    let mut tool = Tool::new(name, description, Arc::new(service.input.clone()));
    // The protocol knows structured content that is an object.
    let object = service.output.as_ref().and_then(Value::as_object);
    let object = object.filter(|it| it.get("type").and_then(Value::as_str) == Some("object"));
    tool.output_schema = object.map(|it| Arc::new(it.clone()));
    tool
}

#[async_trait]
impl ToolProvider for ServiceProvider {
    fn name(&self) -> &str {
        self.role.as_str()
    }

    fn allows(&self, role: &RoleId, tool: &str) -> bool {
        self.services.find(&self.role, tool).is_some_and(|it| it.allows(role))
    }

    async fn call(
        &self,
        role: &RoleId,
        request: CallToolRequestParams,
        caller: &dyn Caller,
    ) -> Result<CallToolResponse, ErrorData> {
        let service = self.services.find(&self.role, &request.name);
        let service = service.filter(|it| it.allows(role)).ok_or_else(|| {
            let why = format!("role {} has no such service for {role}", self.role);
            ErrorData::invalid_params(why, None)
        })?;
        let origin = Origin::of_meta(request.meta.as_ref());
        let input = request.arguments.unwrap_or_default();
        match self.services.call_from(&service, input, origin, caller).await {
            Ok(value) => Ok(CallToolResponse::Complete(to_result(value))),
            Err(why) => failed(&why).map(CallToolResponse::Complete),
        }
    }

    fn error(&self, why: &str) -> ErrorData {
        let text = format!("role {} {why}", self.role);
        ErrorData::internal_error(text, Some(json!({ "role": self.role })))
    }
}

/// What an agent is told that called: a result that it can go by.
fn failed(why: &ServiceError) -> Result<CallToolResult, ErrorData> {
    let (kind, message) = (why.kind(), why.to_string());
    if let ServiceError::TimedOut(after) = why {
        let data = json!({ "kind": kind, "timeout_sec": after.as_secs_f64() });
        return Err(ErrorData::new(TIMED_OUT, message, Some(data)));
    }
    let mut result = CallToolResult::error(vec![ContentBlock::text(message.clone())]);
    result.structured_content = Some(json!({ "error": { "kind": kind, "message": message } }));
    Ok(result)
}
