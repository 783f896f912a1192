//! Waking agents: what each client can, what its hooks are told, and when an idle one is woken.
//!
//! A notification of MCP wakes nobody. What does differs by client: a hook at the end of a turn, a
//! message put into its queue, keys sent to its terminal. [`client`] is the table of it, [`hook`] what
//! hooks are told and answer, [`card`] what an agent is told at the start of a session, [`pacing`] when
//! a wake is due: all of it pure. [`service`] runs in the node; `push` is what it does to clients.
//! [`usage`] reads what clients write down of tokens.
//!
//! - **WU1** No words of other agents reach a client here: ids, roles and counts in fixed sentences.
//!   What a hook or a push says becomes a prompt.
//! - **WU2** Each arrival wakes once. Those that come together are one wake, and the pause between
//!   wakes grows while no call follows.
//! - **WU3** At the end of a turn an agent goes on at most [`pacing::CONTINUATIONS_MAX`] times without
//!   a call in between, and at most [`pacing::SAID_MAX`] times for the same thing.
//! - **WU4** Nothing is pushed while a call of the role is under way or a wait of it is parked.
//! - **WU5** What a role holds is given back for the session that called a tool of ours last, and once:
//!   not for a session beside it, nor for one that the launcher watches over.

pub mod adapters;
pub mod card;
pub mod client;
mod gather;
pub mod hook;
pub mod pacing;
pub mod pending;
mod push;
pub mod service;
mod state;
pub mod usage;
