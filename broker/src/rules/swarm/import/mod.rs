//! Issues that were worked on elsewhere.
//!
//! An issue comes in parts, in order, all of them made from one reading of it: `content` names that
//! reading. The same again adds nothing, another reading of the same issue is refused. Until its
//! last part is there the issue is canceled, so nobody works on half of it. Nothing that is held
//! comes over: no claim, no reservation, no lock, no open question.

mod carry;
mod state;

use minicbor::{Decode, Encode};
use tasuki_proto::{
    id::{RoleId, Timestamp},
    limits::{DELIVERIES_MAX, ISSUES_MAX, POINTS_MAX, TASKS_MAX, WORKERS_MAX},
    swarm::{DeliveryId, DocName, IssueId, SubmissionId, TaskMessageId, TaskNumber},
};

use self::carry::Place;
use super::{
    Difficulty, DocPlace, Event, IssueEventKind, IssueState, MessageKind, Rejection, Reply, Score,
    Swarm, TaskState, Total, Verdict, Words,
    check::DecisionBuilder,
    docs::NextVersion,
    words::{
        Artifacts, AuditKind, DeliveryWords, DocPaths, MessageWords, ReviewWords, TaskWords,
        VerdictWords,
    },
};
use crate::{hash::Hash, rules::turn::Actor};

/// One part of an issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportIssue {
    pub issue: IssueId,
    /// Of all parts.
    pub content: Hash,
    /// From 1.
    pub part: u32,
    pub parts: u32,
    /// With the first part.
    pub begin: Option<ImportedIssue>,
    /// In the order of their numbers, without gaps, all before what belongs to them.
    pub tasks: Vec<ImportedTask>,
    pub submissions: Vec<ImportedSubmission>,
    pub messages: Vec<ImportedMessage>,
    pub docs: Vec<ImportedDoc>,
    /// The oldest first.
    pub deliveries: Vec<ImportedDelivery>,
    pub points: Vec<(RoleId, Total)>,
    pub events: Vec<ImportedAuditEntry>,
    /// With the last part.
    pub end: Option<ImportEnd>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedIssue {
    pub subject: String,
    pub description: String,
    pub paths: DocPaths,
    pub created: Timestamp,
}

/// How it stands once all of it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ImportEnd {
    #[n(0)]
    pub state: IssueState,
    /// A delivery was approved since it was opened or reopened.
    #[n(1)]
    pub is_accepted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedTask {
    pub number: TaskNumber,
    pub subject: String,
    pub difficulty: Difficulty,
    pub points: u32,
    /// Open, done or canceled.
    pub state: TaskState,
    /// Who did it.
    pub worker: Option<RoleId>,
    pub created: Timestamp,
    pub updated: Timestamp,
    pub words: TaskWords,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedSubmission {
    pub task: TaskNumber,
    pub id: SubmissionId,
    pub worker: RoleId,
    pub at: Timestamp,
    pub words: Artifacts,
    /// `None`: it will get no verdict any more.
    pub review: Option<ImportedReview>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedReview {
    pub verdict: Verdict,
    pub score: Score,
    pub words: ReviewWords,
    pub by: Option<RoleId>,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedMessage {
    pub task: TaskNumber,
    pub id: TaskMessageId,
    pub sender: RoleId,
    pub kind: MessageKind,
    pub at: Timestamp,
    pub words: MessageWords,
    /// `None`: nobody will reply any more.
    pub reply: Option<ImportedReply>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedReply {
    pub words: MessageWords,
    pub by: Option<RoleId>,
    pub at: Timestamp,
}

/// Of the issue, or of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedDoc {
    pub task: Option<TaskNumber>,
    pub name: DocName,
    pub content: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedDelivery {
    pub id: DeliveryId,
    pub role: Option<RoleId>,
    pub at: Timestamp,
    pub words: Box<DeliveryWords>,
    /// It waits for its verdict.
    pub is_open: bool,
    pub verdict: Option<ImportedVerdict>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedVerdict {
    pub verdict: Verdict,
    pub words: VerdictWords,
    pub by: Option<RoleId>,
    pub at: Timestamp,
}

/// Something that happened elsewhere, as it was told there.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ImportedAuditEntry {
    #[n(0)]
    pub kind: AuditKind,
    #[n(1)]
    pub at: Timestamp,
    /// By the name that was used there.
    #[n(2)]
    pub actor: String,
    #[n(3)]
    pub task: Option<TaskNumber>,
    #[n(4)]
    pub submission: Option<SubmissionId>,
    #[n(5)]
    pub message: Option<TaskMessageId>,
    #[n(6)]
    pub delivery: Option<DeliveryId>,
    #[n(7)]
    pub detail: String,
    #[n(8)]
    pub refs: String,
}

/// A part of an issue came in.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Imported {
    #[n(0)]
    pub content: Hash,
    #[n(1)]
    pub part: u32,
    #[n(2)]
    pub parts: u32,
    #[n(3)]
    pub begin: Option<ImportBegun>,
    #[n(4)]
    pub end: Option<ImportEnd>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ImportBegun {
    #[n(0)]
    pub subject: String,
    #[n(1)]
    pub content: Hash,
    #[n(2)]
    pub paths: Hash,
    #[n(3)]
    pub created: Timestamp,
}

/// How much of an issue came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Import {
    #[n(0)]
    pub content: Hash,
    #[n(1)]
    pub parts: u32,
    /// So many are there.
    #[n(2)]
    pub done: u32,
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
        it.check()?;
        let known = match self.issues.get(&it.issue) {
            None => None,
            Some(issue) => match issue.import {
                Some(import) if import.content == it.content && import.parts == it.parts => {
                    Some((issue, import))
                }
                Some(_) | None => return Err(Rejection::IssueExists { issue: it.issue }),
            },
        };
        let done = known.map_or(0, |(_, import)| import.done);
        if it.part <= done {
            return Ok(draft.repeat(Reply::Issue(it.issue)));
        }
        if it.part != done + 1 {
            let text = format!("part {} comes after part {done}; nothing was taken", it.part);
            return Err(Rejection::Invalid(text));
        }
        self.check_room(it)?;
        let mut begin = None;
        if let Some(new) = &it.begin {
            let (issue, paths) = (it.issue, new.paths.clone());
            begin = Some(ImportBegun {
                subject: new.subject.clone(),
                content: it.content,
                paths: paths.content(),
                created: new.created,
            });
            draft.keep(Words::Issue { issue, description: new.description.clone() });
            draft.keep(Words::Paths { issue, version: 1, paths });
        }
        let (content, part, parts, end) = (it.content, it.part, it.parts, it.end);
        let imported = Imported { content, part, parts, begin, end };
        draft.happened(it.issue, IssueEventKind::Imported(Box::new(imported)));
        let issue = known.map(|(issue, _)| issue);
        let place = Place { swarm: self, draft, issue: it.issue, state: issue, it };
        place.carry_over()?;
        Ok(Reply::Issue(it.issue))
    }

    fn check_room(&self, it: &ImportIssue) -> Result<(), Rejection> {
        if it.begin.is_some() && ISSUES_MAX <= self.issues.len() {
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

    /// Documents that all issues share, and workers, as far as they are not there.
    pub(super) fn decide_import_shared(
        &self,
        draft: &mut DecisionBuilder<'_>,
        docs: &[(DocName, String)],
        workers: &[RoleId],
    ) -> Result<(), Rejection> {
        for (name, content) in docs.iter().filter(|(name, _)| !self.shared_docs.has(name)) {
            let NextVersion::New(doc) = self.shared_docs.next(name, content)? else { continue };
            draft.keep_doc(DocPlace::Shared, name.clone(), doc.version, content.clone());
            draft.push(Event::SharedDocWritten(doc));
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
}

impl ImportIssue {
    fn check(&self) -> Result<(), Rejection> {
        let invalid = |text: &str| Err(Rejection::Invalid(format!("{text}; nothing was taken")));
        if self.part == 0 || self.parts < self.part {
            return invalid("parts are counted from 1");
        }
        if self.begin.is_some() != (self.part == 1) {
            return invalid("the first part, and no other, says what the issue is");
        }
        if self.end.is_some() != (self.part == self.parts) {
            return invalid("the last part, and no other, says how the issue stands");
        }
        if self.tasks.iter().any(|it| POINTS_MAX < it.points) {
            return invalid(&format!("points are at most {POINTS_MAX}"));
        }
        let is_held = |it: &ImportedTask| {
            matches!(it.state, TaskState::InProgress | TaskState::WaitingForAnswer)
                || (it.state != TaskState::Done && it.worker.is_some())
        };
        if self.tasks.iter().any(is_held) {
            return invalid("a task comes over open, done or canceled, and without a claim");
        }
        Ok(())
    }
}
