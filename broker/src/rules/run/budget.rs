//! What runs use, and what they may use.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// What a step used, or several together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Usage {
    #[n(0)]
    pub input_tokens: u64,
    #[n(1)]
    pub output_tokens: u64,
    #[n(2)]
    pub cache_read_tokens: u64,
    #[n(3)]
    pub cache_write_tokens: u64,
    /// Millionths of a US dollar.
    #[n(4)]
    pub cost_microusd: u64,
    #[n(5)]
    pub turns: u64,
    /// The largest there was.
    #[n(6)]
    pub context_tokens: u64,
}

impl Usage {
    /// Tokens that count for a budget: not what was read again from a cache.
    pub const fn tokens(&self) -> u64 {
        let all = self.input_tokens.saturating_add(self.output_tokens);
        all.saturating_add(self.cache_write_tokens)
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cache_read_tokens: self.cache_read_tokens.saturating_add(other.cache_read_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_add(other.cache_write_tokens),
            cost_microusd: self.cost_microusd.saturating_add(other.cost_microusd),
            turns: self.turns.saturating_add(other.turns),
            context_tokens: self.context_tokens.max(other.context_tokens),
        }
    }
}

/// What a run and all below it may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Budget {
    /// `None` is no limit.
    #[n(0)]
    pub cost_microusd: Option<u64>,
    /// `None` is no limit.
    #[n(1)]
    pub turns: Option<u64>,
    /// Runs below one another, with itself.
    #[n(2)]
    pub depth: u32,
    #[n(3)]
    pub steps: u32,
}

/// What is asked for; what is not said is as much as there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WantedBudget {
    pub cost_microusd: Option<u64>,
    pub turns: Option<u64>,
    pub depth: Option<u32>,
    pub steps: Option<u32>,
}

impl Budget {
    /// What is left of it, for runs below.
    #[must_use]
    pub fn left(self, used: Usage, steps: u32) -> Self {
        Self {
            cost_microusd: self.cost_microusd.map(|it| it.saturating_sub(used.cost_microusd)),
            turns: self.turns.map(|it| it.saturating_sub(used.turns)),
            depth: self.depth.saturating_sub(1),
            steps: self.steps.saturating_sub(steps),
        }
    }

    /// The lesser of both in each respect.
    #[must_use]
    pub fn within(self, other: Self) -> Self {
        Self {
            cost_microusd: least(self.cost_microusd, other.cost_microusd),
            turns: least(self.turns, other.turns),
            depth: self.depth.min(other.depth),
            steps: self.steps.min(other.steps),
        }
    }

    /// What somebody gets who asks for this out of it.
    pub(super) fn granted(self, wanted: WantedBudget) -> Self {
        self.within(Self {
            cost_microusd: wanted.cost_microusd,
            turns: wanted.turns,
            depth: wanted.depth.unwrap_or(self.depth),
            steps: wanted.steps.unwrap_or(self.steps),
        })
    }

    /// What of it is used up, so that nothing more begins.
    pub(super) fn spent(self, used: Usage) -> Option<&'static str> {
        self.over(used, |limit, used| limit <= used)
    }

    /// What of it was used more than there is, so that what runs is stopped.
    pub(super) fn exceeded(self, used: Usage) -> Option<&'static str> {
        self.over(used, |limit, used| limit < used)
    }

    fn over(self, used: Usage, is_over: impl Fn(u64, u64) -> bool) -> Option<&'static str> {
        let is_over = |limit: Option<u64>, used| limit.is_some_and(|limit| is_over(limit, used));
        if is_over(self.cost_microusd, used.cost_microusd) {
            return Some("max_cost");
        }
        is_over(self.turns, used.turns).then_some("max_turns")
    }
}

fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
