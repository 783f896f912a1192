//! Why a command about runs is refused.

use tasuki_proto::{
    id::FencingToken,
    limits::{
        OPEN_RUNS_MAX, OPEN_RUNS_PER_TOKEN_MAX, RUNNING_STEPS_MAX, RUNS_MAX, STEP_FILES_MAX,
        STEP_MESSAGES_MAX, STEP_REPORTS_MAX,
    },
    reason::Reason,
    run::{RunId, StepId},
};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("{0}")]
    Invalid(String),
    #[error("there is no run {run} in this workspace, or it was forgotten")]
    UnknownRun { run: RunId },
    #[error("run {} has no step {}; its last is {last}", step.run, step.number)]
    UnknownStep { step: StepId, last: usize },
    #[error("run {run} has no question {number}")]
    UnknownMessage { run: RunId, number: u32 },
    #[error("run {run} has no message {number} with a file")]
    UnknownFile { run: RunId, number: u32 },
    #[error("step {step} cannot be claimed: it {why}; wait for another one")]
    StepTaken { step: StepId, why: &'static str },
    #[error(
        "token {presented} of step {step} is not the latest, which is {current}; nothing was \
         written"
    )]
    StaleToken { step: StepId, presented: FencingToken, current: FencingToken },
    #[error("step {step} {why}; nothing was written. Stop its process")]
    LeaseLost { step: StepId, why: &'static str },
    #[error("step {step} does not run, or this is not its secret; nothing was done")]
    InvalidStepToken { step: StepId },
    #[error("run {run} was asked for by {asker}; only {asker} or a person can do this")]
    NotAsker { run: RunId, asker: String },
    #[error(
        "{limit} of this run and those above it is used up; nothing was started. Whoever asked for \
         the first of them can start another with more"
    )]
    BudgetSpent { limit: &'static str },
    #[error("run {run} is being stopped; nothing was started")]
    Stopping { run: RunId },
    #[error(
        "permission denied: running something on {on} requires the `run` right, which your token \
         does not have; ask whoever runs the broker for a token with it, or run it on your own node"
    )]
    NotElsewhere { on: String },
    #[error("question {number} of step {step} has no reply yet; wait for that one first")]
    QuestionOpen { step: StepId, number: u32 },
    #[error("question {number} of run {run} {why}")]
    AlreadyReplied { run: RunId, number: u32, why: &'static str },
    #[error(
        "step {step} has sent {STEP_MESSAGES_MAX} questions and reports, which is the limit; this \
         question was not sent. Go on without a reply"
    )]
    TooManyQuestions { step: StepId },
    #[error(
        "step {step} has sent {STEP_REPORTS_MAX} questions and reports, and from then on may only \
         ask; this report was not sent. Put it into the step's output"
    )]
    TooManyReports { step: StepId },
    #[error(
        "step {step} has handed over {STEP_FILES_MAX} files, which is the limit; this one was not \
         sent. Put several files into one archive"
    )]
    TooManyFiles { step: StepId },
    #[error(
        "{OPEN_RUNS_MAX} runs of this workspace have not ended, or {RUNS_MAX} are kept, which is \
         the limit; cancel some, or try again later"
    )]
    TooManyRuns,
    #[error(
        "{whose} has {OPEN_RUNS_PER_TOKEN_MAX} runs in this workspace that have not ended, which \
         is the limit for one; nothing was started. Cancel some, or try again later"
    )]
    TooManyRunsOfOne { whose: String },
    #[error("{RUNNING_STEPS_MAX} steps run in this workspace, which is the limit; try again later")]
    TooManySteps,
}

impl Rejection {
    /// What a caller's program sees.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Invalid(_) => Reason::InvalidArgument,
            Self::UnknownRun { .. } => Reason::UnknownRun,
            Self::UnknownStep { .. } => Reason::UnknownStep,
            Self::UnknownMessage { .. } | Self::UnknownFile { .. } => Reason::UnknownMessage,
            Self::StepTaken { .. } => Reason::StepTaken,
            Self::StaleToken { .. } => Reason::StaleToken,
            Self::LeaseLost { .. } => Reason::LeaseLost,
            Self::InvalidStepToken { .. } => Reason::InvalidStepToken,
            Self::NotAsker { .. } => Reason::NotAsker,
            // Waiting gives a step no more messages.
            Self::BudgetSpent { .. }
            | Self::Stopping { .. }
            | Self::TooManyQuestions { .. }
            | Self::TooManyReports { .. }
            | Self::TooManyFiles { .. } => Reason::BudgetSpent,
            Self::NotElsewhere { .. } => Reason::RightForbidden,
            Self::QuestionOpen { .. } => Reason::QuestionOpen,
            Self::AlreadyReplied { .. } => Reason::AlreadyReplied,
            Self::TooManyRuns | Self::TooManyRunsOfOne { .. } | Self::TooManySteps => {
                Reason::Overloaded
            }
        }
    }
}
