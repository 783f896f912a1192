//! Writes a file, whole or not at all.

use std::{
    ffi::OsStr,
    fs::{File, Metadata, Permissions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
};

use sha2::{Digest as _, Sha256};
use tasuki_proto::limits::{FILE_SCAN_BYTES_MAX, FILE_WRITE_BYTES_MAX};

use super::{FileError, Files, no_file};
use crate::{
    dir::{Dir, NoFile},
    hex::hex,
};

/// How the name of a file begins that is not in its place yet.
const UNFINISHED: &str = ".tasuki-write-";

/// Digits that make such a name nobody else's.
const UNFINISHED_BYTES: usize = 8;

/// The bits of a mode that a new file takes over: none that runs it as somebody else.
const MODE_BITS: u32 = 0o777;

/// What becomes of what is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WriteMode {
    /// There must be nothing.
    Create,
    /// A file is made, or replaced.
    #[default]
    Overwrite,
    /// A file is made, or gets more at its end.
    Append,
}

/// What is to be written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteRequest {
    pub path: String,
    pub content: String,
    pub mode: WriteMode,
    /// What the file must be that is there, in hexadecimal.
    pub expected_sha256: Option<String>,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Below the root.
    pub path: String,
    /// Nothing was there before.
    pub is_new: bool,
    pub bytes: u64,
    /// In hexadecimal.
    pub sha256: String,
}

impl Files {
    /// Whether a path may be written to, whatever is there.
    ///
    /// # Errors
    /// Says why not.
    pub fn check_write(&self, path: &str) -> Result<String, FileError> {
        if !self.settings().may_write {
            return Err(FileError::ReadOnly);
        }
        let names = self.names(path)?;
        let path = names.join("/");
        match self.protection(&names) {
            Some(by) => Err(FileError::Protected { path, by }),
            None => Ok(path),
        }
    }

    /// Writes a file. Directories that are missing are made.
    ///
    /// # Errors
    /// When it may not be written, or is not what it is expected to be.
    pub fn write(&self, request: &WriteRequest) -> Result<Written, FileError> {
        // Before it is checked: another write may make what this one would complete.
        let _alone = self.writing.lock();
        let path = self.check_write(&request.path)?;
        if FILE_WRITE_BYTES_MAX < request.content.len() {
            let (bytes, bytes_max) = (request.content.len() as u64, FILE_WRITE_BYTES_MAX as u64);
            return Err(FileError::TooLarge { path, bytes, bytes_max });
        }
        let names = self.names(&request.path)?;
        let mut made = Vec::new();
        let written = self.write_alone(request, &names, path, &mut made);
        if written.is_err() {
            // The innermost first. What somebody put something into stays.
            for (above, name) in made.iter().rev() {
                above.remove_dir(name).ok();
            }
        }
        written
    }

    /// Writes it while no other is written. `made` are the directories that were missing.
    fn write_alone(
        &self,
        request: &WriteRequest,
        names: &[&str],
        path: String,
        made: &mut Vec<(Dir, String)>,
    ) -> Result<Written, FileError> {
        let made = request.expected_sha256.is_none().then_some(made);
        let (dir, name) = self.parent(names, made)?;
        let old = self.look(&dir, name, &path)?;
        if old.is_some() && request.mode == WriteMode::Create {
            return Err(FileError::Exists(path));
        }
        let mut content = match (&old, request.mode) {
            // One with a second name may be from elsewhere.
            (Some(_), WriteMode::Append) => read_old(dir.open_own_file(name), &path)?,
            (_, WriteMode::Create | WriteMode::Overwrite | WriteMode::Append) => Vec::new(),
        };
        if let Some(expected) = &request.expected_sha256 {
            check_hash(&read_old(dir.open_file(name), &path)?, &path, expected)?;
        }
        content.extend_from_slice(request.content.as_bytes());
        let failed = |why| FileError::Io { path: path.clone(), why };
        let mode = old.as_ref().map(|it| it.mode() & MODE_BITS);
        let put = put(&dir, name, &content, mode, request.mode);
        let is_there = |why: &io::Error| why.kind() == io::ErrorKind::AlreadyExists;
        put.map_err(
            |why| if is_there(&why) { FileError::Exists(path.clone()) } else { failed(why) },
        )?;
        let (bytes, sha256) = (content.len() as u64, hex(&Sha256::digest(&content)));
        Ok(Written { path, is_new: old.is_none(), bytes, sha256 })
    }

    /// The plain file that is there; `None`: nothing.
    fn look(&self, dir: &Dir, name: &str, path: &str) -> Result<Option<Metadata>, FileError> {
        match dir.open_file(name) {
            Ok((_, about)) if self.is_private(&about) => Err(FileError::Private(path.to_owned())),
            Ok((_, about)) => Ok(Some(about)),
            Err(why) if why.is_missing() => Ok(None),
            Err(why) => Err(no_file(path, why)),
        }
    }
}

/// All of a file, bounded.
fn read_old(opened: Result<(File, Metadata), NoFile>, path: &str) -> Result<Vec<u8>, FileError> {
    let (file, about) = opened.map_err(|why| no_file(path, why))?;
    let mut content = Vec::new();
    let read = file.take(FILE_SCAN_BYTES_MAX + 1).read_to_end(&mut content);
    read.map_err(|why| FileError::Io { path: path.to_owned(), why })?;
    if FILE_SCAN_BYTES_MAX < content.len() as u64 {
        let (bytes, bytes_max) = (about.len(), FILE_SCAN_BYTES_MAX);
        return Err(FileError::TooLarge { path: path.to_owned(), bytes, bytes_max });
    }
    Ok(content)
}

fn check_hash(content: &[u8], path: &str, expected: &str) -> Result<(), FileError> {
    let actual = hex(&Sha256::digest(content));
    if actual.eq_ignore_ascii_case(expected.trim()) {
        return Ok(());
    }
    Err(FileError::Changed { path: path.to_owned(), actual })
}

/// Puts a file in its place, durably. Whatever took the name meanwhile is replaced as a name: no link
/// is followed.
fn put(dir: &Dir, name: &str, content: &[u8], mode: Option<u32>, how: WriteMode) -> io::Result<()> {
    let mut digits = [0; UNFINISHED_BYTES];
    getrandom::fill(&mut digits).map_err(io::Error::other)?;
    let unfinished = format!("{UNFINISHED}{}", hex(&digits));
    let unfinished = OsStr::new(&unfinished);
    let file = dir.create_new(unfinished)?;
    let placed = fill(file, content, mode).and_then(|()| match how {
        WriteMode::Create => dir.rename_new(unfinished, dir, name),
        WriteMode::Overwrite | WriteMode::Append => dir.rename(unfinished, name),
    });
    if placed.is_err() {
        // Why it was not placed matters more.
        dir.remove_file(unfinished).ok();
    }
    placed?;
    dir.to_file()?.sync_all()
}

fn fill(mut file: File, content: &[u8], mode: Option<u32>) -> io::Result<()> {
    file.write_all(content)?;
    if let Some(mode) = mode {
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    file.sync_all()
}
