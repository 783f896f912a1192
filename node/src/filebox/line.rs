//! What a single line can be, to whoever reads a file and to whoever writes one.
//!
//! A line of a text that could be taken for more than text gets a backslash in front. So does one
//! that has such backslashes already; reading takes one away. Markdown shows `\## …` as the words
//! it is.

use jiff::Timestamp as Time;
use tasuki_proto::id::Timestamp;

use super::document::{kind_of, name};

/// Ends the head of a file.
pub(super) const MARKER: &str = "===== MESSAGE THREAD =====";

/// 102 of these stand before each entry but the oldest.
const BAR: char = '━';
pub(super) const BAR_CHARS: usize = 102;

/// A line that begins so is never written into a text as it is.
const BAR_BEGINS: &str = "━━━";

const ESCAPE: char = '\\';

/// `## TIME - FROM to TO (TYPE)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) at: Timestamp,
    pub(super) from: String,
    pub(super) to: Vec<String>,
    pub(super) kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Blank,
    Marker,
    Bar,
    Head(Head),
    Text,
}

impl Kind {
    pub(super) fn of(line: &str) -> Self {
        let bare = line.trim_end();
        if bare.is_empty() {
            return Self::Blank;
        }
        if bare.trim_start() == MARKER {
            return Self::Marker;
        }
        if bare.starts_with(BAR_BEGINS) && bare.chars().all(|c| c == BAR) {
            return Self::Bar;
        }
        head(bare).map_or(Self::Text, Self::Head)
    }
}

fn head(line: &str) -> Option<Head> {
    let rest = line.strip_prefix("## ")?.strip_suffix(')')?;
    let (at, rest) = rest.split_once(" - ")?;
    let (both, kind) = rest.rsplit_once(" (")?;
    let (from, to) = both.split_once(" to ")?;
    let to = list(to);
    let is_whole = !from.trim().is_empty() && !to.is_empty();
    is_whole.then_some(())?;
    Some(Head { at: time(at)?, from: name(from), to, kind: kind_of(kind) })
}

/// Names with commas between them.
pub(super) fn list(text: &str) -> Vec<String> {
    text.split(',').filter(|it| !it.trim().is_empty()).map(name).collect()
}

/// `None` also for a time before 1970: nobody wrote mail to an agent then.
pub(super) fn time(text: &str) -> Option<Timestamp> {
    let time: Time = text.trim().parse().ok()?;
    u64::try_from(time.as_millisecond()).ok().map(Timestamp::from_millis)
}

/// As `2026-11-21T20:42:52.094Z`.
pub(super) fn time_text(at: Timestamp) -> String {
    let ms = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
    let time = Time::from_millisecond(ms).unwrap_or(Time::MAX);
    format!("{time:.3}")
}

/// Whether a line of a text could be taken for more, or has been kept from it.
fn is_delicate(line: &str) -> bool {
    let bare = line.trim_start_matches(ESCAPE);
    bare.starts_with(BAR_BEGINS)
        || match Kind::of(bare) {
            Kind::Marker | Kind::Bar | Kind::Head(_) => true,
            Kind::Blank | Kind::Text => false,
        }
}

/// Puts a text's line into a file.
pub(super) fn push_escaped(file: &mut String, line: &str) {
    if is_delicate(line) {
        file.push(ESCAPE);
    }
    file.push_str(line);
}

/// A text's line as a file has it.
pub(super) fn unescaped(line: &str) -> &str {
    match line.strip_prefix(ESCAPE) {
        Some(rest) if is_delicate(rest) => rest,
        Some(_) | None => line,
    }
}
