//! Programs as a person starts them on a machine: with a home of their own and nothing else.

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    sync::Arc,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

use crate::{machine::bound, net::Place};

/// For one step of a test on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Fails a test that would hang.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    timeout(PATIENCE, future).await.expect("in time")
}

/// Between two looks at something that tells nobody when it changes.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Returns once `is_so`.
pub(crate) async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !is_so().await {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    soon(looking).await;
}

/// Where the programs are. Those of another package are built with the workspace.
pub(crate) fn programs() -> &'static Path {
    let folder = Path::new(env!("CARGO_BIN_EXE_tasuki")).parent().unwrap();
    let broker = folder.join("tasuki-broker");
    assert!(broker.is_file(), "{} is missing: cargo build --workspace", broker.display());
    folder
}

/// What agents' side of these tests starts; `data` is in the home of its machine.
pub(crate) fn tasuki(data: &Path) -> Command {
    let mut command = bound(env!("CARGO_BIN_EXE_tasuki"));
    let home = data.ancestors().nth(HOME_DEPTH).unwrap();
    command.current_dir(home).env_clear().envs(environment(home)).stdin(Stdio::null());
    command
}

/// From a home to the data of a program.
const DATA: &str = ".local/share/tasuki";

/// Folders in it.
const HOME_DEPTH: usize = 3;

fn environment(home: &Path) -> [(&'static str, String); 4] {
    let path = std::env::var("PATH").unwrap_or_default();
    [
        ("HOME", home.to_str().unwrap().to_owned()),
        ("PATH", format!("{}:{path}", programs().display())),
        ("USER", "alice".to_owned()),
        ("NO_COLOR", "1".to_owned()),
    ]
}

/// A machine with somebody's home on it.
#[derive(Debug, Clone)]
pub(crate) struct Desk {
    pub(crate) place: Arc<Place>,
    pub(crate) home: PathBuf,
}

impl Desk {
    pub(crate) fn new(place: Place, homes: &Path) -> Self {
        let home = homes.join(&place.machine.name);
        std::fs::create_dir_all(&home).unwrap();
        Self { place: Arc::new(place), home }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.home.join(DATA)
    }

    /// `program word word…` as typed; what `with` adds is set besides.
    fn command(&self, line: &str, with: &BTreeMap<String, String>) -> Command {
        let mut words = line.split_whitespace();
        let program = words.next().unwrap();
        let mut command = bound(programs().join(program));
        command.args(words).current_dir(&self.home).env_clear().envs(environment(&self.home));
        command.envs(with).stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) async fn run(&self, line: &str) -> Output {
        let mut command = self.command(line, &BTreeMap::new());
        soon(self.place.machine.on(async move { command.output().await.unwrap() })).await
    }

    /// What a command prints, which must succeed.
    pub(crate) async fn says(&self, line: &str) -> String {
        let output = self.run(line).await;
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The same of a command with `--json`, a value a line.
    pub(crate) async fn json(&self, line: &str) -> Vec<Value> {
        let said = self.says(&format!("{line} --json")).await;
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Follows the feed from its beginning into a file of the home. The first record is there.
    pub(crate) async fn watch(&self) -> (Child, PathBuf) {
        let path = self.home.join("feed");
        let mut command = self.command("tasuki watch --from 1 --json", &BTreeMap::new());
        command.stdout(File::create(&path).unwrap());
        command.stderr(File::create(path.with_extension("log")).unwrap());
        let child = self.place.machine.on(async move { command.spawn().unwrap() }).await;
        until(async || path.metadata().unwrap().len() != 0).await;
        (child, path)
    }

    /// Starts a program that stays.
    pub(crate) async fn start(&self, line: &str, ready: &'static str) -> Process {
        self.start_with(line, ready, BTreeMap::new()).await
    }

    pub(crate) async fn start_with(
        &self,
        line: &str,
        ready: &'static str,
        with: BTreeMap<String, String>,
    ) -> Process {
        let (desk, line) = (self.clone(), line.to_owned());
        let mut it = Process { desk, line, ready, with, child: None, lines: None };
        it.start().await;
        it
    }
}

/// A program that stays, and can be started again as it was.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) desk: Desk,
    line: String,
    /// The end of the line it prints when it is there.
    ready: &'static str,
    /// Of its environment.
    pub(crate) with: BTreeMap<String, String>,
    child: Option<Child>,
    /// Open as long as it runs, so that it can say more.
    lines: Option<Lines<BufReader<ChildStdout>>>,
}

impl Process {
    /// Returns once it is ready.
    pub(crate) async fn start(&mut self) {
        let log = File::options().create(true).append(true).open(self.log_path()).unwrap();
        let mut command = self.desk.command(&self.line, &self.with);
        command.stdout(Stdio::piped()).stderr(log);
        let spawned = self.desk.place.machine.on(async move { command.spawn().unwrap() });
        let mut child = spawned.await;
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        loop {
            let line = soon(lines.next_line()).await.unwrap();
            let line = line.unwrap_or_else(|| panic!("{} ended; {}", self.line, self.log()));
            if line.ends_with(self.ready) {
                break;
            }
        }
        (self.child, self.lines) = (Some(child), Some(lines));
    }

    pub(crate) fn log_path(&self) -> PathBuf {
        let program = self.line.split(' ').next().unwrap();
        self.desk.home.join(format!("{program}.log"))
    }

    /// What it said on standard error, over all starts.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Where its log ends now, for [`Process::until_says`].
    pub(crate) fn log_end(&self) -> usize {
        self.log().len()
    }

    /// Returns once it said `what` on standard error, after `from`.
    pub(crate) async fn until_says(&self, what: &str, from: usize) {
        let said = async || self.log().get(from..).is_some_and(|said| said.contains(what));
        until(said).await;
    }

    /// `kill -9`.
    pub(crate) async fn kill(&mut self) {
        soon(self.child.as_mut().unwrap().kill()).await.unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = self.child.as_ref().and_then(Child::id).unwrap();
        let pid = i32::try_from(id).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, signal).unwrap();
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
