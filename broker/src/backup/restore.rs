//! A backup or an export to a new data directory.
//!
//! It is written beside its place, under a name that no broker serves, and gets its own once
//! everything is written, was checked as a start checks it, and is on the disk. Whatever fails
//! before leaves nothing that could be taken for a broker's data. One restore writes to a directory
//! at a time, and removes nothing that another wrote.

use std::{
    fs::{self, TryLockError},
    io::{self, BufRead, Read, Write as _},
    path::{Path, PathBuf},
};

use tasuki_proto::{
    host::{
        config,
        files::{self, Locked},
    },
    id::{Timestamp, WorkspaceId},
    stored::BackupFile,
};

use super::{
    BackupError, Restored, TLS_FOLDER,
    lines::Lines,
    parts::{Frames, Part, Source},
};
use crate::{
    journal::{
        JournalError, codec,
        sled::{self, Restoring, RestoringWorkspace},
    },
    rules::Workspace,
};

/// What a directory is called while it is restored, in the data directory.
pub const STAGING: &str = "broker.restoring";

/// Restores a backup into a data directory in which no broker ever kept anything. `now` is after
/// everything that was granted by the broker that the backup is of.
///
/// # Errors
/// Where the backup is cut off or damaged, or what cannot be written. Then there is no broker's
/// data in the directory.
pub fn restore(input: impl Read, data: &Path, now: Timestamp) -> Result<Restored, BackupError> {
    make(Frames::begin(input)?, data, now)
}

/// The same from an export; of one workspace, if it is named.
///
/// # Errors
/// As of [`restore`]; or when there is no such workspace.
pub fn import(
    input: impl BufRead,
    workspace: Option<&WorkspaceId>,
    data: &Path,
    now: Timestamp,
) -> Result<Restored, BackupError> {
    make(Lines::begin(input, workspace.cloned())?, data, now)
}

fn make(source: impl Source, data: &Path, now: Timestamp) -> Result<Restored, BackupError> {
    let (staging, place) = (data.join(STAGING), data.join(config::FOLDER));
    let _lock = claim(data)?;
    let restored = write(source, &staging, now)
        .and_then(|restored| sled::verify(&staging).map(|_| restored).map_err(Into::into));
    let restored = match restored {
        Ok(restored) => restored,
        // Somebody else's, where the directory could not be locked.
        Err(why @ BackupError::Journal(JournalError::InUse(_))) => return Err(why),
        Err(why) => {
            // Why it failed matters more; what is left is removed by the next restore.
            let _ = fs::remove_dir_all(&staging);
            return Err(why);
        }
    };
    let path = place.display().to_string();
    match fs::rename(&staging, &place) {
        Err(why) if why.kind() == io::ErrorKind::DirectoryNotEmpty => {
            let _ = fs::remove_dir_all(&staging);
            Err(BackupError::Taken(path))
        }
        renamed => renamed
            .and_then(|()| fs::File::open(data)?.sync_all())
            .map(|()| restored)
            .map_err(|source| BackupError::Directory { path, source }),
    }
}

/// Keeps other restores out of a data directory, from before anything is written to it until it is
/// whole.
fn claim(data: &Path) -> Result<Option<Locked>, BackupError> {
    let failed = |source| BackupError::Directory { path: data.display().to_string(), source };
    match Locked::take(fs::File::open(data).map_err(failed)?) {
        Ok(locked) => Ok(Some(locked)),
        Err(TryLockError::WouldBlock) => Err(BackupError::Restoring(data.display().to_string())),
        // Some file systems lock no directories; the lock in the one that is written remains.
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

fn write(mut source: impl Source, staging: &Path, now: Timestamp) -> Result<Restored, BackupError> {
    let before = source.fence();
    let mut database = Restoring::create(staging, before.restored(now))?;
    remove_certificate(staging)?;
    match read(&mut source, &mut database, staging, now) {
        Ok(mut restored) => {
            restored.backup = source.summary();
            database.finish()?;
            Ok(restored)
        }
        Err(why) => {
            database.abandon();
            Err(why)
        }
    }
}

/// One that an interrupted restore left.
fn remove_certificate(staging: &Path) -> Result<(), BackupError> {
    let folder = staging.join(TLS_FOLDER);
    match fs::remove_dir_all(&folder) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(BackupError::Directory { path: folder.display().to_string(), source })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn read(
    source: &mut impl Source,
    database: &mut Restoring,
    staging: &Path,
    now: Timestamp,
) -> Result<Restored, BackupError> {
    let mut restored = Restored::default();
    let mut next = source.next()?;
    while let Some(part) = next.take() {
        next = match part {
            Part::File(it) => {
                let path = path(&it, staging);
                put(&it, &path.ok_or_else(|| source.damaged("no broker keeps it".to_owned()))?)?;
                source.next()?
            }
            Part::Workspace(id, state) => {
                if restored.workspaces.contains(&id) {
                    return Err(source.damaged("it is there twice".to_owned()));
                }
                restored.workspaces.push(id.clone());
                workspace(source, database.workspace(id), *state, now, &mut restored)?
            }
            Part::Body(..) => return Err(source.damaged("it belongs to no workspace".to_owned())),
        };
    }
    Ok(restored)
}

/// Writes a workspace and its texts. Returns what comes after them.
fn workspace(
    source: &mut impl Source,
    mut into: RestoringWorkspace<'_>,
    mut state: Workspace,
    now: Timestamp,
    restored: &mut Restored,
) -> Result<Option<Part>, BackupError> {
    let (_, own) = state.restore_above(source.fence().restored(now), now);
    let (tokens, invitations) = state.access.count_open(now);
    restored.tokens += tokens;
    restored.invitations += invitations;
    codec::encode_snapshot(&state, |piece| into.piece(&piece))?;
    let sequence = state.sequence;
    drop(state);
    for (key, body) in own.iter().flat_map(codec::encode_body) {
        into.body(&key, &body)?;
    }
    loop {
        match source.next()? {
            Some(Part::Body(key, body)) => into.body(&key, &body)?,
            other => {
                into.finish(sequence)?;
                return Ok(other);
            }
        }
    }
}

/// Where a file goes: nowhere but into the folder of the certificate.
fn path(file: &BackupFile, staging: &Path) -> Option<PathBuf> {
    let name = file.path.strip_prefix(TLS_FOLDER)?.strip_prefix('/')?;
    let is_plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']);
    is_plain.then(|| staging.join(TLS_FOLDER).join(name))
}

fn put(file: &BackupFile, path: &Path) -> Result<(), BackupError> {
    let failed = |source| BackupError::Directory { path: path.display().to_string(), source };
    files::private_directory(files::directory_of(path)).map_err(failed)?;
    let mut out = files::private(path).map_err(failed)?;
    out.write_all(&file.content).and_then(|()| out.sync_all()).map_err(failed)
}
