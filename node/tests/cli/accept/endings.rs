//! How commands end, and that nothing of them is left.

use std::{fs, path::Path, process::Stdio};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use tasuki_proto::wire;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::unix::pipe,
    process::{Child, Command},
};

use super::{Office, Said, caller, made};
use crate::process::soon;

/// What a command says to a test, past everything: a pipe that the operator lets it write to.
struct Pipe {
    lines: tokio::io::Lines<BufReader<pipe::Receiver>>,
    _open: pipe::Sender,
}

impl Pipe {
    fn new(path: &Path) -> Self {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
        let receiver = pipe::OpenOptions::new().open_receiver(path).unwrap();
        let sender = pipe::OpenOptions::new().open_sender(path).unwrap();
        Self { lines: BufReader::new(receiver).lines(), _open: sender }
    }

    async fn next(&mut self) -> String {
        soon(self.lines.next_line()).await.unwrap().unwrap()
    }
}

/// An office whose commands may write to a pipe.
async fn telling() -> (Office, Pipe) {
    let office = Office::open().await;
    let path = office.path("pipe");
    let pipe = Pipe::new(&path);
    let at = path.display();
    office.operator(&format!("{}\nwrite = [\"{at}\"]\nenv = [\"PIPE={at}\"]", super::ALLOW));
    (office, pipe)
}

/// Until no process has this number.
async fn gone(pid: i32) {
    let pid = Pid::from_raw(pid).unwrap();
    let looking = async {
        while test_kill_process(pid).is_ok() {
            tokio::task::yield_now().await;
        }
    };
    soon(looking).await;
}

/// Holds AC4.
#[tokio::test]
#[ignore = "needs git and landlock"]
async fn what_a_command_leaves_running_ends_with_it() {
    let (mut office, mut pipe) = telling().await;
    // In its group, in a session of its own, and twice removed from it; one refuses to be asked.
    let script = "sleep 1000 & echo $! > $PIPE\n\
                  setsid sleep 1000 & echo $! > $PIPE\n\
                  (setsid sh -c 'trap \"\" TERM HUP INT; (sleep 1000 & echo $! > $PIPE; : > up1); \
                  echo $$ > $PIPE; : > up2; while :; do sleep 1000; done' &)\n\
                  until [ -e up1 ] && [ -e up2 ]; do :; done\n\
                  echo done\n";
    let ran = office.script(0, script).await;
    assert_eq!(ran.output, "done\n");
    for _ in 0..4 {
        gone(pipe.next().await.parse().unwrap()).await;
    }
    office.check_clean();
}

#[tokio::test]
#[ignore = "needs git and landlock"]
async fn a_command_that_runs_over_its_time_is_killed_with_all_of_its_own() {
    let (mut office, mut pipe) = telling().await;
    let path = office.path("pipe");
    office.operator(&format!(
        "{}\nwrite = [\"{at}\"]\nenv = [\"PIPE={at}\"]\ntimeout_sec = 1",
        super::ALLOW,
        at = path.display()
    ));
    let script = "echo begun; trap '' TERM; (setsid sh -c 'echo $$ > $PIPE; sleep 1000' &)\n\
                  echo $$ > $PIPE; while :; do sleep 1000; done";
    let ran = office.script(8, script).await;
    assert!(ran.is_timed_out && ran.exit_code == 137, "{ran:?}");
    assert_eq!(ran.output, "begun\n");
    for _ in 0..2 {
        gone(pipe.next().await.parse().unwrap()).await;
    }
    office.check_clean();
}

/// A fork bomb that stops by itself: each starts two more, seven times over.
#[tokio::test]
#[ignore = "needs git and landlock"]
async fn what_starts_itself_over_and_over_ends_at_its_time_limit() {
    let (mut office, mut pipe) = telling().await;
    let path = office.path("pipe");
    office.operator(&format!(
        "{}\nwrite = [\"{at}\"]\nenv = [\"PIPE={at}\"]\ntimeout_sec = 5",
        super::ALLOW,
        at = path.display()
    ));
    let script = "trap '' TERM HUP INT\n\
                  if [ ${1:-0} -lt 7 ]; then\n\
                  setsid sh script.sh $((${1:-0} + 1)) &\n\
                  sh script.sh $((${1:-0} + 1)) &\n\
                  else echo $$ > $PIPE; fi\n\
                  while :; do sleep 1000; done";
    let ran = office.script(8, script).await;
    assert!(ran.is_timed_out, "{ran:?}");
    for _ in 0..128 {
        gone(pipe.next().await.parse().unwrap()).await;
    }
    office.check_clean();
}

#[tokio::test]
#[ignore = "needs git and landlock"]
async fn a_hundred_megabytes_are_hashed_and_not_kept() {
    let mut office = Office::open().await;
    let ran = office.script(0, "head -c 100000000 /dev/zero | tr '\\0' 'a'; echo end").await;
    let mut hasher = blake3::Hasher::new();
    for _ in 0..100 {
        hasher.update(&[b'a'; 1_000_000]);
    }
    hasher.update(b"end\n");
    assert_eq!(ran.all["output_hash"], hasher.finalize().to_hex().as_str());
    assert_eq!(ran.all["output_bytes"], 100_000_004);
    assert_eq!((ran.output.len(), ran.output.ends_with("aaaend\n")), (16 * 1024, true));
}

#[tokio::test]
#[ignore = "needs git and landlock"]
async fn a_command_that_is_ended_by_a_signal_failed() {
    let mut office = Office::open().await;
    let ran = office.script(8, "kill -9 $PPID 2>/dev/null && echo could; kill -11 $$").await;
    assert_eq!((ran.exit_code, ran.output.as_str(), ran.is_timed_out), (139, "", false));
}

#[tokio::test]
#[ignore = "needs git and landlock"]
async fn a_checkout_that_does_not_want_to_be_removed_is() {
    let mut office = Office::open().await;
    let script = "mkdir -p a/b/c; touch a/b/c/d; ln -s / a/b/root; ln -s .. a/up; chmod 0 a/b/c a/b; \
                  mkfifo f; rm -rf .git; chmod 0 .";
    office.script(0, script).await;
    office.check_clean();
}

#[tokio::test]
#[ignore = "needs git and landlock"]
async fn a_claim_is_held_as_long_as_it_runs_and_whoever_loses_it_stops() {
    const LEASE_MS: u64 = 9_000;
    let (mut office, mut pipe) = telling().await;
    let asked = wire::GetSettingsRequest { caller: caller() };
    let now = made(office.swarm.get_settings(asked).await);
    let request = wire::SetSettingsRequest {
        caller: caller(),
        key: office.key(),
        person: "alice".into(),
        settings: Some(wire::SwarmSettings { delivery_claim_ms: LEASE_MS, ..now }),
    };
    made(office.swarm.set_settings(request).await);
    let commit = office.repository.commit(&[("script.sh", ENDLESS)]);
    let id = office.deliver(&commit, &["sh script.sh"]).await;
    let accepting = spawn(&office, &id);
    let pids = [pipe.next().await, pipe.next().await];
    let first = office.delivery(&id).await.lease_expires_ms;
    let renewing = async {
        while office.delivery(&id).await.lease_expires_ms == first {
            tokio::task::yield_now().await;
        }
    };
    soon(renewing).await;
    // The same role gives a verdict elsewhere: there is no claim left.
    let args = [&id, "--no-run", "--reject", "--feedback", "too slow"];
    assert_eq!(office.run(&args).await.code, 0);
    let said = Said::of(&soon(accepting.wait_with_output()).await.unwrap());
    assert_eq!(said.code, 1, "{said:?}");
    for pid in pids {
        gone(pid.parse().unwrap()).await;
    }
    office.check_clean();
    assert!(office.delivery(&id).await.evidence.is_empty());
}

fn spawn(office: &Office, id: &str) -> Child {
    let mut command: Command = office.command(&[id, "--json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn send(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

const ENDLESS: &str =
    "(setsid sh -c 'echo $$ > $PIPE; sleep 1000' &) ; echo $$ > $PIPE; sleep 1000";

#[tokio::test]
#[ignore = "needs git and landlock"]
async fn whoever_is_interrupted_leaves_nothing_behind_and_attaches_nothing() {
    for signal in [Signal::INT, Signal::TERM] {
        let (mut office, mut pipe) = telling().await;
        let commit = office.repository.commit(&[("script.sh", ENDLESS)]);
        let id = office.deliver(&commit, &["sh script.sh"]).await;
        let accepting = spawn(&office, &id);
        let pids = [pipe.next().await, pipe.next().await];
        send(&accepting, signal);
        let said = Said::of(&soon(accepting.wait_with_output()).await.unwrap());
        assert_eq!(said.code, 5, "{said:?}");
        let told: Value = serde_json::from_str(&said.out).unwrap();
        let words = told["error"]["message"].as_str().unwrap();
        assert!(words.starts_with("Interrupted: what ran was ended, and nothing was attached"));
        for pid in pids {
            gone(pid.parse().unwrap()).await;
        }
        office.check_clean();
        assert!(office.delivery(&id).await.evidence.is_empty());
    }
}

/// Holds AC5.
#[tokio::test]
#[ignore = "needs git and landlock"]
async fn what_a_killed_one_left_is_ended_at_once_and_removed_by_the_next() {
    let (mut office, mut pipe) = telling().await;
    let commit = office.repository.commit(&[("script.sh", ENDLESS)]);
    let id = office.deliver(&commit, &["sh script.sh"]).await;
    let mut accepting = spawn(&office, &id);
    let pids = [pipe.next().await, pipe.next().await];
    soon(accepting.kill()).await.unwrap();
    for pid in pids {
        gone(pid.parse().unwrap()).await;
    }
    assert_eq!(fs::read_dir(office.path("tmp")).unwrap().count(), 1, "the checkout stays");
    // The claim is still the role's.
    office.operator(&format!("{}\ntimeout_sec = 1", super::ALLOW));
    let told = office.json(8, &[&id]).await;
    assert_eq!(told["commands"][0]["timed_out"], true);
    office.check_clean();
    assert_eq!(office.delivery(&id).await.evidence.len(), 1);
}

/// Holds AC4.
#[tokio::test]
#[ignore = "needs git, landlock and pgrep"]
async fn what_loses_its_keeper_is_ended_and_never_called_passed() {
    let (mut office, mut pipe) = telling().await;
    let commit = office.repository.commit(&[("script.sh", ENDLESS)]);
    let id = office.deliver(&commit, &["sh script.sh"]).await;
    let accepting = spawn(&office, &id);
    let pids = [pipe.next().await, pipe.next().await];
    let of = accepting.id().unwrap().to_string();
    let keeper = std::process::Command::new("pgrep").args(["-P", &of]).output().unwrap();
    let keeper: i32 = String::from_utf8(keeper.stdout).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(keeper).unwrap(), Signal::KILL).unwrap();
    let said = Said::of(&soon(accepting.wait_with_output()).await.unwrap());
    assert!(said.code == 5 && said.out.contains("nobody knows how it ended"), "{said:?}");
    for pid in pids {
        gone(pid.parse().unwrap()).await;
    }
    office.check_clean();
    assert!(office.delivery(&id).await.evidence.is_empty());
}
