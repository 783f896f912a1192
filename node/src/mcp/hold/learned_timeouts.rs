//! What can be learnt from calls that clients gave up. Pure.
//!
//! - **H1** One cut teaches nothing: it may be a person's Esc. Two in a row of similar length, of
//!   the same client and version, are its limit.
//! - **H2** What was learnt only ever gets shorter, and never under [`HOLD_MS_MIN`].
//!
//! A new version begins anew.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tasuki_proto::host::checked;

/// The shortest hold that is learnt, and the shortest cut that says anything, in milliseconds.
/// Below it every wait would cost a model more than it gains.
pub(super) const HOLD_MS_MIN: u64 = 20_000;

/// Two cuts are similar when the longer is at most this much longer, in percent.
const SIMILAR_PERCENT: u64 = 10;

/// A call is answered at this part of the limit, in percent.
pub(super) const HOLD_PERCENT: u64 = 80;

/// Clients that are remembered; those that were cut longest ago are forgotten.
const CLIENTS_MAX: usize = 256;

/// A name or a version, in characters.
const TEXT_CHARS_MAX: usize = 80;

/// What is known of one client in one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    name: String,
    version: String,
    /// After how long it gave the latest call up.
    cut_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hold_ms: Option<u64>,
}

/// Of all clients, the latest cut last.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cuts {
    clients: Vec<Known>,
}

/// What a cut came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lesson {
    /// Too short to say anything; nothing is kept.
    None,
    /// Kept, to be compared with the next.
    Noted,
    /// The client's limit is known: it is held so long from here on.
    Learnt(Duration),
}

fn cut_off(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

impl Cuts {
    /// How long the client may be held by what was learnt of it.
    pub(super) fn hold(&self, name: &str, version: &str) -> Option<Duration> {
        let (name, version) = (cut_off(name), cut_off(version));
        let known = self.clients.iter().find(|it| it.name == name && it.version == version)?;
        known.hold_ms.map(|ms| Duration::from_millis(ms.max(HOLD_MS_MIN)))
    }

    /// The client gave a call up that was held for `after`.
    pub(super) fn cut(&mut self, name: &str, version: &str, after: Duration) -> Lesson {
        let cut_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        if cut_ms < HOLD_MS_MIN {
            return Lesson::None;
        }
        let (name, version) = (cut_off(name), cut_off(version));
        let at = self.clients.iter().position(|it| it.name == name && it.version == version);
        let before = at.map(|at| self.clients.remove(at));
        let mut known = Known { name, version, cut_ms, hold_ms: None };
        let mut lesson = Lesson::Noted;
        if let Some(before) = before {
            known.hold_ms = before.hold_ms;
            let (short, long) = (cut_ms.min(before.cut_ms), cut_ms.max(before.cut_ms));
            if (long - short).saturating_mul(100) <= short.saturating_mul(SIMILAR_PERCENT) {
                let hold_ms = (short / 100 * HOLD_PERCENT).max(HOLD_MS_MIN);
                let hold_ms = known.hold_ms.map_or(hold_ms, |known| known.min(hold_ms));
                known.hold_ms = Some(hold_ms);
                lesson = Lesson::Learnt(Duration::from_millis(hold_ms));
            }
        }
        self.clients.push(known);
        let excess = self.clients.len().saturating_sub(CLIENTS_MAX);
        self.clients.drain(..excess);
        lesson
    }

    /// What a file says; one that was written by hand may say more than is kept.
    pub(super) fn read(json: &[u8]) -> Result<Self, checked::Damage> {
        let mut cuts: Self = checked::from_slice(json)?;
        cuts.clients.truncate(CLIENTS_MAX);
        Ok(cuts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the last of these cuts, in seconds, comes to, and how long is held then.
    fn check(cuts: &[u64], lesson: Lesson, hold: Option<u64>) {
        let mut kept = Cuts::default();
        let mut last = Lesson::None;
        for secs in cuts {
            last = kept.cut("x", "1", Duration::from_secs(*secs));
        }
        assert_eq!(last, lesson, "{cuts:?}");
        assert_eq!(kept.hold("x", "1").map(|hold| hold.as_secs()), hold, "{cuts:?}");
        assert_eq!((kept.hold("x", "2"), kept.hold("y", "1")), (None, None));
        let json = serde_json::to_vec(&kept).unwrap();
        assert_eq!(Cuts::read(&json).unwrap(), kept);
    }

    fn learnt(secs: u64) -> Lesson {
        Lesson::Learnt(Duration::from_secs(secs))
    }

    /// Holds H1.
    #[test]
    fn two_cuts_of_similar_length_are_a_limit() {
        check(&[60], Lesson::Noted, None);
        check(&[60, 60], learnt(48), Some(48));
        check(&[60, 66], learnt(48), Some(48));
        check(&[66, 60], learnt(48), Some(48));
        check(&[60, 67], Lesson::Noted, None);
        check(&[60, 120, 60], Lesson::Noted, None);
        check(&[60, 120, 121], learnt(96), Some(96));
    }

    #[test]
    fn a_cut_that_is_too_short_says_nothing() {
        check(&[5, 5], Lesson::None, None);
        check(&[60, 3, 60], learnt(48), Some(48));
        check(&[20, 20], learnt(20), Some(20));
        check(&[24, 24], learnt(20), Some(20));
    }

    /// Holds H2.
    #[test]
    fn what_was_learnt_only_gets_shorter() {
        check(&[300, 300, 200], Lesson::Noted, Some(240));
        check(&[300, 300, 200, 200], learnt(160), Some(160));
        check(&[100, 100, 300, 300], learnt(80), Some(80));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut kept = Cuts::default();
        let long = "n".repeat(1000);
        for version in 0..CLIENTS_MAX + 10 {
            for _ in 0..2 {
                kept.cut(&long, &version.to_string(), Duration::from_secs(60));
            }
        }
        assert_eq!(kept.clients.len(), CLIENTS_MAX);
        assert_eq!(kept.clients[0].name.len(), TEXT_CHARS_MAX);
        assert_eq!(kept.hold(&long, "9"), None, "the oldest are forgotten");
        assert_eq!(kept.hold(&long, "10"), Some(Duration::from_secs(48)));
    }

    /// Holds H2.
    #[test]
    fn a_file_cannot_say_less_than_the_least_hold() {
        let json = br#"{"clients":[{"name":"x","version":"1","cut_ms":1,"hold_ms":1}]}"#;
        let kept = Cuts::read(json).unwrap();
        assert_eq!(kept.hold("x", "1"), Some(Duration::from_millis(HOLD_MS_MIN)));
        assert!(Cuts::read(b"{").is_err());
    }
}
