//! `WatchRun`: a run as it is, then each change.
//!
//! A change only says that there is one: what is sent is what holds when the reader takes it, so a
//! slow reader is told the newest and nothing piles up.

use std::collections::BTreeMap;

use prost::Message as _;
use tasuki_proto::{run::RunId, wire};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming, codegen::BoxStream};

use super::{
    super::{Admitted, Services, WorkspaceSession, changes::next_change, only},
    parse, render,
};
use crate::workspace::View;

/// Output of steps in one message, in bytes: a fourth of what one may carry.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;

pub(in crate::grpc) async fn watch(
    services: Services,
    admitted: Admitted,
    asked: Streaming<wire::WatchRunRequest>,
) -> Result<BoxStream<wire::WatchRunResponse>, Status> {
    let it = only(asked).await?;
    let session = services.enter(&admitted, it.caller.as_ref())?;
    let run = parse::run("run_id", &it.run_id)?;
    // First, so that nothing falls between.
    let changes = session.watch(run).await?;
    let mut watcher = Watcher { session, run, seen: BTreeMap::new() };
    let (first, is_over) = watcher.look().await?;
    let (items, stream) = mpsc::channel(1);
    tokio::spawn(async move {
        if send(&items, first).await && !is_over {
            watcher.follow(changes, items).await;
        }
    });
    Ok(Box::pin(ReceiverStream::new(stream)))
}

type Items = mpsc::Sender<Result<wire::WatchRunResponse, Status>>;

struct Watcher {
    session: WorkspaceSession,
    run: RunId,
    /// The newest report of each step that was sent.
    seen: BTreeMap<u32, u64>,
}

impl Watcher {
    async fn follow(mut self, mut changes: watch::Receiver<()>, items: Items) {
        while let Some(changed) = next_change(&self.session, &mut changes, &items).await {
            let looked = match changed {
                Ok(()) => self.look().await,
                Err(status) => Err(status),
            };
            let (messages, is_over) = match looked {
                Ok(looked) => looked,
                Err(status) => {
                    // The reader may be gone.
                    let _ = items.send(Err(status)).await;
                    return;
                }
            };
            if !send(&items, messages).await || is_over {
                return;
            }
        }
    }

    /// What changed since it looked before, and whether the run has ended.
    async fn look(&mut self) -> Result<(Vec<wire::WatchRunResponse>, bool), Status> {
        let (run, mut seen) = (self.run, std::mem::take(&mut self.seen));
        let look = move |view: &View<'_>| {
            let state = view.workspace.runs.get(run)?;
            let shown = Some(render::run(view, state));
            let mut messages = vec![wire::WatchRunResponse { run: shown, progress: Vec::new() }];
            let mut bytes = 0;
            for (id, _) in state.numbered() {
                let Some(report) = view.context.reports.get(&id) else { continue };
                if seen.insert(id.number, report.serial) == Some(report.serial) {
                    continue;
                }
                let (step, partial) = (id.number, render::text(report.partial.clone()));
                let it = wire::StepProgress { step, partial, at_ms: report.at.as_millis() };
                bytes += it.encoded_len();
                if MESSAGE_BYTES_MAX < bytes {
                    bytes = 0;
                    messages.push(wire::WatchRunResponse::default());
                }
                messages.last_mut().expect("it has one").progress.push(it);
            }
            Ok((messages, seen, !state.is_open()))
        };
        let (messages, seen, is_over) = self.session.query(None, look).await?;
        self.seen = seen;
        Ok((messages, is_over))
    }
}

/// Whether the reader is still there.
async fn send(items: &Items, messages: Vec<wire::WatchRunResponse>) -> bool {
    for message in messages {
        if items.send(Ok(message)).await.is_err() {
            return false;
        }
    }
    true
}
