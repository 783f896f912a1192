//! `Directory`: nodes, roles, presence.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use tasuki_proto::{
    id::{NodeId, RoleId, Timestamp, TokenId},
    limits::{ID_BYTES_MAX, LABEL_BYTES_MAX, LEASE_MS, ROLES_MAX, TOOLSETS_MAX},
    wire::{self, directory_event::Kind},
};
use tonic::Status;

use super::{
    Answer, Endpoint, WorkspaceSession, at_once,
    parse::{self, check_count},
    render::{self, fitting},
    status,
};
use crate::{
    rules::{
        Reply,
        directory::{self, Register, RoleSpec},
        presence::{RoleReport, Sign},
    },
    workspace::{Question, View},
};

/// A role of a registration, in bytes: its name and those of its toolsets, and a few besides.
const ROLE_SPEC_BYTES_MAX: usize = (1 + TOOLSETS_MAX) * (ID_BYTES_MAX + 2) + 16;

/// What a heartbeat says of a role, in bytes: its name, who plays it, and some numbers.
const ROLE_PRESENCE_BYTES_MAX: usize = ID_BYTES_MAX + 2 * LABEL_BYTES_MAX + 48;

impl Endpoint for wire::RegisterRequest {
    const MAKES_WORKSPACE: bool = true;
    const LISTS_BYTES_MAX: usize = ROLES_MAX * ROLE_SPEC_BYTES_MAX;

    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        check_count("roles", self.roles.len(), 0..=ROLES_MAX)?;
        let mut roles: Vec<RoleSpec> = Vec::with_capacity(self.roles.len());
        let mut names = BTreeSet::new();
        for spec in &self.roles {
            let spec = role_spec(spec)?;
            if !names.insert(spec.role.clone()) {
                return Err(status::invalid("roles", &format!("names {} twice", spec.role)));
            }
            roles.push(spec);
        }
        let node: NodeId = parse::id("node", &self.node)?;
        let register = Register {
            orphan_of: orphan_of(session, &node).await?,
            node,
            roles,
            take_over: self.take_over,
            software: parse::label("software", &self.software)?,
        };
        let render = |view: &View<'_>, reply: Reply| {
            let Reply::Directory(directory::Reply::Registered { epoch }) = reply else {
                unreachable!("a node is registered or refused")
            };
            let (epoch, heartbeat_ms) = (epoch.get(), heartbeat_ms(view));
            Ok(at_once(wire::RegisterResponse { epoch, heartbeat_ms, ..Default::default() }))
        };
        session.execute(directory::Command::Register(register), render).await
    }
}

impl Endpoint for wire::HeartbeatRequest {
    const LISTS_BYTES_MAX: usize = ROLES_MAX * ROLE_PRESENCE_BYTES_MAX;

    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        check_count("roles", self.roles.len(), 0..=ROLES_MAX)?;
        let mut signs = Vec::with_capacity(self.roles.len());
        for it in &self.roles {
            let told = RoleReport {
                quiet_ms: it.quiet_ms,
                client: parse::label("client", &it.client)?,
                instance: parse::label("instance", &it.instance)?,
                playing_ms: it.playing_ms,
                has_left: it.has_left,
            };
            signs.push((parse::id("role", &it.role)?, told));
        }
        let Some(node) = session.node().cloned() else {
            return Err(status::invalid("caller.node", &"is missing: only a node has a heartbeat"));
        };
        let render = |view: &View<'_>| {
            let heartbeat_ms = heartbeat_ms(view);
            wire::HeartbeatResponse { heartbeat_ms, ..Default::default() }
        };
        session.seen(node, signs, render).await
    }
}

impl Endpoint for wire::ListRolesRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let after: Option<RoleId> = parse::optional("after", &self.after)?;
        session.query(None, move |view| Ok(roles(view, after.as_ref()))).await
    }
}

impl Endpoint for wire::ListNodesRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let after: Option<NodeId> = parse::optional("after", &self.after)?;
        let seen = session.query(None, move |view| {
            let after = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let all = view.workspace.directory.nodes.range((after, Bound::Unbounded));
            let tokens = all.clone().map(|(_, it)| it.token.clone());
            let (nodes, has_more) = fitting(all.map(|(id, it)| node(id, it, view)));
            Ok((nodes.into_iter().zip(tokens).collect::<Vec<_>>(), has_more))
        });
        let (seen, has_more) = seen.await?;
        // One whose token is over is shut out, however lately it was heard of.
        let nodes = seen.into_iter().map(|(node, token)| wire::Node {
            is_present: node.is_present && token.is_none_or(|token| session.is_good(&token)),
            ..node
        });
        let nodes: Vec<wire::Node> = nodes.collect();
        let last = nodes.last().filter(|_| has_more);
        let next = last.map(|it| it.node.clone()).unwrap_or_default();
        let software = concat!("tasuki-broker ", env!("CARGO_PKG_VERSION")).to_owned();
        Ok(wire::ListNodesResponse { nodes, software, next })
    }
}

/// How often a node of this workspace has to say who is there, in milliseconds.
fn heartbeat_ms(view: &View<'_>) -> u64 {
    view.workspace.swarm.settings.sign_every_ms()
}

/// Of a node that wants to register: the token it was registered with, if that one is no longer
/// good.
async fn orphan_of(session: &WorkspaceSession, node: &NodeId) -> Result<Option<TokenId>, Status> {
    if session.caller.token.is_none() {
        return Ok(None);
    }
    let node = node.clone();
    let owner = session.query(None, move |view| {
        Ok(view.workspace.directory.nodes.get(&node).and_then(|it| it.token.clone()))
    });
    Ok(owner.await?.filter(|owner| !session.is_good(owner)))
}

fn node(id: &NodeId, it: &directory::Node, view: &View<'_>) -> wire::Node {
    let seen = view.context.presence.node(id);
    let is_live = view.context.presence.is_node_live(id, view.now);
    wire::Node {
        node: id.to_string(),
        epoch: it.epoch.get(),
        roles: it.roles.iter().map(|spec| spec.role.to_string()).collect(),
        is_present: seen.is_some() && is_live,
        last_seen_ms: render::ms(seen),
        software: it.software.clone(),
        registered_ms: it.registered.as_millis(),
        token: render::text(it.token.as_ref()),
    }
}

fn role_spec(spec: &wire::RoleSpec) -> Result<RoleSpec, Status> {
    check_count("toolsets", spec.toolsets.len(), 0..=TOOLSETS_MAX)?;
    let toolsets = spec.toolsets.iter().map(|set| parse::id("toolset", set));
    Ok(RoleSpec {
        role: parse::id("role", &spec.role)?,
        toolsets: toolsets.collect::<Result<_, _>>()?,
        is_standby: spec.is_standby.then_some(true),
    })
}

/// What the feed tells of a registration.
pub(super) fn event(event: &directory::Event) -> Kind {
    let directory::Event::NodeRegistered(it) = event;
    let role_spec = |it: &RoleSpec| wire::RoleSpec {
        role: it.role.to_string(),
        toolsets: it.toolsets.iter().map(ToString::to_string).collect(),
        is_standby: it.is_standby.unwrap_or_default(),
    };
    Kind::NodeRegistered(wire::NodeRegistered {
        node: it.node.to_string(),
        epoch: it.epoch.get(),
        roles: it.roles.iter().map(role_spec).collect(),
        software: it.software.clone(),
    })
}

/// Roles that a node hosts and those that take part in a loop, by name: a page of those behind
/// `after`.
fn roles(view: &View<'_>, after: Option<&RoleId>) -> wire::ListRolesResponse {
    let is_behind = |role: &RoleId| after.is_none_or(|after| after < role);
    let mut roles: BTreeMap<&RoleId, Option<(&NodeId, &RoleSpec)>> = BTreeMap::new();
    for (id, node) in &view.workspace.directory.nodes {
        for spec in node.roles.iter().filter(|spec| is_behind(&spec.role)) {
            roles.insert(&spec.role, Some((id, spec)));
        }
    }
    for role in view.workspace.loops.by_id.values().flat_map(|state| &state.participants) {
        if is_behind(role) {
            roles.entry(role).or_default();
        }
    }
    let mut waits: BTreeMap<&RoleId, Vec<(&Question, Timestamp)>> = BTreeMap::new();
    for (question, since) in view.waits.asked() {
        if let Some(role) = question.role().filter(|role| is_behind(role)) {
            waits.entry(role).or_default().push((question, since));
        }
    }
    let rendered = roles.into_iter().map(|(id, host)| {
        let waits = waits.get(id).map(Vec::as_slice).unwrap_or_default();
        role(view, id, host, waits)
    });
    let (roles, has_more) = fitting(rendered);
    let last = roles.last().filter(|_| has_more);
    let next = last.map(|it| it.role.clone()).unwrap_or_default();
    wire::ListRolesResponse { roles, next }
}

/// A role with the node that hosts it and the questions that it waits for.
fn role(
    view: &View<'_>,
    id: &RoleId,
    host: Option<(&NodeId, &RoleSpec)>,
    waits: &[(&Question, Timestamp)],
) -> wire::Role {
    let sign = view.context.presence.last_sign(id);
    let is_there = |sign: &Sign| !sign.player.has_left && view.now.millis_since(sign.at) < LEASE_MS;
    let is_present = sign.is_some_and(is_there);
    let player = sign.map(|sign| sign.player.clone()).unwrap_or_default();
    let what = |(question, _): &(&Question, Timestamp)| match question {
        Question::Turn { loop_id, .. } => format!("turn of {loop_id}"),
        Question::Mail { .. } => "mail".to_owned(),
        Question::Swarm { what, .. } => what.to_string(),
        Question::Board(it) => format!("board {}", it.board),
        Question::Run(it) => it.to_string(),
    };
    let mut shown = wire::Role {
        role: id.to_string(),
        is_present: is_present || !waits.is_empty(),
        last_seen_ms: sign.map_or(0, |sign| sign.at.as_millis()),
        client: player.client,
        instance: player.instance,
        since_ms: player.since.as_millis(),
        has_left: player.has_left && waits.is_empty(),
        waits: waits.iter().map(what).collect(),
        waits_since_ms: waits.iter().map(|(_, since)| since.as_millis()).collect(),
        ..wire::Role::default()
    };
    if let Some((node, spec)) = host {
        shown.node = node.to_string();
        shown.toolsets = spec.toolsets.iter().map(ToString::to_string).collect();
    }
    shown
}
