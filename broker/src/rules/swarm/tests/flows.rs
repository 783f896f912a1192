//! The flows that roles go through, from the first task to the verdict on everything.

use super::*;

#[test]
fn a_task_goes_from_the_plan_to_its_review_and_the_next_one() {
    check(
        &[
            (1, "L opens s"),
            (2, "L plans easy 3; easy 5"),
            (3, "W claims 1"),
            (4, "W registers"),
            (5, "W claims 1"),
            (6, "W claims 1"),
            (7, "W submits 1: done"),
            (8, "W submits 1: done"),
            (9, "L mints 1 for W 5"),
            (10, "L mints 1 for W 5"),
            (11, "L approves 1 5"),
            (12, "L approves 1 5"),
            (13, "W claims 2 +step"),
        ],
        "",
    );
}

#[test]
fn a_question_blocks_and_its_reply_goes_on() {
    check(
        &[
            (1, "L opens s"),
            (2, "L plans easy 3"),
            (3, "W registers"),
            (4, "W claims 1"),
            (5, "W tells 1: half way"),
            (6, "L replies 1: fine"),
            (7, "W asks 1: which one?"),
            (8, "W asks 1: which one?"),
            (9, "W asks 1: and where?"),
            (10, "L replies 1: this"),
            (11, "L resets 1: never mind"),
            (12, "L replies 1: this"),
        ],
        "",
    );
    let mut story = Story::new();
    for line in ["L opens s", "L plans easy 3", "W registers", "W claims 1", "W asks 1: which?"] {
        story.step(1, line);
    }
    let question = story.task(1).messages[0].id;
    let ask = |story: &Story| {
        let what = Question::Reply(question);
        story.swarm().answer(Timestamp::from_millis(9), &role("W"), &what, |_| true).unwrap()
    };
    assert!(!ask(&story).is_there());
    story.step(2, "L replies 1: this");
    assert!(ask(&story).is_there());
    story.step(3, "L replies 1: this");
    assert!(story.told.ends_with("said (as before) | 1 in_progress:W\n"), "{}", story.told);
}

#[test]
fn a_delivery_is_accepted_on_evidence() {
    check(
        &[
            (1, "L opens s"),
            (2, "L delivers"),
            (3, "L plans easy 3"),
            (4, "L delivers"),
            (5, "W registers"),
            (6, "W claims 1"),
            (7, "W submits 1: done"),
            (8, "L mints 1 for W 5"),
            (9, "L approves 1 5"),
            (10, "L closes"),
            (11, "L delivers f2"),
            (12, "L delivers f1 f2"),
            (13, "L delivers f1 f2"),
            (14, "L delivers f1"),
            (15, "L takes"),
            (16, "A takes"),
            (17, "A takes"),
            (18, "B takes"),
            (19, "B accepts"),
            (20, "A accepts +unaligned"),
            (21, "A accepts +failed"),
            (22, "A runs again +failed"),
            (23, "A accepts"),
            (24, "A accepts +by=ann"),
            (25, "A accepts +by=ann"),
            (26, "A refuses"),
            (27, "L closes"),
            (28, "L closes"),
            (29, "L reopens: more"),
            (30, "L closes"),
            (31, "L closes: enough is enough"),
        ],
        "",
    );
}

#[test]
fn a_claim_that_lapses_is_open_again_and_its_worker_is_told() {
    check(
        &[
            (1, "L opens s"),
            (2, "L plans easy 3"),
            (3, "W registers"),
            (4, "V registers"),
            (5, "W claims 1"),
            (6, "W asks 1: who?"),
            (7, "W locks a b +for=1"),
            (100_000, "W is there"),
            (3_600_005, "time"),
            (3_700_000, "time"),
            (3_700_001, "W submits 1: too late"),
            (3_700_002, "V claims 1"),
            (3_700_003, "W submits 1: too late +token=1"),
            (3_700_004, "V submits 1: done +token=1"),
            (3_700_005, "V locks a"),
        ],
        "",
    );
}

#[test]
fn a_submission_keeps_the_claim_until_its_verdict() {
    check(
        &[
            (1, "L opens s"),
            (2, "L plans easy 3"),
            (3, "W registers"),
            (4, "W claims 1"),
            (5, "W submits 1: one"),
            (9_000_000, "time"),
            (9_000_001, "W submits 1: two"),
            (9_000_002, "L is handed"),
            (9_000_003, "L rejects 1 2 +without"),
            (9_000_004, "L rejects 1 2 +without"),
            (12_600_002, "time"),
            (12_600_003, "time"),
        ],
        "",
    );
}

#[test]
fn tasks_wait_for_those_they_are_blocked_by() {
    check(
        &[
            (1, "L opens s"),
            (2, "L plans easy 1 <#1; easy 1 <#2; easy 1 <#0"),
            (3, "L plans easy 1 <#0"),
            (4, "L plans easy 1 <7"),
            (5, "L plans easy 1 <#1; easy 1"),
            (6, "L plans easy 1 <1"),
            (7, "W registers"),
            (8, "W claims 1"),
            (9, "W claims 2"),
            (10, "W submits 2: done"),
            (11, "L mints 2 for W 5"),
            (12, "L approves 2 5"),
            (13, "W claims 1"),
            (14, "L resets 2: not so"),
            (15, "W claims 3"),
        ],
        "",
    );
}

#[test]
fn after_a_restart_each_grant_has_one_grace() {
    check(
        &[
            (1, "L opens s"),
            (2, "L plans easy 1"),
            (3, "W registers"),
            (4, "W claims 1"),
            (4_000_000, "restart"),
            (4_000_001, "time"),
            (7_700_000, "restart"),
            (7_700_001, "time"),
        ],
        "",
    );
}

#[test]
fn an_issue_lapses_only_when_nobody_has_anything_of_it() {
    check(
        &[
            (1, "L opens s"),
            (2, "L plans easy 1; easy 1"),
            (3, "W registers"),
            (4, "W claims 1"),
            (7_200_003, "W is there"),
            (7_200_004, "time"),
            (7_200_005, "W submits 1: done"),
            (7_200_006, "L mints 1 for W 5"),
            (7_200_007, "L approves 1 5"),
            (7_320_006, "time"),
            (7_320_007, "time"),
            (14_520_006, "time"),
            (14_520_007, "time"),
            (14_520_008, "W claims 2"),
            (14_520_009, "L reopens"),
            (14_520_010, "W claims 2"),
        ],
        "",
    );
}
