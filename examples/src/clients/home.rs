//! A home of its own for a client: nothing of the person who runs this is read or written.
//!
//! It lies in the system's temporary directory: within this repository, clients would take it
//! for the project. The logs lie below `target`, where they stay.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use tokio::process::Command;

use crate::{Result, process::program};

/// Folders of one run.
#[derive(Debug)]
pub struct Home {
    /// Logs.
    pub folder: PathBuf,
    /// Everything else; gone when this is dropped.
    base: TempDir,
    pub home: PathBuf,
    pub project: PathBuf,
    /// Of broker and node.
    pub data: PathBuf,
    /// Where the clients' programs and their Node are.
    pub bin: PathBuf,
}

impl Home {
    /// Begins anew, with logs in `folder`.
    ///
    /// # Errors
    /// When folders cannot be made.
    pub fn new(folder: &Path, place: &Path) -> Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        let base = TempDir::with_prefix("tasuki-client-")?;
        let it = Self {
            folder: folder.to_owned(),
            home: base.path().join("home"),
            project: base.path().join("home/project"),
            data: base.path().join("data"),
            bin: place.join("node_modules/.bin"),
            base,
        };
        for folder in [&it.folder, &it.project, &it.data, &it.path("tmp")] {
            fs::create_dir_all(folder)?;
        }
        Ok(it)
    }

    /// Something that is in nobody's way, beside the home.
    pub fn path(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    /// Leaves everything where it is, for people to look at.
    pub fn keep(&mut self) -> &Path {
        self.base.disable_cleanup(true);
        self.base.path()
    }

    /// Writes a file below the home.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &str, text: &str) -> Result<()> {
        let path = self.home.join(path);
        fs::create_dir_all(path.parent().ok_or("a file lies in a folder")?)?;
        Ok(fs::write(path, text)?)
    }

    /// A log below the run's folder, to be added to.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn log(&self, name: &str) -> Result<fs::File> {
        Ok(fs::File::options().create(true).append(true).open(self.folder.join(name))?)
    }

    /// A program among the clients, in the project, with nothing of the caller's environment.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        self.surround(&mut command);
        command
    }

    /// A program of the system, the same way.
    pub fn outside(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        self.surround(&mut command);
        command
    }

    /// `tasuki`, the same way, with the data of this run.
    ///
    /// # Errors
    /// When it was not built.
    pub fn tasuki(&self) -> Result<Command> {
        self.tasuki_with(&self.data)
    }

    /// The same with other data, as of another machine.
    ///
    /// # Errors
    /// When it was not built.
    pub fn tasuki_with(&self, data: &Path) -> Result<Command> {
        let mut command = Command::new(program("tasuki")?);
        self.surround(&mut command);
        command.arg("--data").arg(data);
        Ok(command)
    }

    fn surround(&self, command: &mut Command) {
        command
            .current_dir(&self.project)
            .env_clear()
            .env("HOME", &self.home)
            .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", self.bin.display()))
            .env("TMPDIR", self.path("tmp"))
            .env("LANG", "C.UTF-8")
            .env("TERM", "dumb")
            .env("NO_COLOR", "1");
    }
}
