//! What one part brings: what happened by it, and the words that go with that.

use std::collections::BTreeSet;

use tasuki_proto::{
    limits::{DOCS_MAX, SUBMISSIONS_MAX, TASK_MESSAGES_MAX, WORKERS_MAX},
    swarm::{IssueId, Stamp, TaskNumber},
};

use super::{
    super::{
        DocPlace, Docs, Issue, IssueEventKind, Rejection, Swarm, Words, check::DecisionBuilder,
        docs::NextVersion,
    },
    ImportIssue,
};

/// Where a part goes.
pub(super) struct Place<'a, 'd> {
    pub swarm: &'a Swarm,
    pub draft: &'a mut DecisionBuilder<'d>,
    pub issue: IssueId,
    /// `None` before the first part.
    pub state: Option<&'a Issue>,
    pub it: &'a ImportIssue,
}

impl Place<'_, '_> {
    pub(super) fn carry_over(self) -> Result<(), Rejection> {
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
            draft.happened(issue, IssueEventKind::TaskImported(Box::new(task.state(draft.now))));
        }
        let there = |task: TaskNumber| {
            let is_there = task.0 != 0 && task.index() < count;
            if is_there { Ok(()) } else { Err(Rejection::UnknownTask { issue, task }) }
        };
        let fresh = |id: Stamp, text: String, is_known: bool| {
            let why = match (is_known, draft.now.as_millis() <= id.ms) {
                (true, _) => "is here already, of another issue, or is twice in this one",
                (false, true) => "is from the future: its time is not before the broker's",
                (false, false) => return Ok(()),
            };
            Err(Rejection::Invalid(format!("{text} {why}; nothing was taken")))
        };
        let mut seen = BTreeSet::new();
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
            draft.happened(issue, IssueEventKind::SubmissionImported { task, submission });
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
            draft.happened(issue, IssueEventKind::MessageImported { task, message });
        }
        let none = Docs::default();
        let mut written = BTreeSet::new();
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
            draft.happened(issue, IssueEventKind::DocWritten { task: doc.task, doc: new });
        }
        for own in &it.deliveries {
            let words = own.words.clone();
            draft.keep(Words::Delivery { issue, delivery: own.id, words });
            if let Some(verdict) = &own.verdict {
                let words = verdict.words.clone();
                draft.keep(Words::Verdict { issue, delivery: own.id, words });
            }
            let delivery = Box::new(own.state(issue));
            draft.happened(issue, IssueEventKind::DeliveryImported(delivery));
        }
        let had = state.map_or(0, |it| it.totals.len());
        if WORKERS_MAX < had + it.points.len() {
            return Err(Rejection::TooManyWorkers);
        }
        for (worker, total) in &it.points {
            let (worker, total) = (worker.clone(), *total);
            draft.happened(issue, IssueEventKind::PointsImported { worker, total });
        }
        for event in &it.events {
            draft.happened(issue, IssueEventKind::ImportedAuditEntry(Box::new(event.clone())));
        }
        Ok(())
    }
}
