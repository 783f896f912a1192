//! Lists as people read them: a head, and one line a thing.

use owo_colors::OwoColorize as _;
use tasuki_proto::wire::{self, DeliveryStatus, IssueStatus, TaskStage, TaskStatus};

use super::labels::{
    claimed_for, count, delivery_status, difficulty, issue_status, left, long, spaced, task_stage,
    tasks_of,
};
use crate::{
    cli::text::{column, ended, fitted, line, time},
    repository::shown,
};

/// Of who has something.
const WHO_CHARS_MAX: usize = 16;

/// Of the files of a lock.
const FILES_CHARS_MAX: usize = 60;

fn headed(text: &str) -> String {
    format!("{}\n", text.trim_end().dimmed())
}

pub(super) fn issue_head() -> String {
    headed(&format!("{:<24} {:<11} {:<9} {:<20} SUBJECT", "ISSUE", "STATUS", "DONE", "CHANGED"))
}

pub(super) fn issue(of: &wire::Issue) -> String {
    let status = format!("{:<11}", spaced(&issue_status(of.status()), " "));
    let status = match of.status() {
        IssueStatus::InProgress => status.green().to_string(),
        IssueStatus::Canceled => status.red().to_string(),
        IssueStatus::Open | IssueStatus::Done | IssueStatus::Unspecified => status,
    };
    let done = format!("{} of {}", count(of, TaskStatus::Done), tasks_of(of));
    let head = format!(
        "{} {status} {done:<9} {} ",
        format!("{:<24}", line(&of.issue_id)).bold(),
        format!("{:<20}", time(of.updated_ms)).dimmed(),
    );
    ended(&head, &of.subject)
}

pub(super) fn task_head() -> String {
    headed(&format!(
        "{:<9} {:<10} {:<6} {:>3} {:<WHO_CHARS_MAX$} {:>8} SUBJECT",
        "TASK", "STAGE", "LEVEL", "PTS", "WHO", "LEFT"
    ))
}

pub(super) fn task(of: &wire::Task, now_ms: u64) -> String {
    let (who, until_ms) = who(of);
    let until = if until_ms == 0 { String::new() } else { left(until_ms, now_ms) };
    let head = format!(
        "{} {} {:<6} {:>3} {} {until:>8} ",
        format!("{:<9}", line(&of.task_id)).bold(),
        coloured(of.stage(), &format!("{:<10}", spaced(&task_stage(of.stage()), " "))),
        difficulty(of.difficulty()),
        of.points,
        column(&who, WHO_CHARS_MAX),
    );
    ended(&head, &of.subject)
}

/// Whom a task waits for or is with, and until when.
pub(super) fn who(of: &wire::Task) -> (String, u64) {
    match of.stage() {
        TaskStage::Waiting => (format!("after {}", line(&of.blocked_by.join(", "))), 0),
        TaskStage::Reserved => (format!("for {}", line(&of.reserved_for)), of.reserved_until_ms),
        TaskStage::Working | TaskStage::Asking => (line(&of.claimed_by), of.lease_expires_ms),
        TaskStage::Submitted | TaskStage::InReview | TaskStage::Done => {
            let worker = of.submission.as_ref().map_or(&of.claimed_by, |it| &it.worker);
            (line(worker), 0)
        }
        TaskStage::Ready | TaskStage::Canceled | TaskStage::Unspecified => (String::new(), 0),
    }
}

fn coloured(stage: TaskStage, text: &str) -> String {
    match stage {
        TaskStage::Ready => text.cyan().to_string(),
        TaskStage::Working => text.green().to_string(),
        TaskStage::Asking | TaskStage::Submitted | TaskStage::InReview => text.yellow().to_string(),
        TaskStage::Canceled => text.red().to_string(),
        TaskStage::Waiting | TaskStage::Reserved | TaskStage::Done | TaskStage::Unspecified => {
            text.dimmed().to_string()
        }
    }
}

pub(super) fn delivery_head() -> String {
    headed(&format!(
        "{:<27} {:<10} {:<24} {:<12} {:<12} {:<20}",
        "DELIVERY", "STATUS", "ISSUE", "FROM", "ACCEPTOR", "DELIVERED"
    ))
}

pub(super) fn delivery(of: &wire::Delivery) -> String {
    let status = format!("{:<10}", spaced(&delivery_status(of.status()), " "));
    let status = match of.status() {
        DeliveryStatus::Approved => status.green().to_string(),
        DeliveryStatus::Rejected => status.red().to_string(),
        DeliveryStatus::Open | DeliveryStatus::InReview | DeliveryStatus::Unspecified => status,
    };
    let acceptor = if of.reviewed_by.is_empty() { &of.claimed_by } else { &of.reviewed_by };
    format!(
        "{} {status} {:<24} {} {} {}\n",
        format!("{:<27}", line(&of.delivery_id)).bold(),
        line(&of.issue_id),
        column(&of.delivered_by, 12),
        column(acceptor, 12),
        time(of.delivered_ms).dimmed(),
    )
}

pub(super) fn worker_head() -> String {
    headed(&format!("{:<20} {:<24} {:>6}  HAS", "WORKER", "NODE", "POINTS"))
}

pub(super) fn worker(of: &wire::Worker, now_ms: u64) -> String {
    let node = match (of.node.as_str(), of.quiet_ms) {
        ("", _) => "no node".to_owned(),
        (node, None) => fitted(node, 24),
        (node, Some(..1000)) => fitted(node, 24),
        (node, Some(ms)) => format!("{}, quiet for {}", fitted(node, 12), long(ms)),
    };
    let points: u64 = of.points.iter().map(|it| it.total_points).sum();
    let claims = of.claims.iter().map(|it| {
        let (issue, task) = (line(&it.issue_id), line(&it.task_id));
        format!("{issue}/{task} ({})", claimed_for(it.lease_expires_ms, now_ms))
    });
    let claims: Vec<String> = claims.collect();
    let has = if claims.is_empty() { "nothing".dimmed().to_string() } else { claims.join(", ") };
    let name = column(&of.worker, 20);
    format!("{} {node:<24} {points:>6}  {has}\n", name.bold())
}

pub(super) fn lock_head() -> String {
    headed(&format!("{:<20} {:<16} {:>8} FILES", "LOCK", "HOLDER", "LEFT"))
}

pub(super) fn lock(of: &wire::Lock, now_ms: u64) -> String {
    let files = of.files.clone().unwrap_or_default();
    let count = files.patterns.len();
    let mut names = fitted(&locked(&files), FILES_CHARS_MAX);
    if names.ends_with('…') {
        names = format!("{names} ({count})");
    }
    let task = match of.task_id.as_str() {
        "" => String::new(),
        task => format!(", for {}/{}", line(&of.issue_id), line(task)),
    };
    let repository = line(&files.repository);
    format!(
        "{} {} {:>8} {names} {}\n",
        format!("{:<20}", line(&of.lease_id)).bold(),
        column(&of.holder, 16),
        left(of.expires_ms, now_ms),
        format!("in {repository}{task}").dimmed(),
    )
}

/// The files of a lock as people call them.
pub(super) fn locked(of: &wire::FileSet) -> String {
    of.patterns.iter().map(|it| shown(it)).collect::<Vec<_>>().join(", ")
}

pub(super) fn doc_head() -> String {
    headed(&format!(
        "{:<40} {:>7} {:>9} {:<16} {:<20}",
        "NAME", "VERSION", "BYTES", "BY", "WRITTEN"
    ))
}

pub(super) fn doc(of: &wire::Doc) -> String {
    let name = column(&of.name, 40);
    let (version, size) = (of.version, of.size);
    let (by, at) = (column(&of.written_by, 16), time(of.written_ms));
    format!("{} {version:>7} {size:>9} {by} {}\n", name.bold(), at.dimmed())
}
