//! What a plan changes in a file that is not new, and what it leaves.

use super::{
    client::{Client, Endpoint, Scope},
    config_paths::{ConfigPaths, System},
    plan::{self, Connection, Refused, plan},
};
use crate::cli::client_files::{
    document::{Document, Format, Value},
    install_log::Applied,
};

fn config_paths() -> ConfigPaths {
    ConfigPaths {
        system: System::Linux,
        home: "/home/u".into(),
        env: std::collections::BTreeMap::new(),
        directory: "/work".into(),
    }
}

fn connection(client: Client, endpoint: Endpoint, allow: bool) -> Connection {
    Connection {
        client,
        scope: Scope::User,
        name: "tasuki".into(),
        role: "A".into(),
        endpoint,
        allow,
        tools: vec!["t1".into(), "t2".into()],
    }
}

fn http() -> Endpoint {
    Endpoint::Http { url: "http://127.0.0.1:1/mcp/A?as=x&hold=9".into(), token_in: None }
}

fn stdio() -> Endpoint {
    let arguments = ["mcp", "--role", "A", "--as", "x"].map(str::to_owned);
    Endpoint::Stdio { program: "/bin/tasuki".into(), arguments: arguments.into() }
}

/// Applies the first file's plan, where the entry was written by it before.
fn apply(connection: &Connection, text: &str, force: bool) -> Result<(String, Applied), Refused> {
    apply_to(connection, text, true, force)
}

fn apply_to(
    connection: &Connection,
    text: &str,
    is_noted: bool,
    force: bool,
) -> Result<(String, Applied), Refused> {
    let (plans, _) = plan(connection, &config_paths());
    let mut document = Document::parse(plans[0].format, text).unwrap();
    let applied = plan::apply(&plans[0], &mut document, is_noted, force)?;
    Ok((document.text(), applied))
}

#[test]
fn an_entry_of_ours_is_brought_up_to_date_and_keeps_what_others_added() {
    let old = r#"{"mcpServers": {"tasuki": {
  // moved
  "type": "http", "url": "http://127.0.0.1:7/mcp/A?as=x&hold=9", "headers": {"X": "1"},
  "timeout": 5
}}}"#;
    let (text, applied) =
        apply(&connection(Client::ClaudeCode, http(), false), old, false).unwrap();
    let new = old.replace(":7/", ":1/").replace("\"timeout\": 5", "\"timeout\": 3600000");
    assert_eq!(text, new);
    assert_eq!(applied.changed, ["mcpServers.tasuki.url", "mcpServers.tasuki.timeout"]);
    let kept = "`mcpServers.tasuki` keeps `headers.X`; take out what is not yours.";
    assert_eq!(applied.notes, [kept]);
    let (text, applied) =
        apply(&connection(Client::ClaudeCode, http(), false), &new, false).unwrap();
    let unchanged = Applied { notes: vec![kept.to_owned()], ..Applied::default() };
    assert_eq!((text, applied), (new, unchanged));
}

/// An entry for role A as a project may bring one along, with variables and headers.
fn brought_along() -> String {
    serde_json::json!({"mcpServers": {"tasuki": {
        "type": "stdio", "command": "tasuki", "args": ["mcp", "--role", "A"], "cwd": "/x",
        "env": {
            "TASUKI_NODE": "http://127.0.0.1:9", "ld_preload": "x", "LANG": "C", "HOME": "/x",
            "XDG_CONFIG_HOME": "/x", "GLIBC_TUNABLES": "x", "GCONV_PATH": "/x", "HOMEPAGE": "x",
        },
        "headers": {"X": "1"}, "headersHelper": "x", "envFile": "x",
    }}})
    .to_string()
}

#[test]
fn an_entry_that_was_not_written_here_keeps_nothing() {
    let connection = connection(Client::ClaudeCode, stdio(), false);
    let (fresh, _) = apply_to(&connection, "", false, false).unwrap();
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    for force in [false, true] {
        let (text, applied) = apply_to(&connection, &brought_along(), false, force).unwrap();
        assert_eq!(read(&text), read(&fresh));
        let gone = "mcpServers.tasuki without env".to_owned();
        assert!(applied.changed.contains(&gone), "{applied:?}");
        assert_eq!(
            applied.notes,
            [
                "`tasuki connect` had not written `mcpServers.tasuki` here, so what else was in it was \
              removed: `cwd`, `env.GCONV_PATH`, `env.GLIBC_TUNABLES`, `env.HOME`, `env.HOMEPAGE`, \
              `env.LANG`, `env.TASUKI_NODE`, `env.XDG_CONFIG_HOME`, 4 more."
            ]
        );
    }
    // One that says what is wanted and nothing else needs no change.
    let (text, applied) = apply_to(&connection, &fresh, false, false).unwrap();
    assert_eq!((text, applied), (fresh, Applied::default()));
}

#[test]
fn variables_that_steer_our_program_go_and_the_others_are_named() {
    let connection = connection(Client::ClaudeCode, stdio(), false);
    let (text, applied) = apply(&connection, &brought_along(), false).unwrap();
    let read = serde_json::from_str::<serde_json::Value>(&text).unwrap();
    let entry = &read["mcpServers"]["tasuki"];
    assert_eq!(entry["env"], serde_json::json!({"LANG": "C", "HOMEPAGE": "x"}));
    let steering = ["TASUKI_NODE", "ld_preload", "HOME", "XDG_CONFIG_HOME", "GLIBC_TUNABLES"];
    for name in steering.into_iter().chain(["GCONV_PATH"]) {
        let removed = format!("mcpServers.tasuki.env.{name} removed");
        assert!(applied.changed.contains(&removed), "{applied:?}");
    }
    for key in ["cwd", "headersHelper", "envFile"] {
        assert!(applied.changed.contains(&format!("mcpServers.tasuki without {key}")), "{key}");
        assert_eq!(entry[key], serde_json::Value::Null);
    }
    let kept = "`env.HOMEPAGE`, `env.LANG`, `headers.X`";
    assert_eq!(
        applied.notes,
        [format!("`mcpServers.tasuki` keeps {kept}; take out what is not yours.")]
    );
    for (client, table) in [(Client::Opencode, "environment"), (Client::Codex, "env")] {
        let connection = self::connection(client, stdio(), false);
        let (fresh, _) = apply(&connection, "", false).unwrap();
        let mut document = Document::parse(client.row().format, &fresh).unwrap();
        let place = [client.row().table, "tasuki", table, "TASUKI_NODE"].map(str::to_owned);
        document.set(&place, &Value::text("http://127.0.0.1:9")).unwrap();
        let (text, applied) = apply(&connection, &document.text(), false).unwrap();
        let parsed = Document::parse(client.row().format, &text).unwrap();
        assert_eq!(parsed.get(&place[..3]), Ok(None), "{client:?}: {text}");
        assert_eq!((applied.changed.len(), applied.notes.len()), (1, 0), "{applied:?}");
    }
}

#[test]
fn an_entry_may_change_its_transport() {
    for client in [Client::ClaudeCode, Client::Codex, Client::Cline, Client::Opencode] {
        let (over_http, _) = apply(&connection(client, http(), false), "", false).unwrap();
        let (over_stdio, _) = apply(&connection(client, stdio(), false), "", false).unwrap();
        let there = apply(&connection(client, stdio(), false), &over_http, false).unwrap().0;
        let parse = |text: &str| {
            let format = client.row().format;
            Document::parse(format, text).unwrap().get(&[]).unwrap()
        };
        assert_eq!(parse(&there), parse(&over_stdio), "{client:?}");
        let back = apply(&connection(client, http(), false), &there, false).unwrap().0;
        assert_eq!(parse(&back), parse(&over_http), "{client:?}");
    }
}

#[test]
fn a_token_is_named_by_its_variable_and_only_where_it_is_used() {
    let guarded = || Endpoint::Http {
        url: "https://box.example:1/mcp/A?as=x&hold=9".into(),
        token_in: Some("TASUKI_AGENT_TOKEN_A".into()),
    };
    for client in [Client::ClaudeCode, Client::Codex, Client::Gemini, Client::Opencode] {
        let (open, _) = apply(&connection(client, http(), false), "", false).unwrap();
        let (with, _) = apply(&connection(client, guarded(), false), &open, false).unwrap();
        assert!(with.contains("TASUKI_AGENT_TOKEN_A"), "{with}");
        let (again, applied) = apply(&connection(client, guarded(), false), &with, false).unwrap();
        assert_eq!((&again, applied), (&with, Applied::default()), "{client:?}");
        for endpoint in [http(), stdio()] {
            let (without, _) = apply(&connection(client, endpoint, false), &with, false).unwrap();
            assert!(!without.contains("TASUKI_AGENT_TOKEN"), "{client:?} {without}");
        }
    }
    let old =
        r#"{"mcpServers": {"tasuki": {"url": "http://127.0.0.1:1/mcp/A", "headers": {"X": "1"}}}}"#;
    let (with, _) = apply(&connection(Client::Cursor, guarded(), false), old, false).unwrap();
    let read = |text: &str| {
        let read: serde_json::Value = serde_json::from_str(text).unwrap();
        read["mcpServers"]["tasuki"]["headers"].clone()
    };
    let bearer = "Bearer ${env:TASUKI_AGENT_TOKEN_A}";
    assert_eq!(read(&with), serde_json::json!({"X": "1", "Authorization": bearer}));
    let (without, _) = apply(&connection(Client::Cursor, http(), false), &with, false).unwrap();
    assert_eq!(read(&without), serde_json::json!({"X": "1"}));
}

#[test]
fn permission_once_given_is_not_taken_back_by_connecting_again() {
    for (client, kept) in [
        (Client::Codex, Some("`mcp_servers.tasuki` keeps `default_tools_approval_mode`")),
        (Client::Gemini, Some("`mcpServers.tasuki` keeps `trust`")),
        (Client::Cline, Some("`mcpServers.tasuki` keeps `autoApprove`")),
        (Client::Opencode, None),
        (Client::Zed, None),
    ] {
        let (allowed, _) = apply(&connection(client, http(), true), "", false).unwrap();
        let (again, applied) = apply(&connection(client, http(), false), &allowed, false).unwrap();
        // Where the permission stands in the entry it is named.
        let notes = kept.map(|kept| format!("{kept}; take out what is not yours."));
        let unchanged = Applied { notes: notes.into_iter().collect(), ..Applied::default() };
        assert_eq!((again, applied), (allowed, unchanged), "{client:?}");
    }
}

#[test]
fn entries_of_others_and_of_other_roles_are_replaced_only_by_force() {
    let theirs = r#"{"mcpServers": {"tasuki": {"command": "other"}}}"#;
    let other = r#"{"mcpServers": {"tasuki": {"url": "http://127.0.0.1:1/mcp/B"}}}"#;
    let connection = connection(Client::Cursor, http(), false);
    let keys = || "mcpServers.tasuki".to_owned();
    assert_eq!(apply(&connection, theirs, false), Err(Refused::Theirs { keys: keys() }));
    let role = "B".to_owned();
    assert_eq!(apply(&connection, other, false), Err(Refused::OtherRole { keys: keys(), role }));
    for old in [theirs, other] {
        let (text, applied) = apply(&connection, old, true).unwrap();
        let read = serde_json::from_str::<serde_json::Value>(&text).unwrap();
        let url = "http://127.0.0.1:1/mcp/A?as=x&hold=9";
        assert_eq!(read, serde_json::json!({"mcpServers": {"tasuki": {"url": url}}}));
        assert!(!applied.changed.is_empty());
    }
}

#[test]
fn a_rule_that_somebody_made_stays() {
    let (text, applied) =
        apply(&connection(Client::Opencode, http(), true), r#"{"permission": "ask"}"#, false)
            .unwrap();
    assert!(text.contains(r#""permission": "ask""#), "{text}");
    assert_eq!(applied.notes, ["`permission` was left alone: it says one thing for all tools."]);
    let denied = r#"{"permission": {"tasuki_*": "deny"}}"#;
    let (text, applied) =
        apply(&connection(Client::Opencode, http(), true), denied, false).unwrap();
    assert!(text.contains(r#""tasuki_*": "deny""#), "{text}");
    assert_eq!(applied.notes, ["`permission.tasuki_*` was left alone: it is \"deny\"."]);
}

#[test]
fn a_file_of_another_format_is_not_mistaken() {
    assert!(Document::parse(Format::Toml, "{\"a\": 1}").is_err());
    assert!(Document::parse(Format::Json, "a = 1").is_err());
}
