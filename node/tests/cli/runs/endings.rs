//! How runs are ended from outside, and that nothing is left of them.

use std::process::Stdio;

use rustix::process::Signal;
use serde_json::json;
use tasuki_proto::wire::RunStatus;
use tokio::process::Command;

use super::{CANCELED, FAILED, Running, machine, only_run, result, steps};
use crate::fake_agent::Machine;

/// Holds RN4.
#[tokio::test]
async fn ctrl_c_ends_the_run_and_all_that_it_started() {
    let mut machine = machine().await;
    // One that has begun to answer, and one that does all it can to stay.
    for task in ["turn 'let me look'; hang", "stubborn; daemon; turn 'let me look'; hang"] {
        let running = Running::run(&machine, &["scout", task]);
        machine.fake.begun(1).await;
        running.interrupt();
        let told = running.result(CANCELED).await;
        assert_eq!(told["status"], "canceled", "{told}");
        assert_eq!(told["output"], "Agent aborted: Canceled.");
        machine.fake.gone().await;
    }
}

#[tokio::test]
async fn ctrl_c_ends_all_of_a_parallel_run_and_the_rest_of_a_chain() {
    let mut machine = machine().await;
    let runs = machine.runs();
    let tasks = [("scout", "hang"), ("planner", "hang"), ("scout", "say done")];
    for (mode, begun) in [("--parallel", 3), ("--chain", 1)] {
        let running = Running::run(&machine, &[mode, &steps(&machine, &tasks)]);
        machine.fake.begun(begun).await;
        running.interrupt();
        let told = running.result(CANCELED).await;
        machine.fake.gone().await;
        let run = runs.get(told["run_id"].as_str().unwrap()).await.unwrap();
        assert_eq!(run.status(), RunStatus::Canceled, "{run:?}");
        assert!(run.steps.iter().all(|step| step.ended_ms != 0), "{run:?}");
    }
}

/// Who does not want to wait for the end of what it canceled need not.
#[tokio::test]
async fn a_second_ctrl_c_ends_the_command_and_the_run_ends_all_the_same() {
    let mut machine = machine().await;
    let mut running = Running::run(&machine, &["scout", "stubborn; hang"]);
    machine.fake.begun(1).await;
    let runs = machine.runs();
    let run_id = only_run(&runs).await;
    running.interrupt();
    runs.until(&run_id, |run| run.is_stopping).await;
    running.interrupt();
    let ended = crate::process::soon(running.0.wait()).await.unwrap();
    assert!(!ended.success(), "{ended}");
    assert_eq!(runs.end(&run_id).await, RunStatus::Canceled);
    machine.fake.gone().await;
}

/// A command of its user that another program becomes.
fn started_by(starter: &[&str], machine: &Machine, args: &[&str]) -> Running {
    let own = machine.command(args);
    let own = own.as_std();
    let mut command = Command::new(starter[0]);
    command.args(&starter[1..]).arg(own.get_program()).args(own.get_args());
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(own.get_current_dir().unwrap()).stdin(Stdio::null()).kill_on_drop(true);
    Running::begin(command)
}

/// Its shell says so, and then the system does.
#[tokio::test]
async fn the_end_of_its_terminal_cancels_a_run_as_ctrl_c_does() {
    let mut machine = machine().await;
    // Whoever runs the tests may ignore it.
    let starter = ["env", "--default-signal=HUP"];
    let running = started_by(&starter, &machine, &["run", "scout", "stubborn; hang", "--json"]);
    machine.fake.begun(1).await;
    let runs = machine.runs();
    let run_id = only_run(&runs).await;
    running.send(Signal::HUP);
    runs.until(&run_id, |run| run.is_stopping).await;
    running.send(Signal::HUP);
    let told = running.result(CANCELED).await;
    assert_eq!(told["status"], "canceled", "{told}");
    machine.fake.gone().await;
}

#[tokio::test]
async fn a_run_that_ignores_the_end_of_its_terminal_goes_on() {
    let mut machine = machine().await;
    let starter = ["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"];
    let running = started_by(&starter, &machine, &["run", "scout", "wait_go; say done", "--json"]);
    machine.fake.begun(1).await;
    running.send(Signal::HUP);
    machine.fake.let_go(1);
    assert_eq!(running.result(0).await["output"], "done");
    machine.fake.gone().await;
}

/// What it started comes to the node, which goes on.
#[tokio::test]
async fn an_agent_that_kills_what_watches_over_it_has_failed_and_leaves_nothing() {
    let mut machine = machine().await;
    for task in
        ["daemon; kill -9 $PPID; hang", "say done; daemon; sleep 1000 & kill -9 $PPID; hang"]
    {
        let told = result(&machine, FAILED, &["scout", task]).await;
        assert_eq!(told["steps"][0]["failure"], "killed", "{told}");
        assert_eq!(told["output"], "Agent failed: What watched over it was killed.");
        machine.fake.begun(1).await;
        machine.fake.gone().await;
    }
    assert_eq!(result(&machine, 0, &["scout", "say done"]).await["output"], "done");
}

#[tokio::test]
async fn a_run_that_takes_too_long_is_ended() {
    let mut machine = machine().await;
    machine.fake.add("hasty", "timeout: 1s\n");
    for args in [&["hasty", "turn x; hang"][..], &["scout", "daemon; hang", "--timeout", "1s"]] {
        let told = result(&machine, FAILED, args).await;
        let step = &told["steps"][0];
        assert_eq!((&step["failure"], &step["status"]), (&json!("timed_out"), &json!("failed")));
        assert_eq!(told["output"], "Agent failed: Timed out after 1 s.");
        machine.fake.gone().await;
    }
}

/// What it leaves is ended; what it said is kept.
#[tokio::test]
async fn an_agent_that_is_done_and_does_not_end_is_ended() {
    let mut machine = machine().await;
    let told = result(&machine, FAILED, &["scout", "say done; hang"]).await;
    assert_eq!(told["steps"][0]["failure"], "killed", "{told}");
    machine.fake.gone().await;
    let told = result(&machine, 0, &["scout", "daemon; say done"]).await;
    assert_eq!(told["output"], "done");
    machine.fake.gone().await;
}
