//! `tasuki mail …` against a real broker.

#[path = "mail_untold.rs"]
mod untold;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tasuki_proto::{
    limits::{ATTACHMENT_BYTES_MAX, BOX_PAGE},
    wire::{self, mailbox_client::MailboxClient},
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::Command,
};

use crate::{
    Said,
    process::{Process, soon, tasuki},
};

/// A broker with the roles A and B, and people at its commands.
struct Office {
    place: tempfile::TempDir,
    up: Process,
}

impl Office {
    async fn open() -> Self {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        fs::create_dir(&data).unwrap();
        let up = Process::up(&data, "").await;
        Self { place, up }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = tasuki(&self.up.data);
        command.arg("mail").args(args).arg("--data").arg(&self.up.data);
        command.env_remove("VISUAL").env_remove("EDITOR").env("TZ", "UTC");
        command
    }

    async fn run(&self, args: &[&str]) -> Said {
        Said::of(&soon(self.command(args).output()).await.unwrap())
    }

    /// The lines of JSON that a command prints, which must end so.
    async fn json(&self, code: i32, args: &[&str]) -> Vec<Value> {
        let said = self.run(&[args, &["--json"]].concat()).await;
        assert_eq!(said.code, code, "{args:?}: {said:?}\n{}", self.up.log());
        said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Sends from A to B, and names the thread.
    async fn send(&self, more: &[&str]) -> String {
        let told = self.json(0, &[&["send", "--role", "A", "--to", "B"], more].concat()).await;
        told[0]["message_id"].as_str().unwrap().to_owned()
    }

    /// An editor that does what a script says with `$1`.
    fn editor(&self, script: &str) -> PathBuf {
        let path = self.path("my editor");
        fs::write(&path, format!("#!/bin/sh\nset -e\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    async fn edit(&self, script: &str, args: &[&str]) -> Said {
        let editor = format!("'{}'", self.editor(script).display());
        let mut command = self.command(args);
        Said::of(&soon(command.env("EDITOR", editor).output()).await.unwrap())
    }

    fn drafts(&self) -> Vec<PathBuf> {
        let Ok(inside) = fs::read_dir(self.up.data.join("drafts")) else { return Vec::new() };
        inside.map(|it| it.unwrap().path()).collect()
    }
}

impl Said {
    /// What was printed, with the id and times of a test replaced.
    fn golden(&self, id: &str) -> String {
        let text = self.out.replace(id, "ID").replace(&id[..8], "SHORT");
        let lines = text.lines().map(|line| {
            let words = line.split(' ').map(|word| match word {
                day if is_like(day, "dddd-dd-dd") => "DAY",
                time if is_like(time, "dd:dd:ddZ") => "TIME",
                time if is_like(time, "dd:dd:ddZ,") => "TIME,",
                file if file.ends_with("-SHORT.md") => &file["2026-11-21_2042".len()..],
                word => word,
            });
            words.collect::<Vec<_>>().join(" ").trim_end().to_owned() + "\n"
        });
        lines.collect()
    }
}

/// Whether a word is made like a pattern, in which `d` is a digit.
fn is_like(word: &str, pattern: &str) -> bool {
    let fits = |(c, p): (char, char)| if p == 'd' { c.is_ascii_digit() } else { c == p };
    word.len() == pattern.len() && word.chars().zip(pattern.chars()).all(fits)
}

fn sorted(mut value: Value, without: &[&str]) -> Value {
    for name in without {
        value.as_object_mut().unwrap().remove(*name);
    }
    value
}

#[tokio::test]
async fn two_people_write_to_each_other() {
    let office = Office::open().await;
    let empty = office.run(&["list", "--role", "B"]).await;
    assert_eq!((empty.code, empty.out.as_str()), (0, "The inbox of B is empty.\n"));

    let text = "# Login fails\n\nsince *yesterday*:\n\n    502";
    let id = office.send(&["--type", "BR", text]).await;
    let listed = office.run(&["list", "--role", "B"]).await;
    assert_eq!(
        listed.golden(&id),
        "  NEW TYPE   WHO            WHEN                 ID       SUBJECT
    1 BR     A              DAY TIME SHORT Login fails
"
    );
    let read = office.run(&["read", &id[..6], "--role", "B"]).await;
    assert_eq!(
        read.golden(&id),
        "Login fails
  message       ID
  file          -BR-login-fails-SHORT.md
  box           inbox
  between       A, B
  thread        1 entry, 1 unseen

#1 A → B BR DAY TIME
    # Login fails

    since *yesterday*:

        502
"
    );
    let sent = office.run(&["reply", &id, "Fixed.", "--type", "ACK", "--role", "B"]).await;
    assert_eq!(
        sent.golden(&id),
        "Sent ID as entry 2.
  file          -BR-login-fails-SHORT.md
  A             stored DAY TIME
"
    );
    let thread = office.run(&["thread", &id, "--last", "1", "--role", "A"]).await;
    assert_eq!(
        thread.golden(&id),
        "Login fails
  message       ID
  file          -BR-login-fails-SHORT.md
  box           inbox
  between       A, B
  thread        2 entries, 1 unseen

#2 B → A ACK DAY TIME
    Fixed.
  A             stored DAY TIME
"
    );
    let receipts = office.run(&["receipts", &id, "--role", "A"]).await;
    assert_eq!(
        receipts.golden(&id),
        "#1 A → B BR DAY TIME
  B             stored DAY TIME, handed DAY TIME, seen DAY TIME, acted DAY TIME
#2 B → A ACK DAY TIME
  A             stored DAY TIME, handed DAY TIME, seen DAY TIME
"
    );
    let outbox = office.run(&["list", "outbox", "--role", "B"]).await;
    assert!(outbox.out.ends_with(" Login fails\n") && outbox.out.contains(" → A "), "{outbox:?}");
}

#[tokio::test]
async fn programs_read_mail_line_by_line() {
    let office = Office::open().await;
    let id = office.send(&["--type", "URGENT", "--subject", "down", "it is down"]).await;
    let listed = office.json(0, &["list", "--role", "B", "--from", "A"]).await;
    let times = ["latest_ms", "file_name"];
    assert_eq!(
        sorted(listed[0].clone(), &times),
        json!({
            "message_id": id, "subject": "down", "type": "URGENT", "original_sender": "A",
            "box": "inbox", "entries": 1, "unseen": 1, "latest_type": "URGENT",
            "latest_sender": "A", "latest_receivers": ["B"], "is_urgent": true, "is_dead": false,
            "is_sealed": false, "participants": ["A", "B"], "handed": 0, "handed_through": 0, "seen_through": 0,
            "first_unseen": 1,
        })
    );
    let peeked = office.json(0, &["read", &id, "--peek", "--role", "B"]).await;
    let without = ["at_ms", "receipts", "file_name", "node", "token", "latest_ms"];
    assert_eq!(
        sorted(peeked[0].clone(), &without),
        json!({
            "cause": null, "hops": 0,
            "message_id": id, "subject": "down", "box": "inbox", "entries": 1, "number": 1, "original_sender": "A",
            "latest_type": "URGENT", "latest_sender": "A", "latest_receivers": ["B"], "handed": 0,
            "handed_through": 0, "seen_through": 0, "first_unseen": 1,
            "sender": "A", "receivers": ["B"], "type": "URGENT", "text": "it is down",
            "attachments": [], "expires_ms": 0, "is_imported": false, "written_ms": 0,
            "sealed": null, "unseen": 1, "participants": ["A", "B"], "is_urgent": true,
            "is_dead": false, "is_sealed": false,
        })
    );
    let boxes = office.json(0, &["mailboxes"]).await;
    let b = boxes[0]["mailboxes"].as_array().unwrap().iter().find(|it| it["role"] == "B").unwrap();
    assert_eq!((&b["inbox"], &b["unseen"]), (&json!(1), &json!(1)), "peeking sees nothing");
    assert!(office.json(0, &["list", "--role", "B", "--type", "BR,ACK"]).await.is_empty());
    assert!(office.json(0, &["dead", "--role", "B"]).await.is_empty());
}

#[tokio::test]
async fn several_threads_are_settled_each_by_itself() {
    let office = Office::open().await;
    let (one, two) = (office.send(&["one"]).await, office.send(&["two"]).await);
    let line = ["resolve", &one, "ffff0000", &two, "--role", "B"];
    let told = office.json(1, &line).await.remove(0);
    let moved = told["moved"].as_array().unwrap();
    assert_eq!((&moved[0]["box"], &moved[0]["refusal"]), (&json!("done"), &Value::Null));
    assert_eq!(moved[1]["refusal"]["reason"], "unknown_message");
    assert_eq!(moved[2]["message_id"], *two);
    let said = office.run(&line).await;
    assert_eq!((said.code, said.out.lines().count(), said.err.as_str()), (1, 3, ""), "{said:?}");
    assert!(said.out.contains("ffff0000 was not moved: "), "{said:?}");
    let three = office.send(&["three"]).await;
    assert_eq!(
        office.json(0, &["reject", &three, "--role", "B"]).await[0]["moved"][0]["box"],
        "cancel"
    );
}

#[tokio::test]
async fn what_others_write_cannot_steer_a_terminal() {
    let office = Office::open().await;
    let hostile = "see \u{1b}[2J\u{1b}]0;owned\u{7} `\u{202e}evil` \u{9b}31m \u{200b}\u{e0041}|x|";
    let (text, log) = (format!("{hostile}\n# {hostile}\n- {hostile}"), office.path("log"));
    fs::write(&log, "x").unwrap();
    let to = [log.to_str().unwrap()];
    let id = office.send(&["--subject", "re\u{202e}port", "--attach", to[0], &text]).await;
    let all: [&[&str]; 6] = [
        &["list"],
        &["read", &id, "--peek"],
        &["thread", &id, "--peek"],
        &["receipts", &id],
        &["wait", "--timeout", "0"],
        &["read", &id, "--json"],
    ];
    for args in all {
        for is_colored in [false, true] {
            let mut command = office.command(&[args, &["--role", "B"]].concat());
            if is_colored {
                command.env_remove("NO_COLOR").env("CLICOLOR_FORCE", "1");
            }
            let said = Said::of(&soon(command.output()).await.unwrap());
            assert_eq!(said.code, 0, "{args:?}: {said:?}");
            let steers = |c: char| {
                "\u{7}\u{9b}\u{202e}\u{200b}\u{e0041}".contains(c) || (c == '\u{1b}' && !is_colored)
            };
            assert!(!said.out.contains(steers), "{args:?}: {said:?}");
            assert!(!said.out.contains("\u{1b}[2J") && !said.out.contains("\u{1b}]"), "{said:?}");
            assert_eq!(said.out.contains('\u{1b}'), is_colored && !args.contains(&"--json"));
        }
    }
}

#[tokio::test]
async fn mail_is_written_in_an_editor() {
    let office = Office::open().await;
    let seen = office.path("seen");
    let script = format!(
        "cp \"$1\" '{}'; printf '# A head\\n\\nwords\\n' > \"$1.new\"; cat \"$1\" >> \"$1.new\"; mv \"$1.new\" \"$1\"",
        seen.display()
    );
    let said =
        office.edit(&script, &["send", "--edit", "--to", "B", "--role", "A", "--json"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    let sent: Value = serde_json::from_str(&said.out).unwrap();
    let id = sent["message_id"].as_str().unwrap();
    let read = office.json(0, &["read", id, "--peek", "--role", "B"]).await;
    assert_eq!(
        (&read[0]["text"], &read[0]["subject"]),
        (&json!("# A head\n\nwords"), &json!("A head"))
    );
    assert!(fs::read_to_string(&seen).unwrap().contains("//~ INFO from A to B: "));

    // Who answers in an editor has read what is quoted there.
    let said = office.edit(&script, &["reply", id, "--edit", "--role", "B", "--json"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    let quoted = fs::read_to_string(&seen).unwrap();
    assert!(quoted.contains("\n//~ > # A head\n//~ >\n//~ > words\n"), "{quoted}");
    let sent: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(sent["box"], "outbox");
    assert_eq!(office.drafts(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_text_that_cannot_be_sent_is_kept() {
    let office = Office::open().await;
    let line = ["send", "--edit", "--role", "A", "--to"];
    let said = office.edit("echo precious > \"$1\"", &[&line[..], &["nobody"]].concat()).await;
    assert_eq!(said.code, 1, "{said:?}");
    let drafts = office.drafts();
    assert_eq!(drafts.len(), 1);
    let kept = drafts[0].to_str().unwrap();
    assert!(said.err.contains("(unknown_role)") && said.err.contains(kept), "{said:?}");
    let id = office.send(&["--file", kept]).await;
    assert_eq!(office.json(0, &["read", &id, "--role", "B"]).await[0]["text"], "precious");
    fs::remove_file(kept).unwrap();

    let said = office.edit("exit 3", &[&line[..], &["B", "begun"]].concat()).await;
    assert_eq!((said.code, office.drafts().len()), (5, 1), "{said:?}");
    fs::remove_file(&office.drafts()[0]).unwrap();
    let said = office.edit("true", &[&line[..], &["B"]].concat()).await;
    assert_eq!((said.code, office.drafts().len()), (2, 0), "{said:?}");
    assert!(said.err.contains("The text is empty; nothing was sent."), "{said:?}");
    let said = office.run(&[&line[..], &["B"]].concat()).await;
    assert!(said.code == 2 && said.err.contains("set VISUAL or EDITOR"), "{said:?}");
    assert_eq!(office.drafts().len(), 0);
}

#[tokio::test]
async fn a_text_comes_through_a_pipe() {
    let office = Office::open().await;
    for args in [&["-"][..], &[], &["--file", "-"]] {
        let line = [&["send", "--to", "B", "--role", "A", "--json"][..], args].concat();
        let mut child =
            office.command(&line).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all("über\n|x|\n".as_bytes()).await.unwrap();
        let said = Said::of(&soon(child.wait_with_output()).await.unwrap());
        let sent: Value = serde_json::from_str(&said.out).unwrap();
        let id = sent["message_id"].as_str().unwrap();
        let read = office.json(0, &["read", id, "--role", "B"]).await;
        assert_eq!(read[0]["text"], "über\n|x|", "{args:?}");
    }
}

#[tokio::test]
async fn what_is_sent_again_under_one_name_is_sent_once() {
    let office = Office::open().await;
    let line = ["send", "--role", "A", "--to", "B", "--ref", "nightly-1", "report"];
    // Killed at once, and killed while it prints: nobody knows whether it was sent.
    for is_late in [false, true, false, true] {
        let mut command = office.command(&line);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        if is_late {
            let mut out = BufReader::new(child.stdout.take().unwrap());
            soon(out.fill_buf()).await.unwrap();
        }
        soon(child.kill()).await.unwrap();
    }
    assert_eq!(office.json(0, &line).await[0]["repeated"], true);
    assert_eq!(office.json(0, &["list", "--role", "B"]).await.len(), 1);
    let other = [&line[..7], &["another report"]].concat();
    let refused = office.json(1, &other).await;
    assert_eq!(refused[0]["error"]["code"], "key_reused", "{refused:?}");
}

#[tokio::test]
async fn files_go_along_and_are_never_written_over() {
    let office = Office::open().await;
    let (log, out) = (office.path("log.txt"), office.path("out"));
    fs::write(&log, vec![b'x'; 700 * 1024]).unwrap();
    let path = |it: &Path| it.to_str().unwrap().to_owned();
    let id = office.send(&["see it", "--attach", &path(&log)]).await;
    for _ in 0..2 {
        let line = ["read", &id, "--role", "B", "--save-attachments", &path(&out)];
        let told = office.json(0, &line).await;
        assert_eq!(told[0]["attachments"][0]["media_type"], "text/plain");
        let saved = told[1]["saved"].as_str().unwrap();
        assert_eq!(fs::read(saved).unwrap(), fs::read(&log).unwrap());
    }
    let mut names: Vec<_> = fs::read_dir(&out).unwrap().map(|it| it.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["log-2.txt", "log.txt"]);

    fs::File::create(&log).unwrap().set_len(ATTACHMENT_BYTES_MAX + 1).unwrap();
    let line = ["send", "--to", "B", "--role", "A", "x", "--attach", &path(&log)];
    assert_eq!(office.json(1, &line).await[0]["error"]["code"], "too_large");
}

#[tokio::test]
async fn a_wait_ends_with_mail_or_says_that_none_came() {
    let office = Office::open().await;
    let none = office.json(7, &["wait", "--role", "B", "--timeout", "0"]).await;
    assert_eq!(none[0]["standing"], "still_waiting");
    let line = ["wait", "--role", "B", "--from", "A", "--type", "BR", "--seen", "--json"];
    let waiting = office.command(&line).stdout(Stdio::piped()).spawn().unwrap();
    office.send(&["passed over"]).await;
    let id = office.send(&["--type", "BR", "waited for"]).await;
    let said = Said::of(&soon(waiting.wait_with_output()).await.unwrap());
    assert_eq!(said.code, 0, "{said:?}");
    let told: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&told["thread"]["message_id"], &told["standing"]), (&json!(id), &json!("mail")));
    assert_eq!(told["entries"][0]["text"], "waited for");
    office.json(7, &["wait", "--role", "B", "--type", "BR", "--timeout", "0"]).await;
    // What was handed and not seen is shown again.
    for _ in 0..2 {
        let again = office.json(0, &["wait", "--role", "B", "--timeout", "0"]).await;
        assert_eq!(again[0]["entries"][0]["text"], "passed over");
    }
}

#[tokio::test]
async fn a_role_that_nobody_knows_is_no_empty_mailbox() {
    let office = Office::open().await;
    let id = office.send(&["x"]).await;
    let lines: [&[&str]; 8] = [
        &["list"],
        &["read", &id],
        &["thread", &id],
        &["wait"],
        &["search", "x"],
        &["receipts", &id],
        &["dead"],
        &["send", "--to", "B", "x"],
    ];
    for line in lines {
        let said = office.run(&[line, &["--role", "TYPO"]].concat()).await;
        assert_eq!(said.code, 1, "{line:?}: {said:?}");
        assert!(said.err.contains("unknown_role"), "{line:?}: {said:?}");
        assert!(said.err.contains("knows no role TYPO") && said.err.contains("It knows A, B."));
    }
    let mailboxes = office.json(0, &["mailboxes"]).await;
    assert_eq!(mailboxes[0]["mailboxes"].as_array().unwrap().len(), 2, "{mailboxes:?}");
    office.json(0, &["send", "--to", "B", "x", "--role", "TYPO", "--new-role"]).await;
    assert_eq!(office.json(0, &["list", "outbox", "--role", "TYPO"]).await.len(), 1);
}

#[tokio::test]
async fn a_wait_that_is_interrupted_ends_at_once() {
    let office = Office::open().await;
    let mut command = office.command(&["wait", "--role", "B"]);
    command.env("RUST_LOG", "h2=debug");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Once it speaks to the broker it listens for signals.
    let mut log = BufReader::new(child.stderr.take().unwrap());
    soon(log.fill_buf()).await.unwrap();
    let pid = i32::try_from(child.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::INT).unwrap();
    let output = soon(child.wait_with_output()).await.unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(7), 0), "{output:?}");
}

#[tokio::test]
async fn a_large_box_comes_page_by_page_and_may_be_cut_off() {
    let office = Office::open().await;
    let url = format!("http://{}", office.up.broker.unwrap());
    let mut client = MailboxClient::connect(url).await.unwrap();
    let threads = u64::from(BOX_PAGE) * 2 + 1;
    for counter in 1..=threads {
        let request = wire::SendRequest {
            key: Some(wire::IdempotencyKey { client_id: "test".into(), counter }),
            role: "A".into(),
            to: vec!["B".into()],
            r#type: "INFO".into(),
            subject: format!("number {counter}"),
            text: "x".into(),
            ..Default::default()
        };
        client.send(request).await.unwrap();
    }
    let all = office.json(0, &["list", "--role", "B"]).await;
    let subjects: Vec<_> =
        all.iter().map(|it| it["subject"].as_str().unwrap().to_owned()).collect();
    let expected: Vec<_> = (1..=threads).map(|n| format!("number {n}")).collect();
    assert_eq!(subjects, expected);
    let part = office.run(&["list", "--role", "B", "--limit", "150"]).await;
    assert_eq!(part.out.lines().count(), 1 + 150 + 1);
    assert!(part.out.ends_with(&format!("150 of {threads} threads are shown.\n")), "{}", part.out);

    // As with `| head -1`: whoever read it has gone.
    let mut command = office.command(&["list", "--role", "B"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    soon(out.read_line(&mut first)).await.unwrap();
    drop(out);
    let said = Said::of(&soon(child.wait_with_output()).await.unwrap());
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
}

#[tokio::test]
async fn mail_is_found_by_its_words() {
    let office = Office::open().await;
    let id = office.send(&["--type", "BR", "--subject", "Login", "the webhook fails"]).await;
    office.send(&["the webhook is fine"]).await;
    let found = office.json(0, &["search", "webhook fails", "--role", "B", "--type", "BR"]).await;
    let hits = found[0]["hits"].as_array().unwrap();
    assert_eq!((hits.len(), &hits[0]["thread"]["message_id"]), (1, &json!(id)), "{found:?}");
    let mut command = office.command(&["search", "fails", "--role", "A", "--since", "1h"]);
    command.env_remove("NO_COLOR").env("CLICOLOR_FORCE", "1");
    let said = Said::of(&soon(command.output()).await.unwrap());
    assert!(said.code == 0 && said.out.contains("fails\u{1b}["), "{said:?}");
    let none = office.run(&["search", "absent", "--role", "A"]).await;
    assert_eq!((none.code, none.out.as_str()), (0, "Nothing was found.\n"));
}

#[tokio::test]
async fn a_broker_that_is_away_is_said() {
    let mut office = Office::open().await;
    let id = office.send(&["x"]).await;
    office.up.stop().await;
    let url = format!("http://{}", office.up.broker.unwrap());
    let lines: [(&[&str], &str); 8] = [
        (&["list"], ""),
        (&["read", &id], ""),
        (&["wait"], ""),
        (&["send", "--to", "B", "x"], "Nothing was sent. A running node keeps mail"),
        (&["reply", &id, "x"], "Nothing was sent: whom to answer stands in the thread"),
        (&["resolve", &id], "Nothing was moved."),
        (&["reject", &id], "Nothing was moved."),
        (&["dead", "again", &id], "Nothing was changed from"),
    ];
    for (line, rest) in lines {
        let said = office.run(&[line, &["--role", "A", "--broker", &url]].concat()).await;
        assert_eq!(said.code, 3, "{line:?}: {said:?}");
        assert!(said.err.contains("No broker answers at"), "{line:?}: {said:?}");
        assert!(said.err.contains(rest), "{line:?}: {said:?}");
    }
    let said = office.run(&["list"]).await;
    assert_eq!(said.code, 2, "{said:?}");
    assert!(
        said.err.contains("Specify --role. ") && said.err.contains("role_required"),
        "{said:?}"
    );
}
