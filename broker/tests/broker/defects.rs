//! What the original of issues and tasks got wrong, each held by a test: here what shows at the
//! calls, elsewhere what is decided by the rules alone.
//!
//! | | in the original | held by |
//! |---|---|---|
//! | 1 | choosing a next step again adds the points again | `rules: minting_again_gives_the_same_and_adds_nothing` |
//! | 2 | a next step leads to a task that is kept for another | `rules: two_that_end_together_are_led_to_different_tasks` |
//! | 3 | points for what was rejected, and again for what is submitted again | [`points_are_earned_once_and_by_approval`], model I4 |
//! | 4 | a next step is anybody's | `rules: minting_again_gives_the_same_and_adds_nothing`, model I5 |
//! | 5 | a restart between next step and review loses the step | `edges: every_step_survives_a_broker_that_is_killed_behind_it` |
//! | 6 | a lock that fails takes the caller's earlier one with it | `rules: locks_are_all_or_none_and_ones_own_stay`, model I2 |
//! | 7 | a lock that was taken over is renewed; ends of locks free others' files | `rules: whoever_lost_a_lock_is_told_so`, model I2 |
//! | 8 | notes are events without a type, absent ids are `<nil>` | [`a_note_is_told_with_its_kind_and_its_words`] |
//! | 9 | a reply goes to the oldest message, and the asker gets no answer | [`a_reply_goes_to_the_question_and_not_to_an_older_note`] |
//! | 10 | a reset leaves callers waiting and takes events out of the log | `edges: what_ends_otherwise_is_told_to_whoever_waits_for_it`, model I6 and I7 |
//! | 11 | waiting for deliveries claims them, for everybody alike | [`waiting_for_a_delivery_claims_nothing`] |
//! | 12 | what failed is approved, nothing is delivered, nothing approved is closed | `rules: a_delivery_is_accepted_on_evidence`, `what_was_canceled_whole_is_nothing_to_deliver` |
//! | 13 | renewing a claim takes a worker that its schema does not name | `edges: a_worker_does_a_task_and_is_given_the_next`: the call names its role |
//! | 14 | names of documents lead anywhere | [`a_name_of_a_document_leads_nowhere`] |
//! | 15 | locks of two repositories are one | `rules: locks_are_all_or_none_and_ones_own_stay` |
//! | 16 | no wait is shorter than an hour | [`a_wait_is_as_long_as_is_asked`] |
//! | 17 | waits look into directories five times a second, under one lock | `workspace: one_task_wakes_one_worker_and_then_the_next`: told by what happens |
//! | 18 | an issue that is worked on is canceled after two hours | `rules: an_issue_lapses_only_when_nobody_has_anything_of_it` |

use tasuki_broker::server::Broker;
use tasuki_proto::wire::{
    self, DeliveryStatus, TaskStatus, swarm_answer::Standing, swarm_client::SwarmClient,
    swarm_question::Ask,
};
use tonic::{Status, transport::Channel};

use crate::support::{reason, start};

/// An issue with tasks of three points, and a worker.
struct Office {
    broker: Broker,
    swarm: SwarmClient<Channel>,
    issue: String,
    counter: u64,
    _data: tempfile::TempDir,
}

impl Office {
    async fn open(tasks: usize) -> Self {
        let data = tempfile::tempdir().unwrap();
        let broker = start(data.path()).await;
        let channel = Channel::from_shared(format!("http://{}", broker.address())).unwrap();
        let swarm = SwarmClient::new(channel.connect().await.unwrap());
        let issue = String::new();
        let mut it = Self { broker, swarm, issue, counter: 0, _data: data };
        let create = wire::CreateIssueRequest {
            key: it.key(),
            role: "lead".to_owned(),
            subject: "s".to_owned(),
            ..Default::default()
        };
        let created = it.swarm.create_issue(create).await.unwrap().into_inner();
        it.issue = created.issue.unwrap().issue_id;
        let task = wire::NewTask {
            subject: "t".to_owned(),
            difficulty: wire::Difficulty::Easy.into(),
            points: 3,
            ..Default::default()
        };
        let plan = wire::CreateTasksRequest {
            key: it.key(),
            role: "lead".to_owned(),
            issue_id: it.issue.clone(),
            tasks: vec![task; tasks],
            ..Default::default()
        };
        if tasks != 0 {
            it.swarm.create_tasks(plan).await.unwrap();
        }
        let register =
            wire::RegisterWorkerRequest { key: it.key(), role: "worker".to_owned(), caller: None };
        it.swarm.register_worker(register).await.unwrap();
        it
    }

    fn key(&mut self) -> Option<wire::IdempotencyKey> {
        self.counter += 1;
        Some(wire::IdempotencyKey { client_id: "office".to_owned(), counter: self.counter })
    }

    async fn claim(&mut self) {
        let claim = wire::ClaimTaskRequest {
            key: self.key(),
            role: "worker".to_owned(),
            issue_id: self.issue.clone(),
            task_id: "task-1".to_owned(),
            ..Default::default()
        };
        self.swarm.claim_task(claim).await.unwrap();
    }

    async fn submit(&mut self, summary: &str) {
        let words = wire::SubmissionWords { summary: summary.to_owned(), ..Default::default() };
        let submit = wire::SubmitTaskRequest {
            key: self.key(),
            role: "worker".to_owned(),
            issue_id: self.issue.clone(),
            task_id: "task-1".to_owned(),
            words: Some(words),
            ..Default::default()
        };
        self.swarm.submit_task(submit).await.unwrap();
    }

    async fn mint(&mut self, score: u32) -> wire::NextStep {
        let mint = wire::MintNextStepRequest {
            key: self.key(),
            role: "lead".to_owned(),
            issue_id: self.issue.clone(),
            task_id: "task-1".to_owned(),
            worker: "worker".to_owned(),
            completion_score: score,
            ..Default::default()
        };
        self.swarm.mint_next_step(mint).await.unwrap().into_inner().next_step.unwrap()
    }

    async fn review(&mut self, token: &str, is_approved: bool) {
        let detail = wire::FeedbackDetail {
            dimension: "style".to_owned(),
            severity: "info".to_owned(),
            content: "c".to_owned(),
            ..Default::default()
        };
        let review = wire::Review {
            is_approved,
            reviewed_refs: vec!["r".to_owned()],
            details: vec![detail],
            ..Default::default()
        };
        let review = wire::ReviewTaskRequest {
            key: self.key(),
            role: "lead".to_owned(),
            issue_id: self.issue.clone(),
            task_id: "task-1".to_owned(),
            completion_score: 5,
            next_step_token: token.to_owned(),
            review: Some(review),
            ..Default::default()
        };
        self.swarm.review_task(review).await.unwrap();
    }

    async fn points(&mut self) -> u64 {
        let list = wire::ListWorkersRequest { worker: "worker".to_owned(), ..Default::default() };
        let workers = self.swarm.list_workers(list).await.unwrap().into_inner().workers;
        workers[0].points.iter().map(|it| it.total_points).sum()
    }

    async fn post(&mut self, kind: &str, content: &str) -> String {
        let post = wire::PostMessageRequest {
            key: self.key(),
            role: "worker".to_owned(),
            issue_id: self.issue.clone(),
            task_id: "task-1".to_owned(),
            kind: kind.to_owned(),
            content: content.to_owned(),
            ..Default::default()
        };
        let posted = self.swarm.post_message(post).await.unwrap().into_inner();
        posted.message.unwrap().message_id
    }

    async fn ask(&mut self, role: &str, hold_ms: u64, ask: Ask) -> wire::SwarmAnswer {
        let (role, ask) = (role.to_owned(), Some(ask));
        let question = wire::SwarmQuestion { role, hold_ms, ask, ..Default::default() };
        self.swarm.await_swarm(question).await.unwrap().into_inner()
    }

    async fn status(&mut self) -> TaskStatus {
        let get = wire::GetTaskRequest {
            issue_id: self.issue.clone(),
            task_id: "task-1".to_owned(),
            ..Default::default()
        };
        self.swarm.get_task(get).await.unwrap().into_inner().task.unwrap().status()
    }

    async fn history(&mut self) -> Vec<wire::HistoryEntry> {
        let get = wire::GetHistoryRequest { issue_id: self.issue.clone(), ..Default::default() };
        self.swarm.get_history(get).await.unwrap().into_inner().entries
    }
}

/// 3.
#[tokio::test]
async fn points_are_earned_once_and_by_approval() {
    let mut it = Office::open(2).await;
    it.claim().await;
    for summary in ["one", "two", "three"] {
        it.submit(summary).await;
        assert_eq!(it.mint(5).await.worker_total_points, 3, "as they will be");
        it.review("", false).await;
        assert_eq!(it.points().await, 0, "nothing for what was rejected");
    }
    it.submit("four").await;
    let next = it.mint(5).await;
    assert_eq!(it.mint(5).await.token, next.token);
    it.review(&next.token, true).await;
    it.review(&next.token, true).await;
    assert_eq!(it.points().await, 3);
    it.broker.stop().await.unwrap();
}

/// 8.
#[tokio::test]
async fn a_note_is_told_with_its_kind_and_its_words() {
    let mut it = Office::open(1).await;
    it.claim().await;
    for kind in ["progress", "feedback", "message"] {
        it.post(kind, &format!("a {kind}")).await;
        let shown = it.ask("lead", 0, Ask::ItemsOf(it.issue.clone())).await.item.unwrap();
        assert_eq!((shown.kind.as_str(), shown.task_id.as_str()), ("note", "task-1"));
        let message = shown.message.unwrap();
        assert_eq!((message.kind.as_str(), message.content), (kind, format!("a {kind}")));
        let mark = wire::MarkItemsRequest {
            role: "lead".to_owned(),
            issue_id: it.issue.clone(),
            numbers: vec![shown.number],
            ..Default::default()
        };
        it.swarm.mark_items(mark).await.unwrap();
    }
    let history = it.history().await;
    assert_eq!(
        history.iter().map(|it| (it.r#type.as_str(), it.kind.as_str())).collect::<Vec<_>>(),
        [
            ("issue_created", ""),
            ("issue_task_created", ""),
            ("issue_task_claimed", ""),
            ("issue_task_message", "progress"),
            ("issue_task_message", "feedback"),
            ("issue_task_message", "message"),
        ]
    );
    assert!(!format!("{history:?}").contains("nil"), "{history:?}");
    it.broker.stop().await.unwrap();
}

/// 9.
#[tokio::test]
async fn a_reply_goes_to_the_question_and_not_to_an_older_note() {
    let mut it = Office::open(1).await;
    it.claim().await;
    it.post("progress", "going").await;
    let question = it.post("question", "which way?").await;
    it.post("message", "meanwhile").await;
    assert_eq!(it.status().await, TaskStatus::WaitingForAnswer);
    let reply = wire::ReplyMessageRequest {
        key: it.key(),
        role: "lead".to_owned(),
        issue_id: it.issue.clone(),
        task_id: "task-1".to_owned(),
        content: "left".to_owned(),
        ..Default::default()
    };
    let replied = it.swarm.reply_message(reply).await.unwrap().into_inner();
    assert_eq!(replied.message.unwrap().message_id, question);
    assert_eq!(it.status().await, TaskStatus::InProgress);
    let told = it.ask("worker", 0, Ask::Message(question)).await;
    assert_eq!(told.standing(), Standing::There);
    assert_eq!(told.message.unwrap().reply, "left");
    it.broker.stop().await.unwrap();
}

/// 11.
/// Holds S3 and A6.
#[tokio::test]
async fn waiting_for_a_delivery_claims_nothing() {
    let mut it = Office::open(1).await;
    it.claim().await;
    it.submit("done").await;
    let next = it.mint(5).await;
    it.review(&next.token, true).await;
    let artifacts = wire::DeliveryArtifacts { has_passed: true, ..Default::default() };
    let deliver = wire::SubmitDeliveryRequest {
        key: it.key(),
        role: "lead".to_owned(),
        issue_id: it.issue.clone(),
        summary: "s".to_owned(),
        artifacts: Some(artifacts),
        ..Default::default()
    };
    let delivered = it.swarm.submit_delivery(deliver).await.unwrap().into_inner();
    let id = delivered.delivery.unwrap().delivery_id;
    for acceptor in ["a1", "a2"] {
        let shown = it.ask(acceptor, 0, Ask::Deliveries(true)).await.deliveries;
        assert_eq!(shown.len(), 1, "{acceptor} is shown it");
        assert_eq!((shown[0].status(), shown[0].claimed_by.as_str()), (DeliveryStatus::Open, ""));
    }
    for (acceptor, expected) in
        [("lead", "own_work"), ("a1", "ok"), ("a1", "ok"), ("a2", "delivery_already_claimed")]
    {
        let claim = wire::ClaimDeliveryRequest {
            key: it.key(),
            role: acceptor.to_owned(),
            delivery_id: id.clone(),
            ..Default::default()
        };
        let claimed: Result<_, Status> = it.swarm.claim_delivery(claim).await;
        let said = claimed.as_ref().map_or_else(reason, |_| "ok");
        assert_eq!(said, expected, "{acceptor}");
    }
    assert_eq!(it.ask("a1", 0, Ask::Deliveries(true)).await.deliveries.len(), 1, "its own");
    assert!(it.ask("a2", 0, Ask::Deliveries(true)).await.deliveries.is_empty());
    let judge = wire::ReviewDeliveryRequest {
        key: it.key(),
        role: "a2".to_owned(),
        delivery_id: id,
        is_approved: true,
        verification: Some(wire::Verification {
            script_passed: true,
            doc_passed: true,
            ..Default::default()
        }),
        ..Default::default()
    };
    let refused = it.swarm.review_delivery(judge).await.unwrap_err();
    assert_eq!(reason(&refused), "not_claimant");
    it.broker.stop().await.unwrap();
}

/// 14.
#[tokio::test]
async fn a_name_of_a_document_leads_nowhere() {
    let mut it = Office::open(1).await;
    let places = [("", ""), (it.issue.as_str(), ""), (it.issue.as_str(), "task-1")];
    let places = places.map(|(issue_id, task_id)| wire::DocPlace {
        issue_id: issue_id.to_owned(),
        task_id: task_id.to_owned(),
    });
    for place in places {
        for name in ["../../evil", "..", "/etc/passwd", "a/b", "a\\b", "", ".hidden", "a\0b"] {
            let write = wire::WriteDocRequest {
                key: it.key(),
                role: "lead".to_owned(),
                place: Some(place.clone()),
                name: name.to_owned(),
                content: "c".to_owned(),
                ..Default::default()
            };
            let refused = it.swarm.write_doc(write).await.unwrap_err();
            assert_eq!(reason(&refused), "invalid_argument", "{name:?}");
            let read = wire::ReadDocRequest {
                place: Some(place.clone()),
                name: name.to_owned(),
                ..Default::default()
            };
            let refused = it.swarm.read_doc(read).await.unwrap_err();
            assert_eq!(reason(&refused), "invalid_argument", "{name:?}");
        }
        let list = wire::ListDocsRequest { place: Some(place), ..Default::default() };
        assert!(it.swarm.list_docs(list).await.unwrap().into_inner().docs.is_empty());
    }
    it.broker.stop().await.unwrap();
}

/// 16.
#[tokio::test]
async fn a_wait_is_as_long_as_is_asked() {
    let mut it = Office::open(0).await;
    for hold_ms in [0, 1, 50] {
        let told = it.ask("worker", hold_ms, Ask::TasksOf(it.issue.clone())).await;
        assert_eq!(told.standing(), Standing::StillWaiting);
        let told = it.ask("a1", hold_ms, Ask::Deliveries(true)).await;
        assert_eq!(told.standing(), Standing::StillWaiting);
    }
    // And it goes on as long as there is nothing to tell: a closed issue is something.
    let (mut other, issue) = (it.swarm.clone(), it.issue.clone());
    let question = wire::SwarmQuestion {
        role: "worker".to_owned(),
        hold_ms: 60_000,
        ask: Some(Ask::TasksOf(issue)),
        ..Default::default()
    };
    let waiting = tokio::spawn(async move { other.await_swarm(question).await });
    let close = wire::CloseIssueRequest {
        key: it.key(),
        role: "lead".to_owned(),
        issue_id: it.issue.clone(),
        summary: "nothing to do".to_owned(),
        ..Default::default()
    };
    it.swarm.close_issue(close).await.unwrap();
    let told = waiting.await.unwrap().unwrap().into_inner();
    assert_eq!(
        (told.standing(), told.ended_because.as_str()),
        (Standing::There, "the issue was closed")
    );
    it.broker.stop().await.unwrap();
}
