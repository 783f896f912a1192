//! The bytes of pipelines.

use tasuki_proto::{pipeline::Definition, wire};

use super::*;
use crate::rules::{
    board::{self, Schema},
    pipeline::{
        Change, Claimed, Event as Happened, Outcome, Renewed, Reply as Answer, Started, Status,
        Transition,
    },
};

fn events() -> Vec<Happened> {
    let phase = |name: &str, role: &str, author: &str| wire::PipelinePhase {
        name: name.to_owned(),
        role: role.to_owned(),
        spec: "{}".to_owned(),
        approves: author.to_owned(),
        approval_ms: 1_000,
        ..Default::default()
    };
    let phases = vec![phase("code", "dev", ""), phase("review", "qa", "code")];
    let definition = wire::PipelineDefinition { phases, max_retries: 2, ..Default::default() };
    let definition = Definition::read(&definition).unwrap();
    let board = || "plan".parse().unwrap();
    let at = Timestamp::from_millis;
    let moved = |change, status| {
        Happened::Transitioned(Transition {
            board: board(),
            change,
            error: "why".to_owned(),
            written: 2.into(),
            status,
            retries: 1,
            from: "code".parse().unwrap(),
            attempt: 1,
            to: "review".parse().unwrap(),
            role: "qa".parse().unwrap(),
        })
    };
    vec![
        Happened::Started(Started {
            board: board(),
            definition,
            schema: Schema::agent_state(),
            checkpoint: 1.into(),
        }),
        Happened::Claimed(Claimed {
            board: board(),
            attempt: 1,
            node: "n1".parse().unwrap(),
            token: 7.into(),
            lapses: at(100),
            deadline: at(200),
            phase: "code".parse().unwrap(),
            role: "dev".parse().unwrap(),
        }),
        Happened::Renewed(Renewed { board: board(), lapses: at(150), is_grace: true }),
        moved(Change::Passed, Status::AwaitingApproval(0, at(300))),
        moved(Change::Approved, Status::InPhase(1, 2.into())),
        moved(Change::Failed, Status::Ended(1, Outcome::Failed("no".to_owned()), at(400))),
        moved(Change::Canceled, Status::Ended(1, Outcome::Canceled(String::new()), at(400))),
        moved(Change::ApprovalLapsed, Status::Ended(0, Outcome::Lapsed, at(400))),
        moved(Change::Passed, Status::Ended(1, Outcome::Completed, at(400))),
        Happened::Forgotten(board()),
    ]
}

/// Holds A5.
#[test]
fn the_bytes_of_pipelines_are_unchanged() {
    let mut told: String = events().into_iter().map(|it| pinned(&Event::Pipeline(it))).collect();
    told += &pinned(&Reply::Pipeline(Answer::Claimed(7.into())));
    check_golden("tests/pipeline_events.golden.txt", &told);
}

#[test]
fn the_bytes_of_a_snapshot_with_pipelines_are_unchanged() {
    let mut state = Workspace::default();
    let events = events().into_iter().take(5).map(Event::Pipeline);
    for (sequence, event) in (1u64..).zip(events) {
        let principal = Principal { person: "ann".parse().ok(), ..Principal::default() };
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
    assert_eq!(state.boards, board::Boards::default());
    let stored = encode_snapshot(&state);
    check_golden("tests/pipeline_snapshot.golden.txt", &hex(&stored));
    assert_eq!(decode_snapshot(stored).unwrap(), state);
}
