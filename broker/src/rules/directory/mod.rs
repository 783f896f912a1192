//! Nodes and the roles they host.
//!
//! - **D1** Epochs of a node strictly increase; only the latest may act.
//! - **D2** A role is hosted by at most one node.
//! - **D3** A node is its token's: while that one is good, no other acts or registers as it.
//!
//! Not here: whether anybody is there (see [`super::presence`]).

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{Epoch, NodeId, PersonId, RoleId, Timestamp, TokenId, Toolset},
    limits::ROLE_HUMAN,
};

use super::{
    Acting, Asked, Caller, Context, Decision, Fence, Kept, Needs, Principal, Rejection,
    privacy::Privacy,
};

/// Nodes of one workspace. Past it the oldest that is away and hosts no role is forgotten.
pub const NODES_MAX: usize = 4096;

/// Nodes of one token, a 64th of all: a token is one machine's, which may run a node in each of
/// many directories. Past it the token's own oldest that is away and hosts no role is forgotten.
pub const NODES_PER_TOKEN_MAX: usize = 64;

/// Roles that the nodes of one workspace host: at 2 KiB at most, 500 MB of the broker's memory. The
/// nodes of one token host a quarter at most.
pub const HOSTED_ROLES_MAX: usize = 256 * 1024;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directory {
    pub nodes: BTreeMap<NodeId, Node>,
    /// Which node hosts a role (D2).
    hosts: BTreeMap<RoleId, NodeId>,
    /// The highest epoch of the nodes forgotten. New ones begin above it, so that no epoch of
    /// theirs comes back (D1).
    pub forgotten: Epoch,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Node {
    #[n(0)]
    pub epoch: Epoch,
    #[n(1)]
    pub roles: Vec<RoleSpec>,
    #[n(2)]
    pub software: String,
    #[n(3)]
    pub registered: Timestamp,
    /// Whose node it is; `None` where the broker asked for no token.
    #[n(4)]
    pub token: Option<TokenId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct RoleSpec {
    #[n(0)]
    pub role: RoleId,
    #[n(1)]
    pub toolsets: Vec<Toolset>,
    /// It takes part in the loop `main` only where fewer than two other roles do; `None`: it does
    /// anyway.
    #[n(2)]
    pub is_standby: Option<bool>,
}

/// What a snapshot holds.
#[derive(Debug, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotItem<'a> {
    #[n(0)]
    Forgotten(#[n(0)] Epoch),
    #[n(1)]
    Node(#[n(0)] Cow<'a, NodeId>, #[n(1)] Cow<'a, Node>),
}

impl Kept for Directory {
    type Item<'a> = SnapshotItem<'a>;

    fn items(&self) -> impl Iterator<Item = SnapshotItem<'_>> {
        let nodes = self
            .nodes
            .iter()
            .map(|(id, it)| SnapshotItem::Node(Cow::Borrowed(id), Cow::Borrowed(it)));
        std::iter::once(SnapshotItem::Forgotten(self.forgotten)).chain(nodes)
    }

    fn restore(&mut self, item: SnapshotItem<'_>) -> Result<(), &'static str> {
        match item {
            SnapshotItem::Forgotten(epoch) => self.forgotten = epoch,
            SnapshotItem::Node(id, it) => {
                let (id, it) = (id.into_owned(), it.into_owned());
                for spec in &it.roles {
                    if self.hosts.insert(spec.role.clone(), id.clone()).is_some_and(|of| of != id) {
                        return Err("a role is hosted by two nodes");
                    }
                }
                self.nodes.insert(id, it);
            }
        }
        Ok(())
    }
}

impl RoleSpec {
    /// Whether the role takes turns. Nothing said means the default sets, which have it.
    pub fn has_loop(&self) -> bool {
        self.toolsets.is_empty() || self.toolsets.iter().any(|set| set.as_str() == "loop")
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Register(Register),
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
            Self::Register(it) => Needs::roles(it.roles.iter().map(|spec| &spec.role)),
        }
    }

    fn check_words(&self, _: &Privacy) -> Result<(), Rejection> {
        Ok(())
    }

    fn is_for_paused(&self) -> bool {
        true
    }
}

/// Begin a new epoch of a node, with exactly these roles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Register {
    pub node: NodeId,
    pub roles: Vec<RoleSpec>,
    pub take_over: bool,
    pub software: String,
    /// A token that is no longer good: its node may become another's.
    pub orphan_of: Option<TokenId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    #[n(0)]
    NodeRegistered(#[n(0)] NodeRegistered),
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Reply {
    #[n(0)]
    Registered {
        #[n(0)]
        epoch: Epoch,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct NodeRegistered {
    #[n(0)]
    pub node: NodeId,
    #[n(1)]
    pub epoch: Epoch,
    #[n(2)]
    pub roles: Vec<RoleSpec>,
    #[n(3)]
    pub software: String,
    #[n(4)]
    pub token: Option<TokenId>,
    /// The node that was forgotten to make room.
    #[n(5)]
    pub replaces: Option<NodeId>,
}

impl Directory {
    /// Who hosts a role.
    pub fn host(&self, role: &RoleId) -> Option<&NodeId> {
        self.hosts.get(role)
    }

    /// A role as whoever hosts it registered it.
    pub fn spec(&self, role: &RoleId) -> Option<&RoleSpec> {
        self.nodes.get(self.host(role)?)?.roles.iter().find(|spec| spec.role == *role)
    }

    /// Whether this connection may act, and as this role (D1, D3).
    pub fn check(&self, caller: &Caller, role: Option<&RoleId>) -> Result<(), Rejection> {
        let Some((id, epoch)) = &caller.node else { return Ok(()) };
        let found = self.nodes.get(id);
        if let (Some(token), Some(owner)) = (&caller.token, found.and_then(|it| it.token.as_ref()))
            && token != owner
        {
            return Err(Rejection::NodeForbidden { node: id.clone(), owner: owner.clone() });
        }
        if found.is_none_or(|node| node.epoch != *epoch) {
            let current = found.map_or(Epoch::NONE, |node| node.epoch);
            return Err(Rejection::StaleEpoch { node: id.clone(), presented: *epoch, current });
        }
        if let Some(role) = role
            && self.host(role) != Some(id)
        {
            return Err(Rejection::RoleForbidden { node: id.clone(), role: role.clone() });
        }
        Ok(())
    }

    pub(super) fn decide(
        &self,
        Asked { now, context, caller, workspace }: Asked<'_>,
        command: &Command,
    ) -> Result<Decision, Rejection> {
        let Command::Register(register) = command;
        if let Some(owner) = self.nodes.get(&register.node).and_then(|node| node.token.as_ref())
            && let Some(token) = &caller.token
            && token != owner
            && register.orphan_of.as_ref() != Some(owner)
        {
            return Err(Rejection::NodeForbidden {
                node: register.node.clone(),
                owner: owner.clone(),
            });
        }
        // Nor may an agent's role look like it.
        if register.roles.iter().any(|it| it.role.as_str().eq_ignore_ascii_case(ROLE_HUMAN)) {
            return Err(Rejection::RoleOfPerson);
        }
        for spec in &register.roles {
            if let Some(host) = self.host(&spec.role)
                && *host != register.node
                && context.presence.is_node_live(host, now)
                && !register.take_over
            {
                return Err(Rejection::RoleInUse { role: spec.role.clone(), node: host.clone() });
            }
        }
        let earlier = self.nodes.get(&register.node);
        let new = register.roles.iter().filter(|spec| self.host(&spec.role).is_none()).count();
        if 0 < new && HOSTED_ROLES_MAX < self.hosts.len() + new {
            let stay: BTreeSet<_> = register.roles.iter().map(|spec| &spec.role).collect();
            let own = earlier.iter().flat_map(|node| &node.roles);
            let given = own.filter(|spec| !stay.contains(&spec.role)).count();
            if HOSTED_ROLES_MAX + given < self.hosts.len() + new {
                return Err(Rejection::TooManyHostedRoles);
            }
        }
        let replaces = match earlier {
            Some(_) => None,
            None => self.room(now, context, caller.token.as_ref())?.cloned(),
        };
        let gone = replaces.as_ref().map_or(Epoch::NONE, |gone| self.nodes[gone].epoch);
        let before = earlier.map_or_else(|| self.forgotten.max(gone), |node| node.epoch);
        let epoch = before.next();
        let registered = NodeRegistered {
            node: register.node.clone(),
            epoch,
            roles: register.roles.clone(),
            software: register.software.clone(),
            token: caller.token.clone(),
            replaces,
        };
        let registered = Event::NodeRegistered(registered);
        let mut decision = Decision::new([registered], Reply::Registered { epoch });
        let seats = workspace.loops.decide_seats(self, register);
        decision.events.extend(seats.map(Into::into));
        let lost = workspace.runs.decide_fenced(now, context, &register.node);
        decision.events.extend(lost.into_iter().map(Into::into));
        let (node, roles) = (&register.node, &register.roles);
        let lost = workspace.pipelines.decide_fenced(now, workspace, node, roles);
        decision.events.extend(lost);
        Ok(decision)
    }

    /// The node to forget so that there is room for a new one; `None` where there is room.
    fn room(
        &self,
        now: Timestamp,
        context: &Context,
        token: Option<&TokenId>,
    ) -> Result<Option<&NodeId>, Rejection> {
        let is_own = |node: &Node| token.is_some() && node.token.as_ref() == token;
        let oldest_away = |may_go: &dyn Fn(&Node) -> bool| {
            let away = self.nodes.iter().filter(|(id, node)| {
                may_go(node) && node.roles.is_empty() && !context.presence.is_node_live(id, now)
            });
            away.min_by_key(|(id, node)| (node.registered, *id)).map(|(id, _)| id)
        };
        if let Some(token) = token
            && NODES_PER_TOKEN_MAX <= self.nodes.values().filter(|node| is_own(node)).count()
        {
            let full = || Rejection::TooManyNodesOfToken { token: token.clone() };
            return oldest_away(&is_own).map(Some).ok_or_else(full);
        }
        if NODES_MAX <= self.nodes.len() {
            return oldest_away(&|_| true).map(Some).ok_or(Rejection::TooManyNodes);
        }
        Ok(None)
    }

    /// Every node has to register again (D1).
    pub(super) fn fence(&mut self, fence: Fence) {
        let above = |epoch: Epoch| Epoch::from(fence.above(epoch.get()));
        self.forgotten = above(self.forgotten);
        for node in self.nodes.values_mut() {
            node.epoch = above(node.epoch);
        }
    }

    pub(super) fn apply(&mut self, now: Timestamp, _: &Principal, event: &Event) {
        let Event::NodeRegistered(it) = event;
        if let Some(gone) = it.replaces.as_ref().and_then(|gone| self.remove(gone)) {
            self.forgotten = self.forgotten.max(gone.epoch);
        }
        let earlier = self.remove(&it.node);
        let hosts = &mut self.hosts;
        let taken =
            it.roles.iter().filter_map(|new| hosts.insert(new.role.clone(), it.node.clone()));
        let losers: BTreeSet<NodeId> = taken.collect();
        for loser in losers.iter().filter(|id| **id != it.node) {
            let node = self.nodes.get_mut(loser).expect("D2: a host is a node");
            node.roles.retain(|spec| hosts.get(&spec.role) == Some(loser));
        }
        let node = Node {
            epoch: it.epoch,
            roles: it.roles.clone(),
            software: it.software.clone(),
            registered: now,
            token: it.token.clone(),
        };
        self.nodes.insert(it.node.clone(), node);
        let earlier = earlier.map_or(self.forgotten, |node| node.epoch);
        assert!(earlier < it.epoch, "D1: epoch {} of {} after {earlier}", it.epoch, it.node);
    }

    fn remove(&mut self, node: &NodeId) -> Option<Node> {
        let gone = self.nodes.remove(node)?;
        for spec in &gone.roles {
            self.hosts.remove(&spec.role);
        }
        Some(gone)
    }
}
