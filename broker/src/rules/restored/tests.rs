//! What holds after a restore, and what does not.

use tasuki_proto::id::{Epoch, RoleId, Turn};

use super::*;
use crate::rules::{
    Caller, Command, Rejection, Reply, Request, directory,
    directory::{Register, RoleSpec},
    turn,
};

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn role(name: &str) -> RoleId {
    name.parse().unwrap()
}

fn hand_over(name: &str, number: u64) -> Command {
    Command::Turn(turn::Command::HandOver(turn::HandOver {
        loop_id: "main".parse().unwrap(),
        role: role(name),
        summary: format!("s{number}"),
        instruction: String::new(),
        is_task_complete: false,
        to: None,
        turn: Some(Turn::from(number)),
    }))
}

fn register() -> Command {
    Command::Directory(directory::Command::Register(Register {
        node: "n".parse().unwrap(),
        roles: vec![RoleSpec { role: role("A"), toolsets: Vec::new(), is_standby: None }],
        take_over: false,
        software: String::new(),
        orphan_of: None,
    }))
}

fn execute(
    state: &mut Workspace,
    now: Timestamp,
    caller: Caller,
    command: Command,
) -> Result<Reply, Rejection> {
    let context = Context::new(Presence::new(at(0)), 1000);
    let request = Request { caller, key: None, command };
    let decision = state.decide(now, &context, &request)?;
    let sequence = state.sequence.next();
    let (record, _) = decision.into_record(sequence, now, Principal::default(), None);
    state.apply(&record);
    Ok(record.reply)
}

/// The reason, or `ok`.
fn told(result: Result<Reply, Rejection>) -> &'static str {
    result.map_or_else(|why| why.reason().as_str(), |_| "ok")
}

#[test]
fn a_fence_is_above_every_one_before_also_where_the_clock_is_behind() {
    for (before, now, expected) in [
        (0, 5000, 5000),
        (5000, 9000, 9000),
        (5000, 5000, 5000 + GRANTS_MAX),
        (5000, 10, 5000 + GRANTS_MAX),
    ] {
        assert_eq!(Fence::from(before).restored(at(now)), Fence(expected), "{before} at {now}");
    }
    assert_eq!(Fence(5000).above(7), 7 + GRANTS_MAX, "what is granted next is above both");
}

#[test]
fn a_turn_stays_with_its_holder_under_a_number_that_no_history_had() {
    let mut state = Workspace::default();
    assert_eq!(told(execute(&mut state, at(10), Caller::default(), hand_over("A", 1))), "ok");
    // What happens after the backup is lost.
    let mut lost = state.clone();
    assert_eq!(told(execute(&mut lost, at(20), Caller::default(), hand_over("B", 2))), "ok");
    let fence = Fence::default().restored(at(1 << 40));
    state.restore_above(fence, at(1 << 40));
    let main = &state.loops.by_id[&"main".parse().unwrap()];
    let (turn, holder) = (main.turn, main.holder.clone());
    assert_eq!(holder, Some(role("B")));
    assert!(fence.get() <= turn.get() && lost.sequence < state.sequence, "{turn}");
    for (name, number) in [("B", 2), ("A", 3), ("B", 4)] {
        let said =
            told(execute(&mut state, at(1 << 40), Caller::default(), hand_over(name, number)));
        assert!(said != "ok", "{name} hands over turn {number}");
    }
    let current = hand_over("B", turn.get());
    assert_eq!(told(execute(&mut state, at(1 << 40), Caller::default(), current)), "ok");
}

#[test]
fn what_is_made_again_begins_above_what_it_had() {
    let fence = Fence::default().restored(at(1 << 40));
    let mut again = Workspace::begun_above(fence);
    assert!(told(execute(&mut again, at(1 << 40), Caller::default(), hand_over("A", 1))) != "ok");
    let mut state = Workspace::default();
    state.restore_above(fence, at(1 << 40));
    let opened = Command::Turn(turn::Command::CreateLoop(turn::CreateLoop {
        loop_id: "side".parse().unwrap(),
        participants: vec![role("A"), role("B")],
        allow_new_roles: true,
    }));
    assert_eq!(told(execute(&mut state, at(1 << 40), Caller::default(), opened)), "ok");
    assert!(fence.get() < state.loops.by_id[&"side".parse().unwrap()].turn.get());
}

#[test]
fn a_node_of_before_has_to_register_again() {
    let mut state = Workspace::default();
    assert_eq!(told(execute(&mut state, at(10), Caller::default(), register())), "ok");
    let caller = |epoch: Epoch| Caller { node: Some(("n".parse().unwrap(), epoch)), token: None };
    let old = Epoch::NONE.next();
    let hand = || hand_over("A", 1);
    assert_eq!(told(execute(&mut state.clone(), at(11), caller(old), hand())), "ok");
    state.restore_above(Fence::default().restored(at(1 << 40)), at(1 << 40));
    for epoch in [old, old.next()] {
        let said = told(execute(&mut state, at(1 << 40), caller(epoch), hand()));
        assert_eq!(said, "stale_epoch", "{epoch}");
    }
    let Ok(Reply::Directory(directory::Reply::Registered { epoch })) =
        execute(&mut state, at(1 << 40), Caller::default(), register())
    else {
        panic!("it registers");
    };
    assert!(1 << 40 < epoch.get(), "{epoch}");
}
