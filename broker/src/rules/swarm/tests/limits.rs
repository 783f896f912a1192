//! A hundred thousand tasks, and what must not take long with them.

use super::*;

/// What a claim and the first page of a list look at does not grow with the issue. Counted, not
/// timed: the page is of the newest, and what is ready is found without a search.
#[test]
fn a_large_issue_is_listed_and_claimed_from_its_ends() {
    let mut story = Story::new();
    story.step(1, "L opens s");
    let plan = format!("L plans {}", vec!["easy 1"; 200].join("; "));
    for ms in 0..25 {
        story.step(2 + ms, &plan);
        let number = u32::try_from(ms * 200 + 1).unwrap();
        story.step(2 + ms, &format!("W{ms} registers"));
        story.step(2 + ms, &format!("W{ms} claims {number}"));
    }
    let issue = story.issue();
    assert_eq!(issue.counts().tasks, [4975, 25, 0, 0, 0]);
    let newest: Vec<u32> =
        issue.list(&ListFilter::default()).take(3).map(|task| task.number.0).collect();
    assert_eq!(newest, [5000, 4999, 4998]);
    let claimed = ListFilter { task_state: Some(TaskState::InProgress), ..ListFilter::default() };
    let claimed: Vec<u32> = issue.list(&claimed).take(2).map(|task| task.number.0).collect();
    assert_eq!(claimed, [4801, 4601]);
    let of_one = ListFilter { claimed_by: Some(role("W3")), ..ListFilter::default() };
    assert_eq!(issue.list(&of_one).map(|task| task.number.0).collect::<Vec<_>>(), [601]);
    assert_eq!(issue.ready().next(), Some(TaskNumber(2)));
    story.step(99, "restart");
}
