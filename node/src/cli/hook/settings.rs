//! Our hook in a coding agent's file of hooks, as text.
//!
//! The file is JSON: a list of hooks for each event, each with the tools it is for. Ours is known
//! by the command it calls. Nothing else in the file is touched.

use jsonc_parser::{
    ParseOptions,
    cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode},
};
use serde_json::Value;

use crate::edit_guard::Client;

/// Before an agent gives up on us, in seconds more than we take: we give up sooner.
const TIMEOUT_SECS: u64 = 10;

/// Agents read comments and a comma too many, or they refuse the file themselves.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_unary_plus_numbers: false,
    allow_extended_string_escapes: false,
};

/// The byte order mark some editors put first.
const MARK: char = '\u{feff}';

const HOOKS: &str = "hooks";
const VERSION: &str = "version";

/// Where the file is, in the project. None of them is to be shared: each is about this machine.
pub(super) const fn file(client: Client) -> &'static str {
    match client {
        Client::Claude => ".claude/settings.local.json",
        Client::Cursor => ".cursor/hooks.json",
        Client::Codex => ".codex/hooks.json",
    }
}

const fn event(client: Client) -> &'static str {
    match client {
        Client::Claude | Client::Codex => "PreToolUse",
        Client::Cursor => "preToolUse",
    }
}

/// What is wanted of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub client: Client,
    /// As a shell takes it.
    pub command: String,
    /// To be refused, too, where the hook itself breaks, as far as the agent knows that.
    pub is_closed: bool,
    /// What the hook may take, where somebody said.
    pub within_secs: u64,
}

/// A changed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Changed {
    pub text: String,
    /// What had to be made for it: the names of [`parts`].
    pub made: Vec<String>,
}

/// The command of our hook that is there. `Err`: why the file cannot be read.
pub(super) fn command(client: Client, text: &str) -> Result<Option<String>, String> {
    let root = parse(text)?;
    let Some(list) = list(client, &root, text)? else { return Ok(None) };
    let mut found = list.elements().into_iter().filter_map(|it| ours(client, &it));
    Ok(found.next())
}

/// Puts our hook into a file, in the place of the one that is there. `None`: it is there.
pub(super) fn put(wanted: &Wanted, text: &str) -> Result<Option<Changed>, String> {
    let client = wanted.client;
    let root = parse(text)?;
    let mut made = Vec::new();
    let old = list(client, &root, text)?;
    let taken = |what: &str| format!("`{what}` is something else than expected");
    let whole = root.object_value_or_create().ok_or_else(|| taken("the whole file"))?;
    let mut note = |is_there: bool, what: &str| {
        if !is_there {
            made.push(what.to_owned());
        }
    };
    if client == Client::Cursor {
        note(whole.get(VERSION).is_some(), VERSION);
        if whole.get(VERSION).is_none() {
            whole.append(VERSION, CstInputValue::Number("1".to_owned()));
        }
    }
    note(whole.get(HOOKS).is_some(), HOOKS);
    let hooks = whole.object_value_or_create(HOOKS).ok_or_else(|| taken(HOOKS))?;
    note(old.is_some(), event(client));
    let list = hooks.array_value_or_create(event(client)).ok_or_else(|| taken(event(client)))?;
    let entry = entry(wanted);
    let value = value(&entry);
    let is_ours = |it: &CstNode| ours(client, it).is_some();
    let mut places = list.elements().into_iter().enumerate().filter(|(_, it)| is_ours(it));
    match places.next() {
        None => drop(list.append(entry)),
        Some((_, there)) if read(&there) == value => return Ok(None),
        Some((at, there)) => {
            // One that somebody joined with hooks of their own stays theirs.
            let is_alone = take_out(client, there);
            list.insert(if is_alone { at } else { at + 1 }, entry);
        }
    }
    Ok(Some(Changed { text: written(text, &root), made }))
}

/// Takes our hooks out of a file, and what was made for them if nothing else is in it. `None`:
/// there is none.
pub(super) fn take(client: Client, made: &[String], text: &str) -> Result<Option<String>, String> {
    let root = parse(text)?;
    let Some(list) = list(client, &root, text)? else { return Ok(None) };
    let found: Vec<CstNode> =
        list.elements().into_iter().filter(|it| ours(client, it).is_some()).collect();
    if found.is_empty() {
        return Ok(None);
    }
    for it in found {
        take_out(client, it);
    }
    let is_made = |what: &str| made.iter().any(|it| it == what);
    let whole = root.object_value();
    let hooks = whole.as_ref().and_then(|it| it.object_value(HOOKS));
    if let (Some(whole), Some(hooks)) = (whole, hooks) {
        if is_made(event(client)) && list.elements().is_empty() {
            remove(&hooks, event(client));
        }
        if is_made(HOOKS) && hooks.properties().is_empty() {
            remove(&whole, HOOKS);
        }
        // It is the version of what others' hooks are written in, if there are any.
        let is_bare = |it: CstObject| {
            let lists = it.properties().into_iter().filter_map(|it| it.array_value());
            lists.into_iter().all(|it| it.elements().is_empty())
        };
        if is_made(VERSION) && whole.object_value(HOOKS).is_none_or(is_bare) {
            remove(&whole, VERSION);
        }
    }
    Ok(Some(written(text, &root)))
}

/// Whether a file says nothing any more.
pub(super) fn is_empty(text: &str) -> bool {
    let root = parse(text).ok();
    let value = root.and_then(|root| root.value());
    value.is_none_or(|it| it.as_object().is_some_and(|it| it.properties().is_empty()))
}

fn parse(text: &str) -> Result<CstRootNode, String> {
    let bare = text.strip_prefix(MARK).unwrap_or(text);
    CstRootNode::parse(bare, &OPTIONS)
        .map_err(|why| format!("line {}: {}", why.line_display(), why.kind()))
}

fn written(before: &str, root: &CstRootNode) -> String {
    let text = root.to_string();
    let text = if before.is_empty() && !text.ends_with('\n') { text + "\n" } else { text };
    if before.starts_with(MARK) { format!("{MARK}{text}") } else { text }
}

/// The list of the event, if there is one.
fn list(client: Client, root: &CstRootNode, text: &str) -> Result<Option<CstArray>, String> {
    let taken = |what: &str| format!("`{what}` is something else than expected");
    let Some(whole) = root.value() else { return Ok(None) };
    let whole = whole.as_object().ok_or_else(|| taken("the whole file"))?;
    // Agents differ in which of two they take; so would we.
    let bare = text.strip_prefix(MARK).unwrap_or(text);
    let is_twice = |of: &CstObject, name: &str| {
        1 < of.properties().iter().filter(|it| it.decoded_name().as_deref() == Some(name)).count()
    };
    if is_twice(&whole, HOOKS) {
        return Err(format!("`{HOOKS}` stands there twice"));
    }
    debug_assert!(!bare.is_empty(), "a value has a text");
    let Some(hooks) = whole.get(HOOKS) else { return Ok(None) };
    let hooks = hooks.value().and_then(|it| it.as_object()).ok_or_else(|| taken(HOOKS))?;
    if is_twice(&hooks, event(client)) {
        return Err(format!("`{}` stands there twice", event(client)));
    }
    let Some(list) = hooks.get(event(client)) else { return Ok(None) };
    let list = list.value().and_then(|it| it.as_array());
    list.map(Some).ok_or_else(|| taken(event(client)))
}

fn remove(of: &CstObject, name: &str) {
    if let Some(property) = of.get(name) {
        property.remove();
    }
}

/// The command of ours in an entry of the list.
fn ours(client: Client, entry: &CstNode) -> Option<String> {
    match client {
        Client::Cursor => called(client, entry),
        Client::Claude | Client::Codex => {
            let inner = entry.as_object()?.array_value(HOOKS)?;
            inner.elements().iter().find_map(|it| called(client, it))
        }
    }
}

fn called(client: Client, hook: &CstNode) -> Option<String> {
    let command = hook.as_object()?.get("command")?.value()?.as_string_lit()?;
    let command = command.decoded_value().ok()?;
    let words = format!(" lock-hook edit --client {}", client.name());
    let rest = command.split_once(&words)?.1;
    (rest.is_empty() || rest.starts_with(' ')).then_some(command)
}

/// Takes ours out of an entry. Whether the entry was ours alone, and went.
fn take_out(client: Client, entry: CstNode) -> bool {
    let inner = entry.as_object().and_then(|it| it.array_value(HOOKS));
    let Some(inner) = inner.filter(|_| client != Client::Cursor) else {
        entry.remove();
        return true;
    };
    let (own, others): (Vec<CstNode>, Vec<CstNode>) =
        inner.elements().into_iter().partition(|it| called(client, it).is_some());
    if others.is_empty() {
        entry.remove();
        return true;
    }
    for it in own {
        it.remove();
    }
    false
}

fn entry(wanted: &Wanted) -> CstInputValue {
    let text = |text: &str| CstInputValue::String(text.to_owned());
    let key = |name: &str, value| (name.to_owned(), value);
    let command = key("command", text(&wanted.command));
    let matcher = key("matcher", text(wanted.client.matcher()));
    CstInputValue::Object(match wanted.client {
        Client::Cursor => {
            let mut pairs = vec![command, matcher];
            if wanted.is_closed {
                pairs.push(key("failClosed", CstInputValue::Bool(true)));
            }
            pairs
        }
        Client::Claude | Client::Codex => {
            let timeout = (TIMEOUT_SECS + wanted.within_secs).to_string();
            let timeout = CstInputValue::Number(timeout);
            let hook = vec![key("type", text("command")), command, key("timeout", timeout)];
            let hooks = CstInputValue::Array(vec![CstInputValue::Object(hook)]);
            vec![matcher, key(HOOKS, hooks)]
        }
    })
}

fn value(of: &CstInputValue) -> Value {
    match of {
        CstInputValue::Null => Value::Null,
        CstInputValue::Bool(truth) => (*truth).into(),
        CstInputValue::Number(number) => serde_json::from_str(number).unwrap_or_default(),
        CstInputValue::String(text) => text.as_str().into(),
        CstInputValue::Array(items) => items.iter().map(value).collect(),
        CstInputValue::Object(pairs) => {
            Value::Object(pairs.iter().map(|(key, it)| (key.clone(), value(it))).collect())
        }
    }
}

fn read(node: &CstNode) -> Value {
    if let Some(table) = node.as_object() {
        let pairs = table.properties().into_iter();
        let pairs = pairs.filter_map(|it| Some((it.decoded_name()?, read(&it.value()?))));
        return Value::Object(pairs.collect());
    }
    if let Some(items) = node.as_array() {
        return items.elements().iter().map(read).collect();
    }
    match node.as_string_lit() {
        Some(text) => text.decoded_value().map_or(Value::Null, Value::String),
        None => serde_json::from_str(&node.to_string()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(client: Client, role: &str) -> Wanted {
        let command = format!("/opt/tasuki lock-hook edit --client {} --as {role}", client.name());
        Wanted { client, command, is_closed: false, within_secs: 0 }
    }

    #[test]
    fn each_agent_has_a_hook_of_its_own_form() {
        let text = |wanted: &Wanted| put(wanted, "").unwrap().unwrap().text;
        assert_eq!(
            text(&wanted(Client::Claude, "A")),
            r#"{
  "hooks": {
    "PreToolUse": [
      {
        "matcher": "Edit|Write|MultiEdit|NotebookEdit",
        "hooks": [
          {
            "type": "command",
            "command": "/opt/tasuki lock-hook edit --client claude --as A",
            "timeout": 10
          }
        ]
      }
    ]
  }
}
"#
        );
        assert_eq!(
            text(&wanted(Client::Codex, "A")),
            r#"{
  "hooks": {
    "PreToolUse": [
      {
        "matcher": "apply_patch|Edit|Write",
        "hooks": [
          {
            "type": "command",
            "command": "/opt/tasuki lock-hook edit --client codex --as A",
            "timeout": 10
          }
        ]
      }
    ]
  }
}
"#
        );
        assert_eq!(
            text(&Wanted { is_closed: true, ..wanted(Client::Cursor, "A") }),
            r#"{
  "version": 1,
  "hooks": {
    "preToolUse": [
      {
        "command": "/opt/tasuki lock-hook edit --client cursor --as A",
        "matcher": "Write|StrReplace|Edit|EditNotebook|ApplyPatch|Delete",
        "failClosed": true
      }
    ]
  }
}
"#
        );
    }

    #[test]
    fn what_others_wrote_stays_and_a_second_time_changes_nothing() {
        for client in Client::ALL {
            let event = event(client);
            for before in [
                String::new(),
                "{}".to_owned(),
                "{\n  // mine\n  \"model\": \"m\",\n}\n".to_owned(),
                format!("\u{feff}{{\r\n\t\"hooks\": {{\r\n\t\t\"{event}\": []\r\n\t}}\r\n}}\r\n"),
                format!(
                    "{{\"hooks\": {{\"{event}\": [{{\"matcher\": \"Bash\", \"command\": \"x\", \
                     \"hooks\": [{{\"type\": \"command\", \"command\": \"tasuki lock-hook \
                     status\"}}]}}], \"Stop\": []}}, \"version\": 1}}"
                ),
            ] {
                let one = put(&wanted(client, "A"), &before).unwrap().unwrap();
                assert_eq!(put(&wanted(client, "A"), &one.text).unwrap(), None, "{}", one.text);
                let said = command(client, &one.text).unwrap().unwrap();
                assert!(said.ends_with("--as A"));
                let two = put(&wanted(client, "B"), &one.text).unwrap().unwrap();
                assert!(two.made.is_empty() && !two.text.contains("--as A"), "{}", two.text);
                let after = take(client, &one.made, &two.text).unwrap().unwrap();
                let same = |text: &str| read(&parse(text).unwrap().value().unwrap());
                if is_empty(&before) {
                    assert!(is_empty(&after), "{after}");
                } else {
                    assert_eq!(same(&after), same(&before), "{after}");
                }
                assert_eq!(after.contains("// mine"), before.contains("// mine"));
                assert_eq!(after.starts_with(MARK), before.starts_with(MARK));
                assert_eq!(take(client, &one.made, &after).unwrap(), None);
                assert_eq!(command(client, &after).unwrap(), None);
            }
        }
    }

    #[test]
    fn a_hook_that_somebody_joined_with_theirs_leaves_theirs() {
        let before = r#"{"hooks": {"PreToolUse": [{"matcher": "Edit", "hooks": [
            {"type": "command", "command": "lint"},
            {"type": "command", "command": "/old/tasuki lock-hook edit --client claude"}]}]}}"#;
        let with = put(&wanted(Client::Claude, "A"), before).unwrap().unwrap().text;
        let without = take(Client::Claude, &[], &with).unwrap().unwrap();
        for text in [&with, &without] {
            assert!(text.contains("lint") && !text.contains("/old/"), "{text}");
        }
        assert!(!without.contains("tasuki"));
    }

    #[test]
    fn a_file_that_is_something_else_is_left_alone() {
        for bad in [
            "[]",
            "{",
            "{\"hooks\": []}",
            "{\"hooks\": {\"PreToolUse\": {}}}",
            "{\"hooks\": {}, \"hooks\": {}}",
            "{\"hooks\": {\"PreToolUse\": [], \"PreToolUse\": []}}",
        ] {
            assert!(put(&wanted(Client::Claude, "A"), bad).is_err(), "{bad}");
            assert!(take(Client::Claude, &[], bad).is_err(), "{bad}");
        }
    }
}
