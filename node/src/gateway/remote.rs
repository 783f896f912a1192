//! A server that is reached by Streamable HTTP.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use reqwest::{Client, redirect};
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage},
    transport::streamable_http_client::{
        SseError, StreamableHttpClient, StreamableHttpClientTransport,
        StreamableHttpClientTransportConfig, StreamableHttpError, StreamableHttpPostResponse,
    },
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use sse_stream::Sse;
use tasuki_proto::{invitation::Trust, net::tls::Trusting};
use tokio::time::timeout;

use super::{server::START_MAX, stdio::MESSAGE_BYTES_MAX};

/// Until a connection stands.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Requests of one server that are under way at once.
const REQUESTS_MAX: usize = 256;

/// How to speak to it. Its token is in the node's variable of this name.
pub(super) fn transport(
    url: &str,
    token_env: Option<&str>,
) -> Result<StreamableHttpClientTransport<TimeoutClient>, String> {
    // A redirect could lead a token to somebody else.
    let client = Client::builder()
        .connect_timeout(CONNECT_MAX)
        .redirect(redirect::Policy::none())
        .tcp_nodelay(true)
        .tls_backend_preconfigured(tls(url)?)
        .build();
    let client = client.map_err(|why| why.to_string())?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    config.max_concurrent_requests = REQUESTS_MAX;
    config.max_sse_event_size = MESSAGE_BYTES_MAX;
    config.reinit_on_expired_session = true;
    if let Some(name) = token_env {
        let token = std::env::var(name);
        config.auth_header = Some(token.map_err(|_| format!("the variable {name} is not set"))?);
    }
    Ok(StreamableHttpClientTransport::with_client(TimeoutClient(client), config))
}

/// A client with a time limit for requests that begin a connection, and for notifications: rmcp goes
/// on with them, and keeps their socket, when nobody waits for the connection any more.
#[derive(Clone)]
pub(super) struct TimeoutClient(Client);

type Headers = HashMap<HeaderName, HeaderValue>;
type Failure = StreamableHttpError<reqwest::Error>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

impl StreamableHttpClient for TimeoutClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let max = MESSAGE_BYTES_MAX;
        self.post_message_with_max_sse_event_size(uri, message, session, token, headers, max).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
        max: usize,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let has_limit = match &message {
            JsonRpcMessage::Request(it) => matches!(
                it.request,
                ClientRequest::InitializeRequest(_) | ClientRequest::DiscoverRequest(_)
            ),
            JsonRpcMessage::Notification(_) => true,
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => false,
        };
        let post =
            self.0.post_message_with_max_sse_event_size(uri, message, session, token, headers, max);
        if has_limit {
            timeout(START_MAX, post).await.unwrap_or(Err(Failure::ControlRequestTimeout))
        } else {
            post.await
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), Failure> {
        self.0.delete_session(uri, session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<Events, Failure> {
        let max = MESSAGE_BYTES_MAX;
        self.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, max).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
        max: usize,
    ) -> Result<Events, Failure> {
        let client = &self.0;
        client
            .get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, max)
            .await
    }
}

/// Whom it trusts: the platform's authorities; nobody where nothing is encrypted.
fn tls(url: &str) -> Result<ClientConfig, String> {
    if url.starts_with("https:") {
        let trusting = Trusting::new(Trust::Authorities).connector(&[b"http/1.1"]);
        let trusting = trusting.map_err(|why| why.to_string())?;
        return Ok(ClientConfig::clone(trusting.config()));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|why| why.to_string())?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

/// The cause that an error of rmcp ends with, behind which of its types it came through.
pub(super) fn plain_cause(why: &str) -> &str {
    why.rsplit_once("] error: ").map_or(why, |(_, cause)| cause)
}
