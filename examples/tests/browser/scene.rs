//! A broker with a node beside it, and agents that work through the API as nodes do.

use std::sync::atomic::{AtomicU64, Ordering};

use tasuki_examples::process::{Process, program};
use tasuki_proto::{
    rpc::{self, Rpc},
    wire,
};
use tempfile::TempDir;
use tokio::process::Command;
use tonic::transport::Channel;

pub(super) struct Scene {
    pub(super) process: Process,
    channel: Channel,
    counter: AtomicU64,
    _data: TempDir,
}

impl Scene {
    /// `tasuki up` with these roles.
    pub(super) async fn start(roles: &[&str]) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut command = Command::new(program("tasuki").unwrap());
        let free = "127.0.0.1:0";
        command.args(["up", "--listen", free, "--broker-listen", free, "--dashboard", free]);
        for role in roles {
            command.args(["--role", role]);
        }
        command.arg("--data").arg(data.path()).current_dir(data.path());
        let process = Process::start(command, "dashboard").await.unwrap();
        let broker = process.url_of("broker gRPC").unwrap().to_owned();
        let channel = Channel::from_shared(broker).unwrap().connect().await.unwrap();
        Self { process, channel, counter: AtomicU64::new(0), _data: data }
    }

    /// Where a page is.
    pub(super) fn page(&self, path: &str) -> String {
        format!("{}/w/default/{path}", self.process.url())
    }

    pub(super) fn node_url(&self) -> &str {
        self.process.url_of("MCP").unwrap()
    }

    /// Makes a call, as any program does.
    pub(super) async fn call<R: Rpc>(&self, mut request: R) -> R::Response {
        request.set_caller(wire::Caller::default());
        let counter = 1 + self.counter.fetch_add(1, Ordering::Relaxed);
        request.set_key(Some(wire::IdempotencyKey { client_id: "scene".to_owned(), counter }));
        let answer = rpc::send(self.channel.clone(), request).await;
        answer.unwrap_or_else(|why| panic!("{}: {}", R::CALL.path, why.message())).into_inner()
    }

    pub(super) async fn hand_over(&self, from: &str, summary: &str, instruction: &str) {
        let request = wire::HandOverRequest {
            r#loop: "main".to_owned(),
            role: from.to_owned(),
            summary: summary.to_owned(),
            instruction: instruction.to_owned(),
            ..Default::default()
        };
        self.call(request).await;
    }

    pub(super) async fn send(&self, from: &str, to: &str, subject: &str, text: &str) -> String {
        let request = wire::SendRequest {
            role: from.to_owned(),
            to: vec![to.to_owned()],
            r#type: "INFO".to_owned(),
            subject: subject.to_owned(),
            text: text.to_owned(),
            ..Default::default()
        };
        self.call(request).await.message_id
    }

    /// An issue of `lead` with one task, whose id is said with the issue's.
    pub(super) async fn issue(&self, subject: &str, text: &str) -> (String, String) {
        let request = wire::CreateIssueRequest {
            role: "lead".to_owned(),
            subject: subject.to_owned(),
            description: text.to_owned(),
            ..Default::default()
        };
        let issue = self.call(request).await.issue.unwrap().issue_id;
        let spec = wire::TaskSpec {
            goal: text.to_owned(),
            acceptance: text.to_owned(),
            ..Default::default()
        };
        let words = wire::TaskWords {
            description: text.to_owned(),
            spec: Some(spec),
            ..Default::default()
        };
        let mut task = wire::NewTask {
            subject: subject.to_owned(),
            points: 2,
            words: Some(words),
            ..Default::default()
        };
        task.set_difficulty(wire::Difficulty::Easy);
        let request = wire::CreateTasksRequest {
            role: "lead".to_owned(),
            issue_id: issue.clone(),
            tasks: vec![task],
            ..Default::default()
        };
        let task = self.call(request).await.tasks[0].task_id.clone();
        (issue, task)
    }

    /// `worker1` claims a task, asks about it and submits it.
    pub(super) async fn submit(&self, issue: &str, task: &str, text: &str) {
        let role = || "worker1".to_owned();
        let (issue_id, task_id) = (issue.to_owned(), task.to_owned());
        self.call(wire::RegisterWorkerRequest { role: role(), ..Default::default() }).await;
        let claim = wire::ClaimTaskRequest {
            role: role(),
            issue_id: issue_id.clone(),
            task_id: task_id.clone(),
            ..Default::default()
        };
        let claim_token = self.call(claim).await.task.unwrap().claim_token;
        let question = wire::PostMessageRequest {
            role: role(),
            issue_id: issue_id.clone(),
            task_id: task_id.clone(),
            kind: "question".to_owned(),
            content: text.to_owned(),
            claim_token,
            ..Default::default()
        };
        let message = self.call(question).await.message.unwrap().message_id;
        let answer = wire::ReplyMessageRequest {
            role: "lead".to_owned(),
            issue_id: issue_id.clone(),
            task_id: task_id.clone(),
            message_id: message,
            content: text.to_owned(),
            ..Default::default()
        };
        self.call(answer).await;
        let words = wire::SubmissionWords {
            summary: text.to_owned(),
            changed_files: vec!["src/a.rs".to_owned()],
            diff: format!("+{text}"),
            test_cases: vec![text.chars().take(60).collect()],
            test_result: "passed".to_owned(),
            test_output: text.to_owned(),
            ..Default::default()
        };
        let submit = wire::SubmitTaskRequest {
            role: role(),
            issue_id,
            task_id,
            claim_token,
            words: Some(words),
            ..Default::default()
        };
        self.call(submit).await;
    }
}
