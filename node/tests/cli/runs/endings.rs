//! How runs are ended from outside, and that nothing is left of them.

use serde_json::json;
use tasuki_proto::wire::RunStatus;

use super::{CANCELED, FAILED, Running, machine, only_run, result, steps};

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
