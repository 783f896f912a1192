//! Tasks with their submissions and messages, as a snapshot holds them.

use bytes::Bytes;
use tasuki_proto::{
    stored::swarm_state,
    swarm::{NextStepId, SubmissionId, TaskMessageId, TaskNumber},
};

use super::{
    super::{CodecError, hash, id, optional, text},
    at, doc_names, ms, named, numbers, optional_at, optional_bytes, optional_stamp, optional_task,
    score, stamp, stamp_bytes,
    state::{decode_docs, decode_lease, encode_docs, encode_lease},
    tasks, texts, token,
};
use crate::rules::swarm::{
    Claim, Difficulty, FileHash, Judged, Message, MessageKind, MessageState, NextStepOffer,
    PreviousClaim, Reservation, Submission, SubmissionState, Task, TaskState, Total, Verdict,
};

pub(super) fn encode_task(it: &Task) -> swarm_state::Task {
    swarm_state::Task {
        number: 0,
        subject: it.subject.clone(),
        difficulty: it.difficulty.code(),
        points: it.points,
        state: it.state.code(),
        blocked_by: numbers(&it.blocked_by),
        required_docs: texts(&it.required_docs),
        plan: it.plan.to_bytes(),
        by: text(it.by.as_ref()),
        created_ms: it.created.as_millis(),
        updated_ms: it.updated.as_millis(),
        claim: it.claim.as_ref().map(|it| swarm_state::Claim {
            role: it.worker.to_string(),
            token: it.token.get(),
            lease: encode_lease(it.lease),
            claimed_ms: it.claimed.as_millis(),
        }),
        former: it.former.as_ref().map(|it| swarm_state::Former {
            worker: it.worker.to_string(),
            token: it.token.get(),
            is_reset: it.is_reset,
        }),
        reservation: it.reservation.as_ref().map(|it| swarm_state::Reservation {
            next_step: stamp_bytes(it.next_step.0),
            worker: it.worker.to_string(),
            token: it.token.get(),
            lease: encode_lease(it.lease),
            is_attached: it.is_attached,
        }),
        submissions: it.submissions.iter().map(encode_submission).collect(),
        messages: it.messages.iter().map(encode_message).collect(),
        docs: encode_docs(&it.docs),
    }
}

pub(super) fn decode_task(number: TaskNumber, it: swarm_state::Task) -> Result<Task, CodecError> {
    let claim = it.claim.map(|it| {
        Ok(Claim {
            worker: id("worker", &it.role)?,
            token: token(it.token),
            lease: decode_lease(it.lease)?,
            claimed: at(it.claimed_ms),
        })
    });
    let former = it.former.map(|it| {
        let (token, is_reset) = (token(it.token), it.is_reset);
        Ok(PreviousClaim { worker: id("worker", &it.worker)?, token, is_reset })
    });
    let reservation = it.reservation.map(|it| {
        Ok(Reservation {
            next_step: NextStepId(stamp("next_step", &it.next_step)?),
            worker: id("worker", &it.worker)?,
            token: token(it.token),
            lease: decode_lease(it.lease)?,
            is_attached: it.is_attached,
        })
    });
    let mut task = Task::blank(number, it.subject, at(it.created_ms));
    task.difficulty = named("difficulty", Difficulty::of_code(it.difficulty))?;
    task.points = it.points;
    task.state = named("state of a task", TaskState::of_code(it.state))?;
    task.blocked_by = tasks(&it.blocked_by)?;
    task.required_docs = doc_names(&it.required_docs)?;
    task.plan = hash("plan", &it.plan)?;
    task.by = optional("by", &it.by)?;
    task.updated = at(it.updated_ms);
    task.claim = claim.transpose()?;
    task.former = former.transpose()?;
    task.reservation = reservation.transpose()?;
    task.submissions =
        it.submissions.into_iter().map(decode_submission).collect::<Result<_, _>>()?;
    task.messages = it.messages.into_iter().map(decode_message).collect::<Result<_, _>>()?;
    task.docs = decode_docs(it.docs)?;
    Ok(task)
}

pub(super) fn encode_submission(it: &Submission) -> swarm_state::Submission {
    swarm_state::Submission {
        id: stamp_bytes(it.id.0),
        worker: it.worker.to_string(),
        content: it.content.to_bytes(),
        at_ms: it.at.as_millis(),
        state: it.state.code(),
        reviewed: it.reviewed.as_ref().map(|it| swarm_state::Judged {
            verdict: it.verdict.code(),
            score: it.score.get().into(),
            content: it.content.to_bytes(),
            at_ms: it.at.as_millis(),
            by: text(it.by.as_ref()),
            next_step: optional_bytes(it.next_step.map(|it| it.0)),
            earned: it.total.map(encode_earned),
        }),
        minted: it.minted.as_ref().map(|it| swarm_state::Minted {
            next_step: stamp_bytes(it.next_step.0),
            score: it.score.get().into(),
            task: it.task.map_or(0, |it| it.0),
            earned: it.total.map(encode_earned),
        }),
        changed_files: Vec::new(),
        item: it.item,
        file_hashes: it.files.iter().map(|it| it.0).collect(),
    }
}

pub(super) fn decode_submission(it: swarm_state::Submission) -> Result<Submission, CodecError> {
    let reviewed = it.reviewed.map(|it| {
        Ok(Judged {
            verdict: named("verdict", Verdict::of_code(it.verdict))?,
            score: score(it.score)?,
            content: hash("content", &it.content)?,
            at: at(it.at_ms),
            by: optional("by", &it.by)?,
            next_step: optional_stamp("next_step", &it.next_step)?.map(NextStepId),
            total: it.earned.map(decode_earned),
        })
    });
    let minted = it.minted.map(|it| {
        let next_step = NextStepId(stamp("next_step", &it.next_step)?);
        let (score, task) = (score(it.score)?, optional_task(it.task));
        Ok(NextStepOffer { next_step, score, task, total: it.earned.map(decode_earned) })
    });
    Ok(Submission {
        id: SubmissionId(stamp("submission", &it.id)?),
        worker: id("worker", &it.worker)?,
        content: hash("content", &it.content)?,
        at: at(it.at_ms),
        state: named("state of a submission", SubmissionState::of_code(it.state))?,
        reviewed: reviewed.transpose()?,
        minted: minted.transpose()?,
        files: decode_files(it.file_hashes, &it.changed_files),
        item: it.item,
    })
}

/// Hashes of changed files' names; older bytes have the names.
pub(super) fn decode_files(hashes: Vec<u64>, names: &[String]) -> Vec<FileHash> {
    let of_names = names.iter().map(|it| FileHash::of(it));
    hashes.into_iter().map(FileHash).chain(of_names).collect()
}

pub(super) fn encode_message(it: &Message) -> swarm_state::Message {
    swarm_state::Message {
        id: stamp_bytes(it.id.0),
        sender: it.sender.to_string(),
        kind: it.kind.code(),
        content: it.content.to_bytes(),
        at_ms: it.at.as_millis(),
        state: it.state.code(),
        replied_ms: ms(it.replied),
        replied_by: text(it.replied_by.as_ref()),
        reply: it.reply.map_or_else(Bytes::new, |it| it.to_bytes()),
        item: it.item,
    }
}

pub(super) fn decode_message(it: swarm_state::Message) -> Result<Message, CodecError> {
    let reply = (!it.reply.is_empty()).then(|| hash("reply", &it.reply));
    Ok(Message {
        id: TaskMessageId(stamp("message", &it.id)?),
        sender: id("sender", &it.sender)?,
        kind: named("kind", MessageKind::of_code(it.kind))?,
        content: hash("content", &it.content)?,
        at: at(it.at_ms),
        state: named("state of a message", MessageState::of_code(it.state))?,
        replied: optional_at(it.replied_ms),
        replied_by: optional("replied_by", &it.replied_by)?,
        reply: reply.transpose()?,
        item: it.item,
    })
}

const fn encode_earned(it: Total) -> swarm_state::Earned {
    swarm_state::Earned { points: it.points, low_scores: it.low_scores }
}

const fn decode_earned(it: swarm_state::Earned) -> Total {
    Total { points: it.points, low_scores: it.low_scores }
}
