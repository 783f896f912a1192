//! The HTTP/2 connection itself: where to, and when it counts as dead.

use std::{net::IpAddr, time::Duration};

use tasuki_proto::{
    limits::MESSAGE_BYTES_MAX,
    wire::{
        directory_client::DirectoryClient, feed_client::FeedClient,
        turn_loop_client::TurnLoopClient, waits_client::WaitsClient,
    },
};
use tonic::{
    Request, Status,
    codegen::http::Uri,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::Endpoint,
};

use super::line::{Connector, Lines};
use crate::credentials::Credentials;

/// What every client calls through.
pub(super) type Channel = InterceptedService<tonic::transport::Channel, Bearer>;

/// Between two pings on the connection, in milliseconds: how soon a broker that vanished without
/// a word is missed.
const PING_MS: u64 = 5_000;

/// The answer to a ping, in milliseconds: a busy machine is not a dead one.
const PONG_MS_MAX: u64 = 5_000;

/// One attempt at one call, in milliseconds: longer than any durable write should take, and short
/// enough that a command is tried more than once.
pub(super) const ATTEMPT_MS_MAX: u64 = 5_000;

/// Why an address is no broker's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{address:?} is not the address of a broker: {why}; it looks like http://127.0.0.1:7420")]
pub struct BadAddress {
    address: String,
    why: String,
}

/// Shows who calls, with every call of every client: here and nowhere else.
#[derive(Debug, Clone)]
pub(super) struct Bearer(Option<MetadataValue<Ascii>>);

impl Bearer {
    fn new(credentials: Option<&Credentials>) -> Self {
        Self(credentials.and_then(|it| {
            // A token is made of characters that fit.
            let mut shown: MetadataValue<_> =
                format!("Bearer {}", it.token.expose()).parse().ok()?;
            shown.set_sensitive(true);
            Some(shown)
        }))
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(shown) = &self.0 {
            request.metadata_mut().insert("authorization", shown.clone());
        }
        Ok(request)
    }
}

/// Where and how to connect, once somebody calls. Credentials for another broker are not shown to
/// this one, and none travel in the open over a network.
pub(super) fn open(
    address: &str,
    credentials: Option<&Credentials>,
    lines: Lines,
) -> Result<Channel, BadAddress> {
    let endpoint = endpoint(address)?;
    let credentials = credentials.filter(|it| it.are_for(address));
    let channel = endpoint.connect_with_connector_lazy(Connector::new(lines));
    Ok(InterceptedService::new(channel, Bearer::new(credentials)))
}

fn endpoint(address: &str) -> Result<Endpoint, BadAddress> {
    let bad = |why: &str| BadAddress { address: address.to_owned(), why: why.to_owned() };
    let endpoint =
        Endpoint::from_shared(address.to_owned()).map_err(|why| bad(&why.to_string()))?;
    match endpoint.uri().scheme_str() {
        Some("http") if is_loopback(endpoint.uri()) => {}
        Some("http") => {
            return Err(bad(
                "http:// would carry everything in the open over a network, so it is for this \
                 machine alone; a broker elsewhere is at https://, and the line that \
                 `tasuki-broker invite` prints there makes this machine known to it",
            ));
        }
        Some(other) => return Err(bad(&format!("this node does not speak {other}"))),
        None => return Err(bad("it has no http:// in front")),
    }
    Ok(endpoint
        .http2_keep_alive_interval(Duration::from_millis(PING_MS))
        .keep_alive_timeout(Duration::from_millis(PONG_MS_MAX))
        .keep_alive_while_idle(true))
}

/// Whether a call to this address stays on this machine.
fn is_loopback(address: &Uri) -> bool {
    let host = address.host().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = |ip: IpAddr| ip.to_canonical().is_loopback();
    bare.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(is_loopback)
}

pub(super) fn turn_loop(channel: Channel) -> TurnLoopClient<Channel> {
    TurnLoopClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

pub(super) fn waits(channel: Channel) -> WaitsClient<Channel> {
    WaitsClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

pub(super) fn directory(channel: Channel) -> DirectoryClient<Channel> {
    DirectoryClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX)
}

pub(super) fn feed(channel: Channel) -> FeedClient<Channel> {
    FeedClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use tasuki_proto::invitation::Trust;

    use super::*;

    #[test]
    fn which_addresses_are_a_brokers() {
        for good in ["http://127.0.0.1:7420", "http://[::1]:7420", "http://LOCALHOST:1"] {
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

    #[test]
    fn a_token_goes_with_every_call_to_its_broker_and_is_not_logged() {
        let credentials = Credentials {
            broker: "http://127.0.0.1:1/".to_owned(),
            trust: Trust::Authorities,
            token: "tasuki_t1_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE"
                .parse()
                .expect("a token"),
        };
        assert!(
            credentials.are_for("http://127.0.0.1:1") && !credentials.are_for("http://[::1]:1")
        );
        let mut bearer = Bearer::new(Some(&credentials));
        let request = bearer.call(Request::new(())).expect("let through");
        let shown = request.metadata().get("authorization").expect("shown");
        assert_eq!(shown, &format!("Bearer {}", credentials.token.expose()));
        let logged = format!("{credentials:?} {bearer:?} {request:?}");
        assert!(!logged.contains(&credentials.token.secret.expose()), "{logged}");
        let none = Bearer::new(None).call(Request::new(())).expect("let through");
        assert!(none.metadata().is_empty());
    }
}
