//! Private mail between real machines: what their users type, and what is kept where.

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::{
    hooks::{Pipe, begun, configure, telling},
    process::{Process, soon},
};

/// A command that must be refused: its exit code and its words.
async fn refused(of: &Process, line: &str) -> (i32, String) {
    let output = of.run(line).await;
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let message = said["error"]["message"].as_str().unwrap_or_else(|| panic!("{said}"));
    (output.status.code().unwrap(), message.to_owned())
}

async fn said(of: &Process, line: &str) -> Value {
    of.json(&format!("mail private {line}")).await.remove(0)
}

async fn status(of: &Process) -> Value {
    said(of, "status").await
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

/// A way to a broker, and all that ever went to it on that way.
struct Overheard {
    address: std::net::SocketAddr,
    bytes: Arc<Mutex<Vec<u8>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Overheard {
    async fn to(broker: std::net::SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let kept = bytes.clone();
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(broker).await.unwrap();
                let ((mut from, mut back), (mut answers, mut to)) =
                    (near.into_split(), far.into_split());
                tokio::spawn(async move {
                    drop(tokio::io::copy(&mut answers, &mut back).await);
                });
                let kept = kept.clone();
                tokio::spawn(async move {
                    let mut some = [0; 16 * 1024];
                    while let Ok(count @ 1..) = from.read(&mut some).await {
                        kept.lock().unwrap().extend_from_slice(&some[..count]);
                        if to.write_all(&some[..count]).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, bytes, task }
    }

    fn has(&self, words: &str) -> bool {
        self.bytes.lock().unwrap().windows(words.len()).any(|it| it == words.as_bytes())
    }
}

impl Drop for Overheard {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One machine with broker, A and B, and one with C; the first has the owner's key.
async fn machines(dir: &Path) -> (Process, Process) {
    let here = Process::up(&dir.join("here"), "--role A --role B").await;
    let there = Process::node(&dir.join("there"), here.broker.unwrap(), "--role C").await;
    (here, there)
}

/// Turns private mail on and lets the other machine take part.
async fn join_in(here: &Process, there: &Process) {
    said(here, "on").await;
    let owner = text(&status(here).await["trusted_owner"]);
    let trusted = said(there, &format!("trust {owner}")).await;
    let (node, key) = (text(&trusted["node"]), text(&trusted["key"]));
    said(here, &format!("approve {node} {key}")).await;
}

#[tokio::test]
async fn two_machines_and_three_roles_by_two_fingerprints() {
    let dir = tempfile::tempdir().unwrap();
    let (mut here, there) = machines(dir.path()).await;
    let before = status(&here).await;
    assert_eq!((&before["is_on"], &before["state"]), (&false.into(), &"none".into()));
    let (_, why) = refused(&there, "mail private trust").await;
    assert!(why.contains("never was private"), "{why}");

    let on = said(&here, "on").await;
    let owner = text(&on["owner"]);
    assert!(on["costs"].as_str().unwrap().contains("no forward secrecy"), "{on}");
    assert_eq!(said(&here, "on").await["is_repeat"], true);
    let (code, why) = refused(&there, "mail private on").await;
    assert!(code == 1 && why.contains("private already"), "{code} {why}");

    // Nothing is trusted because a broker showed it.
    let (code, why) = refused(&there, "mail private trust").await;
    assert!(code == 2 && why.contains(&owner), "{code} {why}");
    let wrong = "0000-0000-0000-0000-0000-0000-0000-0000";
    let (_, why) = refused(&there, &format!("mail private trust {wrong}")).await;
    assert!(why.contains("Nothing is trusted"), "{why}");
    assert_eq!(status(&there).await["trusted_owner"], Value::Null);
    let trusted = said(&there, &format!("trust {owner}")).await;
    let (node, key) = (text(&trusted["node"]), text(&trusted["key"]));
    assert_eq!(trusted["is_approved"], false);
    assert_eq!(status(&there).await["state"], "waits for the owner");

    let (code, why) = refused(&here, &format!("mail private approve {node}")).await;
    assert!(code == 2 && why.contains(&key), "{code} {why}");
    let (_, why) = refused(&here, &format!("mail private approve {node} {wrong}")).await;
    assert!(why.contains("Nothing is approved"), "{why}");
    let (_, why) = refused(&there, &format!("mail private approve {node} {key}")).await;
    assert!(why.contains("not on this machine"), "{why}");
    said(&here, &format!("approve {node} {key}")).await;

    // It is kept.
    here.kill().await;
    here.start().await;
    for machine in [&here, &there] {
        let now = status(machine).await;
        assert_eq!((&now["state"], &now["roster"]), (&"approved".into(), &2.into()), "{now}");
        let roles: Vec<_> = now["keys"].as_array().unwrap().iter().map(|it| &it["roles"]).collect();
        assert_eq!(
            Value::from_iter(roles.into_iter().cloned()).to_string(),
            r#"[["A","B"],["C"]]"#
        );
    }
}

#[tokio::test]
async fn keys_are_rotated_let_go_and_all_of_it_turned_off() {
    let dir = tempfile::tempdir().unwrap();
    let (here, there) = machines(dir.path()).await;
    join_in(&here, &there).await;
    let first = text(&status(&there).await["key"]);
    let rotated = said(&there, "rotate").await;
    let (node, second) = (text(&rotated["node"]), text(&rotated["key"]));
    assert_ne!(first, second);
    assert_eq!(status(&there).await["state"], "waits for the owner");
    said(&here, &format!("approve {node} {second}")).await;
    let now = status(&there).await;
    assert_eq!(now["state"], "approved");
    let old = now["keys"].as_array().unwrap().iter().find(|it| it["key"] == first.as_str());
    assert!(0 < old.unwrap()["retired_ms"].as_u64().unwrap(), "{now}");

    // The owner's own machine waits for nobody.
    assert_eq!(said(&here, "rotate").await["is_approved"], true);
    assert_eq!(status(&here).await["state"], "approved");

    said(&here, &format!("remove {node}")).await;
    assert_eq!(status(&there).await["state"], "withdrawn");
    let (_, why) = refused(&here, &format!("mail private remove {node}")).await;
    assert!(why.contains("no key of"), "{why}");

    let (_, why) = refused(&there, "mail private off").await;
    assert!(why.contains("not on this machine"), "{why}");
    assert_eq!(said(&here, "off").await["is_on"], false);
    assert_eq!(said(&here, "off").await["is_repeat"], true);
    assert_eq!(status(&there).await["is_on"], false);
    // Another owner's roster would take the keys with it that prove what was written.
    let (code, why) = refused(&there, "mail private on").await;
    assert!(code == 1 && why.contains("--new-owner"), "{code} {why}");
    assert_eq!(status(&there).await["is_on"], false);
    let again = said(&here, "on").await;
    assert_eq!(again["owner"], status(&there).await["trusted_owner"], "it is the owner it was");
    said(&here, "off").await;
    let other = said(&there, "on --new-owner").await;
    assert!(other["is_on"] == true && other["owner"] != again["owner"], "{other}");
}

#[tokio::test]
async fn a_machine_without_a_node_is_told_to_start_one() {
    let dir = tempfile::tempdir().unwrap();
    let here = Process::up(&dir.path().join("here"), "--role A").await;
    let broker = here.broker.unwrap();
    let mut bare = crate::process::tasuki(&dir.path().join("bare"));
    bare.args(["mail", "private", "on", "--broker", &format!("http://{broker}"), "--data"]);
    let output = soon(bare.arg(dir.path().join("bare")).output()).await.unwrap();
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(5) && why.contains("Start one with"), "{why}");
}

#[tokio::test]
async fn nothing_that_cannot_be_sealed_leaves_a_command() {
    let dir = tempfile::tempdir().unwrap();
    let (here, there) = machines(dir.path()).await;
    let way = Overheard::to(here.broker.unwrap()).await;
    let broker = format!("--broker http://{}", way.address);
    let file = dir.path().join("notes.txt");
    std::fs::write(&file, "canary-file").unwrap();
    let inbox = dir.path().join("project/docs/mailbox/inbox");
    std::fs::create_dir_all(&inbox).unwrap();
    let at = tasuki_proto::id::Timestamp::from_millis(1_795_293_772_094);
    let entries = vec![tasuki_node::filebox::Entry::new(at, "A", &["B"], "BR", "canary-import")];
    let id = "ded66c6a-58c1-47f4-916e-13787156f665".parse().unwrap();
    let text = tasuki_node::filebox::Document::new(Some(id), "BR", "s", entries).to_markdown();
    std::fs::write(inbox.join("20261121-204252-s-ded66c6a.md"), text).unwrap();
    let attach = format!("mail send --role A --to B words {broker} --attach {}", file.display());
    let import = format!("import filebox {} {broker}", dir.path().join("project").display());

    // That what goes that way is overheard at all.
    here.json(&format!("mail send --role A --to B canary-plain {broker}")).await;
    assert!(way.has("canary-plain"));
    join_in(&here, &there).await;
    for (line, said) in [(&attach, "files are not sealed"), (&import, "the files stay as they are")]
    {
        let (code, why) = refused(&here, line).await;
        assert!(code == 1 && why.contains(said), "{code} {why}");
    }
    assert!(!way.has("canary-file") && !way.has("canary-import"));

    here.json(&format!("mail send --role A --to C canary-sealed {broker}")).await;
    assert!(!way.has("canary-sealed"));
    said(&here, "off").await;
    here.json(&attach).await;
    here.json(&import).await;
    assert!(way.has("canary-file") && way.has("canary-import"));
}

#[tokio::test]
async fn what_is_not_opened_says_why_to_people_and_programs() {
    let dir = tempfile::tempdir().unwrap();
    let (here, there) = machines(dir.path()).await;
    join_in(&here, &there).await;
    let sent = here.json("mail send --role A --to C canary-words").await.remove(0);
    let message = text(&sent["message_id"]);
    // A machine that was never approved, and reads as C all the same.
    let bare = dir.path().join("bare");
    let why = "trusts no owner's key yet";
    for json in [false, true] {
        let mut command = crate::process::tasuki(&bare);
        command.args(["mail", "read", &message, "--role", "C", "--data"]).arg(&bare);
        command.args(["--broker", &format!("http://{}", here.broker.unwrap())]);
        command.args(json.then_some("--json"));
        let output = soon(command.output()).await.unwrap();
        let said = String::from_utf8(output.stdout.clone()).unwrap();
        assert!(said.contains(why) && !said.contains("canary-words"), "{output:?}");
    }
}

/// The files of a mirrored mailbox, once `is_so`.
async fn mirrored(project: &Path, is_so: impl Fn(&[String]) -> bool) -> Vec<String> {
    let looking = async {
        loop {
            let inbox = std::fs::read_dir(project.join("docs/mailbox/inbox"));
            // What is being written has another name until it is whole.
            let is_there = |it: &std::fs::DirEntry| {
                let name = it.file_name().to_string_lossy().into_owned();
                name.ends_with(".md") && !name.starts_with('.')
            };
            let files = inbox.into_iter().flatten().flatten().filter(is_there);
            let files: Vec<String> =
                files.filter_map(|it| std::fs::read_to_string(it.path()).ok()).collect();
            if is_so(&files) {
                return files;
            }
            tokio::task::yield_now().await;
        }
    };
    soon(looking).await
}

#[tokio::test]
async fn mirrors_and_hooks_have_the_words_where_the_node_has_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let project = |name: &str| dir.path().join(name);
    for name in ["one", "two", "three"] {
        configure(&project(name).join("data"), "mirror = true\n");
    }
    let mut pipe = Pipe::new(&project("two").join("pipe"));
    let hook = telling("told", "on = \"received\"");
    configure(&project("two/data"), &format!("mirror = true\n{hook}"));
    let one = Process::up(&project("one/data"), "--role A").await;
    let way = Overheard::to(one.broker.unwrap()).await;
    let mut two = Process::node(&project("two/data"), way.address, "--role C").await;
    begun(&two, "told").await;
    join_in(&one, &two).await;

    one.json("mail send --role A --to C --subject Slow! canary-words").await;
    let told = pipe.next().await;
    let words = (&told["thread"]["subject"], &told["entry"]["text"]);
    assert_eq!(words, (&"Slow!".into(), &"canary-words".into()));
    assert_eq!(told["entry"]["is_sealed"], false);
    let files = mirrored(&project("two"), |it| it.len() == 1).await;
    assert!(
        files[0].starts_with("# INFO: Slow!\n") && files[0].ends_with("canary-words"),
        "{files:?}"
    );

    let draft = "# BR: Slow!\n\n**Receiver:** A\n\n===== MESSAGE THREAD =====\n\ncanary-dropped\n";
    std::fs::write(project("two/docs/mailbox/outbox/answer.md"), draft).unwrap();
    let came = one.json("mail wait --role A --timeout 50s").await.remove(0);
    assert!(came.to_string().contains("canary-dropped"), "{came}");
    assert!(!way.has("canary-dropped"), "it was sealed before it left");

    // The role moves to a machine that cannot read what is there.
    two.stop().await;
    let (data, line) = (project("three/data"), "--role C --take-over");
    let three = Process::node(&data, one.broker.unwrap(), line).await;
    let closed = |it: &str| it.contains("[This entry is sealed and is not shown: ");
    mirrored(&project("three"), |it| it.len() == 1 && closed(&it[0])).await;
    join_in(&one, &three).await;
    one.json("mail send --role A --to C --subject Again second-words").await;
    // What it shows of the first one is what it knows by then.
    let why = "before this node could read it";
    let is_so = |it: &[String]| it.len() == 2 && it.iter().any(|it| closed(it) && it.contains(why));
    let files = mirrored(&project("three"), is_so).await;
    let (closed, open): (Vec<_>, Vec<_>) = files.iter().partition(|it| closed(it));
    assert!(closed.len() == 1 && open[0].ends_with("second-words"), "{files:?}");
    assert!(!closed[0].contains("canary-words"), "{files:?}");
}

#[tokio::test]
async fn people_and_agents_find_in_private_mail_what_their_machine_can_read() {
    let dir = tempfile::tempdir().unwrap();
    let (here, there) = machines(dir.path()).await;
    join_in(&here, &there).await;
    let line = "mail send --role A --to C --subject ログイン 画面でエラーが出る:parseHttpHeader";
    let message = text(&here.json(line).await.remove(0)["message_id"]);
    for (machine, role) in [(&here, "A"), (&there, "C")] {
        for query in ["ログイン", "画面", "http_header", "from:A"] {
            let found = machine.json(&format!("mail search --role {role} {query}")).await.remove(0);
            assert_eq!((&found["total"], &found["left_out"]), (&1.into(), &"".into()), "{found}");
            let hit = &found["hits"][0];
            assert_eq!(hit["thread"]["message_id"], message.as_str(), "{found}");
            assert!(hit["excerpt"].as_str().unwrap().contains("parseHttpHeader"), "{found}");
        }
        let found = machine.json(&format!("mail search --role {role} absent")).await.remove(0);
        assert_eq!(found["total"], 0);
    }
    let found = here.json("mail search --role B parseHttpHeader").await.remove(0);
    assert_eq!(found["total"], 0, "it is not B's");
}
