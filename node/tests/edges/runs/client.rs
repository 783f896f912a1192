//! An MCP client on stdio with a user: it notes progress, and answers what the user is asked.

use std::{collections::BTreeMap, process::Stdio};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
};

use crate::{
    fake_agent::Machine,
    http::{call, with_progress},
    process::{soon, tasuki},
};

/// What its user says when asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum User {
    /// The client cannot ask.
    Away,
    Accepts,
    Declines,
}

pub(super) struct McpClient {
    user: User,
    ids: u64,
    /// What was told of calls that went on, in order.
    pub(super) progress: Vec<String>,
    /// What the user was asked.
    pub(super) questions: Vec<Value>,
    /// The latest answer as it came.
    pub(super) raw: String,
    /// Answers that came before anybody waited for them, by request.
    early: BTreeMap<u64, Value>,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    process: Child,
}

impl McpClient {
    pub(super) async fn new(machine: &Machine, role: &str, user: User) -> Self {
        Self::with(machine, &["--role", role], user).await
    }

    /// `args` follow `tasuki mcp`.
    pub(super) async fn with(machine: &Machine, args: &[&str], user: User) -> Self {
        let mut command = tasuki(&machine.up.data);
        command.arg("mcp").args(args).arg("--data").arg(&machine.up.data);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let stdin = process.stdin.take().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let (progress, questions, raw) = (Vec::new(), Vec::new(), String::new());
        let early = BTreeMap::new();
        let mut it = Self { user, ids: 0, progress, questions, raw, early, stdin, lines, process };
        let capabilities =
            if user == User::Away { json!({}) } else { json!({ "elicitation": {} }) };
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": capabilities,
            "clientInfo": { "name": "edges", "version": "9.9" } });
        it.request("initialize", params).await;
        it.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        it
    }

    pub(super) async fn say(&mut self, message: &Value) {
        self.stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// Begins a call, and says which it is.
    pub(super) async fn begin(&mut self, tool: &str, arguments: Value) -> u64 {
        self.ids += 1;
        let request = with_progress(call(self.ids, tool, arguments));
        self.say(&request).await;
        self.ids
    }

    /// The result of a call that was begun.
    pub(super) async fn end(&mut self, id: u64) -> Value {
        let message = self.answer(id).await;
        assert!(message["result"].is_object(), "{message}");
        message["result"].clone()
    }

    /// The answer to a request.
    async fn answer(&mut self, id: u64) -> Value {
        loop {
            if let Some(message) = self.early.remove(&id) {
                return message;
            }
            let message = self.hear().await;
            if let (Some(of), None) = (message["id"].as_u64(), message.get("method")) {
                self.early.insert(of, message);
            }
        }
    }

    /// The result of a tool.
    pub(super) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin(tool, arguments).await;
        self.end(id).await
    }

    /// The error of a call that is none of a tool's.
    pub(super) async fn refused(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin(tool, arguments).await;
        let message = self.answer(id).await;
        assert!(message["error"].is_object(), "{message}");
        message["error"].clone()
    }

    /// The result of any other request.
    pub(super) async fn request(&mut self, method: &str, params: Value) -> Value {
        self.ids += 1;
        let id = self.ids;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.say(&request).await;
        self.end(id).await
    }

    /// Takes a call back.
    pub(super) async fn cancel(&mut self, id: u64) {
        let params = json!({ "requestId": id, "reason": "the user" });
        let method = "notifications/cancelled";
        self.say(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    /// Until it was told this of a call that goes on.
    pub(super) async fn told(&mut self, words: &str) {
        while !self.progress.iter().any(|told| told == words) {
            self.hear().await;
        }
    }

    /// The names of the tools that it is shown.
    pub(super) async fn tools(&mut self) -> Vec<String> {
        let listed = self.request("tools/list", json!({})).await;
        let tools = listed["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Ends as a client does whose computer is switched off.
    pub(super) async fn vanish(mut self) {
        soon(self.process.kill()).await.unwrap();
    }

    /// The next message, of which what concerns all calls is seen to.
    async fn hear(&mut self) -> Value {
        self.raw = soon(self.lines.next_line()).await.unwrap().expect("a message");
        let message: Value = serde_json::from_str(&self.raw).unwrap();
        match message["method"].as_str() {
            Some("notifications/progress") => {
                let words = message["params"]["message"].as_str().unwrap_or_default();
                self.progress.push(words.to_owned());
            }
            Some("elicitation/create") => self.answer_question(&message).await,
            Some(_) | None => {}
        }
        message
    }

    async fn answer_question(&mut self, message: &Value) {
        self.questions.push(message["params"].clone());
        let result = match self.user {
            User::Away => panic!("nobody can be asked: {message}"),
            User::Accepts => json!({ "action": "accept", "content": {} }),
            User::Declines => json!({ "action": "decline" }),
        };
        self.say(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })).await;
    }
}
