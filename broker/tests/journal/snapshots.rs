//! Snapshots that a crash or a newer writer interrupts, and cuts, on disk.

use std::{ops::ControlFlow, path::Path};

use bytes::Bytes;
use tasuki_broker::journal::{
    BodyKey, Journal, JournalError, SnapshotLost,
    sled::{SledJournal, verify},
};
use tokio::sync::oneshot;

use super::{
    append_all,
    common::{self, id, open, read_snapshot, write_snapshot},
    in_sled, on_disk, sequences, with_body,
};

/// Keys of the database that begin with `kind`.
fn count_keys(dir: &Path, kind: &[u8]) -> usize {
    in_sled(dir, |db| db.scan_prefix(kind).count())
}

/// Pieces of one part and of several, more than are written at once.
fn snapshot_pieces() -> Vec<Bytes> {
    (0..5_usize)
        .map(|number| vec![u8::try_from(number).expect("small"); number * 30_000].into())
        .collect()
}

/// Holds J6.
#[tokio::test]
async fn a_crash_at_any_piece_of_a_snapshot_leaves_the_one_before() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = on_disk(dir.path());
    let (mut opened, mut heard) = open(&journal, "w").await;
    append_all(&mut opened.writer, &mut heard, 1..=10).await;
    write_snapshot(&mut *opened.writer, 5, snapshot_pieces(), 4);
    let crashed = || {
        let copy = tempfile::tempdir().expect("a directory");
        common::copy(dir.path(), copy.path());
        copy
    };
    let mut copies = Vec::new();
    let mut snapshot = opened.writer.snapshot(10.into(), 6.into());
    for (number, piece) in (11..).zip(snapshot_pieces()) {
        copies.push((crashed(), number - 1));
        snapshot.piece(piece).expect("a piece is written");
        // Records come in between, and are no part of it.
        append_all(&mut opened.writer, &mut heard, number..=number).await;
    }
    copies.push((crashed(), 15));
    snapshot.finish().expect("it is finished");
    let finished = crashed();
    journal.close().await.expect("closes");

    let before = Some((5, snapshot_pieces()));
    for (copy, last) in copies {
        assert_eq!(verify(copy.path()).expect("is whole").workspaces[&id("w")].snapshot, 5);
        let journal = on_disk(copy.path());
        let (mut opened, mut heard) = open(&journal, "w").await;
        assert_eq!(opened.last.get(), last);
        assert_eq!(read_snapshot(opened.snapshot.take()), before, "crashed after record {last}");
        assert_eq!(sequences(&journal, 4, 99), (4..=last).collect::<Vec<_>>());
        // The next one is not mixed with what was left.
        append_all(&mut opened.writer, &mut heard, last + 1..=last + 1).await;
        write_snapshot(&mut *opened.writer, last + 1, ["new".into()], last);
        append_all(&mut opened.writer, &mut heard, last + 2..=last + 3).await;
        journal.close().await.expect("closes");
        assert_eq!(count_keys(copy.path(), b"P"), 1, "nothing is left over");
        assert_eq!(verify(copy.path()).expect("is whole").workspaces[&id("w")].snapshot, last + 1);
    }
    let journal = on_disk(finished.path());
    let (opened, _heard) = open(&journal, "w").await;
    assert_eq!(read_snapshot(opened.snapshot), Some((10, snapshot_pieces())));
    journal.close().await.expect("closes");
}

#[tokio::test]
async fn a_snapshot_that_is_not_finished_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = on_disk(dir.path());
    let (mut old, mut heard) = open(&journal, "w").await;
    append_all(&mut old.writer, &mut heard, 1..=3).await;
    let mut dropped = old.writer.snapshot(2.into(), 1.into());
    // No disk has room for it. It is put off, and the journal goes on.
    let lost = dropped.prepare(u64::MAX / 4).expect_err("there is no room");
    assert!(matches!(lost, SnapshotLost::NoRoom { .. }), "{lost}");
    dropped.piece(vec![1; 50_000].into()).expect("a piece is written");
    drop(dropped);
    let mut fenced = old.writer.snapshot(3.into(), 1.into());
    fenced.piece(vec![2; 50_000].into()).expect("a piece is written");
    let (mut new, mut heard) = open(&journal, "w").await;
    assert_eq!(fenced.piece("late".into()), Err(SnapshotLost::Gone));
    assert_eq!(fenced.finish(), Err(SnapshotLost::Gone));
    assert!(new.snapshot.is_none() && journal.snapshot(&id("w")).is_none());
    append_all(&mut new.writer, &mut heard, 4..=6).await;
    journal.close().await.expect("closes");
    assert_eq!(count_keys(dir.path(), b"P"), 0);
    assert_eq!(sequences(&on_disk(dir.path()), 1, 9), [1, 2, 3, 4, 5, 6]);
}

/// More than the parts that a commit or a body can have.
#[tokio::test]
#[ignore = "needs a minute: it writes 400 MB"]
async fn a_snapshot_may_have_any_size() {
    const PIECES: u32 = 6_500;
    let dir = tempfile::tempdir().expect("a directory");
    let journal = on_disk(dir.path());
    let (mut opened, mut heard) = open(&journal, "w").await;
    append_all(&mut opened.writer, &mut heard, 1..=2).await;
    let piece = |number: u32| Bytes::from(number.to_le_bytes().repeat(16 * 1024));
    write_snapshot(&mut *opened.writer, 2, (0..PIECES).map(piece), 2);
    journal.close().await.expect("closes");
    let journal = on_disk(dir.path());
    let (opened, _heard) = open(&journal, "w").await;
    let found = opened.snapshot.expect("there is one").pieces;
    for (number, found) in (0..PIECES).zip(found) {
        assert!(found.expect("is read") == piece(number), "piece {number}");
    }
    journal.close().await.expect("closes");
}

/// While it is read, others write: records, bodies, snapshots, and what is not needed any more.
#[tokio::test]
async fn a_cut_is_of_one_moment_whatever_is_written_and_dropped_meanwhile() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = on_disk(dir.path());
    let (opened, mut heard) = open(&journal, "w").await;
    let mut writer = opened.writer;
    append_all(&mut writer, &mut heard, 1..=2).await;
    write_snapshot(&mut *writer, 2, snapshot_pieces(), 1);
    writer.append(with_body(3, "a", "a file"));
    writer.append(with_body(4, "b", vec![1; 20_000]));
    heard.durable(4).await;

    let cut = journal.cut().await.expect("a cut");
    let before = cut.verify(|_| ControlFlow::Continue(())).expect("it is whole");
    // The same bytes under the same name, as with a file that is sent again; and a new body.
    writer.append(with_body(5, "a", "a file"));
    writer.append(with_body(6, "c", "later"));
    heard.durable(6).await;
    for snapshot in 1..=3 {
        let next = 6 + 100 * snapshot;
        append_all(&mut writer, &mut heard, next - 99..=next).await;
        write_snapshot(&mut *writer, next, snapshot_pieces(), next);
    }
    let (elsewhere, mut told) = open(&journal, "another").await;
    let mut elsewhere = elsewhere.writer;
    elsewhere.append(with_body(1, "a", "another's"));
    told.durable(1).await;

    let there: Vec<_> = cut.workspaces().collect();
    assert_eq!(there.len(), 1, "{there:?}");
    assert_eq!((there[0].snapshot.get(), there[0].last.get()), (2, 4));
    let pieces = read_snapshot(cut.snapshot(&id("w"))).expect("its snapshot");
    assert_eq!(pieces, (2, snapshot_pieces()));
    let records = cut.read(&id("w"), 3.into(), 100).expect("its records");
    let found: Vec<u64> = records.iter().map(|it| it.sequence.get()).collect();
    assert_eq!(found, [3, 4]);
    let mut bodies = Vec::new();
    while let Ok(page) = cut.bodies(&id("w"), bodies.last().map(|(key, _)| key))
        && !page.is_empty()
    {
        bodies.extend(page);
    }
    let lengths: Vec<(&str, usize)> =
        bodies.iter().map(|(BodyKey(key), body)| (key.as_str(), body.len())).collect();
    assert_eq!(lengths, [("a", 6), ("b", 20_000)]);
    assert_eq!(cut.verify(|_| ControlFlow::Continue(())).expect("it is whole"), before);
    assert!(matches!(cut.verify(|_| ControlFlow::Break(())), Err(JournalError::Closed)));

    // A body that takes another's place is in no cut that began before.
    writer.append(with_body(307, "b", "shorter"));
    heard.durable(307).await;
    assert!(cut.bodies(&id("w"), None).is_err());
    drop(cut);
    journal.close().await.expect("closes");
    verify(dir.path()).expect("it is whole");
}

/// What is queued behind a removal stays, and a cut keeps all that there was.
#[tokio::test]
async fn bodies_are_removed_in_their_turn_and_under_no_cut() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = on_disk(dir.path());
    let (opened, mut heard) = open(&journal, "w").await;
    let mut writer = opened.writer;
    writer.append(with_body(1, "a", vec![1; 20_000]));
    writer.append(with_body(2, "b", "stays"));
    heard.durable(2).await;
    let keys = || vec![BodyKey("a".to_owned()), BodyKey("never".to_owned())];
    let names = |journal: &SledJournal| journal.body_names(&id("w"), None).expect("names");

    let cut = journal.cut().await.expect("a cut");
    let (done, told) = oneshot::channel();
    writer.remove(keys(), done);
    assert!(told.await.is_err(), "a cut has it");
    assert_eq!(names(&journal), [(keys().remove(0), 20_000), (BodyKey("b".to_owned()), 5)]);
    drop(cut);

    let (done, told) = oneshot::channel();
    writer.remove(keys(), done);
    told.await.expect("it is removed");
    assert_eq!(names(&journal), [(BodyKey("b".to_owned()), 5)]);
    let (done, told) = oneshot::channel();
    writer.remove(vec![BodyKey("b".to_owned())], done);
    writer.append(with_body(3, "b", "again"));
    heard.durable(3).await;
    told.await.expect("it is removed");
    assert_eq!(
        journal.body(&id("w"), &BodyKey("b".to_owned())).expect("is read").as_deref(),
        Some(&b"again"[..])
    );
    journal.close().await.expect("closes");
    let report = verify(dir.path()).expect("it is whole");
    assert_eq!(report.bodies(), 1);
}
