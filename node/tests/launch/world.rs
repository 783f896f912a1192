//! A home with scripts for agent CLIs, a project, and a node of its own.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use serde_json::Value;
use tokio::time::{Instant, sleep};

/// No test reaches it unless something hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);

const TASUKI: &str = env!("CARGO_BIN_EXE_tasuki");

pub(crate) struct World {
    place: tempfile::TempDir,
    children: Vec<Option<Child>>,
}

#[derive(Debug)]
pub(crate) struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl World {
    pub(crate) fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let world = Self { place, children: Vec::new() };
        for folder in ["bin", "plays", "project", "tmux"] {
            fs::create_dir(world.path(folder)).unwrap();
        }
        symlink(TASUKI, world.path("bin/tasuki")).unwrap();
        world.write(
            ".config/tasuki/tasuki.toml",
            "listen = \"127.0.0.1:0\"\nbroker_listen = \"127.0.0.1:0\"\ndashboard = \"off\"\n",
        );
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Installs a client that does this once it has asked for its turn.
    pub(crate) fn client(&self, name: &str, plays: &str) {
        let path = self.write(&format!("bin/{name}"), include_str!("agent.sh"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self.write(&format!("plays/{name}"), plays);
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(TASUKI);
        command.args(words).env_clear().current_dir(self.path("project")).stdin(Stdio::null());
        command.env("HOME", self.place.path()).env("NO_COLOR", "1").env("USER", "me");
        command.env("TMUX_TMPDIR", self.path("tmux"));
        command.env("PATH", format!("{}:/usr/bin:/bin", self.path("bin").display()));
        command
    }

    pub(crate) fn run(&self, line: &str) -> Said {
        said(&self.command(&line.split_whitespace().collect::<Vec<_>>()).output().unwrap())
    }

    /// Runs what must succeed.
    pub(crate) fn done(&self, line: &str) -> String {
        let said = self.run(line);
        assert_eq!(said.code, 0, "{line}: {said:?}");
        said.out
    }

    pub(crate) fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.done(&format!("{line} --json"))).unwrap()
    }

    /// Starts what goes on, and ends with this world.
    pub(crate) fn start(&mut self, line: &str) -> usize {
        let mut command = self.command(&line.split_whitespace().collect::<Vec<_>>());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        self.children.push(Some(child));
        self.children.len() - 1
    }

    /// Waits until one ends that was started.
    pub(crate) async fn ended(&mut self, index: usize) -> Said {
        let mut child = self.children[index].take().unwrap();
        let began = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < PATIENCE, "a process does not end");
            sleep(PAUSE).await;
        }
        said(&child.wait_with_output().unwrap())
    }

    pub(crate) fn terminate(&self, index: usize) {
        let pid = i32::try_from(self.children[index].as_ref().unwrap().id()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// What the clients were called with, a line each, in the order of their calls.
    pub(crate) fn calls(&self) -> Vec<String> {
        let words = |call: &u32| self.path(&format!("calls/{call}/words"));
        (0..).map_while(|call| fs::read_to_string(words(&call)).ok()).collect()
    }

    /// Waits until something holds.
    pub(crate) async fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let began = Instant::now();
        while !holds(self) {
            let errors = fs::read_to_string(self.path("errors")).unwrap_or_default();
            assert!(began.elapsed() < PATIENCE, "{what}; {:?}; {errors}", self.calls());
            sleep(PAUSE).await;
        }
    }

    /// Who has the turn of `main`, and the words with which it came.
    pub(crate) fn turn(&self) -> (String, String) {
        let told = self.json("loop status");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let latest = &told["latest"];
        let words = format!("{}\n{}", text(&latest["summary"]), text(&latest["instruction"]));
        (text(&told["loop"]["holder"]), words)
    }

    /// A text without what differs from world to world.
    pub(crate) fn plain(&self, text: &str) -> String {
        let home = self.place.path().canonicalize().unwrap();
        text.replace(TASUKI, "/bin/tasuki")
            .replace(&home.display().to_string(), "~")
            .replace(&self.place.path().display().to_string(), "~")
    }

    /// Whether a role was launched, so that its session can begin.
    pub(crate) fn is_ordered(&self, role: &str) -> bool {
        self.path(&format!(".local/share/tasuki/launch/{role}/order.json")).exists()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for child in self.children.iter_mut().flatten() {
            drop(child.kill());
            drop(child.wait());
        }
        drop(self.command(&["stop", "--all"]).output());
    }
}

fn said(output: &Output) -> Said {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said {
        code: output.status.code().unwrap_or(-1),
        out: text(&output.stdout),
        err: text(&output.stderr),
    }
}
