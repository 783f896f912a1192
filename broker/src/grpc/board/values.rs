//! Values of channels, read from the journal.

use tasuki_proto::{
    id::{BoardName, CheckpointNumber},
    reason::Reason,
};
use tonic::Status;

use super::{
    super::{WorkspaceSession, status},
    damaged,
};
use crate::rules::board::{BoardId, Command, Fold, Folding, ValueParts, ValuePlace};

/// The values of channels, read where that holds nobody up if they are made of many.
pub(super) async fn values(
    session: &WorkspaceSession,
    name: &BoardName,
    board: BoardId,
    parts: Vec<ValueParts>,
) -> Result<Vec<(ValueParts, String)>, Status> {
    let reads = parts.iter().map(|it| it.updates.len() + 1).sum();
    let read = session.reading(reads, move |session| read_values(session, board, parts)).await;
    let Err(why) = read else { return read };
    // Deleted, and removed from the disk meanwhile.
    let name = name.clone();
    let there = session.query(None, move |view| Ok(view.workspace.boards.get(&name)?.id)).await?;
    if there == board {
        return Err(why);
    }
    Err(Reason::UnknownBoard.status("the board was deleted meanwhile; read it again"))
}

fn read_values(
    session: &WorkspaceSession,
    board: BoardId,
    parts: Vec<ValueParts>,
) -> Result<Vec<(ValueParts, String)>, Status> {
    let read = |parts: ValueParts| read_value(session, board, &parts).map(|json| (parts, json));
    parts.into_iter().map(read).collect()
}

fn read_value(
    session: &WorkspaceSession,
    board: BoardId,
    parts: &ValueParts,
) -> Result<String, Status> {
    let read = |checkpoint: CheckpointNumber, is_whole| {
        let place = ValuePlace { board, checkpoint, channel: parts.index, is_whole };
        session.bodies().board_value(&place).map_err(|e| status::reading(&e))
    };
    let whole = parts.whole.map(|at| read(at, true)).transpose()?;
    let mut value = Folding::new(parts.reducer, whole).map_err(|e| damaged(&e))?;
    for at in &parts.updates {
        value.add(read(*at, false)?).map_err(|e| damaged(&e))?;
    }
    value.finish().map_err(|e| damaged(&e))
}

/// Keeps the whole values of all channels at a checkpoint; at the head, where none is named. So it
/// is known how large they are.
pub(in crate::grpc) async fn fold_all(
    session: &WorkspaceSession,
    name: &BoardName,
    at: Option<CheckpointNumber>,
) -> Result<(), Status> {
    let board = name.clone();
    let found = session.query(None, move |view| {
        let Some(board) = view.workspace.boards.find(&board) else { return Ok(None) };
        let at = at.unwrap_or_else(|| board.head());
        let channels = board.unfolded_at(at);
        Ok(Some((board.id, at, board.value_parts(at, Some(&channels)))))
    });
    let Some((board, at, parts)) = found.await? else { return Ok(()) };
    let parts: Vec<ValueParts> = parts.into_iter().filter(|it| !it.updates.is_empty()).collect();
    if parts.is_empty() {
        return Ok(());
    }
    fold(as_broker(session), board, at, parts).await
}

/// Keeps whole values of channels at a checkpoint.
pub(super) async fn make_whole(
    session: &WorkspaceSession,
    board: BoardId,
    checkpoint: CheckpointNumber,
    parts: Vec<ValueParts>,
) -> Result<(), Status> {
    fold(as_broker(session), board, checkpoint, parts).await
}

/// The broker does it itself: the caller's node may be another by then, and its key names the
/// update.
fn as_broker(session: &WorkspaceSession) -> WorkspaceSession {
    let mut session = session.clone();
    (session.caller.node, session.key) = (None, None);
    session
}

async fn fold(
    session: WorkspaceSession,
    board: BoardId,
    checkpoint: CheckpointNumber,
    parts: Vec<ValueParts>,
) -> Result<(), Status> {
    let values = session.aside(move |it| read_values(it, board, parts)).await?;
    let values = values.into_iter().map(|(parts, json)| (parts.index, json)).collect();
    let fold = Command::Fold(Fold { board, checkpoint, values });
    session.execute_within(None, fold, |_, _| Ok(())).await
}

/// Keeps whole values of channels at a checkpoint, in the background. Where that fails, the next
/// update has it done.
pub(super) fn fold_later(
    session: &WorkspaceSession,
    board: BoardId,
    checkpoint: CheckpointNumber,
    parts: Vec<ValueParts>,
) {
    let session = as_broker(session);
    tokio::spawn(async move {
        if let Err(why) = fold(session, board, checkpoint, parts).await {
            tracing::warn!(%why, board, "a board was not folded");
        }
    });
}
