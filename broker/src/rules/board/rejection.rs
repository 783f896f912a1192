//! Why a command about boards is refused.

use tasuki_proto::{
    board::ChannelName,
    id::{BoardName, CheckpointNumber},
    limits::{
        BOARD_BYTES_MAX, BOARD_CHANNELS_MAX, BOARD_CHECKPOINTS_MAX, BOARD_RESULTS_BYTES_MAX,
        BOARDS_MAX, CHANNEL_BYTES_MAX, CHANNEL_MESSAGES_MAX, CHECKPOINT_RESULTS_BYTES_MAX,
        CHECKPOINT_RESULTS_MAX, CHECKPOINTS_MAX, PRUNED_FORKS_MAX, RESULTS_MAX,
    },
    reason::Reason,
};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("there is no board {board} in this workspace; boards: {known}")]
    UnknownBoard { board: BoardName, known: String },
    #[error("board {board} has no checkpoint {checkpoint}; the newest is {head}")]
    UnknownCheckpoint { board: BoardName, checkpoint: CheckpointNumber, head: CheckpointNumber },
    #[error("board {board} has no checkpoint with the write key {write_key:?}")]
    UnknownWriteKey { board: BoardName, write_key: String },
    #[error("board {board} has no channel {channel}; channels: {known}")]
    UnknownChannel { board: BoardName, channel: String, known: String },
    #[error(
        "board {board} is at checkpoint {head}, by {by}, and not at {expected}; nothing was \
         written. Since then {changed} changed. Read it and update again with \
         expected_checkpoint {head}"
    )]
    StaleCheckpoint {
        board: BoardName,
        head: CheckpointNumber,
        expected: CheckpointNumber,
        by: String,
        /// Names of channels.
        changed: String,
    },
    #[error(
        "board {board} does not exist, and the update expects checkpoint {expected}; nothing was \
         written. Omit expected_checkpoint to make the board"
    )]
    NoCheckpointYet { board: BoardName, expected: CheckpointNumber },
    #[error(
        "board {board} exists with the schema {current}; nothing was written. Omit `schema`, or \
         use another board"
    )]
    OtherSchema { board: BoardName, current: String },
    #[error("board {board} exists already; nothing was written. Choose another name")]
    BoardExists { board: BoardName },
    #[error("board {board} was made anew meanwhile; nothing was written. Read it and try again")]
    MadeAnew { board: BoardName },
    #[error(
        "write key {write_key:?} named another update of board {board} before, which is checkpoint \
         {checkpoint}; nothing was written. Use another key for another update"
    )]
    WriteKeyReused { board: BoardName, write_key: String, checkpoint: CheckpointNumber },
    #[error(
        "channel {channel} of board {board} has no message {id:?} to remove; nothing was written"
    )]
    UnknownMessage { board: BoardName, channel: ChannelName, id: String },
    #[error(
        "channel {channel} of board {board} would have {bytes} bytes; the limit is \
         {CHANNEL_BYTES_MAX}. Nothing was written"
    )]
    ChannelTooLarge { board: BoardName, channel: ChannelName, bytes: u64 },
    #[error(
        "board {board} would have {bytes} bytes; the limit is {BOARD_BYTES_MAX}. Nothing was \
         written; use a board of its own for what is large"
    )]
    BoardTooLarge { board: BoardName, bytes: u64 },
    #[error(
        "channel {channel} of board {board} would have more than {CHANNEL_MESSAGES_MAX} messages, \
         which is the limit. Nothing was written"
    )]
    TooManyMessages { board: BoardName, channel: ChannelName },
    #[error("board {board} would have more than {BOARD_CHANNELS_MAX} channels, which is the limit")]
    TooManyChannels { board: BoardName },
    #[error(
        "board {board} has {BOARD_CHECKPOINTS_MAX} checkpoints, which is the limit; prune it, or \
         fork it to a new board"
    )]
    TooManyCheckpoints { board: BoardName },
    #[error(
        "the boards of this workspace have {CHECKPOINTS_MAX} checkpoints, which is the limit; \
         delete boards that are no longer needed"
    )]
    TooManyCheckpointsInAll,
    #[error("this workspace has {BOARDS_MAX} boards, which is the limit; delete some")]
    TooManyBoards,
    #[error(
        "checkpoint {checkpoint} of board {board} would have more than {CHECKPOINT_RESULTS_MAX} \
         results, which is the limit. Nothing was stored"
    )]
    TooManyResults { board: BoardName, checkpoint: CheckpointNumber },
    #[error(
        "the boards of this workspace have {RESULTS_MAX} results, which is the limit; prune or \
         delete boards"
    )]
    TooManyResultsInAll,
    #[error(
        "the results at checkpoint {checkpoint} of board {board} would have {bytes} bytes; the \
         limit is {CHECKPOINT_RESULTS_BYTES_MAX}. Nothing was stored"
    )]
    ResultsTooLarge { board: BoardName, checkpoint: CheckpointNumber, bytes: u64 },
    #[error(
        "the results of board {board} would have more than {BOARD_RESULTS_BYTES_MAX} bytes, which \
         is the limit. Nothing was stored; prune the board"
    )]
    BoardResultsTooLarge { board: BoardName },
    #[error(
        "{forks} checkpoints of board {board} that remain go on from forgotten ones; the limit is \
         {PRUNED_FORKS_MAX}. Nothing was forgotten; keep another number"
    )]
    TooManyForks { board: BoardName, forks: usize },
    #[error("board {board} changed while it was pruned; nothing was forgotten. Try again")]
    ChangedWhilePruned { board: BoardName },
}

impl Rejection {
    /// What a caller's program sees.
    pub fn reason(&self) -> Reason {
        match self {
            Self::UnknownBoard { .. } => Reason::UnknownBoard,
            Self::UnknownCheckpoint { .. } | Self::UnknownWriteKey { .. } => {
                Reason::UnknownCheckpoint
            }
            Self::UnknownChannel { .. } => Reason::InvalidArgument,
            Self::StaleCheckpoint { .. }
            | Self::NoCheckpointYet { .. }
            | Self::MadeAnew { .. }
            | Self::ChangedWhilePruned { .. } => Reason::StaleCheckpoint,
            Self::OtherSchema { .. } | Self::BoardExists { .. } => Reason::BoardExists,
            Self::WriteKeyReused { .. } => Reason::KeyReused,
            Self::UnknownMessage { .. } => Reason::UnknownMessage,
            Self::ChannelTooLarge { .. }
            | Self::BoardTooLarge { .. }
            | Self::ResultsTooLarge { .. }
            | Self::BoardResultsTooLarge { .. } => Reason::TooLarge,
            Self::TooManyMessages { .. }
            | Self::TooManyChannels { .. }
            | Self::TooManyCheckpoints { .. }
            | Self::TooManyCheckpointsInAll
            | Self::TooManyBoards
            | Self::TooManyResults { .. }
            | Self::TooManyResultsInAll
            | Self::TooManyForks { .. } => Reason::Overloaded,
        }
    }
}
