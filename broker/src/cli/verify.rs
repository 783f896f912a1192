//! `tasuki-broker verify`, `stats` and `repair-log`: what a data directory holds, looked through.
//!
//! A broker that serves it looks through it itself, as of one commit; otherwise it is done here.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tasuki_broker::{
    backup,
    clock::Clock,
    compact, grpc,
    journal::{
        Journal as _, JournalError,
        sled::{self, Options, Repaired, SledJournal},
    },
    rules::Fence,
};
use tasuki_proto::{
    host::progress::{Progress, Unit},
    wire,
};
use tokio::runtime::Handle;

use super::{
    Data,
    administer::{Administer, Answer, Broker, No, run},
    exit_code, say,
    scope::{time, time_in_json},
    table::table,
    used_directory,
};

pub(super) fn verify(administer: Administer) -> u8 {
    administer.run(async |administer| {
        let data = administer.data();
        let directory = used_directory(data).map_err(No::said)?;
        let progress = Progress::start("verifying", Unit::Bytes, data.json);
        let verified = sled::verify_with_progress(&directory, |bytes| progress.advance(bytes));
        let report = match verified {
            Ok(report) => grpc::data_report(&report, Fence::default(), None),
            Err(JournalError::InUse(held)) => {
                ask(&administer.connect_to_holder(&held).await?, false, &progress).await?
            }
            Err(why) => return Err(damaged(&directory, why, data)),
        };
        progress.finish();
        Ok(Answer { value: in_json(&report), lines: in_words(&report), notes: String::new() })
    })
}

pub(super) fn stats(administer: Administer) -> u8 {
    administer.run(async |administer| {
        let data = administer.data();
        let directory = used_directory(data).map_err(No::said)?;
        let progress = Progress::start("counting", Unit::Bytes, data.json);
        let report = match SledJournal::open(&directory, Options::default()) {
            Ok(journal) => count(&journal, &progress).await?,
            Err(JournalError::InUse(held)) => {
                ask(&administer.connect_to_holder(&held).await?, true, &progress).await?
            }
            Err(why) => return Err(damaged(&directory, why, data)),
        };
        progress.finish();
        let disk = Disk::of(&directory);
        let value = statistics_in_json(&report, &disk);
        Ok(Answer { value, lines: statistics(&report, &disk), notes: String::new() })
    })
}

/// Has the broker that serves the directory look through it.
async fn ask(
    broker: &Broker,
    with_counts: bool,
    progress: &Progress,
) -> Result<wire::DataReport, No> {
    let report = broker.administrate(async |mut it| {
        let mut told = it.verify(wire::VerifyRequest { with_counts }).await?.into_inner();
        while let Some(it) = told.message().await? {
            progress.set(it.bytes);
            if it.report.is_some() {
                return Ok(it.report);
            }
        }
        Ok(None)
    });
    report.await?.ok_or_else(|| No::unavailable("The broker ended before it was done."))
}

/// Looks through a directory that nobody serves.
async fn count(journal: &SledJournal, progress: &Progress) -> Result<wire::DataReport, No> {
    let cut = journal.cut().await?;
    let report = cut.verify(|bytes| {
        progress.advance(bytes);
        ControlFlow::Continue(())
    })?;
    let counts = backup::count(&cut)?;
    let report = grpc::data_report(&report, cut.fence(), Some(&counts));
    drop(cut);
    journal.close().await?;
    Ok(report)
}

pub(super) fn repair_log(data: &Data) -> u8 {
    run(data.json, async {
        let directory = used_directory(data).map_err(No::said)?;
        let repaired = sled::repair_log(&directory);
        let repaired = repaired.map_err(|why| damaged(&directory, why, data))?;
        if !repaired.is_complete {
            void_grants(directory).await?;
        }
        let report = grpc::data_report(&repaired.report, Fence::default(), None);
        let mut value = in_json(&report);
        value["complete"] = repaired.is_complete.into();
        value["newest_commit"] = repaired.newest_commit.into();
        let lines = in_words(&report) + &what_is_lost(&repaired);
        Ok(Answer { value, lines, notes: String::new() })
    })
}

async fn void_grants(directory: PathBuf) -> Result<(), No> {
    let (runtime, now) = (Handle::current(), Clock::system().now());
    let done = tokio::task::spawn_blocking(move || compact::void_grants(&runtime, &directory, now));
    done.await.map_err(|why| No::unavailable(format!("The repair failed: {why}.")))??;
    Ok(())
}

fn what_is_lost(repaired: &Repaired) -> String {
    if repaired.is_complete {
        return "\nthe log was whole, nothing is lost".to_owned();
    }
    let (last, newest) = (repaired.report.last_commit, repaired.newest_commit);
    let found = match newest.checked_sub(last) {
        Some(1..) => format!("the log has commits up to {newest} that cannot be used"),
        Some(0) | None => "the log does not show how many".to_owned(),
    };
    format!(
        "\nchanges after commit {last} are lost; {found}\nturns, claims and locks have new numbers: \
         agents that use an old one are refused and ask again, as after a restore"
    )
}

/// Says what is wrong with a directory.
fn report_error(error: &JournalError, data: &Data) {
    if data.json {
        say(&json!({ "error": error.to_string() }).to_string());
    }
    tracing::error!("{error}");
}

fn damaged(directory: &Path, error: JournalError, data: &Data) -> No {
    // A disk that takes nothing is no damage, and has its own mend.
    if matches!(error, JournalError::Storage(_)) {
        return No::opening(directory, error);
    }
    report_error(&error, data);
    No::said(exit_code(&error))
}

fn bytes(it: &wire::WorkspaceData) -> u64 {
    it.record_bytes + it.snapshot_bytes + it.body_bytes
}

fn in_json(report: &wire::DataReport) -> Value {
    let workspaces = report.workspaces.iter().map(|it| {
        let facts = json!({
            "records": it.records, "last": it.last, "snapshot": it.snapshot,
            "bodies": it.bodies, "bytes": bytes(it), "digest": hex(&it.digest),
        });
        (it.workspace.clone(), facts)
    });
    json!({
        "incarnation": hex(&report.incarnation),
        "first_commit": report.first_commit,
        "last_commit": report.last_commit,
        "workspaces": workspaces.collect::<serde_json::Map<_, _>>(),
    })
}

fn in_words(report: &wire::DataReport) -> String {
    let all = |of: Count| report.workspaces.iter().map(of).sum::<u64>();
    let mut text = format!(
        "whole: commits {} to {}, {} records and {} bodies in {} workspaces",
        report.first_commit,
        report.last_commit,
        all(|it| it.records),
        all(|it| it.bodies),
        report.workspaces.len()
    );
    for it in &report.workspaces {
        text += &format!(
            "\n  {}: {} records up to {}, snapshot at {}, {} bodies, digest {}",
            it.workspace,
            it.records,
            it.last,
            it.snapshot,
            it.bodies,
            hex(&it.digest).get(..16).unwrap_or_default()
        );
    }
    text
}

/// What the broker's part of a data directory takes of the disk, in bytes.
pub(super) struct Disk {
    pub(super) database: u64,
    search: u64,
    all: u64,
}

impl Disk {
    pub(super) fn of(directory: &Path) -> Self {
        let [database, search] = ["db", "search"].map(|name| size(&directory.join(name)));
        Self { database, search, all: size(directory) }
    }
}

/// What cannot be looked at counts nothing: files come and go while a broker serves.
fn size(path: &Path) -> u64 {
    let Ok(entries) = path.read_dir() else { return 0 };
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(about) if about.is_dir() => size(&entry.path()),
        Ok(about) => about.len(),
        Err(_) => 0,
    };
    entries.filter_map(Result::ok).map(of).sum()
}

/// How much there is of something in a workspace.
type Count = fn(&wire::WorkspaceData) -> u64;

/// What is counted of a workspace.
const COUNTS: [(&str, Count); 13] = [
    ("records", |it| it.records),
    ("bodies", |it| it.bodies),
    ("record_bytes", |it| it.record_bytes),
    ("snapshot_bytes", |it| it.snapshot_bytes),
    ("body_bytes", |it| it.body_bytes),
    ("loops", |it| counts(it).loops),
    ("threads", |it| counts(it).threads),
    ("issues", |it| counts(it).issues),
    ("tasks", |it| counts(it).tasks),
    ("runs", |it| counts(it).runs),
    ("nodes", |it| counts(it).nodes),
    ("tokens", |it| counts(it).tokens),
    ("invitations", |it| counts(it).invitations),
];

fn counts(it: &wire::WorkspaceData) -> wire::WorkspaceCounts {
    it.counts.unwrap_or_default()
}

fn statistics_in_json(report: &wire::DataReport, disk: &Disk) -> Value {
    let counted = |of: &dyn Fn(Count) -> u64| {
        let all = COUNTS.iter().map(|(name, count)| ((*name).to_owned(), of(*count).into()));
        all.collect::<serde_json::Map<String, Value>>()
    };
    let workspaces = report.workspaces.iter().map(|it| {
        let mut facts = counted(&|count| count(it));
        facts.insert("last".to_owned(), it.last.into());
        facts.insert("snapshot".to_owned(), it.snapshot.into());
        facts.insert("oldest_ms".to_owned(), time_in_json(counts(it).oldest_ms));
        facts.insert("newest_ms".to_owned(), time_in_json(counts(it).newest_ms));
        (it.workspace.clone(), Value::from(facts))
    });
    json!({
        "workspaces": workspaces.collect::<serde_json::Map<_, _>>(),
        "all": counted(&|count| report.workspaces.iter().map(count).sum()),
        "commits": { "first": report.first_commit, "last": report.last_commit },
        "restored_ms": time_in_json(report.restored_ms),
        "disk": { "database": disk.database, "search": disk.search, "all": disk.all },
    })
}

fn statistics(report: &wire::DataReport, disk: &Disk) -> String {
    let row = |name: &str, of: &dyn Fn(Count) -> u64, newest_ms| {
        let cells = [
            name.to_owned(),
            of(|it| it.records).to_string(),
            of(|it| it.bodies).to_string(),
            of(bytes).to_string(),
            of(|it| counts(it).loops).to_string(),
            of(|it| counts(it).threads).to_string(),
            of(|it| counts(it).issues).to_string(),
            of(|it| counts(it).tasks).to_string(),
            of(|it| counts(it).runs).to_string(),
            of(|it| counts(it).nodes).to_string(),
            moment(newest_ms),
        ];
        (cells, String::new())
    };
    let each = report.workspaces.iter();
    let each = each.map(|it| row(&it.workspace, &|count| count(it), counts(it).newest_ms));
    let sum = |count: Count| report.workspaces.iter().map(count).sum();
    let newest = report.workspaces.iter().map(|it| counts(it).newest_ms).max().unwrap_or_default();
    let rows: Vec<_> = each.chain([row("(all)", &sum, newest)]).collect();
    let head = [
        "WORKSPACE",
        "RECORDS",
        "TEXTS",
        "BYTES",
        "LOOPS",
        "THREADS",
        "ISSUES",
        "TASKS",
        "RUNS",
        "NODES",
        "NEWEST",
    ];
    let restored = match report.restored_ms {
        0 => String::new(),
        ms => format!("\nrestored from a backup at {}", time(ms)),
    };
    format!(
        "{}\n{} tokens are good and {} invitations are open\n\
         on disk: {} bytes, {} of them the database and {} search indexes; commits {} to \
         {}{restored}",
        table(head, &rows),
        sum(|it| counts(it).tokens),
        sum(|it| counts(it).invitations),
        disk.all,
        disk.database,
        disk.search,
        report.first_commit,
        report.last_commit,
    )
}

fn moment(ms: u64) -> String {
    if ms == 0 { String::new() } else { time(ms) }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
