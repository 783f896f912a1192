//! What the broker's program reads from `tasuki.toml`, the file it shares with the node.
//!
//! Flags and `TASUKI_*` variables come first; the file fills in what they leave open. Values of
//! keys that are the node's are not looked at here: `tasuki config check` judges the whole file.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, de::IgnoredAny};

/// The file's name.
pub const FILE: &str = "tasuki.toml";

/// The broker's part of a data directory: `tasuki up` keeps its node's files beside it.
pub const FOLDER: &str = "broker";

/// What the file may say about a broker. The other keys are a node's; a key that is nobody's is
/// an error.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct File {
    pub data: Option<PathBuf>,
    pub broker_listen: Option<SocketAddr>,
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
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{path} cannot be read: {source}", path = path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{path}: {message}", path = path.display())]
    Wrong { path: PathBuf, message: String },
}

/// Reads the named file; else the first there is of those in the current directory, in `data`
/// (else the platform's data directory) and in the platform's configuration directory.
///
/// # Errors
/// When a named file is not there, a value is not one, or a key is nobody's.
pub fn read(named: Option<&Path>, data: Option<&Path>) -> Result<File, FileError> {
    if let Some(path) = named {
        return parse(path)?.ok_or_else(|| FileError::Unreadable {
            path: path.to_owned(),
            source: io::ErrorKind::NotFound.into(),
        });
    }
    let data = data.map_or_else(data_directory, Path::to_owned);
    let project = directories::ProjectDirs::from("", "", "tasuki");
    let config = project.map(|project| project.config_dir().join(FILE));
    for path in [Some(PathBuf::from(FILE)), Some(data.join(FILE)), config].into_iter().flatten() {
        if let Some(file) = parse(&path)? {
            return Ok(file);
        }
    }
    Ok(File::default())
}

/// `None` when there is no such file.
fn parse(path: &Path) -> Result<Option<File>, FileError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(None);
        }
        Err(source) => return Err(FileError::Unreadable { path: path.to_owned(), source }),
    };
    toml::from_str(&text)
        .map(Some)
        .map_err(|error| FileError::Wrong { path: path.to_owned(), message: error.to_string() })
}

/// The platform's data directory for this program.
pub fn data_directory() -> PathBuf {
    directories::ProjectDirs::from("", "", "tasuki")
        .map_or_else(|| PathBuf::from("tasuki-data"), |dirs| dirs.data_dir().to_owned())
}

/// `90s`, `15m`, `2h`; a bare number is seconds.
///
/// # Errors
/// Says what a duration looks like.
pub fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(secs) = text.parse() {
        return Ok(Duration::from_secs(secs));
    }
    let wrong = |_| format!("is {text:?}; it takes a duration such as 90s, 15m or 2h");
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
            assert_eq!(paths.map(Option::unwrap), ["c", "k", "a"].map(PathBuf::from));
        }
        for (wrong, why) in [("lease = \"soon\"", "takes a duration"), ("lisen = 1", "lisen")] {
            fs::write(&path, wrong).unwrap();
            assert!(read(Some(&path), None).unwrap_err().to_string().contains(why), "{wrong}");
        }
        let missing = read(Some(&folder.path().join("none")), None);
        assert!(matches!(missing, Err(FileError::Unreadable { .. })));
    }
}
