//! What an MCP call costs in a node, beside the same call to a server that is nothing but rmcp.
//!
//! The call is one that the node refuses by itself, so that what is compared is the way there
//! and back: checks, transport, the tool's own parsing and wording. The limit's tool has the
//! same answer ready. Beside it stands a call for which the node asks the broker.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::Instant,
};

use super::{Figure, Quantity, Sizes, Target, calls::lift_limits, limits, median, micros};
use crate::{
    Result,
    mcp::{Agent, Said},
    process::program,
    relay::{ROLES, Relay},
};

/// What a call may cost at most, as a multiple of a bare one.
const COST_MAX: f64 = 1.2;

/// A server that is this process's child, spoken to by lines.
struct Piped {
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    id: u64,
    /// Killed when dropped.
    _process: Child,
}

impl Piped {
    async fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.kill_on_drop(true).spawn()?;
        let stdin = process.stdin.take().ok_or("its input is piped")?;
        let stdout = process.stdout.take().ok_or("its output is piped")?;
        let lines = BufReader::new(stdout).lines();
        let mut it = Self { stdin, lines, id: 0, _process: process };
        let hello = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": { "name": "load", "version": env!("CARGO_PKG_VERSION") },
        });
        it.request("initialize", hello).await?;
        it.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
        Ok(it)
    }

    async fn say(&mut self, message: &Value) -> Result<()> {
        Ok(self.stdin.write_all(format!("{message}\n").as_bytes()).await?)
    }

    async fn request(&mut self, method: &str, params: Value) -> Result<Value> {
        self.id += 1;
        let id = self.id;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.say(&message).await?;
        loop {
            let line = self.lines.next_line().await?.ok_or("the server ended")?;
            let mut answer: Value = serde_json::from_str(&line)?;
            if answer["id"] == id && answer.get("method").is_none() {
                return Ok(answer["result"].take());
            }
        }
    }
}

/// A client of one kind.
enum Client {
    Http(Box<Agent>),
    Stdio(Box<Piped>),
}

impl Client {
    async fn call(&mut self, arguments: &Value) -> Result<Said> {
        match self {
            Self::Http(agent) => agent.call(limits::REFUSING, arguments.clone()).await,
            Self::Stdio(piped) => {
                let params = json!({ "name": limits::REFUSING, "arguments": arguments });
                Ok(Said::of(&piped.request("tools/call", params).await?))
            }
        }
    }

    /// Microseconds of one call.
    async fn refused(&mut self) -> Result<f64> {
        let began = Instant::now();
        let said = self.call(&json!({ "agent_id": ROLES[1] })).await?;
        let took = micros(began.elapsed());
        let code = &said.structured["error"]["code"];
        if code != "role_forbidden" {
            return Err(format!("{} instead of a refusal", said.text).into());
        }
        Ok(took)
    }

    /// The same of a call that asks the broker.
    async fn answered(&mut self) -> Result<f64> {
        let began = Instant::now();
        let said = self.call(&json!({})).await?;
        let took = micros(began.elapsed());
        said.json()?;
        Ok(took)
    }
}

/// # Errors
/// When a call fails.
pub async fn calls(sizes: &Sizes) -> Result<Vec<Figure>> {
    let bare = limits::start("mcp-echo").await?;
    let relay = Relay::start_in(&sizes.dir).await?;
    lift_limits(&relay.broker, "").await?;
    let (bare, ours) =
        (format!("{}/mcp", bare.url()), format!("{}/mcp/{}", relay.nodes[0].url(), ROLES[0]));
    let http = |agent| Client::Http(Box::new(agent));
    let mut figures = Vec::new();

    let bare_client = http(Agent::stateless(&bare, "load")?);
    let own_client = http(Agent::stateless(&ours, "load")?);
    figures.extend(compare(sizes, "MCP call over HTTP", bare_client, own_client).await?);

    let bare_client = http(Agent::connect(&bare, "load").await?);
    let own_client = http(Agent::connect(&ours, "load").await?);
    figures.extend(compare(sizes, "MCP call in a session", bare_client, own_client).await?);

    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--serve", "mcp-stdio"]);
    let bare_client = Client::Stdio(Box::new(Piped::start(command).await?));
    let mut command = Command::new(program("tasuki")?);
    command.args(["mcp", "--role", ROLES[0], "--node", relay.nodes[0].url()]);
    let own_client = Client::Stdio(Box::new(Piped::start(command).await?));
    figures.extend(compare(sizes, "MCP call over stdio", bare_client, own_client).await?);
    relay.stop().await?;
    Ok(figures)
}

async fn compare(
    sizes: &Sizes,
    name: &str,
    mut bare: Client,
    mut ours: Client,
) -> Result<[Figure; 2]> {
    let (mut limits, mut refusals, mut answers) = (Vec::new(), Vec::new(), Vec::new());
    let (mut refusing, mut answering) = (Vec::new(), Vec::new());
    for run in 0..=sizes.runs {
        let (mut limit, mut refused, mut answered) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..sizes.calls {
            limit.push(bare.refused().await?);
            refused.push(ours.refused().await?);
            answered.push(ours.answered().await?);
        }
        if run == 0 {
            // It warmed up.
            continue;
        }
        let (limit, refused, answered) =
            (median(&mut limit), median(&mut refused), median(&mut answered));
        limits.push(limit);
        refusals.push(refused);
        answers.push(answered);
        refusing.push(refused / limit);
        answering.push(answered / limit);
    }
    let limit = median(&mut limits);
    let figure = |name: String, value: &mut [f64], score: &mut [f64], target| Figure {
        name,
        value: Quantity::Micros(median(value)),
        limit: Some(("bare rmcp".into(), Quantity::Micros(limit))),
        score: median(score),
        target,
    };
    Ok([
        figure(name.to_owned(), &mut refusals, &mut refusing, Target::AtMost(COST_MAX)),
        figure(format!("{name}, asking the broker"), &mut answers, &mut answering, Target::None),
    ])
}
