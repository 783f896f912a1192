//! What a snapshot holds of issues, tasks, deliveries and locks. An issue comes before its tasks.

use std::borrow::Cow;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{FencingToken, RoleId},
    swarm::{DocName, IssueId, LockId},
};

use super::{Delivery, Doc, Issue, Item, Settings, Swarm, Task, Worker, lock};
use crate::rules::Kept;

#[derive(Debug, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotItem<'a> {
    /// Settings, the latest grant's token, and what the next id ends with.
    #[n(0)]
    Base(#[n(0)] Cow<'a, Settings>, #[n(1)] FencingToken, #[n(2)] u32),
    #[n(1)]
    Worker(#[n(0)] Cow<'a, RoleId>, #[n(1)] Worker),
    #[n(2)]
    SharedDoc(#[n(0)] Cow<'a, DocName>, #[n(1)] Cow<'a, Doc>),
    #[n(3)]
    Issue(#[n(0)] Box<Cow<'a, Issue>>),
    #[n(4)]
    Task(#[n(0)] IssueId, #[n(1)] Box<Cow<'a, Task>>),
    #[n(5)]
    LeadItem(#[n(0)] IssueId, #[n(1)] u64, #[n(2)] Cow<'a, Item>),
    #[n(6)]
    Delivery(#[n(0)] Box<Cow<'a, Delivery>>),
    #[n(7)]
    Lock(#[n(0)] Cow<'a, lock::Lock>),
    #[n(8)]
    EndedLock(#[n(0)] Cow<'a, lock::Ended>),
    #[n(9)]
    GivenBack(#[n(0)] LockId, #[n(1)] Cow<'a, RoleId>),
}

impl Kept for Swarm {
    type Item<'a> = SnapshotItem<'a>;

    fn items(&self) -> impl Iterator<Item = SnapshotItem<'_>> {
        let base = SnapshotItem::Base(Cow::Borrowed(&self.settings), self.token, self.next_tail);
        let workers =
            self.workers.iter().map(|(role, it)| SnapshotItem::Worker(Cow::Borrowed(role), *it));
        let docs = self.shared_docs.by_name.iter();
        let docs =
            docs.map(|(name, it)| SnapshotItem::SharedDoc(Cow::Borrowed(name), Cow::Borrowed(it)));
        let issues = self.issues.values().flat_map(|issue| {
            let tasks = issue
                .tasks
                .iter()
                .map(|it| SnapshotItem::Task(issue.id, Box::new(Cow::Borrowed(it))));
            let items = issue.items.iter();
            let items =
                items.map(|(at, it)| SnapshotItem::LeadItem(issue.id, *at, Cow::Borrowed(it)));
            std::iter::once(SnapshotItem::Issue(Box::new(Cow::Borrowed(issue))))
                .chain(tasks)
                .chain(items)
        });
        let deliveries =
            self.deliveries.values().map(|it| SnapshotItem::Delivery(Box::new(Cow::Borrowed(it))));
        let locks = self.locks.iter().map(|it| SnapshotItem::Lock(Cow::Borrowed(it)));
        let ended = self.locks.ended().map(|it| SnapshotItem::EndedLock(Cow::Borrowed(it)));
        let given_back = self.locks.given_back();
        let given_back =
            given_back.map(|(lock, role)| SnapshotItem::GivenBack(*lock, Cow::Borrowed(role)));
        let of_locks = locks.chain(ended).chain(given_back);
        let shared = std::iter::once(base).chain(workers).chain(docs);
        shared.chain(issues).chain(deliveries).chain(of_locks)
    }

    fn restore(&mut self, item: SnapshotItem<'_>) -> Result<(), &'static str> {
        match item {
            SnapshotItem::Base(settings, token, next_tail) => {
                self.settings = settings.into_owned();
                (self.token, self.next_tail) = (token, next_tail);
            }
            SnapshotItem::Worker(role, it) => _ = self.workers.insert(role.into_owned(), it),
            SnapshotItem::SharedDoc(name, it) => {
                self.shared_docs.by_name.insert(name.into_owned(), it.into_owned());
            }
            SnapshotItem::Issue(it) => _ = self.issues.insert(it.id, (*it).into_owned()),
            SnapshotItem::Task(issue, it) => {
                self.issues.get_mut(&issue).ok_or("a task's issue")?.tasks.push((*it).into_owned());
            }
            SnapshotItem::LeadItem(issue, at, it) => {
                let issue = self.issues.get_mut(&issue).ok_or("an item's issue")?;
                issue.items.insert(at, it.into_owned());
            }
            SnapshotItem::Delivery(it) => _ = self.deliveries.insert(it.id, (*it).into_owned()),
            SnapshotItem::Lock(it) => self.locks.restore(it.into_owned())?,
            SnapshotItem::EndedLock(it) => self.locks.restore_ended(it.into_owned()),
            SnapshotItem::GivenBack(lock, role) => {
                self.locks.restore_given_back(lock, role.into_owned())
            }
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), &'static str> {
        self.derive()
    }
}
