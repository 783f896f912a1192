//! What commands about issues, tasks, locks and deliveries answered.

use tasuki_proto::{
    stored::{
        self,
        swarm_reply::{self, Kind},
    },
    swarm::{DeliveryId, IssueId, LockId, NextStepId, SubmissionId, TaskMessageId},
};

use super::{
    super::CodecError, at, ms, named, optional_at, optional_bytes, optional_stamp, optional_task,
    stamp, stamp_bytes, task, token,
};
use crate::rules::swarm::{Difficulty, NextStep, Reply};

pub(in crate::journal::codec) fn encode_reply(reply: &Reply) -> stored::SwarmReply {
    let kind = match reply {
        Reply::Issue(it) => Kind::Issue(stamp_bytes(it.0)),
        Reply::Tasks { first, count } => {
            Kind::Tasks(swarm_reply::Tasks { first: first.0, count: *count })
        }
        Reply::Granted { token, lapses } => Kind::Granted(swarm_reply::Granted {
            token: token.get(),
            lapses_ms: lapses.as_millis(),
        }),
        Reply::Submitted(it) => Kind::Submitted(stamp_bytes(it.0)),
        Reply::NextStep(it) => Kind::NextStep(swarm_reply::NextStep {
            next_step: stamp_bytes(it.next_step.0),
            task: it.task.map_or(0, |it| it.0),
            difficulty: it.difficulty.code(),
            points: it.points,
            low_scores: it.low_scores,
            lapses_ms: ms(it.lapses),
        }),
        Reply::Reviewed { submission, next_step } => Kind::Reviewed(swarm_reply::Reviewed {
            submission: stamp_bytes(submission.0),
            next_step: optional_bytes(next_step.map(|it| it.0)),
        }),
        Reply::Message(it) => Kind::Message(stamp_bytes(it.0)),
        Reply::Delivered(it) => Kind::Delivered(stamp_bytes(it.0)),
        Reply::Evidence { number } => Kind::Evidence(*number),
        Reply::Locked { lock, token, lapses } => Kind::Locked(swarm_reply::Locked {
            lock: stamp_bytes(lock.0),
            token: token.get(),
            lapses_ms: lapses.as_millis(),
        }),
        Reply::Doc { version } => Kind::Doc(*version),
        Reply::Kept { lapses } => Kind::KeptMs(ms(*lapses)),
    };
    stored::SwarmReply { kind: Some(kind) }
}

pub(in crate::journal::codec) fn decode_reply(
    reply: stored::SwarmReply,
) -> Result<Reply, CodecError> {
    Ok(match reply.kind.ok_or(CodecError::Unknown("reply"))? {
        Kind::Issue(it) => Reply::Issue(IssueId(stamp("issue", &it)?)),
        Kind::Tasks(it) => Reply::Tasks { first: task(it.first)?, count: it.count },
        Kind::Granted(it) => Reply::Granted { token: token(it.token), lapses: at(it.lapses_ms) },
        Kind::Submitted(it) => Reply::Submitted(SubmissionId(stamp("submission", &it)?)),
        Kind::NextStep(it) => Reply::NextStep(NextStep {
            next_step: NextStepId(stamp("next_step", &it.next_step)?),
            task: optional_task(it.task),
            difficulty: named("difficulty", Difficulty::of_code(it.difficulty))?,
            points: it.points,
            low_scores: it.low_scores,
            lapses: optional_at(it.lapses_ms),
        }),
        Kind::Reviewed(it) => Reply::Reviewed {
            submission: SubmissionId(stamp("submission", &it.submission)?),
            next_step: optional_stamp("next_step", &it.next_step)?.map(NextStepId),
        },
        Kind::Message(it) => Reply::Message(TaskMessageId(stamp("message", &it)?)),
        Kind::Delivered(it) => Reply::Delivered(DeliveryId(stamp("delivery", &it)?)),
        Kind::Evidence(number) => Reply::Evidence { number },
        Kind::Locked(it) => Reply::Locked {
            lock: LockId(stamp("lock", &it.lock)?),
            token: token(it.token),
            lapses: at(it.lapses_ms),
        },
        Kind::Doc(version) => Reply::Doc { version },
        Kind::KeptMs(ms) => Reply::Kept { lapses: optional_at(ms) },
    })
}
