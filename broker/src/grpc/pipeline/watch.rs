//! `WatchPhases`: what a node has to do for pipelines, and again whenever that changed.

use tasuki_proto::{limits::READY_PHASES_MAX, wire};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming, codegen::BoxStream};

use super::super::{Admitted, Services, WorkspaceSession, changes::next_change, only, status};
use crate::{
    rules::{self, pipeline::Rejection},
    workspace::View,
};

pub(in crate::grpc) async fn watch_phases(
    services: Services,
    admitted: Admitted,
    asked: Streaming<wire::WatchPhasesRequest>,
) -> Result<BoxStream<wire::NodePhases>, Status> {
    let it = only(asked).await?;
    let session = services.enter(&admitted, it.caller.as_ref())?;
    if session.node().is_none() {
        return Err(status::rejected(&rules::Rejection::Pipeline(Rejection::NodeRequired)));
    }
    // First, so that nothing falls between.
    let changes = session.services.workspaces.watch_phases(&session.workspace).await;
    let changes = changes.map_err(status::executing)?;
    let first = phases(&session).await?;
    let (items, stream) = mpsc::channel(1);
    tokio::spawn(follow(session, changes, first, items));
    Ok(Box::pin(ReceiverStream::new(stream)))
}

type Items = mpsc::Sender<Result<wire::NodePhases, Status>>;

async fn follow(
    session: WorkspaceSession,
    mut changes: watch::Receiver<()>,
    first: wire::NodePhases,
    items: Items,
) {
    if items.send(Ok(first.clone())).await.is_err() {
        return;
    }
    let mut sent = first;
    while let Some(changed) = next_change(&session, &mut changes, &items).await {
        let newest = match changed {
            Ok(()) => phases(&session).await,
            Err(status) => Err(status),
        };
        match newest {
            Ok(newest) if newest == sent => {}
            Ok(newest) => {
                if items.send(Ok(newest.clone())).await.is_err() {
                    return;
                }
                sent = newest;
            }
            Err(status) => {
                // The reader may be gone.
                let _ = items.send(Err(status)).await;
                return;
            }
        }
    }
}

/// What the node has, and could take.
async fn phases(session: &WorkspaceSession) -> Result<wire::NodePhases, Status> {
    let (caller, node) = (session.caller.clone(), session.node().cloned());
    let list = move |view: &View<'_>| {
        view.workspace.directory.check(&caller, None)?;
        let hosted = |role| view.workspace.directory.host(role) == node.as_ref();
        let ready = view.workspace.pipelines.at_phase().filter_map(|(board, it)| {
            let (number, attempt) = it.current()?;
            let holder = attempt.claim.as_ref().map(|it| &it.node);
            let phase = it.phase();
            let is_its = holder.is_none_or(|it| Some(it) == node.as_ref());
            (is_its && hosted(&phase.role)).then(|| wire::ReadyPhase {
                board: board.to_string(),
                attempt: number,
                phase: phase.name.to_string(),
                role: phase.role.to_string(),
                is_claimed: holder.is_some(),
            })
        });
        Ok(wire::NodePhases { phases: ready.take(READY_PHASES_MAX).collect() })
    };
    session.query(None, list).await
}
