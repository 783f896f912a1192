//! What these commands say.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tasuki_proto::{
    id::RoleId,
    private::{NodeKey, OwnerKey, Vouched},
};

use super::session::{PrivacyStatus, Session};
use crate::private::trust;

/// What private mail costs, in one breath.
pub(super) const COSTS: &str = "\
What this costs: the broker can no longer search, show or moderate what is written, so each
machine searches what it can read, in memory and up to a limit; files cannot be attached; a node
that is approved later, or takes over a role, cannot read what was written before; whoever loses
the owner's key can approve nobody and cannot turn it off; whoever gets hold of a node's keys reads
all that was sealed for them (there is no forward secrecy). The broker still sees who writes to
whom, when, of what type and how much, and what is handed over in loops.";

pub(super) fn roles(roles: &[RoleId]) -> String {
    match roles {
        [] => "no role".to_owned(),
        roles => roles.iter().map(RoleId::as_str).collect::<Vec<_>>().join(", "),
    }
}

/// Roles as programs read them.
pub(super) fn names(roles: &[RoleId]) -> Vec<String> {
    roles.iter().map(ToString::to_string).collect()
}

pub(super) fn turned_on(session: &Session, key: &NodeKey, owner: OwnerKey) -> String {
    format!(
        "Mail in {workspace} is private from now on.\n\
         owner's key      {owner}\n\
         this node's key  {key}, as {roles}\n\n\
         On each other machine: tasuki mail private trust {owner}\n\
         Keep a copy of {file} in a safe place.\n\n{COSTS}\n",
        workspace = session.workspace(),
        owner = owner.id(),
        key = key.id(),
        roles = roles(&key.roles),
        file = trust::owner_file(&session.data).display(),
    )
}

pub(super) fn published(key: &NodeKey, owner: Option<&str>, is_approved: bool) -> String {
    let mut out = String::new();
    if let Some(owner) = owner {
        out += &format!("The owner's key {owner} is trusted on this machine.\n");
    }
    let (node, id, roles) = (&key.node, key.id(), roles(&key.roles));
    out += &format!("This node's key is {id}, as {roles}.\n");
    out += &match is_approved {
        true => "The owner approved it.\n".to_owned(),
        false => format!(
            "On the owner's machine: tasuki mail private approve {node} {id}\n\
             Until then this node uses the key before it, if it has one.\n"
        ),
    };
    out
}

pub(super) fn in_text(seen: &PrivacyStatus<'_>) -> String {
    let mut out = String::new();
    let workspace = seen.workspace;
    let line = |out: &mut String, text: String| writeln!(out, "{text}").expect("it takes all");
    match seen.roster {
        None => line(&mut out, format!("Mail in {workspace} is not private, and never was.")),
        Some(roster) => {
            let not = if roster.is_on { "" } else { "not " };
            line(
                &mut out,
                format!("Mail in {workspace} is {not}private (roster {}).", roster.number),
            );
            let here = match (seen.is_owner, seen.pin) {
                (true, _) => "this machine has it",
                (false, Some(pin)) if pin.owner == roster.owner.id() => "trusted here",
                (false, Some(_)) => "NOT the one that is trusted here",
                (false, None) => "not trusted here yet",
            };
            line(&mut out, format!("owner's key {} ({here})", roster.owner.id()));
            if let Some(pin) = seen.pin.filter(|it| it.owner == roster.owner.id())
                && roster.number < pin.number
            {
                line(&mut out, format!("OLDER than roster {}, which was seen here", pin.number));
            }
            for key in &roster.keys {
                line(&mut out, format!("  {}", of_key(key)));
            }
        }
    }
    if !seen.pending.is_empty() {
        line(
            &mut out,
            "Waiting for the owner, who compares the key with that machine's:".to_owned(),
        );
    }
    for key in seen.pending {
        let (node, id) = (&key.node, key.id());
        line(&mut out, format!("  {node}  {id}  as {}", roles(&key.roles)));
    }
    let node = seen.node.as_ref().map_or("no node yet", |node| node.as_str());
    match seen.keys.newest() {
        Some(key) => line(&mut out, format!("This machine ({node}): {}, {}", key.id(), own(seen))),
        None => line(&mut out, format!("This machine ({node}) has no key yet.")),
    }
    out
}

/// How far the newest key of this machine got.
fn own(seen: &PrivacyStatus<'_>) -> &'static str {
    let Some(key) = seen.keys.newest() else { return "none" };
    let vouched = seen.roster.and_then(|it| it.key(&key.id()));
    match vouched {
        Some(key) if key.is_in_use() => "approved",
        Some(_) => "withdrawn",
        None if seen.pending.iter().any(|it| it.id() == key.id()) => "waits for the owner",
        None => "not known to the owner; `tasuki mail private trust` makes it known",
    }
}

fn of_key(key: &Vouched) -> String {
    let now = key.roles.iter().filter(|it| it.is_now).map(|it| it.role.clone());
    let now: Vec<RoleId> = now.collect();
    let state = match key.is_in_use() {
        true => format!("as {}", roles(&now)),
        false => "withdrawn; what it wrote stays good".to_owned(),
    };
    format!("{}  {}  {state}", key.node, key.id())
}

pub(super) fn in_json(seen: &PrivacyStatus<'_>) -> Value {
    let key = |it: &Vouched| {
        let now = it.roles.iter().filter(|it| it.is_now).map(|it| it.role.clone());
        json!({
            "node": it.node.to_string(),
            "key": it.id().to_string(),
            "roles": names(&now.collect::<Vec<_>>()),
            "retired_ms": it.retired_ms,
        })
    };
    let pending = |it: &NodeKey| json!({"node": it.node.to_string(), "key": it.id().to_string(), "roles": names(&it.roles)});
    let roster = seen.roster;
    json!({
        "workspace": seen.workspace.to_string(),
        "is_on": roster.is_some_and(|it| it.is_on),
        "roster": roster.map_or(0, |it| it.number),
        "owner": roster.map(|it| it.owner.id().to_string()),
        "is_owner": seen.is_owner,
        "trusted_owner": seen.pin.map(|it| it.owner.to_string()),
        "keys": roster.map(|it| it.keys.iter().map(key).collect::<Vec<_>>()).unwrap_or_default(),
        "pending": seen.pending.iter().map(pending).collect::<Vec<_>>(),
        "node": seen.node.as_ref().map(ToString::to_string),
        "key": seen.keys.newest().map(|it| it.id().to_string()),
        "state": own(seen),
    })
}
