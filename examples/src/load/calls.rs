//! Durable commands through gRPC: many callers at once, and one alone.

use std::{net::SocketAddr, path::Path, time::Duration};

use hyper_util::rt::TokioIo;
use serde_json::Value;
use tasuki_proto::{
    host::{admin::AdminFile, config::FOLDER},
    invitation::Trust,
    net::tls::{self, ALPN_H2, Trusting},
    wire::{
        Caller, CreateLoopRequest, HandOverRequest, IdempotencyKey, RegisterRequest,
        SetLimitsRequest, directory_client::DirectoryClient, guard_client::GuardClient,
        turn_loop_client::TurnLoopClient,
    },
};
use tokio::{net::TcpStream, process::Command, task::JoinSet, time::Instant};
use tonic::{
    Request,
    metadata::{Ascii, MetadataValue},
    transport::{Channel, Endpoint, Uri},
};

use super::{
    Figure, Quantity, Sizes, Target,
    limits::{self, Disk},
    median, micros, number,
};
use crate::{
    Result,
    process::{Process, program},
};

/// Connections the callers share.
const CONNECTIONS: usize = 4;

/// Workspaces they spread over.
pub(super) const WORKSPACES: usize = 16;

/// What is said in a handover, in bytes: with its frame it makes a request of 512.
const TEXT_BYTES: usize = 225;

/// Whoever makes one call after the other.
pub(super) trait Calling: Send + 'static {
    /// Makes the next.
    fn call(&mut self) -> impl Future<Output = Result<()>> + Send;
}

/// Hands over again and again in a loop of its own, playing both roles.
pub(super) struct Agent {
    directory: DirectoryClient<Channel>,
    turns: TurnLoopClient<Channel>,
    guard: GuardClient<Channel>,
    /// Shown with each call.
    token: Option<MetadataValue<Ascii>>,
    caller: Caller,
    name: String,
    counter: u64,
}

impl Agent {
    fn new(channel: Channel, number: usize) -> Self {
        Self::of_workspace(channel, format!("w{}", number % WORKSPACES), number)
    }

    pub(super) fn of_workspace(channel: Channel, workspace: String, number: usize) -> Self {
        Self {
            directory: DirectoryClient::new(channel.clone()),
            turns: TurnLoopClient::new(channel.clone()),
            guard: GuardClient::new(channel),
            token: None,
            caller: Caller { workspace, ..Caller::default() },
            name: format!("loop-{number}"),
            counter: 0,
        }
    }

    fn key(&mut self) -> Option<IdempotencyKey> {
        self.counter += 1;
        Some(IdempotencyKey { client_id: self.name.clone(), counter: self.counter })
    }

    fn shows<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("authorization", token.clone());
        }
        request
    }

    pub(super) async fn open(&mut self) -> Result<()> {
        let registered = self.shows(registration(&self.caller, &self.name));
        self.directory.register(registered).await?;
        let request = CreateLoopRequest {
            caller: Some(self.caller.clone()),
            key: self.key(),
            r#loop: self.name.clone(),
            participants: vec!["A".to_owned(), "B".to_owned()],
            allow_new_roles: true,
        };
        let request = self.shows(request);
        self.turns.create_loop(request).await?;
        let request = self.shows(no_limits(&self.caller.workspace, &self.name));
        self.guard.set_limits(request).await?;
        Ok(())
    }

    async fn hand_over(&mut self) -> Result<()> {
        let request = HandOverRequest {
            caller: Some(self.caller.clone()),
            key: self.key(),
            r#loop: self.name.clone(),
            // The first key opened the loop.
            role: if self.counter.is_multiple_of(2) { "A" } else { "B" }.to_owned(),
            summary: "s".repeat(TEXT_BYTES),
            instruction: "i".repeat(TEXT_BYTES),
            // The same words again are a repeat, unless the turn is named.
            turn: self.counter - 1,
            ..HandOverRequest::default()
        };
        let request = self.shows(request);
        self.turns.hand_over(request).await?;
        Ok(())
    }
}

impl Calling for Agent {
    async fn call(&mut self) -> Result<()> {
        self.hand_over().await
    }
}

/// Lets the agents of a workspace go on for as long as they are measured.
pub(super) async fn lift_limits(broker: &Process, workspace: &str) -> Result<()> {
    let mut guard = GuardClient::connect(broker.url().to_owned()).await?;
    guard.set_limits(no_limits(workspace, "load")).await?;
    Ok(())
}

fn no_limits(workspace: &str, by: &str) -> SetLimitsRequest {
    SetLimitsRequest {
        caller: Some(Caller { workspace: workspace.to_owned(), ..Caller::default() }),
        key: Some(IdempotencyKey { client_id: format!("{by}-limits"), counter: 1 }),
        person: "load".to_owned(),
        max_turns: Some(0),
        max_hops: Some(0),
        ..SetLimitsRequest::default()
    }
}

/// What makes a workspace: a node without roles that registers in it.
pub(super) fn registration(caller: &Caller, by: &str) -> RegisterRequest {
    RegisterRequest {
        caller: Some(caller.clone()),
        key: Some(IdempotencyKey { client_id: format!("{by}-node"), counter: 1 }),
        node: "load".to_owned(),
        ..RegisterRequest::default()
    }
}

pub(super) async fn agents(process: &Process, count: usize) -> Result<Vec<Agent>> {
    let channels = channels(process, count).await?;
    Ok(channels.into_iter().enumerate().map(|(number, it)| Agent::new(it, number)).collect())
}

/// A way to a broker for each of `count` callers: they share a few connections.
pub(super) async fn channels(process: &Process, count: usize) -> Result<Vec<Channel>> {
    let mut channels = Vec::new();
    for _ in 0..CONNECTIONS.min(count) {
        let channel = Channel::from_shared(process.url().to_owned())?.tcp_nodelay(true);
        channels.push(channel.connect().await?);
    }
    Ok(channels.iter().cycle().take(count).cloned().collect())
}

/// Calls made by all together, again and again for `run`; returns how many a second.
pub(super) async fn hammer<A: Calling>(agents: &mut Vec<A>, run: Duration) -> Result<f64> {
    let began = Instant::now();
    let mut calls: JoinSet<Result<(A, usize)>> = JoinSet::new();
    for mut agent in agents.drain(..) {
        calls.spawn(async move {
            let mut made = 0_usize;
            // At least one, however busy the machine is.
            loop {
                agent.call().await?;
                made += 1;
                if run <= began.elapsed() {
                    return Ok((agent, made));
                }
            }
        });
    }
    let mut all = 0;
    while let Some(ended) = calls.join_next().await {
        let (agent, made) = ended??;
        all += made;
        agents.push(agent);
    }
    Ok(number(all) / began.elapsed().as_secs_f64())
}

/// Throughput of many callers, and how many commands one durable write serves.
///
/// # Errors
/// When a call fails.
pub async fn many(sizes: &Sizes) -> Result<Vec<Figure>> {
    let data = tempfile::tempdir_in(&sizes.dir)?;
    let (echo, broker) = (limits::start("echo").await?, Process::broker(data.path()).await?);
    let mut echoed = agents(&echo, sizes.callers).await?;
    let mut durable = agents(&broker, sizes.callers).await?;
    for agent in &mut durable {
        agent.open().await?;
    }
    let opened = durable.len();
    let (mut limits, mut values, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    // The first of each warms up.
    hammer(&mut echoed, sizes.run / 4).await?;
    hammer(&mut durable, sizes.run / 4).await?;
    for _ in 0..sizes.runs {
        let limit = hammer(&mut echoed, sizes.run).await?;
        let value = hammer(&mut durable, sizes.run).await?;
        limits.push(limit);
        values.push(value);
        ratios.push(value / limit);
    }
    let handed: u64 = durable.iter().map(|agent| agent.counter - 1).sum();
    broker.stop().await?;
    // Opening the loops came one by one: a commit each.
    let commits = commits(data.path()).await?.saturating_sub(opened as u64);
    let commands = handed as f64 / commits.max(1) as f64;
    let callers = sizes.callers;
    Ok(vec![
        Figure {
            name: format!("{callers} callers: durable handovers"),
            value: Quantity::PerSecond(median(&mut values)),
            limit: Some(("echo".into(), Quantity::PerSecond(median(&mut limits)))),
            score: median(&mut ratios),
            target: Target::AtLeast(0.5),
        },
        Figure {
            name: format!("{callers} callers: commands per durable write"),
            value: Quantity::Count(commands),
            limit: None,
            score: commands,
            target: Target::AtLeast(20.0),
        },
    ])
}

/// Durable writes so far, as `tasuki-broker verify` counts them.
async fn commits(data: &Path) -> Result<u64> {
    let mut command = Command::new(program("tasuki-broker")?);
    let output = command.args(["verify", "--json", "--data"]).arg(data).output().await?;
    let report: Value = serde_json::from_slice(&output.stdout)?;
    report["last_commit"].as_u64().ok_or_else(|| format!("verify says {report}").into())
}

/// Latency of one caller, beside an echo and a durable append after each other.
///
/// # Errors
/// When a call fails.
pub async fn one(sizes: &Sizes) -> Result<Vec<Figure>> {
    let data = tempfile::tempdir_in(&sizes.dir)?;
    let (echo, broker) = (limits::start("echo").await?, Process::broker(data.path()).await?);
    let mut disk = Disk::new(&sizes.dir)?;
    let mut echoed = agents(&echo, 1).await?.remove(0);
    let mut durable = agents(&broker, 1).await?.remove(0);
    durable.open().await?;
    let (mut limits, mut values, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..=sizes.runs {
        let (mut calls, mut appends, mut handovers) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..sizes.calls {
            let began = Instant::now();
            echoed.hand_over().await?;
            calls.push(micros(began.elapsed()));
            appends.push(micros(tokio::task::block_in_place(|| disk.append())?));
            let began = Instant::now();
            durable.hand_over().await?;
            handovers.push(micros(began.elapsed()));
        }
        if run == 0 {
            // It warmed up.
            continue;
        }
        let limit = median(&mut calls) + median(&mut appends);
        let value = median(&mut handovers);
        limits.push(limit);
        values.push(value);
        ratios.push(value / limit);
    }
    broker.stop().await?;
    Ok(vec![Figure {
        name: "1 caller: durable handover".into(),
        value: Quantity::Micros(median(&mut values)),
        limit: Some(("echo + append".into(), Quantity::Micros(median(&mut limits)))),
        score: median(&mut ratios),
        target: Target::AtMost(1.15),
    }])
}

/// Somebody who calls a guarded broker as its administrator, over TLS.
async fn bearer(data: &Path) -> Result<Agent> {
    let admin = AdminFile::read(&data.join(FOLDER))?.ok_or("the broker wrote no admin.json")?;
    let pin = admin.fingerprint.as_deref().ok_or("the broker is open")?.parse()?;
    let connector = Trusting::new(Trust::Pinned(pin)).connector(&[ALPN_H2])?;
    let address: SocketAddr = admin.url.trim_start_matches("https://").parse()?;
    let connect = tower::service_fn(move |_: Uri| {
        let connector = connector.clone();
        async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let opened = tls::connect(&connector, stream, &address.ip().to_string()).await;
            opened.map(TokioIo::new).map_err(std::io::Error::other)
        }
    });
    let channel = Endpoint::from_shared(admin.url.clone())?.connect_with_connector(connect).await?;
    let mut agent = Agent::new(channel, 0);
    agent.token = Some(format!("Bearer {}", admin.token).parse()?);
    Ok(agent)
}

/// What TLS and a token cost one caller: the same handover with them and without, in turns.
///
/// # Errors
/// When a call fails.
pub async fn guarded(sizes: &Sizes) -> Result<Vec<Figure>> {
    let (near, far) = (tempfile::tempdir_in(&sizes.dir)?, tempfile::tempdir_in(&sizes.dir)?);
    let open = Process::broker(near.path()).await?;
    let guarded = Process::guarded_broker(far.path()).await?;
    let mut plain = agents(&open, 1).await?.remove(0);
    let mut bearer = bearer(far.path()).await?;
    plain.open().await?;
    bearer.open().await?;
    let (mut limits, mut values, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..=sizes.runs {
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..sizes.calls {
            let began = Instant::now();
            plain.hand_over().await?;
            without.push(micros(began.elapsed()));
            let began = Instant::now();
            bearer.hand_over().await?;
            with.push(micros(began.elapsed()));
        }
        if run == 0 {
            // It warmed up.
            continue;
        }
        let (limit, value) = (median(&mut without), median(&mut with));
        limits.push(limit);
        values.push(value);
        ratios.push(value / limit);
    }
    open.stop().await?;
    guarded.stop().await?;
    Ok(vec![Figure {
        name: "1 caller: durable handover, TLS and a token".into(),
        value: Quantity::Micros(median(&mut values)),
        limit: Some(("without them".into(), Quantity::Micros(median(&mut limits)))),
        score: median(&mut ratios),
        target: Target::None,
    }])
}
