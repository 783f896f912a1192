//! Where each role's boxes are: `docs/mailbox/{inbox,outbox,done,cancel}` of a project, or
//! `docs/mailbox/ROLE/{…}` where roles share one.
//!
//! Once roles have shared a project each keeps its own folder there. A role that had the project to
//! itself until another came takes all of its files along.
//!
//! - **Z3** No file is touched outside the project: a folder that leads out of it is refused.
//! - **Z7** A folder is one node's at a time.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Component, Path, PathBuf},
};

use tasuki_proto::{id::RoleId, mail::BoxKind};

use super::{disk::Disk, name::fold};
use crate::filebox::MAILBOX;

/// A role's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Home {
    /// The project.
    pub(super) root: PathBuf,
    /// In it.
    below: PathBuf,
}

/// The role's boxes, looked up: folders that are there, and inside the project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Boxes {
    folders: [PathBuf; 4],
    /// Tells a folder from another that came into its place.
    inodes: [u64; 4],
}

impl Boxes {
    pub(super) fn folder(&self, kind: BoxKind) -> &Path {
        &self.folders[kind as usize]
    }

    pub(super) fn file(&self, kind: BoxKind, name: &str) -> PathBuf {
        self.folder(kind).join(name)
    }

    /// Which of them a folder is.
    pub(super) fn kind_of(&self, folder: &Path) -> Option<BoxKind> {
        BoxKind::ALL.into_iter().find(|kind| self.folder(*kind) == folder)
    }
}

impl Home {
    fn shared(root: &Path) -> Self {
        Self { root: root.to_owned(), below: MAILBOX.into() }
    }

    fn own(root: &Path, folder: &str) -> Self {
        Self { root: root.to_owned(), below: Path::new(MAILBOX).join(folder) }
    }

    /// For people, and to know it again.
    pub(super) fn folder(&self) -> PathBuf {
        self.root.join(&self.below)
    }

    /// Makes what is missing of its folders, but never the project itself.
    pub(super) fn open(&self) -> io::Result<Boxes> {
        let root = self
            .root
            .canonicalize()
            .map_err(|why| io::Error::new(why.kind(), format!("{}: {why}", self.root.display())))?;
        let folder = enter(&root, &root, &self.below)?;
        let (folders, inodes) = Default::default();
        let mut boxes = Boxes { folders, inodes };
        for kind in BoxKind::ALL {
            let own = enter(&root, &folder, Path::new(kind.as_str()))?;
            boxes.inodes[kind as usize] = fs::metadata(&own)?.ino();
            boxes.folders[kind as usize] = own;
        }
        Ok(boxes)
    }

    /// Keeps other nodes out of the folder for as long as the file is open: each would take the
    /// other's files for what people put there.
    pub(super) fn hold(&self) -> io::Result<fs::File> {
        let folder = fs::File::open(self.folder())?;
        match folder.try_lock() {
            // Where a file system knows no locks, nobody is kept out.
            Ok(()) | Err(fs::TryLockError::Error(_)) => Ok(folder),
            Err(fs::TryLockError::WouldBlock) => {
                let own = self.root.join(MAILBOX).join("ROLE/inbox");
                Err(io::Error::other(format!(
                    "another node keeps a mailbox in {}. Make {} for a folder of the role's own, or \
                     say mirror_root, and start this node again",
                    self.folder().display(),
                    own.display()
                )))
            }
        }
    }

    /// Whether its boxes lie in the project's mailbox itself.
    fn is_shared(&self) -> bool {
        self.below == Path::new(MAILBOX)
    }

    /// The folder that the role had here while it had the project to itself, if it is another.
    pub(super) fn before(&self) -> Option<Self> {
        (!self.is_shared()).then(|| Self::shared(&self.root))
    }

    /// Brings everything that is in the boxes of `before` here. What cannot come, because its name
    /// is taken, stays; how many files that are.
    pub(super) fn take_over(&self, before: &Self, disk: &Disk) -> io::Result<usize> {
        let (from, to) = (before.open()?, self.open()?);
        let mut left = 0;
        for kind in BoxKind::ALL {
            for entry in fs::read_dir(from.folder(kind))? {
                let entry = entry?;
                let target = to.folder(kind).join(entry.file_name());
                let done = disk.rename(&entry.path(), &target)?;
                left += usize::from(done != super::disk::Done::Yes);
            }
            // Only an empty one goes; anything in it is somebody's.
            drop(fs::remove_dir(from.folder(kind)));
        }
        Ok(left)
    }
}

fn enter(root: &Path, from: &Path, below: &Path) -> io::Result<PathBuf> {
    let mut at = from.to_owned();
    for part in below.components() {
        let Component::Normal(part) = part else {
            return Err(io::Error::other(format!("{} is no plain path", below.display())));
        };
        let next = at.join(part);
        match fs::create_dir(&next) {
            Err(why) if why.kind() != io::ErrorKind::AlreadyExists => return Err(why),
            Ok(()) | Err(_) => {}
        }
        at = next.canonicalize()?;
        if !at.starts_with(root) {
            let why = format!("{} leads out of {}", next.display(), root.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        if !at.is_dir() {
            let why = format!("{} is no directory", next.display());
            return Err(io::Error::new(io::ErrorKind::NotADirectory, why));
        }
    }
    Ok(at)
}

/// The home of each role, given its project's root.
pub(super) fn homes(roots: &BTreeMap<RoleId, PathBuf>) -> BTreeMap<RoleId, Home> {
    let mut by_root: BTreeMap<PathBuf, Vec<&RoleId>> = BTreeMap::new();
    for (role, root) in roots {
        let real = root.canonicalize().or_else(|_| std::path::absolute(root));
        by_root.entry(real.unwrap_or_else(|_| root.clone())).or_default().push(role);
    }
    let mut homes = BTreeMap::new();
    for (root, roles) in by_root {
        let mut taken: Vec<String> = BoxKind::ALL.iter().map(|it| fold(it.as_str())).collect();
        let own: Vec<Home> = roles
            .iter()
            .map(|role| {
                let mut folder = role.to_string();
                if taken.contains(&fold(&folder)) {
                    // The same file name where letters of either case are the same.
                    let digits = blake3::hash(role.as_str().as_bytes()).to_hex();
                    folder = format!("{role}-{}", &digits[..8]);
                }
                taken.push(fold(&folder));
                Home::own(&root, &folder)
            })
            .collect();
        let was_split =
            |home: &Home| BoxKind::ALL.iter().any(|it| home.folder().join(it.as_str()).is_dir());
        let is_split = 1 < roles.len() || own.iter().any(was_split);
        for (role, own) in roles.into_iter().zip(own) {
            homes.insert(role.clone(), if is_split { own } else { Home::shared(&root) });
        }
    }
    homes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(root: &Path, roles: &[&str]) -> String {
        let roots = roles.iter().map(|it| (it.parse().unwrap(), root.to_owned())).collect();
        let all = homes(&roots);
        let below = |home: &Home| home.below.display().to_string();
        let all: Vec<String> =
            all.iter().map(|(role, home)| format!("{role}={}", below(home))).collect();
        all.join(" ")
    }

    #[test]
    fn a_project_that_is_gone_is_named() {
        let gone = Home::shared(Path::new("/none/such"));
        let why = gone.open().expect_err("it is gone").to_string();
        assert!(why.starts_with("/none/such: "), "{why}");
    }

    #[test]
    fn one_role_has_the_mailbox_and_several_have_folders_for_good() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        assert_eq!(told(root, &["qa"]), "qa=docs/mailbox");
        assert_eq!(told(root, &["dev", "qa"]), "dev=docs/mailbox/dev qa=docs/mailbox/qa");
        let two =
            homes(&["dev", "qa"].iter().map(|it| (it.parse().unwrap(), root.into())).collect());
        two[&"qa".parse().unwrap()].open().unwrap();
        assert_eq!(told(root, &["qa"]), "qa=docs/mailbox/qa");
        assert_eq!(told(root, &["ops"]), "ops=docs/mailbox");
    }

    #[test]
    fn folders_are_told_apart_whatever_the_case() {
        let place = tempfile::tempdir().unwrap();
        let said = told(place.path(), &["A", "a", "Inbox"]);
        assert_eq!(
            said,
            "A=docs/mailbox/A Inbox=docs/mailbox/Inbox-fa776d00 a=docs/mailbox/a-17762fdd"
        );
    }

    #[test]
    fn a_folder_that_leads_out_of_the_project_is_refused() {
        let (place, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let home = Home::shared(place.path());
        let link = |from: &Path, to: &Path| std::os::unix::fs::symlink(from, to);
        link(other.path(), &place.path().join("docs")).unwrap();
        let why = home.open().unwrap_err().to_string();
        assert!(why.contains("/docs leads out of "), "{why}");
        assert_eq!(fs::read_dir(other.path()).unwrap().count(), 0);
        // Within the project it may lead anywhere.
        fs::remove_file(place.path().join("docs")).unwrap();
        fs::create_dir_all(place.path().join("elsewhere/mail")).unwrap();
        fs::create_dir(place.path().join("docs")).unwrap();
        link(&place.path().join("elsewhere/mail"), &place.path().join("docs/mailbox")).unwrap();
        home.open().unwrap();
        assert!(place.path().join("elsewhere/mail/inbox").is_dir());
        let none = Home::shared(&place.path().join("gone"));
        assert_eq!(none.open().unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_folder_is_one_nodes() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::shared(place.path());
        home.open().unwrap();
        let held = home.hold().unwrap();
        let why = home.hold().unwrap_err().to_string();
        assert!(why.starts_with("another node keeps a mailbox in "), "{why}");
        drop(held);
        home.hold().unwrap();
        // What is said to do helps.
        fs::create_dir_all(place.path().join("docs/mailbox/dev/inbox")).unwrap();
        assert_eq!(told(place.path(), &["dev"]), "dev=docs/mailbox/dev");
    }

    #[test]
    fn who_had_the_mailbox_takes_all_files_along() {
        let place = tempfile::tempdir().unwrap();
        let (alone, own) = (Home::shared(place.path()), Home::own(place.path(), "qa"));
        let boxes = alone.open().unwrap();
        for (kind, name) in
            [(BoxKind::Inbox, "a.md"), (BoxKind::Inbox, "b.md.edited"), (BoxKind::Done, "c.md")]
        {
            fs::write(boxes.file(kind, name), name).unwrap();
        }
        let there = own.open().unwrap();
        fs::write(there.file(BoxKind::Done, "c.md"), "taken").unwrap();
        assert_eq!(own.before(), Some(alone.clone()));
        assert_eq!(own.take_over(&alone, &Disk::default()).unwrap(), 1);
        assert!(there.file(BoxKind::Inbox, "b.md.edited").exists());
        assert_eq!(fs::read(there.file(BoxKind::Done, "c.md")).unwrap(), b"taken");
        let mailbox = place.path().join(MAILBOX);
        assert!(!mailbox.join("inbox").exists() && mailbox.join("done/c.md").exists());
        assert_eq!(alone.before(), None);
    }
}
