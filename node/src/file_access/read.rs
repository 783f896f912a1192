//! Reads the text of a file, a part at a time.

use std::{
    fs::File,
    io::{self, Read as _},
};

use sha2::{Digest as _, Sha256};
use tasuki_proto::limits::{FILE_READ_BYTES_MAX, FILE_SCAN_BYTES_MAX};

use super::{FileError, Files, no_file};
use crate::hex::hex;

/// Bytes read at once.
const PIECE_BYTES: usize = 64 * 1024;

/// What is to be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadRequest {
    pub path: String,
    /// The first line, from 1; 0 is 1.
    pub offset: u64,
    /// `None`: as many lines as there is room for.
    pub limit: Option<u64>,
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileText {
    pub content: String,
    /// The number of its first line.
    pub first_line: u64,
    /// The line to go on with; `None`: the file ends here.
    pub next_line: Option<u64>,
    /// The last line has more than fits, and its end is left out.
    pub is_cut: bool,
    /// Of the whole file.
    pub bytes: u64,
    /// The same, in hexadecimal.
    pub sha256: String,
}

impl Files {
    /// Reads lines of a text file.
    ///
    /// # Errors
    /// When it is none, is not there, or may not be read.
    pub fn read(&self, request: &ReadRequest) -> Result<FileText, FileError> {
        let names = self.names(&request.path)?;
        let path = names.join("/");
        let (dir, name) = self.parent(&names, None)?;
        let (file, about) = dir.open_own_file(name).map_err(|why| no_file(&path, why))?;
        if self.is_private(&about) {
            return Err(FileError::Private(path));
        }
        let failed = |why| FileError::Io { path: path.clone(), why };
        let part = Part::read(file, request).map_err(failed)?;
        if FILE_SCAN_BYTES_MAX < part.bytes {
            let (bytes, bytes_max) = (part.bytes.max(about.len()), FILE_SCAN_BYTES_MAX);
            return Err(FileError::TooLarge { path, bytes, bytes_max });
        }
        part.text(&path)
    }
}

/// What is taken of a file while all of it goes by.
#[derive(Default)]
struct Part {
    /// Of the lines that are wanted, one byte more than fits at most.
    taken: Vec<u8>,
    /// The first line that is wanted, and the first after it that is not.
    first: u64,
    end: u64,
    /// The last line that has a byte.
    last: u64,
    bytes: u64,
    sha256: String,
}

impl Part {
    fn read(file: File, request: &ReadRequest) -> io::Result<Self> {
        let first = request.offset.max(1);
        let end = request.limit.map_or(u64::MAX, |it| first.saturating_add(it));
        let mut it = Self { first, end, ..Self::default() };
        let mut hasher = Sha256::new();
        let mut piece = vec![0; PIECE_BYTES];
        let mut line = 1;
        // It may grow meanwhile.
        let mut file = file.take(FILE_SCAN_BYTES_MAX + 1);
        loop {
            let count = file.read(&mut piece)?;
            if count == 0 {
                break;
            }
            hasher.update(&piece[..count]);
            it.bytes += count as u64;
            for part in piece[..count].split_inclusive(|byte| *byte == b'\n') {
                it.last = line;
                if (first..end).contains(&line) {
                    let room = FILE_READ_BYTES_MAX + 1 - it.taken.len();
                    it.taken.extend_from_slice(&part[..part.len().min(room)]);
                }
                line += u64::from(part.ends_with(b"\n"));
            }
        }
        it.sha256 = hex(&hasher.finalize());
        Ok(it)
    }

    /// What fits of it: whole lines, or the beginning of one that does not fit alone.
    fn text(mut self, path: &str) -> Result<FileText, FileError> {
        let after = |line: u64| (line <= self.last).then_some(line);
        let (mut next_line, mut is_cut) = (after(self.end), false);
        if FILE_READ_BYTES_MAX < self.taken.len() {
            self.taken.truncate(FILE_READ_BYTES_MAX);
            let lines = self.taken.iter().filter(|byte| **byte == b'\n').count() as u64;
            is_cut = lines == 0;
            next_line = after(self.first + lines.max(1));
            let whole = match self.taken.iter().rposition(|byte| *byte == b'\n') {
                Some(at) => at + 1,
                None => self.taken.len() - cut_letter(&self.taken),
            };
            self.taken.truncate(whole);
        }
        let strange = |why: &str| FileError::Strange { path: path.to_owned(), why: why.to_owned() };
        let content = String::from_utf8(self.taken);
        let content = content.map_err(|_| strange("is no text (UTF-8), so it is not shown"))?;
        if content.contains('\0') {
            return Err(strange("has zero bytes, so it is no text and not shown"));
        }
        let Self { first: first_line, bytes, sha256, .. } = self;
        Ok(FileText { content, first_line, next_line, is_cut, bytes, sha256 })
    }
}

/// The bytes of a letter at the end that is not whole.
fn cut_letter(bytes: &[u8]) -> usize {
    match str::from_utf8(bytes) {
        Err(why) if why.error_len().is_none() => bytes.len() - why.valid_up_to(),
        Ok(_) | Err(_) => 0,
    }
}
