//! Several agents that want one role, and the person who decides.

use serde_json::{Value, json};

use crate::{
    agents::Agent,
    process::{Process, soon, tasuki},
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

/// How `tasuki status` shows a role, once it is in this state.
async fn shown(up: &Process, role: &str, state: &str) -> Value {
    let look = async {
        loop {
            let status = up.json("status").await.remove(0);
            let roles = status["roles"].as_array().unwrap().iter();
            let mut found = roles.filter(|it| it["role"] == role && it["state"] == state);
            if let Some(it) = found.next() {
                return it.clone();
            }
        }
    };
    soon(look).await
}

#[tokio::test]
async fn status_says_who_plays_a_role_and_that_it_left_also_after_a_restart() {
    let place = tempfile::tempdir().unwrap();
    let mut up = Process::up(&place.path().join("data"), "--role A --role B").await;
    let never = shown(&up, "A", "never").await;
    assert_eq!(never["last_seen_ms"], 0);
    let mut x = Agent::instance("x", "A", up.mcp, up.data.clone()).await;
    assert_eq!(wait(&mut x).await["turn"], 1);
    let plays = shown(&up, "A", "working").await;
    assert_eq!((&plays["instance"], &plays["client"]), (&json!("x"), &json!("edges 9.9 as x")));
    let mut y = Agent::instance("y", "B", up.mcp, up.data.clone()).await;
    let waiting = async { wait(&mut y).await };
    let looking = async { shown(&up, "B", "waiting").await };
    let waits = tokio::select! {
        told = waiting => panic!("{told}"),
        waits = looking => waits,
    };
    assert_eq!(waits["waits"], json!(["turn of main"]));
    assert_ne!(waits["waits_since_ms"][0], 0);

    drop(x);
    let left = shown(&up, "A", "gone").await;
    assert_eq!((&left["is_present"], &left["has_left"]), (&json!(false), &json!(true)));
    let status = up.json("status --role A").await.remove(0);
    assert_eq!(status["roles"].as_array().unwrap().len(), 1);
    let problem = status["problems"][0]["what"].as_str().unwrap();
    assert!(problem.starts_with("A has turn 1 of main and its agent left"), "{problem}");

    up.stop().await;
    up.start().await;
    let again = shown(&up, "A", "gone").await;
    assert_eq!(again["client"], left["client"]);
    // Each heartbeat says how long ago it was, and is on its way for a moment.
    let ms = |it: &Value| it["last_seen_ms"].as_u64().unwrap();
    assert!((ms(&left)..ms(&left) + 5_000).contains(&ms(&again)), "{left} {again}");
    let unknown = up.run("status --role typo").await;
    assert_eq!(unknown.status.code(), Some(2));
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

/// The command of the README names no agent, and gives nothing to one that nobody meant.
#[tokio::test]
async fn whoever_names_no_agent_is_told_which_there_are() {
    let place = tempfile::tempdir().unwrap();
    let up = Process::up(&place.path().join("data"), "--role A --role B").await;
    let readme = include_str!("../../../README.md");
    let command = readme.lines().find_map(|line| line.strip_prefix("tasuki take-over ")).unwrap();
    let command = format!("take-over {}", command.split('#').next().unwrap().trim());
    assert_eq!(command, "take-over --role B");
    let home = place.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let run = async |line: &str| {
        let mut tasuki = tasuki(&up.data);
        tasuki.args(line.split_whitespace()).env("HOME", &home).current_dir(&home);
        for name in ["XDG_CONFIG_HOME", "CODEX_HOME"] {
            tasuki.env_remove(name);
        }
        let output = soon(tasuki.arg("--data").arg(&up.data).output()).await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, out, err) = run(&command).await;
    assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
    assert!(err.contains("No other agent is known for B"), "{err}");

    assert_eq!(run("connect codex --role B").await.0, Some(0));
    let config = std::fs::read_to_string(home.join(".codex/config.toml")).unwrap();
    let id = config.split("as=").nth(1).unwrap().split('&').next().unwrap().to_owned();
    let mut plays = Agent::instance("plays", "B", up.mcp, up.data.clone()).await;
    assert_eq!(hand_over(&mut plays).await["error"]["code"], "not_your_turn");
    let mut other = Agent::instance("other", "B", up.mcp, up.data.clone()).await;
    assert_eq!(hand_over(&mut other).await["error"]["code"], "role_in_use");
    let (code, _, err) = run(&command).await;
    assert_eq!(code, Some(2), "{err}");
    let offered: Vec<_> =
        err.lines().filter_map(|line| line.trim().strip_prefix("tasuki ")).collect();
    let of = |id: &str| format!("{command} --as {id}  (");
    assert!(offered[0].starts_with(&of(&id)) && offered[0].contains("configured"), "{err}");
    assert!(offered[1].starts_with(&of("other")) && offered[1].contains("edges 9.9"), "{err}");
    assert_eq!(offered.len(), 2, "whoever plays it is not offered it: {err}");
    assert_eq!(hand_over(&mut plays).await["error"]["code"], "not_your_turn");

    // Nobody has this id, so the role would be nobody's.
    let (code, out, err) = run(&format!("{command} --as tyop")).await;
    assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
    assert!(err.contains("B is played by plays now (edges 9.9, connected)"), "{err}");
    assert!(err.contains(&of("other")) && err.contains("nothing was changed"), "{err}");
    assert_eq!(hand_over(&mut plays).await["error"]["code"], "not_your_turn");
    let told = up.json(&format!("{command} --as later --new-id")).await;
    assert_eq!(told[0]["from"]["instance"], "plays");
    let (_, _, err) = run(&command).await;
    assert!(err.contains("B is played by later now"), "{err}");
    assert_eq!(up.json(&format!("{command} --as plays")).await[0]["instance"], "plays");
    assert_eq!(hand_over(&mut plays).await["error"]["code"], "not_your_turn");

    let (code, out, err) = run(&format!("{command} --as {id}")).await;
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with(&format!("B is played by {id}; until now edges 9.9 (plays)")), "{out}");
    let told = up.json(&format!("{command} --as=")).await;
    assert_eq!(told[0]["instance"], Value::Null);
}

#[tokio::test]
async fn a_role_that_cannot_be_taken_over_is_said_so() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let mut up = Process::up(&data, "--role A --role B --shared B").await;
    for (line, code, exit) in [
        ("take-over --role C", "unknown_role", 1),
        ("take-over --role C --as x", "unknown_role", 1),
        ("take-over --role B", "invalid_argument", 1),
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
