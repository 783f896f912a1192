//! What waits, in which order, and what is left of it on disk.

use std::fs;

use tasuki_proto::wire;

use super::*;

fn new(role: &str, text: &str) -> New {
    let request = wire::SendRequest { text: text.to_owned(), ..wire::SendRequest::default() };
    New {
        workspace: "default".parse().expect("an id"),
        role: role.parse().expect("an id"),
        key: IdempotencyKey { client: "mail-0".parse().expect("an id"), counter: 1 },
        may_have_reached: false,
        queued_ms: 0,
        tried_ms: None,
        what: What::Send(Box::new(request)),
    }
}

fn entry(number: u64, failed: Option<bool>) -> Entry {
    let New { workspace, role, key, may_have_reached, queued_ms, tried_ms, what } = new("A", "x");
    let failed = failed.map(|is_told| Failed {
        at_ms: 0,
        reason: "unknown_role".to_owned(),
        message: "m".to_owned(),
        is_told,
    });
    Entry { number, workspace, role, key, may_have_reached, queued_ms, tried_ms, what, failed }
}

fn open(data: &Path) -> Outbox {
    Outbox::open(data).expect("a directory")
}

fn numbers(outbox: &Outbox) -> Vec<u64> {
    outbox.list().into_iter().map(|it| it.number).collect()
}

async fn text(outbox: &Outbox, number: u64) -> Option<String> {
    match outbox.get(number).await.expect("the disk works")?.what {
        What::Send(request) => Some(request.text),
        What::Move(_) => panic!("a letter"),
    }
}

#[tokio::test]
async fn what_is_kept_is_there_after_a_restart_in_its_order() {
    let data = tempfile::tempdir().expect("a directory");
    let (workspace, a) = ("default".parse().expect("id"), "A".parse().expect("id"));
    let outbox = open(data.path());
    for (role, said) in [("A", "one"), ("B", "two"), ("A", "three")] {
        outbox.keep(new(role, said)).await.expect("there is room");
    }
    drop(outbox);
    let outbox = open(data.path());
    assert_eq!(numbers(&outbox), [1, 2, 3]);
    assert_eq!(outbox.roles(&workspace).len(), 2);
    assert_eq!(outbox.roles(&"other".parse().expect("id")), []);
    assert_eq!(outbox.next(&workspace, &a), Some(1));
    assert_eq!(text(&outbox, 1).await.as_deref(), Some("one"));
    assert!(outbox.remove(1).await.expect("the disk works"));
    assert!(!outbox.remove(1).await.expect("the disk works"), "it is gone");
    assert_eq!(outbox.next(&workspace, &a), Some(3));
    drop(outbox);
    let outbox = open(data.path());
    assert_eq!(numbers(&outbox), [2, 3]);
    assert_eq!(outbox.keep(new("A", "four")).await.expect("there is room").number, 4);
}

#[tokio::test]
async fn what_failed_waits_for_a_person_and_then_goes_in_its_old_place() {
    let data = tempfile::tempdir().expect("a directory");
    let outbox = open(data.path());
    let (workspace, a) = ("default".parse().expect("id"), "A".parse().expect("id"));
    for said in ["one", "two"] {
        outbox.keep(new("A", said)).await.expect("there is room");
    }
    let first = outbox.get(1).await.expect("the disk works").expect("there");
    let failed = entry(1, Some(false)).failed.expect("failed");
    outbox.fail(&first, failed.clone()).await.expect("the disk works");
    assert_eq!(outbox.counts(), Counts { queued: 1, failed: 1 });
    assert_eq!(outbox.next(&workspace, &a), Some(2));
    let b = "B".parse().expect("id");
    outbox.mark_told(&b, Untold::of(outbox.list())).await.expect("the disk works");
    let numbers = |it: &Untold| it.entries.iter().map(|it| it.number).collect::<Vec<_>>();
    let untold = |role, max| numbers(&outbox.untold(role, max));
    assert_eq!((untold(&a, 9), untold(&a, 0), untold(&b, 9)), (vec![1], Vec::new(), Vec::new()));
    // While one answer tells it, until that is known on disk, no other does.
    let told = outbox.untold(&a, 9);
    assert_eq!((numbers(&told), untold(&a, 9)), (vec![1], Vec::new()));
    drop(told);
    let told = outbox.untold(&a, 9);
    assert_eq!(numbers(&told), [1], "its answer was never written");
    let marking = outbox.mark_told(&a, told);
    assert!(untold(&a, 9).is_empty());
    marking.await.expect("the disk works");
    assert!(untold(&a, 9).is_empty());
    outbox.mark_told(&a, Untold::of(outbox.list())).await.expect("the disk works");
    drop(outbox);
    let outbox = open(data.path());
    assert_eq!(outbox.list()[0].failed, Some(Failed { is_told: true, ..failed }));
    assert_eq!(outbox.list()[1].failed, None);
    let key = IdempotencyKey { client: "mail-1".parse().expect("an id"), counter: 1 };
    assert!(!outbox.retry(2, key.clone()).await.expect("the disk works"), "it has not failed");
    assert!(outbox.retry(1, key.clone()).await.expect("the disk works"));
    assert_eq!(outbox.next(&workspace, &a), Some(1));
    let again = outbox.get(1).await.expect("the disk works").expect("there");
    assert_eq!((again.key, again.failed), (key, None));
}

#[tokio::test]
async fn what_goes_out_again_does_not_fail_because_its_agent_is_told_in_that_moment() {
    let data = tempfile::tempdir().expect("a directory");
    let outbox = open(data.path());
    let a = "A".parse().expect("id");
    outbox.keep(new("A", "one")).await.expect("there is room");
    let failed = entry(1, Some(false)).failed.expect("failed");
    let key = IdempotencyKey { client: "mail-1".parse().expect("an id"), counter: 1 };
    for _ in 0..20 {
        let first = outbox.get(1).await.expect("the disk works").expect("there");
        outbox.fail(&first, failed.clone()).await.expect("the disk works");
        let (retried, told) = tokio::join!(
            outbox.retry(1, key.clone()),
            outbox.mark_told(&a, Untold::of(outbox.list()))
        );
        told.expect("the disk works");
        assert!(retried.expect("the disk works"), "it had failed");
        let again = outbox.get(1).await.expect("the disk works").expect("there");
        assert_eq!((again.failed, &again.key), (None, &key));
    }
}

#[test]
fn what_was_never_finished_is_thrown_away_and_what_is_damaged_stays_to_be_seen() {
    let data = tempfile::tempdir().expect("a directory");
    drop(open(data.path()));
    let directory = data.path().join("outbox");
    let bytes = entry(3, None).encode();
    for cut in [0, 1, bytes.len() / 2, bytes.len()] {
        // As `replace` leaves it when it is killed before the name is given.
        let unfinished = directory.join(format!("00000000000000000003.new-{cut}"));
        fs::write(&unfinished, &bytes[..cut]).expect("written");
    }
    fs::write(files::path(&directory, 1), entry(1, None).encode()).expect("written");
    fs::write(files::path(&directory, 2), &bytes[..40]).expect("written");
    fs::write(files::path(&directory, 4), &bytes).expect("written");
    fs::write(directory.join("notes.txt"), "a person's").expect("written");
    let outbox = open(data.path());
    assert_eq!(numbers(&outbox), [1]);
    let Contents { entries, unreadable } = read(data.path()).expect("readable");
    assert_eq!(entries.len(), 1);
    let why: Vec<_> = unreadable.iter().map(|it| it.why.as_str()).collect();
    assert_eq!(why, ["its checksum does not match", "it is entry 3 under another name"]);
    assert_eq!(fs::read_dir(&directory).expect("readable").count(), 4);
}

#[cfg(unix)]
#[tokio::test]
async fn an_entry_that_others_could_have_written_is_not_sent() {
    use std::os::unix::fs::PermissionsExt as _;
    let data = tempfile::tempdir().expect("a directory");
    drop(open(data.path()));
    let path = files::path(&data.path().join("outbox"), 1);
    fs::write(&path, entry(1, None).encode()).expect("written");
    for (mode, is_sent) in [(0o644, true), (0o664, false), (0o602, false)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its owner's");
        let Contents { entries, unreadable } = read(data.path()).expect("readable");
        assert_eq!((entries.len(), unreadable.len()), (usize::from(is_sent), 1 - entries.len()));
        assert!(unreadable.iter().all(|it| it.why.contains("chmod go-w")), "{unreadable:?}");
        assert_eq!(files::get(&path).expect("readable").expect("there").is_ok(), is_sent);
    }
}

#[tokio::test]
async fn the_number_of_a_damaged_entry_is_not_given_again_and_it_can_be_dropped() {
    let data = tempfile::tempdir().expect("a directory");
    drop(open(data.path()));
    let path = files::path(&data.path().join("outbox"), 7);
    fs::write(&path, "not what was written").expect("written");
    let outbox = open(data.path());
    assert_eq!(outbox.keep(new("A", "x")).await.expect("there is room").number, 8);
    assert!(outbox.remove(7).await.expect("the disk works"));
    assert!(!path.exists());
}

#[tokio::test]
async fn an_entry_that_is_damaged_while_the_node_runs_holds_nobody_up() {
    let data = tempfile::tempdir().expect("a directory");
    let outbox = open(data.path());
    for said in ["one", "two"] {
        outbox.keep(new("A", said)).await.expect("there is room");
    }
    fs::write(files::path(&data.path().join("outbox"), 1), "x").expect("written");
    assert_eq!(text(&outbox, 1).await, None);
    let next = outbox.next(&"default".parse().expect("id"), &"A".parse().expect("id"));
    assert_eq!(next, Some(2));
    assert_eq!(read(data.path()).expect("readable").unreadable.len(), 1, "people see it");
}

/// Holds O4.
#[tokio::test]
async fn a_full_outbox_takes_nothing() {
    let data = tempfile::tempdir().expect("a directory");
    let outbox = open(data.path());
    let too_large = new("A", &"x".repeat(ENTRY_BYTES_MAX));
    let refusal = outbox.keep(too_large).await.expect_err("too large").refusal();
    assert_eq!(refusal.reason, Reason::TooLarge);
    outbox.change(|index| index.bytes = BYTES_MAX - 1);
    let refusal = outbox.keep(new("A", "x")).await.expect_err("full").refusal();
    assert_eq!(refusal.reason, Reason::Overloaded);
    outbox.change(|index| {
        index.bytes = 0;
        for number in 1..=ENTRIES_MAX as u64 {
            index.insert(&entry(number, None), 1);
        }
    });
    let refusal = outbox.keep(new("A", "x")).await.expect_err("full").refusal();
    assert_eq!(refusal.reason, Reason::Overloaded);
    assert!(refusal.message.contains("No change was made"), "{refusal}");
    assert_eq!(fs::read_dir(data.path().join("outbox")).expect("readable").count(), 0);
}

#[tokio::test]
async fn a_disk_that_takes_nothing_is_named_and_nothing_is_called_queued() {
    let data = tempfile::tempdir().expect("a directory");
    let outbox = open(data.path());
    let directory = data.path().join("outbox");
    fs::remove_dir(&directory).expect("removed");
    fs::write(&directory, "in its place").expect("written");
    let refusal = outbox.keep(new("A", "x")).await.expect_err("no directory").refusal();
    assert_eq!(refusal.reason, Reason::Unavailable);
    assert!(refusal.message.contains("No change was made"), "{refusal}");
    assert_eq!(outbox.counts(), Counts::default());
}

/// Holds O4.
#[tokio::test]
async fn of_too_many_that_failed_the_oldest_that_was_told_goes() {
    let data = tempfile::tempdir().expect("a directory");
    let outbox = open(data.path());
    let last = FAILED_MAX as u64 + 1;
    outbox.change(|index| {
        for number in 1..last {
            index.insert(&entry(number, Some(number == 5)), 1);
        }
        index.insert(&entry(last, None), 1);
    });
    let failed = entry(last, Some(false)).failed.expect("failed");
    outbox.fail(&entry(last, None), failed.clone()).await.expect("the disk works");
    assert!(numbers(&outbox).iter().all(|number| *number != 5), "its agent knows of it");
    assert_eq!(outbox.counts().failed, FAILED_MAX);
    outbox.change(|index| index.insert(&entry(last + 1, None), 1));
    outbox.fail(&entry(last + 1, None), failed).await.expect("the disk works");
    assert_eq!((numbers(&outbox)[0], outbox.counts().failed), (2, FAILED_MAX));
}

#[cfg(unix)]
#[tokio::test]
async fn nobody_else_reads_what_waits() {
    use std::os::unix::fs::PermissionsExt as _;
    let data = tempfile::tempdir().expect("a directory");
    open(data.path()).keep(new("A", "x")).await.expect("there is room");
    let directory = data.path().join("outbox");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(&directory), mode(&files::path(&directory, 1))), (0o700, 0o600));
}
