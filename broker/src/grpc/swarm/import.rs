//! Issues that were worked on elsewhere.
//!
//! What was said there is taken as it is, within the limits: nothing is required of it that the
//! calls for work done here require.

use std::collections::BTreeSet;

use tasuki_proto::{
    id::{FencingToken, RoleId},
    limits::{DOCS_MAX, SWARM_WORDS_BYTES_MAX, WORKERS_MAX},
    swarm::{DocName, TaskNumber},
    wire,
};
use tonic::Status;

use super::{
    super::{
        parse::{check_count, text, time},
        status::invalid,
    },
    Actor, Answer, Endpoint, WorkspaceSession, default_response, id, issues, optional, parse,
    status,
};
use crate::{
    hash::Hash,
    rules::swarm::{
        Claim, CommandKind, Delivery, DeliveryState, DeliveryVerdict, DocPlace, ImportIssue,
        ImportedIssue, Issue, Judged, Lease, Message, MessageKind, MessageState, Rejection,
        Submission, SubmissionState, Task, TaskState, Total, Verdict, Words,
        words::{VerdictWords, Verification},
    },
};

/// What one issue has of anything: most are a write each.
const ITEMS_MAX: usize = 20_000;

impl Endpoint for wire::ImportIssueRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let person = Actor::Person(id("person", &self.person)?);
        let import = CommandKind::ImportIssue(Box::new(import(self)?));
        session.ask_as(person, import, default_response).await
    }
}

impl Endpoint for wire::ImportSharedRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let person = Actor::Person(id("person", &self.person)?);
        let count = self.docs.len() + self.issue_docs.len();
        if DOCS_MAX < count || WORKERS_MAX < self.workers.len() {
            let why = format!("are at most {DOCS_MAX}, and workers at most {WORKERS_MAX}");
            return Err(invalid("docs", &why));
        }
        let mut names = BTreeSet::new();
        let mut doc = |place: DocPlace, name: &str, content: String| {
            let name: DocName = parse::named("docs.name", name)?;
            if !names.insert((place, name.clone())) {
                return Err(invalid("docs.name", &format!("names {name} twice")));
            }
            Ok((place, name, parse::content(content)?))
        };
        let mut docs = Vec::with_capacity(count);
        for it in self.docs {
            docs.push(doc(DocPlace::Shared, &it.name, it.content)?);
        }
        for it in self.issue_docs {
            let place = parse::place(it.place)?;
            if place == DocPlace::Shared {
                return Err(invalid("issue_docs.place", &"is missing; name the issue"));
            }
            docs.push(doc(place, &it.name, it.content)?);
        }
        let workers = self.workers.iter().map(|it| id("workers", it));
        let mut workers = workers.collect::<Result<Vec<RoleId>, _>>()?;
        workers.sort();
        workers.dedup();
        let import = CommandKind::ImportShared { docs, workers };
        session.ask_as(person, import, default_response).await
    }
}

fn import(request: wire::ImportIssueRequest) -> Result<ImportIssue, Status> {
    let things = [request.tasks.len(), request.submissions.len(), request.messages.len()];
    let others = [request.docs.len(), request.deliveries.len(), request.points.len()];
    check_count("issue", things.iter().chain(&others).sum(), 0..=ITEMS_MAX)?;
    let issue = request.issue.ok_or_else(|| invalid("issue", &"is missing"))?;
    let mut import = opened(issue)?;
    import.imported.issue.is_accepted = request.is_accepted;
    request.tasks.into_iter().try_for_each(|it| add_task(&mut import, it))?;
    request.submissions.into_iter().try_for_each(|it| add_submission(&mut import, it))?;
    request.messages.into_iter().try_for_each(|it| add_message(&mut import, it))?;
    request.deliveries.into_iter().try_for_each(|it| add_delivery(&mut import, it))?;
    for it in request.docs {
        let task = parse::maybe("task_id", &it.place.unwrap_or_default().task_id)?;
        import.docs.push((task, parse::named("name", &it.name)?, parse::content(it.content)?));
    }
    for it in request.points {
        let points = u32::try_from(it.total_points).ok().filter(|it| *it <= u32::MAX / 2);
        let points = points.ok_or_else(|| invalid("points", &"are more than anybody earns"))?;
        let total = Total { points, low_scores: it.consecutive_low_scores };
        let worker: RoleId = id("worker", &it.worker)?;
        if import.imported.issue.totals.insert(worker.clone(), total).is_some() {
            return Err(invalid("points.worker", &format!("names {worker} twice")));
        }
    }
    Ok(import)
}

fn opened(it: wire::Issue) -> Result<ImportIssue, Status> {
    let issue = parse::named("issue_id", &it.issue_id)?;
    let status = issues::state(it.status());
    let paths = parse::paths(it.shared_doc_paths, it.project_doc_paths)?;
    let description = text("description", it.description)?;
    let (subject, created) = (parse::subject(it.subject)?, time("created_ms", it.created_ms)?);
    let mut state = Issue::opened(issue, subject, None, created);
    state.state = status.ok_or_else(|| invalid("status", &"is missing"))?;
    state.paths_content = paths.content();
    let words =
        vec![Words::Issue { issue, description }, Words::Paths { issue, version: 1, paths }];
    let imported = ImportedIssue { issue: state, tasks: Vec::new(), deliveries: Vec::new() };
    Ok(ImportIssue { imported, words, docs: Vec::new() })
}

/// A task that came before what belongs to it.
fn find_task<'a>(import: &'a mut ImportIssue, task_id: &str) -> Result<&'a mut Task, Status> {
    let task: TaskNumber = parse::named("task_id", task_id)?;
    let issue = import.imported.issue.id;
    let found = import.imported.tasks.get_mut(task.index());
    found.ok_or_else(|| status::rejected(&Rejection::UnknownTask { issue, task }.into()))
}

fn add_task(import: &mut ImportIssue, it: wire::Task) -> Result<(), Status> {
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
    let (created, updated) =
        (time("created_ms", it.created_ms)?, time("updated_ms", it.updated_ms)?);
    let worker: Option<RoleId> = optional("claimed_by", &it.claimed_by)?;
    let words = it.words.unwrap_or_default();
    parse::within("tasks.words", &words, SWARM_WORDS_BYTES_MAX)?;
    let words = parse::task_words(words)?;
    // Who did it: a claim that is over.
    let claim = worker.map(|worker| Claim {
        worker,
        token: FencingToken::NONE,
        lease: Lease::until(updated),
        claimed: updated,
    });
    let mut task = Task::blank(number, parse::subject(it.subject)?, created);
    (task.state, task.claim, task.updated) = (state, claim, updated);
    (task.difficulty, task.points) = (parse::difficulty(difficulty)?, it.points);
    task.required_docs.clone_from(&words.required_task_docs);
    import.imported.tasks.push(task);
    let issue = import.imported.issue.id;
    import.words.push(Words::Task { issue, task: number, words });
    Ok(())
}

fn add_submission(import: &mut ImportIssue, it: wire::ImportedSubmission) -> Result<(), Status> {
    let (issue, task_id) = (import.imported.issue.id, it.task_id);
    let it = it.submission.ok_or_else(|| invalid("submission", &"is missing"))?;
    let status = it.status();
    let submission = parse::named("submission_id", &it.submission_id)?;
    let words = parse::artifacts_words(it.words.unwrap_or_default())?;
    let mut state = Submission {
        id: submission,
        worker: id("worker", &it.worker)?,
        content: words.content(),
        at: time("submitted_ms", it.submitted_ms)?,
        // Without a verdict there will be none.
        state: if status == wire::SubmissionStatus::Open {
            SubmissionState::Open
        } else {
            SubmissionState::Reset
        },
        reviewed: None,
        minted: None,
        files: Vec::new(),
        item: 0,
    };
    let review = it.review.map(|review| {
        let verdict = if review.is_approved { Verdict::Approved } else { Verdict::Rejected };
        match verdict {
            Verdict::Approved => {
                state.state = SubmissionState::Approved;
                state.files = words.file_hashes();
            }
            Verdict::Rejected => state.state = SubmissionState::Rejected,
        }
        let words = parse::review_words(review)?;
        let score = parse::score(it.completion_score)?;
        state.reviewed = Some(Judged {
            verdict,
            score,
            content: words.content(verdict, score),
            at: time("reviewed_ms", it.reviewed_ms)?,
            by: optional("reviewed_by", &it.reviewed_by)?,
            next_step: None,
            total: None,
        });
        Ok::<_, Status>(Words::Review { issue, submission, words })
    });
    let review = review.transpose()?;
    find_task(import, &task_id)?.submissions.push(state);
    import.words.push(Words::Submission { issue, submission, words });
    import.words.extend(review);
    Ok(())
}

fn add_message(import: &mut ImportIssue, it: wire::TaskMessage) -> Result<(), Status> {
    let issue = import.imported.issue.id;
    let message = parse::named("message_id", &it.message_id)?;
    let unknown = || invalid("kind", &"is none there is");
    let state = match it.status() {
        wire::MessageStatus::Replied => MessageState::Replied,
        wire::MessageStatus::Open => MessageState::Open,
        wire::MessageStatus::Unspecified | wire::MessageStatus::Resolved => MessageState::Resolved,
    };
    let words = parse::message_words(it.content, it.refs)?;
    let mut new = Message {
        id: message,
        sender: id("sender", &it.sender)?,
        kind: MessageKind::parse(&it.kind).ok_or_else(unknown)?,
        content: words.content(),
        at: time("created_ms", it.created_ms)?,
        state,
        replied: None,
        replied_by: None,
        reply: None,
        item: 0,
    };
    import.words.push(Words::Message { issue, message, words });
    if state == MessageState::Replied {
        let words = parse::message_words(it.reply, it.reply_refs)?;
        new.replied = Some(time("replied_ms", it.replied_ms)?);
        new.replied_by = optional("replied_by", &it.replied_by)?;
        new.reply = Some(words.content());
        import.words.push(Words::Reply { issue, message, words });
    }
    find_task(import, &it.task_id)?.messages.push(new);
    Ok(())
}

fn add_delivery(import: &mut ImportIssue, it: wire::Delivery) -> Result<(), Status> {
    let issue = import.imported.issue.id;
    let delivery = parse::named("delivery_id", &it.delivery_id)?;
    let judged = |state, verdict| (state, Some(verdict));
    let (state, verdict) = match it.status() {
        wire::DeliveryStatus::Open => (DeliveryState::Open, None),
        wire::DeliveryStatus::Approved if it.verification.is_some() => {
            judged(DeliveryState::Approved, Verdict::Approved)
        }
        wire::DeliveryStatus::Rejected if it.verification.is_some() => {
            judged(DeliveryState::Rejected, Verdict::Rejected)
        }
        // It will get no verdict any more.
        wire::DeliveryStatus::Unspecified
        | wire::DeliveryStatus::InReview
        | wire::DeliveryStatus::Approved
        | wire::DeliveryStatus::Rejected => (DeliveryState::Rejected, None),
    };
    let at = time("delivered_ms", it.delivered_ms)?;
    let words = parse::delivery_words(wire::SubmitDeliveryRequest {
        summary: it.summary,
        refs: it.refs,
        artifacts: it.artifacts,
        test_evidence: it.test_evidence,
        ..wire::SubmitDeliveryRequest::default()
    })?;
    let commands = words.evidence.doc_commands.iter();
    let commands: Vec<_> = commands.map(|it| Hash::of(it.as_bytes())).collect();
    let mut new = Delivery {
        id: delivery,
        issue,
        role: optional("delivered_by", &it.delivered_by)?,
        content: words.content(),
        commit: words.commit.clone(),
        is_passed: words.is_passed(),
        commands: Delivery::commands_hash(&commands),
        state,
        at,
        updated: at,
        claim: None,
        former: None,
        evidence: Vec::new(),
        verdict: None,
    };
    import.words.push(Words::Delivery { issue, delivery, words: Box::new(words) });
    if let Some(verdict) = verdict {
        let verification: Verification = parse::verification(it.verification)?;
        let (feedback, refs) = (text("feedback", it.feedback)?, parse::refs(it.review_refs)?);
        let words = VerdictWords { feedback, refs, verification };
        new.updated = time("reviewed_ms", it.reviewed_ms)?;
        new.verdict = Some(DeliveryVerdict {
            verdict,
            content: words.content(verdict, None),
            by: optional("reviewed_by", &it.reviewed_by)?,
            at: new.updated,
            overridden: None,
        });
        import.words.push(Words::Verdict { issue, delivery, words });
    }
    import.imported.deliveries.push(new);
    Ok(())
}

#[cfg(test)]
mod tests {
    use tasuki_proto::limits::TIME_MS_MAX;

    use super::*;

    #[test]
    fn what_was_elsewhere_was_at_a_time_that_can_be_shown() {
        let begins = |created_ms| {
            opened(wire::Issue {
                issue_id: "issue_1700000000000_00af".to_owned(),
                subject: "s".to_owned(),
                status: wire::IssueStatus::Open.into(),
                created_ms,
                ..Default::default()
            })
        };
        assert!(begins(TIME_MS_MAX).is_ok());
        let refused = begins(TIME_MS_MAX + 1).unwrap_err();
        assert!(refused.message().contains("created_ms"), "{refused}");
        let refused = begins(u64::MAX).unwrap_err();
        assert!(refused.message().contains("created_ms"), "{refused}");
    }
}
