//! Somebody with an empty home and this workspace's programs, who types.

use std::{collections::BTreeMap, fs, path::PathBuf, process::Output, time::Duration};

use tasuki_examples::process::{Process, program};
use tokio::{process::Command, time::timeout};

use super::{Block, scenes};

/// For one command on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Commands that stay: the end of the line that says they are ready.
const STAYING: [(&str, &str); 3] =
    [("tasuki up", "broker gRPC"), ("tasuki node", "MCP"), ("tasuki-broker serve", "broker gRPC")];

pub(super) struct World {
    /// Everybody's home; the user's own is `me` in it.
    place: tempfile::TempDir,
    pub(super) running: Vec<Process>,
    /// `export` lines that were typed.
    exported: String,
    /// What stands for what in the text.
    names: BTreeMap<String, String>,
    is_set: bool,
}

impl World {
    pub(super) fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let names = BTreeMap::from([("127.0.0.1:7431".to_owned(), "127.0.0.1:0".to_owned())]);
        Self { place, running: Vec::new(), exported: String::new(), names, is_set: false }
    }

    /// From here on `meant` is typed where the text has `name`.
    pub(super) fn name(&mut self, name: &str, meant: &str) {
        self.names.insert(name.to_owned(), meant.to_owned());
    }

    pub(super) fn meant_by(&self, name: &str) -> Option<&str> {
        self.names.get(name).map(String::as_str)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// A file below a home, with the folders it is in.
    pub(super) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn shell(&self, machine: &str, line: &str) -> Command {
        let home = self.path(machine);
        let here = home.join("project");
        fs::create_dir_all(&here).unwrap();
        let own = program("tasuki").unwrap();
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("{}{line}", self.exported)]).current_dir(here).env_clear();
        shell.env("HOME", &home).env("USER", "alice").env("RUST_LOG", "off");
        shell.env("TZ", "UTC");
        let (stubs, own) = (home.join("bin"), own.parent().unwrap());
        shell.env("PATH", format!("{}:{}:/usr/bin:/bin", stubs.display(), own.display()));
        // No example has a port to itself.
        shell.env("TASUKI_LISTEN", "127.0.0.1:0").env("TASUKI_BROKER_LISTEN", "127.0.0.1:0");
        shell.env("TASUKI_DASHBOARD", "127.0.0.1:0");
        shell.stdin(std::process::Stdio::null()).kill_on_drop(true);
        shell
    }

    /// Starts a command that stays.
    pub(super) async fn start(&mut self, machine: &str, line: &str) -> &Process {
        let ready = STAYING.iter().find(|(it, _)| line.starts_with(it)).unwrap().1;
        let mut line = format!("exec {}", line.trim_end_matches(" &"));
        if line.contains("tasuki-broker serve") {
            line += " --listen 127.0.0.1:0";
        }
        let process = Process::start(self.shell(machine, &line), ready).await;
        let process = process.unwrap_or_else(|why| panic!("{line}: {why}"));
        if ready == "broker gRPC" {
            let url = process.url().to_owned();
            self.name("http://127.0.0.1:7420", &url);
        }
        self.running.push(process);
        self.running.last().unwrap()
    }

    pub(super) async fn run(&self, machine: &str, line: &str) -> Output {
        let ended = timeout(PATIENCE, self.shell(machine, line).output()).await;
        ended.unwrap_or_else(|_| panic!("{line}: no end")).unwrap()
    }

    /// What a command of the user's prints, which must succeed.
    pub(super) async fn says(&self, line: &str) -> String {
        let output = self.run("me", line).await;
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Types a block's commands.
    pub(super) async fn type_all(&mut self, block: &Block) {
        if !std::mem::replace(&mut self.is_set, true) {
            scenes::set(&block.scene, self).await;
        }
        let mut watched = Vec::new();
        for line in block.text.replace("\\\n", " ").lines() {
            let typed = match (block.kind.as_str(), line.split_once("$ ")) {
                ("sh", _) => Some(("", line)),
                (_, Some((machine, rest))) if !machine.contains(' ') => Some((machine, rest)),
                _ => None,
            };
            // Not what was printed.
            let Some((machine, line)) = typed else { continue };
            let machine = if machine.is_empty() { "me" } else { machine };
            let line = line.split(" # ").next().unwrap().split("  #").next().unwrap().trim();
            scenes::before(&block.scene, line, self).await;
            let mut typed = line.to_owned();
            for (name, meant) in &self.names {
                typed = typed.replace(name, meant);
            }
            if line.starts_with("export ") {
                self.exported += &format!("{line}\n");
            } else if STAYING.iter().any(|(it, _)| line.starts_with(it))
                && !line.contains("--detach")
            {
                self.start(machine, &typed).await;
            } else if line == "tasuki watch" {
                let mut watch = self.shell(machine, &format!("exec {line}"));
                watched.push(watch.stdout(std::process::Stdio::null()).spawn().unwrap());
            } else {
                let output = self.run(machine, &typed).await;
                let code = scenes::exit_code(&block.scene, line);
                assert_eq!(
                    output.status.code(),
                    Some(code),
                    "{}: {typed}: {output:?}",
                    block.place
                );
                scenes::after(line, &String::from_utf8(output.stdout).unwrap(), self);
            }
        }
        for mut it in watched {
            assert_eq!(it.try_wait().unwrap(), None, "{}: it ended", block.place);
        }
    }
}
