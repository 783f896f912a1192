//! One grace for each silence: after a sign of its holder, what is held may have another.

use super::*;

const HOUR: u64 = 3_600_000;

/// A holds a delivery, W a task and a lock.
fn held_by_two() -> Story {
    let mut story = Story::new();
    let lines = [
        "L opens s",
        "L plans easy 1",
        "W registers",
        "W claims 1",
        "W submits 1: done",
        "L mints 1 for W 5",
        "L approves 1 5",
        "L delivers f1 f2",
        "A takes",
        "L opens t",
        "L plans easy 2",
        "W claims 1",
        "W locks a",
    ];
    for (ms, line) in (1..).zip(lines) {
        story.step(ms, line);
    }
    assert_eq!(held(&story), [true; 3], "{}", story.told);
    story
}

/// Whether the task, the lock and the delivery are.
fn held(story: &Story) -> [bool; 3] {
    let swarm = story.swarm();
    [
        story.task(1).live_claim().is_some(),
        swarm.locks.iter().next().is_some(),
        swarm.deliveries().values().any(|it| it.live_claim().is_some()),
    ]
}

#[test]
fn whoever_was_heard_of_since_the_last_grace_has_another() {
    for pause in ["restart", "standstill"] {
        let mut story = held_by_two();
        for hour in [2, 4, 6] {
            story.step(hour * HOUR, pause);
            story.step(hour * HOUR + 1, "time");
            assert_eq!(held(&story), [true; 3], "{}", story.told);
            assert!(story.swarm().has_graced());
            let next = story.swarm().next_deadline();
            assert!(Some(Timestamp::from_millis(hour * HOUR + 1)) < next, "it would spin");
            story.step(hour * HOUR + 1000, "W is there");
            story.step(hour * HOUR + 1001, "A is there");
            story.step(hour * HOUR + 2000, "time");
            assert!(!story.swarm().has_graced(), "the signs are written down");
            let sequence = story.workspace.sequence;
            story.step(hour * HOUR + 3000, "time");
            assert_eq!(story.workspace.sequence, sequence, "once");
        }
    }
}

/// The machine fell asleep again before the sign was written down.
#[test]
fn a_sign_counts_that_was_not_written_down_before_a_standstill() {
    let mut story = held_by_two();
    for hour in [2, 4] {
        story.step(hour * HOUR, "standstill");
        story.step(hour * HOUR + 1, "time");
        assert_eq!(held(&story), [true; 3], "{}", story.told);
        story.step(hour * HOUR + 1000, "W is there");
        story.step(hour * HOUR + 1000, "A is there");
    }
}

#[test]
fn whoever_was_not_heard_of_since_the_last_grace_has_no_other() {
    for pause in ["restart", "standstill"] {
        let mut story = held_by_two();
        // What was said before the grace does not count for another.
        story.step(1_000_000, "W is there");
        story.step(2 * HOUR, pause);
        story.step(2 * HOUR + 1, "time");
        assert_eq!(held(&story), [true; 3], "{}", story.told);
        story.step(2 * HOUR + 60_000, "A is there");
        story.step(2 * HOUR + 60_001, "time");
        story.step(4 * HOUR, pause);
        story.step(4 * HOUR + 1, "time");
        assert_eq!(held(&story), [false, false, true], "{}", story.told);
    }
}
