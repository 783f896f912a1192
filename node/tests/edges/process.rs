//! Real processes in a directory of their own.
//!
//! The broker is always one that `tasuki up` embeds, since the tests of a package can rely only
//! on that package's binaries. Where it stands alone, its own node lives in another workspace
//! and plays no part.

use std::{
    fs::File,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{ExitStatus, Output, Stdio},
    time::Duration,
};

use serde_json::Value;
use tasuki_proto::wire::{self, directory_client::DirectoryClient};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

/// For one step of a test on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Fails a test that would hang.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    timeout(PATIENCE, future).await.expect("in time")
}

/// A process that was told how to start, and can be started so again.
pub(crate) struct Process {
    pub(crate) data: PathBuf,
    line: Vec<String>,
    /// From the first start on, the same at each.
    pub(crate) mcp: SocketAddr,
    pub(crate) broker: Option<SocketAddr>,
    /// From the next start on.
    pub(crate) rust_log: Option<&'static str>,
    /// Variables that it and its user's commands get.
    env: Vec<Variable>,
    child: Option<Child>,
    lines: Option<Lines<BufReader<ChildStdout>>>,
}

/// A variable of the environment, such as a home.
pub(crate) type Variable = (&'static str, PathBuf);

pub(crate) fn tasuki(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tasuki"));
    command.current_dir(data.parent().unwrap()).env("USER", "alice").env("NO_COLOR", "1");
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

fn any() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

impl Process {
    /// Broker and node in one.
    pub(crate) async fn up(data: &Path, more: &str) -> Self {
        Self::up_with(data, more, &[]).await
    }

    /// The same, with variables.
    pub(crate) async fn up_with(data: &Path, more: &str, env: &[Variable]) -> Self {
        Self::new(data, format!("up {more}"), Some(any()), env).await
    }

    /// A broker for others.
    pub(crate) async fn broker(data: &Path, more: &str) -> Self {
        Self::up(data, &format!("--workspace elsewhere --role nobody {more}")).await
    }

    pub(crate) async fn node(data: &Path, broker: SocketAddr, more: &str) -> Self {
        Self::node_with(data, broker, more, &[]).await
    }

    /// The same, with variables.
    pub(crate) async fn node_with(
        data: &Path,
        broker: SocketAddr,
        more: &str,
        env: &[Variable],
    ) -> Self {
        Self::new(data, format!("node --broker http://{broker} {more}"), None, env).await
    }

    async fn new(data: &Path, line: String, broker: Option<SocketAddr>, env: &[Variable]) -> Self {
        let mut it = Self {
            data: data.to_owned(),
            line: line.split_whitespace().map(Into::into).collect(),
            mcp: any(),
            broker,
            rust_log: None,
            env: env.to_vec(),
            child: None,
            lines: None,
        };
        it.start().await;
        it
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = tasuki(&self.data);
        command.args(&self.line).arg("--data").arg(&self.data);
        command.args(["--listen", &self.mcp.to_string()]);
        command.envs(self.rust_log.map(|it| ("RUST_LOG", it)));
        command.envs(self.env.iter().cloned());
        if let Some(broker) = self.broker {
            command.args(["--broker-listen", &broker.to_string()]);
        }
        command
    }

    /// Where it was started before, it waits for its address: another test's process may have been
    /// given that meanwhile.
    pub(crate) async fn start(&mut self) {
        let log = self.data.with_extension("log");
        let started = async {
            loop {
                let before = self.log().len();
                let errors = File::options().create(true).append(true).open(&log).unwrap();
                if self.try_start(errors).await {
                    return;
                }
                let said = self.log().split_off(before);
                assert!(said.contains("in use by process"), "it ended; {said}");
            }
        };
        soon(started).await;
    }

    /// With a standard error of the caller's.
    pub(crate) async fn start_saying(&mut self, errors: impl Into<Stdio>) {
        assert!(self.try_start(errors).await, "it ended; {}", self.log());
    }

    /// False: it ended.
    async fn try_start(&mut self, errors: impl Into<Stdio>) -> bool {
        let mut child = self.command().stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (mut has_mcp, mut has_broker) = (false, self.broker.is_none());
        while !(has_mcp && has_broker) {
            let line = soon(lines.next_line()).await.unwrap();
            let Some(line) = line else { return false };
            let told = line.strip_prefix("listening on http");
            let told = told.map(|rest| rest.strip_prefix('s').unwrap_or(rest));
            let Some(address) = told.and_then(|it| it.strip_prefix("://")) else { continue };
            let (address, what) = address.split_once(' ').unwrap();
            if what == "(MCP)" {
                self.mcp = address.parse().unwrap();
                has_mcp = true;
            } else {
                self.broker = Some(address.parse().unwrap());
                has_broker = true;
            }
        }
        (self.child, self.lines) = (Some(child), Some(lines));
        true
    }

    /// What it prints next, blank lines and where its dashboard is aside.
    pub(crate) async fn printed(&mut self) -> String {
        loop {
            let line = soon(self.lines.as_mut().unwrap().next_line()).await.unwrap().unwrap();
            if !line.trim().is_empty() && !line.ends_with(" (dashboard)") {
                return line;
            }
        }
    }

    /// What it said on standard error, over all starts.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.data.with_extension("log")).unwrap_or_default()
    }

    /// `kill -9`.
    pub(crate) async fn kill(&mut self) {
        soon(self.child.as_mut().unwrap().kill()).await.unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().and_then(Child::id).unwrap()
    }

    /// The most memory that it ever had, in KiB.
    pub(crate) fn peak_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// How it ended by itself.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        soon(self.child.as_mut().unwrap().wait()).await.unwrap()
    }

    /// SIGTERM, and how it ended.
    pub(crate) async fn stop(&mut self) -> ExitStatus {
        let pid = i32::try_from(self.pid()).ok().and_then(rustix::process::Pid::from_raw).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        soon(self.child.as_mut().unwrap().wait()).await.unwrap()
    }

    /// Makes a workspace at its broker, as a node does that registers in it.
    pub(crate) async fn make_workspace(&self, name: &str) {
        let request = wire::RegisterRequest {
            caller: Some(wire::Caller { workspace: name.to_owned(), ..Default::default() }),
            key: Some(wire::IdempotencyKey { client_id: "maker".to_owned(), counter: 1 }),
            node: "maker".to_owned(),
            ..Default::default()
        };
        let url = format!("http://{}", self.broker.unwrap());
        let mut directory = DirectoryClient::connect(url).await.unwrap();
        soon(directory.register(request)).await.unwrap();
    }

    /// A command of this node's user, with `--json`; the broker is found through the data.
    pub(crate) async fn run(&self, line: &str) -> Output {
        let mut command = tasuki(&self.data);
        command.args(line.split_whitespace()).args(["--json", "--data"]).arg(&self.data);
        command.envs(self.env.iter().cloned());
        soon(command.output()).await.unwrap()
    }

    /// What such a command prints, which must succeed.
    pub(crate) async fn json(&self, line: &str) -> Vec<Value> {
        let output = self.run(line).await;
        assert!(output.status.success(), "{line}: {output:?}\n{}", self.log());
        let printed = String::from_utf8(output.stdout).unwrap();
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Process {
    /// A panic ends only the call that led to it, so nothing else would show it: whatever a test
    /// does, none is reached.
    fn drop(&mut self) {
        let log = self.log();
        assert!(std::thread::panicking() || !log.contains("panicked at"), "{log}");
    }
}
