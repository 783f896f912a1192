//! A server of MCP that checks whether Java can be parsed, and has a method for each procedure.
//!
//! `pipeline_java` speaks on standard input and output, as `[[gateway.server]]` starts it.

use serde_json::{Value, json};
use tasuki_examples::{
    Result,
    pipeline::{
        java::{Procedure, check},
        tool_server::ToolServer,
    },
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let procedure = json!({
        "type": "object",
        "required": ["name", "kind"],
        "properties": { "name": { "type": "string" }, "kind": { "type": "string" } },
    });
    let input = json!({
        "type": "object",
        "required": ["java", "class", "procedures"],
        "properties": {
            "java": { "type": "string", "description": "The file." },
            "class": { "type": "string", "description": "The class that is to be in it." },
            "procedures": { "type": "array", "items": procedure, "description": "What it is to have methods for." },
        },
    });
    let server = ToolServer::default().with(
        "check",
        "Parses a Java class and looks for a method for each procedure. Answers with `last_error`, \
         a line for each error with its line and column, or with `artifacts.check`.",
        &input,
        |arguments| {
            let text = |name: &str| match arguments.get(name).and_then(Value::as_str) {
                Some(text) => Ok(text),
                None => Err(format!("`{name}` is missing or no text.")),
            };
            let procedures = arguments.get("procedures").cloned().unwrap_or_default();
            let procedures: Vec<Procedure> = serde_json::from_value(procedures)
                .map_err(|why| format!("`procedures` is no list of procedures: {why}."))?;
            check(text("java")?, text("class")?, &procedures)
        },
    );
    server.serve_stdio().await
}
