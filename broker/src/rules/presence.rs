//! Who gave a sign of life, and when.
//!
//! Soft state: it is not in the journal, and after a restart it is empty. Rules that depend on
//! it journal what they made of it (a lapse, a renewal), so replay does not.

use std::collections::BTreeMap;

use tasuki_proto::{
    id::{NodeId, RoleId, Timestamp},
    limits::NODE_SILENT_MS_MAX,
};

#[derive(Debug, Clone)]
pub struct Presence {
    /// Since when the broker listens without a break: it started then, or went on after it stood
    /// still. Before it nobody could give a sign.
    since: Timestamp,
    roles: BTreeMap<RoleId, Sign>,
    nodes: BTreeMap<NodeId, Timestamp>,
}

/// The latest sign of a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sign {
    pub at: Timestamp,
    /// The program playing the role, for people.
    pub client: String,
}

impl Presence {
    pub fn new(since: Timestamp) -> Self {
        Self { since, roles: BTreeMap::new(), nodes: BTreeMap::new() }
    }

    /// The broker did not listen just before this.
    pub fn listens_since(&mut self, at: Timestamp) {
        self.since = self.since.max(at);
    }

    /// Until when what is held goes on that ran out by `lapses`, if its holder may be there and
    /// could not say so: one lease from when the broker began to listen.
    pub fn grace(&self, lapses: Timestamp, length_ms: u64) -> Option<Timestamp> {
        // A node that is there may take as long to come back as one that is gone is silent.
        let is_unheard = lapses < self.since.plus_millis(NODE_SILENT_MS_MAX);
        is_unheard.then_some(self.since.plus_millis(length_ms))
    }

    pub fn role_seen(&mut self, role: &RoleId, at: Timestamp, client: Option<&str>) {
        match self.roles.get_mut(role) {
            Some(sign) => {
                sign.at = sign.at.max(at);
                if let Some(client) = client
                    && !client.is_empty()
                {
                    client.clone_into(&mut sign.client);
                }
            }
            None => {
                let client = client.unwrap_or_default().to_owned();
                self.roles.insert(role.clone(), Sign { at, client });
            }
        }
    }

    pub fn node_seen(&mut self, node: &NodeId, at: Timestamp) {
        self.nodes.insert(node.clone(), at);
    }

    pub fn role(&self, role: &RoleId) -> Option<&Sign> {
        self.roles.get(role)
    }

    pub fn node(&self, node: &NodeId) -> Option<Timestamp> {
        self.nodes.get(node).copied()
    }

    /// Whether a registered node is to be taken for alive: it was heard of lately, or it could
    /// not have been because the broker itself began to listen just now.
    pub fn is_node_live(&self, node: &NodeId, now: Timestamp) -> bool {
        let last = self.node(node).map_or(self.since, |at| at.max(self.since));
        now.millis_since(last) < NODE_SILENT_MS_MAX
    }
}
