//! What is not touched, and what is said about it.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use crate::connect::home::{Home, Said, said};

/// Runs what must be refused, and looks that no file changed.
fn refuse(home: &Home, line: &str, code: i32, why: &str) {
    let (files, backups) = (home.files(), home.backups());
    let said = home.run(line);
    assert_eq!(said.code, code, "{line}: {said:?}");
    assert!(said.err.contains(why), "{line}: {said:?}");
    assert_eq!((home.files(), home.backups()), (files, backups), "{line}");
}

#[test]
fn malformed_files_are_left_as_they_are() {
    for (client, path, text, line) in [
        ("claude-code", ".claude.json", "{\n  \"a\": 1,\n  \"b\n}", 3),
        ("codex", ".codex/config.toml", "a = 1\n[b\n", 2),
        ("zed", ".config/zed/settings.json", "{ \"a\": 1 \"b\": 2 }", 1),
        ("cline", ".cline/data/settings/cline_mcp_settings.json", "{} {}", 1),
    ] {
        let home = Home::new();
        let path = home.write(path, text);
        let why = format!("{}:{line}: ", path.display());
        refuse(&home, &format!("connect {client} --role A"), 5, &why);
        refuse(&home, &format!("disconnect {client}"), 5, &why);
    }
}

#[test]
fn nothing_is_written_when_the_second_file_is_malformed() {
    let home = Home::new();
    home.write(".claude/settings.json", "{\"permissions\": \"all\"}");
    let why = "`permissions` is not a table";
    refuse(&home, "connect claude-code --role A --allow", 5, why);
    home.write(".claude/settings.json", "\n\n{");
    refuse(&home, "connect claude-code --role A --allow", 5, "settings.json:3: ");
    home.done("connect claude-code --role A");
}

#[test]
fn what_cannot_be_written_is_said() {
    let home = Home::new();
    let path = home.write(".codex/config.toml", "a = 1\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    refuse(&home, "connect codex --role A", 5, "is read-only and was not changed");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    refuse(&home, "connect codex --role A", 5, "it is not a file");
    fs::remove_dir(&path).unwrap();
    std::os::unix::fs::symlink(home.path().join("nowhere"), &path).unwrap();
    let said = home.run("connect codex --role A");
    assert!(said.code == 5 && said.err.contains("nowhere, which does not exist"), "{said:?}");
    fs::remove_file(&path).unwrap();
    fs::write(&path, b"a = \"\xff\"\n").unwrap();
    let said = home.run("connect codex --role A");
    assert!(said.code == 5 && said.err.contains("invalid utf-8"), "{said:?}");
}

#[test]
fn a_link_that_came_with_a_project_is_not_followed() {
    use std::os::unix::fs::symlink;
    let home = Home::new();
    let elsewhere = home.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    for folder in [".claude", ".cursor"] {
        symlink(&elsewhere, home.project().join(folder)).unwrap();
    }
    fs::write(elsewhere.join("settings"), "{}").unwrap();
    symlink(elsewhere.join("settings"), home.project().join(".mcp.json")).unwrap();
    let folder = "is a link, and links are not followed here; put a directory in its place";
    refuse(&home, "connect cursor --role A --scope project", 5, folder);
    refuse(&home, "lock-hook install --claude", 5, folder);
    let file = ".mcp.json is a link, and links are not followed";
    refuse(&home, "connect claude-code --role A --scope project", 5, file);
    // A user's own settings may be kept anywhere.
    symlink(&elsewhere, home.path().join(".cursor")).unwrap();
    home.done("connect cursor --role A");
    assert!(elsewhere.join("mcp.json").is_file());
}

#[test]
fn a_hook_of_a_role_that_is_not_configured_is_told_of() {
    let home = Home::new();
    let typed = |role: &str| home.run(&format!("lock-hook install --claude --as {role}"));
    let warning = "which is no role of this node";
    let said = typed("ghost");
    assert!(said.code == 0 && !said.err.contains(warning), "nobody says which there are: {said:?}");
    home.write(".config/tasuki/tasuki.toml", "roles = [\"A\"]\n");
    let said = typed("ghost");
    assert!(said.code == 0 && said.err.contains(&format!("ghost, {warning}")), "{said:?}");
    let said = typed("A");
    assert!(said.code == 0 && !said.err.contains(warning), "{said:?}");
}

#[test]
fn entries_of_others_are_left_unless_forced() {
    let home = Home::new();
    let text = "{\"mcpServers\": {\"tasuki\": {\"command\": \"other\"}}}";
    home.write(".cursor/mcp.json", text);
    let why = "`mcpServers.tasuki` in";
    refuse(&home, "connect cursor --role A", 5, why);
    refuse(&home, "disconnect cursor", 5, why);
    home.done("connect cursor --role A --force");
    refuse(&home, "connect cursor --role B", 5, "connects role A");
    refuse(&home, "disconnect cursor --role B", 5, "connects role A, not B");
    home.done("connect cursor --role B --force");
    home.done("disconnect cursor --role B");
    // The second time was about an entry of ours: it leads back to before the first.
    assert_eq!(home.read(".cursor/mcp.json"), text);
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_read() {
    let home = Home::new();
    for (line, why) in [
        ("connect codex", "Specify --role. Available: A, B."),
        ("connect codex --role A --name a_b", "--name takes letters, digits and `-`"),
        ("connect codex --role A --name=-", "begins with a letter or a digit"),
        ("disconnect codex --name ../x", "--name takes letters, digits and `-`"),
        ("connect cline --role A --scope project", "no configuration of servers per project"),
        ("connect junie --role A --transport http", "Junie has no http transport"),
        ("connect codex --role A --hold soon", "`hold`"),
        ("connect codex --role A --node 127.0.0.1:7421", "a node without a path"),
        ("connect codex --role A --node localhost:7421", "a node without a path"),
        ("connect codex --role A --node ftp://127.0.0.1", "a node without a path"),
        ("connect codex --role A --node http://127.0.0.1:7421/mcp/A", "a node without a path"),
        ("connect codex --role A --node http://127.0.0.1:7421/?a=b", "a node without a path"),
        ("connect junie --role A --node http://", "a node without a path"),
        ("connect emacs --role A", "invalid value 'emacs'"),
    ] {
        refuse(&home, line, 2, why);
    }
    let line = "connect codex --role A --transport http";
    let mut command = home.command(line);
    let output = command.env("TASUKI_LISTEN", "127.0.0.1:0").output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(!home.data().exists());
}

#[test]
fn a_record_that_cannot_be_read_stops_everything() {
    let home = Home::new();
    home.done("connect codex --role A");
    fs::write(home.data().join("install-log.json"), "{").unwrap();
    refuse(&home, "disconnect codex", 5, "install-log.json cannot be read");
    fs::remove_file(home.data().join("install-log.json")).unwrap();
    // Without it the entry is known by what it says.
    home.done("disconnect codex");
    assert!(!home.read(".codex/config.toml").contains("tasuki"));
}

/// Runs a line where no file may grow beyond two blocks, as on a disk that is nearly full.
fn run_on_a_full_disk(home: &Home, line: &str) -> Said {
    let tasuki = env!("CARGO_BIN_EXE_tasuki");
    let script = format!("trap '' XFSZ; ulimit -f 2; exec {tasuki} {line}");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).env_clear().env("HOME", home.path()).current_dir(home.project());
    said(&command.output().unwrap())
}

#[test]
fn on_a_full_disk_nothing_is_lost_and_nothing_left_behind() {
    const MORE_THAN_FITS: usize = 8192;
    let line = "connect claude-code --role A --allow";
    // The file itself, or its backup, does not fit.
    let home = Home::new();
    let long = format!("{{\n  \"a\": \"{}\"\n}}\n", "x".repeat(MORE_THAN_FITS));
    home.write(".claude.json", &long);
    let said = run_on_a_full_disk(&home, line);
    assert!(said.code == 5 && said.err.contains("Nothing was changed"), "{said:?}");
    assert_eq!((home.read(".claude.json"), home.files().len()), (long, 1));
    assert_eq!(home.backups(), [] as [std::path::PathBuf; 0]);

    // What is noted of it does not fit: then it is not done, for nobody could take it back.
    let home = Home::new();
    let note = home.write(".local/share/tasuki/install-log.json", "");
    let others = r#"{"files": {"/x": {"created": true, "parts": {"LONG": []}}}}"#;
    fs::write(&note, others.replace("LONG", &"x".repeat(MORE_THAN_FITS))).unwrap();
    let before = home.files();
    let said = run_on_a_full_disk(&home, line);
    assert!(said.code == 5 && said.err.contains("install-log.json cannot be written"), "{said:?}");
    assert_eq!(home.files(), before);
    let kept: Vec<_> =
        fs::read_dir(home.data()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(kept, ["install-log.json"]);
    home.done(line);
    home.done("disconnect claude-code");
    assert_eq!(home.files(), before);
}

#[test]
fn variables_that_came_with_a_project_are_not_vouched_for() {
    let home = Home::new();
    let brought = serde_json::json!({"mcpServers": {
        "tasuki": {
            "command": "tasuki", "args": ["mcp", "--role", "A"], "headers": {"X": "1"},
            "env": {"TASUKI_NODE": "http://127.0.0.1:9", "LANG": "C"},
        },
        "other": {"command": "o", "env": {"TASUKI_NODE": "theirs"}},
    }});
    home.write("project/.mcp.json", &brought.to_string());
    let line = "connect claude-code --role A --scope project --transport stdio";
    let said = home.json(line);
    let written =
        || -> serde_json::Value { serde_json::from_str(&home.read("project/.mcp.json")).unwrap() };
    let entry = written()["mcpServers"]["tasuki"].clone();
    assert!(entry.get("env").is_none() && entry.get("headers").is_none(), "{entry}");
    assert_eq!(written()["mcpServers"]["other"], brought["mcpServers"]["other"]);
    let notes = said["notes"].to_string();
    assert!(notes.contains("removed: `env.LANG`, `env.TASUKI_NODE`, `headers.X`"), "{notes}");

    // What comes into an entry of ours later, by a pull say, may not steer it either.
    let mut pulled = written();
    pulled["mcpServers"]["tasuki"]["env"] =
        serde_json::json!({"TASUKI_NODE": "http://127.0.0.1:9", "LANG": "C"});
    home.write("project/.mcp.json", &pulled.to_string());
    let said = home.json(line);
    let entry = written()["mcpServers"]["tasuki"].clone();
    assert_eq!(entry["env"], serde_json::json!({"LANG": "C"}));
    assert!(said["notes"].to_string().contains("keeps `env.LANG`"), "{said}");
}
