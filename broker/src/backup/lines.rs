//! An export: what a broker keeps, to be read, moved and worked on, one JSON object on each line.
//!
//! ```text
//! {"format":"tasuki-export","version":1,"software":…,"made":…,"fence":…}
//! {"workspace":{"name":…,"sequence":…,"time":…}}        for each workspace
//! {"state":{"workspace":…,"item":{"mail":{…}}}}         all of its state, item by item
//! {"text":{"workspace":…,"text":{"mail":{…}}}}          all that was said in it, and files
//! {"end":{"lines":…,"hash":…}}                          of all lines before
//! ```
//!
//! Items are those of a snapshot and texts those beside it, in the same order, under the names that
//! they have in the rules. What is null is left out. Ids are as people see them, times are RFC 3339,
//! hashes are hexadecimal, and bytes are text, or base64 where they are none.
//!
//! **Invariants**
//! - A file counts whole or not at all, as a backup does.
//! - Each line is written again as it was read, or it is refused: nothing is passed over.
//!
//! Not in it: answers that are kept for repeated calls, which name what was granted; the
//! certificate and its key. Tokens are hashes.

use std::{
    collections::VecDeque,
    io::{self, BufRead, Read},
    panic::{AssertUnwindSafe, catch_unwind},
};

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use tasuki_proto::id::{Sequence, Timestamp, WorkspaceId};

use super::{
    BackupError, Summary,
    parts::{Frames, Part, Source},
};
use crate::{
    journal::{BodyKey, codec},
    rules::{Body, Fence, SnapshotItem, Workspace},
};

/// What says that a file is an export.
const FORMAT: &str = "tasuki-export";

/// The version this release writes and the newest it reads.
pub(super) const VERSION: u64 = 1;

/// The longest line, in bytes: an attached file of which each byte is escaped.
const LINE_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// The first line, as far as every version has it.
#[derive(Deserialize)]
struct Format {
    format: String,
    version: u64,
}

#[derive(Serialize, Deserialize)]
struct Head {
    format: String,
    version: u64,
    software: String,
    made: Timestamp,
    fence: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line<'a> {
    Workspace { name: String, sequence: Sequence, time: Timestamp },
    State { workspace: String, item: Box<SnapshotItem<'a>> },
    Text { workspace: String, text: Box<Body> },
    End { lines: u64, hash: String },
}

/// What an export holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exported {
    /// Of what it was made from.
    pub backup: Summary,
    pub lines: u64,
    /// Of the lines.
    pub bytes: u64,
}

/// Writes what is in a backup as lines; of one workspace, if it is named.
///
/// # Errors
/// Where the backup is cut off or damaged; or of `put`.
pub fn export(
    backup: impl Read,
    workspace: Option<&WorkspaceId>,
    put: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<Exported, BackupError> {
    let mut source = Frames::begin(backup)?;
    let mut out = Out { put, hasher: blake3::Hasher::new(), lines: 0, bytes: 0 };
    let head = Head {
        format: FORMAT.to_owned(),
        version: VERSION,
        software: env!("CARGO_PKG_VERSION").to_owned(),
        made: source.summary().made,
        fence: source.fence().get(),
    };
    out.line(&head)?;
    let (mut name, mut is_wanted, mut was_found) = (String::new(), false, false);
    let mut letter = None;
    while let Some(part) = source.next()? {
        match part {
            Part::Workspace(id, mut state) => {
                is_wanted = workspace.is_none_or(|it| *it == id);
                was_found |= is_wanted;
                name = id.as_str().to_owned();
                if is_wanted {
                    state.forget_answers();
                    out.state(&name, &state)?;
                }
            }
            Part::Body(key, body) if is_wanted => {
                let read = match letter.take() {
                    Some(letter) => codec::with_text(letter, &key, &body)
                        .map(|letter| (letter, codec::MailText::Here)),
                    None => codec::decode_body(&key, &body),
                };
                match read.map_err(|why| source.damaged(why.to_string()))? {
                    (text, codec::MailText::Here) => {
                        out.line(&Line::Text { workspace: name.clone(), text: Box::new(text) })?;
                    }
                    // Its text comes next.
                    (it, codec::MailText::Apart) => letter = Some(it),
                }
            }
            Part::Body(..) | Part::File(_) => {}
        }
    }
    match (workspace, letter) {
        (Some(it), _) if !was_found => Err(BackupError::NoWorkspace(it.clone())),
        (_, Some(_)) => Err(source.damaged("the text of a letter is missing".to_owned())),
        _ => out.end(source.summary()),
    }
}

/// Writes lines.
struct Out<P> {
    put: P,
    hasher: blake3::Hasher,
    lines: u64,
    bytes: u64,
}

impl<P: FnMut(&[u8]) -> io::Result<()>> Out<P> {
    fn state(&mut self, name: &str, state: &Workspace) -> Result<(), BackupError> {
        let workspace = name.to_owned();
        let (sequence, time) = (state.sequence, state.time);
        self.line(&Line::Workspace { name: workspace, sequence, time })?;
        state.items().try_for_each(|item| {
            self.line(&Line::State { workspace: name.to_owned(), item: Box::new(item) })
        })
    }

    fn line(&mut self, line: &impl Serialize) -> Result<(), BackupError> {
        let mut text = written(line).map_err(|why| BackupError::Write(why.into()))?.to_string();
        text.push('\n');
        self.hasher.update(text.as_bytes());
        self.lines += 1;
        self.bytes += text.len() as u64;
        (self.put)(text.as_bytes()).map_err(BackupError::Write)
    }

    fn end(mut self, backup: Summary) -> Result<Exported, BackupError> {
        let hash = self.hasher.finalize().to_hex().to_string();
        self.line(&Line::End { lines: self.lines, hash })?;
        Ok(Exported { backup, lines: self.lines, bytes: self.bytes })
    }
}

/// As it is written: without what is null.
pub(crate) fn written(line: &impl Serialize) -> serde_json::Result<Value> {
    let mut value = serde_json::to_value(line)?;
    strip(&mut value);
    Ok(value)
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, it| !it.is_null());
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The parts of an export.
#[derive(Debug)]
pub(super) struct Lines<R> {
    input: R,
    hasher: blake3::Hasher,
    fence: Fence,
    summary: Summary,
    /// The workspace that is wanted, or all.
    only: Option<WorkspaceId>,
    /// Lines read so far.
    number: u64,
    /// Read and not yet taken.
    peeked: Option<Line<'static>>,
    /// The end was read.
    is_over: bool,
    /// Of the texts, whose lines may be several bodies.
    bodies: VecDeque<(BodyKey, Bytes)>,
    /// The workspace that the lines are of; and whether it is wanted.
    current: Option<(String, bool)>,
}

impl<R: BufRead> Lines<R> {
    /// Reads what an export begins with. `only`: the workspace that is wanted.
    pub(super) fn begin(input: R, only: Option<WorkspaceId>) -> Result<Self, BackupError> {
        let mut it = Self {
            input,
            hasher: blake3::Hasher::new(),
            fence: Fence::default(),
            summary: Summary::default(),
            only,
            number: 0,
            peeked: None,
            is_over: false,
            bodies: VecDeque::new(),
            current: None,
        };
        let text = it.read().map_err(|why| {
            if matches!(why, BackupError::Read(_)) { why } else { BackupError::NotExport }
        })?;
        match serde_json::from_slice(&text) {
            Ok(Format { format, version }) if format == FORMAT => {
                if version != VERSION {
                    return Err(BackupError::NewerExport(version));
                }
            }
            _ => return Err(BackupError::NotExport),
        }
        let head: Head = it.parse(&text)?;
        it.fence = head.fence.into();
        it.summary.made = head.made;
        Ok(it)
    }

    /// The next line; `None` once the end was read and found right.
    fn line(&mut self) -> Result<Option<Line<'static>>, BackupError> {
        if let Some(line) = self.peeked.take() {
            return Ok(Some(line));
        }
        if self.is_over {
            return Ok(None);
        }
        let before = self.hasher.finalize();
        let text = self.read()?;
        let line = self.parse(&text)?;
        if let Line::End { lines, hash } = &line {
            if *lines != self.number - 1 || *hash != before.to_hex().as_str() {
                let what = format!("expected {lines} lines with another hash before it");
                return Err(self.damaged(what));
            }
            self.is_over = true;
            return match self.input.fill_buf() {
                Ok([]) => Ok(None),
                Ok(_) => Err(self.damaged("something comes after it".to_owned())),
                Err(why) => Err(BackupError::Read(why)),
            };
        }
        Ok(Some(line))
    }

    fn read(&mut self) -> Result<Vec<u8>, BackupError> {
        let mut text = Vec::new();
        let mut input = self.input.by_ref().take(LINE_BYTES_MAX);
        input.read_until(b'\n', &mut text).map_err(BackupError::Read)?;
        self.number += 1;
        self.summary.bytes += text.len() as u64;
        self.hasher.update(&text);
        match text.pop() {
            Some(b'\n') => Ok(text),
            Some(_) if LINE_BYTES_MAX <= text.len() as u64 + 1 => {
                Err(self.damaged(format!("it is longer than {LINE_BYTES_MAX} bytes")))
            }
            _ => Err(BackupError::ExportCutOff(self.number)),
        }
    }

    fn parse<T: Serialize + DeserializeOwned>(&self, text: &[u8]) -> Result<T, BackupError> {
        let damaged = |why: serde_json::Error| self.damaged(why.to_string());
        let value: Value = serde_json::from_slice(text).map_err(damaged)?;
        let line = T::deserialize(&value).map_err(damaged)?;
        if written(&line).map_err(damaged)? != value {
            let what = "it holds something that this release does not know or writes otherwise";
            return Err(self.damaged(what.to_owned()));
        }
        Ok(line)
    }

    /// The state that the next items make.
    fn state(&mut self, sequence: Sequence, time: Timestamp) -> Result<Workspace, BackupError> {
        let mut state = Workspace { sequence, time, ..Workspace::default() };
        loop {
            match self.line()? {
                Some(Line::State { workspace, item }) if self.is_current(&workspace) => {
                    self.sound(|| state.restore(*item))?;
                }
                other => {
                    self.peeked = other;
                    self.sound(|| state.settle())?;
                    return Ok(state);
                }
            }
        }
    }

    /// Does what the rules do with what they wrote themselves, and assert it.
    fn sound(&self, restore: impl FnOnce() -> Result<(), &'static str>) -> Result<(), BackupError> {
        let restored = catch_unwind(AssertUnwindSafe(restore)).unwrap_or(Err("it"));
        restored.map_err(|what| self.damaged(format!("{what} does not fit the lines before")))
    }

    fn is_current(&self, workspace: &str) -> bool {
        self.current.as_ref().is_some_and(|(current, _)| current == workspace)
    }
}

impl<R: BufRead> Source for Lines<R> {
    fn fence(&self) -> Fence {
        self.fence
    }

    fn next(&mut self) -> Result<Option<Part>, BackupError> {
        loop {
            if let Some((key, body)) = self.bodies.pop_front() {
                return Ok(Some(Part::Body(key, body)));
            }
            match self.line()? {
                Some(Line::Workspace { name, sequence, time }) => {
                    let id = WorkspaceId::of_journal(&name)
                        .map_err(|why| self.damaged(format!("its name {why}")))?;
                    let is_wanted = self.only.as_ref().is_none_or(|it| *it == id);
                    self.current = Some((name, is_wanted));
                    let state = self.state(sequence, time)?;
                    if is_wanted {
                        self.summary.workspaces += 1;
                        return Ok(Some(Part::Workspace(id, Box::new(state))));
                    }
                }
                Some(Line::Text { workspace, text }) if self.is_current(&workspace) => {
                    if self.current.as_ref().is_some_and(|(_, is_wanted)| *is_wanted) {
                        self.bodies.extend(codec::encode_body(&text));
                        self.summary.bodies += self.bodies.len() as u64;
                    }
                }
                Some(_) => return Err(self.damaged("it does not belong here".to_owned())),
                None => {
                    return match &self.only {
                        Some(it) if self.summary.workspaces == 0 => {
                            Err(BackupError::NoWorkspace(it.clone()))
                        }
                        _ => Ok(None),
                    };
                }
            }
        }
    }

    fn damaged(&self, what: String) -> BackupError {
        BackupError::Line { number: self.number, what }
    }

    fn summary(&self) -> Summary {
        self.summary.clone()
    }
}
