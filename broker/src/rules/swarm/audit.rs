//! The audit: every event of an issue has a number, and its entry is written beside the record.
//!
//! Entries are made of events in this one place, so none can be without (I7).

use std::collections::BTreeMap;

use tasuki_proto::{id::Timestamp, swarm::IssueId};

use super::{
    Event, IssueEvent, IssueEventKind, Swarm, Verdict, WhyUnlocked,
    words::{AuditEntry, AuditKind, Words},
};
use crate::rules::{Caller, turn::Actor};

impl Swarm {
    /// Numbers what happened to issues, and says it in words.
    pub(super) fn number(
        &self,
        now: Timestamp,
        caller: &Caller,
        by: Option<&Actor>,
        events: &mut [Event],
    ) -> Vec<Words> {
        let mut numbers: BTreeMap<IssueId, u64> = BTreeMap::new();
        let mut entries = Vec::new();
        for event in events {
            let Event::Issue(it) = event else { continue };
            let before = self.issues.get(&it.issue).map_or(0, |issue| issue.audit);
            let number = numbers.entry(it.issue).or_insert(before);
            *number += 1;
            it.audit = *number;
            let mut entry = AuditEntry::blank(it.issue, *number);
            entry.at = now;
            entry.role = by.and_then(Actor::role).cloned();
            entry.person = by.and_then(Actor::person).cloned();
            entry.node = caller.node.as_ref().map(|(node, _)| node.clone());
            entry.token = caller.token.clone();
            entry.tell(&it.what);
            entries.push(Words::Audit(Box::new(entry)));
        }
        entries
    }
}

impl AuditEntry {
    /// With nothing in it.
    pub fn blank(issue: IssueId, number: u64) -> Self {
        Self {
            issue,
            number,
            // Each kind of event says which it is.
            kind: AuditKind::IssueCreated,
            at: Timestamp::default(),
            role: None,
            person: None,
            node: None,
            token: None,
            task: None,
            submission: None,
            message: None,
            delivery: None,
            next_step: None,
            worker: None,
            detail: String::new(),
        }
    }

    /// What happened, without who did it and when.
    pub fn of(it: &IssueEvent) -> Self {
        let mut entry = Self::blank(it.issue, it.audit);
        entry.tell(&it.what);
        entry
    }

    fn tell(&mut self, what: &IssueEventKind) {
        match what {
            IssueEventKind::Created { subject, .. } => {
                self.kind = AuditKind::IssueCreated;
                self.detail.clone_from(subject);
            }
            IssueEventKind::PathsSet { version, .. } => {
                self.kind = AuditKind::IssueUpdated;
                self.detail = format!("paths of documents, version {version}");
            }
            IssueEventKind::Closed(it) => {
                self.kind = AuditKind::IssueClosed;
                self.delivery = it.unjudged;
                self.detail = match (it.is_accepted, it.unjudged) {
                    (true, _) => it.reason.clone(),
                    (false, None) => format!("closed without an approved delivery: {}", it.reason),
                    (false, Some(unjudged)) => {
                        format!("closed before a verdict on delivery {unjudged}: {}", it.reason)
                    }
                };
            }
            IssueEventKind::Reopened { reason } => {
                self.kind = AuditKind::IssueReopened;
                self.detail.clone_from(reason);
            }
            IssueEventKind::Lapsed => self.kind = AuditKind::IssueExpired,
            IssueEventKind::TaskCreated(it) => {
                self.kind = AuditKind::TaskCreated;
                self.task = Some(it.task);
                self.detail.clone_from(&it.subject);
            }
            IssueEventKind::Claimed(it) => {
                self.kind = AuditKind::TaskClaimed;
                (self.task, self.next_step) = (Some(it.task), it.next_step);
                self.worker = Some(it.worker.clone());
            }
            IssueEventKind::ClaimLapsed { task, worker } => {
                self.kind = AuditKind::TaskExpired;
                (self.task, self.worker) = (Some(*task), Some(worker.clone()));
            }
            IssueEventKind::Submitted(it) => {
                self.kind = AuditKind::SubmissionCreated;
                (self.task, self.submission) = (Some(it.task), Some(it.submission));
                self.worker = Some(it.worker.clone());
                if let Some(older) = it.supersedes {
                    self.detail = format!("supersedes {older}");
                }
            }
            IssueEventKind::NextStepMinted(it) => {
                self.kind = AuditKind::TaskReserved;
                self.task = it.reserved.as_ref().map(|it| it.task);
                (self.submission, self.next_step) = (Some(it.submission), Some(it.next_step));
                self.worker = Some(it.worker.clone());
                self.detail = if it.reserved.is_some() { "claim_task" } else { "end" }.to_owned();
            }
            IssueEventKind::ReservationLapsed { task, next_step } => {
                self.kind = AuditKind::ReservationExpired;
                (self.task, self.next_step) = (Some(*task), Some(*next_step));
            }
            IssueEventKind::Reviewed(it) => {
                self.kind = match it.verdict {
                    Verdict::Approved => AuditKind::TaskResolved,
                    Verdict::Rejected => AuditKind::TaskReviewed,
                };
                (self.task, self.submission) = (Some(it.task), Some(it.submission));
                self.next_step = it.next_step;
                self.detail = format!("{}, completion_score {}", it.verdict, it.score.get());
            }
            IssueEventKind::Reset { task, reason } => {
                self.kind = AuditKind::TaskReset;
                self.task = Some(*task);
                self.detail.clone_from(reason);
            }
            IssueEventKind::Canceled { task, reason, unblocked } => {
                self.kind = AuditKind::TaskCanceled;
                self.task = Some(*task);
                self.detail.clone_from(reason);
                if !unblocked.is_empty() {
                    let all: Vec<String> = unblocked.iter().map(ToString::to_string).collect();
                    self.detail += &format!(" (blocks no longer: {})", all.join(", "));
                }
            }
            IssueEventKind::MessagePosted(it) => {
                self.kind = AuditKind::TaskMessage;
                (self.task, self.message) = (Some(it.task), Some(it.message));
                self.worker = Some(it.sender.clone());
                self.detail = it.kind.to_string();
            }
            IssueEventKind::Replied { task, message, .. } => {
                self.kind = AuditKind::TaskReplied;
                (self.task, self.message) = (Some(*task), Some(*message));
            }
            IssueEventKind::DocWritten { task, doc } => {
                self.kind = AuditKind::DocWritten;
                self.task = *task;
                self.detail = format!("{}, version {}", doc.name, doc.version);
            }
            IssueEventKind::Delivered(it) => {
                self.kind = AuditKind::DeliveryCreated;
                self.delivery = Some(it.delivery);
            }
            IssueEventKind::DeliveryClaimed { delivery, role, .. } => {
                self.kind = AuditKind::DeliveryClaimed;
                (self.delivery, self.worker) = (Some(*delivery), Some(role.clone()));
            }
            IssueEventKind::DeliveryLapsed { delivery, role } => {
                self.kind = AuditKind::DeliveryExpired;
                (self.delivery, self.worker) = (Some(*delivery), Some(role.clone()));
            }
            IssueEventKind::EvidenceAttached { delivery, number, is_passed, .. } => {
                self.kind = AuditKind::EvidenceAttached;
                self.delivery = Some(*delivery);
                let passed = if *is_passed { "passed" } else { "failed" };
                self.detail = format!("evidence {number} {passed}");
            }
            IssueEventKind::DeliveryReviewed(it) => {
                self.kind = AuditKind::DeliveryReviewed;
                self.delivery = Some(it.delivery);
                self.detail = match &it.overridden {
                    None => it.verdict.to_string(),
                    Some(by) => {
                        format!("{}, overridden by {}: {}", it.verdict, by.person, by.reason)
                    }
                };
            }
            IssueEventKind::Imported(it) => {
                self.kind = AuditKind::Imported;
                self.detail = format!("{}, tasks: {}", it.issue.state, it.tasks.len());
            }
        }
    }
}

impl WhyUnlocked {
    /// For people.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Unlocked => "unlocked",
            Self::Forced { .. } => "forced",
            Self::Lapsed => "lapsed",
            Self::TaskEnded => "task ended",
        }
    }
}
