//! Files as they are named on a command line, made what every machine calls them.

use std::slice;

use tasuki_proto::wire;

use super::Failure;
use crate::repository::{self, Repositories, lock_base};

/// Which repository.
#[derive(Debug, clap::Args)]
pub(super) struct InRepository {
    /// Directory of the repository, or its name on every machine, such as github.com/us/it
    /// [default: the repository of this directory]
    #[arg(long, value_name = "DIR|NAME")]
    repository: Option<String>,
}

impl InRepository {
    /// The files that are meant, to lock them or to see their locks; none of them is the whole
    /// repository, if one is named.
    pub(super) fn set(&self, files: &[String]) -> Result<wire::FileSet, Failure> {
        if self.repository.is_none() && files.is_empty() {
            return Ok(wire::FileSet::default());
        }
        let not_done = "Nothing was locked or looked at";
        set(self.repository.as_deref(), files, Some(OPTION), not_done)
    }
}

/// What files of this directory's repository are called from its root. What could not be locked is
/// refused.
pub(super) fn from_root(files: &[String]) -> Result<Vec<String>, Failure> {
    let named = files.iter().map(|file| {
        let patterns = set(None, slice::from_ref(file), None, "Nothing was sent")?.patterns;
        // The first is the name as it was meant, the second may be there to lock more.
        Ok(patterns.first().map(|it| repository::shown(it).into_owned()).unwrap_or_default())
    });
    named.collect()
}

/// What locks call the files that a submission changed, as far as they are files of this
/// directory's repository.
pub(super) fn changed(files: &[String]) -> Option<wire::FileSet> {
    let here = std::env::current_dir().ok()?;
    lock_base(None, &here, None).open(&Repositories::default()).ok()?.changed_files(files)
}

/// How [`InRepository`] is typed.
const OPTION: &str = "--repository";

/// This is the one place where paths become a `FileSet`. `option` is the one of the command that
/// names another repository.
fn set(
    of: Option<&str>,
    files: &[String],
    option: Option<&str>,
    not_done: &str,
) -> Result<wire::FileSet, Failure> {
    let here = std::env::current_dir()
        .map_err(|why| Failure::local(format!("Cannot find the current directory: {why}.")))?;
    let base = lock_base(None, &here, of);
    let named = base.open(&Repositories::default()).and_then(|basis| basis.files(files));
    named.map_err(|why| Failure::usage(format!("{}. {not_done}.", why.with_option(option))))
}
