//! What it matters with which token a command came.

use super::*;

#[test]
fn a_node_is_its_tokens() {
    check(
        &[
            (1, "n1 registers A B $t1"),
            (2, "n1 registers A B $t2"),
            (3, "n1 registers A B $t2 !"),
            (4, "n1 registers A B $t2 ~t3"), // not whose node it is
            (5, "A hands over s1 $t2 %n1/1"),
            (6, "A hands over s1 $t2 %n1/7"),
            (7, "A hands over s1 $t1 %n1/1"),
            (8, "n1 registers A B $t1"), // a rotated token keeps its id
            (9, "B hands over s2 $t1 %n1/1"),
            (10, "n1 registers A B $t2 ~t1"), // t1 was revoked
            (11, "B hands over s2 $t1 %n1/3"),
            (12, "B hands over s2 $t2 %n1/3"),
        ],
        "
        1 n1 registers A B $t1: epoch 1
        2 n1 registers A B $t2: no: node_forbidden
        3 n1 registers A B $t2 !: no: node_forbidden
        4 n1 registers A B $t2 ~t3: no: node_forbidden
        5 A hands over s1 $t2 %n1/1: no: node_forbidden
        6 A hands over s1 $t2 %n1/7: no: node_forbidden
        7 A hands over s1 $t1 %n1/1: turn 1 ended, turn 2 to B
        8 n1 registers A B $t1: epoch 2
        9 B hands over s2 $t1 %n1/1: no: stale_epoch
        10 n1 registers A B $t2 ~t1: epoch 3
        11 B hands over s2 $t1 %n1/3: no: node_forbidden
        12 B hands over s2 $t2 %n1/3: turn 2 ended, turn 3 to A",
    );
}

#[test]
fn where_no_token_is_asked_for_a_node_is_anybodys() {
    check(
        &[
            (1, "n1 registers A $t1"),
            (2, "n1 registers A"),
            (3, "A hands over s1 $t2 %n1/2"),
            (4, "n1 registers A $t2"),
            (5, "B hands over s2 %n1/3"),
            (6, "n1 registers A B $t1"),
        ],
        "
        1 n1 registers A $t1: epoch 1
        2 n1 registers A: epoch 2
        3 A hands over s1 $t2 %n1/2: turn 1 ended, turn 2 to B
        4 n1 registers A $t2: epoch 3
        5 B hands over s2 %n1/3: no: role_forbidden
        6 n1 registers A B $t1: no: node_forbidden",
    );
}

#[test]
fn a_role_goes_from_one_tokens_node_to_anothers_by_silence_or_on_demand() {
    check(
        &[
            (1, "n1 registers A B $t1"),
            (1, "n1 beats"),
            (2, "n2 registers A $t2"),
            (3, "n2 registers A $t2 !"),
            (4, "A hands over s1 $t1 %n1/1"),
            (5, "A hands over s1 $t2 %n2/1"),
            (6, "n2 registers A B $t2"),
            (45_001, "n2 registers A B $t2"), // n1 has been silent for 45 s
        ],
        "
        1 n1 registers A B $t1: epoch 1
        2 n2 registers A $t2: no: role_in_use
        3 n2 registers A $t2 !: epoch 1
        4 A hands over s1 $t1 %n1/1: no: role_forbidden
        5 A hands over s1 $t2 %n2/1: turn 1 ended, turn 2 to B
        6 n2 registers A B $t2: no: role_in_use
        45001 n2 registers A B $t2: epoch 2",
    );
}

#[test]
fn one_token_has_so_many_nodes_and_those_that_are_gone_make_room() {
    let mut story = Story::new(0);
    for number in 0..directory::NODES_PER_TOKEN_MAX {
        story.step(0, &format!("n{number} registers R{number} $t1"));
    }
    story.step(1, "n1 registers R1 $t1");
    story.told.clear();
    let away = tasuki_proto::limits::NODE_SILENT_MS_MAX;
    for (ms, line) in [
        (2, "more registers A $t1"),
        (3, "more registers A $t2"),
        (4, "n1 registers $t1"),      // it hosts nothing
        (5, "extra registers C $t1"), // but it may still be there
        (away, "n2 beats"),
        (away, "n2 registers $t1"),
        (away, "extra registers C $t1"),  // instead of n1
        (away, "extra2 registers D $t1"), // the others host roles, or are there
        (away, "R1 hands over s %n1/3 $t1"),
        (2 * away, "n1 registers C $t1"), // instead of n2, above all that was forgotten
    ] {
        story.step(ms, line);
    }
    let expected = "
        2 more registers A $t1: no: overloaded
        3 more registers A $t2: epoch 1
        4 n1 registers $t1: epoch 3
        5 extra registers C $t1: no: overloaded
        45000 n2 registers $t1: epoch 2
        45000 extra registers C $t1: epoch 4
        45000 extra2 registers D $t1: no: overloaded
        45000 R1 hands over s %n1/3 $t1: no: stale_epoch
        90000 n1 registers C $t1: epoch 4";
    let trim = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    assert_eq!(trim(story.told.trim()), trim(expected.trim()));
}

#[test]
fn the_same_key_with_another_token_is_another_key() {
    check(
        &[
            (1, "A hands over s1 #c/1 $t1"),
            (2, "A hands over other #c/1 $t2"), // not `key_reused`: t2 never used it
            (3, "B hands over s2 #c/9000 $t2"),
            (4, "A hands over s1 #c/1 $t1"),
            (5, "A hands over s3 #c/2 $t1"),
            (6, "B hands over s2 #c/1 $t2"),
        ],
        "
        1 A hands over s1 #c/1 $t1: turn 1 ended, turn 2 to B
        2 A hands over other #c/1 $t2: no: not_your_turn
        3 B hands over s2 #c/9000 $t2: turn 2 ended, turn 3 to A
        4 A hands over s1 #c/1 $t1: turn 1 ended, turn 2 to B (same key)
        5 A hands over s3 #c/2 $t1: turn 3 ended, turn 4 to B
        6 B hands over s2 #c/1 $t2: no: key_expired",
    );
}

#[test]
fn entries_say_with_which_token_they_came() {
    let mut story = Story::new(0);
    let latest = |story: &Story| {
        let main = &story.workspace.loops.by_id[&"main".parse().unwrap()];
        let latest = main.latest.clone().unwrap();
        let node = latest.node.map(|node| node.to_string());
        (latest.token.map(|token| token.to_string()), node)
    };
    let some = |name: &str| Some(name.to_owned());
    story.step(0, "n1 registers A B $t1");
    story.step(1, "A hands over s1 $t1 %n1/1");
    assert_eq!(latest(&story), (some("t1"), some("n1")));
    story.step(2, "ann reclaims because lunch >A $t2");
    assert_eq!(latest(&story), (some("t2"), None));
    story.step(3, "A hands over done ! $t1 %n1/1");
    story.step(4, "ann starts a round >B $t3");
    assert_eq!(latest(&story), (some("t3"), None));
    story.step(5, "B hands over s2");
    assert_eq!(latest(&story), (None, None));
}
