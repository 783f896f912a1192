//! Locks on files, as clients are told of the tools.

use rmcp::model::Tool;
use serde_json::json;

use super::{
    super::list,
    Does::{Act, Look, TakeAway},
    about, count, lease, text, texts, tool,
};

pub(super) fn tools() -> Vec<Tool> {
    let lease_of = || json!({ "lease_id": text(), "worker_id": text() });
    let repository = || {
        about("A directory of another repository than the project's, or its name as locks show it.")
    };
    let mut renewed = lease_of();
    renewed["extend_sec"] = lease();
    vec![
        tool(
            list::LOCK_FILES,
            Act,
            "Locks files before you edit them, all or none: paths in your project, patterns such \
             as src/**/*.rs, or directories with a / at the end. Held while you are there, until \
             you unlock.",
            json!({
                "files": texts(""),
                "worker_id": text(),
                "issue_id": text(),
                "task_id": text(),
                "ttl_sec": lease(),
                "wait_sec": count("Wait so long for files that others have locked; else not."),
                "owner": about("As worker_id."),
                "repository": repository(),
            }),
            &["files", "worker_id"],
        ),
        tool(
            list::HEARTBEAT,
            Act,
            "Holds a lock for longer; while you are there it is held anyway.",
            renewed,
            &["lease_id", "worker_id"],
        ),
        tool(list::UNLOCK, Act, "Gives your lock back.", lease_of(), &["lease_id", "worker_id"]),
        tool(
            list::LIST_LOCKS,
            Look,
            "Lists who has locked what, until when.",
            json!({ "files": texts("Only locks on these."), "owner": text(), "repository": repository() }),
            &[],
        ),
        tool(
            list::FORCE_UNLOCK,
            TakeAway,
            "Takes a lock from its holder.",
            json!({ "lease_id": text(), "reason": text() }),
            &["lease_id", "reason"],
        ),
    ]
}
