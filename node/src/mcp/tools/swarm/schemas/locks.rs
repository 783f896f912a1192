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
        about(
            "Directory of another repository, or its name as shown in locks. Default: the project's.",
        )
    };
    let mut renewed = lease_of();
    renewed["extend_sec"] = lease();
    vec![
        tool(
            list::LOCK_FILES,
            Act,
            "Locks files before you edit them, all or none: paths in your project, patterns such \
             as src/**/*.rs, or directories ending in /. Locks renew by themselves while you are \
             connected, until you unlock.",
            json!({
                "files": texts(""),
                "worker_id": text(),
                "issue_id": text(),
                "task_id": text(),
                "ttl_sec": lease(),
                "wait_sec": count("Seconds to wait for files locked by others. Default 0."),
                "owner": about("Alias of worker_id."),
                "repository": repository(),
            }),
            &["files", "worker_id"],
        ),
        tool(
            list::HEARTBEAT,
            Act,
            "Extends a lock. Locks renew by themselves while you are connected.",
            renewed,
            &["lease_id", "worker_id"],
        ),
        tool(list::UNLOCK, Act, "Releases your lock.", lease_of(), &["lease_id", "worker_id"]),
        tool(
            list::LIST_LOCKS,
            Look,
            "Lists locks: files, holder and expiry.",
            json!({ "files": texts("Filter by file."), "owner": text(), "repository": repository() }),
            &[],
        ),
        tool(
            list::FORCE_UNLOCK,
            TakeAway,
            "Releases another worker's lock. Its holder is notified.",
            json!({ "lease_id": text(), "reason": text() }),
            &["lease_id", "reason"],
        ),
    ]
}
