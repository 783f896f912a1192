//! Tools of other MCP servers behind a node: what the way through it costs beside the server itself,
//! on this node and on another; finding one among two thousand; memory with many clients.
//!
//! Servers and clients are this program, so what is measured between them is Tasuki's. [`peers`]
//! measures other gateways beside it.

pub mod peers;

use std::{path::Path, process::Stdio, time::Duration};

use rmcp::{
    RoleClient, ServiceExt as _,
    model::{CallToolRequestParams, ErrorData},
    service::{RunningService, ServiceError},
};
use serde_json::{Value, json};
use tasuki_proto::wire::{HandOverRequest, turn_loop_client::TurnLoopClient};
use tokio::{
    process::{Child, Command},
    task::JoinSet,
    time::{Instant, timeout},
};

use super::{Figure, Quantity, Sizes, Target, limits, median, micros, number};
use crate::{
    Result,
    mcp::Agent,
    process::{Process, program},
};

/// Servers of the node whose tools are listed.
const FEW: usize = 10;

/// Tools of each server.
const TOOLS: usize = 50;

/// For all servers to be listed, or a role to be known.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// # Errors
/// When a call fails.
pub async fn all(sizes: &Sizes) -> Result<Vec<Figure>> {
    let mut figures = calls(sizes).await?;
    figures.extend(many(sizes).await?);
    Ok(figures)
}

/// One caller: by name at its own node, and at another.
async fn calls(sizes: &Sizes) -> Result<Vec<Figure>> {
    let dir = tempfile::tempdir_in(&sizes.dir)?;
    let broker = Process::broker(&dir.path().join("broker")).await?;
    let exports = "[[role.qa.export]]\ntools = [\"s0__*\"]\n";
    let near = node(dir.path(), "near", &broker, "qa=loop,gateway:full", FEW, exports).await?;
    let far = node(dir.path(), "far", &broker, "dev=loop,gateway", 0, "").await?;
    let mut own = Agent::connect(&format!("{}/mcp/qa", near.url()), "load").await?;
    let mut other = Agent::connect(&format!("{}/mcp/dev", far.url()), "load").await?;
    answers(&mut own, "s0__tool_0").await?;
    answers(&mut other, "qa__tool_0").await?;
    let echo = limits::start("mcp-echo").await?;
    let mut bare = Agent::connect(&format!("{}/mcp", echo.url()), "load").await?;
    let grpc = limits::start("echo").await?;
    let mut grpc = TurnLoopClient::connect(grpc.url().to_owned()).await?;
    let (direct, _child) = direct().await?;
    let (mut values, mut ways) = (Vec::new(), Vec::new());
    let (mut over, mut remote, mut remotes, mut echoes) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut lists = Vec::new();
    for run in 0..=sizes.runs {
        let [mut here, mut there, mut stdio, mut http, mut wire, mut list]: [Vec<f64>; 6] =
            Default::default();
        for _ in 0..sizes.calls {
            stdio.push(timed(call_direct(&direct)).await?);
            http.push(timed(bare.call("tool_0", arguments())).await?);
            here.push(timed(own.call("s0__tool_0", arguments())).await?);
            there.push(timed(other.call("qa__tool_0", arguments())).await?);
            wire.push(timed(grpc.hand_over(HandOverRequest::default())).await?);
            list.push(timed(own.list_tools()).await?);
        }
        if run == 0 {
            // It warmed up.
            continue;
        }
        let (here, there) = (median(&mut here), median(&mut there));
        let way = median(&mut stdio) + median(&mut http);
        let echo = median(&mut wire);
        values.push(here);
        ways.push(way);
        over.push(here - way);
        remotes.push(there);
        echoes.push(2.0 * echo);
        remote.push(there - here - 2.0 * echo);
        lists.push(median(&mut list));
    }
    let limit = |name: &str, values: &mut Vec<f64>| {
        Some((name.to_owned(), Quantity::Micros(median(values))))
    };
    let list = median(&mut lists);
    let figures = vec![
        Figure {
            name: "gateway: a call beyond both its ways".into(),
            value: Quantity::Micros(median(&mut values)),
            limit: limit("stdio call + HTTP call", &mut ways),
            score: median(&mut over),
            target: Target::AtMost(300.0),
        },
        Figure {
            name: "gateway: a remote role's call beyond a local one".into(),
            value: Quantity::Micros(median(&mut remotes)),
            limit: limit("2 gRPC echoes", &mut echoes),
            score: median(&mut remote),
            target: Target::AtMost(500.0),
        },
        Figure {
            name: format!("gateway: tools/list, {} tools of {FEW} servers", FEW * TOOLS),
            value: Quantity::Micros(list),
            limit: None,
            score: list,
            target: Target::AtMost(2_000.0),
        },
    ];
    for process in [near, far] {
        process.stop().await?;
    }
    broker.stop().await?;
    Ok(figures)
}

/// Many servers and clients at once.
async fn many(sizes: &Sizes) -> Result<Vec<Figure>> {
    let dir = tempfile::tempdir_in(&sizes.dir)?;
    let broker = Process::broker(&dir.path().join("broker")).await?;
    let servers = sizes.servers;
    let node = node(dir.path(), "many", &broker, "dev=loop,gateway", servers, "").await?;
    let address = format!("{}/mcp/dev", node.url());
    let mut first = Agent::connect(&address, "load").await?;
    answers(&mut first, &format!("s{}__tool_0", servers - 1)).await?;
    let before = node.memory_bytes()?;
    let mut found = Vec::new();
    for count in 0..sizes.calls {
        let query = json!({ "query": format!("weather of city {count}") });
        found.push(timed(first.call("gateway_find", query)).await?);
    }
    let mut clients = Vec::new();
    for _ in 0..sizes.clients {
        clients.push(Agent::connect(&address, "load").await?);
    }
    let began = Instant::now();
    let mut calling = JoinSet::new();
    for (number, mut client) in clients.into_iter().enumerate() {
        let rounds = sizes.handovers;
        calling.spawn(async move {
            for round in 0..rounds {
                let tool = format!("s{}__tool_{}", (number + round) % servers, round % TOOLS);
                let arguments = json!({ "tool": tool, "arguments": arguments() });
                let said = client.call("gateway_call", arguments).await;
                let said = said.map_err(|why| why.to_string())?;
                // A role has a number of calls at once, and says so.
                if said.is_error && !said.text.contains("limit") {
                    return Err(said.text);
                }
            }
            Ok(client)
        });
    }
    let mut open = Vec::new();
    while let Some(client) = calling.join_next().await {
        open.push(client??);
    }
    let calls = number(sizes.clients * sizes.handovers);
    let rate = calls / began.elapsed().as_secs_f64();
    let after = node.memory_bytes()?;
    let find = median(&mut found);
    let memory = |bytes: u64| f64::from(u32::try_from(bytes / 1024).unwrap_or(u32::MAX)) * 1024.0;
    let tools = servers * TOOLS;
    let figures = vec![
        Figure {
            name: format!("gateway: gateway_find among {tools} tools"),
            value: Quantity::Micros(find),
            limit: None,
            score: find,
            target: Target::AtMost(5_000.0),
        },
        Figure {
            name: format!("gateway: calls of {} clients", sizes.clients),
            value: Quantity::PerSecond(rate),
            limit: None,
            score: rate,
            target: Target::None,
        },
        Figure {
            name: format!("gateway: memory, {servers} servers, {} clients", sizes.clients),
            value: Quantity::Bytes(memory(after)),
            limit: Some(("before them".to_owned(), Quantity::Bytes(memory(before)))),
            score: memory(after),
            target: Target::AtMost(256e6),
        },
    ];
    drop((open, first));
    node.stop().await?;
    broker.stop().await?;
    Ok(figures)
}

fn arguments() -> Value {
    json!({ "path": "src/main.rs", "line": 17 })
}

async fn timed<T, E>(call: impl Future<Output = std::result::Result<T, E>>) -> Result<f64>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let began = Instant::now();
    call.await.map_err(Into::into)?;
    Ok(micros(began.elapsed()))
}

/// A node with so many servers, which are this program.
async fn node(
    dir: &Path,
    name: &str,
    broker: &Process,
    role: &str,
    servers: usize,
    more: &str,
) -> Result<Process> {
    let data = dir.join(name);
    std::fs::create_dir(&data)?;
    let own = std::env::current_exe()?;
    let mut config = String::new();
    for number in 0..servers {
        config += &format!(
            "[[gateway.server]]\nname = \"s{number}\"\n\
             command = [{own:?}, \"--serve\", \"mcp-stdio\"]\nenv = [\"LOAD_TOOLS={TOOLS}\"]\n"
        );
    }
    let file = dir.join(format!("{name}.toml"));
    std::fs::write(&file, config + more)?;
    let mut command = Command::new(program("tasuki")?);
    command.args(["node", "--broker", broker.url(), "--role", role, "--listen", "127.0.0.1:0"]);
    command.arg("--config").arg(file).arg("--data").arg(&data).current_dir(&data);
    Process::start(command, "MCP").await
}

/// Waits until a tool is there.
async fn answers(agent: &mut Agent, tool: &str) -> Result<()> {
    let is_there = async {
        loop {
            let arguments = json!({ "tool": tool, "arguments": arguments() });
            let said = agent.call("gateway_call", arguments).await?;
            if !said.is_error {
                return Ok(());
            }
        }
    };
    timeout(READY_WITHIN, is_there).await?
}

type Direct = RunningService<RoleClient, ()>;

/// A server that a client has for itself.
async fn direct() -> Result<(Direct, Child)> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--serve", "mcp-stdio"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let (Some(stdout), Some(stdin)) = (child.stdout.take(), child.stdin.take()) else {
        return Err("it has no pipes".into());
    };
    Ok((().serve((stdout, stdin)).await?, child))
}

async fn call_direct(direct: &Direct) -> std::result::Result<(), ServiceError> {
    let arguments = arguments().as_object().cloned().unwrap_or_default();
    let request = CallToolRequestParams::new("tool_0").with_arguments(arguments);
    let said = direct.call_tool(request).await?;
    if said.is_error == Some(true) {
        return Err(ServiceError::McpError(ErrorData::internal_error("it failed", None)));
    }
    Ok(())
}
