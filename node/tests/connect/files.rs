//! Links, modes, many at once, and what a running node says.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Stdio};

use tasuki_node::paths::NodeFile;

use crate::connect::home::{Home, said};

const CODEX: &str = ".codex/config.toml";

#[test]
fn a_link_stays_a_link_and_a_mode_stays_a_mode() {
    let home = Home::new();
    let real = home.write("dotfiles/codex.toml", "a = 1\n");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    let link = home.write(CODEX, "");
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    for line in ["connect codex --role A", "disconnect codex"] {
        home.done(line);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "{line}");
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640, "{line}");
        assert_eq!(home.read("dotfiles/codex.toml").contains("tasuki"), line.starts_with('c'));
    }
    assert_eq!(fs::read_dir(real.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn new_files_of_a_user_are_private_and_backups_too() {
    let home = Home::new();
    home.done("connect cursor --role A");
    let mode = |path: &std::path::PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&home.path().join(".cursor/mcp.json")), 0o600);
    home.done("connect cursor --role B --name b");
    assert_eq!(home.backups().iter().map(mode).collect::<Vec<_>>(), [0o600]);
}

#[test]
fn many_at_once_all_get_in() {
    const MANY: usize = 12;
    let home = Home::new();
    let start = |number: usize| {
        // Every other one has a data directory of its own, and so a lock of its own.
        let data =
            if number.is_multiple_of(2) { String::new() } else { format!("--data d{number}") };
        let line = format!("connect claude-code --role A --name n{number} --allow {data}");
        let mut command = home.command(&line);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let running: Vec<_> = (0..MANY).map(start).collect();
    for one in running {
        let said = said(&one.wait_with_output().unwrap());
        assert_eq!(said.code, 0, "{said:?}");
    }
    let read = |path| serde_json::from_str::<serde_json::Value>(&home.read(path)).unwrap();
    assert_eq!(read(".claude.json")["mcpServers"].as_object().unwrap().len(), MANY);
    let allowed = &read(".claude/settings.json")["permissions"]["allow"];
    assert_eq!(allowed.as_array().unwrap().len(), MANY);
}

/// A node of this process, as far as others can tell.
fn run_a_node(home: &Home, roles: &[&str]) -> NodeFile {
    let roles = roles.iter().map(|role| (*role).to_owned()).collect();
    let file = NodeFile {
        pid: std::process::id(),
        mcp: "http://127.0.0.1:12345".into(),
        fingerprint: None,
        vouched: None,
        broker: String::new(),
        has_brief_broker: false,
        workspace: "default".into(),
        roles,
        toolsets: Default::default(),
    };
    file.write(&home.data()).unwrap();
    file
}

#[test]
fn a_running_node_says_where_it_is_and_which_role_it_has() {
    let home = Home::new();
    run_a_node(&home, &["worker"]);
    let said = home.json("connect codex");
    let instance = said["as"].as_str().unwrap();
    let url = format!("http://127.0.0.1:12345/mcp/worker?as={instance}&hold=1500");
    assert_eq!((&said["url"], &said["node_is_running"]), (&url.into(), &true.into()));
    let elsewhere =
        home.json("connect codex --role A --node http://127.0.0.1:9/ --hold 20 --force");
    let url = elsewhere["url"].as_str().unwrap();
    assert!(url.starts_with("http://127.0.0.1:9/mcp/A?as=codex-") && url.ends_with("&hold=20"));

    let mut command = home.command("connect codex --role B");
    let unsaid = crate::connect::home::said(&command.env("TASUKI_NODE", "").output().unwrap());
    assert_eq!(unsaid.code, 1, "a variable without a value says nothing: {unsaid:?}");

    let said = home.run("connect codex --role B");
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("does not host B. It hosts: worker. (unknown_role)"), "{said:?}");
    run_a_node(&home, &["lead", "worker"]);
    let said = home.run("connect codex");
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("--role. Available: lead, worker."), "{said:?}");
}

#[test]
fn the_command_names_the_data_directory_only_when_it_is_not_the_usual_one() {
    let home = Home::new();
    let line = "connect junie --role A";
    let usual = home.json(line);
    let instance = usual["as"].as_str().unwrap();
    let expected = ["mcp", "--role", "A", "--as", instance, "--hold", "45"];
    assert_eq!(usual["args"], serde_json::json!(expected));
    let other = home.json(&format!("{line} --data elsewhere"));
    let data = home.project().join("elsewhere");
    let expected = [&["--data", data.to_str().unwrap()], &expected[..]].concat();
    assert_eq!(other["args"], serde_json::json!(expected));
    assert_eq!(other["as"], instance);
    let project = home.json(&format!("{line} --scope project"));
    assert_ne!(project["as"], instance);
}

#[test]
fn the_command_that_starts_a_node_is_one_that_hosts_the_role_and_finds_the_data() {
    let home = Home::new();
    let first = |line: &str| home.json(line)["next"][0].as_str().unwrap().to_owned();
    let none = |start: &str| format!("No node is running: start one with `{start}`.");
    assert_eq!(first("connect codex --role B"), none("tasuki up"));
    assert_eq!(first("connect codex --role C --name c"), none("tasuki up --role C"));
    let data = home.project().join("it's here");
    let mut command = home.command("connect codex --role C --name c --json --data");
    let output = command.arg("it's here").output().unwrap();
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let data = data.to_str().unwrap().replace('\'', r"'\''");
    let start = format!("tasuki --data '{data}' up --role C");
    assert_eq!(said["next"][0].as_str(), Some(&none(&start)[..]));
}

#[test]
fn printing_writes_nothing() {
    let home = Home::new();
    let before = home.write(CODEX, "this is not TOML");
    for client in ["codex --role A --allow", "jetbrains --role A", "zed --role A --scope project"] {
        home.done(&format!("connect {client} --print"));
    }
    assert_eq!(fs::read_to_string(before).unwrap(), "this is not TOML");
    assert_eq!((home.files().len(), home.data().exists()), (1, false));
}
