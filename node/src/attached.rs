//! Attached files on this machine: their names, and the project that agents attach from and save to.
//!
//! - **Z8** An agent's attachments come from its project and go there: no path leads out of it or
//!   to a directory or key of Tasuki's own that lies in it, no link is followed, a file with a
//!   second name is not sent, and nothing that is there is written over.
//!
//! The project is the operator's to name: an agent's own word for it would open any file that the
//! node may read to whoever may call it.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Component, Path, PathBuf},
};

use bytes::Bytes;
use tasuki_proto::{
    limits::{ATTACHMENT_BYTES_MAX, ATTACHMENT_NAME_BYTES_MAX, FILE_NAME_BYTES_MAX},
    visible::is_visible,
};

use crate::dir::{Dir, NoFile, resolved};

/// Names tried for a file whose name is taken.
pub(crate) const NAMES_MAX: u32 = 1000;

/// The media type of an ending; what has none is bytes.
const MEDIA_TYPES: [(&str, &str); 16] = [
    ("csv", "text/csv"),
    ("diff", "text/x-diff"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("html", "text/html"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("json", "application/json"),
    ("log", "text/plain"),
    ("md", "text/markdown"),
    ("patch", "text/x-diff"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("txt", "text/plain"),
    ("zip", "application/zip"),
];

/// Where saved ones go, in the project.
const FOLDER: &str = "docs/attachments";

/// What an agent may attach from, and save to.
#[derive(Debug, Clone)]
pub(crate) struct Project {
    /// The operator's, without links when it was first resolved.
    root: PathBuf,
    /// What the agent chose in it.
    below: PathBuf,
    /// Directories and files with keys and tokens of the node, which no agent sends.
    private: Vec<PathBuf>,
}

/// Why a file is not read, or not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum No {
    #[error("it is outside of the project, {0}")]
    Outside(PathBuf),
    #[error("{0} is Tasuki's own directory, with its keys, so it is left out of the project")]
    Private(PathBuf),
    #[error("{0} is a file of Tasuki's own, with a key, so it is left out of the project")]
    Key(PathBuf),
    #[error("it {0}")]
    NoFile(#[from] NoFile),
    #[error("it has more than {0} bytes")]
    TooLarge(u64),
    #[error("{NAMES_MAX} files have that name already")]
    Taken,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Project {
    /// What the role of a node has: `registered` by an agent where that is inside of what the
    /// operator named, else all of that; of both without what is `private` to the node.
    pub(crate) fn of(root: &Path, registered: Option<PathBuf>, private: &[PathBuf]) -> Self {
        let root = resolved(root);
        let below = |it: &Path| it.strip_prefix(&root).map(Path::to_owned).ok();
        // What was registered has no links, or got some since, which are not followed.
        let own = registered.and_then(|it| below(&it).or_else(|| below(&it.canonicalize().ok()?)));
        Self { below: own.unwrap_or_default(), root, private: private.to_vec() }
    }

    /// A file of it, by a path in it or an absolute one. Blocks on the disk.
    pub(crate) fn read(&self, path: &Path) -> Result<Bytes, No> {
        self.read_up_to(path, ATTACHMENT_BYTES_MAX)
    }

    /// The same of no more than so many bytes.
    pub(crate) fn read_up_to(&self, path: &Path, bytes_max: u64) -> Result<Bytes, No> {
        let below = self.below(path)?;
        let (Some(folder), Some(name)) = (below.parent(), below.file_name()) else {
            return Err(No::NoFile(NoFile::Strange));
        };
        let (file, about) = self.open(folder)?.open_own_file(name)?;
        // By what it is, as a directory.
        let is_it = |it: &fs::Metadata| (it.dev(), it.ino()) == (about.dev(), about.ino());
        if self.private.iter().any(|it| fs::metadata(it).is_ok_and(|it| is_it(&it))) {
            return Err(No::Key(below));
        }
        let mut content = Vec::new();
        // It may grow meanwhile.
        file.take(bytes_max + 1).read_to_end(&mut content)?;
        if bytes_max < content.len() as u64 {
            return Err(No::TooLarge(bytes_max));
        }
        Ok(content.into())
    }

    /// Writes a file of the name that was told, or one like it; where, in the project. Blocks on
    /// the disk.
    pub(crate) fn save(&self, name: &str, content: &[u8]) -> Result<PathBuf, No> {
        let folder = Path::new(FOLDER);
        self.open(Path::new(""))?.walk_or_make(folder)?;
        let folder = self.open(folder)?;
        for name in names(name) {
            match folder.create_new(&name) {
                Ok(mut file) => {
                    return match file.write_all(content) {
                        Ok(()) => Ok(Path::new(FOLDER).join(name)),
                        Err(why) => {
                            // Why it was not written matters more.
                            folder.remove_file(&name).ok();
                            Err(why.into())
                        }
                    };
                }
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
                Err(why) => return Err(why.into()),
            }
        }
        Err(No::Taken)
    }

    /// A directory of it. Whatever is private is known by what it is, under any name.
    fn open(&self, folder: &Path) -> Result<Dir, No> {
        if let Some(around) = self.private.iter().find(|it| self.root.starts_with(resolved(it))) {
            return Err(No::Private(around.clone()));
        }
        // What is not there, nobody enters.
        let private: Vec<Dir> = self.private.iter().filter_map(|it| Dir::open(it).ok()).collect();
        let mut dir = Dir::open_real(&self.root)?;
        for part in self.below.join(folder).components().filter(|it| *it != Component::CurDir) {
            dir = dir.enter(part)?;
            if private.iter().any(|it| it.is_same_as(&dir)) {
                return Err(No::Private(dir.path().to_owned()));
            }
        }
        Ok(dir)
    }

    fn below(&self, path: &Path) -> Result<PathBuf, No> {
        // Joined to nothing it would end in a slash.
        let root: PathBuf = self.root.join(&self.below).components().collect();
        let below = if path.is_absolute() { path.strip_prefix(&root).ok() } else { Some(path) };
        let below = below.filter(|it| Dir::is_below(it)).map(Path::to_owned);
        below.ok_or(No::Outside(root))
    }
}

/// Does what blocks on the disk.
pub(crate) async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, No> + Send + 'static,
) -> Result<T, No> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(No::Io(io::Error::other(error))))
}

/// What a file is called where it goes to; `None`: it has no name that can be shown.
pub(crate) fn name_of(path: &Path) -> Option<&str> {
    let fits =
        |name: &&str| name.len() <= ATTACHMENT_NAME_BYTES_MAX && name.chars().all(is_visible);
    path.file_name()?.to_str().filter(fits)
}

/// What a file is, by its ending.
pub(crate) fn media_type(path: &Path) -> &'static str {
    let ending = path.extension().and_then(|it| it.to_str()).map(str::to_lowercase);
    let known = MEDIA_TYPES.iter().find(|(name, _)| ending.as_deref() == Some(name));
    known.map_or("application/octet-stream", |(_, media)| media)
}

/// The name that was told, without what may not be in one; then others like it.
pub(crate) fn names(told: &str) -> impl Iterator<Item = String> {
    let last = told.rsplit(['/', '\\']).next().unwrap_or_default();
    let fit = |c: char| if "<>:\"|?*".contains(c) { '_' } else { c };
    let name: String = last.chars().filter(|c| is_visible(*c)).map(fit).collect();
    let name = name.trim().trim_start_matches('.').trim_end_matches('.').trim();
    let mut name = if name.is_empty() { "attachment" } else { name }.to_owned();
    while FILE_NAME_BYTES_MAX < name.len() {
        name.pop();
    }
    let dot = name.rfind('.').filter(|at| 0 < *at).unwrap_or(name.len());
    let (stem, ending) = (name[..dot].to_owned(), name[dot..].to_owned());
    std::iter::once(name).chain((2..=NAMES_MAX).map(move |n| format!("{stem}-{n}{ending}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_the_folder_and_say_nothing_else() {
        for (told, expected) in [
            ("log.txt", "log.txt"),
            ("../../.ssh/authorized_keys", "authorized_keys"),
            ("C:\\Windows\\x.dll", "x.dll"),
            ("..", "attachment"),
            ("", "attachment"),
            (".bashrc", "bashrc"),
            ("a\u{202e}gpj.exe\u{1b}[2J", "agpj.exe[2J"),
            ("con:x", "con_x"),
            ("日本.txt", "日本.txt"),
        ] {
            assert_eq!(names(told).next().unwrap(), expected, "{told:?}");
        }
        assert_eq!(names("a.tar.gz").nth(2).unwrap(), "a.tar-3.gz");
        assert!(names(&"ä".repeat(500)).all(|name| name.len() < 255));
    }

    /// Holds Z8.
    #[test]
    fn only_files_of_the_project_are_read() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap().join("project");
        let outside = root.with_file_name("secret");
        fs::create_dir_all(root.join("a")).unwrap();
        fs::write(root.join("a/log.txt"), "log").unwrap();
        fs::write(&outside, "secret").unwrap();
        let link = |to: &Path, name: &str| {
            std::os::unix::fs::symlink(to, root.join(name)).unwrap();
        };
        link(&outside, "out");
        link(Path::new(".."), "up");
        link(Path::new("a/log.txt"), "in");
        link(Path::new("a"), "b");
        fs::hard_link(&outside, root.join("second")).unwrap();
        let project = Project::of(&root, None, &[]);
        let read =
            |path: &Path| project.read(path).map(|it| String::from_utf8_lossy(&it).into_owned());
        for good in [Path::new("a/log.txt"), Path::new("./a/log.txt"), &root.join("a/log.txt")] {
            assert_eq!(read(good).unwrap(), "log", "{}", good.display());
        }
        for path in [Path::new("../secret"), &outside, Path::new("a/../../secret")] {
            assert!(matches!(read(path), Err(No::Outside(_))), "{}", path.display());
        }
        for (path, why) in [
            ("out", "it is a link, and links are not followed"),
            ("in", "it is a link, and links are not followed"),
            (
                "second",
                "it has a second name (a hard link), so it may be from elsewhere; use a copy of it",
            ),
            ("a", "it is no plain file"),
        ] {
            assert_eq!(read(Path::new(path)).unwrap_err().to_string(), why, "{path}");
        }
        for path in ["up/secret", "b/log.txt"] {
            let why = read(Path::new(path)).unwrap_err().to_string();
            assert!(why.contains(" is a link, and links are not followed here"), "{why}");
        }
        assert!(matches!(read(Path::new("none")), Err(No::NoFile(it)) if it.is_missing()));
        assert_eq!(project.read_up_to(Path::new("a/log.txt"), 3).unwrap(), "log");
        let why = project.read_up_to(Path::new("a/log.txt"), 2).unwrap_err();
        assert_eq!(why.to_string(), "it has more than 2 bytes");
        // An agent may narrow it, never widen it.
        let own = |registered: &Path| Project::of(&root, Some(registered.to_owned()), &[]).below;
        assert_eq!(own(&root.join("a")), Path::new("a"));
        assert_eq!(own(place.path()), Path::new(""));
        assert_eq!(own(&root.join("up")).as_path(), Path::new("up"), "refused when it is opened");
    }

    #[test]
    fn nothing_of_the_nodes_own_directories_is_read() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap().join("project");
        let data = root.join("sub/.tasuki");
        fs::create_dir_all(data.join("tls")).unwrap();
        fs::create_dir_all(data.join("inner")).unwrap();
        for name in ["sub/.tasuki/tls/key.pem", "sub/.tasuki/key", "sub/.tasuki/inner/x", "sub/x"] {
            fs::write(root.join(name), "x").unwrap();
        }
        // As somebody else may call it.
        std::os::unix::fs::symlink(&root, place.path().join("link")).unwrap();
        let private = [place.path().join("none"), place.path().join("link/sub/.tasuki")];
        let project = |registered: &str| Project::of(&root, Some(root.join(registered)), &private);
        for (registered, path) in [
            ("", "sub/.tasuki/tls/key.pem"),
            ("", "./sub/./.tasuki/key"),
            ("sub", ".tasuki/key"),
            ("sub/.tasuki", "key"),
            ("sub/.tasuki/inner", "x"),
        ] {
            let why = project(registered).read(Path::new(path)).unwrap_err();
            assert!(matches!(why, No::Private(_)), "{registered} {path}: {why}");
        }
        assert_eq!(project("").read(Path::new("sub/x")).unwrap(), "x");
        assert_eq!(project("sub").read(Path::new("x")).unwrap(), "x");
        let project = project("sub/.tasuki");
        assert!(matches!(project.save("x", b"x"), Err(No::Private(_))));
        for within in [data.clone(), data.join("inner")] {
            let why = Project::of(&within, None, &private).read(Path::new("x")).unwrap_err();
            assert!(matches!(why, No::Private(_)), "{}: {why}", within.display());
        }
    }

    #[test]
    fn a_key_of_the_nodes_own_is_not_read_wherever_it_lies() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap().join("project");
        fs::create_dir_all(root.join("tls")).unwrap();
        for name in ["tls/key.pem", "tls/cert.pem"] {
            fs::write(root.join(name), "x").unwrap();
        }
        // As a configuration may call it.
        std::os::unix::fs::symlink(&root, place.path().join("link")).unwrap();
        let private = [place.path().join("none"), place.path().join("link/tls/../tls/key.pem")];
        let project = Project::of(&root, None, &private);
        let why = project.read(Path::new("tls/key.pem")).unwrap_err();
        assert!(matches!(why, No::Key(_)), "{why}");
        assert_eq!(project.read(Path::new("tls/cert.pem")).unwrap(), "x");
    }

    /// Somebody who may write to the project swaps a directory in it for a link.
    #[test]
    fn a_directory_that_is_swapped_for_a_link_leads_nowhere() {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap().join("project");
        let outside = root.with_file_name("outside");
        for folder in [root.join("agent/docs"), outside.join("docs")] {
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("x"), if folder.starts_with(&root) { "own" } else { "secret" })
                .unwrap();
        }
        std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
        let project = Project::of(&root, Some(root.join("agent")), &[]);
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (one, other) = (root.join("agent"), root.join("link"));
                while !is_over.load(std::sync::atomic::Ordering::SeqCst) {
                    renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
                }
            });
            let (mut read, mut saved) = (0, 0);
            for n in 0..2_000 {
                if let Ok(content) = project.read(Path::new("docs/x")) {
                    assert_eq!(content, "own");
                    read += 1;
                }
                saved += usize::from(project.save(&format!("{n}.txt"), b"new").is_ok());
            }
            is_over.store(true, std::sync::atomic::Ordering::SeqCst);
            assert!(0 < read && 0 < saved, "{read} {saved}");
        });
        let inside: Vec<_> = fs::read_dir(outside.join("docs")).unwrap().collect();
        assert_eq!(inside.len(), 1, "{inside:?}");
    }

    /// Holds Z8.
    #[test]
    fn what_is_saved_takes_nobodys_place() {
        let place = tempfile::tempdir().unwrap();
        let project = Project::of(place.path(), None, &[]);
        let save = |name: &str| project.save(name, b"new").map(|it| it.display().to_string());
        assert_eq!(save("log.txt").unwrap(), "docs/attachments/log.txt");
        assert_eq!(save("../log.txt").unwrap(), "docs/attachments/log-2.txt");
        let elsewhere = tempfile::tempdir().unwrap();
        fs::remove_dir_all(place.path().join("docs")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), place.path().join("docs")).unwrap();
        let why = save("log.txt").unwrap_err().to_string();
        assert!(why.contains("/docs is a link, and links are not followed here"), "{why}");
        assert!(!elsewhere.path().join("attachments/log.txt").exists());
    }
}
