//! Finding mail by its words.
//!
//! ```text
//!   workspace feed ──▶ indexer ──▶ writer ──▶ index on disk     (a projection, behind the disk)
//!   SearchMail ──▶ query ──▶ index ──▶ hits ──▶ workspace: may the role read them? ──▶ excerpts
//! ```
//!
//! A workspace has an index from the first mail in it. What came in is indexed in the background, in
//! batches, a few workspaces at a time; between them the index is closed. It wakes a workspace once,
//! at a start of the broker, and only where it is behind. Nothing of it is needed: it can be
//! deleted at any time, is made anew from the journal when it is damaged, too old, or of something
//! else, and when it cannot be, searching says why and mail goes on.
//!
//! Sealed mail is found by nodes alone, which can read it, with the same means in memory
//! ([`local`]).
//!
//! Not here: who may search as which role (`grpc`).

mod disk_space;
mod excerpt;
mod index;
mod indexer;
pub mod local;
mod query;
mod rest;
mod schema;
mod source;
mod tail;
mod text;
mod writer;

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tasuki_proto::id::{Sequence, WorkspaceId};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    disk_space::{FREE_BYTES_MIN, Room},
    index::{Index, IndexError},
    indexer::{Failure, Indexer, State},
    rest::IndexStatus,
};
pub use self::{
    excerpt::Excerpt,
    index::{Found, Hit, SearchRequest},
    query::{Narrow, Query, QueryError, parse},
};
use crate::{hash::Hash, workspace::Workspaces};

/// The indexes, in the broker's part of a data directory.
pub const FOLDER: &str = "search";

/// Indexes written at once: each takes some 20 MB and three threads.
const WRITERS_MAX: usize = 8;

/// Indexes at once that catch up while nobody searches: one goes on while the other is a large one.
/// Thousands of workspaces with new mail take turns.
const BATCHES_MAX: usize = 2;

/// Indexes made anew at once: that reads all mail of a workspace.
const REBUILDS_MAX: usize = 1;

/// Searches at once, of all workspaces: they are work for the processor alone.
const SEARCHES_MAX: usize = 4;

/// How long a search waits for the index, for a record in it, and for others' searches.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// Why there is no answer. Another time there may be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(String);

/// Why a search has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The engine gave up over this query alone; asking it again ends the same.
    #[error(
        "cannot be answered: the search engine gave up over it. Nothing changed, and other \
         searches go on; ask with other words or filters"
    )]
    Unanswerable,
}

#[derive(Debug)]
struct Limits {
    writers: Arc<Semaphore>,
    /// Somebody waits to write, and whoever has nothing to write makes room.
    writer_wanted: Notify,
    batches: Arc<Semaphore>,
    rebuilds: Arc<Semaphore>,
    searches: Arc<Semaphore>,
}

impl Limits {
    async fn place(of: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Failure> {
        let gone = |_| Failure::NoRoom("the broker is stopping".to_owned());
        of.clone().acquire_owned().await.map_err(gone)
    }

    /// To write an index.
    async fn writer(&self) -> Result<OwnedSemaphorePermit, Failure> {
        if let Ok(place) = self.writers.clone().try_acquire_owned() {
            return Ok(place);
        }
        self.writer_wanted.notify_one();
        Self::place(&self.writers).await
    }
}

/// The indexes of a broker's workspaces. Cheap to clone.
#[derive(Clone)]
pub struct Search {
    shared: Arc<Shared>,
}

struct Shared {
    folder: PathBuf,
    workspaces: Workspaces,
    stopping: CancellationToken,
    limits: Arc<Limits>,
    kept: Mutex<BTreeMap<WorkspaceId, Kept>>,
    indexers: TaskTracker,
}

/// An index that somebody keeps.
#[derive(Clone)]
struct Kept {
    state: watch::Receiver<State>,
    through: watch::Receiver<Sequence>,
    searched: Arc<Notify>,
    suspect: Arc<Notify>,
}

impl fmt::Debug for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Search").field("folder", &self.shared.folder).finish_non_exhaustive()
    }
}

impl Search {
    /// `data` is the broker's part of the data directory. Indexes are kept from now on, as soon as
    /// their workspaces wake.
    pub fn start(data: &Path, workspaces: &Workspaces, stopping: CancellationToken) -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        let limits = Limits {
            writers: places(WRITERS_MAX),
            writer_wanted: Notify::new(),
            batches: places(BATCHES_MAX),
            rebuilds: places(REBUILDS_MAX),
            searches: places(SEARCHES_MAX),
        };
        let shared = Shared {
            folder: data.join(FOLDER),
            workspaces: workspaces.clone(),
            stopping,
            limits: Arc::new(limits),
            kept: Mutex::default(),
            indexers: TaskTracker::new(),
        };
        let search = Self { shared: Arc::new(shared) };
        let woken = Arc::downgrade(&search.shared);
        workspaces.on_wake(move |workspace| {
            if let Some(shared) = woken.upgrade()
                && *workspace != WorkspaceId::system()
            {
                Self { shared }.keep(workspace);
            }
        });
        search
    }

    /// Has the indexes of workspaces that sleep catch up with what came in last before the broker
    /// ended, one after the other.
    pub fn catch_up(&self) {
        let search = self.clone();
        self.shared.indexers.spawn(async move {
            let stopping = search.shared.stopping.clone();
            for workspace in search.shared.workspaces.names() {
                tokio::select! {
                    () = search.catch_up_one(workspace) => {}
                    () = stopping.cancelled() => return,
                }
            }
        });
    }

    async fn catch_up_one(&self, workspace: WorkspaceId) {
        if self.shared.workspaces.is_awake(&workspace) {
            return;
        }
        let (journal, folder) =
            (self.shared.workspaces.journal().clone(), self.folder_of(&workspace));
        let id = workspace.clone();
        let read = move || IndexStatus::read(&*journal, &id, &folder);
        // One that cannot be read says so when it is searched.
        let read = tokio::task::spawn_blocking(read).await;
        if read.is_ok_and(|it| it.is_ok_and(|status| status.is_behind)) {
            let mut kept = self.keep(&workspace);
            // One that ended did what it could.
            let _ = kept.state.wait_for(|it| !matches!(it, State::Coming(_))).await;
        }
    }

    /// Looks for mail, in an index that has the record `include`.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn search(
        &self,
        workspace: &WorkspaceId,
        ask: SearchRequest,
        include: Sequence,
    ) -> Result<Found, SearchError> {
        self.looked(workspace, include, move |index| index.search(&ask)).await
    }

    async fn looked(
        &self,
        workspace: &WorkspaceId,
        include: Sequence,
        look: impl FnOnce(&Index) -> Result<Found, IndexError> + Send + 'static,
    ) -> Result<Found, SearchError> {
        let deadline = Instant::now() + PATIENCE;
        let (index, kept) = self.ready_through(workspace, include, deadline).await?;
        let busy = || {
            Unavailable(format!("{SEARCHES_MAX} searches are under way already; try again shortly"))
        };
        let place = timeout_at(deadline, Limits::place(&self.shared.limits.searches));
        let place = place.await.map_err(|_| busy())?.map_err(|_| busy())?;
        let searched = tokio::task::spawn_blocking(move || {
            let _place = place;
            // One query must not cost everybody the index, unless what it met is on disk.
            catch_unwind(AssertUnwindSafe(|| look(&index))).map_err(|_| index.damage())
        });
        let why = match searched.await {
            Ok(Ok(Ok(found))) => return Ok(found),
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(Some(damage))) => damage,
            Ok(Err(None)) => return Err(SearchError::Unanswerable),
            Err(panic) => panic.to_string(),
        };
        // What the engine stumbled over is on disk: away with it.
        kept.suspect.notify_one();
        Err(Unavailable(format!("the index of this workspace's mail is made anew: {why}")).into())
    }

    /// Makes the index of a workspace that nobody searches anew, and tells how many entries are in
    /// it.
    ///
    /// # Errors
    /// Why it cannot be made.
    pub async fn rebuild(&self, workspace: &WorkspaceId) -> Result<u64, Unavailable> {
        let folder = self.folder_of(workspace);
        let cannot = |error| Unavailable(format!("{}: {error}", folder.display()));
        index::remove(&folder).map_err(cannot)?;
        let (index, _) = self.ready(workspace, None).await?;
        Ok(index.entries())
    }

    /// Resolves when nobody writes to an index any more, once the broker is stopping.
    pub async fn gone(&self) {
        self.shared.indexers.close();
        self.shared.indexers.wait().await;
    }

    /// Whether the workspace has an index, perhaps one of no use.
    pub fn has_index(&self, workspace: &WorkspaceId) -> bool {
        index::is_begun(&self.folder_of(workspace))
    }

    /// The index, once it has the record `include`.
    async fn ready_through(
        &self,
        workspace: &WorkspaceId,
        include: Sequence,
        deadline: Instant,
    ) -> Result<(Index, Kept), Unavailable> {
        loop {
            let (index, mut kept) = self.ready(workspace, Some(deadline)).await?;
            let through = index.extent().through;
            if include <= through {
                return Ok((index, kept));
            }
            let late = |_| {
                Unavailable(format!(
                    "the index has the records up to {through} and not yet {include}; try again \
                     shortly"
                ))
            };
            // It may be closed meanwhile, and another opened.
            let has_it = kept.through.wait_for(|through| include <= *through);
            let _ = timeout_at(deadline, has_it).await.map_err(late)?;
            tokio::task::yield_now().await;
        }
    }

    /// The index, once it can be searched.
    async fn ready(
        &self,
        workspace: &WorkspaceId,
        deadline: Option<Instant>,
    ) -> Result<(Index, Kept), Unavailable> {
        loop {
            let mut kept = self.keep(workspace);
            kept.searched.notify_one();
            let ready = kept.state.wait_for(|it| !matches!(it, State::Coming(_) | State::Resting));
            let state = match deadline {
                Some(deadline) => timeout_at(deadline, ready).await.ok(),
                None => Some(ready.await),
            };
            let state = state.map(|it| it.map(|state| state.clone()));
            match state {
                Some(Ok(State::Ready(index))) => return Ok((index, kept)),
                Some(Ok(State::Failed(why))) => {
                    return Err(Unavailable(format!("mail cannot be searched: {why}")));
                }
                Some(Ok(State::Coming(_) | State::Resting)) => unreachable!("it was waited for"),
                Some(Err(_)) if self.shared.stopping.is_cancelled() => {
                    return Err(Unavailable("the broker is stopping".to_owned()));
                }
                // Its indexer ended with the workspace that fell asleep.
                Some(Err(_)) => tokio::task::yield_now().await,
                None => {
                    let state = kept.state.borrow().clone();
                    let what = match state {
                        State::Coming(what) => what,
                        State::Resting | State::Ready(_) | State::Failed(_) => {
                            "is coming".to_owned()
                        }
                    };
                    return Err(Unavailable(format!(
                        "the index of this workspace's mail {what}; try again shortly"
                    )));
                }
            }
        }
    }

    /// Has the index of a workspace kept, if nobody does.
    fn keep(&self, workspace: &WorkspaceId) -> Kept {
        let mut all = self.shared.kept.lock();
        if let Some(kept) = all.get(workspace)
            && kept.state.has_changed().is_ok()
        {
            return kept.clone();
        }
        let (state, is_state) = watch::channel(State::Coming("is coming".to_owned()));
        let (through, is_through) = watch::channel(Sequence::NONE);
        let (searched, suspect) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let kept = Kept {
            state: is_state,
            through: is_through,
            searched: searched.clone(),
            suspect: suspect.clone(),
        };
        all.insert(workspace.clone(), kept.clone());
        let shared = &self.shared;
        let indexer = Indexer {
            workspace: workspace.clone(),
            workspaces: shared.workspaces.clone(),
            folder: self.folder_of(workspace),
            limits: shared.limits.clone(),
            room: Room { free_bytes_min: FREE_BYTES_MIN },
            state,
            through,
            searched,
            suspect,
            stopping: shared.stopping.clone(),
        };
        let all = Arc::downgrade(shared);
        let workspace = workspace.clone();
        shared.indexers.spawn(async move {
            indexer.run().await;
            if let Some(shared) = all.upgrade() {
                let mut all = shared.kept.lock();
                // Another may keep it by now.
                if all.get(&workspace).is_some_and(|it| it.state.has_changed().is_err()) {
                    all.remove(&workspace);
                }
                drop(all);
                let search = Self { shared };
                // It woke while this indexer let go.
                if search.shared.workspaces.is_awake(&workspace)
                    && !search.shared.stopping.is_cancelled()
                {
                    search.keep(&workspace);
                }
            }
        });
        kept
    }

    /// Where the index of a workspace is. Some file systems take `A` and `a` for the same.
    fn folder_of(&self, workspace: &WorkspaceId) -> PathBuf {
        let name = workspace.as_str();
        let has_capitals = name.bytes().any(|it| it.is_ascii_uppercase());
        let name = if has_capitals {
            format!("{}~{}", name.to_ascii_lowercase(), &Hash::of(name.as_bytes()).to_string()[..8])
        } else {
            name.to_owned()
        };
        self.shared.folder.join(name)
    }
}
