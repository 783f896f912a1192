//! What a role can wait for, and the answer: one question and one answer, whoever waits for what.
//!
//! A wait shows state and consumes nothing.

use std::{cmp::Ordering, collections::BTreeSet};

use tasuki_proto::{
    board::ChannelName,
    id::{BoardName, LoopId, RoleId},
    mail::MessageType,
    run::{RunId, StepId},
    swarm::{DeliveryId, IssueId, SubmissionId, TaskMessageId},
    wire::{
        self, board_answer, mail_answer, park_request, run_answer, run_question, swarm_answer,
        swarm_question::Ask,
    },
};

use crate::step_key::StepKey;

/// One thing that a role waits for. Of its waits for the same the newest counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// Its turn in this loop.
    Turn(LoopId),
    /// Unseen mail.
    Mail(MailFilter),
    /// Something about issues, tasks, deliveries or locks.
    Swarm(Awaited),
    /// A change of a board.
    Board(BoardAwaited),
    /// Something about runs of sub-agents.
    Run(RunAwaited),
}

/// The answer to a [`Question`], of its kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Turn(Box<wire::TurnAnswer>),
    Mail(Box<wire::MailAnswer>),
    Swarm(Box<wire::SwarmAnswer>),
    Board(Box<wire::BoardAnswer>),
    Run(Box<wire::RunAnswer>),
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

/// Which change of a board a role waits for. Two of the same channels are for the same, whichever
/// checkpoint is known.
#[derive(Debug, Clone)]
pub struct BoardAwaited {
    pub board: BoardName,
    /// Only these; empty: any.
    pub channels: BTreeSet<ChannelName>,
    /// The checkpoint that is known; 0: none.
    pub after: u64,
}

impl BoardAwaited {
    const fn what(&self) -> (&BoardName, &BTreeSet<ChannelName>) {
        (&self.board, &self.channels)
    }

    fn answer(&self, standing: board_answer::Standing) -> Answer {
        let board = self.board.to_string();
        let standing = standing.into();
        Answer::Board(Box::new(wire::BoardAnswer { standing, board, ..Default::default() }))
    }
}

impl PartialEq for BoardAwaited {
    fn eq(&self, other: &Self) -> bool {
        self.what() == other.what()
    }
}

impl Eq for BoardAwaited {}

impl PartialOrd for BoardAwaited {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for BoardAwaited {
    fn cmp(&self, other: &Self) -> Ordering {
        self.what().cmp(&other.what())
    }
}

/// What of runs can be waited for, by a role, a sub-agent or a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunAwaited {
    /// The end of a run, or a message newer than `after`. `by` is the sub-agent that asks, if none
    /// of the node's roles does.
    Run { run: RunId, after: u32, by: Option<StepKey> },
    /// The reply to a sub-agent's question of this number.
    Reply { by: StepKey, message: u32 },
    /// A step for this node, or one of its steps that is to be stopped.
    Steps(StepOffer),
}

/// What a node runs, and for whom.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepOffer {
    pub runners: BTreeSet<String>,
    pub labels: BTreeSet<String>,
    /// Steps that it takes in at present.
    pub places: u32,
    /// Also those that other machines ask for.
    pub accepts_elsewhere: bool,
    /// Steps of which it knows that they are to be stopped.
    pub stopping: BTreeSet<StepId>,
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

impl RunAwaited {
    /// The sub-agent that asks, and what.
    fn to_wire(&self) -> (Option<wire::StepKey>, run_question::Ask) {
        match self {
            Self::Run { run, after, by } => {
                let question = wire::RunEndQuestion { run_id: run.to_string(), after: *after };
                (by.as_ref().map(StepKey::to_wire), run_question::Ask::Run(question))
            }
            Self::Reply { by, message } => {
                (Some(by.to_wire()), run_question::Ask::Message(*message))
            }
            Self::Steps(offer) => (None, run_question::Ask::Offer(offer.to_wire())),
        }
    }
}

impl StepOffer {
    fn to_wire(&self) -> wire::RunnerOffer {
        let step_ref = |it: &StepId| wire::StepRef { run_id: it.run.to_string(), step: it.number };
        wire::RunnerOffer {
            // The caller's.
            node: String::new(),
            runners: self.runners.iter().cloned().collect(),
            labels: self.labels.iter().cloned().collect(),
            places: self.places,
            accepts_elsewhere: self.accepts_elsewhere,
            stopping: self.stopping.iter().map(step_ref).collect(),
        }
    }
}

impl Question {
    /// The question as the broker is asked it.
    pub fn to_wire(
        &self,
        caller: wire::Caller,
        role: Option<&RoleId>,
        hold_ms: u64,
    ) -> park_request::Ask {
        let (caller, role) = (Some(caller), role.map(RoleId::to_string).unwrap_or_default());
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
            Self::Board(BoardAwaited { board, channels, after }) => {
                park_request::Ask::Board(wire::BoardQuestion {
                    caller,
                    role,
                    board: board.to_string(),
                    channels: channels.iter().map(ToString::to_string).collect(),
                    after_checkpoint: *after,
                    hold_ms,
                })
            }
            Self::Run(awaited) => {
                let (step, ask) = awaited.to_wire();
                let role = if step.is_some() { String::new() } else { role };
                let ask = Some(ask);
                park_request::Ask::Run(wire::RunQuestion { caller, role, step, hold_ms, ask })
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
            Self::Board(it) => it.answer(board_answer::Standing::StillWaiting),
            Self::Run(_) => Answer::run(run_answer::Standing::StillWaiting),
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
            Self::Board(it) => it.answer(board_answer::Standing::Superseded),
            Self::Run(_) => Answer::run(run_answer::Standing::Superseded),
        }
    }

    /// Whether an answer is one to this kind of question.
    pub const fn is_answered_by(&self, answer: &Answer) -> bool {
        match self {
            Self::Turn(_) => matches!(answer, Answer::Turn(_)),
            Self::Mail(_) => matches!(answer, Answer::Mail(_)),
            Self::Swarm(_) => matches!(answer, Answer::Swarm(_)),
            Self::Board(_) => matches!(answer, Answer::Board(_)),
            Self::Run(_) => matches!(answer, Answer::Run(_)),
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

    fn run(standing: run_answer::Standing) -> Self {
        Self::Run(Box::new(wire::RunAnswer { standing: standing.into(), ..Default::default() }))
    }

    /// Whether what was waited for is there.
    pub fn is_ready(&self) -> bool {
        match self {
            Self::Turn(answer) => answer.can_start || answer.is_finished,
            Self::Mail(answer) => answer.standing() == mail_answer::Standing::Mail,
            Self::Swarm(answer) => answer.standing() == swarm_answer::Standing::There,
            Self::Board(answer) => answer.standing() == board_answer::Standing::Changed,
            Self::Run(answer) => answer.standing() == run_answer::Standing::There,
        }
    }

    /// Whether the hold is over. A wait that was superseded ends alone; the newer one is open.
    pub fn is_still_waiting(&self) -> bool {
        match self {
            Self::Turn(answer) => answer.still_waiting && !answer.superseded,
            Self::Mail(answer) => answer.standing() == mail_answer::Standing::StillWaiting,
            Self::Swarm(answer) => answer.standing() == swarm_answer::Standing::StillWaiting,
            Self::Board(answer) => answer.standing() == board_answer::Standing::StillWaiting,
            Self::Run(answer) => answer.standing() == run_answer::Standing::StillWaiting,
        }
    }
}
