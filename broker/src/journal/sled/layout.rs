//! Keys and values of the database: what lies where, and how long bytes are cut into parts.
//!
//! ```text
//! J commit(8) part(2)                 a commit
//! P workspace 0 number(8) piece(4) part(4)   a piece of a snapshot
//! H workspace                         a workspace's head
//! B workspace 0 key 0 part(2)         a body
//! M                                   meta
//! Mp                                  what a health probe writes
//! Ml                                  up to which frame of the log it has everything
//! ```
//!
//! Numbers are big-endian, so that keys sort by them. Ids and body keys hold no zero byte.
//!
//! **Invariant:** no value is longer than [`PART_BYTES_MAX`]. sled keeps up to 16 values in one
//! leaf, and a leaf above 128 KiB goes to a file of its own that sled never syncs.
//!
//! A piece of a snapshot is cut into parts like a body, with the same header before it.

use prost::Message;
use tasuki_proto::{
    id::WorkspaceId,
    stored::{BodyHeader, Commit},
};

use crate::journal::{BodyKey, Hash};

/// The longest value, in bytes. Twenty of the largest still fit a leaf of 128 KiB.
pub const PART_BYTES_MAX: usize = 6 * 1024;

/// Before a commit's bytes: parts (2), length (4) and hash (16).
pub(super) const COMMIT_HEADER_BYTES: usize = 22;

pub(super) const META: &[u8] = b"M";
pub(super) const PROBE: &[u8] = b"Mp";
pub(super) const POSITION: &[u8] = b"Ml";
pub(super) const COMMITS: u8 = b'J';
pub(super) const HEADS: u8 = b'H';
pub(super) const PIECES: u8 = b'P';
pub(super) const BODIES: u8 = b'B';

pub(super) fn commit_key(commit: u64, part: u16) -> [u8; 11] {
    let mut key = [COMMITS; 11];
    key[1..9].copy_from_slice(&commit.to_be_bytes());
    key[9..].copy_from_slice(&part.to_be_bytes());
    key
}

pub(super) fn head_key(workspace: &WorkspaceId) -> Vec<u8> {
    [&[HEADS], workspace.as_str().as_bytes()].concat()
}

/// Of all parts of all pieces of a snapshot.
pub(super) fn pieces_prefix(workspace: &WorkspaceId, number: u64) -> Vec<u8> {
    let workspace = workspace.as_str().as_bytes();
    [&[PIECES], workspace, &[0], &number.to_be_bytes()].concat()
}

pub(super) fn piece_key(workspace: &WorkspaceId, number: u64, piece: u32, part: u32) -> Vec<u8> {
    let prefix = pieces_prefix(workspace, number);
    [&prefix[..], &piece.to_be_bytes(), &part.to_be_bytes()].concat()
}

/// Parts of a body.
pub(super) const BODY_PARTS_MAX: u32 = u16::MAX as u32;

/// # Panics
/// Beyond [`BODY_PARTS_MAX`].
pub(super) fn body_key(workspace: &WorkspaceId, key: &BodyKey, part: u32) -> Vec<u8> {
    let part = u16::try_from(part).expect("a body has at most 65,535 parts");
    let workspace = workspace.as_str().as_bytes();
    [&[BODIES], workspace, &[0], key.0.as_bytes(), &[0], &part.to_be_bytes()].concat()
}

/// What the keys of all bodies of a workspace begin with.
pub(super) fn bodies_prefix(workspace: &WorkspaceId) -> Vec<u8> {
    [&[BODIES], workspace.as_str().as_bytes(), &[0]].concat()
}

/// A key of the database, taken apart; `None` for one that no part of this program writes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Key {
    Meta,
    Probe,
    Position,
    Commit { commit: u64, part: u16 },
    Head { workspace: WorkspaceId },
    Piece { workspace: WorkspaceId, number: u64, piece: u32, part: u32 },
    Body { workspace: WorkspaceId, key: BodyKey, part: u32 },
}

impl Key {
    pub(super) fn parse(key: &[u8]) -> Option<Self> {
        match (key.split_first()?, key) {
            (_, META) => Some(Self::Meta),
            (_, PROBE) => Some(Self::Probe),
            (_, POSITION) => Some(Self::Position),
            ((&COMMITS, rest), _) => {
                let (commit, part) = rest.split_first_chunk()?;
                Some(Self::Commit { commit: u64::from_be_bytes(*commit), part: number(part)? })
            }
            ((&HEADS, rest), _) => Some(Self::Head { workspace: workspace(rest)? }),
            ((&PIECES, rest), _) => {
                let (name, rest) = until_zero(rest)?;
                let (number, rest) = rest.split_first_chunk()?;
                let (piece, part) = rest.split_first_chunk()?;
                let (number, piece) = (u64::from_be_bytes(*number), u32::from_be_bytes(*piece));
                let part = u32::from_be_bytes(part.try_into().ok()?);
                Some(Self::Piece { workspace: workspace(name)?, number, piece, part })
            }
            ((&BODIES, rest), _) => {
                let (name, rest) = until_zero(rest)?;
                let (key, part) = until_zero(rest)?;
                let key = BodyKey(std::str::from_utf8(key).ok()?.to_owned());
                Some(Self::Body { workspace: workspace(name)?, key, part: number(part)?.into() })
            }
            _ => None,
        }
    }
}

fn workspace(bytes: &[u8]) -> Option<WorkspaceId> {
    WorkspaceId::of_journal(std::str::from_utf8(bytes).ok()?).ok()
}

fn number(bytes: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.try_into().ok()?))
}

fn until_zero(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

/// What comes before the bytes of a commit, in its part 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CommitHeader {
    pub(super) parts: u16,
    pub(super) length: u32,
    pub(super) hash: Hash,
}

impl CommitHeader {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let parts = parts_of(COMMIT_HEADER_BYTES + bytes.len());
        let length = u32::try_from(bytes.len()).expect("a commit is far below 4 GiB");
        Self { parts, length, hash: Hash::of(bytes) }
    }

    /// The header and what follows it; `None` when there is too little for one.
    pub(super) fn split(part: &[u8]) -> Option<(Self, &[u8])> {
        let (parts, rest) = part.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (hash, rest) = rest.split_first_chunk()?;
        let (parts, length) = (u16::from_be_bytes(*parts), u32::from_be_bytes(*length));
        Some((Self { parts, length, hash: Hash(*hash) }, rest))
    }

    /// Header and bytes, as they are cut into parts.
    pub(super) fn before(&self, bytes: &[u8]) -> Vec<u8> {
        [&self.parts.to_be_bytes(), &self.length.to_be_bytes()[..], &self.hash.0, bytes].concat()
    }
}

/// A run of one workspace's records inside a commit's bytes. It is itself an encoded `Commit`
/// with these entries and nothing else, so that reading one workspace decodes only its own.
pub(super) fn encode_entries(commit: &mut Vec<u8>, run: Commit) -> (u32, u32) {
    let at = commit.len();
    run.encode(commit).expect("a vector grows");
    let small = |bytes| u32::try_from(bytes).expect("a commit is far below 4 GiB");
    (small(at), small(commit.len() - at))
}

/// A body, or a piece of a snapshot, as it is cut into parts: its header, length-delimited, and its
/// bytes.
pub(super) fn encode_body(body: &[u8]) -> Vec<u8> {
    let header = BodyHeader { length: body.len() as u64, hash: Hash::of(body).to_bytes() };
    let mut bytes = header.encode_length_delimited_to_vec();
    bytes.extend_from_slice(body);
    bytes
}

/// How many parts a body has, its header, and what of it is in its first part; the same of a piece
/// of a snapshot.
pub(super) fn split_body(mut part: &[u8]) -> Option<(u32, BodyHeader, &[u8])> {
    let whole = part.len();
    let header = BodyHeader::decode_length_delimited(&mut part).ok()?;
    let length = usize::try_from(header.length).ok()?.checked_add(whole - part.len())?;
    let parts = u32::try_from(length.div_ceil(PART_BYTES_MAX).max(1)).ok()?;
    Some((parts, header, part))
}

/// How many parts this many bytes make; at least one.
///
/// # Panics
/// Above 384 MiB, which no commit and no body comes near: both are bounded by a message.
pub(super) fn parts_of(bytes: usize) -> u16 {
    u16::try_from(bytes.div_ceil(PART_BYTES_MAX).max(1)).expect("at most 65,535 parts")
}

/// The parts of `bytes` with their numbers; one empty part of nothing.
pub(super) fn parts(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    (0..parts_of(bytes.len())).map(move |part| {
        let from = usize::from(part) * PART_BYTES_MAX;
        (part, &bytes[from..bytes.len().min(from + PART_BYTES_MAX)])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_every_workspace_is_read_back() {
        for workspace in [WorkspaceId::system(), "default".parse().expect("an id")] {
            let key = || BodyKey("main/1".to_owned());
            assert_eq!(
                Key::parse(&head_key(&workspace)),
                Some(Key::Head { workspace: workspace.clone() })
            );
            assert_eq!(
                Key::parse(&piece_key(&workspace, 7, 3, 70_000)),
                Some(Key::Piece {
                    workspace: workspace.clone(),
                    number: 7,
                    piece: 3,
                    part: 70_000
                })
            );
            assert_eq!(
                Key::parse(&body_key(&workspace, &key(), 2)),
                Some(Key::Body { workspace: workspace.clone(), key: key(), part: 2 })
            );
        }
    }
}
