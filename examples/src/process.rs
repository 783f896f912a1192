//! Broker, nodes and echoes as processes of their own, on free ports.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

use crate::Result;

/// For a process to say where it listens: a broker reads its journal before.
const START_WITHIN: Duration = Duration::from_secs(180);

/// For a process to end once it was told to.
const END_WITHIN: Duration = Duration::from_secs(120);

/// A process that listens somewhere. Killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    url: String,
    /// What else it said it listens for, and where.
    others: Vec<(String, String)>,
    /// Open as long as the process, so that what else it says does not fail.
    _lines: Lines<BufReader<ChildStdout>>,
}

/// A program of this workspace, in the folder this one was built into.
///
/// # Errors
/// When it was not built.
pub fn program(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let is_inner = |folder: &&Path| folder.ends_with("examples") || folder.ends_with("deps");
    let folder = own.ancestors().skip(1).find(|folder| !is_inner(folder));
    let folder = folder.ok_or("this program lies in no folder")?;
    let path = folder.join(name);
    if path.is_file() {
        return Ok(path);
    }
    let built = if cfg!(debug_assertions) { "" } else { " --release" };
    let folder = folder.display();
    Err(format!("{name} is not in {folder}; build it: cargo build --workspace{built}").into())
}

impl Process {
    /// Starts `command` and waits for its line `listening on URL (WHAT)`.
    ///
    /// # Errors
    /// When it cannot be started, or ends or is silent before it says so.
    pub async fn start(mut command: Command, what: &str) -> Result<Self> {
        let is_said = command.as_std().get_envs().any(|(name, _)| name == "RUST_LOG");
        if !is_said && std::env::var_os("RUST_LOG").is_none() {
            command.env("RUST_LOG", "off");
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn();
        let mut child = child.map_err(|e| format!("{:?}: {e}", command.as_std().get_program()))?;
        let stdout = child.stdout.take().ok_or("its output is piped")?;
        let mut lines = BufReader::new(stdout).lines();
        let wanted = format!("({what})");
        let mut others = Vec::new();
        loop {
            let line = timeout(START_WITHIN, lines.next_line()).await;
            let line = line.map_err(|_| format!("{what}: silent for {START_WITHIN:?}"))??;
            let Some(line) = line else {
                let status = child.wait().await?;
                return Err(format!("{what}: ended with {status} before it listened").into());
            };
            let said = line.strip_prefix("listening on ").and_then(|said| said.split_once(' '));
            match said {
                Some((url, what)) if what == wanted => {
                    return Ok(Self { child, url: url.to_owned(), others, _lines: lines });
                }
                Some((url, what)) => others.push((what.to_owned(), url.to_owned())),
                None => {}
            }
        }
    }

    /// `tasuki-broker serve` on a data directory.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub async fn broker(data: &Path) -> Result<Self> {
        Self::broker_at(data, "127.0.0.1:0").await
    }

    /// The same, once it serves pages, too: [`Process::url_of`] says where.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub async fn broker_with_pages(data: &Path) -> Result<Self> {
        const GRPC: &str = "(broker gRPC)";
        let mut command = Command::new(program("tasuki-broker")?);
        command.args(["serve", "--listen", "127.0.0.1:0", "--dashboard", "127.0.0.1:0", "--data"]);
        command.arg(data);
        let mut it = Self::start(command, "dashboard").await?;
        let said = it.others.iter().position(|(what, _)| what == GRPC).ok_or("no gRPC")?;
        let (_, url) = it.others.swap_remove(said);
        let pages = std::mem::replace(&mut it.url, url);
        it.others.push(("(dashboard)".to_owned(), pages));
        Ok(it)
    }

    /// The same with its log, of what `filter` lets through, in a file.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub async fn logging_broker(data: &Path, filter: &str, log: File) -> Result<Self> {
        let mut command = Command::new(program("tasuki-broker")?);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data);
        command.env("RUST_LOG", filter).stderr(log);
        Self::start(command, "broker gRPC").await
    }

    /// The same on an address that nodes know already.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub async fn broker_at(data: &Path, listen: &str) -> Result<Self> {
        let mut command = Command::new(program("tasuki-broker")?);
        command.args(["serve", "--listen", listen, "--data"]).arg(data);
        Self::start(command, "broker gRPC").await
    }

    /// The same with TLS and tokens.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub async fn guarded_broker(data: &Path) -> Result<Self> {
        let mut command = Command::new(program("tasuki-broker")?);
        command.args(["serve", "--secure", "--listen", "127.0.0.1:0", "--data"]).arg(data);
        Self::start(command, "broker gRPC").await
    }

    /// `tasuki node` with one role, on a data directory.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub async fn node(data: &Path, broker: &str, role: &str, listen: &str) -> Result<Self> {
        let mut command = Command::new(program("tasuki")?);
        command.args(["node", "--broker", broker, "--role", role, "--listen", listen, "--data"]);
        // A configuration file of whoever runs this is not meant.
        command.arg(data).current_dir(data);
        Self::start(command, "MCP").await
    }

    /// Where it listens for something else, if it said so before.
    pub fn url_of(&self, what: &str) -> Option<&str> {
        let wanted = format!("({what})");
        self.others.iter().find(|(what, _)| *what == wanted).map(|(_, url)| url.as_str())
    }

    /// Where it listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The same without `http://`.
    pub fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap_or(&self.url)
    }

    /// Memory it has in use, in bytes.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn memory_bytes(&self) -> Result<u64> {
        let id = self.child.id().ok_or("the process has ended")?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        Ok(number_in(&status, "VmRSS:").ok_or("no VmRSS")? * 1024)
    }

    /// Memory of each process that it started and that runs, in bytes: what it has for itself, and
    /// its part of what it shares.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn children_bytes(&self) -> Result<Vec<u64>> {
        let id = self.child.id().ok_or("the process has ended")?;
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc")? {
            let path = entry?.path();
            // What is no process has none of these files, nor has one that ended meanwhile.
            let Ok(status) = std::fs::read_to_string(path.join("status")) else { continue };
            if number_in(&status, "PPid:") != Some(id.into()) {
                continue;
            }
            let Ok(memory) = std::fs::read_to_string(path.join("smaps_rollup")) else { continue };
            found.extend(number_in(&memory, "Pss:").map(|kib| kib * 1024));
        }
        Ok(found)
    }

    /// Ends it as a power switch would: kill -9.
    ///
    /// # Errors
    /// When the system does not let us.
    pub async fn kill(&mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Asks it to stop, with SIGTERM, and waits.
    ///
    /// # Errors
    /// When it does not, or did not end well.
    pub async fn stop(mut self) -> Result<()> {
        let id = self.child.id().ok_or("the process has ended")?;
        let pid = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or("no process id")?;
        kill_process(pid, Signal::TERM)?;
        let ended = timeout(END_WITHIN, self.child.wait()).await;
        let status = ended.map_err(|_| format!("did not end within {END_WITHIN:?}"))??;
        if status.success() { Ok(()) } else { Err(format!("ended with {status}").into()) }
    }
}

/// A number in what the system says of a process.
fn number_in(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().trim_end_matches("kB").trim_end().parse().ok()
}
