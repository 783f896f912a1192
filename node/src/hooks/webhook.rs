//! Posts one happening to an address.
//!
//! - **Q5** What is posted goes to the configured address alone: over TLS with a trusted
//!   certificate, unless that is on this machine or the operator allowed otherwise; a redirect is
//!   a failure.
//! - **Q6** Of the answer the status counts, and nothing of it can make the node hold more than
//!   `HEAD_BYTES_MAX` and `ANSWER_BYTES_MAX`.
//!
//! The signature is HMAC-SHA256, in hexadecimal, over the header `Tasuki-Timestamp`, a dot, and
//! the body.

use std::{convert::Infallible, io, time::Duration};

use axum::body::Body;
use futures::{StreamExt as _, future};
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{
    HeaderMap, Request, Response, StatusCode,
    header::{CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT},
};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use jiff::{Timestamp, fmt::rfc2822};
use sha2::Sha256;
use tasuki_proto::{
    host::files,
    invitation::Trust,
    net::tls::{self, Trusting},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time,
};
use tokio_rustls::TlsConnector;

use super::{attempt::Failure, command::excerpt, spec::Webhook, store::Call};
use crate::hex::hex;

/// A secret, in bytes: a shorter one can be guessed from one signature.
const SECRET_BYTES_MIN: usize = 16;

/// Status line and headers of an answer, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Of an answer's body, in bytes: it says why there was a failure, and is not read otherwise.
const ANSWER_BYTES_MAX: usize = 4 * 1024;

/// An address that can be posted to.
#[derive(Debug)]
pub struct Address {
    webhook: Webhook,
    /// `None`: it is spoken to in the open.
    tls: Option<Tls>,
}

/// Whom an address must be vouched for by.
struct Tls(TlsConnector);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

/// What carries bytes.
trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

impl Address {
    /// Reads certificates, and looks at the secret. Says in half a sentence why it cannot be used.
    pub fn find(webhook: &Webhook) -> Result<Self, String> {
        let connector = || {
            let authorities = webhook.ca_file.clone();
            Trusting { authorities, ..Trusting::new(Trust::Authorities) }.connector(&[])
        };
        let is_tls = webhook.url.scheme_str() == Some("https");
        let tls = is_tls.then(connector).transpose().map_err(|why| why.to_string())?.map(Tls);
        let address = Self { webhook: webhook.clone(), tls };
        address.secret()?;
        Ok(address)
    }

    /// Read each time, so that another secret counts from the next attempt on.
    fn secret(&self) -> Result<Option<Vec<u8>>, String> {
        let Some(path) = &self.webhook.secret_file else { return Ok(None) };
        let read = files::read_secret(path).map_err(|why| why.to_string())?;
        let mut secret = read.ok_or_else(|| format!("{} is not there", path.display()))?;
        secret.truncate(secret.trim_ascii_end().len());
        if secret.len() < SECRET_BYTES_MIN {
            return Err(format!(
                "{} holds less than {SECRET_BYTES_MIN} bytes, which can be guessed",
                path.display()
            ));
        }
        Ok(Some(secret))
    }

    /// Posts `call`, `now_ms` after 1970. Dropping the future breaks the connection off.
    pub async fn post(&self, call: &Call, now_ms: u64, limit: Duration) -> Result<(), Failure> {
        let request = self.request(call, now_ms / 1000).map_err(Failure::passing)?;
        let slow = || Failure::passing(format!("no answer within {} s", limit.as_secs_f32()));
        time::timeout(limit, self.exchange(request, now_ms)).await.map_err(|_| slow())?
    }

    fn request(&self, call: &Call, timestamp: u64) -> Result<Request<Body>, String> {
        let url = &self.webhook.url;
        let path = url.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        let authority = url.authority().map(http::uri::Authority::as_str);
        let mut request = Request::post(path)
            .header(HOST, authority.unwrap_or_default())
            .header(USER_AGENT, concat!("tasuki/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/json")
            .header("Tasuki-Event", &call.event)
            .header("Tasuki-Delivery", &call.id)
            .header("Tasuki-Timestamp", timestamp);
        if let Some(secret) = self.secret()? {
            let signature = sign(&secret, timestamp, call.body.as_bytes());
            request = request.header("Tasuki-Signature", signature);
        }
        request.body(Body::from(call.body.clone())).map_err(|why| why.to_string())
    }

    async fn exchange(&self, request: Request<Body>, now_ms: u64) -> Result<(), Failure> {
        let wire = self.dial().await?;
        let broken = |why: hyper::Error| Failure::passing(format!("the connection broke: {why}"));
        let mut http = http1::Builder::new();
        http.max_buf_size(HEAD_BYTES_MAX);
        let (mut sender, connection) = http.handshake(TokioIo::new(wire)).await.map_err(broken)?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(broken)?;
            judge(response, now_ms).await
        };
        let carry = async {
            // What breaks it is told to the exchange.
            drop(connection.await);
            future::pending::<Infallible>().await
        };
        tokio::select! {
            judged = exchange => judged,
            never = carry => match never {},
        }
    }

    async fn dial(&self) -> Result<Box<dyn Wire>, Failure> {
        let url = &self.webhook.url;
        let host = url.host().unwrap_or_default();
        let port = url.port_u16().unwrap_or_else(|| if self.tls.is_some() { 443 } else { 80 });
        let bare = host.trim_matches(['[', ']']);
        let unreached = |why: io::Error| {
            Failure::passing(format!("{} is not reached: {why}", self.webhook.origin()))
        };
        let stream = TcpStream::connect((bare, port)).await.map_err(unreached)?;
        let Some(Tls(connector)) = &self.tls else { return Ok(Box::new(stream)) };
        match tls::connect(connector, stream, host).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(why) => {
                let is_final = why.is_final();
                Err(Failure { is_final, ..Failure::passing(why.to_string()) })
            }
        }
    }
}

async fn judge(response: Response<Incoming>, now_ms: u64) -> Result<(), Failure> {
    let (head, body) = response.into_parts();
    let status = head.status;
    if status.is_success() {
        return Ok(());
    }
    if status.is_redirection() {
        return Err(Failure::lasting(format!(
            "answered {status}: redirects are not followed; configure the address it leads to"
        )));
    }
    let mut words = Vec::new();
    let mut body = Body::new(body).into_data_stream();
    while words.len() < ANSWER_BYTES_MAX
        && let Some(Ok(piece)) = body.next().await
    {
        words.extend_from_slice(&piece[..piece.len().min(ANSWER_BYTES_MAX - words.len())]);
    }
    let words = excerpt(&words);
    let words = if words.is_empty() { String::new() } else { format!(": {words}") };
    let why = format!("answered {status}");
    let is_passing = status.is_server_error()
        || [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS]
            .contains(&status);
    if !is_passing {
        return Err(Failure::lasting(why).saying(&words));
    }
    let pause = retry_after(&head.headers, now_ms);
    Err(Failure { pause, ..Failure::passing(why).saying(&words) })
}

/// How long an address asks to be left alone: in seconds, or until a date.
fn retry_after(headers: &HeaderMap, now_ms: u64) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    let now = Timestamp::from_millisecond(i64::try_from(now_ms).ok()?).ok()?;
    Duration::try_from(date.duration_since(now)).ok()
}

fn sign(secret: &[u8], timestamp: u64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes a key of any length");
    mac.update(timestamp.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
    format!("sha256={}", hex(&mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests;
