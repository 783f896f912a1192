//! A server of MCP that tells what a VB6 module uses. It reads one directory and changes nothing.
//!
//! `pipeline_vb6 DIRECTORY` speaks on standard input and output, as `[[gateway.server]]` starts it.

use std::path::PathBuf;

use clap::Parser;
use serde_json::{Map, Value, json};
use tasuki_examples::{
    Result,
    pipeline::{tool_server::ToolServer, vb6::Project},
};

/// Offer what VB6 modules depend on as tools of MCP.
#[derive(Parser)]
struct Cli {
    /// Directory of the modules
    directory: PathBuf,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let project = Project::new(Cli::parse().directory);
    let sources = project.clone();
    let path = json!({ "type": "string", "description": "A .bas, .cls or .frm file below the directory." });
    let text =
        json!({ "type": "string", "description": "The module itself, instead of its path." });
    let server = ToolServer::default()
        .with(
            "dependencies",
            "Lists a VB6 module's procedures and what it uses: modules, procedures, globals and \
             types of the project, Declare'd APIs, and objects that it creates. Takes `path` or \
             `text`.",
            &json!({ "type": "object", "properties": { "path": path, "text": text } }),
            move |arguments| match (field(arguments, "path"), field(arguments, "text")) {
                (Some(path), None) => project.dependencies_of(path),
                (None, Some(text)) => project.dependencies(text),
                _ => Err("Give `path` or `text`, and not both.".to_owned()),
            },
        )
        .with(
            "source",
            "Returns the text of a VB6 module.",
            &json!({ "type": "object", "required": ["path"], "properties": { "path": path } }),
            move |arguments| {
                let path = field(arguments, "path").ok_or("`path` is missing.")?;
                sources.source(path).map(Value::String)
            },
        );
    server.serve_stdio().await
}

fn field<'a>(arguments: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    arguments.get(name).and_then(Value::as_str)
}
