//! The index of one workspace on disk: what is in it, up to which record, and looking in it.
//!
//! - **F1** What is committed is the entries of all records up to the sequence committed with it
//!   (`through`), and perhaps of some up to another one (`ahead`): a thread that one of those
//!   between changed is indexed again whole.
//! - **F2** What a search tells, hits, total and scores alike, follows from entries alone that the
//!   asking role may read.
//!
//! The index is of one version, one journal's incarnation and, by its folder, one workspace; any
//! other is made anew. Everything here blocks.

mod extent;
mod statistics;
mod writer;

#[cfg(test)]
mod tests;

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::RwLock;
use tantivy::{
    DocId, IndexReader, ReloadPolicy, Score, Searcher, SegmentReader,
    collector::{Count, TopDocs},
};
use tasuki_proto::{
    host::files,
    id::{RoleId, Sequence, Timestamp},
};

use self::{extent::Payload, statistics::Statistics};
pub(super) use self::{
    extent::{Extent, Origin},
    writer::Writer,
};
use super::{
    query::{Narrow, Query, plan},
    schema::{AT, ENTRY, Fields, THREAD, VERSION},
};
use crate::rules::mailbox::ThreadNumber;

/// What an entry of this moment is worth more than an old one, and after how many days half of
/// that is left.
const NEWER_BY: f32 = 0.25;
const NEWER_HALF_DAYS: f32 = 30.0;
const NEWER_DAYS: usize = 365;

/// Where the engine writes what an index consists of, with each commit.
const META: &str = "meta.json";

const DAY_MS: u64 = 24 * 3600 * 1000;

#[derive(Debug, thiserror::Error)]
pub(super) enum IndexError {
    #[error("{0}")]
    Files(#[from] io::Error),
    #[error("{0}")]
    Engine(#[from] tantivy::TantivyError),
    /// To be made anew.
    #[error("the index {0}")]
    Unfit(String),
}

impl IndexError {
    /// A search stumbled over it.
    pub(super) fn suspect() -> Self {
        Self::Unfit("gave a search what it should not have".to_owned())
    }

    /// Whether the disk has no room.
    pub(super) fn is_full(&self) -> bool {
        let full = |it: &io::Error| it.kind() == io::ErrorKind::StorageFull;
        match self {
            Self::Files(error) => full(error),
            Self::Engine(tantivy::TantivyError::IoError(error)) => full(error),
            Self::Engine(_) | Self::Unfit(_) => false,
        }
    }
}

/// An index that can be searched. Cheap to clone.
#[derive(Clone)]
pub(super) struct Index {
    shared: Arc<Shared>,
}

struct Shared {
    index: tantivy::Index,
    fields: Fields,
    reader: IndexReader,
    origin: Origin,
    folder: PathBuf,
    seen: RwLock<Seen>,
}

/// What searches see.
#[derive(Clone)]
struct Seen {
    searcher: Searcher,
    extent: Extent,
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("folder", &self.shared.folder).finish_non_exhaustive()
    }
}

/// What is asked of the index.
#[derive(Debug, Clone)]
pub struct SearchRequest {
    pub reader: RoleId,
    pub query: Query,
    pub narrow: Narrow,
    pub limit: usize,
    pub now: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The best first.
    pub hits: Vec<Hit>,
    /// Entries that match.
    pub total: u64,
    /// The newest record the index had.
    pub through: Sequence,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    pub thread: ThreadNumber,
    pub entry: u32,
    pub at: Timestamp,
    pub score: f32,
}

impl Index {
    /// Begins an empty one, of no record. What was in the folder is gone.
    ///
    /// # Errors
    /// Of the disk.
    pub(super) fn create(folder: &Path, origin: Origin) -> Result<Self, IndexError> {
        remove(folder)?;
        files::private_directory(folder)?;
        let (schema, fields) = Fields::schema();
        let index = tantivy::Index::create_in_dir(folder, schema)?;
        let extent = Extent::up_to(Sequence::NONE);
        let index = Self::new(index, fields, folder, origin, extent)?;
        // So that a kill before it is made leaves one that says what it is.
        index.writer(false)?.commit_unfinished()?;
        Ok(index)
    }

    /// Begins an empty one that is on no disk.
    ///
    /// # Errors
    /// Of the engine.
    pub(super) fn in_memory() -> Result<Self, IndexError> {
        let (schema, fields) = Fields::schema();
        let index = tantivy::Index::create_in_ram(schema);
        let origin = Origin { incarnation: [0; 16] };
        Self::new(index, fields, Path::new(""), origin, Extent::up_to(Sequence::NONE))
    }

    /// The one that is there, if it is whole and of this origin.
    ///
    /// # Errors
    /// [`IndexError::Unfit`] says why it must be made anew; others are of the disk.
    pub(super) fn open(folder: &Path, origin: Origin) -> Result<Self, IndexError> {
        let index = Self::open_unchecked(folder, origin)?;
        match damage(&index.shared.index)? {
            Some(damage) => Err(IndexError::Unfit(damage)),
            None => Ok(index),
        }
    }

    /// The same without reading all of it: whether it is damaged is known.
    ///
    /// # Errors
    /// As [`Index::open`].
    pub(super) fn open_unchecked(folder: &Path, origin: Origin) -> Result<Self, IndexError> {
        let mut index = tantivy::Index::open_in_dir(folder)?;
        let payload = index.load_metas()?.payload.unwrap_or_default();
        let payload: Payload = payload.parse()?;
        if payload.version != VERSION {
            let what = format!("is of version {}, not {VERSION}", payload.version);
            return Err(IndexError::Unfit(what));
        }
        if payload.origin != origin {
            return Err(IndexError::Unfit("is of another journal".to_owned()));
        }
        let Some(extent) = payload.extent else {
            return Err(IndexError::Unfit("was not finished".to_owned()));
        };
        let (schema, fields) = Fields::schema();
        if index.schema() != schema {
            return Err(IndexError::Unfit("has other fields".to_owned()));
        }
        index.set_tokenizers(Fields::tokenizers());
        Self::new(index, fields, folder, origin, extent)
    }

    fn new(
        mut index: tantivy::Index,
        fields: Fields,
        folder: &Path,
        origin: Origin,
        extent: Extent,
    ) -> Result<Self, IndexError> {
        index.set_tokenizers(Fields::tokenizers());
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        let reader: IndexReader = reader;
        let seen = RwLock::new(Seen { searcher: reader.searcher(), extent });
        let folder = folder.to_owned();
        let shared = Shared { index, fields, reader, origin, folder, seen };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// How far it goes.
    pub(super) fn extent(&self) -> Extent {
        self.seen().extent
    }

    /// Records up to this one brought no further entries.
    pub(super) fn nothing_up_to(&self, through: Sequence) {
        let mut seen = self.shared.seen.write();
        seen.extent.through = through;
        seen.extent.ahead = seen.extent.ahead.max(through);
    }

    /// What is damaged of it on disk, if anything that can be read is.
    pub(super) fn damage(&self) -> Option<String> {
        // A file that is gone was put together with others meanwhile.
        let damage = damage(&self.shared.index).ok().flatten();
        damage.map(|it| IndexError::Unfit(it).to_string())
    }

    /// How many entries are in it.
    pub(super) fn entries(&self) -> u64 {
        self.seen().searcher.num_docs()
    }

    fn seen(&self) -> Seen {
        self.shared.seen.read().clone()
    }

    /// Looks for entries.
    ///
    /// # Errors
    /// Of the disk, or that the index is not what it should be.
    pub(super) fn search(&self, ask: &SearchRequest) -> Result<Found, IndexError> {
        let seen = self.seen();
        let fields = &self.shared.fields;
        let query = plan(fields, &ask.reader, &ask.query, &ask.narrow);
        let statistics = Statistics::new(&seen.searcher, fields, &ask.reader)?;
        if statistics.entries == 0 {
            return Ok(Found { hits: Vec::new(), total: 0, through: seen.extent.through });
        }
        let newer = newer();
        let now = ask.now;
        let by_score =
            TopDocs::with_limit(ask.limit.max(1)).tweak_score(move |segment: &SegmentReader| {
                let at = segment.fast_fields().u64(AT).ok().map(|it| it.first_or_default_col(0));
                let newer = newer.clone();
                move |doc: DocId, score: Score| {
                    let at = at.as_ref().map_or(0, |it| it.get_val(doc));
                    let days = now.millis_since(Timestamp::from_millis(at)) / DAY_MS;
                    let days = usize::try_from(days).unwrap_or(usize::MAX);
                    score * newer.get(days).copied().unwrap_or(1.0)
                }
            });
        let collected = seen.searcher.search_with_statistics_provider(
            &query,
            &(by_score, Count),
            &statistics,
        )?;
        let (best, total) = collected;
        let mut hits = Vec::with_capacity(best.len());
        for (score, address) in best.into_iter().take(ask.limit) {
            let columns = seen.searcher.segment_reader(address.segment_ord).fast_fields();
            let value = |name: &str| -> Result<u64, IndexError> {
                let value = columns.u64(name)?.first(address.doc_id);
                value.ok_or_else(|| IndexError::Unfit(format!("has an entry without {name}")))
            };
            let number = |name: &str| {
                u32::try_from(value(name)?)
                    .map_err(|_| IndexError::Unfit(format!("has an odd {name}")))
            };
            hits.push(Hit {
                thread: ThreadNumber(number(THREAD)?),
                entry: number(ENTRY)?,
                at: Timestamp::from_millis(value(AT)?),
                score,
            });
        }
        Ok(Found { hits, total: total as u64, through: seen.extent.through })
    }
}

/// What the checksums say: reads all of it.
fn damage(index: &tantivy::Index) -> Result<Option<String>, IndexError> {
    let damaged = index.validate_checksum()?.into_iter().min();
    Ok(damaged.map(|file| format!("is damaged in {}", file.display())))
}

/// What newness multiplies a score with, by days.
fn newer() -> Arc<[f32]> {
    let factor = |days: usize| {
        #[expect(clippy::cast_precision_loss, reason = "days of a year")]
        let days = days as f32;
        1.0 + NEWER_BY * (-days / NEWER_HALF_DAYS).exp2()
    };
    (0..NEWER_DAYS).map(factor).collect()
}

/// Whether there is one, of whatever.
pub(super) fn is_there(folder: &Path) -> bool {
    folder.join(META).exists()
}

/// How far the one that is there says that it goes; `None`: there is none, or one of no use.
pub(super) fn peek(folder: &Path, origin: Origin) -> Option<Extent> {
    let meta = fs::read(folder.join(META)).ok()?;
    let meta: serde_json::Value = serde_json::from_slice(&meta).ok()?;
    let payload: Payload = meta.get("payload")?.as_str()?.parse().ok()?;
    payload.extent.filter(|_| payload.version == VERSION && payload.origin == origin)
}

/// Whether there is one or what is left of one, perhaps of no use or out of reach.
pub(super) fn is_begun(folder: &Path) -> bool {
    let is_missing = |it: &Path| {
        fs::symlink_metadata(it).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    !is_missing(folder) || !is_missing(&aside(folder))
}

/// Where an index goes on its way off the disk.
fn aside(folder: &Path) -> PathBuf {
    folder.with_added_extension("~gone")
}

/// Takes an index off the disk. A thread that puts pieces of it together may still be at work
/// there; it finds out.
///
/// # Errors
/// Of the disk.
pub(super) fn remove(folder: &Path) -> io::Result<()> {
    let aside = aside(folder);
    let missing_is_fine = |done: io::Result<()>| match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    };
    let clear = || match fs::remove_dir_all(&aside) {
        // Somebody put a file in the place.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => fs::remove_file(&aside),
        done => missing_is_fine(done),
    };
    clear()?;
    missing_is_fine(fs::rename(folder, &aside))?;
    clear()
}
