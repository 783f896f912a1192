//! Waits that stay parked at the broker for as long as the tasks that stand for them are polled.
//!
//! They show everybody that a role waits, and spare the broker a question at each poll: while one
//! is not answered, what is waited for has not come. What it was answered is not kept; whoever asks next
//! asks the broker, whose word may be another by then.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tasuki_proto::limits::HOLD_MS_MAX;
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use super::POLL_INTERVAL_MS;
use crate::mcp::{
    instances::Playing,
    question::{Asking, Question},
};

/// Waits parked at once; a task beyond them asks the broker at each poll. Well below what the
/// node's one stream to the broker carries, so that those questions have room.
const WAITS_MAX: usize = 1_024;

/// A task is taken for forgotten when it was not asked about for so long, in milliseconds.
const SILENCE_MS_MAX: u64 = 6 * POLL_INTERVAL_MS;

#[derive(Debug, Default)]
pub(super) struct Waits(Mutex<BTreeMap<Question, Parked>>);

#[derive(Debug)]
struct Parked {
    polled: Arc<Mutex<Instant>>,
    wait: JoinHandle<()>,
}

impl Drop for Parked {
    fn drop(&mut self) {
        self.wait.abort();
    }
}

impl Waits {
    fn parked(&self) -> MutexGuard<'_, BTreeMap<Question, Parked>> {
        self.0.lock()
    }

    /// Whether a wait of this question is parked, which then stays so until it is answered or
    /// the polls fall silent.
    pub(super) fn is_parked(&self, question: &Question) -> bool {
        let parked = self.parked();
        let Some(it) = parked.get(question).filter(|it| !it.wait.is_finished()) else {
            return false;
        };
        *it.polled.lock() = Instant::now();
        true
    }

    /// Parks a wait unless one is parked. It supersedes any other of its question.
    pub(super) fn park(&self, asking: Asking, playing: Playing, stopping: CancellationToken) {
        let question = asking.question();
        if self.is_parked(&question) {
            return;
        }
        let mut parked = self.parked();
        if WAITS_MAX <= parked.len() {
            parked.retain(|_, it| !it.wait.is_finished());
        }
        if WAITS_MAX <= parked.len() {
            return;
        }
        let polled = Arc::new(Mutex::new(Instant::now()));
        let heard = Arc::clone(&polled);
        let wait = tokio::spawn(async move {
            tokio::select! {
                _answer = asking.ask(Duration::from_millis(HOLD_MS_MAX)) => {}
                () = playing.lost() => {}
                () = silence(&heard) => {}
                () = stopping.cancelled() => {}
            }
        });
        parked.insert(question, Parked { polled, wait });
    }

    /// Ends the wait of a question that nobody asks any more.
    pub(super) fn end(&self, question: &Question) {
        self.parked().remove(question);
    }
}

/// Resolves once nobody has asked for long enough.
async fn silence(polled: &Mutex<Instant>) {
    loop {
        let latest = *polled.lock();
        let ends = latest + Duration::from_millis(SILENCE_MS_MAX);
        if ends <= Instant::now() {
            return;
        }
        tokio::time::sleep_until(ends).await;
    }
}
