//! What can be waited for, and where its answer goes.

use tasuki_proto::{
    id::{LoopId, RoleId},
    wire::{self, mail_answer, park_request::Ask, park_response::Outcome, swarm_answer},
};
use tokio::sync::oneshot;

use crate::role::{Refusal, mail::MailFilter, swarm::Awaited};

/// Where an answer of one kind goes. Nobody may be left to hear it.
pub(super) type Reply<T> = oneshot::Sender<Result<T, Refusal>>;

/// One question, with its only way back to whoever asked.
#[derive(Debug)]
pub(super) enum Question {
    Turn(LoopId, Reply<wire::TurnAnswer>),
    Mail(MailFilter, Reply<wire::MailAnswer>),
    Swarm(Awaited, Reply<wire::SwarmAnswer>),
}

impl Question {
    /// Whether whoever asked went away.
    pub(super) fn is_closed(&self) -> bool {
        match self {
            Self::Turn(_, reply) => reply.is_closed(),
            Self::Mail(_, reply) => reply.is_closed(),
            Self::Swarm(_, reply) => reply.is_closed(),
        }
    }

    /// As it is put to the broker.
    pub(super) fn ask(&self, caller: wire::Caller, role: &RoleId, hold_ms: u64) -> Ask {
        let (caller, role) = (Some(caller), role.to_string());
        match self {
            Self::Turn(loop_id, _) => {
                let r#loop = loop_id.to_string();
                Ask::Turn(wire::TurnQuestion { caller, r#loop, role, hold_ms })
            }
            Self::Mail(MailFilter { kind, sender }, _) => Ask::Mail(wire::AwaitMailRequest {
                caller,
                role,
                hold_ms,
                r#type: kind.map(|kind| kind.to_string()).unwrap_or_default(),
                sender: sender.as_ref().map(RoleId::to_string).unwrap_or_default(),
                // Told by itself, once the agent has it.
                mark: wire::MailMark::None.into(),
            }),
            Self::Swarm(awaited, _) => {
                let ask = Some(awaited.to_wire());
                Ask::Swarm(wire::SwarmQuestion { caller, role, hold_ms, ask })
            }
        }
    }

    pub(super) fn refuse(self, refusal: Refusal) {
        // The caller may be gone; a wait consumes nothing, so nothing is lost.
        match self {
            Self::Turn(_, reply) => drop(reply.send(Err(refusal))),
            Self::Mail(_, reply) => drop(reply.send(Err(refusal))),
            Self::Swarm(_, reply) => drop(reply.send(Err(refusal))),
        }
    }

    pub(super) fn still_waiting(self) {
        match self {
            Self::Turn(loop_id, reply) => drop(reply.send(Ok(wire::TurnAnswer {
                still_waiting: true,
                r#loop: loop_id.to_string(),
                ..wire::TurnAnswer::default()
            }))),
            Self::Mail(_, reply) => drop(reply.send(Ok(wire::MailAnswer {
                standing: mail_answer::Standing::StillWaiting.into(),
                ..wire::MailAnswer::default()
            }))),
            Self::Swarm(_, reply) => drop(reply.send(Ok(wire::SwarmAnswer {
                standing: swarm_answer::Standing::StillWaiting.into(),
                ..wire::SwarmAnswer::default()
            }))),
        }
    }
}

/// An answer of the broker's, of whichever kind.
#[derive(Debug)]
pub(super) enum Told {
    Turn(Box<wire::TurnAnswer>),
    Mail(Box<wire::MailAnswer>),
    Swarm(Box<wire::SwarmAnswer>),
}

impl Told {
    /// What was said about a wait; else why nothing was.
    pub(super) fn of(outcome: Option<Outcome>) -> Result<Self, wire::Refusal> {
        match outcome {
            Some(Outcome::Turn(answer)) => Ok(Self::Turn(Box::new(answer))),
            Some(Outcome::Mail(answer)) => Ok(Self::Mail(Box::new(answer))),
            Some(Outcome::Refusal(refusal)) => Err(refusal),
            Some(Outcome::Swarm(answer)) => Ok(Self::Swarm(Box::new(answer))),
            None => Err(wire::Refusal::default()),
        }
    }

    /// Whether it says that the hold is over. A wait that was superseded ends alone; the newer one
    /// is open.
    pub(super) fn is_still_waiting(&self) -> bool {
        match self {
            Self::Turn(answer) => answer.still_waiting && !answer.superseded,
            Self::Mail(answer) => answer.standing() == mail_answer::Standing::StillWaiting,
            Self::Swarm(answer) => answer.standing() == swarm_answer::Standing::StillWaiting,
        }
    }

    /// Hands it to whoever asked `question`; a question that was not of this kind comes back.
    pub(super) fn answer(self, question: Question) -> Result<(), Question> {
        match (self, question) {
            (Self::Turn(answer), Question::Turn(_, reply)) => drop(reply.send(Ok(*answer))),
            (Self::Mail(answer), Question::Mail(_, reply)) => drop(reply.send(Ok(*answer))),
            (Self::Swarm(answer), Question::Swarm(_, reply)) => drop(reply.send(Ok(*answer))),
            (Self::Turn(_), question @ (Question::Mail(..) | Question::Swarm(..)))
            | (Self::Mail(_), question @ (Question::Turn(..) | Question::Swarm(..)))
            | (Self::Swarm(_), question @ (Question::Turn(..) | Question::Mail(..))) => {
                return Err(question);
            }
        }
        Ok(())
    }
}
