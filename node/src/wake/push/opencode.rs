//! opencode: a prompt for one of its sessions, over the HTTP of its server.

use axum::body::{Body, to_bytes};
use http::{
    Method, Request, StatusCode, Uri,
    header::{CONTENT_TYPE, HOST},
};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::hooks::command::excerpt;

/// An answer, in bytes: a list of sessions.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

pub(super) async fn prompt(url: &str, session: Option<&str>, sentence: &str) -> Result<(), String> {
    let session = match session {
        Some(session) => session.to_owned(),
        None => {
            let sessions = exchange(url, Method::GET, "/session", None).await?;
            newest(&sessions).ok_or("its server has no session yet")?
        }
    };
    let path = format!("/session/{session}/prompt_async");
    let body = json!({ "parts": [{ "type": "text", "text": sentence }] });
    exchange(url, Method::POST, &path, Some(body)).await.map(drop)
}

/// The session that was used last, sub-agents' aside.
fn newest(sessions: &Value) -> Option<String> {
    let is_id = |id: &&str| id.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    let sessions = sessions.as_array()?.iter().filter(|it| it["parentID"].is_null());
    let newest = sessions.max_by_key(|it| it["time"]["updated"].as_u64())?;
    newest["id"].as_str().filter(is_id).map(str::to_owned)
}

async fn exchange(
    url: &str,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> Result<Value, String> {
    let uri: Uri = url.parse().map_err(|_| format!("{url} is no URL"))?;
    let authority = uri.authority().ok_or_else(|| format!("{url} is no URL"))?;
    let port = authority.port_u16().unwrap_or(80);
    let unreached = |why: &dyn std::fmt::Display| format!("{url} is not reached: {why}");
    let host = authority.host().trim_matches(['[', ']']);
    let stream = TcpStream::connect((host, port)).await.map_err(|why| unreached(&why))?;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, authority.as_str())
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(body.map(|it| it.to_string()).unwrap_or_default()));
    let request = request.map_err(|why| why.to_string())?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|why| unreached(&why))?;
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(|why| unreached(&why));
    let told = async {
        let response = response?;
        let status = response.status();
        let body = to_bytes(Body::new(response.into_body()), ANSWER_BYTES_MAX).await;
        Ok::<_, String>((status, body.map_err(|why| unreached(&why))?))
    };
    let told = told.await;
    connection.abort();
    let (status, body) = told?;
    if !status.is_success() {
        return Err(format!("{url} answered {status} to {path}: {}", excerpt(&body)));
    }
    if status == StatusCode::NO_CONTENT || body.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&body)
        .map_err(|_| format!("what answers at {url} is no opencode server"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_that_was_used_last_is_found() {
        let of = |id: &str, updated: u64| json!({ "id": id, "time": { "updated": updated } });
        let mut child = of("ses_3", 9);
        child["parentID"] = json!("ses_1");
        let all = json!([of("ses_1", 3), of("ses_2", 7), child]);
        assert_eq!(newest(&all).as_deref(), Some("ses_2"));
        assert_eq!(newest(&json!([of("../x", 1)])), None, "it would be another path");
        assert_eq!(newest(&json!([])), None);
        assert_eq!(newest(&json!({})), None);
    }
}
