//! What is said about it: to people what was done and what to do next, to programs the same.

use std::{fmt::Write as _, path::Path};

use owo_colors::OwoColorize as _;
use serde_json::{Value as Json, json};

use super::{
    Written,
    client::{Client, Limit, Scope, Way},
    disconnect::Taken,
    document::Document,
    plan::{self, FilePlan},
    wish::{Asked, ToolsFrom},
};
use crate::cli::{Failure, Output};

/// What a person does once the file is written.
fn next(asked: &Asked) -> Vec<String> {
    let wish = &asked.wish;
    let name = &wish.name;
    let start = match (wish.client, wish.scope) {
        (Client::ClaudeCode, Scope::User) => {
            format!("Start Claude Code anew, or type /mcp in it; `{name}` is listed there.")
        }
        (Client::ClaudeCode, Scope::Project) => {
            format!("Start Claude Code in this directory and approve the server `{name}`.")
        }
        (Client::Codex, Scope::User) => {
            format!("Start Codex anew; `codex mcp list` shows `{name}`.")
        }
        (Client::Codex, Scope::Project) => {
            "Start Codex anew in this directory; it must be a trusted project.".to_owned()
        }
        (Client::Gemini, _) => {
            "Start Gemini CLI anew, in a folder you trust: in others it uses no servers.".to_owned()
        }
        (Client::Cursor, _) => {
            format!("In Cursor's settings, under MCP, see that `{name}` is switched on.")
        }
        (Client::Vscode, _) => {
            format!("In VS Code run `MCP: List Servers` and start `{name}`.")
        }
        (Client::Cline, _) => "Start Cline anew.".to_owned(),
        (Client::Opencode, _) => {
            format!("Start opencode anew; `opencode mcp list` shows `{name}`.")
        }
        (Client::Zed, _) => format!("In Zed's agent settings see that `{name}` has a green dot."),
        (Client::Junie, _) => format!("In Junie's MCP settings see that `{name}` is switched on."),
        (Client::Jetbrains, _) => {
            "Paste it in Settings | Tools | AI Assistant | Model Context Protocol (MCP): Add, \
             then As JSON; then Apply."
                .to_owned()
        }
    };
    let role = &wish.role;
    let prompt = format!("Give the agent its part: `tasuki prompt {role}` prints what to paste.");
    let mut next = vec![start, prompt];
    if wish.scope == Scope::Project && wish.client != Client::Jetbrains {
        next.push("The file is about this machine: keep it out of version control.".to_owned());
    }
    if let Way::Http { token_in: Some(variable), .. } = &wish.way {
        let client = wish.client.title();
        next.insert(
            0,
            format!(
                "Set the variable {variable} where {client} starts, to what `tasuki agent-token \
             --role {role}` prints."
            ),
        );
    }
    if let Some(start) = &asked.start {
        next.insert(0, format!("No node is running: start one with `{start}`."));
    }
    next
}

fn limit(asked: &Asked) -> String {
    let hold = asked.hold_secs;
    let client = asked.wish.client.title();
    match asked.wish.client.limit() {
        Limit::Raised { key, secs, .. } => {
            format!("{client} waits up to {secs} s for a tool ({key}); a wait is held for {hold} s")
        }
        Limit::Fixed { .. } => {
            format!("{client}'s time limit cannot be raised; a wait is held for {hold} s")
        }
    }
}

/// Where the names of tools that are written come from.
fn tools_from(asked: &Asked) -> Option<(&'static str, String)> {
    let role = &asked.wish.role;
    let (word, which) = match asked.tools_from {
        _ if !asked.names_tools() => return None,
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
    let count = asked.wish.tools.len();
    let tools = if count == 1 { "1 tool is" } else { &format!("{count} tools are") };
    Some((word, format!("{tools} allowed by name: {which}.")))
}

fn way_json(way: &Way) -> Json {
    match way {
        Way::Http { url, token_in: None } => json!({"transport": "http", "url": url}),
        Way::Http { url, token_in: Some(variable) } => {
            json!({"transport": "http", "url": url, "token_in": variable})
        }
        Way::Stdio { program, arguments } => {
            json!({"transport": "stdio", "command": program, "args": arguments})
        }
    }
}

fn facts(asked: &Asked, note: Option<&str>, notes: &[String]) -> Json {
    let wish = &asked.wish;
    let notes = notes.iter().map(String::as_str).chain(note).chain(asked.why_stdio);
    let notes: Vec<&str> = notes.collect();
    let mut facts = json!({
        "client": wish.client.name(),
        "scope": wish.scope.name(),
        "name": wish.name,
        "role": wish.role,
        "as": asked.instance,
        "hold_secs": asked.hold_secs,
        "limit_secs": wish.client.limit().secs(),
        "tools_from": tools_from(asked).map(|(word, _)| word),
        "node_is_running": asked.start.is_none(),
        "notes": notes,
        "next": next(asked),
    });
    if let (Some(facts), Json::Object(way)) = (facts.as_object_mut(), way_json(&wish.way)) {
        facts.extend(way);
    }
    facts
}

fn closing(asked: &Asked, note: Option<&str>, notes: &[String]) -> String {
    let mut out = format!("  {}\n", limit(asked));
    if let Some(why) = asked.why_stdio {
        writeln!(out, "  {why}").expect("a String takes everything");
    }
    if let Some((_, words)) = tools_from(asked) {
        writeln!(out, "  {words}").expect("a String takes everything");
    }
    for note in notes.iter().map(String::as_str).chain(note) {
        writeln!(out, "  {}", note.yellow()).expect("a String takes everything");
    }
    writeln!(out, "{}", "next".bold()).expect("a String takes everything");
    for step in next(asked) {
        writeln!(out, "  {step}").expect("a String takes everything");
    }
    out
}

fn headline(asked: &Asked, is_new: bool) -> String {
    let wish = &asked.wish;
    let already = if is_new { "" } else { " already" };
    let transport = match wish.way {
        Way::Http { .. } => "http",
        Way::Stdio { .. } => "stdio",
    };
    format!(
        "{} is{already} connected: role {}, as {}, over {transport}\n",
        wish.client.title(),
        wish.role.bold(),
        asked.instance
    )
}

pub(super) fn connected(
    asked: &Asked,
    written: &[Written],
    note: Option<&'static str>,
    output: &mut Output,
) -> Result<(), Failure> {
    let notes: Vec<String> = written.iter().flat_map(|w| w.applied.notes.clone()).collect();
    let is_new = written.iter().any(|file| !file.applied.changed.is_empty());
    let change = |file: &Written| match (file.applied.changed.is_empty(), file.is_new) {
        (true, _) => "unchanged",
        (false, true) => "created",
        (false, false) => "changed",
    };
    output.answer(
        || {
            let mut all = facts(asked, note, &notes);
            let files = written.iter().map(|file| {
                json!({
                    "path": file.path.to_string_lossy(),
                    "change": change(file),
                    "keys": file.applied.changed,
                    "backup": file.backup.as_ref().map(|path| path.to_string_lossy()),
                })
            });
            all["files"] = files.collect();
            all
        },
        || {
            let mut out = headline(asked, is_new);
            for file in written {
                let keys = file.applied.changed.join(", ");
                let path = file.path.display();
                let line = match change(file) {
                    "unchanged" => format!("  unchanged {path}"),
                    change => format!("  {change} {path}: {keys}"),
                };
                writeln!(out, "{line}").expect("a String takes everything");
                if let Some(backup) = &file.backup {
                    writeln!(out, "    before: {}", backup.display())
                        .expect("a String takes everything");
                }
            }
            out + &closing(asked, note, &notes)
        },
    )
}

/// What would be written: each file's part of it, alone.
pub(super) fn print(
    asked: &Asked,
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
            let mut all = facts(asked, note, &[]);
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
                    writeln!(out, "{}", path.display().bold()).expect("a String takes everything");
                }
                out += text;
                out += "\n";
            }
            out + &closing(asked, note, &[])
        },
    )
}

pub(super) fn disconnected(
    client: Client,
    name: &str,
    taken: &[Taken],
    output: &mut Output,
) -> Result<(), Failure> {
    let change = |file: &Taken| if file.is_removed { "removed" } else { "changed" };
    output.answer(
        || {
            let files = taken.iter().map(|file| {
                json!({
                    "path": file.path.to_string_lossy(),
                    "change": change(file),
                    "keys": file.changed,
                    "backup": file.backup.as_ref().map(|path| path.to_string_lossy()),
                })
            });
            json!({"client": client.name(), "name": name, "files": files.collect::<Json>()})
        },
        || {
            let title = client.title();
            if taken.is_empty() {
                return format!("{title} has no entry `{name}` of Tasuki; nothing was changed\n");
            }
            let mut out = format!("{title} is disconnected; start it anew\n");
            for file in taken {
                let keys = file.changed.join(", ");
                writeln!(out, "  {} {}: {keys}", change(file), file.path.display())
                    .expect("a String takes everything");
                if let Some(backup) = &file.backup {
                    writeln!(out, "    before: {}", backup.display())
                        .expect("a String takes everything");
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
        || json!({"client": client.name(), "name": name, "files": [], "next": [how]}),
        || format!("{how}\n"),
    )
}
