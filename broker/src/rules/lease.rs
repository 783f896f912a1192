//! The time limit on what is held: claims, locks, reservations, steps of runs.
//!
//! A lease runs as long as its holder gives signs of life, and a while longer. Signs are soft
//! state; a renewal is journalled when the lease would lapse without it, and so is the lapse. After
//! the broker was down or stood still, what ran out meanwhile gets one grace: nobody could renew
//! it. There is one for each silence: the next needs a sign of the holder since. A restart forgets
//! signs, so the first after a grace is journalled as a renewal, soon and not when the lease runs
//! out.
//!
//! Not here: held turns, whose leases are renewed at half of their time (`turn`).

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::id::Timestamp;

use super::presence::Presence;

/// Signs of life that a node gives in the shortest lease.
pub(super) const SIGNS_IN_A_LEASE: u64 = 3;

/// The time limit on something that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Lease {
    #[n(0)]
    pub lapses: Timestamp,
    /// It is one of grace, after the broker was down, and no sign of its holder is known since.
    #[n(1)]
    pub had_grace: bool,
    /// How long it lasts from each sign of life; 0: as long as the settings say.
    #[n(2)]
    pub length_ms: u64,
}

impl Lease {
    /// One that nobody keeps by being there.
    pub const fn until(lapses: Timestamp) -> Self {
        Self { lapses, had_grace: false, length_ms: 0 }
    }

    /// How long it lasts where the settings say `usual_ms`.
    pub const fn length(self, usual_ms: u64) -> u64 {
        if self.length_ms == 0 { usual_ms } else { self.length_ms }
    }

    /// One that is kept by being there, for as long each time as it was granted for.
    pub const fn granted(now: Timestamp, lapses: Timestamp) -> Self {
        Self { lapses, had_grace: false, length_ms: lapses.millis_since(now) }
    }

    /// When its holder was heard of last. After a grace only what is newer counts.
    pub(super) fn sign(self, sign: Option<Timestamp>, length_ms: u64) -> Option<Timestamp> {
        let sign = sign?;
        // A grace lasts as long from when the broker began to listen.
        let is_new = !self.had_grace || self.lapses.minus_millis(length_ms) < sign;
        is_new.then_some(sign)
    }

    /// Until when it goes on, and whether that is a grace; `None`: it lapsed. `sign`: when its
    /// holder was heard of last.
    pub(super) fn runs_until(
        self,
        sign: Option<Timestamp>,
        length_ms: u64,
        now: Timestamp,
        presence: &Presence,
    ) -> Option<(Timestamp, bool)> {
        let sign = self.sign(sign, length_ms);
        let lasts = sign.map(|sign| sign.plus_millis(length_ms));
        if let Some(lasts) = lasts.filter(|lasts| now < *lasts) {
            return Some((lasts, false));
        }
        let may_have_one = !self.had_grace || sign.is_some();
        let graced = presence.grace(self.lapses, length_ms);
        graced.filter(|graced| may_have_one && now < *graced).map(|graced| (graced, true))
    }
}
