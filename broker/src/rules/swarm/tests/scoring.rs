//! Which task a worker's points lead to.

use super::*;
use crate::rules::tests::ask;

/// A worker with these points and low scores, whose next submission is of a task worth nothing,
/// among these open tasks; where it is led with this score.
fn led(points: u32, low_scores: u32, score: u32, tasks: &str) -> (Difficulty, Option<u32>) {
    let mut story = Story::new();
    story.step(1, "L opens s");
    story.step(2, &format!("L plans easy 0; {tasks}"));
    story.step(3, "W registers");
    story.step(4, "W claims 1");
    story.step(5, "W submits 1: done");
    let id = story.issue_id();
    let issue = story.workspace.swarm.issues.get_mut(&id).unwrap();
    issue.totals.insert(role("W"), Total { points, low_scores });
    let mint = MintNextStep {
        issue: id,
        task: TaskNumber(1),
        worker: role("W"),
        score: Score::new(score).unwrap(),
    };
    let lead = Actor::Role(role("L"));
    let command = Command { by: lead, ask: CommandKind::MintNextStep(mint) };
    let (now, caller) = (Timestamp::from_millis(6), Caller::default());
    let decided =
        ask(now, &caller, &story.workspace, |asked| story.swarm().decide(asked, &command));
    let decision = decided.expect("it is minted");
    let AnyReply::Swarm(Reply::NextStep(it)) = decision.reply else { panic!("no next step") };
    (it.difficulty, it.task.map(|it| it.0))
}

#[test]
fn points_and_scores_lead_to_a_task() {
    use Difficulty::{Easy, Focus, Medium};
    let all = "easy 1; medium 1; focus 1";
    // Points, low scores before, this score, what there is; how hard, and which.
    for (points, low, score, tasks, difficulty, task) in [
        (0, 0, 5, all, Easy, Some(2)),
        (9, 0, 5, all, Easy, Some(2)),
        (10, 0, 5, all, Medium, Some(3)),
        (29, 0, 5, all, Medium, Some(3)),
        (30, 0, 5, all, Focus, Some(4)),
        // The observed cases.
        (30, 0, 1, all, Medium, Some(3)),
        (50, 0, 5, all, Focus, Some(4)),
        (60, 0, 1, all, Focus, Some(4)),
        (90, 1, 1, all, Medium, Some(3)),
        (100, 0, 5, "focus 1; focus 9; focus 5", Focus, Some(3)),
        (1, 0, 5, "medium 1; medium 2", Easy, None),
        // Buffers, and what ends them.
        (10, 0, 1, all, Easy, Some(2)),
        (0, 0, 1, all, Easy, Some(2)),
        (60, 1, 1, all, Medium, Some(3)),
        (100, 1, 1, all, Focus, Some(4)),
        (100, 2, 1, all, Medium, Some(3)),
        (100, 7, 2, all, Focus, Some(4)),
        // Where there is none of that kind: easier ones, never harder ones.
        (30, 0, 5, "medium 3; easy 9", Focus, Some(2)),
        (30, 0, 5, "easy 9", Focus, Some(2)),
        (10, 0, 5, "focus 9", Medium, None),
        // The least points, the middle, the most.
        (30, 0, 5, "focus 1; focus 9; focus 5", Focus, Some(2)),
        (49, 0, 5, "focus 1; focus 9; focus 5", Focus, Some(2)),
        (50, 0, 5, "focus 1; focus 9; focus 5", Focus, Some(4)),
        (0, 0, 5, "easy 1; easy 9; easy 5", Easy, Some(4)),
        (0, 0, 5, "easy 1; easy 9; easy 5; easy 7", Easy, Some(4)),
        // The same points: by name as a text, `task-10` before `task-2`.
        (100, 0, 5, "focus 1; focus 1; focus 1", Focus, Some(2)),
        (
            100,
            0,
            5,
            "focus 1; focus 1; focus 1; focus 1; focus 1; focus 1; focus 1; focus 1; focus 1",
            Focus,
            Some(10),
        ),
        // What waits for others is passed over.
        (100, 0, 5, "focus 9 <#2; focus 1", Focus, Some(3)),
        (100, 0, 5, "focus 9 <#0 <#2; focus 1", Focus, Some(3)),
        // What waits for nothing but this one is free then.
        (100, 0, 5, "focus 9 <#0; focus 1", Focus, Some(2)),
        (30, 0, 5, "focus 9; focus 1 <#0", Focus, Some(3)),
        (50, 0, 5, "focus 9 <#0; focus 5; focus 7 <#0; focus 1", Focus, Some(3)),
        (50, 0, 5, "focus 9 <#0; focus 5; focus 7 <#0; focus 1 <#0; focus 6", Focus, Some(6)),
        (30, 0, 5, "medium 1 <#0; focus 1 <#1", Focus, Some(2)),
    ] {
        let told = led(points, low, score, tasks);
        assert_eq!(told, (difficulty, task), "{points} points, {low} low, score {score}: {tasks}");
    }
}

#[test]
fn what_was_earned_meanwhile_counts_when_it_is_asked_again() {
    check(
        &[
            (1, "L opens s"),
            (2, "L plans easy 5; easy 60; easy 1; focus 1"),
            (3, "W registers"),
            (4, "W claims 1"),
            (5, "W claims 2"),
            (6, "W submits 1: one"),
            (7, "W submits 2: two"),
            (8, "L mints 1 for W 5"),
            (9, "L mints 1 for W 5"),
            (10, "L mints 2 for W 5"),
            (11, "L approves 2 5"),
            (12, "restart"),
            (13, "L mints 1 for W 5"),
            (14, "L mints 1 for W 5"),
        ],
        "  1 L opens s: an issue
           2 L plans easy 5; easy 60; easy 1; focus 1: 4 from task-1 | 1 ready 2 ready 3 ready 4 ready
           3 W registers: done | 1 ready 2 ready 3 ready 4 ready
           4 W claims 1: token 1 until 3600004 | 1 in_progress:W 2 ready 3 ready 4 ready
           5 W claims 2: token 2 until 3600005 | 1 in_progress:W 2 in_progress:W 3 ready 4 ready
           6 W submits 1: one: submitted | 1 submitted:W 2 in_progress:W 3 ready 4 ready
           7 W submits 2: two: submitted | 1 submitted:W 2 submitted:W 3 ready 4 ready
           8 L mints 1 for W 5: easy → task-3, 5 points, 0 low | 1 submitted:W 2 submitted:W 3 reserved:W 4 ready
           9 L mints 1 for W 5: easy → task-3, 5 points, 0 low (as before) | 1 submitted:W 2 submitted:W 3 reserved:W 4 ready
          10 L mints 2 for W 5: focus → task-4, 60 points, 0 low | 1 submitted:W 2 submitted:W 3 reserved:W 4 reserved:W
          11 L approves 2 5: reviewed | 1 submitted:W 2 done 3 reserved:W 4 reserved:W
          12 restart: so | 1 submitted:W 2 done 3 reserved:W 4 reserved:W
          13 L mints 1 for W 5: focus → task-3, 65 points, 0 low | 1 submitted:W 2 done 3 reserved:W 4 reserved:W
          14 L mints 1 for W 5: focus → task-3, 65 points, 0 low (as before) | 1 submitted:W 2 done 3 reserved:W 4 reserved:W",
    );
}

#[test]
fn as_many_low_scores_as_can_be_counted_stay_as_many() {
    let most = Total { points: u32::MAX, low_scores: u32::MAX };
    let low = Score::new(1).unwrap();
    assert_eq!(most.plus(1000, low), most);
}
