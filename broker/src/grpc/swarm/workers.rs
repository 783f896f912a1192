//! Workers: roles that claim tasks.

use std::collections::BTreeMap;

use tasuki_proto::{id::RoleId, swarm::IssueId, wire};
use tonic::Status;

use super::{
    super::{render::fitting, scan::Part},
    Answer, Endpoint, View, WorkspaceSession, default_response, optional, render,
};
use crate::rules::swarm::{CommandKind, Issue, IssueState, ListFilter, TaskState};

impl Endpoint for wire::RegisterWorkerRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let role = session.role()?;
        let registered: wire::Worker =
            session.ask(CommandKind::RegisterWorker, default_response).await?;
        let found = session.workers(Some(&role), None, Some(&role)).await?;
        let worker = found.0.into_iter().next().unwrap_or_default();
        Ok(wire::Worker { worker: role.to_string(), sequence: registered.sequence, ..worker })
    }
}

impl Endpoint for wire::ListWorkersRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let asker = session.asker.clone();
        let only: Option<RoleId> = optional("worker", &self.worker)?;
        let after: Option<RoleId> = optional("after", &self.after)?;
        // Who may not ask as this role is told so first.
        session.query(asker.as_ref(), |_| Ok(())).await?;
        let found = session.workers(only.as_ref(), after.as_ref(), asker.as_ref());
        let (found, now_ms) = found.await?;
        let (workers, has_more) = fitting(found);
        let last = workers.last().filter(|_| has_more);
        let next = last.map(|it| it.worker.clone()).unwrap_or_default();
        Ok(wire::ListWorkersResponse { workers, now_ms, next })
    }
}

/// What a worker has in one issue.
enum Has {
    Points(wire::IssuePoints),
    Claim(wire::ClaimedTask),
    /// Shown to the worker itself alone.
    Reserved(wire::ReservedTask),
}

impl WorkspaceSession {
    /// Workers behind `after`, by name, with what they have claimed and earned in issues that are
    /// open, and when that was.
    async fn workers(
        &self,
        only: Option<&RoleId>,
        after: Option<&RoleId>,
        asker: Option<&RoleId>,
    ) -> Result<(Vec<wire::Worker>, u64), Status> {
        let (only, asker) = (only.cloned(), asker.cloned());
        let (named, after) = (only.clone(), after.cloned());
        let known = move |view: &View<'_>| {
            Ok((known(view, named.as_ref(), after.as_ref()), view.now.as_millis()))
        };
        let (mut workers, now_ms) = self.query(None, known).await?;
        let part = move |view: &View<'_>, before: Option<IssueId>| {
            let open = view.workspace.swarm.list_issues(Some(IssueState::Open), before);
            let weight = |it: &Issue| {
                let [open, in_progress, waiting_for_answer, ..] = it.counts().tasks;
                it.totals.len() + open + in_progress + waiting_for_answer
            };
            let has = |it: &Issue| Some(has(it, only.as_ref(), asker.as_ref()));
            Ok(Part::of(open, usize::MAX, |it| (it.id, weight(it)), has))
        };
        let add = |found: Vec<Vec<(RoleId, Has)>>| {
            for (role, has) in found.into_iter().flatten() {
                match (workers.get_mut(&role), has) {
                    (Some(worker), Has::Points(it)) => worker.points.push(it),
                    (Some(worker), Has::Claim(it)) => worker.claims.push(it),
                    (Some(worker), Has::Reserved(it)) => worker.reserved.push(it),
                    (None, _) => {}
                }
            }
        };
        self.scan(part, add).await?;
        Ok((workers.into_values().collect(), now_ms))
    }
}

/// Workers as they are known to the workspace.
fn known(
    view: &View<'_>,
    only: Option<&RoleId>,
    after: Option<&RoleId>,
) -> BTreeMap<RoleId, wire::Worker> {
    let (swarm, presence) = (&view.workspace.swarm, &view.context.presence);
    let is_meant =
        |role: &RoleId| only.is_none_or(|it| it == role) && after.is_none_or(|after| after < role);
    let mut found: BTreeMap<RoleId, wire::Worker> = BTreeMap::new();
    for (role, it) in swarm.workers.iter().filter(|(role, _)| is_meant(role)) {
        let sign = presence.role(role);
        let worker = wire::Worker {
            worker: role.to_string(),
            joined_ms: it.joined.as_millis(),
            updated_ms: sign.map_or(it.joined, |sign| sign.at).as_millis(),
            quiet_ms: sign.map(|sign| view.now.millis_since(sign.at)),
            sequence: view.workspace.sequence.get(),
            ..wire::Worker::default()
        };
        found.insert(role.clone(), worker);
    }
    for (node, it) in &view.workspace.directory.nodes {
        for spec in &it.roles {
            if let Some(worker) = found.get_mut(&spec.role) {
                worker.node = node.to_string();
            }
        }
    }
    found
}

/// What workers have claimed and earned in an issue.
fn has(issue: &Issue, only: Option<&RoleId>, asker: Option<&RoleId>) -> Vec<(RoleId, Has)> {
    let is_meant = |role: &RoleId| only.is_none_or(|it| it == role);
    let mut found = Vec::new();
    for (role, total) in issue.totals.iter().filter(|(role, _)| is_meant(role)) {
        let points = wire::IssuePoints {
            issue_id: issue.id.to_string(),
            total_points: total.points.into(),
            consecutive_low_scores: total.low_scores,
        };
        found.push((role.clone(), Has::Points(points)));
    }
    if let Some(worker) = asker.filter(|it| is_meant(it)) {
        let filter = ListFilter { task_state: Some(TaskState::Open), ..ListFilter::default() };
        let open = issue.list(&filter).filter(|it| it.reservation.is_some());
        let own = open.map(|it| render::task(issue, it, asker));
        found.extend(own.filter(|it| !it.reserved_token.is_empty()).map(|it| {
            let reserved = wire::ReservedTask {
                issue_id: it.issue_id,
                task_id: it.task_id,
                next_step_token: it.reserved_token,
                reserved_until_ms: it.reserved_until_ms,
            };
            (worker.clone(), Has::Reserved(reserved))
        }));
    }
    for state in [TaskState::InProgress, TaskState::WaitingForAnswer] {
        let filter = ListFilter { task_state: Some(state), ..ListFilter::default() };
        for task in issue.list(&filter) {
            let Some(claim) = task.live_claim().filter(|it| is_meant(&it.worker)) else { continue };
            let shown = render::task(issue, task, asker);
            let claimed = wire::ClaimedTask {
                issue_id: shown.issue_id,
                task_id: shown.task_id,
                lease_expires_ms: shown.lease_expires_ms,
                claim_token: shown.claim_token,
                stage: shown.stage,
            };
            found.push((claim.worker.clone(), Has::Claim(claimed)));
        }
    }
    found
}
