//! One role: who plays it, what it does, holds and has not seen. Pure.

use serde::Serialize;
use serde_json::{Value, json};
use tasuki_proto::wire::{self, LoopStatus};

use super::Holdings;

#[derive(Debug, Clone)]
pub struct RoleStatus {
    pub role: wire::Role,
    pub state: State,
    pub holds: Vec<Held>,
    /// Handovers to it that it has not seen.
    pub handovers: Vec<Pending>,
    pub mail: Unread,
    /// When its node was last heard of, where that is away.
    pub node_seen_ms: u64,
}

/// What a role's agent does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It holds something, and was heard of lately.
    Working,
    Waiting,
    Present,
    /// Nothing was heard of it for long.
    Silent,
    /// It said goodbye.
    Gone,
    NodeAway,
    NoNode,
    /// No agent ever called.
    Never,
}

impl State {
    /// Whether somebody plays the role, as far as is known.
    pub const fn is_played(self) -> bool {
        matches!(self, Self::Working | Self::Waiting | Self::Present)
    }
}

/// Something that a role holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Held {
    /// `turn`, `task`, `delivery`, `lock` or `run`.
    pub kind: &'static str,
    pub name: String,
    /// The loop of a turn, the issue of a task or a delivery, the repository of a lock.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub of: String,
    /// 0: it is not known.
    pub since_ms: u64,
    /// 0: it does not lapse.
    pub lapses_ms: u64,
}

/// A handover that its receiver has not seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pending {
    pub r#loop: String,
    pub turn: u64,
    pub stored_ms: u64,
    /// 0: not yet.
    pub handed_ms: u64,
}

/// Mail that its role has not seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Unread {
    pub threads: u64,
    /// Since when the oldest waits; 0: it is not known.
    pub oldest_ms: u64,
    pub dead_letters: u64,
}

impl RoleStatus {
    pub fn new(
        role: wire::Role,
        nodes: &[wire::Node],
        loops: &[wire::Loop],
        holdings: &Holdings,
    ) -> Self {
        let holds = holds(&role.role, loops, holdings);
        let away = nodes.iter().find(|it| it.node == role.node && !it.is_present);
        let mailbox = holdings.mailboxes.get(&role.role).cloned().unwrap_or_default();
        let oldest_ms = holdings.unseen_since_ms.get(&role.role).copied().unwrap_or_default();
        let (threads, dead_letters) = (mailbox.unseen, mailbox.dead);
        Self {
            state: state(&role, away.is_some(), !holds.is_empty()),
            handovers: loops.iter().filter_map(|it| handover(it, &role.role)).collect(),
            mail: Unread { threads, oldest_ms, dead_letters },
            node_seen_ms: away.map_or(0, |node| node.last_seen_ms),
            role,
            holds,
        }
    }

    /// The broker's facts of the role with what follows from the others.
    pub fn value(&self) -> Value {
        let mut value = json!(self.role);
        value["state"] = json!(self.state);
        value["holds"] = json!(self.holds);
        value["handovers_unseen"] = json!(self.handovers);
        value["mail_unseen"] = json!(self.mail);
        value
    }

    /// The program that plays it, without the id that comes behind it.
    pub fn client(&self) -> &str {
        let client = &self.role.client;
        let behind = format!(" as {}", self.role.instance);
        client.strip_suffix(&behind).unwrap_or(client)
    }
}

fn state(role: &wire::Role, is_node_away: bool, has_anything: bool) -> State {
    match role {
        it if it.node.is_empty() => State::NoNode,
        _ if is_node_away => State::NodeAway,
        it if !it.waits.is_empty() => State::Waiting,
        it if it.last_seen_ms == 0 => State::Never,
        it if it.has_left => State::Gone,
        it if it.is_present && has_anything => State::Working,
        it if it.is_present => State::Present,
        _ => State::Silent,
    }
}

fn holds(role: &str, loops: &[wire::Loop], holdings: &Holdings) -> Vec<Held> {
    let turns = loops.iter().filter(|it| it.holder == role).map(|it| Held {
        kind: "turn",
        name: it.turn.to_string(),
        of: it.r#loop.clone(),
        since_ms: it.turn_began_ms,
        lapses_ms: it.lease_lapses_ms,
    });
    let workers = holdings.workers.iter().filter(|it| it.worker == role);
    let tasks = workers.flat_map(|it| &it.claims).map(|it| Held {
        kind: "task",
        name: it.task_id.clone(),
        of: it.issue_id.clone(),
        since_ms: 0,
        lapses_ms: it.lease_expires_ms,
    });
    let deliveries = holdings.deliveries.iter().filter(|it| it.claimed_by == role);
    let deliveries = deliveries.map(|it| Held {
        kind: "delivery",
        name: it.delivery_id.clone(),
        of: it.issue_id.clone(),
        since_ms: it.claimed_ms,
        lapses_ms: it.lease_expires_ms,
    });
    let locks = holdings.locks.iter().filter(|it| it.holder == role).map(|it| {
        let files = it.files.clone().unwrap_or_default();
        Held {
            kind: "lock",
            name: files.patterns.join(", "),
            of: files.repository,
            since_ms: it.acquired_ms,
            lapses_ms: it.expires_ms,
        }
    });
    let runs = holdings.runs.iter().filter(|it| it.role == role).map(|it| Held {
        kind: "run",
        name: it.run_id.clone(),
        of: String::new(),
        since_ms: it.started_ms,
        lapses_ms: 0,
    });
    turns.chain(tasks).chain(deliveries).chain(locks).chain(runs).collect()
}

/// The handover that gave `role` the turn, unless it was seen.
fn handover(of: &wire::Loop, role: &str) -> Option<Pending> {
    let receipts = of.receipts.filter(|it| it.seen_ms == 0 && it.acted_ms == 0)?;
    let is_open = of.holder == role && of.status() != LoopStatus::Completed;
    is_open.then(|| Pending {
        r#loop: of.r#loop.clone(),
        turn: of.turn,
        stored_ms: receipts.stored_ms,
        handed_ms: receipts.handed_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(node: &str, last_seen_ms: u64) -> wire::Role {
        let (role, node) = ("B".to_owned(), node.to_owned());
        wire::Role { role, node, last_seen_ms, is_present: true, ..wire::Role::default() }
    }

    #[test]
    fn what_a_roles_agent_does_follows_from_what_the_broker_knows() {
        let waiting = wire::Role { waits: vec!["mail".to_owned()], ..role("n", 0) };
        let left = wire::Role { has_left: true, is_present: false, ..role("n", 9) };
        let silent = wire::Role { is_present: false, ..role("n", 9) };
        for (role, is_node_away, has_anything, expected) in [
            (role("", 9), false, false, State::NoNode),
            (role("n", 9), true, true, State::NodeAway),
            (waiting, false, true, State::Waiting),
            (role("n", 0), false, true, State::Never),
            (left, false, true, State::Gone),
            (role("n", 9), false, true, State::Working),
            (role("n", 9), false, false, State::Present),
            (silent, false, true, State::Silent),
        ] {
            assert_eq!(state(&role, is_node_away, has_anything), expected, "{role:?}");
        }
    }

    #[test]
    fn a_role_holds_what_names_it() {
        let own = || "B".to_owned();
        let of = wire::Loop {
            r#loop: "main".to_owned(),
            holder: own(),
            turn: 7,
            turn_began_ms: 10,
            lease_lapses_ms: 20,
            receipts: Some(wire::Receipts { stored_ms: 9, ..wire::Receipts::default() }),
            ..wire::Loop::default()
        };
        let claim = wire::ClaimedTask {
            issue_id: "i".to_owned(),
            task_id: "task-1".to_owned(),
            lease_expires_ms: 30,
            ..wire::ClaimedTask::default()
        };
        let files = wire::FileSet { patterns: vec!["a".into(), "b".into()], ..Default::default() };
        let holdings = Holdings {
            workers: vec![wire::Worker {
                worker: own(),
                claims: vec![claim],
                ..Default::default()
            }],
            locks: vec![
                wire::Lock { holder: own(), files: Some(files), ..wire::Lock::default() },
                wire::Lock { holder: "C".to_owned(), ..wire::Lock::default() },
            ],
            runs: vec![wire::Run { role: own(), run_id: "r".to_owned(), ..wire::Run::default() }],
            ..Holdings::default()
        };
        let loops = [of.clone()];
        let it = RoleStatus::new(role("n", 9), &[], &loops, &holdings);
        let told: Vec<_> = it.holds.iter().map(|it| (it.kind, it.name.as_str())).collect();
        assert_eq!(told, [("turn", "7"), ("task", "task-1"), ("lock", "a, b"), ("run", "r")]);
        assert_eq!((it.state, it.handovers.len()), (State::Working, 1));
        assert_eq!((it.holds[0].since_ms, it.holds[0].lapses_ms), (10, 20));

        let seen = wire::Receipts { seen_ms: 11, ..of.receipts.unwrap_or_default() };
        assert_eq!(handover(&wire::Loop { receipts: Some(seen), ..of.clone() }, "B"), None);
        assert_eq!(handover(&of, "C"), None);
    }

    #[test]
    fn an_id_is_told_apart_from_the_client_that_has_it() {
        let told = |client: &str, instance: &str| {
            let (client, instance) = (client.to_owned(), instance.to_owned());
            let role = wire::Role { client, instance, ..role("n", 9) };
            let it = RoleStatus::new(role, &[], &[], &Holdings::default());
            it.client().to_owned()
        };
        assert_eq!(told("claude-code 2 as x", "x"), "claude-code 2");
        assert_eq!(told("claude-code 2 as x", "y"), "claude-code 2 as x");
        assert_eq!(told("claude-code 2", ""), "claude-code 2");
    }
}
