//! A home directory and a project in it, with nothing in them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;

/// Every client, as one types it.
pub(crate) const CLIENTS: [&str; 10] = [
    "claude-code",
    "codex",
    "gemini",
    "cursor",
    "vscode",
    "cline",
    "opencode",
    "zed",
    "junie",
    "jetbrains",
];

pub(crate) struct Home {
    place: tempfile::TempDir,
}

/// What a command left behind.
#[derive(Debug)]
pub(crate) struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        let home = Self { place: tempfile::tempdir().unwrap() };
        fs::create_dir_all(home.project()).unwrap();
        home
    }

    pub(crate) fn path(&self) -> &Path {
        self.place.path()
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.path().join("project")
    }

    /// Where the program keeps things unless told otherwise.
    pub(crate) fn data(&self) -> PathBuf {
        self.path().join(".local/share/tasuki")
    }

    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tasuki"));
        command
            .args(line.split_whitespace())
            .env_clear()
            .env("HOME", self.path())
            .env("NO_COLOR", "1")
            .current_dir(self.project())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, line: &str) -> Said {
        said(&self.command(line).output().unwrap())
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

    pub(crate) fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path().join(path)).unwrap()
    }

    /// The clients' files, by their path from here.
    pub(crate) fn files(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        collect(self.path(), self.path(), &self.data(), &mut found);
        found
    }

    pub(crate) fn backups(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.data().join("backups")) else { return Vec::new() };
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    }

    /// A text without what differs from home to home and from run to run.
    pub(crate) fn plain(&self, text: &str, instance: &str) -> String {
        let (client, _) = instance.rsplit_once('-').unwrap();
        text.replace(instance, &format!("{client}-ID"))
            .replace(env!("CARGO_BIN_EXE_tasuki"), "/bin/tasuki")
            .replace(&self.path().display().to_string(), "~")
    }
}

pub(crate) fn said(output: &Output) -> Said {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Said {
        code: output.status.code().unwrap(),
        out: text(&output.stdout),
        err: text(&output.stderr),
    }
}

fn collect(root: &Path, at: &Path, except: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        if path == except {
            continue;
        }
        if path.is_dir() {
            collect(root, &path, except, found);
        } else {
            let name = path.strip_prefix(root).unwrap().display().to_string();
            found.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
}
