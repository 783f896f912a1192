//! The part of the story that is about turns, and what must hold of them.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tasuki_broker::rules::{
    Event, Fence, ReceiptKind, Workspace,
    turn::{
        self, Actor, Command, CreateLoop, HandOver, MarkTurn, PauseLoop, Reclaim, ResumeLoop,
        StartRound, TurnStatus,
    },
};
use tasuki_proto::id::{LoopId, RoleId, Turn};

use super::{Call, ROLES, call};

const LOOPS: [&str; 2] = ["main", "side"];

#[derive(Debug, Clone)]
pub(super) enum Step {
    HandOver {
        call: Call,
        loop_id: u8,
        role: u8,
        text: u8,
        complete: bool,
        to: Option<u8>,
        turn: u64,
    },
    Reclaim {
        call: Call,
        loop_id: u8,
        by: u8,
        is_person: bool,
        to: Option<u8>,
        turn: u64,
    },
    Start {
        call: Call,
        loop_id: u8,
        to: Option<u8>,
    },
    Create {
        call: Call,
        loop_id: u8,
        participants: u8,
    },
    Mark {
        call: Call,
        loop_id: u8,
        role: u8,
        turn: u64,
        handed: bool,
    },
    /// By a person, or by this role.
    Pause {
        call: Call,
        loop_id: u8,
        by: Option<u8>,
    },
    Resume {
        call: Call,
        loop_id: u8,
        by: Option<u8>,
    },
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let turn = prop_oneof![3 => Just(0u64), 2 => 1..12u64];
    let to = proptest::option::weighted(0.3, 0..4u8);
    prop_oneof![
        8 => (call(), 0..2u8, 0..4u8, 0..3u8, any::<bool>(), to.clone(), turn.clone(), 0..4u8)
            .prop_map(|(call, loop_id, role, text, complete, to, turn, rare)| Step::HandOver {
                call, loop_id, role, text, complete: complete && rare == 0, to, turn,
            }),
        2 => (call(), 0..2u8, 0..4u8, any::<bool>(), to.clone(), turn).prop_map(
            |(call, loop_id, by, is_person, to, turn)| Step::Reclaim {
                call, loop_id, by, is_person, to, turn
            }
        ),
        2 => (call(), 0..2u8, to).prop_map(|(call, loop_id, to)| Step::Start { call, loop_id, to }),
        1 => (call(), 0..2u8, 1..16u8).prop_map(|(call, loop_id, participants)| Step::Create {
            call, loop_id, participants
        }),
        2 => (call(), 0..2u8, 0..4u8, 1..12u64, any::<bool>()).prop_map(
            |(call, loop_id, role, turn, handed)| Step::Mark { call, loop_id, role, turn, handed }
        ),
        1 => (call(), 0..2u8, proptest::option::of(0..4u8))
            .prop_map(|(call, loop_id, by)| Step::Pause { call, loop_id, by }),
        3 => (call(), 0..2u8, proptest::option::weighted(0.2, 0..4u8))
            .prop_map(|(call, loop_id, by)| Step::Resume { call, loop_id, by }),
    ]
}

pub(super) fn loop_of(number: u8) -> LoopId {
    LOOPS[usize::from(number)].parse().expect("a loop")
}

fn role_of(number: u8) -> RoleId {
    ROLES[usize::from(number)].parse().expect("a role")
}

fn ann() -> Actor {
    Actor::Person("ann".parse().expect("a person"))
}

pub(super) fn command(step: &Step) -> (&Call, Command) {
    let turn_of = |turn: u64| (turn != 0).then(|| Turn::from(turn));
    match step {
        Step::HandOver { call, loop_id, role, text, complete, to, turn } => (
            call,
            Command::HandOver(HandOver {
                loop_id: loop_of(*loop_id),
                role: role_of(*role),
                summary: format!("s{text}"),
                instruction: "go".to_owned(),
                is_task_complete: *complete,
                to: to.map(role_of),
                turn: turn_of(*turn),
            }),
        ),
        Step::Reclaim { call, loop_id, by, is_person, to, turn } => (
            call,
            Command::Reclaim(Reclaim {
                loop_id: loop_of(*loop_id),
                by: if *is_person { ann() } else { Actor::Role(role_of(*by)) },
                to: to.map(role_of),
                reason: "because".to_owned(),
                turn: turn_of(*turn),
            }),
        ),
        Step::Start { call, loop_id, to } => (
            call,
            Command::StartRound(StartRound {
                loop_id: loop_of(*loop_id),
                by: ann(),
                to: to.map(role_of),
                summary: String::new(),
                instruction: "again".to_owned(),
            }),
        ),
        Step::Create { call, loop_id, participants } => {
            let (loop_id, participants) = (loop_of(*loop_id), super::roles(*participants));
            let allow_new_roles = participants.len() != 1;
            (call, Command::CreateLoop(CreateLoop { loop_id, participants, allow_new_roles }))
        }
        Step::Mark { call, loop_id, role, turn, handed } => {
            let mark = if *handed { ReceiptKind::Handed } else { ReceiptKind::Seen };
            let (loop_id, role) = (loop_of(*loop_id), role_of(*role));
            (call, Command::Mark(MarkTurn::new(loop_id, role, Turn::from(*turn), mark)))
        }
        Step::Pause { call, loop_id, by } => {
            let by = by.map_or_else(ann, |by| Actor::Role(role_of(by)));
            let (loop_id, reason) = (loop_of(*loop_id), "because".to_owned());
            (call, Command::Pause(PauseLoop { loop_id, by, reason }))
        }
        Step::Resume { call, loop_id, by } => {
            let by = by.map_or_else(ann, |by| Actor::Role(role_of(by)));
            let (loop_id, reason) = (loop_of(*loop_id), String::new());
            (call, Command::Resume(ResumeLoop { loop_id, by, reason }))
        }
    }
}

/// What happened to loops, as one who keeps everything would tell it.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The newest turn begun in each.
    turns: BTreeMap<LoopId, Turn>,
    /// Loops that are opened begin behind it.
    before_first: Turn,
    entries: BTreeMap<LoopId, u64>,
}

impl Ledger {
    /// Each turn goes on under a number above all that any loop had.
    pub(super) fn restore(&mut self, before: &Workspace, after: &Workspace, fence: Fence) {
        self.before_first = fence.above(self.before_first.get()).into();
        for (id, state) in &after.loops.by_id {
            let was = &before.loops.by_id[id];
            assert!(was.turn < state.turn && fence.get() <= state.turn.get(), "T2: {id}");
            assert_eq!(was.holder, state.holder, "T1: a restore ends no turn");
            self.turns.insert(id.clone(), state.turn);
        }
    }

    /// Takes in what is about to be applied.
    pub(super) fn take(&mut self, event: &Event) {
        let Event::Turn(event) = event else { return };
        let (loop_id, entry, began) = match event {
            turn::Event::HandedOver(it) => {
                (&it.loop_id, it.entry, it.next.as_ref().map(|next| next.turn))
            }
            turn::Event::TurnReclaimed(it) => (&it.loop_id, it.entry, Some(it.next.turn)),
            turn::Event::RoundStarted(it) => (&it.loop_id, it.entry, Some(it.next.turn)),
            turn::Event::LoopOpened(_)
            | turn::Event::ParticipantsSet(_)
            | turn::Event::TurnHanded(_)
            | turn::Event::TurnSeen(_)
            | turn::Event::TurnLapsed(_)
            | turn::Event::LeaseRenewed(_)
            | turn::Event::HistoryCompacted(_)
            | turn::Event::LoopPaused(_)
            | turn::Event::LoopResumed(_) => return,
        };
        let last = self.entries.insert(loop_id.clone(), entry).unwrap_or(0);
        assert_eq!(entry, last + 1, "T3");
        if let Some(began) = began {
            let newest = self.turns.insert(loop_id.clone(), began);
            assert_eq!(began, newest.unwrap_or_else(|| self.before_first.next()).next(), "T2");
        }
    }
}

/// What must hold of the state after each step.
pub(super) fn check(workspace: &Workspace) {
    for (id, state) in &workspace.loops.by_id {
        let can_start = state.participants.iter().filter(|role| {
            let told = workspace.loops.answer(id, role).expect("it takes part");
            told.standing == TurnStatus::CanStart
        });
        let can_start = can_start.count();
        assert!(can_start <= 1, "T1: more than one may start in {id}");
        assert!(can_start == 0 || state.pause.is_none(), "T5: one may start in {id}, paused");
        let max = workspace.guard.turns_of(id).expect("the loops here have a limit");
        let is_paused = state.pause.is_some() || state.holder.is_none();
        assert!(
            state.turns_alone() < max || is_paused,
            "T6: {} turns in {id}",
            state.turns_alone()
        );
        let held: Vec<_> = state.holder.iter().flat_map(|it| workspace.loops.held_by(it)).collect();
        assert_eq!(held.iter().any(|(it, _)| *it == id), state.holder.is_some(), "{id}");
        assert!(state.lease.is_none() || state.holder.is_some(), "a lease without a holder");
    }
}
