//! What a role may use, and what it used.

use std::fmt;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    counted::{counted, long},
    id::Timestamp,
};

/// What a role may use. At least one of the two is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Budget {
    /// Commands that change something.
    #[n(0)]
    pub calls: Option<u64>,
    #[n(1)]
    pub tokens: Option<u64>,
    /// In so many milliseconds, then anew; 0: in all.
    #[n(2)]
    pub window_ms: u64,
}

/// So much was used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Usage {
    #[n(0)]
    pub calls: u64,
    #[n(1)]
    pub tokens: u64,
}

/// A role's budget and what it used of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct RoleUse {
    #[n(0)]
    pub budget: Option<Budget>,
    /// When the window began.
    #[n(1)]
    pub since: Timestamp,
    /// In this window.
    #[n(2)]
    pub used: Usage,
    #[n(3)]
    pub pause: Option<RolePause>,
    /// Its next letter begins at no hops.
    #[n(4)]
    pub is_fresh: bool,
}

/// That a role is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct RolePause {
    #[n(0)]
    pub at: Timestamp,
    #[n(1)]
    pub reason: PauseReason,
}

/// Why a role is paused. Its text goes on after the role's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    /// It used up its budget of calls.
    #[n(0)]
    Calls {
        #[n(0)]
        max: u64,
        #[n(1)]
        window_ms: u64,
    },
    /// It used up its budget of tokens.
    #[n(1)]
    Tokens {
        #[n(0)]
        max: u64,
        #[n(1)]
        window_ms: u64,
    },
    /// It wrote a letter too far from what a person last did.
    #[n(2)]
    Hops {
        #[n(0)]
        hops: u32,
    },
}

impl fmt::Display for PauseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, window_ms) = match self {
            Self::Calls { max, window_ms } => (counted(*max, "call"), window_ms),
            Self::Tokens { max, window_ms } => (counted(*max, "token"), window_ms),
            Self::Hops { hops } => {
                let hops = counted(*hops, "hop");
                return write!(f, "wrote mail {hops} away from what a person last did");
            }
        };
        write!(f, "used up its budget of {what}")?;
        if *window_ms == 0 { Ok(()) } else { write!(f, " in {}", long(*window_ms)) }
    }
}

impl PauseReason {
    /// Whether the role may still answer letters: how what it owes does not get lost. Letters
    /// without end are what it is paused for otherwise.
    pub(super) const fn may_answer(&self) -> bool {
        !matches!(self, Self::Hops { .. })
    }

    /// What the role may still do besides handing over, in words.
    pub(in crate::rules) const fn allows(&self) -> &'static str {
        if self.may_answer() {
            "answer, submit and give back what it holds"
        } else {
            "submit and give back what it holds"
        }
    }
}

impl Usage {
    pub const ONE_CALL: Self = Self { calls: 1, tokens: 0 };

    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls.saturating_add(other.calls),
            tokens: self.tokens.saturating_add(other.tokens),
        }
    }
}

impl Budget {
    /// Which part of it is used up.
    fn reached(&self, used: Usage) -> Option<PauseReason> {
        let window_ms = self.window_ms;
        if let Some(max) = self.calls.filter(|max| *max <= used.calls) {
            return Some(PauseReason::Calls { max, window_ms });
        }
        let tokens = self.tokens.filter(|max| *max <= used.tokens);
        tokens.map(|max| PauseReason::Tokens { max, window_ms })
    }
}

impl RoleUse {
    /// When its window began and what is used in it, with this.
    pub(super) fn with(&self, usage: Usage, now: Timestamp) -> (Timestamp, Usage) {
        let window_ms = self.budget.map_or(0, |it| it.window_ms);
        if window_ms != 0 && self.since.plus_millis(window_ms) <= now {
            return (now, usage);
        }
        (self.since, self.used.plus(usage))
    }

    /// Why it is to be paused once it used this, too.
    pub(super) fn why_pause(&self, usage: Usage, now: Timestamp) -> Option<PauseReason> {
        let (_, used) = self.with(usage, now);
        self.budget.filter(|_| self.pause.is_none())?.reached(used)
    }
}
