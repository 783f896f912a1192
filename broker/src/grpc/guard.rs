//! `Guard`: how far agents may go without a person, what each role may use, and who is paused.

use tasuki_proto::{
    id::RoleId,
    limits::{BUDGET_MAX, HOPS_MAX, LASTING_MS_MAX, TURNS_ALONE_MAX},
    wire::{self, guard_event::Kind},
};
use tonic::Status;

use super::{Answer, Endpoint, WorkspaceSession, at_once, default_response, parse, status};
use crate::{
    rules::guard::{self, Budget, PauseReason, RolePause, Usage},
    workspace::View,
};

impl Endpoint for wire::GetGuardRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let seen = session.show(None, |view| {
            let guard = &view.workspace.guard;
            let loops = guard
                .loops
                .iter()
                .map(|(id, turns)| wire::LoopLimit { r#loop: id.to_string(), max_turns: *turns });
            let roles = guard.roles.iter().map(|(role, it)| wire::RoleGuard {
                role: role.to_string(),
                budget: it.budget.as_ref().map(budget),
                calls: it.used.calls,
                tokens: it.used.tokens,
                since_ms: it.since.as_millis(),
                pause: it.pause.as_ref().map(pause),
            });
            Ok(at_once(wire::GetGuardResponse {
                max_turns: guard.turns().unwrap_or_default(),
                max_hops: guard.hops().unwrap_or_default(),
                loops: loops.collect(),
                roles: roles.collect(),
            }))
        });
        seen.await
    }
}

impl Endpoint for wire::SetLimitsRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let limits = guard::SetLimits {
            by: parse::actor(&self.role, &self.person)?,
            loop_id: parse::optional("loop", &self.r#loop)?,
            turns: at_most("max_turns", self.max_turns, TURNS_ALONE_MAX)?,
            hops: at_most("max_hops", self.max_hops, HOPS_MAX)?,
        };
        session.execute(guard::Command::SetLimits(limits), default_response).await
    }
}

impl Endpoint for wire::SetBudgetRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let set = guard::SetBudget {
            by: parse::actor(&self.role, &self.person)?,
            role: parse::id("target", &self.target)?,
            budget: of_wire(self.budget.unwrap_or_default())?,
        };
        session.execute(guard::Command::SetBudget(set), default_response).await
    }
}

impl Endpoint for wire::ReportUsageRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let role = session.role()?;
        let usage =
            Usage { calls: bounded("calls", self.calls)?, tokens: bounded("tokens", self.tokens)? };
        let report = guard::Report { role: role.clone(), usage };
        let render = move |view: &View<'_>, _| {
            let pause = view.workspace.guard.pause_of(&role).map(pause);
            Ok(at_once(wire::ReportUsageResponse { pause }))
        };
        session.execute(guard::Command::Report(report), render).await
    }
}

impl Endpoint for wire::ResumeRoleRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let resume = guard::Resume {
            by: parse::actor(&self.role, &self.person)?,
            role: parse::id("target", &self.target)?,
            reason: parse::optional_reason(self.reason)?,
        };
        session.execute(guard::Command::Resume(resume), default_response).await
    }
}

fn at_most(field: &str, value: Option<u32>, max: u32) -> Result<Option<u32>, Status> {
    match value {
        Some(value) if max < value => {
            Err(status::invalid(field, &format!("is more than {max}; 0 is without a limit")))
        }
        Some(_) | None => Ok(value),
    }
}

fn bounded(field: &str, value: u64) -> Result<u64, Status> {
    if BUDGET_MAX < value {
        return Err(status::invalid(field, &format!("is more than {BUDGET_MAX}")));
    }
    Ok(value)
}

/// A budget; `None` where nothing in it is bounded.
fn of_wire(it: wire::RoleBudget) -> Result<Option<Budget>, Status> {
    let calls = Some(bounded("max_calls", it.max_calls)?).filter(|max| *max != 0);
    let tokens = Some(bounded("max_tokens", it.max_tokens)?).filter(|max| *max != 0);
    if LASTING_MS_MAX < it.window_ms {
        return Err(status::invalid("window_ms", &format!("is more than {LASTING_MS_MAX}")));
    }
    let budget = Budget { calls, tokens, window_ms: it.window_ms };
    Ok((calls.is_some() || tokens.is_some()).then_some(budget))
}

fn budget(it: &Budget) -> wire::RoleBudget {
    wire::RoleBudget {
        max_calls: it.calls.unwrap_or_default(),
        max_tokens: it.tokens.unwrap_or_default(),
        window_ms: it.window_ms,
    }
}

/// That the role of a wait is paused, where it is and goes on waiting.
pub(super) fn pause_of(
    view: &View<'_>,
    role: Option<&RoleId>,
    is_waiting: bool,
) -> Option<wire::RolePause> {
    view.workspace.guard.pause_of(role.filter(|_| is_waiting)?).map(pause)
}

fn pause(it: &RolePause) -> wire::RolePause {
    let (at_ms, reason) = (it.at.as_millis(), it.reason.to_string());
    wire::RolePause { at_ms, kind: kind(&it.reason).into(), reason }
}

const fn kind(it: &PauseReason) -> wire::RolePauseKind {
    match it {
        PauseReason::Calls { .. } | PauseReason::Tokens { .. } => wire::RolePauseKind::Budget,
        PauseReason::Hops { .. } => wire::RolePauseKind::Hops,
    }
}

/// What the feed tells of limits, budgets and pauses.
pub(super) fn event(event: &guard::Event) -> Kind {
    use guard::Event;
    match event {
        Event::LimitsSet(_) => Kind::LimitsSet(wire::LimitsSet::default()),
        Event::LoopLimitSet(id, _) => Kind::LimitsSet(wire::LimitsSet { r#loop: id.to_string() }),
        Event::BudgetSet(role, it) => Kind::BudgetSet(wire::BudgetSet {
            role: role.to_string(),
            budget: it.as_ref().map(budget),
        }),
        Event::UsageReported(role, it) => Kind::UsageReported(wire::UsageReported {
            role: role.to_string(),
            calls: it.calls,
            tokens: it.tokens,
        }),
        Event::RolePaused(role, reason) => Kind::RolePaused(wire::RolePaused {
            role: role.to_string(),
            kind: kind(reason).into(),
            reason: reason.to_string(),
        }),
        Event::RoleResumed(role, reason) => {
            Kind::RoleResumed(wire::RoleResumed { role: role.to_string(), reason: reason.clone() })
        }
    }
}
