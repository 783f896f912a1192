//! How far an index goes and what it is of, as written beside each commit.

use std::{fmt, str::FromStr};

use tasuki_proto::id::Sequence;

use super::IndexError;

/// What an index is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::search) struct Origin {
    /// The journal's.
    pub(in crate::search) incarnation: [u8; 16],
}

/// How far an index goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::search) struct Extent {
    /// Entries of records up to this one are in it.
    pub(in crate::search) through: Sequence,
    /// Of those up to this one some may be.
    pub(in crate::search) ahead: Sequence,
}

impl Extent {
    /// Just those up to here.
    pub(in crate::search) const fn up_to(through: Sequence) -> Self {
        Self { through, ahead: through }
    }
}

/// An index and how far it goes, as written beside each commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Payload {
    pub(super) version: u32,
    pub(super) origin: Origin,
    /// `None`: it is still being made.
    pub(super) extent: Option<Extent>,
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let incarnation = u128::from_be_bytes(self.origin.incarnation);
        let extent = self.extent.map_or_else(
            || "begun".to_owned(),
            |it| format!("{} {}", it.through.get(), it.ahead.get()),
        );
        let words = format!("{} {incarnation:032x} {extent}", self.version);
        write!(f, "{words} {:08x}", crc32c::crc32c(words.as_bytes()))
    }
}

impl FromStr for Payload {
    type Err = IndexError;

    fn from_str(text: &str) -> Result<Self, IndexError> {
        let no = || IndexError::Unfit("does not say what it is of".to_owned());
        let (words, sum) = text.rsplit_once(' ').ok_or_else(no)?;
        if u32::from_str_radix(sum, 16) != Ok(crc32c::crc32c(words.as_bytes())) {
            return Err(no());
        }
        let words: Vec<&str> = words.split(' ').collect();
        let [version, incarnation, extent @ ..] = words.as_slice() else { return Err(no()) };
        let sequence = |word: &str| word.parse::<u64>().map(Sequence::from).map_err(|_| no());
        let extent = match extent {
            ["begun"] => None,
            [through, ahead] => {
                Some(Extent { through: sequence(through)?, ahead: sequence(ahead)? })
            }
            _ => return Err(no()),
        };
        let incarnation = u128::from_str_radix(incarnation, 16).map_err(|_| no())?.to_be_bytes();
        let version = version.parse().map_err(|_| no())?;
        Ok(Self { version, origin: Origin { incarnation }, extent })
    }
}
