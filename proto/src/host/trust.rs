//! What counts of the files that lie in a directory: whoever made the directory wrote them, and a
//! repository that was cloned has an author of its own.
//!
//! - **U3** A file that came with a directory may name a workspace, roles, toolsets, groups and
//!   limits ([`FREE`]). Whatever else it says counts once its user trusts that very content there
//!   (`tasuki trust`); any change ends that.
//! - **U4** What is trusted is kept in the user's own directory, in files for this user alone, and
//!   never in the directory that is trusted.
//! - **U5** A data directory whose name is a path from the current directory counts once this user
//!   made it, found no data in it, or trusted it (`tasuki trust`): that very directory, by its inode.
//!
//! What the user named, and what lies in the data or the configuration directory, is the user's
//! own, unless everybody on the machine may write to it. A data directory that is named by a relative
//! path is part of the directory where the command is called.
//!
//! Not here: what the files mean (`config`, and the node's `filebox`).

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::host::{
    config::kept_places,
    files::{self, SecretFileError},
};

/// The settings that any file may make.
pub const FREE: [&str; 7] = ["workspace", "roles", "shared", "toolsets", "groups", "lease", "hold"];

/// In the user's own data directory; a file for each directory.
const FOLDER: &str = "trusted";

/// The names of what the programs keep in a data directory. One that has none of them holds no data
/// yet, whatever else is in it.
const OF_DATA: [&str; 34] = [
    "accept",
    "agent-tokens.json",
    "agent-tokens.lock",
    "backups",
    "broker",
    "cli-keys.json",
    "cli-keys.lock",
    "drafts",
    "elsewhere",
    "gateway",
    "holds.json",
    "hooks",
    "install-log.json",
    "joined.json",
    "joined.json.pending",
    "joined.lock",
    "launch",
    "mail-directories.json",
    "mail-keys.json",
    "mail-owner.json",
    "mail-trust.json",
    "mirror",
    "node-identity.json",
    "node.json",
    "node.lock",
    "nodes",
    "outbox",
    "private-mail.lock",
    "runs",
    "sessions",
    "task-key",
    "tls",
    "workspace.json",
    "workspace.lock",
];

/// In the name of what [`files::replace`] has not put in place yet.
const UNFINISHED: &str = ".new-";

/// Whether it is the name of something that the programs keep in a data directory, whichever way
/// its letters are written: there are file systems to which that is the same.
pub fn is_of_data(name: &str) -> bool {
    OF_DATA.iter().any(|it| it.eq_ignore_ascii_case(name)) || name.contains(UNFINISHED)
}

/// Whether there is data in a directory; one that nobody can look into may have some.
pub fn has_data(directory: &Path) -> bool {
    match fs::read_dir(directory) {
        Ok(mut entries) => entries.any(|entry| match entry {
            Ok(entry) => is_of_data(&entry.file_name().to_string_lossy()),
            Err(_) => true,
        }),
        Err(why) => !matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
    }
}

/// Why a data directory that is named from the current directory is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CameAlong {
    #[error(
        "there is data in {path}, which may have come with the current directory; look at it and \
         run `tasuki trust {path}`, or if it is yours name it by its absolute path with --data",
        path = .0.display()
    )]
    Unknown(PathBuf),
    #[error(
        "there is data in {named}, which may have come with the current directory, and a user \
         without a home directory can trust none; if it is yours: --data {absolute}",
        named = named.display(),
        absolute = absolute.display()
    )]
    Homeless { named: PathBuf, absolute: PathBuf },
}

/// Why the settings of a file do not count, unless they are [`FREE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distrust {
    /// Nobody named the file: it is where the command was called.
    Here,
    /// The same, and it is not what was trusted.
    Changed,
    /// It is in a data directory that is named by a relative path, and not what was trusted there.
    Relative,
    /// Everybody on this machine may write to it.
    Anybody,
    /// It belongs to another user, who is not root.
    Another,
    /// Everybody on this machine may put another in its place.
    Place,
}

impl fmt::Display for Distrust {
    /// Follows the names of settings, and "not taken from".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Here => {
                "a file that happens to be in the current directory, which may be somebody \
                 else's; read it and run `tasuki trust`, name it with --config, or keep this in \
                 the data or the configuration directory"
            }
            Self::Changed => {
                "a file in the current directory that changed since you trusted it; read it and \
                 run `tasuki trust` again"
            }
            Self::Relative => {
                "a file in a data directory that is named by a relative path, which may have come \
                 with the current directory; read it and run `tasuki trust` with that directory, \
                 or name it by its absolute path"
            }
            Self::Anybody => {
                "a file that everybody on this machine may write to; run chmod o-w on it"
            }
            Self::Another => {
                "a file that belongs to another user, who may change it; name a copy of your own \
                 with --config"
            }
            Self::Place => {
                "a file in a directory that everybody on this machine may write to; run chmod o-w \
                 on the directory"
            }
        })
    }
}

impl Distrust {
    /// Says of settings that they do not count.
    pub fn of(self, names: &[impl AsRef<str>]) -> String {
        let quoted: Vec<String> = names.iter().map(|it| format!("`{}`", it.as_ref())).collect();
        match quoted.split_last() {
            Some((last, [])) => format!("{last} is not taken from {self}"),
            Some((last, others)) => {
                format!("{} and {last} are not taken from {self}", others.join(", "))
            }
            None => String::new(),
        }
    }

    /// Of a file that its user named or keeps where configuration is kept.
    pub fn of_own(path: &Path) -> Option<Self> {
        #[cfg(unix)]
        {
            let is_open = |it: &fs::Metadata| mode(it) & 0o002 != 0;
            // What cannot be looked at cannot be read either.
            let file = fs::metadata(path).ok()?;
            if is_open(&file) {
                return Some(Self::Anybody);
            }
            if !files::is_own(&file) {
                return Some(Self::Another);
            }
            // Where its name is, and where it is itself if that is a link.
            let real = path.canonicalize().ok()?;
            let is_place_open = |path: &Path| {
                let directory = files::directory_of(path);
                let is_sticky = |it: &fs::Metadata| mode(it) & 0o1000 != 0;
                fs::metadata(directory).is_ok_and(|it| is_open(&it) && !is_sticky(&it))
                    && !is_read_only(directory)
            };
            (is_place_open(path) || is_place_open(&real)).then_some(Self::Place)
        }
        #[cfg(not(unix))]
        {
            let _ = path;
            None
        }
    }
}

#[cfg(unix)]
fn mode(metadata: &fs::Metadata) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions())
}

/// Whether nobody can write there whatever modes say, as where Kubernetes puts a configuration.
#[cfg(unix)]
fn is_read_only(directory: &Path) -> bool {
    rustix::fs::statvfs(directory)
        .is_ok_and(|it| it.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

/// What one user trusts.
#[derive(Debug, Clone)]
pub struct TrustStore {
    /// `None`: this user has no place of their own, and trusts nothing.
    folder: Option<PathBuf>,
}

/// A directory, and the content of files in it that is trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trusted {
    /// For people.
    pub directory: PathBuf,
    /// BLAKE3 of each file, by its name.
    pub files: BTreeMap<String, String>,
    /// Which directory it is, if what is kept in it as data is this user's too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
}

impl Trusted {
    /// Whether the directory is still the one whose data is this user's; so is one that has none.
    pub fn is_in_place(&self) -> bool {
        let is = |noted: &String| {
            fs::metadata(&self.directory).is_ok_and(|about| files::identity(&about) == *noted)
        };
        self.data.as_ref().is_none_or(is)
    }
}

impl TrustStore {
    /// That of the user who runs this.
    pub fn of_user() -> Self {
        let project = directories::ProjectDirs::from("", "", "tasuki");
        Self { folder: project.map(|it| it.data_local_dir().join(FOLDER)) }
    }

    /// One in a directory of its own.
    pub fn within(directory: &Path) -> Self {
        Self { folder: Some(directory.join(FOLDER)) }
    }

    /// Why `content` of the file `name` in `directory` does not count; `None`: it is trusted.
    pub fn distrust(&self, directory: &Path, name: &str, content: &[u8]) -> Option<Distrust> {
        let known = self.get(directory).ok().flatten();
        match known.and_then(|mut it| it.files.remove(name)) {
            Some(hash) if hash == hash_of(content) => None,
            Some(_) => Some(Distrust::Changed),
            None => Some(Distrust::Here),
        }
    }

    /// What is trusted in a directory.
    ///
    /// # Errors
    /// When that is on a disk that cannot be read, or others could have written it.
    pub fn get(&self, directory: &Path) -> Result<Option<Trusted>, SecretFileError> {
        match self.file(directory) {
            Some(path) => read(&path),
            None => Ok(None),
        }
    }

    /// Trusts these files of a directory, by name, as they are.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub fn trust<'a>(
        &self,
        directory: &Path,
        contents: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> io::Result<()> {
        let hashes = contents.into_iter().map(|(name, it)| (name.to_owned(), hash_of(it)));
        self.change(directory, |it| it.files.extend(hashes))
    }

    /// Whether `data` can be used, which is named by a path from `directory`, the current one, or by
    /// a file that came with that.
    ///
    /// # Errors
    /// When there is data in it that this user neither made nor trusts.
    pub fn check_data(&self, directory: &Path, data: &Path) -> Result<(), CameAlong> {
        let place = directory.join(data);
        if !has_data(&place) || self.is_own_data(&place) {
            return Ok(());
        }
        let named = data.to_owned();
        Err(match self.folder {
            Some(_) => CameAlong::Unknown(named),
            None => CameAlong::Homeless { named, absolute: real(&place) },
        })
    }

    /// Makes such a data directory where there is none, and notes that it is this user's, unless
    /// there is data in it.
    ///
    /// # Errors
    /// When it cannot be made, or that cannot be kept.
    pub fn claim_data(&self, data: &Path) -> io::Result<()> {
        if has_data(data) || self.is_own_data(data) {
            return Ok(());
        }
        files::private_directory(data)?;
        self.trust_data(data)
    }

    /// Trusts whatever is kept in a directory as data, as long as it is the same directory.
    ///
    /// # Errors
    /// When it is not there, or that cannot be kept.
    pub fn trust_data(&self, data: &Path) -> io::Result<()> {
        let noted = files::identity(&fs::metadata(data)?);
        self.change(data, |it| it.data = Some(noted))
    }

    fn is_own_data(&self, data: &Path) -> bool {
        let place = real(data);
        // Those of the platform are the user's own, however one gets there.
        if kept_places(None).any(|kept| real(&kept) == place) {
            return true;
        }
        let known = self.get(data).ok().flatten();
        known.is_some_and(|it| it.data.is_some() && it.directory == place && it.is_in_place())
    }

    fn change(&self, directory: &Path, change: impl FnOnce(&mut Trusted)) -> io::Result<()> {
        let path = self.file(directory).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "this user has no home directory")
        })?;
        // What others could have written counts for nothing, and is replaced.
        let known = read(&path).ok().flatten();
        let (files, data) = known.map(|it| (it.files, it.data)).unwrap_or_default();
        let mut trusted = Trusted { directory: real(directory), files, data };
        change(&mut trusted);
        files::replace(&path, (serde_json::to_string_pretty(&trusted)? + "\n").as_bytes())
    }

    /// Trusts nothing of a directory any more. Whether anything was.
    ///
    /// # Errors
    /// When that cannot be kept; then it is trusted as before.
    pub fn revoke(&self, directory: &Path) -> io::Result<bool> {
        let Some(path) = self.file(directory) else { return Ok(false) };
        let was_there = path.is_file();
        if was_there {
            files::remove(&path)?;
        }
        Ok(was_there)
    }

    /// Everything, by directory.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn list(&self) -> io::Result<Vec<Trusted>> {
        let entries = self.folder.as_ref().map_or_else(|| Ok(Vec::new()), |it| names(it))?;
        let read = |path: PathBuf| read(&path).map_err(|why| io::Error::other(why.to_string()));
        let all = entries.into_iter().map(read).filter_map(Result::transpose);
        let mut all = all.collect::<io::Result<Vec<_>>>()?;
        all.sort_by(|one, other| one.directory.cmp(&other.directory));
        Ok(all)
    }

    fn file(&self, directory: &Path) -> Option<PathBuf> {
        let name = hash_of(real(directory).as_os_str().as_encoded_bytes());
        Some(self.folder.as_ref()?.join(format!("{name}.json")))
    }
}

fn names(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(why) => return Err(why),
    };
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    Ok(paths.into_iter().filter(|it| it.extension().is_some_and(|it| it == "json")).collect())
}

fn read(path: &Path) -> Result<Option<Trusted>, SecretFileError> {
    let Some(bytes) = files::read_secret(path)? else { return Ok(None) };
    let damaged = |why: serde_json::Error| SecretFileError::Damaged {
        path: path.to_owned(),
        what: format!("{why}; remove it and run `tasuki trust` again"),
    };
    serde_json::from_slice(&bytes).map(Some).map_err(damaged)
}

/// All of it: whoever wrote what is trusted may have looked for two contents with one hash.
fn hash_of(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Links followed, so that one directory has one entry. One that is gone keeps its name.
fn real(directory: &Path) -> PathBuf {
    let absolute = || std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    directory.canonicalize().unwrap_or_else(|_| absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds U4.
    #[test]
    fn what_is_trusted_is_one_content_in_one_directory() {
        let place = tempfile::tempdir().unwrap();
        let (one, other) = (place.path().join("one"), place.path().join("other"));
        for it in [&one, &other] {
            fs::create_dir(it).unwrap();
        }
        let store = TrustStore::within(&place.path().join("home"));
        let distrust = |at: &Path, content: &[u8]| store.distrust(at, "a.toml", content);
        assert_eq!(distrust(&one, b"x"), Some(Distrust::Here));
        assert_eq!((store.list().unwrap().len(), store.revoke(&one).unwrap()), (0, false));
        store.trust(&one, [("a.toml", &b"x"[..])]).unwrap();
        assert_eq!(distrust(&one, b"x"), None);
        assert_eq!(distrust(&one.join("../one"), b"x"), None);
        assert_eq!(distrust(&one, b"y"), Some(Distrust::Changed));
        assert_eq!(distrust(&other, b"x"), Some(Distrust::Here));
        assert_eq!(store.distrust(&one, "b.toml", b"x"), Some(Distrust::Here));
        // The newest is what is trusted, and no content of before.
        store.trust(&one, [("a.toml", &b"y"[..])]).unwrap();
        assert_eq!((distrust(&one, b"y"), distrust(&one, b"x")), (None, Some(Distrust::Changed)));
        assert_eq!(store.list().unwrap()[0].directory, one.canonicalize().unwrap());
        assert!(store.revoke(&one).unwrap());
        assert_eq!(distrust(&one, b"y"), Some(Distrust::Here));
    }

    /// Holds U5.
    #[test]
    fn data_named_from_the_current_directory_is_used_once_its_user_made_or_trusts_it() {
        let place = tempfile::tempdir().unwrap();
        let (here, named) = (place.path().join("here"), Path::new(".tasuki"));
        let data = here.join(named);
        let make = |file: &str| {
            fs::create_dir_all(&data).unwrap();
            fs::write(data.join(file), "x").unwrap();
        };
        let store = TrustStore::within(&place.path().join("home"));
        let check = || store.check_data(&here, named);
        let unknown = || Err::<(), _>(CameAlong::Unknown(named.to_owned()));
        // Nothing is there, or nothing that is data.
        assert_eq!(check(), Ok(()));
        make(".gitignore");
        assert_eq!(check(), Ok(()));
        for file in ["node.json", "Node.JSON", "node.lock", "node.new-7", "outbox"] {
            make(file);
            assert_eq!(check(), unknown(), "{file}");
            // Nor does it become this user's by being asked for.
            store.claim_data(&data).unwrap();
            assert_eq!(check(), unknown(), "{file}");
            fs::remove_file(data.join(file)).unwrap();
        }
        let said = check_of(&TrustStore { folder: None }, &here, &data);
        assert_eq!(said, "");
        // What was claimed is this user's, whatever is in it later; another in its place is not.
        store.claim_data(&data).unwrap();
        make("node.json");
        assert_eq!((check(), store.check_data(&data, Path::new("."))), (Ok(()), Ok(())));
        fs::rename(&data, here.join("kept")).unwrap();
        make("node.json");
        assert_eq!(check(), unknown());
        assert!(!store.list().unwrap()[0].is_in_place());
        // Trusting its file and its data are kept together.
        store.trust(&data, [("a.toml", &b"x"[..])]).unwrap();
        assert_eq!(check(), unknown());
        store.trust_data(&data).unwrap();
        assert_eq!((check(), store.distrust(&data, "a.toml", b"x")), (Ok(()), None));
        assert!(store.revoke(&data).unwrap());
        assert_eq!(check(), unknown());
        // Who can note nothing is told how to name it.
        let said = check_of(&TrustStore { folder: None }, &here, named);
        let absolute = data.canonicalize().unwrap();
        assert!(said.ends_with(&format!("--data {}", absolute.display())), "{said}");
        assert!(check().unwrap_err().to_string().contains("run `tasuki trust .tasuki`"));
    }

    fn check_of(store: &TrustStore, here: &Path, data: &Path) -> String {
        store.check_data(here, data).err().map(|why| why.to_string()).unwrap_or_default()
    }

    /// Holds U4.
    #[cfg(unix)]
    #[test]
    fn what_others_could_have_written_is_not_trusted() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = tempfile::tempdir().unwrap();
        let store = TrustStore::within(&place.path().join("home"));
        store.trust(place.path(), [("a.toml", &b"x"[..])]).unwrap();
        let file = store.file(place.path()).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o620)).unwrap();
        assert_eq!(store.distrust(place.path(), "a.toml", b"x"), Some(Distrust::Here));
        assert!(store.get(place.path()).is_err() && store.list().is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_named_file_that_others_could_have_written_does_not_count() {
        use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("directory");
        fs::create_dir(&directory).unwrap();
        let file = directory.join("tasuki.toml");
        fs::write(&file, "").unwrap();
        let link = place.path().join("link.toml");
        symlink(&file, &link).unwrap();
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for (of_file, of_directory, expected) in [
            (0o600, 0o700, None),
            (0o664, 0o775, None),
            (0o602, 0o700, Some(Distrust::Anybody)),
            (0o600, 0o777, Some(Distrust::Place)),
            (0o600, 0o1777, None),
        ] {
            set(&file, of_file);
            set(&directory, of_directory);
            for path in [&file, &link] {
                assert_eq!(Distrust::of_own(path), expected, "{of_file:o} in {of_directory:o}");
            }
        }
        // Only root can give one away.
        if rustix::process::geteuid().is_root() {
            chown(&file, Some(65_534), None).unwrap();
            assert_eq!(Distrust::of_own(&file), Some(Distrust::Another));
        }
        assert_eq!(Distrust::of_own(&directory.join("none")), None);
    }

    #[test]
    fn settings_that_do_not_count_are_named() {
        let said = Distrust::Changed.of(&["data", "listen", "broker"]);
        assert!(said.starts_with("`data`, `listen` and `broker` are not taken from"), "{said}");
        assert!(Distrust::Here.of(&["data"]).starts_with("`data` is not taken from a file that"));
    }
}
