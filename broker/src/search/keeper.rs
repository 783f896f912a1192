//! Keeps the index of one workspace up to date, as long as the workspace is awake.
//!
//! It follows the workspace's feed like any subscriber, behind the disk, so that no command ever
//! waits for it. What it missed it reads back from the journal; what the journal no longer has, or
//! an index that cannot be used, it makes anew from all mail there is. When anything fails it says
//! why, and tries again after a while: mail goes on.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tasuki_proto::id::{Sequence, WorkspaceId};
use tokio::{
    sync::{Notify, broadcast, broadcast::error::RecvError, watch},
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    Limits,
    index::{self, Extent, Index, IndexError, Origin},
    room::Room,
    scribe::Scribe,
    source::{self, Changes, Todo},
};
use crate::{
    journal::{JournalError, codec},
    rules::Record,
    workspace::{ExecuteError, Workspaces},
};

/// From the first entry that came in until it can be found, at least; more come in meanwhile, and
/// a commit costs some syncs of the disk.
const COMMIT_AFTER: Duration = Duration::from_millis(200);

/// Threads with something new at which a commit is made at once.
const COMMIT_THREADS: usize = 2000;

/// How long nothing must come in until the writer is let go: long enough for what it puts together
/// in the background.
const WRITER_IDLE: Duration = Duration::from_secs(30);

/// Records read back at once.
const READ_RECORDS: usize = 256;

/// Records without mail after which the index notes how far it is: reading them again is cheap,
/// but one day they are no longer kept.
const NOTE_AFTER_RECORDS: u64 = 2000;

/// Between attempts after a failure, doubling.
const RETRY_AFTER: Duration = Duration::from_secs(1);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// Where an index is.
#[derive(Debug, Clone)]
pub(super) enum State {
    /// It cannot be searched yet; what is going on.
    Coming(String),
    Ready(Index),
    /// Why it cannot be searched.
    Failed(String),
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{0}")]
    Index(#[from] IndexError),
    #[error("{0}")]
    Journal(#[from] JournalError),
    #[error("{0}")]
    Workspace(#[from] ExecuteError),
    #[error("{0}")]
    NoRoom(String),
}

impl Failure {
    fn is_compacted(&self) -> bool {
        matches!(self, Self::Journal(JournalError::Compacted { .. }))
    }
}

enum End {
    Asleep,
    Stopping,
}

pub(super) struct Keeper {
    pub(super) workspace: WorkspaceId,
    pub(super) workspaces: Workspaces,
    pub(super) folder: PathBuf,
    pub(super) limits: Arc<Limits>,
    pub(super) room: Room,
    pub(super) state: watch::Sender<State>,
    pub(super) through: watch::Sender<Sequence>,
    /// A search found the index not to be what it should be.
    pub(super) suspect: Arc<Notify>,
    pub(super) stopping: CancellationToken,
}

impl Keeper {
    /// Until the workspace falls asleep, or the broker stops.
    pub(super) async fn run(self) {
        let mut retry_after = RETRY_AFTER;
        let mut must_rebuild = false;
        loop {
            self.tell("is being opened");
            let began = Instant::now();
            let failure = match self.session(must_rebuild).await {
                Ok(End::Asleep | End::Stopping) => return,
                Err(failure) => failure,
            };
            let workspace = &self.workspace;
            if failure.is_compacted() {
                info!(%workspace, "the index of this workspace's mail is too old; it is made anew");
                must_rebuild = true;
                continue;
            }
            must_rebuild = match &failure {
                Failure::Index(IndexError::Unfit(_)) => true,
                // Whatever the engine stumbled over may be on disk.
                Failure::Index(error) => !error.is_full(),
                Failure::Journal(_) | Failure::Workspace(_) | Failure::NoRoom(_) => false,
            };
            warn!(%workspace, "mail cannot be searched: {failure}");
            self.state.send_replace(State::Failed(failure.to_string()));
            if RETRY_AFTER_MAX < began.elapsed() {
                retry_after = RETRY_AFTER;
            }
            tokio::select! {
                () = sleep(retry_after) => {}
                () = self.stopping.cancelled() => return,
            }
            retry_after = (retry_after * 2).min(RETRY_AFTER_MAX);
            if !self.workspaces.is_awake(workspace) {
                // Whoever searches next begins anew.
                return;
            }
        }
    }

    fn tell(&self, what: &str) {
        self.state.send_replace(State::Coming(what.to_owned()));
    }

    async fn session(&self, must_rebuild: bool) -> Result<End, Failure> {
        // Live first, then what lies before: nothing can fall between.
        let live = self.workspaces.subscribe(&self.workspace).await?;
        let opened = if must_rebuild { None } else { self.open().await? };
        let (index, scribe) = match opened {
            Some(index) => (index, None),
            None => match self.rebuild().await? {
                Some((index, scribe)) => (index, Some(scribe)),
                None => return Ok(End::Stopping),
            },
        };
        let next = index.extent().through.next();
        let mut following = Following {
            keeper: self,
            index: index.clone(),
            next,
            noted: index.extent().through,
            changes: Changes::default(),
            due: None,
            scribe,
        };
        let end = following.run(live).await;
        // The next one to write must find nobody writing.
        following.let_go().await;
        end
    }

    /// The index that is there; `None` when one is to be made.
    async fn open(&self) -> Result<Option<Index>, Failure> {
        let (folder, origin) = (self.folder.clone(), self.origin());
        if !index::is_there(&folder) {
            return Ok(None);
        }
        let opened = tokio::task::spawn_blocking(move || Index::open(&folder, origin)).await;
        let why = match opened {
            Ok(Ok(index)) => return Ok(Some(index)),
            Ok(Err(error)) if error.is_full() => return Err(error.into()),
            Ok(Err(error)) => error.to_string(),
            Err(panic) => panic.to_string(),
        };
        let workspace = &self.workspace;
        warn!(%workspace, "the index of this workspace's mail is made anew: {why}");
        Ok(None)
    }

    fn origin(&self) -> Origin {
        Origin { incarnation: self.workspaces.journal().incarnation() }
    }

    /// Makes the index from all mail there is; `None`: the broker stops.
    async fn rebuild(&self) -> Result<Option<(Index, Scribe)>, Failure> {
        self.tell("waits until others are made");
        let _turn = Limits::place(&self.limits.rebuilds).await?;
        let place = Limits::place(&self.limits.writers).await?;
        self.tell("is being made");
        let began = Instant::now();
        self.room.check(&self.folder)?;
        let (folder, origin) = (self.folder.clone(), self.origin());
        let made = tokio::task::spawn_blocking(move || Index::create(&folder, origin)).await;
        let made = made.map_err(|panic| IndexError::Unfit(format!("cannot be made: {panic}")))?;
        let index = made?;
        let scribe = Scribe::start(&index, true, place).await?;
        match self.fill(&scribe).await {
            Ok(true) => {}
            Ok(false) => {
                scribe.end().await;
                return Ok(None);
            }
            Err(failure) => {
                scribe.end().await;
                return Err(failure);
            }
        }
        let (workspace, entries) = (&self.workspace, index.entries());
        let ms = began.elapsed().as_millis();
        info!(%workspace, entries, ms, "the index of this workspace's mail was made");
        Ok(Some((index, scribe)))
    }

    /// False: the broker stops.
    async fn fill(&self, scribe: &Scribe) -> Result<bool, Failure> {
        let (mut from, mut first) = (0, None);
        let ahead = loop {
            let page = source::page(&self.workspaces, &self.workspace, from).await?;
            first = first.or(Some(page.sequence));
            if page.todos.is_empty() {
                break page.sequence;
            }
            from += page.todos.len();
            self.room.check(&self.folder)?;
            self.write(scribe, page.todos, None).await?;
            self.tell(&format!("is being made, {from} of {} threads so far", page.threads));
            if self.stopping.is_cancelled() {
                return Ok(false);
            }
        };
        let through = first.unwrap_or(ahead);
        scribe.write(move |writer| writer.commit(Extent { through, ahead })).await?;
        Ok(true)
    }

    /// Adds entries. What is committed on the way goes `through` and `ahead` as given; without
    /// that, the index is still being made.
    async fn write(
        &self,
        scribe: &Scribe,
        todos: Vec<Todo>,
        extent: Option<Extent>,
    ) -> Result<(), Failure> {
        let journal = self.workspaces.journal().clone();
        let workspace = self.workspace.clone();
        let written = scribe.write(move |writer| {
            for todo in todos {
                if todo.is_again {
                    writer.remove(todo.thread);
                }
                let added = source::docs(&*journal, &workspace, &todo, |doc| {
                    writer.add(&doc)?;
                    match extent {
                        Some(extent) if writer.is_full() => writer.commit(extent)?,
                        None if writer.is_full() => writer.commit_unfinished()?,
                        Some(_) | None => {}
                    }
                    Ok(())
                });
                match added {
                    Ok(()) => {}
                    Err(Failure::Index(error)) => return Err(error),
                    Err(failure) => return Ok(Err(failure)),
                }
            }
            Ok(Ok(()))
        });
        written.await?
    }
}

/// An index that is kept up to date.
struct Following<'a> {
    keeper: &'a Keeper,
    index: Index,
    /// The record that comes next.
    next: Sequence,
    /// How far the index on disk goes.
    noted: Sequence,
    /// Not yet written.
    changes: Changes,
    /// When they are to be.
    due: Option<Instant>,
    scribe: Option<Scribe>,
}

impl Following<'_> {
    async fn run(&mut self, live: broadcast::Receiver<Arc<Record>>) -> Result<End, Failure> {
        self.keeper.tell("is catching up");
        self.catch_up().await?;
        self.keeper.state.send_replace(State::Ready(self.index.clone()));
        let end = self.follow(live).await?;
        // What came in last is written in any case; there may be no next time for long.
        if !self.changes.is_empty() {
            self.write().await?;
        }
        Ok(end)
    }

    async fn follow(&mut self, mut live: broadcast::Receiver<Arc<Record>>) -> Result<End, Failure> {
        loop {
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
                () = sleep_until(idle), if self.due.is_none() && self.scribe.is_some() => {
                    self.let_go().await;
                }
                () = self.keeper.suspect.notified() => {
                    let what = "gave a search what it should not have";
                    return Err(IndexError::Unfit(what.to_owned()).into());
                }
                () = self.keeper.stopping.cancelled() => return Ok(End::Stopping),
            }
        }
    }

    /// What the journal has from `next` on.
    async fn catch_up(&mut self) -> Result<(), Failure> {
        loop {
            let keeper = self.keeper;
            let journal = keeper.workspaces.journal();
            let records = journal.read(&keeper.workspace, self.next, READ_RECORDS)?;
            if records.is_empty() {
                break;
            }
            for stored in records {
                let place = || format!("workspace {}, {}", keeper.workspace, stored.sequence);
                let record = codec::decode_record(stored.record).map_err(|error| {
                    JournalError::Damaged { place: place(), what: error.to_string() }
                })?;
                self.take(&record).await?;
            }
        }
        if self.changes.is_empty() { Ok(()) } else { self.write().await }
    }

    async fn take(&mut self, record: &Record) -> Result<(), Failure> {
        self.changes.add(record, record.sequence <= self.index.extent().ahead);
        self.next = record.sequence.next();
        if self.changes.is_empty() {
            self.index.nothing_up_to(record.sequence);
            self.keeper.through.send_replace(record.sequence);
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
        let keeper = self.keeper;
        let through = Sequence::from(self.next.get() - 1);
        if through <= self.noted {
            keeper.through.send_replace(through);
            return Ok(());
        }
        keeper.room.check(&keeper.folder)?;
        let changes = std::mem::take(&mut self.changes);
        let todos = changes.todos(&keeper.workspaces, &keeper.workspace).await?;
        let scribe = match &mut self.scribe {
            Some(scribe) => scribe,
            none => {
                let place = Limits::place(&keeper.limits.writers).await?;
                none.insert(Scribe::start(&self.index, false, place).await?)
            }
        };
        let before = self.index.extent();
        let ahead = before.ahead.max(through);
        keeper.write(scribe, todos, Some(Extent { ahead, ..before })).await?;
        scribe.write(move |writer| writer.commit(Extent { through, ahead })).await?;
        self.noted = through;
        keeper.through.send_replace(through);
        if keeper.limits.writers.available_permits() == 0
            && let Some(scribe) = self.scribe.take()
        {
            // Others may wait to write.
            scribe.settle().await;
        }
        Ok(())
    }

    async fn let_go(&mut self) {
        if let Some(scribe) = self.scribe.take() {
            scribe.end().await;
        }
    }
}
