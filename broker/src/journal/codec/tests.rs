//! The bytes on disk. If one of these fails, journals on disk no longer read.
//!
//! A golden is made anew by running the tests with `GOLDENS=write`.

mod access;
mod board;
mod call;
mod compact;
mod damage;
mod guard;
mod mail;
mod pipeline;
mod privacy;
mod run;
mod swarm;

use std::{borrow::Cow, convert::Infallible};

use bytes::Bytes;
use serde::Deserialize as _;
use tasuki_proto::id::{IdempotencyKey, RoleId, Sequence, Timestamp, Turn};

use super::*;
use crate::{
    backup::written,
    hash::Hash,
    rules::{
        Body, Event, Kept as _, Principal, Record, Reply, SnapshotItem, Workspace,
        clients::{self, Answer, Client, Clients, Retired},
        directory::{self, Node, NodeRegistered, RoleSpec},
        turn::{
            self, Ended, EntryBody, EntryKind, EntryMeta, HandedOver, Lease, LeaseRenewed,
            LoopOpened, LoopPaused, LoopResumed, Loops, NextTurn, ParticipantsSet, Pause,
            PauseReason, Receipts, RoundStarted, TurnMoment, TurnReclaimed,
        },
    },
};

/// A state that is small, in its one piece.
fn encode_snapshot(state: &Workspace) -> Bytes {
    let mut pieces = encode_pieces(state);
    assert_eq!(pieces.len(), 1);
    pieces.remove(0)
}

fn encode_pieces(state: &Workspace) -> Vec<Bytes> {
    let mut pieces = Vec::new();
    let put = |piece| -> Result<(), Infallible> {
        pieces.push(piece);
        Ok(())
    };
    super::encode_snapshot(state, put).unwrap();
    check_items(state);
    pieces
}

/// Each item of a state is the same after an export.
fn check_items(state: &Workspace) {
    let mut state = state.clone();
    state.forget_answers();
    for item in state.items() {
        let written = written(&item).unwrap();
        let again = SnapshotItem::deserialize(&written).unwrap();
        assert_eq!(encode(&again), encode(&item), "{written}");
    }
}

/// So is a body, and what is kept of it.
fn check_body(body: &Body) {
    let written = written(body).unwrap();
    assert_eq!(Body::deserialize(&written).unwrap(), *body, "{written}");
    let kept = encode_body(body);
    let (key, bytes) = &kept[0];
    let (mut read, _) = decode_body(key, bytes).unwrap();
    for (key, text) in &kept[1..] {
        read = with_text(read, key, text).unwrap();
    }
    assert_eq!(read, *body);
}

fn decode_snapshot(piece: Bytes) -> Result<Workspace, CodecError> {
    super::decode_snapshot([Ok(piece)])
}

/// A record with one event of every kind and every field set.
fn record() -> Record {
    let loop_id = || "main".parse().unwrap();
    let next = |turn: u64| NextTurn {
        turn: Turn::from(turn),
        to: "B".parse().unwrap(),
        lapses: Timestamp::from_millis(900),
    };
    let moment = |turn: u64| TurnMoment { loop_id: loop_id(), turn: Turn::from(turn) };
    let participants = || vec!["A".parse().unwrap(), "B".parse().unwrap()];
    let content = Hash([7; 16]);
    Record {
        sequence: Sequence::from(5),
        time: Timestamp::from_millis(300),
        principal: Principal {
            node: Some("n1".parse().unwrap()),
            role: Some("A".parse().unwrap()),
            person: Some("ann".parse().unwrap()),
            token: Some("t".parse().unwrap()),
        },
        key: Some((IdempotencyKey { client: "c".parse().unwrap(), counter: 9 }, Hash([1; 16]))),
        events: vec![
            Event::Directory(directory::Event::NodeRegistered(NodeRegistered {
                node: "n1".parse().unwrap(),
                epoch: 2.into(),
                roles: vec![RoleSpec {
                    role: "A".parse().unwrap(),
                    toolsets: vec!["loop".parse().unwrap()],
                    is_standby: None,
                }],
                software: "tasuki".to_owned(),
                token: None,
                replaces: None,
            })),
            Event::Turn(turn::Event::LoopOpened(LoopOpened {
                loop_id: loop_id(),
                participants: participants(),
            })),
            Event::Turn(turn::Event::ParticipantsSet(ParticipantsSet {
                loop_id: loop_id(),
                participants: participants(),
                is_chosen: true,
            })),
            Event::Turn(turn::Event::HandedOver(HandedOver {
                loop_id: loop_id(),
                round: 1,
                entry: 1,
                ended: 1.into(),
                from: "A".parse().unwrap(),
                content,
                next: Some(next(2)),
            })),
            Event::Turn(turn::Event::TurnReclaimed(TurnReclaimed {
                loop_id: loop_id(),
                entry: 2,
                ended: 2.into(),
                from: "B".parse().unwrap(),
                reason: "away".to_owned(),
                content,
                next: next(3),
            })),
            Event::Turn(turn::Event::RoundStarted(RoundStarted {
                loop_id: loop_id(),
                round: 2,
                entry: 3,
                content,
                has_text: true,
                next: next(4),
            })),
            Event::Turn(turn::Event::TurnHanded(moment(4))),
            Event::Turn(turn::Event::TurnSeen(moment(4))),
            Event::Turn(turn::Event::TurnLapsed(moment(4))),
            Event::Turn(turn::Event::LeaseRenewed(LeaseRenewed {
                loop_id: loop_id(),
                turn: 4.into(),
                lapses: Timestamp::from_millis(950),
                is_grace: true,
            })),
            Event::Turn(turn::Event::LoopPaused(LoopPaused {
                loop_id: loop_id(),
                turn: 4.into(),
                reason: pause().reason,
            })),
            Event::Turn(turn::Event::LoopResumed(LoopResumed {
                loop_id: loop_id(),
                turn: 4.into(),
                lapses: Some(Timestamp::from_millis(960)),
                reason: "seen".to_owned(),
            })),
        ],
        reply: Reply::Turn(turn::Reply::Handed {
            ended: 1.into(),
            next: Some((2.into(), "B".parse().unwrap())),
            pause: Some(pause()),
        }),
        is_repeat: true,
    }
}

fn pause() -> Pause {
    let (person, role) = (Some("ann".parse().unwrap()), None);
    let reason = PauseReason::Asked { person, role, reason: "lunch".to_owned() };
    Pause { at: Timestamp::from_millis(300), reason }
}

fn hex(bytes: &[u8]) -> String {
    let lines = bytes.chunks(32);
    lines
        .map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n")
        .collect()
}

/// Compares with a golden, or makes it anew.
#[track_caller]
fn check_golden(name: &str, bytes: &str) {
    let path = format!("{}/src/journal/codec/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("GOLDENS").is_some_and(|it| it == "write") {
        std::fs::write(&path, bytes).unwrap();
    }
    assert_eq!(bytes, std::fs::read_to_string(path).unwrap(), "{name}");
}

/// Holds A5.
#[test]
fn the_bytes_of_a_record_are_unchanged() {
    let stored = encode_record(&record(), &[3; 16]);
    check_golden("record.golden.txt", &hex(&stored));
    assert_eq!(decode_record(stored).unwrap(), record());
}

#[test]
fn the_bytes_of_every_reply_are_unchanged() {
    let replies = [
        Reply::Directory(directory::Reply::Registered { epoch: 2.into() }),
        Reply::Turn(turn::Reply::Opened { loop_id: "main".parse().unwrap() }),
        Reply::Turn(turn::Reply::Started {
            round: 2,
            turn: 3.into(),
            holder: "A".parse().unwrap(),
        }),
        Reply::Turn(turn::Reply::Handed { ended: 1.into(), next: None, pause: None }),
        Reply::Turn(turn::Reply::Reclaimed {
            ended: 1.into(),
            turn: 2.into(),
            from: "A".parse().unwrap(),
            to: "B".parse().unwrap(),
        }),
        Reply::Done,
    ];
    let told: String = replies.iter().map(pinned).collect();
    check_golden("reply.golden.txt", &told);
}

/// The bytes of a value, which is read from them again.
fn pinned<T: Encode<()> + for<'b> Decode<'b, ()> + PartialEq + std::fmt::Debug>(it: &T) -> String {
    let bytes = encode(it);
    assert_eq!(decode::<T>("value", &bytes).unwrap(), *it);
    hex(&bytes)
}

#[test]
fn what_a_release_does_not_know_stops_it() {
    let newer = encode(&(FORMAT + 1, "unheard of")).into();
    assert_eq!(decode_record(newer), Err(CodecError::Newer(FORMAT + 1)));
    let mut newer = encode(&(FORMAT + 1, "unheard of"));
    newer.push(0);
    assert_eq!(decode_snapshot(newer.into()), Err(CodecError::Newer(FORMAT + 1)));
    let strange = decode::<Event>("event", &encode(&(99, 1)));
    assert_eq!(strange, Err(CodecError::Unknown("event")));
    let refused = decode_record(Bytes::from_static(b"\xff\xff"));
    assert!(matches!(refused, Err(CodecError::Malformed { what: "record", .. })), "{refused:?}");
    let none: Result<Workspace, CodecError> = super::decode_snapshot([]);
    assert!(matches!(none, Err(CodecError::Malformed { what: "snapshot", .. })), "{none:?}");
}

/// Clients from what is known of them.
fn clients(
    active: impl IntoIterator<Item = (clients::Owner, &'static str, Client)>,
    retired: impl IntoIterator<Item = (clients::Owner, &'static str, Retired)>,
) -> Clients {
    let mut all = Clients::default();
    for (owner, id, client) in active {
        let (owner, id) = (Cow::Owned(owner), Cow::Owned(id.parse().unwrap()));
        let item = clients::SnapshotItem::Active(owner, id, Cow::Owned(client));
        all.restore(item).unwrap();
    }
    for (owner, id, it) in retired {
        let (owner, id) = (Cow::Owned(owner), Cow::Owned(id.parse().unwrap()));
        all.restore(clients::SnapshotItem::Retired(owner, id, Cow::Owned(it))).unwrap();
    }
    all
}

/// Earlier releases wrote two fields.
#[test]
fn a_role_that_is_not_on_standby_is_written_as_it_was() {
    let spec = |is_standby| RoleSpec {
        role: "A".parse().unwrap(),
        toolsets: vec!["loop".parse().unwrap()],
        is_standby,
    };
    let earlier = b"\x82\x61A\x81\x64loop";
    assert_eq!(minicbor::to_vec(spec(None)).unwrap(), earlier);
    assert_eq!(minicbor::decode::<RoleSpec>(earlier).unwrap(), spec(None));
    let bytes = minicbor::to_vec(spec(Some(true))).unwrap();
    assert_eq!(minicbor::decode::<RoleSpec>(&bytes).unwrap(), spec(Some(true)));
}

/// A state with every field of a snapshot set.
fn state() -> Workspace {
    let at = Timestamp::from_millis;
    let mut state = Workspace { sequence: 9.into(), time: at(800), ..Workspace::default() };
    let answer =
        Answer { request: Hash([1; 16]), sequence: 8.into(), reply: Reply::Done, is_repeat: true };
    let client =
        Client { highest: 3, last: at(700), answers: [(3, answer)].into(), retired_at: None };
    let retired = Retired { highest: 7, last: at(600) };
    state.clients = clients([(None, "c", client)], [(None, "old", retired)]);
    let spec = RoleSpec {
        role: "A".parse().unwrap(),
        toolsets: vec!["loop".parse().unwrap()],
        is_standby: None,
    };
    let node = Node {
        epoch: 2.into(),
        roles: vec![spec],
        software: "tasuki".to_owned(),
        registered: at(500),
        token: None,
    };
    let item = directory::SnapshotItem::Node(Cow::Owned("n1".parse().unwrap()), Cow::Owned(node));
    state.directory.restore(item).unwrap();
    let mut loops = state.loops.by_id.clone();
    let main = loops.first_entry().unwrap().into_mut();
    main.turn = 2.into();
    main.holder = Some("B".parse().unwrap());
    main.began = at(790);
    main.lease = Some(Lease { lapses: at(900), is_lapsed: true, had_grace: true });
    main.entries = 1;
    main.latest = Some(facts());
    main.recent.push_back(Ended {
        turn: 1.into(),
        is_reclaim: true,
        from: "A".parse().unwrap(),
        next: Some((2.into(), "B".parse().unwrap())),
        content: Hash([7; 16]),
    });
    main.pause = Some(pause());
    main.alone = Some(3);
    state.loops = Loops::of(loops);
    state
}

fn facts() -> EntryMeta {
    let at = |ms| Some(Timestamp::from_millis(ms));
    EntryMeta {
        loop_id: "main".parse().unwrap(),
        number: 1,
        kind: EntryKind::Reclaim,
        round: 1,
        ended: 1.into(),
        next: Some((2.into(), "B".parse().unwrap())),
        from: Some("A".parse().unwrap()),
        reason: "away".to_owned(),
        person: Some("ann".parse().unwrap()),
        node: Some("n1".parse().unwrap()),
        token: None,
        receipts: Receipts {
            stored: at(1),
            handed: at(2),
            seen: at(3),
            acted: at(4),
            failed: at(5),
            lapsed: at(6),
        },
        has_text: true,
        hops: Some(3),
    }
}

#[test]
fn the_bytes_of_a_snapshot_are_unchanged() {
    let stored = encode_snapshot(&state());
    check_golden("snapshot.golden.txt", &hex(&stored));
    assert_eq!(decode_snapshot(stored).unwrap(), state());
}

#[test]
fn the_bytes_of_an_entry_are_unchanged() {
    let body = EntryBody {
        loop_id: "main".parse().unwrap(),
        number: 2,
        summary: "s".to_owned(),
        instruction: "i".to_owned(),
        before: Some(facts()),
    };
    let (key, stored) = encode_body(&Body::Entry(body.clone())).remove(0);
    assert_eq!(key.0, "loop/main/2");
    check_golden("entry.golden.txt", &hex(&stored));
    assert_eq!(decode_entry(&body.loop_id, 2, &stored).unwrap(), body);
    check_body(&Body::Entry(body));
}
