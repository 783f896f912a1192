//! What commands for people ask of the running node, beside MCP: one request, one JSON answer.

use std::{io, time::Duration};

use axum::body::{Body, to_bytes};
use http::{Method, Request, Uri, header::HOST, uri::Scheme};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tasuki_proto::reason::Reason;
use tokio::net::TcpStream;

/// For the node to answer, in milliseconds: it only looks into its own memory.
const ANSWER_MS_MAX: u64 = 10_000;

/// An answer, in bytes.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0:?} is not a node's address; one looks like http://127.0.0.1:7421")]
    Address(String),
    #[error("no node answers at {url} ({why}); start one with `tasuki up`")]
    NoNode { url: String, why: io::Error },
    #[error("the node refused: {message}")]
    Refused { reason: Option<Reason>, message: String },
    #[error("what answers at {url} is not a Tasuki node")]
    Unreadable { url: String },
}

/// Posts to `path` of the node at `url`, and reads what it says.
pub async fn post(url: &str, path: &str) -> Result<Value, Error> {
    send(Method::POST, url, path).await
}

/// Reads what the node at `url` says at `path`.
pub async fn get(url: &str, path: &str) -> Result<Value, Error> {
    send(Method::GET, url, path).await
}

async fn send(method: Method, url: &str, path: &str) -> Result<Value, Error> {
    let invalid = || Error::Address(url.to_owned());
    let uri: Uri = url.parse().map_err(|_| invalid())?;
    let authority = uri.authority().filter(|_| uri.scheme() == Some(&Scheme::HTTP));
    let authority = authority.ok_or_else(invalid)?;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, authority.as_str())
        .body(Body::empty())
        .map_err(|_| invalid())?;
    let place = (authority.host().trim_matches(['[', ']']), authority.port_u16().unwrap_or(80));
    let answered = tokio::time::timeout(Duration::from_millis(ANSWER_MS_MAX), ask(place, request));
    let answered = answered.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let (is_success, body) = answered.map_err(|why| Error::NoNode { url: url.to_owned(), why })?;
    let told: Value =
        serde_json::from_slice(&body).map_err(|_| Error::Unreadable { url: url.to_owned() })?;
    if is_success {
        return Ok(told);
    }
    let reason = told["error"].as_str().and_then(Reason::parse);
    let message = told["message"].as_str().unwrap_or("it does not say why").to_owned();
    Err(Error::Refused { reason, message })
}

async fn ask(place: (&str, u16), request: Request<Body>) -> io::Result<(bool, Vec<u8>)> {
    let stream = TcpStream::connect(place).await?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(io::Error::other)?;
    let is_success = response.status().is_success();
    let body = to_bytes(Body::new(response.into_body()), ANSWER_BYTES_MAX).await;
    connection.abort();
    Ok((is_success, body.map_err(io::Error::other)?.to_vec()))
}
