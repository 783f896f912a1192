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
        "  1 L opens s: an issue
           2 L plans easy 3; easy 5: 2 from task-1 | 1 ready 2 ready
           3 W claims 1: no: unknown_worker | 1 ready 2 ready
           4 W registers: done | 1 ready 2 ready
           5 W claims 1: token 1 until 3600005 | 1 in_progress:W 2 ready
           6 W claims 1: token 1 until 3600005 (as before) | 1 in_progress:W 2 ready
           7 W submits 1: done: submitted | 1 submitted:W 2 ready
           8 W submits 1: done: submitted (as before) | 1 submitted:W 2 ready
           9 L mints 1 for W 5: easy → task-2, 3 points, 0 low | 1 submitted:W 2 reserved:W
          10 L mints 1 for W 5: easy → task-2, 3 points, 0 low (as before) | 1 submitted:W 2 reserved:W
          11 L approves 1 5: reviewed | 1 done 2 reserved:W
          12 L approves 1 5: reviewed (as before) | 1 done 2 reserved:W
          13 W claims 2 +step: token 3 until 3600013 | 1 done 2 in_progress:W",
    );
}

/// Its call may have ended before the verdict or the reply came.
#[test]
fn a_worker_that_says_the_same_again_is_told_what_came_of_it() {
    check(
        &[
            (1, "L opens s"),
            (2, "L plans easy 3"),
            (3, "W registers"),
            (4, "W claims 1"),
            (5, "W asks 1: which?"),
            (6, "L replies 1: this"),
            (7, "W asks 1: which?"),
            (8, "W tells 1: half way"),
            (9, "W tells 1: half way"),
            (10, "W asks 1: why?"),
            (11, "W tells 1: half way"),
            (12, "L replies 1: so"),
            (13, "W submits 1: done"),
            (14, "L rejects 1 1"),
            (15, "W submits 1: done"),
            (16, "W submits 1: done, and tested"),
        ],
        "  1 L opens s: an issue
           2 L plans easy 3: 1 from task-1 | 1 ready
           3 W registers: done | 1 ready
           4 W claims 1: token 1 until 3600004 | 1 in_progress:W
           5 W asks 1: which?: said | 1 waiting_for_answer:W
           6 L replies 1: this: said | 1 in_progress:W
           7 W asks 1: which?: said (as before) | 1 in_progress:W
           8 W tells 1: half way: said | 1 in_progress:W
           9 W tells 1: half way: said (as before) | 1 in_progress:W
          10 W asks 1: why?: said | 1 waiting_for_answer:W
          11 W tells 1: half way: said | 1 waiting_for_answer:W
          12 L replies 1: so: said | 1 in_progress:W
          13 W submits 1: done: submitted | 1 submitted:W
          14 L rejects 1 1: reviewed | 1 in_progress:W
          15 W submits 1: done: submitted (as before) | 1 in_progress:W
          16 W submits 1: done, and tested: submitted | 1 submitted:W",
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
            (10, "W asks 1: which one?"),
            (11, "L replies 1: this"),
            (12, "L resets 1: never mind"),
            (13, "L replies 1: this"),
        ],
        "  1 L opens s: an issue
           2 L plans easy 3: 1 from task-1 | 1 ready
           3 W registers: done | 1 ready
           4 W claims 1: token 1 until 3600004 | 1 in_progress:W
           5 W tells 1: half way: said | 1 in_progress:W
           6 L replies 1: fine: no: unknown_message | 1 in_progress:W
           7 W asks 1: which one?: said | 1 waiting_for_answer:W
           8 W asks 1: which one?: said (as before) | 1 waiting_for_answer:W
           9 W asks 1: and where?: said | 1 waiting_for_answer:W
          10 W asks 1: which one?: said (as before) | 1 waiting_for_answer:W
          11 L replies 1: this: no: ambiguous_message | 1 waiting_for_answer:W
          12 L resets 1: never mind: done | 1 ready
          13 L replies 1: this: no: unknown_message | 1 ready",
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
            (26, "L delivers f1 f2"),
            (27, "L closes"),
            (28, "L closes"),
            (29, "L reopens: more"),
            (30, "L closes"),
            (31, "L closes: enough is enough"),
        ],
        "  1 L opens s: an issue
           2 L delivers: no: nothing_to_deliver
           3 L plans easy 3: 1 from task-1 | 1 ready
           4 L delivers: no: tasks_not_done | 1 ready
           5 W registers: done | 1 ready
           6 W claims 1: token 1 until 3600006 | 1 in_progress:W
           7 W submits 1: done: submitted | 1 submitted:W
           8 L mints 1 for W 5: easy → end, 3 points, 0 low | 1 submitted:W
           9 L approves 1 5: reviewed | 1 done
          10 L closes: no: not_accepted | 1 done
          11 L delivers f2: no: files_missing | 1 done
          12 L delivers f1 f2: delivery | 1 done
          13 L delivers f1 f2: delivery (as before) | 1 done
          14 L delivers f1: no: already_delivered | 1 done
          15 L takes: no: own_work | 1 done
          16 A takes: token 2 until 3600016 | 1 done
          17 A takes: token 2 until 3600016 (as before) | 1 done
          18 B takes: no: delivery_already_claimed | 1 done
          19 B accepts: no: not_claimant | 1 done
          20 A accepts +unaligned: no: verification.doc_results must align with delivery test_evidence.doc_commands: one for each of them, in their order | 1 done
          21 A accepts +failed: no: evidence_failed | 1 done
          22 A runs again +failed: evidence 1 | 1 done
          23 A accepts: no: evidence_failed | 1 done
          24 A accepts +by=ann: delivery | 1 done
          25 A accepts +by=ann: delivery (as before) | 1 done
          26 A refuses: no: already_reviewed | 1 done
          26 L delivers f1 f2: delivery (as before) | 1 done
          27 L closes: an issue | done | 1 done
          28 L closes: an issue (as before) | done | 1 done
          29 L reopens: more: an issue | 1 done
          30 L closes: no: not_accepted | 1 done
          31 L closes: enough is enough: an issue | done | 1 done",
    );
}

#[test]
fn the_same_delivery_said_again_is_told_its_verdict_until_something_was_done() {
    check(
        &[
            (1, "L opens s"),
            (2, "L plans easy 3"),
            (3, "W registers"),
            (4, "W claims 1"),
            (5, "W submits 1: done"),
            (6, "L mints 1 for W 5"),
            (7, "L approves 1 5"),
            (8, "L delivers f1 f2"),
            (9, "A takes"),
            (10, "A refuses"),
            (11, "L delivers f1 f2"),
            (12, "L delivers f1 f2 f3"),
            (13, "A takes"),
            (14, "A refuses"),
            (15, "L resets 1: once more"),
            (16, "W claims 1"),
            (17, "W submits 1: done"),
            (18, "L mints 1 for W 5"),
            (19, "L approves 1 5"),
            (20, "L delivers f1 f2 f3"),
            (21, "L delivers f1 f2 f3"),
        ],
        "  1 L opens s: an issue
           2 L plans easy 3: 1 from task-1 | 1 ready
           3 W registers: done | 1 ready
           4 W claims 1: token 1 until 3600004 | 1 in_progress:W
           5 W submits 1: done: submitted | 1 submitted:W
           6 L mints 1 for W 5: easy → end, 3 points, 0 low | 1 submitted:W
           7 L approves 1 5: reviewed | 1 done
           8 L delivers f1 f2: delivery | 1 done
           9 A takes: token 2 until 3600009 | 1 done
          10 A refuses: delivery | 1 done
          11 L delivers f1 f2: delivery (as before) | 1 done
          12 L delivers f1 f2 f3: delivery | 1 done
          13 A takes: token 3 until 3600013 | 1 done
          14 A refuses: delivery | 1 done
          15 L resets 1: once more: done | 1 ready
          16 W claims 1: token 4 until 3600016 | 1 in_progress:W
          17 W submits 1: done: submitted | 1 submitted:W
          18 L mints 1 for W 5: easy → end, 6 points, 0 low | 1 submitted:W
          19 L approves 1 5: reviewed | 1 done
          20 L delivers f1 f2 f3: delivery | 1 done
          21 L delivers f1 f2 f3: delivery (as before) | 1 done",
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
            (100_000, "W is there"),
            (3_600_005, "time"),
            (3_699_990, "W locks a b +for=1"),
            (3_699_999, "V locks a"),
            (3_700_000, "time"),
            (3_700_001, "W submits 1: too late"),
            (3_700_002, "V claims 1"),
            (3_700_003, "W submits 1 +token=1: too late"),
            (3_700_004, "V submits 1 +token=1: done"),
            (3_700_005, "V locks a"),
        ],
        "  1 L opens s: an issue
           2 L plans easy 3: 1 from task-1 | 1 ready
           3 W registers: done | 1 ready
           4 V registers: done | 1 ready
           5 W claims 1: token 1 until 3600005 | 1 in_progress:W
           6 W asks 1: who?: said | 1 waiting_for_answer:W
         100000 W is there: so | 1 waiting_for_answer:W
         3600005 time: done | 1 waiting_for_answer:W
         3699990 W locks a b +for=1: locked, token 2 until 3819990 | 1 waiting_for_answer:W
         3699999 V locks a: no: file_is_locked | 1 waiting_for_answer:W
         3700000 time: done | 1 ready
         3700001 W submits 1: too late: no: lease_lost | 1 ready
         3700002 V claims 1: token 3 until 7300002 | 1 in_progress:V
         3700003 W submits 1 +token=1: too late: no: lease_lost | 1 in_progress:V
         3700004 V submits 1 +token=1: done: no: stale_token | 1 in_progress:V
         3700005 V locks a: locked, token 4 until 3820005 | 1 in_progress:V",
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
        "  1 L opens s: an issue
           2 L plans easy 3: 1 from task-1 | 1 ready
           3 W registers: done | 1 ready
           4 W claims 1: token 1 until 3600004 | 1 in_progress:W
           5 W submits 1: one: submitted | 1 submitted:W
         9000000 time: done | 1 submitted:W
         9000001 W submits 1: two: submitted | 1 submitted:W
         9000002 L is handed: done | 1 in_review:W
         9000003 L rejects 1 2 +without: reviewed | 1 in_progress:W
         9000004 L rejects 1 2 +without: reviewed (as before) | 1 in_progress:W
         12600002 time: done | 1 in_progress:W
         12600003 time: done | 1 ready",
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
        "  1 L opens s: an issue
           2 L plans easy 1 <#1; easy 1 <#2; easy 1 <#0: no: blocked_in_a_circle
           3 L plans easy 1 <#0: no: blocked_in_a_circle
           4 L plans easy 1 <7: no: unknown_task
           5 L plans easy 1 <#1; easy 1: 2 from task-1 | 1 blocked 2 ready
           6 L plans easy 1 <1: 1 from task-3 | 1 blocked 2 ready 3 blocked
           7 W registers: done | 1 blocked 2 ready 3 blocked
           8 W claims 1: no: task_blocked | 1 blocked 2 ready 3 blocked
           9 W claims 2: token 1 until 3600009 | 1 blocked 2 in_progress:W 3 blocked
          10 W submits 2: done: submitted | 1 blocked 2 submitted:W 3 blocked
          11 L mints 2 for W 5: easy → task-1, 1 points, 0 low | 1 blocked:W 2 submitted:W 3 blocked
          12 L approves 2 5: reviewed | 1 reserved:W 2 done 3 blocked
          13 W claims 1: token 3 until 3600013 | 1 in_progress:W 2 done 3 blocked
          14 L resets 2: not so: done | 1 in_progress:W 2 ready 3 blocked
          15 W claims 3: no: task_blocked | 1 in_progress:W 2 ready 3 blocked",
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
        "  1 L opens s: an issue
           2 L plans easy 1: 1 from task-1 | 1 ready
           3 W registers: done | 1 ready
           4 W claims 1: token 1 until 3600004 | 1 in_progress:W
         4000000 restart: so | 1 in_progress:W
         4000001 time: done | 1 in_progress:W
         7700000 restart: so | 1 in_progress:W
         7700001 time: done | 1 ready",
    );
}

/// Nobody could renew, claim or deliver meanwhile; what was said before does not count for less.
#[test]
fn after_a_standstill_each_silence_has_one_grace() {
    check(
        &[
            (1, "L opens s"),
            (2, "L plans easy 1"),
            (3, "W registers"),
            (4, "W claims 1"),
            (5, "W locks a"),
            (4_000_000, "standstill"),
            (4_000_001, "time"),
            (4_060_000, "W is there"),
            (7_700_000, "standstill"),
            (7_700_001, "time"),
            (7_700_002, "V locks a"),
            (11_400_000, "standstill"),
            (11_400_001, "time"),
            (11_400_002, "V locks a"),
        ],
        "  1 L opens s: an issue
           2 L plans easy 1: 1 from task-1 | 1 ready
           3 W registers: done | 1 ready
           4 W claims 1: token 1 until 3600004 | 1 in_progress:W
           5 W locks a: locked, token 2 until 120005 | 1 in_progress:W
         4000000 standstill: so | 1 in_progress:W
         4000001 time: done | 1 in_progress:W
         4060000 W is there: so | 1 in_progress:W
         7700000 standstill: so | 1 in_progress:W
         7700001 time: done | 1 in_progress:W
         7700002 V locks a: no: file_is_locked | 1 in_progress:W
         11400000 standstill: so | 1 in_progress:W
         11400001 time: done | 1 ready
         11400002 V locks a: locked, token 3 until 11520002 | 1 ready",
    );
}

/// A renewal is written down when the lease runs out, so a restart just before knows of none.
#[test]
fn what_runs_out_before_its_holder_can_come_back_has_its_grace() {
    check(
        &[
            (1, "L opens s"),
            (2, "L plans easy 1"),
            (3, "W registers"),
            (4, "W claims 1"),
            (3_600_000, "W is there"),
            (3_600_003, "restart"),
            (3_600_005, "time"),
            (3_610_000, "W is there"),
            (7_210_001, "time"),
        ],
        "  1 L opens s: an issue
           2 L plans easy 1: 1 from task-1 | 1 ready
           3 W registers: done | 1 ready
           4 W claims 1: token 1 until 3600004 | 1 in_progress:W
         3600000 W is there: so | 1 in_progress:W
         3600003 restart: so | 1 in_progress:W
         3600005 time: done | 1 in_progress:W
         3610000 W is there: so | 1 in_progress:W
         7210001 time: done | 1 ready",
    );
}

#[test]
fn three_restarts_in_a_row_are_one_grace() {
    check(
        &[
            (1, "L opens s"),
            (2, "L plans easy 1"),
            (3, "W registers"),
            (4, "W claims 1"),
            (5, "W locks a"),
            (3_600_004, "restart"),
            (3_600_005, "time"),
            (3_700_000, "restart"),
            (3_700_001, "time"),
            (3_720_004, "restart"),
            (3_720_005, "time"),
            (3_720_006, "V locks a"),
            (7_200_003, "restart"),
            (7_200_003, "time"),
            (7_200_004, "restart"),
            (7_200_004, "time"),
        ],
        "  1 L opens s: an issue
           2 L plans easy 1: 1 from task-1 | 1 ready
           3 W registers: done | 1 ready
           4 W claims 1: token 1 until 3600004 | 1 in_progress:W
           5 W locks a: locked, token 2 until 120005 | 1 in_progress:W
         3600004 restart: so | 1 in_progress:W
         3600005 time: done | 1 in_progress:W
         3700000 restart: so | 1 in_progress:W
         3700001 time: done | 1 in_progress:W
         3720004 restart: so | 1 in_progress:W
         3720005 time: done | 1 in_progress:W
         3720006 V locks a: locked, token 3 until 3840006 | 1 in_progress:W
         7200003 restart: so | 1 in_progress:W
         7200003 time: done | 1 in_progress:W
         7200004 restart: so | 1 in_progress:W
         7200004 time: done | 1 ready",
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
        "  1 L opens s: an issue
           2 L plans easy 1; easy 1: 2 from task-1 | 1 ready 2 ready
           3 W registers: done | 1 ready 2 ready
           4 W claims 1: token 1 until 3600004 | 1 in_progress:W 2 ready
         7200003 W is there: so | 1 in_progress:W 2 ready
         7200004 time: done | 1 in_progress:W 2 ready
         7200005 W submits 1: done: submitted | 1 submitted:W 2 ready
         7200006 L mints 1 for W 5: easy → task-2, 1 points, 0 low | 1 submitted:W 2 reserved:W
         7200007 L approves 1 5: reviewed | 1 done 2 reserved:W
         7320006 time: done | 1 done 2 reserved:W
         7320007 time: done | 1 done 2 ready
         14520006 time: done | 1 done 2 ready
         14520007 time: done | canceled | 1 done 2 ready
         14520008 W claims 2: no: issue_closed | canceled | 1 done 2 ready
         14520009 L reopens: an issue | 1 done 2 ready
         14520010 W claims 2: token 3 until 18120010 | 1 done 2 in_progress:W",
    );
}
