//! What a role can wait for, and the answer: one question and one answer, whoever waits for what.
//!
//! A wait shows state and consumes nothing.

use tasuki_proto::{
    id::{LoopId, RoleId},
    mail::MessageType,
    swarm::{DeliveryId, IssueId, SubmissionId, TaskMessageId},
    wire::{self, mail_answer, park_request, swarm_answer, swarm_question::Ask},
};

/// One thing that a role waits for. Of its waits for the same the newest counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// Its turn in this loop.
    Turn(LoopId),
    /// Unseen mail.
    Mail(MailFilter),
    /// Something about issues, tasks, deliveries or locks.
    Swarm(Awaited),
}

/// The answer to a [`Question`], of its kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Turn(Box<wire::TurnAnswer>),
    Mail(Box<wire::MailAnswer>),
    Swarm(Box<wire::SwarmAnswer>),
}

/// Which mail a role waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MailFilter {
    pub kind: Option<MessageType>,
    pub sender: Option<RoleId>,
}

/// What of issues, tasks, deliveries and locks a role can wait for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Awaited {
    /// Issues in this state, so many at most.
    Issues { state: IssuesIn, limit: u32 },
    /// A task of this issue that the role may claim.
    Tasks(IssueId),
    /// Something that the lead of this issue is to know of.
    Items(IssueId),
    /// The verdict on this submission.
    Review(SubmissionId),
    /// The reply to this message.
    Reply(TaskMessageId),
    /// Deliveries to be claimed, or that the role has claimed; so many at most, 0: all.
    Deliveries { limit: u32 },
    /// The verdict on this delivery.
    Verdict(DeliveryId),
    /// That these files are free.
    Files { repository: String, patterns: Vec<String>, is_case_folded: bool },
}

/// States of issues that can be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum IssuesIn {
    Open,
    Done,
    Canceled,
}

impl Awaited {
    fn to_wire(&self) -> Ask {
        match self {
            Self::Issues { state, limit: _ } => {
                let status = match state {
                    IssuesIn::Open => wire::IssueStatus::Open,
                    IssuesIn::Done => wire::IssueStatus::Done,
                    IssuesIn::Canceled => wire::IssueStatus::Canceled,
                };
                Ask::Issues(status.into())
            }
            Self::Tasks(issue) => Ask::TasksOf(issue.to_string()),
            Self::Items(issue) => Ask::ItemsOf(issue.to_string()),
            Self::Review(submission) => Ask::Submission(submission.to_string()),
            Self::Reply(message) => Ask::Message(message.to_string()),
            Self::Deliveries { limit: _ } => Ask::Deliveries(true),
            Self::Verdict(delivery) => Ask::Delivery(delivery.to_string()),
            Self::Files { repository, patterns, is_case_folded } => Ask::Files(wire::FileSet {
                repository: repository.clone(),
                patterns: patterns.clone(),
                is_case_folded: *is_case_folded,
            }),
        }
    }
}

impl Question {
    /// The question as the broker is asked it.
    pub fn to_wire(&self, caller: wire::Caller, role: &RoleId, hold_ms: u64) -> park_request::Ask {
        let (caller, role) = (Some(caller), role.to_string());
        match self {
            Self::Turn(loop_id) => {
                let r#loop = loop_id.to_string();
                park_request::Ask::Turn(wire::TurnQuestion { caller, r#loop, role, hold_ms })
            }
            Self::Mail(MailFilter { kind, sender }) => {
                park_request::Ask::Mail(wire::AwaitMailRequest {
                    caller,
                    role,
                    hold_ms,
                    r#type: kind.map(|kind| kind.to_string()).unwrap_or_default(),
                    sender: sender.as_ref().map(RoleId::to_string).unwrap_or_default(),
                    // Reported separately, once the agent has it.
                    mark: wire::MailMark::None.into(),
                })
            }
            Self::Swarm(awaited) => {
                let ask = Some(awaited.to_wire());
                park_request::Ask::Swarm(wire::SwarmQuestion { caller, role, hold_ms, ask })
            }
        }
    }

    /// The hold is over, and nothing happened.
    pub fn still_waiting(&self) -> Answer {
        match self {
            Self::Turn(loop_id) => Answer::Turn(Box::new(wire::TurnAnswer {
                still_waiting: true,
                r#loop: loop_id.to_string(),
                ..Default::default()
            })),
            Self::Mail(_) => Answer::mail(mail_answer::Standing::StillWaiting),
            Self::Swarm(_) => Answer::swarm(swarm_answer::Standing::StillWaiting),
        }
    }

    /// A newer wait for the same took this one's place.
    pub fn superseded(&self) -> Answer {
        match self {
            Self::Turn(loop_id) => Answer::Turn(Box::new(wire::TurnAnswer {
                superseded: true,
                r#loop: loop_id.to_string(),
                ..Default::default()
            })),
            Self::Mail(_) => Answer::mail(mail_answer::Standing::Superseded),
            Self::Swarm(_) => Answer::swarm(swarm_answer::Standing::Superseded),
        }
    }

    /// Whether an answer is one to this kind of question.
    pub const fn is_answered_by(&self, answer: &Answer) -> bool {
        match self {
            Self::Turn(_) => matches!(answer, Answer::Turn(_)),
            Self::Mail(_) => matches!(answer, Answer::Mail(_)),
            Self::Swarm(_) => matches!(answer, Answer::Swarm(_)),
        }
    }
}

impl Answer {
    fn mail(standing: mail_answer::Standing) -> Self {
        Self::Mail(Box::new(wire::MailAnswer { standing: standing.into(), ..Default::default() }))
    }

    fn swarm(standing: swarm_answer::Standing) -> Self {
        Self::Swarm(Box::new(wire::SwarmAnswer { standing: standing.into(), ..Default::default() }))
    }

    /// Whether what was waited for is there.
    pub fn is_ready(&self) -> bool {
        match self {
            Self::Turn(answer) => answer.can_start || answer.is_finished,
            Self::Mail(answer) => answer.standing() == mail_answer::Standing::Mail,
            Self::Swarm(answer) => answer.standing() == swarm_answer::Standing::There,
        }
    }

    /// Whether the hold is over. A wait that was superseded ends alone; the newer one is open.
    pub fn is_still_waiting(&self) -> bool {
        match self {
            Self::Turn(answer) => answer.still_waiting && !answer.superseded,
            Self::Mail(answer) => answer.standing() == mail_answer::Standing::StillWaiting,
            Self::Swarm(answer) => answer.standing() == swarm_answer::Standing::StillWaiting,
        }
    }
}
