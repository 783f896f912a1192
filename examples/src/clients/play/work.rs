//! It plays a worker of an issue, from the command line.
//!
//! It waits for a task and is killed; the lead makes one while it is dead; started again it has to
//! get it, lock its file and submit it. The verdict takes longer than the client would wait by
//! itself, and its lock has to be there all the time. The approval keeps a second task for it;
//! its result is rejected once. Then the issue is closed, and the client ends by itself.

use super::{
    Ground, Move, Result, Running, Seen, SemaphorePermit, Stage, end, finishes, waits_long,
};
use crate::clients::{
    lead::Lead,
    script::work::{ROLE, Work, put_right, wrote},
};

/// Whom the node hosts: by their names it knows which tools they need.
pub(super) const ROLES: [&str; 2] = ["lead", ROLE];

/// What a person would say; the script does not read it.
const PROMPT: &str = "You are a worker. Call registerWorker, then waitIssueTasks; claim what it \
                      shows, lock its file, submit it, and do what the review says; repeat until \
                      the issue is closed.";

/// Files to write; each is a task.
const FIRST: &str = "one.md";
const SECOND: &str = "two.md";

/// The lead's word on what was submitted first for the second of them.
const FEEDBACK: &str = "add a title";

/// What has happened to the issue in the end.
const STORY: [(&str, &str, &str); 16] = [
    ("issue_created", "", "lead"),
    ("doc_written", "", "lead"),
    ("doc_written", "", "lead"),
    ("issue_task_created", "task-1", "lead"),
    ("issue_task_claimed", "task-1", ROLE),
    ("submission_created", "task-1", ROLE),
    ("issue_task_created", "task-2", "lead"),
    ("issue_task_reserved", "task-2", "lead"),
    ("issue_task_resolved", "task-1", "lead"),
    ("issue_task_claimed", "task-2", ROLE),
    ("submission_created", "task-2", ROLE),
    ("issue_task_reviewed", "task-2", "lead"),
    ("submission_created", "task-2", ROLE),
    ("issue_task_reserved", "", "lead"),
    ("issue_task_resolved", "task-2", "lead"),
    ("issue_closed", "", "lead"),
];

pub(super) async fn play(
    seen: &mut Seen,
    ground: Ground,
    permit: SemaphorePermit<'_>,
) -> Result<()> {
    let mut lead = Lead::begin(&ground).await?;
    let part = || Work { issue: lead.issue().to_owned() };
    let (client, transport) = (seen.plan.client, seen.plan.transport);
    let (script, part) = (part(), Box::new(part()));
    let stage = Stage::set(ground, client, transport, ROLE, part).await?;
    let played = alone(seen, &stage, &mut lead, &script, permit).await;
    let checked = match played {
        Ok(()) => lead.check_history(&stage.ground, &STORY).await,
        Err(why) => Err(why),
    };
    end(seen, stage, checked).await
}

/// `script` is what the model does.
async fn alone(
    seen: &mut Seen,
    stage: &Stage,
    lead: &mut Lead,
    script: &Work,
    permit: SemaphorePermit<'_>,
) -> Result<()> {
    let mut running = Running::work(seen.plan.client, stage, PROMPT)?;
    stage.waits(&mut running, script.wait()).await?;
    running.kill().await?;
    lead.adds(FIRST).await?;
    let mut running = Running::work(seen.plan.client, stage, PROMPT)?;
    lead.is_shown("task-1", &wrote(FIRST)).await?;
    seen.is_resumed = true;
    drop(permit);

    let waiting = waits_long(seen, stage, &mut running).await?;
    lead.check_lock(&stage.ground, FIRST).await?;
    lead.adds(SECOND).await?;
    let (token, next) = lead.next_step("task-1").await?;
    if next.as_deref() != Some("task-2") {
        return Err(format!("task-2 was to be kept for it, not {next:?}").into());
    }
    let claims = Move::Call(script.claim("task-2", Some(&token)));
    seen.wait = Some(waiting.end(stage, lead.approves("task-1", &token), claims).await?);
    lead.is_shown("task-2", &wrote(SECOND)).await?;
    lead.rejects("task-2", FEEDBACK).await?;
    lead.is_shown("task-2", &put_right(&wrote(SECOND), FEEDBACK)).await?;
    let (token, _) = lead.next_step("task-2").await?;
    lead.approves("task-2", &token).await?;
    stage.waits(&mut running, script.wait()).await?;
    lead.closes().await?;
    finishes(stage, running).await
}
