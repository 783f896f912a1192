//! What the broker says, asked for by a client that has seen nothing before, and whether it fits.

use std::collections::{BTreeMap, BTreeSet};

use tasuki_proto::wire::{
    self, SubmissionStatus, TaskStatus, swarm_client::SwarmClient, swarm_question,
};
use tonic::{Code, Status, transport::Channel};

use super::{CLAIM_MS, Game, LOCK_MS, history::Task};

/// How much later than its length a lease may end: what one grace and one late sign add.
const LEASES_MAX: u64 = 2;

/// Of each list.
const PAGE: u32 = 200;

pub(super) struct Broker {
    swarm: SwarmClient<Channel>,
    /// Whom each task was given to last, as far as that was seen, under which token.
    tokens: BTreeMap<Task, (String, u64)>,
    /// Writes under older ones that were tried.
    pub(super) stale: u64,
}

/// What an issue's history says of one task.
#[derive(Debug, Default)]
struct Fate {
    claimant: Option<String>,
    /// By their ids, whose.
    submissions: BTreeMap<String, String>,
    approved: Vec<String>,
    claims: BTreeSet<String>,
    entries: Vec<String>,
}

impl Broker {
    pub(super) fn new(address: std::net::SocketAddr) -> Self {
        let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect_lazy();
        let swarm = SwarmClient::new(channel).max_decoding_message_size(8 * 1024 * 1024);
        Self { swarm, tokens: BTreeMap::new(), stale: 0 }
    }

    fn swarm(&self) -> SwarmClient<Channel> {
        self.swarm.clone()
    }

    /// At any moment: a task has one claimant, a file one holder, and no lease lasts for ever.
    pub(super) async fn look(&mut self) {
        let workers = self.swarm().list_workers(wire::ListWorkersRequest::default()).await;
        let Some(workers) = up(workers) else { return };
        let mut claimed = BTreeMap::new();
        for worker in &workers.workers {
            for it in &worker.claims {
                let task = (&it.issue_id, &it.task_id);
                if let Some(other) = claimed.insert(task, &worker.worker) {
                    panic!("{task:?} is {other}'s and {}'s", worker.worker);
                }
                let lapses = it.lease_expires_ms;
                assert!(lapses <= workers.now_ms + LEASES_MAX * CLAIM_MS, "{it:?}");
            }
        }
        let Some(locks) = up(self.locks().await) else { return };
        let mut held: BTreeMap<(String, String), &str> = BTreeMap::new();
        for it in &locks.locks {
            assert!(it.expires_ms <= locks.now_ms + LEASES_MAX * LOCK_MS, "{it:?}");
            let files = it.files.clone().unwrap();
            for file in files.patterns {
                let other = held.insert((files.repository.clone(), file.clone()), &it.holder);
                assert!(other.is_none_or(|other| other == it.holder), "{file}: {:?}", locks.locks);
            }
        }
    }

    /// Tokens of a task only grow, and nothing is written under an older one.
    pub(super) async fn look_at(&mut self, worker: &str) {
        let request = wire::ListWorkersRequest {
            role: worker.to_owned(),
            worker: worker.to_owned(),
            ..Default::default()
        };
        let Some(found) = up(self.swarm().list_workers(request).await) else { return };
        let claims = found.workers.into_iter().flat_map(|it| it.claims);
        for it in claims {
            let task = (it.issue_id, it.task_id);
            let newest = (worker.to_owned(), it.claim_token);
            let Some((before, token)) = self.tokens.insert(task.clone(), newest) else { continue };
            assert!(token <= it.claim_token, "{task:?}: {token}, then {}", it.claim_token);
            if token == it.claim_token {
                assert_eq!(before, worker, "{task:?} is two's under one token");
                continue;
            }
            self.stale += 1;
            let key = wire::IdempotencyKey { client_id: "grave".to_owned(), counter: self.stale };
            let request = wire::RenewClaimRequest {
                key: Some(key),
                role: before.clone(),
                issue_id: task.0.clone(),
                task_id: task.1.clone(),
                claim_token: token,
                ..Default::default()
            };
            match self.swarm().renew_claim(request).await {
                Ok(it) => panic!("{before} goes on with {task:?} under {token}: {it:?}"),
                // No longer its own, lapsed, or claimed again by itself; or nobody is there to say.
                Err(why) => assert!(
                    matches!(why.code(), Code::PermissionDenied | Code::Aborted) || is_away(&why),
                    "{why}"
                ),
            }
        }
    }

    async fn locks(&self) -> Result<tonic::Response<wire::ListLocksResponse>, Status> {
        let request = wire::ListLocksRequest { limit: PAGE, ..Default::default() };
        self.swarm().list_locks(request).await
    }

    /// Until nobody has locked anything.
    pub(super) async fn until_unlocked(&self) {
        while self.locks().await.unwrap().into_inner().total != 0 {
            tokio::task::yield_now().await;
        }
    }

    async fn tasks(&self, issue: &str) -> Result<Vec<wire::Task>, Status> {
        let mut tasks = Vec::new();
        loop {
            let request = wire::ListTasksRequest {
                issue_id: issue.to_owned(),
                ascending: true,
                limit: PAGE,
                offset: u32::try_from(tasks.len()).unwrap(),
                ..Default::default()
            };
            let page = self.swarm().list_tasks(request).await?.into_inner();
            tasks.extend(page.tasks);
            if page.total <= tasks.len() as u64 {
                return Ok(tasks);
            }
        }
    }

    async fn history(&self, issue: &str) -> Result<Vec<wire::HistoryEntry>, Status> {
        let mut entries: Vec<wire::HistoryEntry> = Vec::new();
        loop {
            let after = entries.len() as u64;
            let issue_id = issue.to_owned();
            let request = wire::GetHistoryRequest { issue_id, after, ..Default::default() };
            let page = self.swarm().get_history(request).await?.into_inner();
            entries.extend(page.entries);
            if page.total <= entries.len() as u64 {
                return Ok(entries);
            }
        }
    }

    /// What is not done, and who did anything about it.
    pub(super) async fn stuck(&self, game: &Game) -> String {
        let issues = game.history.borrow().issues.clone();
        let mut out = format!("{}\n", game.history.borrow().summary());
        for issue in issues {
            let tasks = self.tasks(&issue).await.unwrap_or_default();
            let undone: Vec<_> =
                tasks.into_iter().filter(|it| it.status() != TaskStatus::Done).collect();
            out += &format!("{issue}: {} tasks are not done\n", undone.len());
            let history = self.history(&issue).await.unwrap_or_default();
            for it in undone.iter().take(3) {
                let own = history.iter().filter(|entry| entry.task_id == it.task_id);
                let own: Vec<_> = own.map(line).collect();
                let task = (issue.clone(), it.task_id.clone());
                let roles = game.history.borrow().about(&task);
                out += &format!("{it:?}\n{}\n{roles}", own.join("\n"));
            }
        }
        out + &game.history.borrow().of_roles(&["lead", "acceptor"])
    }

    /// In the end: everything that anybody was told is so.
    pub(super) async fn check(&self, game: &Game) {
        let issues = game.history.borrow().issues.clone();
        let mut fates: BTreeMap<Task, Fate> = BTreeMap::new();
        let mut points: BTreeMap<(String, String), u64> = BTreeMap::new();
        let mut said: BTreeMap<String, (Task, String, String)> = BTreeMap::new();
        for issue in &issues {
            let tasks = self.tasks(issue).await.unwrap();
            assert_eq!(tasks.len(), game.tasks_each, "{issue}");
            let mut of_issue = fates_of(&self.history(issue).await.unwrap());
            for it in tasks {
                let task = (issue.clone(), it.task_id.clone());
                let fate = of_issue.remove(&it.task_id).unwrap_or_default();
                let told = || format!("{it:?}\n{fate:#?}\n{}", game.history.borrow().about(&task));
                assert_eq!(it.status(), TaskStatus::Done, "{}", told());
                assert_eq!(fate.approved.len(), 1, "{}", told());
                let by = &fate.submissions[&fate.approved[0]];
                *points.entry((by.clone(), issue.clone())).or_default() += u64::from(it.points);
                for (id, worker) in &fate.submissions {
                    let found = self.submission(worker, id).await;
                    let is_approved = found.status() == SubmissionStatus::Approved;
                    assert_eq!(is_approved, *id == fate.approved[0], "{id}: {}", told());
                    assert_ne!(found.status(), SubmissionStatus::Open, "{id}: {}", told());
                    let summary = found.words.unwrap_or_default().summary;
                    let own = (task.clone(), worker.clone(), id.clone());
                    let other = said.insert(summary.clone(), own);
                    assert!(other.is_none(), "{summary} twice: {other:?} {}", told());
                }
                fates.insert(task, fate);
            }
        }
        for (counter, issue_id) in (1..).zip(&issues) {
            self.reopen(counter, issue_id).await;
        }
        self.check_points(&points).await;
        let history = game.history.borrow();
        for (summary, (task, worker)) in &history.submitted {
            let found = said.get(summary).map(|(task, worker, _)| (task, worker));
            assert_eq!(found, Some((task, worker)), "{summary}: {}", history.about(task));
        }
        for (task, (worker, id)) in &history.approved {
            let fate = &fates[task];
            assert_eq!((&fate.approved[0], &fate.submissions[id]), (id, worker), "{task:?}");
        }
        for (task, id) in &history.reviewed {
            assert_eq!(fates[task].approved[0], *id, "{}", history.about(task));
        }
        for (task, worker) in &history.claimed {
            assert!(fates[task].claims.contains(worker), "{worker}: {}", history.about(task));
        }
    }

    async fn submission(&self, worker: &str, id: &str) -> wire::Submission {
        let question = wire::SwarmQuestion {
            role: worker.to_owned(),
            ask: Some(swarm_question::Ask::Submission(id.to_owned())),
            ..Default::default()
        };
        let answer = self.swarm().await_swarm(question).await.unwrap().into_inner();
        answer.submission.unwrap_or_else(|| panic!("{id} of {worker} is lost"))
    }

    /// Points are told of open issues.
    async fn reopen(&self, counter: u64, issue: &str) {
        let key = wire::IdempotencyKey { client_id: "checker".to_owned(), counter };
        let request = wire::ReopenIssueRequest {
            key: Some(key),
            role: "lead".to_owned(),
            issue_id: issue.to_owned(),
            summary: "who earned what?".to_owned(),
            ..Default::default()
        };
        self.swarm().reopen_issue(request).await.unwrap();
    }

    /// Of each approved task once.
    async fn check_points(&self, due: &BTreeMap<(String, String), u64>) {
        let request = wire::ListWorkersRequest::default();
        let workers = self.swarm().list_workers(request).await.unwrap().into_inner().workers;
        let mut points = BTreeMap::new();
        for worker in workers {
            assert!(worker.claims.is_empty(), "{worker:?}");
            for it in worker.points {
                points.insert((worker.worker.clone(), it.issue_id), it.total_points);
            }
        }
        points.retain(|_, it| *it != 0);
        let due: BTreeMap<_, _> =
            due.iter().filter(|it| *it.1 != 0).map(|(who, it)| (who.clone(), *it)).collect();
        assert_eq!(points, due);
    }
}

/// `None`: it is being killed.
fn up<T>(answer: Result<tonic::Response<T>, Status>) -> Option<T> {
    match answer {
        Ok(it) => Some(it.into_inner()),
        Err(why) => {
            assert!(is_away(&why), "{why}");
            None
        }
    }
}

/// As after a connection that broke.
fn is_away(why: &Status) -> bool {
    matches!(why.code(), Code::Unavailable | Code::Unknown | Code::Cancelled)
}

fn line(it: &wire::HistoryEntry) -> String {
    let wire::HistoryEntry { number, r#type, role, about, detail, at_ms, .. } = it;
    format!("{number} {at_ms} {type} {role} {about} {detail}")
}

/// The fates of an issue's tasks. Only whoever has the claim submits, and it is one at a time.
fn fates_of(history: &[wire::HistoryEntry]) -> BTreeMap<String, Fate> {
    let mut fates: BTreeMap<String, Fate> = BTreeMap::new();
    for (number, it) in (1..).zip(history) {
        assert_eq!(it.number, number, "{it:?}");
        if it.task_id.is_empty() {
            continue;
        }
        let fate = fates.entry(it.task_id.clone()).or_default();
        fate.entries.push(line(it));
        match it.r#type.as_str() {
            "issue_task_claimed" => {
                assert_eq!(fate.claimant, None, "claimed twice: {fate:#?}");
                fate.claimant = Some(it.role.clone());
                fate.claims.insert(it.role.clone());
            }
            "issue_task_expired" | "issue_task_reset" => fate.claimant = None,
            "submission_created" => {
                assert_eq!(fate.claimant.as_ref(), Some(&it.role), "not its own: {fate:#?}");
                fate.submissions.insert(it.about.clone(), it.role.clone());
            }
            "issue_task_resolved" => {
                fate.claimant = None;
                fate.approved.push(it.about.clone());
            }
            _ => {}
        }
    }
    fates
}
