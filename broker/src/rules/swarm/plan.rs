//! How tasks are made: several at once, all or none, and none blocked by itself (I8).

use tasuki_proto::{
    id::RoleId,
    limits::{BLOCKERS_MAX, POINTS_MAX, TASKS_MAX, TASKS_PER_CALL_MAX},
    swarm::TaskNumber,
};

use super::{
    Blocker, CreateTasks, Issue, IssueEventKind, Rejection, Reply, Swarm, TaskCreated, Words,
    check::DecisionBuilder,
};
use crate::hash::Hash;

impl Swarm {
    pub(super) fn decide_create_tasks(
        &self,
        draft: &mut DecisionBuilder<'_>,
        it: &CreateTasks,
    ) -> Result<Reply, Rejection> {
        let issue = self.open_issue(it.issue)?;
        it.check()?;
        let plan = it.content();
        let by = draft.by.role();
        if let Some(reply) = issue.planned_before(by, plan, it.tasks.len()) {
            return Ok(draft.repeat(reply));
        }
        let max = self.settings.max_task_count;
        let (count, after) = (it.tasks.len(), issue.tasks.len() + it.tasks.len());
        if max != 0 && (max as usize) < after {
            return Err(Rejection::MaxTaskCount { max });
        }
        if TASKS_MAX < self.tasks + count {
            return Err(Rejection::TooManyTasks);
        }
        let first = issue.number(0);
        for (place, new) in it.tasks.iter().enumerate() {
            let number = issue.number(place);
            let created = self.planned(it, number, place, plan)?;
            let (issue, task, words) = (it.issue, number, new.words.clone());
            draft.keep(Words::Task { issue, task, words });
            draft.happened(it.issue, IssueEventKind::TaskCreated(created));
        }
        check_circles(it, |place| issue.number(place))?;
        let count = u32::try_from(count).expect("at most TASKS_PER_CALL_MAX");
        Ok(Reply::Tasks { first, count })
    }

    fn planned(
        &self,
        it: &CreateTasks,
        number: TaskNumber,
        place: usize,
        plan: Hash,
    ) -> Result<TaskCreated, Rejection> {
        let (issue, new) = (self.issue(it.issue)?, &it.tasks[place]);
        if POINTS_MAX < new.points {
            return Err(Rejection::Invalid(format!("points are at most {POINTS_MAX}")));
        }
        let mut blocked_by = Vec::new();
        for blocker in &new.blocked_by {
            let blocker = match blocker {
                Blocker::Task(other) => self.task(it.issue, *other)?.1.number,
                Blocker::New(other) if *other < it.tasks.len() => issue.number(*other),
                Blocker::New(other) => {
                    let text = format!("blocked_by names place {other}, which is not in this call");
                    return Err(Rejection::Invalid(text));
                }
            };
            if !blocked_by.contains(&blocker) {
                blocked_by.push(blocker);
            }
        }
        for context in &new.words.context {
            // Tasks of the same call may be told of as well.
            if issue.number(it.tasks.len()) <= *context || context.0 == 0 {
                return Err(Rejection::UnknownTask { issue: it.issue, task: *context });
            }
        }
        let missing = new.words.required_issue_docs.iter().find(|name| !issue.docs.has(name));
        if let Some(name) = missing {
            return Err(Rejection::MissingDoc { place: "issue", name: name.clone() });
        }
        Ok(TaskCreated {
            task: number,
            subject: new.subject.clone(),
            difficulty: new.difficulty,
            points: new.points,
            blocked_by,
            required_docs: new.words.required_task_docs.clone(),
            plan,
        })
    }
}

impl Issue {
    /// The number of the task made at this place of the next call.
    fn number(&self, place: usize) -> TaskNumber {
        let number = u32::try_from(self.tasks.len() + place + 1).expect("at most TASKS_MAX");
        TaskNumber(number)
    }

    /// The answer to the plan that was carried out last for whoever asks, as long as none of its
    /// tasks is over: workers that wait may have claimed them before it was asked again.
    fn planned_before(&self, by: Option<&RoleId>, plan: Hash, count: usize) -> Option<Reply> {
        // The tasks of one call follow each other.
        let after = self.newest.get(&by.cloned())?.index() + 1;
        let newest = &self.tasks[after.checked_sub(count)?..after];
        let is_it = |task: &super::Task| {
            task.plan == plan && task.by.as_ref() == by && task.state.is_undone()
        };
        let count = u32::try_from(count).ok()?;
        let is_same = newest.iter().all(is_it);
        is_same.then(|| Reply::Tasks { first: newest[0].number, count })
    }
}

/// Existing tasks are blocked by none of a new call, so circles are within it.
fn check_circles(it: &CreateTasks, number: impl Fn(usize) -> TaskNumber) -> Result<(), Rejection> {
    let blockers = |place: usize| {
        let all = it.tasks[place].blocked_by.iter();
        let new = all.filter_map(|it| match it {
            Blocker::New(other) => Some(*other),
            Blocker::Task(_) => None,
        });
        new.collect::<Vec<usize>>()
    };
    // Takes away, again and again, what is blocked by nothing that is left.
    let mut left: Vec<usize> = (0..it.tasks.len()).collect();
    loop {
        let is_left = |place: usize| left.binary_search(&place).is_ok();
        let next: Vec<usize> = left
            .iter()
            .copied()
            .filter(|place| blockers(*place).into_iter().any(is_left))
            .collect();
        if next.len() == left.len() {
            break;
        }
        left = next;
    }
    let Some(start) = left.first() else { return Ok(()) };
    // Whatever is left is blocked by something that is left: following that comes round.
    let mut path = vec![*start];
    loop {
        let last = path[path.len() - 1];
        let mut onward = blockers(last).into_iter();
        let next = onward.find(|place| left.binary_search(place).is_ok()).expect("it was left");
        if let Some(from) = path.iter().position(|place| *place == next) {
            let round = path[from..].iter().chain([&next]).map(|place| number(*place).to_string());
            let circle = round.collect::<Vec<_>>().join(" ← ");
            return Err(Rejection::BlockedInACircle { circle });
        }
        path.push(next);
    }
}

impl CreateTasks {
    fn check(&self) -> Result<(), Rejection> {
        let invalid = |text: String| Err(Rejection::Invalid(text));
        if self.tasks.is_empty() || TASKS_PER_CALL_MAX < self.tasks.len() {
            return invalid(format!("one call makes 1 to {TASKS_PER_CALL_MAX} tasks"));
        }
        if self.tasks.iter().any(|it| BLOCKERS_MAX < it.blocked_by.len()) {
            return invalid(format!("a task is blocked by at most {BLOCKERS_MAX} others"));
        }
        Ok(())
    }

    pub(super) fn content(&self) -> Hash {
        Hash::of_value(&self.tasks)
    }
}
