//! An index that is closed, until there is something to write or somebody searches.
//!
//! A resting indexer follows the feed and knows how far its index goes: no file is open, no thread
//! is there, and the workspace may sleep. What came in is indexed as one batch once it is quiet, and
//! is read back from the journal then.

use std::{path::Path, time::Duration};

use tasuki_proto::id::{Sequence, WorkspaceId};
use tokio::{
    sync::broadcast::error::RecvError,
    time::{Instant, sleep_until},
};

use super::{
    index::{self, IndexError, Origin},
    indexer::{Failure, Indexer, State},
    source::{self, Changes},
};
use crate::{
    journal::{Journal, JournalError, codec::MAIL_KEYS},
    rules::Record,
    workspace::Follower,
};

/// How long no mail must come in until what came in is indexed: a burst has the processor and the
/// disk to itself, and is one batch.
const QUIET: Duration = Duration::from_secs(2);

/// From the first mail that came in until it is indexed, at most: a crash leaves a minute of mail
/// to be caught up with.
const BATCH_AFTER_MAX: Duration = Duration::from_secs(60);

/// Between two batches: mail that comes in all the time is not indexed one by one, each with a dozen
/// syncs of the disk.
pub(super) const BATCH_GAP: Duration = BATCH_AFTER_MAX;

/// Records with mail that are indexed at once: a search that comes first has so many to catch up
/// with, in less than its patience.
const BATCH_RECORDS: u64 = 20_000;

/// Records without mail after which the index notes how far it is: reading them again is cheap,
/// but one day they are no longer kept.
pub(super) const NOTE_AFTER_RECORDS: u64 = 2000;

/// How far the index on disk goes, and the workspace's records.
#[derive(Debug, Clone, Copy)]
pub(super) struct IndexStatus {
    /// `None`: there is no index, or one of no use.
    pub(super) noted: Option<Sequence>,
    pub(super) last: Sequence,
    /// There is mail that is not in the index, or it has to note how far it is.
    pub(super) is_behind: bool,
}

impl IndexStatus {
    /// Reads it off the disk.
    ///
    /// # Errors
    /// Of the journal.
    pub(super) fn read(
        journal: &dyn Journal,
        workspace: &WorkspaceId,
        folder: &Path,
    ) -> Result<Self, JournalError> {
        let Some(extent) = index::peek(folder, Origin { incarnation: journal.incarnation() })
        else {
            let is_behind = journal.has_bodies(workspace, MAIL_KEYS)?;
            return Ok(Self { noted: None, last: Sequence::NONE, is_behind });
        };
        let through = extent.through;
        let mut status = Self { noted: Some(through), last: through, is_behind: false };
        loop {
            let records = match source::records(journal, workspace, status.last.next()) {
                Err(JournalError::Compacted { .. }) => {
                    return Ok(Self { is_behind: true, ..status });
                }
                records => records?,
            };
            if records.is_empty() {
                return Ok(status);
            }
            for record in records {
                status.last = record.sequence;
                if brings_mail(&record) || status.must_note() {
                    return Ok(Self { is_behind: true, ..status });
                }
            }
        }
    }

    fn must_note(&self) -> bool {
        self.noted.is_some_and(|noted| noted.get() + NOTE_AFTER_RECORDS < self.last.get())
    }
}

/// Why an indexer stops resting.
pub(super) enum RestEnd {
    /// There is something to write.
    Behind,
    Searched,
    Asleep,
    Stopping,
}

/// Mail that came in and is not indexed yet.
#[derive(Debug, Clone, Copy)]
struct Batch {
    began: Instant,
    newest: Instant,
    records: u64,
}

impl Batch {
    fn due(self, not_before: Instant) -> Instant {
        let due = (self.newest + QUIET).min(self.began + BATCH_AFTER_MAX).max(not_before);
        if BATCH_RECORDS <= self.records { self.newest } else { due }
    }
}

impl Indexer {
    /// Until there is something to do. A batch is due at `not_before`, unless it is large.
    ///
    /// # Errors
    /// A search found the index not to be what it should be.
    pub(super) async fn rest(
        &self,
        live: &mut Follower,
        status: &mut IndexStatus,
        not_before: Instant,
    ) -> Result<RestEnd, Failure> {
        if status.is_behind {
            return Ok(RestEnd::Behind);
        }
        self.state.send_replace(State::Resting);
        let mut batch: Option<Batch> = None;
        loop {
            live.set_idle(batch.is_none());
            let due = batch.map_or_else(Instant::now, |it| it.due(not_before));
            let records = tokio::select! {
                received = live.recv() => match received {
                    Ok(record) if record.sequence <= status.last => 0,
                    Ok(record) => {
                        status.last = record.sequence;
                        u64::from(brings_mail(&record))
                    }
                    // Some of them may bring mail.
                    Err(RecvError::Lagged(missed)) => missed,
                    Err(RecvError::Closed) => return Ok(RestEnd::Asleep),
                },
                () = sleep_until(due), if batch.is_some() => return Ok(RestEnd::Behind),
                () = self.searched.notified() => return Ok(RestEnd::Searched),
                () = self.suspect.notified() => return Err(IndexError::suspect().into()),
                () = self.stopping.cancelled() => return Ok(RestEnd::Stopping),
            };
            if status.must_note() {
                return Ok(RestEnd::Behind);
            }
            if 0 < records {
                let newest = Instant::now();
                let so_far = batch.unwrap_or(Batch { began: newest, newest, records: 0 });
                let records = so_far.records + records;
                batch = Some(Batch { newest, records, ..so_far });
            }
        }
    }
}

/// Whether a record changes what is to be found.
fn brings_mail(record: &Record) -> bool {
    let mut changes = Changes::default();
    changes.add(record, false);
    !changes.is_empty()
}
