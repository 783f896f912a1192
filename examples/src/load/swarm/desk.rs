//! Whoever calls as a lead or as a worker, over one connection, in one issue.

use tasuki_proto::wire::{
    Caller, ClaimTaskRequest, CreateIssueRequest, CreateTasksRequest, Difficulty, FeedbackDetail,
    IdempotencyKey, ListTasksRequest, ListTasksResponse, MintNextStepRequest, NewTask, NextStep,
    RegisterWorkerRequest, ResetTaskRequest, Review, ReviewTaskRequest, SubmissionWords,
    SubmitTaskRequest, TaskWords, directory_client::DirectoryClient, swarm_client::SwarmClient,
};
use tonic::transport::Channel;

use super::super::calls::registration;
use crate::{Result, process::Process};

/// Whose issue it is.
const LEAD: &str = "lead";

/// What is said in a submission and in a review, in bytes: with its frame it makes a request of
/// 512.
const TEXT_BYTES: usize = 120;

/// Tasks of one call, as many as the broker takes.
const PLANNED_AT_ONCE: usize = 200;

pub(in crate::load) struct Desk {
    swarm: SwarmClient<Channel>,
    pub(super) caller: Caller,
    pub(super) issue: String,
    /// Keys used so far.
    counter: u64,
    /// Tasks planned so far.
    pub(super) planned: usize,
    /// What each task has besides; its subject follows the number.
    pub(in crate::load) template: NewTask,
}

impl Desk {
    /// Opens an issue in a workspace of its own.
    pub(in crate::load) async fn open(broker: &Process, workspace: &str) -> Result<Self> {
        let channel = channel(broker).await?;
        let caller = Caller { workspace: workspace.to_owned(), ..Caller::default() };
        DirectoryClient::new(channel.clone()).register(registration(&caller, "desk")).await?;
        let mut swarm = SwarmClient::new(channel);
        let request = CreateIssueRequest {
            caller: Some(caller.clone()),
            key: Some(IdempotencyKey { client_id: "desk".to_owned(), counter: 1 }),
            role: LEAD.to_owned(),
            subject: "an issue".to_owned(),
            ..CreateIssueRequest::default()
        };
        let opened = swarm.create_issue(request).await?.into_inner();
        let issue = opened.issue.ok_or("no issue was opened")?.issue_id;
        Ok(Self { swarm, caller, issue, counter: 1, planned: 0, template: NewTask::default() })
    }

    /// Goes on with a broker that has the same data.
    pub(in crate::load) async fn turn_to(&mut self, broker: &Process) -> Result<()> {
        self.swarm = SwarmClient::new(channel(broker).await?);
        Ok(())
    }

    fn key(&mut self) -> Option<IdempotencyKey> {
        self.counter += 1;
        Some(IdempotencyKey { client_id: "desk".to_owned(), counter: self.counter })
    }

    fn caller(&self) -> Option<Caller> {
        Some(self.caller.clone())
    }

    pub(super) async fn register(&mut self, worker: &str) -> Result<()> {
        let request = RegisterWorkerRequest {
            caller: self.caller(),
            key: self.key(),
            role: worker.to_owned(),
        };
        self.swarm.register_worker(request).await?;
        Ok(())
    }

    /// A call that plans `count` tasks.
    pub(super) fn plan(&mut self, count: usize) -> CreateTasksRequest {
        let first = self.planned + 1;
        self.planned += count;
        let template = self.template.clone();
        let task = |number: usize| NewTask {
            subject: format!("the {number}th task{}", template.subject),
            difficulty: Difficulty::Easy.into(),
            points: u32::try_from(number % 9).unwrap_or_default() + 1,
            words: Some(TaskWords {
                description: "d".repeat(TEXT_BYTES),
                ..template.words.clone().unwrap_or_default()
            }),
            ..template.clone()
        };
        CreateTasksRequest {
            caller: self.caller(),
            key: self.key(),
            role: LEAD.to_owned(),
            issue_id: self.issue.clone(),
            tasks: (first..=self.planned).map(task).collect(),
        }
    }

    pub(super) fn client(&self) -> SwarmClient<Channel> {
        self.swarm.clone()
    }

    /// Plans until there are so many tasks.
    pub(in crate::load) async fn fill(&mut self, count: usize) -> Result<()> {
        while self.planned < count {
            let request = self.plan(PLANNED_AT_ONCE.min(count - self.planned));
            self.swarm.create_tasks(request).await?;
        }
        Ok(())
    }

    pub(super) async fn claim(&mut self, worker: &str, task: &str, next_step: &str) -> Result<()> {
        let request = ClaimTaskRequest {
            caller: self.caller(),
            key: self.key(),
            role: worker.to_owned(),
            issue_id: self.issue.clone(),
            task_id: task.to_owned(),
            next_step_token: next_step.to_owned(),
        };
        self.swarm.claim_task(request).await?;
        Ok(())
    }

    pub(super) async fn submit(&mut self, worker: &str, task: &str) -> Result<()> {
        let words = SubmissionWords {
            summary: "s".repeat(TEXT_BYTES),
            changed_files: vec!["src/main.rs".to_owned()],
            test_cases: vec!["it works".to_owned()],
            test_result: "r".repeat(TEXT_BYTES),
            ..SubmissionWords::default()
        };
        let request = SubmitTaskRequest {
            caller: self.caller(),
            key: self.key(),
            role: worker.to_owned(),
            issue_id: self.issue.clone(),
            task_id: task.to_owned(),
            claim_token: 0,
            words: Some(words),
            files: None,
        };
        self.swarm.submit_task(request).await?;
        Ok(())
    }

    pub(super) async fn mint(&mut self, worker: &str, task: &str, score: u32) -> Result<NextStep> {
        let request = MintNextStepRequest {
            caller: self.caller(),
            key: self.key(),
            role: LEAD.to_owned(),
            issue_id: self.issue.clone(),
            task_id: task.to_owned(),
            worker: worker.to_owned(),
            completion_score: score,
        };
        let minted = self.swarm.mint_next_step(request).await?.into_inner();
        let step = minted.next_step.filter(|step| !step.task_id.is_empty());
        step.ok_or_else(|| "there is no task to do next".into())
    }

    pub(super) async fn approve(&mut self, task: &str, score: u32, step: &NextStep) -> Result<()> {
        let detail = FeedbackDetail {
            dimension: "correctness".to_owned(),
            severity: "info".to_owned(),
            content: "c".repeat(TEXT_BYTES),
            ..FeedbackDetail::default()
        };
        let review = Review {
            is_approved: true,
            feedback: "f".repeat(TEXT_BYTES),
            reviewed_refs: vec!["src/main.rs".to_owned()],
            details: vec![detail],
            ..Review::default()
        };
        let request = ReviewTaskRequest {
            caller: self.caller(),
            key: self.key(),
            role: LEAD.to_owned(),
            issue_id: self.issue.clone(),
            task_id: task.to_owned(),
            completion_score: score,
            next_step_token: step.token.clone(),
            review: Some(review),
            ..ReviewTaskRequest::default()
        };
        self.swarm.review_task(request).await?;
        Ok(())
    }

    /// Makes it open again, so that there are as many tasks to claim as before.
    pub(super) async fn reset(&mut self, task: &str) -> Result<()> {
        let request = ResetTaskRequest {
            caller: self.caller(),
            key: self.key(),
            role: LEAD.to_owned(),
            issue_id: self.issue.clone(),
            task_id: task.to_owned(),
            reason: "to be claimed again".to_owned(),
        };
        self.swarm.reset_task(request).await?;
        Ok(())
    }

    /// The first page, in the order that a list has by itself.
    pub(in crate::load) async fn first_page(&mut self) -> Result<ListTasksResponse> {
        let request = ListTasksRequest {
            caller: self.caller(),
            role: LEAD.to_owned(),
            issue_id: self.issue.clone(),
            ..ListTasksRequest::default()
        };
        Ok(self.swarm.list_tasks(request).await?.into_inner())
    }
}

/// A connection of its own.
pub(super) async fn channel(broker: &Process) -> Result<Channel> {
    let channel = Channel::from_shared(broker.url().to_owned())?.tcp_nodelay(true);
    Ok(channel.connect().await?)
}
