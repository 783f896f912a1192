//! What roles wait for here, and what they are told. Shows state, changes nothing.
//!
//! A wait is over as soon as the state says what was waited for, and also when that cannot come
//! any more: the task was reset, the submission superseded, the issue closed (I6).

use std::fmt;

use tasuki_proto::{
    id::{RoleId, Timestamp},
    swarm::{DeliveryId, IssueId, SubmissionId, TaskMessageId, TaskNumber},
};

use super::{
    DeliveryState, Event, Happened, Issue, IssueState, Item, MessageState, OfIssue, Rejection,
    SubmissionState, Swarm, TaskState, Verdict,
    lock::{Conflict, Effort, LockKey},
};

/// Issues or deliveries that one answer names.
const NAMED_MAX: usize = 50;

/// What looking once whether the files of one wait are locked may take, in steps. There may be
/// thousands of waits.
const WAIT_STEPS_MAX: usize = 64 * 1024;

/// What a role waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// An issue in this state.
    Issues(IssueState),
    /// A task to claim.
    Tasks(IssueId),
    /// Something for the lead to look at.
    Events(IssueId),
    Review(SubmissionId),
    Reply(TaskMessageId),
    /// A delivery to review.
    Deliveries,
    Verdict(DeliveryId),
    /// Files that can be locked.
    Locks(Vec<LockKey>),
}

impl fmt::Display for Question {
    /// For people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Issues(state) => write!(f, "an issue that is {state}"),
            Self::Tasks(issue) => write!(f, "a task of {issue}"),
            Self::Events(issue) => write!(f, "events of {issue}"),
            Self::Review(submission) => write!(f, "a review of {submission}"),
            Self::Reply(message) => write!(f, "a reply to {message}"),
            Self::Deliveries => f.write_str("a delivery"),
            Self::Verdict(delivery) => write!(f, "a verdict on {delivery}"),
            Self::Locks(keys) => write!(f, "{} files to be unlocked", keys.len()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The newest first.
    Issues(Vec<IssueId>),
    Tasks(TasksAnswer),
    Events(EventsAnswer),
    /// [`SubmissionState::Open`]: not yet.
    Review {
        submission: SubmissionId,
        state: SubmissionState,
    },
    /// [`MessageState::Open`]: not yet.
    Reply {
        message: TaskMessageId,
        state: MessageState,
    },
    /// The role's own first, then those that are open, the oldest first.
    Deliveries(Vec<DeliveryId>),
    Verdict {
        delivery: DeliveryId,
        state: DeliveryState,
    },
    /// `None`: they are free.
    Locks(Option<Box<Conflict>>),
}

/// What a worker that waits for a task is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TasksAnswer {
    pub of: IssueId,
    /// Offered to this worker.
    pub task: Option<TaskNumber>,
    /// How many can be claimed by anybody.
    pub ready: usize,
    /// Otherwise than [`IssueState::Open`]: none will come.
    pub issue: IssueState,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventsAnswer {
    pub of: IssueId,
    /// And its number in the audit.
    pub item: Option<(u64, Item)>,
    /// Items that are there, handed or not.
    pub items: usize,
    pub issue: IssueState,
}

impl Answer {
    /// Whether the state says what was waited for, or that it will not come.
    pub fn is_there(&self) -> bool {
        match self {
            Self::Issues(it) => !it.is_empty(),
            Self::Tasks(it) => it.task.is_some() || it.issue != IssueState::Open,
            Self::Events(it) => it.item.is_some() || it.issue != IssueState::Open,
            Self::Review { state, .. } => *state != SubmissionState::Open,
            Self::Reply { state, .. } => *state != MessageState::Open,
            Self::Deliveries(it) => !it.is_empty(),
            Self::Verdict { state, .. } => !state.is_open(),
            Self::Locks(it) => it.is_none(),
        }
    }
}

impl Swarm {
    /// What `role` is told at `now`. `is_free` says whether a task was offered to nobody else.
    ///
    /// # Errors
    /// When what is asked about is not there.
    pub fn answer(
        &self,
        now: Timestamp,
        role: &RoleId,
        question: &Question,
        is_free: impl Fn(TaskNumber) -> bool,
    ) -> Result<Answer, Rejection> {
        Ok(match question {
            Question::Issues(state) => Answer::Issues(
                self.issues_in(*state).iter().rev().take(NAMED_MAX).copied().collect(),
            ),
            Question::Tasks(id) => {
                let issue = self.issue(*id)?;
                let task = issue.task_for(now, role, is_free);
                let (ready, state) = (issue.ready.len(), issue.state);
                Answer::Tasks(TasksAnswer { of: *id, task, ready, issue: state })
            }
            Question::Events(id) => {
                let issue = self.issue(*id)?;
                let item = issue.item(now, self.settings.item_again_ms);
                let item = item.map(|(number, item)| (number, item.clone()));
                let (items, state) = (issue.items.len(), issue.state);
                Answer::Events(EventsAnswer { of: *id, item, items, issue: state })
            }
            Question::Review(id) => {
                let state = self.submission(*id)?.2.state;
                Answer::Review { submission: *id, state }
            }
            Question::Reply(id) => {
                Answer::Reply { message: *id, state: self.message(*id)?.2.state }
            }
            Question::Deliveries => {
                Answer::Deliveries(self.deliveries_for(role).take(NAMED_MAX).collect())
            }
            Question::Verdict(id) => {
                Answer::Verdict { delivery: *id, state: self.delivery(*id)?.state }
            }
            Question::Locks(keys) => {
                // Whether such files are free is told by asking for them.
                let effort = Effort::new(WAIT_STEPS_MAX);
                let conflict = self.locks.conflict(Some(role), keys, &effort).unwrap_or_default();
                Answer::Locks(conflict.map(Box::new))
            }
        })
    }
}

impl Issue {
    /// A task for this worker: one that is kept for it, else the first that is free.
    fn task_for(
        &self,
        now: Timestamp,
        role: &RoleId,
        is_free: impl Fn(TaskNumber) -> bool,
    ) -> Option<TaskNumber> {
        if self.state != IssueState::Open {
            return None;
        }
        let is_given = |(number, kept): &(TaskNumber, &super::Reservation)| {
            self.tasks[number.index()].is_given() && now < kept.lease.lapses
        };
        let kept = self.reserved_for(role).find(is_given).map(|(number, _)| number);
        kept.or_else(|| self.ready().find(|number| is_free(*number)))
    }
}

/// Which waits an event may have ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    Issues,
    Tasks(IssueId),
    Events(IssueId),
    Review(SubmissionId),
    Reply(TaskMessageId),
    Deliveries,
    Verdict(DeliveryId),
    Locks,
}

impl Swarm {
    /// Which waits this event, just applied, may have ended.
    pub fn reaches(&self, event: &Event) -> Vec<Reach> {
        let it = match event {
            Event::Issue(it) => it,
            Event::Unlocked(_) => return vec![Reach::Locks],
            Event::WorkerRegistered(_)
            | Event::SettingsSet(_)
            | Event::SharedDocWritten(_)
            | Event::Locked(_)
            | Event::LeaseRenewed(_)
            | Event::ItemsHanded { .. } => return Vec::new(),
        };
        let id = it.issue;
        match &it.what {
            Happened::Created { .. } | Happened::Reopened { .. } => vec![Reach::Issues],
            Happened::Closed(_) | Happened::Lapsed => {
                let mut reaches = vec![Reach::Issues, Reach::Tasks(id), Reach::Events(id)];
                let delivery = self.issues.get(&id).and_then(|issue| issue.delivery);
                reaches.extend(delivery.map(Reach::Verdict));
                reaches
            }
            Happened::TaskCreated(_) | Happened::ReservationLapsed { .. } => vec![Reach::Tasks(id)],
            Happened::ClaimLapsed { task, .. }
            | Happened::Reset { task, .. }
            | Happened::Canceled { task, .. } => {
                let mut reaches = vec![Reach::Tasks(id), Reach::Events(id)];
                reaches.extend(self.ended(id, *task));
                reaches
            }
            Happened::Submitted(it) => {
                let older = it.supersedes.map(Reach::Review);
                [Reach::Events(id), Reach::Tasks(id)].into_iter().chain(older).collect()
            }
            Happened::NextStepMinted(_) => vec![Reach::Tasks(id)],
            Happened::Reviewed(it) => {
                let mut reaches = vec![Reach::Review(it.submission), Reach::Tasks(id)];
                reaches.extend(self.ended(id, it.task));
                reaches
            }
            Happened::MessagePosted(_) => vec![Reach::Events(id)],
            Happened::Replied { message, .. } => vec![Reach::Reply(*message)],
            Happened::Delivered(_) | Happened::DeliveryLapsed { .. } => vec![Reach::Deliveries],
            Happened::DeliveryReviewed(it) => vec![Reach::Verdict(it.delivery), Reach::Events(id)],
            Happened::Imported(it) if it.end.is_some() => {
                vec![Reach::Issues, Reach::Tasks(id), Reach::Events(id), Reach::Deliveries]
            }
            Happened::PathsSet { .. }
            | Happened::Imported(_)
            | Happened::TaskImported(_)
            | Happened::SubmissionImported { .. }
            | Happened::MessageImported { .. }
            | Happened::DeliveryImported(_)
            | Happened::PointsImported { .. }
            | Happened::Recalled(_)
            | Happened::Claimed(_)
            | Happened::DocWritten { .. }
            | Happened::DeliveryClaimed { .. }
            | Happened::EvidenceAttached { .. } => Vec::new(),
        }
    }

    /// The claimed task that this event, just applied, gives back to its worker, and what the
    /// worker would wait for that knows of it.
    pub fn gives_back(&self, event: &Event) -> Option<(TasksAnswer, RoleId, Question)> {
        let Event::Issue(OfIssue { issue: of, what, .. }) = event else { return None };
        let (number, waits) = if let Happened::Reviewed(it) = what
            && it.verdict == Verdict::Rejected
        {
            (it.task, Question::Review(it.submission))
        } else if let Happened::Replied { task, message, .. } = what {
            (*task, Question::Reply(*message))
        } else {
            return None;
        };
        let (answer, worker) = self.unfinished(*of, number)?;
        Some((answer, worker.clone(), waits))
    }

    /// A claimed task that waits for nobody but its worker.
    pub fn unfinished(&self, of: IssueId, task: TaskNumber) -> Option<(TasksAnswer, &RoleId)> {
        let (issue, state) = self.task(of, task).ok()?;
        let is_its_move = state.state == TaskState::InProgress && state.open_submission().is_none();
        let claim = state.live_claim().filter(|_| is_its_move)?;
        let (ready, issue) = (issue.ready.len(), issue.state);
        Some((TasksAnswer { of, task: Some(task), ready, issue }, &claim.worker))
    }

    /// Whoever may wait for the end of something about a task.
    fn ended(&self, issue: IssueId, task: TaskNumber) -> Vec<Reach> {
        let Ok((_, task)) = self.task(issue, task) else { return Vec::new() };
        let newest = task.submissions.last().map(|it| Reach::Review(it.id));
        let resolved = task.messages.iter().filter(|it| it.state == MessageState::Resolved);
        newest.into_iter().chain(resolved.map(|it| Reach::Reply(it.id))).collect()
    }
}
