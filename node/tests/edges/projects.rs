//! Several projects on one machine: one data directory, one broker, a node for each.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::{
    http::Client,
    process::{Process, soon, tasuki},
};

/// A command in a directory.
async fn run_in(directory: &Path, data: &Path, line: &str) -> Output {
    let mut command = tasuki(data);
    command.current_dir(directory).args(line.split_whitespace()).arg("--data").arg(data);
    soon(command.output()).await.unwrap()
}

async fn json_in(directory: &Path, data: &Path, line: &str) -> Value {
    let output = run_in(directory, data, &format!("{line} --json")).await;
    assert_eq!(output.status.code(), Some(0), "{line}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn directory(place: &Path, name: &str) -> PathBuf {
    let path = place.join(name);
    fs::create_dir_all(&path).unwrap();
    path
}

async fn participants(of: &Process, role: &str) -> Value {
    let client = Client::new(of.mcp, &format!("/mcp/{role}")).await;
    let status = soon(client.call("loop_status", json!({}))).await;
    status["structuredContent"]["participants"].clone()
}

/// Hands over once the broker is there again.
async fn hand_over(of: &Process, role: &str) {
    let words = json!({ "work_summary": role, "next_instruction": "go on",
        "is_task_complete": false });
    let handing = async {
        loop {
            let client = Client::new(of.mcp, &format!("/mcp/{role}")).await;
            let result = client.call("handover_work", words.clone()).await;
            if result["isError"] != true {
                return;
            }
            let code = &result["structuredContent"]["error"]["code"];
            assert!(
                ["unavailable", "outcome_unknown"].contains(&code.as_str().unwrap()),
                "{result}"
            );
        }
    };
    soon(handing).await;
}

#[tokio::test]
async fn a_second_project_joins_the_broker_and_takes_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut one = Process::up(&data, "--workspace one").await;
    let mut two = Process::up(&data, "--workspace two --role dev --role qa").await;
    assert_eq!(two.broker, one.broker);
    assert_ne!(two.mcp, one.mcp);
    assert_eq!(participants(&one, "A").await, json!(["A", "B"]));
    assert_eq!(participants(&two, "dev").await, json!(["dev", "qa"]));

    let again = "up --workspace two --listen 127.0.0.1:0 --broker-listen 127.0.0.1:0";
    let refused = run_in(dir.path(), &data, again).await;
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(5), "{said}");
    let expected = format!("already runs on this data directory (pid {})", two.pid());
    assert!(said.contains(&expected), "{said}");

    // The process that had the broker ends: the other one has it from then on, at the same address.
    hand_over(&two, "dev").await;
    assert_eq!(one.stop().await.code(), Some(0), "{}", one.log());
    hand_over(&two, "qa").await;
    assert_eq!(two.json("loop history --workspace two").await.len(), 2);
    one.start().await;
    assert_eq!(two.broker, one.broker);
    hand_over(&one, "A").await;
    // Also where it had no time for that.
    two.kill().await;
    hand_over(&one, "B").await;
    assert_eq!(one.json("loop history --workspace one").await.len(), 2);
    assert_eq!(one.json("loop history --workspace two").await.len(), 2);
    two.start().await;
    hand_over(&two, "dev").await;
}

#[tokio::test]
async fn a_second_project_joins_a_broker_that_asks_for_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut one = Process::up(&data, "--workspace one --secure").await;
    let two = Process::up(&data, "--workspace two --secure").await;
    assert_eq!(two.broker, one.broker);
    // Its node makes the workspace.
    let is_made = async || two.run("loop list --workspace two").await.status.success();
    soon(async { while !is_made().await {} }).await;
    assert_eq!(one.stop().await.code(), Some(0), "{}", one.log());
    soon(async { while !is_made().await {} }).await;
}

#[tokio::test]
async fn init_makes_a_project_that_up_and_every_command_in_it_go_by() {
    let place = tempfile::tempdir().unwrap();
    let (one, two) = (directory(place.path(), "one"), directory(place.path(), "two"));
    let data = one.join("data");
    let told = json_in(&one, &data, "init").await;
    assert_eq!((&told["workspace"], &told["made_at"]), (&json!("one"), &Value::Null), "{told}");
    assert_eq!(told["roles"], json!(["A", "B"]));
    let up = Process::up(&data, "").await;
    assert_eq!(json_in(&one, &data, "status").await["workspace"], "one");

    let told = json_in(&two, &data, "init --role dev --role qa=loop,mail").await;
    assert_eq!(told["workspace"], "two");
    assert_eq!(told["made_at"], format!("http://{}", up.broker.unwrap()));
    assert!(run_in(&two, &data, "loop list").await.status.success(), "the workspace is there");
    let mut command = tasuki(&data);
    command.current_dir(&two).args(["up", "--listen", "127.0.0.1:0", "--data"]).arg(&data);
    let mut second = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(second.stdout.take().unwrap()).lines();
    let mut line = async || soon(lines.next_line()).await.unwrap().unwrap();
    let (mcp, broker) = (line().await, line().await);
    let address = mcp.strip_prefix("listening on http://").unwrap().strip_suffix(" (MCP)").unwrap();
    let (url, pid) = (format!("http://{}", up.broker.unwrap()), up.pid());
    let expected = format!("listening on {url} (broker gRPC, runs already, pid {pid})");
    assert_eq!(broker, expected);
    let of_two = Client::new(address.parse().unwrap(), "/mcp/dev").await;
    let status = soon(of_two.call("loop_status", json!({}))).await;
    assert_eq!(status["structuredContent"]["participants"], json!(["dev", "qa"]), "{status}");
    assert_eq!(json_in(&two, &data, "status").await["workspace"], "two");
    assert_eq!(json_in(&one, &data, "status").await["workspace"], "one");
    soon(second.kill()).await.unwrap();
}

#[tokio::test]
async fn init_takes_no_file_and_no_name_that_is_there() {
    let place = tempfile::tempdir().unwrap();
    let one = directory(place.path(), "one");
    let data = place.path().join("data");
    json_in(&one, &data, "init --role dev").await;
    let other = directory(place.path(), "elsewhere/one");
    for (directory, line, expected) in [
        (&one, "init", "tasuki.toml is there already (workspace one, roles dev)"),
        (&other, "init", "tasuki init --workspace one"),
        (&other, "init --workspace a/b", "`workspace` is"),
        (&other, "init --role x=nothing", "names the toolset"),
    ] {
        let output = run_in(directory, &data, line).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(said.contains(expected), "{line}: {said}");
    }
    assert!(!other.join("tasuki.toml").exists());
    let told = json_in(&one, &data, "init --force --role qa").await;
    assert_eq!((&told["workspace"], &told["roles"]), (&json!("one"), &json!(["qa"])), "{told}");
    let text = fs::read_to_string(one.join("tasuki.toml")).unwrap();
    assert!(text.contains("\nroles = [\"qa\"]\n") && !text.contains("dev"), "{text}");
}
