//! What is named on a command line about issues and tasks: roles that nobody knows, commits by other
//! names than their hash, what is to be read first.

use std::{fs, path::Path};

use serde_json::json;
use tokio::process::Command;

use super::{Said, Shop};
use crate::process::soon;

#[tokio::test]
async fn a_role_that_nobody_knows_is_refused_with_those_that_are_known_whatever_it_does() {
    let shop = Shop::open().await;
    let issue = shop.issue_with(2).await;
    let task = &format!("{issue}/1");
    let file = &shop.file("text", "");
    let delivery = "delivery_1700000000000_00af";
    let elsewhere = ["a.rs", "--repository", "host.example/us/it"];
    let before = shop.json(0, &["issue", "history", &issue]).await;
    for act in [
        &["issue", "create", "Work"][..],
        &["issue", "set-docs", &issue, "--no-shared-docs"],
        &["task", "plan", &issue, "--file", file],
        &["task", "create", &issue, "More", "--difficulty", "easy"],
        &["task", "review", task, "--reject", "--feedback", "No."],
        &["task", "answer", task, "Yes."],
        &["task", "reset", task, "--reason", "stuck"],
        &["task", "cancel", task, "--reason", "not needed"],
        &[
            "delivery",
            "create",
            &issue,
            "--summary",
            "Done.",
            "--passed",
            "--steps",
            "a.md",
            "--step",
            "make",
        ],
        &["issue", "close", &issue],
        &["issue", "reopen", &issue, "--reason", "more"],
        &["task", "claim", task],
        &["task", "claim", "--next", &issue],
        &["delivery", "claim", delivery],
        &["task", "renew", task],
        &["delivery", "renew", delivery],
        &["lock", "renew", "l_1700000000000_00af"],
        &["issue", "extend", &issue],
        &["task", "submit", task, "--summary", "Done."],
        &["task", "ask", task, "Which?"],
        &[&["lock", "acquire"][..], &elsewhere].concat(),
        &["lock", "release", "l_1700000000000_00af"],
        &["doc", "write", "plan", file],
    ] {
        assert_eq!(
            shop.refusal(1, &[act, &["--as", "laed"]].concat()).await,
            "error: Workspace default knows no role laed: it has no mailbox, no node hosts it, no \
             loop names it, and it has no part in any issue. Nothing was done. It knows lead, qa, \
             w1, w2 (did you mean lead?). If the name is right, start a node with that role, or \
             act as it with --new-role. (unknown_role)\n",
            "{act:?}"
        );
    }
    assert_eq!(shop.json(0, &["issue", "history", &issue]).await, before);
    assert!(shop.json(0, &["lock", "list"]).await.is_empty());

    // A role that only types goes on with what it has begun.
    let as_new = async |act: &[&str], role: &str| {
        shop.json(0, &[act, &["--as", role, "--new-role"]].concat()).await.remove(0)
    };
    as_new(&["issue", "create", "Work"], "leader").await;
    shop.says(&["issue", "create", "More work", "--as", "leader"]).await;
    as_new(&["task", "claim", task], "worker").await;
    shop.says(&["task", "submit", task, "--summary", "Done.", "--as", "worker"]).await;
    let lock = as_new(&[&["lock", "acquire"][..], &elsewhere].concat(), "editor").await;
    shop.says(&["lock", "release", lock["lock"]["lease_id"].as_str().unwrap(), "--as", "editor"])
        .await;
    let approve = ["--approve", "--score", "5", "--feedback", "Good.", "--as", "lead"];
    shop.says(&[&["task", "review", task][..], &approve].concat()).await;
    shop.says(&["task", "cancel", &format!("{issue}/2"), "--reason", "enough", "--as", "lead"])
        .await;
    let deliver = [
        "delivery",
        "create",
        &issue,
        "--summary",
        "Done.",
        "--passed",
        "--steps",
        "docs/issue-1-test-steps.md",
    ];
    let files = ["--file", "a.rs", "--file", "docs/issue-1-test-steps.md"];
    shop.says(&[&deliver[..], &files, &["--step", "make", "--as", "lead"]].concat()).await;
    let delivery = shop.json(0, &["delivery", "list"]).await.remove(0);
    let delivery = delivery["delivery_id"].as_str().unwrap();
    as_new(&["delivery", "claim", delivery], "judge").await;
    shop.says(&["delivery", "renew", delivery, "--as", "judge"]).await;
}

#[tokio::test]
async fn what_is_to_be_read_first_is_said_anew() {
    let shop = Shop::open().await;
    let new = [
        "issue",
        "create",
        "Work",
        "--shared-doc",
        "style.md",
        "--project-doc",
        "a.md",
        "--as",
        "lead",
    ];
    let issue = shop.json(0, &new).await.remove(0);
    let issue = issue["issue"]["issue_id"].as_str().unwrap().to_owned();
    let paths = async |more: &[&str]| {
        let args = [&["issue", "set-docs", &issue, "--as", "lead"], more].concat();
        let of = shop.json(0, &args).await.remove(0);
        json!([of["issue"]["shared_doc_paths"], of["issue"]["project_doc_paths"]])
    };
    let two = ["--project-doc", "b.md", "--project-doc", "c.md"];
    assert_eq!(paths(&two).await, json!([["style.md"], ["b.md", "c.md"]]));
    assert_eq!(paths(&["--no-shared-docs"]).await, json!([[], ["b.md", "c.md"]]));
    assert_eq!(paths(&["--shared-doc", "x.md", "--no-project-docs"]).await, json!([["x.md"], []]));
    let said =
        shop.says(&["issue", "set-docs", &issue, "--project-doc", "d.md", "--as", "lead"]).await;
    assert_eq!(said, "ISSUE has new documents to read first: Work.\n");
    let none = shop.run(&["issue", "set-docs", &issue, "--as", "lead"]).await;
    assert_eq!(none.code, 2, "{none:?}");
}

#[tokio::test]
#[ignore = "needs git"]
async fn files_to_be_read_first_are_called_from_the_root_and_are_such_as_can_be_locked() {
    let shop = Shop::open().await;
    let root = shop.path("clone");
    let below = root.join("docs");
    fs::create_dir_all(root.join("app/[id]")).unwrap();
    fs::create_dir(&below).unwrap();
    fs::write(root.join("app/[id]/page.md"), "").unwrap();
    git(&root, &["init", "-q", "-b", "main"]);
    git(&root, &["commit", "-q", "--allow-empty", "-m", "one"]);
    let issue = shop.issue("Work").await;
    let whole = below.join("whole.md");
    for (given, expected) in [
        ("a.md", "docs/a.md"),
        ("./b//../a.md", "docs/a.md"),
        ("../README.md", "README.md"),
        (whole.to_str().unwrap(), "docs/whole.md"),
        ("../app/[id]/page.md", "app/[id]/page.md"),
        ("../app/[slug]/page.md", "app/[slug]/page.md"),
        ("**/*.md", "docs/**/*.md"),
        ("e\u{301}.md", "docs/é.md"),
    ] {
        let args = ["issue", "set-docs", &issue, "--project-doc", given, "--as", "lead", "--json"];
        let said = at(&below, shop.command(&args)).await;
        assert_eq!(said.code, 0, "{given}: {said:?}");
        let said: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(said["issue"]["project_doc_paths"], json!([expected]), "{given}");
    }
    let outside = shop.path("x.md");
    for given in ["", "../../x.md", outside.to_str().unwrap(), "*/../a", "{a,b}.md", "a\\b.md"] {
        let args = ["lock", "acquire", given, "--as", "lead"];
        let lock = at(&below, shop.command(&args)).await;
        let words = lock.err.strip_suffix(". Nothing was locked or looked at. (usage)\n").unwrap();
        // Only what locks files can be told of another repository.
        let words = words.replace(", or say with `--repository` which other one they are in", "");
        for act in [&["issue", "set-docs", &issue][..], &["issue", "create", "Work"]] {
            let args = [act, &["--project-doc", given, "--as", "lead"]].concat();
            let said = at(&below, shop.command(&args)).await;
            assert_eq!((said.code, said.err), (2, format!("{words}. Nothing was sent. (usage)\n")));
        }
    }
    for name in ["", "../x", "a/b.md"] {
        let said =
            shop.run(&["issue", "set-docs", &issue, "--shared-doc", name, "--as", "lead"]).await;
        assert!(said.code == 2 && said.err.contains("a document's name has"), "{said:?}");
    }
    assert_eq!(shop.json(0, &["issue", "list"]).await.len(), 1);
}

#[tokio::test]
async fn what_would_be_over_at_once_is_not_held() {
    let shop = Shop::open().await;
    let lock =
        ["lock", "acquire", "a.rs", "--repository", "host.example/us/it", "--as", "w1", "--for"];
    for time in ["0", "0s"] {
        let said = shop.run(&[&lock[..], &[time]].concat()).await;
        assert!(said.code == 2 && said.err.contains("not over at once"), "{said:?}");
    }
    assert!(shop.json(0, &["lock", "list"]).await.is_empty());
}

pub(super) fn git(at: &Path, args: &[&str]) -> String {
    let mut git = std::process::Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            git.env_remove(name);
        }
    }
    git.args([
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@host.example",
        "-c",
        "commit.gpgSign=false",
    ]);
    let output = git.args(args).current_dir(at).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

async fn at(place: &Path, mut command: Command) -> Said {
    command.current_dir(place).env("GIT_CEILING_DIRECTORIES", place.parent().unwrap());
    Said::of(&soon(command.output()).await.unwrap())
}

#[tokio::test]
async fn a_file_that_another_role_has_locked_is_not_submitted() {
    let shop = Shop::open().await;
    let task = format!("{}/1", shop.issue_with(1).await);
    let here = shop.path("project");
    fs::create_dir(&here).unwrap();
    shop.says(&["task", "claim", &task, "--as", "w1"]).await;
    let locked = at(&here, shop.command(&["lock", "acquire", "src/", "--as", "w2"])).await;
    assert_eq!(locked.code, 0, "{locked:?}");
    let submit = ["task", "submit", &task, "--summary", "Done.", "--as", "w1", "--file"];
    let refused = at(&here, shop.command(&[&submit[..], &["src/a.rs"]].concat())).await;
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("file 'src/a.rs' locked by 'w2' (task: , for "), "{refused:?}");
    assert!(refused.err.ends_with("nothing was submitted (file_is_locked)\n"), "{refused:?}");
    let done = at(&here, shop.command(&[&submit[..], &["docs/a.md"]].concat())).await;
    assert_eq!(done.code, 0, "{done:?}");
}

#[tokio::test]
#[ignore = "needs git"]
async fn a_commit_is_submitted_and_delivered_by_its_full_hash() {
    let shop = Shop::open().await;
    let issue = shop.issue_with(1).await;
    let task = format!("{issue}/1");
    let (here, nowhere) = (shop.path("clone"), shop.path("nowhere"));
    fs::create_dir(&here).unwrap();
    fs::create_dir(&nowhere).unwrap();
    git(&here, &["init", "-q", "-b", "main"]);
    git(&here, &["commit", "-q", "--allow-empty", "-m", "one"]);
    let first = git(&here, &["rev-parse", "HEAD"]);
    git(&here, &["commit", "-q", "--allow-empty", "-m", "two"]);
    git(&here, &["tag", "-a", "v1", "-m", "v1"]);
    let second = git(&here, &["rev-parse", "HEAD"]);
    // A work tree has a HEAD of its own.
    let tree = shop.path("tree");
    git(&here, &["worktree", "add", "-q", "--detach", tree.to_str().unwrap(), &first]);

    shop.says(&["task", "claim", &task, "--as", "w1"]).await;
    let submit = |commit: &str| {
        let args = ["task", "submit", &task, "--summary", commit, "--commit", commit, "--as", "w1"];
        shop.command(&args)
    };
    let named = async || {
        let of = shop.json(0, &["task", "show", &task]).await.remove(0);
        of["submission"]["words"]["rerun"]["commit"].as_str().unwrap().to_owned()
    };
    for (place, name, hash) in [
        (&here, "HEAD", &second),
        (&here, "main~1", &first),
        (&here, &first[..9], &first),
        (&here, "v1", &second),
        (&tree, "HEAD", &first),
    ] {
        let said = at(place, submit(name)).await;
        assert_eq!((said.code, said.err), (0, format!("{name} is commit {hash}.\n")));
        assert_eq!(&named().await, hash, "{name}");
    }
    // A full one is asked of nobody.
    let said = at(&nowhere, submit(&second)).await;
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    for (place, name) in
        [(&nowhere, "HEAD"), (&here, "no-branch"), (&here, "HEAD:x"), (&here, "--all")]
    {
        let commit = format!("--commit={name}");
        let args = ["task", "submit", &task, "--summary", "No.", &commit, "--as", "w1"];
        let said = at(place, shop.command(&args)).await;
        assert_eq!(said.code, 2, "{name}: {said:?}");
        let begins = format!("error: --commit {name:?} cannot be looked up: ");
        let ends = "Give the full hash, which `git rev-parse HEAD` prints in the repository. \
                    Nothing was sent. (usage)\n";
        assert!(said.err.starts_with(&begins) && said.err.ends_with(ends), "{name}: {said:?}");
    }
    assert_eq!(named().await, second);

    let approve = ["--approve", "--score", "5", "--feedback", "Good.", "--as", "lead"];
    shop.says(&[&["task", "review", &task], &approve[..]].concat()).await;
    let deliver =
        ["delivery", "create", &issue, "--summary", "All.", "--passed", "--as", "lead", "--json"];
    let more = ["--step", "make", "--file", "a.rs"];
    let rerun = ["--commit", "main", "--command", "make"];
    let said = at(&here, shop.command(&[&deliver[..], &more, &rerun].concat())).await;
    assert_eq!((said.code, said.err), (0, format!("main is commit {second}.\n")), "{}", said.out);
    let delivery = shop.json(0, &["delivery", "list"]).await.remove(0);
    let delivery =
        shop.json(0, &["delivery", "show", delivery["delivery_id"].as_str().unwrap()]).await;
    assert_eq!(delivery[0]["test_evidence"]["rerun"]["commit"], second);
}
