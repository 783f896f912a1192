//! What broker and node agree on about issues, tasks, locks and deliveries: their ids, and how
//! documents and commits are called.
//!
//! Most ids are `prefix_MILLISECONDS_HEX`: when the broker made them, and a number that tells
//! apart those of one millisecond. Tasks are numbered within their issue: `task-1`, `task-2`, …

use std::{fmt, str::FromStr};

use minicbor::{Decode, Decoder, Encode, decode};

use crate::{
    disk::{as_bytes, as_text},
    json::as_displayed,
    wire,
};

/// The score of a rejection that names none. It adds no points, and chooses no next task.
pub const SCORE_REJECTED: u32 = 1;

/// Why a text is no id of this kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is {text:?}; it looks like {example}")]
pub struct NotAnId {
    text: String,
    example: &'static str,
}

impl NotAnId {
    pub(crate) fn new(text: &str, example: &'static str) -> Self {
        Self { text: text.chars().take(80).collect(), example }
    }
}

/// When an id was made, and which of those it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// Milliseconds since the Unix epoch.
    pub ms: u64,
    pub tail: u32,
}

impl Stamp {
    /// Digits of the second part, at least.
    const DIGITS_MIN: usize = 4;

    fn to_bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&self.ms.to_be_bytes());
        bytes[8..].copy_from_slice(&self.tail.to_be_bytes());
        bytes
    }

    fn from_bytes([a, b, c, d, e, f, g, h, tail @ ..]: [u8; 12]) -> Self {
        let ms = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        Self { ms, tail: u32::from_be_bytes(tail) }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (ms, tail) = text.split_once('_')?;
        let is_number =
            ms.bytes().all(|it| it.is_ascii_digit()) && (ms == "0" || !ms.starts_with('0'));
        let is_hex = tail.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
        let is_short = tail.len() == Self::DIGITS_MIN
            || (Self::DIGITS_MIN < tail.len() && !tail.starts_with('0'));
        if !(is_number && is_hex && is_short) {
            return None;
        }
        Some(Self { ms: ms.parse().ok()?, tail: u32::from_str_radix(tail, 16).ok()? })
    }
}

as_bytes!(Stamp);

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{:04x}", self.ms, self.tail)
    }
}

macro_rules! stamped {
    ($(#[$doc:meta])* $name:ident $prefix:literal) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash,
            minicbor::Encode, minicbor::Decode,
        )]
        #[cbor(transparent)]
        pub struct $name(#[n(0)] pub $crate::swarm::Stamp);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::swarm::NotAnId;

            fn from_str(text: &str) -> Result<Self, $crate::swarm::NotAnId> {
                let stamp = text.strip_prefix($prefix).and_then($crate::swarm::Stamp::parse);
                let example = concat!($prefix, "1700000000000_00af");
                stamp.map(Self).ok_or_else(|| $crate::swarm::NotAnId::new(text, example))
            }
        }

        $crate::json::as_displayed!($name);
    };
}
pub(crate) use stamped;

stamped!(
    /// What a lead breaks down into tasks.
    IssueId "issue_"
);
stamped!(
    /// A worker's result, put before the lead.
    SubmissionId "sub_"
);
stamped!(
    /// A worker's question or note about a task.
    TaskMessageId "msg_"
);
stamped!(
    /// An issue's finished work, put before the acceptors.
    DeliveryId "delivery_"
);
stamped!(
    /// One grant of locks.
    LockId "l_"
);
stamped!(
    /// What a worker is to do next: a reservation, or the end.
    NextStepId "ns_"
);

/// A task among those of its issue, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode)]
#[cbor(transparent)]
pub struct TaskNumber(#[n(0)] pub u32);

/// No task has the number 0.
impl<'b, C> Decode<'b, C> for TaskNumber {
    fn decode(from: &mut Decoder<'b>, _: &mut C) -> Result<Self, decode::Error> {
        match from.u32()? {
            0 => Err(decode::Error::message("a task has the number 0")),
            number => Ok(Self(number)),
        }
    }
}

as_displayed!(TaskNumber);

impl TaskNumber {
    /// Where it stands among the issue's tasks.
    pub const fn index(self) -> usize {
        (self.0 - 1) as usize
    }

    /// As text orders it: `task-10` is before `task-2`.
    pub fn text_order(self) -> u64 {
        let digits = self.0.checked_ilog10().unwrap_or(0) + 1;
        // Padded with zeroes to ten digits, the shorter one first.
        u64::from(self.0) * 10_u64.pow(10 - digits) * 16 + u64::from(digits)
    }
}

impl fmt::Display for TaskNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task-{}", self.0)
    }
}

impl FromStr for TaskNumber {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let digits = text.strip_prefix("task-");
        let digits = digits.filter(|it| it.starts_with(|c: char| matches!(c, '1'..='9')));
        let number = digits.and_then(|it| it.parse().ok());
        number.map(Self).ok_or_else(|| NotAnId::new(text, "task-1"))
    }
}

/// The name of a document: no path, so none leads out of where documents are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocName(std::sync::Arc<str>);

impl DocName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DocName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

as_text!(DocName);
as_displayed!(DocName);

/// Why a text is no name of a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "is {0:?}; a document's name has at most 64 letters, digits, '_', '.' and '-', begins with a \
     letter or a digit, and may end with '.md'"
)]
pub struct NotADocName(String);

impl FromStr for DocName {
    type Err = NotADocName;

    /// `plan` and `plan.md` are two names of one document. What is left is its own name: else it
    /// would be read from disk as another.
    fn from_str(text: &str) -> Result<Self, NotADocName> {
        let name = text.trim_end_matches(".md");
        match name.parse::<crate::id::RoleId>() {
            Ok(_) => Ok(Self(name.into())),
            Err(_) => Err(NotADocName(text.chars().take(80).collect())),
        }
    }
}

/// A commit by its full hash: one place in one history, wherever it is looked up. A branch is another
/// commit tomorrow, a short hash may be another one elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitHash(std::sync::Arc<str>);

impl CommitHash {
    /// Digits in repositories of SHA-1 and of SHA-256.
    const DIGITS: [usize; 2] = [40, 64];

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CommitHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a text is no commit's full hash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "is {0:?}, which is no commit's full hash: 40 or 64 digits from 0 to f, as `git rev-parse HEAD` \
     says it"
)]
pub struct NotACommitHash(String);

impl FromStr for CommitHash {
    type Err = NotACommitHash;

    /// Nothing that Git could take for a branch, a range or an option is one.
    fn from_str(text: &str) -> Result<Self, NotACommitHash> {
        let is_digit = |it: u8| matches!(it, b'0'..=b'9' | b'a'..=b'f');
        if Self::DIGITS.contains(&text.len()) && text.bytes().all(is_digit) {
            return Ok(Self(text.into()));
        }
        Err(NotACommitHash(text.chars().take(80).collect()))
    }
}

impl wire::TaskCounts {
    /// How many are in this state.
    pub const fn of(&self, status: wire::TaskStatus) -> u64 {
        match status {
            wire::TaskStatus::Unspecified => 0,
            wire::TaskStatus::Open => self.open,
            wire::TaskStatus::InProgress => self.in_progress,
            wire::TaskStatus::WaitingForAnswer => self.waiting_for_answer,
            wire::TaskStatus::Done => self.done,
            wire::TaskStatus::Canceled => self.canceled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_named_by_its_full_hash_alone() {
        let sha1 = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(sha1.parse::<CommitHash>().unwrap().as_str(), sha1);
        assert!("a".repeat(64).parse::<CommitHash>().is_ok());
        for bad in [
            "",
            "main",
            "main~1",
            "HEAD",
            "0123456",
            &sha1[..39],
            "--upload-pack=x",
            "0123456789ABCDEF0123456789ABCDEF01234567",
            "0123456789abcdef0123456789abcdef0123456g",
            "0123456789abcdef0123456789abcdef01234567\n",
            " 0123456789abcdef0123456789abcdef0123456",
            "0123456789abcdef0123456789abcdef01234567^",
        ] {
            let why = bad.parse::<CommitHash>().unwrap_err().to_string();
            assert!(
                why.starts_with(&format!("is {bad:?}, which is no commit's full hash")),
                "{why}"
            );
        }
    }

    #[test]
    fn ids_are_read_as_they_are_written_and_not_otherwise() {
        for good in
            ["issue_1700000000000_00af", "issue_0_0000", "issue_5_fffff", "issue_5_ffffffff"]
        {
            assert_eq!(good.parse::<IssueId>().unwrap().to_string(), good);
        }
        for bad in [
            "issue_1_af",
            "issue_1_00AF",
            "issue_01_00af",
            "issue_1_00af1",
            "issue_1_100000000",
            "issue__00af",
            "issue_-1_00af",
            "issue_+1_00af",
            "sub_1_00af",
            "issue_99999999999999999999_00af",
            "",
        ] {
            assert!(bad.parse::<IssueId>().is_err(), "{bad}");
        }
        assert_eq!("task-12".parse::<TaskNumber>().unwrap().to_string(), "task-12");
        for bad in ["task-0", "task-01", "task-", "task-+1", "12", "task-4294967296"] {
            assert!(bad.parse::<TaskNumber>().is_err(), "{bad}");
        }
    }

    #[test]
    fn tasks_stand_in_the_order_of_their_texts() {
        let mut numbers: Vec<u32> = (1..130).chain([1000, 20, 200, 4_294_967_295, 429]).collect();
        numbers.sort_by_key(|it| TaskNumber(*it).text_order());
        let texts: Vec<String> = numbers.iter().map(|it| TaskNumber(*it).to_string()).collect();
        assert!(texts.is_sorted(), "{texts:?}");
    }

    #[test]
    fn names_of_documents_lead_nowhere() {
        for plan in ["plan", "plan.md", "plan.md.md"] {
            let plan: DocName = plan.parse().unwrap();
            assert_eq!(plan.as_str(), "plan");
        }
        for bad in ["../../evil", "a/b", ".hidden", "", ".md", "..", "a b", &"a".repeat(65)] {
            assert!(bad.parse::<DocName>().is_err(), "{bad}");
        }
    }
}
