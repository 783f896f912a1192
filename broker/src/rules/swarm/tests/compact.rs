//! Which issues are over, and what goes with them.

use super::*;
use crate::rules::{Compact, CompactKind};

/// What was over by `before` is removed.
fn compact(story: &mut Story, before: u64) -> Compact {
    let before = Timestamp::from_millis(before);
    let plan = story.workspace.compactable(before, &CompactKind::ALL.into(), Vec::new());
    story.execute(Timestamp::from_millis(1_000_000), AnyCommand::Compact(plan.clone()));
    plan
}

#[test]
fn only_what_is_closed_and_in_nobodys_hand_goes() {
    let planned = ["L opens s", "L plans easy 1", "W registers"];
    for (steps, is_over) in [
        (&["L closes: enough"][..], false),
        (&["L cancels 1: no", "L closes: enough"], true),
        (&["L cancels 1: no"], false),
        (&["L cancels 1: no", "L closes: enough", "L reopens: yet"], false),
        (&["W claims 1", "W submits 1: so", "L mints 1 for W 5"], false),
        // Closing ends what nobody was told of.
        (&["W claims 1", "W tells 1: half", "L cancels 1: no", "L closes: enough"], true),
    ] {
        let mut story = Story::new();
        for line in planned.iter().chain(steps) {
            story.step(5, line);
        }
        assert!(compact(&mut story, 4).is_empty(), "{steps:?} is too young");
        let is_open = story.issue().state == IssueState::Open;
        let plan = compact(&mut story, 5);
        let is_held = story.swarm().locks.iter().next().is_some();
        let is_left = !story.swarm().issues.is_empty();
        assert_eq!((plan.issues.len(), is_left), (usize::from(is_over), !is_over), "{steps:?}");
        assert!(!is_over || (!is_open && !is_held), "{steps:?}");
    }
}

#[test]
fn an_issue_goes_with_everything_that_is_found_by_name() {
    let mut story = Story::new();
    for line in [
        "L opens s",
        "L plans easy 1",
        "W registers",
        "W claims 1",
        "W submits 1: so",
        "L mints 1 for W 5",
        "L approves 1 5",
        "L delivers f1",
        "A takes",
        "A runs again",
        "A accepts",
        "L is handed",
        "L closes",
    ] {
        story.step(5, line);
    }
    assert_eq!(story.issue().state, IssueState::Done, "{}", story.told);
    let plan = compact(&mut story, 5);
    assert_eq!(plan.issues.len(), 1, "{}", story.told);
    let swarm = story.swarm();
    assert!(swarm.issues.is_empty() && swarm.deliveries.is_empty() && swarm.tasks == 0);
    assert!(swarm.submissions.is_empty() && swarm.messages.is_empty() && swarm.newest.is_empty());
    story.step(9, "restart");
    // The same words are a new issue.
    story.step(9, "L opens s");
    assert_eq!(story.swarm().issues.len(), 1);
}

#[test]
fn of_a_shared_document_that_nobody_wrote_for_long_the_newest_version_stays() {
    let mut story = Story::new();
    for (ms, line) in [
        (1, "L opens s"),
        (2, "L writes shared plan: one"),
        (3, "L writes shared plan: two"),
        (4, "L writes shared plan: three"),
        (5, "L writes shared once: one"),
    ] {
        story.step(ms, line);
    }
    assert!(compact(&mut story, 3).docs.is_empty());
    let name: DocName = "plan".parse().unwrap();
    assert_eq!(compact(&mut story, 4).docs, std::slice::from_ref(&name));
    assert_eq!(story.swarm().shared_docs.get(&name).unwrap().oldest(), 3);
    assert!(compact(&mut story, 9).docs.is_empty());
    story.step(9, "L writes shared plan: four");
    story.step(9, "restart");
    let plan = story.swarm().shared_docs.get(&name).unwrap();
    assert_eq!((plan.oldest(), plan.version), (3, 4));
}
