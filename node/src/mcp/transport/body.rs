//! A request's body, read whole within a size and a time.

use std::{future::poll_fn, pin::Pin, time::Duration};

use axum::{
    body::{Body, Bytes},
    response::Response,
};
use bytes::BytesMut;
use http::{HeaderMap, StatusCode, header::CONTENT_LENGTH};
use http_body::Body as _;

use super::server::refuse;

/// A request's body, in bytes: two texts of a handover at their limit, escaped, with room.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Until a request's body is complete, in milliseconds.
const BODY_MS_MAX: u64 = 30_000;

/// Until more of a request's body comes, in milliseconds: callers are on this machine.
const BODY_PAUSE_MS_MAX: u64 = 10_000;

/// A request's body, whole. One that says it is too large is refused before any of it is read.
pub(in crate::mcp) async fn read_body(
    headers: &HeaderMap,
    body: Body,
) -> Result<Bytes, Box<Response>> {
    let too_large = || {
        let message = format!("the limit for a request's body is {BODY_BYTES_MAX} bytes");
        Box::new(refuse(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message))
    };
    let told = headers.get(CONTENT_LENGTH).and_then(|told| told.to_str().ok()?.parse().ok());
    if told.is_some_and(|told: u64| (BODY_BYTES_MAX as u64) < told) {
        return Err(too_large());
    }
    let reading = collect(body);
    match tokio::time::timeout(Duration::from_millis(BODY_MS_MAX), reading).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(Unread::TooLarge)) => Err(too_large()),
        Ok(Err(Unread::Broken(error))) => {
            let message = format!("cannot read the body: {error}");
            Err(Box::new(refuse(StatusCode::BAD_REQUEST, "bad_request", message)))
        }
        Ok(Err(Unread::Stuck)) => {
            let message = format!("no data of the body received for {BODY_PAUSE_MS_MAX} ms");
            Err(Box::new(refuse(StatusCode::REQUEST_TIMEOUT, "timeout", message)))
        }
        Err(_) => {
            let message = format!("the body was not complete after {BODY_MS_MAX} ms");
            Err(Box::new(refuse(StatusCode::REQUEST_TIMEOUT, "timeout", message)))
        }
    }
}

/// Why a body is not there.
enum Unread {
    TooLarge,
    Stuck,
    Broken(axum::Error),
}

async fn collect(mut body: Body) -> Result<Bytes, Unread> {
    let pause = Duration::from_millis(BODY_PAUSE_MS_MAX);
    let mut whole = BytesMut::new();
    loop {
        let next = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
        let next = tokio::time::timeout(pause, next).await.map_err(|_| Unread::Stuck)?;
        let Some(frame) = next else { return Ok(whole.freeze()) };
        let Ok(data) = frame.map_err(Unread::Broken)?.into_data() else { continue };
        if BODY_BYTES_MAX - whole.len() < data.len() {
            return Err(Unread::TooLarge);
        }
        whole.extend_from_slice(&data);
    }
}
