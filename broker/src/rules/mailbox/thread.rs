//! One thread as it is kept in memory: 96 bytes for an entry from one role to another.

use minicbor::{Decode, Decoder, Encode, Encoder, decode, encode};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use tasuki_proto::{
    id::Timestamp,
    mail::{BoxKind, MessageId},
};

use super::{RoleNumber, URGENT};
use crate::cbor::rows::{self, Row};

/// A thread's place in the order in which they began.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Encode,
    Decode,
    Serialize,
    Deserialize,
)]
#[cbor(transparent)]
pub struct ThreadNumber(#[n(0)] pub u32);

/// The entries of a thread without their words, and the copies roles have of it. On disk its parts
/// are rows of numbers, since there may be millions of threads.
#[expect(clippy::box_collection, reason = "8 bytes in each of a million threads, not 24")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    pub id: MessageId,
    /// In order: entry 1 is the first (X1).
    pub heads: SmallVec<[Head; 1]>,
    /// In the order in which roles came to take part.
    pub copies: SmallVec<[Copy; 2]>,
    /// How far it got at whom, in order. Most threads never have any.
    receipts: Option<Box<Vec<Receipt>>>,
}

/// An entry, as far as decisions need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// A bit for each copy it is addressed to.
    pub to: u64,
    /// The copy of who sent it.
    pub sender: u8,
    /// As [`super::kind_code`] has it.
    pub kind: u8,
    /// How far from what a person last did.
    #[serde(default)]
    pub hops: u16,
}

/// A role's copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copy {
    pub role: RoleNumber,
    pub kind: BoxKind,
    /// How often it was handed since it was last seen.
    pub tries: u8,
    pub state: CopyState,
    /// Orders it among those of its box.
    pub arrival: u32,
    /// Entries up to this one were handed.
    pub handed: u32,
    /// Entries up to this one were seen.
    pub seen: u32,
}

/// What follows from the entries, kept to find the copy in its box.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyState {
    #[serde(skip)]
    pub has_unseen: bool,
    #[serde(skip)]
    pub is_urgent: bool,
    /// Waits pass it over.
    pub is_dead: bool,
}

/// How far a thread got at one role, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    pub at: Timestamp,
    pub status: ReceiptStatus,
    pub copy: u8,
    /// Of a lapse this entry alone, else all up to it.
    pub entry: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptStatus {
    // On disk by their places, as boxes are.
    Handed,
    Seen,
    Acted,
    Lapsed,
    Dead,
}

impl ReceiptStatus {
    pub const ALL: [Self; 5] = [Self::Handed, Self::Seen, Self::Acted, Self::Lapsed, Self::Dead];
}

impl<C> Encode<C> for Thread {
    fn encode<W: encode::Write>(
        &self,
        to: &mut Encoder<W>,
        context: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        self.id.encode(to.array(4)?, context)?;
        rows::encode(&self.heads, to)?;
        rows::encode(&self.copies, to)?;
        rows::encode(self.receipts(), to)
    }
}

impl<'b, C> Decode<'b, C> for Thread {
    fn decode(from: &mut Decoder<'b>, context: &mut C) -> Result<Self, decode::Error> {
        from.array()?;
        let id = MessageId::decode(from, context)?;
        let (heads, copies) = (rows::decode(from)?, rows::decode(from)?);
        let receipts = rows::decode::<4, Receipt, Vec<Receipt>>(from)?;
        Ok(Self::new(id, heads, copies, receipts))
    }
}

impl Row<3> for Head {
    fn to_numbers(&self) -> [u64; 3] {
        // Hops came later: above the eight bits of the type, where there were none.
        [self.to, self.sender.into(), u64::from(self.hops) << 8 | u64::from(self.kind)]
    }

    fn of_numbers([to, sender, kind]: [u64; 3]) -> Option<Self> {
        let (kind, hops) = (kind & 0xff, kind >> 8);
        Some(Self {
            to,
            sender: sender.try_into().ok()?,
            kind: kind.try_into().ok()?,
            hops: hops.try_into().ok()?,
        })
    }
}

impl Row<7> for Copy {
    fn to_numbers(&self) -> [u64; 7] {
        let (role, kind, is_dead) = (self.role.0.into(), self.kind as u64, self.state.is_dead);
        let (arrival, handed, seen) = (self.arrival.into(), self.handed.into(), self.seen.into());
        [role, kind, self.tries.into(), is_dead.into(), arrival, handed, seen]
    }

    fn of_numbers(numbers: [u64; 7]) -> Option<Self> {
        let [role, kind, tries, is_dead, arrival, handed, seen] = numbers;
        let is_dead = u8::try_from(is_dead).ok().filter(|it| *it < 2)? == 1;
        Some(Self {
            role: RoleNumber(role.try_into().ok()?),
            kind: BoxKind::ALL.into_iter().find(|it| *it as u64 == kind)?,
            tries: tries.try_into().ok()?,
            state: CopyState { is_dead, ..CopyState::default() },
            arrival: arrival.try_into().ok()?,
            handed: handed.try_into().ok()?,
            seen: seen.try_into().ok()?,
        })
    }
}

impl Row<4> for Receipt {
    fn to_numbers(&self) -> [u64; 4] {
        [self.at.as_millis(), self.status as u64, self.copy.into(), self.entry.into()]
    }

    fn of_numbers([at, status, copy, entry]: [u64; 4]) -> Option<Self> {
        Some(Self {
            at: Timestamp::from_millis(at),
            status: ReceiptStatus::ALL.into_iter().find(|it| *it as u64 == status)?,
            copy: copy.try_into().ok()?,
            entry: entry.try_into().ok()?,
        })
    }
}

impl Thread {
    pub fn new(
        id: MessageId,
        heads: SmallVec<[Head; 1]>,
        copies: SmallVec<[Copy; 2]>,
        receipts: Vec<Receipt>,
    ) -> Self {
        Self { id, heads, copies, receipts: (!receipts.is_empty()).then(|| Box::new(receipts)) }
    }

    /// A thread without entries, of which nobody has a copy.
    pub(super) fn empty(id: MessageId) -> Self {
        Self::new(id, SmallVec::new(), SmallVec::new(), Vec::new())
    }

    /// What stands where a thread was removed.
    pub(super) fn removed() -> Self {
        Self::empty(MessageId::from_bits(0))
    }

    /// How many entries it has.
    pub fn len(&self) -> u32 {
        u32::try_from(self.heads.len()).expect("at most THREAD_ENTRIES_MAX")
    }

    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    pub fn receipts(&self) -> &[Receipt] {
        self.receipts.as_deref().map_or(&[], Vec::as_slice)
    }

    pub(super) fn add_receipt(&mut self, receipt: Receipt) {
        self.receipts.get_or_insert_default().push(receipt);
    }

    /// The copy of this role.
    pub fn copy_of(&self, role: RoleNumber) -> Option<usize> {
        self.copies.iter().position(|copy| copy.role == role)
    }

    /// Entry `number`, from 1.
    pub fn head(&self, number: u32) -> Option<&Head> {
        self.heads.get((number as usize).checked_sub(1)?)
    }

    /// Entries addressed to the copy that it has not seen and that did not lapse, in order.
    pub fn unseen(&self, copy: usize) -> impl Iterator<Item = u32> {
        let lapses = self
            .receipts()
            .iter()
            .filter(move |it| it.status == ReceiptStatus::Lapsed && usize::from(it.copy) == copy);
        let lapsed: SmallVec<[u32; 2]> = lapses.map(|it| it.entry).collect();
        let is_open = move |number: &u32| {
            self.head(*number).is_some_and(|head| head.is_to(copy)) && !lapsed.contains(number)
        };
        (self.copies[copy].seen + 1..=self.len()).filter(is_open)
    }

    /// Those of them that were not handed either.
    pub fn unhanded(&self, copy: usize) -> usize {
        let handed = self.copies[copy].handed;
        self.unseen(copy).filter(|number| handed < *number).count()
    }

    /// Whether somebody wrote to the copy's role: then an answer took it out of the inbox.
    pub(super) fn is_addressed_to(&self, copy: usize) -> bool {
        self.heads.iter().any(|head| head.is_to(copy))
    }

    /// What follows for a copy from the entries as they are.
    pub(super) fn state_of(&self, copy: usize) -> CopyState {
        let it = &self.copies[copy];
        let is_urgent = |number: u32| self.head(number).is_some_and(|head| head.kind == URGENT);
        let has_unseen = it.kind == BoxKind::Inbox && self.unseen(copy).next().is_some();
        let latest = || {
            let addressed = (1..=self.len()).rev();
            addressed.into_iter().find(|it| self.head(*it).is_some_and(|head| head.is_to(copy)))
        };
        CopyState {
            has_unseen,
            is_urgent: it.kind == BoxKind::Inbox
                && (self.unseen(copy).any(is_urgent) || latest().is_some_and(is_urgent)),
            is_dead: has_unseen && it.state.is_dead,
        }
    }

    /// Whether its parts fit together, and into a workspace with so many mailboxes.
    pub(super) fn is_sound(&self, mailboxes: usize) -> bool {
        let copies = self.copies.len();
        let len = self.len();
        let heads = self.heads.iter();
        let receipts = self.receipts().iter();
        !self.heads.is_empty()
            && (1..=64).contains(&copies)
            && heads.into_iter().all(|head| {
                usize::from(head.sender) < copies && (copies == 64 || head.to >> copies == 0)
            })
            && self.copies.iter().all(|copy| {
                usize::from(copy.role.0) < mailboxes && copy.handed <= len && copy.seen <= len
            })
            && receipts.into_iter().all(|it| usize::from(it.copy) < copies && it.entry <= len)
    }
}

impl Head {
    pub const fn is_to(&self, copy: usize) -> bool {
        self.to >> copy & 1 == 1
    }
}
