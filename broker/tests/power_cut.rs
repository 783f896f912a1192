//! Power cuts: a child appends on a disk that forgets what was not synced, and is killed at a
//! random moment. What it had acknowledged must be in what the disk kept.
//!
//! The disk is `power_cut/shim.c`. That the check bites is checked too: without the sync that
//! sled leaves out, it must find losses.

#![cfg(target_os = "linux")]

mod common;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use common::{Dice, Lines, child, id, read_snapshot, say, try_write_snapshot};
use tasuki_broker::journal::{
    Append, BodyKey, Journal, Outcome,
    sled::{Durability, Options, SledJournal, verify},
};
use tokio::sync::Notify;

/// Power cuts, each a seed; `TASUKI_CUTS` says another number.
const ROUNDS: u64 = 40;

/// One more in so many, in which a child appends much.
const LONG_IN: u64 = 5;

fn rounds() -> u64 {
    std::env::var("TASUKI_CUTS").map_or(ROUNDS, |it| it.parse().expect("a number of cuts"))
}

/// Between two acknowledgements of a child on a busy machine.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Records of one workspace that a child has in flight: enough for commits of several parts.
const IN_FLIGHT: u64 = 12;

/// A snapshot is written after so many records, and the latest so many are kept before it.
const SNAPSHOT_EVERY: u64 = 40;
const KEEP: u64 = 10;

const WORKSPACES: [&str; 3] = ["a", "b", "c"];

const DIR: &str = "TASUKI_TEST_CUT_DIR";
const UNSYNCED: &str = "TASUKI_TEST_CUT_UNSYNCED";
/// No snapshots, which are synced at once.
const PLAIN: &str = "TASUKI_TEST_CUT_PLAIN";

/// What a record is, by where it stands: from a few bytes to several parts.
fn record(workspace: &str, sequence: u64) -> Bytes {
    let mut dice = Dice::new(sequence * 31 + u64::from(workspace.as_bytes()[0]));
    let size = if dice.roll(10) == 0 { dice.roll(15_000) } else { dice.roll(900) };
    let fill = (0..size).map(|_| u8::try_from(dice.roll(256)).expect("a byte"));
    format!("{workspace} {sequence} ").into_bytes().into_iter().chain(fill).collect()
}

fn append(workspace: &str, sequence: u64) -> Append {
    let record = record(workspace, sequence);
    let mut bodies = Vec::new();
    if sequence.is_multiple_of(5) {
        bodies.push((BodyKey(format!("body/{sequence}")), [&record[..], b" body"].concat().into()));
    }
    Append { sequence: sequence.into(), record, bodies, are_bodies_new: true }
}

/// The pieces of a snapshot, by where it stands: from one part to several.
fn pieces(workspace: &str, sequence: u64) -> Vec<Bytes> {
    let piece =
        |number: usize| format!("{workspace} at {sequence}, piece {number} ").repeat(number * 200);
    (0..4).map(|number| piece(number).into()).collect()
}

/// Runs in a process of its own: appends for ever, and says what is durable.
#[tokio::test]
async fn a_child_appends() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    say("\nbegins");
    let durability = match std::env::var_os(UNSYNCED) {
        Some(_) => Durability::Unsynced,
        None => Durability::Synced,
    };
    let journal = SledJournal::open(Path::new(&dir), Options { durability }).expect("opens");
    let moved = Arc::new(Notify::new());
    let mut writers = Vec::new();
    for workspace in WORKSPACES {
        let durable = Arc::new(AtomicU64::new(0));
        let (count, moved) = (Arc::clone(&durable), Arc::clone(&moved));
        let listener = Arc::new(move |outcome| {
            let Outcome::Durable { through } = outcome else {
                say(format!("failed {outcome:?}"));
                std::process::exit(3);
            };
            say(format!("durable {workspace} {through}"));
            count.store(through.get(), Ordering::Release);
            moved.notify_one();
        });
        let opened = journal.open(&id(workspace), listener).await.expect("opens");
        writers.push((workspace, opened.writer, durable, 1));
    }
    loop {
        let moving = moved.notified();
        for (workspace, writer, durable, next) in &mut writers {
            while *next <= durable.load(Ordering::Acquire) + IN_FLIGHT {
                writer.append(append(workspace, *next));
                if next.is_multiple_of(SNAPSHOT_EVERY) && std::env::var_os(PLAIN).is_none() {
                    let pieces = pieces(workspace, *next);
                    let written = try_write_snapshot(&mut **writer, *next, pieces, *next - KEEP);
                    if written.is_err() {
                        // The journal failed, and whoever listens to it is about to hear.
                        std::future::pending::<()>().await;
                    }
                }
                *next += 1;
            }
        }
        moving.await;
    }
}

fn shim(dir: &Path) -> PathBuf {
    let shim = dir.join("shim.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/power_cut/shim.c");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-pthread", "-o"]).arg(&shim).arg(source).arg("-ldl");
    assert!(cc.status().expect("cc runs").success(), "the shim compiles");
    shim
}

/// Directories of one round: what the child sees, and what a power cut leaves.
struct Round {
    _base: tempfile::TempDir,
    seen: PathBuf,
    image: PathBuf,
    /// The newest record acknowledged, by workspace.
    durable: BTreeMap<String, u64>,
    has_failed: bool,
}

impl Round {
    fn hear(&mut self, line: &str) {
        let mut words = line.split(' ');
        match (words.next(), words.next(), words.next()) {
            (Some("durable"), Some(workspace), Some(through)) => {
                let through = through.parse().expect("a sequence");
                self.durable.insert(workspace.to_owned(), through);
            }
            (Some("failed"), ..) => self.has_failed = true,
            _ => {}
        }
    }

    /// Lets a child append until it has said `acks` lines or ended, then kills it.
    fn run(shim: &Path, acks: u64, settings: &[(&str, String)]) -> Self {
        let base = tempfile::tempdir().expect("a directory");
        let (seen, image) = (base.path().join("seen"), base.path().join("image"));
        std::fs::create_dir(&seen).expect("creates");
        std::fs::create_dir(&image).expect("creates");
        let mut command = child("a_child_appends");
        command.env(DIR, &seen).env("LD_PRELOAD", shim);
        command.env("CUT_FROM", &seen).env("CUT_TO", &image);
        command.envs(settings.iter().map(|(name, value)| (name, value)));
        let mut lines = Lines::of(command, SILENCE_MAX);
        let (durable, has_failed) = (BTreeMap::new(), false);
        let mut round = Self { _base: base, seen, image, durable, has_failed };
        let mut heard = 0;
        while let Some(line) = lines.next().expect("the child goes on") {
            heard += u64::from(line.starts_with("durable "));
            round.hear(&line);
            if acks <= heard && !line.is_empty() && !line.starts_with("running") {
                break;
            }
        }
        // What it said before it died counts too.
        lines.kill().iter().for_each(|line| round.hear(line));
        round
    }

    /// What is wrong with what is left in `dir`.
    fn check(&self, dir: &Path) -> Result<(), String> {
        let fault = |error| format!("{error}");
        let journal = SledJournal::open(dir, Options::default()).map_err(fault)?;
        let checked = self.check_records(&journal);
        futures::executor::block_on(journal.close()).map_err(fault)?;
        checked?;
        let report = verify(dir).map_err(fault)?;
        for (workspace, acknowledged) in &self.durable {
            let last = report.workspaces.get(&id(workspace)).map_or(0, |found| found.last);
            if last < *acknowledged {
                return Err(format!("{workspace} ends at {last}, {acknowledged} was acknowledged"));
            }
        }
        let blobs = dir.join("db/blobs").read_dir().map_err(|error| error.to_string())?;
        match blobs.count() {
            0 => Ok(()),
            some => Err(format!("{some} blobs")),
        }
    }

    fn check_records(&self, journal: &SledJournal) -> Result<(), String> {
        let fault = |error| format!("{error}");
        for (workspace, acknowledged) in &self.durable {
            let name = id(workspace);
            // The newest snapshot may be one that nobody was told of.
            let newest = acknowledged + IN_FLIGHT;
            let kept = (newest / SNAPSHOT_EVERY * SNAPSHOT_EVERY).saturating_sub(KEEP).max(1);
            let records = journal.read(&name, kept.into(), 1000).map_err(fault)?;
            for stored in &records {
                if stored.record != record(workspace, stored.sequence.get()) {
                    return Err(format!("{workspace} {} is another record", stored.sequence));
                }
            }
            let last = records.last().map_or(0, |stored| stored.sequence.get());
            if last < *acknowledged && kept <= *acknowledged {
                return Err(format!("{workspace} ends at {last}, {acknowledged} was acknowledged"));
            }
            let snapshot = read_snapshot(journal.snapshot(&name));
            if let Some((sequence, found)) = &snapshot
                && *found != pieces(workspace, *sequence)
            {
                return Err(format!("{workspace}, snapshot {sequence} is another"));
            }
            for sequence in (5..=*acknowledged).step_by(5) {
                let key = BodyKey(format!("body/{sequence}"));
                let body = journal.body(&name, &key).map_err(fault)?;
                if body.as_ref() != append(workspace, sequence).bodies.first().map(|it| &it.1) {
                    return Err(format!("{workspace} {key:?} is not what was acknowledged"));
                }
            }
        }
        Ok(())
    }
}

/// Holds J2 and J4.
#[test]
fn a_power_cut_loses_nothing_that_was_acknowledged() {
    let base = tempfile::tempdir().expect("a directory");
    let shim = shim(base.path());
    for seed in 0..rounds() {
        let mut dice = Dice::new(seed + 1);
        // In every fourth round during creation.
        let acks = if seed % 4 == 0 { dice.roll(2) } else { dice.roll(300) };
        let torn = (seed % 2 == 1).then(|| ("CUT_TORN", seed.to_string()));
        let round = Round::run(&shim, acks, torn.as_slice());
        for dir in [&round.image, &round.seen] {
            let checked = round.check(dir);
            assert_eq!(checked, Ok(()), "seed {seed}, {acks} acks, {:?}", round.durable);
        }
    }
}

/// Much that is appended without a pause: the database is synced behind it all the time.
///
/// Holds LG1.
#[test]
fn a_power_cut_under_load_loses_nothing_that_was_acknowledged() {
    let base = tempfile::tempdir().expect("a directory");
    let shim = shim(base.path());
    for seed in 0..rounds() / LONG_IN {
        let acks = 1500 + Dice::new(seed + 1).roll(1500);
        let settings = [("CUT_TORN", seed.to_string()), (PLAIN, "1".to_owned())];
        let round = Round::run(&shim, acks, &settings);
        for dir in [&round.image, &round.seen] {
            let checked = round.check(dir);
            assert_eq!(checked, Ok(()), "seed {seed}, {acks} acks, {:?}", round.durable);
        }
    }
}

#[test]
fn creation_may_end_at_any_call() {
    let base = tempfile::tempdir().expect("a directory");
    let shim = shim(base.path());
    let mut calls = 0;
    // Call by call until creation is over and the first records are acknowledged.
    loop {
        calls += 1;
        let round = Round::run(&shim, u64::MAX, &[("CUT_KILL", calls.to_string())]);
        for dir in [&round.image, &round.seen] {
            assert_eq!(round.check(dir), Ok(()), "killed before call {calls}");
        }
        if !round.durable.is_empty() {
            break;
        }
    }
    assert!(20 < calls, "creation makes more than {calls} calls");
}

/// Not each of them does: snapshots sync, and the cut may come right after one.
#[test]
fn without_the_sync_a_power_cut_loses_records() {
    let base = tempfile::tempdir().expect("a directory");
    let shim = shim(base.path());
    let mut losses = 0;
    for acks in [30, 60, 90, 40, 70, 100] {
        let round = Round::run(&shim, acks, &[(UNSYNCED, "1".into())]);
        match round.check(&round.image) {
            Ok(()) => {}
            Err(what) if what.contains("was acknowledged") => losses += 1,
            // The database was synced, and shows that the log lost its end.
            Err(what) if what.contains("which the database has") => losses += 1,
            Err(other) => panic!("after {acks} acks: {other}"),
        }
        assert_eq!(round.check(&round.seen), Ok(()));
    }
    assert!(2 < losses, "{losses} cuts of 6 lost records");
}

#[test]
fn a_full_disk_is_a_failure_and_never_acknowledged() {
    let base = tempfile::tempdir().expect("a directory");
    let shim = shim(base.path());
    // The log takes 8 MiB of it.
    for room in [10_400_000, 11_777_777] {
        let round = Round::run(&shim, u64::MAX, &[("CUT_FULL", room.to_string())]);
        assert!(round.has_failed && !round.durable.is_empty(), "{:?}", round.durable);
        for dir in [&round.image, &round.seen] {
            assert_eq!(round.check(dir), Ok(()), "{room} bytes");
        }
    }
}
