//! What was written where, so that what a person changed is known from what the node wrote.
//!
//! `DATA/mirror/WORKSPACE/ROLE.index`: a line of JSON for each change, appended after it, written
//! anew when most lines are of the past. Of threads it is a help, not a truth: what it lacks is
//! found by looking at the files and asking the broker. Each line begins with what the rest hashes
//! to. The last one may be cut off after a crash, and is passed over; any other that is not as it
//! was written may have said that a file is not to be sent, so nothing of the index counts then.
//!
//! - **Z9** Which outboxes are kept, and what lay in each before, is durable before anything is
//!   sent from one; whatever holds what one of these held is not sent either. An outbox that the
//!   index does not name is one that was never kept, so a lost index costs reading, and sends
//!   nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_with::{As, DisplayFromStr};
use tasuki_proto::{
    id::{RoleId, WorkspaceId},
    mail::{BoxKind, MessageId},
};

use super::{
    disk::{Hash, Stamp},
    name::fold,
};

/// In the node's data directory.
const FOLDER: &str = "mirror";

/// Lines of the past until the file is written anew.
const PAST_MAX: usize = 1_024;

/// An index, in bytes; a larger one is not ours. A line has some 250.
const BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// What a line's hash is written in.
const CHECK_CHARS: usize = 16;

/// A thread's file as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Known {
    #[serde(rename = "box", with = "As::<DisplayFromStr>")]
    pub(super) kind: BoxKind,
    pub(super) name: String,
    pub(super) entries: u32,
    pub(super) hash: Hash,
    /// As it was then; another one: somebody wrote to it.
    pub(super) stamp: Stamp,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Folder(PathBuf),
    /// The mailbox was here as a whole.
    Synced(bool),
    /// An outbox that is kept, by which directory it is, and what lay in it before.
    Kept(String, Before),
    /// A file that was sent, and could not be taken away.
    Sent(String, Stamp),
    /// What a file in the outbox held that Git tracked.
    Tracked(Hash),
    Wrote(#[serde(with = "As::<DisplayFromStr>")] MessageId, Known),
    Gone(#[serde(with = "As::<DisplayFromStr>")] MessageId),
}

/// What lay in an outbox before it was kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Before {
    pub(super) stamps: BTreeMap<String, Stamp>,
    /// What they held: whoever puts it there once more, as Git does with a file of another branch,
    /// has written nothing.
    pub(super) contents: BTreeSet<Hash>,
}

/// One role's.
#[derive(Debug)]
pub(super) struct Index {
    path: PathBuf,
    file: Option<fs::File>,
    lines: usize,
    /// Where the files are.
    pub(super) folder: Option<PathBuf>,
    threads: BTreeMap<MessageId, Known>,
    by_name: BTreeMap<String, MessageId>,
    /// Outboxes, and what lay in each before it was one.
    kept: BTreeMap<String, Before>,
    sent: BTreeMap<String, Stamp>,
    tracked: BTreeSet<Hash>,
    /// Whether the mailbox was ever here as a whole.
    pub(super) is_synced: bool,
}

/// Where a role's index is kept.
pub(super) fn path(data: &Path, workspace: &WorkspaceId, role: &RoleId) -> PathBuf {
    data.join(FOLDER).join(workspace.as_str()).join(format!("{role}.index"))
}

impl Index {
    /// Knows nothing yet.
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            lines: 0,
            folder: None,
            threads: BTreeMap::new(),
            by_name: BTreeMap::new(),
            kept: BTreeMap::new(),
            sent: BTreeMap::new(),
            tracked: BTreeSet::new(),
            is_synced: false,
        }
    }

    /// Of what an earlier life of the node kept, as much as can be read.
    pub(super) fn open(path: PathBuf) -> Self {
        let mut index = Self::new(path);
        let is_ours = fs::metadata(&index.path).is_ok_and(|it| it.len() <= BYTES_MAX);
        let content = if is_ours { fs::read(&index.path) } else { Ok(Vec::new()) };
        let content = content.unwrap_or_default();
        let mut lines: Vec<&[u8]> = content.split(|byte| *byte == b'\n').collect();
        // Behind the last line's end is nothing, or what a crash left of one more, or a line of
        // which only the end is damaged.
        let tail = lines.pop().and_then(|tail| tail.split_last());
        lines.extend(tail.map(|(_, line)| line).filter(|line| read_line(line).is_some()));
        for line in lines {
            let Some(line) = read_line(line) else {
                let path = index.path.display();
                tracing::warn!(%path, "an index of mirrored mail is damaged; it is made anew");
                return Self::new(index.path);
            };
            index.take(line);
        }
        index
    }

    fn take(&mut self, line: Line) {
        match line {
            Line::Folder(folder) => self.folder = Some(folder),
            Line::Synced(is_synced) => self.is_synced = is_synced,
            Line::Kept(outbox, before) => drop(self.kept.insert(outbox, before)),
            Line::Sent(name, stamp) => drop(self.sent.insert(name, stamp)),
            Line::Tracked(content) => drop(self.tracked.replace(content)),
            Line::Gone(id) => self.remove(id),
            Line::Wrote(id, known) => self.insert(id, known),
        }
    }

    fn insert(&mut self, id: MessageId, known: Known) {
        self.remove(id);
        self.by_name.insert(fold(&known.name), id);
        self.threads.insert(id, known);
    }

    fn remove(&mut self, id: MessageId) {
        if let Some(known) = self.threads.remove(&id) {
            self.by_name.remove(&fold(&known.name));
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn len(&self) -> usize {
        self.threads.len()
    }

    pub(super) fn get(&self, id: MessageId) -> Option<&Known> {
        self.threads.get(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (MessageId, &Known)> {
        self.threads.iter().map(|(id, known)| (*id, known))
    }

    /// The thread whose file has this name, in whatever case.
    pub(super) fn named(&self, name: &str) -> Option<MessageId> {
        self.by_name.get(&fold(name)).copied()
    }

    /// The names that other threads have, of those that could be in this one's way.
    pub(super) fn taken(&self, id: MessageId, name: &str) -> BTreeSet<String> {
        let name = fold(name);
        let is_other = self.by_name.get(&name).is_some_and(|other| *other != id);
        if is_other { BTreeSet::from([name]) } else { BTreeSet::new() }
    }

    /// Keeps a name for a thread whose file is about to be written.
    pub(super) fn reserve(&mut self, id: MessageId, name: &str) {
        self.by_name.entry(fold(name)).or_insert(id);
    }

    /// Whether this file was in the outbox before it was kept, and is as it was.
    pub(super) fn was_before(&self, name: &str, stamp: Stamp) -> bool {
        self.kept.values().any(|before| before.stamps.get(name) == Some(&stamp))
    }

    /// Whether a file in the outbox held this before it was kept, whatever it was called.
    pub(super) fn held_before(&self, content: Hash) -> bool {
        self.kept.values().any(|before| before.contents.contains(&content))
    }

    /// Knows a file that holds such a thing by its stamp, too: it need not be read at each look. That
    /// is not made durable here, for what it holds is known anyway.
    pub(super) fn note_before(&mut self, name: &str, stamp: Stamp) {
        if let Some(before) = self.kept.values_mut().next() {
            before.stamps.insert(name.to_owned(), stamp);
        }
    }

    pub(super) fn keeps(&self, outbox: &str) -> bool {
        self.kept.contains_key(outbox)
    }

    /// Keeps an outbox from now on, durably.
    pub(super) fn keep(&mut self, outbox: String, before: Before) -> io::Result<()> {
        self.kept.insert(outbox.clone(), before);
        self.write_anew().inspect_err(|_| drop(self.kept.remove(&outbox)))
    }

    /// The same for one that was sent and could not be taken away.
    pub(super) fn was_sent(&self, name: &str, stamp: Stamp) -> bool {
        self.sent.get(name) == Some(&stamp)
    }

    /// Keeps the files of this folder from now on, and nothing of another one.
    pub(super) fn begin(&mut self, folder: PathBuf, keeps: bool) -> io::Result<()> {
        if !keeps {
            *self = Self::new(std::mem::take(&mut self.path));
        }
        self.folder = Some(folder);
        self.write_anew()
    }

    pub(super) fn wrote(&mut self, id: MessageId, known: Known) -> io::Result<()> {
        if self.threads.get(&id) == Some(&known) {
            return Ok(());
        }
        self.insert(id, known.clone());
        self.append(&Line::Wrote(id, known))
    }

    pub(super) fn gone(&mut self, id: MessageId) -> io::Result<()> {
        if self.threads.contains_key(&id) {
            self.remove(id);
            return self.append(&Line::Gone(id));
        }
        Ok(())
    }

    pub(super) fn note_sent(&mut self, name: &str, stamp: Stamp) -> io::Result<()> {
        if self.was_sent(name, stamp) {
            return Ok(());
        }
        self.sent.insert(name.to_owned(), stamp);
        self.append(&Line::Sent(name.to_owned(), stamp))
    }

    /// Whether a file in the outbox held this while Git tracked it, whatever it was called.
    pub(super) fn was_tracked(&self, content: Hash) -> bool {
        self.tracked.contains(&content)
    }

    pub(super) fn note_tracked(&mut self, content: Hash) -> io::Result<()> {
        if self.tracked.insert(content) { self.append(&Line::Tracked(content)) } else { Ok(()) }
    }

    pub(super) fn synced(&mut self) -> io::Result<()> {
        if self.is_synced {
            return Ok(());
        }
        self.is_synced = true;
        self.append(&Line::Synced(true))
    }

    fn append(&mut self, line: &Line) -> io::Result<()> {
        let live = self.threads.len() + self.kept.len() + self.sent.len() + self.tracked.len();
        if self.file.is_none() || 2 * live + PAST_MAX < self.lines {
            return self.write_anew();
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let bytes = written(line)?;
        self.lines += 1;
        file.write_all(&bytes)
    }

    fn write_anew(&mut self) -> io::Result<()> {
        // If it fails, the next change tries again.
        self.file = None;
        let folder = self.folder.iter().cloned().map(Line::Folder);
        let kept = self.kept.iter();
        let kept = kept.map(|(outbox, before)| Line::Kept(outbox.clone(), before.clone()));
        let sent = self.sent.iter().map(|(name, stamp)| Line::Sent(name.clone(), *stamp));
        let tracked = self.tracked.iter().copied().map(Line::Tracked);
        let threads = self.threads.iter().map(|(id, known)| Line::Wrote(*id, known.clone()));
        let mut bytes = Vec::new();
        self.lines = 0;
        let own = folder.chain([Line::Synced(self.is_synced)]).chain(kept);
        for line in own.chain(sent).chain(tracked).chain(threads) {
            bytes.extend(written(&line)?);
            self.lines += 1;
        }
        tasuki_proto::host::files::replace(&self.path, &bytes)?;
        self.file = Some(fs::OpenOptions::new().append(true).open(&self.path)?);
        Ok(())
    }
}

/// A line as it is on disk.
fn written(line: &Line) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(line)?;
    let mut bytes = check(&json).into_bytes();
    bytes.push(b' ');
    bytes.extend(json);
    bytes.push(b'\n');
    Ok(bytes)
}

/// `None`: it is not as it was written.
fn read_line(line: &[u8]) -> Option<Line> {
    let (noted, json) = line.split_at_checked(CHECK_CHARS)?;
    let json = json.strip_prefix(b" ")?;
    (check(json).as_bytes() == noted).then(|| serde_json::from_slice(json).ok())?
}

fn check(json: &[u8]) -> String {
    blake3::hash(json).to_hex()[..CHECK_CHARS].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { mtime_ns: 7, size: 3, inode: 9 };

    fn before() -> Before {
        Before { stamps: [("old.md".into(), STAMP)].into(), contents: [Hash::of(b"old")].into() }
    }

    fn known(kind: BoxKind, name: &str) -> Known {
        Known { kind, name: name.into(), entries: 2, hash: Hash::of(b"x"), stamp: STAMP }
    }

    #[test]
    fn a_flipped_bit_makes_it_begin_anew_or_nothing_else() {
        let data = tempfile::tempdir().unwrap();
        let file = path(data.path(), &"w".parse().unwrap(), &"qa".parse().unwrap());
        let mut whole = Index::open(file.clone());
        whole.begin("/p".into(), true).unwrap();
        whole.wrote(MessageId::from_bits(1), known(BoxKind::Inbox, "A.md")).unwrap();
        whole.keep("inode 1 of 2".into(), before()).unwrap();
        whole.note_sent("new.md", STAMP).unwrap();
        whole.note_tracked(Hash::of(b"tracked")).unwrap();
        whole.synced().unwrap();
        let told = |it: &Index| {
            format!("{:?}", (&it.folder, &it.threads, &it.kept, &it.sent, &it.tracked))
        };
        crate::flips::each(&file, |what| {
            let read = Index::open(file.clone());
            let is_whole = told(&read) == told(&whole) && read.is_synced;
            let is_new = told(&read) == told(&Index::new(file.clone())) && !read.is_synced;
            assert!(is_whole || is_new, "{what}: {read:?}");
        });
        let lines = fs::read_to_string(&file).unwrap();
        fs::write(&file, lines + "0123456789abcdef {\"wro").unwrap();
        assert_eq!(told(&Index::open(file)), told(&whole), "cut off");
    }

    #[test]
    fn what_was_written_is_known_after_a_restart() {
        let data = tempfile::tempdir().unwrap();
        let file = path(data.path(), &"w".parse().unwrap(), &"qa".parse().unwrap());
        let id = |bits| MessageId::from_bits(bits);
        let mut index = Index::open(file.clone());
        assert!(!index.is_synced && index.folder.is_none());
        index.begin("/p".into(), true).unwrap();
        index.wrote(id(1), known(BoxKind::Inbox, "A.md")).unwrap();
        index.wrote(id(2), known(BoxKind::Inbox, "b.md")).unwrap();
        index.wrote(id(1), known(BoxKind::Done, "A.md")).unwrap();
        index.keep("inode 1 of 2".into(), before()).unwrap();
        index.note_sent("new.md", STAMP).unwrap();
        index.note_tracked(Hash::of(b"tracked")).unwrap();
        index.gone(id(2)).unwrap();
        index.synced().unwrap();
        let again = Index::open(file.clone());
        assert!(again.is_synced && again.folder == Some("/p".into()));
        assert_eq!(again.get(id(1)), Some(&known(BoxKind::Done, "A.md")));
        assert_eq!((again.len(), again.named("a.MD"), again.named("b.md")), (1, Some(id(1)), None));
        assert!(again.was_before("old.md", STAMP) && again.was_sent("new.md", STAMP));
        assert!(!again.was_before("new.md", STAMP) && !again.was_sent("old.md", STAMP));
        assert!(!again.was_before("old.md", Stamp { size: 4, ..STAMP }));
        assert!(again.was_tracked(Hash::of(b"tracked")) && !again.was_tracked(Hash::of(b"old")));
        assert!(again.held_before(Hash::of(b"old")) && !again.held_before(Hash::of(b"new")));
        assert!(again.keeps("inode 1 of 2") && !again.keeps("inode 1 of 3"));
        assert_eq!(again.taken(id(2), "a.md").len(), 1);
        assert_eq!(again.taken(id(1), "a.md").len(), 0);
        // As a crash in the middle of a line leaves it.
        let mut bytes = fs::read(&file).unwrap();
        bytes.truncate(bytes.len() - 5);
        fs::write(&file, bytes).unwrap();
        let again = Index::open(file.clone());
        assert!(!again.is_synced && again.len() == 1);
        let mut again = Index::open(file.clone());
        again.begin("/q".into(), false).unwrap();
        let none = Index::open(file);
        assert!(none.len() == 0 && none.folder == Some("/q".into()));
        assert!(!none.keeps("inode 1 of 2"));
    }

    #[test]
    fn lines_of_the_past_do_not_pile_up() {
        let data = tempfile::tempdir().unwrap();
        let file = data.path().join("x.index");
        let mut index = Index::open(file.clone());
        index.begin("/p".into(), true).unwrap();
        for entries in 0..5_000 {
            let known = Known { entries, ..known(BoxKind::Inbox, "a.md") };
            index.wrote(MessageId::from_bits(1), known).unwrap();
        }
        let lines = fs::read(&file).unwrap().iter().filter(|byte| **byte == b'\n').count();
        assert!(lines <= PAST_MAX + 8, "{lines}");
        assert_eq!(Index::open(file).get(MessageId::from_bits(1)).unwrap().entries, 4_999);
    }
}
