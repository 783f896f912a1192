//! Repositories as Git makes them, and the names of their files.

use std::{path::PathBuf, process::Command};

use super::*;

/// A place for repositories, with a Git that knows nothing of whoever runs the tests.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(path)
    }

    fn git(&self, directory: &str, arguments: &[&str]) {
        let mut command = Command::new("git");
        command.args(["-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"]);
        command.args(arguments).current_dir(self.at(directory));
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "T").env(format!("GIT_{who}_EMAIL"), "t@t");
        }
        let done = command.output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn make(&self, name: &str, remote: &str) -> Repository {
        self.git("", &["init", "-q", name]);
        if !remote.is_empty() {
            self.git(name, &["remote", "add", "origin", remote]);
        }
        self.find(name)
    }

    fn commit(&self, name: &str, file: &str) {
        fs::write(self.at(name).join(file), file).unwrap();
        self.git(name, &["add", "-A"]);
        self.git(name, &["commit", "-q", "-m", file]);
    }

    fn find(&self, directory: &str) -> Repository {
        Repository::find(&self.at(directory)).unwrap()
    }

    /// What files are called, or why they are not.
    fn files(&self, directory: &str, base: &str, files: &[&str]) -> String {
        let files: Vec<String> = files.iter().map(|it| (*it).to_owned()).collect();
        match self.find(directory).files(&self.at(base), &files) {
            Ok(files) => files.patterns.join(" "),
            Err(why) => why.to_string().replace(&self.at("").display().to_string(), ""),
        }
    }
}

#[test]
#[ignore = "needs git"]
fn two_clones_are_one_repository() {
    let place = Place::new();
    let one = place.make("one", "https://me:secret@git.example/a/b.git");
    assert_eq!((one.identity(), one.known_by()), ("git.example/a/b", KnownBy::Remote));
    let two = place.make("two", "git@git.example:a/b");
    assert_eq!(one.identity(), two.identity());
    assert_ne!(one.root(), two.root());
    // By another name, where `origin` is not there, or is only known here.
    place.make("three", "");
    place.git("three", &["remote", "add", "upstream", "ssh://git@git.example/a/b"]);
    place.git("three", &["remote", "add", "fork", "/nowhere/else"]);
    assert_eq!(place.find("three").identity(), "git.example/a/b");
    // A clone of a clone leads to where that came from.
    place.commit("one", "file");
    place.git("", &["clone", "-q", "one", "four"]);
    place.git("", &["clone", "-q", "four", "five"]);
    assert_eq!(place.find("five").identity(), "git.example/a/b");
}

#[test]
#[ignore = "needs git"]
fn without_a_remote_the_first_commit_tells() {
    let place = Place::new();
    let empty = place.make("one", "");
    assert_eq!(empty.known_by(), KnownBy::Here);
    assert!(empty.identity().starts_with(HERE));
    place.commit("one", "first");
    let first = place.find("one");
    assert_eq!(first.known_by(), KnownBy::FirstCommit);
    place.commit("one", "second");
    assert_eq!(place.find("one").identity(), first.identity());
    // A copy as another machine has it: no address leads from one to the other.
    place.git("", &["clone", "-q", "--bare", "one", "bare.git"]);
    place.git("", &["clone", "-q", "bare.git", "two"]);
    fs::rename(place.at("bare.git"), place.at("gone.git")).unwrap();
    assert_eq!(place.find("two").identity(), first.identity());
    // What has only its newest commits knows nothing of its first.
    let from = format!("file://{}", place.at("gone.git").display());
    place.git("", &["clone", "-q", "--depth=1", &from, "shallow"]);
    assert_eq!(place.find("shallow").identity(), first.identity(), "where it came from is here");
    fs::rename(place.at("gone.git"), place.at("away.git")).unwrap();
    assert_eq!(place.find("shallow").known_by(), KnownBy::Here);
    // Other work does not change which commit was the first of this.
    place.git("one", &["checkout", "-q", "--orphan", "pages"]);
    place.commit("one", "page");
    place.git("one", &["checkout", "-q", "main"]);
    assert_eq!(place.find("one").identity(), first.identity());
}

#[test]
#[ignore = "needs git"]
fn a_name_that_a_person_gave_wins_and_stays() {
    let place = Place::new();
    place.make("one", "");
    place.commit("one", "first");
    let first = place.find("one").identity().to_owned();
    for (said, name) in [
        ("https://me@git.example/a/b.git", "git.example/a/b"),
        ("git.example/a/b", "git.example/a/b"),
        (first.as_str(), first.as_str()),
        ("our work", "named:our%20work"),
        ("named:our%20work", "named:our%20work"),
        ("../x", "named:../x"),
        ("ours", "named:ours"),
    ] {
        place.git("one", &["config", SETTING, said]);
        let found = place.find("one");
        assert_eq!((found.identity(), found.known_by()), (name, KnownBy::Person), "{said}");
    }
    // What else would give it another name.
    place.git("", &["clone", "-q", "one", "two"]);
    place.git("one", &["remote", "add", "origin", "https://git.example/other"]);
    place.git("one", &["checkout", "-q", "--orphan", "pages"]);
    place.commit("one", "page");
    for clone in ["one", "two"] {
        assert_eq!(place.find(clone).identity(), "named:ours", "{clone}");
    }
    place.git("one", &["config", SETTING, ""]);
    assert_eq!(place.find("one").identity(), "git.example/other");
}

#[test]
#[ignore = "needs git"]
fn repositories_are_not_each_other() {
    let place = Place::new();
    let mut names = BTreeSet::new();
    for (at, remote) in [
        ("a", "https://git.example/a"),
        ("b", "https://git.example/b"),
        ("c", "https://git.example:8443/a"),
        ("d", ""),
        ("e", ""),
        ("f", "/srv/git/a.git"),
        ("g", "http://localhost/a"),
        ("h", "http://localhost/a"),
        ("m", "https://git.example/scm?project=a"),
        ("n", "https://git.example/scm?project=b"),
    ] {
        assert!(names.insert(place.make(at, remote).identity().to_owned()), "{at}: {names:?}");
    }
    for at in ["i", "j"] {
        place.make(at, "");
        place.commit(at, at);
        assert!(names.insert(place.find(at).identity().to_owned()), "{at}: {names:?}");
    }
    let long = |end: &str| format!("https://git.example/{}/{end}", "d".repeat(200));
    for (at, end) in [("k", "x"), ("l", "y")] {
        let name = place.make(at, &long(end)).identity().to_owned();
        assert!(name.len() <= REPOSITORY_BYTES_MAX && names.insert(name), "{names:?}");
    }
}

#[test]
fn a_directory_without_git_is_its_own() {
    let place = Place::new();
    fs::create_dir_all(place.at("a/sub")).unwrap();
    fs::create_dir(place.at("b")).unwrap();
    // Neither an empty directory nor a file of that name makes a repository.
    fs::create_dir(place.at("a/.git")).unwrap();
    fs::write(place.at("b/.git"), "gitdir: nowhere\n").unwrap();
    let (a, b) = (place.find("a"), place.find("b"));
    assert_eq!((a.known_by(), b.known_by()), (KnownBy::Here, KnownBy::Here));
    assert_eq!(a.identity(), place.find("a").identity());
    assert_ne!(a.identity(), b.identity());
    assert_eq!(a.root(), place.at("a"));
    assert_eq!(
        place.files("a", "a", &["x", "sub/", "./sub/../y", "*.rs", "."]),
        "x sub/ y *.rs **"
    );
    assert_eq!(
        place.files("a", "a", &["../b/x"]),
        "../b/x is outside of a; name files of that repository, or say with `repository` which \
         other one they are in"
    );
}

#[test]
#[ignore = "needs git"]
fn work_trees_are_the_same_repository() {
    let place = Place::new();
    place.make("one", "https://git.example/a");
    place.commit("one", "file");
    place.git("one", &["worktree", "add", "-q", "../tree"]);
    place.git("one", &["worktree", "add", "-q", "-b", "inner", ".agents/inner"]);
    for tree in ["tree", "one/.agents/inner"] {
        let found = place.find(tree);
        assert_eq!(found.identity(), "git.example/a");
        assert_eq!(found.root(), place.at(tree));
        // A file is the same in each, whichever is asked and however it is reached.
        let inside = place.at(tree).join("src/x.rs").display().to_string();
        assert_eq!(place.files("one", "one", &["src/x.rs", &inside]), "src/x.rs");
        assert_eq!(place.files(tree, tree, &["src/x.rs", "."]), "src/x.rs **");
    }
    // Without a remote and a commit, too.
    place.make("two", "");
    place.git("two", &["worktree", "add", "-q", "--orphan", "-b", "other", "../two-tree"]);
    assert_eq!(place.find("two-tree").identity(), place.find("two").identity());
}

#[test]
#[ignore = "needs git"]
fn what_is_in_a_submodule_is_not_in_the_repository_around_it() {
    let place = Place::new();
    place.make("lib", "");
    place.commit("lib", "file");
    place.make("app", "https://git.example/app");
    let from = place.at("lib").display().to_string();
    place.git("app", &["submodule", "--quiet", "add", &from, "sub"]);
    let lib = place.find("lib");
    assert_eq!(place.find("app/sub").identity(), lib.identity());
    assert_eq!(place.find("app/sub").root(), place.at("app/sub"));
    assert_eq!(place.files("app", "app", &["sub"]), "sub", "which commit of it is meant");
    for inside in ["sub/file", "sub/", "sub/*.rs", "sub/new/file"] {
        assert_eq!(
            place.files("app", "app", &[inside]),
            format!(
                "{inside} is in another repository, app/sub; ask for that one's files by \
                 themselves, with `repository` = \"app/sub\""
            )
        );
    }
    assert!(place.files("app/sub", "app/sub", &["../x"]).contains("in another repository"));
}

#[cfg(unix)]
#[test]
#[ignore = "needs git"]
fn files_have_one_name_however_they_are_called() {
    let place = Place::new();
    place.make("r", "https://git.example/a");
    fs::create_dir_all(place.at("r/src/deep")).unwrap();
    fs::create_dir_all(place.at("r/app/[id]")).unwrap();
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(to, place.at(name)).unwrap();
    };
    link("src/deep", "r/short");
    link("src/deep/x", "r/file-link");
    link("r", "outer");
    link("/", "r/out");
    fs::write(place.at("r/a*b"), "").unwrap();
    fs::write(place.at("r/a\\b"), "").unwrap();
    fs::create_dir(place.at("r/{x,y}.rs")).unwrap();
    let absolute = place.at("r/src/x").display().to_string();
    let around = place.at("outer/src/x").display().to_string();
    for (base, file, expected) in [
        ("r", "src/x", "src/x"),
        ("r", "./src//x", "src/x"),
        ("r/src", "x", "src/x"),
        ("r/src/deep", "../x", "src/x"),
        ("r", "src/", "src/"),
        ("r", ".", "**"),
        ("r/src", ".", "src"),
        ("r/src", "..", "**"),
        ("r", &absolute, "src/x"),
        ("r", &around, "src/x"),
        ("outer", "src/x", "src/x"),
        ("r", "short/x", "src/deep/x"),
        ("r", "short/../x", "src/x"),
        ("r", "short", "short"),
        ("r", "short/", "src/deep/"),
        ("r", "file-link", "file-link"),
        ("r", "short/*.rs", "src/deep/*.rs"),
        ("r/src", "**/*.rs", "src/**/*.rs"),
        ("r", "new/dir/x", "new/dir/x"),
        ("r", "cafe\u{301}", "caf\u{e9}"),
        ("r", "app/[id]/x", "app/[id]/x app/[[]id]/x"),
        ("r", "app/[id]", "app/[[]id]/"),
        ("r/app/[id]", "x", "app/[[]id]/x/"),
        ("r", "app/[id", "app/[[]id"),
        ("r", "a*b", "a[*]b/"),
        ("r", "a\\b", "a?b/"),
        (
            "r",
            "b\\c",
            "\"b\\\\c\" cannot be named: it has a `\\` in it; write `/` between directories",
        ),
        ("r", "", "\"\" cannot be named: it is empty; `.` is the whole repository"),
        ("r", "{x,y}.rs", "{x,y}.rs"),
        ("r", "{x,y}.rs/new", "{x,y}.rs/new"),
        ("r", "src/{{name}}.rs", "src/{{name}}.rs"),
        ("r", "x[{]a,b}.rs", "x[{]a,b}.rs x[[]{]a,b}.rs"),
    ] {
        assert_eq!(place.files("r", base, &[file]), expected, "{base}: {file}");
    }
    let long = "x".repeat(2_000);
    for endless in [long.clone(), format!("new/{long}"), format!("{long}/")] {
        let told = place.files("r", "r", &[&endless]);
        assert!(told.ends_with("cannot be named: it is longer than 1024 bytes"), "{told}");
    }
    for out in
        ["..", "../x", "/etc/passwd", "out/etc/passwd", "src/../../x", "out/", "../*", "*/../x"]
    {
        let said = place.files("r", "r", &[out]);
        assert!(said.contains("outside") || said.contains("behind a wildcard"), "{out}: {said}");
        assert!(said.contains(out), "{out} is not named: {said}");
    }
    for braces in ["x{a,b}.rs", "src/{x,y}/*.rs", "*.{js,ts}", "{x,y}.rs/{a,b}", "x{1..3}"] {
        let said = place.files("r", "r", &[braces]);
        assert!(said.contains("braces choose nothing") && said.contains(braces), "{said}");
    }
    // What was named once is named the same again.
    let patterns = place.find("r").files(&place.at("r"), &["short/x".into(), "app/[id]/".into()]);
    let names: Vec<String> = patterns
        .unwrap()
        .patterns
        .iter()
        .map(|it| shown(it.trim_end_matches('/')).into())
        .collect();
    assert_eq!(names, ["src/deep/x", "app/[[]id]"]);
}

/// Holds RP1.
#[test]
#[ignore = "needs git"]
fn nothing_that_a_repository_names_is_run() {
    let place = Place::new();
    place.make("r", "");
    place.commit("r", "file");
    let trap = format!("touch {}", place.at("sprung").display());
    for key in [
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "core.editor",
        "diff.external",
        "core.gitProxy",
        "credential.helper",
        "alias.config",
        "alias.diff",
        "alias.rev-list",
        "gpg.program",
        "pager.config",
        "pager.diff",
        "diff.x.command",
        "diff.x.textconv",
        "filter.x.clean",
        "core.alternateRefsCommand",
    ] {
        place.git("r", &["config", key, &trap]);
    }
    place.git("r", &["config", "log.showSignature", "true"]);
    place.git("r", &["remote", "add", "short", "gh:a/b"]);
    place.git("r", &["config", "remote.short.uploadpack", &trap]);
    place.git("r", &["config", "remote.short.promisor", "true"]);
    fs::write(place.at("r/.gitattributes"), "* diff=x filter=x\n").unwrap();
    let found = place.find("r");
    assert_eq!(found.known_by(), KnownBy::FirstCommit);
    found.staged().unwrap();
    found.files(&place.at("r"), &["file".into()]).unwrap();
    assert!(!place.at("sprung").exists());
}

#[test]
#[ignore = "needs git"]
fn what_is_remembered_goes_with_the_configuration() {
    let place = Place::new();
    place.make("r", "https://git.example/a");
    let repositories = Repositories::default();
    let name = || repositories.find(&place.at("r")).unwrap().identity().to_owned();
    assert_eq!(name(), "git.example/a");
    assert_eq!(name(), "git.example/a");
    place.git("r", &["remote", "set-url", "origin", "https://git.example/other"]);
    assert_eq!(name(), "git.example/other");
}

#[test]
fn what_git_names_is_a_pattern_for_each() {
    let names = Repository::named_by_git(b"a b\0new\nline\0\"q\"\0x[1]\0e\xcc\x81\0bad\xff\0");
    assert_eq!(names, ["a b", "new\nline", "\"q\"", "x[[]1]/", "\u{e9}", "bad?/"]);
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_nowhere_is_no_way_out() {
    let place = Place::new();
    fs::create_dir(place.at("a")).unwrap();
    std::os::unix::fs::symlink("round", place.at("a/round")).unwrap();
    assert_eq!(place.files("a", "a", &["round"]), "round");
    assert_eq!(
        place.files("a", "a", &["round/x"]),
        "\"round/x\" cannot be named: a link on the way leads nowhere, or round in a circle"
    );
}

#[test]
fn a_repository_without_a_work_tree_is_one() {
    let place = Place::new();
    for at in ["bare/objects", "bare/refs/heads", "tree/.git/objects", "tree/.git/refs", "none"] {
        fs::create_dir_all(place.at(at)).unwrap();
    }
    for at in ["bare/HEAD", "tree/.git/HEAD"] {
        fs::write(place.at(at), "ref: refs/heads/main\n").unwrap();
    }
    let is_so = |at: &str| is_bare(&place.at(at));
    assert!(is_so("bare") && is_so("bare/refs/heads"));
    assert!(!is_so("tree") && !is_so("none"));
}

#[test]
fn another_repository_is_asked_for_by_what_the_asker_has_for_it() {
    let outside = No::Outside { path: "../x".into(), root: "/a".into() };
    let elsewhere = No::Elsewhere { path: "b/x".into(), root: "/a/b".into() };
    for (option, first, second) in [
        (
            Some("--repository"),
            ", or say with `--repository` which other one they are in",
            ", with `--repository` = \"/a/b\"",
        ),
        (None, "", ""),
    ] {
        assert_eq!(
            outside.with_option(option),
            format!("../x is outside of /a; name files of that repository{first}")
        );
        assert_eq!(
            elsewhere.with_option(option),
            format!(
                "b/x is in another repository, /a/b; ask for that one's files by themselves{second}"
            )
        );
    }
    assert_eq!(outside.to_string(), outside.with_option(Some("repository")));
}
