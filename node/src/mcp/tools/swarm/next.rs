//! What an agent does next about a task, by how the task stands and what the agent is.

use tasuki_proto::wire::{self, TaskStage as Stage};

use super::caller::Caller;
use crate::toolset::{SWARM_ACCEPTOR, SWARM_LEAD, SWARM_WORKER};

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker<'a> {
    pub role: &'a str,
    pub is_lead: bool,
    pub is_worker: bool,
    pub is_acceptor: bool,
}

impl<'a> Asker<'a> {
    pub(super) fn of(caller: &'a Caller<'_>) -> Self {
        Self {
            role: caller.role().as_str(),
            is_lead: caller.has_set(SWARM_LEAD),
            is_worker: caller.has_set(SWARM_WORKER),
            is_acceptor: caller.has_set(SWARM_ACCEPTOR),
        }
    }
}

pub(super) fn of_task(it: &wire::Task, asker: &Asker<'_>) -> Vec<String> {
    let mut next = Vec::new();
    if asker.is_lead {
        next.push(for_lead(it));
    }
    if asker.is_worker {
        next.push(for_worker(it, asker.role));
    }
    if asker.is_acceptor && !asker.is_lead {
        next.push("Review it with its whole issue: getIssueAcceptanceBundle.".to_owned());
    }
    next
}

fn for_lead(it: &wire::Task) -> String {
    match it.stage() {
        Stage::Unspecified => String::new(),
        Stage::Ready => {
            "A worker can claim it. Call waitIssueTaskEvents for the next event.".to_owned()
        }
        Stage::Blocked => format!("It is blocked by: {}.", it.blocked_by.join(", ")),
        Stage::Reserved => format!("It is reserved for {}.", it.reserved_for),
        Stage::Working => {
            format!(
                "{} is working on it. Call waitIssueTaskEvents for the next event.",
                it.claimed_by
            )
        }
        Stage::WaitingForAnswer => {
            "Its worker is waiting for an answer: replyIssueTaskMessage.".to_owned()
        }
        Stage::Submitted | Stage::InReview => {
            "Review the submission: getNextStepToken, then reviewIssueTask.".to_owned()
        }
        Stage::Done => "It is done. When all tasks are done, call submitDelivery.".to_owned(),
        Stage::Canceled => "It is canceled.".to_owned(),
    }
}

fn for_worker(it: &wire::Task, role: &str) -> String {
    let is_own = it.claimed_by == role;
    let other = || "Take another task: waitIssueTasks.".to_owned();
    match it.stage() {
        Stage::Unspecified => String::new(),
        Stage::Ready => "Claim it with claimIssueTask.".to_owned(),
        Stage::Reserved if it.reserved_for == role && !it.reserved_token.is_empty() => {
            "It is reserved for you: claimIssueTask with its reserved_token as next_step_token."
                .to_owned()
        }
        Stage::Working if is_own => {
            "You have claimed it: lockFiles before you edit, submitIssueTask when it is done."
                .to_owned()
        }
        Stage::WaitingForAnswer if is_own => {
            "Your question is waiting for an answer: call askIssueTask with the same arguments to \
             wait for it."
                .to_owned()
        }
        Stage::Submitted | Stage::InReview if is_own => {
            "Your result is waiting for review: call submitIssueTask with the same arguments to \
             wait for it."
                .to_owned()
        }
        Stage::Blocked
        | Stage::Reserved
        | Stage::Working
        | Stage::WaitingForAnswer
        | Stage::Submitted
        | Stage::InReview
        | Stage::Done
        | Stage::Canceled => other(),
    }
}

/// About a list in which `total` tasks are, `shown` of them to be seen.
pub(super) fn of_list(shown: &[wire::Task], total: u64, asker: &Asker<'_>) -> Vec<String> {
    let is_done = |it: &wire::Task| matches!(it.stage(), Stage::Done | Stage::Canceled);
    let is_whole = shown.len() as u64 == total;
    if asker.is_lead && is_whole && !shown.is_empty() && shown.iter().all(is_done) {
        let next = match shown.iter().any(|it| it.stage() == Stage::Done) {
            true => "All of these are done. If the issue has no other tasks, call submitDelivery.",
            false => {
                "All of these are canceled, so there is nothing to deliver. Call createIssueTask \
                 for the remaining work, or closeIssue with a summary that gives the reason."
            }
        };
        return vec![next.to_owned()];
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(stage: Stage) -> wire::Task {
        wire::Task {
            stage: stage.into(),
            claimed_by: "w".to_owned(),
            blocked_by: vec!["task-1".to_owned(), "task-2".to_owned()],
            ..wire::Task::default()
        }
    }

    fn asker(role: &str, sets: &str) -> Vec<(Stage, String)> {
        let asker = Asker {
            role,
            is_lead: sets.contains('l'),
            is_worker: sets.contains('w'),
            is_acceptor: sets.contains('a'),
        };
        let stages =
            [Stage::Ready, Stage::Blocked, Stage::WaitingForAnswer, Stage::Submitted, Stage::Done];
        stages.into_iter().map(|it| (it, of_task(&task(it), &asker).join(" "))).collect()
    }

    #[test]
    fn each_role_is_told_what_is_its_to_do() {
        let says = |told: &[(Stage, String)], stage: Stage, words: &str| {
            let (_, text) = told.iter().find(|it| it.0 == stage).unwrap();
            assert!(text.contains(words), "{stage:?}: {text}");
        };
        let lead = asker("l", "l");
        says(&lead, Stage::Blocked, "task-1, task-2");
        says(&lead, Stage::WaitingForAnswer, "replyIssueTaskMessage");
        says(&lead, Stage::Submitted, "getNextStepToken");
        let worker = asker("w", "w");
        says(&worker, Stage::Ready, "claimIssueTask");
        says(&worker, Stage::WaitingForAnswer, "askIssueTask with the same");
        says(&worker, Stage::Submitted, "submitIssueTask with the same");
        says(&worker, Stage::Done, "waitIssueTasks");
        says(&asker("v", "w"), Stage::Submitted, "Take another task");
        says(&asker("a", "a"), Stage::Done, "getIssueAcceptanceBundle");
        let both = asker("w", "lw");
        says(&both, Stage::Submitted, "reviewIssueTask");
        says(&both, Stage::Submitted, "submitIssueTask");
    }

    #[test]
    fn a_kept_task_is_told_to_whom_it_is_kept_for() {
        let kept = wire::Task {
            stage: Stage::Reserved.into(),
            reserved_for: "w".to_owned(),
            reserved_token: "ns_1_0000".to_owned(),
            ..wire::Task::default()
        };
        assert!(for_worker(&kept, "w").contains("reserved_token"));
        assert!(for_worker(&kept, "v").contains("another"));
    }

    #[test]
    fn a_lead_learns_that_nothing_is_left_from_a_whole_list_alone() {
        let lead = Asker { role: "l", is_lead: true, is_worker: false, is_acceptor: false };
        let done = [task(Stage::Done), task(Stage::Canceled)];
        assert!(of_list(&done, 2, &lead)[0].contains("submitDelivery"));
        let canceled = [task(Stage::Canceled), task(Stage::Canceled)];
        let told = of_list(&canceled, 2, &lead).remove(0);
        assert!(told.contains("closeIssue") && !told.contains("submitDelivery"), "{told}");
        assert!(of_list(&done, 3, &lead).is_empty());
        assert!(of_list(&[task(Stage::Done), task(Stage::Ready)], 2, &lead).is_empty());
        assert!(of_list(&[], 0, &lead).is_empty());
    }
}
