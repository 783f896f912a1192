//! Who carries out a tool that this node offers: a server of its own, one of its roles, or a role of
//! another node.

use std::fmt;

use async_trait::async_trait;
use rmcp::{
    ErrorData,
    model::{CallToolRequestParams, CallToolResponse, Tool},
};
use tasuki_proto::id::RoleId;

use super::call::Caller;

#[async_trait]
pub trait ToolProvider: fmt::Debug + Send + Sync {
    /// The name of the server or the role.
    fn name(&self) -> &str;

    /// Whether a role may call a tool, by the tool's own name.
    fn allows(&self, role: &RoleId, tool: &str) -> bool;

    /// Calls a tool by its own name, for a role.
    async fn call(
        &self,
        role: &RoleId,
        request: CallToolRequestParams,
        caller: &dyn Caller,
    ) -> Result<CallToolResponse, ErrorData>;

    /// Whether it asks its user while a call is open, as servers of before 2026-07-28 do.
    fn asks_during_calls(&self) -> bool {
        false
    }

    /// What went wrong, said of whoever has the tool.
    fn error(&self, why: &str) -> ErrorData;
}

/// Tools that a role of this node has for other roles, here and elsewhere.
pub trait RoleProvider: ToolProvider {
    fn role(&self) -> &RoleId;

    /// What is told of each, under its own name, and the patterns of roles that may call it. None:
    /// every role.
    fn tools(&self) -> Vec<(Tool, Vec<String>)>;
}
