//! Mail that this node keeps until the broker can be reached again.
//!
//! Each entry is a file of its own in `DATA/outbox`, put there whole and durably before the agent
//! is told that it is queued, and taken away after the broker answered. Of a file that was being
//! written when the power failed nobody was told, so it is thrown away.
//!
//! - **O1** What was called queued is on disk until the broker answered it, or a person dropped it.
//! - **O2** An entry keeps its key for as long as the broker may have seen it under that key.
//! - **O3** What waits of a role goes out one by one, in the order of its numbers.
//! - **O4** What is kept is bounded by [`ENTRIES_MAX`], [`BYTES_MAX`] and [`FAILED_MAX`].
//!
//! One process at a time writes here: whoever has taken the data directory
//! ([`Identity`](crate::identity::Identity)). Anybody may [`read`], at any time.

pub mod entry;

mod files;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use tasuki_proto::{
    id::{IdempotencyKey, RoleId, WorkspaceId},
    limits::LETTERS_KNOWN_MAX,
    reason::Reason,
    wire::{self, EarlierAnswers},
};
use tokio::sync::watch;

pub use self::{
    entry::{ENTRY_BYTES_MAX, Entry, Failed, Summarised, Summary, What, content_of},
    files::{Contents, Unreadable, read},
};
use crate::{beside::on_disk, refusal::Refusal};

/// Entries, failed ones included: what agents say in a long day on the road.
pub const ENTRIES_MAX: usize = 4_096;

/// All entries, in bytes.
pub const BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Entries that were refused late and are kept to be looked at. Past it the oldest goes, first of
/// those whose agent was told.
pub const FAILED_MAX: usize = 256;

/// What a person decides about an entry of the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settling {
    /// It failed, and is to go out again.
    Retry,
    /// It is not to be sent.
    Drop,
}

/// How many there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub queued: usize,
    pub failed: usize,
}

/// The outbox of a running node. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct Outbox(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    directory: PathBuf,
    /// One writer at a time, in the order they came.
    writing: tokio::sync::Mutex<()>,
    index: Mutex<Index>,
    /// What an answer under way tells an agent of.
    telling: Arc<Mutex<BTreeSet<u64>>>,
    /// Changes whenever the index does.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Index {
    entries: BTreeMap<u64, Slot>,
    bytes: u64,
    last: u64,
}

#[derive(Debug, Clone)]
struct Slot {
    summary: Summary,
    key: IdempotencyKey,
    said: Option<Said>,
    bytes: u64,
}

/// What a letter is known by when it is said once more.
#[derive(Debug, Clone)]
struct Said {
    /// Its sender's own name for it; empty: none.
    name: String,
    content: Option<blake3::Hash>,
    earlier: EarlierAnswers,
}

impl Said {
    fn of(what: &What) -> Option<Self> {
        let What::Send(request) = what else { return None };
        let (name, content) = (request.client_ref.clone(), content_of(request));
        Some(Self { name, content, earlier: request.earlier() })
    }
}

impl Contents {
    pub fn counts(&self) -> Counts {
        let failed = self.entries.iter().filter(|(entry, _)| entry.failed.is_some()).count();
        Counts { queued: self.entries.len() - failed, failed }
    }
}

/// What is to be kept. The number is still to be given.
#[derive(Debug, Clone)]
pub struct New {
    pub workspace: WorkspaceId,
    pub role: RoleId,
    pub key: IdempotencyKey,
    pub may_have_reached: bool,
    pub queued_ms: u64,
    pub tried_ms: Option<u64>,
    pub what: What,
}

/// A letter that was said once more while it waits.
#[derive(Debug, Clone, PartialEq)]
pub enum Before {
    Same(Summary),
    /// Another has its name.
    Other(Summary),
}

/// What failed and its agent was not told. Nobody else is given it until this is marked as told, or
/// dropped because no answer with it was written.
#[derive(Debug, Default)]
pub struct Untold {
    pub entries: Vec<Summary>,
    telling: Arc<Mutex<BTreeSet<u64>>>,
}

impl Untold {
    /// What no other answer tells.
    pub fn of(entries: Vec<Summary>) -> Self {
        Self { entries, telling: Arc::default() }
    }
}

impl Drop for Untold {
    fn drop(&mut self) {
        let mut telling = self.telling.lock();
        for it in &self.entries {
            telling.remove(&it.number);
        }
    }
}

/// Why an entry is not kept; nothing of it is.
#[derive(Debug, thiserror::Error)]
pub enum NotKept {
    #[error("{ENTRIES_MAX} messages wait in this node's outbox already")]
    Full,
    #[error("the messages in this node's outbox have {BYTES_MAX} bytes already")]
    FullOfBytes,
    #[error("it has {0} bytes; {ENTRY_BYTES_MAX} are the most that this node's outbox takes")]
    TooLarge(usize),
    #[error("this node's outbox cannot be written to: {0}")]
    Io(#[from] io::Error),
}

impl Index {
    fn insert(&mut self, entry: &Entry, bytes: u64) {
        self.last = self.last.max(entry.number);
        let (summary, key) = (entry.summary(), entry.key.clone());
        let slot = Slot { summary, key, said: Said::of(&entry.what), bytes };
        self.bytes += bytes;
        if let Some(before) = self.entries.insert(entry.number, slot) {
            self.bytes -= before.bytes;
        }
    }

    fn remove(&mut self, number: u64) {
        if let Some(slot) = self.entries.remove(&number) {
            self.bytes -= slot.bytes;
        }
    }

    fn waiting(&self) -> impl DoubleEndedIterator<Item = &Slot> {
        self.entries.values().filter(|slot| slot.summary.failed.is_none())
    }

    /// Failed ones that are too many, the next to go first.
    fn surplus(&self) -> Option<u64> {
        let failed: Vec<_> = self
            .entries
            .values()
            .filter_map(|slot| Some((!slot.summary.failed.as_ref()?.is_told, slot.summary.number)))
            .collect();
        if failed.len() <= FAILED_MAX {
            return None;
        }
        failed.into_iter().min().map(|(_, number)| number)
    }
}

impl Outbox {
    /// Finds what an earlier life of the node left. Of unreadable files people are told; they stay
    /// where they are.
    ///
    /// # Errors
    /// When the directory cannot be made or read.
    pub fn open(data: &Path) -> io::Result<Self> {
        let directory = files::directory(data);
        files::prepare(&directory)?;
        let Contents { entries, unreadable } = read(data)?;
        for Unreadable { path, why } in &unreadable {
            tracing::error!(path = %path.display(), why, "a letter in the outbox is damaged");
        }
        let mut index = Index::default();
        for number in unreadable.iter().filter_map(|it| files::number_of(&it.path)) {
            index.last = index.last.max(number);
        }
        for (entry, bytes) in &entries {
            index.insert(entry, *bytes);
        }
        Ok(Self(Arc::new(Shared {
            directory,
            writing: tokio::sync::Mutex::default(),
            index: Mutex::new(index),
            telling: Arc::default(),
            changes: watch::Sender::new(0),
        })))
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.0.index.lock()
    }

    fn change(&self, change: impl FnOnce(&mut Index)) {
        change(&mut self.index());
        self.0.changes.send_modify(|changes| *changes += 1);
    }

    /// Durable when this returns.
    pub async fn keep(&self, new: New) -> Result<Summary, NotKept> {
        let _writing = self.0.writing.lock().await;
        let New { workspace, role, key, may_have_reached, queued_ms, tried_ms, what } = new;
        let number = self.index().last + 1;
        let entry = Entry {
            number,
            workspace,
            role,
            key,
            may_have_reached,
            queued_ms,
            tried_ms,
            what,
            failed: None,
        };
        let bytes = entry.encode();
        let size = bytes.len();
        if ENTRY_BYTES_MAX < size {
            return Err(NotKept::TooLarge(size));
        }
        let size = size as u64;
        {
            let index = self.index();
            if ENTRIES_MAX <= index.entries.len() {
                return Err(NotKept::Full);
            }
            if BYTES_MAX < index.bytes + size {
                return Err(NotKept::FullOfBytes);
            }
        }
        self.write(number, bytes).await?;
        self.change(|index| index.insert(&entry, size));
        Ok(entry.summary())
    }

    /// The entry under this key, if it waits: said once more, it is the same.
    pub fn find(&self, role: &RoleId, key: &IdempotencyKey) -> Option<Summary> {
        let index = self.index();
        let slot = index.waiting().find(|slot| slot.key == *key && slot.summary.role == *role)?;
        Some(slot.summary.clone())
    }

    /// The letter that waits and is what this one says again: it has the name that its sender gave
    /// this one, or it is the last of `role` and this may fold; so may those before it that were
    /// under way together with others. So the broker would judge, too; but only one of them has the
    /// id that an agent was told.
    pub fn said_before(
        &self,
        workspace: &WorkspaceId,
        role: &RoleId,
        request: &wire::SendRequest,
    ) -> Option<Before> {
        let content = content_of(request)?;
        let index = self.index();
        let mut letters = index.waiting().rev().filter_map(|slot| {
            let is_own = slot.summary.workspace == *workspace && slot.summary.role == *role;
            slot.said.as_ref().filter(|_| is_own).map(|said| (slot, said))
        });
        if request.client_ref.is_empty() {
            if !request.fold {
                return None;
            }
            let mut newer = EarlierAnswers::UnderWay;
            for (slot, said) in letters.take(LETTERS_KNOWN_MAX) {
                let is_known = match newer {
                    EarlierAnswers::Arrived => return None,
                    EarlierAnswers::Unspecified => said.earlier == EarlierAnswers::UnderWay,
                    EarlierAnswers::UnderWay => true,
                };
                if is_known && said.content == Some(content) {
                    return Some(Before::Same(slot.summary.clone()));
                }
                newer = said.earlier;
            }
            return None;
        }
        let (named, said) = letters.find(|(_, said)| said.name == request.client_ref)?;
        let known = said.content?;
        let summary = named.summary.clone();
        Some(if known == content { Before::Same(summary) } else { Before::Other(summary) })
    }

    /// Roles with something that waits to go to this workspace.
    pub fn roles(&self, workspace: &WorkspaceId) -> Vec<RoleId> {
        let index = self.index();
        let of = index.waiting().filter(|slot| slot.summary.workspace == *workspace);
        let roles: BTreeSet<_> = of.map(|slot| slot.summary.role.clone()).collect();
        roles.into_iter().collect()
    }

    /// What goes out next of what a role has for this workspace.
    pub fn next(&self, workspace: &WorkspaceId, role: &RoleId) -> Option<u64> {
        let index = self.index();
        let mut of = index
            .waiting()
            .filter(|slot| slot.summary.workspace == *workspace && slot.summary.role == *role);
        of.next().map(|slot| slot.summary.number)
    }

    /// One entry with its words. `None` when it is there no more; one whose file was damaged
    /// meanwhile is left out from then on.
    pub async fn get(&self, number: u64) -> io::Result<Option<Entry>> {
        let path = files::path(&self.0.directory, number);
        let read = on_disk(move || files::get(&path)).await?;
        match read {
            Some(Ok(entry)) => return Ok(Some(entry)),
            Some(Err(why)) => {
                tracing::error!(number, %why, "a letter in the outbox is damaged");
            }
            None => {}
        }
        self.change(|index| index.remove(number));
        Ok(None)
    }

    /// Puts `entry` in the place of what was there under its number.
    pub async fn update(&self, entry: &Entry) -> io::Result<()> {
        let _writing = self.0.writing.lock().await;
        if !self.index().entries.contains_key(&entry.number) {
            // A person dropped it meanwhile.
            return Ok(());
        }
        self.put(entry).await
    }

    /// Puts what `change` makes of an entry in its place; whoever else writes comes before or
    /// after. Whether there was something to be changed is answered.
    async fn change_entry(
        &self,
        number: u64,
        change: impl FnOnce(Entry) -> Option<Entry>,
    ) -> io::Result<bool> {
        let _writing = self.0.writing.lock().await;
        let Some(entry) = self.get(number).await?.and_then(change) else { return Ok(false) };
        self.put(&entry).await?;
        Ok(true)
    }

    async fn put(&self, entry: &Entry) -> io::Result<()> {
        let bytes = entry.encode();
        let size = bytes.len() as u64;
        self.write(entry.number, bytes).await?;
        self.change(|index| index.insert(entry, size));
        Ok(())
    }

    /// Takes an entry away for good. One that is not there is gone; whether it was is answered.
    pub async fn remove(&self, number: u64) -> io::Result<bool> {
        let _writing = self.0.writing.lock().await;
        let path = files::path(&self.0.directory, number);
        let taken = on_disk(move || {
            let was_there = path.exists();
            tasuki_proto::host::files::remove(&path).map(|()| was_there)
        });
        let was_there = taken.await?;
        self.change(|index| index.remove(number));
        Ok(was_there)
    }

    /// The broker will not have it: it is kept, with the reason, and goes out no more.
    pub async fn fail(&self, entry: &Entry, failed: Failed) -> io::Result<()> {
        self.update(&Entry { failed: Some(failed), ..entry.clone() }).await?;
        loop {
            let surplus = self.index().surplus();
            let Some(oldest) = surplus else { return Ok(()) };
            tracing::warn!(number = oldest, "too many failed letters: the oldest is dropped");
            self.remove(oldest).await?;
        }
    }

    /// Has a failed entry go out again, under `key`: the broker has judged the one it had.
    pub async fn retry(&self, number: u64, key: IdempotencyKey) -> io::Result<bool> {
        let again = |entry: Entry| {
            entry.failed.as_ref()?;
            Some(Entry { key, may_have_reached: false, tried_ms: None, failed: None, ..entry })
        };
        self.change_entry(number, again).await
    }

    /// The agent of `role` was told that these failed. Those of other roles stay as they are.
    pub async fn mark_told(&self, role: &RoleId, told: Untold) -> io::Result<()> {
        for it in &told.entries {
            let told = |entry: Entry| {
                let failed = entry.failed.clone().filter(|failed| !failed.is_told)?;
                let failed = Some(Failed { is_told: true, ..failed });
                (entry.role == *role).then_some(Entry { failed, ..entry })
            };
            self.change_entry(it.number, told).await?;
        }
        Ok(())
    }

    /// What of a role failed and its agent was not told, the oldest `max` of it, but for what
    /// another answer under way tells already.
    pub fn untold(&self, role: &RoleId, max: usize) -> Untold {
        let index = self.index();
        let mut telling = self.0.telling.lock();
        let is_untold = |it: &&Summary| {
            it.role == *role
                && it.failed.as_ref().is_some_and(|failed| !failed.is_told)
                && !telling.contains(&it.number)
        };
        let all = index.entries.values().map(|slot| &slot.summary);
        let entries: Vec<_> = all.filter(is_untold).take(max).cloned().collect();
        telling.extend(entries.iter().map(|it| it.number));
        Untold { entries, telling: Arc::clone(&self.0.telling) }
    }

    /// What of a role is about a thread, which goes by any of `names`: an id, the beginning of one,
    /// a file's name.
    pub fn about(&self, role: &RoleId, names: &[String]) -> Vec<Summary> {
        let is_name = |said: &str| {
            let is_same = |name: &&String| name.starts_with(said) || said.starts_with(&***name);
            !said.is_empty() && names.iter().filter(|name| !name.is_empty()).any(|it| is_same(&it))
        };
        let is_about = |it: &&Summary| match &it.what {
            Summarised::Send { message, .. } => is_name(message),
            Summarised::Move { messages, .. } => messages.iter().any(|it| is_name(it)),
        };
        let index = self.index();
        let all = index.entries.values().map(|slot| &slot.summary);
        all.filter(|it| it.role == *role).filter(is_about).cloned().collect()
    }

    pub fn list(&self) -> Vec<Summary> {
        self.index().entries.values().map(|slot| slot.summary.clone()).collect()
    }

    pub fn counts(&self) -> Counts {
        let index = self.index();
        let queued = index.waiting().count();
        Counts { queued, failed: index.entries.len() - queued }
    }

    /// Changes whenever something comes, goes, or fails.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    async fn write(&self, number: u64, bytes: Vec<u8>) -> io::Result<()> {
        let path = files::path(&self.0.directory, number);
        on_disk(move || tasuki_proto::host::files::replace(&path, &bytes)).await
    }
}

impl NotKept {
    /// What an agent is told.
    pub fn refusal(&self) -> Refusal {
        let (reason, then) = match self {
            Self::Full | Self::FullOfBytes => {
                (Reason::Overloaded, "Call again when the broker is back.")
            }
            Self::TooLarge(_) => (Reason::TooLarge, "Shorten it."),
            Self::Io(_) => (Reason::Unavailable, "Call again when the broker is back."),
        };
        let message = format!("The broker is unreachable, and {self}. No change was made. {then}");
        Refusal { reason, message }
    }
}

#[cfg(test)]
mod tests;
