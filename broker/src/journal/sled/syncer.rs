//! Writes to the database behind the log, on a thread of its own: what is recent, and pieces of
//! snapshots.
//!
//! **Invariants**
//! - Each batch is synced before the next ([`BATCH_BYTES_MAX`]). sled writes over what it has freed,
//!   and looks for what is torn in its newest segments alone, of 512 KiB each. A power cut may keep
//!   any part of what was not synced, so that must be less than one of them.
//! - The database has everything once nothing was written for a while, and what is older than
//!   [`ROW_AGE_MAX`].
//! - Nobody waits for a database that does not answer: sled forgets to wake whoever flushes when a
//!   write fails at the wrong moment.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use parking_lot::{Condvar, Mutex, MutexGuard};
use sled::Batch;
use tokio::time::Instant;

use super::{
    engine::{Engine, panic_text, storage},
    snapshot::Told,
};
use crate::journal::JournalError;

/// Rows that the database gets at once, in bytes, beside one commit: sled writes a row, and about two
/// and a half times as much with the leaves that it writes anew.
pub(super) const BATCH_BYTES_MAX: usize = 128 * 1024;

/// The database gets what is recent once nothing was written for so long.
const QUIET: Duration = Duration::from_millis(200);

/// The database gets a row that old also while others come.
const ROW_AGE_MAX: Duration = Duration::from_secs(1);

/// The database failed when it took longer for one batch: of some MiB, where one append is as large.
const BATCH_TIME_MAX: Duration = Duration::from_mins(1);

/// What a thread that syncs has in common with the one that writes.
#[derive(Debug, Default)]
pub(super) struct Syncer {
    state: Mutex<State>,
    changed: Condvar,
}

/// Pieces of snapshots, and whoever is told once they are synced.
type Pieces = (Batch, Vec<Told>);

#[derive(Debug, Default)]
struct State {
    /// The newest frame of the log.
    newest: u64,
    /// Of rows that are not being written yet.
    bytes: usize,
    /// The newest frame that the database has, synced.
    synced: u64,
    /// Somebody waits for this frame.
    wanted: u64,
    pieces: Vec<Pieces>,
    /// Of the oldest row that is not being written yet.
    oldest: Option<Instant>,
    /// Since when a batch is being written.
    writing: Option<Instant>,
    is_closing: bool,
    /// Nothing more is written.
    is_over: bool,
    /// Something failed, here or elsewhere: nothing more is written.
    failure: Option<JournalError>,
}

impl State {
    fn is_clean(&self) -> bool {
        self.newest == self.synced && self.pieces.is_empty()
    }

    fn is_due(&self) -> bool {
        let is_old = |it: Instant| ROW_AGE_MAX <= it.elapsed();
        self.synced < self.wanted
            || self.oldest.is_some_and(is_old)
            || BATCH_BYTES_MAX <= self.bytes
            || !self.pieces.is_empty()
            || (self.is_closing && !self.is_clean())
    }

    /// Nothing more is written; whoever waits hears why.
    fn fail(&mut self, why: &JournalError) {
        self.failure.get_or_insert_with(|| why.clone());
        // Whoever waits for them hears that they never will be.
        self.pieces.clear();
    }
}

impl Syncer {
    /// Begins where the database has everything up to this frame, synced. `failed` is called once
    /// when it cannot be written any more.
    pub(super) fn start(
        engine: Arc<Engine>,
        synced: u64,
        failed: impl FnOnce(&JournalError) + Send + 'static,
    ) -> Result<(Arc<Self>, JoinHandle<()>), JournalError> {
        let state = State { newest: synced, synced, ..State::default() };
        let syncer = Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() });
        let own = Arc::clone(&syncer);
        let thread = std::thread::Builder::new().name("journal-sync".into()).spawn(move || {
            let ended = catch_unwind(AssertUnwindSafe(|| own.run(&engine)));
            let ended = ended.unwrap_or_else(|panic| {
                Err(JournalError::Storage(format!("panicked: {}", panic_text(panic.as_ref()))))
            });
            let mut state = own.state.lock();
            state.is_over = true;
            if let Err(why) = &ended {
                state.fail(why);
            }
            drop(state);
            own.changed.notify_all();
            if let Err(why) = ended {
                failed(&why);
            }
        });
        let thread = thread.map_err(|why| storage("starting the thread that syncs", &why))?;
        Ok((syncer, thread))
    }

    fn run(&self, engine: &Engine) -> Result<(), JournalError> {
        let mut state = self.state.lock();
        while self.wait(&mut state) {
            let has_rows = state.synced < state.newest;
            let pieces = (!state.pieces.is_empty()).then(|| state.pieces.remove(0));
            (state.bytes, state.oldest) = (0, None);
            state.writing = Some(Instant::now());
            let written = MutexGuard::unlocked(&mut state, || {
                let frame = has_rows.then(|| engine.write_recent()).transpose()?;
                if let Some((batch, told)) = pieces {
                    engine.commit(batch)?;
                    for told in told {
                        // There is room for one word; whoever waits for it may be gone.
                        let _ = told.try_send(());
                    }
                }
                Ok::<_, JournalError>(frame)
            })?;
            state.writing = None;
            state.synced = written.unwrap_or(state.synced);
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Waits until there is something to write; false at the end.
    fn wait(&self, state: &mut MutexGuard<'_, State>) -> bool {
        loop {
            if state.failure.is_some() {
                return false;
            }
            if state.is_due() {
                return true;
            }
            if state.is_closing {
                return false;
            }
            if state.is_clean() {
                self.changed.wait(state);
                continue;
            }
            let before = state.newest;
            let is_over = self.changed.wait_for(state, QUIET).timed_out();
            if is_over && state.newest == before {
                return true;
            }
        }
    }

    /// Rows of this frame are recent. Waits as long as they are too many.
    pub(super) fn wrote(&self, frame: u64, bytes: usize) -> Result<(), JournalError> {
        let mut state = self.state.lock();
        let was_clean = state.is_clean();
        state.newest = frame;
        state.bytes += bytes;
        state.oldest.get_or_insert_with(Instant::now);
        if was_clean || BATCH_BYTES_MAX <= state.bytes {
            self.changed.notify_all();
        }
        self.wait_until(&mut state, |it| it.bytes < BATCH_BYTES_MAX)
    }

    /// Waits until this holds of the state.
    ///
    /// # Errors
    /// When something failed, or the database does not answer.
    fn wait_until(
        &self,
        state: &mut MutexGuard<'_, State>,
        holds: impl Fn(&State) -> bool,
    ) -> Result<(), JournalError> {
        loop {
            let waited = state.writing.map_or(Duration::ZERO, |it| it.elapsed());
            if BATCH_TIME_MAX <= waited {
                let seconds = BATCH_TIME_MAX.as_secs();
                let why = format!("the database has not answered for {seconds} s");
                state.fail(&JournalError::Storage(why));
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if holds(state) {
                return Ok(());
            }
            self.changed.wait_for(state, BATCH_TIME_MAX.saturating_sub(waited));
        }
    }

    /// Has pieces of snapshots written, behind what is recent now.
    pub(super) fn write_pieces(&self, pieces: Batch, told: Vec<Told>) {
        let mut state = self.state.lock();
        // Else whoever waits for them hears that they never will be.
        if state.failure.is_none() && !state.is_over {
            state.pieces.push((pieces, told));
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until the database has everything that is recent now, synced.
    pub(super) fn sync_all(&self) -> Result<(), JournalError> {
        let newest = self.state.lock().newest;
        self.sync_through(newest)
    }

    /// Waits until the database has everything up to this frame, synced.
    pub(super) fn sync_through(&self, frame: u64) -> Result<(), JournalError> {
        let mut state = self.state.lock();
        state.wanted = state.wanted.max(frame);
        self.changed.notify_all();
        self.wait_until(&mut state, |it| frame <= it.synced)
    }

    /// Has it write what there is and end, and waits for that.
    pub(super) fn close(&self) -> Result<(), JournalError> {
        let mut state = self.state.lock();
        state.is_closing = true;
        self.changed.notify_all();
        self.wait_until(&mut state, |it| it.is_over)
    }

    /// Something failed: it writes nothing more, and ends.
    pub(super) fn give_up(&self, why: &JournalError) {
        self.state.lock().fail(why);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn syncer(state: State) -> Syncer {
        Syncer { state: Mutex::new(state), changed: Condvar::new() }
    }

    #[test]
    fn nobody_waits_for_a_database_that_does_not_answer() {
        let stuck = || {
            let writing = Instant::now().checked_sub(BATCH_TIME_MAX);
            syncer(State {
                writing: Some(writing.unwrap()),
                newest: 2,
                synced: 1,
                ..State::default()
            })
        };
        let answers = [
            // Also who would not have to wait: the next probe notices.
            stuck().wrote(3, 1),
            stuck().sync_through(2),
            stuck().close(),
        ];
        for answer in answers {
            let why = answer.unwrap_err().to_string();
            assert!(why.ends_with("the database has not answered for 60 s"), "{why}");
        }
    }

    #[test]
    fn who_waits_hears_what_failed_elsewhere() {
        let why = JournalError::Storage("the log".to_owned());
        let syncer = Arc::new(syncer(State { newest: 1, ..State::default() }));
        let (told, pieces) = std::sync::mpsc::sync_channel(1);
        syncer.write_pieces(Batch::default(), vec![told.clone()]);
        let own = Arc::clone(&syncer);
        let waiting = std::thread::spawn(move || own.sync_all());
        syncer.give_up(&why);
        assert_eq!(waiting.join().unwrap().unwrap_err().to_string(), why.to_string());
        assert_eq!(syncer.wrote(2, 1).unwrap_err().to_string(), why.to_string());
        // Also who comes later.
        syncer.write_pieces(Batch::default(), vec![told]);
        assert!(pieces.recv().is_err());
    }

    #[test]
    fn a_row_is_not_kept_waiting_by_those_that_come_after_it() {
        let of = |age: Duration| {
            let oldest = Instant::now().checked_sub(age);
            State { newest: 2, synced: 1, bytes: 1, oldest, ..State::default() }
        };
        assert!(of(ROW_AGE_MAX).is_due());
        assert!(!of(Duration::ZERO).is_due());
    }
}
