//! A cut of the journal, frame by frame; and a file of it, read through.

use std::{fs, io, io::Read, path::Path};

use bytes::Bytes;
use tasuki_proto::{
    id::Timestamp,
    stored::{BackupBody, BackupFile, BackupHead, BackupRecord, BackupWorkspace},
};

use super::{
    BackupError, Summary, TLS_FOLDER,
    format::{Decoder, Encoder, Frame},
};
use crate::journal::{
    JournalError,
    sled::{Cut, CutWorkspace},
};

/// Records read at once.
const READ_RECORDS: usize = 256;

/// Writes all of a cut. `directory` is the broker's part of the data directory, `put` gets the bytes
/// in order.
///
/// # Errors
/// When something cannot be read; or of `put`.
pub fn write(
    cut: &Cut,
    directory: &Path,
    made: Timestamp,
    put: impl FnMut(Vec<u8>) -> io::Result<()>,
) -> Result<(), BackupError> {
    let mut out = Out { encoder: Encoder::default(), put };
    let head = BackupHead {
        incarnation: cut.incarnation().to_vec().into(),
        made_ms: made.as_millis(),
        commit: cut.commit(),
        software: env!("CARGO_PKG_VERSION").to_owned(),
        fence: cut.fence().get(),
    };
    let begin = out.encoder.begin(head);
    (out.put)(begin).map_err(BackupError::Write)?;
    for file in certificate(directory)? {
        out.frame(&Frame::File(file))?;
    }
    for workspace in cut.workspaces() {
        out.workspace(cut, &workspace)?;
    }
    let Out { encoder, mut put } = out;
    put(encoder.end()).map_err(BackupError::Write)
}

struct Out<P> {
    encoder: Encoder,
    put: P,
}

impl<P: FnMut(Vec<u8>) -> io::Result<()>> Out<P> {
    fn frame(&mut self, frame: &Frame) -> Result<(), BackupError> {
        let bytes = self.encoder.frame(frame);
        (self.put)(bytes).map_err(BackupError::Write)
    }

    fn workspace(&mut self, cut: &Cut, it: &CutWorkspace) -> Result<(), BackupError> {
        let CutWorkspace { id, snapshot, last, .. } = it;
        self.frame(&Frame::Workspace(BackupWorkspace {
            workspace: id.as_str().to_owned(),
            snapshot: snapshot.get(),
            last: last.get(),
        }))?;
        for piece in cut.snapshot(id).into_iter().flat_map(|it| it.pieces) {
            self.frame(&Frame::Piece(piece?))?;
        }
        let mut next = snapshot.next();
        while next <= *last {
            let records = cut.read(id, next, READ_RECORDS)?;
            if records.is_empty() {
                let what = "it is missing".to_owned();
                let place = format!("{id}, record {next}");
                return Err(JournalError::Damaged { place, what }.into());
            }
            for stored in records {
                next = stored.sequence.next();
                let (sequence, record) = (stored.sequence.get(), stored.record);
                self.frame(&Frame::Record(BackupRecord { sequence, record }))?;
            }
        }
        let mut after = None;
        loop {
            let bodies = cut.bodies(id, after.as_ref())?;
            let Some((last, _)) = bodies.last() else { return Ok(()) };
            after = Some(last.clone());
            for (key, body) in bodies {
                self.frame(&Frame::Body(BackupBody { key: key.0, body }))?;
            }
        }
    }
}

/// The certificate of the broker's own making and its key: nodes know its fingerprint.
fn certificate(directory: &Path) -> Result<Vec<BackupFile>, BackupError> {
    let folder = directory.join(TLS_FOLDER);
    let failed = |source| BackupError::Directory { path: folder.display().to_string(), source };
    let entries = match folder.read_dir() {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if entry.file_type().map_err(failed)?.is_file() {
            let content = Bytes::from(fs::read(entry.path()).map_err(failed)?);
            files.push(BackupFile { path: format!("{TLS_FOLDER}/{name}"), content });
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

/// Reads a backup through and says what is in it.
///
/// # Errors
/// Where it is cut off or damaged.
pub fn check(input: impl Read) -> Result<Summary, BackupError> {
    let (mut decoder, head) = Decoder::begin(input)?;
    let mut summary = Summary::begin(&head);
    while let Some(frame) = decoder.next()? {
        summary.count(&frame);
    }
    summary.bytes = decoder.bytes();
    Ok(summary)
}

impl Summary {
    pub(super) fn begin(head: &BackupHead) -> Self {
        Self {
            made: Timestamp::from_millis(head.made_ms),
            commit: head.commit,
            incarnation: head.incarnation[..].try_into().unwrap_or_default(),
            ..Self::default()
        }
    }

    pub(super) fn count(&mut self, frame: &Frame) {
        match frame {
            Frame::Workspace(_) => self.workspaces += 1,
            Frame::Record(_) => self.records += 1,
            Frame::Body(_) => self.bodies += 1,
            Frame::Head(_) | Frame::File(_) | Frame::Piece(_) | Frame::End(_) => {}
        }
    }
}
