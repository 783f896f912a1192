//! Whether commands wait while the snapshot of a large workspace is written: those of the same
//! workspace, and those of another.
//!
//! Callers pace themselves, so that what they measure is waiting and not their own load.

use std::{
    fs::File,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tasuki_proto::wire::{NewTask, TaskWords};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{
    Figure, Quantity, Sizes, Target,
    calls::{Agent, Calling as _, channels},
    micros,
    swarm::desk::Desk,
};
use crate::{Result, process::Process};

/// The large workspace and the other.
const WORKSPACES: [&str; 2] = ["large", "small"];

/// Callers of each.
const CALLERS: usize = 4;

/// Between two calls of one caller.
const PACE: Duration = Duration::from_millis(4);

/// What a task has besides its number, in bytes: of its subject, and of each name of a document
/// that it needs.
const SUBJECT_BYTES: usize = 1000;
const DOCS: usize = 8;
const DOC_BYTES: usize = 60;

/// Records after which a broker takes a workspace's first snapshot, less what may be under way.
const BEFORE_SNAPSHOT: u64 = 4096 - 100;

/// For the snapshot to begin and be written.
const WRITTEN_WITHIN: Duration = Duration::from_secs(120);

/// What the broker logs when a snapshot is on the disk.
const WRITTEN: &str = "snapshot written";

/// By how much the slowest hundredth of commands may be slower meanwhile, in microseconds.
const RISE_MICROS_MAX: f64 = 20_000.0;

/// Latencies in microseconds, one list for each workspace.
type Latencies = [Vec<f64>; 2];

/// # Errors
/// When a call fails, or no snapshot is written.
pub async fn beside(sizes: &Sizes) -> Result<Vec<Figure>> {
    let data = tempfile::tempdir_in(&sizes.dir)?;
    let log = data.path().join("log");
    let filter = "off,tasuki_broker::workspace::snapshots=debug";
    let broker = Process::logging_broker(data.path(), filter, File::create(&log)?).await?;
    let mut desk = Desk::open(&broker, WORKSPACES[0]).await?;
    let doc = |at: usize| format!("{at:d>DOC_BYTES$}");
    let required_task_docs = (0..DOCS).map(doc).collect();
    desk.template = NewTask {
        subject: "s".repeat(SUBJECT_BYTES),
        words: Some(TaskWords { required_task_docs, ..TaskWords::default() }),
        ..NewTask::default()
    };
    desk.fill(sizes.snapshot_tasks).await?;
    let memory_before = broker.memory_bytes()?;
    let records = Arc::new(AtomicUsize::new(1 + sizes.snapshot_tasks.div_ceil(200)));
    let mut callers = Vec::new();
    for (number, channel) in channels(&broker, 2 * CALLERS).await?.into_iter().enumerate() {
        let workspace = WORKSPACES[number % 2].to_owned();
        let mut agent = Agent::of_workspace(channel, workspace, number);
        agent.open().await?;
        callers.push(agent);
    }
    records.fetch_add(CALLERS, Ordering::Relaxed);

    // Without a snapshot, until the next records bring one.
    let mut before = Latencies::default();
    let is_over = Arc::new(AtomicBool::new(false));
    let calls = Calls { records: records.clone(), is_over: is_over.clone() };
    let running = calls.run(callers);
    while (records.load(Ordering::Relaxed) as u64) < BEFORE_SNAPSHOT {
        sleep(PACE).await;
    }
    is_over.store(true, Ordering::Relaxed);
    let callers = ended(running, &mut before).await?;

    let mut meanwhile = Latencies::default();
    is_over.store(false, Ordering::Relaxed);
    let running = calls.run(callers);
    let began = Instant::now();
    let mut memory = memory_before;
    while !is_written(&log)? {
        if WRITTEN_WITHIN < began.elapsed() {
            return Err("the broker wrote no snapshot".into());
        }
        memory = memory.max(broker.memory_bytes()?);
        sleep(PACE).await;
    }
    is_over.store(true, Ordering::Relaxed);
    let took = began.elapsed().as_secs_f64();
    ended(running, &mut meanwhile).await?;
    broker.stop().await?;
    let started = Instant::now();
    let again = Process::broker(data.path()).await?;
    let start = started.elapsed().as_secs_f64();
    desk.turn_to(&again).await?;
    desk.first_page().await?;
    let answer = started.elapsed().as_secs_f64();
    let memory_again = again.memory_bytes()?;
    again.stop().await?;

    let tasks = sizes.snapshot_tasks;
    let mut figures = Vec::new();
    for (at, name) in ["the same", "another"].into_iter().enumerate() {
        let (with, without) = (slowest(&mut meanwhile[at]), slowest(&mut before[at]));
        figures.push(Figure {
            name: format!("p99 in {name} workspace, snapshot of {tasks} tasks"),
            value: Quantity::Micros(with),
            limit: Some(("before it".to_owned(), Quantity::Micros(without))),
            score: with - without,
            target: Target::AtMost(RISE_MICROS_MAX),
        });
        let longest = meanwhile[at].last().copied().unwrap_or_default();
        figures.push(plain(format!("the slowest of {}", meanwhile[at].len()), longest));
    }
    figures.push(Figure {
        name: "writing it, from what brought it".to_owned(),
        value: Quantity::Seconds(took),
        limit: None,
        score: took,
        target: Target::None,
    });
    figures.push(Figure {
        name: "memory at most, meanwhile".to_owned(),
        value: Quantity::Bytes(memory as f64),
        limit: Some(("before it".to_owned(), Quantity::Bytes(memory_before as f64))),
        score: memory as f64 / memory_before as f64,
        target: Target::None,
    });
    figures.push(Figure {
        name: "starting with it, and its first answer".to_owned(),
        value: Quantity::Seconds(start),
        limit: Some(("answered after".to_owned(), Quantity::Seconds(answer))),
        score: memory_again as f64 / memory_before as f64,
        target: Target::None,
    });
    Ok(figures)
}

fn plain(name: String, value: f64) -> Figure {
    Figure { name, value: Quantity::Micros(value), limit: None, score: value, target: Target::None }
}

fn is_written(log: &Path) -> Result<bool> {
    Ok(std::fs::read_to_string(log)?.contains(WRITTEN))
}

/// The time that one of a hundred calls takes longer than.
fn slowest(latencies: &mut [f64]) -> f64 {
    latencies.sort_by(f64::total_cmp);
    latencies.get(latencies.len() * 99 / 100).copied().unwrap_or_default()
}

struct Calls {
    /// Of the large workspace.
    records: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
}

/// Callers that are calling; each ends with itself, its place and what it measured.
type Running = JoinSet<Result<(Agent, usize, Vec<f64>)>>;

impl Calls {
    fn run(&self, callers: Vec<Agent>) -> Running {
        let mut running = Running::new();
        for (at, mut agent) in callers.into_iter().enumerate() {
            let (records, is_over) = (self.records.clone(), self.is_over.clone());
            running.spawn(async move {
                let mut latencies = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    agent.call().await?;
                    latencies.push(micros(began.elapsed()));
                    if at.is_multiple_of(2) {
                        records.fetch_add(1, Ordering::Relaxed);
                    }
                    sleep(PACE).await;
                }
                Ok((agent, at, latencies))
            });
        }
        running
    }
}

/// Waits for all, and returns them in order.
async fn ended(mut running: Running, latencies: &mut Latencies) -> Result<Vec<Agent>> {
    let mut callers = Vec::new();
    while let Some(ended) = running.join_next().await {
        let (agent, at, measured) = ended??;
        latencies[at % 2].extend(measured);
        callers.push((at, agent));
    }
    callers.sort_by_key(|(at, _)| *at);
    Ok(callers.into_iter().map(|(_, agent)| agent).collect())
}
