//! The file: a head, frames, and an end that has the hash of all before.
//!
//! ```text
//! "tasuki backup\n" format(4)
//! kind(1) length(4) checksum(4) payload      a frame; the checksum is CRC-32C of the rest of it
//! ```
//!
//! Numbers are big-endian. Payloads are messages of `tasuki/journal/v1/journal.proto`, but for a
//! piece of a snapshot, which is itself. The first frame is the head; each workspace is followed by
//! the pieces of its snapshot, its records and its bodies; the last frame is the end, and nothing
//! comes after it.

use std::io::{self, Read};

use bytes::Bytes;
use prost::Message;
use tasuki_proto::stored::{
    BackupBody, BackupEnd, BackupFile, BackupHead, BackupRecord, BackupWorkspace,
};

use super::{BackupError, Place};

/// The format this release writes and the newest it reads.
pub(super) const FORMAT: u32 = 1;

const MAGIC: &[u8] = b"tasuki backup\n";

/// Kind, length and checksum.
const FRAME_HEADER_BYTES: usize = 9;

/// The longest payload, in bytes: far above a body, which comes in one message. What is announced
/// is set aside, so it may not be announced larger.
const PAYLOAD_BYTES_MAX: u32 = 64 * 1024 * 1024;

/// One frame.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Frame {
    Head(BackupHead),
    File(BackupFile),
    Workspace(BackupWorkspace),
    Piece(Bytes),
    Record(BackupRecord),
    Body(BackupBody),
    End(BackupEnd),
}

impl Frame {
    fn kind(&self) -> u8 {
        match self {
            Self::Head(_) => 1,
            Self::File(_) => 2,
            Self::Workspace(_) => 3,
            Self::Piece(_) => 4,
            Self::Record(_) => 5,
            Self::Body(_) => 6,
            Self::End(_) => 7,
        }
    }

    fn payload(&self) -> Bytes {
        match self {
            Self::Head(it) => it.encode_to_vec().into(),
            Self::File(it) => it.encode_to_vec().into(),
            Self::Workspace(it) => it.encode_to_vec().into(),
            Self::Piece(it) => it.clone(),
            Self::Record(it) => it.encode_to_vec().into(),
            Self::Body(it) => it.encode_to_vec().into(),
            Self::End(it) => it.encode_to_vec().into(),
        }
    }

    /// A kind that this release does not know is an error: nothing is passed over.
    fn decode(kind: u8, payload: Bytes) -> Result<Self, String> {
        fn message<T: Message + Default>(payload: Bytes) -> Result<T, String> {
            let length = payload.len();
            let it = T::decode(payload).map_err(|error| error.to_string())?;
            let is_known = it.encoded_len() == length;
            let unknown = "it holds a field that this release does not know";
            if is_known { Ok(it) } else { Err(unknown.to_owned()) }
        }
        Ok(match kind {
            1 => Self::Head(message(payload)?),
            2 => Self::File(message(payload)?),
            3 => Self::Workspace(message(payload)?),
            4 => Self::Piece(payload),
            5 => Self::Record(message(payload)?),
            6 => Self::Body(message(payload)?),
            7 => Self::End(message(payload)?),
            other => return Err(format!("this release knows no part of kind {other}")),
        })
    }

    /// What people call it.
    fn name(&self) -> String {
        match self {
            Self::Head(_) => "the head".to_owned(),
            Self::File(it) => format!("file {}", it.path),
            Self::Workspace(_) => "the beginning".to_owned(),
            Self::Piece(_) => "the snapshot".to_owned(),
            Self::Record(it) => format!("record {}", it.sequence),
            Self::Body(it) => format!("body {:?}", it.key),
            Self::End(_) => "the end".to_owned(),
        }
    }
}

/// Writes frames.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    hasher: blake3::Hasher,
    frames: u64,
}

impl Encoder {
    /// What a file begins with.
    pub(super) fn begin(&mut self, head: BackupHead) -> Vec<u8> {
        let magic = [MAGIC, &FORMAT.to_be_bytes()].concat();
        self.hasher.update(&magic);
        [magic, self.frame(&Frame::Head(head))].concat()
    }

    pub(super) fn frame(&mut self, frame: &Frame) -> Vec<u8> {
        let payload = frame.payload();
        let length = u32::try_from(payload.len()).expect("a body is far below 4 GiB").to_be_bytes();
        let start = [&[frame.kind()], &length[..]].concat();
        let bytes = [&start, &checksum(&start, &payload).to_be_bytes()[..], &payload].concat();
        self.hasher.update(&bytes);
        self.frames += 1;
        bytes
    }

    /// What it ends with.
    pub(super) fn end(mut self) -> Vec<u8> {
        let hash = self.hasher.finalize().as_bytes().to_vec().into();
        let end = BackupEnd { frames: self.frames, hash };
        self.frame(&Frame::End(end))
    }
}

fn checksum(start: &[u8], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(start), payload)
}

/// Reads frames, and checks them.
#[derive(Debug)]
pub(super) struct Decoder<R> {
    input: R,
    hasher: blake3::Hasher,
    frames: u64,
    at: u64,
    place: Place,
    peeked: Option<Frame>,
    is_over: bool,
}

impl<R: Read> Decoder<R> {
    /// Reads what a file begins with.
    pub(super) fn begin(input: R) -> Result<(Self, BackupHead), BackupError> {
        let place = Place { workspace: None, what: "the head".to_owned() };
        let hasher = blake3::Hasher::new();
        let mut it = Self { input, hasher, frames: 0, at: 0, place, peeked: None, is_over: false };
        let magic = it.take(MAGIC.len());
        if matches!(magic, Err(BackupError::CutOff { .. })) || magic? != MAGIC {
            return Err(BackupError::NotOne);
        }
        let format = it.take(4)?;
        let format = u32::from_be_bytes(format.try_into().unwrap_or_default());
        if FORMAT < format {
            return Err(BackupError::Newer(format));
        }
        match it.next()? {
            Some(Frame::Head(head)) if format == FORMAT => Ok((it, head)),
            _ => Err(it.damaged("it has no head")),
        }
    }

    /// The next frame; `None` once the end was read and found right.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, BackupError> {
        if let Some(frame) = self.peeked.take() {
            return Ok(Some(frame));
        }
        if self.is_over {
            return Ok(None);
        }
        let before = self.hasher.finalize();
        let header = self.take(FRAME_HEADER_BYTES)?;
        let (start, expected) = header.split_at(FRAME_HEADER_BYTES - 4);
        let (kind, length) = start.split_at(1);
        let length = u32::from_be_bytes(length.try_into().unwrap_or_default());
        if PAYLOAD_BYTES_MAX < length {
            return Err(self.damaged(format!("a part of {length} bytes is announced")));
        }
        let payload = Bytes::from(self.take(length as usize)?);
        let found = checksum(start, &payload);
        let expected = u32::from_be_bytes(expected.try_into().unwrap_or_default());
        if found != expected {
            let what =
                format!("expected checksum {expected:08x} in what follows, found {found:08x}");
            return Err(self.damaged(what));
        }
        let frame = Frame::decode(kind[0], payload).map_err(|why| self.damaged(why))?;
        self.place.what = frame.name();
        if let Frame::Workspace(it) = &frame {
            self.place.workspace = Some(it.workspace.clone());
        }
        if let Frame::End(end) = &frame {
            return self.check_end(end, before);
        }
        self.frames += 1;
        Ok(Some(frame))
    }

    /// The next frame if `is_wanted`, else it stays the next.
    pub(super) fn next_if(
        &mut self,
        is_wanted: impl FnOnce(&Frame) -> bool,
    ) -> Result<Option<Frame>, BackupError> {
        let frame = self.next()?;
        if frame.as_ref().is_some_and(is_wanted) {
            return Ok(frame);
        }
        self.peeked = frame;
        Ok(None)
    }

    fn check_end(
        &mut self,
        end: &BackupEnd,
        hash: blake3::Hash,
    ) -> Result<Option<Frame>, BackupError> {
        self.place = Place { workspace: None, what: "the end".to_owned() };
        if end.frames != self.frames || end.hash[..] != *hash.as_bytes() {
            let what = format!(
                "expected {} parts with another hash, found {} parts",
                end.frames, self.frames
            );
            return Err(self.damaged(what));
        }
        let mut more = [0];
        match self.input.read(&mut more) {
            Ok(0) => {}
            Ok(_) => return Err(self.damaged("something comes after it")),
            Err(error) => return Err(BackupError::Read(error)),
        }
        self.is_over = true;
        Ok(None)
    }

    /// How many bytes were read.
    pub(super) fn bytes(&self) -> u64 {
        self.at
    }

    /// What was read last is not what it should be.
    pub(super) fn damaged(&self, what: impl Into<String>) -> BackupError {
        BackupError::Damaged { at: self.at, place: self.place.clone(), what: what.into() }
    }

    fn take(&mut self, bytes: usize) -> Result<Vec<u8>, BackupError> {
        let mut taken = Vec::new();
        let read = self.input.by_ref().take(bytes as u64).read_to_end(&mut taken);
        read.map_err(|error: io::Error| BackupError::Read(error))?;
        self.at += taken.len() as u64;
        if taken.len() < bytes {
            let missing =
                Place { workspace: None, what: format!("the end (after {})", self.place) };
            return Err(BackupError::CutOff { at: self.at, missing });
        }
        self.hasher.update(&taken);
        Ok(taken)
    }
}

#[cfg(test)]
mod tests;
