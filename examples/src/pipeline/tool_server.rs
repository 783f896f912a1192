//! A server of MCP on standard input and output whose tools are plain functions.

use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
    },
    service::RequestContext,
};
use serde_json::{Map, Value};

use crate::Result;

/// A tool's result, or a sentence that says why there is none.
pub type Answer = Result<Value, String>;

type Call = Box<dyn Fn(&Map<String, Value>) -> Answer + Send + Sync>;

/// Tools that read and change nothing, by name.
#[derive(Default)]
pub struct ToolServer {
    tools: Vec<(Tool, Call)>,
}

impl std::fmt::Debug for ToolServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.tools.iter().map(|(tool, _)| &tool.name)).finish()
    }
}

impl ToolServer {
    /// Adds a tool. `input` is the JSON Schema of its arguments.
    #[must_use]
    pub fn with(
        mut self,
        name: &'static str,
        description: &'static str,
        input: &Value,
        call: impl Fn(&Map<String, Value>) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let schema = input.as_object().cloned().unwrap_or_default();
        let tool = Tool::new(name, description, schema)
            .with_annotations(ToolAnnotations::new().read_only(true));
        self.tools.push((tool, Box::new(call)));
        self
    }

    /// Serves until standard input ends.
    ///
    /// # Errors
    /// When the conversation breaks.
    pub async fn serve_stdio(self) -> Result<()> {
        let running = self.serve((tokio::io::stdin(), tokio::io::stdout())).await?;
        running.waiting().await?;
        Ok(())
    }
}

impl ServerHandler for ToolServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.tools.iter().map(|(tool, _)| tool.clone()).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let found = self.tools.iter().find(|(tool, _)| tool.name == request.name);
        let Some((_, call)) = found else {
            return Err(ErrorData::invalid_params("There is no such tool.", None));
        };
        let result = match call(&request.arguments.unwrap_or_default()) {
            Ok(value @ Value::Object(_)) => CallToolResult::structured(value),
            Ok(Value::String(text)) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Ok(other) => CallToolResult::success(vec![ContentBlock::text(other.to_string())]),
            Err(why) => CallToolResult::error(vec![ContentBlock::text(why)]),
        };
        Ok(CallToolResponse::Complete(result))
    }
}
