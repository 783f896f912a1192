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

/// Whether this kernel bounds signals (Linux 6.12).
fn bounds_signals() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|it| it.parse::<u32>().unwrap_or_default());
    (numbers.next(), numbers.next()) >= (Some(6), Some(12))
}

/// Holds CM3. Each starts the next one in a session of its own and ends: whoever lists processes
/// comes too late.
#[tokio::test]
#[ignore = "needs landlock and perl"]
async fn what_runs_away_from_its_end_is_ended_all_the_same() {
    if !bounds_signals() {
        return;
    }
    let place = Place::new(SANDBOXED).await;
    let runner = "use POSIX; $SIG{CHLD} = \"IGNORE\"; fork() for 1..4; \
                  while (1) { my $p = fork(); exit if $p; POSIX::setsid() }";
    let script = format!("perl -e '{runner}' & sleep 1000");
    let asked = json!({ "argv": ["sh", "-c", script], "timeout_sec": 2 });
    let told = place.call("run_command", asked).await;
    let told = facts(&told);
    assert_eq!(told["timed_out"], true, "{told}");
    assert!(told["duration_ms"].as_u64().unwrap() < 10_000, "{told}");
    let left = fs::read_dir("/proc").unwrap().flatten().filter(|it| {
        let line = fs::read_to_string(it.path().join("cmdline")).unwrap_or_default();
        line.contains("POSIX::setsid()") && line.starts_with("perl")
    });
    assert_eq!(left.count(), 0);
}

/// As root the node counts, as others the system does.
#[tokio::test]
#[ignore = "needs landlock"]
async fn a_command_has_no_more_processes_than_it_may() {
    if !rustix::process::geteuid().is_root() || !bounds_signals() {
        return;
    }
    let place = Place::new(&format!("{SANDBOXED}processes = 40\n")).await;
    let script = "i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i + 1)); done; wait";
    let told = place.script(script).await;
    let told = facts(&told);
    assert_eq!(told["signal"], 9, "{told}");
    assert!(told["stderr"].as_str().unwrap().contains("more than 40 processes"), "{told}");
    assert_eq!(facts(&place.script("exit 0").await)["exit_code"], 0);
}
