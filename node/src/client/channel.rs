//! The HTTP/2 connection itself: where to, and when it counts as dead. To a broker in this process
//! there is none.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use futures::{FutureExt as _, TryFutureExt as _, future::BoxFuture};
use tasuki_broker::grpc::Carrier;
use tasuki_proto::{
    limits::MESSAGE_BYTES_MAX,
    net::dial::is_loopback,
    wire::{
        feed_client::FeedClient, mailbox_client::MailboxClient, pipelines_client::PipelinesClient,
        relay_client::RelayClient, runs_client::RunsClient, waits_client::WaitsClient,
    },
};
use tonic::{
    body::Body, codegen::http, service::interceptor::InterceptedService, transport::Endpoint,
};
use tower::{BoxError, Service};

use super::{
    auth::ClientAuth,
    connection::{Connections, Connector},
};

/// What every client calls through.
pub type Channel = InterceptedService<Way, ClientAuth>;

/// How calls get to the broker. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Way {
    Network(tonic::transport::Channel),
    /// It is in this process.
    Here(Carrier),
}

impl Service<http::Request<Body>> for Way {
    type Response = http::Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match self {
            Self::Network(channel) => channel.poll_ready(cx).map_err(Into::into),
            Self::Here(carrier) => carrier.poll_ready(cx),
        }
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        match self {
            Self::Network(channel) => channel.call(request).err_into().boxed(),
            Self::Here(carrier) => carrier.call(request).boxed(),
        }
    }
}

/// Between two pings on the connection, in milliseconds: how soon a broker that vanished without
/// a word is missed.
const PING_MS: u64 = 5_000;

/// The answer to a ping, in milliseconds: a busy machine is not a dead one.
const PONG_MS_MAX: u64 = 5_000;

/// One attempt at one call, in milliseconds: longer than any durable write should take, and short
/// enough that a command is tried more than once.
pub const ATTEMPT_MS_MAX: u64 = 5_000;

/// Why an address is no broker's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    #[error("{address:?} is not a broker's address: {why}; one looks like https://HOST:7420")]
    Malformed { address: String, why: String },
    #[error(
        "{0} is neither on this machine nor encrypted: everybody on the way could read along. A \
         broker that listens for others is at https://; the line that `tasuki-broker invite` \
         prints there makes this machine known to it"
    )]
    Plain(String),
}

/// Connects once somebody calls.
pub(super) fn open(endpoint: &Endpoint, auth: ClientAuth, connections: Connections) -> Channel {
    let channel = endpoint.connect_with_connector_lazy(Connector::new(connections, auth.clone()));
    InterceptedService::new(Way::Network(channel), auth)
}

/// To a broker in this process, which is always connected.
pub(super) fn here(carrier: Carrier, auth: ClientAuth, connections: &Connections) -> Channel {
    connections.stand();
    InterceptedService::new(Way::Here(carrier), auth)
}

/// Where to connect. Nothing travels in the open over a network.
pub(super) fn endpoint(address: &str) -> Result<Endpoint, BadAddress> {
    let bad = |why: String| BadAddress::Malformed { address: address.to_owned(), why };
    let endpoint = Endpoint::from_shared(address.to_owned()).map_err(|why| bad(why.to_string()))?;
    match endpoint.uri().scheme_str() {
        Some("https") => {}
        Some("http") if endpoint.uri().host().is_some_and(is_loopback) => {}
        Some("http") => return Err(BadAddress::Plain(address.to_owned())),
        Some(other) => return Err(bad(format!("this program does not speak {other}"))),
        None => return Err(bad("it has no http:// or https:// in front".to_owned())),
    }
    Ok(endpoint
        .http2_keep_alive_interval(Duration::from_millis(PING_MS))
        .keep_alive_timeout(Duration::from_millis(PONG_MS_MAX))
        .keep_alive_while_idle(true))
}

pub fn mailbox(channel: Channel) -> MailboxClient<Channel> {
    MailboxClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

pub fn waits(channel: Channel) -> WaitsClient<Channel> {
    WaitsClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

pub fn runs(channel: Channel) -> RunsClient<Channel> {
    RunsClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX)
}

pub fn relay(channel: Channel) -> RelayClient<Channel> {
    RelayClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

pub fn pipelines(channel: Channel) -> PipelinesClient<Channel> {
    PipelinesClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX)
}

pub fn feed(channel: Channel) -> FeedClient<Channel> {
    FeedClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_addresses_are_a_brokers() {
        for good in
            ["http://127.0.0.1:7420", "http://[::1]:7420", "http://LOCALHOST:1", "https://host:1"]
        {
            assert!(endpoint(good).is_ok(), "{good}");
        }
        for bad in ["", "127.0.0.1:7420", "ftp://x", "http://a b"] {
            assert!(endpoint(bad).is_err(), "{bad}");
        }
        for elsewhere in ["http://host:1", "http://10.0.0.1:1", "http://[fe80::1]:1"] {
            let said = endpoint(elsewhere).expect_err(elsewhere).to_string();
            assert!(said.contains("tasuki-broker invite"), "{said}");
        }
    }
}
