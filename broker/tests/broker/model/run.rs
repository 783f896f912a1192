//! The part of the story that is about runs, and what must hold of them, judged by what happened
//! and nothing else.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use tasuki_broker::rules::{
    Caller, Event, Workspace,
    run::{
        self, Asker, Bearer, Command, End, Failure, File, FileFacts, MessageKind, Mode, Outcome,
        OutputWords, Report, Reports, Run, RunOutcome, Speaker, Start, StepResult, StepSpec,
        StepWords, Text, Usage, WantedBudget,
    },
};
use tasuki_proto::{
    id::{Epoch, FencingToken, NodeId, Timestamp},
    run::{RunId, StepId},
    token::SecretHash,
};

use super::{ROLES, node_of};

#[derive(Debug, Clone, Copy)]
enum What {
    Start,
    StartBelow,
    Claim,
    Report,
    End,
    EndUnder,
    Cancel,
    Ask,
    Tell,
    Reply,
    Pass,
}

#[derive(Debug, Clone)]
pub(super) struct Step {
    what: What,
    who: u8,
    node: u8,
    run: u8,
    step: u8,
    n: u8,
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let what = prop_oneof![
        4 => Just(What::Start), 3 => Just(What::StartBelow), 12 => Just(What::Claim),
        4 => Just(What::Report), 10 => Just(What::End), 2 => Just(What::EndUnder),
        2 => Just(What::Cancel), 2 => Just(What::Ask), 1 => Just(What::Tell),
        2 => Just(What::Reply), 2 => Just(What::Pass),
    ];
    (what, 0..4u8, 0..2u8, 0..4u8, 0..3u8, any::<u8>())
        .prop_map(|(what, who, node, run, step, n)| Step { what, who, node, run, step, n })
}

/// How far the step lets time go.
pub(super) fn passes(step: &Step) -> Option<u64> {
    let times = [1, 1_000, 20_000, 61_000, 130_000, 700_000_000];
    matches!(step.what, What::Pass).then(|| times[usize::from(step.n) % times.len()])
}

fn secret(step: StepId) -> SecretHash {
    SecretHash::of(step.to_string().as_bytes())
}

/// What a step asks for, and which node asks; nothing where there is nothing to ask about.
pub(super) fn command(
    step: &Step,
    workspace: &Workspace,
    reports: &mut Reports,
    now: Timestamp,
) -> Option<(Caller, Command)> {
    let node = node_of(step.node);
    let epoch = workspace.directory.nodes.get(&node)?.epoch;
    let caller = |node: NodeId, epoch: Epoch| Caller { node: Some((node, epoch)), token: None };
    let runs: Vec<&Run> = workspace.runs.iter().rev().take(4).collect();
    let run = runs.get(usize::from(step.run)).copied();
    let id = run.map(|run| {
        let number = u32::from(step.step) % u32::try_from(run.steps.len()).unwrap_or(1) + 1;
        StepId { run: run.id, number }
    });
    let claim = id.and_then(|id| workspace.runs.step(id).ok()?.1.claim().cloned());
    let own = claim.as_ref().map(|claim| caller(claim.node.clone(), claim.epoch));
    let bearer = id.map(|step| Bearer { step, secret: *secret(step).as_bytes() });
    let role = || Speaker::Role(ROLES[usize::from(step.who)].parse().expect("a role"));
    let asker = |run: &Run| match &run.asker {
        Asker::Role(role) => Speaker::Role(role.clone()),
        Asker::Person(person) => Speaker::Person(person.clone()),
        Asker::Step(step) => {
            Speaker::Step(Bearer { step: *step, secret: *secret(*step).as_bytes() })
        }
    };
    let usage = Usage { cost_microusd: (step.n % 16).into(), turns: 1, ..Usage::default() };
    let text = Text::Plain(format!("t{}", step.n % 2));
    let end = |step_id, token| {
        let outcome = match step.n % 6 {
            0 => Outcome::Failed(Failure::ModelError),
            1 => Outcome::Failed(Failure::Budget),
            2 => Outcome::Canceled,
            _ => Outcome::Succeeded,
        };
        let (result, words) = (StepResult::default(), OutputWords::default());
        Command::End(Box::new(End { step: step_id, token, outcome, usage, result, words }))
    };
    Some(match step.what {
        What::Pass => return None,
        What::Start => {
            let spec = workspace.directory.nodes.get(&node)?.roles.first()?;
            let by = Speaker::Role(spec.role.clone());
            (caller(node, epoch), Command::Start(Box::new(start(step, by))))
        }
        What::StartBelow => (own?, Command::Start(Box::new(start(step, Speaker::Step(bearer?))))),
        What::Claim => {
            let ready = runs.iter().flat_map(|run| run.ready()).collect::<Vec<_>>();
            let aimed = ready.get(usize::from(step.n) % ready.len().max(1)).copied().or(id)?;
            (caller(node, epoch), Command::Claim { step: aimed, secret: secret(aimed) })
        }
        What::Report => {
            claim?;
            reports.insert(id?, Report { at: now, usage, ..Report::default() });
            return None;
        }
        What::End => (own?, end(id?, claim?.token)),
        What::EndUnder => {
            (caller(node, epoch), end(id?, FencingToken::from(u64::from(step.n % 8))))
        }
        What::Cancel if step.n.is_multiple_of(4) => {
            (Caller::default(), Command::Cancel { by: role(), run: run?.id })
        }
        What::Cancel => (Caller::default(), Command::Cancel { by: asker(run?), run: run?.id }),
        What::Ask => {
            let (by, kind, file) = (bearer?, MessageKind::Question, None);
            (own?, Command::Tell { by, kind, text, file })
        }
        What::Tell => {
            let file = step.n.is_multiple_of(2).then(|| Box::new(file(step.n)));
            (own?, Command::Tell { by: bearer?, kind: MessageKind::Report, text, file })
        }
        What::Reply => {
            let (by, run, number) = (asker(run?), run?.id, u32::from(step.n % 3) + 1);
            (Caller::default(), Command::Reply { by, run, number, text })
        }
    })
}

fn file(n: u8) -> File {
    let (name, media_type) = (format!("{n}.txt"), "text/plain".to_owned());
    let content = Bytes::from(vec![n; usize::from(n)]);
    let facts = FileFacts { name, media_type, size: content.len() as u64 };
    File { facts, content }
}

fn start(step: &Step, by: Speaker) -> Start {
    let count = usize::from(step.n % 3) + 1;
    let (mode, count) = match step.n % 4 {
        0 => (Mode::Single, 1),
        1 => (Mode::Chain, count),
        _ => (Mode::Parallel, count),
    };
    let spec = StepSpec {
        agent: "scout".to_owned(),
        runner: "pi".parse().expect("a name"),
        model: String::new(),
        on: (step.who == 0).then(|| "anywhere".parse().expect("a label")),
        timeout_ms: 0,
    };
    let budget = WantedBudget {
        cost_microusd: (step.step == 0).then_some(20),
        turns: (step.step == 1).then_some(4),
        depth: None,
        steps: (step.run == 0).then_some(4),
    };
    let steps = vec![(spec, StepWords::default()); count];
    Start { by, mode, steps, concurrency: 2, budget, may_elsewhere: true }
}

/// What happened to runs, as one who keeps everything would tell it.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Steps that run, and under which token; those that have ended.
    running: BTreeMap<StepId, FencingToken>,
    ended: BTreeMap<StepId, Outcome>,
    over: BTreeMap<RunId, RunOutcome>,
    newest: FencingToken,
}

impl Ledger {
    /// Takes in what is about to be applied.
    pub(super) fn take(&mut self, event: &Event) {
        let Event::Run(event) = event else { return };
        match event {
            run::Event::Started(it) => {
                assert!(!self.over.contains_key(&it.run), "RU4: {} began again", it.run);
            }
            run::Event::StepStarted(it) => {
                assert!(self.newest < it.token, "RU2: {} after {}", it.token, self.newest);
                self.newest = it.token;
                let other = self.running.insert(it.step, it.token);
                assert!(other.is_none(), "RU1: {} has two claims", it.step);
                assert!(!self.ended.contains_key(&it.step), "RU4: {} runs again", it.step);
                assert!(!self.over.contains_key(&it.step.run), "RU4: {} had ended", it.step.run);
            }
            run::Event::StepEnded(it) => {
                assert!(self.running.remove(&it.step).is_some(), "RU1: {} did not run", it.step);
                let before = self.ended.insert(it.step, it.outcome);
                assert!(before.is_none(), "RU1: {} ended twice", it.step);
            }
            run::Event::Ended { run, outcome } => {
                let is_its = |step: &StepId| step.run == *run;
                assert!(!self.running.keys().any(is_its), "RU3: {run} ended too early");
                assert!(self.over.insert(*run, *outcome).is_none(), "RU3: {run} ended twice");
            }
            run::Event::Stopped { .. }
            | run::Event::LeaseRenewed { .. }
            | run::Event::ParentTold { .. }
            | run::Event::Replied { .. }
            | run::Event::Forgotten { .. } => {}
        }
    }

    /// What must hold of the state after each step.
    pub(super) fn check(&self, workspace: &Workspace) {
        let runs = &workspace.runs;
        for run in runs.iter() {
            let steps = runs.tree(run.id).into_iter().flat_map(|run| &run.steps);
            let used = steps.fold(Usage::default(), |used, step| used.plus(step.usage));
            assert_eq!(used, run.used, "RU5: {}", run.id);
            let ended = run.ended.map(|(_, outcome)| outcome);
            assert_eq!(ended, self.over.get(&run.id).copied(), "RU3: {}", run.id);
            for (id, step) in run.numbered() {
                let token = step.claim().map(|claim| claim.token);
                assert_eq!(token, self.running.get(&id).copied(), "RU1: {id}");
            }
            let all_ended = run.steps.iter().all(|step| step.ended().is_some());
            assert_eq!(all_ended, !run.is_open(), "RU3: {}", run.id);
            if let Some(parent) = run.parent() {
                let above = runs.get(parent.run).expect("trees are kept whole");
                let is_within = run.budget.within(above.budget) == run.budget;
                assert!(is_within && run.budget.depth < above.budget.depth, "RU6: {}", run.id);
                let is_alive = above.step(parent.number).is_some_and(|it| it.claim().is_some());
                assert!(is_alive || !run.ready().any(|_| true), "{} has nobody", run.id);
            }
        }
    }
}
