//! What these commands ask the broker and this machine.

use std::path::PathBuf;

use ed25519_dalek::SigningKey;
use tasuki_proto::{
    id::{NodeId, RoleId, WorkspaceId},
    private::{NodeKey, Roster, SignedRoster},
    wire,
};

use super::{
    super::super::{Failure, broker::Broker},
    is_by, kept, never_on, refused,
};
use crate::{
    config::Config,
    identity::Identity,
    paths::NodeFile,
    private::{
        keys::NodeKeys,
        trust::{self, Pin},
    },
};

/// The broker, the workspace, and this machine's data.
#[derive(Debug)]
pub(super) struct Session {
    broker: Broker,
    pub(super) data: PathBuf,
    roles: Vec<RoleId>,
}

/// What the broker shows. Signatures hold; whose they are is another matter.
#[derive(Debug)]
pub(super) struct RosterView {
    pub(super) roster: Option<SignedRoster>,
    pub(super) pending: Vec<NodeKey>,
    pub(super) now_ms: u64,
}

/// The same beside what is known here.
#[derive(Debug)]
pub(super) struct PrivacyStatus<'a> {
    pub(super) workspace: &'a WorkspaceId,
    pub(super) roster: Option<&'a Roster>,
    pub(super) pending: &'a [NodeKey],
    pub(super) pin: Option<Pin>,
    pub(super) is_owner: bool,
    pub(super) keys: NodeKeys,
    pub(super) node: Option<NodeId>,
}

impl Session {
    pub(super) fn new(config: &Config) -> Self {
        let data = config.data.value.clone();
        let running = NodeFile::read(&data).map(|file| file.roles);
        let roles = match running {
            Some(roles) => roles.iter().filter_map(|role| role.parse().ok()).collect(),
            None => config.roles.value.iter().map(|role| role.name.clone()).collect(),
        };
        Self { broker: Broker::new(config), data, roles }
    }

    pub(super) fn workspace(&self) -> &WorkspaceId {
        self.broker.workspace()
    }

    pub(super) async fn shown(&self) -> Result<RosterView, Failure> {
        let request = wire::GetRosterRequest::default();
        let shown = self.broker.call(&request);
        let wire::GetRosterResponse { roster, pending, now_ms } = shown.await?;
        let roster = roster.as_ref().map(SignedRoster::of_wire).transpose().map_err(|why| {
            refused(format!("The broker shows a roster that does not hold: {why}."))
        })?;
        if let Some(roster) = roster.as_ref().map(SignedRoster::roster)
            && roster.workspace != *self.workspace()
        {
            return Err(refused(format!(
                "The broker shows the roster of {} as that of {}.",
                roster.workspace,
                self.workspace()
            )));
        }
        // What nobody proved to have is as if it were not there.
        let pending = pending.iter().filter_map(|it| NodeKey::of_wire(self.workspace(), it).ok());
        Ok(RosterView { roster, pending: pending.collect(), now_ms })
    }

    pub(super) fn seen<'a>(&'a self, shown: &'a RosterView) -> Result<PrivacyStatus<'a>, Failure> {
        let roster = shown.roster.as_ref().map(SignedRoster::roster);
        let owner = trust::owner(&self.data, self.workspace()).map_err(kept)?;
        let is_owner = match (&owner, roster) {
            (Some(owner), Some(roster)) => is_by(roster, trust::public(owner)),
            (Some(_), None) | (None, _) => false,
        };
        Ok(PrivacyStatus {
            workspace: self.workspace(),
            roster,
            pending: &shown.pending,
            pin: Pin::read(&self.data, self.workspace()).map_err(kept)?,
            is_owner,
            keys: NodeKeys::read(&self.data).map_err(kept)?,
            node: Identity::known(&self.data).map_err(|why| Failure::local(format!("{why}.")))?,
        })
    }

    /// The roster, which the owner of this machine signed, and no older than it saw.
    pub(super) fn owned(&self, shown: &RosterView, owner: &SigningKey) -> Result<Roster, Failure> {
        let Some(roster) = shown.roster.as_ref().map(SignedRoster::roster) else {
            return Err(never_on(self));
        };
        if !is_by(roster, trust::public(owner)) {
            return Err(refused(format!(
                "The broker shows a roster by {}, which is not the owner's key of this machine.",
                roster.owner.id()
            )));
        }
        self.check_pin(roster)?;
        Ok(roster.clone())
    }

    /// Whether a roster is no older than one that was seen here.
    pub(super) fn check_pin(&self, roster: &Roster) -> Result<(), Failure> {
        let pin = Pin::read(&self.data, self.workspace()).map_err(kept)?;
        match pin {
            Some(pin) if pin.owner == roster.owner.id() && roster.number < pin.number => {
                Err(refused(format!(
                    "The broker shows roster {}, and this machine saw number {}: it lost that, or \
                     keeps it back. Nothing was changed.",
                    roster.number, pin.number
                )))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The name of the node whose data this is.
    pub(super) fn node(&self) -> Result<NodeId, Failure> {
        let node = Identity::known(&self.data).map_err(|why| Failure::local(format!("{why}.")))?;
        node.ok_or_else(|| {
            Failure::local(format!(
                "No node ever ran with data in {}, and private mail is between nodes. Start one \
                 with `tasuki up` or `tasuki node`, then say this again.",
                self.data.display()
            ))
        })
    }

    /// The newest key of this machine, with the roles of its node.
    pub(super) fn own_key(&self, node: NodeId) -> Result<NodeKey, Failure> {
        let keys = NodeKeys::with_one(&self.data).map_err(kept)?;
        let newest = keys.newest().expect("one is made where there was none");
        Ok(newest.public(self.workspace(), node, self.roles.clone()))
    }

    pub(super) fn own_key_or_new(&self) -> Result<NodeKey, Failure> {
        self.own_key(self.node()?)
    }

    pub(super) async fn publish(&self, node_key: &NodeKey) -> Result<(), Failure> {
        let node_key = Some(node_key.to_wire(0));
        let request = wire::PublishKeyRequest { node_key, ..Default::default() };
        self.broker.call(&request).await.map(drop)
    }

    pub(super) async fn set(&self, roster: Roster, owner: &SigningKey) -> Result<(), Failure> {
        let signed = roster.signed(owner);
        let signed =
            signed.map_err(|why| refused(format!("The roster cannot be signed: {why}.")))?;
        let roster = Some(signed.to_wire());
        let request = wire::SetRosterRequest { roster, ..Default::default() };
        self.broker.call(&request).await.map(drop)
    }

    /// Takes an owner's key that was made for a roster away, if it is sure that the broker did not
    /// take that one: nobody else could make it good again.
    pub(super) async fn disown(&self, owner: &SigningKey, why: &Failure) -> Result<(), Failure> {
        if why.is_maybe_applied() {
            return Ok(());
        }
        let Ok(shown) = self.shown().await else { return Ok(()) };
        if shown.roster.is_some_and(|it| is_by(it.roster(), trust::public(owner))) {
            return Ok(());
        }
        trust::disown(&self.data, self.workspace(), owner).map_err(kept)
    }
}
