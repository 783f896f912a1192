//! What a restore from a backup does to a workspace: nothing that was granted before holds.
//!
//! What was done after the backup is lost, but those who did it still have what they were granted:
//! a turn, a claim, a lock, a node's epoch. The state that was restored does not know these grants,
//! and it would give out their numbers again. So all numbers that fence begin anew above a number
//! that no grant ever had, and what is held has a new number.
//!
//! **Invariant:** after a restore nothing is accepted under a number that was granted before it: neither
//! one that the backup knows nor one that was granted since, in a workspace or a loop of then or in
//! one that is made again.
//!
//! Held turns, claims, deliveries and locks stay with their holders, under new numbers: two that
//! work on the same thing would be worse than one that has to ask again. Tasks that are kept for
//! the bearer of a next step go back, and steps and attempts that ran are lost. Of kept answers only their keys
//! stay: an answer would name grants that are void.

use tasuki_proto::id::{FencingToken, Timestamp};

use super::{Body, Context, Event, Principal, Workspace, presence::Presence};

/// More than a broker grants between two restores in the same millisecond, or while its clock is
/// behind: a year of thirty a second.
const GRANTS_MAX: u64 = 1 << 30;

/// Numbers that fence begin above it. It is the time of a restore in milliseconds, which is more
/// than any broker granted by then; 0 where nothing was restored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fence(u64);

impl Fence {
    /// Of a restore at `now` into a database that had this one.
    #[must_use]
    pub fn restored(self, now: Timestamp) -> Self {
        Self(if self.0 < now.as_millis() { now.as_millis() } else { self.above(self.0) })
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    /// What a number that stands at `current` is raised to.
    pub fn above(self, current: u64) -> u64 {
        self.0.max(current.saturating_add(GRANTS_MAX))
    }
}

impl From<u64> for Fence {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

/// Gives new numbers to what is held.
#[derive(Debug)]
pub(super) struct Renumber(FencingToken);

impl Renumber {
    pub(super) fn above(fence: Fence, latest: FencingToken) -> Self {
        Self(fence.above(latest.get()).into())
    }

    pub(super) fn next(&mut self) -> FencingToken {
        self.0 = self.0.next();
        self.0
    }

    /// The latest that was given.
    pub(super) fn latest(&self) -> FencingToken {
        self.0
    }
}

impl Workspace {
    /// A workspace in which nothing happened yet, in a database that was restored. Without a
    /// restore it is the default.
    pub fn begun_above(fence: Fence) -> Self {
        let mut state = Self::default();
        if fence != Fence::default() {
            state.fence(fence);
        }
        state
    }

    /// Makes it what it is after a restore, at `now` or at its own time. Returns what was taken away,
    /// and the bodies that go with it.
    ///
    /// Its sequence goes on above all that any history of it had, too: whoever follows its feed
    /// from a place before is told that the records there are gone, and begins anew.
    pub fn restore_above(&mut self, fence: Fence, now: Timestamp) -> (Vec<Event>, Vec<Body>) {
        let now = now.max(self.time);
        let context = Context::new(Presence::new(now), 0);
        let (of_swarm, words) = self.swarm.decide_restore(now);
        let lost = self.runs.decide_lost(now, &context, |_| true);
        let undone = self
            .pipelines
            .decide_lost(now, self, |claim, _| Some(format!("node {} began anew", claim.node)));
        self.fence(fence);
        let mut events: Vec<Event> = of_swarm.into_iter().map(Event::from).collect();
        events.extend(lost.into_iter().map(Event::from));
        events.extend(undone);
        for event in &events {
            self.apply_event(now, &Principal::default(), event);
        }
        self.time = now;
        self.sequence = fence.above(self.sequence.get()).into();
        (events, words.into_iter().map(Body::Swarm).collect())
    }

    /// Leaves of kept answers only their keys, as a restore does.
    pub fn forget_answers(&mut self) {
        self.clients.fence();
    }

    /// Makes every number that was granted before void.
    fn fence(&mut self, fence: Fence) {
        self.clients.fence();
        self.directory.fence(fence);
        self.loops.fence(fence);
        self.swarm.fence(fence);
        self.runs.fence(fence);
        self.pipelines.fence(fence);
    }
}

#[cfg(test)]
mod tests;
