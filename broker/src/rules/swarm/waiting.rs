//! What roles wait for here, and what they are told. Shows state, changes nothing.
//!
//! A wait is over as soon as the state says what was waited for, and also when that cannot come
//! any more: the task was reset, the submission superseded, the issue closed (I6).

use std::{collections::BTreeSet, fmt};

use tasuki_proto::{
    id::{RoleId, Timestamp},
    swarm::{DeliveryId, IssueId, SubmissionId, TaskMessageId, TaskNumber},
};

use super::{
    DeliveryState, Event, Issue, IssueEvent, IssueEventKind, IssueState, Item, MessageState,
    Rejection, SubmissionState, Swarm, TaskState, Verdict,
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
    Locks(LocksAnswer),
}

/// What somebody is told who waits for files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocksAnswer {
    Free,
    Locked(Box<Conflict>),
    /// Comparing them with what is locked takes too long for a wait.
    Unknown,
    /// The same, and something was unlocked: whoever asks for them is told.
    Unlocked,
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
            Self::Locks(it) => matches!(it, LocksAnswer::Free | LocksAnswer::Unlocked),
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
                Answer::Locks(self.locks_answer(role, keys, &Effort::new(WAIT_STEPS_MAX)))
            }
        })
    }
}

impl Swarm {
    fn locks_answer(&self, role: &RoleId, keys: &[LockKey], effort: &Effort) -> LocksAnswer {
        match self.locks.conflict(Some(role), keys, effort) {
            Ok(None) => LocksAnswer::Free,
            Ok(Some(it)) => LocksAnswer::Locked(Box::new(it)),
            Err(_) => LocksAnswer::Unknown,
        }
    }

    /// What somebody who waits for files is told after something was unlocked; `None`: they are
    /// locked all the same. The effort is that of all who wait.
    pub fn unlocked_for(
        &self,
        role: &RoleId,
        keys: &[LockKey],
        effort: &Effort,
    ) -> Option<LocksAnswer> {
        if effort.is_spent() {
            return Some(LocksAnswer::Unlocked);
        }
        match effort.share(WAIT_STEPS_MAX, |own| self.locks_answer(role, keys, own)) {
            LocksAnswer::Locked(_) => None,
            LocksAnswer::Free => Some(LocksAnswer::Free),
            LocksAnswer::Unknown | LocksAnswer::Unlocked => Some(LocksAnswer::Unlocked),
        }
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
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
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
    /// Which waits these events, just applied, may have ended: each once, however many of them
    /// reach it.
    pub fn reached<'a>(&self, events: impl Iterator<Item = &'a Event>) -> BTreeSet<Reach> {
        events.flat_map(|event| self.reaches(event)).collect()
    }

    /// Which waits this event, just applied, may have ended.
    fn reaches(&self, event: &Event) -> Vec<Reach> {
        let it = match event {
            Event::Issue(it) => it,
            Event::Unlocked(_) => return vec![Reach::Locks],
            Event::Compacted(issues) => {
                return issues
                    .iter()
                    .flat_map(|id| [Reach::Tasks(*id), Reach::Events(*id)])
                    .collect();
            }
            Event::WorkerRegistered(_)
            | Event::SettingsSet(_)
            | Event::SharedDocWritten(_)
            | Event::Locked(_)
            | Event::LeaseRenewed(_)
            | Event::ItemsHanded { .. }
            | Event::DocCompacted { .. } => return Vec::new(),
        };
        let id = it.issue;
        match &it.what {
            IssueEventKind::Created { .. } | IssueEventKind::Reopened { .. } => vec![Reach::Issues],
            IssueEventKind::Closed(_) | IssueEventKind::Lapsed => {
                let mut reaches = vec![Reach::Issues, Reach::Tasks(id), Reach::Events(id)];
                let delivery = self.issues.get(&id).and_then(|issue| issue.delivery);
                reaches.extend(delivery.map(Reach::Verdict));
                reaches
            }
            IssueEventKind::TaskCreated(_) | IssueEventKind::ReservationLapsed { .. } => {
                vec![Reach::Tasks(id)]
            }
            IssueEventKind::ClaimLapsed { task, .. }
            | IssueEventKind::Reset { task, .. }
            | IssueEventKind::Canceled { task, .. } => {
                let mut reaches = vec![Reach::Tasks(id), Reach::Events(id)];
                reaches.extend(self.ended(id, *task));
                reaches
            }
            IssueEventKind::Submitted(it) => {
                let older = it.supersedes.map(Reach::Review);
                [Reach::Events(id), Reach::Tasks(id)].into_iter().chain(older).collect()
            }
            IssueEventKind::NextStepMinted(_) => vec![Reach::Tasks(id)],
            IssueEventKind::Reviewed(it) => {
                let mut reaches = vec![Reach::Review(it.submission), Reach::Tasks(id)];
                reaches.extend(self.ended(id, it.task));
                reaches
            }
            IssueEventKind::MessagePosted(_) => vec![Reach::Events(id)],
            IssueEventKind::Replied { message, .. } => vec![Reach::Reply(*message)],
            IssueEventKind::Delivered(_) | IssueEventKind::DeliveryLapsed { .. } => {
                vec![Reach::Deliveries]
            }
            IssueEventKind::DeliveryReviewed(it) => {
                vec![Reach::Verdict(it.delivery), Reach::Events(id)]
            }
            IssueEventKind::Imported(_) => {
                vec![Reach::Issues, Reach::Tasks(id), Reach::Events(id), Reach::Deliveries]
            }
            IssueEventKind::PathsSet { .. }
            | IssueEventKind::Claimed(_)
            | IssueEventKind::DocWritten { .. }
            | IssueEventKind::DeliveryClaimed { .. }
            | IssueEventKind::EvidenceAttached { .. } => Vec::new(),
        }
    }

    /// The claimed task that this event, just applied, gives back to its worker, and what the
    /// worker would wait for that knows of it.
    pub fn gives_back(&self, event: &Event) -> Option<(TasksAnswer, RoleId, Question)> {
        let Event::Issue(IssueEvent { issue: of, what, .. }) = event else { return None };
        let (number, waits) = if let IssueEventKind::Reviewed(it) = what
            && it.verdict == Verdict::Rejected
        {
            (it.task, Question::Review(it.submission))
        } else if let IssueEventKind::Replied { task, message, .. } = what {
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
