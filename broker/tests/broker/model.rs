//! Random stories about a workspace, checked against what must always hold.
//!
//! A case is a list of [`Step`]s; proptest shrinks a failing one to the shortest. The journal is
//! a `Vec` of encoded records; `Restart` throws the state away and replays it, from a snapshot
//! taken on the way too. Beside it there is the system workspace, whose tokens the callers show.

mod access;
mod guard;
mod mail;
mod replay;
mod run;
mod swarm;
mod turn;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proptest::prelude::*;
use tasuki_broker::{
    hash::Hash,
    journal::codec::{decode_record, encode_record},
    rules::{
        self, Caller, Command, CompactKind, Context, Event, Fence, Principal, Rejection, Reply,
        Request, Workspace,
        directory::{self, Register, RoleSpec},
        presence::Presence,
    },
};
use tasuki_proto::{
    id::{ClientId, Epoch, IdempotencyKey, NodeId, RoleId, Timestamp, TokenId},
    limits::KEY_WINDOW,
    reason::Reason,
};

use self::{
    access::System,
    replay::{decode_snapshot, encode_snapshot, replayed},
};

const LEASE_MS: u64 = 100;
const ROLES: [&str; 4] = ["A", "B", "dev", "qa"];

/// Who calls, and under which key.
#[derive(Debug, Clone)]
struct Call {
    /// By its number; `None` where the broker asks for none.
    token: Option<u8>,
    client: u8,
    counter: u16,
    /// A node, and how many epochs ago its process began.
    node: Option<(u8, u64)>,
}

fn call() -> impl Strategy<Value = Call> {
    let token = proptest::option::weighted(0.8, prop_oneof![4 => 0..access::ISSUED, 1 => 3..7u8]);
    let counter = prop_oneof![15 => 0..40u16, 1 => 0..600u16];
    let node =
        proptest::option::weighted(0.3, (0..3u8, prop_oneof![3 => Just(0u64), 1 => 0..3u64]));
    (token, 0..2u8, counter, node).prop_map(|(token, client, counter, node)| Call {
        token,
        client,
        counter,
        node,
    })
}

#[derive(Debug, Clone)]
enum Step {
    Turn(turn::Step),
    Register {
        call: Call,
        node: u8,
        roles: u8,
        take_over: bool,
    },
    Access(access::Step),
    Mail(mail::Step),
    Swarm(swarm::Step),
    Run(run::Step),
    Guard(guard::Step),
    Seen {
        role: u8,
    },
    Told {
        loop_id: u8,
    },
    Pass {
        ms: u64,
    },
    Tick,
    Snapshot,
    Restart,
    /// The broker goes on after it stood still.
    StoodStill,
    /// A backup of what is there is restored.
    Restore,
    /// What has been over for so long is removed.
    Compact {
        ms: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        15 => turn::step().prop_map(Step::Turn),
        3 => (call(), 0..3u8, 0..16u8, any::<bool>()).prop_map(|(call, node, roles, take_over)| {
            Step::Register { call, node, roles, take_over }
        }),
        5 => access::step().prop_map(Step::Access),
        14 => mail::step().prop_map(Step::Mail),
        5 => swarm::step().prop_map(Step::Swarm),
        5 => run::step().prop_map(Step::Run),
        3 => guard::step().prop_map(Step::Guard),
        1 => (0..4u8).prop_map(|role| Step::Seen { role }),
        3 => (0..2u8).prop_map(|loop_id| Step::Told { loop_id }),
        3 => (0..150u64).prop_map(|ms| Step::Pass { ms }),
        2 => Just(Step::Tick),
        1 => Just(Step::Snapshot),
        1 => Just(Step::Restart),
        1 => Just(Step::StoodStill),
        1 => Just(Step::Restore),
        1 => compaction(),
    ]
}

fn compaction() -> impl Strategy<Value = Step> {
    (0..300u64).prop_map(|ms| Step::Compact { ms })
}

/// Roles by the bits of a number.
fn roles(bits: u8) -> Vec<RoleId> {
    let chosen = ROLES.iter().enumerate().filter(|(bit, _)| bits & (1 << bit) != 0);
    chosen.map(|(_, name)| name.parse().unwrap()).collect()
}

struct World {
    now: u64,
    workspace: Workspace,
    context: Context,
    journal: Vec<Bytes>,
    snapshot: Option<Vec<Bytes>>,
    /// What was restored last; the journal begins behind it.
    restored: Option<Vec<Bytes>>,
    fence: Fence,
    /// The highest counter of each client then.
    voided: BTreeMap<(Option<TokenId>, ClientId), u64>,
    system: System,
    /// What each key was answered the first time it had an effect, with which token.
    answers: BTreeMap<(Option<TokenId>, IdempotencyKey), (Hash, Reply)>,
    /// The newest epoch of each node.
    epochs: BTreeMap<NodeId, Epoch>,
    turns: turn::Ledger,
    mail: mail::Ledger,
    swarm: swarm::Ledger,
    runs: run::Ledger,
    guard: guard::Ledger,
}

impl World {
    fn new() -> Self {
        let presence = Presence::new(Timestamp::default());
        let mut world = Self {
            now: 1,
            workspace: Workspace::default(),
            context: Context::new(presence, LEASE_MS),
            journal: Vec::new(),
            snapshot: None,
            restored: None,
            fence: Fence::default(),
            voided: BTreeMap::new(),
            system: System::new(Timestamp::from_millis(1)),
            epochs: BTreeMap::new(),
            answers: BTreeMap::new(),
            turns: turn::Ledger::default(),
            mail: mail::Ledger::default(),
            swarm: swarm::Ledger::default(),
            runs: run::Ledger::default(),
            guard: guard::Ledger::default(),
        };
        // So few turns that stories come to the end of them.
        world.limit_turns(5);
        world
    }

    fn limit_turns(&mut self, turns: u32) {
        let command = Command::Guard(guard::limit_turns(turns));
        self.execute(Request { caller: Caller::default(), key: None, command });
    }

    fn take(&mut self, step: &Step) {
        let (call, command) = match step {
            Step::Pass { ms } => {
                self.now += ms;
                return;
            }
            Step::Seen { role } => {
                let now = Timestamp::from_millis(self.now);
                let role = ROLES[usize::from(*role)].parse().unwrap();
                self.context.presence.role_seen(&role, now);
                return;
            }
            Step::Told { loop_id } => {
                let loop_id = turn::loop_of(*loop_id);
                if let Some(state) = self.workspace.loops.by_id.get(&loop_id) {
                    self.context.told.insert(loop_id, state.turn);
                }
                return;
            }
            Step::Access(step) => {
                self.system.take(Timestamp::from_millis(self.now), step);
                return;
            }
            Step::Snapshot => {
                self.system.snapshot();
                let pieces = encode_snapshot(&self.workspace);
                assert_eq!(decode_snapshot(&pieces), self.workspace, "W1");
                self.snapshot = Some(pieces);
                return;
            }
            Step::Restart => {
                self.system.restart();
                return self.restart();
            }
            Step::Restore => return self.restore(),
            Step::StoodStill => {
                self.context.presence.listens_since(Timestamp::from_millis(self.now));
                return;
            }
            Step::Tick => (None, Command::Tick),
            Step::Compact { ms } => return self.compact(*ms),
            Step::Turn(step) => {
                let (call, command) = turn::command(step);
                (Some(call), Command::Turn(command))
            }
            Step::Guard(step) => {
                let (call, command) = guard::command(step);
                (Some(call), Command::Guard(command))
            }
            Step::Mail(step) => {
                let Some((call, command)) = mail::command(step, &self.workspace) else { return };
                (call, Command::Mail(command))
            }
            Step::Swarm(step) => {
                self.now += swarm::passes(step).unwrap_or(0);
                let Some((call, command)) = swarm::command(step, &self.workspace) else { return };
                (call, Command::Swarm(command))
            }
            Step::Run(step) => {
                self.now += run::passes(step).unwrap_or(0);
                let (now, reports) = (Timestamp::from_millis(self.now), &mut self.context.reports);
                let asked = run::command(step, &self.workspace, reports, now);
                let Some((caller, command)) = asked else { return };
                let command = Command::Run(command);
                return self.execute(Request { caller, key: None, command });
            }
            Step::Register { call, node, roles: bits, take_over } => {
                let spec = |role| RoleSpec { role, toolsets: Vec::new(), is_standby: None };
                (
                    Some(call),
                    Command::Directory(directory::Command::Register(Register {
                        node: node_of(*node),
                        roles: roles(*bits).into_iter().map(spec).collect(),
                        take_over: *take_over,
                        software: String::new(),
                        orphan_of: self.orphan_of(&node_of(*node)),
                    })),
                )
            }
        };
        let mut caller = Caller::default();
        let mut key = None;
        if let Some(it) = call {
            caller.token = it.token.map(access::token);
            caller.node = it.node.map(|(node, ago)| {
                let node = node_of(node);
                let epoch = self.epochs.get(&node).map_or(0, |epoch| epoch.get());
                (node, epoch.saturating_sub(ago).into())
            });
            let client = format!("c{}", it.client).parse().unwrap();
            let request = Hash::of(format!("{command:?}").as_bytes());
            key = Some((IdempotencyKey { client, counter: u64::from(it.counter) + 1 }, request));
        }
        // A node that registers has no epoch yet, and a mark has no key.
        if matches!(command, Command::Directory(directory::Command::Register(_))) {
            caller.node = None;
        }
        if matches!(command, Command::Turn(rules::turn::Command::Mark(_))) {
            key = None;
        }
        let now = Timestamp::from_millis(self.now);
        if caller.token.as_ref().is_none_or(|token| self.system.is_good(token, now)) {
            self.execute(Request { caller, key, command });
        }
    }

    /// The token of a node, once it is over.
    fn orphan_of(&self, node: &NodeId) -> Option<TokenId> {
        let owner = self.workspace.directory.nodes.get(node)?.token.clone()?;
        (!self.system.is_good(&owner, Timestamp::from_millis(self.now))).then_some(owner)
    }

    fn execute(&mut self, request: Request) {
        let now = Timestamp::from_millis(self.now);
        let before = self.workspace.clone();
        let decided = self.workspace.decide(now, &self.context, &request);
        assert_eq!(before, self.workspace, "W4: deciding changed something");
        self.swarm.judge(&before, &request.command, decided.as_ref());
        let decision = match decided {
            Ok(decision) => decision,
            Err(rejection) => return self.check_refusal(&request, &rejection),
        };
        if let Some((key, hash)) = &request.key
            && let Some((first_hash, first)) =
                self.answers.get(&(request.caller.token.clone(), key.clone()))
        {
            assert_eq!((hash, &decision.reply), (first_hash, first), "W3: {key}");
            assert!(decision.events.is_empty(), "W3: {key} had a second effect");
        }
        match decision.answered_by {
            None => self.check_caller(&request),
            Some(_) => assert!(self.has_asked(&request), "W3: another's answer for {request:?}"),
        }
        if !decision.is_recorded(&request) {
            return;
        }
        if let Command::Directory(directory::Command::Register(it)) = &request.command {
            self.context.presence.node_seen(&it.node, now);
        }
        let by = &request.caller;
        let principal = Principal {
            node: by.node.as_ref().map(|(node, _)| node.clone()),
            role: request.command.role().cloned(),
            person: request.command.person().cloned(),
            token: by.token.clone(),
        };
        let sequence = before.sequence.next();
        let (record, bodies) = decision.into_record(sequence, now, principal, request.key);
        if let Some((key, hash)) = &record.key {
            let key = (record.principal.token.clone(), key.clone());
            self.answers.insert(key, (*hash, record.reply.clone()));
        }
        self.swarm.keep(&bodies);
        self.check_events(&record.events);
        self.guard.take(&before, &record);
        self.workspace.apply(&record);
        let bytes = encode_record(&record, &[0; 16]);
        assert_eq!(decode_record(bytes.clone()).unwrap(), record);
        self.journal.push(bytes);
        self.check_state();
        self.mail.check(&self.workspace);
        self.swarm.check(&self.workspace);
        self.runs.check(&self.workspace);
        self.guard.check(&self.workspace);
    }

    /// Whether this caller had an answer under this key before.
    fn has_asked(&self, request: &Request) -> bool {
        let key = request.key.as_ref().map(|(key, _)| key.clone());
        key.is_some_and(|key| self.answers.contains_key(&(request.caller.token.clone(), key)))
    }

    /// W3: what other tokens did with a key refuses nobody.
    fn check_refusal(&self, request: &Request, rejection: &Rejection) {
        let Some((key, _)) = &request.key else { return };
        let own = |(token, other): &&(Option<TokenId>, IdempotencyKey)| {
            *token == request.caller.token && other.client == key.client
        };
        let highest = self.answers.keys().filter(own).map(|(_, key)| key.counter).max();
        let reason = rejection.reason();
        if matches!(rejection, Rejection::KeyReused { .. }) {
            assert!(self.has_asked(request), "W3: {key} is another's");
        }
        if reason == Reason::KeyExpired {
            let client = (request.caller.token.clone(), key.client.clone());
            let is_voided = Some(&key.counter) <= self.voided.get(&client);
            let is_old = Some(key.counter + KEY_WINDOW) <= highest;
            assert!(is_old || is_voided, "W3: {key} of {highest:?}");
        }
    }

    /// D1, D3: who was let through might act.
    fn check_caller(&self, request: &Request) {
        let nodes = &self.workspace.directory.nodes;
        let token = &request.caller.token;
        let is_owned = |node: &NodeId| match (token, nodes.get(node).map(|it| &it.token)) {
            (Some(token), Some(Some(owner))) => token == owner,
            _ => true,
        };
        if let Some((node, epoch)) = &request.caller.node {
            assert!(is_owned(node), "D3: {token:?} acted as {node}");
            assert_eq!(*epoch, nodes[node].epoch, "D1: an older {node} acted");
            if let Some(role) = request.command.role() {
                let hosts = nodes[node].roles.iter().any(|spec| spec.role == *role);
                assert!(hosts, "D2: {node} acted as {role}");
            }
        }
        if let Command::Directory(directory::Command::Register(it)) = &request.command {
            let is_orphan = self.orphan_of(&it.node).is_some();
            assert!(is_owned(&it.node) || is_orphan, "D3: {token:?} took {}", it.node);
        }
    }

    fn check_events(&mut self, events: &[Event]) {
        for event in events {
            self.turns.take(event);
            self.mail.take(event);
            self.swarm.take(Timestamp::from_millis(self.now), &self.workspace.swarm, event);
            self.runs.take(event);
            if let Event::Directory(directory::Event::NodeRegistered(it)) = event {
                let earlier = self.epochs.insert(it.node.clone(), it.epoch);
                assert!(earlier < Some(it.epoch), "D1: {} after {earlier:?}", it.epoch);
            }
        }
    }

    fn check_state(&self) {
        turn::check(&self.workspace);
        let mut hosted = BTreeSet::new();
        for spec in self.workspace.directory.nodes.values().flat_map(|node| &node.roles) {
            assert!(hosted.insert(&spec.role), "D2: {} has two hosts", spec.role);
        }
        let now = Timestamp::from_millis(self.now);
        if self.workspace.next_deadline(now, LEASE_MS).is_some_and(|deadline| deadline <= now) {
            let request = Request { caller: Caller::default(), key: None, command: Command::Tick };
            let ticked = self.workspace.decide(now, &self.context, &request).unwrap();
            assert!(!ticked.events.is_empty(), "a tick that does nothing would spin");
        }
    }

    /// Nothing granted before holds: see `rules::restored`.
    fn restore(&mut self) {
        let now = Timestamp::from_millis(self.now);
        let before = self.workspace.clone();
        self.fence = self.fence.restored(now);
        let (events, bodies) = self.workspace.restore_above(self.fence, now);
        self.swarm.keep(&bodies);
        self.check_events(&events);
        self.turns.restore(&before, &self.workspace, self.fence);
        for (id, node) in &self.workspace.directory.nodes {
            let earlier = self.epochs.insert(id.clone(), node.epoch);
            assert!(earlier < Some(node.epoch), "D1: {} after {earlier:?}", node.epoch);
        }
        for (token, key) in self.answers.keys() {
            let highest = self.voided.entry((token.clone(), key.client.clone())).or_default();
            *highest = key.counter.max(*highest);
        }
        assert!(before.sequence < self.workspace.sequence, "W2: the feed goes on above");
        self.restored = Some(encode_snapshot(&self.workspace));
        (self.journal, self.snapshot) = (Vec::new(), None);
        self.restart();
        self.check_state();
        self.mail.check(&self.workspace);
        self.swarm.check(&self.workspace);
        self.runs.check(&self.workspace);
    }

    fn compact(&mut self, ms: u64) {
        let before = Timestamp::from_millis(self.now.saturating_sub(ms));
        let over = |workspace: &Workspace| {
            workspace.compactable(before, &CompactKind::ALL.into(), Vec::new())
        };
        let plan = over(&self.workspace);
        let mut removed = self.workspace.clone().compacted(&plan);
        for part in plan.parts() {
            let command = Command::Compact(part);
            self.execute(Request { caller: Caller::default(), key: None, command });
        }
        assert!(over(&self.workspace).is_empty(), "what is over is removed at once");
        (removed.sequence, removed.time) = (self.workspace.sequence, self.workspace.time);
        assert_eq!(removed, self.workspace, "a dry run shows what comes of it");
    }

    fn restart(&mut self) {
        self.workspace = replayed(
            self.restored.as_deref(),
            &self.journal,
            self.snapshot.as_deref(),
            &self.workspace,
        );
        self.context.presence = Presence::new(Timestamp::from_millis(self.now));
        self.context.told.clear();
        self.context.reports.clear();
    }
}

fn node_of(number: u8) -> NodeId {
    format!("n{number}").parse().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_workspace_keeps_its_word(steps in prop::collection::vec(step(), 0..120)) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
        }
        world.take(&Step::Restart);
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// The same with hardly anything but issues, tasks, locks and deliveries.
    #[test]
    fn a_swarm_keeps_its_word(steps in prop::collection::vec(swarm_step(), 0..160)) {
        let mut world = World::new();
        for step in swarm::prelude() {
            world.take(&Step::Swarm(step));
        }
        for step in &steps {
            world.take(step);
        }
        world.take(&Step::Snapshot);
        world.take(&Step::Restart);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// The same with hardly anything but runs.
    #[test]
    fn runs_keep_their_word(steps in prop::collection::vec(run_step(), 0..160)) {
        let mut world = World::new();
        for node in 0..2 {
            let (token, node_of) = (None, None);
            let call = Call { token, client: 0, counter: node.into(), node: node_of };
            world.take(&Step::Register { call, node, roles: 1 << node, take_over: false });
        }
        for step in &steps {
            world.take(step);
        }
        world.take(&Step::Snapshot);
        world.take(&Step::Restart);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// The same with hardly anything but turns, letters and what limits both. Holds GD1, GD2, T5, T6.
    #[test]
    fn limits_end_at_a_person(steps in prop::collection::vec(guard_step(), 0..160)) {
        let mut world = World::new();
        world.limit_turns(12);
        for step in &steps {
            world.take(step);
        }
        world.take(&Step::Snapshot);
        world.take(&Step::Restart);
    }
}

fn guard_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => turn::step().prop_map(Step::Turn),
        16 => mail::step().prop_map(Step::Mail),
        8 => guard::step().prop_map(Step::Guard),
        2 => (0..150u64).prop_map(|ms| Step::Pass { ms }),
        1 => Just(Step::Tick),
        1 => Just(Step::Snapshot),
        1 => Just(Step::Restart),
        1 => Just(Step::Restore),
        1 => compaction(),
    ]
}

fn run_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => run::step().prop_map(Step::Run),
        1 => (call(), 0..2u8).prop_map(|(call, node)| {
            Step::Register { call, node, roles: 1 << node, take_over: true }
        }),
        4 => Just(Step::Tick),
        1 => Just(Step::Snapshot),
        1 => Just(Step::Restart),
        1 => Just(Step::StoodStill),
        1 => compaction(),
    ]
}

fn swarm_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => swarm::step().prop_map(Step::Swarm),
        2 => (0..4u8).prop_map(|role| Step::Seen { role }),
        4 => Just(Step::Tick),
        1 => Just(Step::Snapshot),
        1 => Just(Step::Restart),
        1 => Just(Step::StoodStill),
        1 => compaction(),
    ]
}
