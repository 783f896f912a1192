//! Paths that lead elsewhere.

use std::{fs, os::unix::fs::symlink};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use super::{Place, facts, refusal};

/// Holds FS1.
#[tokio::test]
async fn no_path_reaches_anything_outside() {
    let place = Place::new("").await;
    let (root, outside) = (place.path("root"), place.path("outside"));
    symlink(&outside, root.join("dir")).unwrap();
    symlink(outside.join("kept"), root.join("file")).unwrap();
    symlink("dir", root.join("chain")).unwrap();
    symlink("chain", root.join("chain2")).unwrap();
    symlink("/proc/self/root", root.join("proc")).unwrap();
    symlink("src", root.join("inner")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    symlink("../outside/new", root.join("dangling")).unwrap();
    symlink(root.join(".git"), root.join("git")).unwrap();
    fs::hard_link(outside.join("kept"), root.join("hard")).unwrap();
    mknodat(CWD, root.join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    let before = place.untouchable();
    let absolute = place.filled("{outside}/kept");
    let below_proc = place.filled("proc{outside}/kept");
    let self_root = place.filled("/proc/self/root{outside}/kept");
    let inside = place.filled("{root}/src/a.txt");
    let fd = format!("/proc/{}/fd/0", place.up.pid());
    let long = "x/".repeat(3000);
    let deep = "a/".repeat(100) + "b";
    let name = "n".repeat(300);
    for path in [
        "../outside/kept",
        "src/../../outside/kept",
        "./../outside/kept",
        "src/./../../outside/kept",
        "..",
        "",
        ".",
        "/",
        "//etc/passwd",
        &absolute,
        &inside,
        &self_root,
        &fd,
        "/dev/stdin",
        "dir/kept",
        "dir/new",
        "file",
        "chain/kept",
        "chain2/kept",
        "dangling",
        &below_proc,
        "inner/a.txt",
        "loop",
        "git/config",
        "pipe",
        "socket",
        "src/a.txt/x",
        "src\0/a.txt",
        "hard\0",
        &long,
        &deep,
        &name,
        "src",
    ] {
        let told = place.call("fs_read", json!({ "path": path })).await;
        let code = refusal(&told);
        assert!(
            ["invalid_argument", "unknown_file", "unavailable"].contains(&code),
            "{path}: {told}"
        );
        if [&deep[..], &name].contains(&path) {
            continue;
        }
        for mode in ["overwrite", "create", "append"] {
            let asked = json!({ "path": path, "content": "x", "mode": mode });
            let told = place.call("fs_write", asked).await;
            assert_eq!(told["isError"], true, "{mode} {path}: {told}");
        }
        let told = place.call("fs_list", json!({ "path": path, "depth": 9 })).await;
        if told["isError"] != true {
            assert!(["", ".", "src"].contains(&path), "{path}: {told}");
            assert!(!told.to_string().contains("kept"), "{path}: {told}");
        }
    }
    assert_eq!(
        refusal(&place.call("fs_read", json!({ "path": "hard" })).await),
        "invalid_argument"
    );
    let added = json!({ "path": "hard", "content": "x", "mode": "append" });
    assert_eq!(refusal(&place.call("fs_write", added).await), "invalid_argument");
    assert_eq!(place.untouchable(), before);
    // A name of another file is given another file.
    facts(&place.call("fs_write", json!({ "path": "hard", "content": "x" })).await);
    assert_eq!(fs::read_to_string(outside.join("kept")).unwrap(), "secret\n");
}

/// Holds FS2.
#[tokio::test]
async fn what_is_protected_is_not_written_however_it_is_spelled() {
    let place = Place::new("").await;
    let before = place.untouchable();
    for path in [
        ".git/hooks/pre-commit",
        ".git/config",
        ".git",
        "./.git/HEAD",
        "src/../.git/config",
        ".GIT/config",
        ".Git/hooks/post-checkout",
        ".git./config",
        ".git /config",
        ".git::$INDEX_ALLOCATION/config",
        "GIT~1/config",
        ".g\u{200c}it/config",
        ".\u{feff}git/config",
        ".\u{ff47}it/config",
        "src/.git/hooks/x",
        "src\\.git\\config",
        "tools/hooks/pre-commit",
        "TOOLS/Hooks/pre-commit",
        ".githooks/pre-push",
        ".husky/pre-commit",
        ".tasuki/agents/a.md",
        ".filebox",
        "tasuki.toml",
        "src/Tasuki.toml",
        ".claude/settings.json",
        ".codex/config.toml",
        ".cursor/mcp.json",
        ".mcp.json",
        ".vscode/tasks.json",
        ".envrc",
        ".github/workflows/ci.yml",
        ".GITHUB/Workflows/ci.yml",
        ".gitlab-ci.yml",
        ".ci/run.sh",
        "certs/key.PEM",
    ] {
        let told = place.call("fs_write", json!({ "path": path, "content": "x" })).await;
        let code = refusal(&told);
        let expected = if path.contains("..") { "invalid_argument" } else { "file_protected" };
        assert_eq!(code, expected, "{path}: {told}");
    }
    assert_eq!(place.untouchable(), before);
    let told = place.call("fs_read", json!({ "path": ".git/config" })).await;
    assert!(facts(&told)["content"].as_str().unwrap().starts_with("[core]"));
    for path in [".gitignore", "tools/run", ".github/FUNDING.yml", "src/b.txt"] {
        facts(&place.call("fs_write", json!({ "path": path, "content": "x" })).await);
    }
}

#[tokio::test]
async fn files_are_read_written_and_listed() {
    let place = Place::new("").await;
    let call = async |tool: &str, arguments: Value| place.call(tool, arguments).await;
    let read = call("fs_read", json!({ "path": "src/a.txt" })).await;
    assert_eq!(facts(&read)["content"], "inside\n");
    let hash = facts(&read)["sha256"].as_str().unwrap().to_owned();
    let write = json!({ "path": "src/a.txt", "content": "", "expected_sha256": hash });
    let told = call("fs_write", write.clone()).await;
    assert_eq!((&facts(&told)["created"], &facts(&told)["bytes"]), (&json!(false), &json!(0)));
    assert_eq!(refusal(&call("fs_write", write).await), "file_changed");
    let create = json!({ "path": "src/a.txt", "content": "x", "mode": "create" });
    assert_eq!(refusal(&call("fs_write", create).await), "file_changed");
    let large = json!({ "path": "src/b", "content": "x".repeat((1 << 20) + 1) });
    assert_eq!(refusal(&call("fs_write", large).await), "too_large");
    let made = json!({ "path": "src/new/c.txt", "content": " é\n", "mode": "append" });
    assert_eq!(facts(&call("fs_write", made).await)["created"], true);
    let told = call("fs_list", json!({ "path": "src", "depth": 2 })).await;
    let paths: Vec<&str> = facts(&told)["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["src/a.txt", "src/new", "src/new/c.txt"]);
    fs::write(place.path("root/src/image"), [0xff, 0xd8, 0xff]).unwrap();
    assert_eq!(refusal(&call("fs_read", json!({ "path": "src/image" })).await), "invalid_argument");
    assert_eq!(refusal(&call("fs_read", json!({ "path": "src/none" })).await), "unknown_file");
}

/// What the operator does not name is nobody's.
#[tokio::test]
async fn without_a_root_the_tools_say_how_to_get_one() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let up = crate::process::Process::up(&data, "--role A=files,commands").await;
    let client = crate::http::Client::new(up.mcp, "/mcp/A").await;
    let told = client.call("fs_list", json!({})).await;
    assert!(
        refusal(&told) == "file_protected" && told.to_string().contains("[files] root"),
        "{told}"
    );
    let told = client.call("run_command", json!({ "argv": ["true"] })).await;
    assert!(refusal(&told) == "command_forbidden" && told.to_string().contains("[commands] allow"));
}

/// A lock of the swarm counts here as for other editors.
#[tokio::test]
async fn what_another_role_has_locked_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    let config = dir.path().join("tasuki.toml");
    let text =
        format!("mirror_root = \"{0}\"\n[files]\nroot = \"{0}\"\nwrite = true\n", root.display());
    fs::write(&config, text).unwrap();
    let line = format!(
        "--config {} --role worker1=swarm-worker,files --role worker2=swarm-worker,files",
        config.display()
    );
    let up = crate::process::Process::up(&dir.path().join("data"), &line).await;
    let one = crate::http::Client::new(up.mcp, "/mcp/worker1").await;
    let two = crate::http::Client::new(up.mcp, "/mcp/worker2").await;
    let told = one.call("lockFiles", json!({ "files": ["a.txt"] })).await;
    facts(&told);
    let write = json!({ "path": "a.txt", "content": "x" });
    let told = two.call("fs_write", write.clone()).await;
    assert_eq!(refusal(&told), "file_is_locked", "{told}");
    assert!(!root.join("a.txt").exists());
    let told = one.call("fs_write", write).await;
    assert!(facts(&told).get("note").is_none(), "{told}");
    facts(&two.call("fs_write", json!({ "path": "b.txt", "content": "x" })).await);
}
