//! Nodes and the roles they host.
//!
//! - **D1** Epochs of a node strictly increase; only the latest may act.
//! - **D2** A role is hosted by at most one node.
//!
//! Not here: whether anybody is there (see [`super::presence`]).

use std::collections::BTreeMap;

use tasuki_proto::id::{Epoch, NodeId, RoleId, Timestamp, Toolset};

use super::{Caller, Context, Decision, Event, Rejection, Reply};

/// Nodes of one workspace. Each stays in memory, since its epoch must never begin anew.
pub const NODES_MAX: usize = 4096;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directory {
    pub nodes: BTreeMap<NodeId, Node>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub epoch: Epoch,
    pub roles: Vec<RoleSpec>,
    pub software: String,
    pub registered: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleSpec {
    pub role: RoleId,
    pub toolsets: Vec<Toolset>,
}

impl RoleSpec {
    /// Whether the role takes turns. Nothing said means the default sets, which have it.
    pub fn has_loop(&self) -> bool {
        self.toolsets.is_empty() || self.toolsets.iter().any(|set| set.as_str() == "loop")
    }
}

/// Begin a new epoch of a node, with exactly these roles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Register {
    pub node: NodeId,
    pub roles: Vec<RoleSpec>,
    pub take_over: bool,
    pub software: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRegistered {
    pub node: NodeId,
    pub epoch: Epoch,
    pub roles: Vec<RoleSpec>,
    pub software: String,
}

impl Directory {
    /// Who hosts a role.
    pub fn host(&self, role: &RoleId) -> Option<&NodeId> {
        self.nodes
            .iter()
            .find(|(_, node)| node.roles.iter().any(|spec| spec.role == *role))
            .map(|(id, _)| id)
    }

    /// Whether this connection may act, and as this role (D1).
    pub fn check(&self, caller: &Caller, role: Option<&RoleId>) -> Result<(), Rejection> {
        let Some((id, epoch)) = &caller.node else { return Ok(()) };
        let current = self.nodes.get(id).map_or(Epoch::NONE, |node| node.epoch);
        let Some(node) = self.nodes.get(id).filter(|_| *epoch == current) else {
            return Err(Rejection::StaleEpoch { node: id.clone(), presented: *epoch, current });
        };
        if let Some(role) = role
            && !node.roles.iter().any(|spec| spec.role == *role)
        {
            return Err(Rejection::RoleForbidden { node: id.clone(), role: role.clone() });
        }
        Ok(())
    }

    pub(super) fn decide(
        &self,
        now: Timestamp,
        context: &Context,
        register: &Register,
    ) -> Result<Decision, Rejection> {
        for spec in &register.roles {
            if let Some(host) = self.host(&spec.role)
                && *host != register.node
                && context.presence.is_node_live(host, now)
                && !register.take_over
            {
                return Err(Rejection::RoleInUse { role: spec.role.clone(), node: host.clone() });
            }
        }
        if !self.nodes.contains_key(&register.node) && NODES_MAX <= self.nodes.len() {
            return Err(Rejection::TooManyNodes);
        }
        let epoch = self.nodes.get(&register.node).map_or(Epoch::NONE, |node| node.epoch).next();
        let registered = NodeRegistered {
            node: register.node.clone(),
            epoch,
            roles: register.roles.clone(),
            software: register.software.clone(),
        };
        Ok(Decision::new(vec![Event::NodeRegistered(registered)], Reply::Registered { epoch }))
    }

    pub(super) fn apply(&mut self, now: Timestamp, it: &NodeRegistered) {
        for node in self.nodes.values_mut() {
            node.roles.retain(|spec| !it.roles.iter().any(|new| new.role == spec.role));
        }
        let node = Node {
            epoch: it.epoch,
            roles: it.roles.clone(),
            software: it.software.clone(),
            registered: now,
        };
        let earlier = self.nodes.insert(it.node.clone(), node);
        let earlier = earlier.map_or(Epoch::NONE, |node| node.epoch);
        assert!(earlier < it.epoch, "D1: epoch {} of {} after {earlier}", it.epoch, it.node);
    }
}
