//! `tasuki wake …` against a real broker and node: hooks as clients call them, and clients that are
//! programs, servers and panes of these tests.

mod hooks;
mod push;

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, process::Stdio};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::{
    Said,
    process::{Process, soon, tasuki},
};

/// A broker with the roles A and B, and a project.
struct Office {
    place: tempfile::TempDir,
    up: Process,
}

impl Office {
    async fn open() -> Self {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        for directory in [&data, &place.path().join("work"), &place.path().join("bin")] {
            fs::create_dir(directory).unwrap();
        }
        let up = Process::up(&data, "").await;
        Self { place, up }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.place.path().join(path)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = tasuki(&self.up.data);
        command.args(arguments).arg("--data").arg(&self.up.data).current_dir(self.at("work"));
        let path = format!("{}:/usr/bin:/bin", self.at("bin").display());
        command.env("PATH", path).env("HOME", self.at("home")).env("TZ", "UTC");
        for name in ["TASUKI_ROLE", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "TMUX", "TMUX_PANE"] {
            command.env_remove(name);
        }
        command
    }

    async fn run(&self, arguments: &[&str]) -> Said {
        Said::of(&soon(self.command(arguments).output()).await.unwrap())
    }

    async fn json(&self, arguments: &[&str]) -> Value {
        let said = self.run(&[arguments, &["--json"]].concat()).await;
        assert_eq!(said.code, 0, "{arguments:?}: {said:?}\n{}", self.up.log());
        serde_json::from_str(&said.out).unwrap()
    }

    /// Sends from A to B, and names the thread.
    async fn send(&self, text: &str, more: &[&str]) -> String {
        let send = ["mail", "send", "--role", "A", "--to", "B", text];
        let told = self.json(&[&send, more].concat()).await;
        told["message_id"].as_str().unwrap().to_owned()
    }

    /// What a client says to a hook of its.
    fn hook(&self, event: &str, client: &str, input: &Value) -> Child {
        let mut command = self.command(&["wake", "hook", event, "--client", client, "--as", "B"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_string());
        tokio::spawn(async move { stdin.write_all(input.as_bytes()).await.ok() });
        child
    }

    async fn says(&self, event: &str, client: &str, input: &Value) -> Said {
        let hook = self.hook(event, client, input);
        Said::of(&soon(hook.wait_with_output()).await.unwrap())
    }

    /// A program that writes its arguments, one a line, into a pipe; and the pipe.
    fn program(&self, name: &str) -> PathBuf {
        let (pipe, path) = (self.at(&format!("{name}.pipe")), self.at("bin").join(name));
        self.pipe(&pipe);
        let script = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" > '{}'\n", pipe.display());
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        pipe
    }

    fn pipe(&self, path: &std::path::Path) {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }

    async fn status(&self) -> Value {
        self.json(&["wake", "status", "B"]).await["roles"][0].clone()
    }
}

/// All that is written into a pipe until its writers have closed it.
async fn read_pipe(pipe: &std::path::Path) -> String {
    let pipe = pipe.to_owned();
    let read = tokio::task::spawn_blocking(move || fs::read_to_string(pipe));
    soon(read).await.unwrap().unwrap()
}

/// A client that speaks MCP through `tasuki mcp`.
struct Bridged {
    _child: Child,
    into: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    id: u64,
}

impl Bridged {
    async fn connect(office: &Office, client: &str) -> Self {
        let mut command = office.command(&["mcp", "--role", "B"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let into = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut it = Self { _child: child, into, lines, id: 0 };
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": client, "version": "1" },
        });
        it.request("initialize", hello).await;
        it.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        it
    }

    /// Calls a tool, with what its client says beside the arguments.
    async fn call(&mut self, tool: &str, arguments: Value, meta: Value) -> Value {
        let call = json!({ "name": tool, "arguments": arguments, "_meta": meta });
        self.request("tools/call", call).await["result"].clone()
    }

    async fn request(&mut self, method: &str, parameters: Value) -> Value {
        self.id += 1;
        let id = self.id;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters });
        self.say(&request).await;
        loop {
            let line = soon(self.lines.next_line()).await.unwrap().unwrap();
            let told: Value = serde_json::from_str(&line).unwrap();
            if told["id"] == id {
                return told;
            }
        }
    }

    async fn say(&mut self, message: &Value) {
        self.into.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }
}
