//! How far mail got, reported in the background.
//!
//! Marks go "through entry n", so of each thread and mark the highest is enough: what waits to be
//! sent grows with the threads an agent read, not with its calls. A report that is lost is a
//! receipt that nobody claims; so the oldest thread is dropped when there are too many.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tasuki_proto::{id::RoleId, mail::MessageId, wire};
use tokio::{
    sync::{Notify, watch},
    time,
};

use crate::link::{Shared, receipts::report};

/// Threads with marks waiting to be sent: what a busy node's agents read while the broker is away.
const THREADS_MAX: usize = 256;

/// How long an agent's act waits for what it read to be told, in milliseconds: some round trips.
const SETTLE_MS_MAX: u64 = 1_000;

/// How far one thread got at one role. 0: nothing new.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Marks {
    role: RoleId,
    message: MessageId,
    handed: u32,
    seen: u32,
}

#[derive(Debug, Clone, Default)]
pub(in crate::link) struct MailReceipts {
    queue: Arc<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    owed: Mutex<Owed>,
    pushed: Notify,
    /// Something was told. It carries nothing, for what a watch carries is looked at under its lock:
    /// with `owed` taken inside of that lock here and outside of it there, both would wait for ever.
    told: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Owed {
    marks: VecDeque<Marks>,
    /// Whose mark is on its way.
    on_its_way: Option<RoleId>,
}

impl MailReceipts {
    pub(in crate::link) fn start(shared: &Arc<Shared>) -> Self {
        let receipts = Self::default();
        shared.spawn(run(shared.clone(), receipts.queue.clone()));
        receipts
    }

    pub(in crate::link) fn push(
        &self,
        role: &RoleId,
        message: MessageId,
        through: u32,
        mark: wire::MailMark,
    ) {
        let (handed, seen) = match mark {
            wire::MailMark::Handed => (through, 0),
            wire::MailMark::Seen => (0, through),
            wire::MailMark::Unspecified | wire::MailMark::None => return,
        };
        if through == 0 {
            return;
        }
        self.queue.push(Marks { role: role.clone(), message, handed, seen });
        self.queue.pushed.notify_one();
    }

    /// Resolves once all of this role is told, or it takes too long.
    pub(in crate::link) async fn settled(&self, role: &RoleId) {
        // Before the first look, so that nothing is told between look and wait.
        let mut told = self.queue.told.subscribe();
        let all_told = async { while self.queue.owes(role) && told.changed().await.is_ok() {} };
        drop(time::timeout(Duration::from_millis(SETTLE_MS_MAX), all_told).await);
    }
}

impl Queue {
    fn owed(&self) -> MutexGuard<'_, Owed> {
        self.owed.lock()
    }

    fn push(&self, new: Marks) {
        let marks = &mut self.owed().marks;
        let is_same = |it: &&mut Marks| it.message == new.message && it.role == new.role;
        if let Some(known) = marks.iter_mut().find(is_same) {
            known.handed = known.handed.max(new.handed);
            known.seen = known.seen.max(new.seen);
            return;
        }
        if marks.len() == THREADS_MAX {
            marks.pop_front();
        }
        marks.push_back(new);
    }

    fn owes(&self, role: &RoleId) -> bool {
        let owed = self.owed();
        owed.on_its_way.as_ref() == Some(role) || owed.marks.iter().any(|it| it.role == *role)
    }

    /// What was popped is told.
    fn rest(&self) {
        self.owed().on_its_way = None;
        self.told.send_replace(());
    }

    /// The next to be sent, the weaker one of a thread first.
    fn pop(&self) -> Option<wire::MarkMailRequest> {
        let mut owed = self.owed();
        let first = owed.marks.front_mut()?;
        let (through, mark) = match std::mem::take(&mut first.handed) {
            0 => (std::mem::take(&mut first.seen), wire::MailMark::Seen),
            handed => (handed, wire::MailMark::Handed),
        };
        let request = wire::MarkMailRequest {
            caller: None,
            role: first.role.to_string(),
            message_id: first.message.to_string(),
            through,
            mark: mark.into(),
        };
        let (role, is_last) = (first.role.clone(), first.seen == 0);
        if is_last {
            owed.marks.pop_front();
        }
        owed.on_its_way = Some(role);
        Some(request)
    }
}

/// Sends one after the other. When the node is stopping, what is queued is still sent.
async fn run(shared: Arc<Shared>, queue: Arc<Queue>) {
    let mut is_closing = false;
    loop {
        while let Some(mark) = queue.pop() {
            send(&shared, &mark).await;
            queue.rest();
        }
        if is_closing {
            return;
        }
        tokio::select! {
            () = queue.pushed.notified() => {}
            () = shared.closing.cancelled() => is_closing = true,
        }
    }
}

async fn send(shared: &Shared, mark: &wire::MarkMailRequest) {
    report(shared, mark.clone()).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed(marks: &[(u128, u32, wire::MailMark)]) -> Vec<(u128, u32, wire::MailMark)> {
        let receipts = MailReceipts::default();
        let role = "A".parse().expect("an id");
        for (message, through, mark) in marks {
            receipts.push(&role, MessageId::from_bits(*message), *through, *mark);
        }
        let popped = std::iter::from_fn(|| receipts.queue.pop());
        let told = popped.map(|it| {
            let message: MessageId = it.message_id.parse().expect("an id");
            (message.bits(), it.through, it.mark())
        });
        told.collect()
    }

    #[test]
    fn the_highest_mark_of_each_kind_is_told_once() {
        use wire::MailMark::{Handed, None, Seen};
        for (marks, told) in [
            (vec![], vec![]),
            (vec![(1, 2, Handed), (1, 1, Handed)], vec![(1, 2, Handed)]),
            (vec![(1, 2, Seen), (1, 3, Handed)], vec![(1, 3, Handed), (1, 2, Seen)]),
            (
                vec![(1, 1, Handed), (2, 1, Handed), (1, 4, Handed)],
                vec![(1, 4, Handed), (2, 1, Handed)],
            ),
            (vec![(1, 9, None), (1, 0, Seen)], vec![]),
        ] {
            assert_eq!(pushed(&marks), told, "{marks:?}");
        }
    }

    #[tokio::test]
    async fn what_was_pushed_is_settled_once_it_is_told() {
        let receipts = MailReceipts::default();
        let (role, other) = ("A".parse().expect("an id"), "B".parse().expect("an id"));
        receipts.settled(&role).await;
        receipts.push(&role, MessageId::from_bits(1), 1, wire::MailMark::Handed);
        receipts.push(&role, MessageId::from_bits(1), 1, wire::MailMark::Seen);
        let settled = receipts.settled(&role);
        tokio::pin!(settled);
        for _ in 0..2 {
            assert!(futures::poll!(&mut settled).is_pending());
            receipts.settled(&other).await;
            assert!(receipts.queue.pop().is_some());
            assert!(futures::poll!(&mut settled).is_pending(), "one is on its way");
            receipts.settled(&other).await;
            receipts.queue.rest();
        }
        // Another role's keeps nobody waiting.
        receipts.push(&other, MessageId::from_bits(2), 1, wire::MailMark::Handed);
        assert!(futures::poll!(&mut settled).is_ready());
    }

    #[test]
    fn telling_and_waiting_for_it_never_wait_for_each_other() {
        const ROUNDS: u32 = 20_000;
        const SECONDS_MAX: u64 = 60;
        let receipts = MailReceipts::default();
        let role: RoleId = "A".parse().expect("an id");
        let (done, both) = std::sync::mpsc::channel();
        let (queue, told) = (receipts.queue.clone(), done.clone());
        let (of, teller) = (role.clone(), receipts.clone());
        std::thread::spawn(move || {
            for round in 1..=ROUNDS {
                teller.push(&of, MessageId::from_bits(1), round, wire::MailMark::Handed);
                while queue.pop().is_some() {
                    queue.rest();
                }
            }
            told.send(()).expect("somebody waits");
        });
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            runtime.expect("a runtime").block_on(async {
                for _ in 0..ROUNDS {
                    receipts.settled(&role).await;
                }
            });
            done.send(()).expect("somebody waits");
        });
        for _ in 0..2 {
            let ended = both.recv_timeout(Duration::from_secs(SECONDS_MAX));
            ended.expect("both end, neither holds what the other needs");
        }
    }

    #[test]
    fn a_full_queue_drops_its_oldest_thread() {
        let marks: Vec<_> =
            (0..=THREADS_MAX as u128).map(|message| (message, 1, wire::MailMark::Seen)).collect();
        let told = pushed(&marks);
        assert_eq!((told.len(), told[0].0), (THREADS_MAX, 1));
    }
}
