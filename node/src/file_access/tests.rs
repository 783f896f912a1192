//! Files below a root: what is read, written and listed, and what is refused.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::Path,
};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::{protect::Pattern, *};

fn place() -> (TempDir, Files) {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    fs::create_dir_all(root.join("src")).unwrap();
    fs::create_dir_all(root.join(".git/hooks")).unwrap();
    fs::write(place.path().join("secret"), "secret").unwrap();
    fs::write(root.join("src/a.txt"), "one\ntwo\nthree\n").unwrap();
    let protect = vec![Pattern::parse("*.pem").unwrap()];
    let settings = FileSettings { root: Some(root.clone()), may_write: true, protect };
    fs::create_dir(root.join("data")).unwrap();
    fs::write(root.join("data/key"), "key").unwrap();
    let files = Files::open(settings, vec![root.join("data")]).unwrap();
    (place, files)
}

fn read(files: &Files, path: &str) -> Result<FileText, FileError> {
    files.read(&ReadRequest { path: path.to_owned(), ..ReadRequest::default() })
}

fn write(files: &Files, path: &str, mode: WriteMode) -> Result<Written, FileError> {
    let (path, content) = (path.to_owned(), "new\n".to_owned());
    files.write(&WriteRequest { path, content, mode, expected_sha256: None })
}

fn left(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn lines_are_read_a_part_at_a_time() {
    let (place, files) = place();
    let part = |offset, limit| {
        files.read(&ReadRequest { path: "./src/a.txt".to_owned(), offset, limit }).unwrap()
    };
    let all = part(0, None);
    assert_eq!((all.content.as_str(), all.next_line, all.bytes), ("one\ntwo\nthree\n", None, 14));
    assert_eq!(all.sha256.len(), 64);
    let two = part(2, Some(1));
    assert_eq!((two.content.as_str(), two.first_line, two.next_line), ("two\n", 2, Some(3)));
    assert_eq!(part(3, Some(1)).next_line, None);
    assert_eq!(part(9, None).content, "");
    assert_eq!((part(1, Some(0)).content, part(1, Some(0)).next_line), (String::new(), Some(1)));
    let long = "é".repeat(FILE_READ_BYTES_MAX);
    fs::write(place.path().join("root/long"), format!("{long}\nend")).unwrap();
    let cut = read(&files, "long").unwrap();
    assert!(cut.is_cut && cut.content.len() <= FILE_READ_BYTES_MAX && cut.next_line == Some(2));
    let lines = "0123456789\n".repeat(FILE_READ_BYTES_MAX);
    fs::write(place.path().join("root/lines"), &lines).unwrap();
    let mut request = ReadRequest { path: "lines".to_owned(), ..ReadRequest::default() };
    let mut whole = String::new();
    loop {
        let part = files.read(&request).unwrap();
        whole += &part.content;
        let Some(next) = part.next_line else { break };
        request.offset = next;
    }
    assert!(whole == lines, "nothing is left out between parts");
    fs::write(place.path().join("root/image"), [0xff, 0xd8, 0]).unwrap();
    assert!(read(&files, "image").unwrap_err().to_string().contains("no text"));
}

/// Holds FS1.
#[test]
fn no_path_leads_out() {
    let (place, files) = place();
    let root = place.path().join("root");
    symlink(place.path(), root.join("out")).unwrap();
    symlink(place.path().join("secret"), root.join("file")).unwrap();
    symlink("src", root.join("in")).unwrap();
    fs::hard_link(place.path().join("secret"), root.join("hard")).unwrap();
    mknodat(CWD, root.join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let secret = place.path().join("secret").display().to_string();
    for path in [
        "../secret",
        "src/../../secret",
        &secret,
        "out/secret",
        "file",
        "in/a.txt",
        "hard",
        "pipe",
        "a\0b",
        "",
        ".",
        &"a/".repeat(5000),
        "data/key",
    ] {
        let why = read(&files, path).unwrap_err();
        assert!(!matches!(why, FileError::Missing(_)), "{path}: {why}");
        if path != "hard" {
            write(&files, path, WriteMode::Overwrite).unwrap_err();
        }
        write(&files, path, WriteMode::Append).unwrap_err();
    }
    assert_eq!(fs::read_to_string(place.path().join("secret")).unwrap(), "secret");
    // The name is another file's then.
    write(&files, "hard", WriteMode::Overwrite).unwrap();
    assert_eq!(fs::read_to_string(place.path().join("secret")).unwrap(), "secret");
}

/// Holds FS2.
#[test]
fn what_is_protected_is_read_and_never_written() {
    let (place, files) = place();
    fs::write(place.path().join("root/.git/config"), "[core]\n").unwrap();
    assert_eq!(read(&files, ".git/config").unwrap().content, "[core]\n");
    for path in [".git/config", ".GIT/hooks/pre-commit", "a/.claude/settings.json", "a/key.pem"] {
        let why = write(&files, path, WriteMode::Overwrite).unwrap_err();
        assert!(matches!(why, FileError::Protected { .. }), "{path}: {why}");
    }
    assert!(!place.path().join("root/a").exists());
    let listed = files.list(&ListRequest { depth: 5, ..ListRequest::default() }).unwrap();
    let paths: Vec<&str> = listed.entries.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(paths, [".git", "src", "src/a.txt"]);
    let read_only = FileSettings { may_write: false, ..files.settings().clone() };
    let read_only = Files::open(read_only, Vec::new()).unwrap();
    let why = write(&read_only, "new", WriteMode::Create).unwrap_err();
    assert!(matches!(why, FileError::ReadOnly));
    let inside = Files::open(files.settings().clone(), vec![place.path().to_owned()]);
    assert!(inside.unwrap_err().contains("lies in Tasuki's own data"));
}

/// Whether a path is protected.
fn is_protected(files: &Files, path: &str) -> bool {
    matches!(files.check_write(path), Err(FileError::Protected { .. }))
}

/// Holds FS2.
#[test]
fn hooks_are_protected_however_a_repository_names_them() {
    let (place, files) = place();
    let root = place.path().join("root").canonicalize().unwrap();
    symlink(&root, place.path().join("link")).unwrap();
    fs::write(root.join("more"), "[core]\nhooksPath = tools/hooks\n").unwrap();
    let config = |value: &str| format!("[core]\n\thooksPath = {value}\n").into_bytes();
    let by_link = place.path().join("link/tools/hooks").display().to_string();
    for text in [
        config("tools/hooks"),
        config("./tools/hooks"),
        config("tools/./hooks/"),
        config("tools/../tools/hooks"),
        config("src/../tools//hooks"),
        config("tools/\\\nhooks"),
        config("\"tools/hooks\" ; ours"),
        config("../link/tools/hooks"),
        config(&by_link),
        config(":(optional)tools/hooks"),
        b"# \xff\n[core] hookspath = tools/hooks".to_vec(),
        b"[include]\npath = ../more\n".to_vec(),
        b"[includeIf \"gitdir:/x\"]\npath = ../more\n".to_vec(),
        format!("[include]\npath = {}/more\n", root.display()).into_bytes(),
    ] {
        fs::write(root.join(".git/config"), &text).unwrap();
        let shown = text.escape_ascii().to_string();
        assert!(is_protected(&files, "tools/hooks/pre-commit"), "{shown}");
        assert!(!is_protected(&files, "tools/run"), "{shown}");
    }
    for (value, path) in
        [("\"tools/h#ooks\"", "tools/h#ooks/x"), ("\"a\\\"b\"", "a\"b/x"), ("src/...", "src/.../x")]
    {
        fs::write(root.join(".git/config"), config(value)).unwrap();
        assert!(is_protected(&files, path) && !is_protected(&files, "tools/run"), "{value}");
    }
    // Where they are is not known: nothing is written.
    for text in [
        config("~somebody/hooks"),
        config("\"tools/hooks"),
        config("."),
        b"[core\n".to_vec(),
        vec![b'#'; 300 * 1024],
    ] {
        fs::write(root.join(".git/config"), &text).unwrap();
        assert!(is_protected(&files, "src/a.txt"), "{}", text[..9].escape_ascii());
    }
    fs::write(root.join(".git/config"), config("/dev/null")).unwrap();
    assert!(!is_protected(&files, "src/a.txt"));
}

/// Holds FS2.
#[test]
fn hooks_of_work_trees_and_of_repositories_around_and_below_are_protected() {
    let (place, files) = place();
    let root = place.path().join("root");
    fs::remove_dir_all(root.join(".git")).unwrap();
    let git = place.path().join("main/.git");
    let tree = git.join("worktrees/a");
    fs::create_dir_all(&tree).unwrap();
    fs::write(root.join(".git"), format!("gitdir: {}\n", tree.display())).unwrap();
    fs::write(tree.join("commondir"), "../..\n").unwrap();
    fs::write(git.join("config"), "[core]\nhooksPath = common\n").unwrap();
    fs::write(tree.join("config.worktree"), "[core]\nhooksPath = own\n").unwrap();
    fs::create_dir_all(root.join("vendor/.git")).unwrap();
    fs::write(root.join("vendor/.git/config"), "[core]\nhooksPath = inner\n").unwrap();
    for (path, expected) in [
        ("common/x", true),
        ("own/x", true),
        ("vendor/inner/x", true),
        ("inner/x", false),
        ("src/a.txt", false),
    ] {
        assert_eq!(is_protected(&files, path), expected, "{path}");
    }
    // The repository itself is below the root, under another name.
    fs::write(root.join(".git"), "gitdir: ./bare\n").unwrap();
    fs::create_dir_all(root.join("bare")).unwrap();
    assert!(is_protected(&files, "bare/hooks/x") && !is_protected(&files, "src/a.txt"));
    fs::write(root.join(".git"), "gitdir").unwrap();
    assert!(is_protected(&files, "src/a.txt"));
    fs::remove_file(root.join(".git")).unwrap();
    fs::create_dir_all(place.path().join(".git")).unwrap();
    fs::write(place.path().join(".git/config"), "[core]\nhooksPath = root/above\n").unwrap();
    assert!(is_protected(&files, "above/x") && !is_protected(&files, "src/a.txt"));
}

/// Holds FS2.
#[test]
fn no_write_makes_a_directory_a_repository() {
    let (place, files) = place();
    let root = place.path().join("root");
    let wrote = |path: &str| match write(&files, path, WriteMode::Overwrite) {
        Ok(_) => true,
        Err(FileError::Protected { by, .. }) if by == BARE => false,
        Err(why) => panic!("{path}: {why}"),
    };
    for (paths, last) in [
        (["HEAD", "objects/x"], "refs/x"),
        (["objects/x", "refs/x"], "HEAD"),
        (["refs/heads/x", "HEAD"], "objects/pack/x"),
        (["HEAD", "config"], "commondir"),
        (["config", "commondir"], "head"),
    ] {
        for top in ["", "src/b/"] {
            for path in paths {
                assert!(wrote(&format!("{top}{path}")), "{top}{path}");
            }
            assert!(!wrote(&format!("{top}{last}")), "{top}{last} after {paths:?}");
            for path in paths {
                let first = path.split('/').next().unwrap();
                let path = root.join(top).join(first);
                if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
                    .unwrap();
            }
        }
    }
    for made in ["refs", "objects"] {
        fs::create_dir_all(root.join("fixture").join(made)).unwrap();
    }
    fs::write(root.join("fixture/HEAD"), "ref: refs/heads/main\n").unwrap();
    assert!(!wrote("fixture/config") && !wrote("fixture/hooks/x") && wrote("other/config"));
}

#[test]
fn a_write_that_fails_leaves_no_directories() {
    let (place, files) = place();
    let root = place.path().join("root");
    let long = format!("new/deep/{}", "n".repeat(300));
    let why = write(&files, &long, WriteMode::Create).unwrap_err();
    assert!(matches!(why, FileError::Io { .. }), "{why}");
    assert!(!root.join("new").exists());
    write(&files, "src/in/a", WriteMode::Create).unwrap();
    write(&files, &format!("src/in/{}", "n".repeat(300)), WriteMode::Create).unwrap_err();
    assert!(root.join("src/in/a").exists());
}

/// Holds FS2.
#[test]
fn nothing_is_written_to_a_root_that_is_another_directory_by_now() {
    let (place, files) = place();
    let root = place.path().join("root");
    fs::rename(&root, place.path().join("moved")).unwrap();
    fs::create_dir(&root).unwrap();
    assert!(is_protected(&files, "src/b.txt"));
}

/// Holds FS3.
#[test]
fn a_write_is_whole_and_keeps_the_mode() {
    let (place, files) = place();
    let path = place.path().join("root/src/a.txt");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4750)).unwrap();
    let before = read(&files, "src/a.txt").unwrap();
    let why = write(&files, "src/a.txt", WriteMode::Create).unwrap_err();
    assert!(matches!(why, FileError::Exists(_)));
    let expecting = |hash: &str| {
        let request = WriteRequest {
            path: "src/a.txt".to_owned(),
            content: "2".to_owned(),
            mode: WriteMode::Append,
            expected_sha256: Some(hash.to_owned()),
        };
        files.write(&request)
    };
    assert!(matches!(expecting(&"0".repeat(64)), Err(FileError::Changed { .. })));
    let written = expecting(&before.sha256.to_uppercase()).unwrap();
    assert_eq!((written.bytes, written.is_new), (15, false));
    let after = read(&files, "src/a.txt").unwrap();
    assert_eq!((after.content.as_str(), &after.sha256), ("one\ntwo\nthree\n2", &written.sha256));
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o750, "nothing runs as another");
    assert!(write(&files, "new/deep/b", WriteMode::Create).unwrap().is_new);
    assert_eq!(left(&place.path().join("root/new/deep")), ["b"]);
    assert_eq!(left(&place.path().join("root/src")), ["a.txt"]);
    write(&files, "src", WriteMode::Overwrite).unwrap_err();
    let large = WriteRequest {
        path: "large".to_owned(),
        content: "x".repeat(FILE_WRITE_BYTES_MAX + 1),
        ..WriteRequest::default()
    };
    assert!(matches!(files.write(&large), Err(FileError::TooLarge { .. })));
}

#[test]
fn a_list_is_bounded_and_says_so() {
    let (place, files) = place();
    let many = place.path().join("root/many");
    fs::create_dir(&many).unwrap();
    for number in 0..1001 {
        fs::write(many.join(format!("{number:04}")), "").unwrap();
    }
    let list = |path: &str| files.list(&ListRequest { path: path.to_owned(), depth: 1 }).unwrap();
    let listed = list("many");
    assert!(listed.has_more && listed.entries.len() == 1000);
    assert_eq!(listed.entries[999].path, "many/0999");
    assert_eq!(
        list("src").entries[0],
        Entry { path: "src/a.txt".to_owned(), kind: EntryKind::File, bytes: 14 }
    );
    let asked = ListRequest { path: "src/a.txt".to_owned(), depth: 1 };
    assert!(files.list(&asked).unwrap_err().to_string().contains("is no directory"));
}
