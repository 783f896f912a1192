//! Loops and roles that are paused, as callers of the API see it.

use tasuki_broker::server::Broker;
use tasuki_proto::wire::{self, LoopStatus, PauseKind};

use crate::support::{Client, connect, reason, start};

/// Lets at most so many turns end without a person.
async fn limit(client: &mut Client, turns: u32) {
    let request = wire::SetLimitsRequest {
        key: client.key(),
        person: "ann".to_owned(),
        max_turns: Some(turns),
        ..wire::SetLimitsRequest::default()
    };
    client.guard.set_limits(request).await.unwrap();
}

async fn resume(client: &mut Client) -> wire::Loop {
    let request = wire::ResumeLoopRequest {
        key: client.key(),
        person: "ann".to_owned(),
        ..wire::ResumeLoopRequest::default()
    };
    client.turns.resume_loop(request).await.unwrap().into_inner().r#loop.unwrap()
}

async fn restarted(broker: Broker, data: &std::path::Path) -> (Broker, Client) {
    broker.stop().await.unwrap();
    let broker = start(data).await;
    let client = connect(&broker, "again").await;
    (broker, client)
}

#[tokio::test]
async fn the_turn_that_is_one_too_many_is_stored_and_waits_for_a_person() {
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut a = connect(&broker, "a").await;
    limit(&mut a, 2).await;
    let first = a.hand_over("A", "s1").await.unwrap();
    assert_eq!(first.pause, None);
    let request = a.handover("B", "s2");
    let tripped = a.turns.hand_over(request.clone()).await.unwrap().into_inner();
    let pause = tripped.pause.clone().unwrap();
    assert_eq!((tripped.turn, pause.kind()), (3, PauseKind::Turns));
    assert_eq!(pause.reason, "2 turns ended and no person acted in it");
    let again = a.turns.hand_over(request.clone()).await.unwrap().into_inner();
    assert_eq!((again.pause.as_ref(), again.turn), (Some(&pause), 3), "the same key");
    let repeated = a.hand_over("B", "s2").await.unwrap();
    assert_eq!((repeated.repeated, repeated.pause.as_ref()), (true, Some(&pause)));

    let (broker, mut a) = restarted(broker, data.path()).await;
    let again = a.turns.hand_over(request.clone()).await.unwrap().into_inner();
    assert_eq!(again.pause.as_ref(), Some(&pause), "the same key after a restart");
    let told = a.ask("A", 0).await;
    assert!(!told.can_start && told.still_waiting && told.pause.as_ref() == Some(&pause));
    let seen = a.state().await.r#loop.unwrap();
    assert_eq!((seen.status(), seen.holder.as_str()), (LoopStatus::Paused, "A"));
    assert_eq!((seen.turns_alone, seen.max_turns_alone, seen.lease_lapses_ms), (2, 2, 0));
    assert_eq!(seen.pause.as_ref(), Some(&pause));

    let mut waiter = a.clone();
    let waiting = tokio::spawn(async move { waiter.ask("A", 60_000).await });
    while a.state().await.r#loop.unwrap().waiting.is_empty() {}
    let by_role = wire::ResumeLoopRequest {
        key: a.key(),
        role: "A".to_owned(),
        ..wire::ResumeLoopRequest::default()
    };
    assert_eq!(reason(&a.turns.resume_loop(by_role).await.unwrap_err()), "right_forbidden");
    let resumed = resume(&mut a).await;
    assert_eq!((resumed.status(), resumed.pause), (LoopStatus::Working, None));
    let told = waiting.await.unwrap();
    assert!(told.can_start && told.turn == 3, "the wait was there all the time: {told:?}");
    assert_eq!(told.latest.unwrap().summary, "s2", "and nothing was lost");
    let again = a.turns.hand_over(request).await.unwrap().into_inner();
    assert_eq!(again.pause, Some(pause), "the same key has the same answer for good");
    broker.stop().await.unwrap();
}

#[tokio::test]
async fn a_loop_is_paused_and_resumed_by_whoever_may_and_says_so() {
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut a = connect(&broker, "a").await;
    let mut pause = wire::PauseLoopRequest {
        key: a.key(),
        person: "ann".to_owned(),
        ..wire::PauseLoopRequest::default()
    };
    let refused = a.turns.pause_loop(pause.clone()).await.unwrap_err();
    assert_eq!(reason(&refused), "invalid_argument", "a reason is needed");
    pause.reason = "lunch".to_owned();
    let paused = a.turns.pause_loop(pause).await.unwrap().into_inner().r#loop.unwrap();
    let why = paused.pause.unwrap();
    assert_eq!((why.kind(), why.person.as_str()), (PauseKind::Asked, "ann"));
    assert_eq!((why.reason.as_str(), why.at_ms != 0), ("ann paused it: lunch", true));
    let handed = a.hand_over("A", "done all the same").await.unwrap();
    assert_eq!(handed.pause, Some(why));
    let by_human = wire::ResumeLoopRequest {
        key: a.key(),
        role: "human".to_owned(),
        reason: "back".to_owned(),
        ..wire::ResumeLoopRequest::default()
    };
    a.turns.resume_loop(by_human).await.unwrap();
    assert!(a.ask("B", 0).await.can_start);
    broker.stop().await.unwrap();
}

#[tokio::test]
async fn a_budget_pauses_its_role_which_gives_back_what_it_has_and_begins_nothing() {
    let data = tempfile::tempdir().unwrap();
    let broker = start(data.path()).await;
    let mut a = connect(&broker, "a").await;
    let budget = wire::RoleBudget { max_tokens: 1000, ..wire::RoleBudget::default() };
    let set = |a: &mut Client, target: &str| wire::SetBudgetRequest {
        key: a.key(),
        person: "ann".to_owned(),
        target: target.to_owned(),
        budget: Some(budget),
        ..wire::SetBudgetRequest::default()
    };
    let request = set(&mut a, "stranger");
    assert_eq!(reason(&a.guard.set_budget(request).await.unwrap_err()), "unknown_role");
    let request = set(&mut a, "human");
    assert_eq!(reason(&a.guard.set_budget(request).await.unwrap_err()), "invalid_argument");
    let request = set(&mut a, "A");
    a.guard.set_budget(request).await.unwrap();
    let report = |a: &mut Client, tokens| wire::ReportUsageRequest {
        key: a.key(),
        role: "A".to_owned(),
        tokens,
        ..wire::ReportUsageRequest::default()
    };
    let request = report(&mut a, 999);
    assert_eq!(a.guard.report_usage(request).await.unwrap().into_inner().pause, None);
    let request = report(&mut a, 1);
    let told = a.guard.report_usage(request.clone()).await.unwrap().into_inner();
    assert_eq!(told.pause.unwrap().reason, "used up its budget of 1000 tokens");
    a.guard.report_usage(request).await.unwrap();

    let (broker, mut a) = restarted(broker, data.path()).await;
    let seen = a.guard.get_guard(wire::GetGuardRequest::default()).await.unwrap().into_inner();
    let of = &seen.roles[0];
    assert_eq!((of.role.as_str(), of.tokens, of.calls), ("A", 1000, 2), "counted once each");
    let seen = a.state().await.r#loop.unwrap();
    assert_eq!((seen.status(), seen.pause.unwrap().kind()), (LoopStatus::Paused, PauseKind::Role));
    let letter = wire::SendRequest {
        key: a.key(),
        role: "A".to_owned(),
        to: vec!["B".to_owned()],
        r#type: "INFO".to_owned(),
        subject: "s".to_owned(),
        text: "t".to_owned(),
        ..wire::SendRequest::default()
    };
    let refused = a.mail.send(letter).await.unwrap_err();
    assert_eq!(reason(&refused), "paused");
    assert!(refused.message().contains("`tasuki budget resume A`"), "{refused:?}");
    a.hand_over("A", "what there is").await.unwrap();
    let back = a.hand_over("B", "yours").await.unwrap();
    let why = back.pause.unwrap();
    assert_eq!(why.reason, "A used up its budget of 1000 tokens", "its turn does not start");

    let request = wire::ResumeRoleRequest {
        key: a.key(),
        person: "ann".to_owned(),
        target: "A".to_owned(),
        ..wire::ResumeRoleRequest::default()
    };
    a.guard.resume_role(request).await.unwrap();
    assert!(a.ask("A", 0).await.can_start, "one command lets role and loop go on");
    let seen = a.guard.get_guard(wire::GetGuardRequest::default()).await.unwrap().into_inner();
    assert_eq!((seen.roles[0].tokens, seen.roles[0].pause.as_ref()), (0, None));
    broker.stop().await.unwrap();
}
