//! The bytes of the log: a segment's head, and frames. Pure.
//!
//! ```text
//! head    one sector: length(2) crc(4) and a `LogHead`
//! frame   crc(4) length(4) number(8) previous(16) commit(8) hash(16), then `length` bytes of rows;
//!         filled up with zeroes to a whole sector
//! row     key length(2) key, value length + 1 (4) value; 0 for a key that is removed
//! ```
//!
//! Numbers are big-endian. A frame begins with a sector, so that one that is torn spoils none
//! before it. Its checksum begins with a secret of the log, which nobody knows whose text is in a
//! frame: no text can pass for a frame.

use bytes::Bytes;
use prost::Message;
use tasuki_proto::stored::LogHead;

use super::Position;
use crate::journal::Hash;

/// What a disk writes whole or not at all, in bytes.
pub(in super::super) const SECTOR: usize = 512;

/// Before a frame's rows.
const HEAD_BYTES: usize = 56;

/// Length and checksum of a segment's head.
const PREFIX_BYTES: usize = 6;

/// What is written in one piece: keys with their values, and keys to be removed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(in super::super) struct Rows(Vec<u8>);

impl Rows {
    pub(in super::super) fn insert(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
        let length = u32::try_from(value.len() + 1).expect("a value is far below 4 GiB");
        self.put(key.as_ref(), length, value);
    }

    pub(in super::super) fn remove(&mut self, key: impl AsRef<[u8]>) {
        self.put(key.as_ref(), 0, &[]);
    }

    fn put(&mut self, key: &[u8], length: u32, value: &[u8]) {
        let key_length = u16::try_from(key.len()).expect("a key has a few hundred bytes");
        self.0.extend_from_slice(&key_length.to_be_bytes());
        self.0.extend_from_slice(key);
        self.0.extend_from_slice(&length.to_be_bytes());
        self.0.extend_from_slice(value);
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(in super::super) fn into_bytes(self) -> Bytes {
        self.0.into()
    }
}

/// A key, and its value unless it is removed.
type Row = (Bytes, Option<Bytes>);

/// Encoded rows, taken apart; `None` where bytes are none.
pub(in super::super) fn rows_of(bytes: &Bytes) -> Option<Vec<Row>> {
    let (mut rows, mut rest) = (Vec::new(), &bytes[..]);
    while !rest.is_empty() {
        let (length, after) = rest.split_first_chunk()?;
        let (key, after) = after.split_at_checked(u16::from_be_bytes(*length).into())?;
        let (length, after) = after.split_first_chunk()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (value, after) = after.split_at_checked(length.saturating_sub(1))?;
        let value = (length != 0).then(|| bytes.slice_ref(value));
        rows.push((bytes.slice_ref(key), value));
        rest = after;
    }
    Some(rows)
}

/// A segment's head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) incarnation: [u8; 16],
    pub(super) secret: [u8; 16],
    /// Where its first frame follows.
    pub(super) before: Position,
}

impl Head {
    pub(super) fn encode(&self) -> [u8; SECTOR] {
        let stored = LogHead {
            incarnation: self.incarnation.to_vec().into(),
            secret: self.secret.to_vec().into(),
            number: self.before.number,
            hash: self.before.hash.to_bytes(),
            commit: self.before.commit,
            commit_hash: self.before.commit_hash.to_bytes(),
        }
        .encode_to_vec();
        let length = u16::try_from(stored.len()).expect("a head has under 120 bytes");
        let mut sector = [0; SECTOR];
        sector[..2].copy_from_slice(&length.to_be_bytes());
        sector[2..PREFIX_BYTES].copy_from_slice(&crc32c::crc32c(&stored).to_be_bytes());
        sector[PREFIX_BYTES..][..stored.len()].copy_from_slice(&stored);
        sector
    }

    pub(super) fn decode(sector: &[u8]) -> Option<Self> {
        let (length, rest) = sector.split_first_chunk()?;
        let (checksum, rest) = rest.split_first_chunk()?;
        let stored = rest.get(..usize::from(u16::from_be_bytes(*length)))?;
        if crc32c::crc32c(stored) != u32::from_be_bytes(*checksum) {
            return None;
        }
        let head = LogHead::decode(stored).ok()?;
        Some(Self {
            incarnation: head.incarnation[..].try_into().ok()?,
            secret: head.secret[..].try_into().ok()?,
            before: Position {
                number: head.number,
                hash: Hash(head.hash[..].try_into().ok()?),
                commit: head.commit,
                commit_hash: Hash(head.commit_hash[..].try_into().ok()?),
            },
        })
    }
}

/// One frame, and where the log stands after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Frame {
    pub(in super::super) at: Position,
    pub(super) previous: Hash,
    /// Its encoded rows.
    pub(in super::super) rows: Bytes,
}

/// How many bytes a frame with so many bytes of rows takes.
pub(super) fn frame_bytes(rows: usize) -> usize {
    (HEAD_BYTES + rows).next_multiple_of(SECTOR)
}

/// The frame after `before`, and where the log stands after it.
pub(super) fn encode(
    secret: &[u8; 16],
    before: &Position,
    commit: Option<(u64, Hash)>,
    rows: &[u8],
) -> (Vec<u8>, Position) {
    let (number, (commit, commit_hash)) =
        (before.number + 1, commit.unwrap_or((before.commit, before.commit_hash)));
    let length = u32::try_from(rows.len()).expect("a frame is far below 4 GiB");
    let mut bytes = Vec::with_capacity(frame_bytes(rows.len()));
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.extend_from_slice(&before.hash.0);
    bytes.extend_from_slice(&commit.to_be_bytes());
    bytes.extend_from_slice(&commit_hash.0);
    bytes.extend_from_slice(rows);
    let hash = Hash::of(&bytes[4..]);
    let checksum = checksum(secret, &bytes[4..]);
    bytes[..4].copy_from_slice(&checksum.to_be_bytes());
    bytes.resize(frame_bytes(rows.len()), 0);
    (bytes, Position { number, hash, commit, commit_hash })
}

fn checksum(secret: &[u8; 16], frame: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(secret), frame)
}

/// The number that a frame at the front of these bytes would have.
pub(super) fn frame_number(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*bytes.get(8..)?.first_chunk()?))
}

/// The frame at the front of these bytes; `None` when there is no whole one.
pub(super) fn decode(secret: &[u8; 16], bytes: &Bytes) -> Option<Frame> {
    let (stored, rest) = bytes.split_first_chunk()?;
    let length = usize::try_from(u32::from_be_bytes(*rest.first_chunk()?)).ok()?;
    let body = rest.get(..length.checked_add(HEAD_BYTES - 4)?)?;
    if checksum(secret, body) != u32::from_be_bytes(*stored) {
        return None;
    }
    let (_, fields) = body.split_first_chunk::<4>()?;
    let (number, fields) = fields.split_first_chunk()?;
    let (previous, fields) = fields.split_first_chunk()?;
    let (commit, fields) = fields.split_first_chunk()?;
    let (commit_hash, rows) = fields.split_first_chunk()?;
    Some(Frame {
        at: Position {
            number: u64::from_be_bytes(*number),
            hash: Hash::of(body),
            commit: u64::from_be_bytes(*commit),
            commit_hash: Hash(*commit_hash),
        },
        previous: Hash(*previous),
        rows: bytes.slice_ref(rows),
    })
}
