//! What was said about issues, tasks and deliveries, read from the journal.

use tasuki_proto::{
    id::{RoleId, Timestamp},
    swarm::{DeliveryId, DocName, IssueId, SubmissionId, TaskMessageId, TaskNumber},
    wire,
};
use tonic::Status;

use super::{WorkspaceSession, render, status};
use crate::rules::swarm::{
    DocPlace, Words,
    words::{
        Artifacts, AuditEntry, AuditKind, DeliveryWords, DocPaths, EvidenceWords, MessageWords,
        ReviewWords, TaskWords, VerdictWords,
    },
};

/// Words of the kind that was asked for: bytes of another kind are damage, and an error before.
macro_rules! read {
    ($session:expr, $place:expr, $found:pat => $words:expr) => {
        match $session.words($place)? {
            $found => Ok($words),
            _ => unreachable!("words are read as what they were asked for"),
        }
    };
}

impl WorkspaceSession {
    /// The words that are kept where `place` is; what is said in it does not count.
    fn words(&self, place: Words) -> Result<Words, Status> {
        self.bodies().words(place).map_err(|e| status::reading(&e))
    }

    pub(super) fn description(&self, issue: IssueId) -> Result<String, Status> {
        let place = Words::Issue { issue, description: String::new() };
        read!(self, place, Words::Issue { description, .. } => description)
    }

    pub(super) fn doc_paths(&self, issue: IssueId, version: u32) -> Result<DocPaths, Status> {
        let place = Words::Paths { issue, version, paths: DocPaths::default() };
        read!(self, place, Words::Paths { paths, .. } => paths)
    }

    pub(super) fn task_words(
        &self,
        issue: IssueId,
        task: TaskNumber,
    ) -> Result<wire::TaskWords, Status> {
        let place = Words::Task { issue, task, words: TaskWords::default() };
        read!(self, place, Words::Task { words, .. } => render::task_words(words))
    }

    pub(super) fn submission_words(
        &self,
        issue: IssueId,
        submission: SubmissionId,
    ) -> Result<wire::SubmissionWords, Status> {
        let place = Words::Submission { issue, submission, words: Artifacts::default() };
        read!(self, place, Words::Submission { words, .. } => render::artifacts(words))
    }

    pub(super) fn review_words(
        &self,
        issue: IssueId,
        submission: SubmissionId,
    ) -> Result<ReviewWords, Status> {
        let place = Words::Review { issue, submission, words: ReviewWords::default() };
        read!(self, place, Words::Review { words, .. } => words)
    }

    pub(super) fn message_words(
        &self,
        issue: IssueId,
        message: TaskMessageId,
    ) -> Result<MessageWords, Status> {
        let place = Words::Message { issue, message, words: MessageWords::default() };
        read!(self, place, Words::Message { words, .. } => words)
    }

    pub(super) fn reply_words(
        &self,
        issue: IssueId,
        message: TaskMessageId,
    ) -> Result<MessageWords, Status> {
        let place = Words::Reply { issue, message, words: MessageWords::default() };
        read!(self, place, Words::Reply { words, .. } => words)
    }

    pub(super) fn delivery_words(
        &self,
        issue: IssueId,
        delivery: DeliveryId,
    ) -> Result<DeliveryWords, Status> {
        let place = Words::Delivery { issue, delivery, words: Box::default() };
        read!(self, place, Words::Delivery { words, .. } => *words)
    }

    pub(super) fn evidence_words(
        &self,
        issue: IssueId,
        delivery: DeliveryId,
        number: u32,
    ) -> Result<EvidenceWords, Status> {
        let words = EvidenceWords::default();
        let place = Words::Evidence { issue, delivery, number, words };
        read!(self, place, Words::Evidence { words, .. } => words)
    }

    pub(super) fn verdict_words(
        &self,
        issue: IssueId,
        delivery: DeliveryId,
    ) -> Result<VerdictWords, Status> {
        let place = Words::Verdict { issue, delivery, words: VerdictWords::default() };
        read!(self, place, Words::Verdict { words, .. } => words)
    }

    /// A version of a document, when it was written and by whom.
    pub(super) fn doc_words(
        &self,
        place: DocPlace,
        name: DocName,
        version: u32,
    ) -> Result<(String, Timestamp, Option<RoleId>), Status> {
        let (content, at, by) = (String::new(), Timestamp::default(), None);
        let place = Words::Doc { place, name, version, content, at, by };
        read!(self, place, Words::Doc { content, at, by, .. } => (content, at, by))
    }

    /// What the words that an entry of an audit is about refer to.
    pub(super) fn refs(&self, it: &AuditEntry) -> Result<String, Status> {
        let issue = it.issue;
        Ok(match (it.kind, it.message, it.delivery) {
            (AuditKind::TaskMessage, Some(message), _) => self.message_words(issue, message)?.refs,
            (AuditKind::TaskReplied, Some(message), _) => self.reply_words(issue, message)?.refs,
            (AuditKind::DeliveryCreated, _, Some(id)) => self.delivery_words(issue, id)?.refs,
            (AuditKind::DeliveryReviewed, _, Some(id)) => self.verdict_words(issue, id)?.refs,
            (_, _, _) => String::new(),
        })
    }

    /// Entry `number` of an issue's audit.
    pub(super) fn audited(&self, issue: IssueId, number: u64) -> Result<AuditEntry, Status> {
        let place = AuditEntry::blank(issue, number);
        read!(self, Words::Audit(Box::new(place)), Words::Audit(entry) => *entry)
    }
}
