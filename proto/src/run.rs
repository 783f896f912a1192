//! What broker and node agree on about runs: their ids.
//!
//! A run's id is `run_MILLISECONDS_HEX`; its steps are numbered from 1.

use std::fmt;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::swarm::stamped;

stamped!(
    /// What somebody asked agents to do in one call.
    RunId "run_"
);

/// One process of a run.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Encode,
    Decode,
    Serialize,
    Deserialize,
)]
pub struct StepId {
    #[n(0)]
    pub run: RunId,
    /// From 1.
    #[n(1)]
    pub number: u32,
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.run, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_named_by_its_run_and_number() {
        let run: RunId = "run_1700000000000_00af".parse().unwrap();
        assert_eq!(StepId { run, number: 2 }.to_string(), "run_1700000000000_00af/2");
        let why = "issue_1_0000".parse::<RunId>().unwrap_err().to_string();
        assert!(why.ends_with("it looks like run_1700000000000_00af"), "{why}");
    }
}
