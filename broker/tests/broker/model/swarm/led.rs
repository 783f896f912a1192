//! Where a worker is led: looked for among all tasks, one by one.

use std::cmp::Reverse;

use tasuki_broker::rules::swarm::{
    Difficulty, Issue, MintNextStep, NextStep, Swarm, Task, TaskState,
};
use tasuki_proto::swarm::TaskNumber;

/// Whether this is the next step of a submission, as things stood before it was chosen.
pub(super) fn judge(swarm: &Swarm, it: &MintNextStep, told: &NextStep, is_repeat: bool) {
    let (issue, task) = swarm.task(it.issue, it.task).expect("it was submitted");
    let before = task.open_submission().expect("it waits for a review").minted.as_ref();
    let is_free = |other: &&Task| {
        let is_open = other.state == TaskState::Open && waits_for(issue, other, it.task);
        let kept = other.reservation.as_ref().map(|kept| kept.next_step);
        is_open && (kept.is_none() || kept == before.map(|it| it.next_step))
    };
    let of = |level: Difficulty| {
        let free = issue.tasks.iter().filter(is_free).filter(|it| it.difficulty == level);
        let mut free: Vec<&Task> = free.collect();
        free.sort_by_key(|it| (Reverse(it.points), it.number.to_string()));
        free
    };
    let easier = Difficulty::ALL.iter().copied().filter(|it| *it <= told.difficulty);
    let among = easier.rev().map(of).find(|it| !it.is_empty());
    if is_repeat {
        let is_there = |number: TaskNumber| is_free(&&issue.tasks[number.index()]);
        return assert!(told.task.map_or_else(|| among.is_none(), is_there), "{told:?} again");
    }
    let chosen = among.map(|free| match told.points {
        100.. => free[0],
        30..50 => free[free.len() - 1],
        _ => free[free.len() / 2],
    });
    assert_eq!(chosen.map(|it| it.number), told.task, "{told:?}");
}

/// Whether all that blocks a task is done, but for this one at the most.
fn waits_for(issue: &Issue, task: &Task, other: TaskNumber) -> bool {
    let is_done = |it: &TaskNumber| {
        *it == other
            || matches!(issue.tasks[it.index()].state, TaskState::Done | TaskState::Canceled)
    };
    task.blocked_by.iter().all(is_done)
}
