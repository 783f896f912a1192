//! The bytes of calls of exported tools.

use super::*;
use crate::rules::call::{self, Call, Calls, OpenCall, Outcome};

fn a_call() -> Call {
    Call {
        role: "dev".parse().unwrap(),
        target: "qa".parse().unwrap(),
        tool: "run_tests".to_owned(),
    }
}

/// Holds A5.
#[test]
fn the_bytes_of_calls_are_unchanged() {
    let outcomes = [
        Outcome::Succeeded,
        Outcome::Failed,
        Outcome::Canceled,
        Outcome::TimedOut,
        Outcome::Unknown,
    ];
    let ended = outcomes.map(|it| call::Event::Ended(7, a_call(), it, None));
    let recorded = [
        call::Event::Begun(8, a_call(), Some("{}".to_owned())),
        call::Event::Ended(8, a_call(), Outcome::Succeeded, Some("{}".to_owned())),
    ];
    let begun = call::Event::Begun(7, a_call(), None);
    let events = [begun].into_iter().chain(ended).chain(recorded);
    let told: String = events.map(|it| pinned(&Event::Call(it))).collect();
    check_golden("tests/call_events.golden.txt", &told);
}

#[test]
fn the_bytes_of_a_snapshot_with_calls_are_unchanged() {
    let open = OpenCall { call: a_call(), began: Timestamp::from_millis(7) };
    let state =
        Workspace { calls: Calls { last: 9, open: [(8, open)].into() }, ..Workspace::default() };
    let stored = encode_snapshot(&state);
    check_golden("tests/call_snapshot.golden.txt", &hex(&stored));
    assert_eq!(decode_snapshot(stored).unwrap(), state);
}
