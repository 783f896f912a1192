//! Issues that were worked on elsewhere, part by part.
//!
//! What was said there is taken as it is, within the limits: nothing is required of it that the
//! calls for work done here require.

use tasuki_proto::{
    id::RoleId,
    limits::{DOCS_MAX, WORKERS_MAX},
    wire,
};
use tonic::Status;

use super::{
    super::{
        parse::{check_count, text, time},
        status::invalid,
    },
    Actor, Answer, Endpoint, View, WorkspaceSession, at_once, id, issues, optional, parse,
};
use crate::{
    hash::Hash,
    rules::swarm::{
        CommandKind, ImportEnd, ImportIssue, ImportedAuditEntry, ImportedDelivery, ImportedDoc,
        ImportedIssue, ImportedMessage, ImportedReply, ImportedReview, ImportedSubmission,
        ImportedTask, ImportedVerdict, MessageKind, TaskState, Total, Verdict,
        words::{AuditKind, VerdictWords, Verification},
    },
};

/// What one part has of anything; each is an entry of the history and a write.
const PART_ITEMS_MAX: usize = 2000;

/// By which name somebody was known elsewhere, in bytes.
const ACTOR_BYTES_MAX: usize = 256;

impl Endpoint for wire::ImportIssueRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let person = Actor::Person(id("person", &self.person)?);
        let import = part(self)?;
        let (issue, parts) = (import.issue, import.parts);
        let render = move |view: &View<'_>, _| {
            let import = view.workspace.swarm.issue(issue)?.import;
            let parts_done = import.map_or(parts, |it| it.done);
            Ok(at_once(wire::ImportIssueResponse { parts_done, ..Default::default() }))
        };
        session.ask_as(person, CommandKind::ImportIssue(Box::new(import)), render).await
    }
}

impl Endpoint for wire::ImportSharedRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let person = Actor::Person(id("person", &self.person)?);
        if DOCS_MAX < self.docs.len() || WORKERS_MAX < self.workers.len() {
            let why = format!("are at most {DOCS_MAX}, and workers at most {WORKERS_MAX}");
            return Err(invalid("docs", &why));
        }
        let doc = |it: wire::NewDoc| {
            Ok((parse::named("docs.name", &it.name)?, parse::content(it.content)?))
        };
        let mut docs = self.docs.into_iter().map(doc).collect::<Result<Vec<_>, Status>>()?;
        docs.sort();
        docs.dedup_by(|one, other| one.0 == other.0);
        let workers = self.workers.iter().map(|it| id("workers", it));
        let mut workers = workers.collect::<Result<Vec<RoleId>, _>>()?;
        workers.sort();
        workers.dedup();
        let render = |_: &View<'_>, _| Ok(at_once(wire::ImportSharedResponse::default()));
        session.ask_as(person, CommandKind::ImportShared { docs, workers }, render).await
    }
}

fn part(it: wire::ImportIssueRequest) -> Result<ImportIssue, Status> {
    let lists = [it.tasks.len(), it.submissions.len(), it.messages.len(), it.docs.len()];
    let more = [it.deliveries.len(), it.points.len(), it.events.len()];
    let items: usize = lists.iter().chain(&more).sum();
    check_count("part", items, 0..=PART_ITEMS_MAX)?;
    let content = <[u8; 16]>::try_from(&it.content[..]).map(Hash);
    let content = content.map_err(|_| invalid("content", &"is no hash of 16 bytes"))?;
    let end = issues::state(it.end()).map(|state| ImportEnd { state, is_accepted: it.is_accepted });
    let begin = it.issue.map(|it| {
        Ok::<_, Status>(ImportedIssue {
            subject: parse::subject(it.subject)?,
            description: text("description", it.description)?,
            paths: parse::paths(it.shared_doc_paths, it.project_doc_paths)?,
            created: time("created_ms", it.created_ms)?,
        })
    });
    Ok(ImportIssue {
        issue: parse::named("issue_id", &it.issue_id)?,
        content,
        part: it.part,
        parts: it.parts,
        begin: begin.transpose()?,
        tasks: all(it.tasks, task)?,
        submissions: all(it.submissions, submission)?,
        messages: all(it.messages, message)?,
        docs: all(it.docs, doc)?,
        deliveries: all(it.deliveries, delivery)?,
        points: all(it.points, points)?,
        events: all(it.events, event)?,
        end,
    })
}

fn all<W, T>(items: Vec<W>, one: fn(W) -> Result<T, Status>) -> Result<Vec<T>, Status> {
    items.into_iter().map(one).collect()
}

fn task(it: wire::Task) -> Result<ImportedTask, Status> {
    let state = match it.status() {
        wire::TaskStatus::Open => TaskState::Open,
        wire::TaskStatus::Done => TaskState::Done,
        wire::TaskStatus::Canceled => TaskState::Canceled,
        wire::TaskStatus::Unspecified
        | wire::TaskStatus::InProgress
        | wire::TaskStatus::WaitingForAnswer => {
            return Err(invalid("tasks.status", &"is open, done or canceled"));
        }
    };
    let (number, difficulty) = (parse::named("task_id", &it.task_id)?, it.difficulty());
    Ok(ImportedTask {
        number,
        difficulty: parse::difficulty(difficulty)?,
        points: it.points,
        state,
        worker: optional("claimed_by", &it.claimed_by)?,
        created: time("created_ms", it.created_ms)?,
        updated: time("updated_ms", it.updated_ms)?,
        subject: parse::subject(it.subject)?,
        words: parse::task_words(it.words.unwrap_or_default())?,
    })
}

fn submission(it: wire::ImportedSubmission) -> Result<ImportedSubmission, Status> {
    let task = parse::named("task_id", &it.task_id)?;
    let it = it.submission.ok_or_else(|| invalid("submission", &"is missing"))?;
    let review = it.review.map(|review| {
        let verdict = if review.is_approved { Verdict::Approved } else { Verdict::Rejected };
        Ok::<_, Status>(ImportedReview {
            verdict,
            score: parse::score(it.completion_score)?,
            words: parse::review_words(review)?,
            by: optional("reviewed_by", &it.reviewed_by)?,
            at: time("reviewed_ms", it.reviewed_ms)?,
        })
    });
    Ok(ImportedSubmission {
        task,
        id: parse::named("submission_id", &it.submission_id)?,
        worker: id("worker", &it.worker)?,
        at: time("submitted_ms", it.submitted_ms)?,
        review: review.transpose()?,
        words: parse::artifacts_words(it.words.unwrap_or_default())?,
    })
}

fn message(it: wire::TaskMessage) -> Result<ImportedMessage, Status> {
    let unknown = || invalid("kind", &"is none there is");
    let is_replied = it.status() == wire::MessageStatus::Replied;
    let by = optional("replied_by", &it.replied_by)?;
    let reply = is_replied.then(|| {
        let words = parse::message_words(it.reply, it.reply_refs)?;
        Ok::<_, Status>(ImportedReply { words, by, at: time("replied_ms", it.replied_ms)? })
    });
    Ok(ImportedMessage {
        task: parse::named("task_id", &it.task_id)?,
        id: parse::named("message_id", &it.message_id)?,
        sender: id("sender", &it.sender)?,
        kind: MessageKind::parse(&it.kind).ok_or_else(unknown)?,
        at: time("created_ms", it.created_ms)?,
        words: parse::message_words(it.content, it.refs)?,
        reply: reply.transpose()?,
    })
}

fn doc(it: wire::Doc) -> Result<ImportedDoc, Status> {
    let place = it.place.unwrap_or_default();
    Ok(ImportedDoc {
        task: parse::maybe("task_id", &place.task_id)?,
        name: parse::named("name", &it.name)?,
        content: parse::content(it.content)?,
    })
}

fn delivery(it: wire::Delivery) -> Result<ImportedDelivery, Status> {
    let status = it.status();
    let approved = match status {
        wire::DeliveryStatus::Approved => Some(Verdict::Approved),
        wire::DeliveryStatus::Rejected => Some(Verdict::Rejected),
        wire::DeliveryStatus::Unspecified
        | wire::DeliveryStatus::Open
        | wire::DeliveryStatus::InReview => None,
    };
    let verdict = approved.filter(|_| it.verification.is_some()).map(|verdict| {
        let verification: Verification = parse::verification(it.verification)?;
        let (feedback, refs) = (text("feedback", it.feedback)?, parse::refs(it.review_refs)?);
        let words = VerdictWords { feedback, refs, verification };
        let by = optional("reviewed_by", &it.reviewed_by)?;
        Ok::<_, Status>(ImportedVerdict {
            verdict,
            words,
            by,
            at: time("reviewed_ms", it.reviewed_ms)?,
        })
    });
    let words = parse::delivery_words(wire::SubmitDeliveryRequest {
        summary: it.summary,
        refs: it.refs,
        artifacts: it.artifacts,
        test_evidence: it.test_evidence,
        ..wire::SubmitDeliveryRequest::default()
    })?;
    Ok(ImportedDelivery {
        id: parse::named("delivery_id", &it.delivery_id)?,
        role: optional("delivered_by", &it.delivered_by)?,
        at: time("delivered_ms", it.delivered_ms)?,
        words: Box::new(words),
        is_open: status == wire::DeliveryStatus::Open,
        verdict: verdict.transpose()?,
    })
}

fn points(it: wire::ImportedPoints) -> Result<(RoleId, Total), Status> {
    let points = u32::try_from(it.total_points).ok().filter(|it| *it <= u32::MAX / 2);
    let points = points.ok_or_else(|| invalid("points", &"are more than anybody earns"))?;
    let total = Total { points, low_scores: it.consecutive_low_scores };
    Ok((id("worker", &it.worker)?, total))
}

fn event(it: wire::HistoryEntry) -> Result<ImportedAuditEntry, Status> {
    if ACTOR_BYTES_MAX < it.elsewhere_actor.len() {
        return Err(invalid("elsewhere_actor", &format!("is over {ACTOR_BYTES_MAX} bytes")));
    }
    let kind = AuditKind::parse(&it.r#type);
    let detail = match (kind, it.kind.as_str(), it.detail) {
        (None, _, detail) => format!("{}: {detail}", it.r#type),
        (Some(AuditKind::TaskMessage), kind, _) => kind.to_owned(),
        (Some(_), _, detail) => detail,
    };
    let about = it.about.as_str();
    Ok(ImportedAuditEntry {
        kind: kind.unwrap_or(AuditKind::Imported),
        at: time("elsewhere_ms", it.elsewhere_ms)?,
        actor: it.elsewhere_actor,
        task: parse::maybe("task_id", &it.task_id)?,
        submission: about.parse().ok(),
        message: about.parse().ok(),
        delivery: about.parse().ok(),
        detail: parse::why("detail", detail)?,
        refs: parse::refs(it.refs)?,
    })
}

#[cfg(test)]
mod tests {
    use tasuki_proto::limits::TIME_MS_MAX;

    use super::*;

    #[test]
    fn what_was_elsewhere_was_at_a_time_that_can_be_shown() {
        let entry = |elsewhere_ms| event(wire::HistoryEntry { elsewhere_ms, ..Default::default() });
        assert!(entry(TIME_MS_MAX).is_ok());
        let refused = entry(TIME_MS_MAX + 1).unwrap_err();
        assert!(refused.message().contains("elsewhere_ms"), "{refused}");
        let begins = |created_ms| {
            let issue = wire::Issue { subject: "s".to_owned(), created_ms, ..Default::default() };
            part(wire::ImportIssueRequest {
                issue_id: "issue_1700000000000_00af".to_owned(),
                content: vec![7; 16],
                issue: Some(issue),
                ..Default::default()
            })
        };
        assert!(begins(TIME_MS_MAX).is_ok());
        let refused = begins(u64::MAX).unwrap_err();
        assert!(refused.message().contains("created_ms"), "{refused}");
    }

    #[test]
    fn what_is_about_something_is_known_by_its_id() {
        let entry = |r#type: &str, about: &str| wire::HistoryEntry {
            r#type: r#type.to_owned(),
            about: about.to_owned(),
            detail: "d".to_owned(),
            ..Default::default()
        };
        let known = event(entry("submission_created", "sub_5_0001")).unwrap();
        assert!(known.submission.is_some() && known.message.is_none());
        assert_eq!((known.kind, known.detail.as_str()), (AuditKind::SubmissionCreated, "d"));
        let other = event(entry("moon_rose", "")).unwrap();
        assert_eq!((other.kind, other.detail.as_str()), (AuditKind::Imported, "moon_rose: d"));
    }
}
