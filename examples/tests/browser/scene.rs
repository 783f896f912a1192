//! A broker with a node beside it, and agents that work through the API as nodes do.

use std::{
    process::Stdio,
    sync::atomic::{AtomicU64, Ordering},
};

use tasuki_examples::process::{Process, program};
use tasuki_proto::{
    rpc::{self, Rpc},
    token::Secret,
    wire::{self, run_question::Ask},
};
use tempfile::TempDir;
use tokio::process::Command;
use tonic::transport::Channel;

pub(super) struct Scene {
    pub(super) process: Process,
    channel: Channel,
    counter: AtomicU64,
    data: TempDir,
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
        Self { process, channel, counter: AtomicU64::new(0), data }
    }

    /// Where a page is.
    pub(super) fn page(&self, path: &str) -> String {
        format!("{}/w/default/{path}", self.process.url())
    }

    pub(super) fn node_url(&self) -> &str {
        self.process.url_of("MCP").unwrap()
    }

    /// Makes a call, as any program does.
    pub(super) async fn call<R: Rpc>(&self, request: R) -> R::Response {
        self.call_as(wire::Caller::default(), request).await
    }

    async fn call_as<R: Rpc>(&self, caller: wire::Caller, mut request: R) -> R::Response {
        request.set_caller(caller);
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

    /// Runs a command of this machine's, and says what it printed.
    pub(super) async fn tasuki(&self, line: &[&str]) -> String {
        let mut command = Command::new(program("tasuki").unwrap());
        command.args(line).arg("--data").arg(self.data.path()).current_dir(self.data.path());
        let output = command.stdin(Stdio::null()).output().await.unwrap();
        assert!(output.status.success(), "{line:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// `A` sends `B` a file of this name.
    pub(super) async fn attach(&self, name: &str, content: &str) {
        std::fs::write(self.data.path().join(name), content).unwrap();
        let line = ["mail", "send", "--role", "A", "--to", "B", "--attach", name, "with a file"];
        self.tasuki(&line).await;
    }

    /// The role `acceptor` runs the commands of a delivery again, fails, and leaves it to others.
    pub(super) async fn run_again_and_fail(&self, delivery: &str) {
        let role = || "acceptor".to_owned();
        let claim = wire::ClaimDeliveryRequest {
            role: role(),
            delivery_id: delivery.to_owned(),
            ..Default::default()
        };
        let claim_token = self.call(claim).await.delivery.unwrap().claim_token;
        let command = wire::CommandEvidence {
            command: "true".to_owned(),
            exit_code: 1,
            output_hash: vec![7; 32],
            output_tail: "no such parser".to_owned(),
            sandbox: "none".to_owned(),
            ..Default::default()
        };
        let evidence = wire::Evidence {
            commit: "0".repeat(40),
            commands: vec![command],
            ..Default::default()
        };
        let attach = wire::AttachEvidenceRequest {
            role: role(),
            delivery_id: delivery.to_owned(),
            claim_token,
            evidence: Some(evidence),
            ..Default::default()
        };
        self.call(attach).await;
    }

    /// A run of `lead` whose only step works at a node of its own, and has asked a question.
    /// `label` names its agent, model and tool.
    pub(super) async fn run(&self, label: &str, text: &str) -> Run<'_> {
        let node = "bench".to_owned();
        let register = wire::RegisterRequest {
            node: node.clone(),
            software: label.to_owned(),
            ..Default::default()
        };
        let epoch = self.call(register).await.epoch;
        let caller = wire::Caller { node: node.clone(), epoch, ..Default::default() };
        let words = |text: &str| Some(wire::RunText { text: text.to_owned(), sealed: None });
        let step = wire::NewStep {
            agent: label.to_owned(),
            runner: "pi".to_owned(),
            model: label.to_owned(),
            on: node,
            task: words(text),
            system: words(text),
            ..Default::default()
        };
        let start = wire::StartRunRequest {
            role: "lead".to_owned(),
            mode: wire::RunMode::Single.into(),
            steps: vec![step],
            ..Default::default()
        };
        let run_id = self.call(start).await.run.unwrap().run_id;
        let offer = wire::RunnerOffer {
            runners: vec!["pi".to_owned()],
            places: 1,
            accepts_elsewhere: true,
            ..Default::default()
        };
        let question = wire::RunQuestion {
            hold_ms: 60_000,
            ask: Some(Ask::Offer(offer)),
            ..Default::default()
        };
        self.call_as(caller.clone(), question).await.ready.unwrap();
        let secret = Secret::new([7; 32]);
        let claim = wire::ClaimStepRequest {
            run_id: run_id.clone(),
            step: 1,
            secret_hash: secret.hash().as_bytes().to_vec(),
            ..Default::default()
        };
        let claim_token = self.call_as(caller.clone(), claim).await.claim_token;
        let step = wire::StepKey {
            run_id: run_id.clone(),
            step: 1,
            secret: secret.expose_bytes().to_vec(),
        };
        let ask = wire::AskParentRequest {
            step: Some(step.clone()),
            text: words(text),
            ..Default::default()
        };
        let question = self.call_as(caller.clone(), ask).await.message;
        let last_tool = label.to_owned();
        let run = Run { scene: self, caller, run_id, claim_token, step, question, last_tool };
        run.says(text).await;
        run
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

/// A run that goes on.
pub(super) struct Run<'a> {
    scene: &'a Scene,
    caller: wire::Caller,
    pub(super) run_id: String,
    claim_token: u64,
    step: wire::StepKey,
    question: u32,
    last_tool: String,
}

impl Run<'_> {
    /// Its step says so far, and whether it is to be stopped.
    pub(super) async fn says(&self, text: &str) -> wire::StepStop {
        let report = wire::ReportStepRequest {
            run_id: self.run_id.clone(),
            step: 1,
            claim_token: self.claim_token,
            usage: Some(wire::RunUsage {
                input_tokens: 900,
                cost_microusd: 12_300,
                ..Default::default()
            }),
            last_tool: self.last_tool.clone(),
            partial: Some(wire::RunText { text: text.to_owned(), sealed: None }),
            ..Default::default()
        };
        self.scene.call_as(self.caller.clone(), report).await.stop()
    }

    /// What its step's question was answered with.
    pub(super) async fn reply(&self) -> String {
        let question = wire::RunQuestion {
            step: Some(self.step.clone()),
            hold_ms: 60_000,
            ask: Some(Ask::Message(self.question)),
            ..Default::default()
        };
        let answer = self.scene.call_as(self.caller.clone(), question).await;
        answer.messages.into_iter().find_map(|it| it.reply).unwrap_or_default().text
    }

    /// Its sub-agent has another one started, which no node takes.
    pub(super) async fn starts_another(&self, agent: &str) {
        let step = wire::NewStep {
            agent: agent.to_owned(),
            runner: "none".to_owned(),
            on: "nowhere".to_owned(),
            task: Some(wire::RunText { text: agent.to_owned(), sealed: None }),
            ..Default::default()
        };
        let start = wire::StartRunRequest {
            parent: Some(self.step.clone()),
            mode: wire::RunMode::Single.into(),
            steps: vec![step],
            ..Default::default()
        };
        self.scene.call_as(self.caller.clone(), start).await;
    }

    /// Its step ends as it was told to.
    pub(super) async fn ends(&self, status: wire::StepStatus, output: &str) {
        let words = |text: &str| wire::RunText { text: text.to_owned(), sealed: None };
        let end = wire::EndStepRequest {
            run_id: self.run_id.clone(),
            step: 1,
            claim_token: self.claim_token,
            status: status.into(),
            failure: if status == wire::StepStatus::Failed {
                wire::StepFailure::ModelError.into()
            } else {
                wire::StepFailure::Unspecified.into()
            },
            output: vec![words(output)],
            output_bytes: output.len() as u64,
            error: Some(words(output)),
            ..Default::default()
        };
        self.scene.call_as(self.caller.clone(), end).await;
    }
}
