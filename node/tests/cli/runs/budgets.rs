//! What a run may use, and what becomes of one that uses more.

use serde_json::json;
use tasuki_proto::wire::RunStatus;

use super::{FAILED, machine, result, steps};

#[tokio::test]
async fn a_run_that_uses_more_than_it_may_is_stopped() {
    let mut machine = machine().await;
    // Each answer costs a thousandth of a dollar.
    for limit in [["--max-turns", "2"], ["--max-cost", "0.002"]] {
        let args = [&["scout", "turn a; turn b; turn c; hang"][..], &limit].concat();
        let told = result(&machine, FAILED, &args).await;
        let words = (&told["status"], &told["steps"][0]["failure"]);
        assert_eq!(words, (&json!("out_of_budget"), &json!("budget")), "{told}");
        let output = told["output"].as_str().unwrap();
        let name = limit[0].trim_start_matches('-').replace('-', "_");
        assert!(output.contains("budget") && output.contains(&name), "{output}");
        machine.fake.gone().await;
        let args = [&["scout", "turn a; say b"][..], &limit].concat();
        assert_eq!(result(&machine, 0, &args).await["output"], "b");
    }
}

/// What a step leaves is all that the next may use.
#[tokio::test]
async fn nothing_more_of_a_chain_begins_without_a_budget() {
    let mut machine = machine().await;
    let chain = [("scout", "turn a; say b"), ("planner", "say c")];
    let chain = steps(&machine, &chain);
    let told = result(&machine, FAILED, &["--chain", &chain, "--max-turns", "2"]).await;
    assert_eq!(told["status"], "out_of_budget", "{told}");
    let run = machine.runs().only().await;
    assert_eq!((run.status(), run.steps[1].started_ms), (RunStatus::OutOfBudget, 0), "{run:?}");
    machine.fake.gone().await;
    assert_eq!(result(&machine, 0, &["--chain", &chain, "--max-turns", "3"]).await["output"], "c");
}
