//! What comes out of a repository, and what does not happen meanwhile.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use super::{Office, Repository};

/// A program that leaves a mark.
fn marking(path: &Path, marker: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\ntouch '{}'\ncat\n", marker.display())).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
#[ignore = "needs git and landlock"]
async fn nothing_of_a_repository_is_run_by_checking_out() {
    let mut office = Office::open().await;
    let (repository, marker) = (office.path("clone"), office.path("marker"));
    let program = office.path("program");
    marking(&program, &marker);
    let program = program.to_str().unwrap();
    office.repository.commit(&[
        (".gitattributes", "* filter=evil diff=evil merge=evil text eol=lf\n"),
        ("bait", "bait"),
        ("script.sh", "cat bait README"),
    ]);
    for hook in ["post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc"] {
        marking(&repository.join(".git/hooks").join(hook), &marker);
    }
    for (key, value) in [
        ("filter.evil.smudge", program),
        ("filter.evil.process", program),
        ("filter.evil.required", "true"),
        ("core.fsmonitor", program),
        ("core.hooksPath", repository.join(".git/hooks").to_str().unwrap()),
        ("core.alternateRefsCommand", program),
        ("core.sshCommand", program),
        ("uploadpack.packObjectsHook", program),
        ("protocol.ext.allow", "always"),
        ("remote.origin.url", &format!("ext::{program}")),
        ("remote.origin.promisor", "true"),
        ("remote.origin.partialCloneFilter", "blob:none"),
        ("extensions.partialClone", "origin"),
        ("core.repositoryFormatVersion", "1"),
        ("credential.helper", program),
    ] {
        office.repository.git(&["config", key, value]);
    }
    let head = fs::read_to_string(repository.join(".git/refs/heads/main")).unwrap();
    office.submit(head.trim(), &["sh script.sh"]).await;
    let task = format!("{}/task-1", office.issue);
    let told = office.json(0, &["--task", &task]).await;
    assert_eq!(told["commands"][0]["output_tail"], "baitread me");
    assert!(!marker.exists(), "something of the repository was run");
    office.check_clean();
}

#[tokio::test]
#[ignore = "needs git and landlock"]
async fn the_commit_itself_is_checked_out_whatever_stands_in_for_it() {
    let mut office = Office::open().await;
    let wanted = office.repository.commit(&[("what", "the one that was named")]);
    let other = office.repository.commit(&[("what", "another")]);
    office.repository.git(&["replace", &wanted, &other]);
    office.repository.git(&["branch", &wanted, &other]);
    // Not committed, and not looked at.
    fs::write(office.repository.path.join("what"), "not committed").unwrap();
    office.submit(&wanted, &["cat what"]).await;
    let task = format!("{}/task-1", office.issue);
    let told = office.json(0, &["--task", &task]).await;
    assert_eq!(told["commands"][0]["output_tail"], "the one that was named");
    office.repository.git(&["replace", "--delete", &wanted]);

    // What names a commit is none.
    office.repository.git(&["tag", "--annotate", "--message", "x", "named"]);
    let tag = office.repository.git(&["rev-parse", "named"]);
    for (commit, words) in [
        (tag.as_str(), "is not a commit, but something that names one"),
        (&"e".repeat(40), "Fetch it with --fetch REMOTE"),
    ] {
        office.submit(commit, &["true"]).await;
        let said = office.run(&["--task", &task]).await;
        assert!(said.code == 5 && said.err.contains(words), "{said:?}");
    }
}

#[tokio::test]
#[ignore = "needs git and landlock"]
async fn a_checkout_has_its_commit_alone() {
    let mut office = Office::open().await;
    office.repository.commit(&[("secret", "removed later")]);
    fs::remove_file(office.repository.path.join("secret")).unwrap();
    let sub = Repository::new(&office.path("sub"));
    let url = sub.path.to_str().unwrap();
    office.repository.git(&["submodule", "--quiet", "add", url, "sub"]);
    let script = "git status --porcelain; git log --format=%s; git rev-list --all | wc -l; \
                  git cat-file -e HEAD~1 2>/dev/null && echo history; ls sub; git config --list";
    let ran = office.script(0, script).await;
    let lines: Vec<&str> = ran.output.lines().collect();
    assert_eq!(&lines[..2], ["a change", "1"], "no history: {}", ran.output);
    assert!(!ran.output.contains("history") && !ran.output.contains(url), "{}", ran.output);
}

#[tokio::test]
#[ignore = "needs git and landlock"]
async fn large_files_are_pointers_and_submodules_are_empty() {
    let mut office = Office::open().await;
    let pointer = "version https://git-lfs.github.com/spec/v1\n\
                   oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n\
                   size 12345\n";
    let marker = office.path("marker");
    office.repository.commit(&[
        (".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n"),
        ("large.bin", pointer),
    ]);
    let sub = Repository::new(&office.path("sub"));
    sub.commit(&[("inside", "x")]);
    let url = sub.path.to_str().unwrap();
    office.repository.git(&["submodule", "--quiet", "add", url, "sub"]);
    fs::write(
        office.repository.path.join("script.sh"),
        "cat large.bin; ls -A sub; cat sub/inside 2>&1",
    )
    .unwrap();
    office.repository.git(&["add", "script.sh"]);
    office.repository.git(&["commit", "--quiet", "--message", "large"]);
    for key in ["smudge", "clean", "process"] {
        let trap = format!("touch {}", marker.display());
        office.repository.git(&["config", &format!("filter.lfs.{key}"), &trap]);
    }
    office.repository.git(&["config", "filter.lfs.required", "true"]);
    let ran = office.tried(8, &["sh script.sh"]).await.remove(0);
    assert!(ran.output.starts_with(pointer), "{}", ran.output);
    assert_eq!(ran.output.lines().count(), 4, "nothing is in there: {}", ran.output);
    assert!(!marker.exists());
    office.check_clean();
}

/// A repository without a work tree among the files of a commit, with settings of its own.
#[tokio::test]
#[ignore = "needs git and landlock"]
async fn a_repository_within_a_commit_runs_nothing() {
    let mut office = Office::open().await;
    let elsewhere = Repository::new(&office.path("elsewhere"));
    let (url, marker) = (elsewhere.path.to_str().unwrap().to_owned(), office.path("marker"));
    let trap = format!("touch '{}'; git-upload-pack", marker.display());
    let config = format!(
        "[core]\n\tbare = true\n\trepositoryFormatVersion = 0\n[remote \"origin\"]\n\
         \turl = \"{url}\"\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
         \tuploadPack = \"{trap}\"\n"
    );
    let commit = elsewhere.commit(&[
        ("sub/HEAD", "ref: refs/heads/main\n"),
        ("sub/config", config.as_str()),
        ("sub/objects/.keep", ""),
        ("sub/refs/heads/.keep", ""),
    ]);
    office.repository.git(&["fetch", "--quiet", &url, "main"]);
    office.repository.git(&["reset", "--quiet", "--hard", &commit]);
    let sub = office.repository.path.join("sub");
    office.submit(&commit, &["true"]).await;
    let task = format!("{}/task-1", office.issue);
    let args = ["--task", &task, "--fetch", "origin"];
    let mut by_chance = office.unnamed(&args);
    by_chance.current_dir(&sub);
    let mut by_name = office.unnamed(&args);
    by_name.arg("--repository").arg(&sub);
    for (mut command, why) in
        [(by_chance, "Name the clone that has the commit"), (by_name, "remote.origin.uploadpack")]
    {
        let output = crate::process::soon(command.output()).await.unwrap();
        let said = super::Said::of(&output);
        assert!(said.code == 5 && said.err.contains(why), "{said:?}");
        assert!(!marker.exists(), "something of the repository was run");
    }
}

#[tokio::test]
#[ignore = "needs git and landlock"]
async fn a_fetch_runs_what_its_user_names_and_nothing_that_the_repository_does() {
    let mut office = Office::open().await;
    let elsewhere = Repository::new(&office.path("elsewhere"));
    let commit = elsewhere.commit(&[("new", "from elsewhere")]);
    let url = elsewhere.path.to_str().unwrap();
    office.repository.git(&["remote", "add", "theirs", url]);
    office.submit(&commit, &["cat new"]).await;
    let task = format!("{}/task-1", office.issue);
    let args = ["--task", &task, "--fetch", "theirs"];
    for key in [
        "core.sshCommand",
        "credential.helper",
        "remote.theirs.uploadpack",
        "http.cookieFile",
        "http.sslVerify",
        "url.x.insteadOf",
    ] {
        office.repository.git(&["config", key, "git-upload-pack"]);
        let said = office.run(&args).await;
        let words = format!("{:?}", key.to_lowercase());
        assert!(said.code == 5 && said.err.contains(&words), "{key}: {said:?}");
        office.repository.git(&["config", "--unset", key]);
    }
    for (key, value) in [("core.hooksPath", ".husky"), ("user.name", "t")] {
        office.repository.git(&["config", key, value]);
    }
    let own = "[core]\n\tsshCommand = ssh\n[credential]\n\thelper = cache\n\
               [http]\n\tsslVerify = true\n";
    fs::write(office.path("home/.gitconfig"), own).unwrap();
    let told = office.json(0, &args).await;
    assert_eq!(told["commands"][0]["output_tail"], "from elsewhere");
}

#[tokio::test]
#[ignore = "needs git and landlock"]
async fn a_commit_that_is_elsewhere_is_fetched_by_a_remotes_name_alone() {
    let mut office = Office::open().await;
    let elsewhere = Repository::new(&office.path("elsewhere"));
    let commit = elsewhere.commit(&[("new", "from elsewhere")]);
    office.repository.git(&["remote", "add", "theirs", elsewhere.path.to_str().unwrap()]);
    office.submit(&commit, &["cat new"]).await;
    let task = format!("{}/task-1", office.issue);
    for remote in ["other", "--upload-pack=x", "ext::sh -c x", elsewhere.path.to_str().unwrap()] {
        let fetch = format!("--fetch={remote}");
        let said = office.run(&["--task", &task, &fetch]).await;
        assert!(said.code == 5 && said.err.contains("it has theirs"), "{said:?}");
    }
    let told = office.json(0, &["--task", &task, "--fetch", "theirs"]).await;
    assert_eq!(told["commands"][0]["output_tail"], "from elsewhere");
}
