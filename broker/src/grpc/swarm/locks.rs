//! Locks: exclusive charge of files.

use tasuki_proto::{id::RoleId, swarm::LockId, wire};
use tonic::Status;

use super::{
    super::scan::{PART, Page, Part},
    super::status::invalid,
    Done, View, WorkspaceSession, id, optional, parse, render, tasks, token,
};
use crate::rules::swarm::{
    CommandKind, LockFiles, Reply,
    lock::{Effort, Lock, LockKey, Place},
};

pub(super) async fn lock(
    session: &WorkspaceSession,
    mut it: wire::LockFilesRequest,
) -> Result<wire::LockResponse, Status> {
    let claim = token(&mut it.claim_token);
    let key = session.key(it.key.take(), &it)?;
    let role: RoleId = id("role", &it.role)?;
    let keys = parse::new_lock_keys(&it.files.unwrap_or_default())?;
    let task = match (it.issue_id.as_str(), it.task_id.as_str()) {
        ("", "") => None,
        (issue, task) => Some(tasks::of(issue, task)?),
    };
    let ttl_ms = parse::lease(it.for_ms)?;
    let ask = CommandKind::LockFiles(LockFiles { keys, task, claim, ttl_ms });
    let done = session.ask(role.clone(), Some(key), ask).await?;
    session.lock_response(role, done).await
}

pub(super) async fn renew(
    session: &WorkspaceSession,
    mut it: wire::RenewLockRequest,
) -> Result<wire::LockResponse, Status> {
    let token = token(&mut it.lock_token);
    let key = session.key(it.key.take(), &it)?;
    let role: RoleId = id("role", &it.role)?;
    let lock = parse::named("lease_id", &it.lease_id)?;
    let ask = CommandKind::RenewLock { lock, token, extend_ms: parse::lease(it.for_ms)? };
    let done = session.ask(role.clone(), Some(key), ask).await?;
    session.lock_response(role, done).await
}

pub(super) async fn unlock(
    session: &WorkspaceSession,
    mut it: wire::UnlockRequest,
) -> Result<wire::UnlockResponse, Status> {
    let token = token(&mut it.lock_token);
    let key = session.key(it.key.take(), &it)?;
    let role: RoleId = id("role", &it.role)?;
    let lock = parse::named("lease_id", &it.lease_id)?;
    let before = session.lock_of(role.clone(), lock).await?;
    let ask = CommandKind::Unlock { lock, token };
    let done = session.ask(role, Some(key), ask).await?;
    Ok(unlocked(lock, before, &done))
}

pub(super) async fn force(
    session: &WorkspaceSession,
    mut it: wire::ForceUnlockRequest,
) -> Result<wire::UnlockResponse, Status> {
    let key = session.key(it.key.take(), &it)?;
    let role: RoleId = id("role", &it.role)?;
    let lock = parse::named("lease_id", &it.lease_id)?;
    let before = session.lock_of(role.clone(), lock).await?;
    let ask = CommandKind::ForceUnlock { lock, reason: super::super::parse::reason(it.reason)? };
    let done = session.ask(role, Some(key), ask).await?;
    Ok(unlocked(lock, before, &done))
}

/// What was unlocked, as it was before; of one that ended before, its id.
fn unlocked(id: LockId, before: Option<wire::Lock>, done: &Done) -> wire::UnlockResponse {
    let lock =
        before.unwrap_or_else(|| wire::Lock { lease_id: id.to_string(), ..wire::Lock::default() });
    let (repeated, sequence) = (done.is_repeat, done.sequence.get());
    wire::UnlockResponse { lock: Some(lock), repeated, sequence }
}

pub(super) async fn list(
    session: &WorkspaceSession,
    it: wire::ListLocksRequest,
) -> Result<wire::ListLocksResponse, Status> {
    let asker: Option<RoleId> = optional("role", &it.role)?;
    let holder: Option<RoleId> = optional("holder", &it.holder)?;
    let (limit, offset) = (parse::limit(it.limit), it.offset as usize);
    let files = it.files.unwrap_or_default();
    let keys = match files.patterns.as_slice() {
        [] => None,
        _ if !is_listable(&files) => {
            let why = format!("names more than {LISTED_PATTERNS_MAX} files to be looked at");
            return Err(invalid("files", &why));
        }
        _ => Some(parse::lock_keys(&files)?),
    };
    let keys = keys.unwrap_or_default();
    // Whoever names files plainly is answered from the index; a pattern may be met by any lock.
    let is_plain = !keys.is_empty() && !keys.iter().any(LockKey::has_wildcards);
    // One role's are listed in the order in which it locked.
    let is_ascending = keys.is_empty() && holder.is_some();
    let part = move |view: &View<'_>, from: Option<Place>| {
        let locks = &view.workspace.swarm.locks;
        let counts = |it: &Lock| {
            let repository = it.keys.first().map(|key| key.repository());
            let is_there = files.repository.is_empty() || repository == Some(&files.repository);
            is_there && holder.as_ref().is_none_or(|holder| *holder == it.role)
        };
        // Below a directory there may be too many for one turn: they are met among all the others.
        let few = (is_plain && from.is_none()).then(|| locks.on(&keys, PART)).flatten();
        let (found, next) = match few {
            Some(few) => {
                (few.into_iter().filter_map(|it| counts(it).then_some(it.id)).collect(), None)
            }
            None => locks.look_through(from, &keys, PART, counts, &Effort::new(LISTED_STEPS_MAX)),
        };
        Ok(Part { found: found.into_iter().map(|id| ((), id)).collect(), next })
    };
    let (ids, total) = session.page(Page::new(is_ascending, limit, offset), part).await?;
    let shown_to = asker.clone();
    let look = move |view: &View<'_>| {
        let locks = &view.workspace.swarm.locks;
        let page = ids.iter().filter_map(|id| locks.get(*id));
        let locks = page.map(|it| render::lock(it, shown_to.as_ref())).collect();
        Ok(wire::ListLocksResponse { locks, total, now_ms: view.now.as_millis() })
    };
    session.look_for(asker.as_ref(), look).await
}

/// Files that one list of locks is about.
const LISTED_PATTERNS_MAX: usize = 256;

/// Steps that comparing takes in one turn of a list of locks, about a millisecond; the rest is
/// compared in the next.
const LISTED_STEPS_MAX: usize = 128 * 1024;

fn is_listable(files: &wire::FileSet) -> bool {
    files.patterns.len() <= LISTED_PATTERNS_MAX
}

impl WorkspaceSession {
    /// A lock as `asker` may see it, if it is there.
    async fn lock_of(&self, asker: RoleId, lock: LockId) -> Result<Option<wire::Lock>, Status> {
        let look = move |view: &View<'_>| {
            let found = view.workspace.swarm.locks.get(lock);
            Ok(found.map(|it| render::lock(it, Some(&asker))))
        };
        self.look_for(None, look).await
    }

    async fn lock_response(&self, asker: RoleId, done: Done) -> Result<wire::LockResponse, Status> {
        let Done { reply: Some(Reply::Locked { lock, token, lapses }), is_repeat, sequence } = done
        else {
            unreachable!("files are locked or refused")
        };
        let look = move |view: &View<'_>| {
            let found = view.workspace.swarm.locks.get(lock);
            let shown = found.map(|it| render::lock(it, Some(&asker)));
            // It ended meanwhile.
            let shown = shown.unwrap_or_else(|| wire::Lock {
                lease_id: lock.to_string(),
                holder: asker.to_string(),
                expires_ms: lapses.as_millis(),
                lock_token: token.get(),
                ..wire::Lock::default()
            });
            Ok((shown, view.now.as_millis()))
        };
        let (shown, now_ms) = self.look_for(None, look).await?;
        let sequence = sequence.get();
        Ok(wire::LockResponse { lock: Some(shown), repeated: is_repeat, sequence, now_ms })
    }
}
