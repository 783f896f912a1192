//! Measuring a broker, each figure beside the limit that the same machine showed in the same
//! minute.
//!
//! Other work on the machine slows a figure and its limit alike, so what is judged is their
//! ratio, and each is the median of several runs taken in turns.
//!
//! - [`limits`]: a durable append, and calls that do nothing.
//! - [`calls`]: durable commands through gRPC; [`stack`]: MCP calls that change nothing;
//!   [`relay`]: from one MCP client to the other; [`waits`]: memory and time of parked waits;
//!   [`startup`]: start with a million records.
//! - [`mail`]: the same of mail; [`mailboxes`]: a workspace with a million messages; [`up`]: mail
//!   between agents of one machine, and what their sessions take.
//! - [`swarm`]: issues and tasks, and workers that wait for one.
//! - [`board`]: boards: updates, reads of any checkpoint, waits, and callers that race on one.
//! - [`pipeline`]: a pipeline's phases beside handovers.
//! - [`snapshots`]: commands while the snapshot of a large workspace is written.
//! - [`gateway`]: tools of other MCP servers, through a node and through two; other gateways.
//! - [`dashboard`]: pages in a browser, and callers beside open ones.
//! - [`runs`]: runs of sub-agents, their progress, and reading what agent CLIs write.

pub mod board;
pub mod calls;
pub mod dashboard;
pub mod gateway;
pub mod limits;
pub mod mail;
pub mod mailboxes;
pub mod pipeline;
pub mod relay;
pub mod runs;
pub mod snapshots;
pub mod stack;
pub mod startup;
pub mod swarm;
pub mod up;
pub mod waits;

use std::{path::PathBuf, time::Duration};

use serde_json::{Value, json};

/// How much is measured.
#[derive(Debug, Clone)]
pub struct Sizes {
    /// Where data is kept meanwhile: on the disk that is to be measured.
    pub dir: PathBuf,
    /// Each figure is the median of so many.
    pub runs: usize,
    pub callers: usize,
    /// One run of many callers.
    pub run: Duration,
    /// Calls of a run of one caller.
    pub calls: usize,
    /// Handovers of a run from one MCP client to the other.
    pub handovers: usize,
    pub waits: usize,
    pub records: u64,
    /// Messages of a workspace that holds much mail.
    pub messages: usize,
    /// Messages of an inbox that is listed.
    pub listed: usize,
    /// Workers that wait for a task.
    pub workers: usize,
    /// Tasks of an issue that has many.
    pub tasks: usize,
    /// Checkpoints of a board that is read, and reads of a run.
    pub board_checkpoints: usize,
    pub board_reads: usize,
    /// Callers that update a board each, and those that update one together.
    pub board_writers: usize,
    pub board_racers: usize,
    /// Tasks of a workspace whose snapshot is written, 1.6 KB each.
    pub snapshot_tasks: usize,
    /// Sub-agents started in a run, and turns of one that is watched.
    pub sub_agents: usize,
    /// Sub-agents that one node has at once.
    pub places: usize,
    /// Bytes of an agent's stream that are read in a run.
    pub parsed: usize,
    /// Commands in a workspace whose pages are looked at.
    pub events: usize,
    /// Loads of each page.
    pub paints: usize,
    /// MCP servers of a node that has many, and clients that call their tools.
    pub servers: usize,
    pub clients: usize,
    /// Streams of events beside one browser, and how long they are open.
    pub readers: usize,
    pub watched: Duration,
}

impl Sizes {
    /// What the targets are about.
    pub fn full(dir: PathBuf) -> Self {
        Self {
            dir,
            runs: 7,
            callers: 256,
            run: Duration::from_secs(3),
            calls: 300,
            handovers: 100,
            waits: 10_000,
            records: 1_000_000,
            messages: 1_000_000,
            listed: 10_000,
            workers: 1_000,
            tasks: 100_000,
            board_checkpoints: 10_000,
            board_reads: 500,
            board_writers: 64,
            board_racers: 16,
            snapshot_tasks: 190_000,
            sub_agents: 30,
            places: 64,
            parsed: 256_000_000,
            events: 10_000,
            paints: 7,
            servers: 40,
            clients: 200,
            readers: 49,
            watched: Duration::from_secs(600),
        }
    }

    /// Enough to see that it works.
    pub fn quick(dir: PathBuf) -> Self {
        Self {
            dir,
            runs: 2,
            callers: 32,
            run: Duration::from_millis(200),
            calls: 10,
            handovers: 3,
            waits: 200,
            records: 2_000,
            messages: 2_000,
            listed: 300,
            workers: 50,
            tasks: 1_000,
            board_checkpoints: 200,
            board_reads: 20,
            board_writers: 8,
            board_racers: 4,
            snapshot_tasks: 2_000,
            sub_agents: 2,
            places: 8,
            parsed: 1_000_000,
            events: 200,
            paints: 1,
            servers: 3,
            clients: 4,
            readers: 49,
            watched: Duration::from_secs(4),
        }
    }
}

/// One thing measured.
#[derive(Debug, Clone)]
pub struct Figure {
    pub name: String,
    pub value: Quantity,
    /// What it stands beside.
    pub limit: Option<(String, Quantity)>,
    /// What is compared with the target.
    pub score: f64,
    pub target: Target,
}

#[derive(Debug, Clone, Copy)]
pub enum Quantity {
    PerSecond(f64),
    BytesPerSecond(f64),
    Micros(f64),
    Seconds(f64),
    Bytes(f64),
    Count(f64),
}

#[derive(Debug, Clone, Copy)]
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// As fast as what it stands beside, and no faster than could be true.
    Between(f64, f64),
    /// Shown for comparison only.
    None,
}

impl Figure {
    /// `None` without a target.
    pub fn is_met(&self) -> Option<bool> {
        match self.target {
            Target::AtLeast(target) => Some(target <= self.score),
            Target::AtMost(target) => Some(self.score <= target),
            Target::Between(least, most) => Some((least..=most).contains(&self.score)),
            Target::None => None,
        }
    }

    /// The figure as one line for people.
    pub fn in_words(&self) -> String {
        let limit = self.limit.as_ref();
        let limit =
            limit.map_or_else(String::new, |(name, it)| format!("{name} {}", it.in_words()));
        let judged = match (self.target, self.is_met()) {
            (Target::AtLeast(target), Some(met)) => format!("≥ {target}{}", verdict(met)),
            (Target::AtMost(target), Some(met)) => format!("≤ {target}{}", verdict(met)),
            (Target::Between(least, most), Some(met)) => {
                format!("{least} to {most}{}", verdict(met))
            }
            (_, _) => String::new(),
        };
        let value = self.value.in_words();
        format!("{:<46}{value:>12}   {limit:<34}{:>9.2}  {judged}", self.name, self.score)
    }

    /// The figure for programs.
    pub fn in_json(&self) -> Value {
        let target = match self.target {
            Target::AtLeast(target) => json!({ "at_least": target }),
            Target::AtMost(target) => json!({ "at_most": target }),
            Target::Between(least, most) => json!({ "at_least": least, "at_most": most }),
            Target::None => Value::Null,
        };
        json!({
            "name": self.name,
            "value": self.value.in_json(),
            "limit": self.limit.as_ref().map(|(name, it)| json!({ "name": name, "value": it.in_json() })),
            "score": self.score,
            "target": target,
            "met": self.is_met(),
        })
    }
}

fn verdict(met: bool) -> &'static str {
    if met { "  met" } else { "  MISSED" }
}

impl Quantity {
    fn in_words(self) -> String {
        match self {
            Self::PerSecond(it) => format!("{it:.0} /s"),
            Self::BytesPerSecond(it) => format!("{:.0} MB/s", it / 1e6),
            Self::Micros(it) => format!("{it:.0} µs"),
            Self::Seconds(it) => format!("{it:.2} s"),
            Self::Bytes(it) if 10e6 <= it => format!("{:.0} MB", it / 1e6),
            Self::Bytes(it) => format!("{it:.0} B"),
            Self::Count(it) => format!("{it:.1}"),
        }
    }

    fn in_json(self) -> Value {
        match self {
            Self::PerSecond(it) => json!({ "per_second": it }),
            Self::BytesPerSecond(it) => json!({ "bytes_per_second": it }),
            Self::Micros(it) => json!({ "micros": it }),
            Self::Seconds(it) => json!({ "seconds": it }),
            Self::Bytes(it) => json!({ "bytes": it }),
            Self::Count(it) => json!({ "count": it }),
        }
    }
}

/// What was measured in runs beside something else, and their ratio in each.
#[derive(Default)]
struct Runs {
    limits: Vec<f64>,
    values: Vec<f64>,
    ratios: Vec<f64>,
}

impl Runs {
    fn add(&mut self, limit: f64, value: f64) {
        self.limits.push(limit);
        self.values.push(value);
        self.ratios.push(value / limit);
    }

    /// Of times in microseconds.
    fn figure(self, name: String, limit: &str, target: Target) -> Figure {
        self.figure_in(Quantity::Micros, name, limit, target)
    }

    fn figure_in(
        mut self,
        unit: fn(f64) -> Quantity,
        name: String,
        limit: &str,
        target: Target,
    ) -> Figure {
        Figure {
            name,
            value: unit(median(&mut self.values)),
            limit: Some((limit.to_owned(), unit(median(&mut self.limits)))),
            score: median(&mut self.ratios),
            target,
        }
    }
}

/// The middle one.
///
/// # Panics
/// When there is none.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    assert!(!values.is_empty(), "something was measured");
    values[values.len() / 2]
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// A number that is small enough to be exact.
fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
