//! Why a command about pipelines is refused.

use tasuki_proto::{
    id::{BoardName, CheckpointNumber, FencingToken, NodeId, PhaseName, RoleId},
    limits::OPEN_PIPELINES_MAX,
    reason::Reason,
};

use super::AttemptNumber;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("there is no pipeline on board {board}; pipelines: {known}")]
    Unknown { board: BoardName, known: String },
    #[error(
        "board {board} has a pipeline that has not ended; nothing was started. Use another board, \
         or cancel it with `tasuki pipeline cancel {board}`"
    )]
    Open { board: BoardName },
    #[error("the pipeline of board {board} has not ended; there is nothing to resume")]
    StillOpen { board: BoardName },
    #[error(
        "the pipeline of board {board} has not ended, so the board stays; cancel it with \
         `tasuki pipeline cancel {board}` first"
    )]
    BoardInUse { board: BoardName },
    #[error("the pipeline of board {board} has ended: it {how}. Nothing was done")]
    Ended { board: BoardName, how: &'static str },
    #[error(
        "attempt {attempt} of the pipeline of board {board} is not there to be taken: {why}. \
         Nothing was done"
    )]
    Taken { board: BoardName, attempt: AttemptNumber, why: String },
    #[error("phase {phase} of the pipeline of board {board} is done by {role}; nothing was done")]
    OtherRole { board: BoardName, phase: PhaseName, role: RoleId },
    #[error("only a node takes phases of pipelines, as a role that it hosts")]
    NodeRequired,
    #[error(
        "token {presented} of attempt {attempt} of the pipeline of board {board} is not that of \
         its claim; nothing was written"
    )]
    StaleToken { board: BoardName, attempt: AttemptNumber, presented: FencingToken },
    #[error(
        "attempt {attempt} of the pipeline of board {board} is no longer held by node {node}: {why}. \
         Nothing was written"
    )]
    NotHeld { board: BoardName, attempt: AttemptNumber, node: NodeId, why: String },
    #[error(
        "phase {phase} is a gate and did not write `is_approved`; nothing was written. Write true \
         or false"
    )]
    NoVerdict { phase: PhaseName },
    #[error(
        "phase {phase} wrote `is_approved` and is no gate; nothing was written. Only a gate \
         approves, and it is about another role's work"
    )]
    NoGate { phase: PhaseName },
    #[error(
        "phase {phase} cannot approve what {role} did, because {role} does it, too; nothing was \
         written"
    )]
    OwnWork { phase: PhaseName, role: RoleId },
    #[error(
        "nothing of the pipeline of board {board} waits for an approval: {why}. Nothing was done"
    )]
    NoApprovalPending { board: BoardName, why: String },
    #[error(
        "the approval of phase {phase} of board {board} has lapsed; nothing was approved. Ask \
         for it again with `tasuki pipeline resume {board}`"
    )]
    ApprovalLapsed { board: BoardName, phase: PhaseName },
    #[error(
        "board {board} is at checkpoint {newest} and no longer at {checkpoint}, which was looked at; \
         phase {phase} was neither approved nor rejected. Look again with `tasuki board diff {board} \
         {checkpoint}`"
    )]
    BoardChanged {
        board: BoardName,
        phase: PhaseName,
        checkpoint: CheckpointNumber,
        newest: CheckpointNumber,
    },
    #[error("{OPEN_PIPELINES_MAX} pipelines of this workspace have not ended, which is the limit")]
    TooManyOpen,
}

impl Rejection {
    /// What a caller's program sees.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Unknown { .. } => Reason::UnknownPipeline,
            Self::Open { .. } | Self::StillOpen { .. } | Self::BoardInUse { .. } => {
                Reason::PipelineOpen
            }
            Self::Ended { .. } => Reason::PipelineEnded,
            Self::Taken { .. } => Reason::PhaseTaken,
            Self::OtherRole { .. } | Self::NodeRequired => Reason::RoleForbidden,
            Self::StaleToken { .. } => Reason::StaleToken,
            Self::NotHeld { .. } => Reason::LeaseLost,
            Self::NoVerdict { .. } | Self::NoGate { .. } | Self::OwnWork { .. } => {
                Reason::InvalidArgument
            }
            Self::NoApprovalPending { .. } => Reason::NoApprovalPending,
            Self::ApprovalLapsed { .. } => Reason::ApprovalLapsed,
            Self::BoardChanged { .. } => Reason::StaleCheckpoint,
            Self::TooManyOpen => Reason::Overloaded,
        }
    }
}
