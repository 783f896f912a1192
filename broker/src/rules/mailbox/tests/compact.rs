//! Which threads are over, and what goes with them.

use std::collections::BTreeSet;

use super::*;
use crate::{
    journal::codec::{CodecError, decode_snapshot, encode_snapshot},
    rules::CompactKind,
};

/// A story, and what is left once what was over by `before` is removed.
fn compacted(steps: &[(u64, &str)], before: u64) -> (Story, String) {
    let mut story = Story { workspace: Workspace::default(), told: String::new() };
    for (ms, line) in steps {
        story.step(*ms, line);
    }
    let (now, before) = (Timestamp::from_millis(100), Timestamp::from_millis(before));
    let kinds: BTreeSet<CompactKind> = [CompactKind::Mail].into();
    let plan = story.workspace.compactable(before, &kinds, Vec::new());
    let said = story.execute(now, AnyCommand::Compact(plan));
    let mut pieces = Vec::new();
    let put = |piece| -> Result<(), CodecError> {
        pieces.push(Ok(piece));
        Ok(())
    };
    encode_snapshot(&story.workspace, put).unwrap();
    let woken: Result<_, CodecError> = decode_snapshot(pieces);
    assert!(woken.unwrap() == story.workspace, "a snapshot holds what is left");
    (story, said)
}

#[test]
fn only_what_everybody_is_done_with_for_long_goes() {
    for (steps, before, expected) in [
        (&[(1, "A writes 1 to B: m"), (2, "B resolves 1")][..], 2, "done"),
        (&[(1, "A writes 1 to B: m"), (2, "B rejects 1")], 2, "done"),
        (&[(1, "A writes 1 to B: m"), (3, "B resolves 1")], 2, "so already | A o1 | B d1"),
        (&[(1, "A writes 1 to B: m")], 50, "so already | A o1 | B i1*"),
        (&[(1, "A writes 1 to B: m"), (2, "B sees 1 to 1")], 50, "so already | A o1 | B i1"),
        (
            &[(0, "opens C"), (1, "A writes 1 to B,C: m"), (2, "B resolves 1")],
            50,
            "so already | C i1* | A o1 | B d1",
        ),
        (
            &[(1, "A writes 1 to B: m"), (2, "B waits"), (3, "B answers 1 to A: n")],
            50,
            "so already | A i1* | B o1",
        ),
        (
            &[
                (1, "A writes 1 to B: m"),
                (2, "B waits"),
                (3, "B answers 1 to A: n"),
                (4, "A resolves 1"),
            ],
            50,
            "done",
        ),
        // Nobody saw it, and its time is over.
        (&[(1, "A writes 1 to B +within=5: m"), (9, "time")], 50, "done"),
        (
            &[
                (1, "A writes 1 to B: m"),
                (2, "B resolves 1"),
                (3, "A writes 2 to B: m"),
                (4, "A writes 3 to B: m"),
                (5, "B resolves 3"),
            ],
            50,
            "done | A o2 | B i2*",
        ),
        (&[(1, "1 is taken over: A to B in done")], 50, "done"),
        (&[(1, "1 is taken over: A to B in inbox")], 50, "so already | A d1 | B i1*"),
    ] {
        let (_, said) = compacted(steps, before);
        assert_eq!(said, expected, "{steps:?}");
    }
}

#[test]
fn what_comes_later_is_as_if_it_had_never_been() {
    let steps = [
        (1, "A writes 1 to B +within=60: m"),
        (2, "B resolves 1"),
        (3, "A writes 2 to B +ref=r: m"),
        (4, "B resolves 2"),
    ];
    let (mut story, said) = compacted(&steps, 50);
    assert_eq!(said, "done");
    story.told.clear();
    for (ms, line) in [
        (101, "time"),
        (102, "B sees 1 to 1"),
        // What was sent under its name is not sent twice.
        (103, "A writes 3 to B +ref=r: m"),
        (104, "A writes 1 to B: again"),
        (105, "B waits"),
    ] {
        story.step(ms, line);
    }
    assert_eq!(
        story.told,
        "101 time: so already\n102 B sees 1 to 1: no: unknown_message\n\
         103 A writes 3 to B +ref=r: m: no: unknown_message\n\
         104 A writes 1 to B: again: 1/1 | A o1 | B i1*\n\
         105 B waits: done | A o1 | B i1*\n"
    );
}

/// Holds X6.
#[test]
fn a_file_stays_as_long_as_something_that_stays_has_it() {
    let attached = [
        (1, "A stores log"),
        (2, "A writes 1 to B +file=log: m"),
        (3, "B resolves 1"),
        (4, "A stores other"),
    ];
    let (story, _) = compacted(&attached, 50);
    let mail = &story.workspace.mail;
    assert!(!mail.has_file(&file("log").hash) && mail.has_file(&file("other").hash));
    assert_eq!(mail.attachment_bytes, 5);
    let twice = [&attached[..], &[(5, "A writes 2 to B +file=log: m")]].concat();
    let (story, _) = compacted(&twice, 50);
    assert!(story.workspace.mail.has_file(&file("log").hash));
    assert_eq!(story.workspace.mail.attachment_bytes, 8);
}
