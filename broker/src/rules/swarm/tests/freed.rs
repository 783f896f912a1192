//! Tasks that an approval sets free, kept for whoever it is of.

use super::*;

#[test]
fn a_task_that_an_approval_sets_free_is_the_next_step() {
    check(
        &[
            (1, "L opens s"),
            (2, "L plans easy 1; easy 1 <#0; easy 1 <#1"),
            (3, "W registers"),
            (4, "V registers"),
            (5, "W claims 1"),
            (6, "W submits 1: one"),
            (7, "L mints 1 for W 5"),
            (8, "L mints 1 for W 5"),
            (9, "V claims 2"),
            (10, "W claims 2 +step"),
            (11, "restart"),
            (12, "L approves 1 5"),
            (13, "V claims 2"),
            (14, "W claims 2 +step"),
        ],
        "  1 L opens s: an issue
           2 L plans easy 1; easy 1 <#0; easy 1 <#1: 3 from task-1 | 1 ready 2 blocked 3 blocked
           3 W registers: done | 1 ready 2 blocked 3 blocked
           4 V registers: done | 1 ready 2 blocked 3 blocked
           5 W claims 1: token 1 until 3600005 | 1 in_progress:W 2 blocked 3 blocked
           6 W submits 1: one: submitted | 1 submitted:W 2 blocked 3 blocked
           7 L mints 1 for W 5: easy → task-2, 1 points, 0 low | 1 submitted:W 2 blocked:W 3 blocked
           8 L mints 1 for W 5: easy → task-2, 1 points, 0 low (as before) | 1 submitted:W 2 blocked:W 3 blocked
           9 V claims 2: no: task_reserved | 1 submitted:W 2 blocked:W 3 blocked
          10 W claims 2 +step: no: invalid_next_step_token | 1 submitted:W 2 blocked:W 3 blocked
          11 restart: so | 1 submitted:W 2 blocked:W 3 blocked
          12 L approves 1 5: reviewed | 1 done 2 reserved:W 3 blocked
          13 V claims 2: no: task_reserved | 1 done 2 reserved:W 3 blocked
          14 W claims 2 +step: token 3 until 3600014 | 1 done 2 in_progress:W 3 blocked",
    );
}

#[test]
fn without_the_approval_it_goes_back() {
    check(
        &[
            (1, "L opens s"),
            (2, "L plans easy 1; easy 1 <#0"),
            (3, "W registers"),
            (4, "W claims 1"),
            (5, "W submits 1: one"),
            (6, "L mints 1 for W 5"),
            (7, "L rejects 1 5"),
            (8, "W submits 1: two"),
            (9, "L mints 1 for W 5"),
            (10, "W submits 1: three"),
            (11, "L mints 1 for W 5"),
            (12, "L mints 1 for W 1"),
            (120_012, "time"),
            (120_013, "L approves 1 1"),
            (120_014, "L mints 1 for W 5"),
            (120_015, "L resets 1: over"),
            (120_016, "W claims 1"),
            (120_017, "W submits 1: four"),
            (120_018, "L mints 1 for W 5"),
            (120_019, "L cancels 1: not wanted"),
            (120_020, "W claims 2"),
        ],
        "  1 L opens s: an issue
           2 L plans easy 1; easy 1 <#0: 2 from task-1 | 1 ready 2 blocked
           3 W registers: done | 1 ready 2 blocked
           4 W claims 1: token 1 until 3600004 | 1 in_progress:W 2 blocked
           5 W submits 1: one: submitted | 1 submitted:W 2 blocked
           6 L mints 1 for W 5: easy → task-2, 1 points, 0 low | 1 submitted:W 2 blocked:W
           7 L rejects 1 5: reviewed | 1 in_progress:W 2 blocked
           8 W submits 1: two: submitted | 1 submitted:W 2 blocked
           9 L mints 1 for W 5: easy → task-2, 1 points, 0 low | 1 submitted:W 2 blocked:W
          10 W submits 1: three: submitted | 1 submitted:W 2 blocked
          11 L mints 1 for W 5: easy → task-2, 1 points, 0 low | 1 submitted:W 2 blocked:W
          12 L mints 1 for W 1: easy → task-2, 1 points, 1 low | 1 submitted:W 2 blocked:W
         120012 time: done | 1 submitted:W 2 blocked
         120013 L approves 1 1: no: invalid_next_step_token | 1 submitted:W 2 blocked
         120014 L mints 1 for W 5: easy → task-2, 1 points, 0 low | 1 submitted:W 2 blocked:W
         120015 L resets 1: over: done | 1 ready 2 blocked
         120016 W claims 1: token 7 until 3720016 | 1 in_progress:W 2 blocked
         120017 W submits 1: four: submitted | 1 submitted:W 2 blocked
         120018 L mints 1 for W 5: easy → task-2, 1 points, 0 low | 1 submitted:W 2 blocked:W
         120019 L cancels 1: not wanted: done | 1 canceled 2 ready
         120020 W claims 2: token 9 until 3720020 | 1 canceled 2 in_progress:W",
    );
}

/// `3` waits for `1` and `2`; both were as good as done, then `2` is not.
#[test]
fn a_blocker_that_is_reset_meanwhile_leaves_nothing_stuck() {
    let mut story = Story::new();
    let line = |story: &mut Story, ms: u64, line: &str| {
        story.told.clear();
        story.step(ms, line);
        let told = story.told.trim().split_once(": ").map(|it| it.1.to_owned());
        told.unwrap_or_default()
    };
    let finish = ["W claims 2", "W submits 2: two", "L mints 2 for W 5", "L approves 2 5"];
    for it in ["L opens s", "L plans easy 1; easy 1; easy 1 <#0 <#1", "W registers", "V registers"]
    {
        story.step(1, it);
    }
    for it in finish.into_iter().chain(["W claims 1", "W submits 1: one"]) {
        story.step(2, it);
    }
    let told = line(&mut story, 3, "L mints 1 for W 5");
    assert_eq!(told, "easy → task-3, 2 points, 0 low | 1 submitted:W 2 done 3 blocked:W");
    story.step(4, "L resets 2: wrong");
    let told = line(&mut story, 5, "L approves 1 5");
    assert_eq!(told, "no: invalid_next_step_token | 1 submitted:W 2 ready 3 blocked:W");
    // The other way round it is kept for nothing, until it lapses or is chosen anew.
    let told = line(&mut story, 6, "L mints 1 for W 5");
    assert_eq!(told, "easy → task-2, 2 points, 0 low | 1 submitted:W 2 reserved:W 3 blocked");
    story.step(7, "L mints 1 for W 1");
    story.step(8, "L rejects 1 5");
    for it in finish {
        story.step(9, it);
    }
    for it in ["W submits 1: again", "L mints 1 for W 5", "L approves 1 5", "L resets 2: wrong"] {
        story.step(10, it);
    }
    let told = line(&mut story, 11, "W claims 3 +step");
    assert_eq!(told, "no: task_blocked | 1 done 2 ready 3 blocked:W");
    let ask = Question::Tasks(story.issue_id());
    let told = story.swarm().answer(Timestamp::from_millis(11), &role("W"), &ask, |_| true);
    let Ok(Answer::Tasks(told)) = told else { panic!("{told:?}") };
    assert_eq!(told.task, Some(TaskNumber(2)), "what can be claimed");
    for it in finish {
        story.step(12, &it.replace('W', "V"));
    }
    let told = line(&mut story, 13, "V claims 3");
    assert_eq!(told, "no: task_reserved | 1 done 2 done 3 reserved:W");
    let told = line(&mut story, 14, "W claims 3");
    assert!(told.ends_with("| 1 done 2 done 3 in_progress:W"), "{told}");
}
