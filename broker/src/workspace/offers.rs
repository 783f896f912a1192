//! Which worker each open task was offered to.
//!
//! A task that comes free wakes one worker and not all that wait: the one that waits the longest
//! is offered it for a while, then the next; at once if it declines. An offer keeps nobody from
//! claiming. Soft state: after
//! a restart nobody was offered anything.

use std::collections::{BTreeMap, BTreeSet};

use tasuki_proto::{
    id::{RoleId, Timestamp},
    swarm::{IssueId, TaskNumber},
};

/// How long one worker is offered a task, in milliseconds: a model that was just woken needs some
/// seconds to claim.
const OFFER_MS: u64 = 30_000;

#[derive(Debug, Default)]
pub(super) struct Offers {
    by_task: BTreeMap<(IssueId, TaskNumber), (RoleId, Timestamp)>,
    due: BTreeSet<(Timestamp, IssueId, TaskNumber)>,
}

impl Offers {
    /// Offers a task, unless it is this role's already.
    pub(super) fn offer(&mut self, now: Timestamp, issue: IssueId, task: TaskNumber, to: &RoleId) {
        if self.by_task.get(&(issue, task)).is_some_and(|(role, _)| role == to) {
            return;
        }
        self.remove(issue, task);
        let until = now.plus_millis(OFFER_MS);
        self.by_task.insert((issue, task), (to.clone(), until));
        self.due.insert((until, issue, task));
    }

    /// It was claimed.
    pub(super) fn remove(&mut self, issue: IssueId, task: TaskNumber) {
        if let Some((_, until)) = self.by_task.remove(&(issue, task)) {
            self.due.remove(&(until, issue, task));
        }
    }

    /// Ends what was offered long enough. Returns the issues it was about.
    pub(super) fn take_due(&mut self, now: Timestamp) -> BTreeSet<IssueId> {
        let mut issues = BTreeSet::new();
        while let Some((until, issue, task)) = self.due.first().copied()
            && until <= now
        {
            self.remove(issue, task);
            issues.insert(issue);
        }
        issues
    }

    /// Ends what this role was offered. Returns the issues it was about.
    pub(super) fn decline(&mut self, role: &RoleId) -> BTreeSet<IssueId> {
        let own = self.by_task.iter().filter(|(_, (other, _))| other == role);
        let own: Vec<_> = own.map(|(of, _)| *of).collect();
        own.iter().for_each(|(issue, task)| self.remove(*issue, *task));
        own.into_iter().map(|(issue, _)| issue).collect()
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.due.first().map(|(until, ..)| *until)
    }

    /// Whether a task is offered to nobody but this role.
    pub(super) fn is_free(&self, issue: IssueId, task: TaskNumber, role: Option<&RoleId>) -> bool {
        self.by_task.get(&(issue, task)).is_none_or(|(other, _)| Some(other) == role)
    }

    /// What this role is offered already.
    pub(super) fn of<'a>(
        &'a self,
        issue: IssueId,
        role: &'a RoleId,
    ) -> impl Iterator<Item = TaskNumber> {
        let own = self.by_task.range((issue, TaskNumber(0))..=(issue, TaskNumber(u32::MAX)));
        own.filter(move |(_, (other, _))| other == role).map(|((_, task), _)| *task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_offered_to_one_at_a_time() {
        let at = Timestamp::from_millis;
        let (a, b): (RoleId, RoleId) = ("A".parse().unwrap(), "B".parse().unwrap());
        let (issue, task) = (IssueId::default(), TaskNumber(1));
        let mut offers = Offers::default();
        assert!(offers.is_free(issue, task, None));
        offers.offer(at(0), issue, task, &a);
        offers.offer(at(10), issue, task, &a);
        assert_eq!(offers.next_deadline(), Some(at(OFFER_MS)), "asking again is no new offer");
        assert!(offers.is_free(issue, task, Some(&a)) && !offers.is_free(issue, task, Some(&b)));
        assert_eq!(offers.of(issue, &a).collect::<Vec<_>>(), [task]);
        assert!(offers.take_due(at(OFFER_MS - 1)).is_empty());
        assert_eq!(offers.take_due(at(OFFER_MS)), [issue].into());
        assert!(offers.is_free(issue, task, Some(&b)) && offers.next_deadline().is_none());
        offers.offer(at(OFFER_MS), issue, task, &b);
        offers.remove(issue, task);
        assert!(offers.next_deadline().is_none(), "claimed");
        offers.offer(at(OFFER_MS), issue, task, &b);
        assert!(offers.decline(&a).is_empty() && !offers.is_free(issue, task, Some(&a)));
        assert_eq!(offers.decline(&b), [issue].into());
        assert!(offers.is_free(issue, task, Some(&a)) && offers.next_deadline().is_none());
    }
}
