//! Rows that the log has and the database does not have yet.
//!
//! **Invariant:** a row leaves once the database has it, so whoever looks here first and there second
//! misses none. It holds what one sync of the database takes, twice at most.

use std::{collections::BTreeMap, ops::Bound};

use bytes::Bytes;
use parking_lot::RwLock;
use sled::Batch;

use super::log::{Position, position_row, rows_of};

#[derive(Debug, Default)]
pub(super) struct Recent(RwLock<State>);

#[derive(Debug, Default)]
struct State {
    /// Each key's newest value, none for one that is removed, and the frame that it is from.
    rows: BTreeMap<Bytes, (u64, Option<Bytes>)>,
    /// The newest frame in here.
    newest: Position,
}

impl Recent {
    /// Adds the rows of a frame, which is durable.
    pub(super) fn add(&self, frame: &Position, rows: &Bytes) {
        let mut state = self.0.write();
        for (key, value) in rows_of(rows).expect("these are rows") {
            state.rows.insert(key, (frame.number, value));
        }
        state.newest = *frame;
    }

    /// The newest value of a key, if it is in here: none for one that is removed.
    pub(super) fn get(&self, key: &[u8]) -> Option<Option<Bytes>> {
        self.0.read().rows.get(key).map(|(_, value)| value.clone())
    }

    /// Whether a key that begins so has a value in here.
    pub(super) fn has(&self, begin: &[u8]) -> bool {
        let state = self.0.read();
        let from = (Bound::Included(begin), Bound::Unbounded);
        let rows = state.rows.range::<[u8], _>(from);
        rows.take_while(|(key, _)| key.starts_with(begin)).any(|(_, (_, value))| value.is_some())
    }

    /// All of it as a batch that says so, and its newest frame.
    pub(super) fn batch(&self) -> (Batch, u64) {
        let (mut batch, state) = (Batch::default(), self.0.read());
        for (key, (_, value)) in &state.rows {
            match value {
                Some(value) => batch.insert(&key[..], &value[..]),
                None => batch.remove(&key[..]),
            }
        }
        let (key, value) = position_row(&state.newest);
        batch.insert(key, value);
        (batch, state.newest.number)
    }

    /// The database has everything up to this frame.
    pub(super) fn forget(&self, frame: u64) {
        self.0.write().rows.retain(|_, (from, _)| frame < *from);
    }
}
