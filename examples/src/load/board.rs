//! Boards: an update by one caller, reads at any of ten thousand checkpoints, a waiter that is woken
//! beside one of the turn loop, many callers on boards of their own, and some that race on one.
//!
//! - An update writes the phase and one message to a board with the schema `agent_state`. Messages
//!   take the place of older ones, as those of an agent that keeps a context of fixed length;
//!   only of one board, which is read, each stays.

use serde_json::json;
use tasuki_proto::{
    reason::Reason,
    wire::{
        BoardQuestion, Caller, ChannelUpdate, IdempotencyKey, ParkRequest, ParkResponse,
        ReadBoardRequest, ReadBoardResponse, UpdateBoardRequest, board_answer::Standing,
        board_client::BoardClient, directory_client::DirectoryClient, park_request::Ask,
        park_response::Outcome, waits_client::WaitsClient,
    },
};
use tokio::{sync::mpsc, time::Instant};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Streaming, transport::Channel};

use super::{
    Figure, Quantity, Runs, Sizes, Target,
    calls::{Agent, Calling, WORKSPACES, agents, channels, hammer, registration},
    limits::{self, Disk},
    median, micros, number, waits,
};
use crate::{Result, process::Process};

/// What an update writes to.
const PHASE: &str = "current_phase";
const MESSAGES: &str = "messages";

/// Phases, one after the other.
const PHASES: [&str; 4] = ["plan", "code", "test", "review"];

/// Messages that a board keeps.
const KEPT: usize = 100;

/// What a message says, in bytes: with its frame the update makes a request of some 512.
const TEXT_BYTES: usize = 385;

/// The same where every message stays: ten thousand of them fit into a channel.
const SHORT_BYTES: usize = 40;

/// Between checkpoints that are read one after the other: prime, so that each of them is read once
/// before any is read again.
const STRIDE: usize = 7919;

/// For a read, the slowest included.
const READ_MICROS_MAX: f64 = 5_000.0;

/// # Errors
/// When a call fails.
pub async fn all(sizes: &Sizes) -> Result<Vec<Figure>> {
    let mut figures = vec![one(sizes).await?];
    figures.extend(reads(sizes).await?);
    figures.extend(waiting(sizes).await?);
    figures.push(many(sizes).await?);
    figures.extend(race(sizes).await?);
    Ok(figures)
}

/// An echo and a durable append.
struct Bare {
    echoed: Agent,
    disk: Disk,
    _echo: Process,
}

impl Bare {
    async fn start(sizes: &Sizes) -> Result<Self> {
        let echo = limits::start("echo").await?;
        let echoed = agents(&echo, 1).await?.remove(0);
        Ok(Self { echoed, disk: Disk::new(&sizes.dir)?, _echo: echo })
    }

    /// Microseconds of an echo.
    async fn echo(&mut self) -> Result<f64> {
        let began = Instant::now();
        self.echoed.call().await?;
        Ok(micros(began.elapsed()))
    }

    /// Microseconds of an append.
    fn append(&mut self) -> Result<f64> {
        Ok(micros(tokio::task::block_in_place(|| self.disk.append())?))
    }
}

/// Updates one board again and again, as a role of its own.
struct Writer {
    boards: BoardClient<Channel>,
    caller: Caller,
    role: String,
    board: String,
    /// The message after so many takes the place of the first; `None`: all stay.
    kept: Option<usize>,
    text: String,
    /// Updates so far. Of a board that nobody else writes to it is the newest checkpoint.
    written: usize,
}

impl Writer {
    /// Makes the workspace, if there is none.
    async fn open(channel: Channel, workspace: &str, role: &str) -> Result<Self> {
        let caller = Caller { workspace: workspace.to_owned(), ..Caller::default() };
        let request = registration(&caller, role);
        DirectoryClient::new(channel.clone()).register(request).await?;
        Ok(Self {
            boards: BoardClient::new(channel),
            caller,
            role: role.to_owned(),
            board: format!("board-of-{role}"),
            kept: Some(KEPT),
            text: "t".repeat(TEXT_BYTES),
            written: 0,
        })
    }

    fn request(&mut self, expected: Option<u64>) -> UpdateBoardRequest {
        self.written += 1;
        let id = self.kept.map_or(self.written, |kept| self.written % kept);
        let message = json!({ "id": format!("m-{id}"), "type": "ai", "content": self.text });
        let update = |channel: &str, value: serde_json::Value| ChannelUpdate {
            channel: channel.to_owned(),
            value_json: value.to_string(),
        };
        UpdateBoardRequest {
            caller: Some(self.caller.clone()),
            key: Some(IdempotencyKey {
                client_id: self.role.clone(),
                counter: self.written as u64,
            }),
            role: self.role.clone(),
            board: self.board.clone(),
            updates: vec![
                update(PHASE, json!(phase(self.written))),
                update(MESSAGES, json!([message])),
            ],
            expected_checkpoint: expected,
            ..UpdateBoardRequest::default()
        }
    }

    /// Values at a checkpoint, or at the newest (0).
    async fn read(&mut self, checkpoint: usize, channels: &[&str]) -> Result<ReadBoardResponse> {
        let request = ReadBoardRequest {
            caller: Some(self.caller.clone()),
            board: self.board.clone(),
            checkpoint: checkpoint as u64,
            channels: channels.iter().map(|it| (*it).to_owned()).collect(),
            ..ReadBoardRequest::default()
        };
        Ok(self.boards.read_board(request).await?.into_inner())
    }

    /// The newest checkpoint, as somebody learns it who was refused.
    async fn newest(&mut self) -> Result<u64> {
        let read = self.read(0, &[PHASE]).await?;
        Ok(read.checkpoint.ok_or("a board without a checkpoint")?.checkpoint)
    }

    /// Microseconds of a read of all channels, whose values must be those of the checkpoint.
    async fn timed_read(&mut self, checkpoint: usize) -> Result<f64> {
        let began = Instant::now();
        let read = self.read(checkpoint, &[]).await?;
        let took = micros(began.elapsed());
        let value = |name: &str| {
            let found = read.channels.iter().find(|it| it.channel == name);
            found.map_or("", |it| it.value_json.as_str())
        };
        let messages: Vec<serde_json::Value> = serde_json::from_str(value(MESSAGES))?;
        let wanted = self.kept.map_or(checkpoint, |kept| kept.min(checkpoint));
        let expected = json!(phase(checkpoint)).to_string();
        let is_right = value(PHASE) == expected;
        if !is_right || messages.len() != wanted {
            let (phase, count) = (value(PHASE), messages.len());
            return Err(format!("checkpoint {checkpoint} has {phase}, {count} messages").into());
        }
        Ok(took)
    }
}

impl Calling for Writer {
    async fn call(&mut self) -> Result<()> {
        let request = self.request(None);
        self.boards.update_board(request).await?;
        Ok(())
    }
}

/// What an update writes.
fn phase(update: usize) -> &'static str {
    PHASES[update % PHASES.len()]
}

/// Latency of one caller.
async fn one(sizes: &Sizes) -> Result<Figure> {
    let data = tempfile::tempdir_in(&sizes.dir)?;
    let broker = Process::broker(data.path()).await?;
    let mut bare = Bare::start(sizes).await?;
    let channel = channels(&broker, 1).await?.remove(0);
    let mut writer = Writer::open(channel, "one", "writer").await?;
    let mut measured = Runs::default();
    for run in 0..=sizes.runs {
        let (mut calls, mut appends, mut updates) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..sizes.calls {
            calls.push(bare.echo().await?);
            appends.push(bare.append()?);
            let began = Instant::now();
            writer.call().await?;
            updates.push(micros(began.elapsed()));
        }
        if run == 0 {
            // It warmed up.
            continue;
        }
        let limit = median(&mut calls) + median(&mut appends);
        measured.add(limit, median(&mut updates));
    }
    broker.stop().await?;
    let name = "1 caller: durable update of a board".to_owned();
    Ok(measured.figure(name, "echo + append", Target::AtMost(1.3)))
}

/// A board that is read, and what was measured in each run.
struct History {
    what: String,
    writer: Writer,
    medians: Vec<f64>,
    slowest: Vec<f64>,
}

/// Reads at checkpoints all over a board that has many.
async fn reads(sizes: &Sizes) -> Result<Vec<Figure>> {
    let data = tempfile::tempdir_in(&sizes.dir)?;
    let broker = Process::broker(data.path()).await?;
    let mut bare = Bare::start(sizes).await?;
    let (checkpoints, reads) = (sizes.board_checkpoints, sizes.board_reads);
    let mut histories = Vec::new();
    for (what, role, kept, bytes) in [
        (format!("{KEPT} messages"), "keeper", Some(KEPT), TEXT_BYTES),
        ("a message each".to_owned(), "collector", None, SHORT_BYTES),
    ] {
        let channel = channels(&broker, 1).await?.remove(0);
        let mut writer = Writer::open(channel, role, role).await?;
        (writer.kept, writer.text) = (kept, "t".repeat(bytes));
        for _ in 0..checkpoints {
            writer.call().await?;
        }
        histories.push(History { what, writer, medians: Vec::new(), slowest: Vec::new() });
    }
    let mut limits = Vec::new();
    for run in 0..=sizes.runs {
        let (mut echoes, mut times) = (Vec::new(), [Vec::new(), Vec::new()]);
        for read in run * reads..(run + 1) * reads {
            echoes.push(bare.echo().await?);
            for (history, times) in histories.iter_mut().zip(&mut times) {
                let checkpoint = read * STRIDE % checkpoints + 1;
                times.push(history.writer.timed_read(checkpoint).await?);
            }
        }
        if run == 0 {
            continue;
        }
        limits.push(median(&mut echoes));
        for (history, times) in histories.iter_mut().zip(&mut times) {
            history.medians.push(median(times));
            history.slowest.push(times.iter().copied().fold(0.0, f64::max));
        }
    }
    broker.stop().await?;
    let limit = median(&mut limits);
    let figure = |name: String, values: &mut [f64]| {
        let value = median(values);
        Figure {
            name,
            value: Quantity::Micros(value),
            limit: Some(("echo".to_owned(), Quantity::Micros(limit))),
            score: value,
            target: Target::AtMost(READ_MICROS_MAX),
        }
    };
    let mut figures = Vec::new();
    for mut history in histories {
        let board = format!("{checkpoints} checkpoints, {}", history.what);
        figures.push(figure(format!("{board}: read"), &mut history.medians));
        figures.push(figure(format!("{board}: slowest of {reads}"), &mut history.slowest));
    }
    Ok(figures)
}

/// A node's stream of waits, each for the phase of a board.
struct Waiter {
    asks: mpsc::Sender<ParkRequest>,
    answers: Streaming<ParkResponse>,
    /// One for each board.
    writers: Vec<Writer>,
    /// How often one was woken.
    woken: usize,
}

impl Waiter {
    /// As many boards and waits as those of the turn loop that they are measured beside.
    async fn start(broker: &Process, workspace: &str) -> Result<Self> {
        let channel = channels(broker, 1).await?.remove(0);
        let (asks, stream) = mpsc::channel(waits::FEW);
        let mut streams = WaitsClient::new(channel.clone());
        let answers = streams.park(ReceiverStream::new(stream)).await?.into_inner();
        let mut waiter = Self { asks, answers, writers: Vec::new(), woken: 0 };
        for board in 0..waits::FEW {
            let role = format!("writer-{board}");
            let mut writer = Writer::open(channel.clone(), workspace, &role).await?;
            // As short as what the loop's handovers say.
            writer.text = "t".to_owned();
            writer.call().await?;
            waiter.writers.push(writer);
            waiter.park(board).await?;
        }
        Ok(waiter)
    }

    async fn park(&mut self, board: usize) -> Result<()> {
        let writer = &self.writers[board];
        let question = BoardQuestion {
            caller: Some(writer.caller.clone()),
            role: "waiter".to_owned(),
            board: writer.board.clone(),
            channels: vec![PHASE.to_owned()],
            after_checkpoint: writer.written as u64,
            hold_ms: waits::HOLD_MS,
        };
        let ask = ParkRequest { wait: board as u64 + 1, ask: Some(Ask::Board(question)) };
        self.asks.send(ask).await.map_err(|_| "the stream ended")?;
        Ok(())
    }

    /// Microseconds from an update of one of the boards until the wait there is told, which is
    /// parked again.
    async fn wake(&mut self) -> Result<f64> {
        let board = self.woken % self.writers.len();
        self.woken += 1;
        let writer = &mut self.writers[board];
        let (request, mut boards) = (writer.request(None), writer.boards.clone());
        let began = Instant::now();
        let written = tokio::spawn(async move { boards.update_board(request).await });
        let told = self.answers.message().await?.ok_or("the stream ended")?;
        let took = micros(began.elapsed());
        let checkpoint = written.await??.into_inner().checkpoint;
        match told.outcome {
            Some(Outcome::Board(it))
                if told.wait == board as u64 + 1
                    && it.standing() == Standing::Changed
                    && it.newest.as_ref().is_some_and(|it| it.checkpoint == checkpoint) => {}
            other => return Err(format!("told {other:?}, not of {checkpoint}").into()),
        }
        self.park(board).await?;
        Ok(took)
    }
}

/// From an update to the waiter that is told of it, beside a handover and its waiter.
async fn waiting(sizes: &Sizes) -> Result<Vec<Figure>> {
    let data = tempfile::tempdir_in(&sizes.dir)?;
    let broker = Process::broker(data.path()).await?;
    let mut bare = Bare::start(sizes).await?;
    let loops: Vec<String> = (0..waits::FEW).map(|it| format!("l{it}")).collect();
    waits::open(&broker, "turns", &loops).await?;
    let mut turns = waits::Node::new(&broker, "turns", loops).await?;
    for wait in 0..waits::FEW {
        turns.park(wait, "B").await?;
    }
    let mut boards = Waiter::start(&broker, "boards").await?;
    let (mut beside_turn, mut beside_echo) = (Runs::default(), Runs::default());
    for run in 0..=sizes.runs {
        let (mut calls, mut appends) = (Vec::new(), Vec::new());
        let (mut handovers, mut updates) = (Vec::new(), Vec::new());
        for _ in 0..sizes.handovers {
            calls.push(bare.echo().await?);
            appends.push(bare.append()?);
            handovers.push(turns.wake().await?);
            updates.push(boards.wake().await?);
        }
        if run == 0 {
            continue;
        }
        let value = median(&mut updates);
        beside_turn.add(median(&mut handovers), value);
        beside_echo.add(2.0 * median(&mut calls) + median(&mut appends), value);
    }
    drop((turns, boards));
    broker.stop().await?;
    let name = "update of a board to woken waiter".to_owned();
    Ok(vec![
        beside_turn.figure(name.clone(), "handover to its waiter", Target::AtMost(1.1)),
        beside_echo.figure(name + ", beside echoes", "2 echoes + append", Target::None),
    ])
}

/// Throughput of many callers, each on a board of its own.
async fn many(sizes: &Sizes) -> Result<Figure> {
    let data = tempfile::tempdir_in(&sizes.dir)?;
    let (echo, broker) = (limits::start("echo").await?, Process::broker(data.path()).await?);
    let callers = sizes.board_writers;
    let mut echoed = agents(&echo, callers).await?;
    let mut writers = Vec::new();
    for (number, channel) in channels(&broker, callers).await?.into_iter().enumerate() {
        let workspace = format!("w{}", number % WORKSPACES);
        writers.push(Writer::open(channel, &workspace, &format!("writer-{number}")).await?);
    }
    let mut measured = Runs::default();
    // The first of each warms up.
    hammer(&mut echoed, sizes.run / 4).await?;
    hammer(&mut writers, sizes.run / 4).await?;
    for _ in 0..sizes.runs {
        let limit = hammer(&mut echoed, sizes.run).await?;
        measured.add(limit, hammer(&mut writers, sizes.run).await?);
    }
    broker.stop().await?;
    let name = format!("{callers} callers: updates of a board each");
    Ok(measured.figure_in(Quantity::PerSecond, name, "echo", Target::None))
}

/// Updates a board that others update, too, each time from the newest checkpoint that it knows.
struct Racer {
    writer: Writer,
    /// 0: there is no board yet.
    known: u64,
    effects: usize,
    refusals: usize,
}

impl Calling for Racer {
    async fn call(&mut self) -> Result<()> {
        let request = self.writer.request(Some(self.known));
        match self.writer.boards.update_board(request).await {
            Ok(written) => {
                self.known = written.into_inner().checkpoint;
                self.effects += 1;
            }
            Err(why) if Reason::of(&why) == Some(Reason::StaleCheckpoint) => {
                self.known = self.writer.newest().await?;
                self.refusals += 1;
            }
            Err(why) => return Err(why.into()),
        }
        Ok(())
    }
}

/// Callers that all update one board. At best each update follows the one before as soon as that
/// is answered, and none is refused.
async fn race(sizes: &Sizes) -> Result<Vec<Figure>> {
    let data = tempfile::tempdir_in(&sizes.dir)?;
    let broker = Process::broker(data.path()).await?;
    let mut bare = Bare::start(sizes).await?;
    let callers = sizes.board_racers;
    let mut racers = Vec::new();
    for (number, channel) in channels(&broker, callers).await?.into_iter().enumerate() {
        let writer = Writer::open(channel, "race", &format!("racer-{number}")).await?;
        racers.push(Racer { writer, known: 0, effects: 0, refusals: 0 });
    }
    let (mut measured, mut refused) = (Runs::default(), Vec::new());
    for run in 0..=sizes.runs {
        for racer in &mut racers {
            racer.writer.board = format!("board-{run}");
            (racer.known, racer.effects, racer.refusals) = (0, 0, 0);
        }
        let (mut calls, mut appends) = (Vec::new(), Vec::new());
        for _ in 0..sizes.calls {
            calls.push(bare.echo().await?);
            appends.push(bare.append()?);
        }
        let attempts =
            hammer(&mut racers, if run == 0 { sizes.run / 4 } else { sizes.run }).await?;
        let effects: usize = racers.iter().map(|it| it.effects).sum();
        let refusals: usize = racers.iter().map(|it| it.refusals).sum();
        let newest = racers[0].writer.newest().await?;
        if newest != effects as u64 {
            return Err(format!("{effects} updates took effect, and {newest} are there").into());
        }
        if run == 0 {
            continue;
        }
        let limit = 1e6 / (median(&mut calls) + median(&mut appends));
        measured.add(limit, attempts * number(effects) / number(effects + refusals));
        refused.push(number(refusals) / number(effects));
    }
    broker.stop().await?;
    let name = format!("{callers} callers race on one board: updates");
    let refused = median(&mut refused);
    Ok(vec![
        measured.figure_in(Quantity::PerSecond, name, "one by one, echo + append", Target::None),
        Figure {
            name: format!("{callers} callers race on one board: refusals each"),
            value: Quantity::Count(refused),
            limit: None,
            score: refused,
            target: Target::None,
        },
    ])
}
