//! What waits about issues, tasks and deliveries end with.

use rmcp::model::CallToolResult;
use serde::Serialize;
use tasuki_proto::{
    id::RoleId,
    wire::{SwarmAnswer, swarm_answer::Standing},
};

use super::{
    super::{
        others::{FRAME, Others},
        result::shown,
    },
    facts::{self, is_nothing},
};
use crate::role::swarm::Awaited;

/// What was waited for, or how the wait ended without it.
#[derive(Debug, Serialize)]
struct Waited {
    status: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    issues: Vec<facts::Issue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tasks: Vec<facts::Task>,
    #[serde(skip_serializing_if = "Option::is_none")]
    submission: Option<facts::Submission>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<facts::Message>,
    /// What it ended with in place of what was waited for.
    #[serde(skip_serializing_if = "String::is_empty")]
    ended_because: String,
    server_now_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
    #[serde(skip_serializing_if = "is_nothing")]
    stripped: usize,
    next_actions: Vec<String>,
}

/// The answer to a wait of `role`, as a result.
pub(in crate::mcp) fn told(
    role: &RoleId,
    awaited: &Awaited,
    answer: &SwarmAnswer,
) -> CallToolResult {
    let standing = answer.standing();
    let is_there = standing == Standing::There;
    let mut others = Others::default();
    let issues = answer.issues.iter().map(|it| facts::Issue::new(it, &mut others)).collect();
    let tasks = answer.tasks.iter().map(|it| facts::Task::new(it, &mut others)).collect();
    let submission = answer.submission.as_ref();
    let message = answer.message.as_ref();
    shown(&Waited {
        status: match standing {
            Standing::There => "there",
            Standing::Unspecified | Standing::StillWaiting => "still_waiting",
            Standing::Superseded => "superseded",
        },
        issues,
        tasks,
        submission: submission.map(|it| facts::Submission::new(it, &mut others)),
        message: message.map(|it| facts::Message::new(it, &mut others)),
        ended_because: answer.ended_because.clone(),
        server_now_ms: answer.now_ms,
        note: is_there.then_some(FRAME),
        stripped: others.stripped,
        next_actions: next(role, awaited, standing),
    })
}

/// What the agent does now.
fn next(role: &RoleId, awaited: &Awaited, standing: Standing) -> Vec<String> {
    let said = match standing {
        Standing::Superseded => {
            format!("Another call or agent has the place of this one as {role}; do not call again.")
        }
        Standing::Unspecified | Standing::StillWaiting => match awaited {
            Awaited::Issues(_) => "Nothing yet. Call waitIssues again at once.".to_owned(),
            Awaited::Tasks(_) => "Nothing yet. Call waitIssueTasks again at once.".to_owned(),
            Awaited::Items(_) => "Nothing yet. Call waitIssueTaskEvents again at once.".to_owned(),
            Awaited::Review(_) => "No review yet. Call submitIssueTask again at once, with the \
                                   same: it is submitted once."
                .to_owned(),
            Awaited::Reply(_) => {
                "No reply yet. Call askIssueTask again at once, with the same: it \
                                  is asked once."
                    .to_owned()
            }
            Awaited::Deliveries => "Nothing yet. Call waitDeliveries again at once.".to_owned(),
            Awaited::Verdict(_) => "No verdict yet. Call submitDelivery again at once, with the \
                                    same: it is delivered once."
                .to_owned(),
            Awaited::Files { .. } => "The files are still locked. Call lockFiles again.".to_owned(),
        },
        Standing::There => match awaited {
            Awaited::Tasks(_) => "Claim it with claimIssueTask.".to_owned(),
            Awaited::Issues(_) => "Call waitIssueTasks for the issue you work on.".to_owned(),
            Awaited::Items(_)
            | Awaited::Review(_)
            | Awaited::Reply(_)
            | Awaited::Deliveries
            | Awaited::Verdict(_)
            | Awaited::Files { .. } => return Vec::new(),
        },
    };
    vec![said]
}
