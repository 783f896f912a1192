//! What streams that send what holds now wait for: the next change, or that nobody needs it.

use tasuki_proto::reason::Reason;
use tokio::sync::{mpsc, watch};
use tonic::Status;

use super::WorkspaceSession;

/// Waits for a change. `None`: the reader is gone, or the broker stops. An error: the reader has to
/// ask again.
pub(super) async fn next_change<T>(
    session: &WorkspaceSession,
    changes: &mut watch::Receiver<()>,
    items: &mpsc::Sender<Result<T, Status>>,
) -> Option<Result<(), Status>> {
    let changed = tokio::select! {
        changed = changes.changed() => changed,
        () = items.closed() => return None,
        () = session.services.stopping.cancelled() => return None,
    };
    Some(changed.map_err(|_| Reason::Lagged.status("the workspace was restarted; watch again")))
}
