//! Keeps the files of one role: the only one who changes them.
//!
//! It takes what it was told of and looks: the broker says how a thread is, the index how its file
//! was left, the disk how it is. What cannot be done yet stays to be done. Mail waits for none of
//! this.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use futures::StreamExt as _;
use notify::RecommendedWatcher;
use tasuki_proto::mail::{BoxKind, MessageId};
use tokio::time::{self, Instant};

use super::{
    dirty_set::Pending,
    disk::{Done, Stamp},
    home::{Boxes, Home},
    index::Before,
    letters, name,
    scan::{self, ScanResult},
    shared::{Shared, SyncError, note, on_disk, refresh},
    watch,
};
use crate::{
    client::retry::{Backoff, chance},
    clock,
    dir::Dir,
};

/// Threads read and written at once: a disk and a broker do several in the time of one.
const AT_ONCE: usize = 8;

/// Threads until the rest is looked at again.
const BATCH: usize = 256;

/// Between two looks at all files where the system tells of none, in milliseconds.
const POLL_MS: u64 = 2_000;

/// The same where it does: it may forget some.
const WATCHED_MS: u64 = 30_000;

/// Between attempts of what failed, in milliseconds.
pub(super) const RETRY_MS_MIN: u64 = 500;
const RETRY_MS_MAX: u64 = 30_000;

/// The same where the disk is in the way, in milliseconds: nobody tells when it no longer is.
const DISK_RETRY_MS_MAX: u64 = 5_000;

/// One role's keeper.
pub(super) struct Keeper {
    pub(super) shared: Arc<Shared>,
    /// As they were last looked up, and whether the system tells of changes there.
    boxes: Option<Arc<Boxes>>,
    watcher: Option<RecommendedWatcher>,
    /// While it is open, no other node keeps a mailbox in this folder.
    held: Option<fs::File>,
    /// What people were told stands in the way.
    problem: Option<io::ErrorKind>,
    /// When all files are looked at again.
    look_again: Instant,
    backoff: Backoff,
    /// Files in the outbox as they are, and when each is to be sent.
    pub(super) settling: BTreeMap<String, (Stamp, Instant)>,
    /// Letters that wait for the broker: their files now, and the names they had.
    pub(super) queued: BTreeMap<String, String>,
}

impl Keeper {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            boxes: None,
            watcher: None,
            held: None,
            problem: None,
            look_again: Instant::now(),
            backoff: Backoff::between(RETRY_MS_MIN, RETRY_MS_MAX),
            settling: BTreeMap::new(),
            queued: BTreeMap::new(),
        }
    }

    /// Runs until the mirror stops.
    pub(super) async fn run(mut self) {
        let (stop, dirty) = (self.shared.stop.clone(), self.shared.dirty.clone());
        self.shared.remember().await;
        while !stop.is_cancelled() {
            let pause = match self.round().await {
                Ok(next) => {
                    self.backoff.reset();
                    self.shared.status().refused = None;
                    self.fares(None);
                    next.saturating_duration_since(Instant::now())
                }
                Err(SyncError::Stopped) => return,
                Err(SyncError::Disk(error)) => {
                    self.boxes = None;
                    self.fares(Some(&error));
                    self.backoff.pause(chance()).min(Duration::from_millis(DISK_RETRY_MS_MAX))
                }
                Err(SyncError::Broker(why)) => {
                    tracing::debug!(why, "the mirror waits for the broker");
                    self.shared.status().refused = Some(why);
                    self.backoff.pause(chance())
                }
            };
            let source = self.shared.source.clone();
            let is_away = !source.is_ready();
            tokio::select! {
                () = stop.cancelled() => return,
                () = dirty.told() => {}
                () = source.ready(), if is_away => self.backoff.reset(),
                () = time::sleep(pause) => {}
            }
        }
    }

    /// What stands in the way is said once, whichever files it keeps out.
    fn fares(&mut self, problem: Option<&io::Error>) {
        self.shared.status().problem = problem.map(ToString::to_string);
        let kind = problem.map(io::Error::kind);
        if std::mem::replace(&mut self.problem, kind) == kind {
            return;
        }
        let folder = self.shared.home.folder();
        let (role, folder) = (&self.shared.role, folder.display());
        match problem {
            Some(why) => {
                tracing::error!(%role, %folder, %why, "a mailbox on disk cannot be kept; retrying");
            }
            None => tracing::info!(%role, %folder, "a mailbox on disk is kept again"),
        }
    }

    /// Does what there is to do; when there is more at the latest.
    async fn round(&mut self) -> Result<Instant, SyncError> {
        let boxes = self.open().await?;
        let mut pending = self.shared.dirty.take();
        if self.look_again <= Instant::now() {
            // Said to nobody: it would end the pause after what failed.
            pending.is_all_files = true;
            pending.names.clear();
        }
        let done = self.work(&boxes, &mut pending).await;
        // Whatever was not ended is to be done again; it is no reason to keep letters.
        self.shared.dirty.put_back(pending);
        let letters = match &done {
            Ok(()) | Err(SyncError::Broker(_) | SyncError::Disk(_)) => {
                self.send_letters(&boxes).await?
            }
            Err(SyncError::Stopped) => None,
        };
        done?;
        Ok(letters.map_or(self.look_again, |it| it.min(self.look_again)))
    }

    async fn work(&mut self, boxes: &Arc<Boxes>, pending: &mut Pending) -> Result<(), SyncError> {
        let shared = self.shared.clone();
        let is_ready = shared.source.is_ready();
        if is_ready && pending.is_all_mail {
            self.list(pending).await?;
            pending.is_all_mail = false;
        }
        let was_all = pending.is_all_files || !shared.index().is_synced;
        let refreshed = if is_ready { self.refresh(boxes, pending).await } else { Ok(()) };
        // What is wrong with one thread keeps nobody from looking at the rest.
        self.look(boxes, pending).await?;
        refreshed?;
        if is_ready {
            self.refresh(boxes, pending).await?;
            if pending.threads.is_empty() && !pending.is_all_mail {
                self.begin_sending(was_all);
                shared.status().synced_ms = clock::wall_ms();
            }
        }
        shared.status().waiting = pending.threads.len();
        Ok(())
    }

    /// Looks the folders up, and makes them.
    async fn open(&mut self) -> Result<Arc<Boxes>, SyncError> {
        let is_first = self.boxes.is_none();
        let opened = on_disk(&self.shared, move |shared| {
            if is_first {
                settle_in(shared)?;
            }
            shared.home.open_with(|outbox| keep_new(shared, outbox))
        });
        let boxes = Arc::new(opened.await?);
        if let Some(known) = self.boxes.as_ref().filter(|known| known.is_same(&boxes)) {
            return Ok(known.clone());
        }
        self.boxes = None;
        self.held = None;
        let of = boxes.clone();
        let held = on_disk(&self.shared, move |shared| {
            let held = of.hold()?;
            keep_outbox(shared, &of)?;
            Ok(held)
        });
        self.held = Some(held.await?);
        let told = watch::watch(&boxes, &self.shared.dirty);
        let is_watched = told.is_ok();
        self.watcher = match told {
            Ok(watcher) => Some(watcher),
            Err(why) => {
                let role = &self.shared.role;
                tracing::warn!(%role, why, "the system does not tell of changed files; looking");
                None
            }
        };
        self.shared.status().is_watched = is_watched;
        self.boxes = Some(boxes.clone());
        self.look_again = Instant::now();
        Ok(boxes)
    }

    /// Finds the threads that are not as their files are.
    async fn list(&self, pending: &mut Pending) -> Result<(), SyncError> {
        let shared = &self.shared;
        let mut listed = BTreeSet::new();
        for kind in BoxKind::ALL {
            let mut after = String::new();
            loop {
                let page = shared.ask(shared.source.list(&shared.role, kind, &after)).await??;
                let (index, status) = (shared.index(), shared.status());
                for thread in &page.threads {
                    let Ok(id) = thread.message_id.parse() else { continue };
                    listed.insert(id);
                    let is_so = index
                        .get(id)
                        .is_some_and(|known| (known.kind, known.entries) == (kind, thread.entries));
                    let is_too_large = status.too_large.get(&id) == Some(&thread.entries);
                    if !is_so && !is_too_large {
                        pending.threads.insert(id, true);
                    }
                }
                drop((index, status));
                if page.next.is_empty() || page.next == after {
                    break;
                }
                after = page.next;
            }
        }
        // Moved meanwhile, or of another journal.
        let index = shared.index();
        let gone = index.iter().map(|(id, _)| id).filter(|id| !listed.contains(id));
        pending.threads.extend(gone.map(|id| (id, true)));
        Ok(())
    }

    /// Brings the files of threads to what the broker says; takes them out of `pending`.
    async fn refresh(&self, boxes: &Arc<Boxes>, pending: &mut Pending) -> Result<(), SyncError> {
        {
            let index = self.shared.index();
            pending.threads.retain(|id, is_certain| *is_certain || index.get(*id).is_some());
        }
        let all: Vec<MessageId> = pending.threads.keys().copied().collect();
        let mut trouble = None;
        for batch in all.chunks(BATCH) {
            self.shared.status().waiting = pending.threads.len();
            let one = async |id: MessageId| (id, refresh(&self.shared, boxes, id).await);
            let batch = batch.iter().copied();
            let mut done = futures::stream::iter(batch).map(one).buffer_unordered(AT_ONCE);
            let mut is_going = false;
            while let Some((id, result)) = done.next().await {
                match result {
                    Ok(()) => {
                        pending.threads.remove(&id);
                        is_going = true;
                    }
                    Err(why) => trouble = Some(why),
                }
            }
            // A single thread's trouble is no other's.
            let is_everybodys = match trouble {
                Some(SyncError::Stopped) => true,
                Some(SyncError::Disk(_)) => !is_going,
                Some(SyncError::Broker(_)) | None => false,
            };
            if is_everybodys || !self.shared.source.is_ready() {
                break;
            }
        }
        trouble.map_or(Ok(()), Err)
    }

    /// Looks at the files, and notes what is to be done about them.
    async fn look(&mut self, boxes: &Arc<Boxes>, pending: &mut Pending) -> Result<(), SyncError> {
        let (is_all, names) = (pending.is_all_files, pending.names.clone());
        if !is_all && names.is_empty() {
            return Ok(());
        }
        let of = boxes.clone();
        let seen = on_disk(&self.shared, move |shared| {
            let observed = match is_all {
                true => scan::look_at_all(&of)?,
                false => scan::look_at_some(&of, names)?,
            };
            let seen = ScanResult::of(&shared.index(), &of, observed, is_all);
            // Nobody writes while this looks: they are of interrupted changes.
            let remove =
                |(kind, name): &(BoxKind, String)| shared.disk.remove(of.folder(*kind), name);
            seen.halves.iter().try_for_each(remove)?;
            Ok(seen)
        });
        let ScanResult { touched, dropped, queued, before, aside, olds, halves: _ } = seen.await?;
        (pending.is_all_files, pending.names) = Default::default();
        pending.threads.extend(touched.into_iter().map(|id| (id, true)));
        if is_all {
            self.settling.retain(|name, _| dropped.contains_key(name));
            self.queued = queued;
            let mut status = self.shared.status();
            status.aside = aside;
            status.before = before;
            status.unread.retain(|path, _| {
                let name = path.file_name().and_then(|name| name.to_str());
                name.is_some_and(|name| {
                    let is_old = |(_, own): &(_, String)| name::old(own) == name;
                    dropped.contains_key(name)
                        || self.queued.contains_key(name)
                        || olds.iter().any(is_old)
                })
            });
            drop(status);
            let poll = if self.watcher.is_some() { WATCHED_MS } else { POLL_MS };
            self.look_again = Instant::now() + Duration::from_millis(poll);
        } else {
            self.queued.extend(queued);
            let mut status = self.shared.status();
            status.aside.extend(aside);
            status.before.extend(before);
        }
        for (name, stamp) in dropped {
            self.settle(name, stamp);
        }
        if self.shared.index().is_synced && !olds.is_empty() {
            let of = boxes.clone();
            let end = move |shared: &Shared| end_olds(shared, &of, &olds);
            let aside = on_disk(&self.shared, end).await?;
            self.shared.put_aside(aside);
        }
        Ok(())
    }
}

/// Before the folders are first looked up: takes along what the role had elsewhere in the project.
fn settle_in(shared: &Shared) -> io::Result<()> {
    let folder = shared.home.folder();
    let had = shared.index().folder.clone();
    if had.as_ref() == Some(&folder) {
        return Ok(());
    }
    let before = shared.home.before().filter(|before| had.as_ref() == Some(&before.folder()));
    if let Some(before) = &before {
        let keep = |outbox: &Dir| keep_new(shared, outbox);
        let (from, to) = (before.open_with(keep)?, shared.home.open_with(keep)?);
        // What either brings along that was never kept stays unsent.
        keep_outbox(shared, &from)?;
        keep_outbox(shared, &to)?;
        let left = Home::take_over(&from, &to, &shared.disk)?;
        let (role, from, to) = (&shared.role, before.folder(), folder.clone());
        let (from, to) = (from.display(), to.display());
        tracing::warn!(%role, %from, %to, left, "a mailbox moved, for another role came into its project");
    } else if let Some(had) = had {
        let (role, from, to) = (&shared.role, had.display(), folder.display());
        tracing::warn!(%role, %from, %to, "a mailbox is kept elsewhere; its old files stay");
    }
    note(shared.index().begin(folder, before.is_some()));
    Ok(())
}

/// Keeps an outbox that was not kept before, and notes what lies in it already: a repository may have
/// brought that, and nobody here means it to be sent.
fn keep_outbox(shared: &Shared, boxes: &Boxes) -> io::Result<()> {
    let outbox = boxes.folder(BoxKind::Outbox);
    let identity = outbox.identity()?;
    if shared.index().keeps(&identity) {
        return Ok(());
    }
    let before = scan::letters(outbox)?;
    shared.index().keep(identity, before)
}

/// The same of one that was made just now: nothing is in it.
fn keep_new(shared: &Shared, outbox: &Dir) -> io::Result<()> {
    let identity = outbox.identity()?;
    shared.index().keep(identity, Before::default())
}

fn end_olds(
    shared: &Shared,
    boxes: &Boxes,
    olds: &BTreeSet<(BoxKind, String)>,
) -> io::Result<Vec<PathBuf>> {
    let mut aside = Vec::new();
    for (kind, own) in olds {
        let folder = boxes.folder(*kind);
        if *kind == BoxKind::Outbox && !letters::may_return(shared, boxes, &name::old(own)) {
            continue;
        }
        // A letter that was being taken away: sent once more, it is the same.
        if *kind == BoxKind::Outbox
            && shared.disk.rename((folder, name::old(own)), (folder, own))? == Done::Yes
        {
            shared.dirty.file(*kind, own.clone());
            continue;
        }
        let done = shared.disk.end_old(boxes.folder(*kind), own, |_| false)?;
        if let Done::Aside(name) = done {
            aside.push(boxes.file(*kind, &name));
        }
    }
    Ok(aside)
}
