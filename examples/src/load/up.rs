//! Mail in `tasuki up`: what an agent waits for that sends some to another of its machine, and what
//! sessions and waits take.
//!
//! The limit is a bare HTTP server that answers at once, and one append.

use std::{path::Path, time::Duration};

use serde_json::json;
use tasuki_proto::wire::directory_client::DirectoryClient;
use tempfile::TempDir;
use tokio::{
    process::Command,
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{
    Figure, Quantity, Runs, Sizes, Target,
    calls::{Calling, hammer, lift_limits},
    limits::{self, Disk},
    mail::{Pair, letter, send, waiting},
    mailboxes::bytes,
    median, micros, number,
    relay::too_early,
};
use crate::{
    Result,
    mcp::Agent,
    process::{Process, program},
    relay::{ROLES, Relay},
};

/// Between two calls of an agent that thinks.
const PAUSE: Duration = Duration::from_millis(25);

/// Callers at once, and how many sends a second are wanted of them.
const CALLERS: [(usize, f64); 2] = [(16, 6_000.0), (64, 8_000.0)];

/// What a session and a call of it that waits may take.
const WAIT_BYTES_MAX: f64 = 48.0 * 1024.0;

/// What a broker may take that has nothing to do.
const IDLE_BYTES_MAX: f64 = 25.0 * 1024.0 * 1024.0;

/// `tasuki up` on empty data.
struct Up {
    process: Process,
    mcp: String,
    _dir: TempDir,
}

impl Up {
    async fn start(dir: &Path, roles: impl Iterator<Item = String>) -> Result<Self> {
        let dir = tempfile::tempdir_in(dir)?;
        let mut command = Command::new(program("tasuki")?);
        command.args(["up", "--listen", "127.0.0.1:0", "--broker-listen", "127.0.0.1:0"]);
        command.args(["--dashboard", "off", "--data"]).arg(dir.path());
        for role in roles {
            command.args(["--role", &role]);
        }
        // A configuration file of whoever runs this is not meant.
        command.current_dir(dir.path());
        let process = Process::start(command, "broker gRPC").await?;
        let mcp = process.url_of("MCP").ok_or("it serves no MCP")?.to_owned();
        lift_limits(&process, "").await?;
        Ok(Self { process, mcp, _dir: dir })
    }

    async fn agent(&self, role: &str) -> Result<Agent> {
        Agent::connect(&format!("{}/mcp/{role}", self.mcp), "load").await
    }
}

/// An agent that sends one letter after the other.
struct Sender(Agent, usize);

impl Calling for Sender {
    async fn call(&mut self) -> Result<()> {
        self.1 += 1;
        send(&mut self.0, self.1).await.map(drop)
    }
}

/// # Errors
/// When a call fails.
pub async fn all(sizes: &Sizes) -> Result<Vec<Figure>> {
    let bare = limits::start("http").await?;
    let mut limit = Limit {
        bare: Agent::stateless(bare.url(), "load")?,
        disk: Disk::new(&sizes.dir)?,
        sent: 0,
    };
    let most = CALLERS.iter().map(|it| it.0).max().unwrap_or(0);
    let roles = ROLES.map(str::to_owned).into_iter().chain((0..most).map(caller));
    let up = Up::start(&sizes.dir, roles).await?;
    // First, for what others send would be there before its waiter waits.
    let mut figures = woken(sizes, &mut limit, &up).await?;
    figures.extend(alone(sizes, &mut limit, &up).await?);
    for (count, wanted) in CALLERS {
        figures.push(many(sizes, &up, count, wanted).await?);
    }
    up.process.stop().await?;
    figures.extend(between_nodes(sizes, &mut limit).await?);
    figures.extend(memory(sizes).await?);
    Ok(figures)
}

fn caller(number: usize) -> String {
    format!("c{number}")
}

/// A bare call and an append.
struct Limit {
    bare: Agent,
    disk: Disk,
    sent: usize,
}

impl Limit {
    /// Microseconds of each.
    async fn take(&mut self) -> Result<[f64; 2]> {
        self.sent += 1;
        let letter = letter(self.sent);
        let began = Instant::now();
        self.bare.call("filebox_send_message", letter).await?;
        let call = micros(began.elapsed());
        Ok([call, micros(tokio::task::block_in_place(|| self.disk.append())?)])
    }
}

/// What one caller waits for, who has nobody beside it.
async fn alone(sizes: &Sizes, limit: &mut Limit, up: &Up) -> Result<Vec<Figure>> {
    let mut agent = up.agent(ROLES[0]).await?;
    let (mut pings, mut busy, mut paused) = (Runs::default(), Runs::default(), Runs::default());
    for run in 0..=sizes.runs {
        let [mut calls, mut appends, mut pinged, mut sent, mut sent_later] =
            [(); 5].map(|()| vec![]);
        for at in 0..sizes.calls {
            let [call, append] = limit.take().await?;
            calls.push(call);
            appends.push(append);
            let began = Instant::now();
            agent.ping().await?;
            pinged.push(micros(began.elapsed()));
            sent.push(send(&mut agent, at).await?);
        }
        for at in 0..sizes.handovers {
            sleep(PAUSE).await;
            sent_later.push(send(&mut agent, at).await?);
        }
        // The first warms up.
        if 0 < run {
            let call = median(&mut calls);
            let durable = call + median(&mut appends);
            pings.add(call, median(&mut pinged));
            busy.add(durable, median(&mut sent));
            paused.add(durable, median(&mut sent_later));
        }
    }
    let after = format!("up: 1 caller: durable mail, after {} ms", PAUSE.as_millis());
    Ok(vec![
        pings.figure("up: MCP ping".to_owned(), "bare HTTP", Target::None),
        busy.figure("up: 1 caller: durable mail".to_owned(), LIMIT, Target::AtMost(2.2)),
        paused.figure(after, LIMIT, Target::None),
    ])
}

const LIMIT: &str = "bare HTTP + append";

/// What is sent to one that waits, in a tight loop and as agents do.
async fn woken(sizes: &Sizes, limit: &mut Limit, up: &Up) -> Result<Vec<Figure>> {
    let (giver, taker) = (up.agent(ROLES[0]).await?, up.agent(ROLES[1]).await?);
    let pair = Pair::new(giver, taker, up.process.url()).await?;
    let targets = [Target::AtMost(2.7), Target::AtMost(4.5)];
    wakes(sizes, limit, pair, "up: mail to woken waiter", targets).await
}

/// The same of two nodes and a broker.
async fn between_nodes(sizes: &Sizes, limit: &mut Limit) -> Result<Vec<Figure>> {
    let relay = Relay::start_in(&sizes.dir).await?;
    lift_limits(&relay.broker, "").await?;
    let pair = Pair::new(relay.agent(0).await?, relay.agent(1).await?, relay.broker.url()).await?;
    let targets = [Target::None, Target::AtMost(8.0)];
    let figures = wakes(sizes, limit, pair, "two nodes: mail to woken waiter", targets).await?;
    relay.stop().await?;
    Ok(figures)
}

async fn wakes(
    sizes: &Sizes,
    limit: &mut Limit,
    mut pair: Pair,
    name: &str,
    [when_busy, when_paused]: [Target; 2],
) -> Result<Vec<Figure>> {
    let (mut busy, mut paused) = (Runs::default(), Runs::default());
    for run in 0..=sizes.runs {
        let [mut calls, mut appends, mut woken, mut woken_later] = [(); 4].map(|()| vec![]);
        for _ in 0..sizes.handovers {
            let [call, append] = limit.take().await?;
            calls.push(call);
            appends.push(append);
            woken.push(pair.wake(Duration::ZERO).await?);
            woken_later.push(pair.wake(PAUSE).await?);
        }
        // The first warms up.
        if 0 < run {
            let durable = median(&mut calls) + median(&mut appends);
            busy.add(durable, median(&mut woken));
            paused.add(durable, median(&mut woken_later));
        }
    }
    let after = format!("{name}, after {} ms", PAUSE.as_millis());
    Ok(vec![
        busy.figure(name.to_owned(), LIMIT, when_busy),
        paused.figure(after, LIMIT, when_paused),
    ])
}

/// How many letters so many callers send, each through a session of its own.
async fn many(sizes: &Sizes, up: &Up, count: usize, wanted: f64) -> Result<Figure> {
    let mut senders = Vec::new();
    for number in 0..count {
        senders.push(Sender(up.agent(&caller(number)).await?, 0));
    }
    hammer(&mut senders, sizes.run / 4).await?;
    let mut rates = Vec::new();
    for _ in 0..sizes.runs {
        rates.push(hammer(&mut senders, sizes.run).await?);
    }
    let rate = median(&mut rates);
    Ok(Figure {
        name: format!("up: {count} callers: durable mail"),
        value: Quantity::PerSecond(rate),
        limit: None,
        score: rate,
        target: Target::AtLeast(wanted),
    })
}

/// What an idle broker takes, and a node for each session and each wait.
async fn memory(sizes: &Sizes) -> Result<Vec<Figure>> {
    let dir = tempfile::tempdir_in(&sizes.dir)?;
    let broker = Process::broker(&dir.path().join("broker")).await?;
    let idle = bytes(broker.memory_bytes()?);
    let data = dir.path().join("node");
    std::fs::create_dir(&data)?;
    let mut command = Command::new(program("tasuki")?);
    command.args(["node", "--broker", broker.url(), "--listen", "127.0.0.1:0", "--data"]);
    command.arg(&data).current_dir(&data);
    for role in (0..sizes.clients).map(caller) {
        command.args(["--role", &role]);
    }
    let node = Process::start(command, "MCP").await?;

    let before = node.memory_bytes()?;
    let mut agents = Vec::new();
    for number in 0..sizes.clients {
        let uri = format!("{}/mcp/{}", node.url(), caller(number));
        agents.push(Agent::connect(&uri, "load").await?);
    }
    let connected = node.memory_bytes()?;
    let mut waits = JoinSet::new();
    for mut agent in agents {
        waits.spawn(async move { agent.call("filebox_wait_for_message", json!({})).await });
    }
    let mut roles = DirectoryClient::connect(broker.url().to_owned()).await?;
    while waiting(&mut roles).await?.len() < sizes.clients {
        if let Some(early) = waits.try_join_next() {
            return Err(too_early(&early??));
        }
        tokio::task::yield_now().await;
    }
    let parked = node.memory_bytes()?;
    waits.shutdown().await;
    node.stop().await?;
    broker.stop().await?;
    let each = |from: u64, to: u64| bytes(to.saturating_sub(from)) / number(sizes.clients);
    let figure = |name: &str, it, target| Figure {
        name: name.to_owned(),
        value: Quantity::Bytes(it),
        limit: None,
        score: it,
        target,
    };
    Ok(vec![
        figure("idle broker: memory", idle, Target::AtMost(IDLE_BYTES_MAX)),
        figure("memory of an MCP session", each(before, connected), Target::None),
        figure("memory of one that waits", each(before, parked), Target::AtMost(WAIT_BYTES_MAX)),
    ])
}
