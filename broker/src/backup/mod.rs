//! Backups and exports: all that a broker keeps, as of one commit, in one file, byte for byte or as
//! lines to be read; and a data directory made of either.
//!
//! - `format`: the file, frame by frame, each checked.
//! - `write`: a cut of the journal to a file, while the broker serves.
//! - `lines`: the lines of an export, from a backup and back.
//! - `parts`: what both hold, as it is read.
//! - `restore`: either to a new data directory, in which nothing granted before holds
//!   (`rules::restored`).
//! - `counts`: how much there is of what, for statistics.
//!
//! **Invariants**
//! - A backup is of one commit: it holds what every workspace had then, and nothing newer
//!   (`journal::sled::cut` says why).
//! - A file counts whole or not at all. What is cut off, changed or of a newer release is refused,
//!   with the place.
//! - A restored directory has its name once all of it is written, checked and on the disk.
//!
//! In it: snapshots, the records after them, bodies, and the certificate with its key, whose
//! fingerprint nodes know. Not in it: search indexes, which are made again, the local
//! administrator's token (`admin.json`), where the data is (`location.json`), a node's data.

mod counts;
mod format;
mod lines;
mod parts;
mod restore;
mod write;

#[cfg(test)]
pub(crate) use self::lines::written;

use std::{fmt, io};

use tasuki_proto::id::{Timestamp, WorkspaceId};

pub use self::{
    counts::{Counts, WorkspaceCounts, count},
    lines::{Exported, export},
    restore::{STAGING, import, restore},
    write::{check, write},
};
use crate::journal::JournalError;

/// The certificate of a broker's own making, in its part of a data directory.
pub const TLS_FOLDER: &str = "tls";

/// What a backup holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// When it was made.
    pub made: Timestamp,
    /// The newest commit in it.
    pub commit: u64,
    /// Of the database that it is of.
    pub incarnation: [u8; 16],
    pub workspaces: u64,
    /// Records after the snapshots.
    pub records: u64,
    pub bodies: u64,
    /// Of the file.
    pub bytes: u64,
}

/// What a restore made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    pub backup: Summary,
    pub workspaces: Vec<WorkspaceId>,
    /// Tokens that are good, as of the backup, and invitations that are open.
    pub tokens: u64,
    pub invitations: u64,
}

/// Why there is no backup, or nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("this is no backup of a broker; nothing of it is used")]
    NotOne,
    #[error(
        "the backup has format {0}, this release reads {format}; use the release that wrote it or a \
         newer one",
        format = format::FORMAT
    )]
    Newer(u32),
    #[error(
        "the backup ends at byte {at}, before {missing}: it was cut off; nothing of it is used. Take \
         another copy of it, or an older backup"
    )]
    CutOff { at: u64, missing: Place },
    #[error(
        "the backup is damaged at byte {at}, {place}: {what}; nothing of it is used. Take another \
         copy of it, or an older backup"
    )]
    Damaged { at: u64, place: Place, what: String },
    #[error("this is no export of a broker; nothing of it is used")]
    NotExport,
    #[error(
        "the export has version {0}, this release reads {version}; use the release that wrote it",
        version = lines::VERSION
    )]
    NewerExport(u64),
    #[error(
        "the export ends at line {0} without its end: it was cut off; nothing of it is used. Take \
         another copy of it, or export again"
    )]
    ExportCutOff(u64),
    #[error(
        "line {number} of the export: {what}; nothing of it is used. Take another copy of it, or \
         export again"
    )]
    Line { number: u64, what: String },
    #[error("there is no workspace {0}; nothing was made")]
    NoWorkspace(WorkspaceId),
    #[error("reading it: {0}")]
    Read(#[source] io::Error),
    #[error("writing it: {0}")]
    Write(#[source] io::Error),
    #[error("writing {path}: {source}")]
    Directory { path: String, source: io::Error },
    #[error(
        "another restore writes to {0}; nothing was changed. Wait until it is done, or name a new \
         directory: --data DIR"
    )]
    Restoring(String),
    #[error(
        "{0} was made meanwhile, such as by a broker that was started there; it stays as it is and \
         nothing was restored. Name a new directory: --data DIR"
    )]
    Taken(String),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// What of a backup something is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    pub workspace: Option<String>,
    pub what: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.workspace {
            Some(workspace) => write!(f, "{} of workspace {workspace}", self.what),
            None => f.write_str(&self.what),
        }
    }
}
