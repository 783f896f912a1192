//! `tasuki gateway import`: the MCP servers of a client's own file, for everybody behind this node.
//!
//! What would be started is shown first: a file of others' names programs.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use jsonc_parser::parse_to_serde_value;
use owo_colors::OwoColorize as _;
use serde_json::{Map, Value, json};
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, value};

use super::super::{
    Failure, Output,
    client_files::file_io::{self, NewMode},
    text::line,
};
use crate::{
    accept::allowed::joined,
    config::{Config, Environment, FILE},
    gateway::names::{SERVER_BYTES_MAX, ServerName},
};

/// The names under which clients keep their servers.
const TABLES: [&str; 3] = ["mcpServers", "servers", "context_servers"];

/// Take over the MCP servers of a client's configuration file
///
/// Shows what would be added to tasuki.toml, and which programs it would start; --yes writes it. Reads
/// .mcp.json and other files with `mcpServers`, `servers` or `context_servers`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write what is shown
    #[arg(long)]
    yes: bool,
}

/// A server as it is taken over.
#[derive(Debug, PartialEq)]
struct Found {
    name: ServerName,
    command: Vec<String>,
    /// As `env` has it: names, and names with a value.
    env: Vec<String>,
    /// Where a program starts.
    directory: Option<PathBuf>,
    url: Option<String>,
    token_env: Option<String>,
}

pub(super) fn run(args: &Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let text = file_io::read(&args.file).map_err(Failure::local)?.text;
    let text =
        text.ok_or_else(|| Failure::usage(format!("There is no file {}.", args.file.display())))?;
    let here = std::path::absolute(&args.file).map_err(|why| Failure::local(why.to_string()))?;
    let (mut found, mut notes) = servers(&text, &here).map_err(|why| {
        Failure::usage(format!("{} has no MCP servers: {why}.", args.file.display()))
    })?;
    let own = config.file.as_ref().map_or_else(|| PathBuf::from(FILE), |it| it.path.clone());
    let environment = Environment::of_process();
    found.retain(|it| match refused(it, &own, &environment) {
        None => true,
        Some(why) => {
            notes.push(format!("{} is skipped: {why}", it.name));
            false
        }
    });
    // A client starts them where its file is; so does Tasuki where its own is.
    let beside = directory_of(&args.file);
    if beside != directory_of(&own) {
        for it in found.iter_mut().filter(|it| it.url.is_none() && it.directory.is_none()) {
            it.directory.clone_from(&beside);
        }
    }
    let snapshot = file_io::read(&own).map_err(Failure::local)?;
    let (written, taken) = add(snapshot.text.as_deref().unwrap_or_default(), &found)
        .map_err(|why| Failure::usage(format!("{} cannot be edited: {why}.", own.display())))?;
    let is_new = |place: &usize| !taken.contains(place);
    let new: Vec<&Found> = (0..found.len()).filter(is_new).map(|it| &found[it]).collect();
    let taken: Vec<&ServerName> = taken.iter().map(|it| &found[*it].name).collect();
    if args.yes && !new.is_empty() {
        file_io::replace(&snapshot, &written, NewMode::Usual).map_err(|why| why.failure(&own))?;
    }
    let shown = |it: &&Found| json!({ "name": it.name.as_str(), "command": it.command, "url": it.url, "env": names(&it.env) });
    output.answer(
        || {
            json!({
                "file": own,
                "written": args.yes && !new.is_empty(),
                "servers": new.iter().map(shown).collect::<Vec<_>>(),
                "already": taken.iter().map(|it| it.as_str()).collect::<Vec<_>>(),
                "notes": notes,
            })
        },
        || lines(args, &own, &new, &taken, &notes),
    )
}

/// Of a file that need not be there, without symbolic links.
fn directory_of(file: &Path) -> Option<PathBuf> {
    fs::canonicalize(std::path::absolute(file).ok()?.parent()?).ok()
}

/// Why the configuration would not take it.
fn refused(server: &Found, own: &Path, environment: &Environment) -> Option<String> {
    let (alone, _) = add("", std::slice::from_ref(server)).ok()?;
    let problems = Config::problems_of(own, &alone, environment);
    let problems: Vec<String> = problems.into_iter().map(|it| it.message).collect();
    (!problems.is_empty()).then(|| problems.join("; "))
}

fn lines(
    args: &Args,
    own: &Path,
    new: &[&Found],
    taken: &[&ServerName],
    notes: &[String],
) -> String {
    let mut lines = String::new();
    for it in new {
        let what = match &it.url {
            Some(url) => format!("connects to {}", line(url)),
            None => format!("starts {}", line(&joined(&it.command))),
        };
        writeln!(lines, "{}  {what}", it.name.bold()).ok();
        if !it.env.is_empty() {
            writeln!(lines, "  with {}", line(&names(&it.env).join(", "))).ok();
        }
    }
    for name in taken {
        writeln!(lines, "{name}  already exists").ok();
    }
    for note in notes {
        writeln!(lines, "{}", line(note)).ok();
    }
    let own = own.display();
    match (new.is_empty(), args.yes) {
        (true, _) => writeln!(lines, "There is nothing to add to {own}."),
        (false, true) => {
            let trust = "If the file is part of a repository, run `tasuki trust` first.";
            writeln!(lines, "\nAdded to {own}. Restart the node to start them. {trust}")
        }
        (false, false) => {
            let file = args.file.display();
            writeln!(lines, "\nTo add this to {own}: tasuki gateway import {file} --yes")
        }
    }
    .ok();
    lines
}

/// Without values: they may be secrets.
fn names(env: &[String]) -> Vec<&str> {
    env.iter().map(|it| it.split('=').next().unwrap_or_default()).collect()
}

/// The servers of a client's file, and what of them is not taken over.
/// `file` is where it lies.
fn servers(text: &str, file: &Path) -> Result<(Vec<Found>, Vec<String>), String> {
    let content: Option<Value> =
        parse_to_serde_value(text, &Default::default()).map_err(|why| why.to_string())?;
    let content = content.unwrap_or_default();
    let table = TABLES.iter().find_map(|name| content.get(*name)?.as_object());
    let table = table.ok_or_else(|| format!("it has none of {}", TABLES.join(", ")))?;
    let (mut all, mut notes) = (Vec::new(), Vec::new());
    for (name, server) in table {
        match found(name, server, file, &mut notes) {
            Ok(Some(server)) => match all
                .iter()
                .find(|it: &&Found| it.name.is_confusable(&server.name))
            {
                None => all.push(server),
                Some(other) => notes.push(format!(
                    "{name} is skipped: its name is too similar to that of {}; rename one of them",
                    other.name
                )),
            },
            Ok(None) => {}
            Err(why) => notes.push(format!("{name} is skipped: {why}")),
        }
    }
    Ok((all, notes))
}

fn found(
    name: &str,
    server: &Value,
    file: &Path,
    notes: &mut Vec<String>,
) -> Result<Option<Found>, String> {
    let is = |field: &str, what: bool| server.get(field).and_then(Value::as_bool) == Some(what);
    if is("disabled", true) || is("enabled", false) {
        return Err("it is disabled there".to_owned());
    }
    let text = |field: &str| server.get(field).and_then(Value::as_str);
    let command: Vec<String> = match server.get("command") {
        Some(Value::Array(words)) => {
            words.iter().filter_map(|it| it.as_str()).map(str::to_owned).collect()
        }
        // Zed's older form.
        Some(Value::Object(of)) => words(of),
        Some(Value::String(_)) => server.as_object().map(words).unwrap_or_default(),
        _ => Vec::new(),
    };
    let url = text("url").or_else(|| text("httpUrl")).or_else(|| text("serverUrl"));
    let is_own = command.first().is_some_and(|it| Path::new(it).ends_with("tasuki"))
        || url.is_some_and(|it| it.contains("/mcp/") && name.starts_with("tasuki"));
    if is_own {
        notes.push(format!("{name} is skipped: it is Tasuki itself"));
        return Ok(None);
    }
    if text("type") == Some("sse") {
        return Err(
            "the transport HTTP+SSE is not supported; use its Streamable HTTP address".to_owned()
        );
    }
    if command.is_empty() == url.is_none() {
        return Err("it takes either a command or a URL".to_owned());
    }
    let variables = server.get("env").and_then(Value::as_object);
    let env = variables.into_iter().flatten().map(|(name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match variable_of(&value) {
            Some(from) if from == name => name.clone(),
            Some(from) => {
                notes.push(format!("the variable {name} is imported as {from}: a server is given variables under their own names"));
                from.to_owned()
            }
            None => format!("{name}={value}"),
        }
    });
    let env: Vec<String> = env.collect();
    let headers = server.get("headers").and_then(Value::as_object);
    let mut token_env = None;
    for (header, value) in headers.into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        let token = value.strip_prefix("Bearer ").and_then(variable_of);
        match token.filter(|_| header.eq_ignore_ascii_case("authorization")) {
            Some(variable) => token_env = Some(variable.to_owned()),
            None => notes.push(format!(
                "the header {header} of {name} is not imported: set `token_env` to the name of a \
                 variable that holds its token"
            )),
        }
    }
    let directory = match text("cwd").filter(|_| url.is_none()) {
        Some(at) if at.contains('$') => {
            notes.push(format!(
                "the directory {at} of {name} is not imported: set `directory` where it should start"
            ));
            None
        }
        at => at.and_then(|at| Some(file.parent()?.join(at))),
    };
    for word in command.iter().chain(&env).filter(|it| it.contains("${")) {
        notes
            .push(format!("{name}: {word} is imported as it is; variables in it are not replaced"));
    }
    let url = url.map(str::to_owned);
    Ok(Some(Found { name: server_name(name)?, command, env, directory, url, token_env }))
}

fn words(of: &Map<String, Value>) -> Vec<String> {
    let program = of.get("command").or_else(|| of.get("path")).and_then(Value::as_str);
    let args = of.get("args").and_then(Value::as_array);
    let args = args.into_iter().flatten().filter_map(|it| it.as_str());
    program.into_iter().chain(args).map(str::to_owned).collect()
}

/// The variable that `${NAME}` stands for.
fn variable_of(value: &str) -> Option<&str> {
    let name = value.strip_prefix("${")?.strip_suffix('}')?;
    let name = name.strip_prefix("env:").unwrap_or(name);
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_').then_some(name)
}

/// The nearest name that a server can have.
fn server_name(name: &str) -> Result<ServerName, String> {
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let plain = plain.trim_matches('-');
    let plain = plain[..plain.len().min(SERVER_BYTES_MAX)].trim_end_matches('-');
    name.parse().or_else(|_| plain.parse()).map_err(|why| format!("a name {why}"))
}

/// The file with these servers, and the places of those whose names it has already.
fn add(text: &str, found: &[Found]) -> Result<(String, Vec<usize>), String> {
    let mut file: DocumentMut =
        text.parse().map_err(|why: toml_edit::TomlError| why.to_string())?;
    let gateway = file.entry("gateway").or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let gateway = gateway.as_table_mut().ok_or("`gateway` is no table")?;
    let servers = gateway.entry("server").or_insert_with(|| ArrayOfTables::new().into());
    let servers = servers.as_array_of_tables_mut().ok_or("`gateway.server` are no tables")?;
    let mut taken = Vec::new();
    for (place, it) in found.iter().enumerate() {
        let is_there = |table: &Table| {
            let name = table.get("name").and_then(Item::as_str);
            let name: Option<ServerName> = name.and_then(|name| name.parse().ok());
            name.is_some_and(|name| name.is_confusable(&it.name))
        };
        if servers.iter().any(is_there) {
            taken.push(place);
            continue;
        }
        let mut table = Table::new();
        table["name"] = value(it.name.as_str());
        if !it.command.is_empty() {
            table["command"] = value(it.command.iter().collect::<Array>());
        }
        if let Some(directory) = it.directory.as_ref().and_then(|it| it.to_str()) {
            table["directory"] = value(directory);
        }
        if let Some(url) = &it.url {
            table["url"] = value(url);
        }
        if let Some(token_env) = &it.token_env {
            table["token_env"] = value(token_env);
        }
        if !it.env.is_empty() {
            table["env"] = value(it.env.iter().collect::<Array>());
        }
        servers.push(table);
    }
    Ok((file.to_string(), taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_clients_are_taken_over() {
        let text = r#"{
            // The project's own.
            "mcpServers": {
                "files": { "command": "npx", "args": ["-y", "server-filesystem", "."] },
                "git hub!": {
                    "type": "http", "url": "https://example.com/mcp",
                    "headers": { "Authorization": "Bearer ${GH_TOKEN}", "X-Other": "1" },
                },
                "db": { "command": "db-mcp", "env": { "DB_URL": "${DB_URL}", "MODE": "ro" } },
                "old": { "type": "sse", "url": "http://127.0.0.1:1/sse" },
                "tasuki": { "command": "/usr/bin/tasuki", "args": ["mcp"] },
                "off": { "command": "x", "disabled": true },
                "there": { "command": "x", "cwd": "tools" },
                "plain": { "url": "http://example.com/mcp" },
            },
        }"#;
        let (found, notes) = servers(text, Path::new("/project/.mcp.json")).unwrap();
        let names: Vec<&str> = found.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["db", "files", "git-hub", "plain", "there"]);
        assert_eq!(found[4].directory.as_deref(), Some(Path::new("/project/tools")));
        let environment = Environment::of_process();
        let is_refused = |it: &Found| refused(it, Path::new(FILE), &environment).is_some();
        let refusals: Vec<bool> = found.iter().map(is_refused).collect();
        assert_eq!(refusals, [false, false, false, true, false]);
        assert_eq!(found[1].command.join(" "), "npx -y server-filesystem .");
        assert_eq!(found[2].token_env.as_deref(), Some("GH_TOKEN"));
        assert_eq!(found[0].env, ["DB_URL", "MODE=ro"]);
        for said in ["X-Other", "old is skipped", "tasuki is skipped", "off is skipped"] {
            assert!(notes.iter().any(|it| it.contains(said)), "{said}: {notes:?}");
        }
        servers("{}", Path::new("/x")).unwrap_err();
        servers("{", Path::new("/x")).unwrap_err();
    }

    #[test]
    fn what_the_file_says_otherwise_stays() {
        let text = "# Mine.\nworkspace = \"w\"\n\n[[gateway.server]]\nname = \"Files\"\ncommand = [\"x\"]\n";
        let (found, _) = servers(
            r#"{ "mcpServers": { "files": { "command": "a" }, "db": { "command": "b", "args": ["c"] } } }"#,
            Path::new("/x"),
        )
        .unwrap();
        let (written, taken) = add(text, &found).unwrap();
        assert!(written.starts_with(text), "{written}");
        assert!(
            written.ends_with("[[gateway.server]]\nname = \"db\"\ncommand = [\"b\", \"c\"]\n"),
            "{written}"
        );
        assert_eq!(taken, [1]);
        assert_eq!(add(&written, &found).unwrap().0, written, "twice is once");
        let (new, _) = add("", &found[1..]).unwrap();
        assert_eq!(new, "[[gateway.server]]\nname = \"files\"\ncommand = [\"a\"]\n");
        add("gateway = 1\n", &found).unwrap_err();
    }
}
