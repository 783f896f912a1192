//! One issue, task or delivery in full, for people.

use owo_colors::OwoColorize as _;
use tasuki_proto::{
    counted::counted,
    wire::{self, DeliveryStatus, SubmissionStatus, TaskStage, TaskStatus},
};

use super::labels::{
    count, delivery_status, difficulty, has_left, issue_status, message_status, submission_status,
    task_stage_text, tasks_of,
};
use crate::cli::{
    labels::{Sheet, spaced},
    text::{line, time},
};

fn until(ms: u64, now_ms: u64) -> String {
    format!("until {} ({})", time(ms), has_left(ms, now_ms))
}

pub(super) fn issue(of: &wire::Issue, now_ms: u64) -> String {
    let mut out = Sheet::title(&of.subject);
    out.row("issue", &line(&of.issue_id));
    out.row("lead", &line(&of.lead));
    let accepted = if of.is_unaccepted { ", without an approved delivery" } else { "" };
    out.row("status", &format!("{}{accepted}", spaced(&issue_status(of.status()), " ")));
    if of.lease_expires_ms != 0 {
        let lapses = until(of.lease_expires_ms, now_ms);
        out.row("kept", &format!("{lapses}, longer while somebody works on it"));
    }
    let counts = [
        (TaskStatus::Done, "done"),
        (TaskStatus::InProgress, "in progress"),
        (TaskStatus::WaitingForAnswer, "waiting for an answer"),
        (TaskStatus::Open, "open"),
        (TaskStatus::Canceled, "canceled"),
    ];
    let counts: Vec<String> = counts
        .into_iter()
        .map(|(status, name)| (count(of, status), name))
        .filter(|(count, _)| *count != 0)
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    // With those that were canceled, for they are counted beside the others here.
    let tasks = match tasks_of(of) + count(of, TaskStatus::Canceled) {
        0 => "none yet".to_owned(),
        total => format!("{total}: {}", counts.join(", ")),
    };
    out.row("tasks", &tasks);
    out.names("documents", &of.docs);
    out.names("shared docs", &of.shared_doc_paths);
    out.names("project docs", &of.project_doc_paths);
    out.row("opened", &time(of.created_ms));
    out.row("changed", &time(of.updated_ms));
    out.text("description", &of.description);
    out.text("closed because", &of.summary);
    out.0
}

/// A task. `blockers` are those it waits for, each with its stage.
pub(super) fn task(of: &wire::Task, blockers: &[(String, TaskStage)], now_ms: u64) -> String {
    let mut out = Sheet::title(&of.subject);
    out.row("task", &format!("{}/{}", line(&of.issue_id), line(&of.task_id)));
    out.row("stage", &task_stage_text(of.stage()));
    let points = counted(of.points, "point");
    out.row("level", &format!("{}, {points}", difficulty(of.difficulty())));
    if !of.claimed_by.is_empty() {
        let lease = match of.lease_expires_ms {
            0 => String::new(),
            ms => format!(", {}", until(ms, now_ms)),
        };
        out.row("claimed by", &format!("{}{lease}", line(&of.claimed_by)));
    }
    if of.claim_token != 0 {
        out.row("claim token", &of.claim_token.to_string());
    }
    if !of.reserved_for.is_empty() {
        let kept = until(of.reserved_until_ms, now_ms);
        out.row("reserved for", &format!("{}, {kept}", line(&of.reserved_for)));
    }
    out.row("next step", &line(&of.reserved_token));
    let blockers = blockers
        .iter()
        .map(|(task, stage)| format!("{} ({})", line(task), task_stage_text(*stage)));
    out.row("after", &blockers.collect::<Vec<_>>().join(", "));
    out.row("made", &time(of.created_ms));
    out.row("changed", &time(of.updated_ms));
    task_words(&mut out, &of.words.clone().unwrap_or_default());
    if let Some(of) = &of.submission {
        submission(&mut out, of, now_ms);
    }
    for of in &of.messages {
        message(&mut out, of);
    }
    out.0
}

fn task_words(out: &mut Sheet, of: &wire::TaskWords) {
    out.names("labels", &of.labels);
    out.names("files", &of.suggested_files);
    out.names("documents", &of.doc_paths);
    out.names("issue needs", &of.required_issue_docs);
    out.names("task needs", &of.required_task_docs);
    out.names("see also", &of.context_task_ids);
    out.text("description", &of.description);
    let of = of.spec.clone().unwrap_or_default();
    for (label, text) in [
        ("name", &of.name),
        ("split from", &of.split_from),
        ("split because", &of.split_reason),
        ("impact", &of.impact_scope),
        ("goal", &of.goal),
        ("rules", &of.rules),
        ("constraints", &of.constraints),
        ("conventions", &of.conventions),
        ("acceptance", &of.acceptance),
    ] {
        out.text(label, text);
    }
}

fn submission(out: &mut Sheet, of: &wire::Submission, now_ms: u64) {
    let status = submission_status(of.status());
    let status = match of.status() {
        SubmissionStatus::Approved => status.green().to_string(),
        SubmissionStatus::Rejected => status.red().to_string(),
        SubmissionStatus::Open
        | SubmissionStatus::Superseded
        | SubmissionStatus::Reset
        | SubmissionStatus::Unspecified => status,
    };
    out.part(&format!("{} by {}: {status}", line(&of.submission_id).bold(), line(&of.worker)));
    out.row("submitted", &time(of.submitted_ms));
    let words = of.words.clone().unwrap_or_default();
    out.names("files", &words.changed_files);
    out.names("links", &words.links);
    out.names("test cases", &words.test_cases);
    out.row("test result", &line(&words.test_result));
    if let Some(rerun) = &words.rerun {
        out.row("commit", &line(&rerun.commit));
        out.text("to be run again", &rerun.commands.join("\n"));
    }
    out.text("summary", &words.summary);
    out.text("diff", &words.diff);
    out.text("test output", &words.test_output);
    review(out, of);
    if let Some(of) = &of.next_step {
        out.row("next step", &next_step(of, now_ms));
    }
}

/// The review of a submission.
fn review(out: &mut Sheet, of: &wire::Submission) {
    if of.reviewed_ms != 0 {
        let by = match of.reviewed_by.as_str() {
            "" => String::new(),
            role => format!(" by {}", line(role)),
        };
        out.row("reviewed", &format!("{}{by}", time(of.reviewed_ms)));
    }
    if of.completion_score != 0 {
        out.row("score", &of.completion_score.to_string());
    }
    if let Some(of) = &of.review {
        out.names("looked at", &of.reviewed_refs);
        out.text("review", &of.review_summary);
        out.text("feedback", &of.feedback);
        for it in &of.details {
            let place = match (it.file_path.as_str(), it.line_range.as_str()) {
                ("", _) => String::new(),
                (path, "") => format!(" {}", line(path)),
                (path, lines) => format!(" {}:{}", line(path), line(lines)),
            };
            out.text(
                &format!("{} {}{place}", line(&it.severity), line(&it.dimension)),
                &it.content,
            );
            out.text("suggestion", &it.suggestion);
        }
    }
}

/// A verdict that was waited for.
pub(super) fn judged_submission(of: &wire::Submission, now_ms: u64) -> String {
    let status = submission_status(of.status());
    let mut out = Sheet(format!("{} is {status}.\n", line(&of.submission_id)));
    review(&mut out, of);
    if let Some(of) = &of.next_step {
        out.row("next step", &next_step(of, now_ms));
    }
    out.0
}

/// The same on a delivery.
pub(super) fn judged_delivery(of: &wire::Delivery) -> String {
    let status = delivery_status(of.status());
    let mut out = Sheet(format!("{} is {status}.\n", line(&of.delivery_id)));
    out.row("reviewed", &format!("{} by {}", time(of.reviewed_ms), line(&of.reviewed_by)));
    if let Some(it) = &of.overridden {
        out.row("overridden", &format!("by {}: {}", line(&it.person), line(&it.reason)));
    }
    verdict(&mut out, of);
    out.0
}

/// An answer that was waited for.
pub(super) fn answered(of: &wire::TaskMessage) -> String {
    let (id, by) = (line(&of.message_id), line(&of.replied_by));
    let mut out = Sheet(format!("{id} is answered by {by}.\n"));
    out.words(&of.reply);
    out.row("refs", &line(&of.reply_refs));
    out.0
}

/// What a worker is to do next, in a line.
pub(super) fn next_step(of: &wire::NextStep, now_ms: u64) -> String {
    let points = counted(of.worker_total_points, "point");
    match of.task_id.as_str() {
        "" => format!("no task is reserved; the worker has {points}"),
        task => {
            let kept = match of.reserved_until_ms {
                0 => String::new(),
                ms => format!(", reserved {}", until(ms, now_ms)),
            };
            format!("{}{kept}; the worker has {points}", line(task))
        }
    }
}

fn message(out: &mut Sheet, of: &wire::TaskMessage) {
    let (id, kind) = (line(&of.message_id), line(&of.kind));
    let status = message_status(of.status());
    let head = format!("{} {kind} from {}: {status}", id.bold(), line(&of.sender));
    out.part(&format!("{head} {}", time(of.created_ms).dimmed()));
    out.words(&of.content);
    out.row("refs", &line(&of.refs));
    if of.replied_ms != 0 {
        let by = format!("{} {}", line(&of.replied_by), time(of.replied_ms));
        out.text(&format!("reply of {by}"), &of.reply);
        out.row("refs", &line(&of.reply_refs));
    }
}

fn outcome(has_passed: bool) -> String {
    if has_passed { "passed".green().to_string() } else { "failed".red().to_string() }
}

pub(super) fn delivery(of: &wire::Delivery, now_ms: u64) -> String {
    let mut out = Sheet::title(&of.delivery_id);
    out.row("issue", &line(&of.issue_id));
    out.row("status", &spaced(&delivery_status(of.status()), " "));
    out.row("delivered", &format!("{} by {}", time(of.delivered_ms), line(&of.delivered_by)));
    if of.status() == DeliveryStatus::InReview {
        let lease = until(of.lease_expires_ms, now_ms);
        out.row("claimed by", &format!("{}, {lease}", line(&of.claimed_by)));
    }
    if of.claim_token != 0 {
        out.row("claim token", &of.claim_token.to_string());
    }
    if of.reviewed_ms != 0 {
        out.row("reviewed", &format!("{} by {}", time(of.reviewed_ms), line(&of.reviewed_by)));
    }
    if let Some(it) = &of.overridden {
        out.row("overridden", &format!("by {}: {}", line(&it.person), line(&it.reason)));
    }
    out.row("refs", &line(&of.refs));
    let artifacts = of.artifacts.clone().unwrap_or_default();
    out.row("tests", &outcome(artifacts.has_passed));
    out.names("test cases", &artifacts.test_cases);
    out.names("files", &artifacts.changed_files);
    out.names("looked at", &artifacts.reviewed_refs);
    out.text("summary", &of.summary);
    out.text("known risks", &artifacts.known_risks);
    out.text("test output", &artifacts.test_output);
    if let Some(it) = &of.test_evidence {
        out.part("evidence");
        if !it.script_path.is_empty() || !it.script_cmd.is_empty() {
            let script = format!("{} {}", line(&it.script_path), line(&it.script_cmd));
            out.row("script", &format!("{}: {}", script.trim(), outcome(it.script_passed)));
        }
        out.text("output", &it.script_result);
        out.row("steps", &format!("{}: {}", line(&it.doc_path), outcome(it.doc_passed)));
        results(&mut out, &it.doc_results);
        if let Some(rerun) = &it.rerun {
            out.row("commit", &line(&rerun.commit));
            out.text("to be run again", &rerun.commands.join("\n"));
        }
    }
    for it in &of.evidence {
        run_again(&mut out, it);
    }
    verdict(&mut out, of);
    out.0
}

/// The verdict on a delivery, and how it was verified.
fn verdict(out: &mut Sheet, of: &wire::Delivery) {
    if let Some(it) = &of.verification {
        out.part("verification");
        out.row("script", &outcome(it.script_passed));
        out.text("output", &it.script_result);
        out.row("steps", &outcome(it.doc_passed));
        results(out, &it.doc_results);
    }
    out.text("feedback", &of.feedback);
    out.row("refs", &line(&of.review_refs));
}

fn results(out: &mut Sheet, of: &[wire::CommandResult]) {
    for (number, it) in (1..).zip(of) {
        let (command, code) = (line(&it.command), it.exit_code);
        let label = format!("step {number}");
        out.row(&label, &format!("{command}: {} ({code})", outcome(it.has_passed)));
        out.text("output", &it.output);
    }
}

fn run_again(out: &mut Sheet, of: &wire::Evidence) {
    let where_ = if of.node.is_empty() { String::new() } else { format!(" on {}", line(&of.node)) };
    let by = line(&of.by);
    out.part(&format!("run again by {by}{where_}: {}", outcome(of.has_passed)));
    out.row("at", &time(of.at_ms));
    out.row("commit", &line(&of.commit));
    for it in &of.commands {
        let (command, code) = (line(&it.command), it.exit_code);
        let over = if it.is_timed_out { ", over its time" } else { "" };
        let passed = outcome(it.exit_code == 0 && !it.is_timed_out);
        out.row("command", &format!("{command}: {passed} ({code}{over})"));
        out.row("sandbox", &line(&it.sandbox));
        out.text("output", &it.output_tail);
    }
}
