//! Pipelines: phases that roles do one after another on one board.
//!
//! A pipeline is named by its board. Its phase waits until a node that hosts the phase's role claims
//! the attempt, under a lease that the node keeps by being there. The node ends the attempt with
//! updates of the board; these and the step to the next phase are one record. A gate is a phase that
//! says whether another role's work is approved; a person may have to approve what a phase did
//! before the next begins. Time alone loses attempts, times them out, and lets approvals lapse.
//!
//! - **PL1** An attempt is held by at most one node at a time, and ends once.
//! - **PL2** What is said of an attempt under an older token, or by another node, is refused.
//! - **PL3** A gate is passed only by a role that did not do what it is about.
//! - **PL4** What waits for a person goes on only when a person approves it, before its time is over.
//! - **PL5** What an attempt writes to the board, that it ended, and what follows, is one record.
//!
//! `command` and `event` are what is asked and what happened, `decide` may refuse, `transition` says
//! what follows what, `lapse` is what time brings, `state` looks up and applies.
//!
//! Not here: what a phase does (nodes), and whether what it writes has the form that the board asks
//! for (where calls are parsed).

mod command;
mod decide;
mod event;
mod lapse;
mod rejection;
mod state;
#[cfg(test)]
mod tests;
mod transition;

pub use self::{
    command::{Command, DecideApproval, End, Start},
    event::{Change, Claimed, Event, Renewed, Reply, Started, Transition},
    rejection::Rejection,
    state::{
        ApprovalDecision, Attempt, AttemptEnd, Claim, Outcome, Pipeline, Pipelines, SnapshotItem,
        Status,
    },
};

/// Numbers the attempts of a pipeline, from 1.
pub type AttemptNumber = u32;
