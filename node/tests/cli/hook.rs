//! `tasuki lock-hook …` against a real broker, with a real Git.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use serde_json::{Value, json};
use tasuki_proto::wire::{self, swarm_client::SwarmClient};
use tokio::{io::AsyncWriteExt as _, process::Command};

use crate::process::{Process, soon, tasuki};

/// A broker with the roles A and B, and a project.
struct Office {
    place: tempfile::TempDir,
    up: Process,
    locks: u64,
}

/// How a command ended, and what it said.
#[derive(Debug)]
struct Said {
    code: i32,
    out: String,
    err: String,
}

impl Said {
    fn of(output: &Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Whether it was refused, with these words.
    fn is_no(&self, words: &[&str]) -> bool {
        self.code != 0 && words.iter().all(|it| self.err.contains(it))
    }
}

impl Office {
    async fn open() -> Self {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        fs::create_dir(&data).unwrap();
        fs::create_dir(place.path().join("work")).unwrap();
        let up = Process::up(&data, "").await;
        Self { place, up, locks: 0 }
    }

    /// With a repository of one commit.
    async fn with_repository() -> Self {
        let office = Self::open().await;
        office.git(&["init", "-q", "-b", "main"]).await;
        office.git(&["remote", "add", "origin", "git@git.example:a/b.git"]).await;
        office.write("src/a.rs", "a");
        office.write("src/b.rs", "b");
        let done = office.commit("first").await;
        assert_eq!(done.code, 0, "{done:?}");
        office
    }

    fn at(&self, path: &str) -> PathBuf {
        self.place.path().join("work").join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn git_in(&self, directory: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(directory).stdin(Stdio::null());
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        command.env("NO_COLOR", "1").env_remove("TASUKI_ROLE");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "T").env(format!("GIT_{who}_EMAIL"), "t@t");
        }
        command
    }

    /// Calls Git, which must not fail, and gives what it printed.
    async fn git(&self, arguments: &[&str]) -> String {
        let said = self.try_git(arguments).await;
        assert_eq!(said.code, 0, "{arguments:?}: {said:?}");
        said.out
    }

    async fn try_git(&self, arguments: &[&str]) -> Said {
        Said::of(&soon(self.git_in(&self.at(""), arguments).output()).await.unwrap())
    }

    /// Commits all there is.
    async fn commit(&self, message: &str) -> Said {
        self.git(&["add", "-A"]).await;
        self.try_git(&["commit", "-q", "-m", message]).await
    }

    fn tasuki(&self, arguments: &[&str]) -> Command {
        let mut command = tasuki(&self.up.data);
        command.args(arguments).arg("--data").arg(&self.up.data).current_dir(self.at(""));
        command.env_remove("TASUKI_ROLE");
        command
    }

    async fn hook(&self, arguments: &[&str]) -> Said {
        Said::of(&soon(self.tasuki(&[&["lock-hook"], arguments].concat()).output()).await.unwrap())
    }

    /// Git's hook, with all the time that a busy machine may take.
    async fn install(&self, more: &[&str]) -> Value {
        self.hook_json(&[&["install", "--git", "--within", "60s"], more].concat()).await
    }

    async fn hook_json(&self, arguments: &[&str]) -> Value {
        let said = self.hook(&[arguments, &["--json"]].concat()).await;
        assert_eq!(said.code, 0, "{arguments:?}: {said:?}");
        serde_json::from_str(&said.out).unwrap()
    }

    /// What an agent is told that says this before an edit.
    async fn asks(&self, arguments: &[&str], said: &str) -> Said {
        let mut command = self
            .tasuki(&[&["lock-hook", "edit", "--within", "60s", "--client"], arguments].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(said.as_bytes()).await.unwrap();
        Said::of(&soon(child.wait_with_output()).await.unwrap())
    }

    /// Has a role lock files of a repository; gives the lease.
    async fn lock(&mut self, role: &str, repository: &str, patterns: &[&str]) -> wire::Lock {
        let mut client = self.swarm().await;
        self.locks += 1;
        let request = wire::LockFilesRequest {
            caller: caller(),
            key: Some(wire::IdempotencyKey { client_id: "test".into(), counter: self.locks }),
            role: role.to_owned(),
            files: Some(wire::FileSet {
                repository: repository.to_owned(),
                patterns: patterns.iter().map(|it| (*it).to_owned()).collect(),
                is_case_folded: false,
            }),
            for_ms: 600_000,
            ..wire::LockFilesRequest::default()
        };
        client.lock_files(request).await.unwrap().into_inner().lock.unwrap()
    }

    async fn unlock(&mut self, lock: &wire::Lock) {
        let mut client = self.swarm().await;
        self.locks += 1;
        let request = wire::UnlockRequest {
            caller: caller(),
            key: Some(wire::IdempotencyKey { client_id: "test".into(), counter: self.locks }),
            role: lock.holder.clone(),
            lease_id: lock.lease_id.clone(),
            lock_token: lock.lock_token,
        };
        client.unlock(request).await.unwrap();
    }

    async fn swarm(&self) -> SwarmClient<tonic::transport::Channel> {
        SwarmClient::connect(self.broker()).await.unwrap()
    }

    fn broker(&self) -> String {
        format!("http://{}", self.up.broker.unwrap())
    }
}

fn caller() -> Option<wire::Caller> {
    Some(wire::Caller { workspace: "default".into(), node: String::new(), epoch: 0 })
}

const REPOSITORY: &str = "git.example/a/b";

#[tokio::test]
#[ignore = "needs git"]
async fn a_commit_of_what_another_role_has_locked_is_refused() {
    let mut office = Office::with_repository().await;
    let told = office.hook_json(&["install", "--within", "1m", "--as", "A"]).await;
    assert_eq!(
        (&told["hooks"][0]["hook"], &told["hooks"][0]["change"]),
        (&json!("git"), &json!("created"))
    );
    let lock = office.lock("B", REPOSITORY, &["src/a.rs"]).await;
    let own = office.lock("A", REPOSITORY, &["src/b.rs"]).await;

    office.write("src/a.rs", "changed");
    let before = office.git(&["rev-parse", "HEAD"]).await;
    let no = office.commit("no").await;
    let words = ["src/a.rs: locked by B until 20", "(another ", "git commit --no-verify"];
    assert!(no.is_no(&words), "{no:?}");
    assert_eq!(office.git(&["rev-parse", "HEAD"]).await, before, "nothing was committed");
    // Others of the same project are free, and one's own locks let one.
    office.git(&["restore", "--staged", "src/a.rs"]).await;
    office.write("src/b.rs", "changed");
    let done = office.try_git(&["commit", "-q", "-m", "part", "src/b.rs"]).await;
    assert_eq!((done.code, done.err.as_str()), (0, ""));
    // A part is what is looked at, whatever else is staged.
    office.git(&["add", "-A"]).await;
    office.write("src/b.rs", "again");
    let done = office.try_git(&["commit", "-q", "-m", "part", "src/b.rs"]).await;
    assert_eq!(done.code, 0, "{done:?}");
    // By another name and removed, it is still changed.
    office.git(&["restore", "--staged", "--worktree", "src/a.rs"]).await;
    office.git(&["mv", "src/a.rs", "src/c.rs"]).await;
    let no = office.commit("moved").await;
    assert!(no.is_no(&["src/a.rs: locked by B"]), "{no:?}");
    // A person may.
    let done = office.try_git(&["commit", "-q", "--no-verify", "-m", "moved"]).await;
    assert_eq!(done.code, 0, "{done:?}");
    office.write("src/a.rs", "back");
    office.unlock(&lock).await;
    let done = office.commit("free").await;
    assert_eq!((done.code, done.err.as_str()), (0, ""));
    // In another work tree it is the same file.
    office.unlock(&own).await;
    office.lock("B", REPOSITORY, &["src/**"]).await;
    office.git(&["worktree", "add", "-q", "../tree"]).await;
    let tree = office.place.path().join("tree");
    fs::write(tree.join("src/b.rs"), "elsewhere").unwrap();
    let no = office.git_in(&tree, &["commit", "-q", "-a", "-m", "no"]);
    let no = Said::of(&soon({ no }.output()).await.unwrap());
    assert!(no.is_no(&["src/b.rs: locked by B", ", with src/**"]), "{no:?}");
    // Another role of the same machine, said by the one who commits.
    let mut command = office.git_in(&tree, &["commit", "-q", "-a", "-m", "as B"]);
    office.install(&[]).await;
    let done = Said::of(&soon(command.env("TASUKI_ROLE", "B").output()).await.unwrap());
    assert_eq!(done.code, 0, "{done:?}");
    // Nothing says who: the lock may be one's own.
    fs::write(tree.join("src/b.rs"), "somebody").unwrap();
    let mut command = office.git_in(&tree, &["commit", "-q", "-a", "-m", "somebody"]);
    let done = Said::of(&soon(command.output()).await.unwrap());
    assert!(done.code == 0 && done.err.contains("locked by B, of this machine"), "{done:?}");
}

#[tokio::test]
#[ignore = "needs git"]
async fn files_are_known_whatever_they_are_called() {
    let mut office = Office::with_repository().await;
    office.install(&["--as", "A"]).await;
    let odd = ["new\nline", "\"quoted\"", "a b", "app/[id]/page", "caf\u{e9}", "*"];
    for name in odd {
        office.write(name, "x");
    }
    // As a name, not as a pattern.
    let locked = ["new\nline", "\"quoted\"", "a b", "app/[[]id]/page", "caf\u{e9}", "[*]"];
    for (name, pattern) in odd.iter().zip(locked) {
        let lock = office.lock("B", REPOSITORY, &[pattern]).await;
        let no = office.commit("no").await;
        let line = format!("- {}: locked by B until", name.replace('\n', " "));
        assert!(no.is_no(&[&line]), "{name}: {no:?}");
        assert_eq!(no.err.matches("locked by").count(), 1, "{name}: {no:?}");
        office.unlock(&lock).await;
    }
    assert_eq!(office.commit("all").await.code, 0);
}

#[tokio::test]
#[ignore = "needs git"]
async fn what_is_merged_was_committed_before() {
    let mut office = Office::with_repository().await;
    office.git(&["checkout", "-q", "-b", "other"]).await;
    office.write("src/a.rs", "theirs");
    office.write("src/b.rs", "theirs");
    office.commit("theirs").await;
    office.git(&["checkout", "-q", "main"]).await;
    office.write("src/b.rs", "ours");
    office.commit("ours").await;
    office.install(&["--as", "A"]).await;
    let lock = office.lock("B", REPOSITORY, &["src/a.rs"]).await;
    assert_ne!(office.try_git(&["merge", "-q", "other"]).await.code, 0, "they meet in b.rs");
    office.write("src/b.rs", "both");
    let done = office.commit("merged").await;
    assert_eq!(done.code, 0, "a.rs is as B committed it: {done:?}");
    office.unlock(&lock).await;
}

/// Holds HK2.
#[tokio::test]
#[ignore = "needs git"]
async fn a_hook_that_was_there_goes_first_and_comes_back() {
    let mut office = Office::with_repository().await;
    let path = office.at(".git/hooks/pre-commit");
    let theirs = b"#!/bin/sh\necho ran >>../ran\n[ ! -e ../no ] # \xff\n";
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, theirs).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    let told = office.install(&["--as", "A"]).await;
    assert_eq!(told["hooks"][0]["notes"][0], "The hook that was there runs first.");
    let again = office.install(&["--as", "A"]).await;
    assert_eq!(again["hooks"][0]["change"], "unchanged");
    let status = office.hook_json(&["status", "--git"]).await;
    assert_eq!(status["hooks"][0]["installed"], true, "{status}");
    assert!(status["repository"].is_string() && status["known_by"].is_string(), "{status}");

    let ran = || fs::read_to_string(office.place.path().join("ran")).unwrap_or_default().len() / 4;
    office.write("src/b.rs", "1");
    assert_eq!((office.commit("both let it").await.code, ran()), (0, 1));
    fs::write(office.place.path().join("no"), "").unwrap();
    office.write("src/b.rs", "2");
    assert_eq!((office.commit("theirs refuses").await.code, ran()), (1, 2));
    fs::remove_file(office.place.path().join("no")).unwrap();
    let ran = || fs::read_to_string(office.place.path().join("ran")).unwrap_or_default().len() / 4;
    assert_eq!(ran(), 2);
    office.lock("B", REPOSITORY, &["src/b.rs"]).await;
    assert!(office.commit("ours refuses").await.is_no(&["locked by B"]));

    let told = office.hook_json(&["uninstall"]).await;
    assert_eq!(told["hooks"][0]["change"], "removed", "{told}");
    assert_eq!(fs::read(&path).unwrap(), theirs);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o750);
    assert!(!office.at(".git/hooks/pre-commit.before-tasuki").exists());
    assert_eq!(office.commit("free").await.code, 0);
    let told = office.hook_json(&["uninstall"]).await;
    assert_eq!(told["hooks"], json!([]));
    // Where the configuration has the hooks elsewhere, there.
    office.git(&["config", "core.hooksPath", ".hooks"]).await;
    let told = office.install(&["--as", "A"]).await;
    assert!(told["hooks"][0]["notes"][0].as_str().unwrap().contains("core.hooksPath"), "{told}");
    office.write("src/b.rs", "3");
    office.git(&["add", "src/b.rs"]).await;
    assert!(office.try_git(&["commit", "-m", "no"]).await.is_no(&["locked by B"]));
    // One that leads elsewhere may have come with the project.
    let elsewhere = office.place.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, office.at("led")).unwrap();
    office.git(&["config", "core.hooksPath", "led"]).await;
    let said = office.hook(&["install", "--git"]).await;
    assert!(said.is_no(&["/led is a link, and links are not followed here"]), "{said:?}");
}

/// Holds HK1.
#[tokio::test]
#[ignore = "needs git"]
async fn while_the_broker_is_away_it_is_as_was_chosen() {
    let mut office = Office::with_repository().await;
    office.lock("B", REPOSITORY, &["src/a.rs"]).await;
    office.up.stop().await;
    let broker = office.broker();
    let install = async |office: &Office, more: &[&str]| {
        office.install(&[&["--as", "A", "--broker", &broker], more].concat()).await
    };
    install(&office, &[]).await;
    office.write("src/a.rs", "1");
    let open = office.commit("open").await;
    let words = ["cannot check whether", "No broker answers at", "The commit continues"];
    assert!(open.code == 0 && words.iter().all(|it| open.err.contains(it)), "{open:?}");

    install(&office, &["--fail-closed"]).await;
    office.write("src/a.rs", "2");
    let closed = office.commit("closed").await;
    assert!(closed.is_no(&["cannot check", "Nothing was committed"]), "{closed:?}");

    // By the configuration, unless the hook says otherwise.
    fs::write(office.up.data.join("tasuki.toml"), "hook_fail = \"closed\"\n").unwrap();
    install(&office, &["--fail-open"]).await;
    assert_eq!(office.commit("open").await.code, 0);
    install(&office, &[]).await;
    office.write("src/a.rs", "3");
    assert!(office.commit("closed").await.is_no(&["Nothing was committed"]));
    let edit = r#"{"tool_name":"Edit","tool_input":{"file_path":"src/a.rs"}}"#;
    for (client, out) in [("claude", ""), ("codex", ""), ("cursor", "\"permission\":\"deny\"")] {
        let no = office.asks(&[client, "--broker", &broker], edit).await;
        assert!(
            no.code == 2 && no.err.contains("Nothing was changed") && no.out.contains(out),
            "{no:?}"
        );
        let yes = office.asks(&[client, "--broker", &broker, "--fail-open"], edit).await;
        assert!(yes.code == 0 && yes.err.contains("cannot check"), "{yes:?}");
    }
    // A configuration that makes no sense is no refusal of an edit.
    fs::write(office.up.data.join("tasuki.toml"), "hook_fale = \"closed\"\n").unwrap();
    let yes = office.asks(&["claude"], edit).await;
    assert!(yes.code == 0 && yes.err.contains("`hook_fale` is not a setting"), "{yes:?}");
    office.write("src/a.rs", "4");
    let yes = office.commit("misconfigured").await;
    assert!(yes.code == 0 && yes.err.contains("`hook_fale` is not a setting"), "{yes:?}");
    // Without the program, as the hook was told.
    let script = office.at(".git/hooks/pre-commit");
    let text = fs::read_to_string(&script).unwrap().replace("\ntasuki=", "\ntasuki=/gone");
    fs::write(&script, text).unwrap();
    office.write("src/a.rs", "5");
    let gone = office.commit("gone").await;
    assert!(gone.is_no(&["is gone"]), "it was closed when it was installed: {gone:?}");
}

#[tokio::test]
#[ignore = "needs git"]
async fn a_commit_of_ten_thousand_files_is_looked_through() {
    let mut office = Office::with_repository().await;
    office.install(&["--as", "A"]).await;
    for n in 0..10_000 {
        office.write(&format!("many/{}/{n}", n % 100), "");
    }
    office.lock("B", REPOSITORY, &["many/77/9877", "elsewhere/**"]).await;
    let no = office.commit("many").await;
    assert!(no.is_no(&["many/77/9877: locked by B"]), "{no:?}");
    office.lock("B", REPOSITORY, &["many/*/*"]).await;
    let no = office.commit("many").await;
    assert!(no.is_no(&["and others"]), "{no:?}");
    assert_eq!(no.err.matches("locked by").count(), 10, "{no:?}");
}

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
    let data = office.up.data.clone();
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
