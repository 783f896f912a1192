//! Who is woken by what happens to issues and their tasks.

use std::sync::atomic::Ordering;

use tasuki_proto::{
    id::FencingToken,
    swarm::{IssueId, SubmissionId, TaskNumber},
};

use super::*;
use crate::rules::{
    Reply,
    swarm::{
        Answer as SwarmAnswer, CommandKind, CreateIssue, CreateTasks, Difficulty, NewTask,
        Question as What, Reply as Said, ReviewTask, Score, SubmissionState, SubmitTask,
        TasksAnswer, Verdict, words,
    },
    turn::Actor,
};

const TASK: TaskNumber = TaskNumber(1);

impl Fixture {
    async fn ask(&self, role: &str, ask: CommandKind) -> Reply {
        let by = Actor::Role(role.parse().unwrap());
        let command = Command::Swarm(crate::rules::swarm::Command { by, ask });
        let request = Request { caller: Caller::default(), key: None, command };
        self.execute(request).await.reply
    }

    async fn wait(&self, role: &str, what: What, hold_ms: u64) -> Waiting {
        let question = Question::Swarm { what, role: role.parse().unwrap() };
        self.park_question(question, Caller::default(), hold_ms).await
    }

    async fn opened(&self) -> IssueId {
        let issue = CreateIssue {
            subject: "s".to_owned(),
            description: String::new(),
            paths: words::DocPaths::default(),
            docs: Vec::new(),
        };
        let reply = self.ask("L", CommandKind::CreateIssue(issue)).await;
        let Reply::Swarm(Said::Issue(issue)) = reply else { panic!("{reply:?}") };
        issue
    }

    async fn plan(&self, issue: IssueId, count: usize) {
        let task = NewTask {
            subject: "t".to_owned(),
            difficulty: Difficulty::Easy,
            points: 1,
            blocked_by: Vec::new(),
            words: words::TaskWords::default(),
        };
        let tasks = vec![task; count];
        self.ask("L", CommandKind::CreateTasks(CreateTasks { issue, tasks })).await;
    }

    /// The next message behind which the actor looks at the time.
    async fn pass(&self, ms: u64) {
        self.clock.fetch_add(ms, Ordering::SeqCst);
        self.tell(Msg::Tick);
        self.wake().await;
    }

    async fn submit(&self, issue: IssueId, summary: &str) -> SubmissionId {
        let words = words::Artifacts { summary: summary.to_owned(), ..Default::default() };
        let token = FencingToken::NONE;
        let submitted = SubmitTask { issue, task: TASK, token, words, files: Vec::new() };
        let reply = self.ask("w1", CommandKind::SubmitTask(submitted)).await;
        let Reply::Swarm(Said::Submitted(submission)) = reply else { panic!("{reply:?}") };
        submission
    }
}

async fn told(waiting: Waiting) -> SwarmAnswer {
    let answer = waiting.await.unwrap().unwrap().answer;
    let Answer::Swarm(told) = answer else { panic!("{answer:?}") };
    told
}

fn offered(told: &SwarmAnswer) -> Option<u32> {
    let SwarmAnswer::Tasks(TasksAnswer { task, .. }) = told else { panic!("{told:?}") };
    task.map(|it| it.0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_task_wakes_one_worker_and_then_the_next() {
    let it = Fixture::start().await;
    let issue = it.opened().await;
    let hold = 600_000;
    let mut first = it.wait("w2", What::Tasks(issue), hold).await;
    let mut second = it.wait("w1", What::Tasks(issue), hold).await;
    let mut third = it.wait("w3", What::Tasks(issue), hold).await;
    it.plan(issue, 1).await;
    assert_eq!(offered(&told(first).await), Some(1), "who waits the longest");
    it.wake().await;
    assert!(second.try_recv().is_err() && third.try_recv().is_err(), "nobody else");
    // It is told the same again; others wait meanwhile.
    first = it.wait("w2", What::Tasks(issue), hold).await;
    assert_eq!(offered(&told(first).await), Some(1));
    let other = it.wait("w4", What::Tasks(issue), 0).await;
    assert_eq!(offered(&told(other).await), None);
    it.pass(29_999).await;
    assert!(second.try_recv().is_err());
    it.pass(1).await;
    assert_eq!(offered(&told(second).await), Some(1), "the first let it lie");
    // Claims of others stay allowed, and end the offer.
    it.ask("w3", CommandKind::RegisterWorker).await;
    it.ask("w3", CommandKind::ClaimTask { issue, task: TASK, next_step: None }).await;
    it.pass(30_000).await;
    assert!(third.try_recv().is_err(), "nothing is free");
    it.plan(issue, 2).await;
    assert_eq!(offered(&told(third).await), Some(2));
    let last = it.wait("w4", What::Tasks(issue), 0).await;
    assert_eq!(offered(&told(last).await), Some(3));
    second = it.wait("w1", What::Tasks(issue), 600_000).await;
    let reason = "no more".to_owned();
    for task in [1, 2, 3].map(TaskNumber) {
        it.ask("L", CommandKind::ResetTask { issue, task, reason: reason.clone() }).await;
    }
    assert_eq!(offered(&told(second).await), Some(1), "what was given back is offered, too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_for_a_review_is_told_however_it_ends() {
    let it = Fixture::start().await;
    let issue = it.opened().await;
    it.plan(issue, 1).await;
    it.ask("w1", CommandKind::RegisterWorker).await;
    it.ask("w1", CommandKind::ClaimTask { issue, task: TASK, next_step: None }).await;
    let lead = it.wait("L", What::Events(issue), 600_000).await;
    let first = it.submit(issue, "one").await;
    let shown = told(lead).await;
    let SwarmAnswer::Events(shown) = shown else { panic!("{shown:?}") };
    let (number, _) = shown.item.expect("it is shown");
    let waiting = it.wait("w1", What::Review(first), 600_000).await;
    let second = it.submit(issue, "two").await;
    let superseded = SwarmAnswer::Review { submission: first, state: SubmissionState::Superseded };
    assert_eq!(told(waiting).await, superseded);
    let waiting = it.wait("w1", What::Review(second), 600_000).await;
    let reason = "start over".to_owned();
    it.ask("L", CommandKind::ResetTask { issue, task: TASK, reason }).await;
    let reset = SwarmAnswer::Review { submission: second, state: SubmissionState::Reset };
    assert_eq!(told(waiting).await, reset);
    assert!(0 < number);
}

/// Holds S3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_handed_and_not_dealt_with_is_shown_again_after_a_while() {
    let it = Fixture::start().await;
    let issue = it.opened().await;
    it.plan(issue, 1).await;
    it.ask("w1", CommandKind::RegisterWorker).await;
    it.ask("w1", CommandKind::ClaimTask { issue, task: TASK, next_step: None }).await;
    it.submit(issue, "one").await;
    let SwarmAnswer::Events(shown) = told(it.wait("L", What::Events(issue), 0).await).await else {
        panic!("not about events")
    };
    let (number, _) = shown.item.expect("it is shown");
    it.ask("L", CommandKind::MarkItems { issue, items: vec![number] }).await;
    let mut lead = it.wait("L", What::Events(issue), 600_000).await;
    it.pass(299_999).await;
    assert!(lead.try_recv().is_err());
    it.pass(1).await;
    let SwarmAnswer::Events(again) = told(lead).await else { panic!("not about events") };
    assert_eq!(again.item.expect("it is shown").0, number);
}

/// Who began anew knows nothing of its task, and waits for another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_for_a_task_is_told_of_its_own_that_comes_back() {
    let it = Fixture::start().await;
    let issue = it.opened().await;
    it.plan(issue, 1).await;
    it.ask("w1", CommandKind::RegisterWorker).await;
    it.ask("w1", CommandKind::ClaimTask { issue, task: TASK, next_step: None }).await;
    let reject = |submission| {
        CommandKind::ReviewTask(ReviewTask {
            issue,
            task: TASK,
            submission: Some(submission),
            verdict: Verdict::Rejected,
            score: Score::new(1).unwrap(),
            next_step: None,
            words: words::ReviewWords {
                reviewed_refs: vec!["a".to_owned()],
                details: vec![words::FeedbackDetail {
                    dimension: words::Dimension::Correctness,
                    severity: words::Severity::Minor,
                    file_path: String::new(),
                    line_range: String::new(),
                    content: "c".to_owned(),
                    suggestion: String::new(),
                }],
                ..words::ReviewWords::default()
            },
        })
    };
    // While it waits, and just before.
    let waiting = it.submit(issue, "one").await;
    let mut tasks = it.wait("w1", What::Tasks(issue), 600_000).await;
    assert!(tasks.try_recv().is_err());
    it.ask("L", reject(waiting)).await;
    assert_eq!(offered(&told(tasks).await), Some(1));
    let waiting = it.submit(issue, "two").await;
    it.ask("L", reject(waiting)).await;
    tasks = it.wait("w1", What::Tasks(issue), 600_000).await;
    assert_eq!(offered(&told(tasks).await), Some(1));
    // It is told once, and not of what it does already.
    tasks = it.wait("w1", What::Tasks(issue), 600_000).await;
    assert!(tasks.try_recv().is_err());
    let waiting = it.submit(issue, "three").await;
    let review = it.wait("w1", What::Review(waiting), 600_000).await;
    it.ask("L", reject(waiting)).await;
    assert!(matches!(told(review).await, SwarmAnswer::Review { .. }));
    assert!(tasks.try_recv().is_err());
    let waiting = it.submit(issue, "four").await;
    it.ask("L", reject(waiting)).await;
    assert_eq!(offered(&told(tasks).await), Some(1));
    it.submit(issue, "five").await;
    tasks = it.wait("w1", What::Tasks(issue), 600_000).await;
    assert!(tasks.try_recv().is_err());
}
