//! How many calls of a kind may be under way at once.
//!
//! Whoever finds a limiter full waits in line for a moment, first come, first served, and is refused
//! only then: many calls that come at once are not too many.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tasuki_proto::{id::RoleId, reason::Reason};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time,
};

use crate::refusal::Refusal;

/// How long a call waits until another is over, in milliseconds. Superseded waits, for one, end as
/// soon as their turn to run comes.
const WAIT_MS_MAX: u64 = 1_000;

/// Cheap to clone; all clones share one limit.
#[derive(Debug, Clone)]
pub struct Limiter {
    /// What is counted, and of whom, for the refusal.
    what: &'static str,
    limit: usize,
    permits: Arc<Semaphore>,
}

impl Limiter {
    pub fn new(what: &'static str, limit: usize) -> Self {
        Self { what, limit, permits: Arc::new(Semaphore::new(limit)) }
    }

    /// Waits for a permit, which ends when it is dropped.
    pub async fn acquire(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let free = self.permits.clone().acquire_owned();
        match time::timeout(Duration::from_millis(WAIT_MS_MAX), free).await {
            Ok(Ok(permit)) => Ok(permit),
            // Nobody closes a limiter.
            Ok(Err(_)) | Err(_) => Err(self.full()),
        }
    }

    /// A permit if one is free.
    pub fn try_acquire(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        self.permits.clone().try_acquire_owned().map_err(|_| self.full())
    }

    /// Permits that are out.
    pub fn in_use(&self) -> usize {
        self.limit - self.permits.available_permits()
    }

    fn full(&self) -> Refusal {
        let Self { what, limit, .. } = self;
        Refusal {
            reason: Reason::Overloaded,
            message: format!(
                "{limit} {what} are under way already; nothing was sent. Call again when one of \
                 them is answered."
            ),
        }
    }
}

/// A limit on what all roles of a node do, and on what each of them does.
#[derive(Debug, Clone)]
pub struct RoleLimiter {
    node: Limiter,
    what: &'static str,
    share: usize,
    roles: Arc<Mutex<BTreeMap<RoleId, Limiter>>>,
}

/// Room for one, until it is dropped.
#[derive(Debug)]
pub struct Permit {
    _role: Option<OwnedSemaphorePermit>,
    _node: OwnedSemaphorePermit,
}

impl RoleLimiter {
    /// `limit` of the node, of them `share` of each role; each with what is counted.
    pub fn new(node: (&'static str, usize), role: (&'static str, usize)) -> Self {
        let (what, share) = role;
        Self { node: Limiter::new(node.0, node.1), what, share, roles: Arc::default() }
    }

    fn of(&self, role: &RoleId) -> Limiter {
        let mut roles = self.roles.lock();
        let limiter = roles.entry(role.clone());
        limiter.or_insert_with(|| Limiter::new(self.what, self.share)).clone()
    }

    pub async fn acquire(&self, role: &RoleId) -> Result<Permit, Refusal> {
        let role = self.of(role).acquire().await?;
        Ok(Permit { _role: Some(role), _node: self.node.acquire().await? })
    }

    /// A permit for somebody who plays no role: it counts for the node alone.
    pub async fn acquire_without_role(&self) -> Result<Permit, Refusal> {
        Ok(Permit { _role: None, _node: self.node.acquire().await? })
    }

    /// Permits of `role` that are out.
    pub fn in_use(&self, role: &RoleId) -> usize {
        self.roles.lock().get(role).map_or(0, Limiter::in_use)
    }
}

/// A limit of which each role has an equal share, and never too little to work with, so that one
/// that floods takes nothing from the others. Nobody waits in line: whoever did would be what is
/// counted here.
#[derive(Debug)]
pub struct Shares(BTreeMap<RoleId, Limiter>);

impl Shares {
    pub fn new<'a>(
        what: &'static str,
        limit: usize,
        share_min: usize,
        roles: impl ExactSizeIterator<Item = &'a RoleId>,
    ) -> Self {
        let share = (limit / roles.len().max(1)).max(share_min);
        Self(roles.map(|role| (role.clone(), Limiter::new(what, share))).collect())
    }

    /// A permit of `role`; `None`: it has no share, and no limit.
    pub fn try_acquire(&self, role: &RoleId) -> Result<Option<OwnedSemaphorePermit>, Refusal> {
        self.0.get(role).map(Limiter::try_acquire).transpose()
    }

    /// Permits that are out.
    pub fn in_use(&self) -> usize {
        self.0.values().map(Limiter::in_use).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_finds_it_full_waits_in_line_and_is_refused_after_a_while() {
        let limiter = Limiter::new("calls", 2);
        let first = limiter.acquire().await.unwrap();
        let second = limiter.acquire().await.unwrap();
        let mut third = Box::pin(limiter.acquire());
        assert!(futures::poll!(&mut third).is_pending());
        drop(first);
        let third = third.await.unwrap();
        assert_eq!(limiter.in_use(), 2);
        let refusal = limiter.acquire().await.unwrap_err();
        assert_eq!(refusal.reason, Reason::Overloaded);
        assert!(refusal.message.starts_with("2 calls are under way already"), "{refusal}");
        drop((second, third));
        assert_eq!(limiter.in_use(), 0);
    }

    #[tokio::test]
    async fn a_role_has_its_share_of_what_the_node_has() {
        let [a, b] = ["A", "B"].map(|it| it.parse::<RoleId>().unwrap());
        let limiter = RoleLimiter::new(("calls of this node", 3), ("calls of this role", 2));
        let first = limiter.acquire(&a).await.unwrap();
        let second = limiter.acquire(&a).await.unwrap();
        assert_eq!((limiter.in_use(&a), limiter.in_use(&b)), (2, 0));
        let full = limiter.acquire(&a).await.unwrap_err();
        assert!(full.message.starts_with("2 calls of this role are"), "{full}");
        let third = limiter.acquire(&b).await.unwrap();
        let full = limiter.acquire(&b).await.unwrap_err();
        assert!(full.message.starts_with("3 calls of this node are"), "{full}");
        assert_eq!(limiter.in_use(&b), 1, "who is refused holds nothing");
        assert!(futures::poll!(Box::pin(limiter.acquire_without_role())).is_pending());
        let mut next = Box::pin(limiter.acquire(&a));
        assert!(futures::poll!(&mut next).is_pending());
        drop(first);
        drop((next.await.unwrap(), second, third));
        assert_eq!((limiter.in_use(&a), limiter.in_use(&b)), (0, 0));
    }

    #[test]
    fn a_role_that_floods_takes_nothing_from_the_others() {
        let [a, b] = ["A", "B"].map(|it| it.parse::<RoleId>().unwrap());
        let shares = Shares::new("calls", 8, 1, [&a, &b].into_iter());
        let flood: Vec<_> = (0..4).map(|_| shares.try_acquire(&a).unwrap().unwrap()).collect();
        assert_eq!(shares.try_acquire(&a).unwrap_err().reason, Reason::Overloaded);
        let other = shares.try_acquire(&b).unwrap().unwrap();
        assert_eq!(shares.in_use(), 5);
        drop((flood, other));
        assert!(shares.try_acquire(&a).is_ok());
        assert!(shares.try_acquire(&"C".parse().unwrap()).unwrap().is_none());
        let crowded = Shares::new("calls", 2, 3, [&a, &b].into_iter());
        let own: Vec<_> = (0..3).map(|_| crowded.try_acquire(&b).unwrap().unwrap()).collect();
        assert!(crowded.try_acquire(&b).is_err() && own.len() == 3);
    }
}
