//! Reports what was connected and what to do next, for people and for programs.

use std::path::Path;

use owo_colors::OwoColorize as _;
use serde_json::{Value as Json, json};

use super::{
    client::{Client, Endpoint, Limit, Scope, typed},
    plan::{self, FilePlan},
    request::{Request, ToolsFrom},
};
use crate::cli::{
    Failure, Output,
    client_files::{Restored, Written, document::Document},
};

/// What a person does once the file is written.
fn next(request: &Request) -> Vec<String> {
    let connection = &request.connection;
    let name = &connection.name;
    let start = match (connection.client, connection.scope) {
        (Client::ClaudeCode, Scope::User) => {
            format!("Restart Claude Code, or type /mcp in it; `{name}` is listed there.")
        }
        (Client::ClaudeCode, Scope::Project) => {
            format!("Start Claude Code in this directory and approve the server `{name}`.")
        }
        (Client::Codex, Scope::User) => {
            format!("Restart Codex; `codex mcp list` shows `{name}`.")
        }
        (Client::Codex, Scope::Project) => {
            "Restart Codex in this directory, which must be a trusted project.".to_owned()
        }
        (Client::Gemini, _) => {
            "Restart Gemini CLI in a trusted folder: in others it uses no servers.".to_owned()
        }
        (Client::Cursor, _) => {
            format!("In Cursor's settings, under MCP, check that `{name}` is on.")
        }
        (Client::Vscode, _) => {
            format!("In VS Code run `MCP: List Servers` and start `{name}`.")
        }
        (Client::Cline, _) => "Restart Cline.".to_owned(),
        (Client::Opencode, _) => {
            format!("Restart opencode; `opencode mcp list` shows `{name}`.")
        }
        (Client::Zed, _) => format!("In Zed's agent settings check that `{name}` has a green dot."),
        (Client::Junie, _) => format!("In Junie's MCP settings check that `{name}` is on."),
        (Client::Jetbrains, _) => {
            "Paste it in Settings | Tools | AI Assistant | Model Context Protocol (MCP): Add, \
             then As JSON; then Apply."
                .to_owned()
        }
    };
    let role = &connection.role;
    let prompt = format!("Give the agent its prompt: `tasuki prompt {role}` prints it.");
    let mut next = vec![start, prompt];
    if connection.scope == Scope::Project && connection.client != Client::Jetbrains {
        next.push("The file is for this machine: keep it out of version control.".to_owned());
    }
    if let Endpoint::Http { token_in: Some(variable), .. } = &connection.endpoint {
        let client = connection.client.title();
        next.insert(
            0,
            format!(
                "Set the variable {variable} where {client} starts, to what `tasuki agent-token \
             --role {role}` prints."
            ),
        );
    }
    if let Some(start) = &request.start {
        next.insert(0, format!("No node is running: start one with `{start}`."));
    }
    next
}

fn limit(request: &Request) -> String {
    let hold = request.hold_secs;
    let client = request.connection.client.title();
    match request.connection.client.limit() {
        Limit::Raised { key, secs, .. } => {
            format!("{client} waits up to {secs} s for a tool ({key}); a wait is held for {hold} s")
        }
        Limit::Fixed { .. } => {
            format!("{client}'s time limit cannot be raised; a wait is held for {hold} s")
        }
    }
}

/// Where the names of tools that are written come from.
fn tools_from(request: &Request) -> Option<(&'static str, String)> {
    let role = &request.connection.role;
    let (word, which) = match request.tools_from {
        _ if !request.names_tools() => return None,
        ToolsFrom::Node => ("node", format!("those that the running node shows {role}")),
        ToolsFrom::Configuration => (
            "configuration",
            format!("those of {role} by this configuration; no running node could be asked"),
        ),
        ToolsFrom::Name => (
            "name",
            format!("those that a role named {role} usually has; no running node could be asked"),
        ),
    };
    let count = request.connection.tools.len();
    let tools = if count == 1 { "1 tool is" } else { &format!("{count} tools are") };
    Some((word, format!("{tools} allowed by name: {which}.")))
}

fn endpoint_json(endpoint: &Endpoint) -> Json {
    match endpoint {
        Endpoint::Http { url, token_in: None } => json!({"transport": "http", "url": url}),
        Endpoint::Http { url, token_in: Some(variable) } => {
            json!({"transport": "http", "url": url, "token_in": variable})
        }
        Endpoint::Stdio { program, arguments } => {
            json!({"transport": "stdio", "command": program, "args": arguments})
        }
    }
}

fn facts(request: &Request, note: Option<&str>, notes: &[String]) -> Json {
    let connection = &request.connection;
    let notes = notes.iter().map(String::as_str).chain(note).chain(request.why_stdio);
    let notes: Vec<&str> = notes.collect();
    let mut facts = json!({
        "client": typed(connection.client),
        "scope": typed(connection.scope),
        "name": connection.name,
        "role": connection.role,
        "as": request.instance,
        "hold_secs": request.hold_secs,
        "limit_secs": connection.client.limit().secs(),
        "tools_from": tools_from(request).map(|(word, _)| word),
        "node_is_running": request.start.is_none(),
        "notes": notes,
        "next": next(request),
    });
    if let (Some(facts), Json::Object(endpoint)) =
        (facts.as_object_mut(), endpoint_json(&connection.endpoint))
    {
        facts.extend(endpoint);
    }
    facts
}

fn closing(request: &Request, note: Option<&str>, notes: &[String]) -> String {
    let mut out = format!("  {}\n", limit(request));
    if let Some(why) = request.why_stdio {
        out += &format!("  {why}\n");
    }
    if let Some((_, words)) = tools_from(request) {
        out += &format!("  {words}\n");
    }
    for note in notes.iter().map(String::as_str).chain(note) {
        out += &format!("  {}\n", note.yellow());
    }
    out += &format!("{}\n", "next".bold());
    for step in next(request) {
        out += &format!("  {step}\n");
    }
    out
}

fn headline(request: &Request, is_new: bool) -> String {
    let connection = &request.connection;
    let already = if is_new { "" } else { " already" };
    let transport = match connection.endpoint {
        Endpoint::Http { .. } => "http",
        Endpoint::Stdio { .. } => "stdio",
    };
    format!(
        "{} is{already} connected: role {}, as {}, over {transport}\n",
        connection.client.title(),
        connection.role.bold(),
        request.instance
    )
}

pub(super) fn connected(
    request: &Request,
    written: &[Written],
    note: Option<&'static str>,
    output: &mut Output,
) -> Result<(), Failure> {
    let notes: Vec<String> = written.iter().flat_map(|w| w.applied.notes.clone()).collect();
    let is_new = written.iter().any(|file| !file.applied.changed.is_empty());
    output.answer(
        || {
            let mut all = facts(request, note, &notes);
            let files = written.iter().map(|file| {
                json!({
                    "path": file.path.to_string_lossy(),
                    "change": file.change(),
                    "keys": file.applied.changed,
                    "backup": file.backup.as_ref().map(|path| path.to_string_lossy()),
                })
            });
            all["files"] = files.collect();
            all
        },
        || {
            let mut out = headline(request, is_new);
            for file in written {
                let keys = file.applied.changed.join(", ");
                let path = file.path.display();
                let line = match file.change() {
                    "unchanged" => format!("  unchanged {path}"),
                    change => format!("  {change} {path}: {keys}"),
                };
                out += &format!("{line}\n");
                if let Some(backup) = &file.backup {
                    out += &format!("    before: {}\n", backup.display());
                }
            }
            out + &closing(request, note, &notes)
        },
    )
}

/// What would be written: each file's part of it, alone.
pub(super) fn print(
    request: &Request,
    plans: &[FilePlan],
    note: Option<&'static str>,
    output: &mut Output,
) -> Result<(), Failure> {
    let texts: Vec<(Option<&Path>, String)> = plans
        .iter()
        .map(|plan| {
            let mut document = Document::parse(plan.format, "").expect("nothing is well formed");
            plan::apply(plan, &mut document, false, false).expect("nothing is in the way");
            (plan.path.as_deref(), document.text())
        })
        .collect();
    output.answer(
        || {
            let mut all = facts(request, note, &[]);
            let files = texts.iter().map(|(path, text)| {
                json!({"path": path.map(Path::to_string_lossy), "change": "none", "text": text})
            });
            all["files"] = files.collect();
            all
        },
        || {
            let mut out = String::new();
            for (path, text) in &texts {
                if let Some(path) = path {
                    out += &format!("{}\n", path.display().bold());
                }
                out += text;
                out += "\n";
            }
            out + &closing(request, note, &[])
        },
    )
}

pub(super) fn disconnected(
    client: Client,
    name: &str,
    restored: &[Restored],
    output: &mut Output,
) -> Result<(), Failure> {
    output.answer(
        || {
            let files = restored.iter().map(|file| {
                json!({
                    "path": file.path.to_string_lossy(),
                    "change": file.change(),
                    "keys": file.changed,
                    "backup": file.backup.as_ref().map(|path| path.to_string_lossy()),
                })
            });
            json!({"client": typed(client), "name": name, "files": files.collect::<Json>()})
        },
        || {
            let title = client.title();
            if restored.is_empty() {
                return format!("{title} has no entry `{name}` of Tasuki; nothing was changed\n");
            }
            let mut out = format!("{title} is disconnected; restart it\n");
            for file in restored {
                let keys = file.changed.join(", ");
                out += &format!("  {} {}: {keys}\n", file.change(), file.path.display());
                if let Some(backup) = &file.backup {
                    out += &format!("    before: {}\n", backup.display());
                }
            }
            out
        },
    )
}

/// For a client whose configuration nobody else may write.
pub(super) fn by_hand(client: Client, name: &str, output: &mut Output) -> Result<(), Failure> {
    let how = format!(
        "{} keeps its servers to itself: remove `{name}` in Settings | Tools | AI Assistant | \
         Model Context Protocol (MCP).",
        client.title()
    );
    output.answer(
        || json!({"client": typed(client), "name": name, "files": [], "next": [how]}),
        || format!("{how}\n"),
    )
}
