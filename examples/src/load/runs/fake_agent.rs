//! Agents whose CLI is `cat`: each writes pi's stream, as a file holds it or as it comes through a
//! FIFO. An agent's model is the name of that file.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use rustix::io::Errno;
use serde_json::json;
use tempfile::TempDir;
use tokio::{
    io::AsyncWriteExt as _,
    net::unix::pipe,
    process::Command,
    time::{Instant, sleep, timeout},
};

use super::{super::micros, parsing};
use crate::{
    Result,
    process::{Process, program},
};

/// The agent, its runner, and where it is asked for.
pub(super) const AGENT: &str = "echo";
pub(super) const RUNNER: &str = "fake";
pub(super) const LABEL: &str = "bench";

/// What it is told to do, which it does not read.
pub(super) const TASK: &str = "Say what your file holds.";

/// The program.
const CAT: &str = "cat";

/// The file with a whole stream: what pi wrote when it called one tool.
pub(super) const STREAM: &str = "stream";
const CAPTURED: &str = "pi-1.5.2/success-tool.jsonl";

/// The most steps that a node takes in.
const PLACES: usize = 64;

/// For an agent to be there, and between two looks whether it is.
const START_WITHIN: Duration = Duration::from_secs(120);
const START_PAUSE: Duration = Duration::from_millis(5);

/// A home directory with the agent, a configuration with its runner, and a project with its files.
pub(super) struct FakeAgents {
    dir: TempDir,
}

impl FakeAgents {
    pub(super) fn new(dir: &Path) -> Result<Self> {
        let fakes = Self { dir: tempfile::tempdir_in(dir)? };
        let agents = fakes.dir.path().join(".tasuki/agents");
        std::fs::create_dir_all(&agents)?;
        let agent = format!(
            "---\nname: {AGENT}\ndescription: Says what a file holds.\nrunner: {RUNNER}\n\
             model: {STREAM}\n---\n"
        );
        std::fs::write(agents.join(format!("{AGENT}.md")), agent)?;
        std::fs::create_dir(fakes.project())?;
        std::fs::copy(Path::new(parsing::STREAMS).join(CAPTURED), fakes.file(STREAM))?;
        // A text of TOML and one of JSON are written alike.
        let directory = json!(fakes.project().to_string_lossy());
        let file = json!(fakes.file("{model}").to_string_lossy());
        let config = format!(
            "[runs]\naccept_elsewhere = true\nlabels = [\"{LABEL}\"]\nplaces = {PLACES}\n\
             directory = {directory}\n\n\
             [runner.{RUNNER}]\ncommand = [\"{CAT}\", {file}]\nstream = \"pi\"\n"
        );
        std::fs::write(fakes.config(), config)?;
        Ok(fakes)
    }

    fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("bench.toml")
    }

    /// A file that an agent may write.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.project().join(name)
    }

    /// Makes FIFOs, and says how they are called.
    pub(super) async fn fifos(&self, count: usize) -> Result<Vec<String>> {
        let names: Vec<_> = (1..=count).map(|number| format!("fifo-{number}")).collect();
        let mut command = Command::new("mkfifo");
        command.args(names.iter().map(|name| self.file(name)));
        let made = command.status().await?;
        if made.success() { Ok(names) } else { Err(format!("mkfifo ended with {made}").into()) }
    }

    /// A node that takes runs in.
    pub(super) async fn node(&self, broker: &Process) -> Result<Process> {
        let mut command = self.command("node")?;
        command.args(["--broker", broker.url(), "--role", "A", "--listen", "127.0.0.1:0"]);
        Process::start(command, "MCP").await
    }

    /// The same with its broker in one process.
    pub(super) async fn up(&self) -> Result<Process> {
        let mut command = self.command("up")?;
        command.args(["--role", "A", "--listen", "127.0.0.1:0"]);
        command.args(["--broker-listen", "127.0.0.1:0"]);
        Process::start(command, "broker gRPC").await
    }

    /// Microseconds of `tasuki run`, which finds what [`FakeAgents::up`] started.
    pub(super) async fn by_command(&self) -> Result<f64> {
        let mut command = self.command("run")?;
        command.args([AGENT, TASK]).env("RUST_LOG", "off").stdin(Stdio::null());
        let began = Instant::now();
        let output = command.output().await?;
        let took = micros(began.elapsed());
        if output.status.success() {
            return Ok(took);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("tasuki run ended with {}: {said}", output.status).into())
    }

    /// Microseconds of the agent's process alone: started, read to its end, and waited for.
    pub(super) async fn bare(&self) -> Result<f64> {
        let mut command = Command::new(CAT);
        command.arg(self.file(STREAM)).stdin(Stdio::null());
        let began = Instant::now();
        let output = command.output().await?;
        let took = micros(began.elapsed());
        if output.status.success() && !output.stdout.is_empty() {
            return Ok(took);
        }
        Err(format!("{CAT} ended with {}", output.status).into())
    }

    /// `tasuki` with a command, as its user has it here.
    fn command(&self, name: &str) -> Result<Command> {
        let mut command = Command::new(program("tasuki")?);
        command.arg(name).arg("--data").arg(self.dir.path().join("data"));
        command.arg("--config").arg(self.config());
        command.current_dir(self.project()).env("HOME", self.dir.path());
        Ok(command)
    }
}

/// What an agent writes next, through its FIFO.
pub(super) struct AgentInput {
    pipe: pipe::Sender,
}

impl AgentInput {
    /// Waits until the agent reads there.
    pub(super) async fn open(path: &Path) -> Result<Self> {
        let opened = timeout(START_WITHIN, open(path)).await;
        let pipe = opened.map_err(|_| format!("no agent reads {}", path.display()))??;
        Ok(Self { pipe })
    }

    /// A message of the agent, and why it stops there.
    pub(super) async fn turn(&mut self, text: &str, stop_reason: &str) -> Result<()> {
        let message = json!({
            "role": "assistant",
            "content": [{ "type": "text", "text": text }],
            "provider": "fake",
            "model": "fake",
            "usage": { "input": 1000, "output": 42, "totalTokens": 1042 },
            "stopReason": stop_reason,
        });
        let line = format!("{{\"type\":\"message_end\",\"message\":{message}}}\n");
        Ok(self.pipe.write_all(line.as_bytes()).await?)
    }

    /// The last message, after which the agent ends.
    pub(super) async fn end(mut self) -> Result<()> {
        self.turn("Done.", "stop").await
    }
}

async fn open(path: &Path) -> Result<pipe::Sender> {
    loop {
        match pipe::OpenOptions::new().open_sender(path) {
            Ok(pipe) => return Ok(pipe),
            // Nobody reads there yet.
            Err(why) if Errno::from_io_error(&why) == Some(Errno::NXIO) => {}
            Err(why) => return Err(why.into()),
        }
        sleep(START_PAUSE).await;
    }
}
