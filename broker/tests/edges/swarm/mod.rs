//! Leads, workers and acceptors at a real broker: their flows, their refusals, and what a broker
//! that was killed in the middle still knows.

mod ends;
mod flows;
mod import;
mod large;
mod refusals;
mod restarts;
mod restored;
mod shown;

use std::{net::SocketAddr, path::Path};

use tasuki_proto::wire::{
    self, swarm_answer::Standing, swarm_client::SwarmClient, swarm_question::Ask,
};
use tonic::{Status, transport::Channel};

use crate::support::{PATIENCE, Process, caller, channel, key, soon};

/// One role at a broker.
#[derive(Debug, Clone)]
struct Desk {
    swarm: SwarmClient<Channel>,
    role: String,
    counter: u64,
}

/// Calls that change something: with caller, key and role filled in.
macro_rules! asks {
    ($($call:ident($asked:ident) -> $answered:ident;)*) => {
        impl Desk {
            $(async fn $call(&mut self, mut it: wire::$asked) -> Result<wire::$answered, Status> {
                it.caller = caller("default");
                it.key = it.key.or_else(|| self.key());
                it.role.clone_from(&self.role);
                Ok(soon(stringify!($call), self.swarm.$call(it)).await?.into_inner())
            })*
        }
    };
}

/// Calls that look.
macro_rules! looks {
    ($($call:ident($asked:ident) -> $answered:ident;)*) => {
        impl Desk {
            $(async fn $call(&mut self, mut it: wire::$asked) -> Result<wire::$answered, Status> {
                it.caller = caller("default");
                Ok(soon(stringify!($call), self.swarm.$call(it)).await?.into_inner())
            })*
        }
    };
}

asks! {
    create_issue(CreateIssueRequest) -> IssueResponse;
    close_issue(CloseIssueRequest) -> IssueResponse;
    reopen_issue(ReopenIssueRequest) -> IssueResponse;
    extend_issue(ExtendIssueRequest) -> IssueResponse;
    update_issue_doc_paths(UpdateIssueDocPathsRequest) -> IssueResponse;
    create_tasks(CreateTasksRequest) -> CreateTasksResponse;
    register_worker(RegisterWorkerRequest) -> Worker;
    claim_task(ClaimTaskRequest) -> TaskResponse;
    renew_claim(RenewClaimRequest) -> TaskResponse;
    submit_task(SubmitTaskRequest) -> SubmitTaskResponse;
    mint_next_step(MintNextStepRequest) -> MintNextStepResponse;
    review_task(ReviewTaskRequest) -> TaskResponse;
    reset_task(ResetTaskRequest) -> TaskResponse;
    cancel_task(CancelTaskRequest) -> TaskResponse;
    post_message(PostMessageRequest) -> MessageResponse;
    reply_message(ReplyMessageRequest) -> MessageResponse;
    submit_delivery(SubmitDeliveryRequest) -> DeliveryResponse;
    claim_delivery(ClaimDeliveryRequest) -> DeliveryResponse;
    renew_delivery(RenewDeliveryRequest) -> DeliveryResponse;
    attach_evidence(AttachEvidenceRequest) -> DeliveryResponse;
    review_delivery(ReviewDeliveryRequest) -> DeliveryResponse;
    write_doc(WriteDocRequest) -> Doc;
    lock_files(LockFilesRequest) -> LockResponse;
    renew_lock(RenewLockRequest) -> LockResponse;
    unlock(UnlockRequest) -> UnlockResponse;
    force_unlock(ForceUnlockRequest) -> UnlockResponse;
}

looks! {
    get_issue(GetIssueRequest) -> IssueResponse;
    list_issues(ListIssuesRequest) -> ListIssuesResponse;
    get_task(GetTaskRequest) -> TaskResponse;
    list_tasks(ListTasksRequest) -> ListTasksResponse;
    list_workers(ListWorkersRequest) -> ListWorkersResponse;
    list_deliveries(ListDeliveriesRequest) -> ListDeliveriesResponse;
    read_doc(ReadDocRequest) -> Doc;
    list_docs(ListDocsRequest) -> ListDocsResponse;
    list_locks(ListLocksRequest) -> ListLocksResponse;
    get_settings(GetSettingsRequest) -> SwarmSettings;
    get_history(GetHistoryRequest) -> GetHistoryResponse;
    mark_items(MarkItemsRequest) -> MarkItemsResponse;
}

impl Desk {
    fn at(address: SocketAddr, role: &str) -> Self {
        Self { swarm: SwarmClient::new(channel(address)), role: role.to_owned(), counter: 0 }
    }

    /// The same at a broker that is somewhere else since it was killed.
    fn moved(&mut self, address: SocketAddr) {
        self.swarm = SwarmClient::new(channel(address));
    }

    fn key(&mut self) -> Option<wire::IdempotencyKey> {
        self.counter += 1;
        key(&format!("desk-{}", self.role), self.counter)
    }

    async fn ask(&mut self, ask: Ask, hold_ms: u64) -> Result<wire::SwarmAnswer, Status> {
        let (role, ask) = (self.role.clone(), Some(ask));
        let question = wire::SwarmQuestion { caller: caller("default"), role, hold_ms, ask };
        Ok(soon("the wait", self.swarm.await_swarm(question)).await?.into_inner())
    }

    /// Waits until there is something to tell.
    async fn wait(&mut self, ask: Ask) -> wire::SwarmAnswer {
        let hold_ms = u64::try_from(PATIENCE.as_millis()).unwrap();
        let answer = self.ask(ask, hold_ms).await.unwrap();
        assert_eq!(answer.standing(), Standing::There, "{answer:?}");
        answer
    }

    /// What the lead has to look at next, which it then has been given.
    async fn item(&mut self, issue: &str) -> wire::Item {
        let item = self.wait(Ask::ItemsOf(issue.to_owned())).await.item.unwrap();
        let (role, issue_id) = (self.role.clone(), issue.to_owned());
        let numbers = vec![item.number];
        self.mark_items(wire::MarkItemsRequest { role, issue_id, numbers, ..Default::default() })
            .await
            .unwrap();
        item
    }

    /// An issue with tasks of so many points each.
    async fn issue(&mut self, points: &[u32]) -> String {
        self.issue_called("Build it", points).await
    }

    async fn issue_called(&mut self, subject: &str, points: &[u32]) -> String {
        let request =
            wire::CreateIssueRequest { subject: subject.to_owned(), ..Default::default() };
        let issue_id = self.create_issue(request).await.unwrap().issue.unwrap().issue_id;
        let task = |points: &u32| wire::NewTask {
            subject: format!("worth {points}"),
            difficulty: wire::Difficulty::Easy.into(),
            points: *points,
            ..Default::default()
        };
        let tasks: Vec<wire::NewTask> = points.iter().map(task).collect();
        if tasks.is_empty() {
            return issue_id;
        }
        let request =
            wire::CreateTasksRequest { issue_id: issue_id.clone(), tasks, ..Default::default() };
        self.create_tasks(request).await.unwrap();
        issue_id
    }

    async fn claim(&mut self, issue: &str, task: &str, next: &str) -> Result<wire::Task, Status> {
        let request = wire::ClaimTaskRequest {
            issue_id: issue.to_owned(),
            task_id: task.to_owned(),
            next_step_token: next.to_owned(),
            ..Default::default()
        };
        Ok(self.claim_task(request).await?.task.unwrap())
    }

    async fn submit(&mut self, task: &wire::Task, summary: &str) -> Result<String, Status> {
        let words = wire::SubmissionWords {
            summary: summary.to_owned(),
            changed_files: vec![format!("src/{}.rs", task.task_id)],
            ..Default::default()
        };
        let request = wire::SubmitTaskRequest {
            issue_id: task.issue_id.clone(),
            task_id: task.task_id.clone(),
            claim_token: task.claim_token,
            words: Some(words),
            ..Default::default()
        };
        Ok(self.submit_task(request).await?.submission_id)
    }

    async fn mint(&mut self, task: &wire::Task, score: u32) -> wire::NextStep {
        let request = wire::MintNextStepRequest {
            issue_id: task.issue_id.clone(),
            task_id: task.task_id.clone(),
            worker: task.claimed_by.clone(),
            completion_score: score,
            ..Default::default()
        };
        self.mint_next_step(request).await.unwrap().next_step.unwrap()
    }

    async fn approve(&mut self, task: &wire::Task, score: u32) -> wire::NextStep {
        let next = self.mint(task, score).await;
        self.review_task(verdict(task, &next.token, score)).await.unwrap();
        next
    }

    async fn task(&mut self, issue: &str, task: &str) -> wire::Task {
        let (role, issue_id, task_id) = (self.role.clone(), issue.to_owned(), task.to_owned());
        let request = wire::GetTaskRequest { role, issue_id, task_id, ..Default::default() };
        self.get_task(request).await.unwrap().task.unwrap()
    }
}

/// A verdict on a task's submission: an approval if there is a token for what comes next.
fn verdict(task: &wire::Task, next: &str, score: u32) -> wire::ReviewTaskRequest {
    let detail = wire::FeedbackDetail {
        dimension: "test".to_owned(),
        severity: "minor".to_owned(),
        content: "one case is missing".to_owned(),
        ..Default::default()
    };
    let review = wire::Review {
        is_approved: !next.is_empty(),
        review_summary: "looked at all of it".to_owned(),
        reviewed_refs: vec!["src".to_owned()],
        details: vec![detail],
        ..Default::default()
    };
    wire::ReviewTaskRequest {
        issue_id: task.issue_id.clone(),
        task_id: task.task_id.clone(),
        completion_score: score,
        next_step_token: next.to_owned(),
        review: Some(review),
        ..Default::default()
    }
}

/// A broker, and roles at it.
async fn office<const N: usize>(data: &Path, roles: [&str; N]) -> (Process, [Desk; N]) {
    let (broker, address) = Process::served(data).await;
    (broker, roles.map(|role| Desk::at(address, role)))
}

/// A worker that is known as one.
async fn employ(desk: &mut Desk) {
    desk.register_worker(wire::RegisterWorkerRequest::default()).await.unwrap();
}

fn files(patterns: &[&str]) -> Option<wire::FileSet> {
    let patterns = patterns.iter().map(|it| (*it).to_owned()).collect();
    Some(wire::FileSet { repository: "r".to_owned(), patterns, is_case_folded: false })
}
