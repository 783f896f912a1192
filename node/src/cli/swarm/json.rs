//! Issues, tasks, deliveries and locks as JSON, for programs. Field names are those of the
//! protocol, states are its names in small letters, texts are as they were written.

use serde_json::{Value, json};
use tasuki_proto::wire;

use super::words::{
    delivery_status, difficulty, issue_status, message_status, submission_status, task_stage,
    task_status,
};

pub(super) fn issue(of: &wire::Issue) -> Value {
    let counts = [
        wire::TaskStatus::Open,
        wire::TaskStatus::InProgress,
        wire::TaskStatus::Blocked,
        wire::TaskStatus::Done,
        wire::TaskStatus::Canceled,
    ];
    let tasks = counts.map(|it| (task_status(it), json!(super::words::count(of, it))));
    json!({
        "issue_id": of.issue_id,
        "subject": of.subject,
        "lead": of.lead,
        "status": issue_status(of.status()),
        "shared_doc_paths": of.shared_doc_paths,
        "project_doc_paths": of.project_doc_paths,
        "docs": of.docs,
        "lease_expires_ms": of.lease_expires_ms,
        "created_ms": of.created_ms,
        "updated_ms": of.updated_ms,
        "tasks": tasks.into_iter().collect::<serde_json::Map<String, Value>>(),
        "description": of.description,
        "summary": of.summary,
        "is_unaccepted": of.is_unaccepted,
        "imported": hex(&of.imported),
        "imported_parts_left": of.imported_parts_left,
    })
}

/// A task; its words and messages are there where it was asked for alone.
pub(super) fn task(of: &wire::Task) -> Value {
    let mut value = json!({
        "issue_id": of.issue_id,
        "task_id": of.task_id,
        "subject": of.subject,
        "difficulty": difficulty(of.difficulty()),
        "points": of.points,
        "status": task_status(of.status()),
        "stage": task_stage(of.stage()),
        "blocked_by": of.blocked_by,
        "claimed_by": of.claimed_by,
        "lease_expires_ms": of.lease_expires_ms,
        "claim_token": of.claim_token,
        "reserved_for": of.reserved_for,
        "reserved_until_ms": of.reserved_until_ms,
        "reserved_token": of.reserved_token,
        "submission": of.submission.as_ref().map(submission),
        "created_ms": of.created_ms,
        "updated_ms": of.updated_ms,
    });
    if let Some(of) = &of.words {
        value["words"] = words(of);
    }
    if of.words.is_some() || !of.messages.is_empty() {
        value["messages"] = of.messages.iter().map(message).collect();
    }
    value
}

fn words(of: &wire::TaskWords) -> Value {
    let spec = of.spec.clone().unwrap_or_default();
    json!({
        "description": of.description,
        "context_task_ids": of.context_task_ids,
        "suggested_files": of.suggested_files,
        "labels": of.labels,
        "doc_paths": of.doc_paths,
        "required_issue_docs": of.required_issue_docs,
        "required_task_docs": of.required_task_docs,
        "spec": {
            "name": spec.name,
            "split_from": spec.split_from,
            "split_reason": spec.split_reason,
            "context_task_ids": spec.context_task_ids,
            "impact_scope": spec.impact_scope,
            "goal": spec.goal,
            "rules": spec.rules,
            "constraints": spec.constraints,
            "conventions": spec.conventions,
            "acceptance": spec.acceptance,
        },
    })
}

pub(super) fn submission(of: &wire::Submission) -> Value {
    let mut value = json!({
        "submission_id": of.submission_id,
        "worker": of.worker,
        "status": submission_status(of.status()),
        "submitted_ms": of.submitted_ms,
        "reviewed_ms": of.reviewed_ms,
        "reviewed_by": of.reviewed_by,
        "completion_score": of.completion_score,
        "next_step": of.next_step.as_ref().map(next_step),
    });
    if let Some(of) = &of.words {
        value["words"] = json!({
            "summary": of.summary,
            "changed_files": of.changed_files,
            "diff": of.diff,
            "links": of.links,
            "test_cases": of.test_cases,
            "test_result": of.test_result,
            "test_output": of.test_output,
            "rerun": of.rerun.as_ref().map(rerun),
        });
    }
    if let Some(of) = &of.review {
        value["review"] = review(of);
    }
    value
}

fn review(of: &wire::Review) -> Value {
    let details = of.details.iter().map(|it| {
        json!({
            "dimension": it.dimension,
            "severity": it.severity,
            "file_path": it.file_path,
            "line_range": it.line_range,
            "content": it.content,
            "suggestion": it.suggestion,
        })
    });
    json!({
        "is_approved": of.is_approved,
        "feedback": of.feedback,
        "review_summary": of.review_summary,
        "reviewed_refs": of.reviewed_refs,
        "details": details.collect::<Vec<_>>(),
    })
}

fn rerun(of: &wire::Rerun) -> Value {
    json!({"commit": of.commit, "commands": of.commands})
}

pub(super) fn next_step(of: &wire::NextStep) -> Value {
    json!({
        "token": of.token,
        "task_id": of.task_id,
        "difficulty": if of.task_id.is_empty() { Value::Null } else { json!(difficulty(of.difficulty())) },
        "reserved_until_ms": of.reserved_until_ms,
        "worker_total_points": of.worker_total_points,
        "consecutive_low_scores": of.consecutive_low_scores,
    })
}

pub(super) fn message(of: &wire::TaskMessage) -> Value {
    json!({
        "message_id": of.message_id,
        "task_id": of.task_id,
        "sender": of.sender,
        "kind": of.kind,
        "content": of.content,
        "refs": of.refs,
        "status": message_status(of.status()),
        "created_ms": of.created_ms,
        "reply": of.reply,
        "reply_refs": of.reply_refs,
        "replied_by": of.replied_by,
        "replied_ms": of.replied_ms,
    })
}

/// What became of a delivery by a command.
pub(super) fn delivery_done(of: &wire::Delivery, repeated: bool, sequence: u64) -> Value {
    json!({ "delivery": delivery(of), "repeated": repeated, "sequence": sequence })
}

/// A delivery; its words are there where it was asked for alone.
pub(super) fn delivery(of: &wire::Delivery) -> Value {
    let mut value = json!({
        "delivery_id": of.delivery_id,
        "issue_id": of.issue_id,
        "status": delivery_status(of.status()),
        "delivered_by": of.delivered_by,
        "claimed_by": of.claimed_by,
        "reviewed_by": of.reviewed_by,
        "delivered_ms": of.delivered_ms,
        "claimed_ms": of.claimed_ms,
        "reviewed_ms": of.reviewed_ms,
        "updated_ms": of.updated_ms,
        "lease_expires_ms": of.lease_expires_ms,
        "claim_token": of.claim_token,
        "overridden": of.overridden.as_ref()
            .map(|it| json!({"person": it.person, "reason": it.reason})),
        "ended_because": of.ended_because,
    });
    let Some(artifacts) = &of.artifacts else { return value };
    let evidence = of.test_evidence.clone().unwrap_or_default();
    let whole = json!({
        "summary": of.summary,
        "refs": of.refs,
        "artifacts": {
            "has_passed": artifacts.has_passed,
            "test_cases": artifacts.test_cases,
            "changed_files": artifacts.changed_files,
            "reviewed_refs": artifacts.reviewed_refs,
            "test_output": artifacts.test_output,
            "known_risks": artifacts.known_risks,
        },
        "test_evidence": {
            "script_path": evidence.script_path,
            "script_cmd": evidence.script_cmd,
            "script_passed": evidence.script_passed,
            "script_result": evidence.script_result,
            "doc_path": evidence.doc_path,
            "doc_commands": evidence.doc_commands,
            "doc_results": evidence.doc_results.iter().map(result).collect::<Vec<_>>(),
            "doc_passed": evidence.doc_passed,
            "rerun": evidence.rerun.as_ref().map(rerun),
        },
        "verification": of.verification.as_ref().map(|it| json!({
            "script_passed": it.script_passed,
            "script_result": it.script_result,
            "doc_passed": it.doc_passed,
            "doc_results": it.doc_results.iter().map(result).collect::<Vec<_>>(),
        })),
        "feedback": of.feedback,
        "review_refs": of.review_refs,
        "evidence": of.evidence.iter().map(evidence_of).collect::<Vec<_>>(),
    });
    if let (Some(value), Value::Object(whole)) = (value.as_object_mut(), whole) {
        value.extend(whole);
    }
    value
}

fn result(of: &wire::CommandResult) -> Value {
    json!({
        "command": of.command,
        "has_passed": of.has_passed,
        "exit_code": of.exit_code,
        "output": of.output,
    })
}

fn evidence_of(of: &wire::Evidence) -> Value {
    let commands = of.commands.iter().map(|it| {
        json!({
            "command": it.command,
            "exit_code": it.exit_code,
            "output_hash": hex(&it.output_hash),
            "output_bytes": it.output_bytes,
            "output_tail": it.output_tail,
            "duration_ms": it.duration_ms,
            "is_timed_out": it.is_timed_out,
            "sandbox": it.sandbox,
        })
    });
    json!({
        "by": of.by,
        "node": of.node,
        "at_ms": of.at_ms,
        "commit": of.commit,
        "commands": commands.collect::<Vec<_>>(),
        "has_passed": of.has_passed,
    })
}

pub(super) fn worker(of: &wire::Worker) -> Value {
    let claims = of.claims.iter().map(|it| {
        json!({
            "issue_id": it.issue_id,
            "task_id": it.task_id,
            "lease_expires_ms": it.lease_expires_ms,
            "claim_token": it.claim_token,
            "stage": task_stage(it.stage()),
        })
    });
    let reserved = of.reserved.iter().map(|it| {
        json!({
            "issue_id": it.issue_id,
            "task_id": it.task_id,
            "next_step_token": it.next_step_token,
            "reserved_until_ms": it.reserved_until_ms,
        })
    });
    let points = of.points.iter().map(|it| {
        json!({
            "issue_id": it.issue_id,
            "total_points": it.total_points,
            "consecutive_low_scores": it.consecutive_low_scores,
        })
    });
    json!({
        "worker": of.worker,
        "joined_ms": of.joined_ms,
        "updated_ms": of.updated_ms,
        "node": of.node,
        "quiet_ms": of.quiet_ms,
        "claims": claims.collect::<Vec<_>>(),
        "reserved": reserved.collect::<Vec<_>>(),
        "points": points.collect::<Vec<_>>(),
    })
}

/// A document; without its content in a list.
pub(super) fn doc(of: &wire::Doc) -> Value {
    let place = of.place.clone().unwrap_or_default();
    json!({
        "issue_id": place.issue_id,
        "task_id": place.task_id,
        "name": of.name,
        "version": of.version,
        "size": of.size,
        "written_ms": of.written_ms,
        "written_by": of.written_by,
    })
}

pub(super) fn lock(of: &wire::Lock) -> Value {
    let files = of.files.clone().unwrap_or_default();
    json!({
        "lease_id": of.lease_id,
        "holder": of.holder,
        "repository": files.repository,
        "patterns": files.patterns,
        "is_case_folded": files.is_case_folded,
        "issue_id": of.issue_id,
        "task_id": of.task_id,
        "acquired_ms": of.acquired_ms,
        "renewed_ms": of.renewed_ms,
        "expires_ms": of.expires_ms,
        "lock_token": of.lock_token,
    })
}

pub(super) fn settings(of: &wire::SwarmSettings) -> Value {
    json!({
        "issue_ttl_ms": of.issue_ttl_ms,
        "task_claim_ms": of.task_claim_ms,
        "delivery_claim_ms": of.delivery_claim_ms,
        "reservation_ms": of.reservation_ms,
        "lock_ms": of.lock_ms,
        "heartbeat_ms": of.heartbeat_ms,
        "item_again_ms": of.item_again_ms,
        "max_task_count": of.max_task_count,
    })
}

pub(super) fn happened(of: &wire::HistoryEntry) -> Value {
    json!({
        "number": of.number,
        "type": of.r#type,
        "task_id": of.task_id,
        "role": of.role,
        "person": of.person,
        "node": of.node,
        "token": of.token,
        "kind": of.kind,
        "detail": of.detail,
        "refs": of.refs,
        "about": of.about,
        "at_ms": of.at_ms,
        "is_imported": of.is_imported,
        "elsewhere_ms": of.elsewhere_ms,
        "elsewhere_actor": of.elsewhere_actor,
    })
}

/// What was asked for, with the broker's time: by that and no other clock what is left of a lease is
/// counted.
pub(super) fn at(mut value: Value, now_ms: u64) -> Value {
    value["now_ms"] = now_ms.into();
    value
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use crate::cli::json::unshown;

    use super::*;

    fn check(message: &str, value: &Value, elsewhere: &[&str]) {
        assert_eq!(unshown(message, value), elsewhere, "{message}: {value}");
    }

    /// Text is made of the same fields, so that it says nothing that programs are not told.
    #[test]
    fn every_field_of_what_is_shown_is_there_for_programs() {
        let of = wire::Submission {
            words: Some(wire::SubmissionWords::default()),
            review: Some(wire::Review {
                details: vec![wire::FeedbackDetail::default()],
                ..wire::Review::default()
            }),
            ..wire::Submission::default()
        };
        let value = submission(&of);
        check("Submission", &value, &[]);
        check("SubmissionWords", &value["words"], &[]);
        check("Review", &value["review"], &[]);
        check("FeedbackDetail", &value["review"]["details"][0], &[]);
        check("Rerun", &rerun(&wire::Rerun::default()), &[]);
        check("NextStep", &next_step(&wire::NextStep::default()), &[]);
        let of = wire::Task { words: Some(wire::TaskWords::default()), ..wire::Task::default() };
        let value = task(&of);
        check("Task", &value, &[]);
        check("TaskWords", &value["words"], &[]);
        check("TaskSpec", &value["words"]["spec"], &[]);
        check("TaskMessage", &message(&wire::TaskMessage::default()), &[]);
        let of = wire::Delivery {
            artifacts: Some(wire::DeliveryArtifacts::default()),
            test_evidence: Some(wire::TestEvidence {
                doc_results: vec![wire::CommandResult::default()],
                ..wire::TestEvidence::default()
            }),
            verification: Some(wire::Verification::default()),
            evidence: vec![wire::Evidence {
                commands: vec![wire::CommandEvidence::default()],
                ..wire::Evidence::default()
            }],
            overridden: Some(wire::Override::default()),
            ..wire::Delivery::default()
        };
        let value = delivery(&of);
        check("Delivery", &value, &[]);
        check("DeliveryArtifacts", &value["artifacts"], &[]);
        check("TestEvidence", &value["test_evidence"], &[]);
        check("CommandResult", &value["test_evidence"]["doc_results"][0], &[]);
        check("Verification", &value["verification"], &[]);
        check("Evidence", &value["evidence"][0], &[]);
        check("CommandEvidence", &value["evidence"][0]["commands"][0], &[]);
        check("Override", &value["overridden"], &[]);
        let of = wire::Worker {
            claims: vec![wire::ClaimedTask::default()],
            reserved: vec![wire::ReservedTask::default()],
            points: vec![wire::IssuePoints::default()],
            ..wire::Worker::default()
        };
        let value = worker(&of);
        // Of registering alone.
        check("Worker", &value, &["sequence"]);
        check("ClaimedTask", &value["claims"][0], &[]);
        check("ReservedTask", &value["reserved"][0], &[]);
        check("IssuePoints", &value["points"][0], &[]);
        check("Issue", &issue(&wire::Issue::default()), &[]);
        // The place is there by its parts; the content only where it is asked for.
        check("Doc", &doc(&wire::Doc::default()), &["place", "content", "repeated"]);
        check("DocPlace", &doc(&wire::Doc::default()), &[]);
        // By their parts.
        check("Lock", &lock(&wire::Lock::default()), &["files"]);
        check("FileSet", &lock(&wire::Lock::default()), &[]);
        check("SwarmSettings", &settings(&wire::SwarmSettings::default()), &[]);
        check("HistoryEntry", &happened(&wire::HistoryEntry::default()), &[]);
    }
}
