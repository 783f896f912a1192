//! Small files that must be whole, stay after a power cut, stay private, or belong to one process
//! at a time.

use std::{
    collections::VecDeque,
    fs::{self, DirBuilder, File, TryLockError},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

/// One such file, in bytes; a larger one is not ours.
const BYTES_MAX: u64 = 1024 * 1024;

/// The same of one without secrets: a thousand lines with the longest paths there are.
const OWN_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// How much of a data directory that others get into is looked at, from the top down: every command
/// looks.
const LOOKED_AT_MAX: usize = 10_000;

/// Puts `bytes` at `path` whole or not at all, durably, readable by this user only.
///
/// # Errors
/// Where the directory cannot be written to, or the disk is full; then the old file is there.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = directory_of(path);
    private_directory(directory)?;
    let new = path.with_extension(format!("new-{}", std::process::id()));
    let written = private(&new).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    if let Err(why) = written.and_then(|()| fs::rename(&new, path)) {
        // What is left of it says nothing.
        drop(fs::remove_file(&new));
        return Err(why);
    }
    sync(directory)
}

/// Takes a file away durably; one that is not there is gone.
///
/// # Errors
/// Where the directory cannot be written to.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync(directory_of(path)),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(why) => Err(why),
    }
}

/// A file that is made readable by this user only.
///
/// # Errors
/// Where it cannot be made.
pub fn private(path: &Path) -> io::Result<File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Makes a directory, and those it is in, that are not there; this user alone gets into them.
///
/// # Errors
/// Where one cannot be made.
pub fn private_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// Lets nobody else into a directory of this user's that is there already, as one that is made new.
/// One that belongs to somebody else is theirs to open.
pub fn keep_others_out(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
        // What cannot be looked at is said by whoever uses it.
        let Ok(metadata) = fs::metadata(path) else { return };
        let mode = metadata.permissions().mode();
        if metadata.uid() != rustix::process::geteuid().as_raw() || mode & 0o077 == 0 {
            return;
        }
        // There are file systems that know no modes.
        if let Err(error) = fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7700)) {
            tracing::debug!(%error, path = %path.display(), "others may look into a directory");
        }
    }
    #[cfg(not(unix))]
    let _ = path;
}

/// Why a file that holds a secret is not used.
#[derive(Debug, thiserror::Error)]
pub enum SecretFileError {
    #[error("{path} cannot be read: {source}", path = path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "others on this machine may read or write {path}, so the secret in it counts as known to \
         them; replace the secret, or if nobody else uses this machine: chmod 600 {path}",
        path = path.display()
    )]
    NotPrivate { path: PathBuf },
    #[error(
        "others on this machine may write to {path}, or it belongs to another user; once you have \
         seen that what is in it is yours, make it your own and: chmod go-w {path}",
        path = path.display()
    )]
    NotOwn { path: PathBuf },
    #[error("{path} is not what was written there: {what}", path = path.display())]
    Damaged { path: PathBuf, what: String },
}

/// What a file holds that only this user may read; `None` when it is not there.
///
/// # Errors
/// When it cannot be read, or others can read it too.
pub fn read_secret(path: &Path) -> Result<Option<Vec<u8>>, SecretFileError> {
    read_private(path, BYTES_MAX, is_open_to_others)
}

/// What a private key's file holds; `None` when it is not there. Where the system's own programs
/// keep keys, they are root's, and a group may read them.
///
/// # Errors
/// When it cannot be read, or others can read it too.
pub fn read_key(path: &Path) -> Result<Option<Vec<u8>>, SecretFileError> {
    read_private(path, BYTES_MAX, is_key_open_to_others)
}

/// What a file holds that nobody else may have written; `None` when it is not there.
///
/// # Errors
/// When it cannot be read, or others can write to it.
pub fn read_own(path: &Path) -> Result<Option<Vec<u8>>, SecretFileError> {
    read_private(path, OWN_BYTES_MAX, is_writable_by_others).map_err(|why| match why {
        SecretFileError::NotPrivate { path } => SecretFileError::NotOwn { path },
        SecretFileError::Unreadable { .. }
        | SecretFileError::NotOwn { .. }
        | SecretFileError::Damaged { .. } => why,
    })
}

/// Why a file that is open may be what others wrote; `None`: only this user could.
pub fn not_own(path: &Path, about: &fs::Metadata) -> Option<SecretFileError> {
    is_writable_by_others(about).then(|| SecretFileError::NotOwn { path: path.to_owned() })
}

fn read_private(
    path: &Path,
    bytes_max: u64,
    is_open: fn(&fs::Metadata) -> bool,
) -> Result<Option<Vec<u8>>, SecretFileError> {
    let unreadable = |source| SecretFileError::Unreadable { path: path.to_owned(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(why)
            if matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(None);
        }
        Err(why) => return Err(unreadable(why)),
    };
    // Asked of the file that is open, so nobody can put another in its place meanwhile.
    if is_open(&file.metadata().map_err(unreadable)?) {
        return Err(SecretFileError::NotPrivate { path: path.to_owned() });
    }
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(Some(bytes))
}

#[cfg(unix)]
fn is_open_to_others(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o077 != 0
}

#[cfg(unix)]
fn is_writable_by_others(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o022 != 0
        || !is_own(metadata)
}

#[cfg(unix)]
fn is_key_open_to_others(metadata: &fs::Metadata) -> bool {
    let is_of_root = std::os::unix::fs::MetadataExt::uid(metadata) == 0;
    let others = if is_of_root { 0o037 } else { 0o077 };
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & others != 0
}

/// Who may read a file here is not told by a mode.
#[cfg(not(unix))]
fn is_open_to_others(_metadata: &fs::Metadata) -> bool {
    false
}

/// As above.
#[cfg(not(unix))]
fn is_writable_by_others(_metadata: &fs::Metadata) -> bool {
    false
}

/// As above.
#[cfg(not(unix))]
fn is_key_open_to_others(_metadata: &fs::Metadata) -> bool {
    false
}

/// Why a directory is not used to keep data in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForeignDirectory {
    #[error(
        "others on this machine may write to {path}; once you have seen that nothing of theirs \
         is in it: chmod go-w {path}",
        path = .0.display()
    )]
    Writable(PathBuf),
    #[error(
        "{path} belongs to another user, who can replace what is in it; name a directory of your \
         own, or run this as that user",
        path = .0.display()
    )]
    AnotherUsers(PathBuf),
}

/// Whether nobody else can have put into a data directory, or into the broker's part of it, what is
/// there; one that is not there yet will be this user's alone. Where others get in, what is in it is
/// looked at, too, on every level that they reach. A directory above it that others may write to is
/// no harm: whoever puts another in its place leaves one of their own.
///
/// # Errors
/// When others may write to it, or it is another user's.
pub fn check_data_directory(data: &Path) -> Result<(), ForeignDirectory> {
    for path in [data.to_owned(), data.join(crate::host::config::FOLDER)] {
        // What cannot be looked at is refused by whoever uses it, with the reason.
        let Ok(metadata) = fs::metadata(&path) else { continue };
        check_own(path, &metadata)?;
    }
    check_all_in(data)
}

/// Links are not followed further down: what they lead to is not kept here.
fn check_all_in(data: &Path) -> Result<(), ForeignDirectory> {
    let mut looked_at = 0;
    let mut directories = VecDeque::from([data.to_owned()]);
    while let Some(directory) = directories.pop_front() {
        if !fs::metadata(&directory).is_ok_and(|it| is_entered_by_others(&it)) {
            continue;
        }
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries.map_while(Result::ok) {
            looked_at += 1;
            if LOOKED_AT_MAX < looked_at {
                return Ok(());
            }
            let path = entry.path();
            let Ok(metadata) = fs::metadata(&path) else { continue };
            let is_link = entry.file_type().is_ok_and(|it| it.is_symlink());
            if metadata.is_dir() || (metadata.is_file() && !is_link) {
                check_own(path.clone(), &metadata)?;
            }
            if metadata.is_dir() && !is_link {
                directories.push_back(path);
            }
        }
    }
    Ok(())
}

/// Whether others get at what is in a directory: behind one that is closed, databases and others
/// leave theirs as open as the umask has them.
#[cfg(unix)]
fn is_entered_by_others(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o011 != 0
}

#[cfg(unix)]
fn check_own(path: PathBuf, metadata: &fs::Metadata) -> Result<(), ForeignDirectory> {
    use std::os::unix::fs::PermissionsExt as _;
    if metadata.permissions().mode() & 0o022 != 0 {
        return Err(ForeignDirectory::Writable(path));
    }
    // To root too: what its owner puts in the way of a file is written with the rights of root.
    if is_own(metadata) { Ok(()) } else { Err(ForeignDirectory::AnotherUsers(path)) }
}

/// Whether it belongs to this user, or to the system.
#[cfg(unix)]
pub fn is_own(metadata: &fs::Metadata) -> bool {
    let owner = std::os::unix::fs::MetadataExt::uid(metadata);
    [0, rustix::process::geteuid().as_raw()].contains(&owner)
}

/// Who gets in here is not told by a mode.
#[cfg(not(unix))]
fn is_entered_by_others(_metadata: &fs::Metadata) -> bool {
    false
}

/// Who may write here is not told by a mode.
#[cfg(not(unix))]
fn check_own(_path: PathBuf, _metadata: &fs::Metadata) -> Result<(), ForeignDirectory> {
    Ok(())
}

/// A file that is locked as long as this lives.
///
/// The lock is given back in so many words. Closing the file would not do: a child process that
/// another thread is starting has copies of all files that are open until it becomes another
/// program, and the lock lasts as long as any copy.
#[derive(Debug)]
pub struct Locked(File);

impl Locked {
    /// # Errors
    /// When somebody else has it.
    pub fn take(file: File) -> Result<Self, TryLockError> {
        file.try_lock()?;
        Ok(Self(file))
    }

    pub const fn file(&mut self) -> &mut File {
        &mut self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // Closing it gives it back too, if later.
        let _ = self.0.unlock();
    }
}

/// Which file or directory it is, over restarts of the machine and under whatever name: no
/// repository and nobody who unpacks something chooses when it was made, or its inode.
pub fn identity(about: &fs::Metadata) -> String {
    #[cfg(unix)]
    let (inode, device) = {
        use std::os::unix::fs::MetadataExt as _;
        (about.ino(), about.dev())
    };
    // Not told by the standard library there.
    #[cfg(not(unix))]
    let (inode, device) = (0_u64, 0_u64);
    let made = about.created().ok();
    let made = made.and_then(|it| it.duration_since(std::time::UNIX_EPOCH).ok());
    match made {
        Some(made) => format!("inode {inode} of {}", made.as_nanos()),
        // Numbers of devices may change at a start, but inodes alone are given again.
        None => format!("inode {inode} on {device}"),
    }
}

pub fn directory_of(path: &Path) -> &Path {
    let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
    directory.unwrap_or_else(|| Path::new("."))
}

#[cfg(unix)]
fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Directories cannot be synced here; renaming is as durable as the platform makes it.
#[cfg(not(unix))]
fn sync(_directory: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Some other user.
    const NOBODY: u32 = 65_534;

    #[test]
    fn what_is_put_there_is_whole_and_this_users_own() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("made/for/it/secret.json");
        for bytes in [&b"first"[..], b"second"] {
            replace(&path, bytes).unwrap();
            assert_eq!(read_secret(&path).unwrap().unwrap(), bytes);
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert!(read_secret(&path).unwrap().is_none());
    }

    #[test]
    fn a_lock_is_given_back_although_a_copy_of_its_file_lives_on() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("lock");
        let open = || private(&path).unwrap();
        let held = open();
        // As a child process has one that is just being started.
        let copy = held.try_clone().unwrap();
        let held = Locked::take(held).unwrap();
        assert!(matches!(Locked::take(open()), Err(TryLockError::WouldBlock)));
        drop(held);
        let next = Locked::take(open()).unwrap();
        assert!(matches!(Locked::take(open()), Err(TryLockError::WouldBlock)));
        drop((copy, next));
    }

    #[test]
    fn a_secret_that_others_can_get_at_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("secret");
        replace(&path, b"x").unwrap();
        for mode in [0o604, 0o640, 0o602, 0o660] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let refused = read_secret(&path).unwrap_err();
            assert!(matches!(refused, SecretFileError::NotPrivate { .. }), "{mode:o}: {refused}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        assert!(read_secret(&path).unwrap().is_some());
    }

    #[test]
    fn a_key_of_roots_may_be_read_by_a_group() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key.pem");
        replace(&path, b"x").unwrap();
        let is_root = rustix::process::geteuid().is_root();
        for (mode, is_read) in [
            (0o600, true),
            (0o400, true),
            (0o440, is_root),
            (0o640, is_root),
            (0o660, false),
            (0o644, false),
            (0o604, false),
        ] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(read_key(&path).is_ok(), is_read, "{mode:o}");
        }
        assert!(read_key(&home.path().join("none")).unwrap().is_none());
    }

    #[test]
    fn a_data_directory_is_nobody_elses() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        check_data_directory(&data).unwrap();
        fs::create_dir_all(data.join("broker")).unwrap();
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for part in [data.clone(), data.join("broker")] {
            for mode in [0o700, 0o750, 0o755] {
                set(&part, mode);
                check_data_directory(&data).unwrap();
            }
            for mode in [0o777, 0o1777, 0o775, 0o722] {
                set(&part, mode);
                let refused = check_data_directory(&data).unwrap_err();
                assert_eq!(refused, ForeignDirectory::Writable(part.clone()), "{mode:o}");
            }
            set(&part, 0o700);
        }
        // What is above it may be everybody's, as temporary directories are.
        set(home.path(), 0o777);
        check_data_directory(&data).unwrap();
        // Only root can give one away.
        if rustix::process::geteuid().is_root() {
            for part in [data.clone(), data.join("broker")] {
                std::os::unix::fs::chown(&part, Some(NOBODY), None).unwrap();
                let refused = check_data_directory(&data).unwrap_err();
                assert_eq!(refused, ForeignDirectory::AnotherUsers(part.clone()));
                std::os::unix::fs::chown(&part, Some(0), None).unwrap();
            }
        }
    }

    #[test]
    fn nor_is_a_directory_in_it_that_others_get_at() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for inner in ["tls", "sessions", "outbox", "hooks", "mirror", "broker/db"] {
            let inner = data.join(inner);
            fs::create_dir_all(&inner).unwrap();
            let above = inner.parent().unwrap().to_owned();
            for part in [&data, &above, &inner] {
                set(part, 0o755);
            }
            check_data_directory(&data).unwrap();
            for mode in [0o777, 0o775, 0o1777] {
                set(&inner, mode);
                let refused = check_data_directory(&data).unwrap_err();
                assert_eq!(refused, ForeignDirectory::Writable(inner.clone()), "{mode:o}");
                // Behind a door that is closed it is no matter.
                set(&data, 0o700);
                check_data_directory(&data).unwrap();
                set(&data, 0o755);
            }
            set(&inner, 0o755);
        }
        // Nor is a file, however deep; what a link leads to is not in it.
        let outside = home.path().join("outside");
        fs::write(&outside, "x").unwrap();
        set(&outside, 0o666);
        std::os::unix::fs::symlink(&outside, data.join("link")).unwrap();
        check_data_directory(&data).unwrap();
        for name in ["node.json", "outbox/1.entry", "broker/db/deep/conf"] {
            let file = data.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            set(file.parent().unwrap(), 0o755);
            fs::write(&file, "x").unwrap();
            for mode in [0o666, 0o664, 0o602] {
                set(&file, mode);
                let refused = check_data_directory(&data).unwrap_err();
                assert_eq!(refused, ForeignDirectory::Writable(file.clone()), "{mode:o}");
                let why = read_own(&file).unwrap_err();
                assert!(matches!(why, SecretFileError::NotOwn { .. }), "{mode:o}: {why}");
                set(file.parent().unwrap(), 0o700);
                check_data_directory(&data).unwrap();
                set(file.parent().unwrap(), 0o755);
            }
            set(&file, 0o644);
            check_data_directory(&data).unwrap();
            assert_eq!(read_own(&file).unwrap().unwrap(), b"x");
        }
        assert!(read_own(&data.join("none")).unwrap().is_none());
    }

    #[test]
    fn others_are_kept_out_of_an_own_directory() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        fs::create_dir(&data).unwrap();
        let mode = || fs::metadata(&data).unwrap().permissions().mode() & 0o7777;
        for (before, after) in [(0o755, 0o700), (0o2770, 0o2700), (0o711, 0o700), (0o500, 0o500)] {
            fs::set_permissions(&data, fs::Permissions::from_mode(before)).unwrap();
            keep_others_out(&data);
            assert_eq!(mode(), after, "{before:o}");
        }
        keep_others_out(&home.path().join("none"));
        if rustix::process::geteuid().is_root() {
            fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).unwrap();
            std::os::unix::fs::chown(&data, Some(NOBODY), None).unwrap();
            keep_others_out(&data);
            assert_eq!(mode(), 0o755, "it is its owner's");
        }
    }
}
