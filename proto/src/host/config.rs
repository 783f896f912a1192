//! What the broker's program reads from `tasuki.toml`, the file it shares with the node.
//!
//! Flags and `TASUKI_*` variables come first; the file fills in what they leave open. Values of
//! keys that are the node's are not looked at here: `tasuki config check` judges the whole file.

use std::{
    fs,
    io::{self, Read as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, de::IgnoredAny};

use crate::{
    echo::{bounded, echo},
    host::{
        dashboard::Dashboard,
        files::directory_of,
        trust::{Distrust, TrustStore},
    },
};

/// The file's name.
pub const FILE: &str = "tasuki.toml";

/// One such file, in bytes; a larger one is not a configuration.
const BYTES_MAX: usize = 1024 * 1024;

/// The broker's part of a data directory: `tasuki up` keeps its node's files beside it.
pub const FOLDER: &str = "broker";

/// What the file may say about a broker. The other keys are a node's; a key that is nobody's is
/// an error.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct File {
    pub data: Option<PathBuf>,
    pub broker_listen: Option<SocketAddr>,
    pub dashboard: Option<Dashboard>,
    #[serde(deserialize_with = "lease")]
    pub lease: Option<Duration>,
    pub secure: Option<bool>,
    pub advertise: Option<String>,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub client_ca: Option<PathBuf>,
    workspace: Option<IgnoredAny>,
    listen: Option<IgnoredAny>,
    broker: Option<IgnoredAny>,
    roles: Option<IgnoredAny>,
    shared: Option<IgnoredAny>,
    toolsets: Option<IgnoredAny>,
    groups: Option<IgnoredAny>,
    hooks: Option<IgnoredAny>,
    hold: Option<IgnoredAny>,
    log_format: Option<IgnoredAny>,
    mcp_secure: Option<IgnoredAny>,
    mcp_advertise: Option<IgnoredAny>,
    mcp_tls_cert: Option<IgnoredAny>,
    mcp_tls_key: Option<IgnoredAny>,
    mirror: Option<IgnoredAny>,
    mirror_root: Option<IgnoredAny>,
    hook_fail: Option<IgnoredAny>,
    accept: Option<IgnoredAny>,
    runner: Option<IgnoredAny>,
    runs: Option<IgnoredAny>,
    launch: Option<IgnoredAny>,
    gateway: Option<IgnoredAny>,
    role: Option<IgnoredAny>,
    service: Option<IgnoredAny>,
    files: Option<IgnoredAny>,
    commands: Option<IgnoredAny>,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{path} cannot be read: {source}", path = path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{path}: {message}", path = path.display())]
    Wrong { path: PathBuf, message: String },
}

/// A file as it was read, once.
#[derive(Debug, Clone)]
pub struct Found {
    pub path: PathBuf,
    pub content: String,
    /// Nobody named it, and it may have come with the current directory, which is no place for
    /// configuration: it is in there, or in a data directory that is named by a path from there.
    pub is_here: bool,
    /// Why its settings do not count, but for those that any file may make.
    pub distrust: Option<Distrust>,
    /// Why it cannot be read; then it says nothing. Only one that may have come with the directory
    /// has this, any other is an error: whoever made the directory does not take away with it what
    /// the user's own file says.
    pub unreadable: Option<String>,
    /// The user's own file, where this one was not chosen by them: what this one may not say or does
    /// not say is taken from there. Otherwise whoever made the current directory could switch off
    /// what the user had set, by a file with nothing in it.
    pub below: Option<Box<Self>>,
}

/// Reads what the file says about a broker; see [`find`].
///
/// # Errors
/// When a named file is not there, a value is not one, a key is nobody's, or a setting does not
/// count.
pub fn read(named: Option<&Path>, data: Option<&Path>) -> Result<File, FileError> {
    // A variable that is empty names nothing.
    let named = named.filter(|it| !it.as_os_str().is_empty());
    let here = std::env::current_dir().unwrap_or_else(|_| ".".into());
    let found = find(named, &here, data, &TrustStore::of_user())?;
    found.map_or_else(|| Ok(File::default()), |found| found.of_broker())
}

/// Finds the named file; else the first there is of those in `directory`, where the command is
/// called, in `data` (else the platform's data directory) and in the platform's configuration
/// directory. Where one may have come with `directory` and is not trusted, the next one of these is
/// below it.
///
/// # Errors
/// When a named file is not there, or one of the user's own cannot be read.
pub fn find(
    named: Option<&Path>,
    directory: &Path,
    data: Option<&Path>,
    trusted: &TrustStore,
) -> Result<Option<Found>, FileError> {
    match named {
        Some(path) => own(path.to_owned()).map(Some),
        None => first(&places(directory, data), trusted),
    }
}

/// The same without the one in `directory`.
///
/// # Errors
/// When one of the user's own cannot be read.
pub fn beside(
    directory: &Path,
    data: Option<&Path>,
    trusted: &TrustStore,
) -> Result<Option<Found>, FileError> {
    first(places(directory, data).get(1..).unwrap_or_default(), trusted)
}

/// A directory that may have such a file.
struct Place {
    directory: PathBuf,
    /// Why a file there does not count until it is trusted; `None`: the user keeps it there.
    came_along: Option<Distrust>,
}

/// In the order in which they are asked.
fn places(directory: &Path, data: Option<&Path>) -> Vec<Place> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    // Those of the platform are the user's own, however one gets there.
    let kept: Vec<_> = kept_places(data).chain(kept_places(None)).map(|kept| real(&kept)).collect();
    let place = |directory: PathBuf, why| {
        let came_along = (!kept.contains(&real(&directory))).then_some(why);
        Place { directory, came_along }
    };
    // A relative path names whatever the current directory has there.
    let relative = data.filter(|data| !data.is_absolute()).map(|data| directory.join(data));
    let relative = relative.filter(|data| real(data) != real(directory));
    std::iter::once(place(directory.to_owned(), Distrust::Here))
        .chain(relative.map(|data| place(data, Distrust::Relative)))
        .chain(kept_places(data).map(|directory| Place { directory, came_along: None }))
        .collect()
}

fn first(places: &[Place], trusted: &TrustStore) -> Result<Option<Found>, FileError> {
    let Some((place, others)) = places.split_first() else { return Ok(None) };
    let path = place.directory.join(FILE);
    if is_absent(&path) {
        return first(others, trusted);
    }
    let Some(why) = place.came_along else { return own(path).map(Some) };
    let (content, unreadable) = match text(&path) {
        Ok(content) => (content, None),
        Err(why) => (String::new(), Some(why.to_string())),
    };
    let known = trusted.distrust(&place.directory, FILE, content.as_bytes());
    let distrust = match known {
        None if unreadable.is_none() => None,
        Some(Distrust::Changed) if why == Distrust::Here => known,
        None | Some(_) => Some(why),
    };
    // One that is trusted stands in the place of the user's own.
    let below = match distrust {
        Some(_) => first(others, trusted)?.map(Box::new),
        None => None,
    };
    Ok(Some(Found { path, content, is_here: true, distrust, unreadable, below }))
}

/// Whether nothing has that name. What has it and cannot be looked at, as a link that leads nowhere,
/// may say something all the same: it is no reason to go on as if nobody had said anything.
fn is_absent(path: &Path) -> bool {
    let nothing = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
    fs::symlink_metadata(path).is_err_and(|why| nothing.contains(&why.kind()))
}

/// One that the user named, or keeps where configuration is kept.
fn own(path: PathBuf) -> Result<Found, FileError> {
    let content = content(&path)?;
    let distrust = Distrust::of_own(&path);
    Ok(Found { path, content, is_here: false, distrust, unreadable: None, below: None })
}

/// Where a user keeps configuration, wherever the command is called: a data directory that is named
/// by a relative path is another one in each directory.
pub fn kept_places(data: Option<&Path>) -> impl Iterator<Item = PathBuf> {
    let data = match data {
        Some(data) => Some(data.to_owned()).filter(|data| data.is_absolute()),
        None => data_directory(),
    };
    let project = directories::ProjectDirs::from("", "", "tasuki");
    [data, project.map(|it| it.config_dir().to_owned())].into_iter().flatten()
}

/// What such a file holds.
///
/// # Errors
/// When it cannot be read.
pub fn content(path: &Path) -> Result<String, FileError> {
    text(path).map_err(|source| FileError::Unreadable { path: path.to_owned(), source })
}

fn text(path: &Path) -> io::Result<String> {
    let (bytes, _) = read_settings(path)?;
    String::from_utf8(bytes).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))
}

/// What a file of settings holds, links followed, and whose it is. Whoever made the directory may
/// have made a link of it to something that has no end, or that nobody ever writes to: only a plain
/// file is read, and no more of it than a configuration may have.
///
/// # Errors
/// When it cannot be read, is no plain file, or is too large.
pub fn read_settings(path: &Path) -> io::Result<(Vec<u8>, fs::Metadata)> {
    let mut options = fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        // A pipe that nobody writes to is not waited for, and no terminal becomes this process's.
        let flags = OFlags::NONBLOCK.union(OFlags::NOCTTY).bits().cast_signed();
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
    }
    let opened = options.open(path);
    let is_missing = opened.as_ref().is_err_and(|why| why.kind() == io::ErrorKind::NotFound);
    if is_missing && path.is_symlink() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "it is a link that leads nowhere"));
    }
    let file = opened?;
    // Asked of the file that is open, so nobody can put another in its place meanwhile.
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no plain file"));
    }
    // What a file says of its length is not what it gives: those of /proc say 0.
    let mut bytes = Vec::new();
    file.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if BYTES_MAX < bytes.len() {
        let why = format!("it has more than {BYTES_MAX} bytes, which is the limit");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok((bytes, about))
}

impl Found {
    /// This one, and those below it in turn.
    pub fn and_below(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |found| found.below.as_deref())
    }

    /// What it says about a broker, and the user's own file below it.
    ///
    /// # Errors
    /// When a value is not one, a key is nobody's, or a setting does not count.
    pub fn of_broker(&self) -> Result<File, FileError> {
        let wrong = |message| FileError::Wrong { path: self.path.clone(), message };
        if let Some(why) = &self.unreadable {
            return Err(wrong(format!("cannot be read: {why}")));
        }
        // Without the line that is wrong, which may be as long as the file.
        let said = |why: toml::de::Error| {
            let before = why.span().and_then(|span| self.content.get(..span.start));
            let line = 1 + before.map_or(0, |text| text.matches('\n').count());
            wrong(format!("line {line}: {}", bounded(why.message())))
        };
        let mut file: File = toml::from_str(&self.content).map_err(said)?;
        file.take_paths_from(directory_of(&self.path));
        let made = file.settings();
        if let Some(distrust) = self.distrust.filter(|_| !made.is_empty()) {
            return Err(wrong(format!("{}.", distrust.of(&made))));
        }
        match &self.below {
            // Of a broker's settings any file may make this one alone.
            Some(below) => {
                let below = below.of_broker()?;
                Ok(File { lease: file.lease.or(below.lease), ..below })
            }
            None => Ok(file),
        }
    }
}

impl File {
    /// Has relative paths start at the file's own directory: from the current one they would lead to
    /// whatever a repository has there.
    fn take_paths_from(&mut self, directory: &Path) {
        let Self { data, tls_cert, tls_key, client_ca, .. } = self;
        for path in [data, tls_cert, tls_key, client_ca].into_iter().flatten() {
            if !path.as_os_str().is_empty() {
                *path = directory.join(&*path);
            }
        }
    }

    /// Which it makes of those that not any file may make.
    fn settings(&self) -> Vec<&'static str> {
        let made = [
            ("data", self.data.is_some()),
            ("broker_listen", self.broker_listen.is_some()),
            ("dashboard", self.dashboard.is_some()),
            ("secure", self.secure.is_some()),
            ("advertise", self.advertise.is_some()),
            ("tls_cert", self.tls_cert.is_some()),
            ("tls_key", self.tls_key.is_some()),
            ("client_ca", self.client_ca.is_some()),
        ];
        made.into_iter().filter_map(|(name, is_made)| is_made.then_some(name)).collect()
    }
}

/// The platform's data directory for this program; `None` for a user without a home directory.
pub fn data_directory() -> Option<PathBuf> {
    directories::ProjectDirs::from("", "", "tasuki").map(|dirs| dirs.data_dir().to_owned())
}

/// What a user without one is told.
pub const NO_DATA_DIRECTORY: &str =
    "nobody says where data is kept, and this user has no home directory; give --data DIR";

/// `90s`, `15m`, `2h`; a bare number is seconds.
///
/// # Errors
/// Says what a duration looks like.
pub fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(secs) = text.parse() {
        return Ok(Duration::from_secs(secs));
    }
    let wrong = |_| format!("is {}; it takes a duration such as 90s, 15m or 2h", echo(text));
    humantime::parse_duration(text).map_err(wrong)
}

fn lease<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    duration(&text).map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_shared_with_a_node_gives_the_brokers_settings() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let text = "data = \"/d\"\nlease = \"2m\"\nroles = [\"A\"]\nshared = [\"A\"]\n\
                    hooks = []\nmirror = true\nmirror_root = \"r\"\nsecure = true\nadvertise = \"h:1\"\ntls_cert = \"c\"\n\
                    tls_key = \"k\"\nclient_ca = \"a\"\n";
        fs::write(&path, text).unwrap();
        for file in [read(Some(&path), None), read(None, Some(folder.path()))] {
            let file = file.unwrap();
            assert_eq!(file.data.as_deref(), Some(Path::new("/d")));
            assert_eq!(file.lease, Some(Duration::from_secs(120)));
            assert_eq!((file.secure, file.advertise.as_deref()), (Some(true), Some("h:1")));
            let paths = [file.tls_cert, file.tls_key, file.client_ca];
            let expected = ["c", "k", "a"].map(|name| folder.path().join(name));
            assert_eq!(paths.map(Option::unwrap), expected, "they lie beside the file");
        }
        for (wrong, why) in [("lease = \"soon\"", "takes a duration"), ("lisen = 1", "lisen")] {
            fs::write(&path, wrong).unwrap();
            assert!(read(Some(&path), None).unwrap_err().to_string().contains(why), "{wrong}");
        }
        let missing = read(Some(&folder.path().join("none")), None);
        assert!(matches!(missing, Err(FileError::Unreadable { .. })));
    }

    #[test]
    fn a_file_that_came_with_a_directory_says_nothing_of_a_broker_until_it_is_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let (repository, data) = (folder.path().join("repository"), folder.path().join("data"));
        fs::create_dir(&repository).unwrap();
        let store = TrustStore::within(folder.path());
        let write = |text: &str| fs::write(repository.join(FILE), text).unwrap();
        let find = |data: &Path| find(None, &repository, Some(data), &store).unwrap().unwrap();
        let broker = |data: &Path| find(data).of_broker().map_err(|why| why.to_string());
        write("lease = \"2m\"\nroles = [\"A\"]\nhooks = []\n");
        assert_eq!(broker(&data).unwrap().lease, Some(Duration::from_secs(120)));
        let attack = "data = \".cache\"\nbroker_listen = \"0.0.0.0:7420\"\nlease = \"2m\"\n";
        write(attack);
        let why = broker(&data).unwrap_err();
        assert!(why.contains("`data` and `broker_listen` are not taken from a file"), "{why}");
        assert!(why.contains("run `tasuki trust`"), "{why}");
        // Where configuration is kept, or once it is trusted, it counts, as it is.
        assert!(broker(&repository).is_ok());
        store.trust(&repository, [(FILE, attack.as_bytes())]).unwrap();
        assert_eq!(broker(&data).unwrap().data, Some(repository.join(".cache")));
        write(&format!("{attack}secure = false\n"));
        let why = broker(&data).unwrap_err();
        assert!(why.contains("`secure` are not taken from a file in the current"), "{why}");
        assert!(why.contains("changed since you trusted it"), "{why}");
    }

    #[test]
    fn a_file_that_came_with_a_directory_switches_nothing_off() {
        let folder = tempfile::tempdir().unwrap();
        let (repository, data) = (folder.path().join("repository"), folder.path().join("data"));
        for directory in [&repository, &data] {
            fs::create_dir(directory).unwrap();
        }
        let store = TrustStore::within(folder.path());
        let broker = || {
            let found = find(None, &repository, Some(&data), &store).unwrap().unwrap();
            found.of_broker().map_err(|why| why.to_string())
        };
        let write = |directory: &Path, text: &str| fs::write(directory.join(FILE), text).unwrap();
        write(&data, "secure = true\nadvertise = \"h:1\"\nlease = \"3m\"\n");
        write(&repository, "roles = [\"A\"]\n");
        let file = broker().unwrap();
        assert_eq!((file.secure, file.advertise.as_deref()), (Some(true), Some("h:1")));
        assert_eq!(file.lease, Some(Duration::from_secs(180)));
        let text = "lease = \"2m\"\n";
        write(&repository, text);
        let file = broker().unwrap();
        assert_eq!((file.secure, file.lease), (Some(true), Some(Duration::from_secs(120))));
        // What is wrong in the user's own file is told.
        write(&data, "secure = 7\n");
        assert!(broker().unwrap_err().contains("line 1: "));
        // One that is trusted stands in the place of the user's own.
        store.trust(&repository, [(FILE, text.as_bytes())]).unwrap();
        assert_eq!(broker().unwrap().secure, None);
    }

    #[test]
    fn a_relative_data_directory_came_with_the_directory_until_its_file_is_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let (repository, store) = (folder.path(), TrustStore::within(&folder.path().join("home")));
        let data = repository.join(".tasuki");
        fs::create_dir(&data).unwrap();
        let attack = "broker_listen = \"0.0.0.0:0\"\n";
        fs::write(data.join(FILE), attack).unwrap();
        let find = |data: &Path| find(None, repository, Some(data), &store).unwrap().unwrap();
        for named in [".tasuki", "./.tasuki", "x/../.tasuki/"] {
            fs::create_dir_all(repository.join("x")).unwrap();
            let found = find(Path::new(named));
            assert!(found.is_here && found.distrust == Some(Distrust::Relative), "{named}");
            let why = found.of_broker().unwrap_err().to_string();
            assert!(why.contains("`broker_listen` is not taken from"), "{why}");
            assert!(why.contains("run `tasuki trust` with that directory"), "{why}");
        }
        // The current directory itself, under the name of a data directory.
        fs::write(repository.join(FILE), attack).unwrap();
        for named in [".", ".tasuki"] {
            assert_eq!(find(Path::new(named)).distrust, Some(Distrust::Here), "{named}");
        }
        // Below it the other one, which does not count either.
        let found = find(Path::new(".tasuki"));
        let below: Vec<_> = found.and_below().map(|it| it.distrust).collect();
        assert_eq!(below[..2], [Some(Distrust::Here), Some(Distrust::Relative)]);
        fs::remove_file(repository.join(FILE)).unwrap();
        // An absolute path is the same wherever one is.
        assert_eq!(find(&data).distrust, None);
        store.trust(&data, [(FILE, attack.as_bytes())]).unwrap();
        assert_eq!(find(Path::new(".tasuki")).distrust, None);
        assert!(find(Path::new(".tasuki")).of_broker().unwrap().broker_listen.is_some());
        fs::write(data.join(FILE), "secure = false\n").unwrap();
        assert_eq!(find(Path::new(".tasuki")).distrust, Some(Distrust::Relative));
    }

    #[test]
    fn a_file_that_came_with_a_directory_and_cannot_be_read_leaves_the_users_own() {
        let folder = tempfile::tempdir().unwrap();
        let (repository, data) = (folder.path().join("repository"), folder.path().join("data"));
        for directory in [&repository, &data] {
            fs::create_dir(directory).unwrap();
        }
        let store = TrustStore::within(folder.path());
        fs::write(data.join(FILE), "secure = true\n").unwrap();
        // That an empty file is trusted is nothing to one that cannot be read.
        store.trust(&repository, [(FILE, &b""[..])]).unwrap();
        for content in [vec![0xff], vec![b' '; BYTES_MAX + 1]] {
            fs::write(repository.join(FILE), content).unwrap();
            let found = find(None, &repository, Some(&data), &store).unwrap().unwrap();
            assert!(found.unreadable.is_some() && found.distrust.is_some());
            assert_eq!(found.below.as_ref().unwrap().path, data.join(FILE));
            let why = found.of_broker().unwrap_err().to_string();
            assert!(why.contains("repository/tasuki.toml: cannot be read: "), "{why}");
        }
        // One's own is an error.
        fs::write(data.join(FILE), [0xff]).unwrap();
        assert!(find(None, &repository, Some(&data), &store).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_is_there_and_cannot_be_looked_at_is_not_absent() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (repository, data) = (folder.path().join("repository"), folder.path().join("data"));
        let store = TrustStore::within(folder.path());
        let find = || find(None, &repository, Some(&data), &store);
        let closed = fs::Permissions::from_mode(0o000);
        let makers: [&dyn Fn(&Path); 5] = [
            &|path| symlink("/nonexistent/tasuki.toml", path).unwrap(),
            &|path| symlink(FILE, path).unwrap(),
            &|path| fs::create_dir(path).unwrap(),
            &|path| {
                let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
                rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
            },
            &|path| fs::set_permissions(path.parent().unwrap(), closed.clone()).unwrap(),
        ];
        for (number, make) in makers.into_iter().enumerate() {
            for directory in [&repository, &data] {
                fs::create_dir(directory).unwrap();
            }
            // A user who may do everything looks into a closed directory, too.
            let is_last = number + 1 == makers.len();
            make(&data.join(FILE));
            if !is_last || data.read_dir().is_err() {
                let why = find().unwrap_err();
                assert!(matches!(why, FileError::Unreadable { .. }), "{number}: {why}");
                let is_nowhere = why.to_string().contains("it is a link that leads nowhere");
                assert_eq!(is_nowhere, number == 0, "{why}");
            }
            fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).unwrap();
            fs::remove_dir_all(&data).unwrap();
            fs::create_dir(&data).unwrap();
            // One that came along says nothing, and takes nothing of the user's own away.
            fs::write(data.join(FILE), "secure = true\n").unwrap();
            make(&repository.join(FILE));
            if !is_last || repository.read_dir().is_err() {
                let found = find().unwrap().unwrap();
                assert!(found.is_here && found.unreadable.is_some(), "{number}");
                assert_eq!(found.below.unwrap().path, data.join(FILE), "{number}");
            }
            fs::set_permissions(&repository, fs::Permissions::from_mode(0o700)).unwrap();
            for directory in [&repository, &data] {
                fs::remove_dir_all(directory).unwrap();
            }
        }
        // A place that is none has nothing.
        fs::write(&data, "").unwrap();
        assert!(is_absent(&data.join(FILE)) && is_absent(&repository.join(FILE)));
    }

    #[cfg(unix)]
    #[test]
    fn what_has_no_end_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let why = read(Some(&path), None).unwrap_err().to_string();
        assert!(why.contains("no plain file"), "{why}");
        fs::remove_file(&path).unwrap();
        fs::write(&path, vec![b' '; BYTES_MAX]).unwrap();
        assert!(read(Some(&path), None).is_ok());
        fs::write(&path, vec![b' '; BYTES_MAX + 1]).unwrap();
        let why = read(Some(&path), None).unwrap_err().to_string();
        assert!(why.contains("more than 1048576 bytes"), "{why}");
    }
}
