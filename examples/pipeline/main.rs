//! A VB6 module becomes a class in Java: pm plans it, dev writes it, qa tests it and arch reviews
//! it, each a role with services of its own, on two nodes.
//!
//! Starts a broker and the nodes on data of its own, runs `pipeline.toml`, approves the plan as a
//! person would, and prints each attempt, the Java and the review. What the agents do is a script
//! ([`agent`]), unless `--agent` names an agent CLI of this machine. Run it, after `cargo build
//! --workspace --examples`: `cargo run -p tasuki-examples --example pipeline`.

mod agent;

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::{ExitCode, Stdio},
    time::Duration,
};

use anstream::println;
use clap::{Parser, ValueEnum};
use serde_json::Value;
use tasuki_examples::{
    Result,
    process::{Process, program},
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
    signal::{
        ctrl_c,
        unix::{SignalKind, signal},
    },
    time::timeout,
};

/// What is copied to a directory of its own, where the nodes run.
const PROJECT: [(&str, &str); 5] = [
    ("pipeline.toml", include_str!("pipeline.toml")),
    ("pm-dev.toml", include_str!("pm-dev.toml")),
    ("qa-arch.toml", include_str!("qa-arch.toml")),
    ("vb6/Invoice.bas", include_str!("vb6/Invoice.bas")),
    ("vb6/Tax.bas", include_str!("vb6/Tax.bas")),
];

const AGENTS: [(&str, &str); 3] = [
    ("planner.md", include_str!("agents/planner.md")),
    ("writer.md", include_str!("agents/writer.md")),
    ("reviewer.md", include_str!("agents/reviewer.md")),
];

/// The nodes, each with a configuration of that name, and a tool of each server that it starts.
const NODES: [(&str, &[&str]); 2] =
    [(PM_DEV, &["vb6__dependencies"]), ("qa-arch", &["vb6__dependencies", "java__check"])];

/// Where commands are given.
const PM_DEV: &str = "pm-dev";

/// What the gateways of the nodes start.
const SERVERS: [&str; 2] = ["pipeline_vb6", "pipeline_java"];

const BOARD: &str = "invoice";

/// The first argument of this program where it is the agent.
const PLAY: &str = "play-agent";

/// For nodes to start their servers and to offer what they run.
const OFFERED_WITHIN: Duration = Duration::from_secs(60);

/// For a pipeline whose agents are a script.
const SCRIPTED_WITHIN: Duration = Duration::from_secs(120);

/// For one whose agents ask a model.
const AGENTS_WITHIN: Duration = Duration::from_secs(2 * 3600);

/// Turn a VB6 module into a class in Java, by a pipeline over two nodes.
#[derive(Parser)]
struct Cli {
    /// Who plans, writes and reviews: a script, or an agent CLI that is installed and logged in
    #[arg(long, value_enum, default_value_t)]
    agent: Agent,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Agent {
    #[default]
    Scripted,
    Pi,
    Claude,
    Codex,
    Gemini,
    Opencode,
}

impl Agent {
    /// As `[runner.NAME]` has it. The program of an agent CLI is called so, too.
    const fn name(self) -> &'static str {
        match self {
            Self::Scripted => "scripted",
            Self::Pi => "pi",
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
        }
    }

    /// Its runner, in a node's configuration. The node has a home of its own, for the agents' files;
    /// an agent CLI finds its settings and credentials in the user's.
    fn runner(self) -> Result<String> {
        let name = self.name();
        if self == Self::Scripted {
            let own = env::current_exe()?.display().to_string();
            return Ok(format!(
                "\n[runner.{name}]\nstream = \"pi\"\ncommand = [{own:?}, {PLAY:?}]\n"
            ));
        }
        let path = env::var_os("PATH").unwrap_or_default();
        if !env::split_paths(&path).any(|it| it.join(name).is_file()) {
            return Err(format!("{name} is not in PATH; see `tasuki runners check`").into());
        }
        let home = env::var("HOME").map_err(|_| "there is no HOME")?;
        let home = format!("HOME={home}");
        Ok(format!("\n[runner.{name}]\ncommand = [\"/usr/bin/env\", {home:?}, {name:?}]\n"))
    }

    const fn within(self) -> Duration {
        match self {
            Self::Scripted => SCRIPTED_WITHIN,
            Self::Pi | Self::Claude | Self::Codex | Self::Gemini | Self::Opencode => AGENTS_WITHIN,
        }
    }
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = env::args().collect();
    if arguments.get(1).is_some_and(|it| it == PLAY) {
        agent::play(&arguments)?;
        return Ok(ExitCode::SUCCESS);
    }
    let agent = Cli::parse().agent;
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        ended = play(agent) => ended,
        // What was started is dropped with it, and ended.
        _ = ctrl_c() => Err("interrupted".into()),
        _ = terminated.recv() => Err("terminated".into()),
    }
}

/// Starts all of it, runs the pipeline to its end, and stops what was started.
async fn play(agent: Agent) -> Result<ExitCode> {
    let place = tempfile::tempdir()?;
    let machine = Machine::new(place.path(), agent)?;
    let broker = Process::broker(&place.path().join("broker")).await?;
    let mut nodes = Vec::new();
    for (name, _) in NODES {
        nodes.push(machine.node(name, broker.url()).await?);
    }
    let offered = timeout(OFFERED_WITHIN, machine.offered()).await;
    offered.map_err(|_| format!("the nodes were not ready within {OFFERED_WITHIN:?}"))??;
    let within = agent.within();
    let ran = timeout(within, machine.run()).await;
    let status = ran.map_err(|_| format!("the pipeline did not end within {within:?}"))??;
    if status == "completed" {
        machine.print_result().await?;
    }
    for node in nodes {
        node.stop().await?;
    }
    broker.stop().await?;
    println!("\nthe pipeline {status}");
    Ok(if status == "completed" { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A directory with the project, and a home with the agents' files.
struct Machine {
    place: PathBuf,
    project: PathBuf,
    home: PathBuf,
    /// With the servers.
    path: std::ffi::OsString,
}

impl Machine {
    fn new(place: &Path, agent: Agent) -> Result<Self> {
        let (project, home) = (place.join("project"), place.join("home"));
        for (name, text) in PROJECT {
            let is_of_node = NODES.iter().any(|(it, _)| name == format!("{it}.toml"));
            let runner = format!("[runs]\nrunner = {:?}\n", agent.name());
            let text = match is_of_node {
                true => text.replace("[runs]\n", &runner) + &agent.runner()?,
                false => text.to_owned(),
            };
            write(&project.join(name), &text)?;
        }
        for (name, text) in AGENTS {
            write(&home.join(".tasuki/agents").join(name), text)?;
        }
        let mut path = Vec::new();
        for server in SERVERS {
            let server = program(&format!("examples/{server}"))?;
            path.extend(server.parent().map(Path::to_owned));
        }
        path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
        let path = env::join_paths(path)?;
        Ok(Self { place: place.to_owned(), project, home, path })
    }

    /// `tasuki` on the data of a node.
    fn tasuki(&self, node: &str) -> Result<Command> {
        let mut command = Command::new(program("tasuki")?);
        // Settings of whoever runs this are not meant.
        let own = env::vars_os().map(|(name, _)| name);
        for name in own.filter(|it| it.to_string_lossy().starts_with("TASUKI_")) {
            command.env_remove(name);
        }
        let file = self.project.join(format!("{node}.toml"));
        command.env("TASUKI_CONFIG", file).env("TASUKI_DATA", self.place.join(node));
        command.env("HOME", &self.home).env("PATH", &self.path).env("RUST_LOG", "off");
        command.current_dir(&self.project).stdin(Stdio::null()).kill_on_drop(true);
        Ok(command)
    }

    async fn node(&self, name: &str, broker: &str) -> Result<Process> {
        let mut command = self.tasuki(name)?;
        command.args(["node", "--broker", broker, "--listen", "127.0.0.1:0"]);
        Process::start(command, "MCP").await
    }

    /// What a command of a node prints, as lines of JSON.
    async fn lines(&self, node: &str, line: &[&str]) -> Result<Vec<Value>> {
        let mut command = self.tasuki(node)?;
        let output = command.args(line).arg("--json").stderr(Stdio::inherit()).output().await?;
        if !output.status.success() {
            return Err(format!("tasuki {} ended with {}", line.join(" "), output.status).into());
        }
        let said = String::from_utf8(output.stdout)?;
        Ok(said.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
    }

    /// Returns once both nodes run agents and have their tools: a phase that begins before can fail.
    async fn offered(&self) -> Result<()> {
        while self.lines(PM_DEV, &["runs", "runners"]).await?.len() < NODES.len() {}
        for (node, wanted) in NODES {
            loop {
                let listed = self.lines(node, &["gateway", "tools"]).await?;
                let tools = listed.iter().filter_map(|it| it["tools"].as_array()).flatten();
                let names: BTreeSet<&str> = tools.map(|it| text(it, "name")).collect();
                if wanted.iter().all(|it| names.contains(it)) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Runs the pipeline and returns how it ended. Prints each attempt when it has ended.
    async fn run(&self) -> Result<String> {
        let mut command = self.tasuki(PM_DEV)?;
        command.args(["pipeline", "run", "pipeline.toml", "--json", "--by", "ann"]);
        command.args(["--board", BOARD, "--set", "task_id=Invoice.bas"]);
        command.args(["--set", "requirements=Rewrite Invoice.bas in Java."]);
        let mut running = command.stdout(Stdio::piped()).spawn()?;
        let stdout = running.stdout.take().ok_or("its output is piped")?;
        let mut lines = BufReader::new(stdout).lines();
        let (mut printed, mut approved) = (BTreeSet::new(), BTreeSet::new());
        let mut status = String::from("was not started");
        while let Some(line) = lines.next_line().await? {
            let pipeline: Value = serde_json::from_str(&line)?;
            status = text(&pipeline, "status").to_owned();
            for attempt in pipeline["attempts"].as_array().into_iter().flatten() {
                let number = attempt["attempt"].as_u64().ok_or("an attempt has a number")?;
                let is_over = !["waiting", "running"].contains(&text(attempt, "status"));
                if is_over && printed.insert(number) {
                    print_attempt(number, attempt);
                }
            }
            let newest = printed.last().copied().unwrap_or_default();
            if status == "awaiting_approval" && approved.insert(newest) {
                self.approve(newest).await?;
            }
        }
        running.wait().await?;
        Ok(status)
    }

    /// What a person does who has read the plan. Another plan than that one is not approved.
    async fn approve(&self, attempt: u64) -> Result<()> {
        let board = self.board().await?;
        println!("\n{}\n", text(&board["artifacts"], "plan"));
        let attempt = attempt.to_string();
        self.lines(PM_DEV, &["pipeline", "approve", BOARD, "--by", "ann", "--attempt", &attempt])
            .await?;
        println!("ann approved the plan\n");
        Ok(())
    }

    /// The values of the board, by channel.
    async fn board(&self) -> Result<Value> {
        let shown = self.lines(PM_DEV, &["board", "show", BOARD]).await?;
        let board = shown.first().ok_or("`tasuki board show` printed nothing")?;
        let mut values = serde_json::Map::new();
        for it in board["channels"].as_array().into_iter().flatten() {
            let value = serde_json::from_str(text(it, "value_json"))?;
            values.insert(text(it, "channel").to_owned(), value);
        }
        Ok(values.into())
    }

    async fn print_result(&self) -> Result<()> {
        let board = self.board().await?;
        println!("\n{}", text(&board["artifacts"], "java"));
        println!("{}", text(&board["artifacts"], "check"));
        for comment in board["review_comments"].as_array().into_iter().flatten() {
            println!("review: {}", comment.as_str().unwrap_or_default());
        }
        Ok(())
    }
}

fn print_attempt(number: u64, attempt: &Value) {
    let (phase, status, role) =
        (text(attempt, "phase"), text(attempt, "status"), text(attempt, "role"));
    println!("attempt {number}  {phase} {status}, by {role}");
    for line in text(attempt, "error").lines() {
        println!("           {line}");
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    Ok(fs::write(path, text)?)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
