//! Locks: exclusive charge of files.

use tasuki_proto::{id::RoleId, swarm::LockId, wire};
use tonic::Status;

use super::{
    super::scan::{PART, Page, Part},
    super::{LaterRefusal, parse::reason, render::fitting, status::invalid},
    Actor, Answer, Endpoint, Later, Rejection, View, WorkspaceSession, at_once, optional, parse,
    render, tasks,
};
use crate::rules::{
    Command,
    swarm::{
        self, CommandKind, LockFiles, Reply,
        lock::{Effort, Lock, LockKey, Place},
    },
};

impl Endpoint for wire::LockFilesRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let role = session.role()?;
        let keys = parse::new_lock_keys(&self.files.unwrap_or_default())?;
        let task = match (self.issue_id.as_str(), self.task_id.as_str()) {
            ("", "") => None,
            (issue, task) => Some(tasks::of(issue, task)?),
        };
        let (claim, ttl_ms) = (self.claim_token.into(), parse::lease(self.for_ms)?);
        let lock = CommandKind::LockFiles(LockFiles { keys, task, claim, ttl_ms });
        session.ask(lock, move |view, reply| response(view, reply, &role)).await
    }
}

impl Endpoint for wire::RenewLockRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let role = session.role()?;
        let lock = parse::named("lease_id", &self.lease_id)?;
        let (token, extend_ms) = (self.lock_token.into(), parse::lease(self.for_ms)?);
        let renew = CommandKind::RenewLock { lock, token, extend_ms };
        session.ask(renew, move |view, reply| response(view, reply, &role)).await
    }
}

impl Endpoint for wire::UnlockRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let lock = parse::named("lease_id", &self.lease_id)?;
        let token = self.lock_token.into();
        unlock(session, lock, CommandKind::Unlock { lock, token }).await
    }
}

impl Endpoint for wire::ForceUnlockRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let lock = parse::named("lease_id", &self.lease_id)?;
        let reason = reason(self.reason)?;
        unlock(session, lock, CommandKind::ForceUnlock { lock, reason }).await
    }
}

impl Endpoint for wire::ListLocksRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let asker = session.asker.clone();
        let holder: Option<RoleId> = optional("holder", &self.holder)?;
        let (limit, offset) = (parse::limit(self.limit), self.offset as usize);
        let files = self.files.unwrap_or_default();
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
                None => {
                    locks.look_through(from, &keys, PART, counts, &Effort::new(LISTED_STEPS_MAX))
                }
            };
            Ok(Part { found: found.into_iter().map(|id| ((), id)).collect(), next })
        };
        let shown_to = asker.clone();
        let render = move |view: &View<'_>, ids: Vec<LockId>| {
            let locks = &view.workspace.swarm.locks;
            let page = ids.iter().filter_map(|id| locks.get(*id));
            // The files of a few locks fill a message: who asks for the rest counts what came.
            Ok(fitting(page.map(|it| render::lock(it, shown_to.as_ref()))).0)
        };
        let page = Page::new(is_ascending, limit, offset);
        let listed = session.list(asker.as_ref(), page, |_| Ok(None), part, render).await?;
        let (locks, total, now_ms) = listed;
        Ok(wire::ListLocksResponse { locks, total, now_ms })
    }
}

/// Files that one list of locks is about.
const LISTED_PATTERNS_MAX: usize = 256;

/// Steps that comparing takes in one turn of a list of locks, about a millisecond; the rest is
/// compared in the next.
const LISTED_STEPS_MAX: usize = 128 * 1024;

fn is_listable(files: &wire::FileSet) -> bool {
    files.patterns.len() <= LISTED_PATTERNS_MAX
}

/// Ends a lock, and answers with it as it was before; of one that ended before, with its id.
async fn unlock(
    session: &WorkspaceSession,
    id: LockId,
    unlock: CommandKind,
) -> Result<wire::UnlockResponse, Status> {
    let asker = session.role()?;
    let prepare = move |view: &View<'_>| -> Result<(Command, Option<wire::Lock>), LaterRefusal> {
        let found = view.workspace.swarm.locks.get(id);
        let before = found.map(|it| render::lock(it, Some(&asker)));
        Ok((swarm::Command { by: Actor::Role(asker), ask: unlock }.into(), before))
    };
    let render = move |_: &View<'_>, _, before: Option<Option<wire::Lock>>| {
        let gone = || wire::Lock { lease_id: id.to_string(), ..Default::default() };
        let lock = Some(before.flatten().unwrap_or_else(gone));
        Ok(at_once(wire::UnlockResponse { lock, ..Default::default() }))
    };
    session.execute_prepared(prepare, render).await
}

/// The answer of a call that locks files.
fn response(
    view: &View<'_>,
    reply: Option<Reply>,
    asker: &RoleId,
) -> Result<Later<wire::LockResponse>, Rejection> {
    let Some(Reply::Locked { lock, token, lapses }) = reply else {
        unreachable!("files are locked or refused")
    };
    let found = view.workspace.swarm.locks.get(lock);
    let shown = found.map(|it| render::lock(it, Some(asker)));
    // One that was answered before may have ended since.
    let shown = shown.unwrap_or_else(|| wire::Lock {
        lease_id: lock.to_string(),
        holder: asker.to_string(),
        expires_ms: lapses.as_millis(),
        lock_token: token.get(),
        ..wire::Lock::default()
    });
    Ok(at_once(wire::LockResponse { lock: Some(shown), ..Default::default() }))
}
