//! What an agent calls to get on after a refusal.
//!
//! A refusal says what happened and what holds; which tool helps depends on who is refused, so it
//! is added here, and only a tool that the role is shown is named. People are told of commands
//! instead (`cli/swarm/ways.rs`).

use tasuki_proto::reason::Reason;

use super::{
    super::{Row, is_shown},
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
            (LIST_ISSUES, "{} shows those there are"),
            (WAIT_ISSUES, "{} shows those that are open"),
            (LIST_DELIVERIES, "{} shows deliveries, each with its issue"),
        ],
    ),
    (
        Reason::UnknownTask,
        &[
            (LIST_TASKS, "{} shows those there are"),
            (WAIT_TASKS, "{} gives one that you can claim"),
            (BUNDLE, "{} shows those there are"),
        ],
    ),
    (Reason::UnknownWorker, &[(REGISTER_WORKER, "Please call {} first")]),
    (Reason::UnknownSubmission, &[(GET_TASK, "{} shows what was submitted")]),
    (Reason::UnknownMessage, &[(WAIT_EVENTS, "{} tells what waits for you")]),
    (Reason::UnknownDelivery, &[(LIST_DELIVERIES, "{} shows those there are")]),
    (
        Reason::IssueClosed,
        &[
            (REOPEN_ISSUE, "{} opens it again"),
            (WAIT_ISSUES, "Stop working on it; {} finds another"),
            (WAIT_DELIVERIES, "{} gives you other work"),
            (CREATE_ISSUE, "A person can open it again (tasuki swarm reopen); {} opens another"),
        ],
    ),
    (
        Reason::TasksNotDone,
        &[
            (
                WAIT_EVENTS,
                "{} tells what comes of them; a person can cancel one (tasuki swarm cancel)",
            ),
            (REVIEW_DELIVERY, "Call {} with verdict rejected, and say so in feedback"),
        ],
    ),
    (Reason::DeliveryOutdated, &[(REVIEW_DELIVERY, "Call {} with verdict rejected")]),
    (Reason::NothingToDeliver, &[(CLOSE_ISSUE, "Call createIssueTask, or {} with a summary")]),
    (Reason::NotAccepted, &[(CLOSE_ISSUE, "Call submitDelivery, or {} with a summary")]),
    (Reason::AlreadyDelivered, &[(WAIT_EVENTS, "{} tells the verdict")]),
    (Reason::TaskAlreadyClaimed, ANOTHER_TASK),
    (Reason::TaskReserved, ANOTHER_TASK),
    (Reason::TaskBlocked, ANOTHER_TASK),
    (
        Reason::InvalidNextStepToken,
        &[
            (CLAIM_TASK, "Call {} without it: what is kept for you, or for nobody, is yours so"),
            (NEXT_STEP, "{} gives the one to approve with, for the same completion_score"),
        ],
    ),
    (Reason::NotClaimant, NOT_YOURS),
    (Reason::LeaseLost, NOT_YOURS),
    (
        Reason::StaleToken,
        &[
            (WAIT_TASKS, "Another agent goes on with it by now. Stop; {} gives you other work"),
            (
                WAIT_DELIVERIES,
                "Another agent goes on with it by now. Stop; {} gives you other work",
            ),
        ],
    ),
    (Reason::LeaseNotFound, LOCK_AGAIN),
    (Reason::NotHolder, &[(LOCK_FILES, "Leave its files to it; {} with wait_sec waits for them")]),
    (
        Reason::MissingDoc,
        &[
            (WRITE_TASK_DOC, "{} writes it"),
            (WRITE_ISSUE_DOC, "{} writes it"),
            (ASK_TASK, "A person can write it (tasuki swarm doc write); {} tells the lead so"),
        ],
    ),
    (Reason::NoOpenSubmission, &[(WAIT_EVENTS, "{} tells what is submitted")]),
    (
        Reason::AlreadyReviewed,
        &[(WAIT_EVENTS, "{} tells what comes next"), (WAIT_DELIVERIES, "{} gives you other work")],
    ),
    (Reason::AlreadyReplied, &[(WAIT_EVENTS, "{} tells what comes next")]),
    (Reason::DeliveryAlreadyClaimed, &[(WAIT_DELIVERIES, "{} gives you another")]),
    (
        Reason::OwnWork,
        &[
            (WAIT_EVENTS, "{} tells what else waits for you"),
            (WAIT_DELIVERIES, "{} gives you another"),
        ],
    ),
];

const ANOTHER_TASK: &[Way] = &[(WAIT_TASKS, "{} gives you one that is free")];

const NOT_YOURS: &[Way] = &[
    (WAIT_TASKS, "{} gives you a task that is free"),
    (WAIT_DELIVERIES, "{} gives you a delivery that is free"),
];

const LOCK_AGAIN: &[Way] = &[(LOCK_FILES, "If you still edit its files, {} locks them again")];

/// What helps against a refusal of a call of `tool`.
fn ways(reason: Reason, tool: &str) -> &'static [Way] {
    match (tool, reason) {
        (HEARTBEAT | UNLOCK, Reason::LeaseLost | Reason::StaleToken) => LOCK_AGAIN,
        (GET_WORKER, Reason::UnknownWorker) => &[(LIST_WORKERS, "{} shows those there are")],
        _ => WAYS.iter().find(|it| it.0 == reason).map_or(&[], |(_, ways)| ways),
    }
}

/// The refusal of a call of `tool` with what helps, by a tool that a role of these sets is shown.
/// A role that is a lead and a worker is told what helps in the part that it called the tool in.
pub(super) fn with_way(refusal: Refusal, row: &Row, choices: &[ToolsetChoice]) -> Refusal {
    let mut choices = choices.to_vec();
    choices.retain(|it| row.is_in(it.set));
    let ways = ways(refusal.reason, row.name);
    let Some((tool, words)) = ways.iter().find(|(tool, _)| is_shown(tool, &choices)) else {
        return refusal;
    };
    let said = refusal.message.trim_end_matches('.');
    Refusal { message: format!("{said}. {}.", words.replace("{}", tool)), ..refusal }
}
