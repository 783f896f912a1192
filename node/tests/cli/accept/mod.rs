//! `tasuki accept` against a real broker and real repositories.

mod checkout;
mod delivery;
mod endings;
mod sandbox;
mod set_id;
mod user;

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use tasuki_proto::wire::{self, swarm_client::SwarmClient};
use tokio::process::Command;
use tonic::{Response, Status, transport::Channel};

use crate::{
    Said,
    process::{Process, soon, tasuki},
};

/// What the operator lets run unless a test says otherwise.
const ALLOW: &str = "allow = [\"sh *\", \"bash *\", \"perl *\", \"cat *\", \"true\", \"false\"]";

/// A broker with a lead, a worker and an acceptor, one issue with one task, and the acceptor's
/// clone of a repository.
struct Office {
    place: tempfile::TempDir,
    up: Process,
    swarm: SwarmClient<Channel>,
    issue: String,
    claim_token: u64,
    counter: u64,
    repository: Repository,
}

impl Office {
    async fn open() -> Self {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        fs::create_dir(&data).unwrap();
        for made in ["tmp", "home"] {
            fs::create_dir(place.path().join(made)).unwrap();
        }
        let up = Process::up(&data, "--role lead --role worker --role acceptor").await;
        let url = format!("http://{}", up.broker.unwrap());
        let swarm = SwarmClient::connect(url).await.unwrap();
        let repository = Repository::new(&place.path().join("clone"));
        let issue = String::new();
        let mut it = Self { place, up, swarm, issue, claim_token: 0, counter: 0, repository };
        it.operator(ALLOW);
        let request = wire::CreateIssueRequest {
            caller: caller(),
            key: it.key(),
            role: "lead".into(),
            subject: "Build it".into(),
            ..Default::default()
        };
        it.issue = made(it.swarm.create_issue(request).await).issue.unwrap().issue_id;
        let task = wire::NewTask {
            subject: "begin".into(),
            difficulty: wire::Difficulty::Easy.into(),
            points: 1,
            ..Default::default()
        };
        let request = wire::CreateTasksRequest {
            caller: caller(),
            key: it.key(),
            role: "lead".into(),
            issue_id: it.issue.clone(),
            tasks: vec![task],
        };
        made(it.swarm.create_tasks(request).await);
        let request =
            wire::RegisterWorkerRequest { caller: caller(), key: it.key(), role: "worker".into() };
        made(it.swarm.register_worker(request).await);
        let request = wire::ClaimTaskRequest {
            caller: caller(),
            key: it.key(),
            role: "worker".into(),
            issue_id: it.issue.clone(),
            task_id: "task-1".into(),
            ..Default::default()
        };
        it.claim_token = made(it.swarm.claim_task(request).await).task.unwrap().claim_token;
        it
    }

    fn key(&mut self) -> Option<wire::IdempotencyKey> {
        self.counter += 1;
        Some(wire::IdempotencyKey { client_id: "test".into(), counter: self.counter })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// What is in the operator's `[accept]`.
    fn operator(&self, accept: &str) {
        fs::write(self.up.data.join("tasuki.toml"), format!("[accept]\n{accept}\n")).unwrap();
    }

    /// The worker submits this.
    async fn submit(&mut self, commit: &str, commands: &[&str]) {
        self.submitted(commit, commands).await.unwrap();
    }

    async fn submitted(&mut self, commit: &str, commands: &[&str]) -> Result<(), Status> {
        let words = wire::SubmissionWords {
            summary: "done".into(),
            test_result: "passed".into(),
            rerun: rerun(commit, commands),
            ..Default::default()
        };
        let request = wire::SubmitTaskRequest {
            caller: caller(),
            key: self.key(),
            role: "worker".into(),
            issue_id: self.issue.clone(),
            task_id: "task-1".into(),
            claim_token: self.claim_token,
            words: Some(words),
            files: None,
        };
        self.swarm.submit_task(request).await.map(drop)
    }

    /// The lead approves the task and delivers the issue.
    async fn deliver(&mut self, commit: &str, commands: &[&str]) -> String {
        self.deliver_steps(commit, commands, commands).await
    }

    /// The same with other steps than the commands that can be run again.
    async fn deliver_steps(&mut self, commit: &str, commands: &[&str], steps: &[&str]) -> String {
        self.submit(commit, commands).await;
        let request = wire::MintNextStepRequest {
            caller: caller(),
            key: self.key(),
            role: "lead".into(),
            issue_id: self.issue.clone(),
            task_id: "task-1".into(),
            worker: "worker".into(),
            completion_score: 5,
        };
        let next = made(self.swarm.mint_next_step(request).await).next_step.unwrap();
        let review = wire::Review {
            is_approved: true,
            review_summary: "looked".into(),
            reviewed_refs: vec!["src".into()],
            details: vec![wire::FeedbackDetail {
                dimension: "test".into(),
                severity: "info".into(),
                content: "fine".into(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let request = wire::ReviewTaskRequest {
            caller: caller(),
            key: self.key(),
            role: "lead".into(),
            issue_id: self.issue.clone(),
            task_id: "task-1".into(),
            completion_score: 5,
            next_step_token: next.token,
            review: Some(review),
            ..Default::default()
        };
        made(self.swarm.review_task(request).await);
        let result = |command: &&str| wire::CommandResult {
            command: (*command).into(),
            has_passed: true,
            ..Default::default()
        };
        let request = wire::SubmitDeliveryRequest {
            caller: caller(),
            key: self.key(),
            role: "lead".into(),
            issue_id: self.issue.clone(),
            summary: "All is done.".into(),
            artifacts: Some(wire::DeliveryArtifacts {
                has_passed: true,
                changed_files: vec!["issue-1-test-steps.md".into()],
                ..Default::default()
            }),
            test_evidence: Some(wire::TestEvidence {
                script_passed: true,
                doc_path: "issue-1-test-steps.md".into(),
                doc_commands: steps.iter().map(|it| (*it).into()).collect(),
                doc_results: steps.iter().map(result).collect(),
                doc_passed: true,
                rerun: rerun(commit, commands),
                ..Default::default()
            }),
            ..Default::default()
        };
        made(self.swarm.submit_delivery(request).await).delivery.unwrap().delivery_id
    }

    async fn delivery(&mut self, id: &str) -> wire::Delivery {
        let request = wire::GetDeliveryRequest {
            caller: caller(),
            role: String::new(),
            delivery_id: id.into(),
        };
        made(self.swarm.get_delivery(request).await).delivery.unwrap()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.unnamed(args);
        command.arg("--repository").arg(&self.repository.path);
        command
    }

    /// The same, which names no repository.
    fn unnamed(&self, args: &[&str]) -> Command {
        let mut command = tasuki(&self.up.data);
        command.arg("accept").args(args).arg("--data").arg(&self.up.data);
        command.args(["--role", "acceptor"]);
        command.env("TMPDIR", self.path("tmp")).env("HOME", self.path("home"));
        command.env("A_SECRET", "hunter2");
        command
    }

    async fn run(&self, args: &[&str]) -> Said {
        Said::of(&soon(self.command(args).output()).await.unwrap())
    }

    async fn json(&self, code: i32, args: &[&str]) -> Value {
        let said = self.run(&[args, &["--json"]].concat()).await;
        assert_eq!(said.code, code, "{args:?}: {said:?}\n{}", self.up.log());
        serde_json::from_str(said.out.lines().next().unwrap()).unwrap()
    }

    /// Submits these commands at the newest commit, and tries them.
    async fn tried(&mut self, code: i32, commands: &[&str]) -> Vec<Ran> {
        self.submit(&self.repository.head(), commands).await;
        // As `tasuki task` calls it.
        let task = format!("{}/1", self.issue.rsplit('_').next().unwrap());
        let told = self.json(code, &["--task", &task]).await;
        assert_eq!(told["passed"], code == 0, "{told}");
        told["commands"].as_array().unwrap().iter().map(Ran::of).collect()
    }

    /// The same of one command that is a script.
    async fn script(&mut self, code: i32, script: &str) -> Ran {
        self.repository.commit(&[("script.sh", script)]);
        self.tried(code, &["sh script.sh"]).await.remove(0)
    }

    /// Nothing of a run is there any more.
    fn check_clean(&self) {
        let inside = |path: PathBuf| -> Vec<PathBuf> {
            let inside = fs::read_dir(path).into_iter().flatten();
            inside.map(|it| it.unwrap().path()).collect()
        };
        assert_eq!(inside(self.path("tmp")), Vec::<PathBuf>::new());
        assert_eq!(inside(self.up.data.join("accept")), Vec::<PathBuf>::new());
    }
}

fn caller() -> Option<wire::Caller> {
    Some(wire::Caller { workspace: "default".into(), ..Default::default() })
}

fn rerun(commit: &str, commands: &[&str]) -> Option<wire::Rerun> {
    let commands = commands.iter().map(|it| (*it).into()).collect();
    Some(wire::Rerun { commit: commit.into(), commands })
}

fn made<T>(answer: Result<Response<T>, Status>) -> T {
    answer.unwrap().into_inner()
}

/// One command as it was told.
#[derive(Debug)]
struct Ran {
    exit_code: i64,
    output: String,
    is_timed_out: bool,
    all: Value,
}

impl Ran {
    fn of(told: &Value) -> Self {
        Self {
            exit_code: told["exit_code"].as_i64().unwrap(),
            output: told["output_tail"].as_str().unwrap().to_owned(),
            is_timed_out: told["timed_out"].as_bool().unwrap(),
            all: told.clone(),
        }
    }
}

/// A repository of the acceptor's.
struct Repository {
    path: PathBuf,
}

impl Repository {
    fn new(path: &Path) -> Self {
        fs::create_dir(path).unwrap();
        let it = Self { path: path.to_owned() };
        it.git(&["init", "--quiet", "--initial-branch=main"]);
        it.commit(&[("README", "read me")]);
        it
    }

    fn git(&self, args: &[&str]) -> String {
        let mut git = std::process::Command::new("git");
        git.arg("-C").arg(&self.path).args(["-c", "user.name=t", "-c", "user.email=t@localhost"]);
        git.args(["-c", "commit.gpgsign=false", "-c", "protocol.file.allow=always"]).args(args);
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        let output = git.output().unwrap();
        assert!(output.status.success(), "git {args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn head(&self) -> String {
        self.git(&["rev-parse", "HEAD"])
    }

    /// Commits files, and answers with the commit.
    fn commit(&self, files: &[(&str, &str)]) -> String {
        for (name, text) in files {
            let path = self.path.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", "a change"]);
        self.head()
    }
}
