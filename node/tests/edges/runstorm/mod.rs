//! Sixty-four runs at once on three nodes, while nodes and broker are killed.
//!
//! Agents wait for the test before they answer, so that whoever is killed has some. A step whose
//! node was killed is lost and never run again, one whose broker was killed is not: so no step
//! fails, each run ends in one way that everybody is told alike, and nothing is left of any agent.
//!
//! `TASUKI_ROUNDS` says how many kills (a fourth of it; 20), `TASUKI_SEED` which and when.

mod asker;
mod events;

use std::{collections::BTreeMap, path::Path};

use tasuki_proto::wire::{self, RunMode, RunStatus, StepStatus};
use tokio::{
    sync::watch,
    task::{JoinSet, yield_now},
};

use self::{asker::Asker, events::Events};
use crate::{
    chance::Chance,
    fake_agent::{FakeAgents, Runs, configure},
    process::{Process, soon},
    strikes::rounds,
};

const RUNS: usize = 64;

const NODES: usize = 3;

/// Steps that a node takes in.
const PLACES: usize = 12;

/// What all nodes are called together.
const LABEL: &str = "crew";

/// Agents that are let go on between two kills, at most.
const LET_GO_MAX: u64 = 8;

/// More than there are steps.
const ALL: usize = 512;

/// Kills in `TASUKI_ROUNDS`: each takes some seconds.
const ROUNDS_EACH: u64 = 4;

/// A run as it is asked for: its mode, and what its steps do.
fn plan(number: usize) -> (RunMode, Vec<String>) {
    match number % 4 {
        0 => (RunMode::Single, vec![format!("wait_go; say {number}")]),
        1 => (RunMode::Single, vec![format!("daemon; turn look; wait_go; say {number}")]),
        2 => {
            let steps = (1..=3).map(|step| format!("wait_go; say {number}.{step}"));
            (RunMode::Parallel, steps.collect())
        }
        _ => {
            let first = format!("wait_go; say {number}.1");
            (RunMode::Chain, vec![first, "wait_go; say \"$rest.2\"\n{previous}".to_owned()])
        }
    }
}

/// What a step of it answers.
fn output(number: usize, step: u32) -> String {
    match (number % 4, step) {
        (0 | 1, _) => number.to_string(),
        (3, 2) => format!("{number}.1.2"),
        (_, step) => format!("{number}.{step}"),
    }
}

/// What was done to the processes, as far as who asks must know it.
#[derive(Debug, Clone, Copy, Default)]
struct Trouble {
    is_under_way: bool,
    kills: usize,
}

struct World {
    broker: Process,
    nodes: Vec<Process>,
    fake: FakeAgents,
    runs: Runs,
    trouble: watch::Sender<Trouble>,
    cancels: u64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_run_ends_once_and_leaves_nothing_whoever_is_killed() {
    let mut chance = Chance::new(9);
    let place = tempfile::tempdir().unwrap();
    let mut world = World::begin(place.path()).await;
    let events = Events::follow(world.broker.broker.unwrap(), world.trouble.subscribe());
    let mut askers = JoinSet::new();
    for number in 0..RUNS {
        askers.spawn(Asker::new(number, &world).ask());
    }
    for _ in 0..rounds(ROUNDS_EACH) {
        world.go_on(&mut chance).await;
        world.cancel_some(&mut chance).await;
        world.strike(&mut chance).await;
    }
    world.fake.let_go(ALL);
    let mut ended = BTreeMap::new();
    while let Some(asker) = soon(askers.join_next()).await {
        let (number, run_id, status) = asker.unwrap();
        ended.insert(run_id, (number, status));
    }
    let statuses = world.check(&ended).await;
    let sequence = world.sequence(ended.keys().next().unwrap()).await;
    events.check(sequence, &ended).await;
    world.fake.gone().await;
    anstream::println!("{:?}, {statuses:?}", *world.trouble.borrow());
}

impl World {
    async fn begin(place: &Path) -> Self {
        let fake = FakeAgents::new(place);
        let broker = Process::broker(&place.join("broker"), "").await;
        let address = broker.broker.unwrap();
        let config = format!(
            "{}[runs]\naccept_elsewhere = true\nlabels = [\"{LABEL}\"]\nplaces = {PLACES}\n",
            fake.config()
        );
        let mut nodes = Vec::new();
        for number in 0..NODES {
            let data = place.join(format!("node-{number}"));
            configure(&data, &config);
            let line = format!("--role boss{number}=runs");
            nodes.push(Process::node_with(&data, address, &line, &fake.env()).await);
        }
        let runs = Runs::at(address);
        runs.until_offered(NODES).await;
        let trouble = watch::Sender::new(Trouble::default());
        Self { broker, nodes, fake, runs, trouble, cancels: 0 }
    }

    /// Lets some agents go on, until that can be seen: a step began, or ended.
    async fn go_on(&self, chance: &mut Chance) {
        let looking = async {
            let mut before = None;
            loop {
                if let Ok(all) = self.runs.all().await {
                    let now = (all.len() == RUNS).then(|| progress(&all));
                    let is_over = now.is_some() && all.iter().all(is_over);
                    if is_over || before.is_some() && now != before {
                        return;
                    }
                    if before.is_none() && now.is_some() {
                        before = now;
                        self.fake.let_go(below(chance, LET_GO_MAX) + 1);
                    }
                }
                // Who was let go may have been killed before it said a word.
                if before.is_some() && self.fake.has_let_go_none() {
                    self.fake.let_go(1);
                }
                yield_now().await;
            }
        };
        soon(looking).await;
    }

    /// Ends a run, which may have ended.
    async fn cancel_some(&mut self, chance: &mut Chance) {
        let Ok(all) = self.runs.all().await else { return };
        let run = &all[below(chance, all.len() as u64)];
        self.cancels += 1;
        let key = wire::IdempotencyKey { client_id: "canceler".into(), counter: self.cancels };
        let request = wire::CancelRunRequest {
            key: Some(key),
            role: run.role.clone(),
            run_id: run.run_id.clone(),
            ..Default::default()
        };
        soon(self.runs.client().cancel_run(request)).await.unwrap();
    }

    /// Kills some of the processes and starts them again.
    async fn strike(&mut self, chance: &mut Chance) {
        // One bit for each node, one for the broker; never none.
        let whom = chance.below((1 << (NODES + 1)) - 1) + 1;
        let is_hit = |bit: usize| whom & (1 << bit) != 0;
        self.trouble.send_modify(|it| it.is_under_way = true);
        let all = self.nodes.iter_mut().chain([&mut self.broker]).enumerate();
        let hit = all.filter(|(bit, _)| is_hit(*bit)).map(|(_, process)| process);
        let mut hit: Vec<&mut Process> = hit.collect();
        for process in &mut hit {
            process.kill().await;
        }
        // Nodes come up without their broker half of the time.
        if chance.below(2) == 0 {
            hit.reverse();
        }
        for process in hit {
            process.start().await;
        }
        self.trouble.send_modify(|it| *it = Trouble { is_under_way: false, kills: it.kills + 1 });
    }

    /// What the broker says in the end is what each was told, and fits. How many ended how.
    async fn check(
        &self,
        ended: &BTreeMap<String, (usize, RunStatus)>,
    ) -> BTreeMap<&'static str, usize> {
        assert_eq!(ended.len(), RUNS);
        let all = self.runs.all().await.unwrap();
        assert_eq!(all.len(), RUNS, "nothing was asked for twice");
        let mut statuses = BTreeMap::new();
        for run in all {
            let (number, told) = ended[&run.run_id];
            assert_eq!(run.status(), told, "{run:?}");
            *statuses.entry(told.as_str_name()).or_default() += 1;
            for step in &run.steps {
                match step.status() {
                    StepStatus::Succeeded => self.check_output(number, &run, step).await,
                    StepStatus::Canceled | StepStatus::Lost => {}
                    StepStatus::Unspecified
                    | StepStatus::Waiting
                    | StepStatus::Ready
                    | StepStatus::Running
                    | StepStatus::Failed => panic!("{run:?}"),
                }
            }
            let has = |status| run.steps.iter().any(|step| step.status() == status);
            match told {
                RunStatus::Succeeded => {
                    assert!(!has(StepStatus::Lost) && !has(StepStatus::Canceled), "{run:?}");
                }
                RunStatus::Lost | RunStatus::Failed => assert!(has(StepStatus::Lost), "{run:?}"),
                RunStatus::Canceled => {}
                RunStatus::Unspecified | RunStatus::Running | RunStatus::OutOfBudget => {
                    panic!("{run:?}")
                }
            }
        }
        statuses
    }

    async fn check_output(&self, number: usize, run: &wire::Run, step: &wire::RunStep) {
        let request = wire::GetStepRequest {
            run_id: run.run_id.clone(),
            step: step.step,
            ..Default::default()
        };
        let told = soon(self.runs.client().get_step(request)).await.unwrap().into_inner();
        let text: String = told.output.into_iter().map(|part| part.text).collect();
        assert_eq!(text, output(number, step.step), "{run:?}");
    }

    /// The broker's newest sequence.
    async fn sequence(&self, run_id: &str) -> u64 {
        let run = self.runs.get(run_id).await.unwrap();
        let of = wire::RunEndQuestion { run_id: run_id.to_owned(), after: 0 };
        let question = wire::RunQuestion {
            role: run.role,
            ask: Some(wire::run_question::Ask::Run(of)),
            ..Default::default()
        };
        soon(self.runs.client().await_run(question)).await.unwrap().into_inner().sequence
    }
}

fn is_over(run: &wire::Run) -> bool {
    run.status() != RunStatus::Running
}

/// Steps that began, and steps that ended.
fn progress(all: &[wire::Run]) -> (usize, usize) {
    let steps = || all.iter().flat_map(|run| &run.steps);
    let begun = steps().filter(|step| step.started_ms != 0).count();
    (begun, steps().filter(|step| step.ended_ms != 0).count())
}

fn below(chance: &mut Chance, bound: u64) -> usize {
    usize::try_from(chance.below(bound)).unwrap()
}
