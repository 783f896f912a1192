//! The official MCP SDKs play a loop against the real `tasuki up`, over every transport.
//!
//! `make test` puts the SDKs into `target/sdk` first; the clients are in `tests/sdk`.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

#[path = "sdk/gateway.rs"]
mod gateway;

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, BufReader, Lines},
    process::{Child, ChildStderr, ChildStdout, Command},
    time::timeout,
};

/// How often each role has the turn.
const ROUNDS: usize = 5;

/// For one step of a test on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

#[derive(Debug, Clone, Copy)]
enum Sdk {
    Python,
    Typescript,
}

#[tokio::test]
#[ignore = "needs the MCP SDKs: scripts/sdk-setup.sh"]
async fn both_sdks_take_turns_over_streamable_http() {
    both_ways("http").await;
}

#[tokio::test]
#[ignore = "needs the MCP SDKs: scripts/sdk-setup.sh"]
async fn both_sdks_take_turns_over_legacy_sse() {
    both_ways("sse").await;
}

#[tokio::test]
#[ignore = "needs the MCP SDKs: scripts/sdk-setup.sh"]
async fn both_sdks_take_turns_over_stdio() {
    both_ways("stdio").await;
}

async fn both_ways(transport: &str) {
    take_turns(transport, Sdk::Python, Sdk::Typescript).await;
    take_turns(transport, Sdk::Typescript, Sdk::Python).await;
}

/// A begins and B completes; B tries to hand over before its turn.
async fn take_turns(transport: &str, a: Sdk, b: Sdk) {
    let tasuki = Tasuki::start(&["--role", "A", "--role", "B"]).await;
    let mut b = tasuki.client(b, transport, "B", &["--refused-first", "--completes"]);
    let mut ready = BufReader::new(b.stderr.take().unwrap()).lines();
    while next(&mut ready).await != "ready" {}
    let a = tasuki.client(a, transport, "A", &[]);
    let (a, b) = tokio::join!(result(a, None), result(b, Some(ready)));

    for (saw, first) in [(&a, 1), (&b, 2)] {
        assert_eq!(saw["server"], "tasuki", "{saw}");
        assert_eq!(saw["finished"], true, "{saw}");
        let tools = saw["tools"].as_array().unwrap();
        for tool in ["await_my_turn", "handover_work", "loop_status"] {
            assert!(tools.iter().any(|name| name == tool), "{tools:?}");
        }
        let turns: Vec<u64> = saw["turns"].as_array().unwrap().iter().map(turn).collect();
        let expected: Vec<u64> = (first..).step_by(2).take(ROUNDS).collect();
        assert_eq!(turns, expected, "{saw}");
    }
    let refused = &b["refused"];
    assert_eq!(refused["is_error"], true, "{refused}");
    assert_eq!(refused["error"]["code"], "not_your_turn", "{refused}");
    assert_eq!(a["handed_over"], "Handover successful. Turn switched.");
    assert_eq!(b["turns"][1]["summary"], "A did 2");
    assert_eq!(b["turns"][1]["instruction"], "go on after 2");
    let context = "Previous work by A:\nSummary: A did 2\nInstruction: go on after 2";
    assert_eq!(b["turns"][1]["previous_context"], context);

    let status = tasuki.json(&["loop", "status"]).await;
    assert_eq!(status[0]["loop"]["status"], "completed", "{status:?}");
    let history = tasuki.json(&["loop", "history"]).await;
    assert_eq!(history.len(), 2 * ROUNDS);
}

fn turn(answer: &Value) -> u64 {
    answer["turn"].as_u64().unwrap()
}

/// What the client printed.
async fn result(client: Child, stderr: Option<Lines<BufReader<ChildStderr>>>) -> Value {
    let rest = async {
        let Some(mut stderr) = stderr else { return Vec::new() };
        let mut said = Vec::new();
        while let Ok(Some(line)) = stderr.next_line().await {
            said.push(line);
        }
        said
    };
    let both = async { tokio::join!(client.wait_with_output(), rest) };
    let (output, said) = timeout(PATIENCE, both).await.expect("the client ends in time");
    let output = output.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{errors}{}", output.status, said.join("\n"));
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn next<T: AsyncRead + Unpin>(lines: &mut Lines<BufReader<T>>) -> String {
    let line = timeout(PATIENCE, lines.next_line()).await.expect("a line comes in time");
    line.unwrap().expect("there is one more line")
}

/// A running `tasuki up` with data of its own.
struct Tasuki {
    data: tempfile::TempDir,
    mcp: String,
    _lines: Lines<BufReader<ChildStdout>>,
    _process: Child,
}

impl Tasuki {
    async fn start(arguments: &[&str]) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_tasuki"))
            .arg("up")
            .args(arguments)
            .args(["--listen", "127.0.0.1:0", "--broker-listen", "127.0.0.1:0", "--data"])
            .arg(data.path())
            .current_dir(data.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let (mut mcp, mut broker) = (None, None);
        while mcp.is_none() || broker.is_none() {
            let line = next(&mut lines).await;
            let Some(address) = line.strip_prefix("listening on ") else { continue };
            match address.split_once(' ') {
                Some((url, "(MCP)")) => mcp = Some(url.to_owned()),
                Some((url, "(broker gRPC)")) => broker = Some(url.to_owned()),
                _ => {}
            }
        }
        Self { data, mcp: mcp.unwrap(), _lines: lines, _process: process }
    }

    fn client(&self, sdk: Sdk, transport: &str, role: &str, more: &[&str]) -> Child {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (clients, installed) = (root.join("tests/sdk"), root.join("../target/sdk"));
        let (program, script): (PathBuf, &str) = match sdk {
            Sdk::Python => (installed.join("venv/bin/python"), "client.py"),
            Sdk::Typescript => (installed.join("node"), "client.mjs"),
        };
        let mut command = Command::new(program);
        command
            .arg(clients.join(script))
            .args(["--transport", transport, "--role", role, "--rounds", &ROUNDS.to_string()])
            .args(more)
            .arg("--")
            .env("TASUKI_SDK", installed)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if transport == "stdio" {
            command.arg(env!("CARGO_BIN_EXE_tasuki")).args(["mcp", "--role", role, "--data"]);
            command.arg(self.data.path());
        } else {
            let path = if transport == "http" { "mcp" } else { "sse" };
            command.arg(format!("{}/{path}/{role}", self.mcp));
        }
        command.spawn().unwrap()
    }

    /// What a command prints with `--json`, line by line; it finds the broker by the data.
    async fn json(&self, command: &[&str]) -> Vec<Value> {
        let output = Command::new(env!("CARGO_BIN_EXE_tasuki"))
            .args(command)
            .args(["--json", "--data"])
            .arg(self.data.path())
            .current_dir(self.data.path())
            .output();
        let output = timeout(PATIENCE, output).await.expect("the command ends in time").unwrap();
        assert!(output.status.success(), "{command:?}: {output:?}");
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}
