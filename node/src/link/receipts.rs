//! How far turns got, reported in the background.
//!
//! A report that is lost is a receipt that nobody claims; so the queue drops its oldest when it
//! is full, and a report that fails once too often is let go.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tasuki_proto::{
    id::{LoopId, RoleId, Turn},
    rpc::Rpc,
    wire::{self, mark_turn_request},
};
use tokio::{sync::Notify, time};

use super::Shared;
use crate::client::{
    any::send_as,
    channel::ATTEMPT_MS_MAX,
    retry::{Backoff, Failure, chance},
};

/// Reports waiting to be sent: some minutes of a busy node's while the broker is away.
const QUEUED_MAX: usize = 256;

/// How far a turn got at this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    pub role: RoleId,
    pub loop_id: LoopId,
    pub turn: Turn,
    pub mark: mark_turn_request::Mark,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Receipts {
    queue: Arc<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    marks: Mutex<VecDeque<Mark>>,
    pushed: Notify,
}

impl Receipts {
    pub(super) fn start(shared: &Arc<Shared>) -> Self {
        let receipts = Self::default();
        shared.spawn(run(shared.clone(), receipts.queue.clone()));
        receipts
    }

    pub(super) fn push(&self, mark: Mark) {
        let mut marks = self.queue.marks();
        if marks.len() == QUEUED_MAX {
            marks.pop_front();
        }
        marks.push_back(mark);
        self.queue.pushed.notify_one();
    }
}

impl Queue {
    fn marks(&self) -> MutexGuard<'_, VecDeque<Mark>> {
        self.marks.lock()
    }

    fn pop(&self) -> Option<Mark> {
        self.marks().pop_front()
    }
}

/// Sends one after the other. When the node is stopping, what is queued is still sent.
async fn run(shared: Arc<Shared>, queue: Arc<Queue>) {
    loop {
        while let Some(mark) = queue.pop() {
            send(&shared, &mark).await;
        }
        tokio::select! {
            () = queue.pushed.notified() => {}
            () = shared.closing.cancelled() => break,
        }
    }
    while let Some(mark) = queue.pop() {
        send(&shared, &mark).await;
    }
}

async fn send(shared: &Shared, mark: &Mark) {
    let request = wire::MarkTurnRequest {
        caller: None,
        r#loop: mark.loop_id.to_string(),
        role: mark.role.to_string(),
        turn: mark.turn.get(),
        mark: mark.mark.into(),
    };
    report(shared, request).await;
}

/// Tells the broker how far something got, however often that has to be said; given up when it is
/// refused, or the node stops.
pub(super) async fn report<R: Rpc + std::fmt::Debug>(shared: &Shared, receipt: R) {
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
    fn a_full_queue_drops_its_oldest() {
        let receipts = Receipts::default();
        let role: RoleId = "A".parse().expect("an id");
        let loop_id: LoopId = "main".parse().expect("an id");
        for turn in 0..=QUEUED_MAX as u64 {
            receipts.push(Mark {
                role: role.clone(),
                loop_id: loop_id.clone(),
                turn: turn.into(),
                mark: mark_turn_request::Mark::Handed,
            });
        }
        let queued = receipts.queue.marks();
        assert_eq!(queued.len(), QUEUED_MAX);
        assert_eq!(queued.front().map(|mark| mark.turn), Some(1.into()));
    }
}
