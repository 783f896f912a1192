//! `Admin`: backups, checks and compaction of all the data of a broker that serves.
//!
//! They read a cut of the journal on a thread of their own, so that nothing else waits for them. One
//! that is not read from ends: a cut keeps old commits from being dropped.

use std::{io, ops::ControlFlow, time::Duration};

use tasuki_proto::{
    id::{Timestamp, WorkspaceId},
    limits::CHUNK_BYTES_MAX,
    reason::Reason,
    token::Right,
    wire,
};
use tokio::{runtime::Handle, sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming, codegen::BoxStream};
use tracing::info;

use super::{Admitted, Services, only, parse, status};
use crate::{
    access::Grant,
    backup::{self, BackupError, Counts},
    clock::Clock,
    compact::{self, CompactError, CompactRequest, Compacted},
    journal::Report,
    rules::{CompactKind, Fence},
};

/// Messages sent and not yet read: 2 MiB of a backup.
const UNREAD_MAX: usize = 8;

/// How long nothing may be read before the call ends: longer than a disk takes for what is unread.
const STUCK: Duration = Duration::from_secs(60);

/// Between two messages that say how far a check got, in bytes read.
const PROGRESS_BYTES: u64 = 4 * 1024 * 1024;

/// `Backup`: the bytes of a backup's file.
pub(super) async fn backup(
    services: Services,
    admitted: Admitted,
    asked: Streaming<wire::BackupRequest>,
) -> Result<BoxStream<wire::BackupResponse>, Status> {
    only(asked).await?;
    check_whole(&admitted.grant)?;
    let storage = services.storage.clone();
    let cut = storage.cut().await.map_err(|error| status::reading(&error))?;
    let (items, stream) = Items::new(&services);
    tokio::task::spawn_blocking(move || {
        let commit = cut.commit();
        let mut chunk = Vec::new();
        let send = |chunk: &mut Vec<u8>| {
            let chunk = std::mem::take(chunk);
            items.send(wire::BackupResponse { chunk })
        };
        let written = backup::write(&cut, storage.dir(), Clock::system().now(), |mut bytes| {
            while CHUNK_BYTES_MAX <= chunk.len() + bytes.len() {
                let rest = bytes.split_off(CHUNK_BYTES_MAX - chunk.len());
                chunk.append(&mut bytes);
                bytes = rest;
                send(&mut chunk)?;
            }
            chunk.append(&mut bytes);
            Ok(())
        });
        let written = written.and_then(|()| send(&mut chunk).map_err(BackupError::Write));
        match written {
            Ok(()) => info!(commit, "a backup was sent"),
            Err(error) => {
                info!(commit, %error, "a backup was not finished");
                items.end(if let BackupError::Journal(error) = &error {
                    status::reading(error)
                } else {
                    Reason::Unavailable.status(error.to_string())
                });
            }
        }
    });
    Ok(stream)
}

/// `Verify`: how far the check is, and at last what was found.
pub(super) async fn verify(
    services: Services,
    admitted: Admitted,
    asked: Streaming<wire::VerifyRequest>,
) -> Result<BoxStream<wire::VerifyResponse>, Status> {
    let it = only(asked).await?;
    check_whole(&admitted.grant)?;
    let cut = services.storage.cut().await.map_err(|error| status::reading(&error))?;
    let (items, stream) = Items::new(&services);
    tokio::task::spawn_blocking(move || {
        let (mut read, mut told) = (0, 0);
        let verified = cut.verify(|bytes| {
            read += bytes;
            if read < told + PROGRESS_BYTES {
                return ControlFlow::Continue(());
            }
            told = read;
            match items.send(wire::VerifyResponse { bytes: read, report: None }) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        let counted = verified.and_then(|report| {
            let counts = it.with_counts.then(|| backup::count(&cut)).transpose()?;
            Ok(data_report(&report, cut.fence(), counts.as_ref()))
        });
        match counted {
            Ok(report) => {
                // Whoever asked may be gone.
                let _ = items.send(wire::VerifyResponse { bytes: read, report: Some(report) });
            }
            Err(error) => items.end(status::reading(&error)),
        }
    });
    Ok(stream)
}

/// `Compact`: what was removed of each workspace, or would be.
pub(super) async fn compact(
    services: Services,
    admitted: Admitted,
    asked: Streaming<wire::CompactRequest>,
) -> Result<BoxStream<wire::CompactResponse>, Status> {
    let it = only(asked).await?;
    check_whole(&admitted.grant)?;
    let request = compact_request(&it)?;
    let (items, stream) = Items::new(&services);
    tokio::task::spawn_blocking(move || {
        let Services { storage, workspaces, .. } = &services;
        let each = |workspace: &WorkspaceId, it: &Compacted| {
            info!(%workspace, is_dry_run = request.is_dry_run, ?it, "compacted");
            match items.send(compact_report(workspace, it)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        };
        let done = compact::compact(&items.runtime, storage, workspaces, &request, each);
        if let Err(error) = done {
            items.end(match error {
                CompactError::Journal(error) => status::reading(&error),
                CompactError::Workspace(error) => status::executing(error),
                CompactError::UnknownWorkspace(_) => {
                    Reason::UnknownWorkspace.status(format!("{error}; nothing was removed"))
                }
                CompactError::Busy
                | CompactError::NoRoom { .. }
                | CompactError::Differs(_)
                | CompactError::Directory { .. } => Reason::Unavailable.status(error.to_string()),
            });
        }
    });
    Ok(stream)
}

fn compact_request(it: &wire::CompactRequest) -> Result<CompactRequest, Status> {
    let workspace = match it.workspace.as_str() {
        "" => None,
        name => Some(parse::id("workspace", name)?),
    };
    let kinds = CompactKind::named(&it.kinds).map_err(|why| status::invalid("kinds", &why))?;
    let before = Clock::system().now().as_millis().saturating_sub(it.older_than_ms);
    let before = Timestamp::from_millis(before);
    Ok(CompactRequest { workspace, before, kinds, is_dry_run: it.is_dry_run })
}

/// What was removed of a workspace, as it is sent; a compaction without a broker is told in the same
/// way.
pub fn compact_report(workspace: &WorkspaceId, it: &Compacted) -> wire::CompactResponse {
    wire::CompactResponse {
        workspace: workspace.to_string(),
        threads: it.threads,
        issues: it.issues,
        runs: it.runs,
        entries: it.entries,
        versions: it.versions,
        bodies: it.bodies,
        bytes: it.bytes,
    }
}

/// Everything in every workspace is for nobody who may see one of them.
fn check_whole(grant: &Grant) -> Result<(), Status> {
    if grant.has_all_workspaces() {
        return Ok(());
    }
    let own = grant.workspace().map_or("none", WorkspaceId::as_str);
    Err(Reason::RightForbidden.status(format!(
        "permission denied: this is about every workspace, and your token is for {own} alone; it \
         takes one with the `{}` right and without a workspace",
        Right::Admin
    )))
}

/// Where a thread that reads sends what it has.
struct Items<T> {
    to: mpsc::Sender<Result<T, Status>>,
    services: Services,
    runtime: Handle,
}

impl<T: Send + 'static> Items<T> {
    fn new(services: &Services) -> (Self, BoxStream<T>) {
        let (to, stream) = mpsc::channel(UNREAD_MAX);
        let (services, runtime) = (services.clone(), Handle::current());
        (Self { to, services, runtime }, Box::pin(ReceiverStream::new(stream)))
    }

    /// Waits for the reader, but not for ever.
    fn send(&self, item: T) -> io::Result<()> {
        self.runtime.block_on(async {
            tokio::select! {
                sent = timeout(STUCK, self.to.send(Ok(item))) => match sent {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(_)) => Err(io::Error::other("the caller is gone")),
                    Err(_) => Err(io::Error::other("the caller does not read")),
                },
                () = self.services.stopping.cancelled() => {
                    Err(io::Error::other("the broker is stopping"))
                }
            }
        })
    }

    /// Says why there is no more.
    fn end(&self, status: Status) {
        self.runtime.block_on(async {
            // A reader that is gone, or does not read, sees the stream end.
            let _ = timeout(STUCK, self.to.send(Err(status))).await;
        });
    }
}

/// What a check found, as it is sent; a check without a broker is told in the same way.
pub fn data_report(report: &Report, fence: Fence, counts: Option<&Counts>) -> wire::DataReport {
    let workspaces = report.workspaces.iter().map(|(id, it)| wire::WorkspaceData {
        workspace: id.to_string(),
        last: it.last,
        records: it.records,
        snapshot: it.snapshot,
        bodies: it.bodies,
        record_bytes: it.bytes.records,
        snapshot_bytes: it.bytes.snapshot,
        body_bytes: it.bytes.bodies,
        digest: it.digest.to_vec(),
        counts: counts.and_then(|counts| counts.get(id)).map(|it| wire::WorkspaceCounts {
            oldest_ms: it.oldest.as_millis(),
            newest_ms: it.newest.as_millis(),
            loops: it.loops,
            threads: it.threads,
            issues: it.issues,
            tasks: it.tasks,
            runs: it.runs,
            nodes: it.nodes,
            tokens: it.tokens,
            invitations: it.invitations,
        }),
    });
    wire::DataReport {
        incarnation: report.incarnation.to_vec(),
        first_commit: report.first_commit,
        last_commit: report.last_commit,
        workspaces: workspaces.collect(),
        restored_ms: fence.get(),
    }
}
