//! What the machine can do at best: a durable append, and calls that do nothing.

use std::{
    convert::Infallible, fs::File, os::unix::fs::FileExt as _, path::Path, task::Poll,
    time::Duration,
};

use axum::{Json, Router, serve::ListenerExt as _};
use futures::future::BoxFuture;
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
        PaginatedRequestParams, ProgressNotificationParam, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
    transport::{
        StreamableHttpServerConfig, StreamableHttpService,
        streamable_http_server::session::local::LocalSessionManager,
    },
};
use serde_json::{Value, json};
use tasuki_proto::wire::{HandOverRequest, HandOverResponse};
use tempfile::TempDir;
use tokio::{net::TcpListener, process::Command, time::Instant};
use tonic::{
    Request, Response, Status,
    body::Body,
    codegen::{Service, http},
    server::{Grpc, NamedService, UnaryService},
    transport::server::TcpIncoming,
};
use tonic_prost::ProstCodec;

use crate::{Result, process::Process};

/// Bytes of the record that a durable append writes.
const RECORD_BYTES: usize = 512;

/// A file that was filled before.
const FILE_BYTES: u64 = 4 * 1024 * 1024;

/// One record appended to a file that was filled before, and one fdatasync.
#[derive(Debug)]
pub struct Disk {
    file: File,
    at: u64,
    _dir: TempDir,
}

impl Disk {
    /// Makes a file in a folder of its own in `dir`.
    ///
    /// # Errors
    /// When that fails.
    pub fn new(dir: &Path) -> Result<Self> {
        let dir = tempfile::tempdir_in(dir)?;
        let file = File::create(dir.path().join("log"))?;
        file.write_all_at(&vec![0; usize::try_from(FILE_BYTES)?], 0)?;
        file.sync_all()?;
        Ok(Self { file, at: 0, _dir: dir })
    }

    /// How long one durable append takes.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn append(&mut self) -> Result<Duration> {
        let began = Instant::now();
        self.file.write_all_at(&[7; RECORD_BYTES], self.at)?;
        self.file.sync_data()?;
        self.at = (self.at + RECORD_BYTES as u64) % FILE_BYTES;
        Ok(began.elapsed())
    }
}

/// Starts this program again, to serve `what` (`echo`, `http` or `mcp-echo`).
///
/// # Errors
/// When it does not start.
pub async fn start(what: &str) -> Result<Process> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--serve", what]);
    Process::start(command, what).await
}

/// Answers a handover as the broker does, without having done anything.
#[derive(Debug, Clone)]
struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = "tasuki.v1.TurnLoop";
}

impl Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let codec = ProstCodec::<HandOverResponse, HandOverRequest>::default();
        Box::pin(async move { Ok(Grpc::new(codec).unary(Self, request).await) })
    }
}

impl UnaryService<HandOverRequest> for Echo {
    type Response = HandOverResponse;
    type Future = std::future::Ready<Result<Response<HandOverResponse>, Status>>;

    fn call(&mut self, request: Request<HandOverRequest>) -> Self::Future {
        let counter = request.into_inner().key.map_or(0, |key| key.counter);
        std::future::ready(Ok(Response::new(HandOverResponse {
            ended_turn: counter,
            turn: counter + 1,
            to: "A".to_owned(),
            sequence: counter,
            ..HandOverResponse::default()
        })))
    }
}

/// Serves gRPC calls that do nothing, until this process is killed. `say` gets the address.
///
/// # Errors
/// When it cannot listen.
pub async fn serve_echo(say: impl FnOnce(String)) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    say(format!("listening on http://{} (echo)", listener.local_addr()?));
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    Ok(tonic::transport::Server::builder().add_service(Echo).serve_with_incoming(incoming).await?)
}

/// The tool that refuses, as a node refuses one of its own.
pub const REFUSING: &str = "loop_status";

/// The argument that says how often a tool tells its caller how far it is, before it answers.
pub const STEPS: &str = "steps";

/// Tools that say what they were given, and [`REFUSING`].
#[derive(Debug, Clone)]
struct McpEcho;

/// The variable that says how many tools are listed.
const LISTED: &str = "LOAD_TOOLS";

/// The variable with the name that a server signs its results with.
pub const SIGNATURE: &str = "LOAD_SIGNATURE";

/// Tools as a server of weather has them.
fn listed() -> Vec<Tool> {
    let count = std::env::var(LISTED).ok().and_then(|it| it.parse().ok()).unwrap_or(1);
    let tool = |number: usize| {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "description": "Where it is, by its name or place." },
                "line": { "type": "integer", "description": "Which one of several." },
            },
        });
        let schema = schema.as_object().cloned().unwrap_or_default();
        let description = format!(
            "Tells the weather of city {number}: temperature, rain and wind for the next days. \
             Call it before a trip is planned."
        );
        Tool::new(format!("tool_{number}"), description, schema)
    };
    (0..count).map(tool).collect()
}

impl ServerHandler for McpEcho {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(listed()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name == REFUSING {
            return Ok(CallToolResponse::Complete(refusal()));
        }
        let mut arguments = request.arguments.unwrap_or_default();
        let steps = arguments.get(STEPS).and_then(|it| u32::try_from(it.as_u64()?).ok());
        if let (Some(steps), Some(token)) = (steps, context.meta.get_progress_token()) {
            for step in 1..=steps {
                let progress = ProgressNotificationParam::new(token.clone(), step.into());
                let told = context.peer.notify_progress(progress).await;
                told.map_err(|why| ErrorData::internal_error(why.to_string(), None))?;
            }
        }
        if let Ok(name) = std::env::var(SIGNATURE) {
            arguments.insert("signed".to_owned(), name.into());
        }
        let text = Value::from(arguments).to_string();
        let result = CallToolResult::success(vec![ContentBlock::text(text)]);
        Ok(CallToolResponse::Complete(result))
    }
}

/// As long, and in as many parts, as what a node says.
fn refusal() -> CallToolResult {
    let message = "`agent_id` names \"B\", but this connection is for role A. Leave `agent_id` out \
                   or give \"A\".";
    let mut result = CallToolResult::error(vec![ContentBlock::text(message)]);
    result.structured_content = Some(json!({ "error": {
        "code": "role_forbidden", "message": message, "retryable": false, "maybe_applied": false
    } }));
    result
}

/// Serves HTTP that answers every JSON-RPC request with an empty result, until this process is
/// killed.
///
/// # Errors
/// When it cannot listen.
pub async fn serve_http(say: impl FnOnce(String)) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    say(format!("listening on http://{} (http)", listener.local_addr()?));
    let answer = |Json(request): Json<Value>| async move {
        let result = json!({ "content": [{ "type": "text", "text": "{}" }] });
        Json(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }))
    };
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, Router::new().fallback(answer)).await?)
}

/// Serves MCP with a tool that does nothing, until this process is killed.
///
/// # Errors
/// When it cannot listen.
pub async fn serve_mcp_echo(say: impl FnOnce(String)) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    say(format!("listening on http://{} (mcp-echo)", listener.local_addr()?));
    let sessions = std::sync::Arc::new(LocalSessionManager::default());
    let config = StreamableHttpServerConfig::default();
    let service = StreamableHttpService::new(|| Ok(McpEcho), sessions, config);
    let listener = listener.tap_io(|stream| {
        // A socket that is gone already fails at its first read.
        let _ = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, Router::new().fallback_service(service)).await?)
}

/// The same on standard input and output, until the former ends.
///
/// # Errors
/// When the conversation breaks.
pub async fn serve_mcp_stdio() -> Result<()> {
    let running = McpEcho.serve((tokio::io::stdin(), tokio::io::stdout())).await?;
    running.waiting().await?;
    Ok(())
}
