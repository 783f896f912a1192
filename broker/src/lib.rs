//! The broker: one journal, one writer per workspace, many nodes.
//!
//! ```text
//!   grpc ──Request──▶ workspace actor ──decide──▶ rules      (pure, sync)
//!                        │  ▲    ◀──events──
//!                        │  └──Durable──┐
//!                        └──record────▶ journal               (sled, one commit for all)
//!   grpc ◀──answer── released once its sequence is durable
//! ```
//!
//! **Invariant:** nothing leaves the broker before what it rests on is durable.

pub mod access;
pub mod backup;
pub mod canonical;
mod cbor;
pub mod clock;
pub mod compact;
pub mod connection;
pub mod dashboard;
mod disk;
pub mod grpc;
pub mod hash;
pub mod journal;
pub mod metrics;
pub mod overview;
pub mod rules;
pub mod search;
pub mod server;
pub mod workspace;
