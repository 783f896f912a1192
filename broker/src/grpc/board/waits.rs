//! Who waits for a board to change, and what they are answered.

use tasuki_proto::{
    id::CheckpointNumber,
    limits::WAIT_CHANNELS_MAX,
    wire::{self, board_answer::Standing, park_response::Outcome},
};
use tonic::Status;

use super::{
    super::{
        Answer, Endpoint, Later, WorkspaceSession, at_once,
        parse::{check_count, id},
    },
    parse, render_checkpoint,
};
use crate::{
    rules::board,
    workspace::{Question, View},
};

impl Endpoint for wire::BoardQuestion {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let question = question(&self)?;
        let Outcome::Board(answer) = session.wait(question, self.hold_ms).await? else {
            unreachable!("a question about a board is answered with one")
        };
        Ok(answer)
    }
}

/// What is asked.
pub(in crate::grpc) fn question(it: &wire::BoardQuestion) -> Result<Question, Status> {
    check_count("channels", it.channels.len(), 0..=WAIT_CHANNELS_MAX)?;
    Ok(Question::Board(board::Question {
        board: id("board", &it.board)?,
        role: id("role", &it.role)?,
        channels: parse::channels("channels", &it.channels)?,
        after: CheckpointNumber::from(it.after_checkpoint),
    }))
}

/// What a wait for a board ended with.
pub(in crate::grpc) fn outcome(
    view: &View<'_>,
    it: board::Answer,
    is_superseded: bool,
    sequence: u64,
) -> Later<wire::BoardAnswer> {
    let board = view.workspace.boards.find(&it.question.board);
    let mut answer = wire::BoardAnswer {
        board: it.question.board.to_string(),
        newest: board.map(|board| render_checkpoint(board, board.head())),
        channels: it.changed.iter().map(ToString::to_string).collect(),
        sequence,
        now_ms: view.now.as_millis(),
        ..Default::default()
    };
    answer.set_standing(match it.is_there {
        _ if is_superseded => Standing::Superseded,
        true => Standing::Changed,
        false => Standing::StillWaiting,
    });
    at_once(answer)
}
