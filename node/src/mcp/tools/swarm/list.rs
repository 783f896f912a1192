//! Which tools there are for issues, tasks, deliveries and locks, and which roles are shown them.
//!
//! Names and parameters are those of the tools people already have prompts for. What was added is
//! optional: `worker_id` of [`EXTEND_TASK`], `blocked_by` of [`CREATE_TASK`], `repository` of the
//! tools for locks, `commit` and `commands` where something can be run again; and one tool,
//! [`PLAN`]. `session_id` is taken from whoever still sends it, and does nothing.

use super::super::{In, ToolDef};
use crate::config::Shown;

pub(in crate::mcp) const LEAD: &str = "swarm-lead";
pub(in crate::mcp) const WORKER: &str = "swarm-worker";
pub(in crate::mcp) const ACCEPTOR: &str = "swarm-acceptor";

const L: In = In { set: LEAD, from: Shown::Full };
const W: In = In { set: WORKER, from: Shown::Full };
const A: In = In { set: ACCEPTOR, from: Shown::Full };
/// The same, in the lean core of the set.
const CL: In = In { set: LEAD, from: Shown::Core };
const CW: In = In { set: WORKER, from: Shown::Core };
const CA: In = In { set: ACCEPTOR, from: Shown::Core };

macro_rules! tools {
    ($($name:ident $text:literal $($set:ident)*;)*) => {
        $(pub(super) const $name: &str = $text;)*

        pub(in crate::mcp::tools) const ROWS: &[ToolDef] = &[
            $(ToolDef { name: $name, sets: &[$($set),*] },)*
        ];
    };
}

tools! {
    PROFILE "myProfile" L W A;
    NOW "swarmNow" L W A;
    LIST_ISSUES "listIssues" CL W;
    LIST_OPEN_ISSUES "listOpenedIssues" L W;
    WAIT_ISSUES "waitIssues" CW;
    WAIT_TASKS "waitIssueTasks" CW;
    GET_ISSUE "getIssue" L CW A;
    CLOSE_ISSUE "closeIssue" CL;
    REOPEN_ISSUE "reopenIssue" L;
    SUBMIT_DELIVERY "submitDelivery" CL;
    CLAIM_DELIVERY "claimDelivery" CA;
    EXTEND_DELIVERY "extendDeliveryLease" A;
    REVIEW_DELIVERY "reviewDelivery" CA;
    GET_DELIVERY "getDelivery" CA;
    LIST_DELIVERIES "listDeliveries" CA;
    LIST_OPEN_DELIVERIES "listOpenedDeliveries" A;
    WAIT_DELIVERIES "waitDeliveries" CA;
    BUNDLE "getIssueAcceptanceBundle" CA;
    EXTEND_ISSUE "extendIssueLease" L;
    EXTEND_TASK "extendIssueTaskLease" W;
    CREATE_ISSUE "createIssue" CL;
    UPDATE_DOC_PATHS "updateIssueDocPaths" L;
    CREATE_TASK "createIssueTask" CL;
    PLAN "planIssueTasks" L;
    CLAIM_TASK "claimIssueTask" CW;
    SUBMIT_TASK "submitIssueTask" CW;
    REVIEW_TASK "reviewIssueTask" CL;
    RESET_TASK "resetIssueTask" CL;
    NEXT_STEP "getNextStepToken" CL;
    GET_TASK "getIssueTask" CL CW A;
    LIST_TASKS "listIssueTasks" CL W;
    LIST_OPEN_TASKS "listIssueOpenedTasks" L W;
    WAIT_EVENTS "waitIssueTaskEvents" CL;
    SELECT_INBOX "selectIssueInbox" L;
    NEXT_SIGNAL "nextIssueSignal" L;
    STEP_INBOX "stepLeadInbox" L;
    ASK_TASK "askIssueTask" CW;
    POST_MESSAGE "postIssueTaskMessage" W;
    REPLY_MESSAGE "replyIssueTaskMessage" CL;
    REGISTER_WORKER "registerWorker" CW;
    LIST_WORKERS "listWorkers" L;
    GET_WORKER "getWorker" L W;
    WRITE_SHARED_DOC "writeSharedDoc" L;
    READ_SHARED_DOC "readSharedDoc" L W A;
    LIST_SHARED_DOCS "listSharedDocs" L W A;
    WRITE_ISSUE_DOC "writeIssueDoc" L;
    READ_ISSUE_DOC "readIssueDoc" L CW CA;
    LIST_ISSUE_DOCS "listIssueDocs" L W A;
    WRITE_TASK_DOC "writeTaskDoc" W;
    READ_TASK_DOC "readTaskDoc" CL W A;
    LIST_TASK_DOCS "listTaskDocs" L W A;
    LOCK_FILES "lockFiles" CW;
    HEARTBEAT "heartbeat" CW;
    UNLOCK "unlock" CW;
    LIST_LOCKS "listLocks" W;
    FORCE_UNLOCK "forceUnlock" L;
}

/// The tools that a text names. `heartbeat` and `unlock` are words as well, so they do not count.
#[cfg(test)]
pub(in crate::mcp) fn named(text: &str) -> Vec<&'static str> {
    let words: Vec<&str> = text.split(|it: char| !it.is_ascii_alphanumeric()).collect();
    let is_named =
        |name: &&str| name.contains(|it: char| it.is_ascii_uppercase()) && words.contains(name);
    ROWS.iter().map(|row| row.name).filter(is_named).collect()
}
