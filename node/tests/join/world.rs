//! A host with a broker, laptops, and what is typed there.

use std::{
    fs::File,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

/// For one step of a test on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks at something that tells nobody when it changes.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// From a home to the data of a program.
const DATA: &str = ".local/share/tasuki";

/// Fails a test that would hang.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    timeout(PATIENCE, future).await.expect("in time")
}

/// Returns once `is_so`.
pub(crate) async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    soon(async {
        while !is_so().await {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    })
    .await;
}

/// Where the programs are. Those of another package are built with the workspace.
fn programs() -> &'static Path {
    let folder = Path::new(env!("CARGO_BIN_EXE_tasuki")).parent().unwrap();
    let broker = folder.join("tasuki-broker");
    assert!(broker.is_file(), "{} is missing: cargo build --workspace", broker.display());
    folder
}

/// Somebody's home, and nothing else of this machine.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    pub(crate) path: PathBuf,
}

impl Home {
    pub(crate) fn new(place: &Path, name: &str) -> Self {
        let path = place.join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self { path }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path.join(DATA)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.data().join(name)
    }

    /// What a file of its data says.
    pub(crate) fn read(&self, name: &str) -> Value {
        serde_json::from_str(&std::fs::read_to_string(self.file(name)).unwrap()).unwrap()
    }

    /// `program word word…` as typed.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut words = line.split_whitespace();
        let mut command = Command::new(programs().join(words.next().unwrap()));
        self.furnish(command.args(words));
        command
    }

    /// The same in a shell that did something first.
    pub(crate) fn after(&self, first: &str, line: &str) -> Command {
        let mut command = Command::new("sh");
        let path = programs().display();
        command.args(["-c", &format!("{first}; exec {path}/{line}")]);
        self.furnish(&mut command);
        command
    }

    fn furnish(&self, command: &mut Command) {
        let path = std::env::var("PATH").unwrap_or_default();
        command.current_dir(&self.path).env_clear().stdin(Stdio::null()).kill_on_drop(true);
        command.env("HOME", &self.path).env("PATH", path).env("USER", "alice");
        command.env("NO_COLOR", "1").env("TASUKI_LISTEN", "127.0.0.1:0");
    }

    pub(crate) async fn run(&self, line: &str) -> Output {
        soon(self.command(line).output()).await.unwrap()
    }

    /// What a command prints, which must succeed.
    pub(crate) async fn says(&self, line: &str) -> String {
        done(line, &self.run(line).await)
    }

    /// The same with `--json`.
    pub(crate) async fn json(&self, line: &str) -> Value {
        let said = self.says(&format!("{line} --json")).await;
        serde_json::from_str(said.trim()).unwrap_or_else(|why| panic!("{why}: {said}"))
    }

    /// How a command ends that must fail: its exit code, the reason's code, the words.
    pub(crate) async fn refused(&self, line: &str) -> (i32, String, String) {
        let output = self.run(&format!("{line} --json")).await;
        let printed = String::from_utf8(output.stdout.clone()).unwrap();
        let value: Value = serde_json::from_str(printed.trim())
            .unwrap_or_else(|why| panic!("{line}: {why}: {output:?}"));
        let text = |key: &str| value["error"][key].as_str().unwrap_or_default().to_owned();
        (output.status.code().unwrap(), text("code"), text("message"))
    }

    /// Runs a command that reads `input`.
    pub(crate) async fn told(&self, line: &str, input: &str) -> Output {
        let mut command = self.command(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
        soon(child.wait_with_output()).await.unwrap()
    }

    /// Runs `tasuki node` without a flag, until it listens.
    pub(crate) async fn node(&self) -> Served {
        Served::start(self.command("tasuki node"), &self.path.join("node.log"), "(MCP)").await
    }
}

/// What a command printed, which must have succeeded.
pub(crate) fn done(line: &str, output: &Output) -> String {
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A program that goes on. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Served {
    child: Child,
    /// Where it listens, as a URL.
    pub(crate) url: String,
    pub(crate) log: PathBuf,
    _lines: Lines<BufReader<ChildStdout>>,
}

impl Served {
    pub(crate) async fn start(mut command: Command, log: &Path, what: &str) -> Self {
        let errors = File::options().create(true).append(true).open(log).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = loop {
            let line = soon(lines.next_line()).await.unwrap();
            let line = line.unwrap_or_else(|| {
                panic!("it ended: {}", std::fs::read_to_string(log).unwrap_or_default())
            });
            let said = line.strip_prefix("listening on ").and_then(|it| it.split_once(' '));
            if let Some((url, _)) = said.filter(|(_, it)| it.starts_with(what)) {
                break url.to_owned();
            }
        };
        Self { child, url, log: log.to_owned(), _lines: lines }
    }

    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    pub(crate) async fn kill(&mut self) {
        soon(self.child.kill()).await.unwrap();
    }
}

impl Drop for Served {
    /// A panic ends only the call that led to it, so nothing else would show it: whatever a test
    /// does, none is reached.
    fn drop(&mut self) {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        assert!(std::thread::panicking() || !log.contains("panicked at"), "{log}");
    }
}

/// A home on whose machine a broker serves others.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) home: Home,
    pub(crate) broker: Served,
}

impl Host {
    pub(crate) async fn new(place: &Path, name: &str) -> Self {
        Self::serving(place, name, "").await
    }

    pub(crate) async fn serving(place: &Path, name: &str, more: &str) -> Self {
        let home = Home::new(place, name);
        let line = format!("tasuki-broker serve --listen 127.0.0.1:0 --secure {more}");
        let broker = start(&home, &line).await;
        Self { home, broker }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.broker.url.strip_prefix("https://").unwrap().parse().unwrap()
    }

    /// Kills the broker and starts it again where it was.
    pub(crate) async fn restart(&mut self) {
        self.broker.kill().await;
        let line = format!("tasuki-broker serve --listen {} --secure", self.address());
        self.broker = start(&self.home, &line).await;
    }

    /// The line that a machine runs.
    pub(crate) async fn invite(&self, what: &str) -> String {
        self.home.says(&format!("tasuki-broker invite {what}")).await.trim().to_owned()
    }

    /// The first thing listed of what has this id.
    pub(crate) async fn invitation(&self, line: &str) -> Value {
        let listed = self.home.json("tasuki-broker invitations list").await;
        let id = id_of(line);
        let all = listed["invitations"].as_array().unwrap();
        all.iter().find(|it| it["invitation_id"] == id.as_str()).unwrap().clone()
    }

    pub(crate) async fn tokens(&self) -> Vec<Value> {
        let listed = self.home.json("tasuki-broker token list").await;
        listed["tokens"].as_array().unwrap().clone()
    }
}

async fn start(home: &Home, line: &str) -> Served {
    Served::start(home.command(line), &home.path.join("broker.log"), "(broker gRPC)").await
}

/// The id of the invitation whose line this is.
pub(crate) fn id_of(line: &str) -> String {
    let url = line.split_whitespace().last().unwrap();
    let invitation: tasuki_proto::invitation::Invitation = url.parse().unwrap();
    invitation.code.hash().short()
}
