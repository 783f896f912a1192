//! What the network may take of a broker.
//!
//! Streams, waits and calls of one token are bounded where tokens are (`access`), messages where
//! they are read (`tasuki_proto::limits`).

use std::time::Duration;

/// Connections at once. Each costs some 24 KiB, 32 with TLS, and a file descriptor, of which a
/// process often has 20,000.
pub const CONNECTIONS_MAX: usize = 10_000;

/// Connections at once of one address (of IPv6: of one /64) to a guarded broker: an office behind
/// one address has a few for each node, and twenty offices fill the broker.
pub const CONNECTIONS_PER_ADDRESS_MAX: usize = 512;

/// Connections at once to a guarded broker on which no good token was shown so far. Each may hold
/// its HTTP/2 window in memory. The oldest of whoever has most gives way to a newcomer.
pub const STRANGERS_MAX: usize = 1024;

/// The same of one address, the oldest of which gives way to its next: more than a room full of
/// nodes opens in the second after an outage.
pub const STRANGERS_PER_ADDRESS_MAX: usize = 128;

/// Connections at once to the dashboard: programs that scrape, and people with some tabs each.
pub(crate) const DASHBOARD_CONNECTIONS_MAX: usize = 1024;

/// Those of them, all together and of one address, from which no whole request was answered so far.
pub(crate) const DASHBOARD_STRANGERS_MAX: usize = 64;
pub(crate) const DASHBOARD_STRANGERS_PER_ADDRESS_MAX: usize = 16;

/// How long a new connection may take for TLS and to say that it speaks HTTP/2, in milliseconds.
/// A handshake takes three round trips; eight seconds also forgive two lost packets.
pub const SILENT_MS_MAX: u64 = 8_000;

/// How long a new connection to a guarded broker may take until it shows a good token, in
/// milliseconds. Nodes show theirs at once; joining takes two calls.
pub const STRANGER_MS_MAX: u64 = 20_000;

/// How long a connection may take nothing of what is written to it, in milliseconds: as long as
/// an answer to a keep-alive may take. It bounds what HTTP/2 cannot see, because its own farewell
/// waits behind what is stuck, and what the system has in hand when the cable is out.
pub const STALLED_MS_MAX: u32 = 14_000;

/// HTTP/2 streams open at once on one connection. One connection was seen to break down
/// somewhere between 2,000 and 4,000.
pub(crate) const STREAMS_MAX: u32 = 1000;

/// Names and values of a call's header together, in bytes. Ours take less than 1 KiB; it also
/// ends a header that goes on for ever.
pub(crate) const HEADER_BYTES_MAX: u32 = 16 * 1024;

/// Streams that the peer opened and reset before they were looked at. More is an attack by rapid
/// reset (CVE-2023-44487): the connection ends.
pub(crate) const RESETS_UNSEEN_MAX: usize = 20;

/// Streams that were reset here over the life of a connection: because the peer broke the protocol
/// in them, or went on in them after they were refused. The second is no breach: whoever is far
/// away has said all of a call when the refusal arrives, so a full house of callers that are
/// refused together owes [`STREAMS_MAX`]. A peer that goes on so for ever is not worth its work: the
/// connection ends.
pub(crate) const RESETS_OWED_MAX: usize = 10 * STREAMS_MAX as usize;

/// What may be on the way to one stream, in bytes: several of the usual messages, and 3 MB/s to a
/// node at the other end of the world.
pub(crate) const STREAM_WINDOW_BYTES: u32 = 256 * 1024;

/// What may be on the way to one connection, in bytes; with [`STRANGERS_MAX`] it bounds what
/// strangers can have in memory.
pub(crate) const CONNECTION_WINDOW_BYTES: u32 = 512 * 1024;

/// Keep-alive towards a peer that may be gone: a ping after this much quiet, and this long for
/// its answer. Both together stay under 15 s.
pub(crate) const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(8);
pub(crate) const KEEP_ALIVE_WITHIN: Duration = Duration::from_secs(6);

/// Calls without a token under way on one connection: joining is one, and may be sent again. They
/// wait for the disk, and all strangers together must leave room for those who administrate.
pub(crate) const JOINS_PER_CONNECTION_MAX: u32 = 2;
