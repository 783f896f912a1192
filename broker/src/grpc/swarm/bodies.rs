//! What was said about issues, tasks and deliveries, read from the journal.

use tasuki_proto::{
    id::{RoleId, Timestamp},
    swarm::{DeliveryId, DocName, IssueId, SubmissionId, TaskMessageId, TaskNumber},
};
use tonic::Status;

use super::{WorkspaceSession, status};
use crate::rules::swarm::{
    DocPlace, Words,
    words::{
        Artifacts, AuditEntry, AuditKind, DeliveryWords, DocPaths, EvidenceWords, MessageWords,
        ReviewWords, TaskWords, VerdictWords,
    },
};

/// How each kind of words is read: by what it is about, and which field it is.
macro_rules! reads {
    ($($read:ident($($of:ident: $type:ty),+) -> $words:ty = $kind:ident { $field:ident };)+) => {
        impl WorkspaceSession {$(
            pub(super) fn $read(&self, $($of: $type),+) -> Result<$words, Status> {
                let place = Words::$kind { $($of,)+ $field: Default::default() };
                let Words::$kind { $field, .. } = self.read_body(place)? else {
                    unreachable!("{OTHER_KIND}")
                };
                Ok($field)
            }
        )+}
    };
}

reads! {
    description(issue: IssueId) -> String = Issue { description };
    doc_paths(issue: IssueId, version: u32) -> DocPaths = Paths { paths };
    task_words(issue: IssueId, task: TaskNumber) -> TaskWords = Task { words };
    submission_words(issue: IssueId, submission: SubmissionId) -> Artifacts = Submission { words };
    review_words(issue: IssueId, submission: SubmissionId) -> ReviewWords = Review { words };
    message_words(issue: IssueId, message: TaskMessageId) -> MessageWords = Message { words };
    reply_words(issue: IssueId, message: TaskMessageId) -> MessageWords = Reply { words };
    delivery_words(issue: IssueId, delivery: DeliveryId) -> Box<DeliveryWords> = Delivery { words };
    evidence_words(issue: IssueId, delivery: DeliveryId, number: u32) -> EvidenceWords
        = Evidence { words };
    verdict_words(issue: IssueId, delivery: DeliveryId) -> VerdictWords = Verdict { words };
}

/// Bytes of another kind are damage, and an error before.
const OTHER_KIND: &str = "words are read as what they were asked for";

impl WorkspaceSession {
    /// The words that are kept where `place` is; what is said in it does not count.
    fn read_body(&self, place: Words) -> Result<Words, Status> {
        self.bodies().words(place).map_err(|e| status::reading(&e))
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
        let Words::Doc { content, at, by, .. } = self.read_body(place)? else {
            unreachable!("{OTHER_KIND}")
        };
        Ok((content, at, by))
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
        let Words::Audit(entry) = self.read_body(Words::Audit(Box::new(place)))? else {
            unreachable!("{OTHER_KIND}")
        };
        Ok(*entry)
    }
}
