//! Which fencing tokens each agent was given, so that it need not carry them.
//!
//! A role may be played by one agent after another. What an agent does under a claim or a lock is
//! done under the token that it was given itself: once another agent of the same role has claimed
//! the same again, the first one's token is old, and what it still does is refused. An agent that
//! was given none, since it or its node started anew, does it under whatever the role has.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tasuki_proto::id::RoleId;

use crate::role::player::Instance;

/// Tokens remembered by one node: those forgotten first are the oldest grants.
const TOKENS_MAX: usize = 16_384;

/// What a token is for, as its agent names it: a task, a delivery or a lock.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    role: RoleId,
    agent: String,
    what: String,
}

#[derive(Debug, Default)]
pub(in crate::mcp) struct FencingTokens(Mutex<BTreeMap<Held, u64>>);

impl FencingTokens {
    /// An agent was given a token.
    pub(super) fn granted(&self, role: &RoleId, who: &Instance, what: String, token: u64) {
        let mut held = self.0.lock();
        held.insert(Held::new(role, who, what), token);
        if TOKENS_MAX < held.len()
            && let Some(oldest) =
                held.iter().min_by_key(|(_, token)| **token).map(|it| it.0.clone())
        {
            held.remove(&oldest);
        }
    }

    /// The token that an agent was given; 0: whichever the role has.
    pub(super) fn of(&self, role: &RoleId, who: &Instance, what: &str) -> u64 {
        let held = self.0.lock();
        held.get(&Held::new(role, who, what.to_owned())).copied().unwrap_or_default()
    }

    /// What the token was for is over.
    pub(super) fn ended(&self, role: &RoleId, who: &Instance, what: &str) {
        let mut held = self.0.lock();
        held.remove(&Held::new(role, who, what.to_owned()));
    }
}

impl Held {
    fn new(role: &RoleId, who: &Instance, what: String) -> Self {
        let agent = who.id().map_or_else(String::new, ToString::to_string);
        Self { role: role.clone(), agent, what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str) -> Instance {
        Instance::new(name.parse().ok(), None)
    }

    #[test]
    fn each_agent_has_the_token_it_was_given_itself() {
        let (claims, role) = (FencingTokens::default(), "w".parse().unwrap());
        let task = || "i/task-1".to_owned();
        claims.granted(&role, &agent("a"), task(), 3);
        claims.granted(&role, &agent("b"), task(), 5);
        assert_eq!(claims.of(&role, &agent("a"), &task()), 3);
        assert_eq!(claims.of(&role, &agent("b"), &task()), 5);
        assert_eq!(claims.of(&role, &agent("c"), &task()), 0);
        assert_eq!(claims.of(&role, &agent("a"), "i/task-2"), 0);
        claims.ended(&role, &agent("a"), &task());
        assert_eq!(claims.of(&role, &agent("a"), &task()), 0);
        assert_eq!(claims.of(&role, &agent("b"), &task()), 5);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (claims, role) = (FencingTokens::default(), "w".parse().unwrap());
        for token in 1..=TOKENS_MAX as u64 + 10 {
            claims.granted(&role, &agent("a"), token.to_string(), token);
        }
        assert_eq!(claims.of(&role, &agent("a"), "10"), 0);
        assert_eq!(claims.of(&role, &agent("a"), "11"), 11);
    }
}
