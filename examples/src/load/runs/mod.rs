//! Runs of sub-agents: what one costs beyond its process, in time and in the node's memory, how soon
//! a watcher sees progress, and how fast streams are read.
//!
//! - `fake_agent`: agents that write what a file holds, or what they are given.
//! - `client`: who starts runs and watches them. `parsing`: streams without processes.

mod client;
mod fake_agent;
mod parsing;

use std::time::Duration;

use tokio::time::{Instant, sleep};

use self::{
    client::{Client, follow},
    fake_agent::{AgentInput, FakeAgents, STREAM},
};
use super::{
    Figure, Quantity, Sizes, Target,
    calls::{Calling as _, agents},
    limits, median, micros, number,
};
use crate::{Result, process::Process};

/// What a run may take longer than its process alone, in milliseconds.
const RUN_MS_MAX: f64 = 20.0;

/// What progress may take longer than two echoes, in milliseconds.
const PROGRESS_MS_MAX: f64 = 10.0;

/// What a run may take of its node's memory.
const RUN_BYTES_MAX: f64 = 2.0 * 1024.0 * 1024.0;

/// What each agent has written when memory is measured, in bytes.
const WRITTEN_BYTES: usize = 16 * 1024;

/// Between two turns of an agent. A node puts reports that follow one another closely into one, and
/// that is not what is measured.
const BETWEEN_TURNS: Duration = Duration::from_millis(300);

const MICROS_PER_MS: f64 = 1e3;

/// # Errors
/// When a call fails, or a run.
pub async fn all(sizes: &Sizes) -> Result<Vec<Figure>> {
    let mut figures = vec![one(sizes).await?, by_command(sizes).await?];
    figures.extend(memory(sizes).await?);
    figures.push(progress(sizes).await?);
    figures.extend(tokio::task::block_in_place(|| parsing::all(sizes))?);
    Ok(figures)
}

/// What was measured beside something else, and how much longer it took, in microseconds.
#[derive(Default)]
struct Rounds {
    limits: Vec<f64>,
    values: Vec<f64>,
    differences: Vec<f64>,
}

impl Rounds {
    fn add(&mut self, limit: f64, value: f64) {
        self.limits.push(limit);
        self.values.push(value);
        self.differences.push(value - limit);
    }

    /// Its score is the difference in milliseconds.
    fn figure(mut self, name: &str, limit: &str, target: Target) -> Figure {
        Figure {
            name: name.to_owned(),
            value: Quantity::Micros(median(&mut self.values)),
            limit: Some((limit.to_owned(), Quantity::Micros(median(&mut self.limits)))),
            score: median(&mut self.differences) / MICROS_PER_MS,
            target,
        }
    }
}

/// From the call that starts a run to the answer that it has ended, beside the same process without
/// a run.
async fn one(sizes: &Sizes) -> Result<Figure> {
    let data = tempfile::tempdir_in(&sizes.dir)?;
    let fakes = FakeAgents::new(&sizes.dir)?;
    let broker = Process::broker(data.path()).await?;
    let node = fakes.node(&broker).await?;
    let mut client = Client::connect(&broker).await?;
    let mut rounds = Rounds::default();
    for round in 0..=sizes.runs {
        let (mut bare, mut run) = (Vec::new(), Vec::new());
        for _ in 0..sizes.sub_agents {
            bare.push(fakes.bare().await?);
            let began = Instant::now();
            let id = client.start(STREAM).await?;
            client.end(&id).await?;
            run.push(micros(began.elapsed()));
        }
        if round == 0 {
            // It warmed up.
            continue;
        }
        rounds.add(median(&mut bare), median(&mut run));
    }
    node.stop().await?;
    broker.stop().await?;
    Ok(rounds.figure("a run: ms beyond its process", "process", Target::AtMost(RUN_MS_MAX)))
}

/// The same as a person starts it: `tasuki run` from its start to its end.
async fn by_command(sizes: &Sizes) -> Result<Figure> {
    let fakes = FakeAgents::new(&sizes.dir)?;
    let up = fakes.up().await?;
    let mut rounds = Rounds::default();
    for round in 0..=sizes.runs {
        let (mut bare, mut run) = (Vec::new(), Vec::new());
        for _ in 0..sizes.sub_agents {
            bare.push(fakes.bare().await?);
            run.push(fakes.by_command().await?);
        }
        if round == 0 {
            continue;
        }
        rounds.add(median(&mut bare), median(&mut run));
    }
    up.stop().await?;
    Ok(rounds.figure("`tasuki run`: ms beyond the agent's process", "process", Target::None))
}

/// Memory that each of many runs takes of its node, and what keeps its process.
async fn memory(sizes: &Sizes) -> Result<Vec<Figure>> {
    let (mut of_node, mut of_keeper) = (Vec::new(), Vec::new());
    for _ in 0..sizes.runs {
        let (node, keeper) = occupied(sizes).await?;
        of_node.push(node);
        of_keeper.push(keeper);
    }
    let places = sizes.places;
    let figure = |what: &str, values: &mut [f64], target| {
        let each = median(values);
        Figure {
            name: format!("{places} runs: memory of {what}"),
            value: Quantity::Bytes(each),
            limit: None,
            score: each,
            target,
        }
    };
    Ok(vec![
        figure("the node, for each", &mut of_node, Target::AtMost(RUN_BYTES_MAX)),
        figure("a keeper", &mut of_keeper, Target::None),
    ])
}

/// The bytes that a new node takes for each run, and each keeper for itself, while all places are
/// taken by agents that wrote something and wait.
async fn occupied(sizes: &Sizes) -> Result<(f64, f64)> {
    let data = tempfile::tempdir_in(&sizes.dir)?;
    let fakes = FakeAgents::new(&sizes.dir)?;
    let names = fakes.fifos(sizes.places).await?;
    let broker = Process::broker(data.path()).await?;
    let node = fakes.node(&broker).await?;
    let mut client = Client::connect(&broker).await?;
    // What a first run makes the node load is there from here on.
    let first = client.start(STREAM).await?;
    client.end(&first).await?;
    let idle = node.memory_bytes()?;
    let mut runs = Vec::new();
    for name in &names {
        runs.push(client.start(name).await?);
    }
    let mut inputs = Vec::new();
    for name in &names {
        let mut input = AgentInput::open(&fakes.file(name)).await?;
        input.turn(&"t".repeat(WRITTEN_BYTES), "toolUse").await?;
        inputs.push(input);
    }
    for run in &runs {
        follow(&mut client.watch(run).await?, |seen| {
            let steps = seen.run.iter().flat_map(|run| &run.steps);
            let mut turns = steps.filter_map(|step| step.usage.as_ref()).map(|usage| usage.turns);
            turns.any(|turns| 0 < turns)
        })
        .await?;
    }
    let full = node.memory_bytes()?;
    let keepers = node.children_bytes()?;
    if keepers.len() != names.len() {
        return Err(format!("{} keepers of {} runs", keepers.len(), names.len()).into());
    }
    for input in inputs {
        input.end().await?;
    }
    for run in &runs {
        client.end(run).await?;
    }
    node.stop().await?;
    broker.stop().await?;
    let places = number(names.len());
    let of_keepers: u64 = keepers.iter().sum();
    Ok((full.saturating_sub(idle) as f64 / places, of_keepers as f64 / places))
}

/// From the line that an agent writes to a watcher on another connection.
async fn progress(sizes: &Sizes) -> Result<Figure> {
    let data = tempfile::tempdir_in(&sizes.dir)?;
    let fakes = FakeAgents::new(&sizes.dir)?;
    let names = fakes.fifos(1).await?;
    let name = names.first().ok_or("one was made")?;
    let (echo, broker) = (limits::start("echo").await?, Process::broker(data.path()).await?);
    let node = fakes.node(&broker).await?;
    let mut echoed = agents(&echo, 1).await?.remove(0);
    let mut client = Client::connect(&broker).await?;
    let mut watcher = Client::connect(&broker).await?;
    let run = client.start(name).await?;
    let mut input = AgentInput::open(&fakes.file(name)).await?;
    let mut watch = watcher.watch(&run).await?;
    let (mut rounds, mut turn) = (Rounds::default(), 0);
    for round in 0..=sizes.runs {
        let (mut echoes, mut seen) = (Vec::new(), Vec::new());
        for _ in 0..sizes.sub_agents {
            sleep(BETWEEN_TURNS).await;
            let began = Instant::now();
            echoed.call().await?;
            echoes.push(micros(began.elapsed()));
            turn += 1;
            let text = format!("This is turn {turn}.");
            let began = Instant::now();
            input.turn(&text, "toolUse").await?;
            follow(&mut watch, |told| {
                let mut partials = told.progress.iter().filter_map(|it| it.partial.as_ref());
                partials.any(|partial| partial.text.contains(&text))
            })
            .await?;
            seen.push(micros(began.elapsed()));
        }
        if round == 0 {
            continue;
        }
        rounds.add(2.0 * median(&mut echoes), median(&mut seen));
    }
    input.end().await?;
    client.end(&run).await?;
    node.stop().await?;
    broker.stop().await?;
    let target = Target::AtMost(PROGRESS_MS_MAX);
    Ok(rounds.figure("progress to a watcher: ms beyond 2 echoes", "2 echoes", target))
}
