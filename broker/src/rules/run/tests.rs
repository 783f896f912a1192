//! Stories about runs: at these times this was asked, and this came of it.
//!
//! Runs are numbered in the order in which they were started, `1/2` is the second step of the first.
//! `A@n1` is the role A over the node n1, which hosts A and B. A step's secret is its name. Nodes n1 and n3 are of one
//! token, n2 is of another.

mod budgets;
mod files;
mod trees;

use tasuki_proto::{
    id::{NodeId, Timestamp},
    limits::OPEN_RUNS_PER_TOKEN_MAX,
    run::{RunId, StepId},
    token::SecretHash,
};

use super::{
    Answer, Bearer, Command, End, Event, Failure, File, FileFacts, MessageKind, Mode, Offer,
    Outcome, Question, Reply, Report, Speaker, Start, StepResult, StepSpec, StepWords, Text, Usage,
    WantedBudget, words::OutputWords,
};
use crate::rules::{
    self, Caller, Context, Kept as _, Principal, Record, Request, Workspace, directory,
    presence::Presence,
};

struct Story {
    now: Timestamp,
    workspace: Workspace,
    context: Context,
    runs: Vec<RunId>,
    records: Vec<Record>,
}

fn file(name: &str, content: &str) -> File {
    let (name, media_type) = (name.to_owned(), "text/plain".to_owned());
    let facts = FileFacts { name, media_type, size: content.len() as u64 };
    File { facts, content: content.to_owned().into() }
}

fn secret(step: StepId) -> SecretHash {
    SecretHash::of(step.to_string().as_bytes())
}

impl Story {
    fn new() -> Self {
        let context = Context::new(Presence::new(Timestamp::default()), 1_000_000);
        let now = Timestamp::default();
        let mut story =
            Self { now, workspace: Workspace::default(), context, runs: vec![], records: vec![] };
        for line in ["n1 registers", "n2 registers", "n3 registers"] {
            story.step(line);
        }
        story
    }

    fn run(&self, name: &str) -> RunId {
        self.runs[name.parse::<usize>().unwrap() - 1]
    }

    fn name(&self, run: RunId) -> usize {
        self.runs.iter().position(|it| *it == run).unwrap_or(self.runs.len()) + 1
    }

    fn step_id(&self, name: &str) -> StepId {
        let (run, number) = name.split_once('/').unwrap();
        StepId { run: self.run(run), number: number.parse().unwrap() }
    }

    fn bearer(&self, name: &str) -> Bearer {
        let step = self.step_id(name);
        Bearer { step, secret: *secret(step).as_bytes() }
    }

    fn speaker(&self, name: &str) -> Speaker {
        let name = name.split('@').next().unwrap();
        match name.contains('/') {
            true => Speaker::Step(self.bearer(name)),
            false if name == "ann" => Speaker::Person(name.parse().unwrap()),
            false => Speaker::Role(name.parse().unwrap()),
        }
    }

    /// Which node calls: the one behind the `@`, the one that is named, or that of the step.
    fn caller(&self, name: &str) -> Caller {
        let node: NodeId = match name.split_once('@') {
            Some((_, node)) => node.parse().unwrap(),
            None if name.starts_with('n') => name.parse().unwrap(),
            None if name.contains('/') => {
                let step = self.step_id(name);
                let found = self.workspace.runs.step(step).ok();
                let claim = found.and_then(|(_, it)| it.claim());
                claim.map_or_else(|| "n1".parse().unwrap(), |claim| claim.node.clone())
            }
            None => return Caller::default(),
        };
        let token = Some(if node.as_str() == "n2" { "t2" } else { "t1" }.parse().unwrap());
        let epoch = self.workspace.directory.nodes.get(&node).map(|it| it.epoch);
        Caller { node: epoch.map(|epoch| (node, epoch)), token }
    }

    fn token(&self, step: StepId) -> tasuki_proto::id::FencingToken {
        let found = self.workspace.runs.step(step).ok();
        found.and_then(|(_, it)| it.claim()).map(|it| it.token).unwrap_or_default()
    }

    fn step(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        let caller = self.caller(words[0]);
        let option = |name: &str| {
            let at = words.iter().position(|it| *it == name)?;
            Some(words[at + 1])
        };
        let number = |name: &str| option(name).map(|it| it.parse::<u64>().unwrap());
        let usage = Usage {
            cost_microusd: number("cost").unwrap_or(0),
            turns: number("turns").unwrap_or(0),
            ..Usage::default()
        };
        let small = |name: &str| number(name).map(|it| u32::try_from(it).unwrap());
        let command = match words[..] {
            ["tick"] => rules::Command::Tick,
            ["restart"] => {
                self.context = Context::new(Presence::new(self.now), 1_000_000);
                return "restarted".to_owned();
            }
            [node, "registers"] => {
                let spec = |role: &str| directory::RoleSpec {
                    role: role.parse().unwrap(),
                    toolsets: Vec::new(),
                    is_standby: None,
                };
                let hosts: &[&str] = if node == "n1" { &["A", "B"] } else { &[] };
                let register = directory::Register {
                    node: node.parse().unwrap(),
                    roles: hosts.iter().map(|it| spec(it)).collect(),
                    take_over: false,
                    software: String::new(),
                    orphan_of: None,
                };
                let caller = Caller { node: None, ..self.caller(&format!("x@{node}")) };
                let token = Some(if node == "n2" { "t2" } else { "t1" }.parse().unwrap());
                let command = directory::Command::Register(register).into();
                return self.execute(Caller { token, ..caller }, command);
            }
            [_, "starts", mode, count, ..] => {
                let spec = StepSpec {
                    agent: "scout".to_owned(),
                    runner: "pi".parse().unwrap(),
                    model: String::new(),
                    on: option("on").map(|it| it.parse().unwrap()),
                    timeout_ms: 0,
                };
                let steps = count.parse::<usize>().unwrap();
                let start = Start {
                    by: self.speaker(words[0]),
                    mode: match mode {
                        "single" => Mode::Single,
                        "parallel" => Mode::Parallel,
                        _ => Mode::Chain,
                    },
                    steps: vec![(spec, StepWords::default()); steps],
                    concurrency: small("by").unwrap_or(4),
                    budget: WantedBudget {
                        cost_microusd: number("cost"),
                        turns: number("turns"),
                        depth: small("depth"),
                        steps: small("steps"),
                    },
                    may_elsewhere: words.contains(&"elsewhere"),
                };
                Command::Start(Box::new(start)).into()
            }
            [node, "claims", step] => {
                let step = self.step_id(step);
                let secret = secret(step);
                assert!(node.starts_with('n'), "nodes claim");
                Command::Claim { step, secret }.into()
            }
            [_, "ends", step, how, ..] => {
                let step = self.step_id(step);
                let outcome = match how {
                    "well" => Outcome::Succeeded,
                    "badly" => Outcome::Failed(Failure::ExitCode),
                    "broke" => Outcome::Failed(Failure::Budget),
                    _ => Outcome::Canceled,
                };
                let token = number("under").map_or_else(|| self.token(step), Into::into);
                let (result, words) = (StepResult::default(), OutputWords::default());
                Command::End(Box::new(End { step, token, outcome, usage, result, words })).into()
            }
            [_, "reports", step, ..] => {
                let step = self.step_id(step);
                let token = number("under").map_or_else(|| self.token(step), Into::into);
                if let Err(why) = self.workspace.runs.check_claim(&caller, step, token) {
                    return format!("no: {}", why.reason());
                }
                let report = Report { at: self.now, usage, ..Report::default() };
                self.context.reports.insert(step, report);
                let stop = self.workspace.runs.stop(step, &self.context.reports);
                return stop.map_or_else(|| "go on".to_owned(), |why| format!("stop: {why:?}"));
            }
            [node, "waits", ..] => return self.wait(node, &words),
            [who, "cancels", run] => {
                Command::Cancel { by: self.speaker(who), run: self.run(run) }.into()
            }
            [step, verb @ ("asks" | "tells"), text] => {
                let kind = if verb == "asks" { MessageKind::Question } else { MessageKind::Report };
                let (by, text) = (self.bearer(step), Text::Plain(text.to_owned()));
                Command::Tell { by, kind, text, file: None }.into()
            }
            [step, "hands", name, content] => {
                let (by, kind, text) = (self.bearer(step), MessageKind::Report, Text::default());
                Command::Tell { by, kind, text, file: Some(Box::new(file(name, content))) }.into()
            }
            [step, "awaits", number] => {
                let (by, number) = (self.bearer(step), number.parse().unwrap());
                let (runs, directory) = (&self.workspace.runs, &self.workspace.directory);
                return match runs.answer(directory, &Question::Reply { by, number }, |_| true) {
                    Ok(answer) if answer.is_there() => "there".to_owned(),
                    Ok(_) => "not yet".to_owned(),
                    Err(why) => format!("no: {}", why.reason()),
                };
            }
            [who, "replies", run, number, text] => {
                let (by, run) = (self.speaker(who), self.run(run));
                let (number, text) = (number.parse().unwrap(), Text::Plain(text.to_owned()));
                Command::Reply { by, run, number, text }.into()
            }
            _ => panic!("{line}"),
        };
        self.execute(caller, command)
    }

    /// `n1 waits 2 [label gpu] [elsewhere]`
    fn wait(&self, node: &str, words: &[&str]) -> String {
        let label = words.iter().position(|it| *it == "label").map(|at| words[at + 1]);
        let offer = Offer {
            node: node.parse().unwrap(),
            runners: ["pi".parse().unwrap()].into(),
            labels: label.iter().map(|it| it.parse().unwrap()).collect(),
            places: words[2].parse().unwrap(),
            accepts_elsewhere: words.contains(&"elsewhere"),
            stopping: Default::default(),
        };
        let (runs, directory) = (&self.workspace.runs, &self.workspace.directory);
        let answer = runs.answer(directory, &Question::Steps(Box::new(offer)), |_| true);
        let Ok(Answer::Steps { ready, stop }) = answer else { panic!("{answer:?}") };
        let name = |it: StepId| format!("{}/{}", self.name(it.run), it.number);
        let ready = ready.map_or_else(|| "nothing".to_owned(), name);
        match stop.is_empty() {
            true => ready,
            false => {
                let stop: Vec<String> = stop.into_iter().map(name).collect();
                format!("{ready}, stop {}", stop.join(" "))
            }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "these stories are about runs")]
    fn execute(&mut self, caller: Caller, command: rules::Command) -> String {
        let request = Request { caller, key: None, command };
        let decided = self.workspace.decide(self.now, &self.context, &request);
        let decision = match decided {
            Ok(decision) => decision,
            Err(why) => return format!("no: {}", why.reason()),
        };
        let sequence = self.workspace.sequence.next();
        let (record, _) = decision.into_record(sequence, self.now, Principal::default(), None);
        self.workspace.apply(&record);
        let mut said = match &record.reply {
            rules::Reply::Run(Reply::Started { run }) => {
                self.runs.push(*run);
                format!("run {}", self.runs.len())
            }
            rules::Reply::Run(Reply::Claimed { token, lapses }) => {
                format!("token {token} until {}", lapses.as_millis())
            }
            rules::Reply::Run(Reply::Told { number }) => format!("#{number}"),
            _ if record.is_repeat => "so already".to_owned(),
            _ => "done".to_owned(),
        };
        for event in &record.events {
            if let rules::Event::Run(event) = event
                && let Some(told) = self.tell(event)
            {
                said += &format!(", {told}");
            }
        }
        self.records.push(record);
        said
    }

    fn tell(&self, event: &Event) -> Option<String> {
        Some(match event {
            Event::StepEnded(it) => {
                let (run, number) = (self.name(it.step.run), it.step.number);
                format!("{run}/{number} {:?}", it.outcome)
            }
            Event::Stopped { run, why } => format!("{} stopped: {why:?}", self.name(*run)),
            Event::Ended { run, outcome } => format!("{} is {outcome:?}", self.name(*run)),
            Event::LeaseRenewed { lapses, is_grace, .. } => {
                let grace = if *is_grace { "grace" } else { "goes on" };
                format!("{grace} until {}", lapses.as_millis())
            }
            Event::Forgotten { runs } => format!("{} forgotten", runs.len()),
            Event::Started(_)
            | Event::StepStarted(_)
            | Event::ParentTold { .. }
            | Event::Replied { .. } => return None,
        })
    }

    /// Replay and a snapshot give the same state, and what is added up is right.
    fn check(&self) {
        let mut again = Workspace::default();
        self.records.iter().for_each(|record| again.apply(record));
        assert_eq!(again, self.workspace, "W1");
        let mut woken = super::Runs::default();
        self.workspace.runs.items().for_each(|item| woken.restore(item).unwrap());
        woken.settle().unwrap();
        assert_eq!(woken, self.workspace.runs, "W1");
        for run in self.workspace.runs.iter() {
            let steps = self.workspace.runs.tree(run.id).into_iter().flat_map(|run| &run.steps);
            let used = steps.fold(Usage::default(), |used, step| used.plus(step.usage));
            assert_eq!(used, run.used, "RU5: {}", run.id);
        }
    }
}

/// Lines of `time asked => what came of it`.
#[track_caller]
fn check(lines: &str) {
    let mut story = Story::new();
    for line in lines.trim().lines() {
        let (asked, expected) = line.trim().split_once(" => ").expect("what comes of it");
        let (now, asked) = asked.split_once(' ').expect("when");
        story.now = Timestamp::from_millis(now.parse().unwrap());
        assert_eq!(story.step(asked.trim()), expected, "{line}");
        story.check();
    }
}

/// Holds RU3.
#[test]
fn a_parallel_run_ends_when_all_its_steps_have() {
    check(
        "0 A@n1 starts parallel 3 by 2 => run 1
        1 n1 waits 1 => 1/1
        1 n1 claims 1/1 => token 1 until 60001
        1 n1 waits 1 => 1/2
        1 n1 claims 1/2 => token 2 until 60001
        1 n1 waits 1 => nothing
        1 n1 claims 1/3 => no: step_taken
        2 n1 ends 1/1 badly => done, 1/1 Failed(ExitCode)
        2 n1 waits 1 => 1/3
        2 n1 claims 1/3 => token 3 until 60002
        3 n1 ends 1/3 well => done, 1/3 Succeeded
        4 n1 ends 1/2 well => done, 1/2 Succeeded, 1 is Failed
        5 A@n1 cancels 1 => so already",
    );
}

#[test]
fn a_chain_goes_on_without_whoever_asked_and_ends_at_the_first_failure() {
    check(
        "0 A@n1 starts chain 3 on n2 elsewhere => run 1
        1 n1 claims 1/1 => no: step_taken
        1 n2 claims 1/2 => no: step_taken
        1 n2 claims 1/1 => token 1 until 60001
        2 n2 ends 1/1 well => done, 1/1 Succeeded
        2 n2 waits 1 elsewhere => 1/2
        2 n2 claims 1/2 => token 2 until 60002
        3 n2 ends 1/2 badly => done, 1/2 Failed(ExitCode), 1 is Failed
        4 n2 claims 1/3 => no: step_taken
        5 A@n1 starts chain 1 => run 2
        5 n1 claims 2/1 => token 3 until 60005
        6 n1 ends 2/1 well => done, 2/1 Succeeded, 2 is Succeeded",
    );
}

/// Holds RU1, RU2 and RU4.
#[test]
fn a_step_is_held_by_one_node_and_nothing_is_written_under_an_older_token() {
    check(
        "0 A@n1 starts single 1 on gpu elsewhere => run 1
        1 n2 claims 1/1 => token 1 until 60001
        1 n2 claims 1/1 => token 1 until 60001
        1 n3 claims 1/1 => no: step_taken
        2 n3 ends 1/1 well => no: stale_token
        2 n2 ends 1/1 well under 7 => no: stale_token
        2 n3 reports 1/1 => no: stale_token
        30000 n2 reports 1/1 => go on
        60001 tick => done, goes on until 90000
        90000 tick => done, 1/1 Lost, 1 is Lost
        90001 n2 ends 1/1 well under 1 => no: lease_lost
        90001 n2 reports 1/1 under 1 => no: lease_lost
        90002 n2 claims 1/1 => no: step_taken
        90003 n2 waits 4 elsewhere => nothing",
    );
}

#[test]
fn a_node_that_begins_anew_has_lost_what_it_ran() {
    check(
        "0 A@n1 starts parallel 3 => run 1
        1 n1 claims 1/1 => token 1 until 60001
        1 n1 claims 1/2 => token 2 until 60001
        2 n1 ends 1/2 well cost 3 => done, 1/2 Succeeded
        2 n1 reports 1/1 cost 5 => go on
        3 n2 registers => done
        3 n1 registers => done, 1/1 Lost
        4 n1 waits 1 => 1/3
        4 n1 claims 1/3 => token 3 until 60004
        5 n1 ends 1/3 well => done, 1/3 Succeeded, 1 is Lost",
    );
}

#[test]
fn what_ran_while_the_broker_was_down_gets_one_grace() {
    check(
        "0 A@n1 starts single 1 => run 1
        1 n1 claims 1/1 => token 1 until 60001
        70000 restart => restarted
        70000 tick => done, grace until 130000
        80000 n1 reports 1/1 => go on
        81000 tick => done, goes on until 140000
        150000 restart => restarted
        150000 tick => done, grace until 210000
        160000 restart => restarted
        210000 tick => done, 1/1 Lost, 1 is Lost",
    );
}

#[test]
fn a_step_is_shown_to_a_node_that_may_and_can() {
    check(
        "0 A@n1 starts single 1 => run 1
        0 n2 waits 4 elsewhere => nothing
        0 n3 waits 4 elsewhere => nothing
        0 n1 waits 0 => nothing
        0 n1 waits 1 => 1/1
        1 A@n1 starts single 1 on n2 => no: right_forbidden
        1 A@n1 starts single 1 on gpu => no: right_forbidden
        1 A@n1 starts single 1 on n3 => run 2
        1 A@n1 starts single 1 on n2 elsewhere => run 3
        1 A@n1 starts single 1 on gpu elsewhere => run 4
        1 A starts single 1 => no: invalid_argument
        2 n3 waits 1 => 2/1
        2 n2 waits 1 => nothing
        2 n2 waits 1 elsewhere => 3/1
        2 n2 claims 3/1 => token 1 until 60002
        2 n2 waits 1 elsewhere => nothing
        2 n2 waits 1 label gpu elsewhere => 4/1
        2 n1 waits 1 label gpu => 1/1
        2 n1 claims 1/1 => token 2 until 60002
        2 n1 waits 1 label gpu => 4/1
        2 n1 claims 2/1 => no: step_taken",
    );
}

#[test]
fn who_is_canceled_before_it_begins_ends_at_once_and_what_runs_when_its_node_says_so() {
    check(
        "0 A@n1 starts parallel 3 by 1 => run 1
        1 n1 claims 1/1 => token 1 until 60001
        2 B@n1 cancels 1 => no: not_asker
        2 A@n1 cancels 1 => done, 1 stopped: Canceled
        2 A@n1 cancels 1 => so already
        3 n1 reports 1/1 => stop: Canceled
        3 n1 waits 1 => nothing, stop 1/1
        3 n1 claims 1/2 => no: step_taken
        4 n1 ends 1/1 canceled => done, 1/1 Canceled, 1 is Canceled
        5 B@n1 starts chain 2 => run 2
        5 ann cancels 2 => done, 2 stopped: Canceled, 2 is Canceled
        6 B@n1 starts single 1 => run 3
        6 n1 claims 3/1 => token 2 until 60006
        7 ann cancels 3 => done, 3 stopped: Canceled
        60006 tick => done, 3/1 Lost, 3 is Canceled",
    );
}

#[test]
fn runs_that_ended_are_forgotten_after_a_week() {
    check(
        "0 A@n1 starts single 1 => run 1
        0 A@n1 starts single 1 => run 2
        1 A@n1 cancels 1 => done, 1 stopped: Canceled, 1 is Canceled
        604800000 tick => done
        604800001 tick => done, 1 forgotten
        604800002 A@n1 cancels 1 => no: unknown_run
        604800002 n1 waits 1 => 2/1",
    );
}

#[test]
fn one_token_leaves_room_for_others() {
    let mut story = Story::new();
    for (asked, expected) in [
        ("A@n1 starts single 1 on n3", "run 1"),
        ("A@n1 starts single 1 on n2 elsewhere", "run 2"),
        ("n3 claims 1/1", "token 1 until 60000"),
        ("n2 claims 2/1", "token 2 until 60000"),
    ] {
        assert_eq!(story.step(asked), expected, "{asked}");
    }
    for number in 3..=OPEN_RUNS_PER_TOKEN_MAX {
        assert_eq!(story.step("A@n1 starts single 1"), format!("run {number}"));
    }
    for (asked, expected) in [
        ("A@n1 starts single 1", "no: overloaded"),
        // The node n3 has the same token.
        ("1/1 starts single 1", "no: overloaded"),
        ("2/1 starts single 1", "run 257"),
        ("ann starts single 1 on n1 elsewhere", "run 258"),
        ("A@n1 cancels 3", "done, 3 stopped: Canceled, 3 is Canceled"),
        ("B@n1 starts single 1", "run 259"),
        ("B@n1 starts single 1", "no: overloaded"),
    ] {
        assert_eq!(story.step(asked), expected, "{asked}");
    }
    story.check();
}
