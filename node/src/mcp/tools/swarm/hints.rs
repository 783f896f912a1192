//! What an agent calls to get on after a refusal.
//!
//! A refusal says what happened and what holds; which tool helps depends on who is refused, so it
//! is added here, and only a tool that the role is shown is named. People are told of commands
//! instead (`cli/swarm/ways.rs`).

use tasuki_proto::reason::Reason;

use super::super::{is_shown, tool::ToolDef};
use crate::{role::Refusal, toolset::ToolsetChoice};

/// A tool, and a sentence in which it stands for `{}`.
type Hint = (&'static str, &'static str);

/// For each reason what helps, the first that the role has.
const HINTS: &[(Reason, &[Hint])] = &[
    (
        Reason::UnknownIssue,
        &[
            ("listIssues", "{} lists them"),
            ("waitIssues", "{} returns open ones"),
            ("listDeliveries", "{} shows deliveries, each with its issue"),
        ],
    ),
    (
        Reason::UnknownTask,
        &[
            ("listIssueTasks", "{} lists them"),
            ("waitIssueTasks", "{} returns one that you can claim"),
            ("getIssueAcceptanceBundle", "{} lists them"),
        ],
    ),
    (Reason::UnknownWorker, &[("registerWorker", "Call {} first")]),
    (Reason::UnknownSubmission, &[("getIssueTask", "{} shows what was submitted")]),
    (Reason::UnknownMessage, &[("waitIssueTaskEvents", "{} returns what is waiting for you")]),
    (Reason::UnknownDelivery, &[("listDeliveries", "{} lists them")]),
    (
        Reason::IssueClosed,
        &[
            ("reopenIssue", "{} opens it again"),
            ("waitIssues", "Stop working on it; {} returns another"),
            ("waitDeliveries", "{} returns other work"),
            ("createIssue", "Your user can reopen it (tasuki issue reopen); {} opens another"),
        ],
    ),
    (
        Reason::TasksNotDone,
        &[
            (
                "waitIssueTaskEvents",
                "{} reports their progress; your user can cancel one (tasuki task cancel)",
            ),
            ("reviewDelivery", "Call {} with verdict rejected and give the reason in feedback"),
        ],
    ),
    (Reason::DeliveryOutdated, &[("reviewDelivery", "Call {} with verdict rejected")]),
    (Reason::NothingToDeliver, &[("closeIssue", "Call createIssueTask, or {} with a summary")]),
    (Reason::NotAccepted, &[("closeIssue", "Call submitDelivery, or {} with a summary")]),
    (Reason::AlreadyDelivered, &[("waitIssueTaskEvents", "{} returns the verdict")]),
    (Reason::TaskAlreadyClaimed, ANOTHER_TASK),
    (Reason::TaskReserved, ANOTHER_TASK),
    (Reason::TaskBlocked, ANOTHER_TASK),
    (
        Reason::InvalidNextStepToken,
        &[
            (
                "claimIssueTask",
                "Call {} without it to claim a task that is reserved for you or for nobody",
            ),
            (
                "getNextStepToken",
                "{} returns the token to approve with, for the same completion_score",
            ),
        ],
    ),
    (Reason::NotClaimant, NOT_YOURS),
    (Reason::LeaseLost, NOT_YOURS),
    (
        Reason::StaleToken,
        &[
            ("waitIssueTasks", "Another agent has it now. Stop; {} returns other work"),
            ("waitDeliveries", "Another agent has it now. Stop; {} returns other work"),
        ],
    ),
    (Reason::LeaseNotFound, LOCK_AGAIN),
    (
        Reason::NotHolder,
        &[("lockFiles", "Do not edit these files; {} with wait_sec waits for them")],
    ),
    (
        Reason::MissingDoc,
        &[
            ("writeTaskDoc", "{} writes it"),
            ("writeIssueDoc", "{} writes it"),
            ("askIssueTask", "Your user can write it (tasuki doc write); {} tells the lead"),
        ],
    ),
    (Reason::NoOpenSubmission, &[("waitIssueTaskEvents", "{} returns submissions")]),
    (
        Reason::AlreadyReviewed,
        &[
            ("waitIssueTaskEvents", "{} returns the next event"),
            ("waitDeliveries", "{} returns other work"),
        ],
    ),
    (Reason::AlreadyReplied, &[("waitIssueTaskEvents", "{} returns the next event")]),
    (Reason::DeliveryAlreadyClaimed, &[("waitDeliveries", "{} returns another")]),
    (
        Reason::OwnWork,
        &[
            ("waitIssueTaskEvents", "{} returns what else is waiting for you"),
            ("waitDeliveries", "{} returns another"),
        ],
    ),
];

const ANOTHER_TASK: &[Hint] = &[("waitIssueTasks", "{} returns a free one")];

const NOT_YOURS: &[Hint] = &[
    ("waitIssueTasks", "{} returns a free task"),
    ("waitDeliveries", "{} returns a free delivery"),
];

const LOCK_AGAIN: &[Hint] = &[("lockFiles", "If you still edit these files, {} locks them again")];

const SUBMIT_LATER: &[Hint] = &[(
    "lockFiles",
    "Wait for the file with {} and wait_sec, check that your change still fits, then submit again; \
     or leave the file out if you did not change it",
)];

/// What helps against a refusal of a call of `tool`.
fn hints(reason: Reason, tool: &str) -> &'static [Hint] {
    match (tool, reason) {
        ("heartbeat" | "unlock", Reason::LeaseLost | Reason::StaleToken) => LOCK_AGAIN,
        ("submitIssueTask", Reason::FileIsLocked) => SUBMIT_LATER,
        ("getWorker", Reason::UnknownWorker) => &[("listWorkers", "{} lists them")],
        _ => HINTS.iter().find(|it| it.0 == reason).map_or(&[], |(_, hints)| hints),
    }
}

/// The refusal of a call of `tool` with what helps, by a tool that a role of these sets is shown.
/// A role that is a lead and a worker is told what helps in the part that it called the tool in.
pub(super) fn with_hint(refusal: Refusal, tool: &ToolDef, choices: &[ToolsetChoice]) -> Refusal {
    let mut choices = choices.to_vec();
    choices.retain(|it| tool.is_in(it.set));
    let hints = hints(refusal.reason, tool.name);
    let Some((helper, text)) = hints.iter().find(|(tool, _)| is_shown(tool, &choices)) else {
        return refusal;
    };
    let said = refusal.message.trim_end_matches('.');
    Refusal { message: format!("{said}. {}.", text.replace("{}", helper)), ..refusal }
}

#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = &'static Hint> {
    HINTS.iter().flat_map(|(_, hints)| *hints).chain(LOCK_AGAIN).chain(SUBMIT_LATER)
}
