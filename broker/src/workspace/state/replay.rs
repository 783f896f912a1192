//! The state that a journal's records make.

use std::collections::{BTreeMap, VecDeque};

use tasuki_proto::id::{Sequence, Timestamp};

use super::{
    super::{actor::Arguments, offers::Offers, waits::Waits},
    SnapshotState, State,
};
use crate::{
    journal::{JournalError, Opened, codec},
    rules::{Context, Workspace, presence::Presence},
};

/// Records read at once when a workspace wakes.
const REPLAY_RECORDS: usize = 1024;

impl State {
    /// The state that the journal's records make.
    pub(in crate::workspace) fn replayed(
        arguments: Arguments,
        opened: Opened,
    ) -> Result<Self, JournalError> {
        let id = &arguments.id;
        let damaged = |sequence: Sequence, what: String| JournalError::Damaged {
            place: format!("workspace {id}, sequence {sequence}"),
            what,
        };
        let mut snapshot = SnapshotState { at: Sequence::NONE, before: Sequence::NONE, bytes: 0 };
        let mut workspace = match opened.snapshot {
            None => Workspace::default(),
            Some((sequence, bytes)) => {
                snapshot =
                    SnapshotState { at: sequence, before: sequence, bytes: bytes.len() as u64 };
                let decoded = codec::decode_snapshot(bytes);
                decoded.map_err(|e| damaged(sequence, format!("snapshot: {e}")))?
            }
        };
        if workspace.sequence != snapshot.at {
            let what = format!("the snapshot is of sequence {}", workspace.sequence);
            return Err(damaged(snapshot.at, what));
        }
        while workspace.sequence < opened.last {
            let from = workspace.sequence.next();
            let records = arguments.journal.read(id, from, REPLAY_RECORDS)?;
            if records.is_empty() {
                return Err(damaged(from, format!("missing; the newest is {}", opened.last)));
            }
            for stored in records {
                let record = codec::decode_record(stored.record);
                let record = record.map_err(|e| damaged(stored.sequence, e.to_string()))?;
                if record.sequence != workspace.sequence.next() {
                    let what = format!("the record says {}", record.sequence);
                    return Err(damaged(stored.sequence, what));
                }
                workspace.apply(&record);
            }
        }
        let behind_ms = workspace.time.millis_since(arguments.clock.now());
        let presence = Presence::new(arguments.pulse.since().max(workspace.time));
        let lease_ms = arguments.settings.lease_ms;
        let now = arguments.clock.now().plus_millis(behind_ms);
        Ok(Self {
            writer: opened.writer,
            incarnation: arguments.journal.incarnation(),
            context: Context { presence, lease_ms, told: BTreeMap::new() },
            behind_ms,
            durable: workspace.sequence,
            workspace,
            pending: VecDeque::new(),
            unpublished: VecDeque::new(),
            waits: Waits::default(),
            offers: Offers::default(),
            came_back: BTreeMap::new(),
            snapshot,
            last_active: now,
            ticked: Timestamp::default(),
            alarm: None,
            arguments,
        })
    }
}
