//! Locks: exclusive charge of a set of files.
//!
//! A file is named by its repository and its path in it, so the same file on two machines is the
//! same, and two repositories never meet. All that a role locks at once is one [`Lock`] with one
//! lease; what it had locked before neither stands in its way nor changes. Paths are looked up
//! (`held`), and only patterns with wildcards that begin alike (`tree`) are compared one by one
//! ([`pattern`]).

mod held;
pub mod pattern;
mod tree;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Bound,
};

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    echo::echo,
    id::{FencingToken, RoleId, Timestamp},
    limits::{LOCK_FILES_MAX, LOCK_PATTERNS_MAX, LOCK_STEPS_MAX, LOCKS_MAX},
    swarm::{IssueId, LockId, TaskNumber},
    visible::is_visible,
};

use self::held::Index;
pub use self::pattern::{Effort, LockKey};
use super::{
    Event, Lease, LeaseRenewed, LeaseTarget, LockFiles, Locked, Rejection, Reply, Swarm, Unlocked,
    WhyUnlocked,
    check::{DecisionBuilder, check_token},
};
use crate::rules::Principal;

/// Locks that ended and are still known, so that their holders are told that they lost them.
const ENDED_MAX: usize = 1024;

/// How often a lock is met on average, once for each pair of its files and those asked for, while
/// a list of locks is gathered in one turn.
const FOUND_AGAIN_MAX: usize = 8;

/// Locks that were given back and are still known, so that saying it again does no harm.
const GIVEN_BACK_MAX: usize = 1024;

/// All locks of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Locks {
    by_id: BTreeMap<LockId, Lock>,
    /// Ended without their holders' doing, oldest first.
    ended: VecDeque<Ended>,
    /// Given back by whoever had them, oldest first.
    given_back: VecDeque<(LockId, RoleId)>,
    /// Derived.
    index: Index,
    /// Derived.
    by_task: BTreeSet<(IssueId, TaskNumber, LockId)>,
    /// Derived.
    by_role: BTreeSet<(RoleId, LockId)>,
}

/// One grant of locks.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Lock {
    #[n(0)]
    pub id: LockId,
    #[n(1)]
    pub role: RoleId,
    /// At least one.
    #[n(2)]
    pub keys: Vec<LockKey>,
    /// Its end unlocks them.
    #[n(3)]
    pub task: Option<(IssueId, TaskNumber)>,
    #[n(4)]
    pub token: FencingToken,
    #[n(5)]
    pub lease: Lease,
    #[n(6)]
    pub acquired: Timestamp,
    #[n(7)]
    pub renewed: Timestamp,
}

/// A lock that its holder did not give back.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Ended {
    #[n(0)]
    pub lock: LockId,
    /// `None`: its time or its task came to an end.
    #[n(1)]
    pub forced: Option<Forced>,
}

/// Why somebody else unlocked it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Forced {
    /// A role or a person.
    #[n(0)]
    pub by: String,
    #[n(1)]
    pub reason: String,
}

/// What stands in the way of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// As it was asked for.
    pub file: String,
    pub lock: LockId,
    /// As it is locked.
    pub locked: String,
    pub holder: RoleId,
    pub task: Option<(IssueId, TaskNumber)>,
    pub lapses: Timestamp,
}

/// Where locks are looked through further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    lock: LockId,
    /// Files of this lock that were compared with those asked about.
    pairs: usize,
}

impl Locks {
    /// From what a snapshot held.
    pub(super) fn restore(&mut self, lock: Lock) -> Result<(), &'static str> {
        let mut keys: Vec<&LockKey> = lock.keys.iter().collect();
        keys.sort_unstable();
        if keys.is_empty() || keys.windows(2).any(|two| two[0] == two[1]) {
            return Err("the files of a lock");
        }
        if self.by_id.contains_key(&lock.id) {
            return Err("a lock's id");
        }
        self.insert(lock);
        Ok(())
    }

    /// Gives each lock another token.
    pub(super) fn renumber(&mut self, mut token: impl FnMut() -> FencingToken) {
        for lock in self.by_id.values_mut() {
            lock.token = token();
        }
    }

    pub(super) fn restore_ended(&mut self, ended: Ended) {
        self.ended.push_back(ended);
    }

    pub(super) fn restore_given_back(&mut self, lock: LockId, role: RoleId) {
        self.given_back.push_back((lock, role));
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Lock> {
        self.by_id.values()
    }

    /// The newest first; only those before `before`.
    pub fn before(&self, before: Option<LockId>) -> impl Iterator<Item = &Lock> {
        let end = before.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_id.range((Bound::Unbounded, end)).rev().map(|(_, it)| it)
    }

    pub fn get(&self, id: LockId) -> Option<&Lock> {
        self.by_id.get(&id)
    }

    /// Ended without their holders' doing, oldest first.
    pub fn ended(&self) -> impl Iterator<Item = &Ended> {
        self.ended.iter()
    }

    /// Given back by whoever had them, oldest first.
    pub fn given_back(&self) -> impl Iterator<Item = &(LockId, RoleId)> {
        self.given_back.iter()
    }

    /// Those of one role.
    pub fn of_role<'a>(&'a self, role: &'a RoleId) -> impl Iterator<Item = &'a Lock> {
        let first = (role.clone(), LockId::default());
        let own = self.by_role.range(first..).take_while(move |(other, _)| other == role);
        own.map(|(_, id)| &self.by_id[id])
    }

    /// Those for one task.
    pub fn of_task(&self, issue: IssueId, task: TaskNumber) -> impl Iterator<Item = &Lock> {
        let first = (issue, task, LockId::default());
        let own = self.by_task.range(first..);
        let own = own.take_while(move |it| it.0 == issue && it.1 == task);
        own.map(|(.., id)| &self.by_id[id])
    }

    /// The first lock of another role than `role` that is on one of these files.
    ///
    /// # Errors
    /// None was found until the effort was spent.
    pub fn conflict(
        &self,
        role: Option<&RoleId>,
        keys: &[LockKey],
        effort: &Effort,
    ) -> Result<Option<Conflict>, Rejection> {
        let is_others = |lock: LockId| Some(&self.by_id[&lock].role) != role;
        for key in keys {
            if let Some((lock, locked)) = self.index.overlapping(key, is_others, effort) {
                let lock = &self.by_id[&lock];
                return Ok(Some(Conflict {
                    file: key.path().to_owned(),
                    lock: lock.id,
                    locked: locked.path().to_owned(),
                    holder: lock.role.clone(),
                    task: lock.task,
                    lapses: lock.lease.lapses,
                }));
            }
            if effort.is_spent() {
                return Err(Rejection::TooManySteps);
            }
        }
        Ok(None)
    }

    /// All that are on one of these files, the newest first; `None` where there are more than
    /// `most`, or finding them takes too long.
    pub fn on(&self, keys: &[LockKey], most: usize) -> Option<Vec<&Lock>> {
        let effort = Effort::new(LOCK_STEPS_MAX);
        let found = keys.iter().flat_map(|key| self.index.all_overlapping(key, &effort));
        let mut ids = BTreeSet::new();
        for (met, id) in found.enumerate() {
            ids.insert(id);
            if most < ids.len() || most.saturating_mul(FOUND_AGAIN_MAX) <= met {
                return None;
            }
        }
        if effort.is_spent() {
            return None;
        }
        Some(ids.iter().rev().map(|id| &self.by_id[id]).collect())
    }

    /// Locks that count and are on one of these files, or on any, the newest first. No more than
    /// `most` are looked at, and no longer than the effort lasts: the rest is behind the place that
    /// is told. At least one file is compared with one.
    pub fn look_through(
        &self,
        from: Option<Place>,
        keys: &[LockKey],
        most: usize,
        counts: impl Fn(&Lock) -> bool,
        effort: &Effort,
    ) -> (Vec<LockId>, Option<Place>) {
        let begun = from.and_then(|it| Some((self.get(it.lock)?, it.pairs)));
        let others = self.before(from.map(|it| it.lock)).map(|lock| (lock, 0));
        let mut left = begun.into_iter().chain(others);
        let (mut found, mut looked) = (Vec::new(), 0);
        while let Some((lock, begin)) = left.next() {
            looked += 1;
            if counts(lock) {
                let mut is_met = keys.is_empty();
                let pairs = lock.keys.iter().flat_map(|own| keys.iter().map(move |it| (own, it)));
                for (pairs, (own, key)) in pairs.enumerate().skip(begin) {
                    if effort.is_spent() {
                        return (found, Some(Place { lock: lock.id, pairs }));
                    }
                    if own.overlaps_within(key, effort) {
                        is_met = true;
                        break;
                    }
                }
                if is_met {
                    found.push(lock.id);
                }
            }
            if most <= looked || effort.is_spent() {
                return (found, left.next().map(|(lock, _)| Place { lock: lock.id, pairs: 0 }));
            }
        }
        (found, None)
    }

    pub(super) fn insert(&mut self, lock: Lock) {
        for key in &lock.keys {
            self.index.insert(lock.id, key);
        }
        if let Some((issue, task)) = lock.task {
            self.by_task.insert((issue, task, lock.id));
        }
        self.by_role.insert((lock.role.clone(), lock.id));
        self.by_id.insert(lock.id, lock);
    }

    pub(super) fn remove(&mut self, id: LockId, why: &WhyUnlocked, by: &Principal) -> Option<Lock> {
        let lock = self.by_id.remove(&id)?;
        for key in &lock.keys {
            self.index.remove(id, key);
        }
        if let Some((issue, task)) = lock.task {
            self.by_task.remove(&(issue, task, id));
        }
        self.by_role.remove(&(lock.role.clone(), id));
        if *why == WhyUnlocked::Unlocked {
            self.given_back.push_back((id, lock.role.clone()));
            if GIVEN_BACK_MAX < self.given_back.len() {
                self.given_back.pop_front();
            }
        } else {
            self.ended.push_back(Ended { lock: id, forced: why.forced(by) });
            if ENDED_MAX < self.ended.len() {
                self.ended.pop_front();
            }
        }
        Some(lock)
    }

    pub(super) fn renew(&mut self, id: LockId, now: Timestamp, lease: Lease) {
        if let Some(lock) = self.by_id.get_mut(&id) {
            lock.lease = lease;
            lock.renewed = now;
        }
    }

    /// How a lock ended that its holder did not give back; `None`: it did, or there was none.
    fn why_ended(&self, id: LockId) -> Option<String> {
        let ended = self.ended.iter().find(|it| it.lock == id)?;
        Some(match &ended.forced {
            None => format!("lease '{id}' ended, with its time or its task"),
            Some(it) => {
                let line = it.reason.chars().map(|c| if c.is_whitespace() { ' ' } else { c });
                let said: String = line.filter(|c| is_visible(*c)).collect();
                format!("lease '{id}' was taken by {}, saying {}", it.by, echo(&said))
            }
        })
    }

    /// The lock of this id, held by `role` under `token`.
    pub(super) fn held(
        &self,
        id: LockId,
        role: &RoleId,
        token: FencingToken,
    ) -> Result<&Lock, Rejection> {
        let Some(lock) = self.by_id.get(&id) else {
            let lost = self.why_ended(id).map(|lost| Rejection::LockLost { lost });
            return Err(lost.unwrap_or(Rejection::LeaseNotFound { lock: id }));
        };
        if lock.role != *role {
            let (role, holder) = (role.clone(), lock.role.clone());
            return Err(Rejection::NotHolder { lock: id, role, holder });
        }
        check_token(format!("lease '{id}'"), token, lock.token)?;
        Ok(lock)
    }
}

impl Conflict {
    fn rejection(self, now: Timestamp, not_done: &'static str) -> Rejection {
        Rejection::FileIsLocked {
            file: self.file,
            holder: self.holder,
            task: self.task.map_or_else(String::new, |(_, task)| task.to_string()),
            left_ms: self.lapses.millis_since(now),
            not_done,
        }
    }
}

impl WhyUnlocked {
    fn forced(&self, by: &Principal) -> Option<Forced> {
        let Self::Forced { reason } = self else { return None };
        let person = by.person.as_ref().map(ToString::to_string);
        let by = by.role.as_ref().map(ToString::to_string).or(person).unwrap_or_default();
        Some(Forced { by, reason: reason.clone() })
    }
}

impl Swarm {
    pub(super) fn decide_lock(
        &self,
        draft: &mut DecisionBuilder<'_>,
        it: &LockFiles,
    ) -> Result<Reply, Rejection> {
        let role = draft.role()?;
        if let Some((issue, task)) = it.task {
            self.open_task(issue, task)?.1.claim_of(role, it.claim)?;
        }
        if it.keys.is_empty() || LOCK_FILES_MAX < it.keys.len() {
            let text = format!("one call locks 1 to {LOCK_FILES_MAX} files; nothing was locked");
            return Err(Rejection::Invalid(text));
        }
        let mut keys = it.keys.clone();
        keys.sort_unstable();
        keys.dedup();
        let locked = self.locks.of_role(role);
        if let Some(same) = locked.into_iter().find(|own| own.keys == keys && own.task == it.task) {
            let (lock, token, lapses) = (same.id, same.token, same.lease.lapses);
            return Ok(draft.repeat(Reply::Locked { lock, token, lapses }));
        }
        if let Some(conflict) =
            self.locks.conflict(Some(role), &keys, &Effort::new(LOCK_STEPS_MAX))?
        {
            return Err(conflict.rejection(draft.now, "locked"));
        }
        let patterns = keys.iter().filter(|key| key.has_wildcards()).count();
        if LOCKS_MAX < self.locks.index.len() + keys.len() {
            return Err(Rejection::TooManyLocks);
        }
        if LOCK_PATTERNS_MAX < self.locks.index.patterns() + patterns {
            return Err(Rejection::TooManyPatterns);
        }
        let ttl_ms = it.ttl_ms.unwrap_or(self.settings.lock_ms);
        let (lock, token) = (LockId(draft.make.stamp()), draft.make.token());
        let lapses = draft.now.plus_millis(ttl_ms);
        let (role, task) = (role.clone(), it.task);
        draft.push(Event::Locked(Locked { lock, role, keys, task, token, lapses }));
        Ok(Reply::Locked { lock, token, lapses })
    }

    /// Whether nobody but `role` has locked one of these files, as far as comparing them may take:
    /// a claimant locked its files itself, which compares them in full.
    pub(super) fn check_submitted(
        &self,
        draft: &DecisionBuilder<'_>,
        role: &RoleId,
        files: &[LockKey],
    ) -> Result<(), Rejection> {
        match self.locks.conflict(Some(role), files, &Effort::new(LOCK_STEPS_MAX)) {
            Ok(Some(conflict)) => Err(conflict.rejection(draft.now, "submitted")),
            Ok(None) | Err(_) => Ok(()),
        }
    }

    pub(super) fn decide_renew_lock(
        &self,
        draft: &mut DecisionBuilder<'_>,
        id: LockId,
        token: FencingToken,
        extend_ms: Option<u64>,
    ) -> Result<Reply, Rejection> {
        let lock = self.locks.held(id, draft.role()?, token)?;
        let extend_ms = extend_ms.unwrap_or_else(|| lock.lease.length(self.settings.lock_ms));
        let lapses = draft.now.plus_millis(extend_ms).max(lock.lease.lapses);
        if lapses != lock.lease.lapses {
            let held = LeaseTarget::Lock(id);
            draft.push(Event::LeaseRenewed(LeaseRenewed { held, lapses, is_grace: false }));
        }
        Ok(Reply::Locked { lock: id, token: lock.token, lapses })
    }

    pub(super) fn decide_unlock(
        &self,
        draft: &mut DecisionBuilder<'_>,
        id: LockId,
        token: FencingToken,
    ) -> Result<(), Rejection> {
        let role = draft.role()?;
        if self.locks.given_back.iter().any(|(lock, by)| *lock == id && by == role) {
            draft.repeat(());
            return Ok(());
        }
        if let Some(lost) = self.locks.why_ended(id) {
            return Err(Rejection::LockEnded { lost });
        }
        self.locks.held(id, role, token)?;
        draft.push(Event::Unlocked(Unlocked { lock: id, why: WhyUnlocked::Unlocked }));
        Ok(())
    }

    pub(super) fn decide_force_unlock(
        &self,
        draft: &mut DecisionBuilder<'_>,
        id: LockId,
        reason: &str,
    ) -> Result<(), Rejection> {
        if self.locks.get(id).is_none() {
            return Err(Rejection::LeaseNotFound { lock: id });
        }
        let why = WhyUnlocked::Forced { reason: reason.to_owned() };
        draft.push(Event::Unlocked(Unlocked { lock: id, why }));
        Ok(())
    }

    /// Unlocks what was locked for a task that came to an end.
    pub(super) fn unlock_task(
        &self,
        draft: &mut DecisionBuilder<'_>,
        issue: IssueId,
        task: TaskNumber,
    ) {
        for lock in self.locks.of_task(issue, task) {
            let why = WhyUnlocked::TaskEnded;
            draft.push(Event::Unlocked(Unlocked { lock: lock.id, why }));
        }
    }
}

#[cfg(test)]
mod tests;
