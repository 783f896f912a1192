//! The bytes on disk, pinned: a change here is a change of the format.

use bytes::Bytes;
use prost::Message;
use tasuki_proto::stored::{Commit, Entry, Head};

use super::{
    commit_builder::encode_meta,
    layout::{self, CommitHeader, Key},
    mark::{HighWater, decode},
};
use crate::{
    journal::{BodyKey, Hash},
    rules::Fence,
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn entry(sequence: u64, record: &'static str) -> Entry {
    Entry {
        workspace: "w".into(),
        sequence,
        previous: Hash([3; 16]).to_bytes(),
        checksum: crc32c::crc32c(record.as_bytes()),
        record: record.into(),
    }
}

#[test]
fn a_commit() {
    let commit = Commit {
        number: 7,
        previous: Hash([1; 16]).to_bytes(),
        incarnation: Bytes::from_static(&[2; 16]),
        entries: vec![entry(1, "one"), entry(2, "two")],
    };
    let bytes = commit.encode_to_vec();
    assert_eq!(
        hex(&CommitHeader::of(&bytes).before(&bytes)),
        concat!(
            "00010000006c30d330144600eec14d6d82d4c2395544",
            "08071210010101010101010101010101010101011a1002020202020202020202020202020202",
            "22210a017710011a100303030303030303030303030303030325e9b2942a2a036f6e65",
            "22210a017710021a100303030303030303030303030303030325a3b3d8522a0374776f",
        )
    );
    // Written in pieces, it is the same.
    let mut pieces = Commit { entries: Vec::new(), ..commit.clone() }.encode_to_vec();
    let run = Commit { entries: commit.entries, ..Commit::default() };
    let (offset, length) = layout::encode_entries(&mut pieces, run.clone());
    assert_eq!(pieces, bytes);
    let slice = &bytes[offset as usize..][..length as usize];
    assert_eq!(Commit::decode(slice), Ok(run));
}

#[test]
fn a_head() {
    let head = Head {
        snapshot_sequence: 300,
        snapshot_hash: Hash([4; 16]).to_bytes(),
        record_hash: Hash([5; 16]).to_bytes(),
        oldest_commit: 6,
        oldest_sequence: 290,
        snapshot_number: 3,
        snapshot_pieces: 2,
    };
    assert_eq!(
        hex(&head.encode_to_vec()),
        concat!(
            "08ac021a1004040404040404040404040404040404",
            "221005050505050505050505050505050505280630a20238034002",
        )
    );
}

#[test]
fn meta() {
    assert_eq!(
        hex(&encode_meta([2; 16], 6, Hash([1; 16]), Fence::default())),
        concat!(
            "0804121002020202020202020202020202020202",
            "1806221001010101010101010101010101010101",
        )
    );
}

#[test]
fn a_mark() {
    let mut slot = [0; 512];
    slot[..6].copy_from_slice(&[0x00, 0x26, 0x7c, 0x8f, 0x08, 0x8e]);
    slot[6..8].copy_from_slice(&[0x0a, 0x10]);
    slot[8..24].fill(2);
    slot[24..28].copy_from_slice(&[0x10, 7, 0x1a, 0x10]);
    slot[28..44].fill(1);
    let mark = HighWater { incarnation: [2; 16], commit: 7, hash: Hash([1; 16]) };
    assert_eq!(decode(&slot), Some(mark));
}

#[test]
fn a_body() {
    assert_eq!(
        hex(&layout::encode_body(b"body")),
        "14080412100be9c598ae63835518e7fb422dc3027f626f6479"
    );
}

#[test]
fn keys() {
    let id = "w".parse().expect("an id");
    let body = BodyKey("k".into());
    for (key, golden, parsed) in [
        (layout::META.to_vec(), "4d", Key::Meta),
        (layout::PROBE.to_vec(), "4d70", Key::Probe),
        (layout::POSITION.to_vec(), "4d6c", Key::Position),
        (
            layout::commit_key(7, 2).to_vec(),
            "4a00000000000000070002",
            Key::Commit { commit: 7, part: 2 },
        ),
        (layout::head_key(&id), "4877", Key::Head { workspace: id.clone() }),
        (
            layout::piece_key(&id, 7, 1, 2),
            "50770000000000000000070000000100000002",
            Key::Piece { workspace: id.clone(), number: 7, piece: 1, part: 2 },
        ),
        (
            layout::body_key(&id, &body, 2),
            "4277006b000002",
            Key::Body { workspace: id.clone(), key: body.clone(), part: 2 },
        ),
    ] {
        assert_eq!(hex(&key), golden);
        assert_eq!(Key::parse(&key), Some(parsed));
    }
    for unknown in [
        "",
        "X",
        "Mx",
        "J",
        "J12345678",
        "H",
        "H\0",
        "Sw",
        "Pw\x00123456789012",
        "Bw\0k\x001",
        "Bw\0k",
    ] {
        assert_eq!(Key::parse(unknown.as_bytes()), None, "{unknown:?}");
    }
}
