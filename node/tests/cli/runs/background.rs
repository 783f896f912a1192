//! Runs that nobody waits for at once, and the commands that look at them.

use std::process::Stdio;

use serde_json::{Value, json};
use tasuki_proto::wire::RunStatus;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{CANCELED, FAILED, Running, lines, machine, parsed, printed, result, said};
use crate::{fake_agent::Machine, process::soon};

/// Starts one, which waits for the test.
async fn begin(machine: &mut Machine, task: &str) -> String {
    let told = result(machine, 0, &["scout", task, "--background"]).await;
    machine.fake.begun(1).await;
    told["run"]["run_id"].as_str().unwrap_or_else(|| panic!("{told}")).to_owned()
}

#[tokio::test]
async fn a_run_in_the_background_is_listed_shown_watched_and_read() {
    let mut machine = machine().await;
    let run_id = begin(&mut machine, "turn 'so far'; tool bash; wait_go; say 'all of it'").await;
    let told = printed(&machine, &["runs", "show", "latest"]).await;
    assert!(told.contains(&run_id), "{told}");
    let open = lines(&machine, 0, &["runs", "list", "--open"]).await;
    assert_eq!((open.len(), &open[0]["run_id"]), (1, &json!(run_id)), "{open:?}");
    let shown = printed(&machine, &["runs", "show", &run_id]).await;
    assert!(shown.contains(&run_id) && shown.contains("scout"), "{shown}");
    assert!(lines(&machine, 0, &["runs", "show", "latest"]).await[0].is_object());
    let watching = Running::begin(machine.command(&["runs", "watch", &run_id, "--json"]));
    machine.fake.let_go(1);
    let told = watching.result(0).await;
    assert_eq!((&told["output"], &told["status"]), (&json!("all of it"), &json!("succeeded")));
    assert_eq!(printed(&machine, &["runs", "output", &run_id]).await, "all of it\n");
    let short = run_id.rsplit('_').next().unwrap();
    assert_eq!(printed(&machine, &["runs", "output", short]).await, "all of it\n");
    // Who comes late is told at once.
    assert_eq!(lines(&machine, 0, &["runs", "watch", &run_id]).await.pop().unwrap(), told);
    let open = lines(&machine, 0, &["runs", "list", "--open"]).await;
    assert!(open.iter().all(|line| line["run_id"] != json!(run_id)), "{open:?}");
    machine.fake.gone().await;
}

/// The partial output and the last tool come from another process than the one that asks.
#[tokio::test]
async fn whoever_watches_sees_how_far_it_is() {
    let mut machine = machine().await;
    let run_id = begin(&mut machine, "turn 'so far'; tool bash; wait_go; say done").await;
    let mut watching = machine.command(&["runs", "watch", &run_id, "--json"]);
    watching.stdout(Stdio::piped());
    let mut watching = watching.spawn().unwrap();
    let mut out = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut seen = String::new();
    while !(seen.contains("so far") && seen.contains("bash")) {
        let line = soon(out.next_line()).await.unwrap();
        seen.push_str(&line.unwrap_or_else(|| panic!("{seen}")));
    }
    machine.fake.let_go(1);
    let mut last = String::new();
    while let Some(line) = soon(out.next_line()).await.unwrap() {
        last = line;
    }
    assert_eq!(parsed(&last)[0]["output"], "done", "{last}");
    assert!(soon(watching.wait()).await.unwrap().success());
    machine.fake.gone().await;
}

/// Watching is not having: Ctrl-C ends the watching alone.
#[tokio::test]
async fn a_run_is_not_ended_by_who_stops_to_watch_it() {
    let mut machine = machine().await;
    let run_id = begin(&mut machine, "wait_go; say done").await;
    let Running(mut watching) = Running::begin(machine.command(&["runs", "watch", &run_id]));
    let mut errors = BufReader::new(watching.stderr.take().unwrap()).lines();
    // It is under way once it has said something.
    soon(errors.next_line()).await.unwrap();
    let watching = Running(watching);
    watching.interrupt();
    assert_eq!(watching.end().await.code, CANCELED);
    machine.fake.let_go(1);
    assert_eq!(machine.runs().end(&run_id).await, RunStatus::Succeeded);
    machine.fake.gone().await;
}

#[tokio::test]
async fn a_run_in_the_background_is_canceled() {
    let mut machine = machine().await;
    let run_id = begin(&mut machine, "stubborn; daemon; hang").await;
    let watching = Running::begin(machine.command(&["runs", "watch", &run_id, "--json"]));
    printed(&machine, &["runs", "cancel", &run_id]).await;
    assert_eq!(watching.result(CANCELED).await["status"], "canceled");
    machine.fake.gone().await;
    // It is canceled once and for all.
    printed(&machine, &["runs", "cancel", &run_id]).await;
    assert_eq!(machine.runs().end(&run_id).await, RunStatus::Canceled);
    let failed = result(&machine, 0, &["scout", "exit 7", "--background"]).await;
    let failed = failed["run"]["run_id"].as_str().unwrap().to_owned();
    assert_eq!(
        lines(&machine, FAILED, &["runs", "watch", &failed]).await.pop().unwrap()["status"],
        "failed"
    );
    machine.fake.gone().await;
}

/// Who waits for a run is told why there is no result.
#[tokio::test]
async fn a_run_that_others_canceled_has_failed_for_who_waits() {
    let mut machine = machine().await;
    let running = Running::begin(machine.command(&["run", "scout", "hang"]));
    machine.fake.begun(1).await;
    printed(&machine, &["runs", "cancel", "latest"]).await;
    let told = running.end().await;
    assert_eq!(told.code, FAILED, "{told:?}");
    assert!(told.err.contains("was canceled: "), "{told:?}");
    machine.fake.gone().await;
}

#[tokio::test]
async fn what_there_is_none_of_is_said() {
    let machine = machine().await;
    for args in [
        &["runs", "show", "latest"][..],
        &["runs", "output", "run_1700000000000_00af"],
        &["runs", "cancel", "run_1700000000000_00af"],
        &["runs", "watch", "run_1700000000000_00af"],
        &["runs", "reply", "run_1700000000000_00af", "1", "yes"],
    ] {
        let told = said(&machine, &[args, &["--json"]].concat()).await;
        assert_eq!(told.code, 1, "{args:?}: {told:?}");
        let why: Value = parsed(&told.out).remove(0);
        assert_eq!(why["error"]["code"], "unknown_run", "{args:?}: {told:?}");
    }
    let offers = lines(&machine, 0, &["runs", "runners"]).await;
    let runners = offers[0]["runners"].as_array().unwrap();
    assert!(runners.iter().any(|name| name == "fake"), "{offers:?}");
}
