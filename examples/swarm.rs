//! A lead, three workers and an acceptor bring an issue to its end, though one worker dies.
//!
//! The lead breaks the issue down into six tasks and reviews what comes of them; a worker waits for
//! a task that it may have, does it, and waits for the verdict; the acceptor looks at what is
//! delivered. The third worker claims a task and is never heard of again: its lease lapses, and
//! another one does the task. All of them speak gRPC to a real broker and follow a script; nobody
//! asks again and again, everybody is woken. Run it, after `cargo build --workspace`:
//! `cargo run -p tasuki-examples --example swarm`.

use anstream::println;
use tasuki_examples::{Error, Result, process::Process};
use tasuki_proto::wire::{
    self, Difficulty, swarm_answer::Standing, swarm_client::SwarmClient, swarm_question::Ask,
};
use tokio::task::JoinSet;
use tonic::transport::Channel;

const LEAD: &str = "lead";
const ACCEPTOR: &str = "qa";

/// The last of them dies.
const WORKERS: [&str; 3] = ["w1", "w2", "w3"];

/// What is to be done, and which of the tasks before has to be done first.
const TASKS: [(&str, Option<u32>); 6] = [
    ("Write down what a duration looks like", None),
    ("Read seconds", None),
    ("Read minutes and hours", Some(1)),
    ("Refuse what is too large", None),
    ("Say what is wrong in words", None),
    ("Document it", Some(2)),
];

/// A worker that is not heard of for so long has lost its task.
const CLAIM_MS: u64 = 3000;

/// One wait is parked for so long; then the worker looks whether there is anything left at all.
const HOLD_MS: u64 = 1000;

/// The acceptance evidence every delivery names.
const STEPS: &str = "docs/issue-durations-test-steps.md";

#[tokio::main]
async fn main() -> Result<()> {
    let data = tempfile::tempdir()?;
    let broker = Process::broker(data.path()).await?;
    let join = async |role| Role::join(broker.url(), role).await;
    let mut lead = join(LEAD).await?;
    lead.shorten_claims().await?;
    let issue = lead.plan().await?;

    // The third worker comes first, so that there is something that it leaves behind.
    let mut dying = join(WORKERS[2]).await?;
    dying.register().await?;
    let left_behind = dying.next_task(&issue).await?.ok_or("all tasks are there")?;
    println!("{} claims {left_behind}, and dies", WORKERS[2]);
    drop(dying);

    let mut at_work = JoinSet::new();
    for role in &WORKERS[..2] {
        let (mut worker, issue) = (join(role).await?, issue.clone());
        at_work.spawn(async move { worker.work(&issue).await });
    }
    let mut acceptor = join(ACCEPTOR).await?;
    let accepted = tokio::spawn(async move { acceptor.accept().await });

    lead.review_all(&issue).await?;
    let mut done = 0;
    while let Some(worked) = at_work.join_next().await {
        done += worked??;
    }
    lead.deliver(&issue).await?;
    accepted.await??;
    lead.close(&issue).await?;

    let history = lead
        .swarm
        .get_history(wire::GetHistoryRequest { issue_id: issue.clone(), ..Default::default() });
    let history = history.await?.into_inner().entries;
    let lapsed = history.iter().filter(|it| it.r#type == "issue_task_expired").count();
    assert!(1 <= lapsed, "one worker died, with one task");
    let task = lead.swarm.get_task(wire::GetTaskRequest {
        issue_id: issue.clone(),
        task_id: left_behind.clone(),
        ..Default::default()
    });
    let task = task.await?.into_inner().task.unwrap_or_default();
    let heir = task.submission.unwrap_or_default().worker;
    assert_ne!(heir, WORKERS[2], "a dead worker submits nothing");
    assert_eq!(done, TASKS.len(), "every task is done once");
    println!("\n{done} tasks done once each; {heir} did {left_behind} of {}", WORKERS[2]);
    broker.stop().await
}

/// A role and its way to the broker.
struct Role {
    swarm: SwarmClient<Channel>,
    name: String,
    /// Of the key used last: every intent has its own.
    counter: u64,
}

impl Role {
    async fn join(broker: &str, name: &str) -> Result<Self> {
        let swarm = SwarmClient::connect(broker.to_owned()).await?;
        Ok(Self { swarm, name: name.to_owned(), counter: 0 })
    }

    fn key(&mut self) -> Option<wire::IdempotencyKey> {
        self.counter += 1;
        let client_id = format!("example-{}", self.name);
        Some(wire::IdempotencyKey { client_id, counter: self.counter })
    }

    /// Parks a question until there is something to tell, or the hold is over.
    async fn wait(&mut self, ask: Ask) -> Result<wire::SwarmAnswer> {
        let question = wire::SwarmQuestion {
            role: self.name.clone(),
            hold_ms: HOLD_MS,
            ask: Some(ask),
            ..Default::default()
        };
        Ok(self.swarm.await_swarm(question).await?.into_inner())
    }

    /// The same until there is something.
    async fn wait_for(&mut self, ask: Ask) -> Result<wire::SwarmAnswer> {
        loop {
            let answer = self.wait(ask.clone()).await?;
            if answer.standing() == Standing::There {
                return Ok(answer);
            }
        }
    }
}

/// What a lead does.
impl Role {
    /// An hour would be long to watch.
    async fn shorten_claims(&mut self) -> Result<()> {
        let settings = self.swarm.get_settings(wire::GetSettingsRequest::default()).await?;
        let settings = wire::SwarmSettings { task_claim_ms: CLAIM_MS, ..settings.into_inner() };
        let request = wire::SetSettingsRequest {
            key: self.key(),
            person: "operator".to_owned(),
            settings: Some(settings),
            ..Default::default()
        };
        self.swarm.set_settings(request).await?;
        Ok(())
    }

    async fn plan(&mut self) -> Result<String> {
        let request = wire::CreateIssueRequest {
            key: self.key(),
            role: self.name.clone(),
            subject: "Durations in configuration files".to_owned(),
            ..Default::default()
        };
        let issue = self.swarm.create_issue(request).await?.into_inner().issue;
        let issue = issue.unwrap_or_default().issue_id;
        let task = |(subject, after): (&str, Option<u32>)| wire::NewTask {
            subject: subject.to_owned(),
            difficulty: Difficulty::Easy.into(),
            points: 1,
            blocked_by_new: after.into_iter().collect(),
            ..Default::default()
        };
        let request = wire::CreateTasksRequest {
            key: self.key(),
            role: self.name.clone(),
            issue_id: issue.clone(),
            tasks: TASKS.map(task).to_vec(),
            ..Default::default()
        };
        let made = self.swarm.create_tasks(request).await?.into_inner().tasks;
        println!("{} opened {issue} with {} tasks", self.name, made.len());
        Ok(issue)
    }

    /// Deals with whatever there is to know of, until every task is done.
    async fn review_all(&mut self, issue: &str) -> Result<()> {
        let mut approved = 0;
        while approved < TASKS.len() {
            let answer = self.wait_for(Ask::ItemsOf(issue.to_owned())).await?;
            let Some(item) = answer.item else { continue };
            match (item.kind.as_str(), item.submission) {
                ("submission", Some(submission)) => {
                    self.approve(issue, &item.task_id, &submission).await?;
                    approved += 1;
                }
                ("task_lapsed", _) => {
                    println!("{} hears that {} is open again", self.name, item.task_id);
                }
                (kind, _) => return Err(format!("nobody does that here: {kind}").into()),
            }
            let request = wire::MarkItemsRequest {
                role: self.name.clone(),
                issue_id: issue.to_owned(),
                numbers: vec![item.number],
                ..Default::default()
            };
            self.swarm.mark_items(request).await?;
        }
        Ok(())
    }

    /// Approving takes the token of what the worker does next, which is kept for it.
    async fn approve(
        &mut self,
        issue: &str,
        task: &str,
        submission: &wire::Submission,
    ) -> Result<()> {
        let request = wire::MintNextStepRequest {
            key: self.key(),
            role: self.name.clone(),
            issue_id: issue.to_owned(),
            task_id: task.to_owned(),
            worker: submission.worker.clone(),
            completion_score: 5,
            ..Default::default()
        };
        let next = self.swarm.mint_next_step(request).await?.into_inner().next_step;
        let next = next.unwrap_or_default();
        let detail = wire::FeedbackDetail {
            dimension: "correctness".to_owned(),
            severity: "info".to_owned(),
            content: "It does what it should.".to_owned(),
            ..Default::default()
        };
        let review = wire::Review {
            is_approved: true,
            feedback: "Good.".to_owned(),
            reviewed_refs: vec![submission.submission_id.clone()],
            details: vec![detail],
            ..Default::default()
        };
        let request = wire::ReviewTaskRequest {
            key: self.key(),
            role: self.name.clone(),
            issue_id: issue.to_owned(),
            task_id: task.to_owned(),
            submission_id: submission.submission_id.clone(),
            completion_score: 5,
            next_step_token: next.token,
            review: Some(review),
            ..Default::default()
        };
        self.swarm.review_task(request).await?;
        let then = if next.task_id.is_empty() { "nothing yet" } else { &next.task_id };
        println!("{} approves {task}; next for {}: {then}", self.name, submission.worker);
        Ok(())
    }

    async fn deliver(&mut self, issue: &str) -> Result<()> {
        let request = wire::SubmitDeliveryRequest {
            key: self.key(),
            role: self.name.clone(),
            issue_id: issue.to_owned(),
            summary: "Durations are read.".to_owned(),
            artifacts: Some(wire::DeliveryArtifacts {
                has_passed: true,
                changed_files: vec!["src/duration.rs".to_owned(), STEPS.to_owned()],
                ..Default::default()
            }),
            test_evidence: Some(wire::TestEvidence {
                script_passed: true,
                doc_path: STEPS.to_owned(),
                doc_passed: true,
                ..Default::default()
            }),
            ..Default::default()
        };
        let delivery = self.swarm.submit_delivery(request).await?.into_inner().delivery;
        let delivery = delivery.unwrap_or_default().delivery_id;
        println!("{} delivers", self.name);
        let verdict = self.wait_for(Ask::Delivery(delivery)).await?.delivery.unwrap_or_default();
        println!("{} hears from {}: {}", self.name, verdict.reviewed_by, verdict.feedback);
        Ok(())
    }

    async fn close(&mut self, issue: &str) -> Result<()> {
        let request = wire::CloseIssueRequest {
            key: self.key(),
            role: self.name.clone(),
            issue_id: issue.to_owned(),
            ..Default::default()
        };
        let issue = self.swarm.close_issue(request).await?.into_inner().issue;
        assert!(!issue.unwrap_or_default().is_unaccepted, "its delivery was approved");
        Ok(())
    }
}

/// What a worker does.
impl Role {
    async fn register(&mut self) -> Result<()> {
        let request = wire::RegisterWorkerRequest {
            key: self.key(),
            role: self.name.clone(),
            ..Default::default()
        };
        self.swarm.register_worker(request).await?;
        Ok(())
    }

    /// Claims a task that this role may have; `None` once every task is done.
    async fn next_task(&mut self, issue: &str) -> Result<Option<String>> {
        loop {
            let offered = self.wait(Ask::TasksOf(issue.to_owned())).await?.tasks;
            for task in offered {
                let request = wire::ClaimTaskRequest {
                    key: self.key(),
                    role: self.name.clone(),
                    issue_id: issue.to_owned(),
                    task_id: task.task_id.clone(),
                    next_step_token: task.reserved_token,
                    ..Default::default()
                };
                // Refused: another one was quicker.
                if self.swarm.claim_task(request).await.is_ok() {
                    return Ok(Some(task.task_id));
                }
            }
            let request =
                wire::GetIssueRequest { issue_id: issue.to_owned(), ..Default::default() };
            let known = self.swarm.get_issue(request).await?.into_inner().issue;
            let tasks = known.unwrap_or_default().tasks.unwrap_or_default();
            if tasks.done == TASKS.len() as u64 {
                return Ok(None);
            }
        }
    }

    /// Does tasks until none is left, and says how many.
    async fn work(&mut self, issue: &str) -> Result<usize> {
        self.register().await?;
        let mut done = 0;
        while let Some(task) = self.next_task(issue).await? {
            let words = wire::SubmissionWords {
                summary: format!("{} did {task}.", self.name),
                changed_files: vec!["src/duration.rs".to_owned()],
                test_result: "passed".to_owned(),
                ..Default::default()
            };
            let request = wire::SubmitTaskRequest {
                key: self.key(),
                role: self.name.clone(),
                issue_id: issue.to_owned(),
                task_id: task.clone(),
                words: Some(words),
                ..Default::default()
            };
            let Ok(submitted) = self.swarm.submit_task(request).await else {
                // Whoever is this slow has lost the claim, like one that died.
                println!("{} was too late with {task}", self.name);
                continue;
            };
            println!("{} submits {task}", self.name);
            let submission = submitted.into_inner().submission_id;
            let verdict = self.wait_for(Ask::Submission(submission)).await?.submission;
            let review = verdict.and_then(|it| it.review).ok_or("a verdict says why")?;
            assert!(review.is_approved, "{}", review.feedback);
            done += 1;
        }
        Ok(done)
    }
}

/// What an acceptor does.
impl Role {
    async fn accept(&mut self) -> Result<(), Error> {
        let delivered = self.wait_for(Ask::Deliveries(true)).await?.deliveries;
        let delivery = delivered.into_iter().next().ok_or("there is one")?.delivery_id;
        let request = wire::ClaimDeliveryRequest {
            key: self.key(),
            role: self.name.clone(),
            delivery_id: delivery.clone(),
            ..Default::default()
        };
        self.swarm.claim_delivery(request).await?;
        let request = wire::ReviewDeliveryRequest {
            key: self.key(),
            role: self.name.clone(),
            delivery_id: delivery,
            is_approved: true,
            feedback: "It works here as well.".to_owned(),
            verification: Some(wire::Verification {
                script_passed: true,
                doc_passed: true,
                ..Default::default()
            }),
            ..Default::default()
        };
        self.swarm.review_delivery(request).await?;
        println!("{} accepts", self.name);
        Ok(())
    }
}
