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
    /// When the broker began to listen: before it nobody could give a sign.
    pub since: Timestamp,
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
    /// not have been because the broker itself just started.
    pub fn is_node_live(&self, node: &NodeId, now: Timestamp) -> bool {
        let last = self.node(node).unwrap_or(self.since);
        now.millis_since(last) < NODE_SILENT_MS_MAX
    }
}
