//! `tasuki lock …`.

use serde_json::json;
use tasuki_proto::{counted::counted, id::RoleId, swarm::LockId, wire};

use super::{
    Failure, IDS, Output, again,
    files::InRepository,
    labels::has_left,
    lease::{LeaseArgs, report_renewal},
    names::TaskName,
    pages::{self, Page, Wanted},
};
use crate::{
    cli::{
        role_args::{OptionalRoleArgs, RoleArgs},
        subcommands::subcommands,
        text::{line, time},
    },
    config::Config,
};

subcommands! {
    /// Lock files for a role.
    #[derive(Debug, clap::Subcommand)]
    #[command(after_help = IDS)]
    pub enum Command {
        Acquire(AcquireArgs) => acquire,
        Release(ReleaseArgs) => release,
        List(ListArgs) => list,
        Renew(RenewArgs) => renew,
    }
}

/// Lock files of a repository.
///
/// All of them are locked or none; earlier locks of the role stay as they are. Paths are relative to
/// this directory, or to the root of the repository named with --repository; a directory stands for
/// all files below it. Patterns are `*`, `?` and `[a-z]` within a name, and `**` for any number of
/// names.
#[derive(Debug, clap::Args)]
pub struct AcquireArgs {
    #[command(flatten)]
    files: Files,
    /// Task that the files are locked for; its end releases them
    #[arg(long, value_name = "ISSUE/TASK")]
    task: Option<TaskName>,
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    role: RoleArgs,
}

/// Which files of which repository.
#[derive(Debug, clap::Args)]
struct Files {
    /// Paths and patterns to lock
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
    #[command(flatten)]
    of: InRepository,
}

/// Release a lock.
///
/// A role releases its own locks. With --reason a lead releases a lock that another role holds.
#[derive(Debug, clap::Args)]
pub struct ReleaseArgs {
    /// Lock to release
    #[arg(value_name = "LOCK")]
    lock: LockId,
    /// Take it from its holder; the reason is kept in the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Token of the lock; refused if it is not the current one
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 0,
        hide_default_value = true,
        conflicts_with = "reason"
    )]
    token: u64,
    #[command(flatten)]
    role: RoleArgs,
}

/// List locks, newest first.
///
/// With --json each lock is one line.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Only locks on one of these files
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
    role: OptionalRoleArgs,
}

/// Renew a lock.
///
/// A lock that lasts longer already is not cut short. A running node renews the locks of connected
/// agents by itself.
#[derive(Debug, clap::Args)]
pub struct RenewArgs {
    /// Lock to renew
    #[arg(value_name = "LOCK")]
    lock: LockId,
    #[command(flatten)]
    lease: LeaseArgs,
    /// Token of the lock; refused if it is not the current one
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    token: u64,
    #[command(flatten)]
    role: RoleArgs,
}

async fn acquire(args: AcquireArgs, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.role.client(config).await?;
    let files = args.files.of.set(&args.files.files)?;
    let (issue_id, task_id) = match &args.task {
        None => (String::new(), String::new()),
        Some(task) => {
            let ids = task.find(&acting).await?;
            (ids.issue, ids.task)
        }
    };
    let request = wire::LockFilesRequest {
        role: acting.role.clone(),
        files: Some(files),
        issue_id,
        task_id,
        for_ms: args.lease.ms(),
        claim_token: 0,
        ..Default::default()
    };
    let done = acting.broker.call(&request).await?;
    let of = done.lock.clone().unwrap_or_default();
    output.answer(
        || json!(done),
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

async fn release(args: ReleaseArgs, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.role.client(config).await?;
    let role = acting.role.clone();
    let lease_id = args.lock.to_string();
    let done = match args.reason {
        Some(reason) => {
            let request = wire::ForceUnlockRequest { role, lease_id, reason, ..Default::default() };
            acting.broker.call(&request).await?
        }
        None => {
            let lock_token = args.token;
            let request = wire::UnlockRequest { role, lease_id, lock_token, ..Default::default() };
            acting.broker.call(&request).await?
        }
    };
    let of = done.lock.clone().unwrap_or_default();
    output.answer(
        || json!(done),
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

async fn renew(args: RenewArgs, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.role.client(config).await?;
    let request = wire::RenewLockRequest {
        role: acting.role.clone(),
        lease_id: args.lock.to_string(),
        lock_token: args.token,
        for_ms: args.lease.ms(),
        ..Default::default()
    };
    let done = acting.broker.call(&request).await?;
    let value = json!(done);
    let lock = done.lock.unwrap_or_default();
    report_renewal(output, &lock.lease_id, value, lock.expires_ms, done.now_ms)
}

async fn list(args: ListArgs, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.role.client(config);
    let files = args.of.set(&args.files)?;
    let ask = async |limit, offset| {
        let request = wire::ListLocksRequest {
            role: acting.role.clone(),
            holder: args.holder.as_ref().map(ToString::to_string).unwrap_or_default(),
            files: Some(files.clone()),
            limit,
            offset,
            ..Default::default()
        };
        let page = acting.broker.call(&request).await?;
        Ok(Page { things: page.locks, total: page.total, now_ms: page.now_ms })
    };
    pages::print(args.wanted, ask, "No matching locks.", output).await
}
