//! What each client is given, in a home where nothing is: every way it can be asked for.
//!
//! What came out differently is written to the directory the failure names.

use std::{fmt::Write as _, fs, path::Path};

use crate::connect::home::{CLIENTS, Home};

const LINES: [&str; 4] = [
    "connect CLIENT --role A",
    "connect CLIENT --role A --allow",
    "connect CLIENT --role A --transport stdio",
    "connect CLIENT --role A --scope project --allow",
];

fn golden(client: &str) -> String {
    let mut out = String::new();
    for line in LINES {
        let line = line.replace("CLIENT", client);
        let home = Home::new();
        writeln!(out, "$ tasuki {line}").unwrap();
        let print = home.run(&format!("{line} --print --json"));
        let said = home.run(&line);
        if said.code != 0 {
            writeln!(out, "{}", said.err).unwrap();
            continue;
        }
        let print: serde_json::Value = serde_json::from_str(&print.out).unwrap();
        let instance = print["as"].as_str().unwrap().to_owned();
        out += &home.plain(&said.out, &instance);
        let files = home.files();
        for (path, text) in &files {
            writeln!(out, "--- ~/{path}").unwrap();
            out += &home.plain(text, &instance);
        }
        // In a new home what is printed is what is written.
        for file in print["files"].as_array().unwrap() {
            if let Some(path) = file["path"].as_str() {
                let path = Path::new(path).strip_prefix(home.path()).unwrap();
                assert_eq!(file["text"], files[&path.display().to_string()], "{line}");
            }
        }
        out.push('\n');
    }
    out
}

#[test]
fn each_client_is_given_what_it_understands() {
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/connect/goldens");
    let came_out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("goldens");
    let mut different = Vec::new();
    for client in CLIENTS {
        let name = format!("{client}.txt");
        let (golden, expected) = (golden(client), fs::read_to_string(goldens.join(&name)));
        if expected.ok().as_ref() != Some(&golden) {
            fs::create_dir_all(&came_out).unwrap();
            fs::write(came_out.join(&name), golden).unwrap();
            different.push(client);
        }
    }
    assert!(different.is_empty(), "{different:?}: see {}", came_out.display());
}

/// A client that allows each tool by its name is given those that its role is shown, no others.
#[test]
fn a_role_is_allowed_the_tools_it_is_shown() {
    let mut out = String::new();
    for role in ["A", "lead", "worker-1", "acceptor"] {
        let home = Home::new();
        home.done(&format!("connect cline --role {role} --allow"));
        let text = home.read(".cline/data/settings/cline_mcp_settings.json");
        let file: serde_json::Value = serde_json::from_str(&text).unwrap();
        let allowed = file["mcpServers"]["tasuki"]["autoApprove"].as_array().unwrap().iter();
        writeln!(out, "{role}").unwrap();
        for tool in allowed {
            writeln!(out, "  {}", tool.as_str().unwrap()).unwrap();
        }
    }
    assert_eq!(out, include_str!("goldens/allowed.golden"), "{out}");
}
