//! What the state holds and what was said, as callers get it.

use tasuki_proto::{
    id::{RoleId, Timestamp},
    wire::{self, swarm_event::Kind},
};

use super::super::render::{ms, text};
use crate::rules::swarm::{
    Delivery, DeliveryState, Event, Issue, IssueState, Message, Settings, Submission, Task,
    Verdict, WhyUnlocked,
    lock::Lock,
    words::{
        Artifacts, AuditEntry, AuditKind, CommandResult, DeliveryWords, EvidenceWords, ReviewWords,
        TaskWords, VerdictWords,
    },
};

pub(super) fn issue(it: &Issue) -> wire::Issue {
    let status = match it.state {
        IssueState::Open if it.is_in_progress() => wire::IssueStatus::InProgress,
        IssueState::Open => wire::IssueStatus::Open,
        IssueState::Done => wire::IssueStatus::Done,
        IssueState::Canceled => wire::IssueStatus::Canceled,
    };
    // By number of state.
    let [open, in_progress, waiting_for_answer, done, canceled] =
        it.counts().tasks.map(|count| count as u64);
    let tasks = wire::TaskCounts { open, in_progress, waiting_for_answer, done, canceled };
    wire::Issue {
        issue_id: it.id.to_string(),
        subject: it.subject.clone(),
        lead: text(it.lead.as_ref()),
        status: status.into(),
        docs: it.docs.by_name.keys().map(ToString::to_string).collect(),
        lease_expires_ms: it.lease.map_or(0, |it| it.lapses.as_millis()),
        created_ms: it.created.as_millis(),
        updated_ms: it.updated.as_millis(),
        tasks: Some(tasks),
        is_unaccepted: it.state == IssueState::Done && !it.is_accepted,
        ..wire::Issue::default()
    }
}

/// A task as `asker` may see it.
pub(super) fn task(issue: &Issue, it: &Task, asker: Option<&RoleId>) -> wire::Task {
    let live = it.live_claim();
    let own = live.filter(|claim| Some(&claim.worker) == asker);
    // Not while its submission waits for a verdict.
    let lapsing = live.filter(|_| it.open_submission().is_none());
    let kept = it.reservation.as_ref();
    let given = kept.filter(|kept| kept.is_attached && Some(&kept.worker) == asker);
    let newest = it.submissions.last();
    wire::Task {
        issue_id: issue.id.to_string(),
        task_id: it.number.to_string(),
        subject: it.subject.clone(),
        difficulty: wire::Difficulty::from(it.difficulty).into(),
        points: it.points,
        status: wire::TaskStatus::from(it.state).into(),
        stage: wire::TaskStage::from(issue.task_standing(it)).into(),
        blocked_by: it.blocked_by.iter().map(ToString::to_string).collect(),
        claimed_by: text(it.claim.as_ref().map(|claim| &claim.worker)),
        lease_expires_ms: lapsing.map_or(0, |claim| claim.lease.lapses.as_millis()),
        claim_token: own.map_or(0, |claim| claim.token.get()),
        reserved_for: text(kept.map(|kept| &kept.worker)),
        reserved_until_ms: kept.map_or(0, |kept| kept.lease.lapses.as_millis()),
        reserved_token: text(given.map(|kept| &kept.next_step)),
        submission: newest.map(|it| submission(issue, it, asker)),
        created_ms: it.created.as_millis(),
        updated_ms: it.updated.as_millis(),
        words: None,
        messages: Vec::new(),
    }
}

pub(super) fn submission(
    issue: &Issue,
    it: &Submission,
    asker: Option<&RoleId>,
) -> wire::Submission {
    let judged = it.reviewed.as_ref();
    let approved = judged.filter(|it| it.verdict == Verdict::Approved);
    wire::Submission {
        submission_id: it.id.to_string(),
        worker: it.worker.to_string(),
        status: wire::SubmissionStatus::from(it.state).into(),
        submitted_ms: it.at.as_millis(),
        reviewed_ms: ms(judged.map(|it| it.at)),
        reviewed_by: text(judged.and_then(|it| it.by.as_ref())),
        completion_score: approved.map_or(0, |it| it.score.get().into()),
        words: None,
        review: None,
        next_step: next_step(issue, it, asker),
    }
}

/// What a worker was given with its approval.
fn next_step(issue: &Issue, it: &Submission, asker: Option<&RoleId>) -> Option<wire::NextStep> {
    let judged = it.reviewed.as_ref()?;
    let given = judged.next_step?;
    let minted = it.minted.as_ref().filter(|minted| minted.next_step == given)?;
    let task = minted.task.and_then(|number| issue.tasks.get(number.index()));
    let kept = task.and_then(|it| it.reservation.as_ref());
    let kept = kept.filter(|kept| kept.next_step == given);
    let total = judged.total.unwrap_or_else(|| issue.total(&it.worker));
    Some(wire::NextStep {
        token: if asker == Some(&it.worker) { given.to_string() } else { String::new() },
        task_id: text(minted.task.as_ref()),
        difficulty: task.map_or(0, |it| wire::Difficulty::from(it.difficulty).into()),
        reserved_until_ms: kept.map_or(0, |it| it.lease.lapses.as_millis()),
        worker_total_points: total.points.into(),
        consecutive_low_scores: total.low_scores,
    })
}

pub(super) fn message(task: &Task, it: &Message) -> wire::TaskMessage {
    wire::TaskMessage {
        message_id: it.id.to_string(),
        task_id: task.number.to_string(),
        sender: it.sender.to_string(),
        kind: it.kind.to_string(),
        status: wire::MessageStatus::from(it.state).into(),
        created_ms: it.at.as_millis(),
        replied_by: text(it.replied_by.as_ref()),
        replied_ms: ms(it.replied.filter(|_| it.reply.is_some())),
        ..wire::TaskMessage::default()
    }
}

pub(super) fn delivery(it: &Delivery, asker: Option<&RoleId>) -> wire::Delivery {
    let (claim, verdict) = (it.claim.as_ref(), it.verdict.as_ref());
    let live = it.live_claim();
    let own = live.filter(|claim| Some(&claim.role) == asker);
    let overridden = verdict.and_then(|it| it.overridden.as_ref());
    wire::Delivery {
        delivery_id: it.id.to_string(),
        issue_id: it.issue.to_string(),
        status: wire::DeliveryStatus::from(it.state).into(),
        delivered_by: text(it.role.as_ref()),
        claimed_by: text(claim.map(|it| &it.role)),
        reviewed_by: text(verdict.and_then(|it| it.by.as_ref())),
        delivered_ms: it.at.as_millis(),
        claimed_ms: ms(claim.map(|it| it.claimed)),
        reviewed_ms: ms(verdict.map(|it| it.at)),
        updated_ms: it.updated.as_millis(),
        lease_expires_ms: live.map_or(0, |it| it.lease.lapses.as_millis()),
        claim_token: own.map_or(0, |it| it.token.get()),
        overridden: overridden
            .map(|it| wire::Override { person: it.person.to_string(), reason: it.reason.clone() }),
        ended_because: match (it.state, verdict) {
            (DeliveryState::Rejected, None) => "its issue was closed".to_owned(),
            _ => String::new(),
        },
        ..wire::Delivery::default()
    }
}

pub(super) fn lock(it: &Lock, asker: Option<&RoleId>) -> wire::Lock {
    let first = it.keys.first();
    let (issue, task) = it.task.unzip();
    wire::Lock {
        lease_id: it.id.to_string(),
        holder: it.role.to_string(),
        files: Some(wire::FileSet {
            repository: first.map_or_else(String::new, |key| key.repository().to_owned()),
            patterns: it.keys.iter().map(|key| key.path().to_owned()).collect(),
            is_case_folded: first.is_some_and(|key| key.is_case_folded()),
        }),
        issue_id: text(issue.as_ref()),
        task_id: text(task.as_ref()),
        acquired_ms: it.acquired.as_millis(),
        renewed_ms: it.renewed.as_millis(),
        expires_ms: it.lease.lapses.as_millis(),
        lock_token: if asker == Some(&it.role) { it.token.get() } else { 0 },
    }
}

pub(super) fn settings(it: &Settings) -> wire::SwarmSettings {
    wire::SwarmSettings {
        issue_ttl_ms: it.issue_ttl_ms,
        task_claim_ms: it.task_claim_ms,
        delivery_claim_ms: it.delivery_claim_ms,
        reservation_ms: it.reservation_ms,
        lock_ms: it.lock_ms,
        heartbeat_ms: it.heartbeat_ms,
        item_again_ms: it.item_again_ms,
        max_task_count: it.max_task_count,
    }
}

pub(super) fn task_words(it: TaskWords) -> wire::TaskWords {
    let context: Vec<String> = it.context.iter().map(ToString::to_string).collect();
    let names = |names: &[tasuki_proto::swarm::DocName]| -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    };
    wire::TaskWords {
        required_issue_docs: names(&it.required_issue_docs),
        required_task_docs: names(&it.required_task_docs),
        description: it.description,
        context_task_ids: context.clone(),
        suggested_files: it.suggested_files,
        labels: it.labels,
        doc_paths: it.doc_paths,
        spec: Some(wire::TaskSpec {
            name: it.spec.name,
            split_from: it.spec.split_from,
            split_reason: it.spec.split_reason,
            impact_scope: it.spec.impact_scope,
            context_task_ids: context,
            goal: it.spec.goal,
            rules: it.spec.rules,
            constraints: it.spec.constraints,
            conventions: it.spec.conventions,
            acceptance: it.spec.acceptance,
        }),
    }
}

pub(super) fn artifacts(it: Artifacts) -> wire::SubmissionWords {
    wire::SubmissionWords {
        summary: it.summary,
        changed_files: it.changed_files,
        diff: it.diff,
        links: it.links,
        test_cases: it.test_cases,
        test_result: it.test_result,
        test_output: it.test_output,
        rerun: rerun(it.commit, it.commands),
    }
}

fn rerun(commit: String, commands: Vec<String>) -> Option<wire::Rerun> {
    let is_there = !commit.is_empty() || !commands.is_empty();
    is_there.then_some(wire::Rerun { commit, commands })
}

pub(super) fn review(it: ReviewWords, is_approved: bool) -> wire::Review {
    let detail = |it: crate::rules::swarm::words::FeedbackDetail| wire::FeedbackDetail {
        dimension: it.dimension.to_string(),
        severity: it.severity.to_string(),
        file_path: it.file_path,
        line_range: it.line_range,
        content: it.content,
        suggestion: it.suggestion,
    };
    wire::Review {
        is_approved,
        feedback: it.feedback,
        review_summary: it.summary,
        reviewed_refs: it.reviewed_refs,
        details: it.details.into_iter().map(detail).collect(),
    }
}

fn result(it: CommandResult) -> wire::CommandResult {
    wire::CommandResult {
        command: it.command,
        has_passed: it.is_passed,
        exit_code: it.exit_code,
        output: it.output,
    }
}

/// Adds what the lead said.
pub(super) fn delivered(to: &mut wire::Delivery, it: DeliveryWords) {
    let has_evidence = it.has_evidence();
    let evidence = it.evidence;
    to.summary = it.summary;
    to.refs = it.refs;
    to.artifacts = Some(wire::DeliveryArtifacts {
        has_passed: it.is_test_passed,
        test_cases: it.test_cases,
        changed_files: it.changed_files,
        reviewed_refs: it.reviewed_refs,
        test_output: it.test_output,
        known_risks: it.known_risks,
    });
    to.test_evidence = has_evidence.then(|| wire::TestEvidence {
        script_path: evidence.script_path,
        script_cmd: evidence.script_cmd,
        script_passed: evidence.is_script_passed,
        script_result: evidence.script_result,
        doc_path: evidence.doc_path,
        doc_commands: evidence.doc_commands,
        doc_results: evidence.doc_results.into_iter().map(result).collect(),
        doc_passed: evidence.is_doc_passed,
        rerun: rerun(it.commit, it.commands),
    });
}

/// Adds what the acceptor said.
pub(super) fn judged(to: &mut wire::Delivery, it: VerdictWords) {
    to.feedback = it.feedback;
    to.review_refs = it.refs;
    to.verification = Some(wire::Verification {
        script_passed: it.verification.is_script_passed,
        script_result: it.verification.script_result,
        doc_passed: it.verification.is_doc_passed,
        doc_results: it.verification.doc_results.into_iter().map(result).collect(),
    });
}

pub(super) fn evidence(it: EvidenceWords, is_passed: bool, at: Timestamp) -> wire::Evidence {
    let run = |it: crate::rules::swarm::words::Run| wire::CommandEvidence {
        command: it.result.command,
        exit_code: it.result.exit_code,
        output_hash: unhex(&it.output_hash),
        output_tail: it.result.output,
        output_bytes: it.output_bytes,
        duration_ms: it.duration_ms,
        is_timed_out: it.is_timed_out,
        sandbox: it.sandbox,
    };
    wire::Evidence {
        by: text(it.role.as_ref()),
        node: text(it.node.as_ref()),
        at_ms: at.as_millis(),
        commit: it.commit,
        commands: it.runs.into_iter().map(run).collect(),
        has_passed: is_passed,
    }
}

/// Bytes from their digits.
fn unhex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks_exact(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.filter_map(byte).collect()
}

pub(super) fn history_entry(it: AuditEntry, refs: String) -> wire::HistoryEntry {
    let is_kind = matches!(it.kind, AuditKind::TaskMessage);
    let (kind, detail) =
        if is_kind { (it.detail, String::new()) } else { (String::new(), it.detail) };
    let about = text(it.submission.as_ref());
    let about = if about.is_empty() { text(it.message.as_ref()) } else { about };
    let about = if about.is_empty() { text(it.delivery.as_ref()) } else { about };
    wire::HistoryEntry {
        number: it.number,
        r#type: it.kind.to_string(),
        task_id: text(it.task.as_ref()),
        role: text(it.role.as_ref().or(it.worker.as_ref())),
        person: text(it.person.as_ref()),
        node: text(it.node.as_ref()),
        token: text(it.token.as_ref()),
        kind,
        detail,
        refs,
        about,
        at_ms: it.at.as_millis(),
    }
}

/// What the feed tells of it: no words. `None` for what is no news to anybody.
pub(in crate::grpc) fn event(event: &Event) -> Option<Kind> {
    Some(match event {
        Event::Issue(it) => {
            let entry = AuditEntry::of(it);
            Kind::IssueChanged(wire::IssueChanged {
                issue_id: it.issue.to_string(),
                number: it.audit,
                r#type: entry.kind.to_string(),
                task_id: text(entry.task.as_ref()),
                worker: text(entry.worker.as_ref()),
                submission_id: text(entry.submission.as_ref()),
                message_id: text(entry.message.as_ref()),
                delivery_id: text(entry.delivery.as_ref()),
            })
        }
        Event::Compacted(_) | Event::DocCompacted { .. } => return None,
        Event::ItemsHanded { issue, items } => Kind::ItemsHanded(wire::ItemsHanded {
            issue_id: issue.to_string(),
            numbers: items.clone(),
        }),
        Event::WorkerRegistered(role) => {
            Kind::WorkerRegistered(wire::WorkerRegistered { worker: role.to_string() })
        }
        Event::SharedDocWritten(it) => Kind::SharedDocWritten(wire::SharedDocWritten {
            name: it.name.to_string(),
            version: it.version,
        }),
        Event::Locked(it) => {
            let (issue, task) = it.task.unzip();
            Kind::FilesLocked(wire::FilesLocked {
                lease_id: it.lock.to_string(),
                holder: it.role.to_string(),
                files: u32::try_from(it.keys.len()).unwrap_or(u32::MAX),
                issue_id: text(issue.as_ref()),
                task_id: text(task.as_ref()),
                expires_ms: it.lapses.as_millis(),
            })
        }
        Event::Unlocked(it) => {
            let why = match it.why {
                WhyUnlocked::Unlocked => "unlocked",
                WhyUnlocked::Forced { .. } => "forced",
                WhyUnlocked::Lapsed => "lapsed",
                WhyUnlocked::TaskEnded => "task_ended",
            };
            let (lease_id, why) = (it.lock.to_string(), why.to_owned());
            Kind::FilesUnlocked(wire::FilesUnlocked { lease_id, why })
        }
        Event::SettingsSet(_) => Kind::SwarmSettingsSet(wire::SwarmSettingsSet {}),
        Event::LeaseRenewed(_) => return None,
    })
}
