//! Looks at what is in a role's boxes, and tells what does not fit to what was written.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::PathBuf,
};

use tasuki_proto::mail::{BoxKind, MessageId};

use super::{
    disk::{Disk, Stamp},
    home::Boxes,
    index::Index,
    name::Kind,
};

/// What was seen.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Threads whose file is not where it was left, or not as it was left.
    pub(super) touched: BTreeSet<MessageId>,
    /// Files in the outbox that are none of these.
    pub(super) dropped: BTreeMap<String, Stamp>,
    /// Letters that wait for the broker: the file's name now, and before.
    pub(super) queued: BTreeMap<String, String>,
    pub(super) aside: BTreeSet<PathBuf>,
    /// What an interrupted change left of a thread that is not known.
    pub(super) olds: BTreeSet<(BoxKind, String)>,
}

impl Seen {
    fn add(
        &mut self,
        index: &Index,
        boxes: &Boxes,
        disk: &Disk,
        kind: BoxKind,
        name: &str,
    ) -> io::Result<()> {
        let id = index.named(name).filter(|id| index.get(*id).is_some_and(|it| it.name == name));
        let path = boxes.file(kind, name);
        match Kind::of(name) {
            Kind::Message => {
                let Some(stamp) = stamp(&path)? else { return Ok(()) };
                match id.and_then(|id| Some((id, index.get(id)?))) {
                    Some((_, known)) if known.kind == kind && known.stamp == stamp => {}
                    Some((id, known)) => {
                        self.touched.insert(id);
                        if kind == BoxKind::Outbox && known.kind != kind {
                            self.dropped.insert(name.to_owned(), stamp);
                        }
                    }
                    None if kind == BoxKind::Outbox => {
                        self.dropped.insert(name.to_owned(), stamp);
                    }
                    None => {}
                }
            }
            Kind::Aside => drop(self.aside.insert(path)),
            Kind::Queued(own) if kind == BoxKind::Outbox => {
                self.queued.insert(name.to_owned(), own.to_owned());
            }
            // Nobody writes while this looks: it is of an interrupted change, and may be half.
            Kind::New => disk.remove(&path)?,
            Kind::Old(own) => match index.named(own) {
                Some(id) => drop(self.touched.insert(id)),
                None => drop(self.olds.insert((kind, own.to_owned()))),
            },
            Kind::Queued(_) | Kind::Strange => {}
        }
        Ok(())
    }
}

/// All files.
pub(super) fn all(index: &Index, boxes: &Boxes, disk: &Disk) -> io::Result<Seen> {
    let mut seen = Seen::default();
    let mut there = BTreeSet::new();
    for kind in BoxKind::ALL {
        for entry in fs::read_dir(boxes.folder(kind))? {
            // A name that is no text is nobody's mail.
            let Ok(name) = entry?.file_name().into_string() else { continue };
            seen.add(index, boxes, disk, kind, &name)?;
            if let Some(id) = index.named(&name)
                && index.get(id).is_some_and(|known| known.kind == kind && known.name == name)
            {
                there.insert(id);
            }
        }
    }
    seen.touched.extend(index.iter().map(|(id, _)| id).filter(|id| !there.contains(id)));
    Ok(seen)
}

/// Those that were named.
pub(super) fn named(
    index: &Index,
    boxes: &Boxes,
    disk: &Disk,
    names: &BTreeSet<(BoxKind, String)>,
) -> io::Result<Seen> {
    let mut seen = Seen::default();
    for (kind, name) in names {
        if stamp(&boxes.file(*kind, name))?.is_some() {
            seen.add(index, boxes, disk, *kind, name)?;
        } else if let Some(id) = index.named(name)
            && index.get(id).is_some_and(|known| known.kind == *kind && known.name == *name)
        {
            seen.touched.insert(id);
        }
    }
    Ok(seen)
}

/// Of whatever has this name; `None`: nothing.
fn stamp(path: &std::path::Path) -> io::Result<Option<Stamp>> {
    match fs::symlink_metadata(path) {
        Ok(about) => Ok(Some(Stamp::of(&about))),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(why),
    }
}
