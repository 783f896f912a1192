//! Brings one thread's file to where it should be, with what should be in it.
//!
//! What counts as the node's own: what it remembers to have written; what it would have written
//! when the thread was shorter; and of a file that it remembers nothing of, whatever holds nothing
//! but entries of the thread, so that mailboxes that were taken over are not put aside file by file.

use std::{collections::BTreeSet, io, path::PathBuf, sync::Arc};

use tasuki_proto::mail::BoxKind;

use super::{
    disk::{Disk, Done, FileState, Hash, Stamp},
    home::Boxes,
    index::Known,
    name::EDITED,
    plan::{Content, Found, Place, Step, plan},
};
use crate::filebox::{Document, entry_key};

/// How often it is begun anew because somebody writes to the same file.
const TRIES_MAX: usize = 8;

/// A thread's file as it should be.
#[derive(Debug)]
pub(super) struct TargetFile {
    pub(super) kind: BoxKind,
    pub(super) name: String,
    entries: u32,
    document: Document,
    bytes: Vec<u8>,
    hash: Hash,
}

impl TargetFile {
    /// `is_whole`: all of its words could be read; else it is looked at again with each list.
    pub(super) fn new(kind: BoxKind, name: String, document: Document, is_whole: bool) -> Self {
        // Others' words: what nobody sees in them is for nobody who reads the file.
        let document = document.shown();
        let bytes = document.to_markdown().into_bytes();
        let entries = if is_whole { document.entries.len() } else { 0 };
        let entries = u32::try_from(entries).unwrap_or(u32::MAX);
        Self { kind, name, entries, hash: Hash::of(&bytes), document, bytes }
    }

    /// Whether the node could have written this when the thread was shorter.
    fn was(&self, bytes: &[u8]) -> bool {
        let Ok(read) = Document::read(bytes) else { return false };
        let whole = &self.document;
        let count = read.entries.len();
        let Some(later) = whole.entries.len().checked_sub(count) else { return false };
        let entries = whole.entries[later..].to_vec();
        let shorter = Document::new(whole.message_id, &whole.kind, &whole.title, entries);
        shorter.to_markdown().as_bytes() == bytes
    }

    /// Whether nothing is in there that the thread has not.
    fn has_all_of(&self, bytes: &[u8]) -> bool {
        let Ok(read) = Document::read(bytes) else { return false };
        // Earlier releases wrote words as they came.
        let read = read.shown();
        let own: BTreeSet<_> = self.document.entries.iter().map(entry_key).collect();
        read.message_id == self.document.message_id
            && read.title == self.document.title
            && read.entries.iter().all(|it| own.contains(&entry_key(it)))
    }
}

/// One thread at one role.
#[derive(Debug)]
pub(super) struct ThreadSync {
    pub(super) disk: Disk,
    pub(super) boxes: Arc<Boxes>,
    /// As the node remembers to have left it.
    pub(super) known: Option<Known>,
    /// `None`: the role has no copy.
    pub(super) want: Option<TargetFile>,
}

/// How it is now.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) known: Option<Known>,
    /// What was put aside on the way.
    pub(super) aside: Vec<PathBuf>,
}

/// A look at one place.
struct Observation {
    content: Content,
    hash: Option<Hash>,
    stamp: Option<Stamp>,
}

impl ThreadSync {
    pub(super) fn carry_out(&self) -> io::Result<Outcome> {
        let mut aside = Vec::new();
        for _ in 0..TRIES_MAX {
            if let Some(stamp) = self.attempt(&mut aside)? {
                let known = self.want.as_ref().zip(stamp.0).map(|(want, stamp)| Known {
                    kind: want.kind,
                    name: want.name.clone(),
                    entries: want.entries,
                    hash: want.hash,
                    stamp,
                });
                return Ok(Outcome { known, aside });
            }
        }
        let name = self.want.as_ref().map_or("a file", |want| &want.name);
        Err(io::Error::other(format!("somebody keeps writing to {name}")))
    }

    /// `None`: somebody came in between.
    fn attempt(&self, aside: &mut Vec<PathBuf>) -> io::Result<Option<Ended>> {
        let wanted = self.want.as_ref().map(|it| (it.kind, it.name.as_str()));
        let known = self.known.as_ref().map(|it| (it.kind, it.name.as_str()));
        let names: BTreeSet<&str> = wanted.iter().chain(&known).map(|(_, name)| *name).collect();
        for (kind, name) in
            BoxKind::ALL.into_iter().flat_map(|kind| names.iter().map(move |it| (kind, *it)))
        {
            self.end_old(kind, name, aside)?;
        }
        let known = known.filter(|it| Some(*it) != wanted);
        let look = |(kind, name)| self.look(kind, name);
        let (before, there) = (known.map(look).transpose()?, wanted.map(look).transpose()?);
        let found = match (&before, &there) {
            (None, None) => return Ok(Some(Ended(None))),
            (None, Some(there)) => Found::One(there.content),
            (Some(before), None) => Found::Leaving(before.content),
            (Some(before), Some(there)) => Found::Two(before.content, there.content),
        };
        // Of the file that is in the wanted place, step by step.
        let mut at = there.as_ref().and_then(|it| it.hash.zip(it.stamp));
        for step in plan(found) {
            let done = match (step, known, wanted, &self.want) {
                (Step::PutAside(place), ..) => {
                    let place = if place == Place::Known { known } else { wanted };
                    let Some((kind, name)) = place else { continue };
                    match self.disk.put_aside(self.boxes.folder(kind), name, EDITED) {
                        Ok(name) => Done::Aside(self.note(kind, &name, aside)),
                        Err(why) if why.kind() == io::ErrorKind::NotFound => Done::Taken,
                        Err(why) => return Err(why),
                    }
                }
                (Step::Move, Some((from, was)), Some((to, name)), _) => {
                    at = before.as_ref().and_then(|it| it.hash.zip(it.stamp));
                    let (from, to) = (self.boxes.folder(from), self.boxes.folder(to));
                    self.disk.rename((from, was), (to, name))?
                }
                (Step::TakeAway, Some((kind, name)), ..) => {
                    let Some(seen) = before.as_ref().and_then(|it| it.hash) else { continue };
                    let done = self.disk.take_away(self.boxes.folder(kind), name, seen)?;
                    self.noted(kind, done, aside)
                }
                (Step::Create, _, _, Some(want)) => {
                    let folder = self.boxes.folder(want.kind);
                    let (done, stamp) = self.disk.create(folder, &want.name, &want.bytes)?;
                    at = Some((want.hash, stamp));
                    done
                }
                (Step::Replace, _, _, Some(want)) => {
                    let Some((seen, _)) = at else { continue };
                    let folder = self.boxes.folder(want.kind);
                    let (done, stamp) = self.disk.replace(folder, &want.name, &want.bytes, seen)?;
                    at = Some((want.hash, stamp));
                    self.noted(want.kind, done, aside)
                }
                (Step::Move | Step::TakeAway | Step::Create | Step::Replace, ..) => continue,
            };
            if done == Done::Taken {
                return Ok(None);
            }
        }
        if !self.clear_elsewhere(aside)? {
            return Ok(None);
        }
        Ok(Some(Ended(at.map(|(_, stamp)| stamp))))
    }

    fn look(&self, kind: BoxKind, name: &str) -> io::Result<Observation> {
        let at = self.disk.read(self.boxes.folder(kind), name)?;
        let hash = at.hash();
        let stamp = match &at {
            FileState::File(_, stamp) => Some(*stamp),
            FileState::Nothing | FileState::Strange(_) => None,
        };
        let content = match (&at, &self.want) {
            (FileState::Nothing, _) => Content::Missing,
            (FileState::File(..), Some(want)) if hash == Some(want.hash) => Content::Wanted,
            (FileState::File(bytes, _), _) if self.is_own(bytes) => Content::Own,
            (FileState::File(..) | FileState::Strange(_), _) => Content::Edited,
        };
        Ok(Observation { content, hash, stamp })
    }

    fn is_own(&self, bytes: &[u8]) -> bool {
        let is_known = self.known.as_ref().is_some_and(|it| it.hash == Hash::of(bytes));
        let is_unknown = self.known.is_none();
        let of_thread =
            |want: &TargetFile| want.was(bytes) || (is_unknown && want.has_all_of(bytes));
        is_known || self.want.as_ref().is_some_and(of_thread)
    }

    /// Ends what was interrupted.
    fn end_old(&self, kind: BoxKind, name: &str, aside: &mut Vec<PathBuf>) -> io::Result<()> {
        let folder = self.boxes.folder(kind);
        let done = self.disk.end_old(folder, name, |bytes| self.is_own(bytes))?;
        self.noted(kind, done, aside);
        Ok(())
    }

    /// The thread's file is in one box: copies in others go. What is none but has its name is put
    /// aside; not in the outbox, where it may be mail. Whether nobody came in between.
    fn clear_elsewhere(&self, aside: &mut Vec<PathBuf>) -> io::Result<bool> {
        let Some(want) = &self.want else { return Ok(true) };
        for kind in BoxKind::ALL.into_iter().filter(|it| *it != want.kind) {
            let look = self.look(kind, &want.name)?;
            let folder = self.boxes.folder(kind);
            let done = match (look.content, look.hash) {
                (Content::Wanted | Content::Own, Some(seen)) => {
                    let done = self.disk.take_away(folder, &want.name, seen)?;
                    self.noted(kind, done, aside)
                }
                (Content::Edited, _) if kind != BoxKind::Outbox => {
                    let name = self.disk.put_aside(folder, &want.name, EDITED)?;
                    Done::Aside(self.note(kind, &name, aside))
                }
                (Content::Wanted | Content::Own | Content::Edited | Content::Missing, _) => {
                    continue;
                }
            };
            if done == Done::Taken {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn noted(&self, kind: BoxKind, done: Done, aside: &mut Vec<PathBuf>) -> Done {
        if let Done::Aside(name) = &done {
            self.note(kind, name, aside);
        }
        done
    }

    fn note(&self, kind: BoxKind, name: &str, aside: &mut Vec<PathBuf>) -> String {
        aside.push(self.boxes.file(kind, name));
        name.to_owned()
    }
}

/// The stamp of the file that is in its place now.
struct Ended(Option<Stamp>);

#[cfg(test)]
mod tests;
