//! Issues that are over and old versions of shared documents, which are no longer kept.

use std::collections::BTreeSet;

use tasuki_proto::{
    id::Timestamp,
    swarm::{DocName, IssueId},
};

use super::{Docs, Event, Issue, IssueState, Swarm};

impl Swarm {
    /// Issues that were over by then.
    pub(in crate::rules) fn over(&self, before: Timestamp) -> impl Iterator<Item = IssueId> {
        let locked = self.locked();
        let closed = self
            .issues
            .values()
            .filter(move |it| !locked.contains(&it.id) && self.is_over(it, before));
        closed.map(|it| it.id)
    }

    /// Shared documents that were written last by then and have older versions.
    pub(in crate::rules) fn old_docs(&self, before: Timestamp) -> impl Iterator<Item = &DocName> {
        let names = self.shared_docs.by_name.keys();
        names.filter(move |name| self.shared_docs.oldest_left(name, before).is_some())
    }

    /// The removal of those of them that were over by then.
    pub(in crate::rules) fn decide_compact(
        &self,
        before: Timestamp,
        issues: &[IssueId],
        docs: &[DocName],
    ) -> impl Iterator<Item = Event> {
        let locked = self.locked();
        let over = issues.iter().filter_map(|id| self.issues.get(id));
        let over = over.filter(|it| !locked.contains(&it.id) && self.is_over(it, before));
        let over: BTreeSet<IssueId> = over.map(|it| it.id).collect();
        let compacted = (!over.is_empty()).then(|| Event::Compacted(over.into_iter().collect()));
        let docs = docs.iter().filter_map(move |name| {
            let oldest = self.shared_docs.oldest_left(name, before)?;
            Some(Event::DocCompacted { name: name.clone(), oldest })
        });
        compacted.into_iter().chain(docs)
    }

    /// Issues whose tasks a lock names.
    fn locked(&self) -> BTreeSet<IssueId> {
        self.locks.iter().filter_map(|it| Some(it.task?.0)).collect()
    }

    /// An issue is over when it is closed, nobody has anything of it in hand, its lead was handed
    /// all there was to look at, and nothing happened to it since.
    fn is_over(&self, issue: &Issue, before: Timestamp) -> bool {
        let has_lease = issue.tasks.iter().any(|it| it.deadlines(issue.id).next().is_some());
        let is_delivered = issue.delivery.is_some_and(|it| self.deliveries[&it].state.is_open());
        issue.state != IssueState::Open
            && !issue.is_worked_on()
            && !has_lease
            && !is_delivered
            && issue.unhanded.is_empty()
            && issue.updated <= before
    }

    pub(super) fn compacted(&mut self, issues: &[IssueId]) {
        let removed: BTreeSet<IssueId> = issues.iter().copied().collect();
        for id in &removed {
            let issue = self.issues.remove(id).expect("events are about issues that are there");
            assert!(issue.state != IssueState::Open, "I1: {id} is removed while it is open");
            self.by_state[issue.state as usize].remove(id);
            self.tasks -= issue.tasks.len();
            for task in &issue.tasks {
                for submission in &task.submissions {
                    self.submissions.remove(&submission.id);
                }
                for message in &task.messages {
                    self.messages.remove(&message.id);
                }
            }
        }
        let deliveries = self.deliveries.extract_if(.., |_, it| removed.contains(&it.issue));
        for (id, delivery) in deliveries {
            self.deliveries_by_state[delivery.state as usize].remove(&id);
        }
        // Another that was opened in the same words before becomes the newest.
        let lost: BTreeSet<_> = self
            .newest
            .extract_if(.., |_, id| removed.contains(id))
            .map(|(words, _)| words)
            .collect();
        for issue in self.issues.values() {
            let words = (issue.lead.clone(), issue.content);
            if lost.contains(&words) {
                // In order: the newest comes last.
                self.newest.insert(words, issue.id);
            }
        }
    }
}

impl Docs {
    /// The only version that is left of a document once those are removed that were replaced by
    /// then; `None` where there are none.
    fn oldest_left(&self, name: &DocName, before: Timestamp) -> Option<u32> {
        let doc = self.by_name.get(name)?;
        (doc.at <= before && doc.oldest() < doc.version).then_some(doc.version)
    }

    pub(super) fn compacted(&mut self, name: &DocName, oldest: u32) {
        if let Some(doc) = self.by_name.get_mut(name) {
            doc.oldest = Some(oldest);
        }
    }
}
