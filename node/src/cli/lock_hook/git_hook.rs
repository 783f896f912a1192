//! Git's pre-commit hook: a script that runs the hook that was there before, then calls us.
//!
//! The hook that was there is kept beside it under another name, and gets its own back. So the
//! directory itself shows what is to be restored, also after a run that was interrupted.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    cli::{
        Failure,
        client_files::file_io::{self, NewMode, Snapshot},
        text::word,
    },
    config::HookFail,
};

/// The hook's name.
const NAME: &str = "pre-commit";

/// What the one before is called.
const BEFORE: &str = "pre-commit.before-tasuki";

/// Ours have it in a line of their own.
const MARK: &str = "# tasuki-hook 1";

/// Longer than ours, in bytes: what is longer is somebody else's, unread.
const SCRIPT_BYTES_MAX: u64 = 64 * 1024;

/// Its place in a folder of hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub path: PathBuf,
    before: PathBuf,
}

/// What is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum There {
    Nothing,
    Ours(String),
    Others,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    Created,
    /// One of somebody else's goes before it.
    Chained,
    Changed,
    Unchanged,
    Removed,
    Absent,
}

/// The script. `command`: the program and its arguments.
pub(super) fn text(command: &[String], fail: HookFail) -> String {
    let (program, arguments) = command.split_first().expect("a program");
    let arguments: String = arguments.iter().map(|it| format!(" {}", word(it))).collect();
    let (then, code) = match fail {
        HookFail::Open => ("so locks are not checked", 0),
        HookFail::Closed => ("so nothing is committed", 1),
    };
    format!(
        "#!/bin/sh\n\
         {MARK}\n\
         # `tasuki lock-hook install` installed this; `tasuki lock-hook uninstall` removes it.\n\
         # It refuses commits of files that another role has locked.\n\
         # A hook that was here before is in {BEFORE}, and runs first.\n\
         before=\"$0.before-tasuki\"\n\
         if [ -x \"$before\" ]; then\n  \"$before\" \"$@\" || exit $?\nfi\n\
         tasuki={}\n\
         if [ ! -x \"$tasuki\" ]; then\n  \
         echo \"tasuki: $tasuki is gone, {then}; tasuki lock-hook uninstall uninstalls this hook\" >&2\n  \
         exit {code}\nfi\n\
         exec \"$tasuki\"{arguments}\n",
        word(program)
    )
}

impl Place {
    pub(super) fn of(directory: &Path) -> Self {
        Self { path: directory.join(NAME), before: directory.join(BEFORE) }
    }

    /// Whether something of somebody else's is kept.
    pub(super) fn has_before(&self) -> bool {
        self.before.symlink_metadata().is_ok()
    }

    pub(super) fn look(&self) -> io::Result<There> {
        match self.path.symlink_metadata() {
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(There::Nothing),
            Err(why) => Err(why),
            Ok(meta) if !meta.is_file() || SCRIPT_BYTES_MAX < meta.len() => Ok(There::Others),
            Ok(_) => {
                let text = String::from_utf8(fs::read(&self.path)?);
                let is_ours = |text: &String| text.lines().any(|line| line == MARK);
                Ok(text.ok().filter(is_ours).map_or(There::Others, There::Ours))
            }
        }
    }

    /// Whether it could be put here. Changes nothing.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match (self.look().map_err(|why| self.bad(&why))?, self.has_before()) {
            (There::Others, true) => Err(Failure::local(format!(
                "{} is another hook, which was added after ours, and {} exists as well. Nothing was \
                 changed. Remove one of them, or merge them.",
                self.path.display(),
                self.before.display()
            ))),
            (There::Others | There::Ours(_) | There::Nothing, _) => Ok(()),
        }
    }

    pub(super) fn install(&self, text: &str) -> Result<Done, Failure> {
        self.check()?;
        let bad = |why: io::Error| self.bad(&why);
        let directory = self.path.parent().unwrap_or_else(|| Path::new("."));
        fs::create_dir_all(directory).map_err(bad)?;
        let (done, old) = match self.look().map_err(bad)? {
            There::Ours(there) if there == text => return Ok(Done::Unchanged),
            There::Ours(there) => (Done::Changed, Some(there)),
            There::Nothing if self.has_before() => (Done::Chained, None),
            There::Nothing => (Done::Created, None),
            There::Others => {
                fs::rename(&self.path, &self.before).map_err(bad)?;
                (Done::Chained, None)
            }
        };
        let before = Snapshot { path: self.path.clone(), text: old };
        file_io::replace(&before, text, NewMode::Executable).map_err(|why| {
            // Without ours, theirs is to go on.
            if done == Done::Chained {
                drop(fs::rename(&self.before, &self.path));
            }
            why.failure(&self.path)
        })?;
        Ok(done)
    }

    pub(super) fn uninstall(&self) -> Result<Done, Failure> {
        let bad = |why: io::Error| self.bad(&why);
        match (self.look().map_err(bad)?, self.has_before()) {
            (There::Ours(_) | There::Nothing, true) => {
                fs::rename(&self.before, &self.path).map_err(bad)?;
                Ok(Done::Removed)
            }
            (There::Ours(_), false) => {
                fs::remove_file(&self.path).map_err(bad)?;
                Ok(Done::Removed)
            }
            (There::Nothing, false) => Ok(Done::Absent),
            (There::Others, false) => Ok(Done::Absent),
            (There::Others, true) => Err(Failure::local(format!(
                "{} was replaced after it was installed, so nothing was changed; the hook from \
                 before is {}.",
                self.path.display(),
                self.before.display()
            ))),
        }
    }

    fn bad(&self, why: &io::Error) -> Failure {
        Failure::local(format!("{}: {why}.", self.path.display()))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn script() -> String {
        let command = ["/opt/it's/tasuki", "--data", "/d d", "lock-hook", "pre-commit"];
        text(&command.map(str::to_owned), HookFail::Open)
    }

    #[test]
    fn the_script_says_what_it_is() {
        assert_eq!(
            script(),
            "#!/bin/sh
# tasuki-hook 1
# `tasuki lock-hook install` installed this; `tasuki lock-hook uninstall` removes it.
# It refuses commits of files that another role has locked.
# A hook that was here before is in pre-commit.before-tasuki, and runs first.
before=\"$0.before-tasuki\"
if [ -x \"$before\" ]; then
  \"$before\" \"$@\" || exit $?
fi
tasuki='/opt/it'\\''s/tasuki'
if [ ! -x \"$tasuki\" ]; then
  echo \"tasuki: $tasuki is gone, so locks are not checked; tasuki lock-hook uninstall uninstalls this hook\" >&2
  exit 0
fi
exec \"$tasuki\" --data '/d d' lock-hook pre-commit
"
        );
    }

    #[test]
    fn what_was_there_is_there_again() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::of(folder.path());
        assert_eq!(place.uninstall().unwrap(), Done::Absent);
        assert_eq!(place.install(&script()).unwrap(), Done::Created);
        assert_eq!(place.install(&script()).unwrap(), Done::Unchanged);
        assert_eq!(place.install(&format!("{}#\n", script())).unwrap(), Done::Changed);
        assert_eq!(place.uninstall().unwrap(), Done::Removed);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

        fs::write(&place.path, b"#!/bin/sh\nexit 3 # \xff\n").unwrap();
        fs::set_permissions(&place.path, fs::Permissions::from_mode(0o701)).unwrap();
        assert_eq!(place.uninstall().unwrap(), Done::Absent);
        assert_eq!(place.install(&script()).unwrap(), Done::Chained);
        assert_eq!(place.install(&script()).unwrap(), Done::Unchanged);
        assert_eq!(fs::metadata(&place.path).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(place.uninstall().unwrap(), Done::Removed);
        assert_eq!(fs::read(&place.path).unwrap(), b"#!/bin/sh\nexit 3 # \xff\n");
        assert_eq!(fs::metadata(&place.path).unwrap().permissions().mode() & 0o777, 0o701);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_run_that_was_cut_short_is_made_good() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::of(folder.path());
        fs::write(&place.before, "theirs").unwrap();
        assert_eq!(place.install(&script()).unwrap(), Done::Chained);
        assert_eq!(place.uninstall().unwrap(), Done::Removed);
        assert_eq!(fs::read_to_string(&place.path).unwrap(), "theirs");
        fs::rename(&place.path, &place.before).unwrap();
        assert_eq!(place.uninstall().unwrap(), Done::Removed);
        assert_eq!(fs::read_to_string(&place.path).unwrap(), "theirs");
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::of(folder.path());
        let other = folder.path().join("other");
        fs::write(&other, "theirs").unwrap();
        let new = place.path.with_file_name(".pre-commit.tasuki-new");
        std::os::unix::fs::symlink(&other, new).unwrap();
        assert_eq!(place.install(&script()).unwrap(), Done::Created);
        assert_eq!(fs::read_to_string(&other).unwrap(), "theirs");
        assert!(place.path.symlink_metadata().unwrap().is_file());
    }

    #[test]
    fn what_came_after_ours_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::of(folder.path());
        fs::write(&place.path, "first").unwrap();
        place.install(&script()).unwrap();
        fs::write(&place.path, "last").unwrap();
        assert!(place.install(&script()).unwrap_err().message.contains("added after ours"));
        assert!(place.uninstall().unwrap_err().message.contains("was replaced"));
        assert_eq!(fs::read_to_string(&place.path).unwrap(), "last");
        assert_eq!(fs::read_to_string(&place.before).unwrap(), "first");
    }
}
