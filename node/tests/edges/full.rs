//! A node whose disk is full: what cannot be kept is not called queued. A broker whose disk is full:
//! it ends, and who wrote hears why, or that it was done by the one that came after it.

use std::{path::Path, process::Command};

use serde_json::{Value, json};
use tasuki_proto::wire;

use crate::{
    agents::{Agent, Transport},
    book::Book,
    http::{Client, text},
    process::{Process, soon, tasuki},
    stored::{outbox, queued},
};

/// Some letters.
const SMALL: &str = "size=64k";

/// A log and a database, and some issues with long documents.
const LARGER: &str = "size=14m";

/// A small disk; unmounted when dropped.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(place: &'a Path, size: &str) -> Self {
        // As a data directory is: nobody else's to write to.
        let options = format!("{size},mode=700");
        run(&["mount", "-t", "tmpfs", "-o", &options, "tasuki-test"], place).unwrap();
        Self(place)
    }

    fn grow(&self, size: &str) {
        run(&["mount", "-o", &format!("remount,{size}")], self.0).unwrap();
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = run(&["umount", "-l"], self.0);
    }
}

fn run(words: &[&str], place: &Path) -> Result<(), String> {
    let output = Command::new(words[0]).args(&words[1..]).arg(place).output();
    let output = output.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(said) }
}

#[tokio::test]
#[ignore = "needs small disks: it mounts one"]
async fn what_a_full_disk_does_not_take_is_refused_and_what_it_took_is_sent() {
    let place = tempfile::tempdir().unwrap();
    let kept = place.path().join("a/outbox");
    std::fs::create_dir_all(&kept).unwrap();
    let disk = SmallDisk::mount(&kept, SMALL);
    let mut broker = Process::broker(&place.path().join("broker"), "").await;
    let address = broker.broker.unwrap();
    let mut node = Process::node(&place.path().join("a"), address, "--role A --role C").await;
    broker.kill().await;
    let a = Client::new(node.mcp, "/mcp/A").await;
    let letter = |number: usize| {
        json!({ "receiver_id": "C", "msg_type": "BR", "title": format!("letter {number}"),
            "content": "x".repeat(5000) })
    };
    let send = async |client: &Client, number: usize| -> Value {
        soon(client.call("filebox_send_message", letter(number))).await
    };
    let mut taken = 0;
    let refused = loop {
        let answer = send(&a, taken).await;
        if answer["isError"] == true {
            break answer;
        }
        assert_eq!(answer["structuredContent"]["queued"], taken + 1, "{answer}");
        taken += 1;
    };
    assert!(2 < taken, "{refused}");
    assert_eq!(refused["structuredContent"]["error"]["code"], "unavailable", "{refused}");
    let words = text(&refused);
    assert!(words.contains("No change was made"), "{words}");
    assert!(words.contains("No space left"), "{words}");
    assert_eq!(queued(&node).await, taken as u64);
    // Also for whoever looks after a crash.
    node.kill().await;
    node.start().await;
    assert_eq!(outbox(&node).await.len(), taken);
    let a = Client::new(node.mcp, "/mcp/A").await;
    assert_eq!(send(&a, taken).await["isError"], true);
    disk.grow("size=10m");
    let answer = send(&a, taken).await;
    assert_eq!(answer["structuredContent"]["queued"], taken + 1, "{answer}");
    broker.start().await;
    let sent = async {
        while queued(&node).await != 0 {
            tokio::task::yield_now().await;
        }
    };
    soon(sent).await;
    let inbox = Book::open(address).await.listed("C", wire::Box::Inbox).await;
    let subjects: Vec<_> = inbox.iter().map(|it| it.subject.clone()).collect();
    let said: Vec<_> = (0..=taken).map(|number| format!("letter {number}")).collect();
    assert_eq!(subjects, said);
}

/// Creates issues with long documents until one is refused, which is given with how many there are.
async fn fill(mut lead: Agent, mut count: usize) -> (Agent, Value, usize) {
    loop {
        let doc =
            |name: &str| json!({ "name": name, "content": format!("{count} ").repeat(60_000) });
        let words = json!({ "subject": format!("issue {count}"), "user_issue_doc": doc("wish"),
            "lead_issue_doc": doc("reading") });
        let told = lead.call("createIssue", words).await.unwrap();
        if told["isError"] == true || count == ISSUES_MAX {
            return (lead, told, count);
        }
        count += 1;
    }
}

/// More than fit on the smaller disk, and fewer than on the larger.
const ISSUES_MAX: usize = 200;

#[tokio::test]
#[ignore = "needs small disks: it mounts one"]
async fn a_full_disk_of_the_broker_is_told_and_what_waits_is_done_by_the_next() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("broker");
    std::fs::create_dir_all(&data).unwrap();
    let disk = SmallDisk::mount(&data, LARGER);
    let mut broker = Process::broker(&data, "").await;
    let address = broker.broker.unwrap();
    let node = Process::node(&place.path().join("lead"), address, "--role lead").await;
    let lead = Agent::new(Transport::Session, "lead", node.mcp, node.data.clone()).await;

    // One that a supervisor starts again, with room: the call that was under way goes through.
    let filling = tokio::spawn(fill(lead, 0));
    broker.ended().await;
    disk.grow("size=17m");
    broker.start().await;
    // And one that stays away once its disk is full again.
    broker.ended().await;
    let (mut lead, told, count) = soon(filling).await.unwrap();
    let error = &told["structuredContent"]["error"];
    assert_eq!(error["code"], "outcome_unknown", "{told}");
    assert_eq!(error["maybe_applied"], true, "{told}");
    let words = text(&told);
    assert!(words.contains("No space left") && words.contains("may or may not"), "{words}");

    disk.grow("size=100m");
    broker.start().await;
    let listed = async {
        loop {
            let told = lead.call("listIssues", json!({})).await.unwrap();
            if told["isError"] != true {
                return told["structuredContent"]["total"].as_u64().unwrap();
            }
        }
    };
    // Each once, and perhaps the one of which nobody knew.
    let there = soon(listed).await;
    assert!((count as u64..=count as u64 + 1).contains(&there), "{there} of {count}");
}

#[tokio::test]
#[ignore = "needs small disks: it mounts one"]
async fn a_start_on_a_disk_that_takes_nothing_says_what_to_do() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let disk = SmallDisk::mount(&data, SMALL);
    let fails = async |expected: &str| {
        for line in ["up --broker-listen 127.0.0.1:0", "up --detach", "node"] {
            let mut command = tasuki(&data);
            command.args(line.split_whitespace()).args(["--listen", "127.0.0.1:0", "--data"]);
            let output = soon(command.arg(&data).output()).await.unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(5), "{line}: {said}");
            let told = format!("Nothing can be written to {}: its {expected}", data.display());
            assert!(said.contains(&told) && said.contains("--data DIR"), "{line}: {said}");
        }
    };
    // As much as fits.
    std::fs::write(data.join("fill"), vec![0; 128 * 1024]).unwrap_err();
    fails("disk is full").await;
    std::fs::remove_file(data.join("fill")).unwrap();
    disk.grow("ro");
    fails("file system is read-only").await;
}
