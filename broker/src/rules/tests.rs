//! Each test is a story: at these times these commands, and this is what came of it.
//!
//! A command is a line: `A hands over s1`, `B marks handed 2`, `ann reclaims to B because x`. The
//! lease is 100 ms. After each step the invariants of the directory are checked.

mod lines;
mod pauses;
mod seats;
mod standstill;
mod tokens;

use tasuki_proto::id::{RoleId, Timestamp, Turn};

use self::lines::command;
use super::{presence::Presence, turn::Actor, *};

const LEASE_MS: u64 = 100;

struct Story {
    workspace: Workspace,
    context: Context,
    told: String,
}

fn role(name: &str) -> RoleId {
    name.parse().unwrap()
}

/// Roles are one upper-case letter, or `human`; persons are not.
fn actor(name: &str) -> Actor {
    match name.parse::<RoleId>() {
        Ok(role) if name.len() == 1 || guard::is_human(&role) => Actor::Role(role),
        _ => Actor::Person(name.parse().unwrap()),
    }
}

/// On whose word a request came.
fn principal(request: &Request) -> Principal {
    Principal {
        node: request.caller.node.as_ref().map(|(node, _)| node.clone()),
        role: request.command.role().cloned(),
        person: request.command.person().cloned(),
        token: request.caller.token.clone(),
    }
}

impl Story {
    fn new(since: u64) -> Self {
        let presence = Presence::new(Timestamp::from_millis(since));
        let context = Context::new(presence, LEASE_MS);
        Self { workspace: Workspace::default(), context, told: String::new() }
    }

    fn step(&mut self, ms: u64, line: &str) {
        let now = Timestamp::from_millis(ms);
        if let Some(name) = line.strip_suffix(" is there") {
            self.context.presence.role_seen(&role(name), now);
            return;
        }
        if let Some(node) = line.strip_suffix(" beats") {
            self.context.presence.node_seen(&node.parse().unwrap(), now);
            return;
        }
        if let Some(turn) = line.strip_suffix(" was told") {
            self.context
                .told
                .insert("main".parse().unwrap(), Turn::from(turn.parse::<u64>().unwrap()));
            return;
        }
        if line == "the broker restarts" {
            self.context.presence = Presence::new(now);
            return;
        }
        if line == "the broker stood still" {
            self.context.presence.listens_since(now);
            return;
        }
        let before = self.workspace.clone();
        let request = command(line);
        let said = match self.workspace.decide(now, &self.context, &request) {
            Err(rejection) => format!("no: {}", rejection.reason()),
            Ok(decision) => {
                let said = say(&decision);
                if decision.is_recorded(&request) {
                    let (sequence, key) = (before.sequence.next(), request.key.clone());
                    let by = principal(&request);
                    let (record, _) = decision.into_record(sequence, now, by, key);
                    self.workspace.apply(&record);
                }
                said
            }
        };
        self.told += &format!("{ms:>4} {line}: {said}\n");
        self.check_directory(&before.directory);
    }

    /// D1, D2.
    fn check_directory(&self, before: &Directory) {
        let nodes = &self.workspace.directory.nodes;
        let mut roles: Vec<&RoleId> =
            nodes.values().flat_map(|node| &node.roles).map(|spec| &spec.role).collect();
        let all = roles.len();
        roles.sort();
        roles.dedup();
        assert_eq!(roles.len(), all, "D2: a role with two hosts");
        for (id, node) in nodes {
            for spec in &node.roles {
                assert_eq!(self.workspace.directory.host(&spec.role), Some(id), "D2: the host");
            }
        }
        for (id, node) in &before.nodes {
            let last = nodes.get(id).map_or(self.workspace.directory.forgotten, |it| it.epoch);
            assert!(node.epoch <= last, "D1: epoch {} of {id} may come back", node.epoch);
        }
    }
}

/// Asks a noun alone, with nothing around it but these.
pub(super) fn ask<T>(
    now: Timestamp,
    caller: &Caller,
    workspace: &Workspace,
    decide: impl FnOnce(Asked<'_>) -> T,
) -> T {
    let context = Context::new(Presence::new(now), 100);
    decide(Asked { now, context: &context, caller, workspace })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "these stories are about nodes and turns")]
fn say(decision: &Decision) -> String {
    let mut said = match &decision.reply {
        Reply::Directory(directory::Reply::Registered { epoch }) => format!("epoch {epoch}"),
        Reply::Turn(turn::Reply::Opened { .. }) => "opened".to_owned(),
        Reply::Turn(turn::Reply::Started { round, turn, holder }) => {
            format!("round {round}, turn {turn} to {holder}")
        }
        Reply::Turn(turn::Reply::Handed { ended, next: None, pause: _ }) => {
            format!("turn {ended} ended, completed")
        }
        Reply::Turn(turn::Reply::Handed { ended, next: Some((turn, to)), pause }) => {
            let paused = pause.as_ref().map(|it| format!(", paused: {}", it.reason));
            format!("turn {ended} ended, turn {turn} to {to}") + &paused.unwrap_or_default()
        }
        Reply::Turn(turn::Reply::Reclaimed { ended, turn, from, to }) => {
            format!("turn {ended} of {from} taken, turn {turn} to {to}")
        }
        Reply::Done => decision.events.iter().map(happened).collect::<Vec<_>>().join(", "),
        other => unreachable!("not of nodes or turns: {other:?}"),
    };
    if decision
        .events
        .iter()
        .any(|event| matches!(event, Event::Turn(turn::Event::ParticipantsSet(_))))
    {
        said += ", seated";
    }
    let is_told = matches!(decision.reply, Reply::Done);
    for event in decision.events.iter().filter(|_| !is_told) {
        if let Event::Guard(guard::Event::RolePaused(..)) = event {
            said += &format!(", {}", happened(event));
        }
        if let Event::Turn(turn::Event::LoopPaused(_)) = event
            && !said.contains("paused: ")
        {
            said += &format!(", {}", happened(event));
        }
    }
    if decision.is_repeat {
        said += " (said before)";
    }
    if decision.answered_by.is_some() {
        said += " (same key)";
    }
    said
}

#[expect(clippy::wildcard_enum_match_arm, reason = "these stories are about nodes and turns")]
fn happened(event: &Event) -> String {
    let event = match event {
        Event::Turn(event) => event,
        Event::Guard(guard::Event::RolePaused(role, reason)) => {
            return format!("{role} paused: it {reason}");
        }
        Event::Guard(guard::Event::RoleResumed(role, _)) => return format!("{role} goes on"),
        Event::Guard(_) => return "set".to_owned(),
        other => unreachable!("not of turns: {other:?}"),
    };
    match event {
        turn::Event::LeaseRenewed(it) if it.is_grace => {
            format!("grace until {}", it.lapses.as_millis())
        }
        turn::Event::LeaseRenewed(it) => format!("renewed until {}", it.lapses.as_millis()),
        turn::Event::TurnLapsed(it) => format!("turn {} lapsed", it.turn),
        turn::Event::TurnHanded(it) => format!("turn {} handed", it.turn),
        turn::Event::TurnSeen(it) => format!("turn {} seen", it.turn),
        turn::Event::LoopPaused(it) => format!("paused: {}", it.reason),
        turn::Event::LoopResumed(it) => {
            let lapses = it.lapses.map(|it| format!(" until {}", it.as_millis()));
            format!("resumed{}", lapses.unwrap_or_default())
        }
        turn::Event::LoopOpened(_)
        | turn::Event::ParticipantsSet(_)
        | turn::Event::HandedOver(_)
        | turn::Event::TurnReclaimed(_)
        | turn::Event::RoundStarted(_)
        | turn::Event::HistoryCompacted(_) => unreachable!("these have replies of their own"),
    }
}

#[track_caller]
fn check(steps: &[(u64, &str)], expected: &str) {
    let mut story = Story::new(0);
    for (ms, line) in steps {
        story.step(*ms, line);
    }
    let trim = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    assert_eq!(trim(story.told.trim()), trim(expected.trim()));
}

#[test]
fn two_roles_take_turns_until_one_completes_and_a_person_opens_a_new_round() {
    check(
        &[
            (1, "B hands over early"),
            (2, "A hands over s1"),
            (3, "B hands over s2"),
            (4, "A hands over done !"),
            (5, "B hands over late"),
            (6, "ann starts a round >B"),
            (7, "ann starts a round >B"),
            (8, "B hands over s5"),
        ],
        "
        1 B hands over early: no: not_your_turn
        2 A hands over s1: turn 1 ended, turn 2 to B
        3 B hands over s2: turn 2 ended, turn 3 to A
        4 A hands over done !: turn 3 ended, completed
        5 B hands over late: no: loop_completed
        6 ann starts a round >B: round 2, turn 4 to B
        7 ann starts a round >B: no: loop_active
        8 B hands over s5: turn 4 ended, turn 5 to A",
    );
}

#[test]
fn a_handover_said_again_is_known_again() {
    check(
        &[
            (1, "A hands over s1"),
            (2, "A hands over s1"),
            (3, "A hands over other"),
            (4, "A hands over s1 @1"),
            (5, "A hands over other @1"),
            (6, "A hands over s9 @9"),
            (6, "A hands over s1 @2"), // the same words, but for a turn that is another's
            (7, "B hands over s2"),
            (8, "A hands over s1 @1"),
            (9, "A hands over s1"), // the same words, and A has not heard of its new turn
            (9, "3 was told"),
            (9, "A hands over s1"), // now these are new words
            (10, "B hands over done !"),
            (11, "B hands over done !"),
            (12, "B hands over done ! @4"),
        ],
        "
        1 A hands over s1: turn 1 ended, turn 2 to B
        2 A hands over s1: turn 1 ended, turn 2 to B (said before)
        3 A hands over other: no: not_your_turn
        4 A hands over s1 @1: turn 1 ended, turn 2 to B (said before)
        5 A hands over other @1: no: stale_token
        6 A hands over s9 @9: no: invalid_argument
        6 A hands over s1 @2: no: not_your_turn
        7 B hands over s2: turn 2 ended, turn 3 to A
        8 A hands over s1 @1: turn 1 ended, turn 2 to B (said before)
        9 A hands over s1: turn 1 ended, turn 2 to B (said before)
        9 A hands over s1: turn 3 ended, turn 4 to B
        10 B hands over done !: turn 4 ended, completed
        11 B hands over done !: turn 4 ended, completed (said before)
        12 B hands over done ! @4: turn 4 ended, completed (said before)",
    );
}

#[test]
fn a_key_that_was_answered_with_an_old_intent_stands_for_that_answer() {
    check(
        &[
            (1, "A hands over s1 #a/1"),
            (2, "A hands over s1 #a/2"),
            (3, "A hands over s1 #a/2"),
            (4, "A hands over other #a/2"),
        ],
        "
        1 A hands over s1 #a/1: turn 1 ended, turn 2 to B
        2 A hands over s1 #a/2: turn 1 ended, turn 2 to B (said before)
        3 A hands over s1 #a/2: turn 1 ended, turn 2 to B (said before) (same key)
        4 A hands over other #a/2: no: key_reused",
    );
}

#[test]
fn a_node_that_comes_back_with_other_roles_takes_its_old_ones_along() {
    check(
        &[
            (1, "n1 registers A B"),
            (2, "A marks handed @1"),
            (3, "n1 registers dev qa"),
            (4, "A hands over s1"),
            (5, "dev hands over s1"),
        ],
        "
        1 n1 registers A B: epoch 1
        2 A marks handed @1: renewed until 102
        3 n1 registers dev qa: epoch 2, seated
        4 A hands over s1: no: unknown_role
        5 dev hands over s1: turn 1 ended, turn 2 to qa",
    );
}

#[test]
fn a_key_has_one_effect_one_answer_and_an_end() {
    check(
        &[
            (1, "A hands over s1 #a/1"),
            (2, "A hands over s1 #a/1"),
            (3, "A hands over s2 #a/1"),
            (4, "B hands over s2 #a/300"),
            (5, "A hands over s3 #a/44"),
            (6, "A hands over s3 #a/45"),
        ],
        "
        1 A hands over s1 #a/1: turn 1 ended, turn 2 to B
        2 A hands over s1 #a/1: turn 1 ended, turn 2 to B (same key)
        3 A hands over s2 #a/1: no: key_reused
        4 B hands over s2 #a/300: turn 2 ended, turn 3 to A
        5 A hands over s3 #a/44: no: key_expired
        6 A hands over s3 #a/45: turn 3 ended, turn 4 to B",
    );
}

/// Holds A7.
#[test]
fn a_quiet_holder_lapses_is_reclaimed_and_is_fenced_out() {
    check(
        &[
            (0, "A hands over s1"),
            (50, "A reclaims because impatient"),
            (99, "tick"),
            (100, "tick"),
            (101, "tick"),
            (110, "A reclaims because away"),
            (111, "A reclaims because away"),
            (120, "B hands over late"),
            (121, "B hands over late @2"),
            (122, "A hands over s3"),
        ],
        "
        0 A hands over s1: turn 1 ended, turn 2 to B
        50 A reclaims because impatient: no: turn_held
        99 tick:
        100 tick: turn 2 lapsed
        101 tick:
        110 A reclaims because away: turn 2 of B taken, turn 3 to A
        111 A reclaims because away: turn 2 of B taken, turn 3 to A (said before)
        120 B hands over late: no: stale_token
        121 B hands over late @2: no: stale_token
        122 A hands over s3: turn 3 ended, turn 4 to B",
    );
}

#[test]
fn a_person_may_take_a_turn_at_any_time_and_says_for_whom() {
    check(
        &[
            (0, "A hands over s1"),
            (1, "ann reclaims because lunch"),
            (2, "ann reclaims because lunch >C"),
            (3, "ann reclaims because lunch >A"),
            (4, "ann reclaims because lunch >A @2"),
            (5, "ann reclaims because other >A @2"),
        ],
        "
        0 A hands over s1: turn 1 ended, turn 2 to B
        1 ann reclaims because lunch: no: invalid_argument
        2 ann reclaims because lunch >C: no: unknown_role
        3 ann reclaims because lunch >A: turn 2 of B taken, turn 3 to A
        4 ann reclaims because lunch >A @2: turn 2 of B taken, turn 3 to A (said before)
        5 ann reclaims because other >A @2: no: stale_token",
    );
}

#[test]
fn participants_that_somebody_chose_stay_as_they_are() {
    check(
        &[
            (1, "n1 registers A B"),
            (1, "opens main dev qa"),
            (2, "opens main dev qa !"),
            (3, "opens main dev qa"),
            (4, "n1 registers A B"),
            (5, "n2 registers pm"),
            (6, "A hands over s1"),
        ],
        "
        1 n1 registers A B: epoch 1
        1 opens main dev qa: no: unknown_role
        2 opens main dev qa !: opened, seated
        3 opens main dev qa: opened (said before)
        4 n1 registers A B: epoch 2
        5 n2 registers pm: epoch 1
        6 A hands over s1: no: unknown_role",
    );
}

#[test]
fn a_workspace_hosts_no_more_roles_than_it_has_room_for() {
    let spec = |node: usize, role: usize| directory::RoleSpec {
        role: format!("r{node}-{role}").parse().unwrap(),
        toolsets: Vec::new(),
        is_standby: None,
    };
    let register = |node: usize, roles: usize| directory::Register {
        node: format!("n{node}").parse().unwrap(),
        roles: (0..roles).map(|role| spec(node, role)).collect(),
        take_over: false,
        software: String::new(),
        orphan_of: None,
    };
    let mut workspace = Workspace::default();
    let now = Timestamp::from_millis(1);
    let mut step = |register: directory::Register| {
        let command = directory::Command::Register(register);
        let decide = |asked: Asked<'_>| asked.workspace.directory.decide(asked, &command);
        let decision = ask(now, &Caller::default(), &workspace, decide)?;
        for event in &decision.events {
            if let Event::Directory(event) = event {
                workspace.directory.apply(now, &Principal::default(), event);
            }
        }
        Ok::<_, Rejection>(())
    };
    let (nodes, each) = (64, directory::HOSTED_ROLES_MAX / 64);
    (0..nodes).for_each(|node| step(register(node, each)).unwrap());
    assert_eq!(step(register(nodes, 1)), Err(Rejection::TooManyHostedRoles));
    // Those that are there register again, and one with fewer makes room.
    step(register(0, each)).unwrap();
    step(register(0, each - 1)).unwrap();
    step(register(nodes, 1)).unwrap();
}

#[test]
fn no_more_roles_are_seated_than_a_loop_may_have() {
    let mut story = Story::new(0);
    for node in ["n1", "n2"] {
        let roles: String = (0..40).map(|it| format!(" {node}.{it}")).collect();
        story.step(0, &format!("{node} registers{roles}"));
    }
    let main = &story.workspace.loops.by_id[&"main".parse().unwrap()];
    assert_eq!(main.participants.len(), tasuki_proto::limits::PARTICIPANTS_MAX);
}

#[test]
fn a_turn_that_lapsed_again_is_taken_again_in_the_same_words() {
    check(
        &[
            (0, "A hands over s1"),
            (1, "ann reclaims because away >B"),
            (2, "ann reclaims because away >B"),
            (101, "tick"),
            (102, "ann reclaims because away >B"),
        ],
        "
        0 A hands over s1: turn 1 ended, turn 2 to B
        1 ann reclaims because away >B: turn 2 of B taken, turn 3 to B
        2 ann reclaims because away >B: turn 2 of B taken, turn 3 to B (said before)
        101 tick: turn 3 lapsed
        102 ann reclaims because away >B: turn 3 of B taken, turn 4 to B",
    );
}

#[test]
fn signs_of_life_renew_a_lease_and_set_a_lapsed_one_running() {
    check(
        &[
            (0, "A hands over s1"),
            (60, "B is there"),
            (60, "tick"),
            (159, "tick"),
            (160, "tick"),
            (170, "B is there"),
            (170, "tick"),
            (171, "A reclaims because away"),
        ],
        "
        0 A hands over s1: turn 1 ended, turn 2 to B
        60 tick: renewed until 160
        159 tick:
        160 tick: turn 2 lapsed
        170 tick: renewed until 270
        171 A reclaims because away: no: turn_held",
    );
}

#[test]
fn receipts_are_told_once_and_only_of_the_turn_that_is_held() {
    check(
        &[
            (1, "A marks handed @1"),
            (2, "A hands over s1"),
            (3, "A marks handed @2"),
            (4, "B marks handed @2"),
            (5, "B marks handed @2"),
            (6, "B marks seen @2"),
            (7, "B marks handed @1"),
        ],
        "
        1 A marks handed @1: renewed until 101
        2 A hands over s1: turn 1 ended, turn 2 to B
        3 A marks handed @2:
        4 B marks handed @2: turn 2 handed
        5 B marks handed @2:
        6 B marks seen @2: turn 2 seen
        7 B marks handed @1:",
    );
}

#[test]
fn other_roles_are_seated_until_somebody_hands_over() {
    check(
        &[
            (1, "n1 registers A B"),
            (2, "n1 registers dev"),
            (3, "n2 registers qa dev"),
            (4, "n2 registers qa dev !"),
            (5, "n3 registers pm"),
        ],
        "
        1 n1 registers A B: epoch 1
        2 n1 registers dev: epoch 2, seated
        3 n2 registers qa dev: no: role_in_use
        4 n2 registers qa dev !: epoch 1, seated
        5 n3 registers pm: epoch 1, seated",
    );
    let mut story = Story::new(0);
    for line in [
        "n1 registers dev qa",
        "opens side A B C",
        "opens side A B C !",
        "opens side A B C",
        "opens side A",
        "opens other C dev",
    ] {
        story.step(1, line);
    }
    assert_eq!(
        story.told,
        "   1 n1 registers dev qa: epoch 1, seated\n   1 opens side A B C: no: unknown_role\n   1 \
         opens side A B C !: opened\n   1 opens side A B C: opened (said before)\n   1 opens side \
         A: opened, seated\n   1 opens other C dev: no: unknown_role\n"
    );
    let main = &story.workspace.loops.by_id[&"main".parse().unwrap()];
    assert_eq!(main.participants, [role("dev"), role("qa")]);
    assert_eq!(main.holder, Some(role("dev")));
}
