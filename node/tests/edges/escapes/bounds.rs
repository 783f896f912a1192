//! What a command may use up, and that nothing of it is left.

use std::fs;

use rustix::process::{Pid, test_kill_process};
use serde_json::json;

use super::{Place, SANDBOXED, facts};
use crate::{http, process::soon};

/// Until no process has the number that a command wrote to a file.
async fn gone(place: &Place, file: &str) {
    let number = fs::read_to_string(place.path("root/out").join(file)).unwrap();
    let process = Pid::from_raw(number.trim().parse().unwrap()).unwrap();
    let looking = async {
        while test_kill_process(process).is_ok() {
            tokio::task::yield_now().await;
        }
    };
    soon(looking).await;
}

/// Until a command wrote to a file.
async fn written(place: &Place, file: &str) {
    let path = place.path("root/out").join(file);
    let looking = async {
        while !fs::read_to_string(&path).is_ok_and(|it| it.ends_with('\n')) {
            tokio::task::yield_now().await;
        }
    };
    soon(looking).await;
}

/// Starts something that outlives its parent twice over.
const DAEMON: &str = "(setsid sh -c 'trap \"\" TERM HUP INT; (setsid sleep 1000 & echo $! > out/two); \
                      echo $$ > out/one; while :; do sleep 1000; done' &) ; \
                      until [ -s out/one ] && [ -s out/two ]; do :; done";

/// Holds CM3.
#[tokio::test]
#[ignore = "needs landlock"]
async fn what_a_command_leaves_running_ends_with_it() {
    let place = Place::new(SANDBOXED).await;
    assert_eq!(facts(&place.script(DAEMON).await)["exit_code"], 0);
    for file in ["one", "two"] {
        gone(&place, file).await;
    }
}

/// Holds CM3.
#[tokio::test]
#[ignore = "needs landlock"]
async fn a_call_that_is_cancelled_ends_its_command() {
    let place = Place::new(SANDBOXED).await;
    let script = place.filled(&format!("{DAEMON}; echo $$ > out/own; sleep 1000"));
    let call = http::call(8, "run_command", json!({ "argv": ["sh", "-c", script] }));
    let _stream = soon(place.client.post(&call)).await;
    written(&place, "own").await;
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": { "requestId": 8, "reason": "enough" } });
    assert_eq!(soon(place.client.post(&cancel)).await.status, 202);
    for file in ["one", "two", "own"] {
        gone(&place, file).await;
    }
}

/// Holds CM3.
#[tokio::test]
#[ignore = "needs landlock"]
async fn a_node_that_is_killed_takes_its_commands_along() {
    let mut place = Place::new(SANDBOXED).await;
    let script = place.filled(&format!("{DAEMON}; echo $$ > out/own; sleep 1000"));
    let call = http::call(8, "run_command", json!({ "argv": ["sh", "-c", script] }));
    let _stream = soon(place.client.post(&call)).await;
    written(&place, "own").await;
    place.up.kill().await;
    for file in ["one", "two", "own"] {
        gone(&place, file).await;
    }
}

#[tokio::test]
#[ignore = "needs landlock and perl"]
async fn time_memory_output_and_files_are_bounded() {
    let place = Place::new(SANDBOXED).await;
    let argv = json!(["sh", "-c", "trap '' TERM; echo begun; while :; do sleep 1; done"]);
    let told = place.call("run_command", json!({ "argv": argv, "timeout_sec": 1 })).await;
    let told = facts(&told);
    assert_eq!((&told["timed_out"], &told["stdout"]), (&json!(true), &json!("begun\n")), "{told}");
    assert!(told["exit_code"].is_null(), "{told}");
    // More than the operator allows is not given.
    let told = place.script("perl -e '$a = \"x\" x (1 << 30); print length($a)'").await;
    assert_ne!(facts(&told)["exit_code"], 0, "a GiB with 512 MiB: {told}");
    let told =
        place.script("head -c 100000000 /dev/zero | tr '\\0' a; echo end; echo err >&2").await;
    let told = facts(&told);
    assert_eq!(told["stdout"].as_str().map(str::len), Some(64 * 1024));
    assert!(told["stdout"].as_str().unwrap().ends_with("aaaend\n"));
    assert_eq!(
        (&told["stdout_truncated"], &told["stdout_bytes"]),
        (&json!(true), &json!(100_000_004))
    );
    assert_eq!((&told["stderr"], told.get("stderr_truncated")), (&json!("err\n"), None));
    let told = place.script("head -c 100000000 /dev/zero > out/big").await;
    assert_ne!(facts(&told)["exit_code"], 0, "{told}");
    assert!(fs::metadata(place.path("root/out/big")).unwrap().len() <= 16 << 20);
    // What it never reads does not hold it up.
    let asked = json!({ "argv": ["sh", "-c", "exit 0"], "stdin": "x".repeat(1 << 20) });
    assert_eq!(facts(&place.call("run_command", asked).await)["exit_code"], 0);
    let told = place.script("kill -9 $$").await;
    assert_eq!((&facts(&told)["signal"], &facts(&told)["exit_code"]), (&json!(9), &json!(null)));
}

/// Each starts two more, seven times over, and stays; root has no limit of processes.
#[tokio::test]
#[ignore = "needs landlock"]
async fn what_starts_itself_over_and_over_ends_at_its_time_limit() {
    let place = Place::new(SANDBOXED).await;
    let bomb = "trap '' TERM HUP INT\nif [ $1 -lt 7 ]; then\nsetsid sh out/bomb $(($1 + 1)) &\n\
                sh out/bomb $(($1 + 1)) &\nelse echo $$ >> out/pids; fi\n\
                while :; do sleep 1000; done\n";
    fs::write(place.path("root/out/bomb"), bomb).unwrap();
    let asked = json!({ "argv": ["sh", "out/bomb", "0"], "timeout_sec": 4 });
    let told = place.call("run_command", asked).await;
    assert_eq!(facts(&told)["timed_out"], true, "{told}");
    let pids = fs::read_to_string(place.path("root/out/pids")).unwrap();
    assert!(2 < pids.lines().count(), "{pids}");
    for pid in pids.lines() {
        let pid = Pid::from_raw(pid.parse().unwrap()).unwrap();
        assert!(test_kill_process(pid).is_err(), "{pid:?}");
    }
}
