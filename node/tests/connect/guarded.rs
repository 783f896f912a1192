//! Connecting to a node that is guarded: what its token is for stays out of every file.

use std::fs;

use serde_json::Value;
use tasuki_node::{
    agent_tokens::{AgentTokens, Bearing},
    paths::NodeFile,
};

use crate::connect::home::{CLIENTS, Home};

const FINGERPRINT: &str = "AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:\
                           AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA";

/// A guarded node of this process, as far as others can tell.
fn run_a_node(home: &Home, vouched: Option<&str>) {
    let file = NodeFile {
        pid: std::process::id(),
        mcp: "https://127.0.0.1:12345".into(),
        fingerprint: Some(FINGERPRINT.into()),
        vouched: vouched.map(Into::into),
        broker: String::new(),
        has_brief_broker: false,
        workspace: "default".into(),
        roles: vec!["A".into()],
        toolsets: Default::default(),
    };
    file.write(&home.data()).unwrap();
    let bearings = [Bearing::Node, Bearing::Role("A".parse().unwrap())];
    AgentTokens::with(&home.data(), bearings).unwrap();
}

/// That no file of a client, and nothing printed, has a token or part of one.
fn has_no_secret(home: &Home, said: &str) {
    let tokens = AgentTokens::read(&home.data()).unwrap();
    for (_, token) in tokens.iter() {
        let secret = token.secret.expose();
        assert!(!said.contains(&secret), "{said}");
        assert!(home.files().values().all(|text| !text.contains(&secret)), "{said}");
    }
}

#[test]
fn every_client_is_connected_over_stdio_and_told_why() {
    for client in CLIENTS {
        let scopes = if client == "cline" { &["user"][..] } else { &["user", "project"] };
        for scope in scopes {
            let home = Home::new();
            run_a_node(&home, None);
            let said = home.json(&format!("connect {client} --scope {scope}"));
            assert_eq!(said["transport"], "stdio", "{client}");
            let args: Vec<&str> =
                said["args"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
            assert_eq!(args[..3], ["mcp", "--role", "A"], "{client}");
            assert!(!args.contains(&"--node"), "the running node is found each time: {args:?}");
            let notes = said["notes"].to_string();
            assert_eq!(notes.contains("the node is guarded"), client != "junie", "{notes}");
            has_no_secret(&home, &said.to_string());
            if client != "jetbrains" {
                assert!(
                    home.json(&format!("connect {client} --scope {scope}"))["files"][0]["change"]
                        == "unchanged"
                );
            }
        }
    }
}

#[test]
fn over_http_a_client_is_told_a_variable_or_nothing_at_all() {
    for (client, expected) in [
        ("claude-code", Some("\"Authorization\": \"Bearer ${TASUKI_AGENT_TOKEN_A}\"")),
        ("codex", Some("bearer_token_env_var = \"TASUKI_AGENT_TOKEN_A\"")),
        ("gemini", Some("\"Authorization\": \"Bearer ${TASUKI_AGENT_TOKEN_A}\"")),
        ("cursor", Some("\"Authorization\": \"Bearer ${env:TASUKI_AGENT_TOKEN_A}\"")),
        ("opencode", Some("\"Authorization\": \"Bearer {env:TASUKI_AGENT_TOKEN_A}\"")),
        ("vscode", None),
        ("cline", None),
        ("zed", None),
        ("jetbrains", None),
    ] {
        let line = format!("connect {client} --transport http");
        let own = Home::new();
        run_a_node(&own, None);
        let refused = own.run(&line);
        assert_eq!(refused.code, 2, "{client}: {refused:?}");
        assert!(own.files().is_empty(), "{client}");
        let vouched = Home::new();
        run_a_node(&vouched, Some("https://box.example:12345"));
        let said = vouched.run(&line);
        assert_eq!(said.code == 0, expected.is_some(), "{client}: {said:?}");
        let Some(expected) = expected else { continue };
        let files = vouched.files();
        let (_, text) = files.iter().next().unwrap();
        assert!(text.contains(expected), "{client}: {text}");
        assert!(text.contains("https://box.example:12345/mcp/A?as="), "{client}: {text}");
        assert!(said.out.contains("Set the variable TASUKI_AGENT_TOKEN_A"), "{}", said.out);
        has_no_secret(&vouched, &said.out);
        // And back.
        vouched.done(&format!("connect {client}"));
        assert!(vouched.files().values().all(|it| !it.contains("AGENT_TOKEN")), "{client}");
    }
}

#[test]
fn the_token_for_a_node_elsewhere_is_kept_here_for_this_user() {
    let home = Home::new();
    let line = format!(
        "connect claude-code --role A --scope project --node https://box.example:7421 \
         --fingerprint {FINGERPRINT}"
    );
    let refused = home.run(&line);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("set TASUKI_AGENT_TOKEN"), "{}", refused.err);
    assert!(home.files().is_empty());

    let token = "tasuki_0011_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let mut command = home.command(&format!("{line} --json"));
    let output = command.env("TASUKI_AGENT_TOKEN", token).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let args: Vec<&str> =
        said["args"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    let after = |flag: &str| args[1 + args.iter().position(|it| *it == flag).unwrap()];
    assert_eq!(after("--node"), "https://box.example:7421");
    assert_eq!(after("--fingerprint"), FINGERPRINT);
    let kept = after("--token-file");
    assert_eq!(fs::read_to_string(kept).unwrap(), token);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(kept).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert!(home.files().values().all(|text| !text.contains("AAAAAAAA")));
    assert!(!said.to_string().contains("AAAAAAAA"));
}
