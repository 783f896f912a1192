//! `tasuki run` and `tasuki runs` with real programs and a fake agent CLI.
//!
//! What an agent does is the first line of its task, a shell command: see `fake_agent/play.sh`.

mod background;
mod budgets;
mod endings;
mod kills;
mod modes;
mod parents;
mod passing;

use std::{fs, process::Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::{
    Said,
    fake_agent::{Machine, Runs},
    process::soon,
};

/// The code of a run that failed, and of one that was canceled.
const FAILED: i32 = 8;
const CANCELED: i32 = 7;

/// The code of a command whose broker is not there.
const UNREACHABLE: i32 = 3;

async fn machine() -> Machine {
    Machine::up("", "").await
}

/// What its user's command says.
async fn said(machine: &Machine, args: &[&str]) -> Said {
    Said::of(&soon(machine.command(args).output()).await.unwrap())
}

/// What a command prints that must succeed.
async fn printed(machine: &Machine, args: &[&str]) -> String {
    let said = said(machine, args).await;
    assert_eq!(said.code, 0, "{args:?}: {said:?}\n{}", machine.up.log());
    said.out
}

/// The lines of JSON of a command, which must end so.
async fn lines(machine: &Machine, code: i32, args: &[&str]) -> Vec<Value> {
    let said = said(machine, &[args, &["--json"]].concat()).await;
    assert_eq!(said.code, code, "{args:?}: {said:?}\n{}", machine.up.log());
    parsed(&said.out)
}

fn parsed(text: &str) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line:?}"));
    text.lines().map(parse).collect()
}

/// The result of `tasuki run`, which must end so: what it prints last.
async fn result(machine: &Machine, code: i32, args: &[&str]) -> Value {
    lines(machine, code, &[&["run"][..], args].concat()).await.pop().unwrap()
}

/// Steps for `--parallel` and `--chain`: agents and their tasks.
fn steps(machine: &Machine, steps: &[(&str, &str)]) -> String {
    let steps: Vec<Value> =
        steps.iter().map(|(agent, task)| json!({ "agent": agent, "task": task })).collect();
    file(machine, "steps.json", &Value::from(steps).to_string())
}

/// Writes a file into the project.
fn file(machine: &Machine, name: &str, text: &str) -> String {
    let path = machine.path(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// A command that goes on.
struct Running(Child);

impl Running {
    fn begin(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    /// `tasuki run` with these arguments, as a program calls it.
    fn run(machine: &Machine, args: &[&str]) -> Self {
        Self::begin(machine.command(&[&["run"][..], args, &["--json"]].concat()))
    }

    fn interrupt(&self) {
        self.send(Signal::INT);
    }

    fn send(&self, signal: Signal) {
        let pid = i32::try_from(self.0.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    async fn end(self) -> Said {
        Said::of(&soon(self.0.wait_with_output()).await.unwrap())
    }

    /// What it prints last, once it has ended so.
    async fn result(self, code: i32) -> Value {
        let said = self.end().await;
        assert_eq!(said.code, code, "{said:?}");
        parsed(&said.out).pop().unwrap()
    }
}

/// The only run there is, once there is one.
async fn only_run(runs: &Runs) -> String {
    let asking = async {
        loop {
            let mut all = runs.all().await.unwrap();
            assert!(all.len() <= 1, "{all:?}");
            if let Some(run) = all.pop() {
                return run.run_id;
            }
        }
    };
    soon(asking).await
}
