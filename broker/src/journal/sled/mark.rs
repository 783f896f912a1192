//! The mark: what stood beside the database before there was the log.
//!
//! It named the newest commit, in two slots of a sector each that were written in turn. A database
//! that has one is taken over at its next start; nothing writes it any more.

use std::{
    io,
    path::{Path, PathBuf},
};

use prost::Message;
use tasuki_proto::stored::Mark;

use crate::journal::{Hash, JournalError};

/// One slot, in bytes: a sector, which a disk writes whole or not at all.
const SLOT_BYTES: usize = 512;

/// The newest commit that was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HighWater {
    pub(super) incarnation: [u8; 16],
    pub(super) commit: u64,
    pub(super) hash: Hash,
}

pub(super) fn path(dir: &Path) -> PathBuf {
    dir.join("mark")
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

/// Length (2) and CRC-32C (4) come before a mark.
pub(super) fn decode(slot: &[u8]) -> Option<HighWater> {
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
