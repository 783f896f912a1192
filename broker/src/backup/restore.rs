//! A backup's file to a new data directory.
//!
//! It is written beside its place, under a name that no broker serves, and gets its own once
//! everything is written, was checked as a start checks it, and is on the disk. Whatever fails
//! before leaves nothing that could be taken for a broker's data. One restore writes to a directory
//! at a time, and removes nothing that another wrote.

use std::{
    fs::{self, TryLockError},
    io::{self, Read, Write as _},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use tasuki_proto::{
    host::{
        config,
        files::{self, Locked},
    },
    id::{Sequence, Timestamp, WorkspaceId},
    stored::{BackupFile, BackupRecord, BackupWorkspace},
};

use super::{
    BackupError, Restored, Summary, TLS_FOLDER,
    format::{Decoder, Frame},
};
use crate::{
    journal::{
        BodyKey, JournalError,
        codec::{self, CodecError},
        sled::{self, Restoring},
    },
    rules::{Fence, Workspace},
};

/// What a directory is called while it is restored, in the data directory.
pub const STAGING: &str = "broker.restoring";

/// Restores into a data directory in which no broker ever kept anything. `now` is after everything
/// that was granted by the broker that the backup is of; `progress` gets how many bytes were read.
///
/// # Errors
/// Where the backup is cut off or damaged, or what cannot be written. Then there is no broker's
/// data in the directory.
pub fn restore(
    input: impl Read,
    data: &Path,
    now: Timestamp,
    progress: impl FnMut(u64),
) -> Result<Restored, BackupError> {
    let (staging, place) = (data.join(STAGING), data.join(config::FOLDER));
    let _lock = claim(data)?;
    let restored = write(input, &staging, now, progress)
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

fn write(
    input: impl Read,
    staging: &Path,
    now: Timestamp,
    mut progress: impl FnMut(u64),
) -> Result<Restored, BackupError> {
    let (decoder, head) = Decoder::begin(input)?;
    let before = Fence::from(head.fence);
    let fence = before.restored(now);
    let database = Restoring::create(staging, fence)?;
    remove_certificate(staging)?;
    let restored = Restored { backup: Summary::begin(&head), ..Restored::default() };
    let mut it = Restore { decoder, database, staging, before, fence, now, restored };
    let read = it.read(&mut progress);
    let Restore { decoder, database, mut restored, .. } = it;
    if let Err(why) = read {
        database.abandon();
        return Err(why);
    }
    restored.backup.bytes = decoder.bytes();
    database.finish()?;
    Ok(restored)
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

struct Restore<'a, R> {
    decoder: Decoder<R>,
    database: Restoring,
    staging: &'a Path,
    /// Of the database that the backup is of.
    before: Fence,
    fence: Fence,
    now: Timestamp,
    restored: Restored,
}

impl<R: Read> Restore<'_, R> {
    fn read(&mut self, progress: &mut impl FnMut(u64)) -> Result<(), BackupError> {
        while let Some(frame) = self.decoder.next()? {
            self.restored.backup.count(&frame);
            match frame {
                Frame::File(file) => self.file(&file)?,
                Frame::Workspace(workspace) => self.workspace(&workspace, progress)?,
                Frame::Head(_)
                | Frame::Piece(_)
                | Frame::Record(_)
                | Frame::Body(_)
                | Frame::End(_) => return Err(self.decoder.damaged("it belongs to no workspace")),
            }
            progress(self.decoder.bytes());
        }
        Ok(())
    }

    fn file(&self, file: &BackupFile) -> Result<(), BackupError> {
        let path = self.path(file).ok_or_else(|| self.decoder.damaged("no broker keeps it"))?;
        let failed = |source| BackupError::Directory { path: path.display().to_string(), source };
        files::private_directory(&self.staging.join(TLS_FOLDER)).map_err(failed)?;
        let mut out = files::private(&path).map_err(failed)?;
        out.write_all(&file.content).and_then(|()| out.sync_all()).map_err(failed)
    }

    /// Where a file goes: nowhere but into the folder of the certificate.
    fn path(&self, file: &BackupFile) -> Option<PathBuf> {
        let name = file.path.strip_prefix(TLS_FOLDER)?.strip_prefix('/')?;
        let is_plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']);
        is_plain.then(|| self.staging.join(TLS_FOLDER).join(name))
    }

    fn workspace(
        &mut self,
        it: &BackupWorkspace,
        progress: &mut impl FnMut(u64),
    ) -> Result<(), BackupError> {
        let id = WorkspaceId::of_journal(&it.workspace)
            .map_err(|why| self.decoder.damaged(format!("its name {why}")))?;
        if self.restored.workspaces.contains(&id) {
            return Err(self.decoder.damaged("it is there twice"));
        }
        let mut state = self.state(it, progress)?;
        let (_, own) = state.restore_above(self.fence, self.now);
        let (tokens, invitations) = state.access.count_open(self.now);
        self.restored.tokens += tokens;
        self.restored.invitations += invitations;
        let mut into = self.database.workspace(id.clone());
        codec::encode_snapshot(&state, |piece| into.piece(&piece))?;
        let sequence = state.sequence;
        drop(state);
        for (key, body) in own.iter().flat_map(codec::encode_body) {
            into.body(&key, &body)?;
        }
        while let Some(frame) = self.decoder.next_if(|it| matches!(it, Frame::Body(_)))? {
            self.restored.backup.count(&frame);
            let Frame::Body(it) = frame else { unreachable!("just seen") };
            into.body(&BodyKey(it.key), &it.body)?;
            progress(self.decoder.bytes());
        }
        into.finish(sequence)?;
        self.restored.workspaces.push(id);
        Ok(())
    }

    /// The state that a snapshot and the records after it make.
    fn state(
        &mut self,
        it: &BackupWorkspace,
        progress: &mut impl FnMut(u64),
    ) -> Result<Workspace, BackupError> {
        let mut state = match it.snapshot {
            0 => Workspace::begun_above(self.before),
            _ => self.snapshot()?,
        };
        if state.sequence.get() != it.snapshot {
            let what = format!("its snapshot is of record {}", state.sequence);
            return Err(self.decoder.damaged(what));
        }
        while let Some(frame) = self.decoder.next_if(|it| matches!(it, Frame::Record(_)))? {
            self.restored.backup.count(&frame);
            let Frame::Record(it) = frame else { unreachable!("just seen") };
            self.apply(&mut state, it)?;
            progress(self.decoder.bytes());
        }
        if state.sequence.get() != it.last {
            let what = format!("its records end at {} instead of {}", state.sequence, it.last);
            return Err(self.decoder.damaged(what));
        }
        Ok(state)
    }

    fn snapshot(&mut self) -> Result<Workspace, BackupError> {
        let decoder = &mut self.decoder;
        let pieces =
            std::iter::from_fn(|| match decoder.next_if(|it| matches!(it, Frame::Piece(_))) {
                Ok(Some(Frame::Piece(piece))) => Some(Ok(piece)),
                Ok(_) => None,
                Err(why) => Some(Err(SnapshotError::Backup(why))),
            });
        match codec::decode_snapshot(pieces) {
            Ok(state) => Ok(state),
            Err(SnapshotError::Backup(why)) => Err(why),
            Err(SnapshotError::Codec(why)) => Err(self.decoder.damaged(why.to_string())),
        }
    }

    fn apply(&self, state: &mut Workspace, it: BackupRecord) -> Result<(), BackupError> {
        let damaged = |what: String| self.decoder.damaged(what);
        let record = codec::decode_record(it.record).map_err(|why| damaged(why.to_string()))?;
        let (expected, found) = (state.sequence.next(), Sequence::from(it.sequence));
        if found != expected || record.sequence != expected {
            return Err(damaged(format!("expected record {expected} here")));
        }
        // The rules assert what their own records never break.
        let applied = catch_unwind(AssertUnwindSafe(|| state.apply(&record)));
        applied.map_err(|_| damaged("it does not follow from those before".to_owned()))
    }
}

/// Why a snapshot is none.
enum SnapshotError {
    Backup(BackupError),
    Codec(CodecError),
}

impl From<CodecError> for SnapshotError {
    fn from(why: CodecError) -> Self {
        Self::Codec(why)
    }
}
