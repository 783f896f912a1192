//! What the operator says of work on files. Pure.

use std::path::PathBuf;

use super::protect::Pattern;

/// What roles with the toolset `files` may read and write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileSettings {
    /// The directory that all paths are below; `None`: there are no files for anybody.
    pub root: Option<PathBuf>,
    /// Whether anything may be written.
    pub may_write: bool,
    /// What is never written, in addition.
    pub protect: Vec<Pattern>,
}
