//! What roles are given that nobody gave toolsets.

use std::collections::BTreeMap;

use tasuki_proto::id::RoleId;

use crate::toolset::{GATEWAY, ToolVisibility, ToolsetChoice, usual_toolsets};

/// What roles are given that say no toolsets themselves.
pub(super) struct Usual<'a> {
    /// By their names.
    pub(super) toolsets: &'a BTreeMap<String, Vec<ToolsetChoice>>,
    /// There are MCP servers or services whose tools are offered.
    pub(super) has_tools: bool,
}

impl Usual<'_> {
    pub(super) fn of(&self, role: &RoleId) -> Vec<ToolsetChoice> {
        if let Some(chosen) = self.toolsets.get(role.as_str()) {
            return chosen.clone();
        }
        let more = ToolsetChoice { set: GATEWAY, shown: ToolVisibility::Core };
        let more = self.has_tools.then_some(more);
        usual_toolsets(role).into_iter().chain(more).collect()
    }
}
