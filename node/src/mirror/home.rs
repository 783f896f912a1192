//! Where each role's boxes are: `docs/mailbox/{inbox,outbox,done,cancel}` of a project, or
//! `docs/mailbox/ROLE/{…}` where roles share one.
//!
//! Once roles have shared a project each keeps its own folder there. A role that had the project to
//! itself until another came takes all of its files along.
//!
//! - **Z3** No file is touched outside the project: each folder is entered from the one it is in, no
//!   link is followed, and what is done with a file is done in the open folder.
//! - **Z7** A folder is one node's at a time.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use tasuki_proto::{id::RoleId, mail::BoxKind};

use super::{
    disk::Disk,
    name::{self, fold},
};
use crate::{dir::Dir, filebox::MAILBOX};

/// A role's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Home {
    /// The project.
    pub(super) root: PathBuf,
    /// The operator's directory that it was found in.
    within: PathBuf,
    /// In the project.
    below: PathBuf,
}

/// The role's boxes, opened.
#[derive(Debug)]
pub(super) struct Boxes {
    home: Dir,
    folders: [Dir; 4],
}

impl Boxes {
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (&self.home, &self.folders) == (&other.home, &other.folders)
    }

    pub(super) fn folder(&self, kind: BoxKind) -> &Dir {
        &self.folders[kind as usize]
    }

    /// For people.
    pub(super) fn file(&self, kind: BoxKind, name: &str) -> PathBuf {
        self.folder(kind).join(name)
    }

    /// Which of them a folder is.
    pub(super) fn kind_of(&self, folder: &Path) -> Option<BoxKind> {
        BoxKind::ALL.into_iter().find(|kind| self.folder(*kind).path() == folder)
    }

    /// Keeps other nodes out of the folder for as long as the file is open: each would take the
    /// other's files for what people put there.
    pub(super) fn hold(&self) -> io::Result<fs::File> {
        let folder = self.home.to_file()?;
        match folder.try_lock() {
            // Where a file system knows no locks, nobody is kept out.
            Ok(()) | Err(fs::TryLockError::Error(_)) => Ok(folder),
            Err(fs::TryLockError::WouldBlock) => Err(io::Error::other(format!(
                "another node keeps a mailbox in {}. Make docs/mailbox/ROLE/inbox in the project \
                 for a folder of the role's own, or say mirror_root, and start this node again",
                self.home.path().display(),
            ))),
        }
    }
}

impl Home {
    fn shared(root: &Path, within: &Path) -> Self {
        Self { root: root.to_owned(), within: within.to_owned(), below: MAILBOX.into() }
    }

    fn own(root: &Path, within: &Path, folder: &str) -> Self {
        Self { below: Path::new(MAILBOX).join(folder), ..Self::shared(root, within) }
    }

    /// For people, and to know it again.
    pub(super) fn folder(&self) -> PathBuf {
        self.root.join(&self.below)
    }

    #[cfg(test)]
    pub(super) fn open(&self) -> io::Result<Boxes> {
        self.open_with(|_| Ok(()))
    }

    /// Makes what is missing of its folders, but never the project itself. `keep` is told of an
    /// outbox that is made before anybody can put something into it: if it fails, there is none.
    pub(super) fn open_with(&self, keep: impl Fn(&Dir) -> io::Result<()>) -> io::Result<Boxes> {
        let named = |why: io::Error| {
            io::Error::new(why.kind(), format!("{}: {why}", self.within.display()))
        };
        let within = Dir::open_real(&self.within).map_err(named)?;
        let root =
            within.walk(self.root.strip_prefix(&self.within).unwrap_or_else(|_| Path::new("")))?;
        let home = root.walk_or_make(&self.below)?;
        make_outbox(&home, keep)?;
        let folders = BoxKind::ALL.map(|kind| home.enter_or_make(kind.as_str()));
        let [one, two, three, four] = folders;
        Ok(Boxes { folders: [one?, two?, three?, four?], home })
    }

    /// Whether its boxes lie in the project's mailbox itself.
    fn is_shared(&self) -> bool {
        self.below == Path::new(MAILBOX)
    }

    /// The folder that the role had here while it had the project to itself, if it is another.
    pub(super) fn before(&self) -> Option<Self> {
        (!self.is_shared()).then(|| Self::shared(&self.root, &self.within))
    }

    /// Brings everything that is in the boxes of `before` here. What cannot come, because its name
    /// is taken, stays; how many files that are.
    pub(super) fn take_over(before: &Boxes, to: &Boxes, disk: &Disk) -> io::Result<usize> {
        let mut left = 0;
        for kind in BoxKind::ALL {
            let (from, to) = (before.folder(kind), to.folder(kind));
            for name in from.names()? {
                let done = disk.rename((from, &name), (to, &name))?;
                left += usize::from(done != super::disk::Done::Yes);
            }
            // Only an empty one goes; anything in it is somebody's.
            drop(before.home.remove_dir(kind.as_str()));
        }
        Ok(left)
    }
}

/// Makes an outbox where none is, under another name at first: which directory it is says the same
/// once it has its own. Whatever is in an outbox that is not made here lay there before.
fn make_outbox(home: &Dir, keep: impl Fn(&Dir) -> io::Result<()>) -> io::Result<()> {
    let outbox = BoxKind::Outbox.as_str();
    if home.stat(outbox)?.is_some() {
        return Ok(());
    }
    let new = name::new(outbox);
    // One that is not empty is not from here.
    let is_made = home.make(&new)? || (home.remove_dir(&new).is_ok() && home.make(&new)?);
    if !is_made {
        return Ok(());
    }
    keep(&home.enter(&new)?)?;
    match home.rename_new(&new, home, outbox) {
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => home.remove_dir(&new),
        renamed => renamed,
    }
}

/// The home of each role, given its project's root. `within`: the operator's directory that agents
/// chose theirs in. All were resolved when they were named: a link that got into one since is not
/// followed, so nothing is resolved here.
pub(super) fn homes(
    roots: &BTreeMap<RoleId, PathBuf>,
    within: Option<&Path>,
) -> BTreeMap<RoleId, Home> {
    let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let within = within.map(whole);
    let mut by_root: BTreeMap<PathBuf, Vec<&RoleId>> = BTreeMap::new();
    for (role, root) in roots {
        by_root.entry(whole(root)).or_default().push(role);
    }
    let mut homes = BTreeMap::new();
    for (root, roles) in by_root {
        let within = within.as_deref().filter(|within| root.starts_with(within)).unwrap_or(&root);
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
                Home::own(&root, within, &folder)
            })
            .collect();
        let was_split =
            |home: &Home| BoxKind::ALL.iter().any(|it| home.folder().join(it.as_str()).is_dir());
        let is_split = 1 < roles.len() || own.iter().any(was_split);
        for (role, own) in roles.into_iter().zip(own) {
            homes.insert(role.clone(), if is_split { own } else { Home::shared(&root, within) });
        }
    }
    homes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(root: &Path) -> Home {
        Home::shared(root, root)
    }

    fn told(root: &Path, roles: &[&str]) -> String {
        let roots = roles.iter().map(|it| (it.parse().unwrap(), root.to_owned())).collect();
        let all = homes(&roots, None);
        let below = |home: &Home| home.below.display().to_string();
        let all: Vec<String> =
            all.iter().map(|(role, home)| format!("{role}={}", below(home))).collect();
        all.join(" ")
    }

    #[test]
    fn a_project_that_is_gone_is_named() {
        let gone = shared(Path::new("/none/such"));
        let why = gone.open().expect_err("it is gone").to_string();
        assert!(why.starts_with("/none/such: "), "{why}");
    }

    #[test]
    fn one_role_has_the_mailbox_and_several_have_folders_for_good() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        assert_eq!(told(root, &["qa"]), "qa=docs/mailbox");
        assert_eq!(told(root, &["dev", "qa"]), "dev=docs/mailbox/dev qa=docs/mailbox/qa");
        let two = homes(
            &["dev", "qa"].iter().map(|it| (it.parse().unwrap(), root.into())).collect(),
            None,
        );
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
    fn a_folder_behind_a_link_is_refused() {
        let (place, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let home = shared(place.path());
        let link = |from: &Path, to: &Path| std::os::unix::fs::symlink(from, to);
        let why = || home.open().unwrap_err().to_string();
        link(other.path(), &place.path().join("docs")).unwrap();
        assert!(why().contains("/docs is a link, and links are not followed"), "{}", why());
        assert_eq!(fs::read_dir(other.path()).unwrap().count(), 0);
        // Also within the project: somebody may change it at any time.
        fs::remove_file(place.path().join("docs")).unwrap();
        fs::create_dir_all(place.path().join("elsewhere/mail")).unwrap();
        fs::create_dir(place.path().join("docs")).unwrap();
        link(&place.path().join("elsewhere/mail"), &place.path().join("docs/mailbox")).unwrap();
        assert!(why().contains("/docs/mailbox is a link"), "{}", why());
        let none = shared(&place.path().join("gone"));
        assert_eq!(none.open().unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_project_that_an_agent_chose_is_in_the_operators_whatever_becomes_of_it() {
        let (place, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let within = place.path().canonicalize().unwrap();
        let chosen = within.join("one");
        fs::create_dir(&chosen).unwrap();
        let roots = [("qa".parse().unwrap(), chosen.clone())].into();
        let open = || homes(&roots, Some(&within)).into_values().next().unwrap().open();
        open().unwrap();
        fs::rename(&chosen, within.join("two")).unwrap();
        std::os::unix::fs::symlink(other.path(), &chosen).unwrap();
        assert!(open().unwrap_err().to_string().contains("/one is a link"));
        assert_eq!(fs::read_dir(other.path()).unwrap().count(), 0);
    }

    /// Holds Z3.
    #[test]
    fn a_project_that_is_swapped_for_a_link_leads_nowhere() {
        let (place, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = place.path().canonicalize().unwrap().join("sub");
        fs::create_dir(&root).unwrap();
        let roots = [("qa".parse().unwrap(), root.clone())].into();
        let home = || homes(&roots, None).into_values().next().unwrap();
        let before = home();
        before.open().unwrap();
        fs::rename(&root, root.with_file_name("sub.old")).unwrap();
        std::os::unix::fs::symlink(other.path(), &root).unwrap();
        for home in [before, home()] {
            let why = home.open().unwrap_err().to_string();
            assert!(why.contains("/sub is a link, and links are not followed"), "{why}");
        }
        assert_eq!(fs::read_dir(other.path()).unwrap().count(), 0);
    }

    /// Holds Z9.
    #[test]
    fn an_outbox_is_kept_before_it_is_there() {
        let place = tempfile::tempdir().unwrap();
        let home = shared(place.path());
        let mailbox = place.path().join(MAILBOX);
        home.open_with(|_| Err(io::Error::other("full"))).unwrap_err();
        assert!(!mailbox.join("outbox").exists());
        let told = std::cell::RefCell::new(Vec::new());
        let keep = |outbox: &Dir| -> io::Result<()> {
            assert!(!mailbox.join("outbox").exists());
            told.borrow_mut().push(outbox.identity()?);
            Ok(())
        };
        let boxes = home.open_with(keep).unwrap();
        assert_eq!(*told.borrow(), [boxes.folder(BoxKind::Outbox).identity().unwrap()]);
        home.open_with(|_| Err(io::Error::other("it is there"))).unwrap();
        assert_eq!(fs::read_dir(&mailbox).unwrap().count(), 4);
    }

    /// Holds Z7.
    #[test]
    fn a_folder_is_one_nodes() {
        let place = tempfile::tempdir().unwrap();
        let home = shared(place.path());
        let hold = || home.open().unwrap().hold();
        let held = hold().unwrap();
        let why = hold().unwrap_err().to_string();
        assert!(why.starts_with("another node keeps a mailbox in "), "{why}");
        drop(held);
        hold().unwrap();
        // What is said to do helps.
        fs::create_dir_all(place.path().join("docs/mailbox/dev/inbox")).unwrap();
        assert_eq!(told(place.path(), &["dev"]), "dev=docs/mailbox/dev");
    }

    #[test]
    fn who_had_the_mailbox_takes_all_files_along() {
        let place = tempfile::tempdir().unwrap();
        let (alone, own) = (shared(place.path()), Home::own(place.path(), place.path(), "qa"));
        let boxes = alone.open().unwrap();
        for (kind, name) in
            [(BoxKind::Inbox, "a.md"), (BoxKind::Inbox, "b.md.edited"), (BoxKind::Done, "c.md")]
        {
            fs::write(boxes.file(kind, name), name).unwrap();
        }
        let there = own.open().unwrap();
        fs::write(there.file(BoxKind::Done, "c.md"), "taken").unwrap();
        assert_eq!(own.before(), Some(alone.clone()));
        assert_eq!(Home::take_over(&boxes, &there, &Disk::default()).unwrap(), 1);
        assert!(there.file(BoxKind::Inbox, "b.md.edited").exists());
        assert_eq!(fs::read(there.file(BoxKind::Done, "c.md")).unwrap(), b"taken");
        let mailbox = place.path().join(MAILBOX);
        assert!(!mailbox.join("inbox").exists() && mailbox.join("done/c.md").exists());
        assert_eq!(alone.before(), None);
    }
}
