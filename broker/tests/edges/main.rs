//! The real binary at its edges: killed, cut off from power, damaged, abused. What it promised
//! must hold all the same.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

#[path = "../common/mod.rs"]
mod common;

mod abuse;
mod authority;
mod backup;
mod board;
mod compact;
mod connections;
mod crash;
mod damage;
mod dashboard;
mod endings;
mod export;
mod flood;
mod full;
mod guarded;
mod health;
mod hoard;
mod metrics;
mod pages;
mod power_cut;
mod releases;
mod run;
mod search;
mod strangers;
mod support;
mod swarm;
mod tls;
mod trust;
mod workspaces;
