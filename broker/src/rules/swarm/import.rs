//! Issues that were worked on elsewhere.
//!
//! An issue comes in parts, in order, all of them made from one reading of it: `content` names that
//! reading. The same again adds nothing, another reading of the same issue is refused. Until its
//! last part is there the issue is canceled, so nobody works on half of it. Nothing that is held
//! comes over: no claim, no reservation, no lock, no open question.

use tasuki_proto::{
    id::{RoleId, Timestamp},
    limits::{
        DELIVERIES_MAX, DOCS_MAX, ISSUES_MAX, POINTS_MAX, SUBMISSIONS_MAX, TASK_MESSAGES_MAX,
        TASKS_MAX, WORKERS_MAX,
    },
    swarm::{DeliveryId, DocName, IssueId, Stamp, SubmissionId, TaskMessageId, TaskNumber},
};

use super::{
    Claim, Delivery, DeliveryState, DeliveryVerdict, Difficulty, DocPlace, Docs, Event, Happened,
    Issue, IssueState, Judged, Lease, Message, MessageKind, MessageState, Rejection, Reply, Score,
    Submission, SubmissionState, Swarm, Task, TaskState, Total, Verdict, Words,
    check::Draft,
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
    pub events: Vec<Recalled>,
    /// With the last part.
    pub end: Option<ImportEnd>,
    /// Of all words in it.
    pub bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedIssue {
    pub subject: String,
    pub description: String,
    pub paths: DocPaths,
    pub created: Timestamp,
}

/// How it stands once all of it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportEnd {
    pub state: IssueState,
    /// A delivery was approved since it was opened or reopened.
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recalled {
    pub kind: AuditKind,
    pub at: Timestamp,
    /// By the name that was used there.
    pub actor: String,
    pub task: Option<TaskNumber>,
    pub submission: Option<SubmissionId>,
    pub message: Option<TaskMessageId>,
    pub delivery: Option<DeliveryId>,
    pub detail: String,
    pub refs: String,
}

/// A part of an issue came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    pub content: Hash,
    pub part: u32,
    pub parts: u32,
    pub begin: Option<ImportBegun>,
    pub end: Option<ImportEnd>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportBegun {
    pub subject: String,
    pub content: Hash,
    pub paths: Hash,
    pub created: Timestamp,
}

/// How much of an issue came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Import {
    pub content: Hash,
    pub parts: u32,
    /// So many are there.
    pub done: u32,
}

impl Swarm {
    pub(super) fn decide_import(
        &self,
        draft: &mut Draft<'_>,
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
        draft.happened(it.issue, Happened::Imported(Box::new(imported)));
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
        draft: &mut Draft<'_>,
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
            matches!(it.state, TaskState::InProgress | TaskState::Blocked)
                || (it.state != TaskState::Done && it.worker.is_some())
        };
        if self.tasks.iter().any(is_held) {
            return invalid("a task comes over open, done or canceled, and without a claim");
        }
        Ok(())
    }
}

/// Where a part goes.
struct Place<'a, 'd> {
    swarm: &'a Swarm,
    draft: &'a mut Draft<'d>,
    issue: IssueId,
    /// `None` before the first part.
    state: Option<&'a Issue>,
    it: &'a ImportIssue,
}

impl Place<'_, '_> {
    fn carry_over(self) -> Result<(), Rejection> {
        let Self { swarm, draft, issue, state, it } = self;
        let before = state.map_or(0, |it| it.tasks.len());
        let count = before + it.tasks.len();
        for (number, task) in (before..).zip(&it.tasks) {
            if task.number.0 == 0 || task.number.index() != number {
                let text = format!("{} is not the next after {number} tasks", task.number);
                return Err(Rejection::Invalid(text));
            }
            let (number, words) = (task.number, task.words.clone());
            draft.keep(Words::Task { issue, task: number, words });
            draft.happened(issue, Happened::TaskImported(Box::new(task.state(draft.now))));
        }
        let there = |task: TaskNumber| {
            let is_there = task.0 != 0 && task.index() < count;
            if is_there { Ok(()) } else { Err(Rejection::UnknownTask { issue, task }) }
        };
        let fresh = |id: Stamp, text: String, is_known: bool| {
            if is_known || draft.now.as_millis() <= id.ms {
                let text = format!("{text} is taken, or from the future; nothing was taken");
                return Err(Rejection::Invalid(text));
            }
            Ok(())
        };
        let mut seen = std::collections::BTreeSet::new();
        for own in &it.submissions {
            there(own.task)?;
            let is_known = swarm.submissions.contains_key(&own.id) || !seen.insert(own.id.0);
            fresh(own.id.0, own.id.to_string(), is_known)?;
        }
        seen.clear();
        for own in &it.messages {
            there(own.task)?;
            let is_known = swarm.messages.contains_key(&own.id) || !seen.insert(own.id.0);
            fresh(own.id.0, own.id.to_string(), is_known)?;
        }
        seen.clear();
        for own in &it.deliveries {
            let is_known = swarm.deliveries.contains_key(&own.id) || !seen.insert(own.id.0);
            fresh(own.id.0, own.id.to_string(), is_known)?;
        }
        fresh(issue.0, issue.to_string(), false)?;
        for own in &it.submissions {
            let task = own.task;
            let had = state.and_then(|it| it.tasks.get(task.index()));
            let more = it.submissions.iter().filter(|other| other.task == task).count();
            if SUBMISSIONS_MAX < had.map_or(0, |it| it.submissions.len()) + more {
                return Err(Rejection::TooManySubmissions);
            }
            draft.keep(Words::Submission { issue, submission: own.id, words: own.words.clone() });
            if let Some(review) = &own.review {
                let words = review.words.clone();
                draft.keep(Words::Review { issue, submission: own.id, words });
            }
            let submission = Box::new(own.state());
            draft.happened(issue, Happened::SubmissionImported { task, submission });
        }
        for own in &it.messages {
            let task = own.task;
            let had = state.and_then(|it| it.tasks.get(task.index()));
            let more = it.messages.iter().filter(|other| other.task == task).count();
            if TASK_MESSAGES_MAX < had.map_or(0, |it| it.messages.len()) + more {
                return Err(Rejection::TooManyMessages);
            }
            draft.keep(Words::Message { issue, message: own.id, words: own.words.clone() });
            if let Some(reply) = &own.reply {
                draft.keep(Words::Reply { issue, message: own.id, words: reply.words.clone() });
            }
            let message = Box::new(own.state());
            draft.happened(issue, Happened::MessageImported { task, message });
        }
        let none = Docs::default();
        let mut written = std::collections::BTreeSet::new();
        for doc in &it.docs {
            let of_task = |task: TaskNumber| {
                state.and_then(|it| it.tasks.get(task.index())).map(|it| &it.docs)
            };
            let (place, docs) = match doc.task {
                None => (DocPlace::Issue(issue), state.map(|it| &it.docs)),
                Some(task) => {
                    there(task)?;
                    (DocPlace::Task(issue, task), of_task(task))
                }
            };
            let is_new = written.insert((doc.task, &doc.name));
            let docs = docs.unwrap_or(&none);
            let of_place = it.docs.iter().filter(|other| other.task == doc.task).count();
            if DOCS_MAX < docs.by_name.len() + of_place {
                return Err(Rejection::TooManyDocs);
            }
            if !is_new || docs.has(&doc.name) {
                let text = format!("the document {} comes twice; nothing was taken", doc.name);
                return Err(Rejection::Invalid(text));
            }
            let NextVersion::New(new) = docs.next(&doc.name, &doc.content)? else { continue };
            draft.keep_doc(place, doc.name.clone(), new.version, doc.content.clone());
            draft.happened(issue, Happened::DocWritten { task: doc.task, doc: new });
        }
        for own in &it.deliveries {
            let words = own.words.clone();
            draft.keep(Words::Delivery { issue, delivery: own.id, words });
            if let Some(verdict) = &own.verdict {
                let words = verdict.words.clone();
                draft.keep(Words::Verdict { issue, delivery: own.id, words });
            }
            let delivery = Box::new(own.state(issue));
            draft.happened(issue, Happened::DeliveryImported(delivery));
        }
        let had = state.map_or(0, |it| it.totals.len());
        if WORKERS_MAX < had + it.points.len() {
            return Err(Rejection::TooManyWorkers);
        }
        for (worker, total) in &it.points {
            let (worker, total) = (worker.clone(), *total);
            draft.happened(issue, Happened::PointsImported { worker, total });
        }
        for event in &it.events {
            draft.happened(issue, Happened::Recalled(Box::new(event.clone())));
        }
        Ok(())
    }
}

impl ImportedTask {
    fn state(&self, now: Timestamp) -> Task {
        // Who did it: a claim that is over.
        let claim = self.worker.clone().map(|worker| Claim {
            worker,
            token: tasuki_proto::id::FencingToken::NONE,
            lease: Lease::until(now),
            claimed: self.updated,
        });
        Task {
            difficulty: self.difficulty,
            points: self.points,
            state: self.state,
            required_docs: self.words.required_task_docs.clone(),
            updated: self.updated,
            claim,
            ..Task::blank(self.number, self.subject.clone(), self.created)
        }
    }
}

impl ImportedSubmission {
    fn state(&self) -> Submission {
        let state = match self.review.as_ref().map(|it| it.verdict) {
            Some(Verdict::Approved) => SubmissionState::Approved,
            Some(Verdict::Rejected) => SubmissionState::Rejected,
            None => SubmissionState::Reset,
        };
        let is_approved = state == SubmissionState::Approved;
        Submission {
            id: self.id,
            worker: self.worker.clone(),
            content: self.words.content(),
            at: self.at,
            state,
            reviewed: self.review.as_ref().map(|it| Judged {
                verdict: it.verdict,
                score: it.score,
                content: it.words.content(&format!("{}{}", it.verdict, it.score.get())),
                at: it.at,
                by: it.by.clone(),
                next_step: None,
                total: None,
            }),
            minted: None,
            changed_files: if is_approved { self.words.changed_files.clone() } else { Vec::new() },
            item: 0,
        }
    }
}

impl ImportedMessage {
    fn state(&self) -> Message {
        let reply = self.reply.as_ref();
        Message {
            id: self.id,
            sender: self.sender.clone(),
            kind: self.kind,
            content: self.words.content(),
            at: self.at,
            state: if reply.is_some() { MessageState::Replied } else { MessageState::Resolved },
            replied: reply.map(|it| it.at),
            replied_by: reply.and_then(|it| it.by.clone()),
            reply: reply.map(|it| it.words.content()),
            item: 0,
        }
    }
}

impl ImportedDelivery {
    fn state(&self, issue: IssueId) -> Delivery {
        let verdict = self.verdict.as_ref();
        let commands = &self.words.evidence.doc_commands;
        Delivery {
            id: self.id,
            issue,
            role: self.role.clone(),
            content: self.words.content(),
            is_passed: self.words.is_passed(),
            commands: commands.iter().map(|it| Hash::of(it.as_bytes())).collect(),
            state: match verdict.map(|it| it.verdict) {
                Some(Verdict::Approved) => DeliveryState::Approved,
                Some(Verdict::Rejected) => DeliveryState::Rejected,
                None if self.is_open => DeliveryState::Open,
                None => DeliveryState::Rejected,
            },
            at: self.at,
            updated: verdict.map_or(self.at, |it| it.at),
            claim: None,
            former: None,
            evidence: Vec::new(),
            verdict: verdict.map(|it| DeliveryVerdict {
                verdict: it.verdict,
                content: Hash::of(format!("{:?}{:?}", it.verdict, it.words).as_bytes()),
                by: it.by.clone(),
                at: it.at,
                overridden: None,
            }),
        }
    }
}
