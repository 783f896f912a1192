//! Agents that are launched, die, and are followed by others. A test runs what would run in a
//! terminal.

use std::process::Command;

use serde_json::Value;

use super::world::World;

const CONFIG: &str = ".config/tasuki/tasuki.toml";

const PORTS: &str =
    "listen = \"127.0.0.1:0\"\nbroker_listen = \"127.0.0.1:0\"\ndashboard = \"off\"\n";

/// One agent of a role in the configuration.
fn agent(role: &str, client: &str, more: &str) -> String {
    format!("[[launch.agent]]\nrole = \"{role}\"\nclient = \"{client}\"\n{more}\n")
}

fn configure(world: &World, roles: &str, agents: &[String]) {
    let launch = "[launch]\nterminal = \"print\"\nwait = \"0\"\n";
    world.write(CONFIG, &format!("{PORTS}{roles}\n{launch}{}", agents.concat()));
}

#[tokio::test]
async fn each_agent_is_started_with_its_role_and_waited_for() {
    let mut world = World::new();
    world.client("claude", "stay");
    world.client("codex", "stay");
    let launch = world.start("launch A=claude-code B=codex --terminal print --json");
    world.until("both are ordered", |it| it.is_ordered("A") && it.is_ordered("B")).await;
    for role in ["A", "B"] {
        world.start(&format!("launch-agent {role}"));
    }
    let said = world.ended(launch).await;
    assert_eq!(said.code, 0, "{said:?}");
    let told: Value = serde_json::from_str(&said.out).unwrap();
    for (agent, client) in told["agents"].as_array().unwrap().iter().zip(["claude-code", "codex"]) {
        assert_eq!((&agent["state"], &agent["client"]), (&"connected".into(), &client.into()));
    }
    let mut calls = world.calls();
    calls.sort();
    assert!(calls[0].starts_with("claude --append-system-prompt"), "{calls:?}");
    assert!(calls[1].starts_with("codex -c developer_instructions="), "{calls:?}");

    // A second launch starts nobody beside them.
    let again = world.done("launch A=claude-code B=codex --terminal print");
    assert!(again.contains("A was launched already and its session goes on"), "{again}");
    let second = world.run("launch-agent A");
    assert_eq!(second.code, 5, "{second:?}");
    assert_eq!(world.calls().len(), 2);
}

#[tokio::test]
#[ignore = "needs git: what was done so far is told"]
async fn a_session_that_dies_with_the_turn_is_followed_by_the_next_agent_of_its_role() {
    let mut world = World::new();
    world.client("claude", "exit 3");
    world.client("codex", "touch \"$HOME/plays/begun\"; stay");
    let agents = [agent("A", "claude-code", "on_exit = \"next\""), agent("A", "codex", "")];
    configure(&world, "", &agents);
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(world.path("project")).env("HOME", world.path("."));
        assert!(command.args(words).output().unwrap().status.success(), "{words:?}");
    };
    git(&["init", "-q"]);
    git(&[
        "-c",
        "user.name=me",
        "-c",
        "user.email=me@x",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "x",
    ]);
    world.write("project/half-done.rs", "fn main() {}\n");
    world.done("launch");
    let session = world.start("launch-agent A");
    world.until("the next agent plays", |it| it.path("plays/begun").exists()).await;
    let calls = world.calls();
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert!(calls[0].starts_with("claude ") && calls[1].starts_with("codex "), "{calls:?}");
    for expected in ["claude-code stopped before it was done (exited with code 3)", "half-done.rs"]
    {
        assert!(calls[1].contains(expected), "{expected}: {}", calls[1]);
    }
    assert_eq!(world.turn().0, "A", "the turn stays with the role");

    // Its terminal is closed: nobody is left to go on.
    world.terminate(session);
    let said = world.ended(session).await;
    assert_eq!(said.code, 8, "{said:?}");
    assert!(said.err.contains("Turn 1 of main was given to B."), "{said:?}");
    let (holder, words) = world.turn();
    assert_eq!(holder, "B");
    for expected in [
        "The session of A (codex) ended without a handover: its window was closed.",
        "half-done.rs",
        "once it has an agent again.",
    ] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
}

#[tokio::test]
async fn a_session_that_dies_is_started_again_and_gives_back_its_turn_in_the_end() {
    let mut world = World::new();
    world.client("claude", "exit 1");
    configure(&world, "", &[agent("A", "claude-code", "restarts = 1")]);
    world.done("launch");
    let session = world.start("launch-agent A");
    let said = world.ended(session).await;
    assert_eq!(said.code, 8, "{said:?}");
    assert!(said.err.contains("claude-code starts again in 2 s."), "{said:?}");
    assert_eq!(world.calls().len(), 2);
    let (holder, words) = world.turn();
    assert_eq!(holder, "B");
    assert!(
        words.contains("(claude-code) ended without a handover: exited with code 1."),
        "{words}"
    );
    // What is left of it does not keep the role from being launched again.
    assert!(world.done("launch --dry-run").contains("start    A: claude-code"));
}

#[tokio::test]
async fn a_session_that_ends_without_anything_leaves_the_loop_alone() {
    let mut world = World::new();
    world.client("codex", "exit 0");
    configure(&world, "", &[agent("B", "codex", "")]);
    world.done("launch");
    let session = world.start("launch-agent B");
    let said = world.ended(session).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!((world.turn().0.as_str(), world.calls().len()), ("A", 1));
}

#[tokio::test]
async fn the_task_of_a_dead_session_is_open_again_with_what_was_said_of_it() {
    let mut world = World::new();
    world.client("codex", "exit 1");
    let roles = "roles = [\"lead\", \"worker1\"]";
    configure(&world, roles, &[agent("worker1", "codex", "on_exit = \"give-back\"")]);
    world.done("launch");
    let issue = world.json("issue create Parser --as lead")["issue"]["issue_id"].clone();
    let issue = issue.as_str().unwrap();
    world.done(&format!("task create {issue} Parse --difficulty easy --as lead"));
    world.done(&format!("task claim {issue}/1 --as worker1"));
    let session = world.start("launch-agent worker1");
    let said = world.ended(session).await;
    assert_eq!(said.code, 8, "{said:?}");
    assert!(said.err.contains("/1 is open again."), "{said:?}");
    let task = world.json(&format!("task show {issue}/1"));
    assert_eq!(task["status"], "open", "{task}");
    let told = task["messages"][0]["content"].as_str().unwrap();
    assert!(told.starts_with("The session of worker1 (codex) ended without a handover"), "{told}");
}

#[tokio::test]
async fn a_client_that_is_not_there_is_named_and_the_others_start() {
    let mut world = World::new();
    world.client("codex", "stay");
    let launch = world.start("launch A=claude-code B=codex --terminal print");
    world.until("the one that is there is ordered", |it| it.is_ordered("B")).await;
    world.start("launch-agent B");
    let said = world.ended(launch).await;
    assert_eq!(said.code, 7, "{said:?}");
    assert!(said.out.contains("no folder of PATH has a program \"claude\""), "{said:?}");
    assert!(said.out.contains("connected after"), "{said:?}");
}

#[tokio::test]
async fn an_agent_that_dies_before_it_calls_is_told_with_its_end() {
    let mut world = World::new();
    world.client("codex", "");
    world.write("bin/codex", "#!/bin/sh\nexit 9\n");
    configure(&world, "", &[agent("B", "codex", "restarts = 0")]);
    let launch = world.start("launch --wait 1m");
    world.until("it is ordered", |it| it.is_ordered("B")).await;
    world.start("launch-agent B");
    let said = world.ended(launch).await;
    assert_eq!(said.code, 7, "{said:?}");
    assert!(said.out.contains("not connected: exited with code 9"), "{said:?}");
}
