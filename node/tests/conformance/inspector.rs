//! The MCP Inspector's command line takes a turn at a real node, over every transport.

use std::{path::Path, process::Stdio, time::Duration};

use serde_json::{Value, json};
use tokio::{process::Command, time::timeout};

use crate::conformance::{process::Process, suite::installed};

/// For one command on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
#[ignore = "needs the MCP Inspector: scripts/sdk-setup.sh"]
async fn the_inspector_takes_a_turn_over_streamable_http() {
    takes_a_turn("http", "legacy").await;
}

#[tokio::test]
#[ignore = "needs the MCP Inspector: scripts/sdk-setup.sh"]
async fn the_inspector_takes_a_turn_without_sessions() {
    takes_a_turn("http", "modern").await;
}

#[tokio::test]
#[ignore = "needs the MCP Inspector: scripts/sdk-setup.sh"]
async fn the_inspector_takes_a_turn_over_legacy_sse() {
    takes_a_turn("sse", "legacy").await;
}

#[tokio::test]
#[ignore = "needs the MCP Inspector: scripts/sdk-setup.sh"]
async fn the_inspector_takes_a_turn_over_stdio() {
    takes_a_turn("stdio", "legacy").await;
}

#[tokio::test]
#[ignore = "needs the MCP Inspector: scripts/sdk-setup.sh"]
async fn the_inspector_takes_a_turn_over_stdio_of_2026_07_28() {
    takes_a_turn("stdio", "modern").await;
}

async fn takes_a_turn(transport: &str, era: &str) {
    let dir = tempfile::tempdir().unwrap();
    let tasuki = Process::up(&dir.path().join("data"), "--role A --role B").await;
    let agent = |role| Inspector { home: dir.path(), tasuki: &tasuki, transport, era, role };
    let (a, b) = (agent("A"), agent("B"));

    // Strict: any schema that some client or model cannot take fails it.
    let listed = a.ask("tools/list", &["--strict"]).await;
    let names = listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone());
    let names: Vec<Value> = names.collect();
    for name in ["await_my_turn", "handover_work", "loop_status"] {
        assert!(names.contains(&json!(name)), "{listed}");
    }
    assert!(a.ask("prompts/list", &[]).await["prompts"].is_array());
    assert!(a.ask("resources/list", &[]).await["resources"].is_array());

    let at_once = json!({ "timeout_sec": 0 });
    assert_eq!(b.call("await_my_turn", &at_once).await["still_waiting"], true);
    let words = json!({
        "work_summary": "did it", "next_instruction": "go on", "is_task_complete": false,
    });
    a.call("handover_work", &words).await;
    let turn = b.call("await_my_turn", &at_once).await;
    assert_eq!((&turn["can_start"], &turn["turn"]), (&json!(true), &json!(2)), "{turn}");
    assert_eq!((&turn["summary"], &turn["instruction"]), (&json!("did it"), &json!("go on")));
    assert_eq!(a.call("loop_status", &json!({})).await["holder"], "B");
}

struct Inspector<'a> {
    home: &'a Path,
    tasuki: &'a Process,
    transport: &'a str,
    era: &'a str,
    role: &'a str,
}

impl Inspector<'_> {
    async fn call(&self, tool: &str, arguments: &Value) -> Value {
        let arguments = arguments.to_string();
        let more = ["--tool-name", tool, "--tool-args-json", &arguments];
        self.ask("tools/call", &more).await["structuredContent"].clone()
    }

    /// The result; it ends otherwise than well for a tool's error too.
    async fn ask(&self, method: &str, more: &[&str]) -> Value {
        let mut command = Command::new(installed("node"));
        command
            .arg(installed("node_modules/.bin/mcp-inspector"))
            .args(["--cli", "--format", "json", "--transport", self.transport])
            .args(["--protocol-era", self.era, "--method", method])
            .args(more)
            // What it keeps for its user is not to be found or changed here.
            .env("HOME", self.home)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        if self.transport == "stdio" {
            command.arg("--").arg(env!("CARGO_BIN_EXE_tasuki"));
            command.args(["mcp", "--role", self.role, "--data"]).arg(&self.tasuki.data);
        } else {
            let path = if self.transport == "http" { "mcp" } else { "sse" };
            command.arg(format!("http://{}/{path}/{}", self.tasuki.mcp, self.role));
        }
        let output = timeout(PATIENCE, command.output()).await.expect("it ends in time");
        let output = output.expect("the Inspector is installed: make sdk");
        assert!(output.status.success(), "{method}: {output:?}");
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
        printed["result"].clone()
    }
}
