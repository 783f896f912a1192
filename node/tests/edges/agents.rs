//! Agents with no model behind them: each calls tools over one transport, and says when an
//! answer did not come.

use std::{net::SocketAddr, path::PathBuf, process::Stdio};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
};

use crate::{
    http::{BOTH, Client, Http, JSON, call, initialize, modern},
    process::{soon, tasuki},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Streamable HTTP with a session.
    Session,
    /// Streamable HTTP of 2026-07-28.
    Stateless,
    /// The older HTTP+SSE.
    Sse,
    /// `tasuki mcp`.
    Stdio,
}

/// No answer came, or one below MCP.
#[derive(Debug)]
pub(crate) struct Broken(pub(crate) String);

impl From<std::io::Error> for Broken {
    fn from(why: std::io::Error) -> Self {
        Self(why.to_string())
    }
}

pub(crate) struct Agent {
    pub(crate) role: String,
    addr: SocketAddr,
    ids: u64,
    side: Side,
}

enum Side {
    Session(Client),
    Stateless,
    Sse(Option<Stream>),
    Stdio(Bridge),
}

struct Stream {
    events: Http,
    endpoint: String,
}

/// A running `tasuki mcp`.
struct Bridge {
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    process: Child,
}

impl Agent {
    /// `data` is the directory of the node at `addr`.
    pub(crate) async fn new(
        transport: Transport,
        role: &str,
        addr: SocketAddr,
        data: PathBuf,
    ) -> Self {
        let side = match transport {
            Transport::Session => Side::Session(Client::new(addr, &format!("/mcp/{role}")).await),
            Transport::Stateless => Side::Stateless,
            Transport::Sse => Side::Sse(None),
            Transport::Stdio => Side::Stdio(Bridge::start(&["--role", role], data).await),
        };
        Self { role: role.to_owned(), addr, ids: 100, side }
    }

    /// One on stdio that says which it is of those that may play the role.
    pub(crate) async fn instance(id: &str, role: &str, addr: SocketAddr, data: PathBuf) -> Self {
        let side = Side::Stdio(Bridge::start(&["--role", role, "--as", id], data).await);
        Self { role: role.to_owned(), addr, ids: 100, side }
    }

    /// The result of a tool, which a held call gives after a while.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, Broken> {
        self.ids += 1;
        let (id, request) = (self.ids, call(self.ids, tool, arguments));
        let answer = match &mut self.side {
            Side::Session(client) => post(client, &request).await?,
            Side::Stateless => {
                let client = Client::modern(self.addr, &format!("/mcp/{}", self.role), tool);
                post(&client, &modern(request, "edges")).await?
            }
            Side::Sse(stream) => {
                let answer = over_sse(stream, self.addr, &self.role, &request).await;
                if answer.is_err() {
                    *stream = None;
                }
                answer?
            }
            Side::Stdio(bridge) => bridge.ask(&request).await?,
        };
        assert_eq!(answer["id"], id, "{answer}");
        match answer.get("result") {
            Some(result) => Ok(result.clone()),
            None => Err(Broken(answer.to_string())),
        }
    }
}

async fn post(client: &Client, message: &Value) -> Result<Value, Broken> {
    let mut http = Http::try_connect(client.addr).await?;
    let mut headers = vec![BOTH, JSON];
    headers.extend(client.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let request = format!("POST {}", client.path);
    http.try_send(&request, &headers, message.to_string().as_bytes()).await?;
    if http.status != 200 {
        let text = http.text().await;
        assert_ne!(http.status, 404, "a session outlives its node: {text}");
        return Err(Broken(format!("{} {text}", http.status)));
    }
    if http.headers["content-type"].starts_with("application/json") {
        let text = http.text().await;
        return serde_json::from_str(&text).map_err(|why| Broken(format!("{why}: {text}")));
    }
    answer(&mut http).await
}

/// The next event that answers.
async fn answer(http: &mut Http) -> Result<Value, Broken> {
    while let Some(event) = http.next_event().await {
        let message = event.json();
        if message.get("id").is_some() {
            return Ok(message);
        }
    }
    Err(Broken("the stream ended".to_owned()))
}

async fn over_sse(
    stream: &mut Option<Stream>,
    addr: SocketAddr,
    role: &str,
    request: &Value,
) -> Result<Value, Broken> {
    if let Some(it) = stream
        && it.say(addr, request).await.is_ok()
    {
        return answer(&mut it.events).await;
    }
    // As clients do, a stream that ended is opened anew.
    let it = stream.insert(Stream::open(addr, role).await?);
    it.say(addr, request).await?;
    answer(&mut it.events).await
}

impl Stream {
    async fn open(addr: SocketAddr, role: &str) -> Result<Self, Broken> {
        let mut events = Http::try_connect(addr).await?;
        let accept = [("Accept", "text/event-stream")];
        events.try_send(&format!("GET /sse/{role}"), &accept, b"").await?;
        let first = events.next_event().await.ok_or_else(|| Broken("no endpoint".to_owned()))?;
        let mut it = Self { events, endpoint: first.data };
        it.say(addr, &initialize("2024-11-05", "edges")).await?;
        answer(&mut it.events).await?;
        it.say(addr, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
        Ok(it)
    }

    async fn say(&self, addr: SocketAddr, message: &Value) -> Result<(), Broken> {
        let mut http = Http::try_connect(addr).await?;
        let request = format!("POST {}", self.endpoint);
        http.try_send(&request, &[JSON], message.to_string().as_bytes()).await?;
        match http.status {
            202 => Ok(()),
            other => Err(Broken(format!("status {other}"))),
        }
    }
}

impl Bridge {
    async fn start(who: &[&str], data: PathBuf) -> Self {
        let mut command = tasuki(&data);
        command.arg("mcp").args(who).arg("--data").arg(data);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut it = Self { stdin: process.stdin.take().unwrap(), lines, process };
        soon(it.ask(&initialize("2025-06-18", "edges"))).await.unwrap();
        it.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        it
    }

    async fn say(&mut self, message: &Value) {
        self.stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// Waits as long as it takes; only a bridge that ends is broken, and none may.
    async fn ask(&mut self, request: &Value) -> Result<Value, Broken> {
        self.say(request).await;
        loop {
            let line = self.lines.next_line().await?;
            let line = line.unwrap_or_else(|| panic!("`tasuki mcp` ended: {:?}", self.process));
            let message: Value = serde_json::from_str(&line).unwrap();
            if message.get("id").is_some() && message.get("method").is_none() {
                return Ok(message);
            }
        }
    }
}
