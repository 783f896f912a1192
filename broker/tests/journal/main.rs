//! The contract of a journal, kept by each implementation; and what only the one on disk has.

#[path = "../common/mod.rs"]
mod common;
mod snapshots;

use std::{
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use common::{Heard, id, open, read_snapshot, write_snapshot};
use prost::Message as _;
use tasuki_broker::journal::{
    Append, BodyKey, Journal, JournalError, Outcome, Writer,
    memory::MemoryJournal,
    sled::{Durability, Options, SledJournal, repair_log, verify},
};
use tasuki_proto::{id::Sequence, stored::Meta};

fn record(sequence: u64) -> Bytes {
    format!("record {sequence}").into()
}

fn append(sequence: u64) -> Append {
    Append {
        sequence: sequence.into(),
        record: record(sequence),
        bodies: Vec::new(),
        are_bodies_new: false,
    }
}

fn with_body(sequence: u64, key: &str, body: impl Into<Bytes>) -> Append {
    Append { bodies: vec![(BodyKey(key.into()), body.into())], ..append(sequence) }
}

fn on_disk(dir: &Path) -> SledJournal {
    SledJournal::open(dir, Options::default()).expect("opens")
}

/// A place where a journal can be opened, closed and opened again.
trait Place {
    fn journal(&self) -> Arc<dyn Journal>;
}

impl Place for MemoryJournal {
    fn journal(&self) -> Arc<dyn Journal> {
        Arc::new(self.clone())
    }
}

impl Place for tempfile::TempDir {
    fn journal(&self) -> Arc<dyn Journal> {
        Arc::new(on_disk(self.path()))
    }
}

/// Runs a story against every implementation.
async fn on_each<F: Future<Output = ()>>(story: impl Fn(Box<dyn Place>) -> F) {
    story(Box::new(MemoryJournal::default())).await;
    story(Box::new(tempfile::tempdir().expect("a directory"))).await;
}

async fn append_all(
    writer: &mut Box<dyn Writer>,
    heard: &mut Heard,
    records: std::ops::RangeInclusive<u64>,
) {
    let last = *records.end();
    records.for_each(|sequence| writer.append(append(sequence)));
    heard.durable(last).await;
}

fn sequences(journal: &dyn Journal, from: u64, max: usize) -> Vec<u64> {
    let records = journal.read(&id("w"), from.into(), max).expect("reads");
    for stored in &records {
        assert_eq!(stored.record, record(stored.sequence.get()));
    }
    records.iter().map(|stored| stored.sequence.get()).collect()
}

#[tokio::test]
async fn records_are_read_back_in_order_after_reopening() {
    on_each(|place| async move {
        let journal = place.journal();
        let (mut opened, mut heard) = open(&*journal, "w").await;
        assert!(opened.last == Sequence::NONE && opened.snapshot.is_none());
        append_all(&mut opened.writer, &mut heard, 1..=20).await;
        assert_eq!(sequences(&*journal, 0, 100), (1..=20).collect::<Vec<_>>());
        journal.close().await.expect("closes");

        let journal = place.journal();
        assert_eq!(journal.workspaces(), [id("w")]);
        let (mut opened, mut heard) = open(&*journal, "w").await;
        assert_eq!(opened.last, Sequence::from(20));
        append_all(&mut opened.writer, &mut heard, 21..=22).await;
        assert_eq!(sequences(&*journal, 19, 3), [19, 20, 21]);
        assert_eq!(sequences(&*journal, 23, 3), [0; 0]);
        assert_eq!(journal.read(&id("other"), 1.into(), 9).expect("reads"), []);
        journal.close().await.expect("closes");
    })
    .await;
}

/// Holds J3 and A2.
#[tokio::test]
async fn a_newer_writer_fences_the_older() {
    on_each(|place| async move {
        let journal = place.journal();
        let (mut old, mut heard_old) = open(&*journal, "w").await;
        append_all(&mut old.writer, &mut heard_old, 1..=1).await;
        let (mut new, mut heard_new) = open(&*journal, "w").await;
        old.writer.append(append(2));
        append_all(&mut new.writer, &mut heard_new, 2..=2).await;
        assert_eq!(heard_old.next().await, Outcome::Fenced);
        assert_eq!(sequences(&*journal, 1, 9), [1, 2]);
        journal.close().await.expect("closes");
    })
    .await;
}

#[tokio::test]
async fn a_snapshot_lets_records_go() {
    on_each(|place| async move {
        let journal = place.journal();
        let (mut opened, mut heard) = open(&*journal, "w").await;
        append_all(&mut opened.writer, &mut heard, 1..=10).await;
        // Of a state before the newest record; and more than the state may not let go.
        write_snapshot(&mut *opened.writer, 8, ["ei".into(), Bytes::new(), "ght".into()], 7);
        append_all(&mut opened.writer, &mut heard, 11..=11).await;
        let refused = journal.read(&id("w"), 6.into(), 9).expect_err("it is compacted");
        assert!(matches!(refused, JournalError::Compacted { oldest } if oldest.get() == 7));
        assert_eq!(sequences(&*journal, 7, 9), [7, 8, 9, 10, 11]);
        journal.close().await.expect("closes");

        let journal = place.journal();
        let (mut opened, mut heard) = open(&*journal, "w").await;
        let eight = vec!["ei".into(), Bytes::new(), "ght".into()];
        assert_eq!(read_snapshot(opened.snapshot.take()), Some((8, eight)));
        assert_eq!(sequences(&*journal, 7, 9), [7, 8, 9, 10, 11]);
        write_snapshot(&mut *opened.writer, 11, [], 1000);
        append_all(&mut opened.writer, &mut heard, 12..=12).await;
        assert_eq!(sequences(&*journal, 12, 9), [12]);
        let refused = journal.read(&id("w"), 11.into(), 9).expect_err("it is compacted");
        assert!(matches!(refused, JournalError::Compacted { oldest } if oldest.get() == 12));
        journal.close().await.expect("closes");

        let journal = place.journal();
        let (opened, _heard) = open(&*journal, "w").await;
        assert_eq!(read_snapshot(opened.snapshot), Some((11, Vec::new())));
        assert_eq!(opened.last, Sequence::from(12));
        journal.close().await.expect("closes");
    })
    .await;
}

#[tokio::test]
async fn bodies_outlive_the_records_that_named_them() {
    on_each(|place| async move {
        let journal = place.journal();
        let (mut opened, mut heard) = open(&*journal, "w").await;
        let large: Bytes = (0..512 * 1024u32).map(|i| i.to_le_bytes()[i as usize % 4]).collect();
        opened.writer.append(with_body(1, "large", large.clone()));
        opened.writer.append(with_body(2, "small", "x"));
        opened.writer.append(with_body(3, "empty", ""));
        opened.writer.append(with_body(4, "twice", vec![1; 20_000]));
        // Shorter than before, in the same commit and in one of its own.
        opened.writer.append(with_body(5, "twice", vec![2; 10_000]));
        heard.durable(5).await;
        opened.writer.append(with_body(6, "twice", vec![3; 10]));
        write_snapshot(&mut *opened.writer, 6, ["six".into()], 7);
        heard.durable(6).await;
        journal.probe().await.expect("is well");
        journal.close().await.expect("closes");

        let journal = place.journal();
        let body = |key: &str| journal.body(&id("w"), &BodyKey(key.into())).expect("reads");
        assert_eq!(body("large"), Some(large));
        assert_eq!(body("small"), Some("x".into()));
        assert_eq!(body("empty"), Some(Bytes::new()));
        assert_eq!(body("twice"), Some(vec![3; 10].into()));
        assert_eq!(body("none"), None);
        journal.close().await.expect("closes");
    })
    .await;
}

#[tokio::test]
async fn what_is_held_back_in_memory_is_neither_told_nor_kept() {
    let memory = MemoryJournal::default();
    let (mut opened, mut heard) = open(&memory, "w").await;
    memory.hold();
    opened.writer.append(append(1));
    assert_eq!(sequences(&memory, 1, 9), [0; 0]);
    memory.release();
    heard.durable(1).await;
    memory.hold();
    opened.writer.append(append(2));
    memory.forget_held();
    assert_eq!(sequences(&memory, 1, 9), [1]);
    memory.fail_appends(true);
    opened.writer.append(append(3));
    assert_eq!(heard.next().await, Outcome::Failed);
}

/// Holds DB1.
#[tokio::test]
async fn one_commit_serves_many_appends() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = on_disk(dir.path());
    let mut opened = Vec::new();
    for number in 0..20 {
        opened.push(open(&journal, &format!("w{number}")).await);
    }
    for sequence in 1..=100 {
        opened.iter_mut().for_each(|(opened, _)| opened.writer.append(append(sequence)));
    }
    for (_, heard) in &mut opened {
        heard.durable(100).await;
    }
    assert!(journal.commits() < 200, "{} commits for 2000 appends", journal.commits());
    journal.close().await.expect("closes");
    assert_eq!(verify(dir.path()).expect("is whole").records(), 2000);
    let blobs = dir.path().join("db/blobs").read_dir().expect("a folder");
    assert_eq!(blobs.count(), 0);
}

#[tokio::test]
async fn values_stay_small_enough_for_sled() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = on_disk(dir.path());
    let (mut opened, mut heard) = open(&journal, "w").await;
    for sequence in 1..=300u64 {
        let record = vec![7; 5000 + 40 * usize::try_from(sequence).expect("small")].into();
        let bodies = vec![(BodyKey(format!("{:0>200}", sequence % 50)), vec![8; 70_000].into())];
        let are_bodies_new = sequence <= 50;

        opened.writer.append(Append { sequence: sequence.into(), record, bodies, are_bodies_new });
        if sequence.is_multiple_of(100) {
            let pieces = [vec![9; 100_000].into(), vec![8; 300_000].into()];
            write_snapshot(&mut *opened.writer, sequence, pieces, sequence - 10);
        }
    }
    heard.durable(300).await;
    journal.close().await.expect("closes");
    let blobs = dir.path().join("db/blobs").read_dir().expect("a folder");
    assert_eq!(blobs.count(), 0);
    let report = verify(dir.path()).expect("is whole");
    assert_eq!((report.records(), report.bodies()), (11, 50));
}

#[tokio::test]
async fn commits_that_nobody_needs_are_dropped() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = on_disk(dir.path());
    let (mut idle, mut heard_idle) = open(&journal, "idle").await;
    append_all(&mut idle.writer, &mut heard_idle, 1..=1).await;
    let (mut opened, mut heard) = open(&journal, "w").await;
    for sequence in 1..=300 {
        append_all(&mut opened.writer, &mut heard, sequence..=sequence).await;
    }
    write_snapshot(&mut *opened.writer, 300, ["state".into()], 300);
    append_all(&mut opened.writer, &mut heard, 301..=301).await;
    journal.probe().await.expect("is well");
    journal.close().await.expect("closes");
    // The idle one's only record pins everything after it.
    assert_eq!(verify(dir.path()).expect("is whole").first_commit, 1);

    let journal = on_disk(dir.path());
    let (mut idle, mut heard_idle) = open(&journal, "idle").await;
    write_snapshot(&mut *idle.writer, 1, ["idle".into()], 2);
    append_all(&mut idle.writer, &mut heard_idle, 2..=2).await;
    let (mut opened, mut heard) = open(&journal, "w").await;
    append_all(&mut opened.writer, &mut heard, 302..=303).await;
    assert_eq!(sequences(&journal, 300, 9), [300, 301, 302, 303]);
    journal.close().await.expect("closes");
    let report = verify(dir.path()).expect("is whole");
    assert!(250 < report.first_commit, "{report:?}");
    assert_eq!(on_disk(dir.path()).workspaces(), [id("idle"), id("w")]);
}

#[tokio::test]
async fn a_second_broker_is_refused_by_the_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = on_disk(dir.path());
    for refused in [
        SledJournal::open(dir.path(), Options::default()).map(|_| ()),
        verify(dir.path()).map(|_| ()),
    ] {
        let expected = format!("{} (process {})", dir.path().display(), std::process::id());
        assert!(matches!(refused, Err(JournalError::InUse(place)) if place == expected));
    }
    journal.close().await.expect("closes");
    assert!(matches!(journal.probe().await, Err(JournalError::Closed)));
    assert!(matches!(journal.read(&id("w"), 1.into(), 1), Err(JournalError::Closed)));
    on_disk(dir.path());
}

/// A child has copies of all files that are open until it becomes another program; one that looks
/// for its program in many places has them for long.
#[tokio::test]
async fn a_closed_journal_is_opened_again_while_children_are_being_started() {
    const TIMES: usize = 20;
    let dir = tempfile::tempdir().expect("a directory");
    let is_over = Arc::new(AtomicBool::new(false));
    let starting = std::thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            while !is_over.load(Ordering::Acquire) {
                let mut child = Command::new("no-such-program");
                let started = child.env("PATH", "/nowhere:".repeat(10_000)).spawn();
                assert!(started.is_err(), "{started:?}");
            }
        }
    });
    let mut refused = Vec::new();
    for _ in 0..TIMES {
        match SledJournal::open(dir.path(), Options::default()) {
            Ok(journal) => journal.close().await.expect("closes"),
            Err(error) => refused.push(error),
        }
        refused.extend(verify(dir.path()).err());
    }
    is_over.store(true, Ordering::Release);
    starting.join().expect("ran");
    assert!(refused.is_empty(), "of {TIMES} times: {refused:?}");
}

async fn written(dir: &Path) {
    let journal = on_disk(dir);
    let (mut opened, mut heard) = open(&journal, "w").await;
    append_all(&mut opened.writer, &mut heard, 1..=3).await;
    journal.close().await.expect("closes");
}

fn refusal(dir: &Path) -> String {
    SledJournal::open(dir, Options::default()).expect_err("is refused").to_string()
}

/// Spoils the heads of both segments.
fn spoil_log(dir: &Path) {
    for name in ["log/0", "log/1"] {
        let path = dir.join(name);
        let mut bytes = std::fs::read(&path).expect("reads");
        bytes[20] ^= 1;
        std::fs::write(path, bytes).expect("writes");
    }
}

/// One whose log was replaced. No broker starts there before the repair is finished.
fn repaired(dir: &Path) -> SledJournal {
    let repaired = repair_log(dir).expect("repairs");
    assert!(!repaired.is_complete, "the log was not whole");
    assert!(refusal(dir).contains("repair-log` did not finish; run it again"), "{}", refusal(dir));
    SledJournal::open_repaired(dir).expect("opens")
}

#[tokio::test]
async fn a_log_that_is_whole_is_repaired_without_loss() {
    let dir = tempfile::tempdir().expect("a directory");
    written(dir.path()).await;
    let repaired = repair_log(dir.path()).expect("repairs");
    assert!(repaired.is_complete && repaired.newest_commit == repaired.report.last_commit);
    on_disk(dir.path()).close().await.expect("closes");
}

#[tokio::test]
async fn a_lost_log_or_database_is_refused_and_a_lost_log_can_be_replaced() {
    let dir = tempfile::tempdir().expect("a directory");
    written(dir.path()).await;
    std::fs::remove_dir_all(dir.path().join("log")).expect("removes");
    assert!(refusal(dir.path()).contains("expected the log"), "{}", refusal(dir.path()));
    repaired(dir.path()).close().await.expect("closes");

    let dir = tempfile::tempdir().expect("a directory");
    written(dir.path()).await;
    spoil_log(dir.path());
    assert!(refusal(dir.path()).contains("the head of a segment"), "{}", refusal(dir.path()));
    let found = verify(dir.path()).expect_err("it is refused").to_string();
    assert!(found.contains("the head of a segment"), "{found}");
    let journal = repaired(dir.path());
    assert_eq!(sequences(&journal, 1, 9), [1, 2, 3]);
    journal.close().await.expect("closes");

    let dir = tempfile::tempdir().expect("a directory");
    written(dir.path()).await;
    std::fs::remove_dir_all(dir.path().join("db")).expect("removes");
    assert!(refusal(dir.path()).contains("database"), "{}", refusal(dir.path()));
    std::fs::create_dir_all(dir.path().join("db")).expect("creates");
    std::fs::write(dir.path().join("db/db"), b"").expect("writes");
    assert!(refusal(dir.path()).contains("meta"), "{}", refusal(dir.path()));
}

#[tokio::test]
async fn a_repair_of_the_log_keeps_what_it_can_and_takes_no_other_log() {
    let dir = tempfile::tempdir().expect("a directory");
    written(dir.path()).await;
    let old = tempfile::tempdir().expect("a directory");
    common::copy(dir.path(), old.path());
    one_more(dir.path(), 4).await;
    // The log alone has the newest.
    swap_in("db", old.path(), dir.path());

    let mut kept = Vec::new();
    for gone in ["log/0", "log/1"] {
        let copy = tempfile::tempdir().expect("a directory");
        common::copy(dir.path(), copy.path());
        std::fs::remove_file(copy.path().join(gone)).expect("removes");
        assert!(refusal(copy.path()).contains("bytes or more, found 0"), "{gone}");
        let journal = repaired(copy.path());
        kept.push(sequences(&journal, 1, 9).len());
        journal.close().await.expect("closes");
    }
    kept.sort_unstable();
    assert_eq!(kept, [3, 4], "what was in the file that is gone is lost");

    let other = tempfile::tempdir().expect("a directory");
    written(other.path()).await;
    swap_in("log", other.path(), dir.path());
    let refused = repair_log(dir.path()).expect_err("it is refused").to_string();
    assert!(refused.contains("the log beside it is of"), "{refused}");
    // Nothing of it was thrown away.
    swap_in("log", dir.path(), other.path());
    verify(other.path()).expect("it is whole");
}

/// A directory that was a broker's, and of which only the rest is there, is not begun anew.
#[tokio::test]
async fn a_lost_database_with_its_log_is_no_new_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    written(dir.path()).await;
    tasuki_proto::host::location::note(dir.path()).expect("notes");
    for part in ["db", "log"] {
        std::fs::remove_dir_all(dir.path().join(part)).expect("removes");
    }
    let refused = refusal(dir.path());
    assert!(refused.contains("found neither"), "{refused}");
    std::fs::remove_file(dir.path().join("location.json")).expect("removes");
    on_disk(dir.path()).close().await.expect("closes");
}

/// Appends one record in a sitting of its own.
async fn one_more(dir: &Path, sequence: u64) {
    let journal = on_disk(dir);
    let (mut opened, mut heard) = open(&journal, "w").await;
    append_all(&mut opened.writer, &mut heard, sequence..=sequence).await;
    journal.close().await.expect("closes");
}

/// Puts a part of one data directory in the place of that of another.
fn swap_in(part: &str, from: &Path, to: &Path) {
    std::fs::remove_dir_all(to.join(part)).expect("removes");
    common::copy(&from.join(part), &to.join(part));
}

/// Holds DB2.
#[tokio::test]
async fn an_older_database_heals_from_the_log_or_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    written(dir.path()).await;
    let old = tempfile::tempdir().expect("a directory");
    common::copy(dir.path(), old.path());
    one_more(dir.path(), 4).await;
    let healed = tempfile::tempdir().expect("a directory");
    common::copy(dir.path(), healed.path());
    swap_in("db", old.path(), healed.path());
    assert_eq!(verify(healed.path()).expect("it heals"), verify(dir.path()).expect("is whole"));
    one_more(healed.path(), 5).await;

    // Both segments begin after what the older one has.
    one_more(dir.path(), 5).await;
    one_more(dir.path(), 6).await;
    swap_in("db", old.path(), dir.path());
    let refused = refusal(dir.path());
    assert!(refused.contains("of the log in it, found"), "{refused}");
}

/// Holds DB2.
#[tokio::test]
async fn an_older_log_or_that_of_another_database_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    written(dir.path()).await;
    let old = tempfile::tempdir().expect("a directory");
    common::copy(dir.path(), old.path());
    one_more(dir.path(), 4).await;
    swap_in("log", old.path(), dir.path());
    let refused = refusal(dir.path());
    assert!(refused.contains("which the database has"), "{refused}");
    assert!(verify(dir.path()).is_err());

    let other = tempfile::tempdir().expect("a directory");
    written(other.path()).await;
    swap_in("log", other.path(), dir.path());
    let refused = refusal(dir.path());
    assert!(refused.contains("the log beside it is of"), "{refused}");
}

#[tokio::test]
async fn creation_that_was_cut_short_begins_anew() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("creating"), b"").expect("writes");
    std::fs::create_dir_all(dir.path().join("db")).expect("creates");
    std::fs::write(dir.path().join("db/db"), vec![7; 5000]).expect("writes");
    on_disk(dir.path()).close().await.expect("closes");
    assert!(!dir.path().join("creating").exists());

    // But not when something was acknowledged.
    written(dir.path()).await;
    std::fs::write(dir.path().join("creating"), b"").expect("writes");
    let refused = refusal(dir.path());
    assert!(refused.contains("beside it commit"), "{refused}");
}

#[tokio::test]
async fn an_unfinished_page_table_of_sled_is_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    written(dir.path()).await;
    std::fs::write(dir.path().join("db/snap.0000000000000000.generating"), b"x").expect("writes");
    on_disk(dir.path()).close().await.expect("closes");
}

#[tokio::test]
async fn two_checks_of_the_same_content_have_the_same_digest() {
    let dir = tempfile::tempdir().expect("a directory");
    written(dir.path()).await;
    let first = verify(dir.path()).expect("is whole");
    assert_eq!(verify(dir.path()).expect("is whole"), first);
    let report = &first.workspaces[&id("w")];
    assert_eq!((report.last, report.records, report.snapshot), (3, 3, 0));
    let journal = SledJournal::open(dir.path(), Options { durability: Durability::Unsynced });
    let journal = journal.expect("opens");
    let (mut opened, mut heard) = open(&journal, "w").await;
    append_all(&mut opened.writer, &mut heard, 4..=4).await;
    journal.close().await.expect("closes");
    assert_ne!(verify(dir.path()).expect("is whole"), first);
}

/// Looks into the database, or changes it, below the journal.
fn in_sled<T>(dir: &Path, look: impl FnOnce(&sled::Db) -> T) -> T {
    let db = sled::open(dir.join("db")).expect("opens");
    let seen = look(&db);
    db.flush().expect("flushes");
    let data = std::fs::File::open(dir.join("db/db")).expect("opens");
    drop(db);
    // sled has it locked as long as any thread of it lives.
    data.lock().and_then(|()| data.unlock()).expect("is let go");
    seen
}

fn stored_meta(db: &sled::Db) -> Meta {
    Meta::decode(&db.get(b"M").expect("reads").expect("is there")[..]).expect("decodes")
}

#[tokio::test]
async fn a_database_of_a_pre_release_is_refused_by_name() {
    let dir = tempfile::tempdir().expect("a directory");
    written(dir.path()).await;
    for format in [1, 2] {
        in_sled(dir.path(), |db| {
            let meta = Meta { format, ..stored_meta(db) };
            db.insert(b"M", meta.encode_to_vec()).expect("inserts");
        });
        let refused = verify(dir.path()).expect_err("it is refused");
        assert!(matches!(refused, JournalError::Older { .. }), "{refused}");
        assert!(refused.to_string().contains("an earlier pre-release"), "{refused}");
    }
}
