//! Our hook in a coding agent's file of hooks, before its editing tools.

use std::path::Path;

use crate::{
    cli::{
        Failure,
        client_files::{
            Part,
            document::{Document, EditError, Value},
            hook_list::{HOOKS, HookPlace, take_version},
            install_log::{Added, Applied},
        },
    },
    edit_guard::Client,
};

/// How much longer than we the agent waits before it gives up on us, in seconds.
const TIMEOUT_SECS: u64 = 10;

/// What is particular about one agent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    /// Its file in the project. None is to be shared: each is about this machine.
    pub file: &'static str,
    event: &'static str,
    /// What a person does or knows once the file is written.
    pub note: &'static str,
}

pub(super) const fn row(client: Client) -> Row {
    match client {
        Client::Claude => Row {
            file: ".claude/settings.local.json",
            event: "PreToolUse",
            note: "Restart Claude Code, or check /hooks in it.",
        },
        Client::Cursor => Row {
            file: ".cursor/hooks.json",
            event: "preToolUse",
            note: "Cursor picks it up by itself. Keep the file out of version control.",
        },
        Client::Codex => Row {
            file: ".codex/hooks.json",
            event: "PreToolUse",
            note: "Codex calls it once you trust it: start Codex here and check /hooks. Keep the \
                   file out of version control.",
        },
    }
}

/// The hook to install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hook {
    pub client: Client,
    /// As a shell takes it.
    pub command: String,
    /// Whether the agent refuses edits while the hook is broken, as far as it can.
    pub is_closed: bool,
    /// The longest time that a check may take, if given.
    pub within_secs: u64,
}

/// The command of our hook in a document.
pub(super) fn command(client: Client, document: &Document) -> Result<Option<String>, EditError> {
    place(client).command(document)
}

/// Puts our hook into a document, in the place of the one that is there.
pub(super) fn apply(hook: &Hook, document: &mut Document) -> Result<Applied, EditError> {
    place(hook.client).put(&entry(hook), document)
}

impl Part for Client {
    fn is_in(&self, document: &Document) -> bool {
        !command(*self, document).is_ok_and(|own| own.is_none())
    }

    fn withdraw(
        &self,
        path: &Path,
        document: &mut Document,
        added: &[Added],
    ) -> Result<Vec<String>, Failure> {
        withdraw(*self, document, added).map_err(|why| why.at(path))
    }
}

fn withdraw(
    client: Client,
    document: &mut Document,
    added: &[Added],
) -> Result<Vec<String>, EditError> {
    let changed = place(client).take(document)?;
    take_version(document, added)?;
    Ok(changed)
}

fn place(client: Client) -> HookPlace {
    // The second was written by earlier builds, and is only ever removed.
    let words = [" lock-hook", " hook"];
    let words = words.map(|noun| format!("{noun} edit --client {}", client.name()));
    let is_flat = client == Client::Cursor;
    HookPlace { event: row(client).event, is_flat, words: words.into() }
}

fn entry(hook: &Hook) -> Value {
    let command = ("command", Value::text(&hook.command));
    let matcher = ("matcher", Value::text(hook.client.matcher()));
    match hook.client {
        Client::Cursor => {
            let closed = hook.is_closed.then_some(("failClosed", Value::Yes));
            Value::table([command, matcher].into_iter().chain(closed))
        }
        Client::Claude | Client::Codex => {
            let timeout = ("timeout", Value::Number(TIMEOUT_SECS + hook.within_secs));
            let hook = Value::table([("type", Value::text("command")), command, timeout]);
            Value::table([matcher, (HOOKS, Value::List(vec![hook]))])
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;

    use super::*;
    use crate::cli::client_files::{document::Format, remove_empty};

    fn wanted(client: Client, role: &str) -> Hook {
        let command = format!("/opt/tasuki lock-hook edit --client {} --as {role}", client.name());
        Hook { client, command, is_closed: false, within_secs: 0 }
    }

    fn parse(text: &str) -> Result<Document, EditError> {
        Document::parse(Format::Json, text)
    }

    /// The text with the hook; `None`: nothing changed.
    fn put(hook: &Hook, text: &str) -> Result<Option<(String, Applied)>, EditError> {
        let mut document = parse(text)?;
        let applied = apply(hook, &mut document)?;
        Ok((!applied.changed.is_empty()).then(|| (document.text(), applied)))
    }

    /// The text without it, and without what was made for it; `None`: nothing changed.
    fn take(client: Client, done: &Applied, text: &str) -> Result<Option<String>, EditError> {
        let mut document = parse(text)?;
        let changed = withdraw(client, &mut document, &done.added)?;
        remove_empty(&mut document, done.made.clone())?;
        Ok((!changed.is_empty()).then(|| document.text()))
    }

    #[test]
    fn each_agent_has_a_hook_of_its_own_form() {
        let text = |hook: &Hook| put(hook, "").unwrap().unwrap().0;
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
            text(&Hook { is_closed: true, ..wanted(Client::Cursor, "A") }),
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
            let event = row(client).event;
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
                let (one, done) = put(&wanted(client, "A"), &before).unwrap().unwrap();
                assert_eq!(put(&wanted(client, "A"), &one).unwrap(), None, "{one}");
                let installed = |text: &str| command(client, &parse(text).unwrap()).unwrap();
                assert!(installed(&one).unwrap().ends_with("--as A"));
                let (two, again) = put(&wanted(client, "B"), &one).unwrap().unwrap();
                assert!(again.made.is_empty() && !two.contains("--as A"), "{two}");
                let after = take(client, &done, &two).unwrap().unwrap();
                let read = |text: &str| parse(text).unwrap().get(&[]).unwrap();
                let empty = Json::Object(serde_json::Map::new());
                assert_eq!(read(&after).unwrap(), read(&before).unwrap_or(empty), "{after}");
                assert_eq!(after.contains("// mine"), before.contains("// mine"));
                assert_eq!(after.starts_with('\u{feff}'), before.starts_with('\u{feff}'));
                assert_eq!(take(client, &done, &after).unwrap(), None);
                assert_eq!(installed(&after), None);
            }
        }
    }

    #[test]
    fn a_hook_that_somebody_joined_with_theirs_leaves_theirs() {
        let before = r#"{"hooks": {"PreToolUse": [{"matcher": "Edit", "hooks": [
            {"type": "command", "command": "lint"},
            {"type": "command", "command": "/old/tasuki lock-hook edit --client claude"}]}]}}"#;
        let with = put(&wanted(Client::Claude, "A"), before).unwrap().unwrap().0;
        let without = take(Client::Claude, &Applied::default(), &with).unwrap().unwrap();
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
            assert!(take(Client::Claude, &Applied::default(), bad).is_err(), "{bad}");
        }
    }
}
