//! What refusals say can be done about them.

use super::*;

/// The whole text of a refusal.
fn refused(story: &Story, ms: u64, line: &str) -> String {
    let now = Timestamp::from_millis(ms);
    let presence = story.presence.clone();
    let context = Context::new(presence, 1_000_000);
    let command = AnyCommand::Swarm(story.command(line).expect("a command"));
    let request = Request { caller: Caller::default(), key: None, command };
    let decision = story.workspace.decide(now, &context, &request);
    decision.expect_err("a refusal").to_string()
}

fn story(steps: &[(u64, &str)]) -> Story {
    let mut story = Story::new();
    for (ms, line) in steps {
        story.step(*ms, line);
    }
    story
}

fn ends(told: &str, expected: &str) {
    assert!(told.ends_with(expected), "{told}");
}

#[test]
fn a_next_step_says_which_task_it_keeps() {
    let story = story(&[
        (1, "L opens s"),
        (2, "L plans easy 3; easy 5; medium 1"),
        (3, "W registers"),
        (4, "W claims 1"),
        (5, "W submits 1: done"),
        (6, "L mints 1 for W 5"),
        (7, "L approves 1 5"),
    ]);
    let told = refused(&story, 8, "W claims 3 +step");
    ends(&told, "it keeps task 'task-2', not this one");
    let told = refused(&story, 200_000, "W claims 3 +step");
    ends(&told, "nothing is kept with it any more");
}

#[test]
fn a_lost_claim_can_be_had_again_only_while_its_task_is_open() {
    let mut story = story(&[
        (1, "L opens s"),
        (2, "L plans easy 3"),
        (3, "W registers"),
        (4, "V registers"),
        (5, "W claims 1"),
        (6, "L resets 1: why"),
    ]);
    let late = "W submits 1: late";
    ends(
        &refused(&story, 7, late),
        "was reset; nothing was written. Claim it again before going on",
    );
    story.step(8, "V claims 1");
    ends(&refused(&story, 9, late), "Stop working on it, and take another one");
    story.step(10, "L cancels 1: no");
    ends(
        &refused(&story, 11, "V submits 1: late"),
        "canceled; nothing was written. Stop working on it, and take another one",
    );
    ends(&refused(&story, 12, "L resets 1: why"), "plan another in its place. Nothing changed");
}

#[test]
fn what_stands_in_the_way_of_an_end_says_what_to_do_about_it() {
    let mut story = story(&[
        (1, "L opens s"),
        (2, "L plans easy 3; easy 1"),
        (3, "L cancels 2: no"),
        (4, "W registers"),
        (5, "W claims 1"),
    ]);
    ends(
        &refused(&story, 6, "L delivers"),
        "task-1:in_progress; they have to be done or canceled first",
    );
    for (ms, line) in [
        (7, "W submits 1: done"),
        (8, "L mints 1 for W 5"),
        (9, "L approves 1 5"),
        (10, "L delivers f1"),
    ] {
        story.step(ms, line);
    }
    ends(
        &refused(&story, 11, "L cancels 1: no"),
        "and what is open then can be canceled. Nothing changed",
    );
    for (ms, line) in [(12, "A takes"), (13, "L plans easy 1")] {
        story.step(ms, line);
    }
    let told = refused(&story, 14, "A accepts");
    ends(
        &told,
        "tasks not done: task-3:open; reject it, and it can be delivered anew once they are",
    );
    for (ms, line) in [
        (15, "A refuses"),
        (16, "L cancels 3: no"),
        (17, "L resets 1: no"),
        (18, "L cancels 1: no"),
    ] {
        story.step(ms, line);
    }
    let told = refused(&story, 19, "L delivers");
    ends(&told, "or close it with a summary that says why it ends without a delivery");
}
