//! The thin shell around [`crate::rules`]: one actor per workspace, its handle, its waits.
//!
//! An actor decides, applies in memory, queues the record, and goes on; it releases what rests on
//! a sequence once the journal says that sequence is durable.
//!
//! **Invariants**
//! - **S1** Only a workspace's actor changes its state or appends to its journal.
//! - **S2** Answers, refusals, reads, woken waits and feeds leave only once the state they rest
//!   on is durable.
//! - **S3** A wait consumes nothing. Losing one loses nothing, the caller asks again.
//!
//! Not here: rules, bytes, the wire.

mod actor;
mod compact;
mod handle;
mod last_seen;
mod observe;
mod offers;
mod pulse;
mod snapshots;
mod state;
mod supervisor;
mod waits;

#[cfg(test)]
mod tests;

pub(crate) use self::{
    actor::OnDurable, handle::Follower, handle::ParkedWait, state::run::Reported, waits::WaitReply,
};
pub use self::{
    actor::{Executed, IDLE_MS, Settings, View},
    handle::{ExecuteError, IN_FLIGHT_KIB_MAX, IN_FLIGHT_MAX},
    observe::InFlight,
    state::observe::{Counts, Observed},
    state::replay::replay_cut,
    supervisor::{WORKSPACES_AWAKE_MAX, Workspaces},
    waits::{Answer, Question, WAITS_MAX, WaitOutcome, Waits},
};
