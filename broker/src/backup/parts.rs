//! What a restore reads, whatever it is read from: each workspace's state, then its texts.

use std::{
    io::Read,
    panic::{AssertUnwindSafe, catch_unwind},
};

use bytes::Bytes;
use tasuki_proto::{
    id::{Sequence, WorkspaceId},
    stored::{BackupFile, BackupRecord, BackupWorkspace},
};

use super::{
    BackupError, Summary,
    format::{Decoder, Frame},
};
use crate::{
    journal::{
        BodyKey,
        codec::{self, CodecError},
    },
    rules::{Fence, Workspace},
};

/// One thing that was kept.
#[derive(Debug)]
pub(super) enum Part {
    File(BackupFile),
    /// The bodies after it are its.
    Workspace(WorkspaceId, Box<Workspace>),
    Body(BodyKey, Bytes),
}

/// Where parts come from.
pub(super) trait Source {
    /// Of the database that they were in.
    fn fence(&self) -> Fence;

    /// The next; `None` once all was read and found right.
    fn next(&mut self) -> Result<Option<Part>, BackupError>;

    /// What was read last is not what it should be.
    fn damaged(&self, what: String) -> BackupError;

    /// What was read so far.
    fn summary(&self) -> Summary;
}

/// The parts of a backup.
#[derive(Debug)]
pub(super) struct Frames<R> {
    decoder: Decoder<R>,
    fence: Fence,
    summary: Summary,
    has_begun: bool,
}

impl<R: Read> Frames<R> {
    /// Reads what a backup begins with.
    pub(super) fn begin(input: R) -> Result<Self, BackupError> {
        let (decoder, head) = Decoder::begin(input)?;
        let (fence, summary) = (head.fence.into(), Summary::begin(&head));
        Ok(Self { decoder, fence, summary, has_begun: false })
    }

    fn next_if(
        &mut self,
        is_wanted: impl FnOnce(&Frame) -> bool,
    ) -> Result<Option<Frame>, BackupError> {
        let frame = self.decoder.next_if(is_wanted)?;
        frame.iter().for_each(|it| self.summary.count(it));
        Ok(frame)
    }

    /// The state that a snapshot and the records after it make.
    fn state(&mut self, it: &BackupWorkspace) -> Result<Workspace, BackupError> {
        let mut state = match it.snapshot {
            0 => Workspace::begun_above(self.fence),
            _ => self.snapshot()?,
        };
        if state.sequence.get() != it.snapshot {
            return Err(self.damaged(format!("its snapshot is of record {}", state.sequence)));
        }
        while let Some(frame) = self.next_if(|it| matches!(it, Frame::Record(_)))? {
            let Frame::Record(it) = frame else { unreachable!("just seen") };
            self.apply(&mut state, it)?;
        }
        if state.sequence.get() != it.last {
            let what = format!("its records end at {} instead of {}", state.sequence, it.last);
            return Err(self.damaged(what));
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
            Err(SnapshotError::Codec(why)) => Err(self.damaged(why.to_string())),
        }
    }

    fn apply(&self, state: &mut Workspace, it: BackupRecord) -> Result<(), BackupError> {
        let record =
            codec::decode_record(it.record).map_err(|why| self.damaged(why.to_string()))?;
        let (expected, found) = (state.sequence.next(), Sequence::from(it.sequence));
        if found != expected || record.sequence != expected {
            return Err(self.damaged(format!("expected record {expected} here")));
        }
        // The rules assert what their own records never break.
        let applied = catch_unwind(AssertUnwindSafe(|| state.apply(&record)));
        applied.map_err(|_| self.damaged("it does not follow from those before".to_owned()))
    }
}

impl<R: Read> Source for Frames<R> {
    fn fence(&self) -> Fence {
        self.fence
    }

    fn next(&mut self) -> Result<Option<Part>, BackupError> {
        let Some(frame) = self.decoder.next()? else { return Ok(None) };
        self.summary.count(&frame);
        let part = match frame {
            Frame::File(file) => Part::File(file),
            Frame::Workspace(it) => {
                let id = WorkspaceId::of_journal(&it.workspace)
                    .map_err(|why| self.damaged(format!("its name {why}")))?;
                self.has_begun = true;
                Part::Workspace(id, Box::new(self.state(&it)?))
            }
            Frame::Body(it) if self.has_begun => Part::Body(BodyKey(it.key), it.body),
            Frame::Head(_)
            | Frame::Piece(_)
            | Frame::Record(_)
            | Frame::Body(_)
            | Frame::End(_) => {
                return Err(self.damaged("it belongs to no workspace".to_owned()));
            }
        };
        Ok(Some(part))
    }

    fn damaged(&self, what: String) -> BackupError {
        self.decoder.damaged(what)
    }

    fn summary(&self) -> Summary {
        Summary { bytes: self.decoder.bytes(), ..self.summary.clone() }
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
