//! What was done to agents' files, kept in the data directory, so that they can be given back as
//! they were. Without it ours is still known by what it says.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{cli::connect::book::mark, paths::replace};

/// Its name in the data directory.
const FILE: &str = "edit-hooks.json";

/// All files that have a hook of ours.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ledger {
    #[serde(default)]
    files: BTreeMap<String, Page>,
}

/// What was done to one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Page {
    /// It was not there.
    pub is_created: bool,
    /// What was made in it.
    #[serde(default)]
    pub made: Vec<String>,
    /// It as it was.
    #[serde(default)]
    pub backup: Option<PathBuf>,
    /// The mark of what was written; another text is somebody else's change, too.
    pub after: String,
}

impl Ledger {
    pub(super) fn read(data: &Path) -> Result<Self, String> {
        let path = data.join(FILE);
        let bad = |why: &dyn std::fmt::Display| {
            format!("{} cannot be read: {why}. Nothing was changed.", path.display())
        };
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|why| bad(&why)),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(why) => Err(bad(&why)),
        }
    }

    pub(super) fn write(&self, data: &Path) -> Result<(), String> {
        let path = data.join(FILE);
        let bytes = serde_json::to_vec_pretty(self).expect("plain data");
        replace(&path, &bytes)
            .map_err(|why| format!("{} cannot be written to: {why}.", path.display()))
    }

    pub(super) fn page(&self, file: &Path) -> Option<&Page> {
        self.files.get(&*file.to_string_lossy())
    }

    /// Notes a change from `before` to `after`.
    pub(super) fn note(
        &mut self,
        file: &Path,
        before: Option<&str>,
        after: &str,
        made: &[String],
        backup: Option<PathBuf>,
    ) {
        let key = file.to_string_lossy().into_owned();
        // A second change leads back to before the first, unless somebody changed it in between.
        let old = self.files.remove(&key);
        let is_ours = |page: &Page| before.is_some_and(|text| page.after == mark(text));
        let after = mark(after);
        let page = match old {
            Some(old) if is_ours(&old) => Page { after, ..old },
            Some(old) => {
                let made = [old.made, made.to_vec()].concat();
                Page { made, backup: None, after: String::new(), ..old }
            }
            None => Page { is_created: before.is_none(), made: made.to_vec(), backup, after },
        };
        self.files.insert(key, page);
    }

    /// The file as it was, if it is still as we left it; `Some(None)`: it was not there.
    pub(super) fn before(&self, file: &Path, now: &str) -> Option<Option<String>> {
        let page = self.page(file).filter(|page| page.after == mark(now))?;
        match &page.backup {
            None => page.is_created.then_some(None),
            Some(backup) => fs::read_to_string(backup).ok().map(Some),
        }
    }

    pub(super) fn forget(&mut self, file: &Path) {
        self.files.remove(&*file.to_string_lossy());
    }
}
