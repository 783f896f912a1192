//! What broker and node agree on about mail: types, boxes, ids, and what a thread's file is called.
//!
//! File names are those that people's mailboxes have had so far:
//! `YYYY-MM-DD_HHMM-TYPE-slug-abcdef01.md`, in the sender's local time, ending with the first eight
//! digits of the thread's id.

use std::{fmt, str::FromStr};

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::{disk::as_bytes, id::Timestamp, json::as_displayed, limits::FILE_NAME_BYTES_MAX, wire};

/// What an entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MessageType {
    /// A bug report.
    Br,
    Ack,
    /// An enhancement request.
    Er,
    Info,
    Urgent,
    /// A discussion.
    Dis,
}

impl MessageType {
    pub const ALL: [Self; 6] = [Self::Br, Self::Ack, Self::Er, Self::Info, Self::Urgent, Self::Dis];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Br => "BR",
            Self::Ack => "ACK",
            Self::Er => "ER",
            Self::Info => "INFO",
            Self::Urgent => "URGENT",
            Self::Dis => "DIS",
        }
    }
}

/// Why a text is no type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is {0:?}; a message is one of BR, ACK, ER, INFO, URGENT, DIS")]
pub struct UnknownType(String);

impl FromStr for MessageType {
    type Err = UnknownType;

    fn from_str(text: &str) -> Result<Self, UnknownType> {
        let found = Self::ALL.into_iter().find(|it| it.as_str() == text);
        found.ok_or_else(|| UnknownType(text.chars().take(40).collect()))
    }
}

impl fmt::Display for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a role's copy of a thread is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum BoxKind {
    #[n(0)]
    Inbox,
    #[n(1)]
    Outbox,
    /// Resolved.
    #[n(2)]
    Done,
    /// Rejected, or lapsed.
    #[n(3)]
    Cancel,
}

impl BoxKind {
    pub const ALL: [Self; 4] = [Self::Inbox, Self::Outbox, Self::Done, Self::Cancel];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inbox => "inbox",
            Self::Outbox => "outbox",
            Self::Done => "done",
            Self::Cancel => "cancel",
        }
    }

    /// `None` where the message names none.
    pub const fn of_wire(wire: wire::Box) -> Option<Self> {
        match wire {
            wire::Box::Unspecified => None,
            wire::Box::Inbox => Some(Self::Inbox),
            wire::Box::Outbox => Some(Self::Outbox),
            wire::Box::Done => Some(Self::Done),
            wire::Box::Cancel => Some(Self::Cancel),
        }
    }

    pub const fn to_wire(self) -> wire::Box {
        match self {
            Self::Inbox => wire::Box::Inbox,
            Self::Outbox => wire::Box::Outbox,
            Self::Done => wire::Box::Done,
            Self::Cancel => wire::Box::Cancel,
        }
    }
}

/// Why a text is no box.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is {0:?}; a box is one of inbox, outbox, done, cancel")]
pub struct UnknownBox(String);

impl FromStr for BoxKind {
    type Err = UnknownBox;

    fn from_str(text: &str) -> Result<Self, UnknownBox> {
        let found = Self::ALL.into_iter().find(|it| it.as_str() == text);
        found.ok_or_else(|| UnknownBox(text.chars().take(40).collect()))
    }
}

impl fmt::Display for BoxKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Names a thread: a UUID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(u128);

impl MessageId {
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    pub const fn bits(self) -> u128 {
        self.0
    }

    const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// The first eight digits.
    pub fn short(self) -> u32 {
        u32::try_from(self.0 >> 96).expect("32 bits are left")
    }
}

as_bytes!(MessageId);
as_displayed!(MessageId);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = format!("{:032x}", self.0);
        let [a, b, c, d, e] = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        write!(f, "{a}-{b}-{c}-{d}-{e}")
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is no id of a thread.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is {0:?}; a message id is a UUID like ded66c6a-58c1-47f4-916e-13787156f665")]
pub struct NoMessageId(String);

impl FromStr for MessageId {
    type Err = NoMessageId;

    fn from_str(text: &str) -> Result<Self, NoMessageId> {
        let no = || NoMessageId(text.chars().take(60).collect());
        let bytes = text.as_bytes();
        let has_dashes = bytes.len() == 36 && [8, 13, 18, 23].iter().all(|at| bytes[*at] == b'-');
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        let is_hex = digits.len() == 32 && digits.bytes().all(|it| it.is_ascii_hexdigit());
        if !has_dashes || !is_hex {
            return Err(no());
        }
        u128::from_str_radix(&digits, 16).map(Self).map_err(|_| no())
    }
}

/// How a caller names a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageName {
    Id(MessageId),
    /// Hexadecimal digits without dashes, at least [`PREFIX_DIGITS_MIN`].
    Prefix(String),
    /// And the eight digits it ends with.
    File {
        name: String,
        short: u32,
    },
}

/// The shortest prefix of an id that is taken for one.
pub const PREFIX_DIGITS_MIN: usize = 4;

/// Why a text names no thread.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "is {0:?}; name a message by its id, by the first {PREFIX_DIGITS_MIN} or more digits of it, or \
     by its file name"
)]
pub struct NoMessageName(String);

impl FromStr for MessageName {
    type Err = NoMessageName;

    fn from_str(text: &str) -> Result<Self, NoMessageName> {
        let no = || NoMessageName(text.chars().take(80).collect());
        if let Ok(id) = text.parse() {
            return Ok(Self::Id(id));
        }
        if let Some(stem) = text.strip_suffix(".md") {
            let digits = stem.rsplit_once('-').map(|(_, last)| last).ok_or_else(no)?;
            let is_short = digits.len() == 8 && digits.bytes().all(|it| it.is_ascii_hexdigit());
            if !is_short || text.contains(['/', '\\', '\0']) {
                return Err(no());
            }
            let short = u32::from_str_radix(digits, 16).map_err(|_| no())?;
            return Ok(Self::File { name: text.to_owned(), short });
        }
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        let is_hex = digits.bytes().all(|it| it.is_ascii_hexdigit());
        if !is_hex || digits.len() < PREFIX_DIGITS_MIN || 32 <= digits.len() {
            return Err(no());
        }
        Ok(Self::Prefix(digits.to_ascii_lowercase()))
    }
}

/// The part of a file name that a subject makes: lower case, only `a-z`, `0-9` and single dashes.
/// A subject of other letters makes an empty one, as people's mailboxes have it.
pub fn slug(subject: &str) -> String {
    let mut slug = String::with_capacity(subject.len());
    for c in subject.to_lowercase().trim().chars() {
        match c {
            'a'..='z' | '0'..='9' => slug.push(c),
            c if (c == '-' || c.is_whitespace()) && !slug.ends_with('-') => slug.push('-'),
            _ => {}
        }
    }
    slug
}

/// What the thread's file is called: at most [`FILE_NAME_BYTES_MAX`] bytes, the slug is cut.
pub fn file_name(
    began: Timestamp,
    utc_offset_s: i32,
    kind: &str,
    subject: &str,
    id: MessageId,
) -> String {
    let local = i128::from(began.as_millis()) / 1000 + i128::from(utc_offset_s);
    let (days, seconds) = (local.div_euclid(86_400), local.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute) = (seconds / 3600, seconds % 3600 / 60);
    let head = format!("{year:04}-{month:02}-{day:02}_{hour:02}{minute:02}-{kind}-");
    let tail = format!("-{:08x}.md", id.short());
    let mut slug = slug(subject);
    slug.truncate(FILE_NAME_BYTES_MAX.saturating_sub(head.len() + tail.len()));
    format!("{head}{slug}{tail}")
}

/// Year, month and day of a number of days since 1970-01-01, in the Gregorian calendar.
fn civil(days: i128) -> (i128, i128, i128) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i128::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "ded66c6a-58c1-47f4-916e-13787156f665";

    #[test]
    fn slugs_are_those_of_peoples_mailboxes() {
        for (subject, expected) in [
            ("API performance issue!", "api-performance-issue"),
            ("修复登录页面", ""),
            ("  --Hello__World--  ", "-helloworld-"),
            ("修复 login 页面 Bug #12", "-login-bug-12"),
            ("a\t\n - b", "a-b"),
            ("../../etc/passwd", "etcpasswd"),
        ] {
            assert_eq!(slug(subject), expected, "{subject:?}");
        }
    }

    #[test]
    fn file_names_tell_the_senders_time_and_fit() {
        let at = Timestamp::from_millis(1_795_293_772_094);
        let id = ID.parse().unwrap();
        let name = |offset, subject| file_name(at, offset, "BR", subject, id);
        assert_eq!(name(0, "API issue!"), "2026-11-21_2042-BR-api-issue-ded66c6a.md");
        assert_eq!(name(9 * 3600, "x"), "2026-11-22_0542-BR-x-ded66c6a.md");
        assert_eq!(name(0, "修复"), "2026-11-21_2042-BR--ded66c6a.md");
        let long = name(0, &"long ".repeat(200));
        assert_eq!(long.len(), FILE_NAME_BYTES_MAX);
        assert!(long.parse::<MessageName>().is_ok(), "{long}");
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (11_016, (2000, 2, 29)),
            (20_778, (2026, 11, 21)),
        ] {
            assert_eq!(civil(days), expected, "{days}");
        }
    }

    #[test]
    fn how_a_thread_may_be_named() {
        let id: MessageId = ID.parse().unwrap();
        assert_eq!(id.to_string(), ID);
        assert_eq!(ID.parse(), Ok(MessageName::Id(id)));
        assert_eq!("DED6".parse(), Ok(MessageName::Prefix("ded6".to_owned())));
        assert_eq!("ded66c6a-58".parse(), Ok(MessageName::Prefix("ded66c6a58".to_owned())));
        let name = "2026-11-21_2042-BR--ded66c6a.md";
        let short = 0xded6_6c6a;
        assert_eq!(name.parse(), Ok(MessageName::File { name: name.to_owned(), short }));
        for bad in ["", "ded", "notes.md", "xyzw", "../../.filebox", "../x-ded66c6a.md", "ded6/"] {
            assert!(bad.parse::<MessageName>().is_err(), "{bad}");
        }
    }
}
