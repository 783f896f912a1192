//! Locks on files: taking, keeping, giving back, and seeing who has what.
//!
//! Which repository files belong to and what they are called there is found where they are, at
//! this node ([`crate::repository`]); the broker knows names alone.

use std::time::Duration;

use rmcp::model::CallToolResult;
use serde::Serialize;
use tasuki_proto::{limits::REASON_BYTES_MAX, reason::Reason, wire};
use tokio::time::{Instant, sleep_until};

use super::{
    super::{
        arguments::{Arguments, missing},
        sanitizer::Sanitizer,
        waiting::{Held, held, longest},
    },
    answer::{Page, answer},
    args,
    caller::Caller,
    list,
    taking::take,
    views::Time,
    work::claim_of,
};
use crate::{
    link::retry::{Backoff, chance},
    repository::{self, lock_base},
    role::{Refusal, swarm::Awaited},
};

const FILES: &str = "files";
const REPOSITORY: &str = "repository";
const LEASE: &str = "lease_id";

/// Times that one call tries to lock files that were free and are locked again: there is no end to
/// bad luck.
const TRIES_MAX: usize = 256;

/// A wait that is over sooner found nothing to wait for: the broker tells so what it cannot compare
/// in time. The next one is not begun at once.
const BRIEF: Duration = Duration::from_millis(100);

/// Locks of one list.
const SHOWN_MAX: u32 = 200;

#[derive(Debug, Serialize)]
pub(super) struct Lock {
    lease_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    owner: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    repository: String,
    files: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    issue_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    task_id: String,
    acquired_at: Time,
    last_heartbeat: Time,
    expires_at: Time,
    expires_at_ms: u64,
}

impl Lock {
    pub(super) fn new(it: &wire::Lock, others: &mut Sanitizer) -> Self {
        let files = it.files.clone().unwrap_or_default();
        Self {
            lease_id: it.lease_id.clone(),
            owner: it.holder.clone(),
            repository: others.line(&files.repository),
            files: files.patterns.iter().map(|it| others.line(&repository::shown(it))).collect(),
            issue_id: it.issue_id.clone(),
            task_id: it.task_id.clone(),
            acquired_at: Time(it.acquired_ms),
            last_heartbeat: Time(it.renewed_ms),
            expires_at: Time(it.expires_ms),
            expires_at_ms: it.expires_ms,
        }
    }
}

/// Files as the broker takes them; without `files` all of the repository that is meant, and without
/// that, too, none in particular.
async fn meant(caller: &Caller<'_>, arguments: Arguments<'_>) -> Result<wire::FileSet, Refusal> {
    let files = arguments.texts(FILES)?;
    let asked = arguments.name(REPOSITORY)?;
    let root = caller.call.host.project.clone();
    let repositories = caller.call.host.repositories.clone();
    let look = move || {
        let here = std::env::current_dir().map_err(|why| {
            no(format!("the directory that the node was started in cannot be looked at: {why}"))
        })?;
        let base = lock_base(root.as_deref(), &here, asked.as_deref());
        let basis = base.open(&repositories).map_err(|why| no(why.to_string()))?;
        basis.files(&files).map_err(|why| no(why.to_string()))
    };
    let looked = tokio::task::spawn_blocking(look).await;
    looked.unwrap_or_else(|_| Err(no("the files could not be looked at".to_owned())))
}

/// The files cannot be named, so nothing can be said of locks on them.
fn no(why: String) -> Refusal {
    Refusal { reason: Reason::InvalidArgument, message: format!("{why}. Nothing was locked.") }
}

pub(super) async fn lock(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    if arguments.texts(FILES)?.is_empty() {
        return Err(missing(FILES, "name what you are about to edit"));
    }
    let asked = arguments.seconds("wait_sec")?.unwrap_or_default();
    let files = meant(caller, arguments).await?;
    let issue_id = arguments.name(args::ISSUE)?.unwrap_or_default();
    let task_id = arguments.name(args::TASK)?.unwrap_or_default();
    let request = wire::LockFilesRequest {
        files: Some(files.clone()),
        claim_token: caller.token(&claim_of(&issue_id, &task_id)),
        issue_id,
        task_id,
        for_ms: args::lasting(arguments, "ttl_sec")?,
        ..wire::LockFilesRequest::default()
    };
    let it = match take(caller, request.clone()).await {
        Err(refusal) if refusal.reason == Reason::FileIsLocked && !asked.is_zero() => {
            once_free(caller, files, request, asked, refusal).await
        }
        told => told,
    };
    let it = it.map_err(go_on)?;
    let lock = it.lock.unwrap_or_default();
    caller.granted(lock.lease_id.clone(), lock.lock_token);
    let next = format!(
        "Edit these files, then {} with this lease_id. It is kept while you are there.",
        list::UNLOCK
    );
    let mut others = Sanitizer::default();
    Ok(answer(Lock::new(&lock, &mut others), it.now_ms, &others, vec![next]))
}

/// What a worker does that finds its files locked.
fn go_on(refusal: Refusal) -> Refusal {
    if refusal.reason != Reason::FileIsLocked {
        return refusal;
    }
    let message = format!(
        "{}. Do something else meanwhile, or call {} again with wait_sec.",
        refusal.message,
        list::LOCK_FILES
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
    let playing = caller.playing()?;
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
            if left.is_zero() || caller.swarm().await_swarm(&awaited, left).await.is_err() {
                break;
            }
            let waited = began.elapsed();
            match take(caller, request.clone()).await {
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

pub(super) async fn heartbeat(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let lease = args::required(arguments, LEASE)?;
    let request = wire::RenewLockRequest {
        lock_token: caller.token(&lease),
        lease_id: lease,
        for_ms: args::lasting(arguments, "extend_sec")?,
        ..wire::RenewLockRequest::default()
    };
    let it = caller.tell(request).await?;
    let mut others = Sanitizer::default();
    let lock = Lock::new(&it.lock.unwrap_or_default(), &mut others);
    Ok(answer(lock, it.now_ms, &others, Vec::new()))
}

#[derive(Debug, Serialize)]
struct Unlocked {
    unlocked: Lock,
    /// It had been given back before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repeated: bool,
}

pub(super) async fn unlock(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let lease = args::required(arguments, LEASE)?;
    let request = wire::UnlockRequest {
        lock_token: caller.token(&lease),
        lease_id: lease.clone(),
        ..wire::UnlockRequest::default()
    };
    let it = caller.tell(request).await?;
    caller.ended(&lease);
    Ok(unlocked(it))
}

pub(super) async fn force(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let request = wire::ForceUnlockRequest {
        lease_id: args::required(arguments, LEASE)?,
        reason: arguments
            .at_most(REASON_BYTES_MAX)
            .words("reason", "say why; its holder is told")?,
        ..wire::ForceUnlockRequest::default()
    };
    Ok(unlocked(caller.tell(request).await?))
}

fn unlocked(it: wire::UnlockResponse) -> CallToolResult {
    let mut others = Sanitizer::default();
    let lock = Lock::new(&it.lock.unwrap_or_default(), &mut others);
    answer(Unlocked { unlocked: lock, repeated: it.repeated }, 0, &others, Vec::new())
}

#[derive(Debug, Serialize)]
struct Locks {
    locks: Vec<Lock>,
    #[serde(flatten)]
    page: Page,
}

pub(super) async fn list(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let names_files = !arguments.texts(FILES)?.is_empty() || arguments.name(REPOSITORY)?.is_some();
    let files = if names_files { Some(meant(caller, arguments).await?) } else { None };
    let offset = args::count(arguments, "offset")?;
    let request = wire::ListLocksRequest {
        holder: arguments.name("owner")?.unwrap_or_default(),
        files,
        limit: SHOWN_MAX,
        offset,
        ..wire::ListLocksRequest::default()
    };
    let it = caller.ask(request).await?;
    let mut others = Sanitizer::default();
    let locks: Vec<Lock> = it.locks.iter().map(|it| Lock::new(it, &mut others)).collect();
    let page = Page::new(offset, locks.len(), it.total);
    Ok(answer(Locks { locks, page }, it.now_ms, &others, Vec::new()))
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
