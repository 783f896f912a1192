//! Requests of a known method whose parameters are not what it takes. The library takes them for
//! methods that nobody knows, which says nothing of what is wrong.

use rmcp::{
    ErrorData,
    model::{CustomRequest, ErrorCode},
};
use serde_json::Value;

const CALL_TOOL: &str = "tools/call";

/// The methods of this server that take parameters.
const METHODS: [&str; 10] = [
    CALL_TOOL,
    "tools/list",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
];

/// Those that versions which keep connections or sessions have beside them.
const LEGACY_METHODS: [&str; 2] = ["resources/subscribe", "resources/unsubscribe"];

/// Why a request that no handler was found for is refused.
pub(super) fn refuse(request: CustomRequest, is_legacy: bool) -> ErrorData {
    let CustomRequest { method, params, .. } = request;
    let legacy = LEGACY_METHODS.into_iter().filter(|_| is_legacy);
    if METHODS.into_iter().chain(legacy).all(|known| known != method) {
        return ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None);
    }
    let arguments = params.as_ref().and_then(|params| params.get("arguments"));
    let message = match arguments {
        Some(given) if method == CALL_TOOL && !given.is_object() => format!(
            "`arguments` must be an object of the tool's arguments by their names, not {}",
            kind(given)
        ),
        Some(_) | None => format!("`params` are not what {method} takes"),
    };
    ErrorData::invalid_params(format!("{message}. No change was made."), None)
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
