//! Gives back what a role holds when its agent's session ended: the turn to somebody who can go on,
//! the tasks to whoever claims them next, each with what was done so far.
//!
//! - A turn is handed over by the role itself: to the participant `human` if the loop has one, else
//!   to whoever had it before, else to the next in order. The summary says why and what was changed,
//!   the instruction repeats what the role was asked.
//! - A claimed task is reset, after a message to its lead. Where the token does not allow that, its
//!   claim lapses.
//! - A delivery's claim and locks lapse.

use std::path::Path;

use tasuki_broker::overview;
use tasuki_proto::{
    id::RoleId,
    limits::TEXT_BYTES_MAX,
    reason::Reason,
    wire::{self, LoopStatus},
};
use tokio::task::spawn_blocking;

use crate::{
    cli::{Failure, broker::Broker, text::line, titles::task_name},
    launch::session::Why,
    repository,
};

/// The participant that stands for people.
const HUMAN: &str = "human";

/// A reason of a task's reset, in bytes.
const REASON_BYTES_MAX: usize = 512;

/// A session that ended.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) struct Ended<'a> {
    pub role: &'a RoleId,
    /// What played it, for people.
    pub agent: &'a str,
    pub why: &'a Why,
    /// Where it worked.
    pub project: &'a Path,
}

/// What a role holds that others wait for.
#[derive(Debug, Default)]
pub(in crate::cli) struct Holding {
    loops: Vec<wire::Loop>,
    tasks: Vec<wire::ClaimedTask>,
}

impl Holding {
    pub(in crate::cli) async fn of(role: &RoleId, broker: &Broker) -> Result<Self, Failure> {
        let mut loops = overview::every_loop(broker).await?;
        loops.retain(|it| it.holder == role.as_str() && it.status() != LoopStatus::Completed);
        let name = role.to_string();
        let asked =
            wire::ListWorkersRequest { worker: name.clone(), role: name, ..Default::default() };
        let workers = match broker.call(&asked).await {
            Ok(told) => told.workers,
            // Who never registered holds none.
            Err(why) if why.as_reason() == Some(Reason::UnknownWorker) => Vec::new(),
            Err(why) => return Err(why),
        };
        let claims = workers.into_iter().flat_map(|it| it.claims);
        // A submitted one waits for its verdict, not for the worker.
        let tasks = claims.filter(|it| it.lease_expires_ms != 0).collect();
        Ok(Self { loops, tasks })
    }

    pub(in crate::cli) fn is_empty(&self) -> bool {
        self.loops.is_empty() && self.tasks.is_empty()
    }
}

/// Gives back what the role of an ended session holds. Returns what became of each, for people.
pub(in crate::cli) async fn report(
    ended: Ended<'_>,
    broker: &Broker,
) -> Result<Vec<String>, Failure> {
    let holding = Holding::of(ended.role, broker).await?;
    let done = done_so_far(ended.project).await;
    let mut told = Vec::new();
    for of in &holding.loops {
        told.push(match hand_back(ended, of, &done, broker).await {
            Ok(told) => told,
            Err(why) => format!("Turn {} of {} stays: {}", of.turn, line(&of.r#loop), why.message),
        });
    }
    for task in &holding.tasks {
        let name = task_name(&task.issue_id, &task.task_id);
        told.push(match release(ended, task, &done, broker).await {
            Ok(()) => format!("Task {name} is open again."),
            Err(why) => {
                format!("Task {name} stays claimed until its lease lapses: {}", why.message)
            }
        });
    }
    Ok(told)
}

/// What was changed and not committed, for whoever goes on.
pub(super) async fn done_so_far(project: &Path) -> String {
    let project = project.to_owned();
    let changes = spawn_blocking(move || repository::changes(&project)).await;
    match changes.ok().flatten() {
        Some(changes) => format!("Done so far, not committed:\n{changes}"),
        None => "No uncommitted changes are known.".to_owned(),
    }
}

async fn hand_back(
    ended: Ended<'_>,
    of: &wire::Loop,
    done: &str,
    broker: &Broker,
) -> Result<String, Failure> {
    let name = of.r#loop.clone();
    let asked = wire::GetLoopRequest { r#loop: name.clone(), ..Default::default() };
    let told = broker.call(&asked).await?;
    let words = told.words.or(told.latest).unwrap_or_default();
    let Some(to) = receiver(ended.role.as_str(), &of.participants, &words.from) else {
        let text = format!("{} takes no turns with anybody else.", ended.role);
        return Err(Failure::local(text));
    };
    let summary = summary(ended, done);
    let instruction = instruction(ended.role, &words.instruction);
    let request = wire::HandOverRequest {
        r#loop: name.clone(),
        role: ended.role.to_string(),
        summary: bounded(summary),
        instruction: bounded(instruction),
        to,
        // Never a later turn, which another agent began.
        turn: of.turn,
        ..Default::default()
    };
    let done = broker.call(&request).await?;
    Ok(format!("Turn {} of {} was given to {}.", done.ended_turn, line(&name), line(&done.to)))
}

/// Who gets a turn back; `None`: there is nobody else.
fn receiver(role: &str, participants: &[String], before: &str) -> Option<String> {
    let is_other = |name: &str| name != role && participants.iter().any(|it| it == name);
    if let Some(told) = [HUMAN, before].into_iter().find(|name| is_other(name)) {
        return Some(told.to_owned());
    }
    let own = participants.iter().position(|it| it == role)?;
    let (first, rest) = participants.split_at(own);
    rest.iter().chain(first).find(|it| *it != role).cloned()
}

fn summary(ended: Ended<'_>, done: &str) -> String {
    let Ended { role, agent, why, .. } = ended;
    format!("The session of {role} ({agent}) ended without a handover: {why}. {done}")
}

fn instruction(role: &RoleId, asked: &str) -> String {
    let asked = match asked.trim() {
        "" => String::new(),
        asked => format!(" {role} was asked:\n{asked}"),
    };
    format!(
        "This turn comes back to you because {role} stopped. Tell your user. Go on with the work, or \
         hand the turn to {role} once it has an agent again.{asked}"
    )
}

fn bounded(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    text
}

async fn release(
    ended: Ended<'_>,
    task: &wire::ClaimedTask,
    done: &str,
    broker: &Broker,
) -> Result<(), Failure> {
    let (role, why) = (ended.role.to_string(), summary(ended, done));
    let message = wire::PostMessageRequest {
        role: role.clone(),
        issue_id: task.issue_id.clone(),
        task_id: task.task_id.clone(),
        kind: "progress".to_owned(),
        content: bounded(why.clone()),
        claim_token: task.claim_token,
        ..Default::default()
    };
    broker.call(&message).await?;
    let mut reason = why;
    reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
    let reset = wire::ResetTaskRequest {
        role,
        issue_id: task.issue_id.clone(),
        task_id: task.task_id.clone(),
        reason,
        ..Default::default()
    };
    broker.call(&reset).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_goes_back_to_a_person_or_to_whoever_had_it() {
        let told = |participants: &[&str], before: &str| {
            let participants: Vec<String> = participants.iter().map(|it| (*it).into()).collect();
            receiver("B", &participants, before)
        };
        assert_eq!(told(&["A", "B", "C"], "A").as_deref(), Some("A"));
        assert_eq!(told(&["A", "B", "human"], "A").as_deref(), Some("human"));
        assert_eq!(told(&["A", "B", "C"], "").as_deref(), Some("C"));
        assert_eq!(told(&["A", "B"], "B").as_deref(), Some("A"));
        assert_eq!(told(&["A", "B"], "gone").as_deref(), Some("A"));
        assert_eq!(told(&["B"], "B"), None);
    }

    #[test]
    fn whoever_gets_it_learns_why_and_what_was_asked() {
        let role = "B".parse().unwrap();
        let why = Why::Quota("5-hour limit reached".to_owned());
        let ended = Ended { role: &role, agent: "codex", why: &why, project: Path::new("/p") };
        assert_eq!(
            summary(ended, "Done so far, not committed:\n a.rs | 2 +-"),
            "The session of B (codex) ended without a handover: quota used up: 5-hour limit \
             reached. Done so far, not committed:\n a.rs | 2 +-"
        );
        assert!(instruction(&role, "build it").ends_with("again. B was asked:\nbuild it"));
        assert!(instruction(&role, " ").ends_with("once it has an agent again."));
    }
}
