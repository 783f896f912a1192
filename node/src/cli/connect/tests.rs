//! What a plan changes in a file that is not new, and what it leaves.

use super::{
    client::{Client, Scope, Way},
    document::{Document, Format},
    place::{Around, System},
    plan::{self, Applied, Refused, Wish, plan},
};

fn around() -> Around {
    Around {
        system: System::Linux,
        home: "/home/u".into(),
        env: std::collections::BTreeMap::new(),
        directory: "/work".into(),
    }
}

fn wish(client: Client, way: Way, allow: bool) -> Wish {
    Wish {
        client,
        scope: Scope::User,
        name: "tasuki".into(),
        role: "A".into(),
        way,
        allow,
        tools: vec!["t1".into(), "t2".into()],
    }
}

fn http() -> Way {
    Way::Http { url: "http://127.0.0.1:1/mcp/A?as=x&hold=9".into(), token_in: None }
}

fn stdio() -> Way {
    let arguments = ["mcp", "--role", "A", "--as", "x"].map(str::to_owned);
    Way::Stdio { program: "/bin/tasuki".into(), arguments: arguments.into() }
}

/// Applies the first file's plan.
fn apply(wish: &Wish, text: &str, force: bool) -> Result<(String, Applied), Refused> {
    let (plans, _) = plan(wish, &around());
    let mut document = Document::parse(plans[0].format, text).unwrap();
    let applied = plan::apply(&plans[0], &mut document, force)?;
    Ok((document.text(), applied))
}

#[test]
fn an_entry_of_ours_is_brought_up_to_date_and_keeps_what_others_added() {
    let old = r#"{"mcpServers": {"tasuki": {
  // moved
  "type": "http", "url": "http://127.0.0.1:7/mcp/A?as=x&hold=9", "headers": {"X": "1"},
  "timeout": 5
}}}"#;
    let (text, applied) = apply(&wish(Client::ClaudeCode, http(), false), old, false).unwrap();
    let new = old.replace(":7/", ":1/").replace("\"timeout\": 5", "\"timeout\": 3600000");
    assert_eq!(text, new);
    assert_eq!(applied.changed, ["mcpServers.tasuki.url", "mcpServers.tasuki.timeout"]);
    let (text, applied) = apply(&wish(Client::ClaudeCode, http(), false), &new, false).unwrap();
    assert_eq!((text, applied), (new, Applied::default()));
}

#[test]
fn an_entry_may_change_its_transport() {
    for client in [Client::ClaudeCode, Client::Codex, Client::Cline, Client::Opencode] {
        let (over_http, _) = apply(&wish(client, http(), false), "", false).unwrap();
        let (over_stdio, _) = apply(&wish(client, stdio(), false), "", false).unwrap();
        let there = apply(&wish(client, stdio(), false), &over_http, false).unwrap().0;
        let parse = |text: &str| {
            let format = client.format();
            Document::parse(format, text).unwrap().get(&[]).unwrap()
        };
        assert_eq!(parse(&there), parse(&over_stdio), "{client:?}");
        let back = apply(&wish(client, http(), false), &there, false).unwrap().0;
        assert_eq!(parse(&back), parse(&over_http), "{client:?}");
    }
}

#[test]
fn a_token_is_named_by_its_variable_and_only_where_it_is_used() {
    let guarded = || Way::Http {
        url: "https://box.example:1/mcp/A?as=x&hold=9".into(),
        token_in: Some("TASUKI_AGENT_TOKEN_A".into()),
    };
    for client in [Client::ClaudeCode, Client::Codex, Client::Gemini, Client::Opencode] {
        let (open, _) = apply(&wish(client, http(), false), "", false).unwrap();
        let (with, _) = apply(&wish(client, guarded(), false), &open, false).unwrap();
        assert!(with.contains("TASUKI_AGENT_TOKEN_A"), "{with}");
        let (again, applied) = apply(&wish(client, guarded(), false), &with, false).unwrap();
        assert_eq!((&again, applied), (&with, Applied::default()), "{client:?}");
        for way in [http(), stdio()] {
            let (without, _) = apply(&wish(client, way, false), &with, false).unwrap();
            assert!(!without.contains("TASUKI_AGENT_TOKEN"), "{client:?} {without}");
        }
    }
    let old =
        r#"{"mcpServers": {"tasuki": {"url": "http://127.0.0.1:1/mcp/A", "headers": {"X": "1"}}}}"#;
    let (with, _) = apply(&wish(Client::Cursor, guarded(), false), old, false).unwrap();
    let read = |text: &str| {
        let read: serde_json::Value = serde_json::from_str(text).unwrap();
        read["mcpServers"]["tasuki"]["headers"].clone()
    };
    let bearer = "Bearer ${env:TASUKI_AGENT_TOKEN_A}";
    assert_eq!(read(&with), serde_json::json!({"X": "1", "Authorization": bearer}));
    let (without, _) = apply(&wish(Client::Cursor, http(), false), &with, false).unwrap();
    assert_eq!(read(&without), serde_json::json!({"X": "1"}));
}

#[test]
fn permission_once_given_is_not_taken_back_by_connecting_again() {
    for client in [Client::Codex, Client::Gemini, Client::Cline, Client::Opencode, Client::Zed] {
        let (allowed, _) = apply(&wish(client, http(), true), "", false).unwrap();
        let (again, applied) = apply(&wish(client, http(), false), &allowed, false).unwrap();
        assert_eq!((again, applied), (allowed, Applied::default()), "{client:?}");
    }
}

#[test]
fn entries_of_others_and_of_other_roles_are_replaced_only_by_force() {
    let theirs = r#"{"mcpServers": {"tasuki": {"command": "other"}}}"#;
    let other = r#"{"mcpServers": {"tasuki": {"url": "http://127.0.0.1:1/mcp/B"}}}"#;
    let wish = wish(Client::Cursor, http(), false);
    let keys = || "mcpServers.tasuki".to_owned();
    assert_eq!(apply(&wish, theirs, false), Err(Refused::Theirs { keys: keys() }));
    let role = "B".to_owned();
    assert_eq!(apply(&wish, other, false), Err(Refused::OtherRole { keys: keys(), role }));
    for old in [theirs, other] {
        let (text, applied) = apply(&wish, old, true).unwrap();
        let read = serde_json::from_str::<serde_json::Value>(&text).unwrap();
        let url = "http://127.0.0.1:1/mcp/A?as=x&hold=9";
        assert_eq!(read, serde_json::json!({"mcpServers": {"tasuki": {"url": url}}}));
        assert!(!applied.changed.is_empty());
    }
}

#[test]
fn a_rule_that_somebody_made_stays() {
    let (text, applied) =
        apply(&wish(Client::Opencode, http(), true), r#"{"permission": "ask"}"#, false).unwrap();
    assert!(text.contains(r#""permission": "ask""#), "{text}");
    assert_eq!(applied.notes, ["`permission` was left alone: it says one thing for all tools."]);
    let denied = r#"{"permission": {"tasuki_*": "deny"}}"#;
    let (text, applied) = apply(&wish(Client::Opencode, http(), true), denied, false).unwrap();
    assert!(text.contains(r#""tasuki_*": "deny""#), "{text}");
    assert_eq!(applied.notes, ["`permission.tasuki_*` was left alone: it is \"deny\"."]);
}

#[test]
fn a_file_of_another_format_is_not_mistaken() {
    assert!(Document::parse(Format::Toml, "{\"a\": 1}").is_err());
    assert!(Document::parse(Format::Json, "a = 1").is_err());
}
