//! A node whose disk is full: what cannot be kept is not called queued.

use std::{path::Path, process::Command};

use serde_json::{Value, json};
use tasuki_proto::wire;

use crate::{
    book::Book,
    http::{Client, text},
    process::{Process, soon},
    stored::{outbox, queued},
};

/// Some letters.
const DISK: &str = "size=64k";

/// A small disk; unmounted when dropped.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(place: &'a Path) -> Result<Self, String> {
        run(&["mount", "-t", "tmpfs", "-o", DISK, "tasuki-test"], place)?;
        Ok(Self(place))
    }

    fn grow(&self) {
        run(&["mount", "-o", "remount,size=10m"], self.0).unwrap();
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
async fn what_a_full_disk_does_not_take_is_refused_and_what_it_took_is_sent() {
    let place = tempfile::tempdir().unwrap();
    let kept = place.path().join("a/outbox");
    std::fs::create_dir_all(&kept).unwrap();
    let disk = match SmallDisk::mount(&kept) {
        Ok(disk) => disk,
        Err(why) => {
            return anstream::println!("skipped: no small disk can be mounted here: {why}");
        }
    };
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
    assert!(words.contains("Nothing of it was taken"), "{words}");
    assert!(words.contains("No space left"), "{words}");
    assert_eq!(queued(&node).await, taken as u64);
    // Also for whoever looks after a crash.
    node.kill().await;
    node.start().await;
    assert_eq!(outbox(&node).await.len(), taken);
    let a = Client::new(node.mcp, "/mcp/A").await;
    assert_eq!(send(&a, taken).await["isError"], true);
    disk.grow();
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
