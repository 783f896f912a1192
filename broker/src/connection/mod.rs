//! Connections below HTTP: how many there may be, how long they may say nothing, and what is
//! known of the other end of each.
//!
//! Not here: what a call may do (`grpc`, `access`).

mod accept;
pub(crate) mod limits;
mod peer;
mod slots;
mod stream;

pub(crate) use self::{
    accept::connections,
    peer::Joining,
    stream::{Connection, Protocol},
};
pub use self::{
    limits::{
        CONNECTIONS_MAX, CONNECTIONS_PER_ADDRESS_MAX, SILENT_MS_MAX, STALLED_MS_MAX,
        STRANGER_MS_MAX, STRANGERS_MAX, STRANGERS_PER_ADDRESS_MAX,
    },
    peer::Peer,
};
