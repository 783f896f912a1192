//! Files in which others wrote before: what they wrote stays, to the byte.

use std::fs;

use crate::connect::home::Home;

/// A client, its file, and what somebody keeps in it.
const KEPT: [(&str, &str, &str); 9] = [
    (
        "claude-code",
        ".claude.json",
        "{\n  \"numStartups\": 12,\n  \"mcpServers\": {\n    \"other\": {\n      \"type\": \
         \"stdio\",\n      \"command\": \"other\"\n    }\n  },\n  \"projects\": {}\n}",
    ),
    (
        "codex",
        ".codex/config.toml",
        "# mine\nmodel = \"m\"  # the good one\n\n[mcp_servers.other] # another\ncommand = \
         'other'\nargs = [\n  \"a\", # first\n]\n\n[tui]\nnotifications = true\n",
    ),
    (
        "gemini",
        ".gemini/settings.json",
        "{\n\t// tabs\n\t\"theme\": \"dark\",\n\t\"mcpServers\": {\n\t\t\"other\": \
         {\n\t\t\t\"command\": \"other\"\n\t\t}\n\t}\n}\n",
    ),
    (
        "cursor",
        ".cursor/mcp.json",
        "{\r\n    \"mcpServers\": {\r\n        \"other\": { \"url\": \"http://o/\" }\r\n    \
         }\r\n}\r\n",
    ),
    (
        "vscode",
        ".config/Code/User/mcp.json",
        "\u{feff}{\n  \"servers\": {\n    /* the other */\n    \"other\": { \"command\": \"o\" },\n  \
         },\n  \"inputs\": [],\n}\n",
    ),
    (
        "cline",
        ".cline/data/settings/cline_mcp_settings.json",
        "{\n  \"mcpServers\": {\n    \"other\": {\n      \"transport\": {\n        \"type\": \
         \"stdio\",\n        \"command\": \"o\"\n      },\n      \"disabled\": true\n    }\n  \
         }\n}\n",
    ),
    (
        "opencode",
        ".config/opencode/opencode.jsonc",
        "{\n  \"$schema\": \"https://opencode.ai/config.json\",\n  \"mcp\": {\n    // the other\n    \
         \"other\": { \"type\": \"local\", \"command\": [\"o\"] }\n  },\n  \"permission\": {\n    \
         \"bash\": \"ask\"\n  }\n}\n",
    ),
    (
        "zed",
        ".config/zed/settings.json",
        "// Zed settings\n//\n{\n  \"ui_font_size\": 16,\n  // agents\n  \"context_servers\": {\n    \
         \"other\": {\n      \"command\": \"o\",\n    },\n  },\n}\n",
    ),
    ("junie", ".junie/mcp/mcp.json", "{\n  \"mcpServers\": {}\n}\n"),
];

/// Holds K1, K2, K3 and K4.
#[test]
fn a_file_is_given_back_as_it_was() {
    for (client, path, before) in KEPT {
        let home = Home::new();
        home.write(path, before);
        let said = home.json(&format!("connect {client} --role A --allow"));
        let with = home.read(path);
        assert_eq!(said["files"][0]["change"], "changed", "{client}: {said}");
        // An empty table is opened for what is put into it.
        let mut lines = with.lines();
        for line in before.lines().map(|line| line.trim_end_matches(['}', ','])) {
            assert!(lines.any(|there| there.starts_with(line)), "{client}: {line} in {with}");
        }
        let backup = said["files"][0]["backup"].as_str().unwrap();
        assert_eq!(fs::read_to_string(backup).unwrap(), before, "{client}");

        let backups = home.backups();
        let again = home.json(&format!("connect {client} --role A --allow"));
        for file in again["files"].as_array().unwrap() {
            assert_eq!((&file["change"], &file["backup"]), (&"unchanged".into(), &().into()));
        }
        assert_eq!((home.read(path), home.backups()), (with, backups), "{client}");

        home.done(&format!("disconnect {client}"));
        assert_eq!(home.read(path), before, "{client}");
        assert_eq!(home.files().len(), 1, "{client}: {:?}", home.files());
        assert!(home.done(&format!("disconnect {client}")).contains("nothing was changed"));
    }
}

#[test]
fn what_was_written_meanwhile_stays_too() {
    for (client, path, before) in KEPT {
        let home = Home::new();
        home.write(path, before);
        home.done(&format!("connect {client} --role A --allow"));
        // The client itself, or its user, goes on writing; comments are not JSON for everybody,
        // but all of these files are read by a program that takes them.
        let mark = if client == "codex" { "# meanwhile\n" } else { "// meanwhile\n" };
        let put = |text: &str| match text.strip_prefix('\u{feff}') {
            Some(text) => format!("\u{feff}{mark}{text}"),
            None => format!("{mark}{text}"),
        };
        home.write(path, &put(&home.read(path)));
        home.done(&format!("disconnect {client}"));
        assert_eq!(home.read(path), put(before), "{client}");
    }
}

#[test]
fn where_nothing_was_nothing_is_left() {
    for (client, _, _) in KEPT {
        for scope in ["user", "project"] {
            if (client, scope) == ("cline", "project") {
                continue;
            }
            let home = Home::new();
            let line = format!("{client} --scope {scope}");
            home.done(&format!("connect {line} --role A --allow"));
            assert!(!home.files().is_empty(), "{line}");
            home.done(&format!("disconnect {line}"));
            assert_eq!(home.files().len(), 0, "{line}: {:?}", home.files());
            assert_eq!(home.backups().len(), 0, "{line}");
        }
    }
}

#[test]
fn two_roles_in_one_client_come_and_go_by_their_names() {
    for (client, path, before) in KEPT {
        for first in ["tasuki", "tasuki-b"] {
            let home = Home::new();
            home.write(path, before);
            home.done(&format!("connect {client} --role A --allow"));
            home.done(&format!("connect {client} --role B --name tasuki-b --allow"));
            let both = home.read(path);
            assert!(both.contains("tasuki\"") || both.contains("tasuki]"), "{client}: {both}");
            assert!(both.contains("tasuki-b"), "{client}: {both}");
            let second = if first == "tasuki" { "tasuki-b" } else { "tasuki" };
            home.done(&format!("disconnect {client} --name {first}"));
            assert!(home.read(path).contains("tasuki"), "{client} {first}");
            home.done(&format!("disconnect {client} --name {second}"));
            assert_eq!(home.read(path), before, "{client} {first}");
        }
    }
}

#[test]
fn two_roles_where_nothing_was_leave_nothing() {
    let home = Home::new();
    for client in ["claude-code", "codex", "cursor"] {
        home.done(&format!("connect {client} --role A --allow"));
        home.done(&format!("connect {client} --role B --name other --allow"));
        home.done(&format!("disconnect {client} --role A"));
        home.done(&format!("disconnect {client} --name other"));
        assert_eq!(home.files().len(), 0, "{client}: {:?}", home.files());
    }
}

#[test]
fn disconnecting_takes_out_an_entry_that_was_changed_after_others_wrote() {
    for (client, path, before) in KEPT.into_iter().filter(|(client, _, _)| *client != "junie") {
        for is_noted in [true, false] {
            let home = Home::new();
            home.write(path, before);
            home.done(&format!("connect {client} --role A --allow"));
            let mark = if client == "codex" { "# meanwhile\n" } else { "// meanwhile\n" };
            home.write(path, &format!("{}{mark}", home.read(path)));
            if !is_noted {
                fs::remove_dir_all(home.data()).unwrap();
            }
            home.done(&format!("connect {client} --role A --transport stdio"));
            assert!(home.read(path).contains("--role"), "{client}");
            home.done(&format!("disconnect {client}"));
            let after = home.read(path);
            assert!(!after.contains("--role") && !after.contains("/mcp/A"), "{client}: {after}");
            assert!(after.contains(mark), "{client}: {after}");
            // What goes unnoted beside the entry stays.
            assert!(!is_noted || !after.contains("tasuki"), "{client}: {after}");
            let again = home.done(&format!("disconnect {client}"));
            assert!(again.contains("nothing was changed"), "{client}: {again}");
        }
    }
}

#[test]
fn an_entry_is_found_in_each_file_that_its_client_reads() {
    let home = Home::new();
    for (scope, at) in [("user", ".config/opencode"), ("project", "project")] {
        let line = format!("opencode --scope {scope}");
        home.done(&format!("connect {line} --role A --allow"));
        // Its user goes over to the other name, which wins.
        home.write(&format!("{at}/opencode.jsonc"), "{}");
        home.done(&format!("connect {line} --role A"));
        home.done(&format!("disconnect {line}"));
        let left = home.files();
        assert_eq!(left.into_values().collect::<Vec<_>>(), ["{}"], "{scope}");
        fs::remove_file(home.path().join(at).join("opencode.jsonc")).unwrap();
    }
}

#[test]
fn an_empty_file_is_given_back_empty() {
    for (client, path, _) in KEPT {
        let home = Home::new();
        home.write(path, "");
        home.done(&format!("connect {client} --role A --allow"));
        home.done(&format!("disconnect {client}"));
        assert_eq!(home.read(path), "", "{client}");
    }
}
