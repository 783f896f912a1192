//! Starts in the background and as a service, and what those that fail say.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::TcpListener,
};

use crate::process::{Process, soon, tasuki};

const FREE: &str = "--listen 127.0.0.1:0 --broker-listen 127.0.0.1:0 --dashboard off";

/// A data directory whose nodes are stopped in the end.
struct Data {
    home: tempfile::TempDir,
}

impl Data {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.home.path().join("data")
    }

    async fn run(&self, line: &str) -> Output {
        let mut command = tasuki(&self.path());
        command.args(line.split_whitespace()).arg("--data").arg(self.path());
        soon(command.output()).await.unwrap()
    }

    /// What a command prints, which must succeed.
    async fn said(&self, line: &str) -> String {
        let output = self.run(line).await;
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Waits until the log tells of so many connections to the broker.
    async fn connected(&self, times: usize) {
        let logged = async {
            while self.said("logs").await.matches("connected to the broker").count() < times {}
        };
        soon(logged).await;
    }

    fn pid(&self) -> u32 {
        let file = fs::read(self.path().join("node.json")).unwrap();
        let file: Value = serde_json::from_slice(&file).unwrap();
        file["pid"].as_u64().unwrap().try_into().unwrap()
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let mut stop = std::process::Command::new(env!("CARGO_BIN_EXE_tasuki"));
        stop.args(["stop", "--all", "--data"]).arg(self.path());
        stop.current_dir(self.home.path()).output().unwrap();
    }
}

fn error(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let error = said.lines().rfind(|line| line.starts_with("error:"));
    error.unwrap_or_else(|| panic!("{output:?}")).to_owned()
}

#[tokio::test]
async fn a_node_in_the_background_is_started_once_shows_its_log_and_is_stopped() {
    let data = Data::new();
    for round in 0..2 {
        let said = data.said(&format!("up --detach {FREE}")).await;
        let mcp = said.strip_prefix("listening on http://").unwrap();
        mcp.split_once(" (MCP)\n").unwrap().0.parse::<SocketAddr>().unwrap();
        assert!(said.contains(" (broker gRPC)\n") && said.contains(" stop "), "{said}");
        let pid = data.pid();
        assert!(said.contains(&format!("(pid {pid})")), "{said}");
        // Nobody is left who reads what it prints, and it works.
        let status = data.said("loop status").await;
        assert!(status.contains("main"), "{status}");
        let again = data.said(&format!("up --detach {FREE}")).await;
        assert!(again.starts_with(&format!("Already running (pid {pid})")), "{again}");
        assert_eq!(data.pid(), pid);
        let mode = fs::metadata(data.path().join("tasuki.log")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        data.connected(round + 1).await;
        assert_eq!(data.said("logs --lines 1").await.lines().count(), 1);

        let other = data.said("stop --workspace other").await;
        assert!(other.starts_with("No node runs"), "{other}");
        let stopped = data.said("stop").await;
        assert_eq!(stopped, format!("Stopped workspace default (pid {pid}).\n"));
        assert!(!Path::new(&format!("/proc/{pid}/exe")).exists());
        assert!(data.said("stop").await.starts_with("No node runs"));
    }
    // What it said stays.
    assert!(data.said("logs").await.contains("connected to the broker"));
}

#[tokio::test]
async fn each_project_is_stopped_by_itself_or_all_at_once() {
    let data = Data::new();
    for workspace in ["one", "two"] {
        data.said(&format!("up --detach --workspace {workspace} {FREE}")).await;
    }
    let stopped = data.run("stop --all --json").await;
    let stopped: Value = serde_json::from_slice(&stopped.stdout).unwrap();
    let nodes = stopped["stopped"].as_array().unwrap_or_else(|| panic!("{stopped}"));
    let workspaces: Vec<_> = nodes.iter().map(|it| it["workspace"].as_str().unwrap()).collect();
    assert_eq!(workspaces, ["one", "two"], "{stopped}");
    for workspace in ["one", "two"] {
        data.said(&format!("logs --workspace {workspace}")).await;
    }
    data.said(&format!("up --detach --workspace two {FREE}")).await;
    assert!(data.said("stop --workspace one").await.starts_with("No node runs"));
    let stopped = data.said("stop --workspace two").await;
    assert!(stopped.starts_with("Stopped workspace two (pid "), "{stopped}");
}

#[tokio::test]
async fn a_start_in_the_background_fails_as_one_in_the_foreground() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let taken = taken.local_addr().unwrap();
    for line in [
        format!("up --listen {taken} --broker-listen 127.0.0.1:0 --dashboard off"),
        format!("up --listen 127.0.0.1:0 --broker-listen {taken} --dashboard off"),
        "up --tls-cert no.pem --tls-key no.pem --secure".to_owned(),
        "up --role A --role A".to_owned(),
    ] {
        let data = Data::new();
        let foreground = data.run(&line).await;
        let background = data.run(&format!("{line} --detach")).await;
        assert_ne!(foreground.status.code(), Some(0), "{line}: {foreground:?}");
        assert_eq!(background.status.code(), foreground.status.code(), "{background:?}");
        assert_eq!(error(&background), error(&foreground), "{line}");
        let json = data.run(&format!("{line} --detach --json")).await;
        let json: Value = serde_json::from_slice(&json.stdout).unwrap();
        assert!(json["error"]["message"].is_string(), "{json}");
        assert!(data.said("stop").await.starts_with("No node runs"));
    }
}

#[tokio::test]
async fn the_log_is_followed_until_somebody_stops_it() {
    let data = Data::new();
    let none = data.run("logs").await;
    assert_eq!(none.status.code(), Some(5), "{none:?}");
    assert!(error(&none).contains("up --detach` writes one"), "{none:?}");
    data.said(&format!("up --detach {FREE}")).await;

    let mut follow = tasuki(&data.path());
    follow.args(["logs", "-f", "--data"]).arg(data.path()).stdout(Stdio::piped());
    let mut follow = follow.spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    let mut next = async |what: &str| {
        while !soon(lines.next_line()).await.unwrap().unwrap().contains(what) {}
    };
    next("connected to the broker").await;
    // As when it has grown too long.
    let log = data.path().join("tasuki.log");
    fs::rename(&log, data.path().join("tasuki.log.1")).unwrap();
    fs::write(&log, "what came next\n").unwrap();
    next("what came next").await;
    let pid = i32::try_from(follow.id().unwrap()).ok().and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(pid.unwrap(), rustix::process::Signal::INT).unwrap();
    assert_eq!(soon(follow.wait()).await.unwrap().code(), Some(0));

    // One in a terminal logs there.
    let dir = tempfile::tempdir().unwrap();
    let up = Process::up(&dir.path().join("up"), "").await;
    let elsewhere = up.json("logs").await[0]["elsewhere"].to_string();
    assert!(elsewhere.contains("foreground"), "{elsewhere}");
    assert!(elsewhere.contains(up.data.with_extension("log").to_str().unwrap()), "{elsewhere}");
}

/// A user with a systemd of their own, or without one.
struct User {
    data: Data,
}

impl User {
    fn new(has_systemd: bool) -> Self {
        let it = Self { data: Data::new() };
        let bin = it.data.home.path().join("bin");
        fs::create_dir(&bin).unwrap();
        if has_systemd {
            let systemctl = bin.join("systemctl");
            let called = it.data.home.path().join("called");
            let script = format!("#!/bin/sh\necho \"$@\" >> '{}'\n", called.display());
            fs::write(&systemctl, script).unwrap();
            fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o755)).unwrap();
        }
        it
    }

    async fn run(&self, line: &str) -> Output {
        let home = self.data.home.path();
        let mut command = tasuki(&self.data.path());
        command.args(line.split_whitespace()).arg("--data").arg(self.data.path());
        command.env("PATH", home.join("bin")).env("XDG_CONFIG_HOME", home.join("config"));
        command.env("HOME", home);
        soon(command.output()).await.unwrap()
    }

    async fn said(&self, line: &str) -> String {
        let output = self.run(line).await;
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn unit(&self, name: &str) -> PathBuf {
        self.data.home.path().join("config/systemd/user").join(name)
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_service_is_installed_and_taken_out_again() {
    let user = User::new(true);
    assert!(user.said("service status").await.starts_with("Not installed"));
    let said = user.said("service install").await;
    assert!(said.contains("and started it"), "{said}");
    let unit = fs::read_to_string(user.unit("tasuki.service")).unwrap();
    let (program, data) = (env!("CARGO_BIN_EXE_tasuki"), user.data.path());
    let command = format!("ExecStart=\"{program}\" \"up\" \"--data\" \"{}\"", data.display());
    assert!(unit.lines().any(|line| line == command), "{command}: {unit}");
    assert!(user.said("service status").await.starts_with("Running: "));
    // Again is an update; another project needs another name.
    user.said("service install").await;
    let project = user.data.home.path().join("tasuki.toml");
    fs::write(&project, "workspace = \"other\"\n").unwrap();
    let refused = user.run("service install").await;
    assert_eq!(refused.status.code(), Some(5), "{refused:?}");
    assert!(error(&refused).contains("--name NAME"), "{refused:?}");
    user.said("service install --name other").await;
    let other = fs::read_to_string(user.unit("other.service")).unwrap();
    let directory = format!("WorkingDirectory={}", user.data.home.path().display());
    assert!(other.lines().any(|line| line == directory), "{directory}: {other}");
    user.said("service uninstall --name other").await;

    let said = user.said("service uninstall").await;
    assert!(said.starts_with("Stopped the service"), "{said}");
    assert_eq!(fs::read_dir(user.unit("")).unwrap().count(), 0);
    assert!(user.said("service uninstall").await.starts_with("No service is installed"));
    let called = fs::read_to_string(user.data.home.path().join("called")).unwrap();
    for line in ["--user enable --now tasuki.service", "--user disable --now other.service"] {
        assert!(called.lines().any(|it| it == line), "{line}: {called}");
    }

    // What others wrote stays.
    fs::write(user.unit("tasuki.service"), "[Unit]\n").unwrap();
    for line in ["service install", "service uninstall"] {
        let refused = user.run(line).await;
        assert_eq!(refused.status.code(), Some(5), "{refused:?}");
    }
    assert_eq!(fs::read_to_string(user.unit("tasuki.service")).unwrap(), "[Unit]\n");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn without_a_service_manager_the_commands_are_printed() {
    let user = User::new(false);
    let said = user.said("service install").await;
    assert!(said.contains("\n  systemctl --user enable --now tasuki.service\n"), "{said}");
    assert!(user.unit("tasuki.service").exists());
    let said = user.said("service uninstall").await;
    assert!(said.starts_with("Removed ") && !user.unit("tasuki.service").exists(), "{said}");
}

#[tokio::test]
async fn the_owner_of_a_port_and_what_is_there_instead_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let up = Process::up(&dir.path().join("up"), "--workspace first").await;
    let (mcp, broker) = (up.mcp, up.broker.unwrap());
    let here = up.data.display();
    let pid = up.pid();
    let data = Data::new();
    for (line, code, expected) in [
        (
            format!("up --listen {mcp} --broker-listen 127.0.0.1:0 --dashboard off"),
            5,
            vec![
                format!("in use by process {pid} (tasuki, with data in {here})"),
                "the node of workspace first".to_owned(),
                "--listen ADDRESS".to_owned(),
            ],
        ),
        (
            format!("up --listen 127.0.0.1:0 --broker-listen {broker} --dashboard off"),
            5,
            vec![format!("in use by process {pid} "), "--broker-listen ADDRESS".to_owned()],
        ),
        (
            format!("loop status --broker http://{mcp}"),
            2,
            vec![format!("http://{mcp} is the MCP port of a node, not a broker")],
        ),
        (
            format!("node --broker http://{mcp} --listen 127.0.0.1:0"),
            2,
            vec![format!("http://{mcp} is the MCP port of a node, not a broker")],
        ),
        (
            format!("take-over --role A --node http://{broker}"),
            3,
            vec!["speaks gRPC, as a broker does".to_owned()],
        ),
    ] {
        let output = data.run(&line).await;
        let error = error(&output);
        assert_eq!(output.status.code(), Some(code), "{line}: {error}");
        for expected in &expected {
            if cfg!(target_os = "linux") || !expected.starts_with("in use") {
                assert!(error.contains(expected), "{line}: {expected}: {error}");
            }
        }
    }
}

#[tokio::test]
async fn a_role_with_a_slip_in_its_name_is_suggested() {
    let dir = tempfile::tempdir().unwrap();
    let up = Process::up(&dir.path().join("up"), "--role A --role worker1").await;
    for line in [
        "mail list --role a",
        "take-over --role a",
        "prompt a",
        "connect claude-code --role a",
        "mail send --role A --to a hello",
        "loop reclaim --to a --reason away",
    ] {
        let output = up.run(line).await;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("(did you mean A?)"), "{line}: {output:?}");
    }
}
