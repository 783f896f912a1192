//! Runs of sub-agents, as this node starts, follows and executes them.
//!
//! `own` knows the agents and runners of this machine, `agent_trust` which of a project's are
//! trusted, `plan` makes a request of what somebody asks for, `client` speaks to the broker as a
//! role or a sub-agent, `view` says how a run stands, `worker` takes steps and runs them, `live`
//! knows which steps run here, `files` reads and saves what sub-agents hand over, `output` reads
//! long outputs. `spec` is what nodes tell one another of a step.
//!
//! Not here: the process of an agent CLI and its stream (`runner`), which step is whose turn (the
//! broker).

pub mod agent_trust;
pub mod client;
pub mod convert;
pub mod files;
pub mod host;
pub mod live;
pub mod output;
pub mod own;
pub mod plan;
pub mod spec;
pub mod view;
#[cfg(unix)]
pub mod worker;
