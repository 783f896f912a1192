//! What the broker's program reads from `tasuki.toml`, the file it shares with the node.
//!
//! Flags and `TASUKI_*` variables come first; the file fills in what they leave open. Keys that
//! are the node's are not looked at here: `tasuki config check` judges the file as a whole.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;

/// The file looked for in the current directory when none is named.
pub const FILE: &str = "tasuki.toml";

/// The broker's part of a data directory: `tasuki up` keeps its node's files beside it.
pub const FOLDER: &str = "broker";

/// What the file may say about a broker.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
pub struct File {
    pub data: Option<PathBuf>,
    pub broker_listen: Option<SocketAddr>,
    #[serde(default, deserialize_with = "lease")]
    pub lease: Option<Duration>,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{path} cannot be read: {source}", path = path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{path}: {message}", path = path.display())]
    Wrong { path: PathBuf, message: String },
}

/// Reads the named file, or the one in the current directory if there is one.
///
/// # Errors
/// When a named file is not there, or a value is not one.
pub fn read(named: Option<&Path>) -> Result<File, FileError> {
    let path = named.unwrap_or_else(|| Path::new(FILE));
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => {
            return Ok(File::default());
        }
        Err(source) => return Err(FileError::Unreadable { path: path.to_owned(), source }),
    };
    toml::from_str(&text)
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
        fs::write(&path, "data = \"/d\"\nlease = \"2m\"\nroles = [\"A\"]\n").unwrap();
        let file = read(Some(&path)).unwrap();
        assert_eq!(file.data.as_deref(), Some(Path::new("/d")));
        assert_eq!(file.lease, Some(Duration::from_secs(120)));
        fs::write(&path, "lease = \"soon\"\n").unwrap();
        assert!(read(Some(&path)).unwrap_err().to_string().contains("takes a duration"));
        assert!(matches!(
            read(Some(&folder.path().join("none"))),
            Err(FileError::Unreadable { .. })
        ));
    }
}
