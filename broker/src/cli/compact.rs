//! `tasuki-broker compact`: what has been over for long is removed, and the space given back.
//!
//! A broker that serves the directory does it itself; of one that nobody serves it is done here. Only
//! there the database can be written anew, which makes it smaller.

use std::{ops::ControlFlow, path::Path, sync::Arc, time::Duration};

use clap::{Args, builder::PossibleValuesParser};
use serde_json::{Map, Value, json};
use tasuki_broker::{
    clock::Clock,
    compact::{self, CompactError, CompactRequest, Compacted},
    grpc::compact_report,
    journal::{
        Journal as _, JournalError,
        sled::{Options, SledJournal},
    },
    rules::CompactKind,
    workspace::{IDLE_MS, Settings, Workspaces},
};
use tasuki_proto::{
    host::{
        config::duration,
        progress::{Progress, Unit},
    },
    id::{Timestamp, WorkspaceId},
    limits::LEASE_MS,
    wire,
};
use tokio::runtime::Handle;

use super::{
    administer::{Administer, Answer, No, sentence},
    table::table,
    used_directory,
    verify::Disk,
};

#[derive(Debug, Args)]
pub(super) struct Compact {
    #[command(flatten)]
    administer: Administer,

    /// Only of this workspace [default: every workspace]
    #[arg(long, value_name = "WORKSPACE")]
    workspace: Option<WorkspaceId>,

    /// How long it must have been over, such as 90d or 12h
    #[arg(long, value_name = "AGE", default_value = "90d", value_parser = duration)]
    older_than: Duration,

    /// Only of this kind; may be given more than once [default: every kind]
    #[arg(
        long = "kind",
        value_name = "KIND",
        value_parser = PossibleValuesParser::new(CompactKind::ALL.map(CompactKind::as_str))
    )]
    kinds: Vec<String>,

    /// Only show what would be removed, as without `--yes`
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,

    /// Remove it
    #[arg(long)]
    yes: bool,

    /// Then write the database anew, so that its file gets smaller. The broker must be stopped
    #[arg(long)]
    rewrite: bool,
}

pub(super) fn compact(it: Compact) -> u8 {
    let Compact { administer, workspace, older_than, kinds, dry_run: _, yes, rewrite } = it;
    let request = wire::CompactRequest {
        workspace: workspace.map_or_else(String::new, |it| it.to_string()),
        older_than_ms: u64::try_from(older_than.as_millis()).unwrap_or(u64::MAX),
        kinds,
        is_dry_run: !yes,
    };
    administer.run(async |administer| compact_data(administer, request, rewrite).await)
}

async fn compact_data(
    administer: Administer,
    request: wire::CompactRequest,
    is_rewriting: bool,
) -> Result<Answer, No> {
    let is_json = administer.data().json;
    let directory = used_directory(administer.data()).map_err(No::said)?;
    let before = Disk::of(&directory).database;
    let progress = Progress::start("compacting", Unit::Time, is_json);
    let compacted = match SledJournal::open(&directory, Options::default()) {
        Ok(journal) => {
            let compacted = compact_here(journal, &request).await?;
            if is_rewriting && !request.is_dry_run {
                let removed = removed_before(&compacted);
                rewrite(&directory, is_json).await.map_err(|no| no.with(&removed))?;
            }
            compacted
        }
        Err(JournalError::InUse(held)) if is_rewriting => {
            return Err(No::usage(format!(
                "{held} is in use, and a database is rewritten only while nothing uses it. Nothing \
                 was removed: stop the broker first, or leave out --rewrite."
            )));
        }
        Err(JournalError::InUse(held)) => {
            let broker = administer.connect_to_holder(&held).await?;
            let asked = request.clone();
            let removed = broker.administrate(async move |mut it| {
                let mut told = it.compact(asked).await?.into_inner();
                let mut all = Vec::new();
                while let Some(one) = told.message().await? {
                    all.push(one);
                }
                Ok(all)
            });
            removed.await?
        }
        Err(why) => return Err(No::opening(&directory, why)),
    };
    progress.finish();
    let after = Disk::of(&directory).database;
    Ok(answer(&request, &compacted, is_rewriting, [before, after]))
}

/// Of a directory that nobody serves.
async fn compact_here(
    journal: SledJournal,
    it: &wire::CompactRequest,
) -> Result<Vec<wire::CompactResponse>, No> {
    let clock = Clock::system();
    let before = clock.now().as_millis().saturating_sub(it.older_than_ms);
    let request = CompactRequest {
        // It was parsed before; empty is every one.
        workspace: it.workspace.parse().ok(),
        before: Timestamp::from_millis(before),
        kinds: CompactKind::named(&it.kinds).map_err(No::usage)?,
        is_dry_run: it.is_dry_run,
    };
    let journal = Arc::new(journal);
    let settings = Settings { lease_ms: LEASE_MS, idle_ms: IDLE_MS };
    let fatal = Arc::new(|why: &str| tracing::error!("{why}"));
    let workspaces = Workspaces::start(journal.clone(), clock, settings, fatal).await;
    let (storage, runtime) = (journal.clone(), Handle::current());
    let done = tokio::task::spawn_blocking(move || {
        let mut all = Vec::new();
        let each = |workspace: &WorkspaceId, it: &Compacted| {
            all.push(compact_report(workspace, it));
            ControlFlow::Continue(())
        };
        compact::compact(&runtime, &storage, &workspaces, &request, each).map(|()| all)
    });
    let done = done.await;
    journal.close().await?;
    done.map_err(|why| No::unavailable(format!("Compacting failed: {why}.")))?.map_err(No::from)
}

async fn rewrite(directory: &Path, is_json: bool) -> Result<(), No> {
    let progress = Progress::start("rewriting", Unit::Bytes, is_json);
    let (directory, runtime) = (directory.to_owned(), Handle::current());
    let done = tokio::task::spawn_blocking(move || {
        let done = compact::rewrite(&runtime, &directory, |bytes| progress.advance(bytes));
        progress.finish();
        done
    });
    let done = done.await;
    done.map_err(|why| No::unavailable(format!("Rewriting failed: {why}.")))?.map_err(No::from)
}

/// What a rewrite that fails leaves removed.
fn removed_before(compacted: &[wire::CompactResponse]) -> String {
    if compacted.is_empty() {
        return String::new();
    }
    let all = |count: Count| compacted.iter().map(count).sum::<u64>();
    let [texts, bytes] = [all(|it| it.bodies), all(|it| it.bytes)];
    format!(" What was over was removed before, {texts} texts of {bytes} bytes, and stays removed.")
}

impl From<CompactError> for No {
    fn from(why: CompactError) -> Self {
        match why {
            CompactError::Journal(why) => why.into(),
            CompactError::UnknownWorkspace(_) => Self::usage(sentence(&why.to_string())),
            CompactError::Busy
            | CompactError::NoRoom { .. }
            | CompactError::Differs(_)
            | CompactError::Workspace(_)
            | CompactError::Directory { .. } => Self::unavailable(sentence(&why.to_string())),
        }
    }
}

/// In days where it is that.
fn age(ms: u64) -> String {
    const DAY_MS: u64 = 24 * 60 * 60 * 1000;
    if 0 < ms && ms.is_multiple_of(DAY_MS) {
        return format!("{} days", ms / DAY_MS);
    }
    humantime::format_duration(Duration::from_millis(ms)).to_string()
}

/// How much of something was removed from a workspace.
type Count = fn(&wire::CompactResponse) -> u64;

const COUNTS: [(&str, Count); 7] = [
    ("threads", |it| it.threads),
    ("issues", |it| it.issues),
    ("runs", |it| it.runs),
    ("entries", |it| it.entries),
    ("versions", |it| it.versions),
    ("texts", |it| it.bodies),
    ("bytes", |it| it.bytes),
];

const HEAD: [&str; 8] =
    ["WORKSPACE", "THREADS", "ISSUES", "RUNS", "HANDOVERS", "VERSIONS", "TEXTS", "BYTES"];

fn answer(
    request: &wire::CompactRequest,
    compacted: &[wire::CompactResponse],
    is_rewriting: bool,
    [before, after]: [u64; 2],
) -> Answer {
    let is_dry_run = request.is_dry_run;
    let counts = |it: &wire::CompactResponse| {
        let counts = COUNTS.iter().map(|(name, count)| ((*name).to_owned(), count(it).into()));
        (it.workspace.clone(), Value::Object(counts.collect()))
    };
    let workspaces: Map<String, Value> = compacted.iter().map(counts).collect();
    let value = json!({
        "dry_run": is_dry_run,
        "workspaces": workspaces,
        "database_bytes_before": before,
        "database_bytes": after,
    });
    let row = |it: &wire::CompactResponse| {
        let [threads, issues, runs, entries, versions, texts, bytes] =
            COUNTS.map(|(_, count)| count(it).to_string());
        let row = [it.workspace.clone(), threads, issues, runs, entries, versions, texts, bytes];
        (row, String::new())
    };
    let rows: Vec<_> = compacted.iter().map(row).collect();
    let age = age(request.older_than_ms);
    let removed = match (rows.is_empty(), is_dry_run) {
        (true, _) => format!("Nothing has been over for {age}.\n"),
        (false, true) => format!("Over for {age}:\n{}", table(HEAD, &rows)),
        (false, false) => format!("Removed, over for {age}:\n{}", table(HEAD, &rows)),
    };
    let database = match is_dry_run {
        true => format!("database: {before} bytes"),
        false => format!("database: {before} bytes before, {after} bytes after"),
    };
    let notes = match (rows.is_empty(), is_dry_run, is_rewriting) {
        (true, _, false) | (_, false, true) => "",
        (_, true, _) => "Nothing was changed. Run it again with --yes.",
        (false, false, false) => {
            "The database uses the space again for what comes. To make its file smaller, stop the \
             broker and run this again with --rewrite."
        }
    };
    Answer { value, lines: removed + &database, notes: notes.to_owned() }
}
