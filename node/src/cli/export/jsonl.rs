//! JSON lines: everything there is about each entry, and about its thread.
//!
//! Characters that a terminal would act on are written as `\u…`, which means the same.

use serde_json::json;
use tasuki_proto::id::WorkspaceId;

use super::RoleThread;
use crate::cli::json::harmless;

/// A line for each entry.
pub(super) fn thread(found: &RoleThread, workspace: &WorkspaceId) -> String {
    let RoleThread { role, place, thread, entries } = found;
    let line = |entry| {
        let line = json!({
            "workspace": workspace.as_str(),
            "role": role.as_str(),
            "box": place.as_str(),
            "thread": thread,
            "entry": entry,
        });
        format!("{}\n", harmless(&line))
    };
    entries.iter().map(line).collect()
}
