//! Reads a file that the original wrote, that [`Document::to_markdown`] wrote, or that somebody
//! edited.
//!
//! Taken as well: bars with blank lines around them and before the oldest entry, heads of files
//! that lack lines, lines that end as on Windows, a byte order mark. Any bytes are read in linear
//! time, to a document or to the reason why not.
//!
//! **Where entries begin.** A bar and a head behind it begin one. A head without a bar is the
//! oldest entry's or quoted in a text, for the original escapes nothing: the file's very first one
//! is the oldest entry's; else it is the last behind all bars that is from the original sender, or
//! else just the last. All others are text.

use tasuki_proto::{id::Timestamp, mail::MessageId};

use super::{
    document::{Document, Entry, FORMAT_VERSION, kind_of, name},
    line::{Kind, list, time, unescaped},
};

/// One file, in bytes; a larger one is not somebody's mail.
pub const FILE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Why a file is no thread.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("has {0} bytes; the limit is {FILE_BYTES_MAX}")]
    TooLarge(usize),
    #[error("is not UTF-8 at byte {0}")]
    NotUtf8(usize),
    #[error("is no message: it has neither the line `===== MESSAGE THREAD =====` nor an entry")]
    NoThread,
    #[error("has no entry (`## TIME - SENDER to RECEIVER (TYPE)`)")]
    NoEntry,
    #[error("has words before its first entry, in line {0}: nothing says who wrote them")]
    Stray(usize),
    #[error("has the Message ID {0:?}, which is no UUID")]
    MessageId(String),
    #[error("names no receiver")]
    NoReceiver,
}

/// What a file that a person writes need not say.
#[derive(Debug, Clone, Copy)]
pub struct Draft<'a> {
    pub sender: &'a str,
    pub at: Timestamp,
}

impl Document {
    pub fn read(bytes: &[u8]) -> Result<Self, Unreadable> {
        read(bytes, None)
    }

    /// The same for a file that was put into an outbox: it may hold just a text under the line
    /// `===== MESSAGE THREAD =====`, and its receivers above.
    pub fn read_draft(bytes: &[u8], draft: Draft<'_>) -> Result<Self, Unreadable> {
        read(bytes, Some(draft))
    }
}

fn read(bytes: &[u8], draft: Option<Draft<'_>>) -> Result<Document, Unreadable> {
    if FILE_BYTES_MAX < bytes.len() {
        return Err(Unreadable::TooLarge(bytes.len()));
    }
    let text = str::from_utf8(bytes).map_err(|why| Unreadable::NotUtf8(why.valid_up_to()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // The first line says how all end: a text may have a carriage return of its own.
    let unix;
    let text = if text.split('\n').next().is_some_and(|it| it.ends_with('\r')) {
        unix = text.replace("\r\n", "\n");
        &unix
    } else {
        text
    };
    let lines: Vec<&str> = text.split('\n').collect();
    let kinds: Vec<Kind> = lines.iter().map(|it| Kind::of(it)).collect();
    let (head, begin) = divide(&kinds).ok_or(Unreadable::NoThread)?;
    let header = Header::of(&lines[..head])?;
    let starts = starts(&kinds, begin, &header);
    let entries = match (starts.first(), draft) {
        (None, None) => return Err(Unreadable::NoEntry),
        (None, Some(draft)) => vec![header.draft(&lines[begin..], draft)?],
        (Some(first), _) => {
            let is_stray = |at: &usize| kinds[*at] != Kind::Blank && kinds[*at] != Kind::Bar;
            if let Some(stray) = (begin..first.begin).find(is_stray) {
                return Err(Unreadable::Stray(stray + 1));
            }
            entries(&lines, &kinds, &starts)
        }
    };
    Ok(header.document(entries))
}

/// Where the file's head ends, and where its thread begins.
fn divide(kinds: &[Kind]) -> Option<(usize, usize)> {
    for (at, kind) in kinds.iter().enumerate() {
        match kind {
            Kind::Marker => return Some((at, at + 1)),
            Kind::Head(_) => return Some((at, bar_before(kinds, 0, at).unwrap_or(at))),
            Kind::Blank | Kind::Bar | Kind::Text => {}
        }
    }
    None
}

/// The bar that `at` has before it, with at most blank lines between.
fn bar_before(kinds: &[Kind], begin: usize, at: usize) -> Option<usize> {
    let before = (begin..at).rev().find(|it| kinds[*it] != Kind::Blank)?;
    (kinds[before] == Kind::Bar).then_some(before)
}

/// The lines an entry begins with.
#[derive(Debug, Clone, Copy)]
struct Start {
    /// The bar, or the head itself.
    begin: usize,
    head: usize,
}

/// Where entries begin, as this module's header says.
fn starts(kinds: &[Kind], begin: usize, header: &Header) -> Vec<Start> {
    let mut starts = Vec::new();
    let mut is_first = true;
    let mut bar = None;
    // The head of the oldest entry, if it has no bar, and whether the original sender's name is on it.
    let mut oldest: Option<(usize, bool)> = None;
    let mut is_settled = false;
    for (at, kind) in kinds.iter().enumerate().skip(begin) {
        match kind {
            Kind::Blank => continue,
            Kind::Head(head) => match bar {
                Some(begin) => {
                    starts.push(Start { begin, head: at });
                    oldest = None;
                }
                None if is_first => {
                    starts.push(Start { begin: at, head: at });
                    is_settled = true;
                }
                None => {
                    let is_theirs = header.original_sender.as_ref() == Some(&head.from);
                    if is_theirs || oldest.is_none_or(|(_, was_theirs)| !was_theirs) {
                        oldest = Some((at, is_theirs));
                    }
                }
            },
            Kind::Bar | Kind::Marker | Kind::Text => {}
        }
        is_first = false;
        bar = (*kind == Kind::Bar).then_some(at);
    }
    if let Some((at, _)) = oldest.filter(|_| !is_settled) {
        starts.push(Start { begin: at, head: at });
    }
    starts
}

fn entries(lines: &[&str], kinds: &[Kind], starts: &[Start]) -> Vec<Entry> {
    let ends = starts.iter().skip(1).map(|it| it.begin).chain([lines.len()]);
    let all = starts.iter().zip(ends);
    all.filter_map(|(start, end)| {
        let Kind::Head(head) = &kinds[start.head] else { return None };
        let text = text(&lines[start.head + 1..end]);
        Some(Entry::new(head.at, &head.from, &head.to, &head.kind, &text))
    })
    .collect()
}

fn text(lines: &[&str]) -> String {
    let lines: Vec<&str> = lines.iter().map(|it| unescaped(it)).collect();
    lines.join("\n").trim().to_owned()
}

/// What the head of a file says.
#[derive(Debug, Default)]
struct Header {
    kind: Option<String>,
    title: Option<String>,
    format_version: Option<String>,
    message_id: Option<MessageId>,
    sender: Option<String>,
    receivers: Option<Vec<String>>,
    timestamp: Option<Timestamp>,
    original_sender: Option<String>,
    current_owners: Option<Vec<String>>,
}

impl Header {
    fn of(lines: &[&str]) -> Result<Self, Unreadable> {
        let mut header = Self::default();
        for line in lines {
            if let Some(title) = line.strip_prefix("# ") {
                if header.title.is_none() {
                    header.read_title(title);
                }
                continue;
            }
            let Some((key, value)) =
                line.trim().strip_prefix("**").and_then(|it| it.split_once(":**"))
            else {
                continue;
            };
            let value = value.trim();
            if value.is_empty() {
                continue;
            }
            match key.trim().to_ascii_lowercase().as_str() {
                "format version" => keep(&mut header.format_version, || name(value)),
                "message id" if header.message_id.is_none() => {
                    let id = value.parse();
                    let id =
                        id.map_err(|_| Unreadable::MessageId(value.chars().take(60).collect()));
                    header.message_id = Some(id?);
                }
                "sender" => keep(&mut header.sender, || name(value)),
                "receiver" => keep_some(&mut header.receivers, || list(value)),
                "timestamp" => header.timestamp = header.timestamp.or_else(|| time(value)),
                "original sender" => keep(&mut header.original_sender, || name(value)),
                "current owner" => keep_some(&mut header.current_owners, || list(value)),
                _ => {}
            }
        }
        Ok(header)
    }

    fn read_title(&mut self, line: &str) {
        let ends = || line.trim_end().strip_suffix(':').map(|kind| (kind, ""));
        let (kind, title) = match line.split_once(": ").or_else(ends) {
            Some((kind, title)) => (kind_of(kind), title),
            None => (String::new(), line),
        };
        self.kind = (!kind.is_empty()).then_some(kind);
        self.title = Some(super::document::line(title));
    }

    /// A text that nothing but the file's head introduces.
    fn draft(&self, lines: &[&str], draft: Draft<'_>) -> Result<Entry, Unreadable> {
        let to = self.receivers.as_ref().or(self.current_owners.as_ref());
        let to = to.ok_or(Unreadable::NoReceiver)?;
        let from = self.sender.as_deref().unwrap_or(draft.sender);
        let kind = self.kind.as_deref().unwrap_or_default();
        Ok(Entry::new(self.timestamp.unwrap_or(draft.at), from, to, kind, &text(lines)))
    }

    fn document(self, entries: Vec<Entry>) -> Document {
        let oldest = entries.last().map(|it| it.kind.clone()).unwrap_or_default();
        let kind = self.kind.unwrap_or(oldest);
        let title = self.title.unwrap_or_default();
        let of_entries = Document::new(self.message_id, &kind, &title, entries);
        Document {
            format_version: self.format_version.unwrap_or_else(|| FORMAT_VERSION.to_owned()),
            sender: self.sender.unwrap_or(of_entries.sender),
            receivers: self.receivers.unwrap_or(of_entries.receivers),
            timestamp: self.timestamp.unwrap_or(of_entries.timestamp),
            original_sender: self.original_sender.unwrap_or(of_entries.original_sender),
            current_owners: self.current_owners.unwrap_or(of_entries.current_owners),
            ..of_entries
        }
    }
}

/// The first one counts.
fn keep<T>(place: &mut Option<T>, value: impl FnOnce() -> T) {
    place.get_or_insert_with(value);
}

fn keep_some(place: &mut Option<Vec<String>>, value: impl FnOnce() -> Vec<String>) {
    keep(place, value);
    if place.as_ref().is_some_and(Vec::is_empty) {
        *place = None;
    }
}
