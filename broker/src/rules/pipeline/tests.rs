//! Stories about pipelines: at these times this was asked, and this came of it. Random ones hold the
//! invariants.
//!
//! Nodes n1 and n2 host pm and dev, n3 hosts qa and arch. The pipeline is plan, code, test, review,
//! where test and review lead back to code, review is a gate about code, and a plan is approved by a
//! person. It goes back twice at most.

mod model;

use std::borrow::Cow;

use ed25519_dalek::SigningKey;
use tasuki_proto::{
    id::{NodeId, Timestamp},
    pipeline::Definition,
    private::{OwnerKey, Roster},
    wire,
};

use super::*;
use crate::rules::{
    self, Caller, Context, Kept as _, Principal, Request, Workspace,
    board::{ChannelUpdate, Schema},
    directory,
    presence::Presence,
    privacy,
    turn::Actor,
};

const HOUR_MS: u64 = 3_600_000;

#[derive(Debug, Clone)]
struct Story {
    now: Timestamp,
    workspace: Workspace,
    context: Context,
}

fn definition() -> Definition {
    let phase = |name: &str, role: &str, on_failure: &str| wire::PipelinePhase {
        name: name.to_owned(),
        role: role.to_owned(),
        on_failure: on_failure.to_owned(),
        ..Default::default()
    };
    let mut phases = vec![
        phase("plan", "pm", ""),
        phase("code", "dev", ""),
        phase("test", "qa", "code"),
        phase("review", "arch", "code"),
    ];
    phases[0].approval_ms = HOUR_MS;
    phases[3].approves = "code".to_owned();
    Definition::read(&wire::PipelineDefinition { max_retries: 2, phases, ..Default::default() })
        .unwrap()
}

impl Story {
    fn new() -> Self {
        let now = Timestamp::from_millis(1);
        let context = Context::new(Presence::new(now), 1_000_000);
        let mut story = Self { now, workspace: Workspace::default(), context };
        for line in ["n1 registers pm dev", "n3 registers qa arch"] {
            assert_eq!(story.step(line), "done");
        }
        story
    }

    fn pipeline(&self) -> Option<&Pipeline> {
        self.workspace.pipelines.find(&"plan".parse().unwrap())
    }

    /// What is on the board, as far as it says where the pipeline stands.
    fn caller(&self, node: &str) -> Caller {
        let node: NodeId = node.parse().unwrap();
        let epoch = self.workspace.directory.nodes.get(&node).map(|it| it.epoch);
        Caller { node: epoch.map(|epoch| (node, epoch)), token: None }
    }

    fn step(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        let board = "plan".parse().unwrap();
        let attempt = self.pipeline().map_or(0, Pipeline::last);
        let (mut caller, command): (_, rules::Command) = match words[..] {
            ["tick"] => (Caller::default(), rules::Command::Tick),
            [node, "is", "there"] => {
                self.context.presence.node_seen(&node.parse().unwrap(), self.now);
                return "seen".to_owned();
            }
            ["the", "broker", "restarts"] => {
                self.context = Context::new(Presence::new(self.now), 1_000_000);
                let mut restored = Pipelines::default();
                let items = self.workspace.pipelines.items();
                items.for_each(|it| restored.restore(it).unwrap());
                restored.settle().unwrap();
                assert_eq!(restored, self.workspace.pipelines);
                return "restarted".to_owned();
            }
            [node, "registers", ..] => {
                let spec = |role: &&str| directory::RoleSpec {
                    role: role.parse().unwrap(),
                    toolsets: Vec::new(),
                    is_standby: None,
                };
                let register = directory::Register {
                    node: node.parse().unwrap(),
                    roles: words[2..].iter().map(spec).collect(),
                    take_over: true,
                    software: String::new(),
                    orphan_of: None,
                };
                (Caller::default(), directory::Command::Register(register).into())
            }
            [person, "starts"] => {
                let by = Actor::Person(person.parse().unwrap());
                let (definition, schema) = (definition(), Schema::agent_state());
                let start = Start { by, board, definition, updates: Vec::new(), schema };
                (Caller::default(), Command::Start(Box::new(start)).into())
            }
            [role, "on", node, "claims", ..] => {
                let attempt = words.get(4).map_or(attempt, |it| it.parse().unwrap());
                let role = role.parse().unwrap();
                (self.caller(node), Command::Claim { role, board, attempt }.into())
            }
            [role, "on", node, "ends", how, ..] => {
                let token = self.pipeline().and_then(|it| it.attempts.last()?.claim.clone());
                let token = token.map(|it| it.token).unwrap_or_default();
                let token = words.get(5).map_or(token, |it| it.parse::<u64>().unwrap().into());
                let update = |channel: &str, json: String| ChannelUpdate {
                    channel: channel.parse().unwrap(),
                    json,
                    messages: Vec::new(),
                };
                let mut updates = match how {
                    "silently" | "verbosely" => Vec::new(),
                    _ => vec![update("requirements", format!("\"{role}\""))],
                };
                updates.extend(match how {
                    "approving" => Some(update("is_approved", "true".to_owned())),
                    "rejecting" => Some(update("is_approved", "false".to_owned())),
                    "unsure" => Some(update("is_approved", "1".to_owned())),
                    "sadly" => Some(update("last_error", r#""it is sad\u0007""#.to_owned())),
                    _ => None,
                });
                let end = End {
                    role: role.parse().unwrap(),
                    board,
                    attempt,
                    token,
                    updates,
                    error: match how {
                        "badly" => Some("it is broken".to_owned()),
                        "silently" => Some("a secret".to_owned()),
                        "verbosely" => Some("x".repeat(4_096)),
                        _ => None,
                    },
                };
                (self.caller(node), Command::End(Box::new(end)).into())
            }
            [person, verb @ ("approves" | "rejects"), ..] => {
                let decide = DecideApproval {
                    by: person.parse().unwrap(),
                    board,
                    attempt: words.get(2).map(|it| it.parse().unwrap()),
                    checkpoint: words.get(4).map(|it| it.parse::<u64>().unwrap().into()),
                    is_approved: verb == "approves",
                    reason: String::new(),
                };
                (Caller::default(), Command::DecideApproval(decide).into())
            }
            [person, verb @ ("cancels" | "resumes")] => {
                let by = Actor::Person(person.parse().unwrap());
                let command = match verb {
                    "cancels" => Command::Cancel { by, board, reason: "enough".to_owned() },
                    _ => Command::Resume { by, board },
                };
                (Caller::default(), command.into())
            }
            _ => panic!("{line}"),
        };
        if line.contains("registers") {
            caller = Caller::default();
        }
        self.execute(caller, command)
    }

    fn execute(&mut self, caller: Caller, command: rules::Command) -> String {
        let principal = Principal {
            role: command.role().cloned(),
            person: command.person().cloned(),
            ..Principal::default()
        };
        let is_of_pipelines = matches!(command, rules::Command::Pipeline(_) | rules::Command::Tick);
        let request = Request { caller, key: None, command };
        let decision = match self.workspace.decide(self.now, &self.context, &request) {
            Ok(decision) => decision,
            Err(why) => return format!("no: {}", why.reason()),
        };
        let sequence = self.workspace.sequence.next();
        let (record, _) = decision.into_record(sequence, self.now, principal, None);
        self.workspace.apply(&record);
        if is_of_pipelines { self.told() } else { "done".to_owned() }
    }

    /// Where the pipeline stands.
    fn told(&self) -> String {
        let Some(it) = self.pipeline() else { return "no pipeline".to_owned() };
        let name = &it.phase().name;
        let retries = match it.retries {
            0 => String::new(),
            retries => format!(", retry {retries}"),
        };
        let attempt = it.last();
        match (&it.status, it.claim()) {
            (Status::InPhase(..), None) => format!("{name} waits, attempt {attempt}{retries}"),
            (Status::InPhase(_, checkpoint), Some(claim)) => {
                format!("{name}, attempt {attempt}{retries}, from {checkpoint} on {}", claim.node)
            }
            (Status::AwaitingApproval(_, lapses), _) => {
                format!("{name} waits for approval until {}", lapses.as_millis())
            }
            (Status::Ended(_, Outcome::Completed, _), _) => "completed".to_owned(),
            (Status::Ended(_, Outcome::Failed(why), _), _) => format!("failed: {why}"),
            (Status::Ended(_, Outcome::Canceled(why), _), _) => format!("canceled: {why}"),
            (Status::Ended(_, Outcome::Lapsed, _), _) => format!("approval of {name} lapsed"),
        }
    }
}

/// Times in milliseconds and what is asked then, and what comes of each.
fn check(steps: &[(u64, &str)], wanted: &str) {
    let mut story = Story::new();
    let told = steps.iter().map(|(now, line)| {
        story.now = Timestamp::from_millis(*now);
        format!("{now:>8} {}\n", story.step(line))
    });
    let told: String = told.collect();
    assert_eq!(told.trim_end(), wanted.trim_matches('\n'), "{steps:?}");
}

#[test]
fn phases_are_done_one_after_another() {
    check(
        &[
            (10, "ann starts"),
            (10, "ann starts"),
            (11, "dev on n1 claims"),
            (12, "pm on n1 claims"),
            (13, "pm on n1 claims"),
            (14, "pm on n1 ends well"),
            (15, "dev on n1 claims"),
            (16, "ann approves"),
            (17, "dev on n1 claims"),
            (18, "dev on n1 ends well"),
            (19, "qa on n3 claims"),
            (20, "qa on n3 ends well"),
            (21, "arch on n3 claims"),
            (22, "arch on n3 ends approving"),
            (23, "ann cancels"),
            (24, "ann resumes"),
        ],
        "
      10 plan waits, attempt 1
      10 no: pipeline_open
      11 no: role_forbidden
      12 plan, attempt 1, from 1 on n1
      13 no: phase_taken
      14 plan waits for approval until 3600014
      15 no: phase_taken
      16 code waits, attempt 2
      17 code, attempt 2, from 3 on n1
      18 test waits, attempt 3
      19 test, attempt 3, from 4 on n3
      20 review waits, attempt 4
      21 review, attempt 4, from 5 on n3
      22 completed
      23 no: pipeline_ended
      24 no: pipeline_ended",
    );
}

#[test]
fn what_fails_or_is_rejected_goes_back_until_its_retries_are_used_up() {
    check(
        &[
            (10, "ann starts"),
            (11, "pm on n1 claims"),
            (12, "pm on n1 ends well"),
            (13, "ann approves"),
            (14, "dev on n1 claims"),
            (15, "dev on n1 ends well"),
            (16, "qa on n3 claims"),
            (17, "qa on n3 ends badly"),
            (18, "dev on n1 claims"),
            (19, "dev on n1 ends well"),
            (20, "qa on n3 claims"),
            (21, "qa on n3 ends well"),
            (22, "arch on n3 claims"),
            (23, "arch on n3 ends rejecting"),
            (24, "dev on n1 claims"),
            (25, "dev on n1 ends badly"),
            (26, "ann resumes"),
        ],
        "
      10 plan waits, attempt 1
      11 plan, attempt 1, from 1 on n1
      12 plan waits for approval until 3600012
      13 code waits, attempt 2
      14 code, attempt 2, from 3 on n1
      15 test waits, attempt 3
      16 test, attempt 3, from 4 on n3
      17 code waits, attempt 4, retry 1
      18 code, attempt 4, retry 1, from 5 on n1
      19 test waits, attempt 5, retry 1
      20 test, attempt 5, retry 1, from 6 on n3
      21 review waits, attempt 6, retry 1
      22 review, attempt 6, retry 1, from 7 on n3
      23 code waits, attempt 7, retry 2
      24 code, attempt 7, retry 2, from 8 on n1
      25 failed: phase code failed, and 2 retries are used up: it is broken
      26 code waits, attempt 8",
    );
}

/// Holds PL3.
#[test]
fn a_gate_says_whether_another_roles_work_is_approved() {
    check(
        &[
            (10, "ann starts"),
            (11, "pm on n1 claims"),
            (12, "pm on n1 ends approving"),
            (13, "pm on n1 ends well"),
            (14, "ann approves"),
            (15, "dev on n1 claims"),
            (16, "dev on n1 ends approving"),
            (17, "dev on n1 ends well"),
            (18, "qa on n3 claims"),
            (19, "qa on n3 ends well"),
            (20, "arch on n3 claims"),
            (21, "arch on n3 ends well"),
            (22, "arch on n3 ends unsure"),
            (23, "arch on n3 ends approving"),
        ],
        "
      10 plan waits, attempt 1
      11 plan, attempt 1, from 1 on n1
      12 no: invalid_argument
      13 plan waits for approval until 3600013
      14 code waits, attempt 2
      15 code, attempt 2, from 3 on n1
      16 no: invalid_argument
      17 test waits, attempt 3
      18 test, attempt 3, from 4 on n3
      19 review waits, attempt 4
      20 review, attempt 4, from 5 on n3
      21 no: invalid_argument
      22 no: invalid_argument
      23 completed",
    );
}

#[test]
fn an_approval_lapses_and_is_refused_afterwards() {
    check(
        &[
            (10, "ann starts"),
            (10, "ann approves"),
            (11, "pm on n1 claims"),
            (12, "pm on n1 ends well"),
            (13, "ann approves 7"),
            (3_600_011, "tick"),
            (3_600_012, "ann approves"),
            (3_600_012, "tick"),
            (3_600_013, "ann approves"),
            (3_600_014, "ann resumes"),
            (3_600_015, "ann rejects"),
            (3_600_016, "ann approves"),
            (3_600_017, "pm on n1 claims"),
            (3_600_018, "pm on n1 ends well"),
            (3_600_019, "ann approves 2"),
        ],
        "
      10 plan waits, attempt 1
      10 no: no_approval_pending
      11 plan, attempt 1, from 1 on n1
      12 plan waits for approval until 3600012
      13 no: no_approval_pending
 3600011 plan waits for approval until 3600012
 3600012 no: approval_lapsed
 3600012 approval of plan lapsed
 3600013 no: approval_lapsed
 3600014 plan waits for approval until 7200014
 3600015 plan waits, attempt 2, retry 1
 3600016 no: no_approval_pending
 3600017 plan, attempt 2, retry 1, from 3 on n1
 3600018 plan waits for approval until 7200018
 3600019 code waits, attempt 3, retry 1",
    );
}

#[test]
fn the_attempt_of_a_node_that_is_gone_is_made_again_under_the_same_checkpoint() {
    check(
        &[
            (10, "ann starts"),
            (11, "pm on n1 claims"),
            (60_010, "tick"),
            (60_010, "n1 is there"),
            (60_011, "tick"),
            (120_010, "tick"),
            // Silent for longer than a node that is there ever is.
            (180_010, "tick"),
            (180_011, "pm on n1 ends well 1"),
            (180_012, "pm on n1 claims"),
            (180_013, "n1 registers pm dev"),
            (180_014, "pm on n1 ends well"),
            (180_015, "pm on n1 claims"),
            (180_016, "ann cancels"),
            (180_017, "pm on n1 ends well"),
            (180_018, "ann resumes"),
        ],
        "
      10 plan waits, attempt 1
      11 plan, attempt 1, from 1 on n1
   60010 plan, attempt 1, from 1 on n1
   60010 seen
   60011 plan, attempt 1, from 1 on n1
  120010 plan waits, attempt 2
  180010 plan waits, attempt 2
  180011 no: lease_lost
  180012 plan, attempt 2, from 1 on n1
  180013 done
  180014 no: lease_lost
  180015 plan, attempt 3, from 1 on n1
  180016 canceled: enough
  180017 no: lease_lost
  180018 plan waits, attempt 4",
    );
}

/// What a person looked at is what they approve: another pipeline has other attempts, and what was
/// written since is another checkpoint.
#[test]
fn nothing_is_approved_that_was_not_looked_at() {
    check(
        &[
            (10, "ann starts"),
            (11, "pm on n1 claims"),
            (12, "pm on n1 ends well"),
            (13, "ann cancels"),
            (14, "ann starts"),
            (15, "pm on n1 claims"),
            (16, "pm on n1 ends well"),
            (17, "ann approves 1"),
            (18, "ann approves 2 at 2"),
            (19, "ann rejects 2 at 5"),
            (20, "ann approves 2 at 4"),
        ],
        "
      10 plan waits, attempt 1
      11 plan, attempt 1, from 1 on n1
      12 plan waits for approval until 3600012
      13 canceled: enough
      14 plan waits, attempt 2
      15 plan, attempt 2, from 3 on n1
      16 plan waits for approval until 3600016
      17 no: no_approval_pending
      18 no: stale_checkpoint
      19 no: stale_checkpoint
      20 code waits, attempt 3",
    );
}

#[test]
fn whoever_takes_over_a_role_makes_its_attempt_again() {
    check(
        &[
            (10, "ann starts"),
            (11, "pm on n1 claims"),
            (12, "n2 registers pm"),
            (13, "pm on n1 ends well"),
            (14, "pm on n2 claims"),
        ],
        "
      10 plan waits, attempt 1
      11 plan, attempt 1, from 1 on n1
      12 done
      13 no: role_forbidden
      14 plan, attempt 2, from 1 on n2",
    );
}

/// A workspace that becomes private while a phase is done: its failure is noted, and no word of it.
#[test]
fn a_phase_fails_though_its_board_takes_nothing() {
    let mut story = Story::new();
    story.step("ann starts");
    story.step("pm on n1 claims");
    make_private(&mut story.workspace);
    let head =
        |story: &Story| story.workspace.boards.find(&"plan".parse().unwrap()).unwrap().head();
    let before = head(&story);
    assert_eq!(story.step("pm on n1 ends sadly"), "no: private_workspace");
    assert_eq!(story.step("pm on n1 ends silently"), "plan waits, attempt 2, retry 1");
    assert_eq!(head(&story), before, "nothing is written in the clear");
    let end = story.pipeline().unwrap().attempts[0].end.clone().unwrap();
    assert_eq!(end.error, "it failed; why is not said in a private workspace");
    assert_eq!(story.step("ann cancels"), "no: private_workspace");
}

fn make_private(workspace: &mut Workspace) {
    let owner = SigningKey::from_bytes(&[1; 32]);
    let public = OwnerKey(owner.verifying_key().to_bytes());
    let name = "w".parse().unwrap();
    let roster =
        Roster { workspace: name, owner: public, number: 1, is_on: true, keys: Vec::new() };
    let roster = Cow::Owned(roster.signed(&owner).unwrap());
    workspace.privacy.restore(privacy::SnapshotItem::Roster(roster)).unwrap();
}

/// A pipeline whose failures are long keeps the whole of the newest.
#[test]
fn of_earlier_attempts_the_beginning_of_why_they_failed_is_kept() {
    let mut story = Story::new();
    story.step("ann starts");
    for _ in 0..3 {
        story.step("pm on n1 claims");
        story.step("pm on n1 ends verbosely");
    }
    let ends = |index: usize| story.pipeline().unwrap().attempts[index].end.clone().unwrap().error;
    assert_eq!(ends(0), format!("{}…", "x".repeat(256)));
    assert_eq!(ends(2), "x".repeat(4_096));
}

#[test]
fn a_pipeline_goes_with_its_board() {
    let mut story = Story::new();
    story.step("ann starts");
    let delete = || {
        let by = "ann".parse().unwrap();
        rules::board::Command::Delete { by, board: "plan".parse().unwrap() }
    };
    assert_eq!(story.execute(Caller::default(), delete().into()), "no: pipeline_open");
    story.step("ann cancels");
    assert_eq!(story.execute(Caller::default(), delete().into()), "done");
    assert_eq!(story.step("ann resumes"), "no: unknown_pipeline");
}

#[test]
fn an_attempt_that_takes_too_long_is_a_failure() {
    let mut story = Story::new();
    story.now = Timestamp::from_millis(10);
    story.step("ann starts");
    story.step("pm on n1 claims");
    for minute in 1..60 {
        story.now = Timestamp::from_millis(10 + minute * 60_000);
        story.step("n1 is there");
        assert_eq!(story.step("tick"), "plan, attempt 1, from 1 on n1", "{minute}");
    }
    story.now = Timestamp::from_millis(10 + HOUR_MS);
    story.step("n1 is there");
    assert_eq!(story.step("pm on n1 ends well"), "no: lease_lost");
    assert_eq!(story.step("tick"), "plan waits, attempt 2, retry 1");
}

#[test]
fn a_pipeline_is_forgotten_a_month_after_it_ended() {
    let mut story = Story::new();
    story.step("ann starts");
    story.step("ann cancels");
    let month = tasuki_proto::limits::PIPELINE_KEPT_MS;
    story.now = story.now.plus_millis(month - 1);
    assert_eq!(story.step("tick"), "canceled: enough");
    story.now = story.now.plus_millis(1);
    assert_eq!(story.workspace.next_deadline(story.now, 1000), Some(story.now));
    assert_eq!(story.step("tick"), "no pipeline");
}
