//! `Directory`: nodes, roles, presence.

use std::collections::BTreeMap;

use tasuki_proto::{
    id::{NodeId, RoleId},
    limits::{LEASE_MS, ROLES_MAX, TOOLSETS_MAX},
    wire::{self, directory_server::Directory},
};
use tonic::{Request, Response, Status};

use super::{Service, parse, render, session::Admitted, status};
use crate::{
    rules::{
        Command, Reply,
        directory::{self, Register, RoleSpec},
    },
    workspace::{Executed, Question, View},
};

/// How often a node of this workspace has to say who is there, in milliseconds.
fn sign_every_ms(view: &View<'_>) -> u64 {
    view.workspace.swarm.settings.sign_every_ms()
}

#[tonic::async_trait]
impl Directory for Service {
    async fn register(
        &self,
        request: Request<wire::RegisterRequest>,
    ) -> Result<Response<wire::RegisterResponse>, Status> {
        let (admitted, mut it) = Admitted::open(request)?;
        // A node that registers has no epoch yet.
        let workspace = it.caller.take().map(|it| it.workspace).unwrap_or_default();
        let caller = wire::Caller { workspace, ..wire::Caller::default() };
        let session = self.services.enter_any(&admitted, Some(&caller))?;
        let key = session.key(it.key.take(), &it)?;
        if ROLES_MAX < it.roles.len() {
            let why = format!("has {} entries; at most {ROLES_MAX}", it.roles.len());
            return Err(status::invalid("roles", &why));
        }
        let mut roles: Vec<RoleSpec> = Vec::with_capacity(it.roles.len());
        for spec in &it.roles {
            let spec = role_spec(spec)?;
            if roles.iter().any(|other| other.role == spec.role) {
                return Err(status::invalid("roles", &format!("names {} twice", spec.role)));
            }
            roles.push(spec);
        }
        let node: NodeId = parse::id("node", &it.node)?;
        let register = Register {
            orphan_of: session.orphan_of(&node).await?,
            node,
            roles,
            take_over: it.take_over,
            software: parse::label("software", &it.software)?,
        };
        let command = Command::Directory(directory::Command::Register(register));
        let Executed { reply, sequence, .. } = session.execute(Some(key), command).await?;
        let Reply::Directory(directory::Reply::Registered { epoch }) = reply else {
            unreachable!("a node is registered or refused")
        };
        let heartbeat_ms = session.look(sign_every_ms).await?;
        Ok(Response::new(wire::RegisterResponse {
            epoch: epoch.get(),
            heartbeat_ms,
            sequence: sequence.get(),
        }))
    }

    async fn heartbeat(
        &self,
        request: Request<wire::HeartbeatRequest>,
    ) -> Result<Response<wire::HeartbeatResponse>, Status> {
        let (session, it) = self.services.enter(request, |it| it.caller.take())?;
        if ROLES_MAX < it.roles.len() {
            let why = format!("has {} entries; at most {ROLES_MAX}", it.roles.len());
            return Err(status::invalid("roles", &why));
        }
        let mut signs = Vec::with_capacity(it.roles.len());
        for role in &it.roles {
            let client = parse::label("client", &role.client)?;
            signs.push((parse::id("role", &role.role)?, role.quiet_ms, client));
        }
        let Some(node) = session.node().cloned() else {
            return Err(status::invalid("caller.node", &"is missing: only a node has a heartbeat"));
        };
        session.seen(node, signs).await?;
        let look = |view: &View<'_>| (view.now.as_millis(), sign_every_ms(view));
        let (now_ms, heartbeat_ms) = session.look(look).await?;
        Ok(Response::new(wire::HeartbeatResponse { now_ms, heartbeat_ms }))
    }

    async fn list_roles(
        &self,
        request: Request<wire::ListRolesRequest>,
    ) -> Result<Response<wire::ListRolesResponse>, Status> {
        let (session, _) = self.services.enter(request, |it| it.caller.take())?;
        let roles = session.look(roles).await?;
        Ok(Response::new(wire::ListRolesResponse { roles }))
    }

    async fn list_nodes(
        &self,
        request: Request<wire::ListNodesRequest>,
    ) -> Result<Response<wire::ListNodesResponse>, Status> {
        let (session, _) = self.services.enter(request, |it| it.caller.take())?;
        let nodes = session.look(|view| {
            let nodes = view.workspace.directory.nodes.iter();
            nodes.map(|(id, it)| (it.token.clone(), node(id, it, view))).collect::<Vec<_>>()
        });
        // One whose token is over is shut out, however lately it was heard of.
        let seen = nodes.await?.into_iter().map(|(token, node)| wire::Node {
            is_present: node.is_present && token.is_none_or(|token| session.is_good(&token)),
            ..node
        });
        let nodes = seen.collect();
        Ok(Response::new(wire::ListNodesResponse { nodes }))
    }
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
    if TOOLSETS_MAX < spec.toolsets.len() {
        let why = format!("has {} entries; at most {TOOLSETS_MAX}", spec.toolsets.len());
        return Err(status::invalid("toolsets", &why));
    }
    let toolsets = spec.toolsets.iter().map(|set| parse::id("toolset", set));
    Ok(RoleSpec {
        role: parse::id("role", &spec.role)?,
        toolsets: toolsets.collect::<Result<_, _>>()?,
    })
}

/// Roles that a node hosts and those that take part in a loop, by name.
fn roles(view: &View<'_>) -> Vec<wire::Role> {
    let mut roles: BTreeMap<&RoleId, wire::Role> = BTreeMap::new();
    for (id, node) in &view.workspace.directory.nodes {
        for spec in &node.roles {
            let it = wire::Role {
                role: spec.role.to_string(),
                node: id.to_string(),
                toolsets: spec.toolsets.iter().map(ToString::to_string).collect(),
                ..wire::Role::default()
            };
            roles.insert(&spec.role, it);
        }
    }
    for role in view.workspace.loops.by_id.values().flat_map(|state| &state.participants) {
        let unhosted = || wire::Role { role: role.to_string(), ..wire::Role::default() };
        roles.entry(role).or_insert_with(unhosted);
    }
    for question in view.waits.questions() {
        if let Some(it) = roles.get_mut(question.role()) {
            it.waits.push(match question {
                Question::Turn { loop_id, .. } => format!("turn of {loop_id}"),
                Question::Mail { .. } => "mail".to_owned(),
                Question::Swarm { what, .. } => what.to_string(),
            });
        }
    }
    for (role, it) in &mut roles {
        if let Some(sign) = view.context.presence.role(role) {
            it.last_seen_ms = sign.at.as_millis();
            it.client.clone_from(&sign.client);
            it.is_present = view.now.millis_since(sign.at) < LEASE_MS;
        }
        it.is_present |= !it.waits.is_empty();
    }
    roles.into_values().collect()
}
