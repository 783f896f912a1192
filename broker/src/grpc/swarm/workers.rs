//! Workers: roles that claim tasks.

use std::collections::BTreeMap;

use tasuki_proto::{id::RoleId, wire};
use tonic::Status;

use super::{Entered, View, id, optional, render};
use crate::rules::swarm::{Ask, IssueState, ListFilter, TaskState};

pub(super) async fn register(
    entered: &Entered,
    mut it: wire::RegisterWorkerRequest,
) -> Result<wire::Worker, Status> {
    let key = entered.key(it.key.take(), &it)?;
    let role: RoleId = id("role", &it.role)?;
    let done = entered.ask(role.clone(), Some(key), Ask::RegisterWorker).await?;
    let look = {
        let role = role.clone();
        move |view: &View<'_>| Ok(workers(view, Some(&role), Some(&role)).pop())
    };
    let worker = entered.look_for(None, look).await?.unwrap_or_default();
    Ok(wire::Worker { worker: role.to_string(), sequence: done.sequence.get(), ..worker })
}

pub(super) async fn list(
    entered: &Entered,
    it: wire::ListWorkersRequest,
) -> Result<wire::ListWorkersResponse, Status> {
    let asker: Option<RoleId> = optional("role", &it.role)?;
    let only: Option<RoleId> = optional("worker", &it.worker)?;
    let shown_to = asker.clone();
    let look = move |view: &View<'_>| {
        let workers = workers(view, only.as_ref(), shown_to.as_ref());
        Ok(wire::ListWorkersResponse { workers, now_ms: view.now.as_millis() })
    };
    entered.look_for(asker.as_ref(), look).await
}

/// Workers with what they have claimed and earned in issues that are open.
fn workers(view: &View<'_>, only: Option<&RoleId>, asker: Option<&RoleId>) -> Vec<wire::Worker> {
    let (swarm, presence) = (&view.workspace.swarm, &view.context.presence);
    let mut found: BTreeMap<&RoleId, wire::Worker> = BTreeMap::new();
    for (role, it) in swarm.workers.iter().filter(|(role, _)| only.is_none_or(|it| it == *role)) {
        let sign = presence.role(role);
        let worker = wire::Worker {
            worker: role.to_string(),
            joined_ms: it.joined.as_millis(),
            updated_ms: sign.map_or(it.joined, |sign| sign.at).as_millis(),
            quiet_ms: sign.map(|sign| view.now.millis_since(sign.at)),
            sequence: view.workspace.sequence.get(),
            ..wire::Worker::default()
        };
        found.insert(role, worker);
    }
    for (node, it) in &view.workspace.directory.nodes {
        for spec in &it.roles {
            if let Some(worker) = found.get_mut(&spec.role) {
                worker.node = node.to_string();
            }
        }
    }
    let open = ListFilter { issue_state: Some(IssueState::Open), ..ListFilter::default() };
    for issue in swarm.list_issues(&open) {
        for (role, total) in &issue.totals {
            if let Some(worker) = found.get_mut(role) {
                worker.points.push(wire::IssuePoints {
                    issue_id: issue.id.to_string(),
                    total_points: total.points.into(),
                    consecutive_low_scores: total.low_scores,
                });
            }
        }
        for state in [TaskState::InProgress, TaskState::Blocked] {
            let filter = ListFilter { task_state: Some(state), ..ListFilter::default() };
            for task in issue.list(&filter) {
                let Some(claim) = task.live_claim() else { continue };
                let Some(worker) = found.get_mut(&claim.worker) else { continue };
                let shown = render::task(issue, task, asker);
                worker.claims.push(wire::ClaimedTask {
                    issue_id: shown.issue_id,
                    task_id: shown.task_id,
                    lease_expires_ms: shown.lease_expires_ms,
                    claim_token: shown.claim_token,
                    stage: shown.stage,
                });
            }
        }
    }
    found.into_values().collect()
}
