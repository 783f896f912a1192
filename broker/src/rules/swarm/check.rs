//! A decision that is being made, and what many of them look at first.

use tasuki_proto::{
    id::{FencingToken, RoleId, Timestamp},
    swarm::{DocName, IssueId, TaskNumber},
};

use super::{
    Claim, DocPlace, Event, IdAllocator, Issue, IssueEvent, IssueEventKind, IssueState, Rejection,
    Swarm, Task, TaskState, Words,
};
use crate::rules::turn::Actor;

/// What to do about a claim that was lost.
pub(super) const AGAIN: &str = "Claim it again before going on";
const ANOTHER: &str = "Stop working on it, and take another one";

/// What came of a command so far.
pub(super) struct DecisionBuilder<'a> {
    pub now: Timestamp,
    pub by: &'a Actor,
    pub make: IdAllocator,
    pub events: Vec<Event>,
    pub bodies: Vec<Words>,
    pub is_repeat: bool,
}

impl<'a> DecisionBuilder<'a> {
    pub(super) fn new(now: Timestamp, by: &'a Actor, swarm: &Swarm) -> Self {
        let make = IdAllocator::new(now, swarm);
        Self { now, by, make, events: Vec::new(), bodies: Vec::new(), is_repeat: false }
    }

    pub(super) fn push(&mut self, event: Event) {
        self.events.push(event);
    }

    /// What happened to an issue; its number in the audit is given later.
    pub(super) fn happened(&mut self, issue: IssueId, what: IssueEventKind) {
        self.events.push(Event::Issue(IssueEvent { issue, audit: 0, what }));
    }

    pub(super) fn keep(&mut self, words: Words) {
        self.bodies.push(words);
    }

    /// A version of a document.
    pub(super) fn keep_doc(
        &mut self,
        place: DocPlace,
        name: DocName,
        version: u32,
        content: String,
    ) {
        let (at, by) = (self.now, self.by.role().cloned());
        self.keep(Words::Doc { place, name, version, content, at, by });
    }

    /// The intent was carried out before, and this is what was answered.
    pub(super) fn repeat<T>(&mut self, reply: T) -> T {
        self.is_repeat = true;
        reply
    }

    /// The role that asks.
    pub(super) fn role(&self) -> Result<&'a RoleId, Rejection> {
        let why = "this is done by a role, not by a person; say which role";
        self.by.role().ok_or_else(|| Rejection::Invalid(why.to_owned()))
    }

    /// Nobody judges their own work.
    pub(super) fn not_own(&self, worker: Option<&RoleId>) -> Result<(), Rejection> {
        match self.by.role() {
            Some(role) if Some(role) == worker => Err(Rejection::OwnWork { role: role.clone() }),
            Some(_) | None => Ok(()),
        }
    }
}

impl Swarm {
    /// The issue, if it is open.
    pub(super) fn open_issue(&self, id: IssueId) -> Result<&Issue, Rejection> {
        let issue = self.issue(id)?;
        match issue.state {
            IssueState::Open => Ok(issue),
            IssueState::Done | IssueState::Canceled => {
                Err(Rejection::IssueClosed { issue: id, state: issue.state.as_str() })
            }
        }
    }

    /// A task of an open issue.
    pub(super) fn open_task(
        &self,
        id: IssueId,
        number: TaskNumber,
    ) -> Result<(&Issue, &Task), Rejection> {
        let found = self.task(id, number)?;
        self.open_issue(id)?;
        Ok(found)
    }
}

impl Task {
    /// The claim of this role, if it is the live one and under its latest token.
    pub(super) fn claim_of(&self, role: &RoleId, token: FencingToken) -> Result<&Claim, Rejection> {
        let task = self.number;
        if let Some(claim) = self.live_claim().filter(|it| it.worker == *role) {
            let what = format!("the claim of {task}");
            return check_token(what, token, claim.token).map(|()| claim);
        }
        if let Some(former) = self.former.as_ref().filter(|it| it.worker == *role) {
            let how = match (self.state, former.is_reset) {
                (TaskState::Canceled, true) => "ended: the task was canceled",
                (_, true) => "was reset",
                (_, false) => "lapsed",
            };
            let next = if self.state == TaskState::Open { AGAIN } else { ANOTHER };
            let lost = format!("the claim of {role} on {task} {how}");
            return Err(Rejection::LeaseLost { lost, next });
        }
        let holder =
            self.live_claim().map_or_else(String::new, |it| format!(", but by {}", it.worker));
        Err(Rejection::NotClaimant { task, role: role.clone(), holder })
    }
}

/// 0 is the present one.
pub(super) fn check_token(
    what: String,
    presented: FencingToken,
    current: FencingToken,
) -> Result<(), Rejection> {
    if presented == FencingToken::NONE || presented == current {
        return Ok(());
    }
    Err(Rejection::StaleToken { what, presented, current })
}
