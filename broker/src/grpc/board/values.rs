//! Values of channels, read from the journal.

use tasuki_proto::id::CheckpointNumber;
use tonic::Status;

use super::{
    super::{WorkspaceSession, status},
    damaged,
};
use crate::rules::board::{BoardId, Command, Fold, Folding, ValueParts, ValuePlace};

/// The values of channels, read where that holds nobody up if they are made of many.
pub(super) async fn values(
    session: &WorkspaceSession,
    board: BoardId,
    parts: Vec<ValueParts>,
) -> Result<Vec<(ValueParts, String)>, Status> {
    let reads = parts.iter().map(|it| it.updates.len() + 1).sum();
    session.reading(reads, move |session| read_values(session, board, parts)).await
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

/// Keeps whole values of channels at a checkpoint, in the background. Where that fails, the next
/// update has it done.
pub(super) fn fold_later(
    session: &WorkspaceSession,
    board: BoardId,
    checkpoint: CheckpointNumber,
    parts: Vec<ValueParts>,
) {
    let mut session = session.clone();
    // The broker says so: the caller's node may be another by then, and its key names the update.
    (session.caller.node, session.key) = (None, None);
    tokio::spawn(async move {
        let fold = async {
            let values = session.aside(move |it| read_values(it, board, parts)).await?;
            let values = values.into_iter().map(|(parts, json)| (parts.index, json)).collect();
            let fold = Command::Fold(Fold { board, checkpoint, values });
            session.execute_within(None, fold, |_, _| Ok(())).await
        };
        if let Err(why) = fold.await {
            tracing::warn!(%why, board, "a board was not folded");
        }
    });
}
