//! Which agent plays each role of this node: a shell around [`Players`].
//!
//! Kept in memory: a node that was started again gives a role to the first agent that acts. The
//! broker sees to it that a role has one node.
//!
//! - **IN1** A wait of an agent that lost its role ends at once.
//! - **IN2** An agent that does not play a role learns that before anything of its call happens.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tasuki_proto::{id::RoleId, reason::Reason};
use tokio_util::sync::CancellationToken;

use crate::{
    clock::Clock,
    role::{
        Refusal,
        player::{Candidate, Ended, InUse, Instance, Players},
    },
};

#[derive(Debug, Default)]
pub(super) struct Instances {
    /// Roles that several agents may play at once are not among them.
    roles: BTreeMap<RoleId, Mutex<Role>>,
    clock: Clock,
}

#[derive(Debug, Default)]
struct Role {
    players: Players,
    /// Cancelled when the agent that plays the role loses it.
    lost: CancellationToken,
}

impl Instances {
    pub(super) fn new<'a>(
        roles: impl Iterator<Item = &'a RoleId>,
        shared: &BTreeSet<RoleId>,
        clock: Clock,
    ) -> Self {
        let alone = roles.filter(|role| !shared.contains(*role));
        Self { roles: alone.map(|role| (role.clone(), Mutex::default())).collect(), clock }
    }

    /// Whether several agents may play `role` at once.
    pub(super) fn is_shared(&self, role: &RoleId) -> bool {
        !self.roles.contains_key(role)
    }

    /// `who` acts as `role`, or waits as it, until the result is dropped.
    pub(super) fn enter(
        self: &Arc<Self>,
        role: &RoleId,
        who: &Instance,
        client: &str,
    ) -> Result<Playing, Refusal> {
        let Some(mut it) = self.role(role) else {
            return Ok(Playing { lost: CancellationToken::new(), _open: None });
        };
        match it.players.enter(self.clock.now(), who, client) {
            Ok(false) => {}
            Ok(true) => {
                tracing::info!(%role, %who, client, "an agent plays a role");
                it.lost = CancellationToken::new();
            }
            Err(in_use) => return Err(refusal(role, who, &in_use)),
        }
        let lost = it.lost.clone();
        drop(it);
        Ok(Playing { lost, _open: Some(self.open([role], who, Ended::Call)) })
    }

    /// `who` looks at what concerns `role`. Whether that is a sign that somebody plays it.
    pub(super) fn looked(&self, role: &RoleId, who: &Instance, client: &str) -> bool {
        self.role(role).is_none_or(|mut it| it.players.looked(self.clock.now(), who, client))
    }

    /// Something that `who` has for `roles` is open until the result is dropped.
    pub(super) fn open<'a>(
        self: &Arc<Self>,
        roles: impl IntoIterator<Item = &'a RoleId>,
        who: &Instance,
        what: Ended,
    ) -> Open {
        let mut of = Vec::new();
        for role in roles {
            if let Some(mut it) = self.role(role) {
                it.players.opened(who);
                of.push(role.clone());
            }
        }
        Open { instances: Arc::clone(self), roles: of, who: who.clone(), what }
    }

    /// A session or connection of `who` was closed by its client. The roles that it played, or
    /// may have played beside others.
    pub(super) fn left<'a>(
        &self,
        roles: impl IntoIterator<Item = &'a RoleId>,
        who: &Instance,
    ) -> Vec<&'a RoleId> {
        let now = self.clock.now();
        let ended = |role: &&RoleId| {
            let it = self.role(role);
            it.is_none_or(|mut it| it.players.ended(now, who, Ended::Connection))
        };
        roles.into_iter().filter(ended).collect()
    }

    /// A person gives `role` to `who`. Whoever lost it by that; `Err`: several may play it.
    pub(super) fn take_over(&self, role: &RoleId, who: &Instance) -> Result<Option<InUse>, Shared> {
        let mut it = self.role(role).ok_or(Shared)?;
        let loses = it.players.take_over(self.clock.now(), who);
        if let Some(loses) = &loses {
            tracing::info!(%role, %who, by = %loses.by, "a role was taken over");
            std::mem::take(&mut it.lost).cancel();
        }
        Ok(loses)
    }

    /// The agents that called as `role` or are connected; `Err`: several may play it.
    pub(super) fn candidates(&self, role: &RoleId) -> Result<Vec<Candidate>, Shared> {
        Ok(self.role(role).ok_or(Shared)?.players.candidates(self.clock.now()))
    }

    fn role(&self, role: &RoleId) -> Option<MutexGuard<'_, Role>> {
        Some(self.roles.get(role)?.lock())
    }
}

/// Several agents may play the role at once, so there is nothing to take over.
#[derive(Debug)]
pub(super) struct Shared;

/// One call of the agent that plays a role.
#[derive(Debug)]
pub(super) struct Playing {
    lost: CancellationToken,
    _open: Option<Open>,
}

impl Playing {
    /// Resolves when the role was given to another agent.
    pub(super) async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

/// Something of an agent's that is open.
#[derive(Debug)]
pub(super) struct Open {
    instances: Arc<Instances>,
    roles: Vec<RoleId>,
    who: Instance,
    what: Ended,
}

impl Drop for Open {
    fn drop(&mut self) {
        for role in &self.roles {
            if let Some(mut it) = self.instances.role(role) {
                it.players.closed(self.instances.clock.now(), &self.who, self.what);
            }
        }
    }
}

/// The command that gives `role` to `who`.
fn command(role: &RoleId, who: &Instance) -> String {
    match who.id() {
        Some(id) => format!("tasuki take-over --role {role} --as {id}"),
        None => format!("tasuki take-over --role {role} --as ''"),
    }
}

fn refusal(role: &RoleId, who: &Instance, in_use: &InUse) -> Refusal {
    let by = match in_use.client.as_str() {
        "" => in_use.by.to_string(),
        client => format!("{client} ({})", in_use.by),
    };
    let since = match in_use.quiet {
        None => "is connected".to_owned(),
        Some(quiet) => format!("was last heard of {} ago", ago(quiet)),
    };
    Refusal {
        reason: Reason::RoleInUse,
        message: format!(
            "Another agent plays {role}: {by}, which {since}. No change was made. Stop and tell \
             your user: to let you play {role} instead, run `{}`. Then call again.",
            command(role, who)
        ),
    }
}

/// Roughly, for people.
fn ago(quiet: Duration) -> String {
    match quiet.as_secs() {
        secs @ 0..120 => format!("{secs} s"),
        secs => format!("{} min", secs / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(who: &str, by: &str, client: &str, quiet: Option<u64>, expected: &str) {
        let instance = |id: &str| Instance::from(id.parse().ok());
        let in_use = InUse {
            by: instance(by),
            client: client.to_owned(),
            quiet: quiet.map(Duration::from_secs),
        };
        let refusal = refusal(&"B".parse().unwrap(), &instance(who), &in_use);
        assert_eq!(refusal.reason, Reason::RoleInUse);
        assert_eq!(refusal.message, expected);
    }

    #[test]
    fn a_refusal_says_who_plays_the_role_and_what_to_do() {
        check(
            "claude-1",
            "codex-1",
            "codex-mcp-client 0.169.0",
            None,
            "Another agent plays B: codex-mcp-client 0.169.0 (instance codex-1), which is \
             connected. No change was made. Stop and tell your user: to let you play B \
             instead, run `tasuki take-over --role B --as claude-1`. Then call again.",
        );
        check(
            "",
            "codex-1",
            "",
            Some(180),
            "Another agent plays B: instance codex-1, which was last heard of 3 min ago. No \
             change was made. Stop and tell your user: to let you play B instead, run \
             `tasuki take-over --role B --as ''`. Then call again.",
        );
        check(
            "x",
            "",
            "zed 1",
            Some(119),
            "Another agent plays B: zed 1 (the instance without an id), which was last heard of \
             119 s ago. No change was made. Stop and tell your user: to let you play B \
             instead, run `tasuki take-over --role B --as x`. Then call again.",
        );
    }
}
