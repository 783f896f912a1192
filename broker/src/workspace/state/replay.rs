//! The state that a journal's records make.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use ractor::ActorRef;
use tasuki_proto::id::{Sequence, Timestamp, WorkspaceId};

use super::{
    super::{
        actor::{Arguments, Msg},
        offers::{Offers, STEP_OFFER_MS, TASK_OFFER_MS},
        waits::Waits,
    },
    SnapshotState, State,
    observe::UnhandedLetters,
};
use crate::{
    journal::{
        Journal, JournalError, Opened, Snapshot, StoredRecord,
        codec::{self, CodecError},
        sled::{Cut, CutWorkspace},
    },
    rules::{Context, Fence, Workspace, presence::Presence},
};

/// Records read at once when a workspace wakes, at most, and their bytes, roughly: as many as the
/// ones before were large.
const REPLAY_RECORDS: usize = 1024;
const REPLAY_BYTES: usize = 4 * 1024 * 1024;

/// A state, and what it cost to keep it.
#[derive(Debug)]
pub(in crate::workspace) struct Replayed {
    pub(in crate::workspace) workspace: Workspace,
    /// The record that the snapshot included last, and its bytes.
    at: Sequence,
    bytes: u64,
    /// Bytes of the records after it.
    grown: u64,
}

/// The state that a snapshot and the records after it make, up to `through`.
pub(in crate::workspace) fn read(
    journal: &dyn Journal,
    id: &WorkspaceId,
    snapshot: Option<Snapshot>,
    through: Sequence,
) -> Result<Replayed, JournalError> {
    let read = |from, records_max| journal.read(id, from, records_max);
    replay(read, journal.fence(), id, snapshot, through)
}

/// The state of a workspace at a cut.
///
/// # Errors
/// When it cannot be read.
pub fn replay_cut(cut: &Cut, it: &CutWorkspace) -> Result<Workspace, JournalError> {
    let read = |from, records_max| cut.read(&it.id, from, records_max);
    let replayed = replay(read, cut.fence(), &it.id, cut.snapshot(&it.id), it.last);
    replayed.map(|it| it.workspace)
}

fn replay(
    read_records: impl Fn(Sequence, usize) -> Result<Vec<StoredRecord>, JournalError>,
    fence: Fence,
    id: &WorkspaceId,
    snapshot: Option<Snapshot>,
    through: Sequence,
) -> Result<Replayed, JournalError> {
    let damaged = |sequence: Sequence, what: String| JournalError::Damaged {
        place: format!("workspace {id}, sequence {sequence}"),
        what,
    };
    let (mut at, mut bytes, mut grown) = (Sequence::NONE, 0, 0);
    let mut workspace = Workspace::begun_above(fence);
    if let Some(snapshot) = snapshot {
        at = snapshot.sequence;
        let pieces = snapshot.pieces.map(|piece| -> Result<Bytes, Undecoded> {
            let piece = piece?;
            bytes += piece.len() as u64;
            Ok(piece)
        });
        workspace = codec::decode_snapshot(pieces).map_err(|error| match error {
            Undecoded::Journal(error) => error,
            Undecoded::Codec(error) => damaged(at, format!("snapshot: {error}")),
        })?;
    }
    if workspace.sequence != at {
        let what = format!("the snapshot is of sequence {}", workspace.sequence);
        return Err(damaged(at, what));
    }
    let mut at_once = 1;
    while workspace.sequence < through {
        let from = workspace.sequence.next();
        let records = read_records(from, at_once)?;
        if records.is_empty() {
            return Err(damaged(from, format!("missing; the newest is {through}")));
        }
        let read: usize = records.iter().map(|stored| stored.record.len()).sum();
        at_once = (REPLAY_BYTES / (read / records.len()).max(1)).clamp(1, REPLAY_RECORDS);
        for stored in records {
            if through < stored.sequence {
                break;
            }
            grown += stored.record.len() as u64;
            let record = codec::decode_record(stored.record);
            let record = record.map_err(|e| damaged(stored.sequence, e.to_string()))?;
            if record.sequence != workspace.sequence.next() {
                let what = format!("the record says {}", record.sequence);
                return Err(damaged(stored.sequence, what));
            }
            workspace.apply(&record);
        }
    }
    Ok(Replayed { workspace, at, bytes, grown })
}

/// Why a snapshot is none.
#[derive(Debug, thiserror::Error)]
enum Undecoded {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Codec(#[from] CodecError),
}

impl State {
    /// The state that the journal's records make.
    pub(in crate::workspace) fn replayed(
        arguments: Arguments,
        opened: Opened,
        myself: ActorRef<Msg>,
    ) -> Result<Self, JournalError> {
        let Opened { writer, snapshot, last } = opened;
        let Replayed { workspace, at, bytes, grown } =
            read(&*arguments.journal, &arguments.id, snapshot, last)?;
        let snapshot = SnapshotState { at, bytes, grown, under_way: None, failed: None };
        let behind_ms = workspace.time.millis_since(arguments.clock.now());
        let mut presence = Presence::new(arguments.pulse.since().max(workspace.time));
        presence.restore(arguments.last_seen.of(&arguments.id));
        let lease_ms = arguments.settings.lease_ms;
        let now = arguments.clock.now().plus_millis(behind_ms);
        Ok(Self {
            writer,
            myself,
            incarnation: arguments.journal.incarnation(),
            context: Context::new(presence, lease_ms),
            behind_ms,
            durable: workspace.sequence,
            workspace,
            pending: VecDeque::new(),
            unpublished: VecDeque::new(),
            waits: Waits::default(),
            offers: Offers::new(TASK_OFFER_MS),
            step_offers: Offers::new(STEP_OFFER_MS),
            watched: BTreeMap::new(),
            phases_changed: tokio::sync::watch::Sender::default(),
            returned_tasks: BTreeMap::new(),
            snapshot,
            snapshot_waits: Vec::new(),
            unhanded: UnhandedLetters::default(),
            last_active: now,
            ticked: Timestamp::default(),
            alarm: None,
            arguments,
        })
    }
}
