//! Who gave a sign of life, and when.
//!
//! Soft state: it is not in the journal, and after a restart there is none. Rules that depend on
//! it journal what they made of it (a lapse, a renewal), so replay does not. What was known before
//! a restart is shown to people ([`Presence::last_sign`]), and no rule asks for it.

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
    /// The latest signs from before the broker started, of roles that gave none since.
    before: BTreeMap<RoleId, Sign>,
}

/// The latest sign of a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sign {
    pub at: Timestamp,
    pub player: Player,
}

/// The agent that plays a role, for people: as its node tells of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Player {
    /// The program; empty: it is not known.
    pub client: String,
    /// Its id; empty: it has none.
    pub instance: String,
    /// Since when it plays the role; [`Timestamp::default`]: it is not known.
    pub since: Timestamp,
    /// It said goodbye, and nothing was heard of it since.
    pub has_left: bool,
}

/// What a node says of a role that it hosts.
#[derive(Debug, Clone, Default)]
pub struct RoleReport {
    /// Since the role's last sign of life.
    pub quiet_ms: u64,
    pub client: String,
    pub instance: String,
    /// For how long this agent plays the role; `None`: the node does not say.
    pub playing_ms: Option<u64>,
    pub has_left: bool,
}

impl Presence {
    pub fn new(since: Timestamp) -> Self {
        Self { since, roles: BTreeMap::new(), nodes: BTreeMap::new(), before: BTreeMap::new() }
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

    /// What was known before the broker started.
    pub fn restore(&mut self, before: BTreeMap<RoleId, Sign>) {
        self.before = before;
    }

    /// A role called, or waits.
    pub fn role_seen(&mut self, role: &RoleId, at: Timestamp) {
        self.sign(role, at);
    }

    /// A node told of a role, at `now`.
    pub fn role_told(&mut self, role: &RoleId, now: Timestamp, told: &RoleReport) -> &Sign {
        let sign = self.sign(role, now.minus_millis(told.quiet_ms));
        let player = &mut sign.player;
        let is_same = !player.has_left
            && player.instance == told.instance
            && (told.client.is_empty() || player.client == told.client);
        if let Some(playing_ms) = told.playing_ms {
            let since = now.minus_millis(playing_ms);
            let is_known = is_same && player.since != Timestamp::default();
            player.since = if is_known { player.since.min(since) } else { since };
        }
        if !told.client.is_empty() {
            told.client.clone_into(&mut player.client);
        }
        told.instance.clone_into(&mut player.instance);
        player.has_left = told.has_left;
        sign
    }

    fn sign(&mut self, role: &RoleId, at: Timestamp) -> &mut Sign {
        let before = &mut self.before;
        let first = || {
            let player = before.remove(role).map(|sign| sign.player).unwrap_or_default();
            Sign { at, player }
        };
        let sign = self.roles.entry(role.clone()).or_insert_with(first);
        sign.at = sign.at.max(at);
        sign
    }

    pub fn node_seen(&mut self, node: &NodeId, at: Timestamp) {
        self.nodes.insert(node.clone(), at);
    }

    /// The latest sign of a role since the broker started.
    pub fn role(&self, role: &RoleId) -> Option<&Sign> {
        self.roles.get(role)
    }

    /// The latest sign of a role, also one from before the broker started.
    pub fn last_sign(&self, role: &RoleId) -> Option<&Sign> {
        self.role(role).or_else(|| self.before.get(role))
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

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn told(client: &str, playing_ms: u64, has_left: bool) -> RoleReport {
        let playing_ms = Some(playing_ms);
        RoleReport { client: client.to_owned(), playing_ms, has_left, ..RoleReport::default() }
    }

    /// Since when whoever plays the role does, and whether it left, after reports at their times.
    fn check(reports: &[(u64, RoleReport)], since: u64, has_left: bool) {
        let role: RoleId = "A".parse().unwrap();
        let mut presence = Presence::new(at(0));
        for (now, report) in reports {
            presence.role_told(&role, at(*now), report);
            // A call as the role, by whomever, changes nothing of it.
            presence.role_seen(&role, at(*now));
        }
        let player = &presence.role(&role).unwrap().player;
        assert_eq!((player.since, player.has_left), (at(since), has_left), "{reports:?}");
    }

    #[test]
    fn an_agent_plays_a_role_from_its_first_call_to_its_goodbye() {
        check(&[(100, told("a", 10, false))], 90, false);
        check(&[(100, told("a", 10, false)), (200, told("a", 108, false))], 90, false);
        check(&[(100, told("a", 10, false)), (200, told("a", 110, true))], 90, true);
        check(&[(100, told("a", 10, true)), (200, told("a", 5, false))], 195, false);
        check(&[(100, told("a", 10, false)), (200, told("b", 5, false))], 195, false);
        // A node that began anew heard of its agent just now.
        check(&[(100, told("a", 10, false)), (200, told("a", 0, false))], 90, false);
        let named = RoleReport { instance: "x".to_owned(), ..told("a", 5, false) };
        check(&[(100, told("a", 10, false)), (200, named)], 195, false);
    }

    #[test]
    fn what_was_known_before_a_restart_is_shown_and_no_rule_asks_for_it() {
        let role: RoleId = "A".parse().unwrap();
        let player = Player { client: "c 1".to_owned(), ..Player::default() };
        let mut presence = Presence::new(at(1_000));
        presence.restore(BTreeMap::from([(role.clone(), Sign { at: at(7), player })]));
        assert_eq!(presence.role(&role), None);
        assert_eq!(presence.last_sign(&role).map(|sign| sign.at), Some(at(7)));
        presence.role_seen(&role, at(2_000));
        let sign = presence.role(&role).unwrap();
        assert_eq!((sign.at, sign.player.client.as_str()), (at(2_000), "c 1"));
    }
}
