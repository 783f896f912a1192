//! Tasuki's gateway beside other programs that put HTTP in front of an MCP server on standard input
//! and output: what a call costs beyond its two ways, calls of many clients, and whether progress
//! arrives.
//!
//! All of them start the same server and are called by the same client, in turns. Calls are those
//! of protocol 2025-06-18, in a session, because not all of them speak 2026-07-28.
//!
//! `scripts/bench-gateway-setup.sh` installs the others.

use std::{net::TcpListener, path::Path, process::Stdio, time::Duration};

use futures::future::try_join_all;
use rmcp::{
    ClientHandler, RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, ProgressNotificationParam, ProgressToken,
        ServerResult,
    },
    service::{
        ClientLifecycleMode, ClientServiceExt as _, NotificationContext, PeerRequestOptions,
    },
    transport::StreamableHttpClientTransport,
};
use serde_json::json;
use tokio::{
    process::{Child, Command},
    sync::watch,
    time::{Instant, sleep, timeout},
};

use super::{READY_WITHIN, TOOLS, arguments, call_direct, direct, node, timed};
use crate::{
    Result,
    load::{Figure, Quantity, Sizes, Target, limits, median, number},
    mcp::Agent,
    process::Process,
};

/// Clients of each gateway that call at once.
const CALLERS: usize = 16;

/// Progress notifications of the call that is watched for them.
const STEPS: usize = 3;

/// For notifications to come after the answer, if they come at all.
const LATE: Duration = Duration::from_secs(2);

/// Between two tries to reach a gateway that is starting.
const PAUSE: Duration = Duration::from_millis(100);

const OURS: &str = "Tasuki";

/// Nothing is written for each call then. Tasuki and the crate are told the same elsewhere.
const QUIET: &str = "--log-level ERROR";

/// One gateway in front of one server, and what was measured of it.
struct Peer {
    name: &'static str,
    url: String,
    /// What the server's first tool is called there.
    tool: &'static str,
    callers: Vec<Agent>,
    calls: Vec<f64>,
    overheads: Vec<f64>,
    rates: Vec<f64>,
}

impl Peer {
    /// Connects once the tool answers.
    async fn connect(name: &'static str, url: String, tool: &'static str) -> Result<Self> {
        let is_ready = async {
            loop {
                if let Ok(mut agent) = Agent::connect(&url, "load").await
                    && call(&mut agent, tool).await.is_ok()
                {
                    return;
                }
                sleep(PAUSE).await;
            }
        };
        let ready = timeout(READY_WITHIN, is_ready).await;
        ready.map_err(|_| format!("{name}: no answer within {READY_WITHIN:?}"))?;
        let mut callers = Vec::new();
        for _ in 0..CALLERS {
            callers.push(Agent::connect(&url, "load").await?);
        }
        let (calls, overheads, rates) = Default::default();
        Ok(Self { name, url, tool, callers, calls, overheads, rates })
    }

    /// Microseconds of one client's call.
    async fn one(&mut self, calls: usize) -> Result<f64> {
        let agent = self.callers.first_mut().ok_or("no caller")?;
        let mut times = Vec::new();
        for _ in 0..calls {
            times.push(timed(call(agent, self.tool)).await?);
        }
        Ok(median(&mut times))
    }

    /// Calls a second of all clients at once.
    async fn many(&mut self, run: Duration) -> Result<f64> {
        let (tool, began) = (self.tool, Instant::now());
        let calling = self.callers.iter_mut().map(|agent| call_until(agent, tool, began + run));
        let counts = try_join_all(calling).await?;
        Ok(number(counts.iter().sum()) / began.elapsed().as_secs_f64())
    }

    /// What was measured. What it is compared with: the two ways, and the lowest overhead of others.
    async fn figures(mut self, way: f64, lowest: f64) -> Result<[Figure; 3]> {
        let passed = number(progress(&self.url, self.tool).await?);
        let is_ours = self.name == OURS;
        let rate = median(&mut self.rates);
        let figure = |what: &str, value, limit: Option<(&str, Quantity)>, score, target| Figure {
            name: format!("{}: {what}", self.name),
            value,
            limit: limit.map(|(name, limit)| (name.to_owned(), limit)),
            score,
            target: if is_ours { target } else { Target::None },
        };
        Ok([
            figure(
                "a call beyond both its ways",
                Quantity::Micros(median(&mut self.calls)),
                Some(("stdio call + HTTP call", Quantity::Micros(way))),
                median(&mut self.overheads),
                Target::AtMost(lowest),
            ),
            figure(
                &format!("calls of {CALLERS} clients"),
                Quantity::PerSecond(rate),
                None,
                rate,
                Target::None,
            ),
            figure(
                "progress that arrives",
                Quantity::Count(passed),
                Some(("sent", Quantity::Count(number(STEPS)))),
                passed,
                Target::AtLeast(number(STEPS)),
            ),
        ])
    }
}

async fn call(agent: &mut Agent, tool: &str) -> Result<()> {
    let said = agent.call(tool, arguments()).await?;
    if said.is_error { Err(format!("{tool}: {}", said.text).into()) } else { Ok(()) }
}

/// How many calls were answered by then.
async fn call_until(agent: &mut Agent, tool: &str, end: Instant) -> Result<usize> {
    let mut count = 0;
    while Instant::now() < end {
        call(agent, tool).await?;
        count += 1;
    }
    Ok(count)
}

/// # Errors
/// When the other gateways are not installed, or a call fails.
pub async fn compare(sizes: &Sizes) -> Result<Vec<Figure>> {
    let dir = tempfile::tempdir_in(&sizes.dir)?;
    let broker = Process::broker(&dir.path().join("broker")).await?;
    let node = node(dir.path(), "own", &broker, "dev=loop,gateway:full", 1, "").await?;
    let url = format!("{}/mcp/dev", node.url());
    let (mut peers, _processes) = others(dir.path()).await?;
    peers.push(Peer::connect(OURS, url, "s0__tool_0").await?);
    let echo = limits::start("mcp-echo").await?;
    let echo_url = format!("{}/mcp", echo.url());
    let mut bare = Agent::connect(&echo_url, "load").await?;
    let (direct, _child) = direct().await?;
    let mut ways = Vec::new();
    for run in 0..=sizes.runs {
        let (mut stdio, mut http) = (Vec::new(), Vec::new());
        for _ in 0..sizes.calls {
            stdio.push(timed(call_direct(&direct)).await?);
            http.push(timed(call(&mut bare, "tool_0")).await?);
        }
        let way = median(&mut stdio) + median(&mut http);
        for peer in &mut peers {
            let (one, many) = (peer.one(sizes.calls).await?, peer.many(sizes.run).await?);
            // The first run warms up.
            if run > 0 {
                peer.calls.push(one);
                peer.overheads.push(one - way);
                peer.rates.push(many);
            }
        }
        if run > 0 {
            ways.push(way);
        }
        // Each run begins with another one.
        peers.rotate_left(1);
    }
    // After the calls, because tokens that gateways count themselves are other numbers by then than
    // those of a new client.
    let passed = progress(&echo_url, "tool_0").await?;
    if passed != STEPS {
        return Err(format!("{passed} of {STEPS} arrive without a gateway").into());
    }
    peers.sort_by_key(|peer| peer.name != OURS);
    let others = peers.iter_mut().filter(|peer| peer.name != OURS);
    let lowest =
        others.map(|peer| median(&mut peer.overheads).round()).fold(f64::INFINITY, f64::min);
    let mut figures = Vec::new();
    for peer in peers {
        figures.extend(peer.figures(median(&mut ways), lowest).await?);
    }
    node.stop().await?;
    broker.stop().await?;
    Ok(figures)
}

/// The other gateways, each with this program as its server. They end when their process is dropped.
async fn others(dir: &Path) -> Result<(Vec<Peer>, Vec<Child>)> {
    let server = json!({
        "command": std::env::current_exe()?,
        "args": ["--serve", "mcp-stdio"],
        "env": { "LOAD_TOOLS": TOOLS.to_string() },
    });
    std::fs::write(dir.join("mcp.json"), json!({ "mcpServers": { "s0": server } }).to_string())?;
    let port = || -> Result<_> { Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port()) };
    let ports = [port()?, port()?, port()?];
    let [python, fastmcp, rust] = ports;
    let settings = format!(
        "proxy = {{ name = \"load\", import_backends = \"mcp.json\", listen.port = {rust} }}\n\
         observability.log_level = \"error\"\n"
    );
    std::fs::write(dir.join("proxy.toml"), settings)?;
    let commands = [
        format!("mcp-proxy/bin/mcp-proxy --port {python} --named-server-config mcp.json {QUIET}"),
        format!("fastmcp/bin/fastmcp run mcp.json --skip-env -t http --port {fastmcp} {QUIET}"),
        "bin/mcp-proxy --config proxy.toml".to_owned(),
    ];
    let places = [
        ("mcp-proxy (PyPI)", "servers/s0/mcp", "tool_0"),
        ("fastmcp", "mcp", "tool_0"),
        ("mcp-proxy (crates.io)", "", "s0/tool_0"),
    ];
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench-gateway");
    let (mut peers, mut processes) = (Vec::new(), Vec::new());
    for ((command, (name, path, tool)), port) in commands.iter().zip(places).zip(ports) {
        let (program, args) = command.split_once(' ').ok_or("no arguments")?;
        let mut process = Command::new(installed.join(program));
        process.args(args.split(' ')).current_dir(dir).kill_on_drop(true);
        process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = process.spawn();
        processes.push(process.map_err(|why| format!("{name}: {why}; run make bench-gateway"))?);
        let url = format!("http://127.0.0.1:{port}/{path}");
        peers.push(Peer::connect(name, url, tool).await?);
    }
    Ok((peers, processes))
}

/// A client that keeps the tokens of the progress it is told.
#[derive(Debug, Default)]
struct ProgressClient(watch::Sender<Vec<ProgressToken>>);

impl ClientHandler for ProgressClient {
    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.0.send_modify(|tokens| tokens.push(progress.progress_token));
    }
}

/// How many notifications of a call reach its client, with the token that it gave: in the answer's
/// stream or in that of its session.
async fn progress(url: &str, tool: &'static str) -> Result<usize> {
    // What the transport's own client is made with; it is there already after the first time.
    rustls::crypto::ring::default_provider().install_default().ok();
    let transport = StreamableHttpClientTransport::from_uri(url.to_owned());
    let client = ProgressClient::default();
    let client = client.serve_with_lifecycle(transport, ClientLifecycleMode::Initialize).await?;
    let mut arguments = arguments().as_object().cloned().unwrap_or_default();
    arguments.insert(limits::STEPS.to_owned(), STEPS.into());
    let request = CallToolRequest::new(CallToolRequestParams::new(tool).with_arguments(arguments));
    let options = PeerRequestOptions::no_options();
    let called = client.send_request_with_option(request.into(), options).await?;
    let token = called.progress_token.clone();
    let answer = timeout(READY_WITHIN, called.await_response()).await??;
    if !matches!(answer, ServerResult::CallToolResult(said) if said.is_error != Some(true)) {
        return Err(format!("{url}: {tool} failed").into());
    }
    let count = |tokens: &Vec<_>| tokens.iter().filter(|it| **it == token).count();
    let mut tokens = client.service().0.subscribe();
    timeout(LATE, tokens.wait_for(|tokens| count(tokens) == STEPS)).await.ok();
    let passed = count(&tokens.borrow());
    client.cancel().await?;
    Ok(passed)
}
