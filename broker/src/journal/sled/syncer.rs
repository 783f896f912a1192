//! Syncs the database behind the log, on a thread of its own.
//!
//! **Invariants**
//! - Between two syncs little is written ([`UNSYNCED_BYTES_MAX`]): what sled writes meanwhile goes
//!   over what it has freed, and a power cut may keep any part of it.
//! - Once nothing was written for a while everything is synced.

use std::{sync::Arc, thread::JoinHandle, time::Duration};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::{
    engine::{Engine, storage},
    snapshot::Told,
};
use crate::journal::JournalError;

/// Rows that the database gets before it is synced, in bytes.
const UNSYNCED_BYTES_MAX: usize = 1024 * 1024;

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
    written: u64,
    /// Of rows that it got since it was synced.
    bytes: usize,
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
        self.written == self.synced && self.told.is_empty()
    }

    fn is_due(&self) -> bool {
        if self.is_given_up {
            return false;
        }
        self.synced < self.wanted
            || UNSYNCED_BYTES_MAX <= self.bytes
            || !self.told.is_empty()
            || (self.is_closing && !self.is_clean())
    }
}

impl Syncer {
    /// Begins where the database has everything up to this frame, synced. `failed` is called once
    /// when it cannot be synced any more.
    pub(super) fn start(
        engine: Arc<Engine>,
        synced: u64,
        failed: impl FnOnce(&JournalError) + Send + 'static,
    ) -> Result<(Arc<Self>, JoinHandle<()>), JournalError> {
        let state = State { written: synced, synced, ..State::default() };
        let syncer = Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() });
        let own = Arc::clone(&syncer);
        let thread = std::thread::Builder::new().name("journal-sync".into()).spawn(move || {
            if let Err(why) = own.run(&engine) {
                own.state.lock().failure = Some(why.clone());
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
            state.bytes = 0;
            self.changed.notify_all();
            MutexGuard::unlocked(&mut state, || engine.flush())?;
            state.synced = written;
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
            let before = state.written;
            let is_over = self.changed.wait_for(state, QUIET).timed_out();
            if is_over && state.written == before {
                return true;
            }
        }
    }

    /// The database has the rows of this frame.
    /// Waits while it is far behind.
    pub(super) fn wrote(&self, frame: u64, bytes: usize) -> Result<(), JournalError> {
        let mut state = self.state.lock();
        let was_clean = state.is_clean();
        state.written = frame;
        state.bytes += bytes;
        if was_clean || UNSYNCED_BYTES_MAX <= state.bytes {
            self.changed.notify_all();
        }
        while 2 * UNSYNCED_BYTES_MAX <= state.bytes {
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

    /// Has it sync what there is and end; after a failure it writes nothing more.
    pub(super) fn close(&self, has_failed: bool) {
        let mut state = self.state.lock();
        (state.is_closing, state.is_given_up) = (true, has_failed);
        drop(state);
        self.changed.notify_all();
    }
}
