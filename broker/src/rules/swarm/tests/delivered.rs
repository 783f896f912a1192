//! What is accepted is what was delivered, on evidence of just that.

use super::{super::words::AuditEntry, *};

#[test]
fn evidence_is_attached_by_whoever_has_the_claim() {
    check_after(
        &APPROVED,
        &[
            (8, "L delivers f1"),
            (9, "A runs again"),
            (10, "A takes"),
            (11, "B runs again +failed"),
            (12, "A runs again +token=1"),
            (13, "A runs again"),
            (14, "A runs again +token=1"),
            (3_600_010, "time"),
            (3_600_011, "A runs again +failed"),
            (3_600_012, "B takes"),
            (3_600_013, "B accepts"),
        ],
        "  8 L delivers f1: delivery
           9 A runs again: no: not_claimant
          10 A takes: token 2 until 3600010
          11 B runs again +failed: no: not_claimant
          12 A runs again +token=1: no: stale_token
          13 A runs again: evidence 1
          14 A runs again +token=1: evidence 1 (as before)
         3600010 time: done
         3600011 A runs again +failed: no: lease_lost
         3600012 B takes: token 3 until 7200012
         3600013 B accepts: delivery",
    );
}

/// The claim of whoever had it is fenced off; nobody waits for a lease.
#[test]
fn a_person_takes_a_delivery_from_whoever_has_it() {
    check_after(
        &APPROVED,
        &[
            (8, "L delivers f1"),
            (9, "A takes"),
            (10, "A runs again +failed"),
            (11, "human takes"),
            (12, "human takes"),
            (13, "A takes"),
            (14, "A accepts"),
            (15, "human accepts"),
            (16, "human accepts +by=ann"),
        ],
        "  8 L delivers f1: delivery
           9 A takes: token 2 until 3600009
          10 A runs again +failed: evidence 1
          11 human takes: token 3 until 3600011
          12 human takes: token 3 until 3600011 (as before)
          13 A takes: no: delivery_already_claimed
          14 A accepts: no: lease_lost
          15 human accepts: no: evidence_failed
          16 human accepts +by=ann: delivery",
    );
}

#[test]
fn steps_that_an_acceptor_cannot_find_are_not_delivered() {
    check_after(
        &APPROVED,
        &[
            (8, "L delivers f1 +steps=docs/steps.md"),
            (9, "L delivers f1 docs/steps.md +steps=docs/steps.md"),
            (10, "A takes"),
            (11, "A refuses"),
            (12, "L delivers f1 +steps=docs/steps.md: again"),
            (13, "L writes issue steps: how"),
            (14, "L delivers f1 +steps=docs/steps.md: again"),
        ],
        "  8 L delivers f1 +steps=docs/steps.md: no: missing_doc
           9 L delivers f1 docs/steps.md +steps=docs/steps.md: delivery
          10 A takes: token 2 until 3600010
          11 A refuses: delivery
          12 L delivers f1 +steps=docs/steps.md: again: no: missing_doc
          13 L writes issue steps: how: version 1
          14 L delivers f1 +steps=docs/steps.md: again: delivery",
    );
}

#[test]
fn what_was_accepted_is_what_was_delivered() {
    check(
        &[
            (1, "L opens s"),
            (2, "L plans easy 3; easy 1"),
            (3, "W registers"),
            (4, "W claims 1"),
            (5, "W submits 1: one"),
            (6, "L mints 1 for W 5"),
            (7, "L approves 1 5"),
            (8, "L cancels 2: later"),
            (9, "L delivers f1 f2"),
            (10, "W takes"),
            (11, "A takes"),
            (12, "L resets 1: not yet"),
            (13, "A accepts"),
            (14, "W claims 1"),
            (15, "W submits 1: two"),
            (16, "L mints 1 for W 5"),
            (17, "L approves 1 5"),
            (18, "A accepts"),
            (19, "A accepts +by=ann"),
            (20, "L delivers f1 f2"),
            (21, "A refuses"),
            (22, "L delivers f1 f2"),
            (23, "L delivers f1 f2"),
            (24, "A takes"),
            (25, "A accepts"),
            (26, "L plans easy 1"),
            (27, "L cancels 3: none"),
            (28, "L closes"),
        ],
        "  1 L opens s: an issue
           2 L plans easy 3; easy 1: 2 from task-1 | 1 ready 2 ready
           3 W registers: done | 1 ready 2 ready
           4 W claims 1: token 1 until 3600004 | 1 in_progress:W 2 ready
           5 W submits 1: one: submitted | 1 submitted:W 2 ready
           6 L mints 1 for W 5: easy → task-2, 3 points, 0 low | 1 submitted:W 2 reserved:W
           7 L approves 1 5: reviewed | 1 done 2 reserved:W
           8 L cancels 2: later: done | 1 done 2 canceled
           9 L delivers f1 f2: delivery | 1 done 2 canceled
          10 W takes: no: own_work | 1 done 2 canceled
          11 A takes: token 3 until 3600011 | 1 done 2 canceled
          12 L resets 1: not yet: done | 1 ready 2 canceled
          13 A accepts: no: tasks_not_done | 1 ready 2 canceled
          14 W claims 1: token 4 until 3600014 | 1 in_progress:W 2 canceled
          15 W submits 1: two: submitted | 1 submitted:W 2 canceled
          16 L mints 1 for W 5: easy → end, 6 points, 0 low | 1 submitted:W 2 canceled
          17 L approves 1 5: reviewed | 1 done 2 canceled
          18 A accepts: no: delivery_outdated | 1 done 2 canceled
          19 A accepts +by=ann: no: delivery_outdated | 1 done 2 canceled
          20 L delivers f1 f2: no: already_delivered | 1 done 2 canceled
          21 A refuses: delivery | 1 done 2 canceled
          22 L delivers f1 f2: delivery | 1 done 2 canceled
          23 L delivers f1 f2: delivery (as before) | 1 done 2 canceled
          24 A takes: token 5 until 3600024 | 1 done 2 canceled
          25 A accepts: delivery | 1 done 2 canceled
          26 L plans easy 1: 1 from task-3 | 1 done 2 canceled 3 ready
          27 L cancels 3: none: done | 1 done 2 canceled 3 canceled
          28 L closes: no: not_accepted | 1 done 2 canceled 3 canceled",
    );
}

#[test]
fn what_was_added_or_taken_back_since_is_not_accepted() {
    let mut story = Story::new();
    let finish = |number: u32| {
        let done = ["W claims N", "W submits N: done", "L mints N for W 5", "L approves N 5"];
        done.map(|line| line.replace('N', &number.to_string()))
    };
    for line in ["L opens s", "L plans easy 3; easy 1", "W registers"] {
        story.step(1, line);
    }
    for line in [finish(1), finish(2)].concat() {
        story.step(2, &line);
    }
    // In the same moment, the order of what is made counts.
    for line in ["L delivers f1 f2 f3", "A takes", "L plans easy 1"] {
        story.step(2, line);
    }
    for line in finish(3) {
        story.step(2, &line);
    }
    story.told.clear();
    story.step(3, "A accepts");
    story.step(4, "A refuses");
    story.step(5, "L delivers f1 f2 f3");
    story.step(6, "A takes");
    story.step(7, "L resets 2: wrong");
    story.step(8, "L cancels 2: wrong");
    story.step(9, "A accepts +failed +by=ann");
    story.step(10, "A refuses");
    story.step(11, "L delivers f1 f2 f3");
    story.step(12, "A takes");
    story.step(13, "A accepts");
    let told: Vec<&str> = story.told.lines().filter_map(|it| it.split(" |").next()).collect();
    assert_eq!(
        told,
        [
            "  3 A accepts: no: delivery_outdated",
            "  4 A refuses: delivery",
            "  5 L delivers f1 f2 f3: delivery",
            "  6 A takes: token 6 until 3600006",
            "  7 L resets 2: wrong: done",
            "  8 L cancels 2: wrong: done",
            "  9 A accepts +failed +by=ann: no: delivery_outdated",
            " 10 A refuses: delivery",
            " 11 L delivers f1 f2 f3: delivery",
            " 12 A takes: token 7 until 3600012",
            " 13 A accepts: delivery",
        ]
    );
}

#[test]
fn evidence_is_of_the_commit_that_was_delivered() {
    let mut story = Story::new();
    for line in APPROVED {
        story.step(1, line);
    }
    story.told.clear();
    story.step(2, "L delivers f1 +of=12ab");
    story.step(3, "A takes");
    story.step(4, "A runs again +of=12");
    story.step(5, "A runs again +failed +of=34cd");
    story.step(6, "A runs again +of=12ab");
    let id = story.delivery();
    let no = |commit: &str| {
        format!(
            "A runs again {commit}, but delivery '{id}' is of commit 12ab: run it again on that \
             one. Nothing was attached | 1 done\n"
        )
    };
    assert_eq!(
        story.told,
        format!(
            "  2 L delivers f1 +of=12ab: delivery | 1 done\n  \
             3 A takes: token 2 until 3600003 | 1 done\n  \
             4 {}  \
             5 {}  \
             6 A runs again +of=12ab: evidence 1 | 1 done\n",
            no("+of=12: no: evidence.commit is 12"),
            no("+failed +of=34cd: no: evidence.commit is 34cd"),
        )
    );
}

#[test]
fn a_delivery_is_rejected_with_words_or_for_what_failed() {
    check_after(
        &DELIVERED,
        &[(2, "A refuses +wordless"), (3, "A refuses +wordless +failed")],
        "2 A refuses +wordless: no: feedback is empty and nothing of the evidence failed; say in \
         feedback what must be fixed. Nothing was judged
         3 A refuses +wordless +failed: delivery",
    );
}

/// What its acceptor is about to do comes to nothing, and the history says so.
#[test]
fn a_delivery_ends_with_its_issue() {
    let mut story = Story::new();
    for line in DELIVERED {
        story.step(1, line);
    }
    let delivery = story.delivery();
    story.told.clear();
    for line in ["L closes: enough", "restart", "A accepts", "A takes", "B takes"] {
        story.step(2, line);
    }
    let told: Vec<&str> = story.told.lines().filter_map(|it| it.split(" |").next()).collect();
    assert_eq!(
        told,
        [
            "  2 L closes: enough: an issue",
            "  2 restart: so",
            "  2 A accepts: no: already_reviewed",
            "  2 A takes: no: already_reviewed",
            "  2 B takes: no: already_reviewed",
        ]
    );
    let why = story.swarm().delivery(delivery).unwrap().check_open().unwrap_err();
    assert_eq!(why, Rejection::DeliveryEnded { delivery });
    let unjudged = Some(delivery);
    let closed = Closed { reason: "enough".to_owned(), is_accepted: false, unjudged };
    let issue = story.issue_id();
    let entry =
        AuditEntry::of(&IssueEvent { issue, audit: 9, what: IssueEventKind::Closed(closed) });
    assert_eq!(
        (entry.delivery, entry.detail),
        (Some(delivery), format!("closed before a verdict on delivery {delivery}: enough"))
    );
}

/// An issue of one task, done and approved.
const APPROVED: [&str; 7] = [
    "L opens s",
    "L plans easy 1",
    "W registers",
    "W claims 1",
    "W submits 1: one",
    "L mints 1 for W 5",
    "L approves 1 5",
];

/// An issue of one task, done, delivered, and its delivery taken by `A`.
const DELIVERED: [&str; 9] = [
    "L opens s",
    "L plans easy 3",
    "W registers",
    "W claims 1",
    "W submits 1: done",
    "L mints 1 for W 5",
    "L approves 1 5",
    "L delivers f1",
    "A takes",
];
