//! What clients give `tasuki mcp` for its standard input and output, and how they leave.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::Shutdown,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    process::{Child, Command, Stdio},
};

use rustix::fs::{OFlags, fcntl_getfl};

use crate::process::{Process, soon};

const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"edges","version":"1"}}}"#;

fn bridge(up: &Process, stdin: impl Into<Stdio>, stdout: impl Into<Stdio>) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tasuki"));
    command.args(["mcp", "--role", "A", "--data"]).arg(&up.data);
    command.stdin(stdin).stdout(stdout).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for its end: with success, and without a word.
async fn ended(child: Child) {
    let ending = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
    let output = soon(ending).await.unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

fn may_block(it: impl AsFd) -> bool {
    !fcntl_getfl(it).unwrap().contains(OFlags::NONBLOCK)
}

async fn up(place: &tempfile::TempDir) -> Process {
    Process::up(&place.path().join("data"), "--role A").await
}

/// Reads on a thread beside, within a bounded time.
async fn line(from: impl io::Read + Send + 'static) -> String {
    let reading = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        BufReader::new(from).read_line(&mut line).unwrap();
        line
    });
    soon(reading).await.unwrap()
}

#[tokio::test]
async fn pipes_and_sockets_that_are_shared_stay_as_they_were() {
    let place = tempfile::tempdir().unwrap();
    let up = up(&place).await;
    let (their_in, mut into) = io::pipe().unwrap();
    let (out, their_out) = io::pipe().unwrap();
    let child = bridge(&up, their_in.try_clone().unwrap(), their_out.try_clone().unwrap());
    writeln!(into, "{HELLO}").unwrap();
    assert!(line(out.try_clone().unwrap()).await.contains("serverInfo"));
    // Another process that holds them is not disturbed meanwhile either.
    assert!(may_block(&their_in) && may_block(&their_out));
    drop(into);
    ended(child).await;
    assert!(may_block(&their_in) && may_block(&their_out));

    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let both = || Stdio::from(OwnedFd::from(theirs.try_clone().unwrap()));
    let child = bridge(&up, both(), both());
    writeln!(ours, "{HELLO}").unwrap();
    assert!(line(ours.try_clone().unwrap()).await.contains("serverInfo"));
    ours.shutdown(Shutdown::Write).unwrap();
    ended(child).await;
    assert!(may_block(&theirs));
}

#[tokio::test]
async fn a_message_without_the_end_of_its_line_is_answered() {
    let place = tempfile::tempdir().unwrap();
    let up = up(&place).await;
    let mut child = bridge(&up, Stdio::piped(), Stdio::piped());
    child.stdin.take().unwrap().write_all(HELLO.as_bytes()).unwrap();
    assert!(line(child.stdout.take().unwrap()).await.contains("serverInfo"));
    ended(child).await;
}

#[tokio::test]
async fn an_agent_that_leaves_without_reading_is_no_failure() {
    let place = tempfile::tempdir().unwrap();
    let up = up(&place).await;
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let theirs = || Stdio::from(OwnedFd::from(theirs.try_clone().unwrap()));
    let child = bridge(&up, theirs(), theirs());
    writeln!(ours, "{HELLO}").unwrap();
    // Its answer is there; what follows the first byte is never read.
    let first = tokio::task::spawn_blocking(move || ours.read_exact(&mut [0]).map(|()| ours));
    let ours = soon(first).await.unwrap().unwrap();
    drop((theirs, ours));
    ended(child).await;

    let mut child = bridge(&up, Stdio::piped(), Stdio::piped());
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{HELLO}").unwrap();
    ended(child).await;
}
