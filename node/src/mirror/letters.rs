//! Sends what somebody put into the outbox.
//!
//! A file waits until it stops changing. It is sent under a name that its own name, its content and
//! its time make, and taken away when it is sent: killed in between, the node sends it once more
//! under the same name. While the broker is out of reach the letter is in the node's own outbox, and
//! its file is called `NAME.queued`; it is asked about until it is through. What cannot be sent is
//! called `NAME.rejected`, with the reason in `NAME.rejected.txt`. What cannot be read, or not be
//! taken away, stays, is told of, and holds nothing up.
//!
//! Files that lay in the outbox before it was kept are left alone (Z9): they are mail of long ago, or
//! came with a repository. Whoever wants one sent changes it. Nor is a file sent that Git tracks, or
//! that holds what such a one was seen to hold: a pull may have brought it.

use std::{collections::BTreeSet, io, sync::Arc, time::Duration};

use tasuki_proto::{id::Timestamp, limits::CLIENT_REFS_MAX, mail::BoxKind, reason::Reason};
use tokio::time::Instant;

use super::{
    disk::{self, Done, FileState, Hash, Stamp},
    dropped::{Dropped, reason},
    home::Boxes,
    keeper::Keeper,
    name::{QUEUED, REJECTED},
    shared::{Read, Shared, SyncError, note, on_disk},
};
use crate::{
    clock,
    filebox::{Document, Entry},
    link::Sent,
    mail_terms::{self, NoReceivers},
    refusal::Refusal,
    repository::{self, NoAnswer, Tracked},
};

/// For so long a file must not change, in milliseconds: whoever copies it writes more often. The
/// office in tests writes at once.
const SETTLED_MS: u64 = if cfg!(test) { 100 } else { 700 };

/// Between two questions whether a queued letter is through, in milliseconds.
const QUEUED_MS: u64 = 1_000;

/// Letters sent until the rest of the mailbox is looked at again.
const LETTERS_AT_ONCE: usize = 64;

/// Letters of files that wait in the node's own outbox, of one role; more wait where they are. A
/// quarter of the names that a mailbox knows its sender's letters by, so that each is still known
/// when its file is asked about.
pub(super) const QUEUED_MAX: usize = CLIENT_REFS_MAX / 4;

/// Why a file that came with a repository stays, to follow its name.
const TRACKED: &str = "is tracked by Git, so a pull may have brought it, and is not sent; a copy \
                       under another name is, once it is changed, and `.gitignore` keeps \
                       docs/mailbox out of commits";

/// The same of one that holds what such a file held.
const WAS_TRACKED: &str = "holds what a file held that Git tracked, so a pull may have brought it, \
                           and is not sent until it is changed";

/// What Git says of an outbox, if it says anything.
type OfGit = Result<Option<Tracked>, NoAnswer>;

/// What became of one.
enum SendOutcome {
    Sent,
    Queued,
    Rejected(String),
    /// It is to be tried again.
    Later(String),
    /// It stays as it is until somebody touches it, for this reason.
    Left(String),
}

impl Keeper {
    /// Notes how a file in the outbox is now.
    pub(super) fn settle(&mut self, name: String, stamp: Stamp) {
        let ready = Instant::now() + Duration::from_millis(SETTLED_MS);
        let known = self.settling.entry(name).or_insert((stamp, ready));
        if known.0 != stamp {
            *known = (stamp, ready);
        }
    }

    /// When the mailbox was first here as a whole: now it is known what is the node's own.
    pub(super) fn begin_sending(&mut self, has_looked: bool) {
        if self.shared.index().is_synced || !has_looked {
            return;
        }
        self.settling.retain(|name, _| !is_mirrored(&self.shared, name));
        note(self.shared.index().synced());
        // What was passed over until all was known.
        self.shared.dirty.all_files();
    }

    /// Sends what is ready; when there is more at the latest.
    pub(super) async fn send_letters(
        &mut self,
        boxes: &Arc<Boxes>,
    ) -> Result<Option<Instant>, SyncError> {
        let now = Instant::now();
        let again = now + Duration::from_millis(QUEUED_MS);
        let (ready, waiting): (Vec<_>, Vec<_>) =
            self.settling.iter().partition(|(_, (_, at))| *at <= now);
        let mut next = waiting.into_iter().map(|(_, (_, at))| *at).min();
        let mut at_latest = |at: Instant| next = Some(next.map_or(at, |next| next.min(at)));
        if LETTERS_AT_ONCE < ready.len() {
            at_latest(now);
        }
        let ready: Vec<(String, Stamp)> = ready
            .into_iter()
            .take(LETTERS_AT_ONCE)
            .map(|(name, (stamp, _))| (name.clone(), *stamp))
            .collect();
        // Each was there before this is asked: Git has noted it if it is Git's, or is about to.
        let is_queued = !self.queued.is_empty() && self.shared.source.is_ready();
        let tracked = match is_queued || !ready.is_empty() {
            true => of_git(&self.shared, boxes).await?,
            false => Ok(None),
        };
        for (name, stamp) in ready {
            if QUEUED_MAX <= self.queued.len() && !self.shared.source.is_ready() {
                at_latest(again);
                break;
            }
            let outcome = self.send_file(boxes, &name, &name, Some(stamp), &tracked).await?;
            self.note_outcome(boxes, &name, outcome.as_ref());
            match outcome {
                Some(SendOutcome::Later(why)) => {
                    tracing::debug!(name, why, "a letter waits in the outbox");
                    if let Some(known) = self.settling.get_mut(&name) {
                        known.1 = known.1.max(again);
                    }
                    at_latest(again);
                }
                Some(SendOutcome::Queued) => {
                    let queued = format!("{name}.{QUEUED}");
                    self.queued.insert(queued, name.clone());
                    self.settling.remove(&name);
                }
                Some(SendOutcome::Sent | SendOutcome::Rejected(_) | SendOutcome::Left(_))
                | None => {
                    self.settling.remove(&name);
                }
            }
        }
        for (file, name) in self.queued.clone() {
            if self.shared.source.is_ready() {
                let outcome = self.send_file(boxes, &file, &name, None, &tracked).await?;
                self.note_outcome(boxes, &file, outcome.as_ref());
                match outcome {
                    Some(SendOutcome::Later(_) | SendOutcome::Queued) => {}
                    Some(SendOutcome::Sent | SendOutcome::Rejected(_) | SendOutcome::Left(_))
                    | None => {
                        self.queued.remove(&file);
                    }
                }
            }
        }
        if !self.queued.is_empty() {
            at_latest(again);
        }
        self.shared.status().unsent = self.settling.len() + self.queued.len();
        Ok(next)
    }

    /// Tells people of a file that stays as it is, once.
    fn note_outcome(&self, boxes: &Boxes, file: &str, outcome: Option<&SendOutcome>) {
        let path = boxes.file(BoxKind::Outbox, file);
        match outcome {
            Some(SendOutcome::Left(why)) => self.shared.leave(path, why),
            Some(
                SendOutcome::Sent
                | SendOutcome::Queued
                | SendOutcome::Rejected(_)
                | SendOutcome::Later(_),
            )
            | None => {
                self.shared.status().unread.remove(&path);
            }
        }
    }

    /// `None`: there is nothing to send.
    async fn send_file(
        &mut self,
        boxes: &Arc<Boxes>,
        file: &str,
        name: &str,
        settled: Option<Stamp>,
        tracked: &OfGit,
    ) -> Result<Option<SendOutcome>, SyncError> {
        let (of, own) = (boxes.clone(), file.to_owned());
        let read = move |_: &Shared| disk::read_own(of.folder(BoxKind::Outbox), &own);
        let (bytes, stamp) = match on_disk(&self.shared, read).await {
            Ok(FileState::Nothing) => return Ok(None),
            Ok(FileState::File(bytes, stamp)) => (bytes, stamp),
            Ok(FileState::Strange(why)) => return Ok(Some(SendOutcome::Left(why))),
            Err(why) => return Ok(Some(SendOutcome::Left(format!("cannot be read: {why}")))),
        };
        if settled.is_some_and(|settled| settled != stamp) {
            self.settle(name.to_owned(), stamp);
            return Ok(Some(SendOutcome::Later("it changes".to_owned())));
        }
        let (is_synced, was_before, was_sent) = {
            let index = self.shared.index();
            (index.is_synced, index.was_before(file, stamp), index.was_sent(name, stamp))
        };
        if was_before || is_mirrored(&self.shared, name) {
            return Ok(None);
        }
        let hash = Hash::of(&bytes);
        if self.shared.index().held_before(hash) {
            self.shared.index().note_before(file, stamp);
            self.shared.status().before.insert(boxes.file(BoxKind::Outbox, file));
            return Ok(None);
        }
        if let Some(outcome) = outcome_of_tracked(tracked, file) {
            note_tracked(&self.shared, tracked, file, hash);
            return Ok(Some(outcome));
        }
        if self.shared.index().was_tracked(hash) {
            return Ok(Some(SendOutcome::Left(WAS_TRACKED.to_owned())));
        }
        let read = Dropped::read(&self.shared.role, name, &bytes, stamp, now());
        let is_draft = read.as_ref().is_ok_and(|it| it.is_draft);
        if !is_draft && !is_synced {
            return Ok(Some(SendOutcome::Later(
                "the mailbox is not here as a whole yet".to_owned(),
            )));
        }
        let (file, name) = (file.to_owned(), name.to_owned());
        let outcome = match read {
            _ if was_sent => SendOutcome::Sent,
            Ok(dropped) => self.send(&dropped).await?,
            Err(why) => SendOutcome::Rejected(why),
        };
        if let Err(why) = self.end(boxes, file, name.clone(), hash, &outcome).await {
            let what = if matches!(outcome, SendOutcome::Sent) {
                // The broker knows a letter again for a while, and this for good.
                note(self.shared.index().note_sent(&name, stamp));
                "was sent and cannot be taken away"
            } else {
                "cannot be given its new name"
            };
            return Ok(Some(SendOutcome::Left(format!("{what}: {why}"))));
        }
        Ok(Some(outcome))
    }

    async fn send(&self, dropped: &Dropped) -> Result<SendOutcome, SyncError> {
        let shared = &self.shared;
        let thread = match dropped.document.message_id {
            None => None,
            Some(id) => match shared.read(id).await {
                Ok(Read::Unknown) => None,
                Ok(Read::Whole(thread, entries)) => {
                    Some(Document::of_stored(&thread, &entries).shown().entries)
                }
                // A text that nobody sent before need not be compared.
                Ok(Read::TooLarge(_)) if dropped.is_draft => Some(Vec::new()),
                Ok(Read::TooLarge(_)) => {
                    let why = "Its thread is too large to be compared.";
                    return Ok(SendOutcome::Rejected(why.to_owned()));
                }
                // What is known without the broker will do for it, too.
                Err(SyncError::Broker(_)) if dropped.is_draft => {
                    shared.index().get(id).map(|_| Vec::<Entry>::new())
                }
                Err(SyncError::Broker(why)) => return Ok(SendOutcome::Later(why)),
                Err(trouble) => return Err(trouble),
            },
        };
        let offset = clock::utc_offset_s();
        let mut request = match dropped.letter(&shared.role, thread.as_deref(), offset) {
            Ok(request) => request,
            Err(why) => return Ok(SendOutcome::Rejected(why)),
        };
        let mut known = BTreeSet::new();
        if mail_terms::names_a_group(&request.to, &shared.groups) {
            match shared.ask(shared.source.roles()).await? {
                Ok(roles) => known = roles,
                Err(why) if why.reason == Reason::RightForbidden => {}
                Err(why) => return Ok(SendOutcome::Later(why.message)),
            }
        }
        match mail_terms::receivers(&request.to, &shared.groups, &known, &shared.role) {
            Ok(to) => request.to = to.iter().map(ToString::to_string).collect(),
            Err(NoReceivers::Nobody) => {
                return Ok(SendOutcome::Rejected(
                    "It goes to a group with nobody else in it.".into(),
                ));
            }
            Err(NoReceivers::Ambiguous(name)) => {
                return Ok(SendOutcome::Rejected(format!(
                    "It goes to {name}, which is both a group of the configuration and a role of \
                     the workspace."
                )));
            }
            // The broker says which, and what the limit is.
            Err(NoReceivers::Name { .. } | NoReceivers::TooMany(_)) => {}
        }
        let id =
            if request.in_reply_to.is_empty() { &request.message_id } else { &request.in_reply_to };
        let id = id.parse().ok();
        let shown = id.and_then(|id| Some((id, shared.index().get(id)?.entries)));
        if let Some((id, through)) = shown.filter(|(_, through)| *through != 0) {
            let saw = shared.source.saw(&shared.role, id, through);
            shared.stop.run_until_cancelled(saw).await.ok_or(SyncError::Stopped)?;
        }
        let sent = shared.source.send(&shared.role, request);
        let is_own_id = dropped.document.message_id.is_none();
        let outcome = outcome(shared.ask(sent).await?, is_own_id);
        if let (SendOutcome::Sent, Some(id)) = (&outcome, id) {
            // Whatever the feed says, or when.
            shared.dirty.thread(id, true);
        }
        Ok(outcome)
    }

    /// Does with the file what became of the letter.
    async fn end(
        &self,
        boxes: &Arc<Boxes>,
        file: String,
        name: String,
        hash: Hash,
        outcome: &SendOutcome,
    ) -> io::Result<()> {
        let shared = &self.shared;
        let of = boxes.clone();
        match outcome {
            SendOutcome::Sent => {
                tracing::info!(role = %shared.role, name, "a letter from the outbox was sent");
                let done = on_disk(shared, move |shared| {
                    shared.disk.take_away(of.folder(BoxKind::Outbox), &file, hash)
                });
                if let Done::Aside(name) = done.await? {
                    shared.put_aside([boxes.file(BoxKind::Outbox, &name)]);
                }
            }
            SendOutcome::Queued => {
                on_disk(shared, move |shared| {
                    let folder = of.folder(BoxKind::Outbox);
                    let queued = format!("{name}.{QUEUED}");
                    if file == queued {
                        return Ok(Done::Yes);
                    }
                    shared.disk.rename((folder, &file), (folder, &queued))
                })
                .await?;
            }
            SendOutcome::Rejected(why) => {
                tracing::warn!(role = %shared.role, name, why, "a file in the outbox cannot be sent");
                let why = why.clone();
                let reject = move |shared: &Shared| reject(shared, &of, &file, &name, &why);
                let aside = on_disk(shared, reject).await?;
                shared.status().aside.insert(boxes.file(BoxKind::Outbox, &aside));
            }
            SendOutcome::Later(_) | SendOutcome::Left(_) => {}
        }
        Ok(())
    }
}

fn reject(shared: &Shared, boxes: &Boxes, file: &str, name: &str, why: &str) -> io::Result<String> {
    let folder = boxes.folder(BoxKind::Outbox);
    let why = reason(why);
    shared.disk.put_aside_with(folder, file, name, REJECTED, why.as_bytes())
}

async fn of_git(shared: &Arc<Shared>, boxes: &Arc<Boxes>) -> io::Result<OfGit> {
    let of = boxes.clone();
    on_disk(shared, move |_| Ok(repository::tracked_in(of.folder(BoxKind::Outbox).path()))).await
}

fn outcome_of_tracked(tracked: &OfGit, file: &str) -> Option<SendOutcome> {
    match tracked {
        Ok(Some(tracked)) => tracked.has(file).then(|| SendOutcome::Left(TRACKED.to_owned())),
        Ok(None) => Some(SendOutcome::Later("Git is writing".to_owned())),
        Err(why) => Some(SendOutcome::Left(format!(
            "is not sent, for whether Git tracks it is not known: {why}"
        ))),
    }
}

/// Keeps in mind what a file holds that Git tracks: what no longer tracks it, as a change that was put
/// away and taken out again, has not written it.
fn note_tracked(shared: &Shared, tracked: &OfGit, file: &str, hash: Hash) {
    if matches!(tracked, Ok(Some(tracked)) if tracked.has(file)) {
        note(shared.index().note_tracked(hash));
    }
}

/// Whether what an interrupted change left in an outbox may become a letter again.
pub(super) fn may_return(shared: &Shared, boxes: &Boxes, file: &str) -> bool {
    let outbox = boxes.folder(BoxKind::Outbox);
    let tracked = repository::tracked_in(outbox.path());
    match outcome_of_tracked(&tracked, file) {
        Some(SendOutcome::Left(why)) => {
            if let Some(hash) = disk::read_own(outbox, file).ok().and_then(|it| it.hash()) {
                note_tracked(shared, &tracked, file, hash);
            }
            shared.leave(outbox.join(file), &why);
        }
        Some(_) => {}
        None => return true,
    }
    false
}

/// Whether a thread's file has this name in the outbox: the node wrote it, or is about to.
fn is_mirrored(shared: &Shared, name: &str) -> bool {
    let index = shared.index();
    let known = index.named(name).and_then(|id| index.get(id));
    known.is_some_and(|known| known.kind == BoxKind::Outbox && known.name == name)
}

/// What the answer means for the file. `is_own_id`: the id of the thread that it begins was made
/// from it; else the letter had a name that was, so words that name has are this letter's.
fn outcome(answer: Result<Sent, Refusal>, is_own_id: bool) -> SendOutcome {
    match answer {
        Ok(Sent::Stored(_)) => SendOutcome::Sent,
        Ok(Sent::Queued { .. }) => SendOutcome::Queued,
        Err(Refusal { reason: Reason::MessageExists, .. }) if is_own_id => SendOutcome::Sent,
        Err(Refusal { reason: Reason::KeyReused, .. }) if !is_own_id => SendOutcome::Sent,
        Err(refusal) if refusal.reason.is_retryable() || is_passing(refusal.reason) => {
            SendOutcome::Later(refusal.message)
        }
        Err(refusal) => SendOutcome::Rejected(format!("{} ({})", refusal.message, refusal.reason)),
    }
}

/// Whether it is not about the letter.
fn is_passing(reason: Reason) -> bool {
    [Reason::Unauthenticated, Reason::RoleForbidden, Reason::KeyExpired].contains(&reason)
}

fn now() -> Timestamp {
    Timestamp::from_millis(clock::wall_ms())
}
