//! The log beside the database: what is written first, and what answers rest on.
//!
//! Each commit is appended to one of two segments, which were filled before, and made durable with
//! one `fdatasync`. Then its rows go into the database, which is synced behind it (`super::syncer`).
//! At start the database gets what it does not have.
//!
//! - `frame`: the bytes. `contents`: what two segments hold, and what of it counts.
//!
//! **Invariants**
//! - **LG1** What is acknowledged is a whole frame on the disk, or in the database and synced there.
//! - **LG2** A segment is used again only once the database has all its frames, synced.
//! - **LG3** The database never gets a frame that the log has not made durable.
//! - **LG4** Where the log ends, a torn frame is no damage. Anything else that is missing or was
//!   changed is refused by its number.
//!
//! Pieces of snapshots are not in it: they count by a commit that comes after they are synced.

mod contents;
mod frame;
#[cfg(test)]
mod tests;

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use prost::Message as _;
use tasuki_proto::stored::LogPosition;

use self::frame::{Head, encode, frame_bytes};
pub(super) use self::{
    contents::Contents,
    frame::{Frame, Rows, SECTOR, rows_of},
};
use super::{
    engine::{self, sync_dir},
    layout,
    read::damaged,
};
use crate::{
    disk::MIB,
    journal::{Hash, JournalError},
};

/// Each of the two segments, in bytes. A frame that is larger makes its segment larger.
pub const LOG_SEGMENT_BYTES: u64 = 4 * 1024 * 1024;

/// What is read or written at a time, in bytes. Segments are a multiple of it.
const PART_BYTES: usize = 64 * 1024;

/// Where a log stands: after which frame, and after which commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// Frames are numbered from 1, without gaps, as long as there is the database.
    pub(super) number: u64,
    /// Of the frame.
    pub(super) hash: Hash,
    /// The newest commit and its hash; not every frame is one.
    pub(super) commit: u64,
    pub(super) commit_hash: Hash,
}

/// A file that is written in place.
pub(super) trait Segment {
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// What was written survives a power cut from here on.
    fn sync(&self) -> io::Result<()>;
}

impl Segment for File {
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        engine::sync(self)
    }
}

/// The log, to be appended to.
#[derive(Debug)]
pub(super) struct Log<S = File> {
    segments: [S; 2],
    /// How large each is.
    bytes: [u64; 2],
    /// The segment that is written.
    current: usize,
    /// Where its next frame begins.
    at: u64,
    /// Where the log stood when it began.
    began: u64,
    end: Position,
    incarnation: [u8; 16],
    secret: [u8; 16],
}

/// That the database has all rows up to this frame: in the batch that has the last of them.
pub(super) fn position_row(at: &Position) -> (&'static [u8], Vec<u8>) {
    let position = LogPosition { number: at.number, hash: at.hash.to_bytes() };
    (layout::POSITION, position.encode_to_vec())
}

/// Makes durable what was read of the log: of a broker that was killed the newest frame may be in
/// memory alone, and no database may have what the log has not (LG3).
pub(super) fn settle(dir: &Path) -> Result<(), JournalError> {
    for path in paths(dir) {
        match write_again(&path) {
            // Only of a log that is repaired: any other is refused without it.
            Err(why) if why.kind() == io::ErrorKind::NotFound => {}
            Err(why) => {
                let what = format!("syncing {}: {why}", path.display());
                return Err(JournalError::Storage(what));
            }
            Ok(()) => {}
        }
    }
    Ok(())
}

/// Writes what a file holds to where it is: what could not be written once is not tried again by
/// the system, even if it still shows it.
fn write_again(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let (mut at, mut part) = (0, vec![0; PART_BYTES]);
    loop {
        let read = file.read_at(&mut part, at)?;
        if read == 0 {
            return file.sync();
        }
        let part = &part[..read];
        if part.iter().any(|it| *it != 0) {
            file.write_all_at(part, at)?;
        }
        at += read as u64;
    }
}

/// The folder of the two segments.
pub(super) fn folder(dir: &Path) -> PathBuf {
    dir.join("log")
}

pub(super) fn paths(dir: &Path) -> [PathBuf; 2] {
    ["0", "1"].map(|name| folder(dir).join(name))
}

/// What the log in `dir` holds.
///
/// # Errors
/// [`JournalError::Damaged`] where that is not what was written.
pub(super) fn read(dir: &Path) -> Result<Contents, JournalError> {
    for path in paths(dir) {
        let bytes = match fs::metadata(&path) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => {
                let what = format!("reading {}: {why}", path.display());
                return Err(JournalError::Storage(what));
            }
            found => found.map_or(0, |it| it.len()),
        };
        if bytes < LOG_SEGMENT_BYTES {
            let what = format!("expected {LOG_SEGMENT_BYTES} bytes or more, found {bytes}");
            return Err(damaged(path.display().to_string(), what));
        }
    }
    let contents = read_whole(dir)?;
    contents.check()?;
    Ok(contents)
}

/// What a log holds that may be damaged.
pub(super) fn read_whole(dir: &Path) -> Result<Contents, JournalError> {
    let mut segments = [Bytes::new(), Bytes::new()];
    for (segment, path) in segments.iter_mut().zip(paths(dir)) {
        match read_segment(&path) {
            Ok(bytes) => *segment = bytes,
            // As one without a whole head.
            Err(why) if why.kind() == io::ErrorKind::NotFound => {}
            Err(why) => {
                let what = format!("reading {}: {why}", path.display());
                return Err(JournalError::Storage(what));
            }
        }
    }
    Contents::of(&folder(dir), segments)
}

/// A segment without the zeroes at its end, so that one that holds little takes little memory.
fn read_segment(path: &Path) -> io::Result<Bytes> {
    let mut file = File::open(path)?;
    let (mut bytes, mut zeroes, mut part) = (Vec::new(), 0, Vec::with_capacity(PART_BYTES));
    while (&mut file).take(PART_BYTES as u64).read_to_end(&mut part)? != 0 {
        if part.iter().all(|it| *it == 0) {
            zeroes += part.len();
        } else {
            bytes.resize(bytes.len() + std::mem::take(&mut zeroes), 0);
            bytes.extend_from_slice(&part);
        }
        part.clear();
    }
    // The newest frame may end in zeroes, but in fewer than a part: a value has 6 KiB at most.
    bytes.resize(bytes.len() + zeroes.min(PART_BYTES), 0);
    Ok(bytes.into())
}

/// Makes a new segment of zeroes.
fn fill(file: &File) -> io::Result<()> {
    let part = vec![0; PART_BYTES];
    (0..LOG_SEGMENT_BYTES).step_by(PART_BYTES).try_for_each(|at| file.write_all_at(&part, at))
}

impl Log<File> {
    /// Makes a log that goes on after `end`, whatever there was.
    ///
    /// # Errors
    /// Also when the disk has no room for it.
    pub(super) fn create(
        dir: &Path,
        incarnation: [u8; 16],
        end: Position,
    ) -> Result<Self, JournalError> {
        let mut secret = [0; 16];
        getrandom::fill(&mut secret)
            .map_err(|error| JournalError::Storage(format!("no randomness: {error}")))?;
        let head = Head { incarnation, secret, before: end }.encode();
        let failed = |why: io::Error| {
            let needs = 2 * LOG_SEGMENT_BYTES / MIB;
            let next = if why.kind() == io::ErrorKind::StorageFull {
                format!("; it needs {needs} MiB: free some space on that disk and try again")
            } else {
                String::new()
            };
            JournalError::Storage(format!("making {}: {why}{next}", folder(dir).display()))
        };
        match fs::create_dir(folder(dir)) {
            Err(why) if why.kind() != io::ErrorKind::AlreadyExists => return Err(failed(why)),
            Ok(()) | Err(_) => {}
        }
        let make = |path: &PathBuf, head: &[u8]| {
            let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
            fill(&file)?;
            file.write_all_at(head, 0)?;
            file.sync_all()?;
            Ok(file)
        };
        let [first, second] = paths(dir);
        let segments = [make(&first, &head), make(&second, &[])];
        let [first, second] = segments;
        let segments = [first.map_err(failed)?, second.map_err(failed)?];
        sync_dir(&folder(dir)).and_then(|()| sync_dir(dir)).map_err(failed)?;
        let (bytes, at) = ([LOG_SEGMENT_BYTES; 2], SECTOR as u64);
        Ok(Self { segments, bytes, current: 0, at, began: end.number, end, incarnation, secret })
    }

    /// Goes on after what was read, of which the database has everything, synced.
    pub(super) fn resume(dir: &Path, contents: &Contents) -> io::Result<Self> {
        let [first, second] = paths(dir);
        let open = |path| OpenOptions::new().write(true).open(path);
        let segments = [open(first)?, open(second)?];
        let bytes = [segments[0].metadata()?.len(), segments[1].metadata()?.len()];
        Self::after(segments, bytes, contents)
    }
}

impl<S: Segment> Log<S> {
    /// Begins the segment that is not the newest.
    fn after(segments: [S; 2], bytes: [u64; 2], contents: &Contents) -> io::Result<Self> {
        let mut log = Self {
            segments,
            bytes,
            current: contents.newest,
            at: 0,
            began: contents.end().number,
            end: contents.end(),
            incarnation: contents.incarnation,
            secret: contents.secret,
        };
        log.turn()?;
        Ok(log)
    }

    pub(super) fn end(&self) -> Position {
        self.end
    }

    /// Writes a frame. It counts once it is [synced](Self::sync).
    ///
    /// Before a segment is used again `free` is called with the number of the last frame in it.
    pub(super) fn append(
        &mut self,
        rows: &[u8],
        commit: Option<(u64, Hash)>,
        free: impl FnOnce(u64) -> Result<(), JournalError>,
    ) -> Result<Position, JournalError> {
        let failed = |why| JournalError::Storage(format!("writing the log: {why}"));
        let needed = frame_bytes(rows.len()) as u64;
        if self.bytes[self.current] < self.at + needed {
            free(self.began)?;
            self.turn().map_err(failed)?;
            let bytes = &mut self.bytes[self.current];
            *bytes = (*bytes).max(self.at + needed);
        }
        let (frame, end) = encode(&self.secret, &self.end, commit, rows);
        self.segments[self.current].write_at(&frame, self.at).map_err(failed)?;
        self.at += needed;
        self.end = end;
        Ok(end)
    }

    /// What was appended survives a power cut from here on.
    pub(super) fn sync(&self) -> Result<(), JournalError> {
        let failed = |why| JournalError::Storage(format!("syncing the log: {why}"));
        self.segments[self.current].sync().map_err(failed)
    }

    /// Begins the other segment. Its head is durable before a frame follows: a frame behind a head
    /// that is spoilt is damage.
    fn turn(&mut self) -> io::Result<()> {
        self.current = 1 - self.current;
        let head = Head { incarnation: self.incarnation, secret: self.secret, before: self.end };
        let segment = &self.segments[self.current];
        segment.write_at(&head.encode(), 0)?;
        segment.sync()?;
        (self.at, self.began) = (SECTOR as u64, self.end.number);
        Ok(())
    }
}
