//! Several agents that want one role, and the person who decides.

use serde_json::{Value, json};

use crate::{
    agents::Agent,
    process::{Process, soon},
};

async fn wait(agent: &mut Agent) -> Value {
    let told = soon(agent.call("await_my_turn", json!({}))).await.unwrap();
    told["structuredContent"].clone()
}

async fn hand_over(agent: &mut Agent) -> Value {
    let words = json!({ "work_summary": "s", "next_instruction": "i", "is_task_complete": false });
    let told = soon(agent.call("handover_work", words)).await.unwrap();
    told["structuredContent"].clone()
}

#[tokio::test]
async fn a_person_gives_a_role_to_another_agent() {
    let place = tempfile::tempdir().unwrap();
    let up = Process::up(&place.path().join("data"), "--role A --role B").await;
    let mut x = Agent::instance("x", "A", up.mcp, up.data.clone()).await;
    let mut y = Agent::instance("y", "A", up.mcp, up.data.clone()).await;
    assert_eq!(wait(&mut x).await["turn"], 1);
    let refused = wait(&mut y).await["error"].clone();
    assert_eq!(refused["code"], "role_in_use");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("edges 9.9 (instance x), which is connected"), "{message}");
    // The command it names, as it names it.
    let command = message.split('`').nth(1).unwrap().strip_prefix("tasuki ").unwrap();
    assert_eq!(command, "take-over --role A --as y");
    let from = json!({ "instance": "x", "client": "edges 9.9" });
    let told = up.json(command).await;
    assert_eq!(told, [json!({ "role": "A", "instance": "y", "from": from })]);

    assert_eq!(hand_over(&mut x).await["error"]["code"], "role_in_use");
    assert_eq!(wait(&mut y).await["turn"], 1);
    assert_eq!(hand_over(&mut y).await["ended_turn"], 1);
    soon(async {
        loop {
            let status = up.json("status").await.remove(0);
            let roles = status["roles"].as_array().unwrap();
            if roles.iter().any(|role| role["client"] == "edges 9.9 as y") {
                break;
            }
        }
    })
    .await;

    // An agent whose process ended makes room at once.
    drop(y);
    soon(async { while hand_over(&mut x).await["error"]["code"] == "role_in_use" {} }).await;
}

#[tokio::test]
async fn a_role_that_cannot_be_taken_over_is_said_so() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let mut up = Process::up(&data, "--role A --role B --shared B").await;
    for (line, code, exit) in [
        ("take-over --role C", "unknown_role", 1),
        ("take-over --role B --as x", "invalid_argument", 1),
        ("take-over --role A --as a/b", "", 2),
        ("take-over --role A --node localhost", "usage", 2),
    ] {
        let output = up.run(line).await;
        assert_eq!(output.status.code(), Some(exit), "{line}: {output:?}");
        if !code.is_empty() {
            let told: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(told["error"]["code"], code, "{line}");
        }
    }
    assert!(up.stop().await.success());
    let output = up.run("take-over --role A").await;
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let line = format!("take-over --role A --node http://{}", up.mcp);
    assert_eq!(up.run(&line).await.status.code(), Some(3));
}
