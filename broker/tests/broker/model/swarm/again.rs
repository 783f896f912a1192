//! Who asks for an issue or for tasks again, in the same words and under no key, is given those
//! that are there: an issue as long as it is open, tasks as long as none is over; whatever
//! others made meanwhile.

use std::collections::BTreeMap;

use tasuki_broker::rules::{
    Decision, Reply as AnyReply,
    swarm::{
        Command, CommandKind, CreateIssue, CreateTasks, IssueState, Reply, Swarm, Task, TaskState,
    },
};
use tasuki_proto::{
    id::RoleId,
    swarm::{IssueId, TaskNumber},
};

/// What each role made last, persons as one, and how it asked for that.
#[derive(Debug, Default)]
pub(super) struct Made {
    issues: Vec<(Option<RoleId>, CreateIssue, IssueId)>,
    tasks: BTreeMap<(IssueId, Option<RoleId>), (CreateTasks, TaskNumber, u32)>,
}

impl Made {
    pub(super) fn judge(&mut self, swarm: &Swarm, command: &Command, decision: &Decision) {
        let AnyReply::Swarm(reply) = &decision.reply else { return };
        let by = command.by.role().cloned();
        let (told, due) = match (&command.ask, reply) {
            (CommandKind::CreateIssue(it), Reply::Issue(id)) => {
                let mut before = self.issues.iter().rev();
                let before = before.find(|(role, asked, id)| {
                    *role == by && asked == it && swarm.issues().contains_key(id)
                });
                let due = before.map(|(.., id)| *id);
                let due = due.filter(|id| swarm.issues()[id].state == IssueState::Open);
                if due.is_none() {
                    self.issues.push((by, it.clone(), *id));
                }
                (reply, due.map(Reply::Issue))
            }
            (CommandKind::CreateTasks(it), Reply::Tasks { first, count }) => {
                let before = self.tasks.insert((it.issue, by), (it.clone(), *first, *count));
                let is_over =
                    |task: &Task| matches!(task.state, TaskState::Done | TaskState::Canceled);
                let due = before.filter(|(asked, first, count)| {
                    let made = &swarm.issues()[&it.issue].tasks[first.index()..][..*count as usize];
                    asked == it && !made.iter().any(is_over)
                });
                (reply, due.map(|(_, first, count)| Reply::Tasks { first, count }))
            }
            _ => return,
        };
        assert_eq!(decision.is_repeat, due.is_some(), "{command:?} is answered {told:?}");
        assert!(due.is_none_or(|due| due == *told), "{command:?} is answered {told:?}");
    }
}
