//! What broker and node share: the words they say to each other, and the machine and the network
//! that both stand on.
//!
//! Layers, each knowing only the ones before:
//!
//! - [`wire`]: the API as generated; strings and optional fields, nothing promised. [`rpc`]: its
//!   calls as types.
//! - [`stored`]: the journal's format as generated. It outlives any release.
//! - [`id`] and [`limits`]: the vocabulary; a value of one of these types is already valid.
//! - [`reason`]: why a call was refused, carried in `google.rpc.ErrorInfo`.
//! - [`token`] and [`invitation`]: what a bearer shows, and the line that makes somebody one.
//! - [`mail`]: types, boxes, ids and file names of mail.
//! - [`swarm`]: ids of issues, tasks, locks and deliveries. [`run`]: those of runs. [`pipeline`]:
//!   which phases a pipeline has.
//! - [`private`]: keys of nodes, and who vouches for them, where mail is private.
//! - [`json`]: what is written for programs to read.
//! - [`trace`]: which call of an agent a call of ours belongs to.
//! - [`visible`]: what of somebody else's text may stand in ours.
//! - [`nearest`]: the name that was meant. [`pattern`]: names by their beginning. [`counted`]: numbers in sentences.
//! - [`host`]: files, settings, trust, logs. [`net`]: TLS and connections.
//!
//! **Invariant:** past the edges of broker and node nothing handles a raw string id.

pub mod board;
pub mod counted;
mod disk;
pub mod echo;
pub mod enum_name;
pub mod host;
pub mod id;
pub mod invitation;
pub mod json;
pub mod limits;
pub mod mail;
pub mod nearest;
pub mod net;
pub mod pattern;
pub mod pipeline;
pub mod private;
pub mod reason;
pub mod review_terms;
pub mod rpc;
pub mod run;
pub mod schema;
pub mod swarm;
pub mod token;
pub mod trace;
pub mod visible;

/// Generated from `tasuki/v1/*.proto`.
#[allow(
    missing_debug_implementations,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::restriction,
    clippy::pedantic,
    rustdoc::all,
    reason = "generated"
)]
pub mod wire {
    tonic::include_proto!("tasuki.v1");
}

/// Generated from `tasuki/journal/v1/journal.proto`.
#[allow(
    missing_debug_implementations,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::restriction,
    clippy::pedantic,
    rustdoc::all,
    reason = "generated"
)]
pub mod stored {
    tonic::include_proto!("tasuki.journal.v1");
}

/// Descriptors of everything in `tasuki.v1`, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
