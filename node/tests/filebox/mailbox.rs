//! Mailboxes as FileBox left them, and what a broker has of them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Output,
};

use serde_json::Value;
use tasuki_node::filebox::{Document, Entry};
use tasuki_proto::id::Timestamp;

use crate::process::{Process, soon, tasuki};

/// Projects, and a broker with a node.
pub(crate) struct Place {
    pub(crate) root: tempfile::TempDir,
    pub(crate) up: Process,
}

impl Place {
    pub(crate) async fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let up = Process::up(&root.path().join("data"), "--role qa --role dev").await;
        Self { root, up }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    pub(crate) fn command(&self, line: &str) -> tokio::process::Command {
        let mut command = tasuki(&self.up.data);
        command.args(line.split_whitespace()).arg("--data").arg(&self.up.data);
        command.current_dir(self.root.path()).env("HOME", self.root.path());
        command
    }

    pub(crate) async fn run(&self, line: &str) -> (i32, Output) {
        let output = soon(self.command(line).output()).await.unwrap();
        (output.status.code().unwrap(), output)
    }

    /// The first line of JSON.
    pub(crate) async fn json(&self, line: &str) -> (i32, Value) {
        let (code, output) = self.run(&format!("{line} --json")).await;
        let line = output.stdout.split(|it| *it == b'\n').next().unwrap();
        let value = serde_json::from_slice(line);
        (code, value.unwrap_or_else(|why| panic!("{why}: {output:?}")))
    }

    /// What it prints, if it ends well.
    pub(crate) async fn text(&self, line: &str) -> String {
        let (code, output) = self.run(line).await;
        assert_eq!(code, 0, "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// `ROLE BOX ID: texts`, for each copy in a workspace.
    pub(crate) async fn copies(&self, workspace: &str) -> Vec<String> {
        let lines = self.text(&format!("export --format jsonl --workspace {workspace}")).await;
        let mut copies: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in lines.lines() {
            let it: Value = serde_json::from_str(line).unwrap();
            let word = |value: &Value| value.as_str().unwrap().to_owned();
            let id = word(&it["thread"]["message_id"]);
            let copy = format!("{} {} {}", word(&it["role"]), word(&it["box"]), &id[..8]);
            copies.entry(copy).or_default().push(word(&it["entry"]["text"]));
        }
        copies.into_iter().map(|(copy, texts)| format!("{copy}: {}", texts.join(", "))).collect()
    }

    pub(crate) fn put(&self, path: &str, content: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

/// Entry `n` of a thread between qa and dev: odd ones are from qa.
pub(crate) fn letter(n: u64) -> Entry {
    let (from, to) = if n % 2 == 1 { ("qa", "dev") } else { ("dev", "qa") };
    let at = Timestamp::from_millis(1_795_293_772_094 + n * 60_000);
    Entry::new(at, from, &[to], if n == 1 { "BR" } else { "ACK" }, &format!("text {n}"))
}

/// A file with these entries, the newest first.
pub(crate) fn file(id: u32, title: &str, entries: &[u64]) -> String {
    let id = format!("{id:08x}-58c1-47f4-916e-13787156f665").parse().unwrap();
    let entries = entries.iter().map(|n| letter(*n)).collect();
    Document::new(Some(id), "BR", title, entries).to_markdown()
}

/// Every file below a folder, by its path in there.
pub(crate) fn tree(folder: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                files.insert(name, fs::read_to_string(path).unwrap());
            }
        }
    }
    files
}
