//! Attached files on this machine: their names, and the project that agents attach from and save to.
//!
//! - **Z8** An agent's attachments come from its project and go there: no path and no link leads
//!   out of it, and nothing that is there is written over.
//!
//! The project is the operator's to name: an agent's own word for it would open any file that the
//! node may read to whoever may call it.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    path::{Component, Path, PathBuf},
};

use bytes::Bytes;
use tasuki_proto::{
    limits::{ATTACHMENT_BYTES_MAX, FILE_NAME_BYTES_MAX},
    visible::is_visible,
};

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
    root: PathBuf,
}

/// Why a file is not read, or not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum No {
    #[error("it is outside of the project, {0}")]
    Outside(PathBuf),
    #[error("it is no file")]
    Strange,
    #[error("it has more than {ATTACHMENT_BYTES_MAX} bytes")]
    TooLarge,
    #[error("{NAMES_MAX} files have that name already")]
    Taken,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Project {
    /// What the role of a node has: `registered` by an agent where that is inside of what the
    /// operator named, else all of that.
    pub(crate) fn of(root: &Path, registered: Option<PathBuf>) -> Self {
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        let own = registered.and_then(|it| it.canonicalize().ok());
        Self { root: own.filter(|own| own.starts_with(&root)).unwrap_or(root) }
    }

    /// A file of it, by a path in it or an absolute one. Blocks on the disk.
    pub(crate) fn read(&self, path: &Path) -> Result<Bytes, No> {
        let below = self.below(path)?;
        let file = open_beneath(&self.root, &below, false).map_err(|why| self.no(why))?;
        if !file.metadata()?.is_file() {
            return Err(No::Strange);
        }
        let mut content = Vec::new();
        // It may grow meanwhile.
        file.take(ATTACHMENT_BYTES_MAX + 1).read_to_end(&mut content)?;
        if ATTACHMENT_BYTES_MAX < content.len() as u64 {
            return Err(No::TooLarge);
        }
        Ok(content.into())
    }

    /// Writes a file of the name that was told, or one like it; where, in the project. Blocks on
    /// the disk.
    pub(crate) fn save(&self, name: &str, content: &[u8]) -> Result<PathBuf, No> {
        let folder = self.folder()?;
        for name in names(name) {
            let path = folder.join(name);
            match open_beneath(&self.root, &path, true) {
                Ok(mut file) => {
                    file.write_all(content)?;
                    return Ok(path);
                }
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
                Err(why) => return Err(self.no(why)),
            }
        }
        Err(No::Taken)
    }

    fn folder(&self) -> Result<PathBuf, No> {
        let mut folder = PathBuf::new();
        for part in Path::new(FOLDER).components() {
            folder.push(part);
            let made = self.root.join(&folder);
            match fs::create_dir(&made) {
                Err(why) if why.kind() != io::ErrorKind::AlreadyExists => return Err(why.into()),
                Ok(()) | Err(_) => {}
            }
            if !made.canonicalize()?.starts_with(&self.root) {
                return Err(No::Outside(self.root.clone()));
            }
        }
        Ok(folder)
    }

    fn below(&self, path: &Path) -> Result<PathBuf, No> {
        let outside = || No::Outside(self.root.clone());
        let below = if path.is_absolute() {
            path.strip_prefix(&self.root).map_err(|_| outside())?
        } else {
            path
        };
        let is_plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if below.components().all(is_plain) { Ok(below.to_owned()) } else { Err(outside()) }
    }

    fn no(&self, why: io::Error) -> No {
        if why.kind() == io::ErrorKind::CrossesDevices {
            No::Outside(self.root.clone())
        } else {
            No::Io(why)
        }
    }
}

/// Opens a file to read it, or makes one that is new; a link that leads out is refused by the
/// system itself, whoever changes what in that moment.
#[cfg(target_os = "linux")]
fn open_beneath(root: &Path, below: &Path, is_new: bool) -> io::Result<File> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

    let directory = openat(CWD, root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    // A pipe that nobody writes to is not waited for.
    let (flags, mode) = match is_new {
        true => (OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, Mode::from_raw_mode(0o644)),
        false => (OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()),
    };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(&directory, below, flags | OFlags::CLOEXEC, mode, resolve)?.into())
}

/// The same where the system cannot: between the look and the opening somebody may change a link.
#[cfg(not(target_os = "linux"))]
fn open_beneath(root: &Path, below: &Path, is_new: bool) -> io::Result<File> {
    let path = root.join(below);
    let parent = path.parent().unwrap_or(root).canonicalize()?;
    let real = if is_new { parent } else { path.canonicalize()? };
    if !real.starts_with(root) {
        return Err(io::ErrorKind::CrossesDevices.into());
    }
    if is_new {
        return File::create_new(path);
    }
    if !real.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    File::open(real)
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
        let project = Project::of(&root, None);
        let read =
            |path: &Path| project.read(path).map(|it| String::from_utf8_lossy(&it).into_owned());
        for good in [Path::new("a/log.txt"), Path::new("./in"), &root.join("a/log.txt")] {
            assert_eq!(read(good).unwrap(), "log", "{}", good.display());
        }
        let out = [Path::new("../secret"), Path::new("out"), Path::new("up/secret"), &outside];
        for path in out {
            assert!(matches!(read(path), Err(No::Outside(_))), "{}", path.display());
        }
        assert!(matches!(read(Path::new("a")), Err(No::Strange)));
        assert!(matches!(read(Path::new("none")), Err(No::Io(_))));
        // An agent may narrow it, never widen it.
        assert_eq!(Project::of(&root, Some(root.join("a"))).root, root.join("a"));
        assert_eq!(Project::of(&root, Some(place.path().to_owned())).root, root);
    }

    #[test]
    fn what_is_saved_takes_nobodys_place() {
        let place = tempfile::tempdir().unwrap();
        let project = Project::of(place.path(), None);
        let save = |name: &str| project.save(name, b"new").map(|it| it.display().to_string());
        assert_eq!(save("log.txt").unwrap(), "docs/attachments/log.txt");
        assert_eq!(save("../log.txt").unwrap(), "docs/attachments/log-2.txt");
        let elsewhere = tempfile::tempdir().unwrap();
        fs::remove_dir_all(place.path().join("docs")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), place.path().join("docs")).unwrap();
        assert!(matches!(save("log.txt"), Err(No::Outside(_))));
        assert!(!elsewhere.path().join("attachments/log.txt").exists());
    }
}
