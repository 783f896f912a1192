//! Locks: all or none, given back once, for a task under its claim.

use tasuki_proto::limits::LOCK_STEPS_MAX;

use super::*;
use crate::rules::Event as AnyEvent;

#[test]
fn locks_are_all_or_none_and_ones_own_stay() {
    check(
        &[
            (1, "W locks a"),
            (2, "V locks z"),
            (3, "W locks a z"),
            (4, "V locks a"),
            (5, "W locks a b"),
            (6, "W locks a b"),
            (7, "V locks other:a"),
            (8, "V locks A"),
            (9, "X locks A +folded"),
        ],
        "  1 W locks a: locked, token 1 until 120001
           2 V locks z: locked, token 2 until 120002
           3 W locks a z: no: file_is_locked
           4 V locks a: no: file_is_locked
           5 W locks a b: locked, token 3 until 120005
           6 W locks a b: locked, token 3 until 120005 (as before)
           7 V locks other:a: locked, token 4 until 120007
           8 V locks A: locked, token 5 until 120008
           9 X locks A +folded: no: file_is_locked",
    );
    check(
        &[
            (1, "W locks src/"),
            (2, "V locks src/deep/file.rs"),
            (3, "V locks src/*.rs"),
            (4, "V locks **/file.rs"),
            (5, "V locks srcs/file.rs"),
            (6, "W unlocks"),
            (7, "V unlocks"),
            (8, "W locks src"),
            (9, "L forces"),
            (10, "V locks src/a"),
            (120_011, "time"),
            (120_012, "V keeps"),
            (120_013, "V locks src/a"),
            (120_014, "W keeps"),
            (120_015, "W unlocks"),
        ],
        "  1 W locks src/: locked, token 1 until 120001
           2 V locks src/deep/file.rs: no: file_is_locked
           3 V locks src/*.rs: no: file_is_locked
           4 V locks **/file.rs: no: file_is_locked
           5 V locks srcs/file.rs: locked, token 2 until 120005
           6 W unlocks: no: not_holder
           7 V unlocks: done
           8 W locks src: locked, token 1 until 120001 (as before)
           9 L forces: done
          10 V locks src/a: locked, token 3 until 120010
         120011 time: done
         120012 V keeps: no: lease_not_found
         120013 V locks src/a: locked, token 4 until 240013
         120014 W keeps: no: not_holder
         120015 W unlocks: no: not_holder",
    );
}

#[test]
fn whoever_lost_a_lock_is_told_so() {
    let mut story = Story::new();
    story.step(1, "W locks a");
    let lost = story.lock();
    let reason = "stuck\u{1b}[31m\nand \u{202e}gone".to_owned();
    let force = Command {
        by: Actor::Role(role("L")),
        ask: CommandKind::ForceUnlock { lock: lost, reason },
    };
    assert_eq!(story.execute(Timestamp::from_millis(2), AnyCommand::Swarm(force)), "done");
    story.step(3, "V locks a");
    let ask = CommandKind::RenewLock { lock: lost, token: FencingToken::NONE, extend_ms: None };
    let command = Command { by: Actor::Role(role("W")), ask };
    let said = story.execute(Timestamp::from_millis(4), AnyCommand::Swarm(command));
    assert_eq!(said, "no: lease_lost");
    story.step(4, "restart");
    let why = story.swarm().locks.held(lost, &role("W"), FencingToken::NONE).unwrap_err();
    let told = why.to_string();
    let expected = format!(
        "lease '{lost}' was taken by L, saying \"stuck[31m and gone\"; nothing was written"
    );
    assert_eq!(told, expected);
    let ask = CommandKind::Unlock { lock: LockId::default(), token: FencingToken::NONE };
    let command = Command { by: Actor::Role(role("W")), ask };
    let said = story.execute(Timestamp::from_millis(5), AnyCommand::Swarm(command));
    assert_eq!(said, "no: lease_not_found");

    story.step(6, "W locks b");
    let lost = story.lock();
    let reason = "word ".repeat(200);
    let ask = CommandKind::ForceUnlock { lock: lost, reason };
    let force = Command { by: Actor::Role(role("L")), ask };
    assert_eq!(story.execute(Timestamp::from_millis(7), AnyCommand::Swarm(force)), "done");
    let why = story.swarm().locks.held(lost, &role("W"), FencingToken::NONE).unwrap_err();
    let told = format!(
        "lease '{lost}' was taken by L, saying \"{}\"… (1000 bytes); nothing was written",
        "word ".repeat(12)
    );
    assert_eq!(why.to_string(), told);
}

#[test]
fn a_lock_is_given_back_once_however_often_it_is_said() {
    let mut story = Story::new();
    story.step(1, "W locks a");
    let lock = story.lock();
    let mut unlock = |at, who| {
        let ask = CommandKind::Unlock { lock, token: FencingToken::NONE };
        let command = Command { by: Actor::Role(role(who)), ask };
        story.execute(Timestamp::from_millis(at), AnyCommand::Swarm(command))
    };
    assert_eq!(unlock(2, "W"), "done");
    assert_eq!(unlock(3, "W"), "done (as before)");
    assert_eq!(unlock(4, "V"), "no: lease_not_found");
    story.step(5, "restart");
    story.step(6, "V locks a");
    let ask = CommandKind::Unlock { lock, token: FencingToken::NONE };
    let command = Command { by: Actor::Role(role("W")), ask };
    let said = story.execute(Timestamp::from_millis(7), AnyCommand::Swarm(command));
    assert_eq!(said, "done (as before)");
}

#[test]
fn files_are_locked_for_a_task_by_whoever_has_claimed_it() {
    check(
        &[
            (1, "L opens s"),
            (2, "L plans easy 1"),
            (3, "V registers"),
            (4, "W registers"),
            (5, "W locks a +for=1"),
            (6, "V claims 1"),
            (7, "W locks a +for=1"),
            (8, "L locks a +for=1"),
            (9, "V locks a +for=1 +token=9"),
            (10, "V locks a +for=1 +token=1"),
            (11, "L resets 1: again"),
            (12, "V locks a +for=1"),
            (13, "W claims 1"),
            (14, "V locks a +for=1 +token=1"),
            (15, "W locks a +for=1"),
            (16, "V locks b"),
            (17, "L cancels 1: enough"),
            (18, "L closes: enough"),
            (19, "W locks a +for=1"),
        ],
        "  1 L opens s: an issue
            2 L plans easy 1: 1 from task-1 | 1 ready
            3 V registers: done | 1 ready
            4 W registers: done | 1 ready
            5 W locks a +for=1: no: not_claimant | 1 ready
            6 V claims 1: token 1 until 3600006 | 1 in_progress:V
            7 W locks a +for=1: no: not_claimant | 1 in_progress:V
            8 L locks a +for=1: no: not_claimant | 1 in_progress:V
            9 V locks a +for=1 +token=9: no: stale_token | 1 in_progress:V
           10 V locks a +for=1 +token=1: locked, token 2 until 120010 | 1 in_progress:V
           11 L resets 1: again: done | 1 ready
           12 V locks a +for=1: no: lease_lost | 1 ready
           13 W claims 1: token 3 until 3600013 | 1 in_progress:W
           14 V locks a +for=1 +token=1: no: lease_lost | 1 in_progress:W
           15 W locks a +for=1: locked, token 4 until 120015 | 1 in_progress:W
           16 V locks b: locked, token 5 until 120016 | 1 in_progress:W
           17 L cancels 1: enough: done | 1 canceled
           18 L closes: enough: an issue | done | 1 canceled
           19 W locks a +for=1: no: issue_closed | done | 1 canceled",
    );
}

#[test]
fn what_another_role_has_locked_is_not_submitted() {
    check(
        &[
            (1, "L opens s"),
            (2, "L plans easy 1"),
            (3, "W registers"),
            (4, "W claims 1"),
            (5, "V locks src/ other:b"),
            (6, "W locks a"),
            (7, "W submits 1 +on=src/main.rs: done"),
            (8, "W submits 1 +on=b: done"),
            (9, "V locks b"),
            (10, "W submits 1 +on=b: done"),
            (11, "W submits 1 +on=b: more"),
            (12, "W submits 1 +on=a: more"),
            (13, "V unlocks"),
            (14, "W submits 1 +on=b: and more"),
            (120_007, "time"),
            (120_008, "W submits 1 +on=src/main.rs: all"),
        ],
        "  1 L opens s: an issue
            2 L plans easy 1: 1 from task-1 | 1 ready
            3 W registers: done | 1 ready
            4 W claims 1: token 1 until 3600004 | 1 in_progress:W
            5 V locks src/ other:b: locked, token 2 until 120005 | 1 in_progress:W
            6 W locks a: locked, token 3 until 120006 | 1 in_progress:W
            7 W submits 1 +on=src/main.rs: done: no: file_is_locked | 1 in_progress:W
            8 W submits 1 +on=b: done: submitted | 1 submitted:W
            9 V locks b: locked, token 4 until 120009 | 1 submitted:W
           10 W submits 1 +on=b: done: submitted (as before) | 1 submitted:W
           11 W submits 1 +on=b: more: no: file_is_locked | 1 submitted:W
           12 W submits 1 +on=a: more: submitted | 1 submitted:W
           13 V unlocks: done | 1 submitted:W
           14 W submits 1 +on=b: and more: submitted | 1 submitted:W
         120007 time: done | 1 submitted:W
         120008 W submits 1 +on=src/main.rs: all: submitted | 1 submitted:W",
    );
}

/// To compare one of those that are held with what is asked for takes half a million steps.
#[test]
fn files_that_take_too_long_to_compare_are_not_locked() {
    let mut story = Story::new();
    let key = |path: &str| lock::LockKey::new("repo", path, false).unwrap();
    let locks = |story: &mut Story, ms, who: &str, keys: Vec<lock::LockKey>| {
        let claim = FencingToken::NONE;
        let ask = CommandKind::LockFiles(LockFiles { keys, task: None, claim, ttl_ms: None });
        let command = Command { by: Actor::Role(role(who)), ask };
        story.execute(Timestamp::from_millis(ms), AnyCommand::Swarm(command))
    };
    let held = (0..20).map(|number| key(&format!("*{}b{number}*", "a".repeat(500))));
    let said = locks(&mut story, 1, "W", held.collect());
    assert_eq!(said, "locked, token 1 until 120001");
    let asked = vec![key(&format!("{}?", "a".repeat(1000)))];
    assert_eq!(locks(&mut story, 2, "V", asked.clone()), "no: overloaded");
    let waits = Question::Locks(asked);
    let told = story.swarm().answer(Timestamp::from_millis(3), &role("V"), &waits, |_| true);
    let told = told.unwrap();
    assert_eq!(told, Answer::Locks(LocksAnswer::Unknown));
    assert!(!told.is_there(), "it is parked");
    let Question::Locks(asked) = waits else { unreachable!() };
    let effort = lock::Effort::new(LOCK_STEPS_MAX);
    let woken = story.swarm().unlocked_for(&role("V"), &asked, &effort);
    assert_eq!(woken, Some(LocksAnswer::Unlocked), "it is told by asking for them");
    assert!(Answer::Locks(LocksAnswer::Unlocked).is_there());
    story.step(4, "restart");
    let usual = vec![key("src/main.rs"), key("src/**/*.md")];
    assert_eq!(locks(&mut story, 5, "V", usual), "locked, token 2 until 120005");
}

/// Counted, not timed: a reset gives back three hundred locks while many wait for others.
#[test]
fn locks_given_back_together_wake_who_waits_once() {
    let mut story = Story::new();
    for (ms, line) in [
        (1, "L opens s"),
        (2, "L plans easy 1"),
        (3, "W registers"),
        (4, "W claims 1"),
        (5, "X locks zz"),
    ] {
        story.step(ms, line);
    }
    let key = |path: &str| lock::LockKey::new("repo", path, false).unwrap();
    let patterns: Vec<lock::LockKey> =
        (0..1000).map(|number| key(&format!("c{number}/*.x"))).collect();
    let (claim, task) = (FencingToken::NONE, None);
    let ask = CommandKind::LockFiles(LockFiles { keys: patterns, task, claim, ttl_ms: None });
    let command = Command { by: Actor::Role(role("X")), ask };
    let said = story.execute(Timestamp::from_millis(6), AnyCommand::Swarm(command));
    assert!(said.starts_with("locked"), "{said}");
    for number in 0..300 {
        story.step(10 + number, &format!("W locks b{number} +for=1 +token=1"));
    }
    assert_eq!(story.swarm().locks.iter().count(), 302);
    let reset = story.command("L resets 1: again").unwrap();
    let request =
        Request { caller: Caller::default(), key: None, command: AnyCommand::Swarm(reset) };
    let context = Context::new(story.presence.clone(), 1_000_000);
    let decision = story.workspace.decide(Timestamp::from_millis(400), &context, &request).unwrap();
    let unlocks = |it: &&AnyEvent| matches!(it, AnyEvent::Swarm(Event::Unlocked(_)));
    assert_eq!(decision.events.iter().filter(unlocks).count(), 300);
    let events = decision.events.iter().filter_map(|event| {
        let AnyEvent::Swarm(event) = event else { return None };
        Some(event)
    });
    let reached = story.swarm().reached(events);
    assert_eq!(reached.iter().filter(|it| **it == Reach::Locks).count(), 1);
    assert!(reached.len() < 10, "{reached:?}");

    let effort = lock::Effort::new(LOCK_STEPS_MAX);
    for wait in 0..120 {
        let mut asked: Vec<lock::LockKey> =
            (0..5).map(|number| key(&format!("a{wait}{number}/f"))).collect();
        asked.push(key("zz"));
        let told = story.swarm().unlocked_for(&role("V"), &asked, &effort);
        assert_eq!(told, None, "they are locked by another");
    }
    let steps = LOCK_STEPS_MAX - effort.left();
    assert!(steps < 200_000, "{steps} steps for all of them");
}
