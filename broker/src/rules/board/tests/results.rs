//! Stories of results that are stored at checkpoints, and of boards that are pruned.

use tasuki_proto::limits::{CHECKPOINT_RESULTS_MAX, PRUNED_FORKS_MAX};

use super::*;

fn phase(story: &mut Story, phase: &str) -> u64 {
    let schema = Schema::agent_state();
    story.update(update(&schema, &json!({ "current_phase": phase }))).unwrap().get()
}

/// Holds BD5.
#[test]
fn a_result_keeps_its_first_value_unless_it_is_replaced() {
    let mut story = Story::default();
    let refused = story.store(1, &[("a", json!(1))], false).unwrap_err();
    assert!(refused.starts_with("there is no board plan"), "{refused}");
    phase(&mut story, "plan");
    phase(&mut story, "code");
    let refused = story.store(3, &[("a", json!(1))], false).unwrap_err();
    assert_eq!(refused, "board plan has no checkpoint 3; the newest is 2");
    assert_eq!(story.store(1, &[("a", json!(1)), ("b", json!(2))], false), Ok((2, Vec::new())));
    let kept = (1, vec!["a".to_owned()]);
    assert_eq!(story.store(1, &[("a", json!(7)), ("c", json!(3))], false), Ok(kept));
    assert_eq!(story.store(1, &[("b", json!(8))], true), Ok((1, Vec::new())));
    let expected = [("a", json!(1)), ("b", json!(8)), ("c", json!(3))];
    let expected = expected.map(|(name, it)| (name.to_owned(), it));
    assert_eq!(story.results_at(1), BTreeMap::from(expected));
    assert_eq!(story.results_at(2), BTreeMap::new());
    // It is no checkpoint, so that nobody who waits is woken.
    let waits = Question {
        board: board(),
        role: role("qa"),
        channels: std::collections::BTreeSet::new(),
        after: at(2),
    };
    assert!(!story.workspace.boards.answer(&waits).is_there);
    story.restart();
    let by = "ann".parse().unwrap();
    story.execute(Command::Delete { by, board: board() }).unwrap();
    let place = ResultPlace { board: 1, checkpoint: at(1), number: 1 };
    assert!(!story.workspace.boards.has_result(&place));
    story.restart();
}

#[test]
fn the_results_at_a_checkpoint_have_a_number_and_a_size() {
    let mut story = Story::default();
    phase(&mut story, "plan");
    let names: Vec<String> = (0..CHECKPOINT_RESULTS_MAX).map(|it| it.to_string()).collect();
    for name in &names {
        story.store(1, &[(name, json!(0))], false).unwrap();
    }
    let refused = story.store(1, &[("more", json!(0))], false).unwrap_err();
    assert!(refused.contains("would have more than 1024 results"), "{refused}");
    assert_eq!(story.store(1, &[("7", json!(1))], true), Ok((1, Vec::new())));
    phase(&mut story, "code");
    let mib = || json!("x".repeat((1 << 20) - 2));
    for name in ["a", "b", "c"] {
        story.store(2, &[(name, mib())], false).unwrap();
    }
    let refused = story.store(2, &[("d", json!(0))], false).unwrap_err();
    assert!(refused.contains("would have 3145729 bytes; the limit is 3145728"), "{refused}");
    // What is replaced does not count.
    story.store(2, &[("a", json!(0))], true).unwrap();
    story.store(2, &[("d", json!(0))], false).unwrap();
}

/// Holds BD6.
#[test]
fn what_remains_of_a_pruned_board_reads_as_before() {
    let (mut story, schema) = (Story::default(), Schema::agent_state());
    let message = |id: &str| json!({ "messages": [{ "id": id, "role": "user", "content": id }] });
    let fork = |it: Update, parent: u64| Update { expected: Some(at(parent)), is_fork: true, ..it };
    let keyed = |it: Update, key: &str| Update { write_key: Some(key.to_owned()), ..it };
    story.update(keyed(update(&schema, &message("a")), "one")).unwrap();
    story.update(update(&schema, &message("b"))).unwrap();
    story.update(update(&schema, &json!({ "current_phase": "code" }))).unwrap();
    story.update(fork(update(&schema, &message("c")), 1)).unwrap();
    let (third, fourth) = (story.read(&board(), at(3)), story.read(&board(), at(4)));
    assert_eq!(story.prune(2), Ok(3));
    story.restart();
    assert_eq!(story.read(&board(), at(3)), third);
    assert_eq!(story.read(&board(), at(4)), fourth);
    let refused = story.workspace.boards.checkpoint(&board(), Some(at(2))).unwrap_err();
    assert_eq!(refused.to_string(), "board plan has no checkpoint 2; the newest is 4");
    // Which messages there are is known as before, also on the branch that was left.
    let remove = |id: &str| json!({ "messages": [{ "type": "remove", "id": id }] });
    assert!(story.update(update(&schema, &remove("b"))).is_err());
    story.update(update(&schema, &remove("a"))).unwrap();
    story.update(fork(update(&schema, &remove("b")), 3)).unwrap();
    // Whoever knew a forgotten checkpoint is told of all that may have changed since.
    let asks = |channel_: &str, after| Question {
        board: board(),
        role: role("qa"),
        channels: [channel(channel_)].into(),
        after: at(after),
    };
    assert!(story.workspace.boards.answer(&asks("messages", 2)).is_there);
    assert!(!story.workspace.boards.answer(&asks("retry_count", 2)).is_there);
    // Its write key is free again; who expects what was there is refused.
    let again = keyed(update(&schema, &message("a")), "one");
    let stale = Update { expected: Some(at(0)), ..again.clone() };
    assert!(story.update(stale).is_err());
    assert_eq!(story.update(again), Ok(at(7)));
    assert_eq!(story.prune(100), Ok(3));
    assert_eq!(story.prune(1), Ok(7));
    story.restart();
}

#[test]
fn forks_of_forgotten_checkpoints_have_a_number() {
    let (mut story, schema) = (Story::default(), Schema::agent_state());
    phase(&mut story, "plan");
    for number in 0..=PRUNED_FORKS_MAX {
        let it = update(&schema, &json!({ "retry_count": number }));
        story.update(Update { expected: Some(at(1)), is_fork: true, ..it }).unwrap();
    }
    let refused = story.prune(PRUNED_FORKS_MAX + 1).unwrap_err();
    assert!(refused.starts_with("65 checkpoints of board plan that remain go on"), "{refused}");
    assert_eq!(story.prune(PRUNED_FORKS_MAX), Ok(3));
}

/// Who reads where values are and who forgets are not one step.
#[test]
fn a_board_that_changed_while_it_was_pruned_is_left_alone() {
    let mut story = Story::default();
    phase(&mut story, "plan");
    phase(&mut story, "code");
    let id = story.workspace.boards.get(&board()).unwrap().id;
    let prune = |id| {
        Command::Prune(Prune { by: Actor::Role(role("dev")), board: board(), id, oldest: at(2) })
    };
    let schema = Schema::agent_state();
    story.update(update(&schema, &json!({ "retry_count": 1 }))).unwrap();
    let refused = |story: &mut Story, id| story.execute(prune(id)).unwrap_err().to_string();
    assert!(refused(&mut story, 9).contains("was made anew meanwhile"));
    assert_eq!(story.execute(prune(id)), Ok(AnyReply::Board(Reply::Pruned(1, at(2)))));
    // A fork from before makes another checkpoint go on from what would be forgotten.
    let mut story = Story::default();
    let first = json!({ "retry_count": 1, "current_phase": "plan" });
    story.update(update(&schema, &first)).unwrap();
    story.update(update(&schema, &first)).unwrap();
    let fork = update(&schema, &json!({ "retry_count": 2 }));
    story.update(Update { expected: Some(at(1)), is_fork: true, ..fork }).unwrap();
    assert!(refused(&mut story, 1).contains("changed while it was pruned"));
}
