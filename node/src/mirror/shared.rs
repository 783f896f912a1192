//! What a keeper has in common with work on single threads, and with whoever asks how it does.

use std::{io, path::PathBuf, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tasuki_proto::{
    id::RoleId,
    mail::{BoxKind, MessageId},
    reason::Reason,
    wire,
};
use tokio_util::sync::CancellationToken;

use super::{
    Groups,
    dirty_set::DirtySet,
    disk::Disk,
    home::{Boxes, Home},
    index::Index,
    name,
    report::SyncStatus,
    source::Source,
    thread::{Outcome, TargetFile, ThreadSync},
};
use crate::{beside, filebox::Document, refusal::Refusal};

/// One thread, in bytes; what is larger is not written as a file.
pub(super) const THREAD_BYTES_MAX: usize = 32 * 1024 * 1024;

/// What stands in the way.
#[derive(Debug)]
pub(super) enum SyncError {
    Disk(io::Error),
    /// The broker did not say, or will not.
    Broker(String),
    Stopped,
}

/// A thread as the broker has it.
#[derive(Debug)]
pub(super) enum Read {
    Whole(Box<wire::MailThread>, Vec<wire::MailEntry>),
    /// The role has no copy.
    Unknown,
    /// Of so many entries, with more than [`THREAD_BYTES_MAX`].
    TooLarge(u32),
}

impl From<io::Error> for SyncError {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

impl From<Refusal> for SyncError {
    fn from(refusal: Refusal) -> Self {
        Self::Broker(refusal.message)
    }
}

/// What the keeper has in common with work on other threads, and with whoever asks how it does.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) role: RoleId,
    pub(super) home: Home,
    pub(super) source: Arc<dyn Source>,
    pub(super) dirty: Arc<DirtySet>,
    pub(super) disk: Disk,
    pub(super) stop: CancellationToken,
    pub(super) status: Mutex<SyncStatus>,
    pub(super) groups: Arc<Groups>,
    index: Mutex<Index>,
}

impl Shared {
    pub(super) fn new(
        role: RoleId,
        home: Home,
        index: PathBuf,
        source: Arc<dyn Source>,
        stop: CancellationToken,
        disk: Disk,
    ) -> Self {
        let dirty = Arc::new(DirtySet::default());
        dirty.all_mail();
        dirty.all_files();
        let (status, groups) = Default::default();
        let index = Mutex::new(Index::new(index));
        Self { role, home, source, dirty, disk, stop, status, groups, index }
    }

    pub(super) fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock()
    }

    pub(super) fn status(&self) -> MutexGuard<'_, SyncStatus> {
        self.status.lock()
    }

    /// Asks the broker, unless the mirror stops.
    pub(super) async fn ask<T>(
        &self,
        question: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<Result<T, Refusal>, SyncError> {
        self.stop.run_until_cancelled(question).await.ok_or(SyncError::Stopped)
    }

    /// All of a thread.
    pub(super) async fn read(&self, id: MessageId) -> Result<Read, SyncError> {
        let (mut entries, mut bytes, mut from) = (Vec::new(), 0, 1);
        loop {
            let page = match self.ask(self.source.read(&self.role, id, from)).await? {
                Ok(page) => page,
                Err(refusal) if refusal.reason == Reason::UnknownMessage => {
                    return Ok(Read::Unknown);
                }
                Err(refusal) => return Err(refusal.into()),
            };
            bytes += page.entries.iter().map(|it| it.text.len()).sum::<usize>();
            if THREAD_BYTES_MAX < bytes {
                return Ok(Read::TooLarge(page.thread.map_or(0, |it| it.entries)));
            }
            entries.extend(page.entries);
            match (page.thread, page.next) {
                (Some(thread), 0) if !entries.is_empty() => {
                    return Ok(Read::Whole(Box::new(thread), entries));
                }
                (_, next) if from < next => from = next,
                _ => return Err(SyncError::Broker(format!("the thread {id} came without words"))),
            }
        }
    }

    /// Those that are too large to be files are told of.
    fn note_size(&self, id: MessageId, read: &Read) {
        let mut status = self.status();
        match read {
            Read::TooLarge(entries) => {
                if status.too_large.insert(id, *entries).is_none() {
                    let role = &self.role;
                    tracing::warn!(%role, %id, "a thread is too large to be written as a file");
                }
            }
            Read::Whole(..) | Read::Unknown => drop(status.too_large.remove(&id)),
        }
    }

    /// Takes up what an earlier life of the node kept.
    pub(super) async fn remember(self: &Arc<Self>) {
        let path = self.index().path().to_owned();
        let opened = beside::on_disk(|| Ok(Index::open(path))).await;
        if let Ok(index) = opened {
            *self.index() = index;
        }
    }

    /// Tells people of a file in the outbox that stays as it is, once.
    pub(super) fn leave(&self, path: PathBuf, why: &str) {
        let mut status = self.status();
        if status.unread.get(&path).is_none_or(|told| told != why) {
            let (role, path) = (&self.role, path.display());
            tracing::warn!(%role, %path, why, "a file in the outbox is left as it is");
        }
        status.unread.insert(path, why.to_owned());
    }

    pub(super) fn put_aside(&self, aside: impl IntoIterator<Item = PathBuf>) {
        for path in aside {
            tracing::warn!(role = %self.role, path = %path.display(), "a file was put aside");
            self.status().aside.insert(path);
        }
    }
}

/// Does work on disk beside the rest.
pub(super) async fn on_disk<T: Send + 'static>(
    shared: &Arc<Shared>,
    work: impl FnOnce(&Shared) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let shared = shared.clone();
    beside::on_disk(move || work(&shared)).await
}

/// Brings the file of one thread to what the broker says.
pub(super) async fn refresh(
    shared: &Arc<Shared>,
    boxes: &Arc<Boxes>,
    id: MessageId,
) -> Result<(), SyncError> {
    let read = shared.read(id).await?;
    shared.note_size(id, &read);
    let want = match read {
        // A file that lacks what is new, in a box where the thread is no more, would tell lies.
        Read::Unknown | Read::TooLarge(_) => None,
        Read::Whole(thread, entries) => {
            let kind = BoxKind::of_wire(thread.r#box());
            let kind = kind.ok_or_else(|| SyncError::Broker(format!("{id} is in no box")))?;
            let mut index = shared.index();
            let name = match index.get(id) {
                Some(known) => known.name.clone(),
                None => name::of_thread(&thread.file_name, id, &index.taken(id, &thread.file_name)),
            };
            index.reserve(id, &name);
            drop(index);
            Some((kind, name, thread, entries))
        }
    };
    let boxes = boxes.clone();
    let called = want.as_ref().map_or_else(|| id.to_string(), |(_, name, ..)| name.clone());
    let work = move |shared: &Shared| -> io::Result<Outcome> {
        let want = want.map(|(kind, name, thread, entries)| {
            let is_whole = entries.iter().all(|it| it.sealed.is_none());
            TargetFile::new(kind, name, Document::of_stored(&thread, &entries), is_whole)
        });
        let known = shared.index().get(id).cloned();
        let outcome = ThreadSync { disk: shared.disk.clone(), boxes, known, want }.carry_out()?;
        let mut index = shared.index();
        note(match outcome.known.clone() {
            Some(known) => index.wrote(id, known),
            None => index.gone(id),
        });
        Ok(outcome)
    };
    let outcome = on_disk(shared, work).await;
    let outcome = outcome.map_err(|why| io::Error::new(why.kind(), format!("{called}: {why}")))?;
    shared.put_aside(outcome.aside);
    Ok(())
}

/// The index is a help: without it more is read at the next start.
pub(super) fn note(kept: io::Result<()>) {
    if let Err(error) = kept {
        tracing::debug!(%error, "what was written cannot be noted");
    }
}
