//! Keeps the index of one workspace, as long as the workspace is awake.
//!
//! It follows the workspace's feed like any subscriber, behind the disk, so that no command ever
//! waits for it. Its index is closed as a rule ([`rest`](super::rest)): mail is written to it in
//! batches, a few workspaces at a time, and it is closed again. Once somebody searched, it is open
//! for a while and follows each record ([`tail`](super::tail)).
//!
//! It keeps the workspace awake only while it has something to write, ends when that falls asleep,
//! and is there again when it wakes. What it missed it reads back from the journal; what the journal
//! no longer has, or an index that cannot be used, it makes anew from all mail there is. When
//! anything fails it says why, and tries again after a while: mail goes on.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tasuki_proto::id::{Sequence, WorkspaceId};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{
    Limits,
    disk_space::Room,
    index::{self, Extent, Index, IndexError, Origin},
    rest::{BATCH_GAP, IndexStatus, RestEnd},
    source::{self, Filled, Todo},
    tail::Following,
    writer::WriterThread,
};
use crate::{
    journal::JournalError,
    workspace::{ExecuteError, Follower, Workspaces},
};

/// Between attempts after a failure, doubling.
const RETRY_AFTER: Duration = Duration::from_secs(1);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// An index is made once a pass over all mail found no more threads to write than this.
const LAST_PASS_THREADS_MAX: usize = 1_000;

/// Where mail comes in faster than it is indexed, one has to be the last.
const PASSES_MAX: usize = 4;

/// Where an index is.
#[derive(Debug, Clone)]
pub(super) enum State {
    /// It is closed, and somebody who searches has it opened.
    Resting,
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

pub(super) enum End {
    /// There is nothing to write, and nobody searched for a while.
    Idle(IndexStatus),
    Asleep,
    Stopping,
}

/// How the index is to be opened next.
#[derive(Debug, Default)]
struct OpenMode {
    must_rebuild: bool,
    /// It was looked through for damage, or made, since the workspace woke.
    is_checked: bool,
}

pub(super) struct Indexer {
    pub(super) workspace: WorkspaceId,
    pub(super) workspaces: Workspaces,
    pub(super) folder: PathBuf,
    pub(super) limits: Arc<Limits>,
    pub(super) room: Room,
    pub(super) state: watch::Sender<State>,
    pub(super) through: watch::Sender<Sequence>,
    /// Somebody searches.
    pub(super) searched: Arc<Notify>,
    /// A search found the index not to be what it should be.
    pub(super) suspect: Arc<Notify>,
    pub(super) stopping: CancellationToken,
}

impl Indexer {
    /// Until the workspace falls asleep, or the broker stops.
    pub(super) async fn run(self) {
        let mut retry_after = RETRY_AFTER;
        let mut mode = OpenMode::default();
        let mut is_told = false;
        loop {
            let began = Instant::now();
            // Apart: it is large, and most indexers rest.
            let Err(failure) = Box::pin(self.rest_and_write(&mut mode)).await else { return };
            let workspace = &self.workspace;
            if failure.is_compacted() {
                info!(%workspace, "the index of this workspace's mail is too old; it is made anew");
                mode.must_rebuild = true;
                continue;
            }
            mode.must_rebuild = match &failure {
                Failure::Index(IndexError::Unfit(_)) => true,
                // Whatever the engine stumbled over may be on disk.
                Failure::Index(error) => !error.is_full(),
                Failure::Journal(_) | Failure::Workspace(_) | Failure::NoRoom(_) => false,
            };
            if RETRY_AFTER_MAX < began.elapsed() {
                (retry_after, is_told) = (RETRY_AFTER, false);
            }
            if is_told {
                debug!(%workspace, "mail cannot be searched: {failure}");
            } else {
                warn!(%workspace, "mail cannot be searched: {failure}");
            }
            is_told = true;
            self.state.send_replace(State::Failed(failure.to_string()));
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

    pub(super) fn tell(&self, what: &str) {
        self.state.send_replace(State::Coming(what.to_owned()));
    }

    /// Rests and writes by turns.
    async fn rest_and_write(&self, mode: &mut OpenMode) -> Result<(), Failure> {
        // ActiveToken first, then what lies before: nothing can fall between.
        let mut live = self.workspaces.follow(&self.workspace).await?;
        let mut status = self.status().await?;
        status.is_behind |= mode.must_rebuild;
        let mut not_before = Instant::now();
        loop {
            let is_searched = match self.rest(&mut live, &mut status, not_before).await? {
                RestEnd::Behind => false,
                RestEnd::Searched => true,
                RestEnd::Asleep => {
                    self.note(&status, mode.is_checked).await;
                    return Ok(());
                }
                RestEnd::Stopping => return Ok(()),
            };
            live.set_idle(false);
            match self.session(&mut live, mode, is_searched).await? {
                End::Idle(reached) => {
                    (status, not_before) = (reached, Instant::now() + BATCH_GAP);
                }
                End::Asleep | End::Stopping => return Ok(()),
            }
        }
    }

    async fn status(&self) -> Result<IndexStatus, Failure> {
        let journal = self.workspaces.journal().clone();
        let (workspace, folder) = (self.workspace.clone(), self.folder.clone());
        let read = move || IndexStatus::read(&*journal, &workspace, &folder);
        let read = tokio::task::spawn_blocking(read).await;
        Ok(read.map_err(|panic| IndexError::Unfit(format!("cannot be read: {panic}")))??)
    }

    /// Has the index open until it has all records, and longer when somebody searches.
    async fn session(
        &self,
        live: &mut Follower,
        mode: &mut OpenMode,
        mut is_searched: bool,
    ) -> Result<End, Failure> {
        self.tell("is being opened");
        let mut place = if is_searched {
            None
        } else {
            tokio::select! {
                place = Limits::place(&self.limits.batches) => Some(place?),
                () = self.searched.notified() => None,
                () = self.stopping.cancelled() => return Ok(End::Stopping),
            }
        };
        is_searched |= place.is_none();
        if !is_searched {
            self.room.check(&self.folder)?;
        }
        let opened = if mode.must_rebuild { None } else { self.open(mode.is_checked).await? };
        if opened.is_none() {
            // That has a limit of its own.
            place = None;
        }
        let (index, writer_thread) = match opened {
            Some(index) => (index, None),
            None => match self.rebuild().await? {
                Some((index, writer_thread)) => (index, Some(writer_thread)),
                None => return Ok(End::Stopping),
            },
        };
        *mode = OpenMode { must_rebuild: false, is_checked: true };
        let mut following = Following::new(self, index, writer_thread, place);
        let end = following.run(live, is_searched).await;
        // The next one to write must find nobody writing.
        following.let_go(end.is_err()).await;
        end
    }

    /// Has the index of a workspace that fell asleep say how far it is: the records may be dropped
    /// before the next time.
    async fn note(&self, status: &IndexStatus, is_checked: bool) {
        if status.noted.is_none_or(|noted| status.last <= noted) {
            return;
        }
        let noted = async {
            let place = tokio::select! {
                place = Limits::place(&self.limits.batches) => place?,
                // It woke.
                () = self.searched.notified() => return Ok(()),
                () = self.stopping.cancelled() => return Ok(()),
            };
            let Some(index) = self.open(is_checked).await? else { return Ok(()) };
            let mut following = Following::new(self, index, None, Some(place));
            let noted = following.note().await;
            following.let_go(noted.is_err()).await;
            noted
        };
        if let Err(failure) = noted.await {
            debug!(workspace = %self.workspace, "an index does not say how far it is: {failure}");
        }
    }

    /// The index that is there; `None` when one is to be made.
    async fn open(&self, is_checked: bool) -> Result<Option<Index>, Failure> {
        let (folder, origin) = (self.folder.clone(), self.origin());
        if !index::is_there(&folder) {
            return Ok(None);
        }
        let open = if is_checked { Index::open_unchecked } else { Index::open };
        let opened = tokio::task::spawn_blocking(move || open(&folder, origin)).await;
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
    async fn rebuild(&self) -> Result<Option<(Index, WriterThread)>, Failure> {
        self.tell("waits until others are made");
        let _turn = Limits::place(&self.limits.rebuilds).await?;
        let place = self.limits.writer().await?;
        self.tell("is being made");
        let began = Instant::now();
        self.room.check(&self.folder)?;
        let (folder, origin) = (self.folder.clone(), self.origin());
        let made = tokio::task::spawn_blocking(move || Index::create(&folder, origin)).await;
        let made = made.map_err(|panic| IndexError::Unfit(format!("cannot be made: {panic}")))?;
        let index = made?;
        let writer_thread = WriterThread::start(&index, true, place).await?;
        match self.fill(&writer_thread).await {
            Ok(true) => {}
            Ok(false) => {
                writer_thread.end().await;
                return Ok(None);
            }
            Err(failure) => {
                writer_thread.settle().await;
                return Err(failure);
            }
        }
        let (workspace, entries) = (&self.workspace, index.entries());
        let ms = began.elapsed().as_millis();
        info!(%workspace, entries, ms, "the index of this workspace's mail was made");
        Ok(Some((index, writer_thread)))
    }

    /// False: the broker stops.
    ///
    /// It goes over all mail again until little came in meanwhile. What came in while it was gone
    /// over is indexed once more, from records, which may be dropped by then if that took long.
    async fn fill(&self, writer_thread: &WriterThread) -> Result<bool, Failure> {
        let mut filled = Filled::default();
        for pass in 1.. {
            let (mut from, mut first, mut written) = (0, None, 0);
            let ahead = loop {
                let page = source::page(&self.workspaces, &self.workspace, from).await?;
                first = first.or(Some(page.sequence));
                if from == page.end {
                    break page.sequence;
                }
                let todos = filled.lacks(&page, from);
                from = page.next;
                if !todos.is_empty() {
                    written += todos.len();
                    self.room.check(&self.folder)?;
                    self.write(writer_thread, todos, None).await?;
                }
                self.tell(&format!("is being made, {from} of {} threads so far", page.end));
                if self.stopping.is_cancelled() {
                    return Ok(false);
                }
            };
            if LAST_PASS_THREADS_MAX < written && pass < PASSES_MAX {
                continue;
            }
            let through = first.unwrap_or(ahead);
            writer_thread.write(move |writer| writer.commit(Extent { through, ahead })).await?;
            break;
        }
        Ok(true)
    }

    /// Adds entries. What is committed on the way goes `through` and `ahead` as given; without
    /// that, the index is still being made.
    pub(super) async fn write(
        &self,
        writer_thread: &WriterThread,
        todos: Vec<Todo>,
        extent: Option<Extent>,
    ) -> Result<(), Failure> {
        let journal = self.workspaces.journal().clone();
        let workspace = self.workspace.clone();
        let written = writer_thread.write(move |writer| {
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
