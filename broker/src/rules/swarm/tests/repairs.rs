//! What the original got wrong, and what holds here instead.

use super::*;

#[test]
fn minting_again_gives_the_same_and_adds_nothing() {
    check(
        &[
            (1, "L opens s"),
            (2, "L plans easy 3; easy 1; easy 2"),
            (3, "W registers"),
            (4, "V registers"),
            (5, "W claims 1"),
            (6, "W submits 1: one"),
            (7, "L mints 1 for W 5"),
            (8, "L mints 1 for W 5"),
            (9, "L mints 1 for W 1"),
            (10, "L mints 1 for V 5"),
            (11, "W mints 1 for W 5"),
            (12, "L rejects 1 1"),
            (13, "W submits 1: two"),
            (14, "L mints 1 for W 5"),
            (15, "L approves 1 2"),
            (16, "L approves 1 5 +without"),
            (17, "W approves 1 5"),
            (18, "L approves 1 5"),
            (19, "V claims 2 +step"),
            (20, "V claims 2"),
            (21, "W claims 2"),
        ],
        "  1 L opens s: an issue
           2 L plans easy 3; easy 1; easy 2: 3 from task-1 | 1 ready 2 ready 3 ready
           3 W registers: done | 1 ready 2 ready 3 ready
           4 V registers: done | 1 ready 2 ready 3 ready
           5 W claims 1: token 1 until 3600005 | 1 in_progress:W 2 ready 3 ready
           6 W submits 1: one: submitted | 1 submitted:W 2 ready 3 ready
           7 L mints 1 for W 5: easy → task-2, 3 points, 0 low | 1 submitted:W 2 reserved:W 3 ready
           8 L mints 1 for W 5: easy → task-2, 3 points, 0 low (as before) | 1 submitted:W 2 reserved:W 3 ready
           9 L mints 1 for W 1: easy → task-2, 3 points, 1 low | 1 submitted:W 2 reserved:W 3 ready
          10 L mints 1 for V 5: no: no_open_submission | 1 submitted:W 2 reserved:W 3 ready
          11 W mints 1 for W 5: no: own_work | 1 submitted:W 2 reserved:W 3 ready
          12 L rejects 1 1: reviewed | 1 in_progress:W 2 ready 3 ready
          13 W submits 1: two: submitted | 1 submitted:W 2 ready 3 ready
          14 L mints 1 for W 5: easy → task-2, 3 points, 0 low | 1 submitted:W 2 reserved:W 3 ready
          15 L approves 1 2: no: invalid_next_step_token | 1 submitted:W 2 reserved:W 3 ready
          16 L approves 1 5 +without: no: invalid_argument | 1 submitted:W 2 reserved:W 3 ready
          17 W approves 1 5: no: own_work | 1 submitted:W 2 reserved:W 3 ready
          18 L approves 1 5: reviewed | 1 done 2 reserved:W 3 ready
          19 V claims 2 +step: no: invalid_next_step_token | 1 done 2 reserved:W 3 ready
          20 V claims 2: no: task_reserved | 1 done 2 reserved:W 3 ready
          21 W claims 2: token 5 until 3600021 | 1 done 2 in_progress:W 3 ready",
    );
}

#[test]
fn two_that_end_together_are_led_to_different_tasks() {
    check(
        &[
            (1, "L opens s"),
            (2, "L plans easy 1; easy 1; easy 1; easy 1"),
            (3, "W registers"),
            (4, "V registers"),
            (5, "W claims 1"),
            (6, "V claims 2"),
            (7, "W submits 1: one"),
            (8, "V submits 2: two"),
            (9, "L mints 1 for W 5"),
            (10, "L mints 2 for V 5"),
            (11, "L approves 2 5"),
        ],
        "  1 L opens s: an issue
           2 L plans easy 1; easy 1; easy 1; easy 1: 4 from task-1 | 1 ready 2 ready 3 ready 4 ready
           3 W registers: done | 1 ready 2 ready 3 ready 4 ready
           4 V registers: done | 1 ready 2 ready 3 ready 4 ready
           5 W claims 1: token 1 until 3600005 | 1 in_progress:W 2 ready 3 ready 4 ready
           6 V claims 2: token 2 until 3600006 | 1 in_progress:W 2 in_progress:V 3 ready 4 ready
           7 W submits 1: one: submitted | 1 submitted:W 2 in_progress:V 3 ready 4 ready
           8 V submits 2: two: submitted | 1 submitted:W 2 submitted:V 3 ready 4 ready
           9 L mints 1 for W 5: easy → task-4, 1 points, 0 low | 1 submitted:W 2 submitted:V 3 ready 4 reserved:W
          10 L mints 2 for V 5: easy → task-3, 1 points, 0 low | 1 submitted:W 2 submitted:V 3 reserved:V 4 reserved:W
          11 L approves 2 5: reviewed | 1 submitted:W 2 done 3 reserved:V 4 reserved:W",
    );
}

#[test]
fn a_next_step_that_lapsed_is_refused_and_another_is_made() {
    check(
        &[
            (1, "L opens s"),
            (2, "L plans easy 1; easy 1"),
            (3, "W registers"),
            (4, "W claims 1"),
            (5, "W submits 1: one"),
            (6, "L mints 1 for W 5"),
            (120_006, "time"),
            (120_007, "L approves 1 5"),
            (120_008, "L mints 1 for W 5"),
            (120_009, "L approves 1 5"),
            (240_009, "time"),
            (240_010, "W claims 2 +step"),
            (240_011, "W claims 2"),
        ],
        "  1 L opens s: an issue
           2 L plans easy 1; easy 1: 2 from task-1 | 1 ready 2 ready
           3 W registers: done | 1 ready 2 ready
           4 W claims 1: token 1 until 3600004 | 1 in_progress:W 2 ready
           5 W submits 1: one: submitted | 1 submitted:W 2 ready
           6 L mints 1 for W 5: easy → task-2, 1 points, 0 low | 1 submitted:W 2 reserved:W
         120006 time: done | 1 submitted:W 2 ready
         120007 L approves 1 5: no: invalid_next_step_token | 1 submitted:W 2 ready
         120008 L mints 1 for W 5: easy → task-2, 1 points, 0 low | 1 submitted:W 2 reserved:W
         120009 L approves 1 5: reviewed | 1 done 2 reserved:W
         240009 time: done | 1 done 2 ready
         240010 W claims 2 +step: no: invalid_next_step_token | 1 done 2 ready
         240011 W claims 2: token 4 until 3840011 | 1 done 2 in_progress:W",
    );
}

#[test]
fn what_the_lead_is_shown_comes_in_order_and_again_while_it_is_not_dealt_with() {
    let mut story = Story::new();
    for line in ["L opens s", "L plans easy 1; easy 1", "W registers", "W claims 1", "W claims 2"] {
        story.step(1, line);
    }
    story.step(2, "W tells 1: going");
    story.step(3, "W asks 1: how?");
    story.step(4, "W submits 2: done");
    let kind = |it: Option<ItemKind>| match it {
        Some(ItemKind::Submission(task, _)) => format!("submission {task}"),
        Some(ItemKind::Message(task, _)) => format!("message {task}"),
        Some(ItemKind::DeliveryReviewed(_)) => "delivery".to_owned(),
        Some(ItemKind::ClaimLapsed(task)) => format!("lapse {task}"),
        None => "nothing".to_owned(),
    };
    let mut shown = Vec::new();
    for ms in [5, 6, 7, 8, 300_006] {
        story.workspace.time = Timestamp::from_millis(ms);
        shown.push(kind(story.shown()));
        story.step(ms, "L is handed");
    }
    let expected =
        ["message task-1", "message task-1", "submission task-2", "nothing", "message task-1"];
    assert_eq!(shown, expected, "a note is told once");
    story.step(300_007, "L replies 1: so");
    story.workspace.time = Timestamp::from_millis(300_008);
    assert_eq!(kind(story.shown()), "submission task-2");
    assert_eq!(story.issue().task_standing(story.task(2)), TaskStage::InReview);
    story.step(300_009, "L resets 2: start over");
    assert!(story.issue().items.is_empty());
    assert_eq!(story.issue().audit, 11, "nothing that happened is taken out");
}

#[test]
fn documents_have_versions_and_submitting_takes_those_that_are_required() {
    check(
        &[
            (1, "L opens s"),
            (2, "L writes issue plan: one"),
            (3, "L writes issue plan: one"),
            (4, "L writes issue plan.md: two"),
            (5, "W writes shared plan: three"),
            (6, "L plans easy 1"),
            (7, "W writes 1 notes: n"),
            (8, "L closes: no"),
        ],
        "  1 L opens s: an issue
           2 L writes issue plan: one: version 1
           3 L writes issue plan: one: version 1 (as before)
           4 L writes issue plan.md: two: version 2
           5 W writes shared plan: three: version 1
           6 L plans easy 1: 1 from task-1 | 1 ready
           7 W writes 1 notes: n: version 1 | 1 ready
           8 L closes: no: no: tasks_not_done | 1 ready",
    );
}

#[test]
fn a_canceled_task_is_in_nobodys_way() {
    check(
        &[
            (1, "L opens s"),
            (2, "L plans easy 1; easy 1 <#0; easy 1; easy 1"),
            (3, "W registers"),
            (4, "V registers"),
            (5, "W claims 1"),
            (6, "W locks a +for=1"),
            (7, "W asks 1: which way?"),
            (8, "W submits 1: half"),
            (9, "L mints 1 for W 5"),
            (10, "V claims 2"),
            (11, "L cancels 1:  "),
            (12, "L cancels 1: not wanted"),
            (13, "L cancels 1: not wanted"),
            (14, "V locks a"),
            (15, "W submits 1: all"),
            (16, "W claims 1"),
            (17, "L resets 1: after all"),
            (18, "L approves 1 5"),
            (19, "L replies 1: left"),
            (20, "V claims 2"),
            (21, "V submits 2: done"),
            (22, "L mints 2 for V 5"),
            (23, "L approves 2 5"),
            (24, "L cancels 2: too late"),
            (25, "L delivers f2"),
            (26, "L cancels 3: one is enough"),
            (27, "V claims 3 +step"),
            (28, "L cancels 4: one is enough"),
            (29, "L plans easy 1 <4"),
            (30, "L cancels 5: one is enough"),
            (31, "L delivers f2"),
            (32, "L closes: over"),
        ],
        "  1 L opens s: an issue
           2 L plans easy 1; easy 1 <#0; easy 1; easy 1: 4 from task-1 | 1 ready 2 blocked 3 ready 4 ready
           3 W registers: done | 1 ready 2 blocked 3 ready 4 ready
           4 V registers: done | 1 ready 2 blocked 3 ready 4 ready
           5 W claims 1: token 1 until 3600005 | 1 in_progress:W 2 blocked 3 ready 4 ready
           6 W locks a +for=1: locked, token 2 until 120006 | 1 in_progress:W 2 blocked 3 ready 4 ready
           7 W asks 1: which way?: said | 1 waiting_for_answer:W 2 blocked 3 ready 4 ready
           8 W submits 1: half: submitted | 1 waiting_for_answer:W 2 blocked 3 ready 4 ready
           9 L mints 1 for W 5: easy → task-3, 1 points, 0 low | 1 waiting_for_answer:W 2 blocked 3 reserved:W 4 ready
          10 V claims 2: no: task_blocked | 1 waiting_for_answer:W 2 blocked 3 reserved:W 4 ready
          11 L cancels 1:  : no: say why task-1 is not to be done; nothing changed | 1 waiting_for_answer:W 2 blocked 3 reserved:W 4 ready
          12 L cancels 1: not wanted: done | 1 canceled 2 ready 3 ready 4 ready
          13 L cancels 1: not wanted: done (as before) | 1 canceled 2 ready 3 ready 4 ready
          14 V locks a: locked, token 4 until 120014 | 1 canceled 2 ready 3 ready 4 ready
          15 W submits 1: all: no: lease_lost | 1 canceled 2 ready 3 ready 4 ready
          16 W claims 1: no: task_already_claimed | 1 canceled 2 ready 3 ready 4 ready
          17 L resets 1: after all: no: task_already_claimed | 1 canceled 2 ready 3 ready 4 ready
          18 L approves 1 5: no: no_open_submission | 1 canceled 2 ready 3 ready 4 ready
          19 L replies 1: left: no: unknown_message | 1 canceled 2 ready 3 ready 4 ready
          20 V claims 2: token 5 until 3600020 | 1 canceled 2 in_progress:V 3 ready 4 ready
          21 V submits 2: done: submitted | 1 canceled 2 submitted:V 3 ready 4 ready
          22 L mints 2 for V 5: easy → task-4, 1 points, 0 low | 1 canceled 2 submitted:V 3 ready 4 reserved:V
          23 L approves 2 5: reviewed | 1 canceled 2 done 3 ready 4 reserved:V
          24 L cancels 2: too late: no: task_already_claimed | 1 canceled 2 done 3 ready 4 reserved:V
          25 L delivers f2: no: tasks_not_done | 1 canceled 2 done 3 ready 4 reserved:V
          26 L cancels 3: one is enough: done | 1 canceled 2 done 3 canceled 4 reserved:V
          27 V claims 3 +step: no: task_already_claimed | 1 canceled 2 done 3 canceled 4 reserved:V
          28 L cancels 4: one is enough: done | 1 canceled 2 done 3 canceled 4 canceled
          29 L plans easy 1 <4: 1 from task-5 | 1 canceled 2 done 3 canceled 4 canceled 5 ready
          30 L cancels 5: one is enough: done | 1 canceled 2 done 3 canceled 4 canceled 5 canceled
          31 L delivers f2: delivery | 1 canceled 2 done 3 canceled 4 canceled 5 canceled
          32 L closes: over: an issue | done | 1 canceled 2 done 3 canceled 4 canceled 5 canceled",
    );
}

#[test]
fn what_was_canceled_whole_is_nothing_to_deliver() {
    check(
        &[
            (1, "L opens s"),
            (2, "L delivers f1"),
            (3, "L plans easy 1"),
            (4, "L delivers f1"),
            (5, "L cancels 1: not wanted"),
            (6, "L delivers f1"),
            (7, "L closes: "),
            (8, "L closes: not wanted"),
            (9, "L cancels 1: not wanted"),
        ],
        "  1 L opens s: an issue
           2 L delivers f1: no: nothing_to_deliver
           3 L plans easy 1: 1 from task-1 | 1 ready
           4 L delivers f1: no: tasks_not_done | 1 ready
           5 L cancels 1: not wanted: done | 1 canceled
           6 L delivers f1: no: nothing_to_deliver | 1 canceled
           7 L closes: : no: not_accepted | 1 canceled
           8 L closes: not wanted: an issue | done | 1 canceled
           9 L cancels 1: not wanted: no: issue_closed | done | 1 canceled",
    );
}

#[test]
fn a_claimant_writes_about_its_own_task() {
    check(
        &[
            (1, "L opens s"),
            (2, "L plans easy 1; easy 1"),
            (3, "W registers"),
            (4, "W writes 1 notes +claimant: early"),
            (5, "W claims 1"),
            (6, "W writes 1 notes +claimant: one"),
            (7, "W writes 2 notes +claimant: two"),
            (8, "V writes 1 notes +claimant: other"),
            (9, "V writes 1 notes +claimant: one"),
            (10, "V writes 1 notes: other"),
            (11, "L resets 1: over"),
            (12, "W writes 1 notes +claimant: late"),
        ],
        "  1 L opens s: an issue
           2 L plans easy 1; easy 1: 2 from task-1 | 1 ready 2 ready
           3 W registers: done | 1 ready 2 ready
           4 W writes 1 notes +claimant: early: no: not_claimant | 1 ready 2 ready
           5 W claims 1: token 1 until 3600005 | 1 in_progress:W 2 ready
           6 W writes 1 notes +claimant: one: version 1 | 1 in_progress:W 2 ready
           7 W writes 2 notes +claimant: two: no: not_claimant | 1 in_progress:W 2 ready
           8 V writes 1 notes +claimant: other: no: not_claimant | 1 in_progress:W 2 ready
           9 V writes 1 notes +claimant: one: version 1 (as before) | 1 in_progress:W 2 ready
          10 V writes 1 notes: other: version 2 | 1 in_progress:W 2 ready
          11 L resets 1: over: done | 1 ready 2 ready
          12 W writes 1 notes +claimant: late: no: lease_lost | 1 ready 2 ready",
    );
}
