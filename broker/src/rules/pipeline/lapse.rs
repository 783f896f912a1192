//! What the passing of time brings: attempts that are lost or take too long, approvals that lapse,
//! and pipelines that are forgotten.
//!
//! The lease of an attempt goes on as long as its node gives signs of life; how otherwise is in
//! [`Lease`](crate::rules::lease::Lease). A node that begins anew has lost its attempts at once.

use tasuki_proto::{
    id::{BoardName, NodeId, RoleId, Timestamp},
    limits::PHASE_LEASE_MS,
};

use super::{
    Change, Claim, Event, Outcome, Pipeline, Pipelines, Renewed, Status,
    transition::{Next, TransitionBuilder},
};
use crate::rules::{
    Body, Context, Decision, Event as AnyEvent, Reply, Workspace, directory::RoleSpec,
};

/// Pipelines that are looked at for one record. More follow in the next: the board of each may be
/// written to.
const LAPSES_MAX: usize = 100;

impl Pipelines {
    /// What lapsed by `now`, and what goes on.
    pub(in crate::rules) fn decide_lapses(
        &self,
        now: Timestamp,
        context: &Context,
        workspace: &Workspace,
    ) -> (Vec<AnyEvent>, Vec<Body>) {
        let mut decision = Decision::new::<Event>([], Reply::Done);
        let due = self.deadlines.iter().take_while(|(at, _)| *at <= now).take(LAPSES_MAX);
        for (_, board) in due {
            let Some(pipeline) = self.find(board) else { continue };
            let lapsed = self.decide_due(now, context, workspace, board, pipeline);
            decision.events.extend(lapsed.events);
            decision.bodies.extend(lapsed.bodies);
        }
        for board in self.graced.iter().take(LAPSES_MAX) {
            let claim = self.find(board).and_then(Pipeline::claim);
            let Some(claim) = claim.filter(|it| now < it.deadline) else { continue };
            let sign = claim.lease.sign(context.presence.node(&claim.node), PHASE_LEASE_MS);
            // What is due was judged already.
            if let Some(sign) = sign.filter(|_| now < claim.lease.lapses) {
                let lapses = sign.plus_millis(PHASE_LEASE_MS).max(claim.lease.lapses);
                let board = board.clone();
                let renewed = Event::Renewed(Renewed { board, lapses, is_grace: false });
                decision.events.push(renewed.into());
            }
        }
        (decision.events, decision.bodies)
    }

    fn decide_due(
        &self,
        now: Timestamp,
        context: &Context,
        workspace: &Workspace,
        board: &BoardName,
        pipeline: &Pipeline,
    ) -> Decision {
        let retries = pipeline.retries;
        let transition = |change, error: String, (next, retries)| {
            TransitionBuilder { board, pipeline, now, change, error, next, retries }
                .decide_noted(workspace)
        };
        match &pipeline.status {
            Status::AwaitingApproval(phase, _) => {
                let next = Next::Ended(*phase, Outcome::Lapsed);
                transition(Change::ApprovalLapsed, String::new(), (next, retries))
            }
            Status::Ended(..) => Decision::new([Event::Forgotten(board.clone())], Reply::Done),
            Status::InPhase(phase, _) => {
                let claim = pipeline.claim().expect("what is due is claimed");
                if claim.deadline <= now {
                    let seconds = pipeline.phase().timeout_ms / 1000;
                    let error = format!("it took longer than {seconds} s");
                    let next = pipeline.after_failure(&error);
                    return transition(Change::TimedOut, error, next);
                }
                let sign = context.presence.node(&claim.node);
                let runs = claim.lease.runs_until(sign, PHASE_LEASE_MS, now, &context.presence);
                match runs {
                    Some((lapses, is_grace)) => {
                        let board = board.clone();
                        let renewed = Event::Renewed(Renewed { board, lapses, is_grace });
                        Decision::new([renewed], Reply::Done)
                    }
                    None => {
                        let error = format!("node {} is gone", claim.node);
                        transition(Change::Lost, error, (pipeline.begin(*phase), retries))
                    }
                }
            }
        }
    }

    /// What is to be done again when a node registers: what it had, since it begins anew, and what
    /// others had of the roles that it takes over.
    pub(in crate::rules) fn decide_fenced(
        &self,
        now: Timestamp,
        workspace: &Workspace,
        node: &NodeId,
        roles: &[RoleSpec],
    ) -> Vec<AnyEvent> {
        self.decide_lost(now, workspace, |claim, role| {
            if claim.node == *node {
                return Some(format!("node {node} began anew"));
            }
            let is_taken_over = roles.iter().any(|it| it.role == *role);
            is_taken_over.then(|| format!("node {node} took over {role} from {}", claim.node))
        })
    }

    /// What was done under claims of which `why_lost` says why they hold no more.
    pub(in crate::rules) fn decide_lost(
        &self,
        now: Timestamp,
        workspace: &Workspace,
        why_lost: impl Fn(&Claim, &RoleId) -> Option<String>,
    ) -> Vec<AnyEvent> {
        let mut events = Vec::new();
        for board in &self.claimed {
            let Some(pipeline) = self.find(board) else { continue };
            let Some(claim) = pipeline.claim() else { continue };
            let Some(error) = why_lost(claim, &pipeline.phase().role) else { continue };
            let (change, retries) = (Change::Lost, pipeline.retries);
            let next = pipeline.begin(pipeline.status.phase());
            let transition =
                TransitionBuilder { board, pipeline, now, change, error, next, retries };
            // A loss is not noted on the board, so it has no bodies.
            events.extend(transition.decide_noted(workspace).events);
        }
        events
    }

    /// When something lapses next, or a pipeline is old enough.
    pub(in crate::rules) fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Whether an attempt goes on with a grace that a sign of its node would end.
    pub(in crate::rules) fn has_graced(&self) -> bool {
        !self.graced.is_empty()
    }
}
