//! Issues that were worked on elsewhere.
//!
//! An issue comes whole, in one command, as the state that it has here from then on. Nothing that is
//! held comes over: no claim, no reservation, no lock, no open submission, no open question.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
};

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{RoleId, Timestamp},
    limits::{
        DELIVERIES_MAX, ISSUES_MAX, POINTS_MAX, SUBMISSIONS_MAX, TASK_MESSAGES_MAX, TASKS_MAX,
        WORKERS_MAX,
    },
    swarm::{DocName, TaskNumber},
};

use super::{
    Delivery, DeliveryState, DocPlace, Event, Issue, IssueEventKind, IssueState, MessageState,
    Rejection, Reply, SubmissionState, Swarm, Task, TaskState, Words,
    check::DecisionBuilder,
    docs::{Docs, NextVersion},
};
use crate::rules::turn::Actor;

/// An issue as it stood elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct ImportedIssue {
    /// Without its tasks.
    #[n(0)]
    pub issue: Issue,
    /// In the order of their numbers, without gaps.
    #[n(1)]
    pub tasks: Vec<Task>,
    /// The oldest first.
    #[n(2)]
    pub deliveries: Vec<Delivery>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportIssue {
    /// Without its documents.
    pub imported: ImportedIssue,
    /// What was said, but for the documents.
    pub words: Vec<Words>,
    /// Of the issue, or of a task.
    pub docs: Vec<(Option<TaskNumber>, DocName, String)>,
}

impl Swarm {
    pub(super) fn decide_import(
        &self,
        draft: &mut DecisionBuilder<'_>,
        it: &ImportIssue,
    ) -> Result<Reply, Rejection> {
        if let Actor::Role(_) = draft.by {
            let text = "issues from elsewhere are taken over by a person, not by a role";
            return Err(Rejection::Invalid(text.to_owned()));
        }
        let issue = it.imported.issue.id;
        if self.issues.contains_key(&issue) {
            return Err(Rejection::IssueExists { issue });
        }
        it.imported.check()?;
        self.check_room(&it.imported)?;
        self.check_ids(draft.now, &it.imported)?;
        let mut imported = it.imported.clone();
        for (task, name, content) in &it.docs {
            let (place, docs) = match *task {
                None => (DocPlace::Issue(issue), &mut imported.issue.docs),
                Some(task) => match imported.tasks.get_mut(task.index()) {
                    Some(of) => (DocPlace::Task(issue, task), &mut of.docs),
                    None => return Err(Rejection::UnknownTask { issue, task }),
                },
            };
            let doc = match docs.next(name, content)? {
                NextVersion::New(doc) if doc.version == 1 => doc,
                NextVersion::New(_) | NextVersion::Same(_) => {
                    let text = format!("the document {name} comes twice; nothing was taken");
                    return Err(Rejection::Invalid(text));
                }
            };
            docs.written(draft.now, None, &doc);
            draft.keep_doc(place, name.clone(), doc.version, content.clone());
        }
        imported.issue.delivery = imported.deliveries.last().map(|it| it.id);
        draft.bodies.extend(it.words.iter().cloned());
        draft.happened(issue, IssueEventKind::Imported(Box::new(imported)));
        Ok(Reply::Issue(issue))
    }

    fn check_room(&self, it: &ImportedIssue) -> Result<(), Rejection> {
        if ISSUES_MAX <= self.issues.len() {
            return Err(Rejection::TooManyIssues);
        }
        if TASKS_MAX < self.tasks + it.tasks.len() {
            return Err(Rejection::TooManyTasks);
        }
        if DELIVERIES_MAX < self.deliveries.len() + it.deliveries.len() {
            return Err(Rejection::TooManyDeliveries);
        }
        Ok(())
    }

    /// Whether all ids are unique, unknown and of the past.
    fn check_ids(&self, now: Timestamp, it: &ImportedIssue) -> Result<(), Rejection> {
        let submissions = it.tasks.iter().flat_map(|task| &task.submissions);
        let submissions = submissions
            .map(|it| (it.id.0, it.id.to_string(), self.submissions.contains_key(&it.id)));
        let messages = it.tasks.iter().flat_map(|task| &task.messages);
        let messages =
            messages.map(|it| (it.id.0, it.id.to_string(), self.messages.contains_key(&it.id)));
        let deliveries = it.deliveries.iter();
        let deliveries =
            deliveries.map(|it| (it.id.0, it.id.to_string(), self.deliveries.contains_key(&it.id)));
        let issue = iter::once((it.issue.id.0, it.issue.id.to_string(), false));
        let mut seen = BTreeSet::new();
        for (stamp, id, is_known) in issue.chain(submissions).chain(messages).chain(deliveries) {
            let why = match (is_known || seen.contains(&id), now.as_millis() <= stamp.ms) {
                (true, _) => "exists already, or comes twice in this issue",
                (false, true) => "has a time that is not before the broker's",
                (false, false) => {
                    seen.insert(id);
                    continue;
                }
            };
            return Err(Rejection::Invalid(format!("{id} {why}; nothing was taken")));
        }
        Ok(())
    }

    /// Documents, shared or of imported issues, and workers, as far as they are not there.
    pub(super) fn decide_import_shared(
        &self,
        draft: &mut DecisionBuilder<'_>,
        docs: &[(DocPlace, DocName, String)],
        workers: &[RoleId],
    ) -> Result<(), Rejection> {
        // With those that come before in the same call.
        let mut places: BTreeMap<DocPlace, Docs> = BTreeMap::new();
        for (place, name, content) in docs {
            self.check_imported(*place)?;
            let there = self.docs(*place)?;
            let docs = places.entry(*place).or_insert_with(|| there.clone());
            if docs.has(name) {
                continue;
            }
            let NextVersion::New(doc) = docs.next(name, content)? else { continue };
            docs.written(draft.now, None, &doc);
            draft.keep_doc(*place, name.clone(), doc.version, content.clone());
            match *place {
                DocPlace::Shared => draft.push(Event::SharedDocWritten(doc)),
                DocPlace::Issue(issue) => {
                    draft.happened(issue, IssueEventKind::DocWritten { task: None, doc });
                }
                DocPlace::Task(issue, task) => {
                    let task = Some(task);
                    draft.happened(issue, IssueEventKind::DocWritten { task, doc });
                }
            }
        }
        let new: Vec<&RoleId> =
            workers.iter().filter(|it| !self.workers.contains_key(*it)).collect();
        if WORKERS_MAX < self.workers.len() + new.len() {
            return Err(Rejection::TooManyWorkers);
        }
        for worker in new {
            draft.push(Event::WorkerRegistered(worker.clone()));
        }
        draft.is_repeat = draft.events.is_empty();
        Ok(())
    }

    /// Whether a place is no issue's that was opened here: a person writes nothing there.
    fn check_imported(&self, place: DocPlace) -> Result<(), Rejection> {
        if let DocPlace::Issue(issue) | DocPlace::Task(issue, _) = place
            && self.issue(issue)?.lead.is_some()
        {
            let text = format!("{issue} was opened here: a role writes its documents");
            return Err(Rejection::Invalid(text));
        }
        Ok(())
    }
}

impl ImportedIssue {
    fn check(&self) -> Result<(), Rejection> {
        let invalid = |text: &str| Err(Rejection::Invalid(format!("{text}; nothing was taken")));
        for (number, task) in (1..).map(TaskNumber).zip(&self.tasks) {
            if task.number != number {
                return invalid(&format!("{} comes where {number} is expected", task.number));
            }
            if POINTS_MAX < task.points {
                return invalid(&format!("points are at most {POINTS_MAX}"));
            }
            if !task.is_at_rest() {
                return invalid(&format!(
                    "{number} comes over open, done or canceled, without a claim, a reservation, \
                     an open submission or an open question"
                ));
            }
            if SUBMISSIONS_MAX < task.submissions.len() {
                return Err(Rejection::TooManySubmissions);
            }
            if TASK_MESSAGES_MAX < task.messages.len() {
                return Err(Rejection::TooManyMessages);
            }
        }
        let may_be_open = (self.issue.state == IssueState::Open).then(|| self.deliveries.last());
        let is_held = |it: &Delivery| match it.state {
            DeliveryState::Approved | DeliveryState::Rejected => false,
            DeliveryState::Open => may_be_open.flatten().is_none_or(|newest| newest.id != it.id),
            DeliveryState::InReview => true,
        };
        if self.deliveries.iter().any(is_held) {
            return invalid("only the newest delivery of an open issue waits for a verdict");
        }
        if WORKERS_MAX < self.issue.totals.len() {
            return Err(Rejection::TooManyWorkers);
        }
        Ok(())
    }
}

impl Task {
    /// Whether nobody holds anything of it, and nothing of it waits.
    pub(super) fn is_at_rest(&self) -> bool {
        let is_free = match self.state {
            TaskState::Done => true,
            TaskState::Open | TaskState::Canceled => self.claim.is_none(),
            TaskState::InProgress | TaskState::WaitingForAnswer => false,
        };
        is_free
            && self.reservation.is_none()
            && self.blocked_by.is_empty()
            && self.submissions.iter().all(|it| it.state != SubmissionState::Open)
            && self.messages.iter().all(|it| it.state != MessageState::Open)
    }
}
