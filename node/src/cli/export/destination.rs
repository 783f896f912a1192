//! Where an export goes.
//!
//! **Invariant:** nothing that was there before is written over, and a file has its name only once
//! all of it is written.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
};

use tasuki_proto::id::WorkspaceId;

use super::{Failure, Format, Output, RoleThread, jsonl, markdown, mbox};
use crate::dir::Dir;

/// Where it goes, and in which form.
#[derive(Debug)]
pub(super) enum Destination {
    Folder { dir: Dir, has_roles: bool },
    File { path: PathBuf, part: PathBuf, file: BufWriter<File>, format: Format },
    Output { format: Format },
}

impl Destination {
    /// `has_roles`: a folder has a folder for each role.
    pub(super) fn open(
        format: Format,
        out: Option<PathBuf>,
        has_roles: bool,
    ) -> Result<Self, Failure> {
        match (format, out) {
            (Format::Markdown, None) => {
                Err(Failure::usage("Markdown writes a file for each thread: specify --out DIR."))
            }
            (Format::Markdown, Some(path)) => {
                if fs::read_dir(&path).is_ok_and(|mut inside| inside.next().is_some()) {
                    return Err(taken(&path, "is not empty"));
                }
                let dir = fs::create_dir_all(&path).and_then(|()| Dir::open(&path));
                let dir = dir.map_err(|why| cannot(&path, &why))?;
                Ok(Self::Folder { dir, has_roles })
            }
            (Format::Mbox | Format::Jsonl, None) => Ok(Self::Output { format }),
            (Format::Mbox | Format::Jsonl, Some(path)) => {
                if fs::symlink_metadata(&path).is_ok() {
                    return Err(taken(&path, "is there already"));
                }
                let mut part = path.clone().into_os_string();
                part.push(".part");
                let part = PathBuf::from(part);
                let file = File::create_new(&part).map_err(|why| {
                    let is_there = why.kind() == io::ErrorKind::AlreadyExists;
                    if is_there {
                        taken(&part, "is left of another export")
                    } else {
                        cannot(&part, &why)
                    }
                })?;
                Ok(Self::File { path, part, file: BufWriter::new(file), format })
            }
        }
    }

    pub(super) fn write(
        &mut self,
        found: &RoleThread,
        workspace: &WorkspaceId,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let text = |format: &Format| match format {
            Format::Mbox => mbox::thread(found, workspace),
            Format::Jsonl | Format::Markdown => jsonl::thread(found, workspace),
        };
        match self {
            Self::Output { format } => output.raw(&text(format)),
            Self::File { part, file, format, .. } => {
                file.write_all(text(format).as_bytes()).map_err(|why| cannot(part, &why))
            }
            Self::Folder { dir, has_roles } => {
                let mut below = PathBuf::new();
                if *has_roles {
                    below.push(found.role.as_str());
                }
                below.push(found.place.as_str());
                let written =
                    dir.walk_or_make(&below).and_then(|folder| markdown::write(found, &folder));
                written.map_err(|why| cannot(&dir.join(&below), &why))
            }
        }
    }

    /// Gives a file its name, or takes away what there is of it.
    pub(super) fn close(self, is_whole: bool) -> Result<(), Failure> {
        let Self::File { path, part, mut file, .. } = self else { return Ok(()) };
        if !is_whole {
            return fs::remove_file(&part).map_err(|why| cannot(&part, &why));
        }
        let named = file
            .flush()
            .and_then(|()| file.get_ref().sync_all())
            .and_then(|()| crate::files::rename_new(&part, &path));
        named.map_err(|why| cannot(&path, &why))
    }
}

fn taken(path: &Path, why: &str) -> Failure {
    Failure::usage(format!("{} {why}; nothing is written over.", path.display()))
}

fn cannot(path: &Path, why: &io::Error) -> Failure {
    Failure::local(format!("{} cannot be written: {why}.", path.display()))
}
