//! Issues from elsewhere, as they stood there.

use super::super::{ImportedIssue, Swarm};

impl Swarm {
    pub(super) fn imported(&mut self, it: &ImportedIssue) {
        let (id, mut issue) = (it.issue.id, it.issue.clone());
        for task in &it.tasks {
            let number = task.number;
            assert!(task.is_at_rest(), "I1: {number} of {id} comes over {}", task.state);
            self.submissions.extend(task.submissions.iter().map(|it| (it.id, (id, number))));
            self.messages.extend(task.messages.iter().map(|it| (it.id, (id, number))));
            issue.add(task.clone());
        }
        self.tasks += it.tasks.len();
        for delivery in &it.deliveries {
            let other = self.deliveries.insert(delivery.id, delivery.clone());
            assert!(other.is_none(), "I7: {} was made before", delivery.id);
            self.set_delivery_state(delivery.id, delivery.state);
        }
        self.note_newest(&issue);
        let other = self.issues.insert(id, issue);
        assert!(other.is_none(), "I7: {id} was made before");
    }
}
