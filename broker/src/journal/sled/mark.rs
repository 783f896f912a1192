//! The high-water mark: the newest acknowledged commit, in a file beside the database.
//!
//! sled opens without a word after losing its tail; the mark is what notices. It is written
//! after a commit is on disk and before anyone is told, so it never leads what is durable. It
//! may lag: on the hot path it is not synced.
//!
//! Two slots of a sector each are written in turn, so that a torn write spoils one at most.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use prost::Message;
use tasuki_proto::stored::Mark;

use crate::journal::{Hash, JournalError};

/// One slot, in bytes: a sector, which a disk writes whole or not at all.
pub(super) const SLOT_BYTES: usize = 512;

/// Length (2) and CRC-32C (4) of the encoded mark.
const SLOT_HEADER_BYTES: usize = 6;

/// What the mark says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HighWater {
    pub(super) incarnation: [u8; 16],
    pub(super) commit: u64,
    pub(super) hash: Hash,
}

#[derive(Debug)]
pub(super) struct MarkFile {
    file: File,
}

pub(super) fn path(dir: &Path) -> PathBuf {
    dir.join("mark")
}

impl MarkFile {
    /// Makes the file or opens it, and makes what it says durable.
    pub(super) fn write_anew(dir: &Path, mark: &HighWater) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path(dir))?;
        let written = Self { file };
        let slot = encode(mark);
        written.file.write_all_at(&[slot, slot].concat(), 0)?;
        written.file.set_len(2 * SLOT_BYTES as u64)?;
        written.file.sync_all()?;
        Ok(written)
    }

    /// Writes the mark into the slot whose turn it is.
    pub(super) fn write(&self, mark: &HighWater) -> io::Result<()> {
        let at = (mark.commit % 2) * SLOT_BYTES as u64;
        self.file.write_all_at(&encode(mark), at)
    }
}

/// What the file says; `None` when there is none.
///
/// # Errors
/// [`JournalError::Damaged`] when neither slot holds a whole mark.
pub(super) fn read(dir: &Path) -> Result<Option<HighWater>, JournalError> {
    let bytes = match std::fs::read(path(dir)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(JournalError::Storage(format!("reading the mark: {error}"))),
    };
    let newest = bytes.chunks(SLOT_BYTES).take(2).filter_map(decode).max_by_key(|mark| mark.commit);
    newest.map(Some).ok_or_else(|| JournalError::Damaged {
        place: path(dir).display().to_string(),
        what: format!(
            "expected a whole mark in one of two slots, found none in {} bytes",
            bytes.len()
        ),
    })
}

pub(super) fn encode(mark: &HighWater) -> [u8; SLOT_BYTES] {
    let stored = Mark {
        incarnation: mark.incarnation.to_vec().into(),
        commit: mark.commit,
        hash: mark.hash.to_bytes(),
    }
    .encode_to_vec();
    let length = u16::try_from(stored.len()).expect("a mark has under 60 bytes");
    let mut slot = [0; SLOT_BYTES];
    slot[..2].copy_from_slice(&length.to_be_bytes());
    slot[2..SLOT_HEADER_BYTES].copy_from_slice(&crc32c::crc32c(&stored).to_be_bytes());
    slot[SLOT_HEADER_BYTES..][..stored.len()].copy_from_slice(&stored);
    slot
}

fn decode(slot: &[u8]) -> Option<HighWater> {
    let (length, rest) = slot.split_first_chunk()?;
    let (checksum, rest) = rest.split_first_chunk()?;
    let stored = rest.get(..usize::from(u16::from_be_bytes(*length)))?;
    if crc32c::crc32c(stored) != u32::from_be_bytes(*checksum) {
        return None;
    }
    let mark = Mark::decode(stored).ok()?;
    Some(HighWater {
        incarnation: mark.incarnation[..].try_into().ok()?,
        commit: mark.commit,
        hash: Hash(mark.hash[..].try_into().ok()?),
    })
}
