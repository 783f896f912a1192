//! The real `tasuki`, guarded: what it prints, who gets in, and by which token.

use std::{net::SocketAddr, path::Path, process::Stdio};

use serde_json::{Value, json};
use tasuki_node::paths::NodeFile;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
};

use crate::process::{Process, soon, tasuki};

/// An agent on `tasuki mcp`.
struct Agent {
    _child: Child,
    into: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Agent {
    async fn new(data: &Path, line: &str, env: &[(&str, &str)]) -> Self {
        let mut command = tasuki(data);
        command.args(line.split_whitespace()).arg("--data").arg(data).envs(env.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let into = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut it = Self { _child: child, into, lines };
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "edges", "version": "1" } } });
        it.say(&hello).await;
        assert_eq!(it.hear().await["result"]["serverInfo"]["name"], "tasuki");
        it.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        it
    }

    async fn say(&mut self, message: &Value) {
        self.into.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        let line = soon(self.lines.next_line()).await.unwrap().expect("an answer");
        serde_json::from_str(&line).unwrap()
    }

    async fn status(&mut self) -> Value {
        let params = json!({ "name": "loop_status", "arguments": {} });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        self.say(&call).await;
        self.hear().await["result"]["structuredContent"].clone()
    }
}

async fn token(of: &Process, line: &str) -> String {
    let told = of.json(&format!("agent-token {line}")).await.remove(0);
    told["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn agents_of_this_machine_need_not_be_told_anything() {
    let place = tempfile::tempdir().unwrap();
    let up = Process::up(&place.path().join("data"), "--secure --role A --role B").await;
    let file = NodeFile::read(&up.data).unwrap();
    assert_eq!(file.mcp, format!("https://{}", up.mcp));
    let fingerprint = file.fingerprint.unwrap();
    let mut a = Agent::new(&up.data, "mcp --role A --as x", &[]).await;
    assert_eq!(a.status().await["holder"], "A");
    let told = up.json("take-over --role B --as y --new-id").await.remove(0);
    assert_eq!(told["instance"], "y");
    // Neither file that others may look into has a secret, and the one that has is private.
    let (node, role) = (token(&up, "").await, token(&up, "--role A").await);
    assert_ne!(node, role);
    let seen = std::fs::read_to_string(up.data.join("node.json")).unwrap() + &up.log();
    for token in [&node, &role] {
        assert!(!seen.contains(token.splitn(3, '_').nth(2).unwrap()), "{seen}");
    }
    // With another token at hand: another directory, as on another machine.
    let other = place.path().join("other");
    let url = format!("https://{}", up.mcp);
    let line = format!("mcp --role A --as x --node {url} --fingerprint {fingerprint}");
    let mut from_there = Agent::new(&other, &line, &[("TASUKI_AGENT_TOKEN", &role)]).await;
    assert_eq!(from_there.status().await["holder"], "A");
    for (line, token, why) in [
        (&line[..], "", "`tasuki agent-token`"),
        (&line.replace("--role A", "--role B"), &role, "not valid for the role"),
        (&line[..], "x", "is not a token"),
        (&line.replace(&fingerprint[..2], "__"), &role, "--fingerprint"),
        (line.split(" --fingerprint").next().unwrap(), &role, "vouches for"),
    ] {
        let mut command = tasuki(&other);
        command.args(line.split_whitespace()).env("TASUKI_AGENT_TOKEN", token);
        let refused = soon(command.output()).await.unwrap();
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(why), "{line}: {said}");
    }
}

#[tokio::test]
async fn a_rotated_token_is_found_by_who_has_the_file_and_by_nobody_else() {
    let place = tempfile::tempdir().unwrap();
    let mut up = Process::up(&place.path().join("data"), "--secure --role A --role B").await;
    let before = token(&up, "--role A").await;
    let mut here = Agent::new(&up.data, "mcp --role A --as x", &[]).await;
    let after = token(&up, "--role A --rotate").await;
    assert_ne!(before, after);
    assert_eq!(token(&up, "--role A").await, after);
    assert_eq!(here.status().await["holder"], "A", "over whichever connection it has by now");
    // The certificate and the tokens are the same after a restart.
    let fingerprint = NodeFile::read(&up.data).unwrap().fingerprint;
    assert!(up.stop().await.success());
    up.start().await;
    assert_eq!(NodeFile::read(&up.data).unwrap().fingerprint, fingerprint);
    assert_eq!(token(&up, "--role A").await, after);
    assert_eq!(here.status().await["holder"], "A");
    let refused = up.run("agent-token --role nobody").await;
    assert!(!refused.status.success(), "{refused:?}");
}

#[tokio::test]
async fn off_loopback_a_node_is_guarded_whatever_it_is_told() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let mut command = tasuki(&data);
    let everywhere: SocketAddr = ([0, 0, 0, 0], 0).into();
    command.args(["up", "--listen", &everywhere.to_string(), "--broker-listen", "127.0.0.1:0"]);
    command.arg("--data").arg(&data).env("TASUKI_MCP_SECURE", "no");
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let listening = soon(lines.next_line()).await.unwrap().unwrap();
    assert!(listening.starts_with("listening on https://0.0.0.0:"), "{listening}");
    let fingerprint = soon(lines.next_line()).await.unwrap().unwrap();
    let file = NodeFile::read(&data).unwrap();
    assert!(file.mcp.starts_with("https://127.0.0.1:"), "{}", file.mcp);
    assert_eq!(
        fingerprint,
        format!("fingerprint of its certificate {}", file.fingerprint.unwrap())
    );
    let mut a = Agent::new(&data, "mcp --role A", &[]).await;
    assert_eq!(a.status().await["holder"], "A");
    soon(child.kill()).await.unwrap();
}
