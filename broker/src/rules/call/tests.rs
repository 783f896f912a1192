//! Calls that end, and that are lost with their broker.

use super::*;
use crate::rules::{Caller, Context, Request, Workspace, presence::Presence};

fn role(name: &str) -> RoleId {
    name.parse().unwrap()
}

fn call(tool: &str) -> Call {
    Call { role: role("dev"), target: role("qa"), tool: tool.to_owned() }
}

/// What a command leads to, applied.
fn told(workspace: &mut Workspace, at: u64, command: Command) -> Vec<Event> {
    let now = Timestamp::from_millis(at);
    let request = Request { caller: Caller::default(), key: None, command: command.into() };
    let context = Context::new(Presence::new(now), 1000);
    let decision = workspace.decide(now, &context, &request).unwrap();
    let events: Vec<Event> = decision
        .events
        .iter()
        .map(|it| {
            let super::super::Event::Call(it) = it else { panic!("{it:?}") };
            it.clone()
        })
        .collect();
    for event in &decision.events {
        workspace.apply_event(now, &Principal::default(), event);
    }
    events
}

/// Holds CL1.
#[test]
fn a_call_ends_once_and_with_the_broker_that_ended() {
    let mut workspace = Workspace::default();
    let begin = |tool: &str, started| {
        Command::Begin(Begin {
            call: call(tool),
            started: Timestamp::from_millis(started),
            arguments: None,
        })
    };
    let end = |number| Command::End(End { number, outcome: Outcome::Succeeded, result: None });
    assert_eq!(told(&mut workspace, 10, begin("a", 5)), [Event::Begun(1, call("a"), None)]);
    assert_eq!(told(&mut workspace, 11, begin("b", 5)), [Event::Begun(2, call("b"), None)]);
    let ended = Event::Ended(1, call("a"), Outcome::Succeeded, None);
    assert_eq!(told(&mut workspace, 12, end(1)), [ended]);
    assert_eq!(told(&mut workspace, 13, end(1)), []);
    assert_eq!(told(&mut workspace, 13, end(7)), []);
    // The broker was started again.
    let lost = Event::Ended(2, call("b"), Outcome::Unknown, None);
    assert_eq!(told(&mut workspace, 20, begin("c", 15)), [lost, Event::Begun(3, call("c"), None)]);
    assert_eq!(told(&mut workspace, 21, end(2)), []);
    assert_eq!(workspace.calls.open.keys().collect::<Vec<_>>(), [&3]);
}

#[test]
fn whoever_is_paused_begins_no_call() {
    let begin =
        Command::Begin(Begin { call: call("a"), started: Timestamp::default(), arguments: None });
    assert!(!begin.is_for_paused());
    assert!(
        Command::End(End { number: 1, outcome: Outcome::Failed, result: None }).is_for_paused()
    );
}
