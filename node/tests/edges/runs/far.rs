//! Long outputs of steps that ran on another node.

use std::process::Output;

use serde_json::json;
use tasuki_proto::wire;
use tokio::task::yield_now;

use super::{
    client::{McpClient, User},
    machine, run_id,
};
use crate::{
    fake_agent::{Machine, configure},
    process::{Process, soon},
};

/// Each with a point after it has 8 bytes.
const NUMBERS: usize = 400_000;

/// What the broker has of them, in bytes.
const KEPT: usize = 1 << 20;

/// What `tasuki runs output` says on the machine that asked.
async fn said(machine: &Machine, run: &str, more: &[&str]) -> Output {
    let args = [&["runs", "output", run][..], more].concat();
    soon(machine.command(&args).output()).await.unwrap()
}

async fn printed(machine: &Machine, run: &str, more: &[&str]) -> Output {
    let output = said(machine, run, more).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[tokio::test]
async fn a_long_output_is_read_from_the_node_that_has_it_while_that_is_connected() {
    let mut machine = machine().await;
    let data = machine.path("far");
    let config = machine.fake.config();
    configure(&data, &format!("{config}[runs]\naccept_elsewhere = true\nlabels = [\"far\"]\n"));
    let broker = machine.up.broker.unwrap();
    let mut far = Process::node_with(&data, broker, "--role B", &machine.fake.env()).await;
    let runs = machine.runs();
    runs.until_offered(2).await;
    let mut boss = McpClient::new(&machine, "boss", User::Away).await;
    let task = format!("numbers {NUMBERS}");
    let told = boss.call("subagent", json!({ "agent": "scout", "task": task, "on": "far" })).await;
    assert_eq!(told["isError"], false, "{told}");
    let run = run_id(&told);
    let step = runs.only().await.steps.remove(0);
    let all: String = (1..=NUMBERS).map(|number| format!("{number:07}.")).collect();
    assert_eq!((step.output_bytes, step.output_kept), (all.len() as u64, KEPT as u64));
    // It takes steps before it can be asked.
    let asked = async {
        let (run_id, step) = (run.clone(), 1);
        let request = wire::ReadOutputRequest { run_id, step, limit: 1, ..Default::default() };
        while runs.client().read_output(request.clone()).await.is_err() {
            yield_now().await;
        }
    };
    soon(asked).await;

    let (mut offset, mut read) = (json!(0), String::new());
    while !offset.is_null() {
        let arguments = json!({ "run": run, "offset": offset, "limit": 262_144 });
        let told = boss.call("run_output", arguments).await;
        read += told["structuredContent"]["output"].as_str().unwrap_or_else(|| panic!("{told}"));
        offset = told["structuredContent"]["next_offset"].clone();
    }
    assert!(read == all, "{} bytes", read.len());
    let shown = printed(&machine, &run, &[]).await;
    assert!(shown.stdout == format!("{all}\n").into_bytes(), "{} bytes", shown.stdout.len());
    let shown = printed(&machine, &run, &["--json"]).await;
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert!(shown["output"] == all.as_str() && shown["is_whole"] == true);

    far.kill().await;
    let shown = said(&machine, &run, &[]).await;
    assert_eq!(shown.status.code(), Some(3), "a part is not taken for the whole");
    assert!(shown.stdout == format!("{}\n", &all[..KEPT]).into_bytes());
    let why = String::from_utf8(shown.stderr).unwrap();
    assert!(why.contains(&format!("The rest is on {}", step.node)), "{why}");
    assert!(why.contains("while that node is connected"), "{why}");
    let told = boss.call("run_output", json!({ "run": run, "offset": KEPT })).await;
    let hint = told["structuredContent"]["hint"].as_str().unwrap_or_else(|| panic!("{told}"));
    assert!(hint.contains(&format!("file of the node {}", step.node)), "{hint}");
    assert!(hint.contains("while that node is connected"), "{hint}");
    machine.fake.gone().await;
}
