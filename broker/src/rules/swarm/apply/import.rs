//! What came from elsewhere, as it was there.

use tasuki_proto::{
    id::Timestamp,
    swarm::{IssueId, TaskNumber},
};

use super::super::{
    Delivery, Import, Imported, Issue, IssueState, Message, Submission, Swarm, Task, TaskState,
};

impl Swarm {
    /// The issue that the first part begins, with nothing in it.
    pub(super) fn import_begun(&mut self, id: IssueId, it: &Imported) {
        let Some(begin) = &it.begin else { return };
        let mut issue = Issue::opened(id, begin.subject.clone(), None, begin.created);
        (issue.content, issue.paths_content) = (begin.content, begin.paths);
        issue.state = IssueState::Canceled;
        let other = self.issues.insert(id, issue);
        assert!(other.is_none(), "I7: {id} was made before");
        self.by_state[IssueState::Canceled as usize].insert(id);
    }

    pub(super) fn imported(&mut self, id: IssueId, it: &Imported) {
        let issue = self.issues.get_mut(&id).expect("just seen");
        let (content, parts, done) = (it.content, it.parts, it.part);
        issue.import = Some(Import { content, parts, done });
        if let Some(end) = it.end {
            (issue.state, issue.is_accepted) = (end.state, end.is_accepted);
        }
    }

    pub(super) fn task_imported(&mut self, id: IssueId, task: &Task) {
        let is_over = matches!(task.state, TaskState::Open | TaskState::Done | TaskState::Canceled);
        assert!(is_over, "I1: {} comes over {}", task.number, task.state);
        self.issues.get_mut(&id).expect("just seen").add(task.clone());
        self.tasks += 1;
    }

    pub(super) fn submission_imported(
        &mut self,
        id: IssueId,
        (number, item): (TaskNumber, u64),
        it: &Submission,
    ) {
        self.submissions.insert(it.id, (id, number));
        self.change_task(id, number, |task| {
            task.submissions.push(Submission { item, ..it.clone() });
        });
    }

    pub(super) fn message_imported(
        &mut self,
        id: IssueId,
        (number, item): (TaskNumber, u64),
        it: &Message,
    ) {
        self.messages.insert(it.id, (id, number));
        self.change_task(id, number, |task| task.messages.push(Message { item, ..it.clone() }));
    }

    pub(super) fn delivery_imported(&mut self, now: Timestamp, id: IssueId, it: &Delivery) {
        let issue = self.issues.get_mut(&id).expect("just seen");
        // Of deliveries the newest counts; the one before cannot wait any more.
        let before = issue.delivery.replace(it.id);
        let other = self.deliveries.insert(it.id, it.clone());
        assert!(other.is_none(), "I7: {} was made before", it.id);
        self.set_delivery_state(it.id, it.state);
        if let Some(before) = before
            && self.deliveries[&before].state.is_open()
        {
            self.set_delivery_state(before, super::DeliveryState::Rejected);
            self.touch_delivery(before, now);
        }
    }
}
