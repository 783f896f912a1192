//! Git's hook before a commit.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use serde_json::json;

use super::{Office, REPOSITORY};
use crate::{Said, process::soon};

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
