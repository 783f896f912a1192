//! What nodes, askers and sub-agents wait for in runs, and what they are told. Shows state, changes
//! nothing.

use std::{collections::BTreeSet, fmt};

use tasuki_proto::{
    id::{NodeId, NodeLabel, RoleId, RunnerName},
    run::{RunId, StepId},
};

use super::{Bearer, MessageState, Rejection, Run, Runs, Speaker, Step, StopReason};
use crate::rules::directory::Directory;

/// What a node runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offer {
    pub node: NodeId,
    pub runners: BTreeSet<RunnerName>,
    pub labels: BTreeSet<NodeLabel>,
    /// Steps that it takes in at present.
    pub places: u32,
    /// Also those that other machines ask for.
    pub accepts_elsewhere: bool,
    /// Steps of which it knows that they are to be stopped.
    pub stopping: BTreeSet<StepId>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// A step for a node, or one of its steps that is to be stopped.
    Steps(Box<Offer>),
    /// The end of a run, or a message newer than the one of this number.
    Run { run: RunId, after: u32, by: Waiter },
    /// The reply to a sub-agent's question.
    Reply { by: Bearer, number: u32 },
}

/// Who waits for a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Waiter {
    Role(RoleId),
    Step(Bearer),
}

impl Question {
    /// The role that asks, where one does.
    pub fn role(&self) -> Option<&RoleId> {
        match self {
            Self::Run { by: Waiter::Role(role), .. } => Some(role),
            Self::Run { by: Waiter::Step(_), .. } | Self::Steps(_) | Self::Reply { .. } => None,
        }
    }
}

impl fmt::Display for Question {
    /// For people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steps(_) => f.write_str("steps to run"),
            Self::Run { run, .. } => write!(f, "{run}"),
            Self::Reply { by, number } => write!(f, "a reply to question {number} of {}", by.step),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Steps {
        ready: Option<StepId>,
        stop: Vec<StepId>,
    },
    Run {
        run: RunId,
        /// The newest message that was known.
        after: u32,
        is_there: bool,
    },
    /// Whether there is one, or none will come.
    Reply {
        run: RunId,
        number: u32,
        is_there: bool,
    },
}

impl Answer {
    /// Whether the state says what was waited for, or that it will not come.
    pub fn is_there(&self) -> bool {
        match self {
            Self::Steps { ready, stop } => ready.is_some() || !stop.is_empty(),
            Self::Run { is_there, .. } | Self::Reply { is_there, .. } => *is_there,
        }
    }
}

impl Runs {
    /// What somebody is told. `is_free` says whether a step was offered to nobody else.
    ///
    /// # Errors
    /// When what is asked about is not there, or not theirs.
    pub fn answer(
        &self,
        directory: &Directory,
        question: &Question,
        is_free: impl Fn(StepId) -> bool,
    ) -> Result<Answer, Rejection> {
        Ok(match question {
            Question::Steps(offer) => {
                let is_for = |step: &StepId| {
                    self.step(*step).is_ok_and(|(run, it)| offer.fits(directory, run, it))
                };
                let mut ready = self.ready.iter().copied().filter(|it| is_free(*it));
                let ready = if offer.places == 0 { None } else { ready.find(is_for) };
                Answer::Steps { ready, stop: self.to_stop(offer) }
            }
            Question::Run { run: id, after, by } => {
                let run = self.get(*id)?;
                self.check_asker(run, &by.speaker())?;
                let is_there = !run.is_open() || run.news(*after).next().is_some();
                Answer::Run { run: *id, after: *after, is_there }
            }
            Question::Reply { by, number } => {
                // What it asked is over with it, and it is told so.
                let (run, _) = self.step(by.step)?;
                let asked = run.question(*number).filter(|it| it.step == by.step.number);
                let unknown = Rejection::UnknownMessage { run: run.id, number: *number };
                let is_there = asked.ok_or(unknown)?.state != MessageState::Open;
                if !is_there {
                    self.check_bearer(by)?;
                }
                Answer::Reply { run: run.id, number: *number, is_there }
            }
        })
    }

    /// Steps of a node that were canceled, but for those of which it knows.
    fn to_stop(&self, offer: &Offer) -> Vec<StepId> {
        let is_its = |step: &StepId| {
            self.step(*step).is_ok_and(|(run, it)| {
                let is_own = it.claim().is_some_and(|claim| claim.node == offer.node);
                is_own && run.stopped == Some(StopReason::Canceled)
            })
        };
        let running = self.deadlines.iter().map(|(_, step)| *step);
        running.filter(|step| !offer.stopping.contains(step) && is_its(step)).collect()
    }
}

impl Run {
    /// Messages after this one that its asker has something to do with, by their numbers.
    pub fn news(&self, after: u32) -> impl Iterator<Item = u32> {
        let numbered = (1..).zip(&self.messages).skip(after as usize);
        numbered.filter(|(_, it)| it.state == MessageState::Open).map(|(number, _)| number)
    }
}

impl Waiter {
    fn speaker(&self) -> Speaker {
        match self {
            Self::Role(role) => Speaker::Role(role.clone()),
            Self::Step(bearer) => Speaker::Step(*bearer),
        }
    }
}

impl Offer {
    /// Whether the node may and can run a step that is ready.
    fn fits(&self, directory: &Directory, run: &Run, step: &Step) -> bool {
        let is_own = run.origin.is_own(&self.node, directory);
        let is_place = run.is_for(step, &self.node, directory, |label| self.labels.contains(label));
        is_place && (is_own || self.accepts_elsewhere) && self.runners.contains(&step.spec.runner)
    }
}
