//! Real agent CLIs, connected to a real node, against a scripted model.
//!
//! `make clients` installs them below `target/clients` and runs this where no network is to be
//! reached. Each plays B of the turn loop and a worker of an issue over each transport: it is
//! killed while it waits, started again, waits longer than it would by itself, and finishes; Claude
//! Code plays B also in a terminal, where it has to be woken from idleness. Those that have a runner
//! are also started by `tasuki run`, pi among them. Those that `tasuki wake` can wake are woken by mail
//! from another node while they wait for nothing, their hooks are tried, and `tasuki launch` starts three together.
//! Two call tools of other MCP servers, which are this program, through their node. Ends with 1 when one of them did not work.

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use anstream::println;
use clap::{Parser, ValueEnum};
use tasuki_examples::{
    Result,
    clients::{
        agent_runs,
        client::{Client, Transport},
        gateway, hooking, launching,
        play::{Plan, Play, Seen, Way, play},
        table, waking,
    },
    load::limits::serve_mcp_stdio,
};
use tokio::{sync::Semaphore, task::JoinSet};

/// Clients that start at the same time: it is work, and their first call has a limit too.
const STARTING_MAX: usize = 2;

/// Beyond a client's own limit, in seconds.
const BEYOND_SECS: u64 = 30;

/// Run real agent CLIs against a scripted model.
#[derive(Parser)]
struct Cli {
    /// Only these clients
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Client>,
    /// Only these transports
    #[arg(long, value_enum, value_delimiter = ',')]
    transport: Vec<Transport>,
    /// Only B of the turn loop, a worker, runs, idle ones that are woken, those with hooks, those that are launched, or calls of other servers' tools
    #[arg(long, value_enum)]
    play: Option<Part>,
    /// Only from the command line, or only in a terminal
    #[arg(long, value_enum)]
    way: Option<Which>,
    /// The long wait, in seconds [default: longer than the client's own limit]
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,
    /// Where the clients are installed and the logs go
    #[arg(long, value_name = "DIR", default_value = "target/clients")]
    place: PathBuf,
    /// Put what was seen into the table of this page, unless the wait was chosen
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Serve tools that say what they were given: how this program starts servers for a gateway
    #[arg(long, hide = true)]
    serve_mcp_stdio: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Turns,
    Work,
    Runs,
    Wake,
    Hooks,
    Launch,
    Gateway,
}

impl Part {
    const fn play(self) -> Option<Play> {
        match self {
            Self::Turns => Some(Play::Turns),
            Self::Work => Some(Play::Work),
            Self::Runs | Self::Wake | Self::Hooks | Self::Launch | Self::Gateway => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    Alone,
    Terminal,
}

impl Cli {
    fn plans(&self) -> Vec<Plan> {
        /// The others' terminals begin no turn by themselves, and a worker needs none.
        const TERMINALS: [(Client, Play); 1] = [(Client::ClaudeCode, Play::Turns)];
        let is_meant = |plan: &Plan| {
            (plan.way == Way::Alone || TERMINALS.contains(&(plan.client, plan.play)))
                && plan.client.speaks_mcp()
                && self.play.is_none_or(|part| part.play() == Some(plan.play))
                && (self.only.is_empty() || self.only.contains(&plan.client))
                && (self.transport.is_empty() || self.transport.contains(&plan.transport))
                && self.way.is_none_or(|way| match way {
                    Which::Alone => plan.way == Way::Alone,
                    Which::Terminal => plan.way == Way::Terminal,
                })
        };
        let mut plans = Vec::new();
        for client in Client::value_variants() {
            for play in Play::value_variants() {
                for way in [Way::Alone, Way::Terminal] {
                    for transport in Transport::value_variants() {
                        let secs = client.own_limit_secs(*transport) + BEYOND_SECS;
                        let wait = Duration::from_secs(self.wait.unwrap_or(secs));
                        let (client, play, transport) = (*client, *play, *transport);
                        plans.push(Plan { client, transport, play, way, wait });
                    }
                }
            }
        }
        plans.retain(is_meant);
        plans
    }

    /// Clients that are started for runs: no transport and no terminal makes a difference there.
    fn runners(&self) -> Vec<Client> {
        let is_asked = self.play.is_none_or(|part| part == Part::Runs)
            && self.transport.is_empty()
            && self.way.is_none_or(|way| way == Which::Alone);
        let is_meant = |client: &Client| {
            is_asked
                && client.runner().is_some()
                && (self.only.is_empty() || self.only.contains(client))
        };
        Client::value_variants().iter().copied().filter(is_meant).collect()
    }
}

impl Cli {
    /// Which of these clients play a part that has no transports and ways.
    fn meant(&self, clients: &[Client], part: Part) -> Vec<Client> {
        let is_asked = self.play.is_none_or(|it| it == part)
            && self.transport.is_empty()
            && self.way.is_none();
        let is_meant =
            |client: &Client| is_asked && (self.only.is_empty() || self.only.contains(client));
        clients.iter().copied().filter(is_meant).collect()
    }
}

impl Cli {
    /// Whether `tasuki launch` is played, which takes three clients together.
    fn launches(&self) -> bool {
        self.play.is_none_or(|part| part == Part::Launch)
            && self.only.is_empty()
            && self.transport.is_empty()
            && self.way.is_none()
    }
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    if cli.serve_mcp_stdio {
        serve_mcp_stdio().await?;
        return Ok(ExitCode::SUCCESS);
    }
    let place = std::fs::canonicalize(&cli.place)
        .map_err(|why| format!("{}: {why}; run ./scripts/clients-setup.sh", cli.place.display()))?;
    let runs = place.join("runs");
    let starting = Arc::new(Semaphore::new(STARTING_MAX));
    let mut playing = JoinSet::new();
    for plan in cli.plans() {
        println!("{:<32} waits {} s", plan.name(), plan.wait.as_secs());
        let (place, runs, starting) = (place.clone(), runs.clone(), Arc::clone(&starting));
        playing.spawn(async move { play(plan, &place, &runs, &starting).await });
    }
    let mut running = JoinSet::new();
    for client in cli.runners() {
        println!("{:<32} runs", client.name());
        let (place, runs, starting) = (place.clone(), runs.clone(), Arc::clone(&starting));
        running.spawn(async move { agent_runs::play(client, &place, &runs, &starting).await });
    }
    let mut waking = JoinSet::new();
    let wakeable: Vec<_> =
        Client::value_variants().iter().copied().filter(|it| it.is_wakeable()).collect();
    for client in cli.meant(&wakeable, Part::Wake) {
        println!("{:<32} is woken", client.name());
        let (place, runs, starting) = (place.clone(), runs.clone(), Arc::clone(&starting));
        waking.spawn(async move { waking::play(client, &place, &runs, &starting).await });
    }
    let mut hooking = JoinSet::new();
    for client in cli.meant(&hooking::CLIENTS, Part::Hooks) {
        println!("{:<32} is told by hooks", client.name());
        let (place, runs, starting) = (place.clone(), runs.clone(), Arc::clone(&starting));
        hooking.spawn(async move { hooking::play(client, &place, &runs, &starting).await });
    }
    let mut calling = JoinSet::new();
    for client in cli.meant(&gateway::CLIENTS, Part::Gateway) {
        println!("{:<32} calls tools of other servers", client.name());
        let (place, runs, starting) = (place.clone(), runs.clone(), Arc::clone(&starting));
        calling.spawn(async move { gateway::play(client, &place, &runs, &starting).await });
    }
    let (mut all, mut working) = (0, 0);
    if cli.launches() {
        println!("{:<32} are launched", "claude-code, codex, opencode");
        for seen in launching::play(&place, &runs, &starting).await {
            report_launch(&seen);
            all += 1;
            working += usize::from(seen.failure.is_none());
            if let (Some(page), None) = (&cli.page, cli.wait) {
                table::write_launch(page, &seen)?;
            }
        }
    }
    while let Some(seen) = waking.join_next().await {
        let seen = seen?;
        report_wake(&seen);
        all += 1;
        working += usize::from(seen.failure.is_none());
        if let (Some(page), None) = (&cli.page, cli.wait) {
            table::write_wake(page, &seen)?;
        }
    }
    while let Some(seen) = hooking.join_next().await {
        let seen = seen?;
        report_hooks(&seen);
        all += 1;
        working += usize::from(seen.failure.is_none());
        if let (Some(page), None) = (&cli.page, cli.wait) {
            table::write_hooks(page, &seen)?;
        }
    }
    while let Some(seen) = calling.join_next().await {
        let seen = seen?;
        let called = seen.called.join(", ");
        let what = seen.failure.as_ref().map_or(called, |why| format!("FAILED: {why}"));
        println!("{:<32} calls {what}", seen.client.name());
        all += 1;
        working += usize::from(seen.failure.is_none());
        if let (Some(page), None) = (&cli.page, cli.wait) {
            table::write_gateway(page, &seen)?;
        }
    }
    while let Some(seen) = running.join_next().await {
        let seen = seen?;
        report_runs(&seen);
        all += 1;
        working += usize::from(seen.failure.is_none());
    }
    while let Some(seen) = playing.join_next().await {
        let seen = seen?;
        report(&seen);
        all += 1;
        working += usize::from(seen.failure.is_none());
        // A short try says nothing about how long a client can wait.
        if let (Some(page), None) = (&cli.page, cli.wait) {
            table::write(page, &seen)?;
        }
    }
    println!("\n{working} of {all} work; logs in {}", runs.display());
    Ok(if working == all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn report_runs(seen: &agent_runs::Seen) {
    let name = format!("{} {}", seen.client.name(), seen.version);
    match &seen.failure {
        None => println!("{name:<32} runs: {}", seen.lines.join("; ")),
        Some(why) => println!("{name:<32} FAILED: {why}, after {:?}", seen.lines),
    }
}

fn report_launch(seen: &launching::Seen) {
    let name = format!("{} {}", seen.client.name(), seen.version);
    match &seen.failure {
        None => println!("{name:<32} launched: {}", table::launch_row(seen)[3..].join("; ")),
        Some(why) => println!("{name:<32} FAILED: {why}"),
    }
}

fn report_hooks(seen: &hooking::Seen) {
    let name = format!("{} {}", seen.client.name(), seen.version);
    let cells = table::hooks_row(seen)[4..].join("; ");
    match &seen.failure {
        None => println!("{name:<32} hooks: {cells}"),
        Some(why) => println!("{name:<32} FAILED: {why}; {cells}"),
    }
}

fn report_wake(seen: &waking::Seen) {
    let name = format!("{} {}", seen.client.name(), seen.version);
    match (&seen.failure, seen.woken_after) {
        (None, Some(after)) => {
            println!("{name:<32} woken by {} after {after:?}; test: {}", seen.by, seen.tested);
        }
        (why, _) => println!("{name:<32} FAILED: {}", why.as_deref().unwrap_or("nothing")),
    }
}

fn report(seen: &Seen) {
    let name = seen.plan.name();
    match &seen.failure {
        None => println!("{name:<32} works: {}", table::row(seen)[5..].join("; ")),
        Some(why) => println!("{name:<32} FAILED: {why}"),
    }
    for error in &seen.errors {
        println!("{name:<32} its model was told: {error}");
    }
}
