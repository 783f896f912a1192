//! What is set, reported and resumed, and what every decision brings about besides.

use std::collections::BTreeMap;

use tasuki_proto::{
    id::{LoopId, RoleId, Timestamp, Turn},
    limits::BUDGETS_MAX,
};

use super::{
    Command, Event, Guard, Limits, PauseReason, Report, Resume, SetBudget, SetLimits, Usage,
    is_human,
};
use crate::rules::{
    self, Asked, Decision, Rejection, Reply, Request, Workspace, mailbox, run,
    turn::{self, Actor},
};

impl Guard {
    pub(in crate::rules) fn decide(
        &self,
        asked: Asked<'_>,
        command: &Command,
    ) -> Result<Decision, Rejection> {
        match command {
            Command::SetLimits(it) => self.decide_limits(asked.workspace, it),
            Command::SetBudget(it) => self.decide_budget(asked.workspace, it),
            Command::Report(it) => Ok(self.decide_report(it)),
            Command::Resume(it) => self.decide_resume(asked, it),
        }
    }

    fn decide_limits(&self, workspace: &Workspace, it: &SetLimits) -> Result<Decision, Rejection> {
        check_person(&it.by)?;
        let Some(id) = &it.loop_id else {
            let (turns, hops) = (it.turns.or(self.limits.turns), it.hops.or(self.limits.hops));
            let limits = Limits { turns, hops };
            if limits == self.limits {
                return Ok(Decision::repeat(Reply::Done));
            }
            return Ok(Decision::new([Event::LimitsSet(limits)], Reply::Done));
        };
        workspace.loops.get(id)?;
        if it.hops.is_some() {
            let text = "hops are of the workspace's mail: leave the loop out to set them";
            return Err(Rejection::Invalid(text.to_owned()));
        }
        if self.loops.get(id).copied() == it.turns {
            return Ok(Decision::repeat(Reply::Done));
        }
        Ok(Decision::new([Event::LoopLimitSet(id.clone(), it.turns)], Reply::Done))
    }

    fn decide_budget(&self, workspace: &Workspace, it: &SetBudget) -> Result<Decision, Rejection> {
        check_person(&it.by)?;
        if is_human(&it.role) {
            return Err(Rejection::Invalid(format!("{} is a person and has no budget", it.role)));
        }
        let known = self.roles.get(&it.role);
        if known.and_then(|known| known.budget) == it.budget {
            return Ok(Decision::repeat(Reply::Done));
        }
        if known.is_none() {
            workspace.check_role_known(&it.role)?;
            if BUDGETS_MAX <= self.roles.len() {
                return Err(Rejection::TooManyBudgets);
            }
        }
        Ok(Decision::new([Event::BudgetSet(it.role.clone(), it.budget)], Reply::Done))
    }

    fn decide_report(&self, it: &Report) -> Decision {
        let has_budget = self.roles.get(&it.role).is_some_and(|it| it.budget.is_some());
        if !has_budget {
            // Nothing is counted, and the key is used up all the same.
            return Decision::repeat(Reply::Done);
        }
        Decision::new([Event::UsageReported(it.role.clone(), it.usage)], Reply::Done)
    }

    fn decide_resume(&self, asked: Asked<'_>, it: &Resume) -> Result<Decision, Rejection> {
        check_person(&it.by)?;
        if self.pause_of(&it.role).is_none() {
            return Ok(Decision::repeat(Reply::Done));
        }
        let resumed = Event::RoleResumed(it.role.clone(), it.reason.clone());
        let mut decision = Decision::new([resumed], Reply::Done);
        let loops = asked.workspace.loops.resumptions_of(&[&it.role].into(), asked);
        decision.events.extend(loops.into_iter().map(Into::into));
        Ok(decision)
    }
}

/// GD2, and who sets limits.
fn check_person(by: &Actor) -> Result<(), Rejection> {
    match by {
        Actor::Role(role) if !is_human(role) => {
            Err(Rejection::PersonRequired { role: role.clone() })
        }
        Actor::Role(_) | Actor::Person(_) => Ok(()),
    }
}

impl Workspace {
    /// Whether the role that acts may: it is not paused, or gives back what it holds.
    pub(in crate::rules) fn check_running(
        &self,
        command: &rules::Command,
    ) -> Result<(), Rejection> {
        let Some(role) = command.role() else { return Ok(()) };
        let Some(pause) = self.guard.pause_of(role) else { return Ok(()) };
        let is_letter = matches!(command, rules::Command::Mail(mailbox::Command::Send(_)));
        if command.is_for_paused() && (!is_letter || pause.reason.may_answer()) {
            return Ok(());
        }
        Err(Rejection::RolePaused { role: role.clone(), reason: pause.reason })
    }

    /// Adds the pauses that a decision brings about, of roles and of the loops whose turns they
    /// hold then.
    pub(in crate::rules) fn with_pauses(
        &self,
        now: Timestamp,
        request: &Request,
        mut decision: Decision,
    ) -> Decision {
        if decision.events.is_empty() {
            return decision;
        }
        let paused = self.roles_to_pause(now, request, &decision);
        for (role, reason) in paused {
            let loops = self.loops_to_pause(&role, reason, &decision);
            decision.events.push(Event::RolePaused(role, reason).into());
            decision.events.extend(loops);
        }
        decision
    }

    fn roles_to_pause(
        &self,
        now: Timestamp,
        request: &Request,
        decision: &Decision,
    ) -> Vec<(RoleId, PauseReason)> {
        let mut paused: Vec<(RoleId, PauseReason)> = Vec::new();
        if !self.guard.roles.is_empty() {
            let mut used: BTreeMap<&RoleId, Usage> = BTreeMap::new();
            let call = request.command.role().map(|role| (role, Usage::ONE_CALL));
            let others = decision.events.iter().filter_map(|event| self.used_by(event));
            for (role, usage) in others.chain(call) {
                let all = used.entry(role).or_default();
                *all = all.plus(usage);
            }
            let over = used.into_iter().filter_map(|(role, usage)| {
                let reason = self.guard.roles.get(role)?.why_pause(usage, now)?;
                Some((role.clone(), reason))
            });
            paused.extend(over);
        }
        for event in &decision.events {
            if let rules::Event::Mail(mailbox::Event::Sent(it)) = event
                && let (Some(hops), Some(max)) = (it.hops, self.guard.hops())
                && max <= hops
                && self.guard.pause_of(&it.sender).is_none()
                && !paused.iter().any(|(role, _)| *role == it.sender)
            {
                paused.push((it.sender.clone(), PauseReason::Hops { hops }));
            }
        }
        paused
    }

    /// Who used what by what happened, beside the call itself.
    pub(in crate::rules) fn used_by<'a>(
        &'a self,
        event: &'a rules::Event,
    ) -> Option<(&'a RoleId, Usage)> {
        match event {
            rules::Event::Guard(Event::UsageReported(role, usage)) => Some((role, *usage)),
            rules::Event::Run(run::Event::StepEnded(it)) => {
                let role = self.runs.role_of(it.step.run)?;
                Some((role, Usage { calls: 0, tokens: it.usage.tokens() }))
            }
            rules::Event::Run(_)
            | rules::Event::Guard(_)
            | rules::Event::Directory(_)
            | rules::Event::Turn(_)
            | rules::Event::Mail(_)
            | rules::Event::Privacy(_)
            | rules::Event::Swarm(_)
            | rules::Event::Call(_)
            | rules::Event::Board(_)
            | rules::Event::Pipeline(_)
            | rules::Event::Access(_) => None,
        }
    }

    /// Pauses of the loops whose turn a role holds after the decision.
    fn loops_to_pause(
        &self,
        role: &RoleId,
        reason: PauseReason,
        decision: &Decision,
    ) -> Vec<rules::Event> {
        let is_open = |id| self.loops.by_id.get(id).is_some_and(|it| it.pause.is_none());
        let held = self.loops.held_by(role).filter(|(_, it)| it.pause.is_none());
        let mut held: BTreeMap<&LoopId, Turn> = held.map(|(id, it)| (id, it.turn)).collect();
        for event in &decision.events {
            let rules::Event::Turn(event) = event else { continue };
            let next = match event {
                turn::Event::HandedOver(it) => it.next.as_ref(),
                turn::Event::TurnReclaimed(it) => Some(&it.next),
                turn::Event::RoundStarted(it) => Some(&it.next),
                turn::Event::LoopPaused(_) => None,
                turn::Event::LoopOpened(_)
                | turn::Event::ParticipantsSet(_)
                | turn::Event::TurnHanded(_)
                | turn::Event::TurnSeen(_)
                | turn::Event::TurnLapsed(_)
                | turn::Event::LeaseRenewed(_)
                | turn::Event::HistoryCompacted(_)
                | turn::Event::LoopResumed(_) => continue,
            };
            let id = event.loop_id();
            held.remove(id);
            // It may have kept the turn.
            let next = next.filter(|next| next.to == *role && is_open(id));
            held.extend(next.map(|next| (id, next.turn)));
        }
        let paused = held.into_iter().map(|(id, turn)| {
            turn::Event::LoopPaused(turn::LoopPaused {
                loop_id: id.clone(),
                turn,
                reason: turn::PauseReason::Role { role: role.clone(), reason },
            })
        });
        paused.map(Into::into).collect()
    }
}
