//! Compaction: what is over leaves the state, then its texts leave the database, and at last, offline,
//! the database gives its space back.
//!
//! What may go is found in a cut, so that nothing waits for it ([`rules::Workspace::compactable`]).
//! The workspace's own actor removes it by journalled commands, which judge again, and then the
//! bodies that nothing names. A body that a kill leaves behind is found by the next compaction, since
//! each looks at all names. sled never makes its files smaller: [`rewrite`] copies what is there into
//! a new database, checks that, and has it take the place of the old one (`journal::sled::swap`).
//! After a repair of the log, [`void_grants`] writes a new database in the same way, with new numbers
//! for all that is held.
//!
//! [`rules::Workspace::compactable`]: crate::rules::Workspace::compactable

use std::{collections::BTreeSet, fs, io, ops::ControlFlow, ops::RangeInclusive, path::Path};

use tasuki_proto::id::{LoopId, Timestamp, WorkspaceId};
use tokio::runtime::Handle;

use crate::{
    disk::{MIB, Space},
    journal::{
        Journal as _, JournalError, codec,
        sled::{self, Cut, CutWorkspace, Options, Restoring, Rewriting, SledJournal},
    },
    rules::{Caller, Command, Compact, CompactKind, Fence, Request, Workspace},
    workspace::{ExecuteError, Workspaces, replay_cut},
};

/// What a rewrite leaves free of the disk, in bytes.
const FREE_BYTES_MIN: u64 = 64 * MIB;

/// How many bytes of a new database each byte takes that is written to it, at most: sled writes a
/// value, and again the leaf that it is in.
const WRITES_PER_BYTE: u64 = 4;

/// What is to be removed.
#[derive(Debug, Clone)]
pub struct CompactRequest {
    /// Of this workspace alone.
    pub workspace: Option<WorkspaceId>,
    /// What was over by then.
    pub before: Timestamp,
    pub kinds: BTreeSet<CompactKind>,
    /// Only says what that is.
    pub is_dry_run: bool,
}

/// What was removed, or would be, of one workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compacted {
    pub threads: u64,
    pub issues: u64,
    /// Trees of them.
    pub runs: u64,
    /// Entries of histories.
    pub entries: u64,
    /// Older versions of shared documents.
    pub versions: u64,
    /// Texts and files, and their bytes.
    pub bodies: u64,
    pub bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum CompactError {
    #[error("there is no workspace {0}")]
    UnknownWorkspace(WorkspaceId),
    #[error(
        "a backup, a check or statistics are being made, so texts of what was removed stay for now; \
         run it again when they are done"
    )]
    Busy,
    #[error(
        "{needed_mib} MiB are needed to rewrite the database, and the disk has {free_mib} MiB left, so \
         it was not rewritten; free some space on that disk and run it again"
    )]
    NoRoom { needed_mib: u64, free_mib: u64 },
    #[error("the rewritten database differs at {0}; it was not used, and the old one stays")]
    Differs(String),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Workspace(#[from] ExecuteError),
    #[error("writing {path}: {source}")]
    Directory { path: String, source: io::Error },
}

/// Removes what was over. Blocks; `runtime` runs the workspaces. `each` gets every workspace of which
/// something was removed, or would be, and may give up.
///
/// # Errors
/// What went wrong. What was removed before stays removed.
pub fn compact(
    runtime: &Handle,
    journal: &SledJournal,
    workspaces: &Workspaces,
    request: &CompactRequest,
    mut each: impl FnMut(&WorkspaceId, &Compacted) -> ControlFlow<()>,
) -> Result<(), CompactError> {
    let names: Vec<WorkspaceId> = match &request.workspace {
        Some(id) if journal.has(id) => vec![id.clone()],
        Some(id) => return Err(CompactError::UnknownWorkspace(id.clone())),
        None => journal.workspaces(),
    };
    for id in names {
        let cut = runtime.block_on(journal.cut())?;
        let Some(it) = cut.workspaces().find(|it| it.id == id) else { continue };
        let (plan, mut compacted) = survey(&cut, &it, request)?;
        // As long as there is one, nothing is dropped.
        drop(cut);
        if compacted == Compacted::default() {
            continue;
        }
        if !request.is_dry_run {
            for part in plan.parts() {
                let command = Command::Compact(part);
                let request = Request { caller: Caller::default(), key: None, command };
                runtime.block_on(workspaces.execute(&id, request, 0, |_, _| ()))?;
            }
            (compacted.bodies, compacted.bytes) = sweep(runtime, journal, workspaces, &id)?;
            runtime.block_on(workspaces.drop_records(&id))?;
        }
        if each(&id, &compacted).is_break() {
            break;
        }
    }
    Ok(())
}

/// What may go of one workspace.
fn survey(
    cut: &Cut,
    it: &CutWorkspace,
    request: &CompactRequest,
) -> Result<(Compact, Compacted), JournalError> {
    let state = replay_cut(cut, it)?;
    let mut histories = Vec::new();
    if request.kinds.contains(&CompactKind::Turns) {
        for (id, entries) in state.loops.removable() {
            let first = *entries.start();
            let through = newest_before(cut, &it.id, id, entries, request.before)?;
            if first <= through {
                histories.push((id.clone(), through));
            }
        }
    }
    let plan = state.compactable(request.before, &request.kinds, histories);
    let entries = plan.histories.iter().map(|(id, through)| {
        let found = state.loops.by_id.get(id);
        found.map_or(0, |it| through + 1 - it.oldest_entry())
    });
    let versions = plan.docs.iter().filter_map(|name| state.swarm.shared_docs.by_name.get(name));
    let mut compacted = Compacted {
        threads: plan.threads.len() as u64,
        issues: plan.issues.len() as u64,
        runs: plan.runs.len() as u64,
        entries: entries.sum(),
        versions: versions.map(|doc| u64::from(doc.version - doc.oldest())).sum(),
        ..Compacted::default()
    };
    let left = state.compacted(&plan);
    let mut after = None;
    loop {
        let names = cut.body_names(&it.id, after.as_ref())?;
        let Some((last, _)) = names.last() else { return Ok((plan, compacted)) };
        after = Some(last.clone());
        for (key, bytes) in names {
            if codec::text_owner(&key).is_some_and(|owner| !left.has(&owner)) {
                compacted.bodies += 1;
                compacted.bytes += bytes;
            }
        }
    }
}

/// The newest of these entries of a history that was written by then; one before the first where none
/// was. When an entry was written says the next one.
fn newest_before(
    cut: &Cut,
    workspace: &WorkspaceId,
    id: &LoopId,
    entries: RangeInclusive<u64>,
    before: Timestamp,
) -> Result<u64, JournalError> {
    let (mut low, mut high) = (*entries.start(), entries.end() + 1);
    while low < high {
        let middle = low.midpoint(high);
        let key = codec::entry_key(id, middle + 1);
        let damaged = |what: String| JournalError::Damaged {
            place: format!("workspace {workspace}, body {}", key.0),
            what,
        };
        let body = cut.body(workspace, &key)?.ok_or_else(|| damaged("missing".to_owned()))?;
        let entry = codec::decode_entry(id, middle + 1, &body);
        let entry = entry.map_err(|why| damaged(why.to_string()))?;
        let written = entry.before.and_then(|it| it.receipts.stored);
        if written.is_some_and(|written| written <= before) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low - 1)
}

/// Removes bodies that nothing names. Says how many, and of how many bytes.
fn sweep(
    runtime: &Handle,
    journal: &SledJournal,
    workspaces: &Workspaces,
    id: &WorkspaceId,
) -> Result<(u64, u64), CompactError> {
    let (mut bodies, mut bytes) = (0, 0);
    let mut after = None;
    loop {
        let names = journal.body_names(id, after.as_ref())?;
        let Some((last, _)) = names.last() else { return Ok((bodies, bytes)) };
        after = Some(last.clone());
        let removed = runtime.block_on(workspaces.remove_unnamed(id, names))?;
        let (more, more_bytes) = removed.ok_or(CompactError::Busy)?;
        bodies += more;
        bytes += more_bytes;
    }
}

/// Writes the database of a directory that nobody serves anew, without what was dropped, and puts it
/// in the place of the old one. `progress` gets how many bytes were copied more.
///
/// # Errors
/// What went wrong. Then the old one stays.
pub fn rewrite(
    runtime: &Handle,
    dir: &Path,
    mut progress: impl FnMut(u64),
) -> Result<(), CompactError> {
    let journal = SledJournal::open(dir, Options::default())?;
    replace(runtime, dir, &journal, None, &mut progress)
}

/// Voids all grants, as a restore does, in a directory that nobody serves and whose newest changes may
/// be lost. `now` is after everything that was granted.
///
/// # Errors
/// What went wrong. Then no broker starts here before it is tried again.
pub fn void_grants(runtime: &Handle, dir: &Path, now: Timestamp) -> Result<(), CompactError> {
    let journal = SledJournal::open_repaired(dir)?;
    replace(runtime, dir, &journal, Some(now), &mut |_| {})
}

fn replace(
    runtime: &Handle,
    dir: &Path,
    journal: &SledJournal,
    voids_at: Option<Timestamp>,
    progress: &mut impl FnMut(u64),
) -> Result<(), CompactError> {
    let rewritten = write_anew(runtime, journal, voids_at, progress);
    if rewritten.is_err() {
        // Why it failed matters more; what is left is removed by the next start.
        let _ = fs::remove_dir_all(sled::staging(dir));
    }
    let closed = runtime.block_on(journal.close());
    // A cut until then, so that not even old commits are dropped.
    drop(rewritten?);
    closed?;
    // Puts it in its place, unless a broker that starts right now does.
    match SledJournal::open(dir, Options::default()) {
        Ok(journal) => runtime.block_on(journal.close())?,
        Err(JournalError::InUse(_)) => {}
        Err(why) => return Err(why.into()),
    }
    Ok(())
}

fn write_anew(
    runtime: &Handle,
    journal: &SledJournal,
    voids_at: Option<Timestamp>,
    progress: &mut impl FnMut(u64),
) -> Result<Cut, CompactError> {
    let staging = sled::staging(journal.dir());
    let failed = |source| CompactError::Directory { path: staging.display().to_string(), source };
    if staging.exists() {
        fs::remove_dir_all(&staging).map_err(failed)?;
    }
    let cut = runtime.block_on(journal.cut())?;
    check_room(&cut, journal.dir())?;
    let voids = voids_at.map(|now| (cut.fence().restored(now), now));
    let mut into = match voids {
        Some((fence, _)) => Restoring::create(&staging, fence)?,
        None => Restoring::create_like(&staging, &cut)?,
    };
    let copied = copy(&cut, &mut into, voids, progress);
    match copied {
        Ok(()) => into.finish()?,
        Err(why) => {
            into.abandon();
            return Err(why.into());
        }
    }
    match voids {
        Some(_) => drop(sled::verify(&staging)?),
        None => check_same(runtime, &cut, &staging)?,
    }
    Rewriting { journal }.decide()?;
    Ok(cut)
}

fn check_room(cut: &Cut, dir: &Path) -> Result<(), CompactError> {
    let mut live = 0;
    for it in cut.workspaces() {
        for piece in cut.snapshot(&it.id).into_iter().flat_map(|it| it.pieces) {
            live += piece?.len() as u64;
        }
        let mut after = None;
        loop {
            let names = cut.body_names(&it.id, after.as_ref())?;
            let Some((last, _)) = names.last() else { break };
            after = Some(last.clone());
            live += names.iter().map(|(_, bytes)| bytes).sum::<u64>();
        }
    }
    let Some(disk) = Space::of(dir) else { return Ok(()) };
    let needed = live.saturating_mul(WRITES_PER_BYTE).saturating_add(disk.reserve(FREE_BYTES_MIN));
    if needed <= disk.free {
        return Ok(());
    }
    let (needed_mib, free_mib) = (needed.div_ceil(MIB), disk.free / MIB);
    Err(CompactError::NoRoom { needed_mib, free_mib })
}

/// The state of each workspace as one snapshot, and the bodies that it names; `voids`: as it is after
/// a restore.
fn copy(
    cut: &Cut,
    into: &mut Restoring,
    voids: Option<(Fence, Timestamp)>,
    progress: &mut impl FnMut(u64),
) -> Result<(), JournalError> {
    for it in cut.workspaces() {
        let mut state = replay_cut(cut, &it)?;
        let own = voids.map(|(fence, now)| state.restore_above(fence, now).1).unwrap_or_default();
        let mut to = into.workspace(it.id.clone());
        codec::encode_snapshot(&state, |piece| {
            progress(piece.len() as u64);
            to.piece(&piece)
        })?;
        for (key, body) in own.iter().flat_map(codec::encode_body) {
            to.body(&key, &body)?;
        }
        each_body(cut, &it.id, &state, |key, body| {
            progress(body.len() as u64);
            to.body(key, body)
        })?;
        to.finish(state.sequence)?;
    }
    Ok(())
}

/// Gives `each` the bodies that a state names.
fn each_body(
    cut: &Cut,
    workspace: &WorkspaceId,
    state: &Workspace,
    mut each: impl FnMut(&crate::journal::BodyKey, &[u8]) -> Result<(), JournalError>,
) -> Result<(), JournalError> {
    let mut after = None;
    loop {
        let bodies = cut.bodies(workspace, after.as_ref())?;
        let Some((last, _)) = bodies.last() else { return Ok(()) };
        after = Some(last.clone());
        for (key, body) in bodies {
            if codec::text_owner(&key).is_none_or(|owner| state.has(&owner)) {
                each(&key, &body)?;
            }
        }
    }
}

/// Reads back what was written: the same states, and the same bodies that they name.
fn check_same(runtime: &Handle, cut: &Cut, staging: &Path) -> Result<(), CompactError> {
    sled::verify(staging)?;
    let journal = SledJournal::open(staging, Options::default())?;
    let new = runtime.block_on(journal.cut())?;
    let same = compare(cut, &new);
    drop(new);
    runtime.block_on(journal.close())?;
    same
}

fn compare(cut: &Cut, new: &Cut) -> Result<(), CompactError> {
    let written: Vec<CutWorkspace> = new.workspaces().collect();
    if !cut.workspaces().map(|it| it.id).eq(written.iter().map(|it| it.id.clone())) {
        return Err(CompactError::Differs("the list of workspaces".to_owned()));
    }
    for (old, it) in cut.workspaces().zip(&written) {
        let state = replay_cut(cut, &old)?;
        if state != replay_cut(new, it)? {
            return Err(CompactError::Differs(format!("the state of {}", it.id)));
        }
        let digest = |cut: &Cut| -> Result<_, JournalError> {
            let mut hasher = blake3::Hasher::new();
            each_body(cut, &it.id, &state, |key, body| {
                for part in [key.0.as_bytes(), body] {
                    hasher.update(&(part.len() as u64).to_be_bytes()).update(part);
                }
                Ok(())
            })?;
            Ok(hasher.finalize())
        };
        if digest(cut)? != digest(new)? {
            return Err(CompactError::Differs(format!("the texts of {}", it.id)));
        }
    }
    Ok(())
}
