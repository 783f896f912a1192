//! Writes to the database behind the log, on a thread of its own: what is recent, and pieces of
//! snapshots.
//!
//! **Invariants**
//! - Each batch is synced before the next ([`BATCH_BYTES_MAX`]). sled writes over what it has freed,
//!   and looks for what is torn in its newest segments alone, of 512 KiB each. A power cut may keep
//!   any part of what was not synced, so that must be less than one of them.
//! - Once nothing was written for a while the database has everything.

use std::{sync::Arc, thread::JoinHandle, time::Duration};

use parking_lot::{Condvar, Mutex, MutexGuard};
use sled::Batch;

use super::{
    engine::{Engine, storage},
    snapshot::Told,
};
use crate::journal::JournalError;

/// Rows that the database gets at once, in bytes, beside one commit: sled writes a row, and about two
/// and a half times as much with the leaves that it writes anew.
pub(super) const BATCH_BYTES_MAX: usize = 128 * 1024;

/// The database gets what is recent once nothing was written for so long.
const QUIET: Duration = Duration::from_millis(200);

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
    is_closing: bool,
    /// Something failed: nothing more is written.
    is_given_up: bool,
    failure: Option<JournalError>,
}

impl State {
    fn is_clean(&self) -> bool {
        self.newest == self.synced && self.pieces.is_empty()
    }

    fn is_due(&self) -> bool {
        self.synced < self.wanted
            || BATCH_BYTES_MAX <= self.bytes
            || !self.pieces.is_empty()
            || (self.is_closing && !self.is_clean())
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
            if let Err(why) = own.run(&engine) {
                let mut state = own.state.lock();
                state.failure = Some(why.clone());
                // Whoever waits for them hears that they never will be.
                state.pieces.clear();
                drop(state);
                own.changed.notify_all();
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
            state.bytes = 0;
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
            state.synced = written.unwrap_or(state.synced);
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Waits until there is something to write; false at the end.
    fn wait(&self, state: &mut MutexGuard<'_, State>) -> bool {
        loop {
            if state.is_given_up {
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
        if was_clean || BATCH_BYTES_MAX <= state.bytes {
            self.changed.notify_all();
        }
        while BATCH_BYTES_MAX <= state.bytes {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            self.changed.wait(&mut state);
        }
        Ok(())
    }

    /// Has pieces of snapshots written, behind what is recent now.
    pub(super) fn write_pieces(&self, pieces: Batch, told: Vec<Told>) {
        self.state.lock().pieces.push((pieces, told));
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
        loop {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if frame <= state.synced {
                return Ok(());
            }
            self.changed.wait(&mut state);
        }
    }

    /// Has it write what there is and end.
    pub(super) fn close(&self) {
        self.state.lock().is_closing = true;
        self.changed.notify_all();
    }

    /// Something failed: it writes nothing more, and ends.
    pub(super) fn give_up(&self) {
        let mut state = self.state.lock();
        state.is_given_up = true;
        state.pieces.clear();
        drop(state);
        self.changed.notify_all();
    }
}
