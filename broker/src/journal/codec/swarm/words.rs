//! What was said, and the audit: each under a key of its own.

use bytes::Bytes;
use prost::Message as _;
use tasuki_proto::{
    stored::{self, swarm_audit_entry, swarm_words::Kind},
    swarm::{DeliveryId, IssueId, NextStepId, SubmissionId, TaskMessageId},
};

use super::{
    super::{BodyKey, CodecError, optional, text},
    at, doc_names, named, numbers, optional_bytes, optional_stamp, optional_task, stamp,
    stamp_bytes, tasks, texts,
};
use crate::rules::swarm::{
    DocPlace, Words,
    words::{
        Artifacts, AuditEntry, AuditKind, CommandResult, DeliveryWords, Dimension, DocPaths,
        EvidenceWords, FeedbackDetail, MessageWords, Origin, ReviewWords, Run, Severity, TaskSpec,
        TaskWords, TestEvidence, VerdictWords, Verification,
    },
};

/// Where words are. What is said in `words` does not count, only what they belong to.
pub fn swarm_key(words: &Words) -> BodyKey {
    BodyKey(match words {
        Words::Issue { issue, .. } => format!("swarm/{issue}/issue"),
        Words::Paths { issue, version, .. } => format!("swarm/{issue}/paths/{version}"),
        Words::Task { issue, task, .. } => format!("swarm/{issue}/{task}"),
        Words::Submission { issue, submission, .. } => format!("swarm/{issue}/{submission}"),
        Words::Review { issue, submission, .. } => format!("swarm/{issue}/{submission}/review"),
        Words::Message { issue, message, .. } => format!("swarm/{issue}/{message}"),
        Words::Reply { issue, message, .. } => format!("swarm/{issue}/{message}/reply"),
        Words::Delivery { issue, delivery, .. } => format!("swarm/{issue}/{delivery}"),
        Words::Evidence { issue, delivery, number, .. } => {
            format!("swarm/{issue}/{delivery}/evidence/{number}")
        }
        Words::Verdict { issue, delivery, .. } => format!("swarm/{issue}/{delivery}/verdict"),
        Words::Doc { place: DocPlace::Shared, name, version, .. } => {
            format!("swarm/shared/{name}/{version}")
        }
        Words::Doc { place: DocPlace::Issue(issue), name, version, .. } => {
            format!("swarm/{issue}/doc/{name}/{version}")
        }
        Words::Doc { place: DocPlace::Task(issue, task), name, version, .. } => {
            format!("swarm/{issue}/{task}/doc/{name}/{version}")
        }
        Words::Audit(it) => format!("swarm/{}/audit/{}", it.issue, it.number),
    })
}

pub(in crate::journal::codec) fn encode_words(words: &Words) -> (BodyKey, Bytes) {
    let kind = match words {
        Words::Issue { description, .. } => Kind::Issue(description.clone()),
        Words::Paths { paths: it, .. } => Kind::Paths(stored::SwarmPaths {
            shared: it.shared.clone(),
            project: it.project.clone(),
        }),
        Words::Task { words, .. } => Kind::Task(encode_task(words)),
        Words::Submission { words: it, .. } => Kind::Submission(stored::SwarmArtifacts {
            summary: it.summary.clone(),
            changed_files: it.changed_files.clone(),
            diff: it.diff.clone(),
            links: it.links.clone(),
            test_cases: it.test_cases.clone(),
            test_result: it.test_result.clone(),
            test_output: it.test_output.clone(),
            commit: it.commit.clone(),
            commands: it.commands.clone(),
        }),
        Words::Review { words: it, .. } => Kind::Review(stored::SwarmReviewWords {
            summary: it.summary.clone(),
            reviewed_refs: it.reviewed_refs.clone(),
            feedback: it.feedback.clone(),
            details: it.details.iter().map(encode_detail).collect(),
        }),
        Words::Message { words, .. } => Kind::Message(encode_message(words)),
        Words::Reply { words, .. } => Kind::Reply(encode_message(words)),
        Words::Delivery { words, .. } => Kind::Delivery(encode_delivery(words)),
        Words::Evidence { words: it, .. } => Kind::Evidence(stored::SwarmEvidence {
            commit: it.commit.clone(),
            role: text(it.role.as_ref()),
            node: text(it.node.as_ref()),
            runs: it
                .runs
                .iter()
                .map(|it| stored::SwarmRun {
                    result: Some(encode_result(&it.result)),
                    output_hash: it.output_hash.clone(),
                    duration_ms: it.duration_ms,
                    output_bytes: it.output_bytes,
                    is_timed_out: it.is_timed_out,
                    sandbox: it.sandbox.clone(),
                })
                .collect(),
        }),
        Words::Verdict { words: it, .. } => Kind::Verdict(stored::SwarmVerdictWords {
            feedback: it.feedback.clone(),
            refs: it.refs.clone(),
            is_script_passed: it.verification.is_script_passed,
            script_result: it.verification.script_result.clone(),
            is_doc_passed: it.verification.is_doc_passed,
            doc_results: it.verification.doc_results.iter().map(encode_result).collect(),
        }),
        Words::Doc { content, .. } => Kind::Doc(content.clone()),
        Words::Audit(it) => Kind::Audit(encode_audit(it)),
    };
    let mut stored = stored::SwarmWords { kind: Some(kind), ..Default::default() };
    if let Words::Doc { at, by, .. } = words {
        (stored.written_ms, stored.written_by) = (at.as_millis(), text(by.as_ref()));
    }
    (swarm_key(words), stored.encode_to_vec().into())
}

/// The words that are kept where `place` is: the same with what is said.
///
/// # Errors
/// When the bytes are something else.
pub fn decode_words(place: Words, bytes: Bytes) -> Result<Words, CodecError> {
    let it = stored::SwarmWords::decode(bytes).map_err(|_| CodecError::Malformed("swarm body"))?;
    let kind = it.kind.ok_or(CodecError::Unknown("swarm body"))?;
    Ok(match (place, kind) {
        (Words::Issue { issue, .. }, Kind::Issue(description)) => {
            Words::Issue { issue, description }
        }
        (Words::Paths { issue, version, .. }, Kind::Paths(it)) => {
            let paths = DocPaths { shared: it.shared, project: it.project };
            Words::Paths { issue, version, paths }
        }
        (Words::Task { issue, task, .. }, Kind::Task(it)) => {
            Words::Task { issue, task, words: decode_task(it)? }
        }
        (Words::Submission { issue, submission, .. }, Kind::Submission(it)) => {
            let words = Artifacts {
                summary: it.summary,
                changed_files: it.changed_files,
                diff: it.diff,
                links: it.links,
                test_cases: it.test_cases,
                test_result: it.test_result,
                test_output: it.test_output,
                commit: it.commit,
                commands: it.commands,
            };
            Words::Submission { issue, submission, words }
        }
        (Words::Review { issue, submission, .. }, Kind::Review(it)) => {
            let words = ReviewWords {
                summary: it.summary,
                reviewed_refs: it.reviewed_refs,
                feedback: it.feedback,
                details: it.details.into_iter().map(decode_detail).collect::<Result<_, _>>()?,
            };
            Words::Review { issue, submission, words }
        }
        (Words::Message { issue, message, .. }, Kind::Message(it)) => {
            Words::Message { issue, message, words: decode_message(it) }
        }
        (Words::Reply { issue, message, .. }, Kind::Reply(it)) => {
            Words::Reply { issue, message, words: decode_message(it) }
        }
        (Words::Delivery { issue, delivery, .. }, Kind::Delivery(it)) => {
            Words::Delivery { issue, delivery, words: Box::new(decode_delivery(it)) }
        }
        (Words::Evidence { issue, delivery, number, .. }, Kind::Evidence(it)) => {
            let runs = it.runs.into_iter().map(|it| Run {
                result: it.result.map(decode_result).unwrap_or_default(),
                output_hash: it.output_hash,
                duration_ms: it.duration_ms,
                output_bytes: it.output_bytes,
                is_timed_out: it.is_timed_out,
                sandbox: it.sandbox,
            });
            let words = EvidenceWords {
                commit: it.commit,
                runs: runs.collect(),
                role: optional("role", &it.role)?,
                node: optional("node", &it.node)?,
            };
            Words::Evidence { issue, delivery, number, words }
        }
        (Words::Verdict { issue, delivery, .. }, Kind::Verdict(it)) => {
            let verification = Verification {
                is_script_passed: it.is_script_passed,
                script_result: it.script_result,
                is_doc_passed: it.is_doc_passed,
                doc_results: it.doc_results.into_iter().map(decode_result).collect(),
            };
            let words = VerdictWords { feedback: it.feedback, refs: it.refs, verification };
            Words::Verdict { issue, delivery, words }
        }
        (Words::Doc { place, name, version, .. }, Kind::Doc(content)) => {
            let (at, by) = (at(it.written_ms), optional("written_by", &it.written_by)?);
            Words::Doc { place, name, version, content, at, by }
        }
        (Words::Audit(_), Kind::Audit(it)) => Words::Audit(Box::new(decode_audit(&it)?)),
        (_, _) => return Err(CodecError::Malformed("swarm body of this kind")),
    })
}

fn encode_task(it: &TaskWords) -> stored::SwarmTaskWords {
    stored::SwarmTaskWords {
        description: it.description.clone(),
        labels: it.labels.clone(),
        suggested_files: it.suggested_files.clone(),
        doc_paths: it.doc_paths.clone(),
        context: numbers(&it.context),
        required_issue_docs: texts(&it.required_issue_docs),
        required_task_docs: texts(&it.required_task_docs),
        name: it.spec.name.clone(),
        split_from: it.spec.split_from.clone(),
        split_reason: it.spec.split_reason.clone(),
        impact_scope: it.spec.impact_scope.clone(),
        goal: it.spec.goal.clone(),
        rules: it.spec.rules.clone(),
        constraints: it.spec.constraints.clone(),
        conventions: it.spec.conventions.clone(),
        acceptance: it.spec.acceptance.clone(),
    }
}

fn decode_task(it: stored::SwarmTaskWords) -> Result<TaskWords, CodecError> {
    Ok(TaskWords {
        description: it.description,
        labels: it.labels,
        suggested_files: it.suggested_files,
        doc_paths: it.doc_paths,
        context: tasks(&it.context)?,
        required_issue_docs: doc_names(&it.required_issue_docs)?,
        required_task_docs: doc_names(&it.required_task_docs)?,
        spec: TaskSpec {
            name: it.name,
            split_from: it.split_from,
            split_reason: it.split_reason,
            impact_scope: it.impact_scope,
            goal: it.goal,
            rules: it.rules,
            constraints: it.constraints,
            conventions: it.conventions,
            acceptance: it.acceptance,
        },
    })
}

fn encode_detail(it: &FeedbackDetail) -> stored::SwarmFeedback {
    stored::SwarmFeedback {
        dimension: it.dimension.code(),
        severity: it.severity.code(),
        file_path: it.file_path.clone(),
        line_range: it.line_range.clone(),
        content: it.content.clone(),
        suggestion: it.suggestion.clone(),
    }
}

fn decode_detail(it: stored::SwarmFeedback) -> Result<FeedbackDetail, CodecError> {
    Ok(FeedbackDetail {
        dimension: named("dimension", Dimension::of_code(it.dimension))?,
        severity: named("severity", Severity::of_code(it.severity))?,
        file_path: it.file_path,
        line_range: it.line_range,
        content: it.content,
        suggestion: it.suggestion,
    })
}

fn encode_message(it: &MessageWords) -> stored::SwarmMessageWords {
    stored::SwarmMessageWords { content: it.content.clone(), refs: it.refs.clone() }
}

fn decode_message(it: stored::SwarmMessageWords) -> MessageWords {
    MessageWords { content: it.content, refs: it.refs }
}

fn encode_delivery(it: &DeliveryWords) -> stored::SwarmDeliveryWords {
    let evidence = &it.evidence;
    stored::SwarmDeliveryWords {
        summary: it.summary.clone(),
        refs: it.refs.clone(),
        is_test_passed: it.is_test_passed,
        test_cases: it.test_cases.clone(),
        changed_files: it.changed_files.clone(),
        reviewed_refs: it.reviewed_refs.clone(),
        test_output: it.test_output.clone(),
        known_risks: it.known_risks.clone(),
        script_path: evidence.script_path.clone(),
        script_cmd: evidence.script_cmd.clone(),
        is_script_passed: evidence.is_script_passed,
        script_result: evidence.script_result.clone(),
        doc_path: evidence.doc_path.clone(),
        doc_commands: evidence.doc_commands.clone(),
        doc_results: evidence.doc_results.iter().map(encode_result).collect(),
        is_doc_passed: evidence.is_doc_passed,
        commit: it.commit.clone(),
        commands: it.commands.clone(),
    }
}

fn decode_delivery(it: stored::SwarmDeliveryWords) -> DeliveryWords {
    DeliveryWords {
        summary: it.summary,
        refs: it.refs,
        is_test_passed: it.is_test_passed,
        test_cases: it.test_cases,
        changed_files: it.changed_files,
        reviewed_refs: it.reviewed_refs,
        test_output: it.test_output,
        known_risks: it.known_risks,
        evidence: TestEvidence {
            script_path: it.script_path,
            script_cmd: it.script_cmd,
            is_script_passed: it.is_script_passed,
            script_result: it.script_result,
            doc_path: it.doc_path,
            doc_commands: it.doc_commands,
            doc_results: it.doc_results.into_iter().map(decode_result).collect(),
            is_doc_passed: it.is_doc_passed,
        },
        commit: it.commit,
        commands: it.commands,
    }
}

fn encode_result(it: &CommandResult) -> stored::SwarmCommandResult {
    stored::SwarmCommandResult {
        command: it.command.clone(),
        is_passed: it.is_passed,
        exit_code: it.exit_code,
        output: it.output.clone(),
    }
}

fn decode_result(it: stored::SwarmCommandResult) -> CommandResult {
    CommandResult {
        command: it.command,
        is_passed: it.is_passed,
        exit_code: it.exit_code,
        output: it.output,
    }
}

fn encode_audit(it: &AuditEntry) -> stored::SwarmAuditEntry {
    stored::SwarmAuditEntry {
        issue: stamp_bytes(it.issue.0),
        number: it.number,
        kind: it.kind.code(),
        at_ms: it.at.as_millis(),
        role: text(it.role.as_ref()),
        person: text(it.person.as_ref()),
        node: text(it.node.as_ref()),
        token_id: text(it.token.as_ref()),
        task: it.task.map_or(0, |it| it.0),
        submission: optional_bytes(it.submission.map(|it| it.0)),
        message: optional_bytes(it.message.map(|it| it.0)),
        delivery: optional_bytes(it.delivery.map(|it| it.0)),
        next_step: optional_bytes(it.next_step.map(|it| it.0)),
        worker: text(it.worker.as_ref()),
        detail: it.detail.clone(),
        elsewhere: it.recalled.as_ref().map(|it| swarm_audit_entry::Elsewhere {
            at_ms: it.at.as_millis(),
            actor: it.actor.clone(),
            refs: it.refs.clone(),
        }),
    }
}

fn decode_audit(it: &stored::SwarmAuditEntry) -> Result<AuditEntry, CodecError> {
    Ok(AuditEntry {
        issue: IssueId(stamp("issue", &it.issue)?),
        number: it.number,
        kind: named("audit kind", AuditKind::of_code(it.kind))?,
        at: at(it.at_ms),
        role: optional("role", &it.role)?,
        person: optional("person", &it.person)?,
        node: optional("node", &it.node)?,
        token: optional("token_id", &it.token_id)?,
        task: optional_task(it.task),
        submission: optional_stamp("submission", &it.submission)?.map(SubmissionId),
        message: optional_stamp("message", &it.message)?.map(TaskMessageId),
        delivery: optional_stamp("delivery", &it.delivery)?.map(DeliveryId),
        next_step: optional_stamp("next_step", &it.next_step)?.map(NextStepId),
        worker: optional("worker", &it.worker)?,
        detail: it.detail.clone(),
        recalled: it.elsewhere.as_ref().map(|it| {
            let (at, actor, refs) = (at(it.at_ms), it.actor.clone(), it.refs.clone());
            Box::new(Origin { at, actor, refs })
        }),
    })
}
