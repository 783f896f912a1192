//! What connecting one client means: which keys of which files, to what.
//!
//! Nothing here touches a disk. A plan is applied to a [`Document`] and says what it changed, so
//! that it can be taken back.

use std::path::PathBuf;

use serde_json::Value as Json;

use super::{
    client::{self, AUTHORIZATION, Client, ENDPOINT_KEYS, Endpoint, HEADERS, Scope},
    config_paths::ConfigPaths,
    entry,
};
use crate::{
    cli::{
        client_files::{
            document::{Document, EditError, Format, Keys, Value, keys},
            install_log::{Added, Applied},
        },
        text::short,
    },
    config::AGENT_TOKEN_VARIABLE,
};

/// What is wanted.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    pub client: Client,
    pub scope: Scope,
    /// Of the server's entry.
    pub name: String,
    pub role: String,
    pub endpoint: Endpoint,
    /// Whether the client shall run our tools without asking.
    pub allow: bool,
    /// The tools, for clients that allow each by its name.
    pub tools: Vec<String>,
}

/// One change of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Edit {
    /// The server's entry: these keys of it, whatever else is in it.
    Entry { keys: Vec<String>, role: String, pairs: Vec<(String, Value)> },
    /// An item of a list.
    Item { keys: Vec<String>, item: String },
    /// A value beside the entry; one that is there stays, it is somebody's choice.
    Rule { keys: Vec<String>, value: Value },
}

/// All changes of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilePlan {
    /// `None`: the client keeps it where nobody else may write.
    pub path: Option<PathBuf>,
    pub format: Format,
    pub edits: Vec<Edit>,
}

/// The files to change, the one with the server's entry first; and what a person must know of
/// the permissions, where the client cannot be told or is told with a side effect.
pub(super) fn plan(
    connection: &Connection,
    paths: &ConfigPaths,
) -> (Vec<FilePlan>, Option<&'static str>) {
    let Connection { client, scope, name, tools, .. } = connection;
    let mut pairs = client::entry(*client, &connection.endpoint);
    let mut rules = Vec::new();
    let mut items = Vec::new();
    let mut note = None;
    if connection.allow {
        let mut key = |key: &str, value| pairs.push((key.to_owned(), value));
        match client {
            Client::ClaudeCode => {
                items.push((keys(["permissions", "allow"]), format!("mcp__{name}")));
            }
            Client::Codex => key("default_tools_approval_mode", Value::text("approve")),
            Client::Gemini => key("trust", Value::Yes),
            Client::Cline => {
                key("autoApprove", Value::texts(tools));
                note = Some(CLINE_NOTE);
            }
            Client::Opencode => {
                let key = format!("{name}_*");
                rules.push((keys(["permission", &key]), Value::text("allow")));
            }
            Client::Zed => {
                for tool in tools {
                    let tool = format!("mcp:{name}:{tool}");
                    let keys = keys(["agent", "tool_permissions", "tools", &tool, "default"]);
                    rules.push((keys, Value::text("allow")));
                }
            }
            Client::Cursor => {
                items.push((keys(["mcpAllowlist"]), format!("{name}:*")));
                note = Some(CURSOR_NOTE);
            }
            Client::Vscode => note = Some(VSCODE_NOTE),
            Client::Junie => note = Some(JUNIE_NOTE),
            Client::Jetbrains => note = Some(JETBRAINS_NOTE),
        }
    }
    let entry = Edit::Entry {
        keys: keys([client.row().table, name]),
        role: connection.role.clone(),
        pairs,
    };
    let rules = rules.into_iter().map(|(keys, value)| Edit::Rule { keys, value });
    let items = items.into_iter().map(|(keys, item)| Edit::Item { keys, item });
    let mut edits = vec![entry];
    let mut apart = Vec::new();
    let permissions = paths.permissions(*client, *scope);
    if permissions.is_some() { &mut apart } else { &mut edits }.extend(rules.chain(items));
    let servers =
        FilePlan { path: paths.servers(*client, *scope), format: client.row().format, edits };
    let permissions = (!apart.is_empty()).then_some(FilePlan {
        path: permissions,
        format: Format::Json,
        edits: apart,
    });
    (std::iter::once(servers).chain(permissions).collect(), note)
}

const CLINE_NOTE: &str = "Cline's editor extension runs these tools unasked where `Use MCP servers` \
                          is on under Auto-approve; the command `cline` goes by its own settings.";
const CURSOR_NOTE: &str = "From now on permissions.json says which MCP tools Cursor runs without \
                           asking, in place of the list in its settings.";
const VSCODE_NOTE: &str = "VS Code keeps its approvals to itself: at the first call choose to \
                           always allow the tools of this server.";
const JUNIE_NOTE: &str = "Junie keeps its approvals in Settings | Tools | Junie | Action Allowlist: \
                          allow MCP tools there.";
const JETBRAINS_NOTE: &str = "AI Assistant keeps its approvals to itself: allow the tools at the \
                              first call.";

/// Why a plan is not applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refused {
    Edit(EditError),
    /// The entry is not ours.
    Theirs {
        keys: String,
    },
    /// The entry is ours, for another role.
    OtherRole {
        keys: String,
        role: String,
    },
}

impl From<EditError> for Refused {
    fn from(why: EditError) -> Self {
        Self::Edit(why)
    }
}

/// Applies a plan. `is_noted`: connecting wrote this entry here before, so that what stands in it
/// besides is its user's. `force` replaces an entry that is not ours, or another role's.
pub(super) fn apply(
    plan: &FilePlan,
    document: &mut Document,
    is_noted: bool,
    force: bool,
) -> Result<Applied, Refused> {
    let mut applied = Applied::default();
    for edit in &plan.edits {
        match edit {
            Edit::Entry { keys, role, pairs } => {
                check_entry(document, keys, role, force)?;
                set_entry(document, keys, pairs, is_noted, &mut applied)?;
            }
            Edit::Item { keys, item } => {
                let items = document.list(keys)?;
                if !items.contains(&item[..].into()) {
                    let item_value = Value::text(item);
                    applied.made.extend(document.insert(keys, items.len(), &item_value)?);
                    applied.changed.push(format!("{} has \"{item}\"", keys.join(".")));
                    applied.added.push(Added::Item { keys: keys.clone(), item: item.clone() });
                }
            }
            Edit::Rule { keys, value } => set_rule(document, keys, value, &mut applied)?,
        }
    }
    Ok(applied)
}

fn check_entry(document: &Document, keys: &Keys, role: &str, force: bool) -> Result<(), Refused> {
    let there = document.get(keys)?;
    match there.as_ref().map(entry::ours) {
        Some(None) if !force => Err(Refused::Theirs { keys: keys.join(".") }),
        Some(Some(ours)) if ours.role != role && !force => {
            Err(Refused::OtherRole { keys: keys.join("."), role: ours.role })
        }
        Some(_) | None => Ok(()),
    }
}

fn set_entry(
    document: &mut Document,
    keys: &Keys,
    pairs: &[(String, Value)],
    is_noted: bool,
    applied: &mut Applied,
) -> Result<(), Refused> {
    let there = document.get(keys)?;
    let Some(there) = there.as_ref().filter(|there| entry::ours(there).is_some()) else {
        let value = Value::Table(pairs.to_vec());
        applied.made.extend(document.set(keys, &value)?);
        applied.changed.push(keys.join("."));
        return Ok(());
    };
    let inside = |key: &str| [keys, &[key.to_owned()]].concat();
    let is_wanted = |key: &str| pairs.iter().any(|(wanted, _)| wanted == key);
    let endpoint = ENDPOINT_KEYS.iter().copied().filter(|key| there.get(*key).is_some());
    // What else stands in an entry that was not written here came with the project, say: its
    // variables lead the command elsewhere.
    let is_kept = |key: &str| is_noted && !STEERING_KEYS.contains(&key);
    let others = there.as_object().into_iter().flat_map(|all| all.keys());
    let others = others.map(String::as_str).filter(|key| !is_endpoint(key) && !is_kept(key));
    for key in endpoint.chain(others).filter(|key| !is_wanted(key)) {
        document.remove(&inside(key))?;
        let key = short(key, NAME_CELLS_MAX);
        applied.changed.push(format!("{} without {key}", keys.join(".")));
    }
    if is_noted {
        let headers = there.get(HEADERS).filter(|_| !is_wanted(HEADERS));
        drop_reference(document, keys, headers, applied)?;
        drop_variables(document, keys, there, applied)?;
    }
    for (key, value) in pairs {
        if let (true, HEADERS, Some(Json::Object(old)), Value::Table(headers)) =
            (is_noted, key.as_str(), there.get(key), value)
        {
            // Others' headers stay.
            for (name, value) in
                headers.iter().filter(|(name, it)| old.get(name) != Some(&it.to_json()))
            {
                let place = [inside(key), vec![name.clone()]].concat();
                document.set(&place, value)?;
                applied.changed.push(place.join("."));
            }
        } else if there.get(key) != Some(&value.to_json()) {
            document.set(&inside(key), value)?;
            applied.changed.push(inside(key).join("."));
        }
    }
    let after = document.get(keys)?;
    let keys = keys.join(".");
    let note = if is_noted {
        after
            .as_ref()
            .and_then(|after| extras(after, pairs))
            .map(|kept| format!("`{keys}` keeps {kept}; take out what is not yours."))
    } else {
        extras(there, pairs).map(|gone| {
            format!(
                "`tasuki connect` had not written `{keys}` here, so what else was in it was \
                 removed: {gone}."
            )
        })
    };
    applied.notes.extend(note);
    Ok(())
}

/// Where a client's entry says which variables the command gets.
const VARIABLES: &[&str] = &["env", "environment"];

/// Keys of an entry that decide where our program runs, with which variables, or that another one
/// runs beside it: connecting writes none.
const STEERING_KEYS: &[&str] = &["cwd", "envFile", "headersHelper"];

/// How the names of the variables begin that decide what our program does, where it keeps things, or
/// which code it loads.
const STEERING: &[&str] = &["TASUKI_", "LD_", "DYLD_", "XDG_", "GLIBC_"];

/// The same, in whole.
const STEERING_NAMES: &[&str] = &["HOME", "GCONV_PATH"];

/// Takes out the variables that could lead our program elsewhere: connecting sets none.
fn drop_variables(
    document: &mut Document,
    keys: &Keys,
    there: &Json,
    applied: &mut Applied,
) -> Result<(), Refused> {
    for table in VARIABLES {
        let Some(all) = there.get(*table).and_then(Json::as_object) else { continue };
        let steers = |name: &str| {
            let name = name.to_ascii_uppercase();
            STEERING.iter().any(|start| name.starts_with(start))
                || STEERING_NAMES.contains(&name.as_str())
        };
        let names: Vec<&String> = all.keys().filter(|name| steers(name)).collect();
        let place = [keys, &[(*table).to_owned()]].concat();
        for name in &names {
            let variable = [place.as_slice(), &[(*name).clone()]].concat();
            document.remove(&variable)?;
            let (table, name) = (place.join("."), short(name, NAME_CELLS_MAX));
            applied.changed.push(format!("{table}.{name} removed"));
        }
        if !names.is_empty() && names.len() == all.len() {
            document.remove(&place)?;
        }
    }
    Ok(())
}

/// How much of a name that somebody else chose is shown, in cells.
const NAME_CELLS_MAX: usize = 40;

/// Names of others that are shown of one entry.
const NAMES_MAX: usize = 8;

/// Whether a field of an entry says how the client reaches the node.
fn is_endpoint(key: &str) -> bool {
    ENDPOINT_KEYS.contains(&key)
}

/// What an entry has besides what is wanted, for people. `None`: nothing.
fn extras(entry: &Json, pairs: &[(String, Value)]) -> Option<String> {
    let mut names = Vec::new();
    for (key, value) in entry.as_object()? {
        let wanted = pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.to_json());
        match value.as_object() {
            Some(inner) if !inner.is_empty() => {
                let is_wanted =
                    |name: &str| wanted.as_ref().is_some_and(|it| it.get(name).is_some());
                let is_ours =
                    |name: &str| is_wanted(name) || (is_endpoint(key) && is_endpoint(name));
                let inner = inner.keys().filter(|name| !is_ours(name));
                names.extend(inner.map(|name| format!("{key}.{name}")));
            }
            Some(_) | None if wanted.is_some() || is_endpoint(key) => {}
            Some(_) | None => names.push(key.clone()),
        }
    }
    names.sort();
    let mut shown: Vec<String> = names
        .iter()
        .take(NAMES_MAX)
        .map(|name| format!("`{}`", short(name, NAME_CELLS_MAX)))
        .collect();
    if NAMES_MAX < names.len() {
        shown.push(format!("{} more", names.len() - NAMES_MAX));
    }
    (!shown.is_empty()).then(|| shown.join(", "))
}

/// Takes out the header that names a variable of ours, which another way of reaching the node has
/// no use for.
fn drop_reference(
    document: &mut Document,
    keys: &Keys,
    headers: Option<&Json>,
    applied: &mut Applied,
) -> Result<(), Refused> {
    let Some(headers) = headers.and_then(Json::as_object) else { return Ok(()) };
    let shown = headers.get(AUTHORIZATION).and_then(Json::as_str);
    if !shown.is_some_and(|shown| shown.contains(AGENT_TOKEN_VARIABLE)) {
        return Ok(());
    }
    let mut place = [keys, &[HEADERS.to_owned()]].concat();
    if 1 < headers.len() {
        place.push(AUTHORIZATION.to_owned());
    }
    document.remove(&place)?;
    applied.changed.push(format!("{} removed", place.join(".")));
    Ok(())
}

fn set_rule(
    document: &mut Document,
    keys: &Keys,
    value: &Value,
    applied: &mut Applied,
) -> Result<(), Refused> {
    let there = match document.get(keys) {
        // One word for all tools, say. Whoever wrote it decides.
        Err(EditError::WrongType { keys, .. }) => {
            applied
                .notes
                .push(format!("`{keys}` was left alone: it says one thing for all tools."));
            return Ok(());
        }
        there => there?,
    };
    match there {
        None => {
            applied.made.extend(document.set(keys, value)?);
            applied.changed.push(keys.join("."));
            applied.added.push(Added::Rule { keys: keys.to_vec() });
        }
        Some(there) if there == value.to_json() => {}
        Some(there) => {
            applied.notes.push(format!("`{}` was left alone: it is {there}.", keys.join(".")));
        }
    }
    Ok(())
}

/// Takes an entry back, if it is ours, and what was added with it. Gives what changed.
pub(super) fn withdraw(
    document: &mut Document,
    entry: Option<&Keys>,
    added: &[Added],
) -> Result<Vec<String>, Refused> {
    let mut changed = Vec::new();
    if let Some(keys) = entry
        && let Some(there) = document.get(keys)?
    {
        if entry::ours(&there).is_none() {
            return Err(Refused::Theirs { keys: keys.join(".") });
        }
        document.remove(keys)?;
        changed.push(keys.join("."));
    }
    for added in added {
        match added {
            Added::Item { keys, item } => {
                let there = document.get(keys)?;
                let list = there.as_ref().and_then(Json::as_array);
                let index = list.and_then(|list| list.iter().position(|it| it == item));
                if let Some(index) = index {
                    document.remove(&[keys, &[index.to_string()][..]].concat())?;
                    changed.push(format!("{} had \"{item}\"", keys.join(".")));
                }
            }
            Added::Rule { keys } => {
                if document.get(keys)?.is_some() {
                    document.remove(keys)?;
                    changed.push(keys.join("."));
                }
            }
        }
    }
    Ok(changed)
}
