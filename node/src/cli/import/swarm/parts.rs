//! An issue as the calls that take it over: as few as hold it, all known by one hash.

use prost::Message;
use tasuki_proto::wire;

/// Things of one call, and their bytes: less than half of what a message may have, since what is
/// said of one task may be half of it alone.
const ITEMS_MAX: usize = 1000;
const BYTES_MAX: usize = 1536 * 1024;

/// What the hash has.
const HASH_BYTES: usize = 16;

/// All of an issue, in the order in which it goes.
#[derive(Debug, Default)]
pub(super) struct WholeIssue {
    pub id: String,
    pub issue: wire::Issue,
    pub tasks: Vec<wire::Task>,
    pub submissions: Vec<wire::ImportedSubmission>,
    pub messages: Vec<wire::TaskMessage>,
    pub docs: Vec<wire::Doc>,
    pub deliveries: Vec<wire::Delivery>,
    pub points: Vec<wire::ImportedPoints>,
    pub events: Vec<wire::HistoryEntry>,
    pub end: wire::IssueStatus,
    pub is_accepted: bool,
}

/// Calls that are being filled.
struct PartBuilder {
    parts: Vec<wire::ImportIssueRequest>,
    items: usize,
    bytes: usize,
}

impl PartBuilder {
    fn next(&mut self, bytes: usize) -> &mut wire::ImportIssueRequest {
        if self.items == ITEMS_MAX || (self.items != 0 && BYTES_MAX < self.bytes + bytes) {
            self.parts.push(wire::ImportIssueRequest::default());
            (self.items, self.bytes) = (0, 0);
        }
        self.items += 1;
        self.bytes += bytes;
        let last = self.parts.len() - 1;
        &mut self.parts[last]
    }

    fn fill<T: Message>(
        &mut self,
        items: Vec<T>,
        list: fn(&mut wire::ImportIssueRequest) -> &mut Vec<T>,
    ) {
        for item in items {
            list(self.next(item.encoded_len())).push(item);
        }
    }
}

impl WholeIssue {
    /// Calls without caller, key and person.
    pub(super) fn parts(self) -> Vec<wire::ImportIssueRequest> {
        let bytes = self.issue.encoded_len();
        let first = wire::ImportIssueRequest { issue: Some(self.issue), ..Default::default() };
        let mut filling = PartBuilder { parts: vec![first], items: 1, bytes };
        filling.fill(self.tasks, |part| &mut part.tasks);
        filling.fill(self.submissions, |part| &mut part.submissions);
        filling.fill(self.messages, |part| &mut part.messages);
        filling.fill(self.docs, |part| &mut part.docs);
        filling.fill(self.deliveries, |part| &mut part.deliveries);
        filling.fill(self.points, |part| &mut part.points);
        filling.fill(self.events, |part| &mut part.events);
        let mut parts = filling.parts;
        if let Some(last) = parts.last_mut() {
            last.set_end(self.end);
            last.is_accepted = self.is_accepted;
        }
        let mut hasher = blake3::Hasher::new();
        for part in &parts {
            let bytes = part.encode_to_vec();
            hasher.update(&(bytes.len() as u64).to_be_bytes());
            hasher.update(&bytes);
        }
        let content = hasher.finalize().as_bytes()[..HASH_BYTES].to_vec();
        let count = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        for (number, part) in (1..).zip(&mut parts) {
            part.issue_id.clone_from(&self.id);
            part.content = content.clone();
            (part.part, part.parts) = (number, count);
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(docs: usize, bytes: usize) -> WholeIssue {
        let doc = wire::Doc { content: "x".repeat(bytes), ..Default::default() };
        let end = wire::IssueStatus::Open;
        WholeIssue {
            id: "issue_1_0000".to_owned(),
            docs: vec![doc; docs],
            end,
            ..WholeIssue::default()
        }
    }

    #[test]
    fn a_large_issue_goes_in_calls_that_fit() {
        let counts = |parts: &[wire::ImportIssueRequest]| {
            parts.iter().map(|it| it.docs.len()).collect::<Vec<_>>()
        };
        let many = whole(2500, 1).parts();
        assert_eq!(counts(&many), [999, 1000, 501]);
        let large = whole(13, 256 * 1024).parts();
        assert_eq!(counts(&large), [5, 5, 3]);
        assert!(large.iter().all(|it| it.encoded_len() < 2 * 1024 * 1024 && it.parts == 3));
        assert!(large[0].issue.is_some() && large[2].end == 1 && large[1].end == 0);
        assert_eq!(large[0].content, large[2].content);
        assert_eq!(whole(13, 256 * 1024).parts()[0].content, large[0].content, "the same again");
        assert_ne!(whole(12, 256 * 1024).parts()[0].content, large[0].content);
    }
}
