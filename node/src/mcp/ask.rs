//! What commands of people and of sub-agents ask of the running node, beside MCP: one request, one
//! JSON answer.

use std::{io, time::Duration};

use axum::body::{Body, Bytes, to_bytes};
use http::{
    Method, Request,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST},
};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tasuki_proto::{limits::TOOL_RESULT_BYTES_MAX, reason::Reason};

use super::dial::{NodeAt, Undialled, Wire};
use crate::{probe, step_key::StepKey};

/// For the node to answer, in milliseconds: it only looks into its own memory.
const ANSWER_MS_MAX: u64 = 10_000;

/// An answer, in bytes. The largest has the result of a tool: its structured content, and that
/// as a text, in which each quote of that is escaped.
const ANSWER_BYTES_MAX: usize = 4 * TOOL_RESULT_BYTES_MAX;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0:?} is not a node's address; one looks like http://127.0.0.1:7421")]
    Address(String),
    #[error("no node answers at {url} ({why}); start one with `tasuki up`")]
    NoNode { url: String, why: io::Error },
    /// Of what would change something.
    #[error("the node at {url} broke off before it answered ({why})")]
    Unanswered { url: String, why: io::Error },
    #[error("the node at {url} is not spoken to: {why}")]
    Unsafe { url: String, why: String },
    #[error("the node refused: {message}")]
    Refused { reason: Option<Reason>, message: String },
    #[error("what answers at {url} is not a Tasuki node")]
    Unreadable { url: String },
}

/// Posts to `path` of a node, and reads what it says.
pub async fn post(node: &NodeAt, path: &str) -> Result<Value, Error> {
    post_body(node, path, Bytes::new()).await
}

/// The same with something to be read there.
pub async fn post_body(node: &NodeAt, path: &str, body: Bytes) -> Result<Value, Error> {
    let within = Duration::from_millis(ANSWER_MS_MAX);
    post_within(node, path, body, within).await
}

/// The same of a node that may take so long to answer.
pub async fn post_within(
    node: &NodeAt,
    path: &str,
    body: Bytes,
    within: Duration,
) -> Result<Value, Error> {
    send(Method::POST, node, path, node.credentials(), body, within).await
}

/// The same for a sub-agent, which shows its key.
pub async fn post_as(
    node: &NodeAt,
    path: &str,
    key: &StepKey,
    body: Bytes,
) -> Result<Value, Error> {
    let within = Duration::from_millis(ANSWER_MS_MAX);
    send(Method::POST, node, path, Some(format!("Bearer {key}")), body, within).await
}

/// Reads what a node says at `path`.
pub async fn get(node: &NodeAt, path: &str) -> Result<Value, Error> {
    get_within(node, path, Duration::from_millis(ANSWER_MS_MAX)).await
}

/// The same of a node that may take so long to answer.
pub async fn get_within(node: &NodeAt, path: &str, within: Duration) -> Result<Value, Error> {
    send(Method::GET, node, path, node.credentials(), Bytes::new(), within).await
}

/// A question that is lost may be asked again, so nobody need be told whether it was begun.
async fn send(
    method: Method,
    node: &NodeAt,
    path: &str,
    credentials: Option<String>,
    body: Bytes,
    within: Duration,
) -> Result<Value, Error> {
    let url = &node.url;
    let invalid = || Error::Address(url.clone());
    let authority = node.authority().ok_or_else(invalid)?;
    let is_change = method == Method::POST;
    // Without its type a node takes a request that changes something for a page's.
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, authority)
        .header(CONTENT_TYPE, "application/json");
    if let Some(credentials) = credentials {
        request = request.header(AUTHORIZATION, credentials);
    }
    let request = request.body(Body::from(body)).map_err(|_| invalid())?;
    let mut has_begun = false;
    let asked = ask(node, request, &mut has_begun);
    let answered = tokio::time::timeout(within, asked).await;
    let timed_out = |_| Err(Undialled::Silent(io::ErrorKind::TimedOut.into()));
    let answered = answered.unwrap_or_else(timed_out);
    if matches!(answered, Err(Undialled::Silent(_))) && probe::is_grpc(url).await {
        return Err(Error::NoNode { url: url.clone(), why: io::Error::other(probe::GRPC) });
    }
    let (is_success, body) = answered.map_err(|why| match why {
        Undialled::Address => invalid(),
        Undialled::Silent(why) if has_begun && is_change => {
            Error::Unanswered { url: url.clone(), why }
        }
        Undialled::Silent(why) => Error::NoNode { url: url.clone(), why },
        Undialled::Unsafe(why) => Error::Unsafe { url: url.clone(), why },
    })?;
    let told: Value =
        serde_json::from_slice(&body).map_err(|_| Error::Unreadable { url: url.clone() })?;
    if is_success {
        return Ok(told);
    }
    let reason = told["error"].as_str().and_then(Reason::parse);
    let message = told["message"].as_str().unwrap_or("it does not say why").to_owned();
    Err(Error::Refused { reason, message })
}

/// `has_begun`: from here on the node may have got it.
async fn ask(
    node: &NodeAt,
    request: Request<Body>,
    has_begun: &mut bool,
) -> Result<(bool, Vec<u8>), Undialled> {
    let stream = node.dial().await?;
    *has_begun = true;
    read(stream, request).await.map_err(Undialled::Silent)
}

async fn read(stream: Box<dyn Wire>, request: Request<Body>) -> io::Result<(bool, Vec<u8>)> {
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(io::Error::other)?;
    let is_success = response.status().is_success();
    let body = to_bytes(Body::new(response.into_body()), ANSWER_BYTES_MAX).await;
    connection.abort();
    Ok((is_success, body.map_err(io::Error::other)?.to_vec()))
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    /// A node that says so much of an answer and is gone; its URL.
    async fn breaks_off_after(answer: impl Into<String>) -> NodeAt {
        let answer = answer.into();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 4096];
            assert_ne!(stream.read(&mut asked).await.unwrap(), 0);
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        NodeAt::from(url)
    }

    #[tokio::test]
    async fn what_was_begun_and_not_answered_may_have_been_done() {
        for answer in ["", "HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{"] {
            let node = breaks_off_after(answer).await;
            let why = post(&node, "/outbox/1/drop").await.unwrap_err();
            assert!(matches!(why, Error::Unanswered { .. }), "{answer:?}: {why}");
            let node = breaks_off_after(answer).await;
            let why = get(&node, "/status").await.unwrap_err();
            assert!(matches!(why, Error::NoNode { .. }), "{answer:?}: {why}");
        }
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let why = post(&NodeAt::from(format!("http://{free}")), "/x").await.unwrap_err();
        assert!(matches!(why, Error::NoNode { .. }), "{why}");
    }

    #[tokio::test]
    async fn an_answer_has_the_largest_result_of_a_tool_twice() {
        // As structured content, and as a text.
        let structured = format!("[{}0]", "\"\",".repeat(TOOL_RESULT_BYTES_MAX / 3 - 1));
        let text = Value::String(structured.clone());
        let body = format!("{{\"result\":{structured},\"text\":{text}}}");
        let length = body.len();
        let node =
            breaks_off_after(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}"));
        let told = post(&node.await, "/gateway/call").await.unwrap();
        assert_eq!(told["text"].as_str().map(str::len), Some(structured.len()));
    }
}
