//! What events do to issues, tasks (`tasks`), locks and deliveries. Cannot refuse.

mod import;
mod tasks;

use tasuki_proto::{
    id::{FencingToken, Timestamp},
    swarm::{DeliveryId, IssueId},
};

use self::tasks::TaskEnd;
use super::{
    Attached, Delivery, DeliveryClaim, DeliveryReviewed, DeliveryState, DeliveryVerdict, Event,
    Issue, IssueEvent, IssueEventKind, IssueState, Item, ItemKind, ItemState, Lease, LeaseRenewed,
    LeaseTarget, Message, MessageState, Swarm, Task, Verdict, Worker,
    lock::{Effort, Lock},
};
use crate::rules::Principal;

impl Swarm {
    /// Records that this happened at `now`.
    pub(in crate::rules) fn apply(&mut self, now: Timestamp, by: &Principal, event: &Event) {
        match event {
            Event::Issue(it) => self.happened(now, by, it),
            Event::WorkerRegistered(role) => {
                self.workers.insert(role.clone(), Worker { joined: now });
            }
            Event::SettingsSet(it) => {
                self.settings = it.clone();
                self.touch_open(now);
            }
            Event::SharedDocWritten(it) => self.shared_docs.written(now, by.role.as_ref(), it),
            Event::Locked(it) => {
                self.grant(it.token);
                self.made(it.lock.0.tail);
                let others = self.locks.conflict(Some(&it.role), &it.keys, &Effort::unbounded());
                assert!(matches!(others, Ok(None)), "I2: {it:?} although {others:?}");
                self.locks.insert(Lock {
                    id: it.lock,
                    role: it.role.clone(),
                    keys: it.keys.clone(),
                    task: it.task,
                    token: it.token,
                    lease: Lease::granted(now, it.lapses),
                    acquired: now,
                    renewed: now,
                });
                self.deadlines.insert((it.lapses, LeaseTarget::Lock(it.lock)));
            }
            Event::Unlocked(it) => {
                if let Some(lock) = self.locks.remove(it.lock, &it.why, by) {
                    self.deadlines.remove(&(lock.lease.lapses, LeaseTarget::Lock(it.lock)));
                    self.note_graced(LeaseTarget::Lock(it.lock));
                }
            }
            Event::LeaseRenewed(it) => self.renewed(now, it),
            Event::ItemsHanded { issue, items } => {
                let issue = self.issues.get_mut(issue).expect("an issue has its items");
                items.iter().for_each(|number| issue.handed(now, *number));
            }
            Event::Compacted(issues) => self.compacted(issues),
            Event::DocCompacted { name, oldest } => self.shared_docs.compacted(name, *oldest),
        }
    }

    /// How long issues are kept counts for those that are open, from now on.
    fn touch_open(&mut self, now: Timestamp) {
        let open: Vec<IssueId> = self.by_state[IssueState::Open as usize].iter().copied().collect();
        for id in open {
            if let Some(deadline) = self.deadline_of(&self.issues[&id]) {
                self.deadlines.remove(&deadline);
            }
            let ttl_ms = self.settings.issue_ttl_ms;
            self.issues.get_mut(&id).expect("it is open").touch(now, ttl_ms);
            let deadline = self.deadline_of(&self.issues[&id]);
            self.deadlines.extend(deadline);
        }
    }

    fn grant(&mut self, token: FencingToken) {
        assert!(self.token < token, "I3: token {token} after {}", self.token);
        self.token = token;
    }

    fn made(&mut self, tail: u32) {
        self.next_tail = tail.wrapping_add(1);
    }

    fn happened(&mut self, now: Timestamp, by: &Principal, it: &IssueEvent) {
        let id = it.issue;
        if let IssueEventKind::Created { subject, content, paths } = &it.what {
            self.made(id.0.tail);
            let mut issue = Issue::opened(id, subject.clone(), by.role.clone(), now);
            (issue.content, issue.paths_content) = (*content, *paths);
            self.note_newest(&issue);
            let other = self.issues.insert(id, issue);
            assert!(other.is_none(), "I7: {id} was made before");
            self.by_state[IssueState::Open as usize].insert(id);
        }
        if let IssueEventKind::Imported(it) = &it.what {
            self.imported(it);
        }
        let issue = &self.issues[&id];
        if let Some(deadline) = self.deadline_of(issue) {
            self.deadlines.remove(&deadline);
        }
        let ttl_ms = self.settings.issue_ttl_ms;
        let issue = self.issues.get_mut(&id).expect("just seen");
        let next = issue.audit + 1;
        assert!(it.audit == next, "I7: entry {} of {id} after {}", it.audit, issue.audit);
        issue.audit = next;
        issue.updated = now;
        self.change(now, by, it);
        let issue = self.issues.get_mut(&id).expect("just seen");
        issue.touch(now, ttl_ms);
        let state = issue.state;
        for (at, set) in self.by_state.iter_mut().enumerate() {
            if at == state as usize {
                set.insert(id);
            } else {
                set.remove(&id);
            }
        }
        let issue = &self.issues[&id];
        if let Some(deadline) = self.deadline_of(issue) {
            self.deadlines.insert(deadline);
        }
    }

    fn change(&mut self, now: Timestamp, by: &Principal, event: &IssueEvent) {
        let (id, item) = (event.issue, event.audit);
        let issue = self.issues.get_mut(&id).expect("events are about issues that are there");
        match &event.what {
            IssueEventKind::Created { .. } | IssueEventKind::Imported(_) => {}
            IssueEventKind::PathsSet { version, content } => {
                (issue.paths_version, issue.paths_content) = (*version, *content);
            }
            IssueEventKind::Closed(_) => {
                issue.state = IssueState::Done;
                if let Some(delivery) = issue.delivery
                    && self.deliveries[&delivery].state.is_open()
                {
                    self.end_delivery_claim(delivery);
                    self.set_delivery_state(delivery, DeliveryState::Rejected);
                    self.touch_delivery(delivery, now);
                }
            }
            IssueEventKind::Reopened { .. } => {
                issue.state = IssueState::Open;
                issue.is_accepted = false;
                issue.lease = None;
            }
            IssueEventKind::Lapsed => issue.state = IssueState::Canceled,
            IssueEventKind::TaskCreated(it) => {
                issue.add(Task::made(it, by, now));
                // It was not in what was accepted.
                issue.is_accepted = false;
                self.tasks += 1;
            }
            IssueEventKind::Claimed(it) => self.claimed(now, id, it),
            IssueEventKind::ClaimLapsed { task, .. } => {
                self.task_ended(now, id, *task, TaskEnd::Lapsed);
                self.add_item(id, item, ItemKind::ClaimLapsed(*task));
            }
            IssueEventKind::Submitted(it) => self.submitted(now, id, item, it),
            IssueEventKind::NextStepMinted(it) => self.minted(now, id, it),
            IssueEventKind::ReservationLapsed { task, .. } => {
                self.change_task(id, *task, |task| {
                    task.reservation = None;
                    task.updated = now;
                });
            }
            IssueEventKind::Reviewed(it) => self.reviewed(now, by, id, it),
            IssueEventKind::Reset { task, .. } => {
                issue.is_accepted = false;
                self.task_ended(now, id, *task, TaskEnd::Reset);
            }
            IssueEventKind::Canceled { task, .. } => {
                self.task_ended(now, id, *task, TaskEnd::Canceled)
            }
            IssueEventKind::MessagePosted(it) => {
                self.made(it.message.0.tail);
                self.messages.insert(it.message, (id, it.task));
                self.change_task(id, it.task, |task| {
                    task.messages.push(Message {
                        id: it.message,
                        sender: it.sender.clone(),
                        kind: it.kind,
                        content: it.content,
                        at: now,
                        state: MessageState::Open,
                        replied: None,
                        replied_by: None,
                        reply: None,
                        item,
                    });
                    task.updated = now;
                    task.stand();
                });
                self.add_item(id, item, ItemKind::Message(it.task, it.message));
            }
            IssueEventKind::Replied { task, message, content } => {
                let mut replied = None;
                self.change_task(id, *task, |task| {
                    let found = task.messages.iter_mut().find(|it| it.id == *message);
                    let it = found.expect("a reply is to a message that is there");
                    assert!(it.state == MessageState::Open, "I6: {message} ended before");
                    it.state = MessageState::Replied;
                    (it.replied, it.replied_by) = (Some(now), by.role.clone());
                    it.reply = Some(*content);
                    replied = Some(it.item);
                    task.updated = now;
                    task.stand();
                });
                self.end_items(id, replied);
            }
            IssueEventKind::DocWritten { task: None, doc } => {
                issue.docs.written(now, by.role.as_ref(), doc);
            }
            IssueEventKind::DocWritten { task: Some(task), doc } => {
                issue.tasks[task.index()].docs.written(now, by.role.as_ref(), doc);
            }
            IssueEventKind::Delivered(it) => {
                issue.delivery = Some(it.delivery);
                self.made(it.delivery.0.tail);
                let delivery = Delivery {
                    id: it.delivery,
                    issue: id,
                    role: it.role.clone(),
                    content: it.content,
                    commit: it.commit.clone(),
                    is_passed: it.is_passed,
                    commands: Delivery::commands_hash(&it.commands),
                    state: DeliveryState::Open,
                    at: now,
                    updated: now,
                    claim: None,
                    former: None,
                    evidence: Vec::new(),
                    verdict: None,
                };
                self.deliveries.insert(it.delivery, delivery);
                self.set_delivery_state(it.delivery, DeliveryState::Open);
            }
            IssueEventKind::DeliveryClaimed { delivery, role, token, lapses } => {
                self.grant(*token);
                self.set_delivery_state(*delivery, DeliveryState::InReview);
                let it = self.touch_delivery(*delivery, now);
                it.former = it.former.take().filter(|former| former != role);
                let (role, lease) = (role.clone(), Lease::granted(now, *lapses));
                it.claim = Some(DeliveryClaim { role, token: *token, lease, claimed: now });
                self.deadlines.insert((*lapses, LeaseTarget::Delivery(*delivery)));
            }
            IssueEventKind::DeliveryLapsed { delivery, role } => {
                self.end_delivery_claim(*delivery);
                self.set_delivery_state(*delivery, DeliveryState::Open);
                let it = self.touch_delivery(*delivery, now);
                (it.claim, it.former) = (None, Some(role.clone()));
            }
            IssueEventKind::EvidenceAttached { delivery, is_passed, content, .. } => {
                let attached = Attached { is_passed: *is_passed, content: *content, at: now };
                self.touch_delivery(*delivery, now).evidence.push(attached);
            }
            IssueEventKind::DeliveryReviewed(it) => {
                issue.is_accepted |= it.verdict == Verdict::Approved;
                self.delivery_reviewed(now, by, it);
                self.add_item(id, item, ItemKind::DeliveryReviewed(it.delivery));
            }
        }
    }

    fn delivery_reviewed(&mut self, now: Timestamp, by: &Principal, it: &DeliveryReviewed) {
        self.end_delivery_claim(it.delivery);
        let state = match it.verdict {
            Verdict::Approved => DeliveryState::Approved,
            Verdict::Rejected => DeliveryState::Rejected,
        };
        self.set_delivery_state(it.delivery, state);
        self.touch_delivery(it.delivery, now).verdict = Some(DeliveryVerdict {
            verdict: it.verdict,
            content: it.content,
            by: by.role.clone(),
            at: now,
            overridden: it.overridden.clone(),
        });
    }

    fn touch_delivery(&mut self, id: DeliveryId, now: Timestamp) -> &mut Delivery {
        let it = self.deliveries.get_mut(&id).expect("events are about deliveries that are there");
        it.updated = now;
        it
    }

    fn end_delivery_claim(&mut self, id: DeliveryId) {
        if let Some(claim) = self.deliveries[&id].live_claim() {
            self.deadlines.remove(&(claim.lease.lapses, LeaseTarget::Delivery(id)));
            self.note_graced(LeaseTarget::Delivery(id));
        }
    }

    fn add_item(&mut self, id: IssueId, number: u64, kind: ItemKind) {
        let issue = self.issues.get_mut(&id).expect("just seen");
        issue.items.insert(number, Item { kind, state: ItemState::New });
        issue.unhanded.insert(number);
    }

    fn end_items(&mut self, id: IssueId, numbers: impl IntoIterator<Item = u64>) {
        let issue = self.issues.get_mut(&id).expect("just seen");
        for number in numbers {
            issue.end_item(number);
        }
    }

    fn renewed(&mut self, now: Timestamp, it: &LeaseRenewed) {
        // Whoever renews was heard of: the next standstill may give a grace again.
        let renew = |lease: Lease| Lease { lapses: it.lapses, had_grace: it.is_grace, ..lease };
        match it.held {
            LeaseTarget::Issue(id) => {
                let deadline = self.issues.get(&id).and_then(|issue| self.deadline_of(issue));
                if let Some(deadline) = deadline {
                    self.deadlines.remove(&deadline);
                }
                if let Some(issue) = self.issues.get_mut(&id) {
                    issue.lease = issue.lease.map(renew);
                }
                let deadline = self.issues.get(&id).and_then(|issue| self.deadline_of(issue));
                self.deadlines.extend(deadline);
            }
            LeaseTarget::Claim(id, number) => self.change_task(id, number, |task| {
                if let Some(claim) = &mut task.claim {
                    claim.lease = renew(claim.lease);
                }
            }),
            LeaseTarget::Reservation(id, number) => self.change_task(id, number, |task| {
                if let Some(reservation) = &mut task.reservation {
                    reservation.lease = renew(reservation.lease);
                }
            }),
            LeaseTarget::Delivery(id) => {
                self.end_delivery_claim(id);
                let claim = self.deliveries.get_mut(&id).and_then(|it| it.claim.as_mut());
                if let Some(claim) = claim {
                    claim.lease = renew(claim.lease);
                    self.deadlines.insert((claim.lease.lapses, it.held));
                }
                self.note_graced(it.held);
            }
            LeaseTarget::Lock(id) => {
                let Some(lease) = self.locks.get(id).map(|it| it.lease) else { return };
                self.deadlines.remove(&(lease.lapses, it.held));
                self.locks.renew(id, now, renew(lease));
                self.deadlines.insert((it.lapses, it.held));
                self.note_graced(it.held);
            }
        }
    }
}

impl Issue {
    /// Somebody did something with it: it is kept for a while longer.
    fn touch(&mut self, now: Timestamp, ttl_ms: u64) {
        if self.state != IssueState::Open || ttl_ms == 0 {
            self.lease = None;
            return;
        }
        let lapses = now.plus_millis(ttl_ms);
        let lease = self.lease.get_or_insert_with(|| Lease::until(lapses));
        if lease.lapses < lapses {
            (lease.lapses, lease.had_grace) = (lapses, false);
        }
    }

    fn end_item(&mut self, number: u64) {
        let Some(item) = self.items.remove(&number) else { return };
        match item.state {
            ItemState::New => _ = self.unhanded.remove(&number),
            ItemState::Handed(at) => _ = self.handed.remove(&(at, number)),
        }
    }

    /// An item was given to the lead. What asks for nothing is dealt with by that.
    fn handed(&mut self, now: Timestamp, number: u64) {
        let Some(item) = self.items.get(&number).cloned() else { return };
        self.end_item(number);
        if !self.asks_for_something(item.kind) {
            return;
        }
        self.items.insert(number, Item { state: ItemState::Handed(now), ..item });
        self.handed.insert((now, number));
    }

    fn asks_for_something(&self, kind: ItemKind) -> bool {
        match kind {
            ItemKind::Submission(..) => true,
            ItemKind::Message(task, id) => {
                let task = &self.tasks[task.index()];
                task.messages.iter().any(|it| it.id == id && it.kind.is_blocking())
            }
            ItemKind::DeliveryReviewed(_) | ItemKind::ClaimLapsed(_) => false,
        }
    }
}
