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
pub mod admin;
pub mod canonical;
pub mod checked;
pub mod clock;
pub mod config;
pub mod dial;
mod disk;
pub mod files;
pub mod grpc;
pub mod hash;
pub mod journal;
pub mod location;
pub mod logs;
pub mod rules;
pub mod search;
pub mod server;
pub mod tls;
pub mod trust;
pub mod workspace;
