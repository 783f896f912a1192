//! JSON-RPC errors on their way out: none says back what a client gave beyond a bound, whichever
//! handler or library made it.

use axum::{
    body::{Body, to_bytes},
    response::Response,
};
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use rmcp::{
    RoleServer,
    model::{ErrorData, JsonRpcMessage},
    service::TxJsonRpcMessage,
};
use serde_json::Value;
use tasuki_proto::echo::{REFUSAL_BYTES_MAX, bounded};

use super::write_ack::has_result;

/// What a response that is no stream may have, in bytes: no error is longer before it is cut than
/// the request that it says back.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How a line of an event's data begins.
const DATA: &str = "data:";

pub(super) fn with_error_cut(
    mut message: TxJsonRpcMessage<RoleServer>,
) -> TxJsonRpcMessage<RoleServer> {
    if let JsonRpcMessage::Error(error) = &mut message {
        let ErrorData { message, data, .. } = &mut error.error;
        *message = bounded(message).into();
        data.iter_mut().for_each(cut);
    }
    message
}

/// An event, with what it says of an error cut.
pub(super) fn with_event_cut(event: Bytes) -> Bytes {
    if event.len() <= REFUSAL_BYTES_MAX || has_result(&event) {
        return event;
    }
    let Ok(text) = std::str::from_utf8(&event) else { return event };
    let line = |line: &str| {
        let json = line.strip_prefix(DATA).and_then(|data| error_cut(data.as_bytes()));
        json.map_or_else(|| line.to_owned(), |json| format!("{DATA} {json}"))
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n").into()
}

/// A response that says no, with what it says cut.
pub(super) async fn with_body_cut(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else {
        return Response::from_parts(parts, Body::empty());
    };
    if body.len() <= REFUSAL_BYTES_MAX {
        return Response::from_parts(parts, Body::from(body));
    }
    parts.headers.remove(CONTENT_LENGTH);
    let cut = error_cut(&body).unwrap_or_else(|| bounded(&String::from_utf8_lossy(&body)));
    Response::from_parts(parts, Body::from(cut))
}

/// `None`: it is no error.
fn error_cut(json: &[u8]) -> Option<String> {
    let mut message: Value = serde_json::from_slice(json).ok()?;
    cut(message.get_mut("error")?);
    Some(message.to_string())
}

/// Every text in it.
fn cut(value: &mut Value) {
    match value {
        Value::String(text) => *text = bounded(text),
        Value::Array(items) => items.iter_mut().for_each(cut),
        Value::Object(fields) => fields.values_mut().for_each(cut),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_error_is_cut_and_nothing_else() {
        let long = "x".repeat(100_000);
        let event = |message: &Value| Bytes::from(format!("id: 1/2\ndata: {message}\n\n"));
        let error = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -1, "message": long,
            "data": { "uri": [long] } } });
        let cut = with_event_cut(event(&error));
        assert!(cut.len() < 3 * REFUSAL_BYTES_MAX, "{}", cut.len());
        assert!(cut.starts_with(b"id: 1/2\ndata: {") && cut.ends_with(b"}\n\n"));
        for other in [
            json!({ "jsonrpc": "2.0", "id": 1, "result": { "error": long } }),
            json!({ "jsonrpc": "2.0", "method": "x", "params": { "error": long } }),
        ] {
            let event = event(&other);
            assert_eq!(with_event_cut(event.clone()), event);
        }
    }
}
