//! How far turns and mail got, reported in the background.
//!
//! Marks of mail go "through entry n", so of each thread and mark the highest is enough: what waits
//! to be sent grows with the threads an agent read, not with its calls. A report that is lost is a
//! receipt that nobody claims; so a full queue drops its oldest, and a report that is refused is let
//! go.

use std::{collections::VecDeque, fmt, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tasuki_proto::{
    id::{LoopId, RoleId, Turn},
    mail::MessageId,
    rpc::Rpc,
    wire::{self, mark_turn_request},
};
use tokio::{
    sync::{Notify, watch},
    time,
};

use super::Shared;
use crate::client::{
    any::send_as,
    channel::ATTEMPT_MS_MAX,
    retry::{Backoff, Failure, chance},
};

/// Reports of turns waiting to be sent: some minutes of a busy node's while the broker is away.
const TURNS_MAX: usize = 256;

/// Threads with marks waiting to be sent: what a busy node's agents read while the broker is away.
const THREADS_MAX: usize = 256;

/// How long an agent's act waits for what it read to be told, in milliseconds: some round trips.
const SETTLE_MS_MAX: u64 = 1_000;

/// How far a turn got at this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    pub role: RoleId,
    pub loop_id: LoopId,
    pub turn: Turn,
    pub mark: mark_turn_request::Mark,
}

/// How far one thread got at one role. 0: nothing new.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MailMarks {
    role: RoleId,
    message: MessageId,
    handed: u32,
    seen: u32,
}

#[derive(Debug)]
enum Report {
    Turn(wire::MarkTurnRequest),
    Mail(wire::MarkMailRequest),
}

#[derive(Debug, Clone, Default)]
pub(super) struct Receipts {
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
    turns: VecDeque<Mark>,
    mail: VecDeque<MailMarks>,
    /// Whose mark of mail is on its way.
    on_its_way: Option<RoleId>,
}

impl Receipts {
    pub(super) fn start(shared: &Arc<Shared>) -> Self {
        let receipts = Self::default();
        shared.spawn(run(shared.clone(), receipts.queue.clone()));
        receipts
    }

    pub(super) fn push(&self, mark: Mark) {
        let turns = &mut self.queue.owed().turns;
        if turns.len() == TURNS_MAX {
            turns.pop_front();
        }
        turns.push_back(mark);
        self.queue.pushed.notify_one();
    }

    pub(super) fn push_mail(
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
        self.queue.push_mail(MailMarks { role: role.clone(), message, handed, seen });
        self.queue.pushed.notify_one();
    }

    /// Resolves once all mail of this role is told, or it takes too long.
    pub(super) async fn mail_settled(&self, role: &RoleId) {
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

    fn push_mail(&self, new: MailMarks) {
        let marks = &mut self.owed().mail;
        let is_same = |it: &&mut MailMarks| it.message == new.message && it.role == new.role;
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
        owed.on_its_way.as_ref() == Some(role) || owed.mail.iter().any(|it| it.role == *role)
    }

    /// What was popped is told.
    fn rest(&self) {
        self.owed().on_its_way = None;
        self.told.send_replace(());
    }

    /// The next to be sent; of a thread the weaker mark first.
    fn pop(&self) -> Option<Report> {
        let mut owed = self.owed();
        if let Some(Mark { role, loop_id, turn, mark }) = owed.turns.pop_front() {
            return Some(Report::Turn(wire::MarkTurnRequest {
                caller: None,
                r#loop: loop_id.to_string(),
                role: role.to_string(),
                turn: turn.get(),
                mark: mark.into(),
            }));
        }
        let first = owed.mail.front_mut()?;
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
            owed.mail.pop_front();
        }
        owed.on_its_way = Some(role);
        Some(Report::Mail(request))
    }
}

/// Sends one after the other. When the node is stopping, what is queued is still sent.
async fn run(shared: Arc<Shared>, queue: Arc<Queue>) {
    let mut is_closing = false;
    loop {
        while let Some(next) = queue.pop() {
            match next {
                Report::Turn(receipt) => report(&shared, receipt).await,
                Report::Mail(receipt) => report(&shared, receipt).await,
            }
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

/// Tells the broker how far something got, however often that has to be said; given up when it is
/// refused, or the node stops.
async fn report<R: Rpc + fmt::Debug>(shared: &Shared, receipt: R) {
    let mut backoff = Backoff::default();
    loop {
        let epoch = shared.epoch();
        let call = send_as(&receipt, shared.client.channel(), shared.caller());
        let failure = match time::timeout(Duration::from_millis(ATTEMPT_MS_MAX), call).await {
            Ok(Ok(_)) => return,
            Ok(Err(status)) => Failure::of(&status),
            Err(_) => Failure::Lost("no answer".to_owned()),
        };
        match failure {
            Failure::Refused(refusal) | Failure::TurnedAway(refusal) => {
                tracing::debug!(?receipt, %refusal, "a receipt was refused");
                return;
            }
            Failure::StaleEpoch(_) => shared.report_stale(epoch),
            Failure::NotTaken(_) | Failure::Lost(_) | Failure::Unsure(_) => {
                shared.suspect.notify_one()
            }
        }
        tokio::select! {
            () = time::sleep(backoff.pause(chance())) => {}
            () = shared.closing.cancelled() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_drops_its_oldest_turn() {
        let receipts = Receipts::default();
        let role: RoleId = "A".parse().expect("an id");
        let loop_id: LoopId = "main".parse().expect("an id");
        for turn in 0..=TURNS_MAX as u64 {
            receipts.push(Mark {
                role: role.clone(),
                loop_id: loop_id.clone(),
                turn: turn.into(),
                mark: mark_turn_request::Mark::Handed,
            });
        }
        let queued = &receipts.queue.owed().turns;
        assert_eq!(queued.len(), TURNS_MAX);
        assert_eq!(queued.front().map(|mark| mark.turn), Some(1.into()));
    }

    fn pushed(marks: &[(u128, u32, wire::MailMark)]) -> Vec<(u128, u32, wire::MailMark)> {
        let receipts = Receipts::default();
        let role = "A".parse().expect("an id");
        for (message, through, mark) in marks {
            receipts.push_mail(&role, MessageId::from_bits(*message), *through, *mark);
        }
        let popped = std::iter::from_fn(|| receipts.queue.pop());
        let told = popped.map(|next| {
            let Report::Mail(it) = next else { panic!("no turn was marked: {next:?}") };
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
        let receipts = Receipts::default();
        let (role, other) = ("A".parse().expect("an id"), "B".parse().expect("an id"));
        receipts.mail_settled(&role).await;
        receipts.push_mail(&role, MessageId::from_bits(1), 1, wire::MailMark::Handed);
        receipts.push_mail(&role, MessageId::from_bits(1), 1, wire::MailMark::Seen);
        let settled = receipts.mail_settled(&role);
        tokio::pin!(settled);
        for _ in 0..2 {
            assert!(futures::poll!(&mut settled).is_pending());
            receipts.mail_settled(&other).await;
            assert!(receipts.queue.pop().is_some());
            assert!(futures::poll!(&mut settled).is_pending(), "one is on its way");
            receipts.mail_settled(&other).await;
            receipts.queue.rest();
        }
        // Another role's keeps nobody waiting.
        receipts.push_mail(&other, MessageId::from_bits(2), 1, wire::MailMark::Handed);
        assert!(futures::poll!(&mut settled).is_ready());
    }

    #[test]
    fn telling_and_waiting_for_it_never_wait_for_each_other() {
        const ROUNDS: u32 = 20_000;
        const SECONDS_MAX: u64 = 60;
        let receipts = Receipts::default();
        let role: RoleId = "A".parse().expect("an id");
        let (done, both) = std::sync::mpsc::channel();
        let (queue, told) = (receipts.queue.clone(), done.clone());
        let (of, teller) = (role.clone(), receipts.clone());
        std::thread::spawn(move || {
            for round in 1..=ROUNDS {
                teller.push_mail(&of, MessageId::from_bits(1), round, wire::MailMark::Handed);
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
                    receipts.mail_settled(&role).await;
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
