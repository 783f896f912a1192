//! The index of one workspace on disk: what is in it, up to which record, and looking in it.
//!
//! - **Y1** What is committed is the entries of all records up to the sequence committed with it
//!   (`through`), and perhaps of some up to another one (`ahead`): a thread that one of those
//!   between changed is indexed again whole.
//! - **Y2** What a search tells, hits, total and scores alike, follows from entries alone that the
//!   asking role may read.
//!
//! The index is of one version, one journal's incarnation and, by its folder, one workspace; any
//! other is made anew. Everything here blocks.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Arc, PoisonError, RwLock},
};

use tantivy::{
    DocId, IndexReader, IndexWriter, ReloadPolicy, Score, Searcher, SegmentReader, Term,
    collector::{Count, TopDocs},
    indexer::{IndexWriterOptions, LogMergePolicy},
    query::{Bm25StatisticsProvider, BooleanQuery, Occur, Query as _, TermQuery},
    schema::{Field, IndexRecordOption},
};
use tasuki_proto::id::{RoleId, Sequence, Timestamp};

use super::{
    query::{Narrow, Query, plan},
    schema::{AT, Doc, ENTRY, Fields, THREAD, VERSION},
};
use crate::rules::mailbox::ThreadNumber;

/// What a writer collects in memory before it writes, in bytes: as little as it takes, and, to
/// make an index anew, enough for few and large pieces.
const FOLLOW_BYTES: usize = 15_000_000;
const REBUILD_BYTES: usize = 64_000_000;

/// Words added and not yet committed, in bytes.
const UNCOMMITTED_BYTES_MAX: usize = 64_000_000;

/// Entries below which pieces of the index count as small and are put together eagerly.
const SMALL_PIECE: u32 = 1000;

/// Terms in a text, as ranking assumes: the true average would tell of others' mail.
const TERMS_AVERAGE: u64 = 150;

/// What an entry of this moment is worth more than an old one, and after how many days half of
/// that is left.
const NEWER_BY: f32 = 0.25;
const NEWER_HALF_DAYS: f32 = 30.0;
const NEWER_DAYS: usize = 365;

const DAY_MS: u64 = 24 * 3600 * 1000;

#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("{0}")]
    Files(#[from] io::Error),
    #[error("{0}")]
    Engine(#[from] tantivy::TantivyError),
    /// To be made anew.
    #[error("the index {0}")]
    Unfit(String),
}

impl IndexError {
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

/// What an index is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The journal's.
    pub incarnation: [u8; 16],
}

/// How far an index goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Entries of records up to this one are in it.
    pub through: Sequence,
    /// Of those up to this one some may be.
    pub ahead: Sequence,
}

impl Extent {
    /// Just those up to here.
    pub const fn up_to(through: Sequence) -> Self {
        Self { through, ahead: through }
    }
}

/// An index and how far it goes, as written beside each commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Payload {
    version: u32,
    origin: Origin,
    /// `None`: it is still being made.
    extent: Option<Extent>,
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let incarnation = u128::from_be_bytes(self.origin.incarnation);
        let extent = self.extent.map_or_else(
            || "begun".to_owned(),
            |it| format!("{} {}", it.through.get(), it.ahead.get()),
        );
        let words = format!("{} {incarnation:032x} {extent}", self.version);
        write!(f, "{words} {:08x}", crc32c::crc32c(words.as_bytes()))
    }
}

impl FromStr for Payload {
    type Err = IndexError;

    fn from_str(text: &str) -> Result<Self, IndexError> {
        let no = || IndexError::Unfit("does not say what it is of".to_owned());
        let (words, sum) = text.rsplit_once(' ').ok_or_else(no)?;
        if u32::from_str_radix(sum, 16) != Ok(crc32c::crc32c(words.as_bytes())) {
            return Err(no());
        }
        let words: Vec<&str> = words.split(' ').collect();
        let [version, incarnation, extent @ ..] = words.as_slice() else { return Err(no()) };
        let sequence = |word: &str| word.parse::<u64>().map(Sequence::from).map_err(|_| no());
        let extent = match extent {
            ["begun"] => None,
            [through, ahead] => {
                Some(Extent { through: sequence(through)?, ahead: sequence(ahead)? })
            }
            _ => return Err(no()),
        };
        let incarnation = u128::from_str_radix(incarnation, 16).map_err(|_| no())?.to_be_bytes();
        let version = version.parse().map_err(|_| no())?;
        Ok(Self { version, origin: Origin { incarnation }, extent })
    }
}

/// An index that can be searched. Cheap to clone.
#[derive(Clone)]
pub struct Index {
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
pub struct Ask {
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
    pub fn create(folder: &Path, origin: Origin) -> Result<Self, IndexError> {
        remove(folder)?;
        fs::create_dir_all(folder)?;
        let (schema, fields) = Fields::schema();
        let index = tantivy::Index::create_in_dir(folder, schema)?;
        let extent = Extent::up_to(Sequence::NONE);
        let index = Self::new(index, fields, folder, origin, extent)?;
        // So that a kill before it is made leaves one that says what it is.
        index.writer(false)?.commit_unfinished()?;
        Ok(index)
    }

    /// The one that is there, if it is whole and of this origin.
    ///
    /// # Errors
    /// [`IndexError::Unfit`] says why it must be made anew; others are of the disk.
    pub fn open(folder: &Path, origin: Origin) -> Result<Self, IndexError> {
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
        let damaged = index.validate_checksum()?;
        if let Some(file) = damaged.iter().min() {
            return Err(IndexError::Unfit(format!("is damaged in {}", file.display())));
        }
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
    pub fn extent(&self) -> Extent {
        self.seen().extent
    }

    /// Records up to this one brought no further entries.
    pub fn nothing_up_to(&self, through: Sequence) {
        let mut seen = self.shared.seen.write().unwrap_or_else(PoisonError::into_inner);
        seen.extent.through = through;
        seen.extent.ahead = seen.extent.ahead.max(through);
    }

    /// How many entries are in it.
    pub fn entries(&self) -> u64 {
        self.seen().searcher.num_docs()
    }

    fn seen(&self) -> Seen {
        self.shared.seen.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins to write. There is one writer at a time.
    ///
    /// # Errors
    /// Of the disk, or that there is a writer.
    pub fn writer(&self, is_rebuild: bool) -> Result<Writer, IndexError> {
        let bytes = if is_rebuild { REBUILD_BYTES } else { FOLLOW_BYTES };
        let options = IndexWriterOptions::builder()
            .memory_budget_per_thread(bytes)
            .num_worker_threads(1)
            .num_merge_threads(1)
            .build();
        let writer: IndexWriter = self.shared.index.writer_with_options(options)?;
        let mut policy = LogMergePolicy::default();
        policy.set_min_layer_size(SMALL_PIECE);
        policy.set_del_docs_ratio_before_merge(0.3);
        writer.set_merge_policy(Box::new(policy));
        Ok(Writer { index: self.clone(), writer, bytes: 0 })
    }

    /// Looks for entries.
    ///
    /// # Errors
    /// Of the disk, or that the index is not what it should be.
    pub fn search(&self, ask: &Ask) -> Result<Found, IndexError> {
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
pub fn is_there(folder: &Path) -> bool {
    folder.join("meta.json").exists()
}

/// Takes an index off the disk.
///
/// # Errors
/// Of the disk.
pub fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Adds to an index. What was not committed is gone when it is dropped.
pub struct Writer {
    index: Index,
    writer: IndexWriter,
    /// Added since the last commit.
    bytes: usize,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("index", &self.index).finish_non_exhaustive()
    }
}

impl Writer {
    /// # Errors
    /// Of the disk: nothing more can be added.
    pub fn add(&mut self, doc: &Doc) -> Result<(), IndexError> {
        self.bytes += doc.subject.len() + doc.text.len();
        self.writer.add_document(self.index.shared.fields.document(doc))?;
        Ok(())
    }

    /// Whether so much was added that it should be committed: what waits to be indexed is in
    /// memory, and the engine counts entries, not bytes.
    pub fn is_full(&self) -> bool {
        UNCOMMITTED_BYTES_MAX <= self.bytes
    }

    /// Takes out all entries of a thread that were added before.
    pub fn remove(&mut self, thread: ThreadNumber) {
        let term = Term::from_field_u64(self.index.shared.fields.thread, thread.0.into());
        self.writer.delete_term(term);
    }

    /// Makes what was added durable and has searches see it.
    ///
    /// # Errors
    /// Of the disk: nothing was committed, and nothing more can be added.
    pub fn commit(&mut self, extent: Extent) -> Result<(), IndexError> {
        self.commit_as(Some(extent))?;
        let shared = &self.index.shared;
        shared.reader.reload()?;
        let seen = Seen { searcher: shared.reader.searcher(), extent };
        *shared.seen.write().unwrap_or_else(PoisonError::into_inner) = seen;
        Ok(())
    }

    /// Makes what was added durable, of an index that is still being made.
    ///
    /// # Errors
    /// As [`Writer::commit`].
    pub fn commit_unfinished(&mut self) -> Result<(), IndexError> {
        self.commit_as(None)
    }

    fn commit_as(&mut self, extent: Option<Extent>) -> Result<(), IndexError> {
        let payload = Payload { version: VERSION, origin: self.index.shared.origin, extent };
        let mut commit = self.writer.prepare_commit()?;
        commit.set_payload(&payload.to_string());
        commit.commit()?;
        self.bytes = 0;
        Ok(())
    }

    /// Waits until pieces that are being put together are done.
    ///
    /// # Errors
    /// Of the disk.
    pub fn settle(self) -> Result<(), IndexError> {
        self.writer.wait_merging_threads()?;
        Ok(())
    }
}

/// How rare terms are in what one role may read (Y2).
struct Statistics<'a> {
    searcher: &'a Searcher,
    /// The term of who reads.
    reader: Term,
    entries: u64,
    reads_all: bool,
}

impl<'a> Statistics<'a> {
    fn new(searcher: &'a Searcher, fields: &Fields, role: &RoleId) -> Result<Self, IndexError> {
        let reader = Term::from_field_text(fields.reader, role.as_str());
        let entries = searcher.doc_freq(&reader)?;
        let all = searcher.segment_readers().iter().map(|it| u64::from(it.max_doc())).sum::<u64>();
        Ok(Self { searcher, reader, entries, reads_all: entries == all })
    }
}

impl Bm25StatisticsProvider for Statistics<'_> {
    fn total_num_tokens(&self, _field: Field) -> tantivy::Result<u64> {
        Ok(self.entries.saturating_mul(TERMS_AVERAGE))
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.entries)
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        let all = self.searcher.doc_freq(term)?;
        if self.reads_all || all == 0 {
            return Ok(all);
        }
        let word = |term: &Term| -> Box<dyn tantivy::query::Query> {
            Box::new(TermQuery::new(term.clone(), IndexRecordOption::Basic))
        };
        let both = [(Occur::Must, word(term)), (Occur::Must, word(&self.reader))];
        let both = BooleanQuery::new(both.into()).count(self.searcher)?;
        Ok((both as u64).min(self.entries))
    }
}

#[cfg(test)]
mod speed;
#[cfg(test)]
mod tests;
