//! Who an agent is, what it holds and what waits for it; and the workers beside it.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use rmcp::model::CallToolResponse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tasuki_proto::{reason::Reason, wire};

use super::{
    super::{
        field_types::Name, result::json_result, sanitizer::Sanitizer, tool::ToolInfo,
        view::is_nothing,
    },
    ACCEPTOR_FULL, LEAD_FULL, SwarmTool, WORKER_FULL,
    answer::answer,
    args,
    caller::Caller,
    locks::Lock,
    views::{self, Time},
};
use crate::{
    role::Refusal,
    toolset::{SWARM_ACCEPTOR, SWARM_LEAD, SWARM_WORKER},
    wait::{Answer, Awaited, Question},
};

/// Issues that one profile looks into for what waits; more are named by their number.
const ISSUES_MAX: u32 = 20;

/// Of these so many at once: a role has 16 calls under way, and others want some.
const LOOKS_AT_ONCE: usize = 8;

/// Locks and deliveries that one profile shows.
const HELD_MAX: u32 = 50;

#[derive(Debug, Serialize)]
struct Now {
    server_now: Time,
    server_now_ms: u64,
}

/// Returns the broker's time.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct SwarmNow {}

impl SwarmTool for SwarmNow {
    const INFO: ToolInfo = ToolInfo::read("swarmNow", &[LEAD_FULL, WORKER_FULL, ACCEPTOR_FULL]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        // A short answer that tells the broker's time.
        let worker = caller.role().to_string();
        let own = wire::ListWorkersRequest { worker, ..Default::default() };
        let server_now_ms = caller.query(own).await?.now_ms;
        Ok(json_result(&Now { server_now: Time(server_now_ms), server_now_ms }).into())
    }
}

#[derive(Debug, Serialize)]
struct Worker {
    id: String,
    worker_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    node: String,
    joined_at: Time,
    updated_at: Time,
    /// Left out: no sign of life since the broker began.
    #[serde(skip_serializing_if = "Option::is_none")]
    quiet_ms: Option<u64>,
    claims: Vec<Claim>,
    points: Vec<Points>,
}

#[derive(Debug, Serialize)]
struct Claim {
    issue_id: String,
    task_id: String,
    stage: &'static str,
    /// Left out: it does not run out while its submission waits for a verdict.
    #[serde(skip_serializing_if = "is_nothing")]
    lease_expires_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_left_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Points {
    issue_id: String,
    worker_total_points: u64,
    consecutive_low_scores: u32,
}

impl Worker {
    fn new(it: &wire::Worker, now_ms: u64) -> Self {
        let claim = |it: &wire::ClaimedTask| {
            let lapses_ms = Some(it.lease_expires_ms).filter(|ms| *ms != 0);
            Claim {
                issue_id: it.issue_id.clone(),
                task_id: it.task_id.clone(),
                stage: views::stage(it.stage()),
                lease_expires_at: Time(it.lease_expires_ms),
                lease_left_ms: lapses_ms.map(|ms| ms.saturating_sub(now_ms)),
            }
        };
        let points = |it: &wire::IssuePoints| Points {
            issue_id: it.issue_id.clone(),
            worker_total_points: it.total_points,
            consecutive_low_scores: it.consecutive_low_scores,
        };
        Self {
            id: it.worker.clone(),
            worker_id: it.worker.clone(),
            node: it.node.clone(),
            joined_at: Time(it.joined_ms),
            updated_at: Time(it.updated_ms),
            quiet_ms: it.quiet_ms,
            claims: it.claims.iter().map(claim).collect(),
            points: it.points.iter().map(points).collect(),
        }
    }
}

#[derive(Debug, Serialize)]
struct Workers {
    workers: Vec<Worker>,
}

/// Lists workers and their tasks.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ListWorkers {}

impl SwarmTool for ListWorkers {
    const INFO: ToolInfo = ToolInfo::read("listWorkers", &[LEAD_FULL]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let (mut workers, mut after) = (Vec::new(), String::new());
        loop {
            let request = wire::ListWorkersRequest { after, ..Default::default() };
            let page = caller.query(request).await?;
            let now_ms = page.now_ms;
            workers.extend(page.workers.iter().map(|worker| Worker::new(worker, now_ms)));
            if page.next.is_empty() {
                let workers = Workers { workers };
                return Ok(answer(workers, now_ms, &Sanitizer::default(), Vec::new()).into());
            }
            after = page.next;
        }
    }
}

/// Returns a worker and its tasks.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct GetWorker {
    worker_id: Name,
}

impl SwarmTool for GetWorker {
    const INFO: ToolInfo =
        ToolInfo::read("getWorker", &[LEAD_FULL, WORKER_FULL]).with_role(args::NONE);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let worker = self.worker_id.0;
        let request = wire::ListWorkersRequest { worker: worker.clone(), ..Default::default() };
        let it = caller.query(request).await?;
        let Some(found) = it.workers.first() else {
            return Err(Refusal {
                reason: Reason::UnknownWorker,
                message: format!("unknown worker_id {worker}"),
            });
        };
        let worker = Worker::new(found, it.now_ms);
        Ok(answer(worker, it.now_ms, &Sanitizer::default(), Vec::new()).into())
    }
}

#[derive(Debug, Serialize)]
struct Profile {
    role: String,
    toolsets: Vec<String>,
    /// As a worker; left out before it registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<Worker>,
    locks: Vec<Lock>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kept_for_you: Vec<Kept>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waits_for_you: Vec<Waits>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    deliveries: Vec<Delivery>,
    /// Issues that were not looked into.
    #[serde(skip_serializing_if = "is_nothing")]
    more_issues: u64,
}

/// A task that a next step keeps for the worker.
#[derive(Debug, Serialize)]
struct Kept {
    issue_id: String,
    task_id: String,
    next_step_token: String,
    reserved_until: Time,
}

/// What the lead of an issue is to answer, the oldest.
#[derive(Debug, Serialize)]
struct Waits {
    issue_id: String,
    kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    task_id: String,
    #[serde(skip_serializing_if = "is_nothing")]
    more: u64,
}

/// One that the acceptor has claimed.
#[derive(Debug, Serialize)]
struct Delivery {
    delivery_id: String,
    issue_id: String,
    lease_left_ms: u64,
}

/// Returns your role, what you hold and what is waiting for you. Call it after a restart.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct MyProfile {}

impl SwarmTool for MyProfile {
    const INFO: ToolInfo = ToolInfo::read("myProfile", &[LEAD_FULL, WORKER_FULL, ACCEPTOR_FULL]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let role = caller.role().to_string();
        let workers = wire::ListWorkersRequest { worker: role.clone(), ..Default::default() };
        let workers = caller.query(workers).await?;
        let now_ms = workers.now_ms;
        let kept = workers.workers.iter().flat_map(|it| &it.reserved).map(|it| Kept {
            issue_id: it.issue_id.clone(),
            task_id: it.task_id.clone(),
            next_step_token: it.next_step_token.clone(),
            reserved_until: Time(it.reserved_until_ms),
        });
        let worker = workers.workers.first().map(|it| Worker::new(it, now_ms));
        let locks = wire::ListLocksRequest {
            holder: role.clone(),
            limit: HELD_MAX,
            ..wire::ListLocksRequest::default()
        };
        let mut others = Sanitizer::default();
        let locks = caller.query(locks).await?.locks;
        let mut profile = Profile {
            toolsets: caller.toolsets().iter().map(ToString::to_string).collect(),
            worker,
            locks: locks.iter().map(|it| Lock::new(it, &mut others)).collect(),
            kept_for_you: kept.filter(|_| caller.has_set(SWARM_WORKER)).collect(),
            waits_for_you: Vec::new(),
            deliveries: Vec::new(),
            more_issues: 0,
            role,
        };
        if caller.has_set(SWARM_LEAD) {
            profile.add_waiting(caller).await?;
        }
        if caller.has_set(SWARM_ACCEPTOR) {
            profile.add_deliveries(caller, now_ms).await?;
        }
        let next = profile.next(caller);
        Ok(answer(profile, now_ms, &others, next).into())
    }
}

impl Profile {
    async fn add_waiting(&mut self, caller: &Caller<'_>) -> Result<(), Refusal> {
        let open = wire::ListIssuesRequest {
            status: wire::IssueStatus::Open.into(),
            lead: self.role.clone(),
            sort_by: wire::SortBy::Updated.into(),
            limit: ISSUES_MAX,
            ..wire::ListIssuesRequest::default()
        };
        let found = caller.query(open).await?;
        self.more_issues += found.total.saturating_sub(found.issues.len() as u64);
        let look = async |issue: wire::Issue| {
            let items = Awaited::Items(issue.issue_id.parse().ok()?);
            // It was closed meanwhile, say: then nothing of it waits.
            let looked = caller.actions.wait(Question::Swarm(items), Duration::ZERO).await;
            let Ok(Answer::Swarm(looked)) = looked else { return None };
            let item = looked.item?;
            Some(Waits {
                issue_id: issue.issue_id,
                kind: item.kind,
                task_id: item.task_id,
                more: looked.more_items,
            })
        };
        let looks = stream::iter(found.issues.into_iter().map(look));
        let looked: Vec<_> = looks.buffered(LOOKS_AT_ONCE).collect().await;
        self.waits_for_you.extend(looked.into_iter().flatten());
        Ok(())
    }

    async fn add_deliveries(&mut self, caller: &Caller<'_>, now_ms: u64) -> Result<(), Refusal> {
        let request = wire::ListDeliveriesRequest {
            status: wire::DeliveryStatus::InReview.into(),
            claimed_by: self.role.clone(),
            limit: HELD_MAX,
            ..wire::ListDeliveriesRequest::default()
        };
        let found = caller.query(request).await?.deliveries;
        self.deliveries.extend(found.into_iter().map(|it| Delivery {
            delivery_id: it.delivery_id,
            issue_id: it.issue_id,
            lease_left_ms: it.lease_expires_ms.saturating_sub(now_ms),
        }));
        Ok(())
    }

    fn next(&self, caller: &Caller<'_>) -> Vec<String> {
        let mut next = Vec::new();
        if caller.has_set(SWARM_WORKER) {
            let claims = self.worker.as_ref().map(|it| it.claims.len());
            next.push(match (claims, self.kept_for_you.is_empty()) {
                (None, _) => "Call registerWorker first.",
                (Some(0), true) => "Find work with waitIssues and waitIssueTasks.",
                (Some(0), false) => "Claim the task reserved for you with its next_step_token.",
                (Some(_), _) => {
                    "Continue with what you have claimed: getIssueTask shows its state."
                }
            });
        }
        if caller.has_set(SWARM_LEAD) && !self.waits_for_you.is_empty() {
            next.push("Answer what is waiting for you: waitIssueTaskEvents.");
        }
        if caller.has_set(SWARM_ACCEPTOR) && !self.deliveries.is_empty() {
            next.push("Review what you have claimed: getIssueAcceptanceBundle, reviewDelivery.");
        }
        next.into_iter().map(ToOwned::to_owned).collect()
    }
}
