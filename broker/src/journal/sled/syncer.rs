//! Syncs the database behind the log, on a thread of its own.
//!
//! **Invariants**
//! - What is not synced is little ([`UNSYNCED_BYTES_MAX`]). sled writes over what it has freed, and
//!   looks for what is torn in its newest segments alone: of 512 KiB each. A power cut may keep any
//!   part of what was not synced, so that must be less than one of them.
//! - The database says that it has a frame only once it has all rows of it.
//! - Once nothing was written for a while everything is synced.

use std::{sync::Arc, thread::JoinHandle, time::Duration};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::{
    engine::{Engine, storage},
    log::{Position, position_batch},
    snapshot::Told,
};
use crate::journal::JournalError;

/// Rows that the database may have and not synced, in bytes, beside one commit: sled writes a row,
/// and about two and a half times as much with the leaves that it writes anew.
pub(super) const UNSYNCED_BYTES_MAX: usize = 96 * 1024;

/// It is synced once nothing was written for so long.
const QUIET: Duration = Duration::from_millis(200);

/// What a thread that syncs has in common with the one that writes.
#[derive(Debug, Default)]
pub(super) struct Syncer {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The newest frame whose rows the database has.
    written: Position,
    /// Of rows that are not being synced yet, and of those that are.
    bytes: usize,
    syncing: usize,
    /// The newest frame that it has, synced.
    synced: u64,
    /// Somebody waits for this frame.
    wanted: u64,
    /// To be told once the pieces are synced that they wrote.
    told: Vec<Told>,
    is_closing: bool,
    /// Nothing more is written.
    is_given_up: bool,
    failure: Option<JournalError>,
}

impl State {
    fn is_clean(&self) -> bool {
        self.written.number == self.synced && self.told.is_empty()
    }

    fn is_due(&self) -> bool {
        if self.is_given_up {
            return false;
        }
        self.synced < self.wanted
            || UNSYNCED_BYTES_MAX / 2 <= self.bytes
            || !self.told.is_empty()
            || (self.is_closing && !self.is_clean())
    }
}

impl Syncer {
    /// Begins where the database has everything up to this frame, synced. `failed` is called once
    /// when it cannot be synced any more.
    pub(super) fn start(
        engine: Arc<Engine>,
        at: Position,
        failed: impl FnOnce(&JournalError) + Send + 'static,
    ) -> Result<(Arc<Self>, JoinHandle<()>), JournalError> {
        let state = State { written: at, synced: at.number, ..State::default() };
        let syncer = Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() });
        let own = Arc::clone(&syncer);
        let thread = std::thread::Builder::new().name("journal-sync".into()).spawn(move || {
            if let Err(why) = own.run(&engine) {
                let mut state = own.state.lock();
                state.failure = Some(why.clone());
                // Whoever waits for them hears that they never will be.
                state.told.clear();
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
            let (written, told) = (state.written, std::mem::take(&mut state.told));
            let has_more = state.synced < written.number;
            state.syncing = std::mem::take(&mut state.bytes);
            MutexGuard::unlocked(&mut state, || {
                if has_more {
                    engine.apply(position_batch(&written))?;
                }
                engine.flush()
            })?;
            (state.synced, state.syncing) = (written.number, 0);
            self.changed.notify_all();
            for told in told {
                // There is room for one word; whoever waits for it may be gone.
                let _ = told.try_send(());
            }
        }
        Ok(())
    }

    /// Waits until there is something to sync; false at the end.
    fn wait(&self, state: &mut MutexGuard<'_, State>) -> bool {
        loop {
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
            let before = state.written.number;
            let is_over = self.changed.wait_for(state, QUIET).timed_out();
            if is_over && state.written.number == before {
                return true;
            }
        }
    }

    /// The database has the rows of this frame.
    /// Waits as long as too much of it is not synced.
    pub(super) fn wrote(&self, frame: Position, bytes: usize) -> Result<(), JournalError> {
        let mut state = self.state.lock();
        let was_clean = state.is_clean();
        state.written = frame;
        state.bytes += bytes;
        if was_clean || UNSYNCED_BYTES_MAX / 2 <= state.bytes {
            self.changed.notify_all();
        }
        while UNSYNCED_BYTES_MAX <= state.bytes + state.syncing {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            self.changed.wait(&mut state);
        }
        Ok(())
    }

    /// The database has pieces of snapshots.
    pub(super) fn wrote_pieces(&self, told: Vec<Told>) {
        self.state.lock().told.extend(told);
        self.changed.notify_all();
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

    /// Has it sync what there is and end.
    pub(super) fn close(&self) {
        self.state.lock().is_closing = true;
        self.changed.notify_all();
    }

    /// Something failed: it writes nothing more, and ends.
    pub(super) fn give_up(&self) {
        let mut state = self.state.lock();
        (state.is_closing, state.is_given_up) = (true, true);
        state.told.clear();
        drop(state);
        self.changed.notify_all();
    }
}
