//! Hooks of real nodes: who runs them, what they get, and that nothing is missed.

mod work;

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};
use tasuki_proto::{
    limits::HANDED_MAX,
    wire::{self, mailbox_client::MailboxClient},
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    net::unix::pipe,
};

use crate::process::{Process, soon, tasuki};

/// What hooks say to a test: each writes its document as one line.
pub(crate) struct Pipe {
    lines: Lines<BufReader<pipe::Receiver>>,
    /// Somebody always writes, so it does not end.
    _open: pipe::Sender,
}

impl Pipe {
    pub(crate) fn new(path: &Path) -> Self {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
        let receiver = pipe::OpenOptions::new().open_receiver(path).unwrap();
        let sender = pipe::OpenOptions::new().open_sender(path).unwrap();
        Self { lines: BufReader::new(receiver).lines(), _open: sender }
    }

    pub(crate) async fn next(&mut self) -> Value {
        let line = soon(self.lines.next_line()).await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

/// Writes a node's configuration into its data directory.
pub(crate) fn configure(data: &Path, hooks: &str) {
    fs::create_dir_all(data).unwrap();
    fs::write(data.join("tasuki.toml"), hooks).unwrap();
}

/// A hook that writes what it reads, in one piece, into the pipe beside the data directories.
pub(crate) fn telling(name: &str, rest: &str) -> String {
    format!(
        "[[hooks]]\nname = \"{name}\"\n{rest}\n\
         command = [\"sh\", \"-c\", 'printf \"%s\\n\" \"$(cat)\" > ../pipe']\n"
    )
}

/// Sends as `sender`; the same number is the same mail. Tried until the broker has it.
async fn send(broker: &Process, number: u64, sender: &str, receiver: &str) -> String {
    let key = wire::IdempotencyKey { client_id: "test".into(), counter: number };
    let request = wire::SendRequest {
        caller: Some(wire::Caller::default()),
        key: Some(key),
        role: sender.into(),
        to: vec![receiver.into()],
        r#type: "BR".into(),
        subject: format!("Bug {number}"),
        text: format!("words $(id) {number}"),
        ..Default::default()
    };
    let url = format!("http://{}", broker.broker.unwrap());
    let trying = async {
        loop {
            let Ok(mut client) = MailboxClient::connect(url.clone()).await else { continue };
            if let Ok(sent) = client.send(request.clone()).await {
                return sent.into_inner().message_id;
            }
        }
    };
    soon(trying).await
}

/// Until hooks of the node have come so far that whatever happens next is theirs.
pub(crate) async fn begun(node: &Process, hook: &str) {
    let places = node.data.join("hooks/places.json");
    let looking = async {
        loop {
            let said = fs::read(&places).unwrap_or_default();
            let said: Value = serde_json::from_slice(&said).unwrap_or_default();
            if said["hooks"].get(hook).is_some() {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    soon(looking).await;
}

/// The hook's report in `tasuki status`, once it is as `is_so` wants it.
async fn reported(node: &Process, is_so: impl Fn(&Value) -> bool) -> Value {
    let asking = async {
        loop {
            let status = node.json("status").await;
            if is_so(&status[0]["hooks"][0]) {
                return status[0]["hooks"][0].clone();
            }
        }
    };
    soon(asking).await
}

/// Holds Q1.
#[tokio::test]
async fn the_node_of_the_receiver_runs_the_command_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let mut pipe = Pipe::new(&at("pipe"));
    let both = telling("told", "on = [\"received\", \"sent\"]");
    configure(&at("a"), &both);
    configure(&at("b"), &both);
    let broker = Process::broker(&at("broker"), "").await;
    let address = broker.broker.unwrap();
    let a = Process::node(&at("a"), address, "--role A").await;
    let b = Process::node(&at("b"), address, "--role B").await;
    begun(&a, "told").await;
    begun(&b, "told").await;
    let message = send(&broker, 1, "A", "B").await;
    let mut told = [pipe.next().await, pipe.next().await];
    told.sort_by_key(|it| it["role"].to_string());
    let [at_a, at_b] = told;
    assert_eq!((&at_a["event"], &at_a["role"]), (&json!("sent"), &json!("A")));
    assert_eq!((&at_b["event"], &at_b["role"]), (&json!("received"), &json!("B")));
    assert_eq!((&at_b["version"], &at_b["hook"]), (&json!(1), &json!("told")));
    assert_eq!((&at_b["message_id"], &at_b["workspace"]), (&json!(message), &json!("default")));
    let (thread, entry) = (&at_b["thread"], &at_b["entry"]);
    assert_eq!((&thread["subject"], &thread["box"]), (&json!("Bug 1"), &json!("inbox")));
    assert_eq!((&entry["text"], &entry["number"]), (&json!("words $(id) 1"), &json!(1)));
    assert_eq!(entry["sender"], "A");
    // The hook has looked; the agent has not.
    let receipts = &entry["receipts"][0];
    assert!(receipts["stored_ms"].as_u64().is_some() && receipts.get("handed_ms").is_none());
    let report = reported(&b, |it| it["made"] == 1).await;
    assert_eq!((&report["failed"], &report["waiting"]), (&json!(0), &json!(0)));
    let read = wire::ReadThreadRequest {
        role: "B".into(),
        message,
        mark: wire::MailMark::None.into(),
        ..Default::default()
    };
    let mut client = MailboxClient::connect(format!("http://{address}")).await.unwrap();
    let read = soon(client.read_thread(read)).await.unwrap().into_inner();
    assert_eq!((read.thread.unwrap().unseen, read.entries[0].receipts[0].handed_ms), (1, 0));
}

#[tokio::test]
async fn the_node_of_the_sender_hears_that_its_mail_came_to_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let mut pipe = Pipe::new(&at("pipe"));
    configure(&at("a"), &telling("told", "on = [\"lapsed\", \"dead\"]\nreceiver = \"B\""));
    let broker = Process::broker(&at("broker"), "").await;
    let address = broker.broker.unwrap();
    let a = Process::node(&at("a"), address, "--role A").await;
    let _b = Process::node(&at("b"), address, "--role B").await;
    begun(&a, "told").await;
    let mut client = MailboxClient::connect(format!("http://{address}")).await.unwrap();
    let dead = send(&broker, 1, "A", "B").await;
    for _ in 0..HANDED_MAX {
        let mark = wire::MarkMailRequest {
            caller: Some(wire::Caller::default()),
            role: "B".into(),
            message_id: dead.clone(),
            through: 1,
            mark: wire::MailMark::Handed.into(),
        };
        soon(client.mark_mail(mark)).await.unwrap();
    }
    let told = pipe.next().await;
    assert_eq!((&told["event"], &told["role"]), (&json!("dead"), &json!("A")));
    assert_eq!((&told["message_id"], &told["unseen_by"]), (&json!(dead), &json!(["B"])));
    assert!(told["entry"]["receipts"][0]["dead_ms"].as_u64().is_some(), "{told}");
    let brief = wire::SendRequest {
        caller: Some(wire::Caller::default()),
        key: Some(wire::IdempotencyKey { client_id: "test".into(), counter: 2 }),
        role: "A".into(),
        to: vec!["B".into()],
        r#type: "BR".into(),
        subject: "Soon of no use".into(),
        text: "x".into(),
        expires_in_ms: 1,
        ..Default::default()
    };
    let lapsed = soon(client.send(brief)).await.unwrap().into_inner().message_id;
    let told = pipe.next().await;
    assert_eq!((&told["event"], &told["role"]), (&json!("lapsed"), &json!("A")));
    assert_eq!((&told["message_id"], &told["unseen_by"]), (&json!(lapsed), &json!(["B"])));
    assert!(told["entry"]["receipts"][0]["lapsed_ms"].as_u64().is_some(), "{told}");
}

#[tokio::test]
async fn no_mail_is_missed_though_broker_and_node_are_killed() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let mut pipe = Pipe::new(&at("pipe"));
    configure(&at("b"), &telling("told", "on = \"received\"\ntype = \"BR\"\nsender = \"A\""));
    let mut broker = Process::broker(&at("broker"), "").await;
    let mut node = Process::node(&at("b"), broker.broker.unwrap(), "--role B").await;
    begun(&node, "told").await;
    let mut sent = Vec::new();
    for number in 1..=24 {
        sent.push(send(&broker, number, "A", "B").await);
        match number % 8 {
            2 => node.kill().await,
            4 => node.start().await,
            5 => {
                node.kill().await;
                node.start().await;
            }
            6 => {
                broker.kill().await;
                broker.start().await;
            }
            7 => {
                node.kill().await;
                broker.kill().await;
                broker.start().await;
                node.start().await;
            }
            _ => {}
        }
    }
    // In the order they were sent; one that was under way at a kill may come again.
    let mut ids: BTreeMap<String, Value> = BTreeMap::new();
    let mut first = Vec::new();
    while first.len() < sent.len() {
        let told = pipe.next().await;
        let message = told["message_id"].as_str().unwrap().to_owned();
        let id = ids.entry(message.clone()).or_insert_with(|| {
            first.push(message);
            told["id"].clone()
        });
        assert_eq!(*id, told["id"], "the same call has the same id");
    }
    assert_eq!(first, sent);
}

#[tokio::test]
async fn what_fails_is_shown_called_again_and_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("up");
    let fails = "[[hooks]]\nname = \"fails\"\non = \"received\"\nrole = \"B\"\n\
                 command = [\"sh\", \"-c\", 'echo \"no such bell\" >&2; test -e ../bell']\n";
    configure(&data, fails);
    let mut up = Process::up(&data, "").await;
    begun(&up, "fails").await;
    for number in 1..=3 {
        send(&up, number, "A", "B").await;
    }
    let report = reported(&up, |it| it["dead_letters"] == 3).await;
    let why = &report["last_failure"]["why"];
    assert_eq!(*why, "exit code 1; stderr: no such bell");
    let list = &up.json("hook list").await[0]["hooks"][0];
    let dead = list["dead_letters"].as_array().unwrap();
    assert_eq!((&list["hook"], &dead[0]["why"]), (&json!("fails"), why));
    fs::write(dir.path().join("bell"), "").unwrap();
    let id = |index: usize| dead[index]["id"].as_str().unwrap().to_owned();
    let first = up.json(&format!("hook retry {}", &id(0)[..8])).await;
    assert_eq!(first[0]["ids"], json!([id(0)]));
    reported(&up, |it| it["made"] == 1 && it["dead_letters"] == 2).await;
    assert_eq!(up.json(&format!("hook drop {}", id(1))).await[0]["ids"], json!([id(1)]));
    // What is left is taken up by the next start.
    assert_eq!(up.stop().await.code(), Some(0), "{}", up.log());
    assert_eq!(up.json("hook retry --all").await[0]["ids"], json!([id(2)]));
    up.start().await;
    reported(&up, |it| it["made"] == 1 && it["dead_letters"] == 0).await;
    let unknown = up.run("hook drop 00000000").await;
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
    assert!(up.log().contains("exit code 1"), "{}", up.log());
    for words in ["words $(id)", "no such bell"] {
        assert!(!up.log().contains(words), "neither mail nor what a program says is logged");
    }
}

#[tokio::test]
async fn a_check_of_the_configuration_says_what_would_run() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("node");
    let check = async |toml: &str| {
        configure(&data, toml);
        let mut command = tasuki(&data);
        command.args(["config", "check", "--json", "--data"]).arg(&data);
        let output = soon(command.output()).await.unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let told = printed.lines().map(|line| serde_json::from_str(line).unwrap());
        (output.status.code(), told.collect::<Vec<Value>>())
    };
    let good = "[[hooks]]\nname = \"a\"\non = \"dead\"\nsender = \"A\"\ncommand = [\"sh\", \"-c\", \"x\"]\n";
    let (code, told) = check(good).await;
    let hook = &told[0]["hooks"][0];
    assert_eq!(
        (code, &hook["on"], &hook["only"]),
        (Some(0), &json!(["dead"]), &json!({"sender": ["A"]}))
    );
    assert!(hook["program"].as_str().unwrap().ends_with("/sh"), "{hook}");
    let bad = format!(
        "{good}[[hooks]]\nname = \"b\"\non = \"sent\"\ncommand = [\"no-such-program-anywhere\"]\n\
         [[hooks]]\nname = \"c\"\non = \"sent\"\nurl = \"https://h/token\"\nsecret_file = \"none\"\n"
    );
    let (code, told) = check(&bad).await;
    let said = told[1]["error"]["message"].as_str().unwrap();
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("tasuki.toml:6: the hook b cannot be called: "), "{said}");
    assert!(said.contains("tasuki.toml:10: the hook c cannot be called: "), "{said}");
    assert!(!told[0].to_string().contains("token"), "an address's path may be a secret");
}

#[tokio::test]
async fn a_configuration_that_lies_about_is_no_command_to_run_something() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("node");
    // Commands of tests run in the directory around their data.
    let ring = "[[hooks]]\nname = \"a\"\non = \"sent\"\ncommand = [\"sh\"]\n";
    fs::write(dir.path().join("tasuki.toml"), ring).unwrap();
    let mut command = tasuki(&data);
    command.args(["up", "--listen", "127.0.0.1:0", "--broker-listen", "127.0.0.1:0", "--data"]);
    let output = soon(command.arg(&data).output()).await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("`hooks` is not taken from a file that happens to be"), "{said}");
    // Whoever calls no hook goes on.
    let mut command = tasuki(&data);
    let output = soon(command.args(["hook", "list", "--data"]).arg(&data).output()).await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}
