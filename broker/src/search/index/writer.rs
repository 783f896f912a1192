//! Adding to an index, and making what was added durable.

use std::fmt;

use tantivy::{
    IndexWriter, Term,
    indexer::{IndexWriterOptions, LogMergePolicy},
};

use super::{Extent, Index, IndexError, Seen, extent::Payload};
use crate::{
    rules::mailbox::ThreadNumber,
    search::schema::{Doc, VERSION},
};

/// What a writer collects in memory before it writes, in bytes: as little as it takes, and, to
/// make an index anew, enough for few and large pieces.
const FOLLOW_BYTES: usize = 15_000_000;
const REBUILD_BYTES: usize = 64_000_000;

/// Words added and not yet committed, in bytes.
const UNCOMMITTED_BYTES_MAX: usize = 64_000_000;

/// Entries below which pieces of the index count as small and are put together eagerly.
const SMALL_PIECE: u32 = 1000;

impl Index {
    /// Begins to write. There is one writer at a time.
    ///
    /// # Errors
    /// Of the disk, or that there is a writer.
    pub(in crate::search) fn writer(&self, is_rebuild: bool) -> Result<Writer, IndexError> {
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
}

/// Adds to an index. What was not committed is gone when it is dropped.
pub(in crate::search) struct Writer {
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
    pub(in crate::search) fn add(&mut self, doc: &Doc) -> Result<(), IndexError> {
        self.bytes += doc.subject.len() + doc.text.len();
        self.writer.add_document(self.index.shared.fields.document(doc))?;
        Ok(())
    }

    /// Whether so much was added that it should be committed: what waits to be indexed is in
    /// memory, and the engine counts entries, not bytes.
    pub(in crate::search) fn is_full(&self) -> bool {
        UNCOMMITTED_BYTES_MAX <= self.bytes
    }

    /// Takes out all entries of a thread that were added before.
    pub(in crate::search) fn remove(&mut self, thread: ThreadNumber) {
        let term = Term::from_field_u64(self.index.shared.fields.thread, thread.0.into());
        self.writer.delete_term(term);
    }

    /// Makes what was added durable and has searches see it.
    ///
    /// # Errors
    /// Of the disk: nothing was committed, and nothing more can be added.
    pub(in crate::search) fn commit(&mut self, extent: Extent) -> Result<(), IndexError> {
        self.commit_as(Some(extent))?;
        let shared = &self.index.shared;
        shared.reader.reload()?;
        let seen = Seen { searcher: shared.reader.searcher(), extent };
        *shared.seen.write() = seen;
        Ok(())
    }

    /// Makes what was added durable, of an index that is still being made.
    ///
    /// # Errors
    /// As [`Writer::commit`].
    pub(in crate::search) fn commit_unfinished(&mut self) -> Result<(), IndexError> {
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
    pub(in crate::search) fn settle(self) -> Result<(), IndexError> {
        self.writer.wait_merging_threads()?;
        Ok(())
    }
}
