//! `tasuki swarm lock`, `locks` and `unlock`.

use std::time::Duration;

use serde_json::json;
use tasuki_proto::{id::RoleId, swarm::LockId, wire};

use super::{
    Failure, Output, again,
    files::InRepository,
    json as as_json,
    names::TaskName,
    pages::{self, Page, Wanted},
    renew::{asked_ms, lasting},
    rows,
    who::{Looker, Who, client},
    words::has_left,
};
use crate::{
    cli::text::{line, time},
    config::Config,
    counted::counted,
};

/// Lock files of a repository: nobody else gets them meanwhile.
///
/// All of them are locked or none, and what the role has locked already stays as it is. Paths are
/// relative to the directory, or to the root of a repository that is named; each stands for all
/// below it. Patterns are `*`, `?`, `[a-z]` within a name and `**` for any number of names.
#[derive(Debug, clap::Args)]
pub struct LockArgs {
    #[command(flatten)]
    files: Files,
    /// The task they are locked for: they are free again when it ends
    #[arg(long, value_name = "ISSUE/TASK")]
    task: Option<TaskName>,
    /// For how long [default: as the settings say]
    #[arg(long = "for", value_name = "DURATION", value_parser = lasting)]
    lasts: Option<Duration>,
    #[command(flatten)]
    pub(super) who: Who,
}

/// Which files of which repository.
#[derive(Debug, clap::Args)]
struct Files {
    /// Paths and patterns
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
    #[command(flatten)]
    of: InRepository,
}

/// Give locked files back.
///
/// A role unlocks what it locked. With --reason a lead takes a lock from whoever has it.
#[derive(Debug, clap::Args)]
pub struct UnlockArgs {
    /// Which lock
    #[arg(value_name = "LOCK")]
    lock: LockId,
    /// Take it from its holder, and why; kept in the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The token of the lock: refused if it is not the present one
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 0,
        hide_default_value = true,
        conflicts_with = "reason"
    )]
    token: u64,
    #[command(flatten)]
    pub(super) who: Who,
}

/// Show locks, the newest first.
///
/// With --json each lock is a line of its own.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Only locks that are on one of these files
    #[arg(value_name = "FILE")]
    files: Vec<String>,
    #[command(flatten)]
    of: InRepository,
    /// Only locks of this role
    #[arg(long, value_name = "ROLE")]
    holder: Option<RoleId>,
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    pub(super) who: Looker,
}

pub(super) async fn lock(
    args: LockArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let acting = args.who.acting(config).await?;
    let files = args.files.of.set(&args.files.files)?;
    let (issue_id, task_id) = match &args.task {
        None => (String::new(), String::new()),
        Some(task) => {
            let ids = task.find(&acting).await?;
            (ids.issue, ids.task)
        }
    };
    let request = wire::LockFilesRequest {
        caller: acting.broker.caller(),
        key: None,
        role: acting.role.clone(),
        files: Some(files),
        issue_id,
        task_id,
        for_ms: asked_ms(args.lasts),
        claim_token: 0,
    };
    let done = acting
        .broker
        .tell(async |channel, key| {
            let request = wire::LockFilesRequest { key: Some(key), ..request.clone() };
            client(channel).lock_files(request).await
        })
        .await?;
    let of = done.lock.unwrap_or_default();
    output.answer(
        || {
            let value = json!({
                "lock": as_json::lock(&of),
                "repeated": done.repeated,
                "sequence": done.sequence,
            });
            as_json::at(value, done.now_ms)
        },
        || {
            let count = of.files.as_ref().map_or(0, |it| it.patterns.len());
            let files = counted(count, "file");
            let (who, id) = (line(&of.holder), line(&of.lease_id));
            let (until, left) = (time(of.expires_ms), has_left(of.expires_ms, done.now_ms));
            let again = again(done.repeated);
            let token = of.lock_token;
            format!(
                "{who} has {files} locked as {id} until {until} ({left}). Its token is \
                 {token}.{again}\n"
            )
        },
    )
}

pub(super) async fn unlock(
    args: UnlockArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let acting = args.who.acting(config).await?;
    let (caller, role) = (acting.broker.caller(), acting.role.clone());
    let lease_id = args.lock.to_string();
    let done = match args.reason {
        Some(reason) => {
            let request = wire::ForceUnlockRequest { caller, key: None, role, lease_id, reason };
            acting
                .broker
                .tell(async |channel, key| {
                    let request = wire::ForceUnlockRequest { key: Some(key), ..request.clone() };
                    client(channel).force_unlock(request).await
                })
                .await?
        }
        None => {
            let lock_token = args.token;
            let request = wire::UnlockRequest { caller, key: None, role, lease_id, lock_token };
            acting
                .broker
                .tell(async |channel, key| {
                    let request = wire::UnlockRequest { key: Some(key), ..request.clone() };
                    client(channel).unlock(request).await
                })
                .await?
        }
    };
    let of = done.lock.unwrap_or_default();
    output.answer(
        || {
            json!({
                "lock": as_json::lock(&of),
                "repeated": done.repeated,
                "sequence": done.sequence,
            })
        },
        || {
            let from = match of.holder.as_str() {
                "" => String::new(),
                holder => format!(", which {} had", line(holder)),
            };
            let again = again(done.repeated);
            format!("{}{from}, is unlocked.{again}\n", line(&of.lease_id))
        },
    )
}

pub(super) async fn list(
    args: ListArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let acting = args.who.looking(config);
    let files = args.of.set(&args.files)?;
    let ask = async |limit, offset| {
        let request = wire::ListLocksRequest {
            caller: acting.broker.caller(),
            role: acting.role.clone(),
            holder: args.holder.as_ref().map(ToString::to_string).unwrap_or_default(),
            files: Some(files.clone()),
            limit,
            offset,
        };
        let page = acting
            .broker
            .ask(async |channel| client(channel).list_locks(request.clone()).await)
            .await?;
        Ok(Page { things: page.locks, total: page.total, now_ms: page.now_ms })
    };
    let mut is_first = true;
    let shown = pages::all(
        args.wanted,
        ask,
        |it: &wire::Lock| &it.lease_id,
        |it, now_ms| {
            if std::mem::take(&mut is_first) {
                output.guide(rows::lock_head)?;
            }
            output.answer(|| as_json::lock(it), || rows::lock(it, now_ms))
        },
    )
    .await?;
    shown.tell(output, "locks", || "Nothing is locked there.\n".to_owned())
}
