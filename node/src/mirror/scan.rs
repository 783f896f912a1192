//! Looks at what is in a role's boxes, and tells what does not fit to what was written.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::PathBuf,
};

use tasuki_proto::mail::{BoxKind, MessageId};

use super::{
    disk::{self, FileState, Hash, Stamp},
    home::Boxes,
    index::{Before, Index},
    name::Kind,
};
use crate::dir::Dir;

/// What was seen.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ScanResult {
    /// Threads whose file is not where it was left, or not as it was left.
    pub(super) touched: BTreeSet<MessageId>,
    /// Files in the outbox that are none of these.
    pub(super) dropped: BTreeMap<String, Stamp>,
    /// Letters that wait for the broker: the file's name now, and before.
    pub(super) queued: BTreeMap<String, String>,
    /// Files that lay in the outbox before it was kept.
    pub(super) before: BTreeSet<PathBuf>,
    pub(super) aside: BTreeSet<PathBuf>,
    /// What an interrupted change left of a thread that is not known.
    pub(super) olds: BTreeSet<(BoxKind, String)>,
    /// The same, of a change that had not begun: such a file may be half.
    pub(super) halves: BTreeSet<(BoxKind, String)>,
}

/// A file, or one that is gone (`None`).
#[derive(Debug)]
pub(super) struct Observed {
    kind: BoxKind,
    name: String,
    stamp: Option<Stamp>,
}

/// All files there are.
pub(super) fn look_at_all(boxes: &Boxes) -> io::Result<Vec<Observed>> {
    let mut observed = Vec::new();
    for kind in BoxKind::ALL {
        for name in boxes.folder(kind).names()? {
            // A name that is no text is nobody's mail.
            let Ok(name) = name.into_string() else { continue };
            observed.extend(Some(look_at(boxes, kind, name)?).filter(|it| it.stamp.is_some()));
        }
    }
    Ok(observed)
}

/// What would be sent from an outbox, or become something that is.
pub(super) fn letters(outbox: &Dir) -> io::Result<Before> {
    let mut letters = Before::default();
    for name in outbox.names()? {
        let Ok(name) = name.into_string() else { continue };
        let is_letter = match Kind::of(&name) {
            Kind::Message | Kind::Queued(_) | Kind::Old(_) => true,
            Kind::Aside | Kind::New | Kind::Strange => false,
        };
        if is_letter && let Some(about) = outbox.stat(&name)? {
            // What cannot be read is not sent; its stamp will do.
            if let Ok(FileState::File(bytes, _)) = disk::read(outbox, &name) {
                letters.contents.insert(Hash::of(&bytes));
            }
            letters.stamps.insert(name, Stamp::of_stat(&about));
        }
    }
    Ok(letters)
}

/// Those that were named.
pub(super) fn look_at_some(
    boxes: &Boxes,
    names: BTreeSet<(BoxKind, String)>,
) -> io::Result<Vec<Observed>> {
    names.into_iter().map(|(kind, name)| look_at(boxes, kind, name)).collect()
}

fn look_at(boxes: &Boxes, kind: BoxKind, name: String) -> io::Result<Observed> {
    let stamp = boxes.folder(kind).stat(&name)?.as_ref().map(Stamp::of_stat);
    Ok(Observed { kind, name, stamp })
}

impl ScanResult {
    /// What the observed files tell. `is_all`: a file that is not among them is not there.
    pub(super) fn of(index: &Index, boxes: &Boxes, observed: Vec<Observed>, is_all: bool) -> Self {
        let mut seen = Self::default();
        let mut there = BTreeSet::new();
        for Observed { kind, name, stamp } in observed {
            let in_place = index
                .named(&name)
                .filter(|id| index.get(*id).is_some_and(|it| it.kind == kind && it.name == name));
            match stamp {
                Some(stamp) => {
                    there.extend(in_place);
                    seen.add(index, boxes, kind, &name, stamp);
                }
                None => seen.touched.extend(in_place),
            }
        }
        if is_all {
            seen.touched.extend(index.iter().map(|(id, _)| id).filter(|id| !there.contains(id)));
        }
        seen
    }

    fn add(&mut self, index: &Index, boxes: &Boxes, kind: BoxKind, name: &str, stamp: Stamp) {
        let id = index.named(name).filter(|id| index.get(*id).is_some_and(|it| it.name == name));
        let path = boxes.file(kind, name);
        let was_before = kind == BoxKind::Outbox && index.was_before(name, stamp);
        match Kind::of(name) {
            Kind::Message => match id.and_then(|id| Some((id, index.get(id)?))) {
                Some((_, known)) if known.kind == kind && known.stamp == stamp => {}
                Some((id, known)) => {
                    self.touched.insert(id);
                    if kind == BoxKind::Outbox && known.kind != kind {
                        match was_before {
                            true => drop(self.before.insert(path)),
                            false => drop(self.dropped.insert(name.to_owned(), stamp)),
                        }
                    }
                }
                None if was_before => drop(self.before.insert(path)),
                None if kind == BoxKind::Outbox => {
                    self.dropped.insert(name.to_owned(), stamp);
                }
                None => {}
            },
            Kind::Aside => drop(self.aside.insert(path)),
            Kind::Queued(_) if was_before => drop(self.before.insert(path)),
            Kind::Queued(own) if kind == BoxKind::Outbox => {
                self.queued.insert(name.to_owned(), own.to_owned());
            }
            Kind::New => drop(self.halves.insert((kind, name.to_owned()))),
            Kind::Old(own) => match index.named(own) {
                Some(id) => drop(self.touched.insert(id)),
                None if was_before => drop(self.before.insert(path)),
                None => drop(self.olds.insert((kind, own.to_owned()))),
            },
            Kind::Queued(_) | Kind::Strange => {}
        }
    }
}
