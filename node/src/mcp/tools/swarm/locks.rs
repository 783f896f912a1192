//! Locks on files: taking, keeping, giving back, and seeing who has what.
//!
//! Which repository files belong to and what they are called there is found where they are, at
//! this node ([`crate::repository`]); the broker knows names alone.

use std::time::Duration;

use rmcp::model::CallToolResponse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tasuki_proto::{limits::REASON_BYTES_MAX, reason::Reason, wire};
use tokio::time::{Instant, sleep_until};

use super::{
    super::{
        arguments::missing,
        field_types::{Name, Seconds, Text},
        sanitizer::Sanitizer,
        tool::ToolInfo,
        view::{is_nothing, view},
        waiting::{Held, held, longest},
    },
    LEAD_FULL, SwarmTool, WORKER_CORE, WORKER_FULL,
    answer::{Page, answer},
    args::{self, Lease},
    caller::Caller,
    lock_grants::lock_files,
    views::Time,
    work::claim_key,
};
use crate::{
    link::retry::{Backoff, chance},
    repository::{self, lock_base},
    role::Refusal,
    wait::{Awaited, Question},
};

/// Times that one call tries to lock files that were free and are locked again: there is no end to
/// bad luck.
const TRIES_MAX: usize = 256;

/// A wait that is over sooner found nothing to wait for: the broker tells so what it cannot compare
/// in time. The next one is not begun at once.
const BRIEF: Duration = Duration::from_millis(100);

/// Locks of one list.
const SHOWN_MAX: u32 = 200;

view! {
    Lock(it: wire::Lock, others) with {
        let files = it.files.clone().unwrap_or_default();
    } {
        lease_id: String = it.lease_id.clone(),
        owner: String = it.holder.clone() => if_any,
        repository: String = others.line(&files.repository) => if_any,
        files: Vec<String> =
            files.patterns.iter().map(|it| others.line(&repository::shown(it))).collect(),
        issue_id: String = it.issue_id.clone() => if_any,
        task_id: String = it.task_id.clone() => if_any,
        acquired_at: Time = Time(it.acquired_ms),
        last_heartbeat: Time = Time(it.renewed_ms),
        expires_at: Time = Time(it.expires_ms),
    }
}

/// Files as the broker takes them; without `files` all of the repository that is meant, and without
/// that, too, none in particular.
async fn file_set(
    caller: &Caller<'_>,
    files: Vec<String>,
    repository: Option<Name>,
) -> Result<wire::FileSet, Refusal> {
    let root = caller.call.host.project.clone();
    let repositories = caller.call.host.repositories.clone();
    let look = move || {
        let here = std::env::current_dir().map_err(|why| {
            no(format!("the directory that the node was started in cannot be looked at: {why}"))
        })?;
        let base = lock_base(root.as_deref(), &here, repository.as_ref().map(|it| it.0.as_str()));
        let basis = base.open(&repositories).map_err(|why| no(why.to_string()))?;
        basis.files(&files).map_err(|why| no(why.to_string()))
    };
    let looked = tokio::task::spawn_blocking(look).await;
    looked.unwrap_or_else(|_| Err(no("the files could not be looked at".to_owned())))
}

/// What locks call the files that a submission changed, as far as they are files of the project's
/// repository.
pub(super) async fn changed_files(
    caller: &Caller<'_>,
    files: Vec<String>,
) -> Option<wire::FileSet> {
    let root = caller.call.host.project.clone();
    let repositories = caller.call.host.repositories.clone();
    let look = move || {
        let here = std::env::current_dir().ok()?;
        lock_base(root.as_deref(), &here, None).open(&repositories).ok()?.changed_files(&files)
    };
    tokio::task::spawn_blocking(look).await.ok().flatten()
}

/// The files cannot be named, so nothing can be said of locks on them.
fn no(why: String) -> Refusal {
    Refusal { reason: Reason::InvalidArgument, message: format!("{why}. Nothing was locked.") }
}

/// Locks files before you edit them, all or none: paths in your project, patterns such as
/// src/**/*.rs, or directories ending in /. Locks renew by themselves while you are connected, until
/// you unlock.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct LockFiles {
    files: Vec<String>,
    issue_id: Option<Name>,
    task_id: Option<Name>,
    ttl_sec: Option<Lease>,
    /// Seconds to wait for files locked by others. Default 0.
    #[schemars(with = "Option<u32>")]
    wait_sec: Option<Seconds>,
    /// Directory of another repository, or its name as shown in locks. Default: the project's.
    repository: Option<Name>,
}

impl SwarmTool for LockFiles {
    const INFO: ToolInfo =
        ToolInfo::write("lockFiles", &[WORKER_CORE]).with_role(args::WORKER_ID_OR_OWNER);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        if self.files.is_empty() {
            return Err(missing("files", "name what you are about to edit"));
        }
        let asked = self.wait_sec.map_or(Duration::ZERO, |it| it.0);
        let files = file_set(caller, self.files, self.repository).await?;
        let issue_id = self.issue_id.unwrap_or_default().0;
        let task_id = self.task_id.unwrap_or_default().0;
        let request = wire::LockFilesRequest {
            files: Some(files.clone()),
            claim_token: caller.token(&claim_key(&issue_id, &task_id)),
            issue_id,
            task_id,
            for_ms: Lease::ms(self.ttl_sec),
            ..wire::LockFilesRequest::default()
        };
        let it = match lock_files(caller, request.clone()).await {
            Err(refusal) if refusal.reason == Reason::FileIsLocked && !asked.is_zero() => {
                once_free(caller, files, request, asked, refusal).await
            }
            told => told,
        };
        let it = it.map_err(with_wait_hint)?;
        let lock = it.lock.unwrap_or_default();
        caller.granted(lock.lease_id.clone(), lock.lock_token);
        let next = "Edit these files, then unlock with this lease_id. The lock renews by itself while \
                    you are connected.";
        let mut others = Sanitizer::default();
        let lock = Lock::new(&lock, &mut others);
        Ok(answer(lock, it.now_ms, &others, vec![next.to_owned()]).into())
    }
}

/// What a worker does that finds its files locked.
fn with_wait_hint(refusal: Refusal) -> Refusal {
    if refusal.reason != Reason::FileIsLocked {
        return refusal;
    }
    let message = format!(
        "{}. Do something else meanwhile, or call lockFiles again with wait_sec.",
        refusal.message
    );
    Refusal { message, ..refusal }
}

/// Locks files as soon as whoever has them gives them back, for as long as the agent and its client
/// wait. `refusal`: who has them.
async fn once_free(
    caller: &Caller<'_>,
    files: wire::FileSet,
    request: wire::LockFilesRequest,
    asked: Duration,
    mut refusal: Refusal,
) -> Result<wire::LockResponse, Refusal> {
    let playing = caller.enter()?;
    let hold = longest(caller.call, Some(asked));
    let _present = caller.actions.connected(&caller.call.who);
    let wire::FileSet { repository, patterns, is_case_folded } = files;
    let awaited = Awaited::Files { repository, patterns, is_case_folded };
    let over = Instant::now() + hold;
    let tries = async {
        let mut backoff = Backoff::default();
        for _ in 0..TRIES_MAX {
            let began = Instant::now();
            let left = over.saturating_duration_since(began);
            // Who waits for so many files that the broker cannot tell is refused as at once.
            let question = Question::Swarm(awaited.clone());
            if left.is_zero() || caller.actions.wait(question, left).await.is_err() {
                break;
            }
            let waited = began.elapsed();
            match lock_files(caller, request.clone()).await {
                Err(again) if again.reason == Reason::FileIsLocked => refusal = again,
                told => return Some(told),
            }
            let pause = pause(&mut backoff, waited, chance());
            sleep_until(over.min(Instant::now() + pause)).await;
        }
        None
    };
    let mut tries = Box::pin(tries);
    let ended = held(caller.call, &playing, hold, "waiting for the files", &mut tries).await;
    if !matches!(ended, Held::Answered(_))
        && let Some(probe) = &caller.call.probe
    {
        // What is granted in this moment is given back: its agent hears that it has nothing.
        probe.fate().disown();
    }
    drop(tries);
    match ended {
        Held::Answered(Some(told)) => told,
        Held::Lost => Err(Refusal {
            reason: Reason::RoleInUse,
            message: format!(
                "another agent plays {} by now, so this one waits no longer. Nothing was locked.",
                caller.role()
            ),
        }),
        Held::Answered(None) | Held::Over => Err(refusal),
    }
}

/// How long to pause after a wait that lasted so long and was of no use.
fn pause(backoff: &mut Backoff, waited: Duration, chance: u64) -> Duration {
    if BRIEF <= waited {
        backoff.reset();
        return Duration::ZERO;
    }
    backoff.pause(chance)
}

/// Extends a lock. Locks renew by themselves while you are connected.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Heartbeat {
    lease_id: Name,
    extend_sec: Option<Lease>,
}

impl SwarmTool for Heartbeat {
    const INFO: ToolInfo = ToolInfo::write("heartbeat", &[WORKER_CORE]).with_role(args::WORKER_ID);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let lease = self.lease_id.0;
        let request = wire::RenewLockRequest {
            lock_token: caller.token(&lease),
            lease_id: lease,
            for_ms: Lease::ms(self.extend_sec),
            ..wire::RenewLockRequest::default()
        };
        let it = caller.execute(request).await?;
        let mut others = Sanitizer::default();
        let lock = Lock::new(&it.lock.unwrap_or_default(), &mut others);
        Ok(answer(lock, it.now_ms, &others, Vec::new()).into())
    }
}

#[derive(Debug, Serialize)]
struct Unlocked {
    unlocked: Lock,
    /// It had been given back before.
    #[serde(skip_serializing_if = "is_nothing")]
    repeated: bool,
}

/// Releases your lock.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Unlock {
    lease_id: Name,
}

impl SwarmTool for Unlock {
    const INFO: ToolInfo = ToolInfo::write("unlock", &[WORKER_CORE]).with_role(args::WORKER_ID);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let lease = self.lease_id.0;
        let request = wire::UnlockRequest {
            lock_token: caller.token(&lease),
            lease_id: lease.clone(),
            ..wire::UnlockRequest::default()
        };
        let it = caller.execute(request).await?;
        caller.ended(&lease);
        Ok(unlocked(it))
    }
}

/// Releases another worker's lock. Its holder is notified.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ForceUnlock {
    lease_id: Name,
    reason: Text<REASON_BYTES_MAX>,
}

impl SwarmTool for ForceUnlock {
    const INFO: ToolInfo = ToolInfo::destroy("forceUnlock", &[LEAD_FULL]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let request = wire::ForceUnlockRequest {
            lease_id: self.lease_id.0,
            reason: self.reason.0,
            ..wire::ForceUnlockRequest::default()
        };
        Ok(unlocked(caller.execute(request).await?))
    }
}

fn unlocked(it: wire::UnlockResponse) -> CallToolResponse {
    let mut others = Sanitizer::default();
    let lock = Lock::new(&it.lock.unwrap_or_default(), &mut others);
    answer(Unlocked { unlocked: lock, repeated: it.repeated }, 0, &others, Vec::new()).into()
}

#[derive(Debug, Serialize)]
struct Locks {
    locks: Vec<Lock>,
    #[serde(flatten)]
    page: Page,
}

/// Lists locks: files, holder and expiry.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ListLocks {
    /// Filter by file.
    files: Option<Vec<String>>,
    owner: Option<Name>,
    /// Directory of another repository, or its name as shown in locks. Default: the project's.
    repository: Option<Name>,
    #[schemars(skip)]
    offset: Option<u32>,
}

impl SwarmTool for ListLocks {
    const INFO: ToolInfo = ToolInfo::read("listLocks", &[WORKER_FULL]).with_role(args::NONE);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let files = self.files.unwrap_or_default();
        let files = match files.is_empty() && self.repository.is_none() {
            true => None,
            false => Some(file_set(caller, files, self.repository).await?),
        };
        let offset = self.offset.unwrap_or_default();
        let request = wire::ListLocksRequest {
            holder: self.owner.unwrap_or_default().0,
            files,
            limit: SHOWN_MAX,
            offset,
            ..wire::ListLocksRequest::default()
        };
        let it = caller.query(request).await?;
        let mut others = Sanitizer::default();
        let locks: Vec<Lock> = it.locks.iter().map(|it| Lock::new(it, &mut others)).collect();
        let page = Page::new(offset, locks.len(), it.total);
        Ok(answer(Locks { locks, page }, it.now_ms, &others, Vec::new()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_in_vain_at_once_pauses_longer_each_time() {
        let mut backoff = Backoff::default();
        let mut paused = |waited| pause(&mut backoff, waited, 0).as_millis();
        let pauses: Vec<u128> = (0..7).map(|_| paused(Duration::ZERO)).collect();
        assert!(pauses.is_sorted() && pauses.iter().sum::<u128>() > 2_000, "{pauses:?}");
        // A wait that was one is followed by the next.
        assert_eq!(paused(BRIEF), 0);
        assert!(paused(Duration::ZERO) <= 50);
    }
}
