//! An agent's side of MCP: Streamable HTTP over one connection, no more than an example needs.
//!
//! What real clients do is the same: `initialize`, then `tools/call`, each a POST; the answer
//! is JSON, or a stream of events that ends with it.

use std::{future::poll_fn, pin::Pin, time::Duration};

use bytes::Bytes;
use http_body::Body as _;
use hyper::{
    Request, Response, StatusCode, Uri,
    body::Incoming,
    client::conn::http1::{SendRequest, handshake},
    header::{ACCEPT, CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::timeout};

use crate::Result;

const VERSION: &str = "2025-06-18";
const SESSION: &str = "mcp-session-id";

/// The version that has no sessions: each request says all of it.
const STATELESS_VERSION: &str = "2026-07-28";

/// For an answer to come: longer than any hold.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);

/// One agent at one MCP address.
#[derive(Debug)]
pub struct Agent {
    uri: Uri,
    /// For people.
    name: String,
    connection: Option<SendRequest<String>>,
    /// It speaks the version without sessions.
    is_stateless: bool,
    session: Option<String>,
    /// What is left of the latest answer.
    rest: Option<Incoming>,
    id: u64,
    /// The other side does not know the session.
    is_forgotten: bool,
}

/// What a tool said.
#[derive(Debug, Clone)]
pub struct Said {
    pub text: String,
    /// It is a refusal.
    pub is_error: bool,
    pub structured: Value,
}

impl Said {
    /// What the result of a call says.
    pub(crate) fn of(result: &Value) -> Self {
        let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        let is_error = result["isError"] == true;
        Self { text, is_error, structured: result["structuredContent"].clone() }
    }

    /// The text, where a tool answers in JSON.
    ///
    /// # Errors
    /// When it is a refusal, or no JSON.
    pub fn json(&self) -> Result<Value> {
        if self.is_error {
            Err(self.text.as_str().into())
        } else {
            Ok(serde_json::from_str(&self.text)?)
        }
    }
}

impl Agent {
    /// Connects and introduces itself.
    ///
    /// # Errors
    /// When nobody answers, or not with MCP.
    pub async fn connect(uri: &str, name: &str) -> Result<Self> {
        let mut agent = Self { is_stateless: false, ..Self::stateless(uri, name)? };
        agent.introduce().await?;
        Ok(agent)
    }

    /// An agent that needs no introduction: it speaks 2026-07-28.
    ///
    /// # Errors
    /// When `uri` is none.
    pub fn stateless(uri: &str, name: &str) -> Result<Self> {
        Ok(Self {
            uri: uri.parse()?,
            name: name.to_owned(),
            connection: None,
            is_stateless: true,
            session: None,
            rest: None,
            id: 0,
            is_forgotten: false,
        })
    }

    async fn introduce(&mut self) -> Result<()> {
        let params = json!({
            "protocolVersion": VERSION,
            "capabilities": {},
            "clientInfo": { "name": self.name, "version": env!("CARGO_PKG_VERSION") },
        });
        self.session = None;
        self.request("initialize", params).await?;
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let response = self.post(&ready).await?;
        self.rest = Some(response.into_body());
        Ok(())
    }

    /// Calls a tool and waits for what it says.
    ///
    /// # Errors
    /// When no answer came: the call may or may not have had its effect.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Result<Said> {
        let mut params = json!({ "name": tool, "arguments": arguments });
        if self.is_stateless {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": STATELESS_VERSION,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo":
                    { "name": self.name, "version": env!("CARGO_PKG_VERSION") },
            });
        }
        Ok(Said::of(&self.request("tools/call", params).await?))
    }

    /// Asks whether anybody is there.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn ping(&mut self) -> Result<()> {
        self.request("ping", json!({})).await.map(drop)
    }

    /// Lists the tools.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn list_tools(&mut self) -> Result<Value> {
        self.request("tools/list", json!({})).await
    }

    /// The same over a new connection each time the old one breaks: what an agent does whose
    /// call failed. Tasuki's tools may be called again.
    ///
    /// # Errors
    /// When it still fails after a while.
    pub async fn call_until_answered(&mut self, tool: &str, arguments: &Value) -> Result<Said> {
        /// Between two tries, and how many.
        const PAUSE: Duration = Duration::from_millis(100);
        const TRIES_MAX: u32 = 300;
        let mut tries = 0;
        loop {
            tries += 1;
            if self.is_forgotten && self.introduce().await.is_ok() {
                self.is_forgotten = false;
            }
            let said = self.call(tool, arguments.clone()).await;
            let is_over = match &said {
                Ok(said) => !said.is_error || said.structured["error"]["retryable"] != true,
                Err(_) => false,
            };
            if is_over || tries == TRIES_MAX {
                return said;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn request(&mut self, method: &str, params: Value) -> Result<Value> {
        self.id += 1;
        let id = self.id;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let answered = timeout(ANSWER_WITHIN, self.ask(&message, id)).await;
        let answered = answered.unwrap_or_else(|_| Err(format!("no answer to {method}").into()));
        if answered.is_err() {
            (self.connection, self.rest) = (None, None);
        }
        let mut answer = answered?;
        match answer.get("error") {
            Some(error) => Err(error.to_string().into()),
            None => Ok(answer["result"].take()),
        }
    }

    async fn ask(&mut self, message: &Value, id: u64) -> Result<Value> {
        let response = self.post(message).await?;
        if let Some(session) = response.headers().get(SESSION) {
            self.session = Some(session.to_str()?.to_owned());
        }
        let is_stream = response.headers().get(CONTENT_TYPE).is_some_and(|kind| {
            kind.to_str().is_ok_and(|kind| kind.starts_with("text/event-stream"))
        });
        let mut body = response.into_body();
        let mut read = Vec::new();
        while let Some(chunk) = chunk(&mut body).await? {
            read.extend_from_slice(&chunk);
            if is_stream && let Some(answer) = answer_in(&read, id) {
                self.rest = Some(body);
                return Ok(answer);
            }
        }
        if is_stream {
            Err("the stream ended without an answer".into())
        } else {
            Ok(serde_json::from_slice(&read)?)
        }
    }

    async fn post(&mut self, message: &Value) -> Result<Response<Incoming>> {
        if let Some(mut rest) = self.rest.take() {
            while chunk(&mut rest).await?.is_some() {}
        }
        let connection = match &mut self.connection {
            Some(connection) if !connection.is_closed() => connection,
            connection => connection.insert(connect(&self.uri).await?),
        };
        connection.ready().await?;
        let mut request = Request::post(self.uri.path_and_query().map_or("/", |it| it.as_str()))
            .header(HOST, self.uri.authority().ok_or("an address without a host")?.as_str())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream");
        if let Some(session) = &self.session {
            request = request.header(SESSION, session).header("mcp-protocol-version", VERSION);
        }
        if self.is_stateless {
            let part = |name: &str| message.pointer(name).and_then(Value::as_str).unwrap_or("");
            request = request
                .header("mcp-protocol-version", STATELESS_VERSION)
                .header("mcp-method", part("/method"))
                .header("mcp-name", part("/params/name"));
        }
        let response = connection.send_request(request.body(message.to_string())?).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        self.is_forgotten = status == StatusCode::NOT_FOUND;
        let mut body = response.into_body();
        let mut said = Vec::new();
        while let Some(chunk) = chunk(&mut body).await? {
            said.extend_from_slice(&chunk);
        }
        Err(format!("{status}: {}", String::from_utf8_lossy(&said)).into())
    }
}

/// What a server tells at an address that is for programs, such as `/status` of a node.
///
/// # Errors
/// When nobody answers there, or not in JSON.
pub async fn get(uri: &str) -> Result<Value> {
    let uri: Uri = uri.parse()?;
    let host = uri.authority().ok_or("an address without a host")?.as_str();
    let request = Request::get(uri.path()).header(HOST, host).body(String::new())?;
    exchange(&uri, request).await
}

/// What a server says to something in JSON; nothing where its answer is empty.
///
/// # Errors
/// When nobody answers there, or with something else.
pub async fn post_json(uri: &str, what: &Value) -> Result<Value> {
    let uri: Uri = uri.parse()?;
    let host = uri.authority().ok_or("an address without a host")?.as_str();
    let request = Request::post(uri.path()).header(HOST, host);
    let request = request.header(CONTENT_TYPE, "application/json").body(what.to_string())?;
    exchange(&uri, request).await
}

async fn exchange(uri: &Uri, request: Request<String>) -> Result<Value> {
    let response = connect(uri).await?.send_request(request).await?;
    let (path, status) = (uri.path(), response.status());
    let mut body = response.into_body();
    let mut read = Vec::new();
    while let Some(chunk) = chunk(&mut body).await? {
        read.extend_from_slice(&chunk);
    }
    if !status.is_success() {
        return Err(format!("{path}: {status}: {}", String::from_utf8_lossy(&read)).into());
    }
    if read.is_empty() { Ok(Value::Null) } else { Ok(serde_json::from_slice(&read)?) }
}

async fn connect(uri: &Uri) -> Result<SendRequest<String>> {
    let stream = TcpStream::connect(uri.authority().ok_or("an address without a host")?.as_str());
    let stream = stream.await?;
    stream.set_nodelay(true)?;
    let (connection, driver) = handshake(TokioIo::new(stream)).await?;
    // It ends with the connection; what went wrong is seen by the call.
    tokio::spawn(driver);
    Ok(connection)
}

async fn chunk(body: &mut Incoming) -> Result<Option<Bytes>> {
    loop {
        let Some(frame) = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await else {
            return Ok(None);
        };
        if let Ok(data) = frame?.into_data() {
            return Ok(Some(data));
        }
    }
}

/// The answer to `id` among the events read so far.
fn answer_in(events: &[u8], id: u64) -> Option<Value> {
    let text = std::str::from_utf8(events).ok()?;
    text.split_inclusive('\n').filter(|line| line.ends_with('\n')).find_map(|line| {
        let message: Value = serde_json::from_str(line.strip_prefix("data:")?.trim()).ok()?;
        (message["id"] == id && message.get("method").is_none()).then_some(message)
    })
}
