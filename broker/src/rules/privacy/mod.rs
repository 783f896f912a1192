//! Private mail: which roster counts, and the keys that nobody vouched for yet.
//!
//! The broker keeps what others signed; it could not sign any of it. Its part is to let nobody
//! but the owner replace the roster, and to take in no words that it could read.
//!
//! - **Y3** Numbers of rosters strictly increase.
//! - **Y4** While mail is private, only its owner replaces the roster.
//! - **Y5** While mail is private, no words are taken in but sealed ones.
//!
//! Not here: whether signatures hold. That is looked at where messages and records are parsed; a
//! [`SignedRoster`] that is none cannot be made.

#[cfg(test)]
mod tests;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{NodeId, PersonId, RoleId, Timestamp, TokenId},
    limits::{
        PENDING_KEYS_MAX, PENDING_KEYS_PER_TOKEN_MAX, PENDING_ROLES_MAX,
        PENDING_ROLES_PER_TOKEN_MAX,
    },
    private::{KeyId, NodeKey, Roster, SignedRoster},
};

use super::{
    Acting, Asked, Caller, Decision, Kept, Needs, Principal, Rejection, Reply, directory::Directory,
};

/// What a workspace knows of private mail; nothing, where it never was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Privacy {
    pub roster: Option<SignedRoster>,
    pub pending: BTreeMap<NodeId, Pending>,
}

/// A key that nobody vouched for yet.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Pending {
    #[n(0)]
    pub key: NodeKey,
    #[n(1)]
    pub published: Timestamp,
    /// Whose node it is; `None` where the broker asked for no token.
    #[n(2)]
    pub token: Option<TokenId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    SetRoster(SignedRoster),
    Publish(NodeKey),
}

impl Acting for Command {
    fn role(&self) -> Option<&RoleId> {
        None
    }

    fn person(&self) -> Option<&PersonId> {
        None
    }

    fn needs(&self) -> Needs<'_> {
        match self {
            Self::SetRoster(_) => Needs::default(),
            Self::Publish(key) => Needs::roles(&key.roles),
        }
    }

    fn check_words(&self, _: &Privacy) -> Result<(), Rejection> {
        Ok(())
    }

    fn is_for_paused(&self) -> bool {
        true
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    #[n(0)]
    RosterSet(#[n(0)] SignedRoster),
    #[n(1)]
    KeyPublished(#[n(0)] Published),
}

/// A node said which key is its own.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Published {
    #[n(0)]
    pub key: NodeKey,
    #[n(1)]
    pub token: Option<TokenId>,
}

/// What a snapshot holds.
#[derive(Debug, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotItem<'a> {
    #[n(0)]
    Roster(#[n(0)] Cow<'a, SignedRoster>),
    #[n(1)]
    Pending(#[n(0)] Cow<'a, Pending>),
}

impl Kept for Privacy {
    type Item<'a> = SnapshotItem<'a>;

    fn items(&self) -> impl Iterator<Item = SnapshotItem<'_>> {
        let roster = self.roster.iter().map(|it| SnapshotItem::Roster(Cow::Borrowed(it)));
        roster.chain(self.pending.values().map(|it| SnapshotItem::Pending(Cow::Borrowed(it))))
    }

    fn restore(&mut self, item: SnapshotItem<'_>) -> Result<(), &'static str> {
        match item {
            SnapshotItem::Roster(it) => self.roster = Some(it.into_owned()),
            SnapshotItem::Pending(it) => {
                _ = self.pending.insert(it.key.node.clone(), it.into_owned())
            }
        }
        Ok(())
    }
}

impl Privacy {
    /// Whether mail is private.
    pub fn is_on(&self) -> bool {
        self.current().is_some_and(|it| it.is_on)
    }

    fn current(&self) -> Option<&Roster> {
        self.roster.as_ref().map(SignedRoster::roster)
    }

    /// Whether words may come in as they do (Y5).
    ///
    /// # Errors
    /// When they may not.
    pub fn check_words(&self, is_sealed: bool) -> Result<(), Rejection> {
        match self.current() {
            Some(roster) if roster.is_on && !is_sealed => {
                Err(Rejection::PrivateWorkspace { owner: roster.owner.id() })
            }
            // What was sealed before it ended can still be read.
            Some(_) => Ok(()),
            None if is_sealed => Err(Rejection::Invalid(
                "sealed is only for workspaces whose mail is private; this one's never was"
                    .to_owned(),
            )),
            None => Ok(()),
        }
    }

    /// Whether files may come in, which are not sealed (Y5).
    ///
    /// # Errors
    /// When they may not.
    pub fn check_files(&self) -> Result<(), Rejection> {
        self.check_is_off(Rejection::PrivateFiles)
    }

    /// Whether boards may be written to, whose values are not sealed (Y5).
    ///
    /// # Errors
    /// When they may not.
    pub fn check_boards(&self) -> Result<(), Rejection> {
        self.check_is_off(Rejection::PrivateBoards)
    }

    fn check_is_off(&self, otherwise: Rejection) -> Result<(), Rejection> {
        match self.current() {
            Some(roster) if roster.is_on => Err(otherwise),
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn decide(
        &self,
        Asked { caller, workspace, .. }: Asked<'_>,
        command: &Command,
    ) -> Result<Decision, Rejection> {
        match command {
            Command::SetRoster(it) => self.decide_roster(it),
            Command::Publish(it) => self.decide_publish(&workspace.directory, caller, it),
        }
    }

    fn decide_roster(&self, signed: &SignedRoster) -> Result<Decision, Rejection> {
        let new = signed.roster();
        if self.roster.as_ref() == Some(signed) {
            return Ok(Decision::repeat(Reply::Done));
        }
        match self.current() {
            Some(now) if now.is_on && now.owner != new.owner => {
                return Err(Rejection::NotOwner { owner: now.owner.id() });
            }
            Some(now) if new.number <= now.number => {
                return Err(Rejection::StaleRoster { presented: new.number, current: now.number });
            }
            Some(now) if !now.is_on && !new.is_on => return Err(never_on()),
            None if !new.is_on => return Err(never_on()),
            Some(_) | None => {}
        }
        Ok(Decision::new([Event::RosterSet(signed.clone())], Reply::Done))
    }

    fn decide_publish(
        &self,
        directory: &Directory,
        caller: &Caller,
        key: &NodeKey,
    ) -> Result<Decision, Rejection> {
        // As with all else of a node: while its token is good, no other speaks for it (D3).
        let owner = directory.nodes.get(&key.node).and_then(|node| node.token.as_ref());
        if let (Some(owner), Some(token)) = (owner, &caller.token)
            && owner != token
        {
            return Err(Rejection::NodeForbidden { node: key.node.clone(), owner: owner.clone() });
        }
        let is_vouched_for = self.current().is_some_and(|it| has(it, key));
        // What it asked for before and no longer does is forgotten.
        let is_so = match self.pending.get(&key.node) {
            Some(pending) => pending.key == *key,
            None => is_vouched_for,
        };
        if is_so {
            return Ok(Decision::repeat(Reply::Done));
        }
        if !self.pending.contains_key(&key.node) {
            let is_own = |it: &&Pending| caller.token.is_some() && it.token == caller.token;
            let own = self.pending.values().filter(is_own).count();
            if PENDING_KEYS_MAX <= self.pending.len() || PENDING_KEYS_PER_TOKEN_MAX <= own {
                return Err(Rejection::TooManyKeys);
            }
        }
        let others = || self.pending.values().filter(|it| it.key.node != key.node);
        let is_own = |it: &&Pending| caller.token.is_some() && it.token == caller.token;
        let all = key.roles.len() + roles_of(others());
        let own = key.roles.len() + roles_of(others().filter(is_own));
        if PENDING_ROLES_MAX < all || PENDING_ROLES_PER_TOKEN_MAX < own {
            return Err(Rejection::TooManyKeys);
        }
        let published = Published { key: key.clone(), token: caller.token.clone() };
        Ok(Decision::new([Event::KeyPublished(published)], Reply::Done))
    }

    pub(super) fn apply(&mut self, now: Timestamp, _: &Principal, event: &Event) {
        match event {
            Event::RosterSet(signed) => {
                let new = signed.roster();
                if let Some(before) = self.current() {
                    assert!(before.number < new.number, "Y3: {new:?} after {before:?}");
                    let may = !before.is_on || before.owner == new.owner;
                    assert!(may, "Y4: {new:?} after {before:?}");
                }
                self.pending.retain(|_, it| !has(new, &it.key));
                self.roster = Some(signed.clone());
            }
            Event::KeyPublished(it) => {
                if self.current().is_some_and(|roster| has(roster, &it.key)) {
                    self.pending.remove(&it.key.node);
                    return;
                }
                let (key, token) = (it.key.clone(), it.token.clone());
                let pending = Pending { key, published: now, token };
                self.pending.insert(it.key.node.clone(), pending);
            }
        }
    }
}

fn never_on() -> Rejection {
    Rejection::Invalid("roster says that mail is not private, which it is not".to_owned())
}

fn roles_of<'a>(pending: impl Iterator<Item = &'a Pending>) -> usize {
    pending.map(|it| it.key.roles.len()).sum()
}

/// Whether a roster has a key with the roles it asks for, neither more nor fewer.
fn has(roster: &Roster, key: &NodeKey) -> bool {
    let id: KeyId = key.id();
    roster.key(&id).is_some_and(|it| {
        let plays: BTreeSet<&RoleId> =
            it.roles.iter().filter(|it| it.is_now).map(|it| &it.role).collect();
        it.node == key.node && it.is_in_use() && plays == key.roles.iter().collect()
    })
}
