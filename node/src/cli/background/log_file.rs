//! The log of a node in the background: one file of bounded size, and the one before it.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use tasuki_proto::host::files;

/// The log's name in the node's data directory.
pub(super) const LOG: &str = "tasuki.log";

/// What was logged before it.
pub(super) const OLDER_LOG: &str = "tasuki.log.1";

/// The log of a node in the background; one older file is kept. Some ten thousand lines.
const NODE_LOG_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Each write is a whole line, as the logger makes them.
#[derive(Debug)]
pub(super) struct LogFile {
    data: PathBuf,
    file: File,
    bytes: u64,
}

impl LogFile {
    /// Goes on with the log of an earlier start.
    pub(super) fn open(data: &Path) -> io::Result<Self> {
        files::private_directory(data)?;
        let file = appending(data)?;
        let bytes = file.metadata()?.len();
        Ok(Self { data: data.to_owned(), file, bytes })
    }

    fn rotate(&mut self) -> io::Result<()> {
        fs::rename(self.data.join(LOG), self.data.join(OLDER_LOG))?;
        self.file = appending(&self.data)?;
        self.bytes = 0;
        Ok(())
    }
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let bytes = u64::try_from(line.len()).unwrap_or(u64::MAX);
        if self.bytes != 0 && NODE_LOG_BYTES_MAX < self.bytes.saturating_add(bytes) {
            self.rotate()?;
        }
        self.file.write_all(line)?;
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The log, to be written to at its end; this user alone can read it.
pub(super) fn appending(data: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(data.join(LOG))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_two_files_of_bounded_size_and_loses_the_oldest_lines() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        let line = [b'x'; 1024 * 1024];
        let lines = 3 * usize::try_from(NODE_LOG_BYTES_MAX).unwrap() / line.len();
        // A later start goes on where the earlier one was.
        for _ in 0..3 {
            let mut log = LogFile::open(&data).unwrap();
            for _ in 0..lines / 3 {
                log.write_all(&line).unwrap();
            }
        }
        LogFile::open(&data).unwrap().write_all(b"last\n").unwrap();
        let read = |name| fs::read(data.join(name)).unwrap();
        assert_eq!(read(LOG), b"last\n");
        assert_eq!(u64::try_from(read(OLDER_LOG).len()).unwrap(), NODE_LOG_BYTES_MAX);
        assert_eq!(fs::read_dir(&data).unwrap().count(), 2);
        #[cfg(unix)]
        for name in [LOG, OLDER_LOG] {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(data.join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }
}
