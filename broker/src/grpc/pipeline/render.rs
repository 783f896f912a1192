//! Pipelines as messages.

use tasuki_proto::{
    id::BoardName,
    pipeline::PhaseIndex,
    wire::{self, pipeline_event::Kind},
};

use super::super::render::text;
use crate::{
    rules::pipeline::{Attempt, Change, Event, Outcome, Pipeline, Status},
    workspace::View,
};

/// All of a pipeline.
pub(super) fn pipeline(view: &View<'_>, board: &BoardName, it: &Pipeline) -> wire::Pipeline {
    let decisions = it.decisions.iter().map(|decided| wire::ApprovalDecision {
        phase: name(it, decided.phase),
        approved: decided.is_approved,
        person: text(decided.person.as_ref()),
        reason: decided.reason.clone(),
        at_ms: decided.at.as_millis(),
    });
    let attempts = it.numbered().map(|(number, one)| attempt(board, it, number, one));
    wire::Pipeline {
        definition: Some(it.definition.write(it.schema.as_str())),
        attempts: attempts.collect(),
        decisions: decisions.collect(),
        ..facts(view, board, it)
    }
}

/// What a list has of one: its newest attempt.
pub(super) fn summary(view: &View<'_>, board: &BoardName, it: &Pipeline) -> wire::Pipeline {
    let newest = it.attempts.last().map(|one| attempt(board, it, it.last(), one));
    wire::Pipeline { attempts: newest.into_iter().collect(), ..facts(view, board, it) }
}

fn facts(view: &View<'_>, board: &BoardName, it: &Pipeline) -> wire::Pipeline {
    let mut facts = wire::Pipeline {
        board: board.to_string(),
        phase: name(it, it.status.phase()),
        retries: it.retries,
        by_role: text(it.role.as_ref()),
        by_person: text(it.person.as_ref()),
        started_ms: it.started.as_millis(),
        checkpoint: view.workspace.boards.find(board).map_or(0, |it| it.head().get()),
        ..Default::default()
    };
    facts.set_status(status(&it.status));
    match &it.status {
        Status::InPhase(..) => {}
        Status::AwaitingApproval(_, lapses) => facts.approval_lapses_ms = lapses.as_millis(),
        Status::Ended(_, outcome, at) => {
            facts.ended_ms = at.as_millis();
            facts.error = match outcome {
                Outcome::Completed => String::new(),
                Outcome::Failed(why) | Outcome::Canceled(why) => why.clone(),
                Outcome::Lapsed => "the approval lapsed".to_owned(),
            };
        }
    }
    facts
}

fn status(status: &Status) -> wire::PipelineStatus {
    match status {
        Status::InPhase(..) => wire::PipelineStatus::Running,
        Status::AwaitingApproval(..) => wire::PipelineStatus::AwaitingApproval,
        Status::Ended(_, Outcome::Completed, _) => wire::PipelineStatus::Completed,
        Status::Ended(_, Outcome::Failed(_) | Outcome::Lapsed, _) => wire::PipelineStatus::Failed,
        Status::Ended(_, Outcome::Canceled(_), _) => wire::PipelineStatus::Canceled,
    }
}

fn name(pipeline: &Pipeline, phase: PhaseIndex) -> String {
    pipeline.definition.phase(phase).name.to_string()
}

/// The same for each attempt of a phase at a checkpoint.
pub(super) fn attempt_key(board: &BoardName, pipeline: &Pipeline, it: &Attempt) -> String {
    format!("{board}/{}/{}", it.checkpoint, name(pipeline, it.phase))
}

fn attempt(
    board: &BoardName,
    pipeline: &Pipeline,
    number: u32,
    it: &Attempt,
) -> wire::PhaseAttempt {
    let mut attempt = wire::PhaseAttempt {
        attempt: number,
        phase: name(pipeline, it.phase),
        attempt_key: attempt_key(board, pipeline, it),
        role: pipeline.definition.phase(it.phase).role.to_string(),
        node: text(it.claim.as_ref().map(|it| &it.node)),
        checkpoint: it.checkpoint.get(),
        began_ms: it.claim.as_ref().map_or(0, |it| it.began.as_millis()),
        ..Default::default()
    };
    let status = match (&it.end, &it.claim) {
        (Some(end), _) => {
            attempt.written = end.written.get();
            attempt.error.clone_from(&end.error);
            attempt.ended_ms = end.at.as_millis();
            match end.how {
                Change::Passed => wire::AttemptStatus::Passed,
                Change::Failed => wire::AttemptStatus::Failed,
                Change::Rejected => wire::AttemptStatus::Rejected,
                Change::Lost => wire::AttemptStatus::Lost,
                Change::TimedOut => wire::AttemptStatus::TimedOut,
                Change::Canceled => wire::AttemptStatus::Canceled,
                Change::Approved | Change::Denied | Change::ApprovalLapsed | Change::Resumed => {
                    wire::AttemptStatus::Unspecified
                }
            }
        }
        (None, Some(_)) => wire::AttemptStatus::Running,
        (None, None) => wire::AttemptStatus::Waiting,
    };
    attempt.set_status(status);
    attempt
}

/// What the feed tells of pipelines. That a lease goes on, or an old one is forgotten, is no news.
pub(in crate::grpc) fn event(event: &Event) -> Option<Kind> {
    Some(match event {
        Event::Started(it) => {
            let first = it.definition.phase(0);
            Kind::PipelineStarted(wire::PipelineStarted {
                board: it.board.to_string(),
                phase: first.name.to_string(),
                role: first.role.to_string(),
            })
        }
        Event::Claimed(it) => Kind::PhaseClaimed(wire::PhaseClaimed {
            board: it.board.to_string(),
            phase: it.phase.to_string(),
            attempt: it.attempt,
            role: it.role.to_string(),
            node: it.node.to_string(),
        }),
        Event::Transitioned(it) => {
            let mut moved = wire::PipelineChanged {
                board: it.board.to_string(),
                phase: it.from.to_string(),
                attempt: it.attempt,
                next_phase: it.to.to_string(),
                role: it.role.to_string(),
                checkpoint: it.written.get(),
                ..Default::default()
            };
            moved.set_change(change(it.change));
            moved.set_status(status(&it.status));
            Kind::PipelineChanged(moved)
        }
        Event::Renewed(_) | Event::Forgotten(_) => return None,
    })
}

const fn change(it: Change) -> wire::PipelineChange {
    match it {
        Change::Passed => wire::PipelineChange::Passed,
        Change::Failed => wire::PipelineChange::Failed,
        Change::Rejected => wire::PipelineChange::Rejected,
        Change::Lost => wire::PipelineChange::Lost,
        Change::TimedOut => wire::PipelineChange::TimedOut,
        Change::Approved => wire::PipelineChange::Approved,
        Change::Denied => wire::PipelineChange::Denied,
        Change::ApprovalLapsed => wire::PipelineChange::ApprovalLapsed,
        Change::Canceled => wire::PipelineChange::Canceled,
        Change::Resumed => wire::PipelineChange::Resumed,
    }
}
