//! What comes back from the journal, and from a snapshot.

use bytes::Bytes;
use tasuki_broker::{
    journal::codec::{self, CodecError, decode_record},
    rules::Workspace,
};

/// The pieces of a state's snapshot.
pub(super) fn encode_snapshot(workspace: &Workspace) -> Vec<Bytes> {
    let mut pieces = Vec::new();
    let put = |piece| -> Result<(), CodecError> {
        pieces.push(piece);
        Ok(())
    };
    codec::encode_snapshot(workspace, put).unwrap();
    pieces
}

pub(super) fn decode_snapshot(pieces: &[Bytes]) -> Workspace {
    let decoded: Result<_, CodecError> = codec::decode_snapshot(pieces.iter().cloned().map(Ok));
    decoded.unwrap()
}

/// W1: the records make the state again, and so do a snapshot and those after it.
pub(super) fn replayed(
    restored: Option<&[Bytes]>,
    journal: &[Bytes],
    snapshot: Option<&[Bytes]>,
    workspace: &Workspace,
) -> Workspace {
    let mut replayed = restored.map(decode_snapshot).unwrap_or_default();
    for bytes in journal {
        replayed.apply(&decode_record(bytes.clone()).unwrap());
    }
    assert_eq!(replayed, *workspace, "W1: replay");
    if let Some(pieces) = snapshot {
        let mut woken = decode_snapshot(pieces);
        for bytes in journal {
            let record = decode_record(bytes.clone()).unwrap();
            if woken.sequence < record.sequence {
                woken.apply(&record);
            }
        }
        assert_eq!(woken, *workspace, "W1: snapshot and replay");
    }
    replayed
}
