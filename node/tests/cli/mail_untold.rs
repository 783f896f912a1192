//! Commands that nobody writes to, or that cannot tell what became of them.

use std::fs;

use tasuki_node::paths::NodeFile;
use tokio::{io::AsyncReadExt as _, net::TcpListener, process::Command};

use super::{Office, Said};
use crate::process::{soon, tasuki};

/// Nobody writes into it: whoever opened it would wait for ever.
#[tokio::test]
async fn a_text_is_read_from_a_file_and_nothing_else() {
    let office = Office::open().await;
    let pipe = office.path("pipe");
    let made = soon(Command::new("mkfifo").arg(&pipe).status()).await.unwrap();
    assert!(made.success());
    for path in [&pipe, &office.up.data] {
        let path = path.to_str().unwrap();
        let said = office.run(&["send", "--role", "A", "--to", "B", "--file", path]).await;
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.err.contains("is no file; nothing was sent"), "{said:?}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_was_done_and_cannot_be_told_is_said_to_be_done() {
    let office = Office::open().await;
    for more in [&["--json"][..], &[]] {
        let mut command = office.command(&["send", "--role", "A", "--to", "B", "words"]);
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let child =
            command.args(more).stdout(full).stderr(std::process::Stdio::piped()).spawn().unwrap();
        let said = Said::of(&soon(child.wait_with_output()).await.unwrap());
        assert_eq!(said.code, 5, "{said:?}");
        assert!(said.err.contains("The command was carried out, but its answer"), "{said:?}");
    }
    assert_eq!(office.json(0, &["list", "--role", "B"]).await.len(), 2);
}

/// As of one that was killed once it kept the letter.
#[tokio::test]
async fn what_a_node_was_told_and_did_not_answer_may_have_been_done() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    fs::create_dir(&data).unwrap();
    let node = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let file = NodeFile {
        pid: std::process::id(),
        mcp: format!("http://{}", node.local_addr().unwrap()),
        fingerprint: None,
        vouched: None,
        broker: "http://127.0.0.1:1".into(),
        has_brief_broker: false,
        workspace: "default".into(),
        roles: vec!["A".into()],
        toolsets: Default::default(),
    };
    file.write(&data).unwrap();
    tokio::spawn(async move {
        loop {
            let (mut asking, _) = node.accept().await.unwrap();
            asking.read_u8().await.unwrap();
        }
    });
    for line in [
        "mail send --role A --to B words",
        "outbox drop 1",
        "outbox retry 1",
        "take-over --role A --as x --new-id",
    ] {
        let mut command = tasuki(&data);
        command.args(line.split(' ')).arg("--data").arg(&data);
        let said = Said::of(&soon(command.output()).await.unwrap());
        assert_eq!(said.code, 4, "{line}: {said:?}");
        assert!(said.err.contains("may or may not"), "{line}: {said:?}");
    }
}
