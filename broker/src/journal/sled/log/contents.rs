//! What two segments hold, and what of it counts. Pure.

use std::path::Path;

use bytes::Bytes;

use super::{
    Position,
    frame::{Frame, Head, SECTOR, decode, frame_bytes, frame_number, rows_of},
};
use crate::journal::{
    Hash, JournalError,
    sled::{mark::HighWater, read::damaged},
};

/// The frames of a log, oldest first.
#[derive(Debug)]
pub(in super::super) struct Contents {
    /// For people.
    place: String,
    pub(super) incarnation: [u8; 16],
    pub(super) secret: [u8; 16],
    /// Where the first frame follows.
    before: Position,
    frames: Vec<Frame>,
    /// Which segment was written last.
    pub(super) newest: usize,
    segments: [Bytes; 2],
    /// Where in the newest the first sector is that holds no frame which follows those.
    rest: usize,
}

/// What one segment holds.
struct Parsed {
    head: Head,
    frames: Vec<Frame>,
    /// Where the first sector is that holds no frame which follows those.
    rest: usize,
}

impl Parsed {
    fn of(bytes: &Bytes) -> Option<Self> {
        let head = Head::decode(bytes.get(..SECTOR)?)?;
        let (mut frames, mut rest): (Vec<Frame>, _) = (Vec::new(), SECTOR);
        let mut last = head.before;
        while rest <= bytes.len()
            && let Some(frame) = decode(&head.secret, &bytes.slice(rest..))
            && frame.at.number == last.number + 1
            && frame.previous == last.hash
        {
            last = frame.at;
            rest += frame_bytes(frame.rows.len());
            frames.push(frame);
        }
        Some(Self { head, frames, rest })
    }

    fn end(&self) -> Position {
        self.frames.last().map_or(self.head.before, |it| it.at)
    }
}

/// How many frames these bytes have at most: none is smaller than a sector.
fn frames_max(bytes: &Bytes) -> u64 {
    (bytes.len() / SECTOR) as u64
}

/// The frames from this byte on with a number above this one, and not above the highest. Those of
/// an earlier use of the segment have lower ones.
fn later(
    secret: &[u8; 16],
    bytes: &Bytes,
    from: usize,
    (number, highest): (u64, u64),
) -> impl Iterator<Item = Frame> {
    let sectors = (from..bytes.len()).step_by(SECTOR);
    // Looked at first: a checksum reads as much as a length says.
    let may_be = move |at: &usize| {
        frame_number(&bytes[*at..]).is_some_and(|found| number < found && found <= highest)
    };
    sectors.filter(may_be).filter_map(|at| decode(secret, &bytes.slice(at..)))
}

impl Contents {
    /// Zeroes at the end of a segment may be left out. Whether something comes after its end is
    /// [checked](Self::check) apart.
    ///
    /// # Errors
    /// [`JournalError::Damaged`] where they are no log.
    pub(super) fn of(folder: &Path, segments: [Bytes; 2]) -> Result<Self, JournalError> {
        let place = folder.display().to_string();
        let parsed = segments.each_ref().map(Parsed::of);
        let (older, newest, newest_at) = match parsed {
            [Some(a), Some(b)] => {
                let order = |it: &Parsed| (it.head.before.number, it.frames.len());
                if order(&a) < order(&b) { (Some(a), b, 1) } else { (Some(b), a, 0) }
            }
            [Some(a), None] => (None, a, 0),
            [None, Some(b)] => (None, b, 1),
            [None, None] => {
                return Err(damaged(place, "expected the head of a segment, found none in two"));
            }
        };
        let Parsed { head: Head { incarnation, secret, before }, frames, rest } = newest;
        let newest = newest_at;
        let mut contents =
            Self { place, incarnation, secret, before, frames, newest, segments, rest };
        // Where they do not meet, the older one was not wholly written anew, or is damaged: only a
        // database that needs it is refused.
        if let Some(older) = older
            && (older.head.incarnation, older.head.secret) == (incarnation, secret)
            && older.end() == before
        {
            contents.before = older.head.before;
            contents.frames.splice(0..0, older.frames);
        }
        Ok(contents)
    }

    /// # Errors
    /// [`JournalError::Damaged`] where a frame comes after the end.
    pub(super) fn check(&self) -> Result<(), JournalError> {
        let end = self.end().number;
        for (at, bytes) in self.segments.iter().enumerate() {
            let from = if at == self.newest { self.rest } else { 0 };
            let numbers = (end, end + 2 * frames_max(bytes));
            if let Some(found) = later(&self.secret, bytes, from, numbers).next() {
                let found = found.at.number;
                let what = format!("expected frame {}, found {found} after it", end + 1);
                return Err(damaged(&self.place, what));
            }
        }
        Ok(())
    }

    pub(in super::super) fn incarnation(&self) -> [u8; 16] {
        self.incarnation
    }

    pub(in super::super) fn end(&self) -> Position {
        self.frames.last().map_or(self.before, |it| it.at)
    }

    /// The newest commit.
    pub(in super::super) fn newest_commit(&self) -> HighWater {
        let Position { commit, commit_hash: hash, .. } = self.end();
        HighWater { incarnation: self.incarnation, commit, hash }
    }

    /// What a database lacks that has everything up to this frame.
    ///
    /// # Errors
    /// [`JournalError::Damaged`] when that frame is not of this log, or what follows it is gone.
    pub(in super::super) fn after(
        &self,
        number: u64,
        hash: Hash,
    ) -> Result<&[Frame], JournalError> {
        let (first, last) = (self.before.number, self.end().number);
        if number < first {
            let what =
                format!("expected frame {first} of the log in it, found {number} as the last");
            return Err(damaged("the database", what));
        }
        if last < number {
            let what = format!(
                "expected frame {number}, which the database has, found {last} as the last"
            );
            return Err(damaged(&self.place, what));
        }
        let skip = usize::try_from(number - first).expect("a log is small");
        let known = if skip == 0 { self.before.hash } else { self.frames[skip - 1].at.hash };
        if known != hash {
            let what = format!("expected {hash:?} as the hash of frame {number}, found {known:?}");
            return Err(damaged(&self.place, what));
        }
        Ok(&self.frames[skip..])
    }

    /// Of a log that is damaged, the frames that follow this one without a gap, wherever they are
    /// and whatever comes before them; and the newest commit that any frame has, 0 if there is none.
    pub(in super::super) fn intact_after(&self, number: u64, hash: Hash) -> (Vec<Frame>, u64) {
        // They follow one another over both segments.
        let numbers = (number, number + self.segments.iter().map(frames_max).sum::<u64>());
        let segments = self.segments.iter();
        let mut found: Vec<_> =
            segments.flat_map(|it| later(&self.secret, it, 0, numbers)).collect();
        found.sort_by_key(|it| it.at.number);
        let newest = found.iter().map(|it| it.at.commit).max().unwrap_or(0);
        let (mut frames, mut last) = (Vec::new(), (number, hash));
        for frame in found {
            if (frame.at.number, frame.previous) == (last.0 + 1, last.1)
                && rows_of(&frame.rows).is_some()
            {
                last = (frame.at.number, frame.at.hash);
                frames.push(frame);
            }
        }
        (frames, newest)
    }
}
