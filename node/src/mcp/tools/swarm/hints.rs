//! What an agent calls to get on after a refusal.
//!
//! A refusal says what happened and what holds; which tool helps depends on who is refused, so it
//! is added here, and only a tool that the role is shown is named. People are told of commands
//! instead (`cli/swarm/ways.rs`).

use tasuki_proto::reason::Reason;

use super::{
    super::{ToolDef, is_shown},
    list::*,
};
use crate::{config::ToolsetChoice, role::Refusal};

/// A tool, and a sentence in which it stands for `{}`.
type Way = (&'static str, &'static str);

/// For each reason what helps, the first that the role has.
const WAYS: &[(Reason, &[Way])] = &[
    (
        Reason::UnknownIssue,
        &[
            (LIST_ISSUES, "{} lists them"),
            (WAIT_ISSUES, "{} returns open ones"),
            (LIST_DELIVERIES, "{} shows deliveries, each with its issue"),
        ],
    ),
    (
        Reason::UnknownTask,
        &[
            (LIST_TASKS, "{} lists them"),
            (WAIT_TASKS, "{} returns one that you can claim"),
            (BUNDLE, "{} lists them"),
        ],
    ),
    (Reason::UnknownWorker, &[(REGISTER_WORKER, "Call {} first")]),
    (Reason::UnknownSubmission, &[(GET_TASK, "{} shows what was submitted")]),
    (Reason::UnknownMessage, &[(WAIT_EVENTS, "{} returns what is waiting for you")]),
    (Reason::UnknownDelivery, &[(LIST_DELIVERIES, "{} lists them")]),
    (
        Reason::IssueClosed,
        &[
            (REOPEN_ISSUE, "{} opens it again"),
            (WAIT_ISSUES, "Stop working on it; {} returns another"),
            (WAIT_DELIVERIES, "{} returns other work"),
            (CREATE_ISSUE, "Your user can reopen it (tasuki issue reopen); {} opens another"),
        ],
    ),
    (
        Reason::TasksNotDone,
        &[
            (
                WAIT_EVENTS,
                "{} reports their progress; your user can cancel one (tasuki task cancel)",
            ),
            (REVIEW_DELIVERY, "Call {} with verdict rejected and give the reason in feedback"),
        ],
    ),
    (Reason::DeliveryOutdated, &[(REVIEW_DELIVERY, "Call {} with verdict rejected")]),
    (Reason::NothingToDeliver, &[(CLOSE_ISSUE, "Call createIssueTask, or {} with a summary")]),
    (Reason::NotAccepted, &[(CLOSE_ISSUE, "Call submitDelivery, or {} with a summary")]),
    (Reason::AlreadyDelivered, &[(WAIT_EVENTS, "{} returns the verdict")]),
    (Reason::TaskAlreadyClaimed, ANOTHER_TASK),
    (Reason::TaskReserved, ANOTHER_TASK),
    (Reason::TaskBlocked, ANOTHER_TASK),
    (
        Reason::InvalidNextStepToken,
        &[
            (
                CLAIM_TASK,
                "Call {} without it to claim a task that is reserved for you or for nobody",
            ),
            (NEXT_STEP, "{} returns the token to approve with, for the same completion_score"),
        ],
    ),
    (Reason::NotClaimant, NOT_YOURS),
    (Reason::LeaseLost, NOT_YOURS),
    (
        Reason::StaleToken,
        &[
            (WAIT_TASKS, "Another agent has it now. Stop; {} returns other work"),
            (WAIT_DELIVERIES, "Another agent has it now. Stop; {} returns other work"),
        ],
    ),
    (Reason::LeaseNotFound, LOCK_AGAIN),
    (
        Reason::NotHolder,
        &[(LOCK_FILES, "Do not edit these files; {} with wait_sec waits for them")],
    ),
    (
        Reason::MissingDoc,
        &[
            (WRITE_TASK_DOC, "{} writes it"),
            (WRITE_ISSUE_DOC, "{} writes it"),
            (ASK_TASK, "Your user can write it (tasuki doc write); {} tells the lead"),
        ],
    ),
    (Reason::NoOpenSubmission, &[(WAIT_EVENTS, "{} returns submissions")]),
    (
        Reason::AlreadyReviewed,
        &[(WAIT_EVENTS, "{} returns the next event"), (WAIT_DELIVERIES, "{} returns other work")],
    ),
    (Reason::AlreadyReplied, &[(WAIT_EVENTS, "{} returns the next event")]),
    (Reason::DeliveryAlreadyClaimed, &[(WAIT_DELIVERIES, "{} returns another")]),
    (
        Reason::OwnWork,
        &[
            (WAIT_EVENTS, "{} returns what else is waiting for you"),
            (WAIT_DELIVERIES, "{} returns another"),
        ],
    ),
];

const ANOTHER_TASK: &[Way] = &[(WAIT_TASKS, "{} returns a free one")];

const NOT_YOURS: &[Way] =
    &[(WAIT_TASKS, "{} returns a free task"), (WAIT_DELIVERIES, "{} returns a free delivery")];

const LOCK_AGAIN: &[Way] = &[(LOCK_FILES, "If you still edit these files, {} locks them again")];

/// What helps against a refusal of a call of `tool`.
fn ways(reason: Reason, tool: &str) -> &'static [Way] {
    match (tool, reason) {
        (HEARTBEAT | UNLOCK, Reason::LeaseLost | Reason::StaleToken) => LOCK_AGAIN,
        (GET_WORKER, Reason::UnknownWorker) => &[(LIST_WORKERS, "{} lists them")],
        _ => WAYS.iter().find(|it| it.0 == reason).map_or(&[], |(_, ways)| ways),
    }
}

/// The refusal of a call of `tool` with what helps, by a tool that a role of these sets is shown.
/// A role that is a lead and a worker is told what helps in the part that it called the tool in.
pub(super) fn with_hint(refusal: Refusal, row: &ToolDef, choices: &[ToolsetChoice]) -> Refusal {
    let mut choices = choices.to_vec();
    choices.retain(|it| row.is_in(it.set));
    let ways = ways(refusal.reason, row.name);
    let Some((tool, words)) = ways.iter().find(|(tool, _)| is_shown(tool, &choices)) else {
        return refusal;
    };
    let said = refusal.message.trim_end_matches('.');
    Refusal { message: format!("{said}. {}.", words.replace("{}", tool)), ..refusal }
}
