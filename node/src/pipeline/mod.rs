//! Pipelines on a node: the phases of the roles that it hosts are done here.
//!
//! - **PW1** An attempt is claimed before anything is started for it, and what it started ends when
//!   the broker no longer has it for this node.
//! - **PW2** What an attempt made is given to the broker as one call, under one key, until the broker
//!   judges it.
//!
//! `file` reads a pipeline's file, `spec` says what a phase is to do, `worker` takes attempts and
//! makes them.
//!
//! Not here: what comes after a phase (the broker), and how a service or an agent is run
//! ([`services`](crate::services)).

pub mod file;
mod spec;
mod worker;

pub use self::{
    spec::PhaseSpec,
    worker::{PipelineWorker, WorkerSettings},
};
