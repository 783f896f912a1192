//! The HTTP/2 connection itself: where to, and when it counts as dead.

use std::time::Duration;

use tasuki_proto::{
    limits::MESSAGE_BYTES_MAX,
    wire::{
        directory_client::DirectoryClient, feed_client::FeedClient,
        turn_loop_client::TurnLoopClient, waits_client::WaitsClient,
    },
};
use tonic::transport::{Channel, Endpoint};

/// Making a connection, in milliseconds: a machine that is there answers well within.
const CONNECT_MS_MAX: u64 = 2_000;

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

/// Where and how to connect. Encryption is a matter of this function alone.
pub(super) fn endpoint(address: &str) -> Result<Endpoint, BadAddress> {
    let bad = |why: String| BadAddress { address: address.to_owned(), why };
    let endpoint = Endpoint::from_shared(address.to_owned()).map_err(|e| bad(e.to_string()))?;
    match endpoint.uri().scheme_str() {
        Some("http") => {}
        Some(other) => return Err(bad(format!("this node does not speak {other}"))),
        None => return Err(bad("it has no http:// in front".to_owned())),
    }
    Ok(endpoint
        .tcp_nodelay(true)
        .connect_timeout(Duration::from_millis(CONNECT_MS_MAX))
        .http2_keep_alive_interval(Duration::from_millis(PING_MS))
        .keep_alive_timeout(Duration::from_millis(PONG_MS_MAX))
        .keep_alive_while_idle(true))
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
    use super::*;

    #[test]
    fn which_addresses_are_a_brokers() {
        for good in ["http://127.0.0.1:7420", "http://[::1]:7420", "http://host:1"] {
            assert!(endpoint(good).is_ok(), "{good}");
        }
        for bad in ["", "127.0.0.1:7420", "https://host:1", "ftp://x", "http://a b"] {
            assert!(endpoint(bad).is_err(), "{bad}");
        }
    }
}
