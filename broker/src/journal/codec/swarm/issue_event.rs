//! What happened to one issue.

use tasuki_proto::{
    stored::{self, swarm_imported, swarm_issue_event::Kind, swarm_state},
    swarm::{DeliveryId, IssueId, NextStepId, SubmissionId, TaskMessageId},
};

use super::{
    super::{CodecError, hash, id, optional, text},
    at, doc_names,
    event::{decode_doc, encode_doc},
    ms, named, numbers, optional_at, optional_bytes, optional_stamp, optional_task, score, stamp,
    stamp_bytes,
    state::{decode_delivery, encode_delivery},
    task,
    task_state::{
        decode_files, decode_message, decode_submission, decode_task, encode_message,
        encode_submission, encode_task,
    },
    tasks, texts, token,
};
use crate::rules::swarm::{
    Claimed, Closed, Delivered, DeliveryReviewed, Difficulty, ImportBegun, ImportEnd, Imported,
    ImportedAuditEntry, IssueEvent, IssueEventKind, IssueState, MessageKind, MessagePosted,
    NextStepMinted, Override, Reserved, Reviewed, Submitted, TaskCreated, Total, Verdict,
    words::AuditKind,
};

pub(super) fn encode_issue_event(event: &IssueEvent) -> stored::SwarmIssueEvent {
    let kind = match &event.what {
        IssueEventKind::Created { subject, content, paths } => {
            Kind::Created(stored::SwarmCreated {
                subject: subject.clone(),
                content: content.to_bytes(),
                paths: paths.to_bytes(),
            })
        }
        IssueEventKind::PathsSet { version, content } => {
            let (version, content) = (*version, content.to_bytes());
            Kind::PathsSet(stored::SwarmPathsSet { version, content })
        }
        IssueEventKind::Closed(it) => Kind::Closed(stored::SwarmClosed {
            reason: it.reason.clone(),
            is_accepted: it.is_accepted,
            unjudged: it.unjudged.map(|it| stamp_bytes(it.0)).unwrap_or_default(),
        }),
        IssueEventKind::Reopened { reason } => {
            Kind::Reopened(stored::SwarmReopened { reason: reason.clone() })
        }
        IssueEventKind::Lapsed => Kind::Lapsed(stored::SwarmLapsed {}),
        IssueEventKind::TaskCreated(it) => Kind::TaskCreated(stored::SwarmTaskCreated {
            task: it.task.0,
            subject: it.subject.clone(),
            difficulty: it.difficulty.code(),
            points: it.points,
            blocked_by: numbers(&it.blocked_by),
            required_docs: texts(&it.required_docs),
            plan: it.plan.to_bytes(),
        }),
        IssueEventKind::Claimed(it) => Kind::Claimed(stored::SwarmClaimed {
            task: it.task.0,
            worker: it.worker.to_string(),
            token: it.token.get(),
            lapses_ms: it.lapses.as_millis(),
            next_step: optional_bytes(it.next_step.map(|it| it.0)),
        }),
        IssueEventKind::ClaimLapsed { task, worker } => {
            Kind::ClaimLapsed(stored::SwarmClaimLapsed { task: task.0, worker: worker.to_string() })
        }
        IssueEventKind::Submitted(it) => Kind::Submitted(stored::SwarmSubmitted {
            task: it.task.0,
            submission: stamp_bytes(it.submission.0),
            worker: it.worker.to_string(),
            content: it.content.to_bytes(),
            changed_files: Vec::new(),
            supersedes: optional_bytes(it.supersedes.map(|it| it.0)),
            file_hashes: it.files.iter().map(|it| it.0).collect(),
        }),
        IssueEventKind::NextStepMinted(it) => Kind::NextStepMinted(stored::SwarmNextStepMinted {
            task: it.task.0,
            submission: stamp_bytes(it.submission.0),
            worker: it.worker.to_string(),
            score: it.score.get().into(),
            next_step: stamp_bytes(it.next_step.0),
            reserved: it.reserved.as_ref().map(|it| stored::SwarmReserved {
                task: it.task.0,
                token: it.token.get(),
                lapses_ms: it.lapses.as_millis(),
            }),
        }),
        IssueEventKind::ReservationLapsed { task, next_step } => {
            let (task, next_step) = (task.0, stamp_bytes(next_step.0));
            Kind::ReservationLapsed(stored::SwarmReservationLapsed { task, next_step })
        }
        IssueEventKind::Reviewed(it) => Kind::Reviewed(stored::SwarmReviewed {
            task: it.task.0,
            submission: stamp_bytes(it.submission.0),
            verdict: it.verdict.code(),
            score: it.score.get().into(),
            content: it.content.to_bytes(),
            next_step: optional_bytes(it.next_step.map(|it| it.0)),
            lapses_ms: ms(it.lapses),
        }),
        IssueEventKind::Reset { task, reason } => {
            Kind::Reset(stored::SwarmReset { task: task.0, reason: reason.clone() })
        }
        IssueEventKind::Canceled { task, reason, unblocked } => {
            Kind::Canceled(stored::SwarmCanceled {
                task: task.0,
                reason: reason.clone(),
                unblocked: numbers(unblocked),
            })
        }
        IssueEventKind::MessagePosted(it) => Kind::MessagePosted(stored::SwarmMessagePosted {
            task: it.task.0,
            message: stamp_bytes(it.message.0),
            sender: it.sender.to_string(),
            kind: it.kind.code(),
            content: it.content.to_bytes(),
        }),
        IssueEventKind::Replied { task, message, content } => Kind::Replied(stored::SwarmReplied {
            task: task.0,
            message: stamp_bytes(message.0),
            content: content.to_bytes(),
        }),
        IssueEventKind::DocWritten { task, doc } => {
            Kind::DocWritten(stored::SwarmIssueDocWritten {
                task: task.map_or(0, |it| it.0),
                doc: Some(encode_doc(doc)),
            })
        }
        IssueEventKind::Delivered(it) => Kind::Delivered(stored::SwarmDelivered {
            delivery: stamp_bytes(it.delivery.0),
            content: it.content.to_bytes(),
            is_passed: it.is_passed,
            commands: it.commands.iter().map(|it| it.to_bytes()).collect(),
            role: text(it.role.as_ref()),
            commit: it.commit.clone(),
        }),
        IssueEventKind::DeliveryClaimed { delivery, role, token, lapses } => {
            Kind::DeliveryClaimed(stored::SwarmDeliveryClaimed {
                delivery: stamp_bytes(delivery.0),
                role: role.to_string(),
                token: token.get(),
                lapses_ms: lapses.as_millis(),
            })
        }
        IssueEventKind::DeliveryLapsed { delivery, role } => {
            let (delivery, role) = (stamp_bytes(delivery.0), role.to_string());
            Kind::DeliveryLapsed(stored::SwarmDeliveryLapsed { delivery, role })
        }
        IssueEventKind::EvidenceAttached { delivery, number, is_passed, content } => {
            Kind::EvidenceAttached(stored::SwarmEvidenceAttached {
                delivery: stamp_bytes(delivery.0),
                number: *number,
                is_passed: *is_passed,
                content: content.to_bytes(),
            })
        }
        IssueEventKind::DeliveryReviewed(it) => {
            Kind::DeliveryReviewed(stored::SwarmDeliveryReviewed {
                delivery: stamp_bytes(it.delivery.0),
                verdict: it.verdict.code(),
                content: it.content.to_bytes(),
                overridden: it.overridden.as_ref().map(encode_override),
            })
        }
        IssueEventKind::Imported(it) => Kind::Imported(encode_imported(it)),
        IssueEventKind::TaskImported(it) => {
            let number = it.number.0;
            Kind::TaskImported(swarm_state::Task { number, ..encode_task(it) })
        }
        IssueEventKind::SubmissionImported { task, submission } => {
            let (task, submission) = (task.0, Some(encode_submission(submission)));
            Kind::SubmissionImported(stored::SwarmSubmissionImported { task, submission })
        }
        IssueEventKind::MessageImported { task, message } => {
            let (task, message) = (task.0, Some(encode_message(message)));
            Kind::MessageImported(stored::SwarmMessageImported { task, message })
        }
        IssueEventKind::DeliveryImported(it) => Kind::DeliveryImported(encode_delivery(it)),
        IssueEventKind::PointsImported { worker, total } => {
            Kind::PointsImported(swarm_state::Total {
                worker: worker.to_string(),
                points: total.points,
                low_scores: total.low_scores,
            })
        }
        IssueEventKind::ImportedAuditEntry(it) => Kind::Recalled(stored::SwarmRecalled {
            kind: it.kind.code(),
            at_ms: it.at.as_millis(),
            actor: it.actor.clone(),
            task: it.task.map_or(0, |it| it.0),
            submission: optional_bytes(it.submission.map(|it| it.0)),
            message: optional_bytes(it.message.map(|it| it.0)),
            delivery: optional_bytes(it.delivery.map(|it| it.0)),
            detail: it.detail.clone(),
            refs: it.refs.clone(),
        }),
    };
    stored::SwarmIssueEvent {
        issue: stamp_bytes(event.issue.0),
        audit: event.audit,
        kind: Some(kind),
    }
}

pub(super) fn decode_issue_event(event: stored::SwarmIssueEvent) -> Result<IssueEvent, CodecError> {
    let submission = |it: &[u8]| stamp("submission", it).map(SubmissionId);
    let delivery = |it: &[u8]| stamp("delivery", it).map(DeliveryId);
    let message = |it: &[u8]| stamp("message", it).map(TaskMessageId);
    let next_step = |it: &[u8]| optional_stamp("next_step", it).map(|it| it.map(NextStepId));
    let content = |it: &[u8]| hash("content", it);
    let kind = event.kind.ok_or(CodecError::Unknown("event of an issue"))?;
    let what = match kind {
        Kind::Created(it) => IssueEventKind::Created {
            subject: it.subject,
            content: content(&it.content)?,
            paths: hash("paths", &it.paths)?,
        },
        Kind::PathsSet(it) => {
            IssueEventKind::PathsSet { version: it.version, content: content(&it.content)? }
        }
        Kind::Closed(it) => {
            let unjudged = optional_stamp("delivery", &it.unjudged)?.map(DeliveryId);
            IssueEventKind::Closed(Closed {
                reason: it.reason,
                is_accepted: it.is_accepted,
                unjudged,
            })
        }
        Kind::Reopened(it) => IssueEventKind::Reopened { reason: it.reason },
        Kind::Lapsed(_) => IssueEventKind::Lapsed,
        Kind::TaskCreated(it) => IssueEventKind::TaskCreated(TaskCreated {
            task: task(it.task)?,
            subject: it.subject,
            difficulty: named("difficulty", Difficulty::of_code(it.difficulty))?,
            points: it.points,
            blocked_by: tasks(&it.blocked_by)?,
            required_docs: doc_names(&it.required_docs)?,
            plan: hash("plan", &it.plan)?,
        }),
        Kind::Claimed(it) => IssueEventKind::Claimed(Claimed {
            task: task(it.task)?,
            worker: id("worker", &it.worker)?,
            token: token(it.token),
            lapses: at(it.lapses_ms),
            next_step: next_step(&it.next_step)?,
        }),
        Kind::ClaimLapsed(it) => {
            IssueEventKind::ClaimLapsed { task: task(it.task)?, worker: id("worker", &it.worker)? }
        }
        Kind::Submitted(it) => IssueEventKind::Submitted(Submitted {
            task: task(it.task)?,
            submission: submission(&it.submission)?,
            worker: id("worker", &it.worker)?,
            content: content(&it.content)?,
            files: decode_files(it.file_hashes, &it.changed_files),
            supersedes: optional_stamp("supersedes", &it.supersedes)?.map(SubmissionId),
        }),
        Kind::NextStepMinted(it) => IssueEventKind::NextStepMinted(NextStepMinted {
            task: task(it.task)?,
            submission: submission(&it.submission)?,
            worker: id("worker", &it.worker)?,
            score: score(it.score)?,
            next_step: NextStepId(stamp("next_step", &it.next_step)?),
            reserved: it.reserved.map(decode_reserved).transpose()?,
        }),
        Kind::ReservationLapsed(it) => IssueEventKind::ReservationLapsed {
            task: task(it.task)?,
            next_step: NextStepId(stamp("next_step", &it.next_step)?),
        },
        Kind::Reviewed(it) => IssueEventKind::Reviewed(Reviewed {
            task: task(it.task)?,
            submission: submission(&it.submission)?,
            verdict: named("verdict", Verdict::of_code(it.verdict))?,
            score: score(it.score)?,
            content: content(&it.content)?,
            next_step: next_step(&it.next_step)?,
            lapses: optional_at(it.lapses_ms),
        }),
        Kind::Reset(it) => IssueEventKind::Reset { task: task(it.task)?, reason: it.reason },
        Kind::Canceled(it) => IssueEventKind::Canceled {
            task: task(it.task)?,
            reason: it.reason,
            unblocked: tasks(&it.unblocked)?,
        },
        Kind::MessagePosted(it) => IssueEventKind::MessagePosted(MessagePosted {
            task: task(it.task)?,
            message: message(&it.message)?,
            sender: id("sender", &it.sender)?,
            kind: named("kind", MessageKind::of_code(it.kind))?,
            content: content(&it.content)?,
        }),
        Kind::Replied(it) => IssueEventKind::Replied {
            task: task(it.task)?,
            message: message(&it.message)?,
            content: content(&it.content)?,
        },
        Kind::DocWritten(it) => IssueEventKind::DocWritten {
            task: optional_task(it.task),
            doc: decode_doc(&it.doc.ok_or(CodecError::Unknown("document"))?)?,
        },
        Kind::Delivered(it) => IssueEventKind::Delivered(Delivered {
            delivery: delivery(&it.delivery)?,
            content: content(&it.content)?,
            is_passed: it.is_passed,
            commands: it.commands.iter().map(|it| hash("command", it)).collect::<Result<_, _>>()?,
            role: optional("role", &it.role)?,
            commit: it.commit,
        }),
        Kind::DeliveryClaimed(it) => IssueEventKind::DeliveryClaimed {
            delivery: delivery(&it.delivery)?,
            role: id("role", &it.role)?,
            token: token(it.token),
            lapses: at(it.lapses_ms),
        },
        Kind::DeliveryLapsed(it) => IssueEventKind::DeliveryLapsed {
            delivery: delivery(&it.delivery)?,
            role: id("role", &it.role)?,
        },
        Kind::EvidenceAttached(it) => IssueEventKind::EvidenceAttached {
            delivery: delivery(&it.delivery)?,
            number: it.number,
            is_passed: it.is_passed,
            content: content(&it.content)?,
        },
        Kind::DeliveryReviewed(it) => IssueEventKind::DeliveryReviewed(DeliveryReviewed {
            delivery: delivery(&it.delivery)?,
            verdict: named("verdict", Verdict::of_code(it.verdict))?,
            content: content(&it.content)?,
            overridden: it.overridden.map(decode_override).transpose()?,
        }),
        Kind::Imported(it) => IssueEventKind::Imported(Box::new(decode_imported(it)?)),
        Kind::TaskImported(it) => {
            IssueEventKind::TaskImported(Box::new(decode_task(task(it.number)?, it)?))
        }
        Kind::SubmissionImported(it) => {
            let submission = it.submission.ok_or(CodecError::Unknown("submission"))?;
            let submission = Box::new(decode_submission(submission)?);
            IssueEventKind::SubmissionImported { task: task(it.task)?, submission }
        }
        Kind::MessageImported(it) => {
            let message = it.message.ok_or(CodecError::Unknown("message"))?;
            let message = Box::new(decode_message(message)?);
            IssueEventKind::MessageImported { task: task(it.task)?, message }
        }
        Kind::DeliveryImported(it) => {
            IssueEventKind::DeliveryImported(Box::new(decode_delivery(it)?))
        }
        Kind::PointsImported(it) => {
            let total = Total { points: it.points, low_scores: it.low_scores };
            IssueEventKind::PointsImported { worker: id("worker", &it.worker)?, total }
        }
        Kind::Recalled(it) => IssueEventKind::ImportedAuditEntry(Box::new(ImportedAuditEntry {
            kind: named("audit kind", AuditKind::of_code(it.kind))?,
            at: at(it.at_ms),
            actor: it.actor,
            task: optional_task(it.task),
            submission: optional_stamp("submission", &it.submission)?.map(SubmissionId),
            message: optional_stamp("message", &it.message)?.map(TaskMessageId),
            delivery: optional_stamp("delivery", &it.delivery)?.map(DeliveryId),
            detail: it.detail,
            refs: it.refs,
        })),
    };
    Ok(IssueEvent { issue: IssueId(stamp("issue", &event.issue)?), audit: event.audit, what })
}

fn encode_imported(it: &Imported) -> stored::SwarmImported {
    let begin = it.begin.as_ref().map(|it| swarm_imported::Begin {
        subject: it.subject.clone(),
        content: it.content.to_bytes(),
        paths: it.paths.to_bytes(),
        created_ms: it.created.as_millis(),
    });
    let end = it
        .end
        .map(|it| swarm_imported::End { state: it.state.code(), is_accepted: it.is_accepted });
    let (content, part, parts) = (it.content.to_bytes(), it.part, it.parts);
    stored::SwarmImported { content, part, parts, begin, end }
}

fn decode_imported(it: stored::SwarmImported) -> Result<Imported, CodecError> {
    let begin = it.begin.map(|it| {
        Ok(ImportBegun {
            subject: it.subject,
            content: hash("content", &it.content)?,
            paths: hash("paths", &it.paths)?,
            created: at(it.created_ms),
        })
    });
    let end = it.end.map(|it| {
        let state = named("state of an issue", IssueState::of_code(it.state))?;
        Ok(ImportEnd { state, is_accepted: it.is_accepted })
    });
    Ok(Imported {
        content: hash("content", &it.content)?,
        part: it.part,
        parts: it.parts,
        begin: begin.transpose()?,
        end: end.transpose()?,
    })
}

fn decode_reserved(it: stored::SwarmReserved) -> Result<Reserved, CodecError> {
    let lapses = at(it.lapses_ms);
    Ok(Reserved { task: task(it.task)?, token: token(it.token), lapses })
}

pub(super) fn encode_override(it: &Override) -> stored::SwarmOverride {
    stored::SwarmOverride { person: it.person.to_string(), reason: it.reason.clone() }
}

pub(super) fn decode_override(it: stored::SwarmOverride) -> Result<Override, CodecError> {
    Ok(Override { person: id("person", &it.person)?, reason: it.reason })
}
