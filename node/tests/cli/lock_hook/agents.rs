//! The hooks of coding agents before an edit.

use std::{fs, os::unix::fs::symlink};

use serde_json::{Value, json};

use super::{Office, REPOSITORY};
use crate::{Said, process::Process};

#[tokio::test]
#[ignore = "needs git"]
async fn an_edit_of_what_another_role_has_locked_is_refused() {
    let mut office = Office::with_repository().await;
    office.write("deep/a/x", "x");
    symlink("../src/a.rs", office.at("deep/link")).unwrap();
    office.lock("B", REPOSITORY, &["src/a.rs", "new/**"]).await;
    let work = office.at("").display().to_string();
    let work = work.trim_end_matches('/');
    let edit = |file: &str| {
        json!({"cwd": work, "tool_name": "Edit", "tool_input": {"file_path": file}}).to_string()
    };
    let refused = |file: &str, client: &str, said: &Said| {
        let words = format!("{file} is locked by B until 20");
        let is_told = match client {
            "cursor" => {
                let told: Value = serde_json::from_str(&said.out).unwrap();
                told["permission"] == "deny" && told["agent_message"].to_string().contains(&words)
            }
            _ => said.out.is_empty(),
        };
        said.code == 2 && said.err.contains(&words) && is_told
    };
    for client in ["claude", "cursor", "codex"] {
        for file in [format!("{work}/src/a.rs"), "src/a.rs".into(), "deep/../src/a.rs".into()] {
            let said = office.asks(&[client, "--as", "A"], &edit(&file)).await;
            assert!(refused(&file, client, &said), "{client} {file}: {said:?}");
        }
        for file in ["src/b.rs", "/etc/hosts", "none/at/all"] {
            let said = office.asks(&[client, "--as", "A"], &edit(file)).await;
            let out = if client == "cursor" { "{\"permission\":\"allow\"}\n" } else { "" };
            assert_eq!((said.code, &*said.out, &*said.err), (0, out, ""), "{client} {file}");
        }
        let own = office.asks(&[client, "--as", "B"], &edit("src/a.rs")).await;
        assert_eq!((own.code, &*own.err), (0, ""), "{own:?}");
    }
    let link = office.asks(&["claude", "--as", "A"], &edit("deep/link")).await;
    assert!(refused("deep/link", "claude", &link), "what it leads to is written: {link:?}");
    let patch = "*** Begin Patch\n*** Update File: src/b.rs\n@@\n-b\n+c\n*** Add File: \
                 new/dir/file\n+x\n*** End Patch";
    let patch = json!({"cwd": work, "tool_name": "apply_patch", "tool_input": {"command": patch}});
    let said = office.asks(&["codex", "--as", "A"], &patch.to_string()).await;
    assert!(refused("new/dir/file", "codex", &said), "{said:?}");
    assert!(said.err.contains("with new/**") && !said.err.contains("src/b.rs"), "{said:?}");
    // What is odd is let through with a word, or not.
    for odd in ["", "{", "{\"tool_name\": \"Edit\"}"] {
        let open = office.asks(&["claude"], odd).await;
        assert!(open.code == 0 && open.err.contains("cannot check"), "{odd}: {open:?}");
        let closed = office.asks(&["claude", "--fail-closed"], odd).await;
        assert!(
            closed.code == 2 && closed.err.contains("Nothing was changed"),
            "{odd}: {closed:?}"
        );
    }
    let read = r#"{"tool_name":"Read","tool_input":{"file_path":"src/a.rs"}}"#;
    assert_eq!(office.asks(&["claude", "--as", "A"], read).await.code, 0);
}

#[tokio::test]
async fn a_hook_asks_about_the_workspace_of_the_node_beside_which_it_was_installed() {
    let mut office = Office::open().await;
    office.up.stop().await;
    let data = office.up.data.with_file_name("other");
    office.up = Process::up(&data, "--workspace project").await;
    office.hook_json(&["install", "--claude", "--as", "A"]).await;
    let text = fs::read_to_string(office.at(".claude/settings.local.json")).unwrap();
    assert!(text.contains(" lock-hook edit --client claude --workspace project --as A"), "{text}");
}

/// Holds HK2.
#[tokio::test]
async fn hooks_of_agents_come_and_go_without_a_trace() {
    let office = Office::open().await;
    let no = office.hook(&["install"]).await;
    assert!(no.is_no(&["is in no Git repository and has no folder"]), "{no:?}");
    let no = office.hook(&["install", "--git"]).await;
    assert!(no.is_no(&["is in no Git repository, so there are no commits"]), "{no:?}");
    let files = [
        ("claude", ".claude/settings.local.json"),
        ("cursor", ".cursor/hooks.json"),
        ("codex", ".codex/hooks.json"),
    ];
    let flags = ["--claude", "--cursor", "--codex"];
    let install = |more: &'static [&'static str]| [&["install"], &flags[..], more].concat();
    let told = office.hook_json(&install(&["--as", "A"])).await;
    for (at, (client, file)) in files.iter().enumerate() {
        assert_eq!(told["hooks"][at]["change"], "created", "{told}");
        let text = fs::read_to_string(office.at(file)).unwrap();
        assert!(text.contains(&format!(" lock-hook edit --client {client} --as A")), "{text}");
    }
    let again = office.hook_json(&install(&["--as", "A"])).await;
    assert!(again["hooks"].as_array().unwrap().iter().all(|it| it["change"] == "unchanged"));
    let status = office.hook_json(&["status"]).await;
    assert!(
        status["hooks"].as_array().unwrap().iter().all(|it| it["installed"] == true),
        "{status}"
    );
    office.hook_json(&["uninstall"]).await;
    assert_eq!(fs::read_dir(office.at("")).unwrap().count(), 0, "as if nothing had been");

    // Files of somebody's are the same bytes again, twice installed or not.
    let theirs = "{\r\n  // mine\r\n  \"hooks\": { \"Stop\": [] },\r\n  \"x\": [1,2, 3]\r\n}";
    for (_, file) in files {
        office.write(file, theirs);
    }
    office.hook_json(&["install", "--as", "A"]).await;
    office.hook_json(&["install", "--as", "B", "--fail-closed"]).await;
    for (_, file) in files {
        let text = fs::read_to_string(office.at(file)).unwrap();
        assert!(text.contains("--as B --fail-closed") && !text.contains("--as A"), "{text}");
        assert!(text.contains("// mine") && text.contains("[1,2, 3]"), "{text}");
    }
    let told = office.hook_json(&["uninstall"]).await;
    assert_eq!(told["hooks"].as_array().unwrap().len(), 3, "{told}");
    for (_, file) in files {
        assert_eq!(fs::read_to_string(office.at(file)).unwrap(), theirs);
    }
    // What is refused is refused before any file is changed.
    office.hook_json(&["install", "--as", "A"]).await;
    let text = |file: &str| fs::read_to_string(office.at(file)).unwrap();
    let (before, cursor) = (text(files[0].1), text(files[1].1));
    office.write(files[1].1, "{");
    let refused = office.hook(&["uninstall"]).await;
    assert!(refused.code == 5 && text(files[0].1) == before, "{refused:?}");
    office.write(files[1].1, &cursor);
    // A hook by its earlier name is taken away, too.
    for (_, file) in files {
        office.write(file, &text(file).replace(" lock-hook edit ", " hook edit "));
    }
    office.hook_json(&["install", "--as", "A"]).await;
    assert!(files.iter().all(|(_, file)| !text(file).contains(" hook edit ")));
    office.hook_json(&["uninstall"]).await;
    assert!(files.iter().all(|(_, file)| !text(file).contains("edit --client")));
    for (_, file) in files {
        office.write(file, theirs);
    }
    // What somebody changed in between stays changed.
    office.hook_json(&["install", "--as", "A"]).await;
    for (_, file) in files {
        let text = fs::read_to_string(office.at(file)).unwrap();
        fs::write(office.at(file), text.replace("// mine", "// still mine")).unwrap();
    }
    office.hook_json(&["uninstall"]).await;
    for (_, file) in files {
        let text = fs::read_to_string(office.at(file)).unwrap();
        assert!(text.contains("// still mine") && !text.contains("tasuki"), "{text}");
    }
    office.write(".claude/settings.local.json", "{");
    let no = office.hook(&["install", "--as", "A"]).await;
    assert!(no.is_no(&["The file was not changed"]), "{no:?}");
}

#[tokio::test]
async fn without_git_a_directory_is_known_by_where_it_is() {
    let mut office = Office::open().await;
    office.write("sub/x", "x");
    let repository = tasuki_node::repository::Repository::find(&office.at("")).unwrap();
    office.lock("B", repository.identity(), &["sub/x"]).await;
    let edit = |file: &str| {
        json!({"cwd": office.at("sub"), "tool_name": "Write", "tool_input": {"file_path": file}})
            .to_string()
    };
    let no = office.asks(&["claude", "--as", "A"], &edit("x")).await;
    assert!(no.code == 2 && no.err.contains("x is locked by B"), "{no:?}");
    let yes = office.asks(&["claude", "--as", "A"], &edit("y")).await;
    assert_eq!((yes.code, &*yes.err), (0, ""));
}
