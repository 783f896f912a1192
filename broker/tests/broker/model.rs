//! Random stories about a workspace, checked against what must always hold.
//!
//! A case is a list of [`Step`]s; proptest shrinks a failing one to the shortest. The journal is
//! a `Vec` of encoded records; `Restart` throws the state away and replays it, from a snapshot
//! taken on the way too.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use tasuki_broker::{
    hash::Hash,
    journal::codec::{decode_record, decode_snapshot, encode_record, encode_snapshot},
    rules::{
        Caller, Command, Context, Event, Mark, Principal, Record, Reply, Request, Workspace,
        directory::{Register, RoleSpec},
        presence::Presence,
        turn::{Actor, CreateLoop, HandOver, MarkTurn, Reclaim, Standing, StartRound},
    },
};
use tasuki_proto::id::{IdempotencyKey, LoopId, RoleId, Timestamp, Turn};

const LEASE_MS: u64 = 100;
const ROLES: [&str; 4] = ["A", "B", "dev", "qa"];
const LOOPS: [&str; 2] = ["main", "side"];

#[derive(Debug, Clone)]
enum Step {
    HandOver { key: u8, loop_id: u8, role: u8, text: u8, complete: bool, to: Option<u8>, turn: u64 },
    Reclaim { key: u8, loop_id: u8, by: u8, is_person: bool, to: Option<u8>, turn: u64 },
    Start { key: u8, loop_id: u8, to: Option<u8> },
    Create { key: u8, loop_id: u8, participants: u8 },
    Register { key: u8, node: u8, roles: u8, take_over: bool },
    Mark { loop_id: u8, role: u8, turn: u64, handed: bool },
    Seen { role: u8 },
    Told { loop_id: u8 },
    Pass { ms: u64 },
    Tick,
    Snapshot,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let turn = prop_oneof![3 => Just(0u64), 2 => 1..12u64];
    let to = proptest::option::weighted(0.3, 0..4u8);
    prop_oneof![
        8 => (0..40u8, 0..2u8, 0..4u8, 0..3u8, any::<bool>(), to.clone(), turn.clone(), 0..4u8)
            .prop_map(|(key, loop_id, role, text, complete, to, turn, rare)| Step::HandOver {
                key, loop_id, role, text, complete: complete && rare == 0, to, turn,
            }),
        2 => (0..40u8, 0..2u8, 0..4u8, any::<bool>(), to.clone(), turn).prop_map(
            |(key, loop_id, by, is_person, to, turn)| Step::Reclaim {
                key, loop_id, by, is_person, to, turn
            }
        ),
        2 => (0..40u8, 0..2u8, to).prop_map(|(key, loop_id, to)| Step::Start { key, loop_id, to }),
        1 => (0..40u8, 0..2u8, 1..16u8).prop_map(|(key, loop_id, participants)| Step::Create {
            key, loop_id, participants
        }),
        1 => (0..40u8, 0..3u8, 0..16u8, any::<bool>()).prop_map(|(key, node, roles, take_over)| {
            Step::Register { key, node, roles, take_over }
        }),
        2 => (0..2u8, 0..4u8, 1..12u64, any::<bool>()).prop_map(|(loop_id, role, turn, handed)| {
            Step::Mark { loop_id, role, turn, handed }
        }),
        1 => (0..4u8).prop_map(|role| Step::Seen { role }),
        3 => (0..2u8).prop_map(|loop_id| Step::Told { loop_id }),
        3 => (0..150u64).prop_map(|ms| Step::Pass { ms }),
        2 => Just(Step::Tick),
        1 => Just(Step::Snapshot),
        1 => Just(Step::Restart),
    ]
}

/// Roles by the bits of a number.
fn roles(bits: u8) -> Vec<RoleId> {
    let chosen = ROLES.iter().enumerate().filter(|(bit, _)| bits & (1 << bit) != 0);
    chosen.map(|(_, name)| name.parse().unwrap()).collect()
}

struct World {
    now: u64,
    workspace: Workspace,
    context: Context,
    journal: Vec<Bytes>,
    snapshot: Option<Bytes>,
    /// What each key was answered the first time it had an effect.
    answers: BTreeMap<IdempotencyKey, (Hash, Reply)>,
    /// The newest turn begun in each loop.
    turns: BTreeMap<LoopId, Turn>,
    entries: BTreeMap<LoopId, u64>,
}

impl World {
    fn new() -> Self {
        let presence = Presence::new(Timestamp::default());
        Self {
            now: 1,
            workspace: Workspace::default(),
            context: Context { presence, lease_ms: LEASE_MS, told: BTreeMap::new() },
            journal: Vec::new(),
            snapshot: None,
            answers: BTreeMap::new(),
            turns: BTreeMap::new(),
            entries: BTreeMap::new(),
        }
    }

    fn take(&mut self, step: &Step) {
        let id = |name: &str| name.parse::<RoleId>().unwrap();
        let role = |index: u8| id(ROLES[usize::from(index)]);
        let loop_of = |index: u8| LOOPS[usize::from(index)].parse::<LoopId>().unwrap();
        let turn = |turn: u64| (turn != 0).then(|| Turn::from(turn));
        let (key, command) = match step {
            Step::Pass { ms } => {
                self.now += ms;
                return;
            }
            Step::Seen { role: index } => {
                let now = Timestamp::from_millis(self.now);
                self.context.presence.role_seen(&role(*index), now, None);
                return;
            }
            Step::Told { loop_id } => {
                let loop_id = loop_of(*loop_id);
                if let Some(state) = self.workspace.loops.by_id.get(&loop_id) {
                    self.context.told.insert(loop_id, state.turn);
                }
                return;
            }
            Step::Snapshot => {
                let bytes = encode_snapshot(&self.workspace);
                assert_eq!(decode_snapshot(bytes.clone()).unwrap(), self.workspace, "W1");
                self.snapshot = Some(bytes);
                return;
            }
            Step::Restart => return self.restart(),
            Step::Tick => (None, Command::Tick),
            Step::HandOver { key, loop_id, role: index, text, complete, to, turn: number } => (
                Some(*key),
                Command::HandOver(HandOver {
                    loop_id: loop_of(*loop_id),
                    role: role(*index),
                    summary: format!("s{text}"),
                    instruction: "go".to_owned(),
                    is_task_complete: *complete,
                    to: to.map(role),
                    turn: turn(*number),
                }),
            ),
            Step::Reclaim { key, loop_id, by, is_person, to, turn: number } => (
                Some(*key),
                Command::Reclaim(Reclaim {
                    loop_id: loop_of(*loop_id),
                    by: match is_person {
                        true => Actor::Person("ann".parse().unwrap()),
                        false => Actor::Role(role(*by)),
                    },
                    to: to.map(role),
                    reason: "because".to_owned(),
                    turn: turn(*number),
                }),
            ),
            Step::Start { key, loop_id, to } => (
                Some(*key),
                Command::StartRound(StartRound {
                    loop_id: loop_of(*loop_id),
                    by: Actor::Person("ann".parse().unwrap()),
                    to: to.map(role),
                    summary: String::new(),
                    instruction: "again".to_owned(),
                }),
            ),
            Step::Create { key, loop_id, participants } => (
                Some(*key),
                Command::CreateLoop(CreateLoop {
                    loop_id: loop_of(*loop_id),
                    participants: roles(*participants),
                }),
            ),
            Step::Register { key, node, roles: bits, take_over } => {
                let spec = |role| RoleSpec { role, toolsets: Vec::new() };
                (
                    Some(*key),
                    Command::Register(Register {
                        node: format!("n{node}").parse().unwrap(),
                        roles: roles(*bits).into_iter().map(spec).collect(),
                        take_over: *take_over,
                        software: String::new(),
                        orphan_of: None,
                    }),
                )
            }
            Step::Mark { loop_id, role: index, turn, handed } => {
                let mark = if *handed { Mark::Handed } else { Mark::Seen };
                let (loop_id, role) = (loop_of(*loop_id), role(*index));
                (None, Command::Mark(MarkTurn::new(loop_id, role, Turn::from(*turn), mark)))
            }
        };
        let key = key.map(|counter| {
            let client = "c".parse().unwrap();
            let request = Hash::of(format!("{command:?}").as_bytes());
            (IdempotencyKey { client, counter: u64::from(counter) + 1 }, request)
        });
        self.execute(Request { caller: Caller::default(), key, command });
    }

    fn execute(&mut self, request: Request) {
        let now = Timestamp::from_millis(self.now);
        let before = self.workspace.clone();
        let decided = self.workspace.decide(now, &self.context, &request);
        assert_eq!(before, self.workspace, "W4: deciding changed something");
        let Ok(decision) = decided else { return };
        if let Some((key, hash)) = &request.key
            && let Some((first_hash, first)) = self.answers.get(key)
        {
            assert_eq!((hash, &decision.reply), (first_hash, first), "W3: {key}");
            assert!(decision.events.is_empty(), "W3: {key} had a second effect");
        }
        if !decision.is_recorded(&request) {
            return;
        }
        let record = Record {
            sequence: before.sequence.next(),
            time: now,
            principal: Principal::default(),
            key: request.key,
            events: decision.events,
            reply: decision.reply,
            is_repeat: decision.is_repeat,
        };
        if let Some((key, hash)) = &record.key {
            self.answers.insert(key.clone(), (*hash, record.reply.clone()));
        }
        self.check_events(&record.events);
        self.workspace.apply(&record);
        let bytes = encode_record(&record, &[0; 16]);
        assert_eq!(decode_record(bytes.clone()).unwrap(), record);
        self.journal.push(bytes);
        self.check_state();
    }

    fn check_events(&mut self, events: &[Event]) {
        for event in events {
            let (loop_id, entry, began) = match event {
                Event::HandedOver(it) => {
                    (&it.loop_id, it.entry, it.next.as_ref().map(|next| next.turn))
                }
                Event::TurnReclaimed(it) => (&it.loop_id, it.entry, Some(it.next.turn)),
                Event::RoundStarted(it) => (&it.loop_id, it.entry, Some(it.next.turn)),
                Event::NodeRegistered(_)
                | Event::Access(_)
                | Event::LoopOpened(_)
                | Event::ParticipantsSet(_)
                | Event::TurnHanded(_)
                | Event::TurnSeen(_)
                | Event::TurnLapsed(_)
                | Event::LeaseRenewed(_) => continue,
            };
            let last = self.entries.insert(loop_id.clone(), entry).unwrap_or(0);
            assert_eq!(entry, last + 1, "T3");
            if let Some(began) = began {
                let newest = self.turns.insert(loop_id.clone(), began);
                assert_eq!(began, newest.map_or_else(|| Turn::from(2), Turn::next), "T2");
            }
        }
    }

    fn check_state(&self) {
        for (id, state) in &self.workspace.loops.by_id {
            let can_start = state.participants.iter().filter(|role| {
                let told = self.workspace.loops.answer(id, role).unwrap();
                told.standing == Standing::CanStart
            });
            assert!(can_start.count() <= 1, "T1: more than one may start in {id}");
            assert!(state.lease.is_none() || state.holder.is_some(), "a lease without a holder");
        }
        let now = Timestamp::from_millis(self.now);
        if let Some(deadline) = self.workspace.next_deadline(now, LEASE_MS) {
            assert!(now < deadline, "a tick that is due at once would spin");
        }
    }

    /// W1: the records make the state again, and so do a snapshot and those after it.
    fn restart(&mut self) {
        let mut replayed = Workspace::default();
        for bytes in &self.journal {
            replayed.apply(&decode_record(bytes.clone()).unwrap());
        }
        assert_eq!(replayed, self.workspace, "W1: replay");
        if let Some(bytes) = &self.snapshot {
            let mut woken = decode_snapshot(bytes.clone()).unwrap();
            for bytes in &self.journal {
                let record = decode_record(bytes.clone()).unwrap();
                if woken.sequence < record.sequence {
                    woken.apply(&record);
                }
            }
            assert_eq!(woken, self.workspace, "W1: snapshot and replay");
        }
        self.workspace = replayed;
        self.context.presence = Presence::new(Timestamp::from_millis(self.now));
        self.context.told.clear();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_workspace_keeps_its_word(steps in prop::collection::vec(step(), 0..120)) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
        }
        world.take(&Step::Restart);
    }
}
