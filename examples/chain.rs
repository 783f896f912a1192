//! A chain of two sub-agents: what the first one finds goes into the task of the second.
//!
//! Agents are Markdown files in the user's own directory, and `[runner.scripted]` names the program
//! that plays them: a script that writes pi's JSON stream, so neither a model nor an agent CLI is
//! needed. A second chain stops at its first step, whose model refuses; the program ends with exit
//! code 0 all the same. Run it, after `cargo build --workspace`:
//! `cargo run -p tasuki-examples --example chain`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use anstream::println;
use serde_json::{Value, json};
use tasuki_examples::{
    Result,
    process::{Process, program},
    scripted,
};
use tokio::process::Command;

/// Each agent: its name, what it is for, and its system prompt.
const AGENTS: [[&str; 3]; 2] = [
    ["scout", "Finds the files that a task is about", "Answer with paths, nothing else."],
    ["planner", "Plans a change", "Answer with a short plan. Change nothing."],
];

#[tokio::main]
async fn main() -> Result<()> {
    let place = tempfile::tempdir()?;
    let machine = Machine::new(place.path())?;
    let mut up = machine.tasuki()?;
    up.args(["up", "--role", "lead", "--listen", "127.0.0.1:0", "--broker-listen", "127.0.0.1:0"]);
    let up = Process::start(up, "broker gRPC").await?;

    let result = machine
        .run_chain(&json!([
            { "agent": "scout", "task": "Find what checks passwords" },
            { "agent": "planner", "task": "Plan a fix in {previous}" },
        ]))
        .await?;
    print_steps(&result);
    println!("planner says: {}", text(&result, "output"));
    assert_eq!(text(&result, "status"), "succeeded");

    println!();
    let result = machine
        .run_chain(&json!([
            { "agent": "scout", "task": "Fail at the limit of the model" },
            { "agent": "planner", "task": "Plan a fix in {previous}" },
        ]))
        .await?;
    print_steps(&result);
    println!("{}", text(&result, "output"));
    assert_eq!(text(&result, "status"), "failed", "though the program ended with 0");
    up.stop().await
}

/// A user's home with agents, a configuration and a project.
struct Machine {
    home: PathBuf,
    project: PathBuf,
    config: PathBuf,
    data: PathBuf,
}

impl Machine {
    fn new(place: &Path) -> Result<Self> {
        let path = |name: &str| place.join(name);
        let it = Self {
            home: path("home"),
            project: path("project"),
            config: path("tasuki.toml"),
            data: path("data"),
        };
        let agents = it.home.join(".tasuki/agents");
        for folder in [&agents, &it.project] {
            fs::create_dir_all(folder)?;
        }
        for [name, description, prompt] in AGENTS {
            let front = format!("name: {name}\ndescription: {description}\nrunner: scripted");
            fs::write(agents.join(format!("{name}.md")), format!("---\n{front}\n---\n{prompt}\n"))?;
        }
        let agent = path("agent");
        scripted::write(&agent)?;
        let agent = agent.display().to_string();
        let runner = format!("[runner.scripted]\nstream = \"pi\"\ncommand = [{agent:?}]\n");
        fs::write(&it.config, runner)?;
        Ok(it)
    }

    /// `tasuki`, as this user types it in the project.
    fn tasuki(&self) -> Result<Command> {
        let mut command = Command::new(program("tasuki")?);
        command.current_dir(&self.project).env("HOME", &self.home).env("RUST_LOG", "off");
        command.env("TASUKI_CONFIG", &self.config).env("TASUKI_DATA", &self.data);
        Ok(command)
    }

    /// Runs a chain to its end and returns what came of it.
    async fn run_chain(&self, steps: &Value) -> Result<Value> {
        let file = self.project.join("chain.json");
        fs::write(&file, steps.to_string())?;
        let mut command = self.tasuki()?;
        command.args(["run", "--json", "--chain"]).arg(&file);
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().await?;
        let said = String::from_utf8(output.stdout)?;
        // Each line is a change; the last one is the result.
        let last = said.lines().next_back().ok_or("`tasuki run` printed nothing")?;
        let result: Value = serde_json::from_str(last)?;
        let is_success = text(&result, "status") == "succeeded";
        assert_eq!(output.status.success(), is_success, "the exit code says the same");
        Ok(result)
    }
}

fn print_steps(result: &Value) {
    let steps = result["steps"].as_array().into_iter().flatten();
    for (number, step) in (1..).zip(steps) {
        println!("step {number}  {:<8} {}", text(step, "agent"), text(step, "status"));
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
