//! The whole state of a workspace, in pieces: there is no size at which it does not fit.
//!
//! Each piece is a sequence of items by itself; the first begins with what they are a snapshot of.

use bytes::Bytes;
use minicbor::{Decode, Encode};
use tasuki_proto::id::{Sequence, Timestamp};

use super::{CodecError, FORMAT, check_readable, encode, encode_to, take};
use crate::rules::{SnapshotItem, Workspace};

/// How long a piece becomes, in bytes, but for what cannot be divided: it is written between other
/// commits, which wait for it.
const PIECE_BYTES: usize = 64 * 1024;

#[derive(Encode, Decode)]
struct Head {
    #[n(0)]
    min_reader: u32,
    #[n(1)]
    sequence: Sequence,
    #[n(2)]
    time: Timestamp,
}

/// Encodes a workspace's state piece by piece, each of which `put` gets in order.
///
/// # Errors
/// Of `put`.
pub fn encode_snapshot<E>(
    state: &Workspace,
    mut put: impl FnMut(Bytes) -> Result<(), E>,
) -> Result<(), E> {
    let head = Head { min_reader: FORMAT, sequence: state.sequence, time: state.time };
    let mut piece = encode(&head);
    for item in state.items() {
        encode_to(&item, &mut piece);
        if PIECE_BYTES <= piece.len() {
            put(std::mem::take(&mut piece).into())?;
        }
    }
    if piece.is_empty() { Ok(()) } else { put(piece.into()) }
}

/// A workspace's state from the pieces of its snapshot, in order. No more than one is in memory.
///
/// # Errors
/// Names what is missing, unknown or not valid; or where a piece cannot be had, why.
pub fn decode_snapshot<E: From<CodecError>>(
    pieces: impl IntoIterator<Item = Result<Bytes, E>>,
) -> Result<Workspace, E> {
    let mut state = Workspace::default();
    let mut is_begun = false;
    for piece in pieces {
        let piece = piece?;
        let mut rest = &piece[..];
        if !is_begun {
            check_readable("snapshot", rest)?;
            let head: Head = take("snapshot", &mut rest)?;
            (state.sequence, state.time) = (head.sequence, head.time);
            is_begun = true;
        }
        while !rest.is_empty() {
            let item: SnapshotItem<'_> = take("snapshot", &mut rest)?;
            state.restore(item).map_err(CodecError::Unsound)?;
        }
    }
    if !is_begun {
        let why = "it has no pieces".to_owned();
        return Err(CodecError::Malformed { what: "snapshot", why }.into());
    }
    state.settle().map_err(CodecError::Unsound)?;
    Ok(state)
}
