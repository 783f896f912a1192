//! A server that is reached by Streamable HTTP.

use std::{sync::Arc, time::Duration};

use reqwest::{Client, redirect};
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use tasuki_proto::{invitation::Trust, net::tls::Trusting};

use super::stdio::MESSAGE_BYTES_MAX;

/// Until a connection stands.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Requests of one server that are under way at once.
const REQUESTS_MAX: usize = 256;

/// How to speak to it. Its token is in the node's variable of this name.
pub(super) fn transport(
    url: &str,
    token_env: Option<&str>,
) -> Result<StreamableHttpClientTransport<Client>, String> {
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
    Ok(StreamableHttpClientTransport::with_client(client, config))
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
