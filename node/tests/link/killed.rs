//! `kill -9` of whoever keeps letters, at each thing it does to the disk.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use tasuki_node::outbox::{self, New, Outbox, What};
use tasuki_proto::{id::IdempotencyKey, wire};

/// Says where the other process is to work, and that it is the other process.
const PLACE: &str = "TASUKI_TEST_OUTBOX";

/// Letters that it keeps, takes away, or has fail: one of three each.
const LETTERS: u64 = 6;

fn new(number: u64) -> New {
    let request =
        wire::SendRequest { text: format!("letter {number}"), ..wire::SendRequest::default() };
    New {
        workspace: "default".parse().expect("an id"),
        role: "A".parse().expect("an id"),
        key: IdempotencyKey { client: "mail-0".parse().expect("an id"), counter: number },
        may_have_reached: false,
        queued_ms: 0,
        tried_ms: None,
        what: What::Send(Box::new(request)),
    }
}

/// The other process: it says what is done once it is.
#[tokio::test]
#[ignore = "needs the test below: that starts it"]
#[expect(clippy::print_stdout, reason = "this is how it tells the one that started it")]
async fn the_one_that_is_killed() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let outbox = Outbox::open(Path::new(&place)).expect("a directory");
    for number in 1..=LETTERS {
        let kept = outbox.keep(new(number)).await.expect("there is room");
        println!("did kept {}", kept.number);
        let entry = outbox.get(number).await.expect("the disk works").expect("there");
        match number % 3 {
            0 => {}
            1 => {
                outbox.remove(number).await.expect("the disk works");
                println!("did sent {number}");
            }
            _ => {
                let failed = outbox::Failed {
                    at_ms: 1,
                    reason: "unknown_role".to_owned(),
                    message: "m".to_owned(),
                    is_told: false,
                };
                outbox.fail(&entry, failed).await.expect("the disk works");
                println!("did failed {number}");
            }
        }
    }
    println!("did all 0");
}

/// What was said to be done before the `nth` such call of the system killed it.
fn killed_at(place: &Path, call: &str, nth: usize) -> Vec<(String, u64)> {
    let inject = format!("inject={call}:signal=SIGKILL:when={nth}");
    let mut child = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject])
        .arg(std::env::current_exe().expect("a program"))
        .args(["--exact", "killed::the_one_that_is_killed", "--ignored", "--nocapture"])
        .env(PLACE, place)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("strace");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let said = lines.map_while(Result::ok).filter_map(|line| {
        let (_, said) = line.split_once("did ")?;
        let (what, number) = said.split_once(' ')?;
        Some((what.to_owned(), number.trim().parse().ok()?))
    });
    let said = said.collect();
    child.wait().expect("it ends");
    said
}

#[test]
#[ignore = "needs strace"]
fn whatever_was_said_to_be_done_is_whenever_it_is_killed() {
    const CALLS_MAX: usize = 200;
    for call in [
        "openat",
        "write",
        "fsync,fdatasync",
        "rename,renameat,renameat2",
        "unlink,unlinkat",
        "mkdir",
    ] {
        let mut kills = 0;
        for nth in 1.. {
            assert!(nth < CALLS_MAX, "it never ends");
            let place = tempfile::tempdir().expect("a directory");
            let said = killed_at(place.path(), call, nth);
            check(place.path(), &said, &format!("{call} {nth}"));
            if said.iter().any(|(what, _)| what == "all") {
                break;
            }
            kills += 1;
        }
        assert!(0 < kills, "{call} is not among what it does");
    }
}

fn check(place: &Path, said: &[(String, u64)], when: &str) {
    let has_said = |what: &str, number| said.contains(&(what.to_owned(), number));
    let outbox = Outbox::open(place).unwrap_or_else(|why| panic!("{when}: {why}"));
    let contents = outbox::read(place).expect("readable");
    assert_eq!(contents.unreadable, [], "{when}");
    assert_eq!(contents.entries.len(), outbox.list().len(), "{when}");
    let last = said.iter().map(|(_, number)| *number).max().unwrap_or(0);
    for number in 1..=LETTERS {
        let found = contents.entries.iter().find(|(entry, _)| entry.number == number);
        if has_said("kept", number) && number % 3 != 1 {
            let (entry, _) = found.unwrap_or_else(|| panic!("{when}: {number} is lost"));
            assert_eq!(entry.what, new(number).what, "{when}: {number}");
        }
        if has_said("sent", number) {
            assert!(found.is_none(), "{when}: {number} is back");
        }
        if has_said("failed", number) {
            assert!(found.is_some_and(|(it, _)| it.failed.is_some()), "{when}: {number} goes on");
        }
        assert!(number <= last + 1 || found.is_none(), "{when}: {number} from nowhere");
    }
}
