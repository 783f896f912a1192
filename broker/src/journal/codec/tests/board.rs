//! The bytes of boards.

use tasuki_proto::board::Reducer;

use super::*;
use crate::rules::{
    TextOwner,
    board::{
        self, Change, Created, Deleted, Folded, MessageMark, NewResult, Origin, Pruned,
        ResultPlace, ResultValue, ResultsStored, Schema, Updated, Value, ValuePlace,
    },
};

fn updated(checkpoint: u64, created: Option<Created>) -> Updated {
    let marks = vec![
        MessageMark::Put(Hash([1; 16])),
        MessageMark::Removed(Hash([2; 16])),
        MessageMark::AllRemoved,
    ];
    let change = |channel, messages| Change { channel, update: Some(7), whole: None, messages };
    let new = created.is_some();
    let channels = [("messages", Reducer::AddMessages), ("last_error", Reducer::LastValue)];
    let channels = channels.map(|(name, reducer)| (name.parse().unwrap(), reducer));
    Updated {
        board: "plan".parse().unwrap(),
        checkpoint: checkpoint.into(),
        parent: (checkpoint - 1).into(),
        created,
        channels: if new { channels.to_vec() } else { Vec::new() },
        changes: vec![change(0, marks), change(1, Vec::new())],
        write_key: new.then(|| "k".to_owned()),
        content: Hash([3; 16]),
        written: vec!["messages".parse().unwrap(), "last_error".parse().unwrap()],
    }
}

fn events() -> Vec<board::Event> {
    let origin = Origin { board: "old".parse().unwrap(), id: 3, checkpoint: 4.into() };
    let own = r#"{"properties":{"x":{"reducer":"append"}}}"#;
    let created =
        |schema: &str, origin| Created { id: 5, schema: Schema::new(schema).unwrap(), origin };
    vec![
        board::Event::Updated(updated(1, Some(created("agent_state", Some(origin))))),
        board::Event::Updated(updated(1, Some(created(own, None)))),
        board::Event::Updated(updated(2, None)),
        board::Event::Folded(Folded {
            board: "plan".parse().unwrap(),
            checkpoint: 2.into(),
            values: vec![(0, 9)],
        }),
        board::Event::Deleted(Deleted { board: "plan".parse().unwrap() }),
    ]
}

/// Holds A5.
#[test]
fn the_bytes_of_boards_are_unchanged() {
    let mut told: String = events().into_iter().map(|it| pinned(&Event::Board(it))).collect();
    told += &pinned(&Reply::Board(board::Reply::Updated(7.into())));
    check_golden("tests/board_events.golden.txt", &told);
}

#[test]
fn the_bytes_of_a_snapshot_with_boards_are_unchanged() {
    let mut events = events();
    let event = |it| Event::Board(it);
    let (folded, second, first) = (events.remove(3), events.remove(2), events.remove(0));
    let mut state = Workspace::default();
    for (sequence, event) in (1u64..).zip([first, second, folded].map(event)) {
        let principal = Principal { role: "dev".parse().ok(), ..Principal::default() };
        state.apply(&Record {
            sequence: sequence.into(),
            time: Timestamp::from_millis(sequence * 10),
            principal,
            key: None,
            events: vec![event],
            reply: Reply::Done,
            is_repeat: false,
        });
    }
    state.guard = Workspace::default().guard;
    let stored = encode_snapshot(&state);
    check_golden("tests/board_snapshot.golden.txt", &hex(&stored));
    assert_eq!(decode_snapshot(stored).unwrap(), state);
}

#[test]
fn values_are_kept_under_what_they_belong_to() {
    let mut told = String::new();
    for (is_whole, key) in [(false, "board/5/2/1"), (true, "board/5/2/1/whole")] {
        let place = ValuePlace { board: 5, checkpoint: 2.into(), channel: 1, is_whole };
        let value = Value { place, json: "\"x\"".to_owned() };
        let (found, stored) = encode_body(&Body::Board(value.clone())).remove(0);
        assert_eq!(found.0, key);
        assert_eq!(text_owner(&found), Some(TextOwner::Checkpoint(5, 2.into())));
        assert_eq!(decode_board_value(&place, &stored).unwrap(), value);
        let elsewhere = ValuePlace { channel: 2, ..place };
        assert!(decode_board_value(&elsewhere, &stored).is_err());
        assert_eq!(decode_body(&found, &stored).unwrap().0, Body::Board(value));
        told += &hex(&stored);
    }
    check_golden("tests/board_values.golden.txt", &told);
}

fn results() -> ResultsStored {
    let result = |name: &str, number| NewResult { name: name.parse().unwrap(), number, bytes: 7 };
    ResultsStored {
        board: "plan".parse().unwrap(),
        checkpoint: 2.into(),
        results: vec![result("task/0", 1), result("task/1", 2)],
    }
}

/// Holds A5.
#[test]
fn the_bytes_of_results_and_pruning_are_unchanged() {
    let pruned = Pruned { board: "plan".parse().unwrap(), oldest: 2.into() };
    let events = [board::Event::ResultsStored(results()), board::Event::Pruned(pruned)];
    let mut told: String = events.map(|it| pinned(&Event::Board(it))).concat();
    told += &pinned(&Reply::Board(board::Reply::ResultsStored(0b10)));
    told += &pinned(&Reply::Board(board::Reply::Pruned(1, 2.into())));
    check_golden("tests/board_results.golden.txt", &told);
}

#[test]
fn the_bytes_of_a_snapshot_with_results_are_unchanged() {
    let mut events = events();
    let (second, first) = (events.remove(2), events.remove(0));
    let stored = board::Event::ResultsStored(results());
    let pruned = board::Event::Pruned(Pruned { board: "plan".parse().unwrap(), oldest: 2.into() });
    let mut state = Workspace::default();
    for (sequence, event) in (1u64..).zip([first, second, stored, pruned]) {
        let principal = Principal { role: "dev".parse().ok(), ..Principal::default() };
        state.apply(&Record {
            sequence: sequence.into(),
            time: Timestamp::from_millis(sequence * 10),
            principal,
            key: None,
            events: vec![Event::Board(event)],
            reply: Reply::Done,
            is_repeat: false,
        });
    }
    state.guard = Workspace::default().guard;
    let stored = encode_snapshot(&state);
    check_golden("tests/board_results_snapshot.golden.txt", &hex(&stored));
    assert_eq!(decode_snapshot(stored).unwrap(), state);
}

#[test]
fn results_are_kept_under_what_they_belong_to() {
    let place = ResultPlace { board: 5, checkpoint: 2.into(), number: 3 };
    let value = ResultValue { place, json: "\"x\"".to_owned() };
    let (found, stored) = encode_body(&Body::BoardResult(value.clone())).remove(0);
    assert_eq!(found.0, "result/5/2/3");
    assert_eq!(text_owner(&found), Some(TextOwner::BoardResult(place)));
    assert_eq!(decode_board_result(&place, &stored).unwrap(), value);
    assert!(decode_board_result(&ResultPlace { number: 4, ..place }, &stored).is_err());
    assert_eq!(decode_body(&found, &stored).unwrap().0, Body::BoardResult(value));
    check_golden("tests/board_result_values.golden.txt", &hex(&stored));
}
