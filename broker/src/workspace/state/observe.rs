//! What a workspace has at this moment, for metrics: numbers without names.

use std::collections::BTreeMap;

use tasuki_proto::{
    id::{RoleId, Timestamp},
    mail::MessageId,
};

use super::{super::waits::Question, State};
use crate::{
    metrics::WorkspaceMetrics,
    rules::{
        Event, Workspace, mailbox, run,
        swarm::{self, LeaseTarget},
        turn::{self, Loop},
    },
};

/// Letters of one workspace that are remembered until they are handed. Later ones are not timed:
/// whoever lets so many wait knows that they do.
const LETTERS_MAX: usize = 4096;

/// How many there are of each kind.
pub type Counts = BTreeMap<&'static str, u64>;

/// What workspaces have.
#[derive(Debug, Clone)]
pub struct Observed {
    pub waits: Counts,
    pub leases: Counts,
    /// Nodes that gave a sign of life lately.
    pub nodes: u64,
    /// Since when the oldest is stored that was not handed, in milliseconds.
    pub oldest_turn_ms: u64,
    pub oldest_letter_ms: u64,
}

impl Default for Observed {
    fn default() -> Self {
        let none = |kinds: &[&'static str]| kinds.iter().map(|kind| (*kind, 0)).collect();
        Self {
            waits: none(&WAIT_KINDS),
            leases: none(&LEASE_KINDS),
            nodes: 0,
            oldest_turn_ms: 0,
            oldest_letter_ms: 0,
        }
    }
}

impl Observed {
    /// Both together.
    #[must_use]
    pub fn plus(mut self, other: Self) -> Self {
        for (all, others) in [(&mut self.waits, other.waits), (&mut self.leases, other.leases)] {
            for (kind, count) in others {
                *all.entry(kind).or_default() += count;
            }
        }
        self.nodes += other.nodes;
        self.oldest_turn_ms = self.oldest_turn_ms.max(other.oldest_turn_ms);
        self.oldest_letter_ms = self.oldest_letter_ms.max(other.oldest_letter_ms);
        self
    }
}

const WAIT_KINDS: [&str; 14] = [
    "turn",
    "mail",
    "issue",
    "task",
    "issue_events",
    "review",
    "reply",
    "delivery",
    "verdict",
    "locks",
    "board",
    "steps",
    "run",
    "run_reply",
];

const fn wait_kind(question: &Question) -> &'static str {
    match question {
        Question::Turn { .. } => "turn",
        Question::Mail { .. } => "mail",
        Question::Swarm { what, .. } => match what {
            swarm::Question::Issues(_) => "issue",
            swarm::Question::Tasks(_) => "task",
            swarm::Question::Events(_) => "issue_events",
            swarm::Question::Review(_) => "review",
            swarm::Question::Reply(_) => "reply",
            swarm::Question::Deliveries => "delivery",
            swarm::Question::Verdict(_) => "verdict",
            swarm::Question::Locks(_) => "locks",
        },
        Question::Board(_) => "board",
        Question::Run(run::Question::Steps(_)) => "steps",
        Question::Run(run::Question::Run { .. }) => "run",
        Question::Run(run::Question::Reply { .. }) => "run_reply",
    }
}

const LEASE_KINDS: [&str; 7] =
    ["turn", "issue", "task", "reservation", "delivery", "locks", "step"];

const fn lease_kind(target: LeaseTarget) -> &'static str {
    match target {
        LeaseTarget::Issue(_) => "issue",
        LeaseTarget::Claim(..) => "task",
        LeaseTarget::Reservation(..) => "reservation",
        LeaseTarget::Delivery(_) => "delivery",
        LeaseTarget::Lock(_) => "locks",
    }
}

/// Since when the oldest letter of each thread waits to be handed to each role. Soft state: of
/// letters from before the workspace was woken nobody knows here.
#[derive(Debug, Default)]
pub(super) struct UnhandedLetters(BTreeMap<(MessageId, RoleId), (u32, Timestamp)>);

impl UnhandedLetters {
    /// Takes what just happened, and times what was handed.
    pub(super) fn note(
        &mut self,
        now: Timestamp,
        events: &[Event],
        workspace: &Workspace,
        metrics: &WorkspaceMetrics,
    ) {
        for event in events {
            if let Event::Mail(mailbox::Event::Sent(it)) = event {
                for role in it.to.iter().take(LETTERS_MAX.saturating_sub(self.0.len())) {
                    self.0.entry((it.thread, role.clone())).or_insert((it.entry, now));
                }
            }
            if let Event::Mail(mailbox::Event::Handed(it)) = event {
                let key = (it.thread, it.role.clone());
                if let Some((entry, stored)) = self.0.get(&key)
                    && *entry <= it.through
                {
                    metrics.mail_receipts.observe(now.millis_since(*stored));
                    self.0.remove(&key);
                }
            }
            if let Event::Turn(turn::Event::TurnHanded(it)) = event {
                let its_loop = workspace.loops.by_id.get(&it.loop_id);
                if let Some(its_loop) = its_loop.filter(|other| other.turn == it.turn) {
                    metrics.turn_receipts.observe(now.millis_since(its_loop.began));
                }
            }
        }
    }

    /// Forgets those that the role moved, has seen or that lapsed; says since when the oldest of
    /// the others waits.
    fn oldest(&mut self, workspace: &Workspace) -> Option<Timestamp> {
        self.0.retain(|(thread, role), (entry, _)| {
            let Ok((number, copy)) = workspace.mail.find(role, *thread) else { return false };
            let thread = workspace.mail.threads().get(number);
            let own = &thread.copies[copy];
            own.handed < *entry
                && !own.state.is_dead
                && thread.unseen(copy).any(|unseen| unseen == *entry)
        });
        self.0.values().map(|(_, stored)| *stored).min()
    }
}

/// Since when the holder of a turn was not told of it.
fn untold_since(it: &Loop) -> Option<Timestamp> {
    let latest = it.latest.as_ref()?;
    let (turn, _) = latest.next.as_ref()?;
    let receipts = &latest.receipts;
    let is_told = receipts.handed.is_some() || receipts.seen.is_some();
    (*turn == it.turn && !is_told && it.pause.is_none()).then_some(it.began)
}

impl State {
    /// What there is here. Nobody asks for it, so it keeps nothing awake.
    pub(in crate::workspace) fn observe(&mut self) -> Observed {
        let now = self.now();
        let mut observed = Observed::default();
        for question in self.waits.questions() {
            *observed.waits.entry(wait_kind(question)).or_default() += 1;
        }
        let Workspace { loops, swarm, runs, directory, .. } = &self.workspace;
        for target in swarm.leases() {
            *observed.leases.entry(lease_kind(target)).or_default() += 1;
        }
        let held = loops.by_id.values().filter(|it| it.running_lease().is_some());
        observed.leases.insert("turn", held.count() as u64);
        observed.leases.insert("step", runs.held() as u64);
        let nodes = directory.nodes.keys();
        let live = nodes.filter(|node| self.context.presence.is_node_live(node, now));
        observed.nodes = live.count() as u64;
        let untold = loops.by_id.values().filter_map(untold_since).min();
        let unhanded = self.unhanded.oldest(&self.workspace);
        let age = |since: Option<Timestamp>| since.map_or(0, |since| now.millis_since(since));
        (observed.oldest_turn_ms, observed.oldest_letter_ms) = (age(untold), age(unhanded));
        observed
    }
}
