//! An index that is there, with the records that come in.

use std::time::Duration;

use futures::FutureExt as _;
use tasuki_proto::id::Sequence;
use tokio::{
    sync::{OwnedSemaphorePermit, broadcast::error::RecvError},
    time::{Instant, sleep_until},
};

use super::{
    index::{Extent, Index, IndexError},
    indexer::{End, Failure, Indexer, State},
    rest::{IndexStatus, NOTE_AFTER_RECORDS},
    source::{self, Changes, READ_RECORDS},
    writer::WriterThread,
};
use crate::{rules::Record, workspace::Follower};

/// From the first entry that came in until it can be found, at least; more come in meanwhile, and
/// a commit costs some syncs of the disk.
const COMMIT_AFTER: Duration = Duration::from_millis(200);

/// Threads with something new at which a commit is made at once: some MB of what is to be done, and
/// seldom enough that the syncs of a commit do not hold up those of mail that comes in all the time.
const COMMIT_THREADS: usize = 20_000;

/// How long an index stays open after a search: others follow it as a rule, and find what was said
/// since at once.
const OPEN_AFTER_SEARCH: Duration = Duration::from_secs(300);

/// How long nothing must come in until the writer is let go: long enough for what it puts together
/// in the background.
const WRITER_IDLE: Duration = Duration::from_secs(30);

/// An index that is kept up to date.
pub(super) struct Following<'a> {
    indexer: &'a Indexer,
    index: Index,
    /// The record that comes next.
    next: Sequence,
    /// How far the index on disk goes.
    noted: Sequence,
    /// Not yet written.
    changes: Changes,
    /// When they are to be.
    due: Option<Instant>,
    writer_thread: Option<WriterThread>,
    /// Held until somebody searches.
    place: Option<OwnedSemaphorePermit>,
}

impl<'a> Following<'a> {
    pub(super) fn new(
        indexer: &'a Indexer,
        index: Index,
        writer_thread: Option<WriterThread>,
        place: Option<OwnedSemaphorePermit>,
    ) -> Self {
        let through = index.extent().through;
        Self {
            indexer,
            index,
            next: through.next(),
            noted: through,
            changes: Changes::default(),
            due: None,
            writer_thread,
            place,
        }
    }

    /// Until it has all records, when nobody searches; else until nobody has for a while, the
    /// workspace falls asleep, or the broker stops.
    pub(super) async fn run(
        &mut self,
        live: &mut Follower,
        is_searched: bool,
    ) -> Result<End, Failure> {
        self.indexer.tell("is catching up");
        self.catch_up().await?;
        self.indexer.state.send_replace(State::Ready(self.index.clone()));
        if !is_searched {
            self.let_go(true).await;
            if self.indexer.searched.notified().now_or_never().is_none() {
                return Ok(End::Idle(self.status()));
            }
        }
        self.place = None;
        let end = self.follow(live).await?;
        match end {
            End::Idle(_) => self.let_go(true).await,
            // Asking who may read what came in last would wake it again; the journal has that.
            End::Asleep if !self.changes.is_empty() => {}
            // How far it is must be noted: the records may be dropped before the next time.
            End::Asleep => self.write().await?,
            // What came in last is written in any case; there may be no next time for long.
            End::Stopping if self.changes.is_empty() => {}
            End::Stopping => self.write().await?,
        }
        Ok(end)
    }

    /// Notes how far the index is, of a workspace that fell asleep.
    pub(super) async fn note(&mut self) -> Result<(), Failure> {
        self.read().await?;
        // Who may read mail that came in last would have to be asked, which would wake it.
        if self.changes.is_empty() { self.write().await } else { Ok(()) }
    }

    fn status(&self) -> IndexStatus {
        let last = Sequence::from(self.next.get() - 1);
        IndexStatus { noted: Some(self.noted), last, is_behind: false }
    }

    async fn follow(&mut self, live: &mut Follower) -> Result<End, Failure> {
        let indexer = self.indexer;
        let mut open_until = Instant::now() + OPEN_AFTER_SEARCH;
        loop {
            live.set_idle(self.changes.is_empty());
            let idle = Instant::now() + WRITER_IDLE;
            tokio::select! {
                received = live.recv() => match received {
                    Ok(record) if record.sequence < self.next => {}
                    Ok(record) if record.sequence == self.next => self.take(&record).await?,
                    Ok(_) | Err(RecvError::Lagged(_)) => self.catch_up().await?,
                    Err(RecvError::Closed) => return Ok(End::Asleep),
                },
                () = sleep_until(self.due.unwrap_or(idle)), if self.due.is_some() => {
                    self.write().await?;
                }
                () = sleep_until(idle), if self.due.is_none() && self.writer_thread.is_some() => {
                    self.let_go(false).await;
                }
                () = indexer.limits.writer_wanted.notified(),
                    if self.due.is_none() && self.writer_thread.is_some() =>
                {
                    self.let_go(true).await;
                }
                () = indexer.searched.notified() => {
                    open_until = Instant::now() + OPEN_AFTER_SEARCH;
                }
                () = sleep_until(open_until), if self.due.is_none() => {
                    return Ok(End::Idle(self.status()));
                }
                () = indexer.suspect.notified() => return Err(IndexError::suspect().into()),
                () = indexer.stopping.cancelled() => return Ok(End::Stopping),
            }
        }
    }

    /// What the journal has from `next` on.
    async fn catch_up(&mut self) -> Result<(), Failure> {
        self.read().await?;
        if self.changes.is_empty() { Ok(()) } else { self.write().await }
    }

    async fn read(&mut self) -> Result<(), Failure> {
        loop {
            let journal = self.indexer.workspaces.journal().clone();
            let (workspace, from) = (self.indexer.workspace.clone(), self.next);
            let read = move || source::records(&*journal, &workspace, from);
            // Decoding so many takes a while, and others are more urgent.
            let read = tokio::task::spawn_blocking(read).await;
            let gone = |panic| IndexError::Unfit(format!("met what cannot be read: {panic}"));
            let records = read.map_err(gone)??;
            for record in &records {
                self.take(record).await?;
            }
            // Where mail comes in all the time, there are some more whenever it is asked.
            if records.len() < READ_RECORDS {
                return Ok(());
            }
        }
    }

    async fn take(&mut self, record: &Record) -> Result<(), Failure> {
        self.changes.add(record, record.sequence <= self.index.extent().ahead);
        self.next = record.sequence.next();
        if self.changes.is_empty() {
            self.index.nothing_up_to(record.sequence);
            self.indexer.through.send_replace(record.sequence);
            if self.noted.get() + NOTE_AFTER_RECORDS < record.sequence.get() {
                self.write().await?;
            }
            return Ok(());
        }
        if self.due.is_none() {
            self.due = Some(Instant::now() + COMMIT_AFTER);
        }
        if COMMIT_THREADS <= self.changes.threads() {
            self.write().await?;
        }
        Ok(())
    }

    /// Writes what came in, and how far that is.
    async fn write(&mut self) -> Result<(), Failure> {
        self.due = None;
        let indexer = self.indexer;
        let through = Sequence::from(self.next.get() - 1);
        if through <= self.noted {
            indexer.through.send_replace(through);
            return Ok(());
        }
        indexer.room.check(&indexer.folder)?;
        let changes = std::mem::take(&mut self.changes);
        let todos = changes.todos(&indexer.workspaces, &indexer.workspace).await?;
        let writer_thread = match &mut self.writer_thread {
            Some(writer_thread) => writer_thread,
            none => {
                let place = indexer.limits.writer().await?;
                none.insert(WriterThread::start(&self.index, false, place).await?)
            }
        };
        let before = self.index.extent();
        let ahead = before.ahead.max(through);
        indexer.write(writer_thread, todos, Some(Extent { ahead, ..before })).await?;
        writer_thread.write(move |writer| writer.commit(Extent { through, ahead })).await?;
        self.noted = through;
        indexer.through.send_replace(through);
        if indexer.limits.writers.available_permits() == 0
            && let Some(writer_thread) = self.writer_thread.take()
        {
            // Others may wait to write.
            writer_thread.settle().await;
        }
        Ok(())
    }

    /// Stops writing, until there is something to write; `is_last`: nothing of it may be left.
    pub(super) async fn let_go(&mut self, is_last: bool) {
        match self.writer_thread.take() {
            Some(writer_thread) if is_last => writer_thread.settle().await,
            Some(writer_thread) => writer_thread.end().await,
            None => {}
        }
    }
}
