//! Lists as people read them: a head, and one line a thing.

use owo_colors::OwoColorize as _;
use tasuki_proto::wire::{self, DeliveryStatus, IssueStatus, TaskStage, TaskStatus};

use super::labels::{
    claimed_for, count, delivery_status, difficulty, issue_status, left, task_stage_text, tasks_of,
};
use super::pages::Listed;
use crate::{
    cli::{
        labels::{headed, long, spaced},
        text::{column, ended, fitted, line, padded, time, time_cells},
    },
    repository::shown,
};

/// The longest stage of a task, "waiting for an answer".
const STAGE_CHARS: usize = 21;

/// Of who has something.
const WHO_CHARS_MAX: usize = 16;

/// Of the files of a lock.
const FILES_CHARS_MAX: usize = 60;

impl Listed for wire::Issue {
    const NAME: &'static str = "issues";

    fn id(&self) -> &str {
        &self.issue_id
    }

    fn head() -> String {
        let changed = padded("CHANGED".to_owned(), time_cells());
        headed(&format!("{:<24} {:<11} {:<9} {changed} SUBJECT", "ISSUE", "STATUS", "DONE"))
    }

    fn row(&self, _now_ms: u64) -> String {
        let status = format!("{:<11}", spaced(&issue_status(self.status()), " "));
        let status = match self.status() {
            IssueStatus::InProgress => status.green().to_string(),
            IssueStatus::Canceled => status.red().to_string(),
            IssueStatus::Open | IssueStatus::Done | IssueStatus::Unspecified => status,
        };
        let done = format!("{} of {}", count(self, TaskStatus::Done), tasks_of(self));
        let head = format!(
            "{} {status} {done:<9} {} ",
            format!("{:<24}", line(&self.issue_id)).bold(),
            padded(time(self.updated_ms), time_cells()).dimmed(),
        );
        ended(&head, &self.subject)
    }
}

impl Listed for wire::Task {
    const NAME: &'static str = "tasks";

    fn id(&self) -> &str {
        &self.task_id
    }

    fn head() -> String {
        headed(&format!(
            "{:<9} {:<STAGE_CHARS$} {:<6} {:>3} {:<WHO_CHARS_MAX$} {:>8} SUBJECT",
            "TASK", "STAGE", "LEVEL", "PTS", "WHO", "LEFT"
        ))
    }

    fn row(&self, now_ms: u64) -> String {
        let (who, until_ms) = who(self);
        let until = if until_ms == 0 { String::new() } else { left(until_ms, now_ms) };
        let head = format!(
            "{} {} {:<6} {:>3} {} {until:>8} ",
            format!("{:<9}", line(&self.task_id)).bold(),
            coloured(self.stage(), &format!("{:<STAGE_CHARS$}", task_stage_text(self.stage()))),
            difficulty(self.difficulty()),
            self.points,
            column(&who, WHO_CHARS_MAX),
        );
        ended(&head, &self.subject)
    }
}

/// Whom a task waits for or is with, and until when.
pub(super) fn who(of: &wire::Task) -> (String, u64) {
    match of.stage() {
        TaskStage::Blocked => (format!("after {}", line(&of.blocked_by.join(", "))), 0),
        TaskStage::Reserved => (format!("for {}", line(&of.reserved_for)), of.reserved_until_ms),
        TaskStage::Working | TaskStage::WaitingForAnswer => {
            (line(&of.claimed_by), of.lease_expires_ms)
        }
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
        TaskStage::WaitingForAnswer | TaskStage::Submitted | TaskStage::InReview => {
            text.yellow().to_string()
        }
        TaskStage::Canceled => text.red().to_string(),
        TaskStage::Blocked | TaskStage::Reserved | TaskStage::Done | TaskStage::Unspecified => {
            text.dimmed().to_string()
        }
    }
}

impl Listed for wire::Delivery {
    const NAME: &'static str = "deliveries";

    fn id(&self) -> &str {
        &self.delivery_id
    }

    fn head() -> String {
        headed(&format!(
            "{:<27} {:<10} {:<24} {:<12} {:<12} {:<20}",
            "DELIVERY", "STATUS", "ISSUE", "FROM", "ACCEPTOR", "DELIVERED"
        ))
    }

    fn row(&self, _now_ms: u64) -> String {
        let status = format!("{:<10}", spaced(&delivery_status(self.status()), " "));
        let status = match self.status() {
            DeliveryStatus::Approved => status.green().to_string(),
            DeliveryStatus::Rejected => status.red().to_string(),
            DeliveryStatus::Open | DeliveryStatus::InReview | DeliveryStatus::Unspecified => status,
        };
        let acceptor =
            if self.reviewed_by.is_empty() { &self.claimed_by } else { &self.reviewed_by };
        format!(
            "{} {status} {:<24} {} {} {}\n",
            format!("{:<27}", line(&self.delivery_id)).bold(),
            line(&self.issue_id),
            column(&self.delivered_by, 12),
            column(acceptor, 12),
            time(self.delivered_ms).dimmed(),
        )
    }
}

impl Listed for wire::Worker {
    const NAME: &'static str = "workers";

    fn id(&self) -> &str {
        &self.worker
    }

    fn head() -> String {
        headed(&format!("{:<20} {:<24} {:>6}  HAS", "WORKER", "NODE", "POINTS"))
    }

    fn row(&self, now_ms: u64) -> String {
        let node = match (self.node.as_str(), self.quiet_ms) {
            ("", _) => "no node".to_owned(),
            (node, None) => fitted(node, 24),
            (node, Some(..1000)) => fitted(node, 24),
            (node, Some(ms)) => format!("{}, quiet for {}", fitted(node, 12), long(ms)),
        };
        let points: u64 = self.points.iter().map(|it| it.total_points).sum();
        let claims = self.claims.iter().map(|it| {
            let (issue, task) = (line(&it.issue_id), line(&it.task_id));
            format!("{issue}/{task} ({})", claimed_for(it.lease_expires_ms, now_ms))
        });
        let claims: Vec<String> = claims.collect();
        let has =
            if claims.is_empty() { "nothing".dimmed().to_string() } else { claims.join(", ") };
        let name = column(&self.worker, 20);
        format!("{} {node:<24} {points:>6}  {has}\n", name.bold())
    }
}

impl Listed for wire::Lock {
    const NAME: &'static str = "locks";

    fn id(&self) -> &str {
        &self.lease_id
    }

    fn head() -> String {
        headed(&format!("{:<20} {:<16} {:>8} FILES", "LOCK", "HOLDER", "LEFT"))
    }

    fn row(&self, now_ms: u64) -> String {
        let files = self.files.clone().unwrap_or_default();
        let count = files.patterns.len();
        let mut names = fitted(&locked(&files), FILES_CHARS_MAX);
        if names.ends_with('…') {
            names = format!("{names} ({count})");
        }
        let task = match self.task_id.as_str() {
            "" => String::new(),
            task => format!(", for {}/{}", line(&self.issue_id), line(task)),
        };
        let repository = line(&files.repository);
        format!(
            "{} {} {:>8} {names} {}\n",
            format!("{:<20}", line(&self.lease_id)).bold(),
            column(&self.holder, 16),
            left(self.expires_ms, now_ms),
            format!("in {repository}{task}").dimmed(),
        )
    }
}

/// The files of a lock as people call them.
pub(super) fn locked(of: &wire::FileSet) -> String {
    of.patterns.iter().map(|it| shown(it)).collect::<Vec<_>>().join(", ")
}

impl Listed for wire::Doc {
    const NAME: &'static str = "documents";

    fn id(&self) -> &str {
        &self.name
    }

    fn head() -> String {
        headed(&format!(
            "{:<40} {:>7} {:>9} {:<16} {:<20}",
            "NAME", "VERSION", "BYTES", "BY", "WRITTEN"
        ))
    }

    fn row(&self, _now_ms: u64) -> String {
        let name = column(&self.name, 40);
        let (version, size) = (self.version, self.size);
        let (by, at) = (column(&self.written_by, 16), time(self.written_ms));
        format!("{} {version:>7} {size:>9} {by} {}\n", name.bold(), at.dimmed())
    }
}
