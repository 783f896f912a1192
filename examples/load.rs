//! How fast Tasuki is, each figure beside what the same machine could do at best in the same
//! run.
//!
//! `make bench` builds everything in release and runs it; `--only` picks figures, `--quick`
//! takes small numbers, `--json` prints one object a line. It ends with 1 when a target is
//! missed, except with `--quick`, whose numbers mean nothing.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anstream::println;
use clap::{Parser, ValueEnum};
use tasuki_examples::{
    Result,
    load::{
        Figure, Sizes, board, calls, dashboard, gateway, limits, mail, mailboxes, pipeline, relay,
        runs, snapshots, stack, startup, swarm, up, waits,
    },
};

/// Measure broker and nodes.
#[derive(Parser)]
struct Cli {
    /// Only these figures
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<What>,
    /// Small numbers, to see that it works
    #[arg(long)]
    quick: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    /// Each figure is the median of so many runs
    #[arg(long)]
    runs: Option<usize>,
    /// How long pages are open, in seconds
    #[arg(long)]
    secs: Option<u64>,
    /// Where to keep data meanwhile [default: the system's temporary directory]
    #[arg(long)]
    data: Option<PathBuf>,
    /// Serve calls that do nothing: how this program starts its own limits
    #[arg(long, hide = true)]
    serve: Option<Serve>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// 256 callers at once
    Many,
    /// One caller
    One,
    /// The same with TLS and a token, beside without.
    Guarded,
    /// An MCP call that changes nothing
    Stack,
    /// From one MCP client to the other
    Relay,
    /// 10,000 parked waits
    Waits,
    /// Start with a million records
    Startup,
    /// Mail: one caller, many, and from one MCP client to the other
    Mail,
    /// Mail through `tasuki up`: one caller, 16 and 64, to one that waits; memory of sessions
    Up,
    /// A workspace with a million messages
    Mailboxes,
    /// Commands while a snapshot of 300 MB is written
    Snapshots,
    /// Tasks: one caller, 1,000 waiting workers, an issue with 100,000
    Swarm,
    /// Boards: updates, reads at 10,000 checkpoints, waits, 64 callers, 16 that race on one
    Board,
    /// Pipelines: phases whose node ends each at once
    Pipeline,
    /// Runs of sub-agents: time, memory, progress, and how fast streams are read
    Runs,
    /// Tools of other MCP servers: here, on another node, among 2,000, with 200 clients
    Gateway,
    /// The gateway beside others, only where it is named: `make bench-gateway` installs them
    GatewayPeers,
    /// Pages in a browser, and callers beside 50 open ones
    Dashboard,
}

#[derive(Clone, Copy, ValueEnum)]
enum Serve {
    Echo,
    Http,
    McpEcho,
    McpStdio,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    match cli.serve {
        Some(Serve::Echo) => limits::serve_echo(|line| println!("{line}")).await?,
        Some(Serve::Http) => limits::serve_http(|line| println!("{line}")).await?,
        Some(Serve::McpEcho) => limits::serve_mcp_echo(|line| println!("{line}")).await?,
        Some(Serve::McpStdio) => limits::serve_mcp_stdio().await?,
        None => return measure(&cli).await,
    }
    Ok(ExitCode::SUCCESS)
}

async fn measure(cli: &Cli) -> Result<ExitCode> {
    let dir = cli.data.clone().unwrap_or_else(std::env::temp_dir);
    let mut sizes = if cli.quick { Sizes::quick(dir) } else { Sizes::full(dir) };
    sizes.runs = cli.runs.unwrap_or(sizes.runs).max(1);
    sizes.watched = cli.secs.map_or(sizes.watched, Duration::from_secs);
    let mut is_met = true;
    for what in What::value_variants() {
        let is_wanted = match cli.only.as_slice() {
            [] => *what != What::GatewayPeers,
            only => only.contains(what),
        };
        if !is_wanted {
            continue;
        }
        let figures: Vec<Figure> = match what {
            What::Many => calls::many(&sizes).await?,
            What::One => calls::one(&sizes).await?,
            What::Guarded => calls::guarded(&sizes).await?,
            What::Stack => stack::calls(&sizes).await?,
            What::Relay => relay::handover(&sizes).await?,
            What::Waits => waits::parked(&sizes).await?,
            What::Startup => startup::history(&sizes).await?,
            What::Mail => mail::all(&sizes).await?,
            What::Up => up::all(&sizes).await?,
            What::Mailboxes => mailboxes::full(&sizes).await?,
            What::Snapshots => snapshots::beside(&sizes).await?,
            What::Swarm => swarm::all(&sizes).await?,
            What::Board => board::all(&sizes).await?,
            What::Pipeline => pipeline::phases(&sizes).await?,
            What::Runs => runs::all(&sizes).await?,
            What::Gateway => gateway::all(&sizes).await?,
            What::GatewayPeers => gateway::peers::compare(&sizes).await?,
            What::Dashboard => dashboard::pages(&sizes).await?,
        };
        for figure in figures {
            is_met &= figure.is_met() != Some(false);
            println!("{}", if cli.json { figure.in_json().to_string() } else { figure.in_words() });
        }
    }
    Ok(if is_met || cli.quick { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
