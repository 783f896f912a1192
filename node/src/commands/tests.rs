//! What commands find in the directories that they may write to, and what they leave there.

use std::{fs, os::unix::fs::symlink, path::Path, sync::Arc};

use tempfile::TempDir;

use super::{
    scan::SetAside,
    writable::{Writable, check},
    *,
};
use crate::file_access::{FileSettings, protect::Pattern};

struct Setup {
    dir: TempDir,
    files: Arc<Files>,
    writable: Arc<Writable>,
}

/// Commands may write to `out` and `deploy`.
fn setup() -> Setup {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir_all(root.join(".git/objects")).unwrap();
    fs::create_dir_all(dir.path().join("data")).unwrap();
    let protect = ["*.pem", "deploy/prod", "aside*"];
    let protect = protect.iter().map(|it| Pattern::parse(it).unwrap()).collect();
    let settings = FileSettings { root: Some(root), may_write: true, protect };
    let files = Arc::new(Files::open(settings, Vec::new()).unwrap());
    let writable = restarted(&files, dir.path());
    Setup { dir, files, writable }
}

fn restarted(files: &Arc<Files>, dir: &Path) -> Arc<Writable> {
    let write = vec!["deploy".to_owned(), "out".to_owned()];
    let write = check(&write, files).unwrap();
    Arc::new(Writable::new(Arc::clone(files), write, &dir.join("data")))
}

impl Setup {
    fn make(&self, path: &str) {
        let path = self.dir.path().join("root").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }

    fn make_repository(&self, path: &str) {
        for part in ["HEAD", "objects/x", "refs/x", "config"] {
            self.make(&format!("{path}/{part}"));
        }
    }

    fn has(&self, path: &str) -> bool {
        self.dir.path().join("root").join(path).exists()
    }

    fn remove(&self, path: &str) {
        let path = self.dir.path().join("root").join(path);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
    }

    /// What is put aside of what a command makes.
    fn set_aside(&self, make: impl FnOnce()) -> SetAside {
        let guard = self.writable.begin().unwrap();
        make();
        guard.end()
    }
}

/// Holds CM2.
#[test]
fn what_is_protected_from_writes_is_protected_from_commands() {
    let it = setup();
    let hooks = "[core]\n\thooksPath = ./out/../out/hooks\n";
    fs::write(it.dir.path().join("root/.git/config"), hooks).unwrap();
    for path in [
        "deploy/prod/x.tf",
        "deploy/a/k.PEM",
        "out/hooks/pre-commit",
        "out/.git",
        "out/.config/tasuki",
    ] {
        it.make(path);
        let why = it.writable.begin().unwrap_err().to_string();
        assert!(why.contains("is protected"), "{path}: {why}");
        it.remove(path);
        if let Some((above, _)) = path.rsplit_once('/').filter(|(above, _)| above.contains('/')) {
            it.remove(above);
        }
        let found = it.set_aside(|| it.make(path));
        let [aside] = &found.paths[..] else { panic!("{path}: {found:?}") };
        assert!(path.starts_with(aside.as_str()), "{path}: {found:?}");
        assert!(found.unchecked.is_none() && !it.has(path), "{path}: {found:?}");
        drop(it.writable.begin().unwrap().end());
    }
    // A directory becomes one of hooks after the node started.
    let hooks = "[core]\n\thooksPath = out\n";
    fs::write(it.dir.path().join("root/.git/config"), hooks).unwrap();
    assert!(matches!(it.writable.begin(), Err(CommandError::Protected(_))));
}

/// Holds CM2.
#[test]
fn a_repository_is_none_once_a_command_has_ended() {
    let it = setup();
    it.make_repository("out/mine");
    assert!(matches!(it.writable.begin(), Err(CommandError::Protected(_))));
    it.remove("out/mine");
    let found = it.set_aside(|| {
        it.make_repository("out");
        it.make_repository("out/a/.git");
        it.make_repository("out/a/.git/modules/b");
    });
    let mut paths = found.paths;
    paths.sort_unstable();
    assert_eq!(paths.len(), 4, "{paths:?}");
    assert_eq!(paths[..2], ["out/HEAD", "out/a/.git"]);
    assert!(paths[2].ends_with("/HEAD") && paths[3].ends_with("/modules/b/HEAD"), "{paths:?}");
    assert!(!it.has("out/HEAD") && !it.has("out/a/.git") && it.has("out/config"));
    assert_eq!(it.set_aside(|| {}), SetAside::default());
}

#[test]
fn what_is_put_aside_is_not_found_again_whatever_its_name_was() {
    let it = setup();
    let long = format!("out/.git{}", "\u{200c}".repeat(81));
    let found = it.set_aside(|| {
        it.make(&long);
        it.make("out/aside-x");
    });
    assert_eq!((found.paths.len(), found.unchecked.as_ref()), (2, None), "{found:?}");
    assert_eq!(it.set_aside(|| {}), SetAside::default());
}

#[test]
fn commands_that_run_at_once_leave_what_others_made_alone() {
    let it = setup();
    let first = it.writable.begin().unwrap();
    it.make("out/p/.git/HEAD");
    let second = it.writable.begin().unwrap();
    let found = second.end();
    assert!(found.is_postponed && found.paths.is_empty() && it.has("out/p/.git"), "{found:?}");
    assert_eq!(first.end().paths, ["out/p/.git"]);
    assert!(!it.has("out/p/.git"));
}

#[test]
fn what_a_killed_node_left_is_put_aside_and_nothing_else_is() {
    let it = setup();
    let guard = it.writable.begin().unwrap();
    it.make("out/.git");
    let after = restarted(&it.files, it.dir.path());
    assert_eq!(after.begin().unwrap().end().paths, ["out/.git"]);
    drop(guard);
    it.make("out/.git");
    assert!(matches!(after.begin(), Err(CommandError::Protected(_))));
}

#[test]
fn what_cannot_be_looked_through_is_named() {
    let it = setup();
    let deep = format!("out/{}x", "d/".repeat(70));
    it.make(&deep);
    let why = it.writable.begin().unwrap_err().to_string();
    assert!(why.contains("out/d/d/d") && why.contains("Ask your user to remove"), "{why}");
}

/// Holds CM2.
#[test]
fn a_root_that_is_another_directory_by_now_is_not_used() {
    let it = setup();
    let root = it.dir.path().join("root");
    fs::create_dir(it.dir.path().join("elsewhere")).unwrap();
    fs::rename(&root, it.dir.path().join("root.o")).unwrap();
    symlink(it.dir.path().join("elsewhere"), &root).unwrap();
    assert!(matches!(it.writable.begin(), Err(CommandError::Replaced(_))));
    fs::remove_file(&root).unwrap();
    fs::create_dir(&root).unwrap();
    assert!(matches!(it.writable.begin(), Err(CommandError::Replaced(_))));
    assert!(!root.join("out").exists());
}
