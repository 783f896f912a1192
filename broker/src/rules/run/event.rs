//! What happened to runs.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{Epoch, FencingToken, NodeId, NodeLabel, RunnerName, Timestamp},
    run::{RunId, StepId},
    token::SecretHash,
};

use super::{
    Asker, Budget, Outcome, Usage,
    state::{MessageKind, Mode, Origin, RunOutcome, StopReason},
};
use crate::hash::Hash;

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Event {
    #[n(0)]
    Started(#[n(0)] Box<Started>),
    #[n(1)]
    StepStarted(#[n(0)] StepStarted),
    #[n(2)]
    StepEnded(#[n(0)] Box<StepEnded>),
    /// Nothing of it begins any more; what waits is canceled.
    #[n(3)]
    Stopped {
        #[n(0)]
        run: RunId,
        #[n(1)]
        why: StopReason,
    },
    /// What still waits is canceled.
    #[n(4)]
    Ended {
        #[n(0)]
        run: RunId,
        #[n(1)]
        outcome: RunOutcome,
    },
    #[n(5)]
    LeaseRenewed {
        #[n(0)]
        step: StepId,
        #[n(1)]
        lapses: Timestamp,
        /// One of grace, after the broker was down.
        #[n(2)]
        is_grace: bool,
    },
    /// A sub-agent asked or told whoever started it something.
    #[n(6)]
    ParentTold {
        #[n(0)]
        step: StepId,
        #[n(1)]
        number: u32,
        #[n(2)]
        kind: MessageKind,
        #[n(3)]
        content: Hash,
    },
    #[n(7)]
    Replied {
        #[n(0)]
        run: RunId,
        #[n(1)]
        number: u32,
        #[n(2)]
        content: Hash,
    },
    /// Whole trees.
    #[n(8)]
    Forgotten {
        #[n(0)]
        runs: Vec<RunId>,
    },
}

impl Event {
    /// The run that it changed and that is still there.
    pub fn run(&self) -> Option<RunId> {
        match self {
            Self::Started(it) => Some(it.run),
            Self::StepStarted(it) => Some(it.step.run),
            Self::StepEnded(it) => Some(it.step.run),
            Self::LeaseRenewed { step, .. } | Self::ParentTold { step, .. } => Some(step.run),
            Self::Stopped { run, .. } | Self::Ended { run, .. } | Self::Replied { run, .. } => {
                Some(*run)
            }
            Self::Forgotten { .. } => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Started {
    #[n(0)]
    pub run: RunId,
    #[n(1)]
    pub mode: Mode,
    #[n(2)]
    pub asker: Asker,
    #[n(3)]
    pub origin: Origin,
    /// At least one.
    #[n(4)]
    pub steps: Vec<StepSpec>,
    /// Steps at the same time.
    #[n(5)]
    pub concurrency: u32,
    #[n(6)]
    pub budget: Budget,
}

/// What a step is, without its words.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct StepSpec {
    /// For people.
    #[n(0)]
    pub agent: String,
    #[n(1)]
    pub runner: RunnerName,
    /// Empty: the runner's own choice.
    #[n(2)]
    pub model: String,
    /// A node or a label of nodes; `None` is the node of whoever asks.
    #[n(3)]
    pub on: Option<NodeLabel>,
    /// 0: as the node has it.
    #[n(4)]
    pub timeout_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct StepStarted {
    #[n(0)]
    pub step: StepId,
    #[n(1)]
    pub node: NodeId,
    #[n(2)]
    pub epoch: Epoch,
    #[n(3)]
    pub token: FencingToken,
    /// Of what the sub-agent shows.
    #[n(4)]
    pub secret: SecretHash,
    #[n(5)]
    pub lapses: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct StepEnded {
    #[n(0)]
    pub step: StepId,
    #[n(1)]
    pub outcome: Outcome,
    #[n(2)]
    pub usage: Usage,
    #[n(3)]
    pub result: StepResult,
}

/// What else is known of how a step ended, without its words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct StepResult {
    /// The one that answered.
    #[n(0)]
    pub model: String,
    #[n(1)]
    pub stop_reason: String,
    #[n(2)]
    pub exit_code: Option<i32>,
    /// All that it wrote, and what of it is kept here.
    #[n(3)]
    pub output_bytes: u64,
    #[n(4)]
    pub output_kept: u64,
    /// Its output and error are kept.
    #[n(5)]
    pub has_words: bool,
}

/// What a command answers.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Reply {
    #[n(0)]
    Started {
        #[n(0)]
        run: RunId,
    },
    #[n(1)]
    Claimed {
        #[n(0)]
        token: FencingToken,
        #[n(1)]
        lapses: Timestamp,
    },
    #[n(2)]
    Told {
        #[n(0)]
        number: u32,
    },
}
