//! A file that is not as it was written is refused, wherever it differs.

use super::{super::check, *};

fn head() -> BackupHead {
    BackupHead {
        incarnation: Bytes::from_static(&[2; 16]),
        made_ms: 5,
        commit: 7,
        software: "0.1.0".to_owned(),
        fence: 0,
    }
}

fn file() -> Vec<u8> {
    let mut encoder = Encoder::default();
    let mut bytes = encoder.begin(head());
    for frame in [
        Frame::File(BackupFile { path: "tls/key.pem".to_owned(), content: "k".into() }),
        Frame::Workspace(BackupWorkspace { workspace: "w".to_owned(), snapshot: 3, last: 4 }),
        Frame::Piece(Bytes::from_static(b"piece")),
        Frame::Record(BackupRecord { sequence: 4, record: "record".into() }),
        Frame::Body(BackupBody { key: "loop/main/1".to_owned(), body: "body".into() }),
    ] {
        bytes.extend(encoder.frame(&frame));
    }
    bytes.extend(encoder.end());
    bytes
}

fn refused(bytes: &[u8]) -> String {
    match check(bytes) {
        Ok(summary) => panic!("it is taken for whole: {summary:?}"),
        Err(why) => why.to_string(),
    }
}

#[test]
fn what_was_written_is_read() {
    let bytes = file();
    let summary = check(&bytes[..]).unwrap();
    assert_eq!((summary.commit, summary.workspaces), (7, 1));
    assert_eq!((summary.records, summary.bodies), (1, 1));
    assert_eq!(summary.bytes, bytes.len() as u64);
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_refused() {
    let bytes = file();
    for end in 0..bytes.len() {
        refused(&bytes[..end]);
    }
    let why = refused(&bytes[..bytes.len() - 1]);
    assert!(why.contains("it was cut off") && why.contains("body \"loop/main/1\""), "{why}");
}

#[test]
fn a_file_in_which_any_bit_is_flipped_is_refused() {
    let bytes = file();
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        refused(&flipped);
    }
}

#[test]
fn what_is_no_backup_or_of_a_newer_release_is_said_so() {
    let mut newer = file();
    newer[MAGIC.len() + 3] = 9;
    let longer = [&file()[..], b"x"].concat();
    let mut twice = Encoder::default();
    let mut without_head = twice.begin(head());
    without_head.truncate(MAGIC.len() + 4);
    let cases: [(&[u8], &str); 5] = [
        (b"", "this is no backup"),
        (b"PK\x03\x04 something else altogether", "this is no backup"),
        (&newer, "the backup has format 9, this release reads 1"),
        (&longer, "something comes after it"),
        (&without_head, "it was cut off"),
    ];
    for (bytes, expected) in cases {
        let why = refused(bytes);
        assert!(why.contains(expected), "{why}");
    }
}
