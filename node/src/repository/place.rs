//! Where a repository is on this machine: its root, and what its work trees share.
//!
//! Found by looking, so that nothing in a repository of somebody else's is run or believed.

use std::{
    ffi::OsStr,
    fs::{self, Metadata},
    io,
    path::{Component, Path, PathBuf},
};

/// What a repository has at its top, wherever that is.
const HEAD: &str = "HEAD";

/// What marks the root of a work tree: a directory, or a file that says where that is.
const GIT: &str = ".git";

/// Of the files that say where something is, in bytes; a longer one says nothing.
const LINK_BYTES_MAX: u64 = 16 * 1024;

/// A work tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Without links.
    pub root: PathBuf,
    /// What all work trees of the repository share, without links: configuration and commits.
    pub common: PathBuf,
    /// What this work tree has to itself: its index.
    pub own: PathBuf,
}

/// The work tree that a directory is in. `directory` has no links.
pub(super) fn around(directory: &Path) -> Option<Place> {
    directory.ancestors().find_map(at)
}

/// The work tree whose root this is.
pub(super) fn at(directory: &Path) -> Option<Place> {
    let mark = directory.join(GIT);
    let kind = fs::metadata(&mark).ok()?;
    let own = if kind.is_dir() { mark } else { linked(&mark, "gitdir:")? };
    // An empty directory of that name is no repository.
    own.join(HEAD).symlink_metadata().ok()?;
    let common = linked(&own.join("commondir"), "").unwrap_or_else(|| own.clone());
    let common = canonical(&common).ok()?;
    let own = canonical(&own).ok()?;
    Some(Place { root: directory.to_owned(), common, own })
}

/// Whether a directory is in a repository that has no work tree, so that nobody edits files there.
pub fn is_bare(directory: &Path) -> bool {
    let is_top = |it: &Path| {
        it.join(HEAD).is_file() && it.join("objects").is_dir() && it.join("refs").is_dir()
    };
    around(directory).is_none() && directory.ancestors().any(is_top)
}

/// The path in a small file, from where that file is.
fn linked(file: &Path, prefix: &str) -> Option<PathBuf> {
    let meta = fs::metadata(file).ok()?;
    if !meta.is_file() || LINK_BYTES_MAX < meta.len() {
        return None;
    }
    let text = fs::read(file).ok()?;
    let path = text.strip_prefix(prefix.as_bytes())?.trim_ascii();
    (!path.is_empty()).then(|| file.parent().unwrap_or(file).join(of_bytes(path)))
}

#[cfg(unix)]
pub(super) fn of_bytes(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    OsStr::from_bytes(bytes).into()
}

#[cfg(not(unix))]
pub(super) fn of_bytes(bytes: &[u8]) -> PathBuf {
    String::from_utf8_lossy(bytes).into_owned().into()
}

/// Whether the file system takes `A` and `a` for the same, here: something that is there is looked
/// for under its name in other letters, so nothing is written. Where nothing has a letter, no.
pub(super) fn is_case_folded(directory: &Path) -> bool {
    let own = || Some(directory.file_name()?.to_owned());
    let mark = Some(OsStr::new(GIT).to_owned());
    let first = || {
        let entries = fs::read_dir(directory).ok()?;
        let names = entries.take(64).filter_map(|entry| Some(entry.ok()?.file_name()));
        names.into_iter().find(|name| other_letters(name).is_some())
    };
    let probe = |parent: &Path, name: &OsStr| -> Option<bool> {
        let other = parent.join(other_letters(name)?);
        let here = parent.join(name).symlink_metadata().ok()?;
        match other.symlink_metadata() {
            Ok(there) => Some(is_same(&here, &there)),
            Err(why) => (why.kind() == io::ErrorKind::NotFound).then_some(false),
        }
    };
    let inside = mark.and_then(|it| probe(directory, &it));
    let inside = inside.or_else(|| probe(directory, &first()?));
    inside.or_else(|| probe(directory.parent()?, &own()?)).unwrap_or(false)
}

/// The name with capitals for small letters and the other way round; `None`: it has none.
fn other_letters(name: &OsStr) -> Option<String> {
    let name = name.to_str()?;
    let other: String =
        name.chars()
            .map(|c| {
                if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }
            })
            .collect();
    (other != name).then_some(other)
}

#[cfg(unix)]
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(not(unix))]
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    let facts = |it: &Metadata| (it.created().ok(), it.modified().ok(), it.len());
    facts(one) == facts(other)
}

/// What nothing else on any machine is called: this machine, the path, and which directory that
/// is, should another take its place. All nodes of the machine say the same.
pub(super) fn own_name(directory: &Path) -> String {
    let mut facts = blake3::Hasher::new();
    let mut add = |fact: &[u8]| {
        facts.update(&(fact.len() as u64).to_be_bytes());
        facts.update(fact);
    };
    add(machine().as_bytes());
    add(directory.as_os_str().as_encoded_bytes());
    if let Ok(meta) = fs::metadata(directory) {
        add(&inode(&meta).to_be_bytes());
        let created = meta.created().ok();
        let created = created.and_then(|it| it.duration_since(std::time::UNIX_EPOCH).ok());
        add(&created.unwrap_or_default().as_nanos().to_be_bytes());
    }
    facts.finalize().to_hex()[..32].to_owned()
}

#[cfg(unix)]
fn inode(meta: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(meta)
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> u64 {
    0
}

fn machine() -> String {
    let id = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    format!("{} {}", host_name(), id.trim())
}

#[cfg(unix)]
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

/// Without links.
pub(super) fn canonical(path: &Path) -> io::Result<PathBuf> {
    let real = path.canonicalize()?;
    // On Windows such paths have a form of their own, which nobody else writes.
    let plain = cfg!(windows).then(|| real.to_str()?.strip_prefix(r"\\?\")).flatten();
    let plain = plain.filter(|it| !it.starts_with("UNC")).map(PathBuf::from);
    Ok(plain.unwrap_or(real))
}

/// Why a path leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Astray {
    /// `..` leads out of the file system.
    Above,
    /// Where a link on the way leads nobody can say.
    Link,
}

/// A path without links and `..`, as far as it is there; what is not there follows as it was said.
///
/// The last part is not followed where it is a link and `is_last_kept`: then the link is meant.
pub(super) fn resolved(path: &Path, is_last_kept: bool) -> Result<PathBuf, Astray> {
    let mut real = PathBuf::new();
    let mut parts = path.components().peekable();
    let mut is_there = true;
    while let Some(part) = parts.next() {
        match part {
            Component::Prefix(_) | Component::RootDir => real.push(part),
            Component::CurDir => {}
            Component::ParentDir => {
                if !real.pop() {
                    return Err(Astray::Above);
                }
            }
            Component::Normal(name) => {
                real.push(name);
                let is_kept = is_last_kept && parts.peek().is_none();
                if is_there && !is_kept {
                    match real.symlink_metadata() {
                        Ok(meta) if meta.is_symlink() => match canonical(&real) {
                            Ok(to) => real = to,
                            Err(_) => return Err(Astray::Link),
                        },
                        Ok(_) => {}
                        Err(_) => is_there = false,
                    }
                }
            }
        }
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_turned_round() {
        let other = |name: &str| other_letters(OsStr::new(name));
        assert_eq!(other(".git").as_deref(), Some(".GIT"));
        assert_eq!(other("Makefile").as_deref(), Some("mAKEFILE"));
        assert_eq!(other("42-工"), None);
    }

    #[test]
    fn letters_count_where_the_file_system_says_so() {
        let place = tempfile::tempdir().unwrap();
        // As it is where these tests run: two files, or one.
        fs::write(place.path().join("probe"), "").unwrap();
        let is_folded = place.path().join("PROBE").exists();
        assert_eq!(is_case_folded(place.path()), is_folded);
        fs::create_dir(place.path().join(GIT)).unwrap();
        assert_eq!(is_case_folded(place.path()), is_folded);
        if !is_folded {
            // Another file of that name is another file.
            fs::create_dir(place.path().join(".GIT")).unwrap();
            assert!(!is_case_folded(place.path()));
        }
    }

    #[test]
    fn directories_that_change_places_are_not_each_other() {
        let place = tempfile::tempdir().unwrap();
        let (one, two) = (place.path().join("one"), place.path().join("two"));
        fs::create_dir(&one).unwrap();
        fs::create_dir(&two).unwrap();
        let name = own_name(&one);
        assert_eq!(own_name(&one), name);
        assert_ne!(own_name(&two), name);
        fs::rename(&one, place.path().join("away")).unwrap();
        fs::rename(&two, &one).unwrap();
        assert_ne!(own_name(&one), name);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_one_by_one() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/f"), "").unwrap();
        let link = |to: &str, name: &str| {
            std::os::unix::fs::symlink(to, root.join(name)).unwrap();
        };
        link("a/b", "l");
        link("a/b/f", "g");
        link("nowhere", "n");
        link("round", "round");
        for (path, is_last_kept, real) in [
            ("l/f", true, Some("a/b/f")),
            ("l/../b/f", true, Some("a/b/f")),
            ("l/new/../f", true, Some("a/b/f")),
            ("g", true, Some("g")),
            ("g", false, Some("a/b/f")),
            ("l", false, Some("a/b")),
            ("n", true, Some("n")),
            ("n/x", true, None),
            ("round", true, Some("round")),
            ("round", false, None),
            ("round/x", true, None),
            ("./new/./x", true, Some("new/x")),
        ] {
            let found = resolved(&root.join(path), is_last_kept);
            assert_eq!(found, real.map(|it| root.join(it)).ok_or(Astray::Link), "{path}");
        }
        assert_eq!(resolved(Path::new("/../../x"), true), Err(Astray::Above));
    }
}
