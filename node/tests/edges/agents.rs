//! Agents with no model behind them: each calls tools over one transport, and says when an
//! answer did not come.

use std::{net::SocketAddr, path::PathBuf, process::Stdio, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
};

use crate::{
    http::{BOTH, Client, Http, JSON, call, initialize, modern, with_progress},
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

/// The extension of MCP 2026-07-28 by which a call answers with a task.
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// What an agent does otherwise than most.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Manner {
    /// In seconds, as its address says it.
    pub(crate) hold: Option<u64>,
    pub(crate) wants_progress: bool,
    /// It speaks 2026-07-28, takes a task for an answer, and polls it.
    pub(crate) takes_tasks: bool,
}

pub(crate) struct Agent {
    pub(crate) role: String,
    /// Progress notifications that came.
    pub(crate) signs: u64,
    /// How often it asked how a task stands.
    pub(crate) polls: u64,
    addr: SocketAddr,
    ids: u64,
    manner: Manner,
    side: Side,
}

enum Side {
    Session(Client),
    Stateless,
    Sse(Option<Stream>),
    Stdio(Bridge),
}

/// An open HTTP+SSE stream, introduced.
pub(crate) struct Stream {
    pub(crate) events: Http,
    /// Where to post.
    pub(crate) endpoint: String,
}

/// A running `tasuki mcp`.
pub(crate) struct Bridge {
    pub(crate) stdin: ChildStdin,
    pub(crate) lines: Lines<BufReader<ChildStdout>>,
    pub(crate) process: Child,
}

impl Agent {
    /// `data` is the directory of the node at `addr`.
    pub(crate) async fn new(
        transport: Transport,
        role: &str,
        addr: SocketAddr,
        data: PathBuf,
    ) -> Self {
        Self::with(transport, role, addr, data, Manner::default()).await
    }

    pub(crate) async fn with(
        transport: Transport,
        role: &str,
        addr: SocketAddr,
        data: PathBuf,
        manner: Manner,
    ) -> Self {
        let side = match transport {
            Transport::Session => {
                Side::Session(Client::new(addr, &format!("/mcp/{}", manner.place(role))).await)
            }
            Transport::Stateless => Side::Stateless,
            Transport::Sse => Side::Sse(None),
            Transport::Stdio => Side::Stdio(bridge(&["--role", role], data, manner).await),
        };
        Self { role: role.to_owned(), signs: 0, polls: 0, addr, ids: 100, manner, side }
    }

    /// One on stdio that says which it is of those that may play the role.
    pub(crate) async fn instance(id: &str, role: &str, addr: SocketAddr, data: PathBuf) -> Self {
        let manner = Manner::default();
        let side = Side::Stdio(bridge(&["--role", role, "--as", id], data, manner).await);
        Self { role: role.to_owned(), signs: 0, polls: 0, addr, ids: 100, manner, side }
    }

    /// The result of a tool, which a held call gives after a while.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, Broken> {
        let told = self.begin(tool, arguments).await?;
        if told["resultType"] != "task" { Ok(told) } else { self.awoken(told).await }
    }

    /// The first answer to a call, be it a task.
    pub(crate) async fn begin(&mut self, tool: &str, arguments: Value) -> Result<Value, Broken> {
        let mut request = call(0, tool, arguments);
        if self.manner.wants_progress {
            request = with_progress(request);
        }
        self.ask(tool, request).await
    }

    /// What a task comes to, which is asked for as often as it wants to be.
    pub(crate) async fn awoken(&mut self, mut told: Value) -> Result<Value, Broken> {
        let id = told["taskId"].as_str().unwrap().to_owned();
        while told["status"] == "working" {
            let pause = Duration::from_millis(told["pollIntervalMs"].as_u64().unwrap());
            tokio::time::sleep(pause).await;
            let params = json!({ "taskId": id });
            let request = json!({ "jsonrpc": "2.0", "method": "tasks/get", "params": params });
            told = self.ask(&id, request).await?;
            self.polls += 1;
        }
        match told.get("result") {
            Some(result) => Ok(result.clone()),
            None => Err(Broken(told.to_string())),
        }
    }

    /// The result of a request that is about something called `name`.
    pub(crate) async fn ask(&mut self, name: &str, mut request: Value) -> Result<Value, Broken> {
        self.ids += 1;
        let id = self.ids;
        request["id"] = id.into();
        if self.manner.takes_tasks || matches!(self.side, Side::Stateless) {
            request = self.manner.modern(request);
        }
        let (place, signs) = (self.manner.place(&self.role), &mut self.signs);
        let answer = match &mut self.side {
            Side::Session(client) => post(client, &request, signs).await?,
            Side::Stateless => {
                let mut client = Client::modern(self.addr, &format!("/mcp/{place}"), name);
                client.headers[1].1 = request["method"].as_str().unwrap().to_owned();
                post(&client, &request, signs).await?
            }
            Side::Sse(stream) => {
                let answer = over_sse(stream, self.addr, &place, &request, signs).await;
                if answer.is_err() {
                    *stream = None;
                }
                answer?
            }
            Side::Stdio(bridge) => bridge.ask(&request, signs).await?,
        };
        assert_eq!(answer["id"], id, "{answer}");
        match answer.get("result") {
            Some(result) => Ok(result.clone()),
            None => Err(Broken(answer.to_string())),
        }
    }
}

impl Manner {
    /// A request as clients of 2026-07-28 make it.
    fn modern(self, request: Value) -> Value {
        let mut request = modern(request, "edges");
        if self.takes_tasks {
            let declared = json!({ "extensions": { TASKS: {} } });
            request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = declared;
        }
        request
    }

    /// The end of an address.
    fn place(self, role: &str) -> String {
        self.hold.map_or_else(|| role.to_owned(), |hold| format!("{role}?hold={hold}"))
    }
}

/// To a node that runs.
async fn bridge(who: &[&str], data: PathBuf, manner: Manner) -> Bridge {
    soon(Bridge::start(who, data, manner)).await.unwrap()
}

/// The answer to a message that has a connection to itself.
pub(crate) async fn post(
    client: &Client,
    message: &Value,
    signs: &mut u64,
) -> Result<Value, Broken> {
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
    answer(&mut http, signs).await
}

/// The next event that answers.
async fn answer(http: &mut Http, signs: &mut u64) -> Result<Value, Broken> {
    while let Some(event) = http.next_event().await {
        let message = event.json();
        if message.get("id").is_some() && message.get("method").is_none() {
            return Ok(message);
        }
        *signs += u64::from(message["method"] == "notifications/progress");
    }
    Err(Broken("the stream ended".to_owned()))
}

async fn over_sse(
    stream: &mut Option<Stream>,
    addr: SocketAddr,
    place: &str,
    request: &Value,
    signs: &mut u64,
) -> Result<Value, Broken> {
    if let Some(it) = stream
        && it.say(addr, request).await.is_ok()
    {
        return answer(&mut it.events, signs).await;
    }
    // As clients do, a stream that ended is opened anew.
    let it = stream.insert(Stream::open(addr, place).await?);
    it.say(addr, request).await?;
    answer(&mut it.events, signs).await
}

impl Stream {
    pub(crate) async fn open(addr: SocketAddr, place: &str) -> Result<Self, Broken> {
        let mut events = Http::try_connect(addr).await?;
        let accept = [("Accept", "text/event-stream")];
        events.try_send(&format!("GET /sse/{place}"), &accept, b"").await?;
        let first = events.next_event().await.ok_or_else(|| Broken("no endpoint".to_owned()))?;
        let mut it = Self { events, endpoint: first.data };
        it.say(addr, &initialize("2024-11-05", "edges")).await?;
        answer(&mut it.events, &mut 0).await?;
        it.say(addr, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
        Ok(it)
    }

    async fn say(&self, addr: SocketAddr, message: &Value) -> Result<(), Broken> {
        say(addr, &self.endpoint, message).await
    }
}

/// Posts a message whose answer comes over a stream.
pub(crate) async fn say(addr: SocketAddr, endpoint: &str, message: &Value) -> Result<(), Broken> {
    let mut http = Http::try_connect(addr).await?;
    http.try_send(&format!("POST {endpoint}"), &[JSON], message.to_string().as_bytes()).await?;
    match http.status {
        202 => Ok(()),
        other => Err(Broken(format!("status {other}"))),
    }
}

impl Bridge {
    /// Needs a node that runs.
    pub(crate) async fn start(who: &[&str], data: PathBuf, manner: Manner) -> Result<Self, Broken> {
        let mut command = tasuki(&data);
        command.arg("mcp").args(who).arg("--data").arg(data);
        command.args(manner.hold.iter().flat_map(|it| ["--hold".to_owned(), it.to_string()]));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut it = Self { stdin: process.stdin.take().unwrap(), lines, process };
        if manner.takes_tasks {
            // That version begins with no handshake.
            return Ok(it);
        }
        it.say(&initialize("2025-06-18", "edges")).await?;
        it.answer(&mut 0).await?.ok_or_else(|| Broken("there was no node".to_owned()))?;
        it.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
        Ok(it)
    }

    pub(crate) async fn say(&mut self, message: &Value) -> Result<(), Broken> {
        Ok(self.stdin.write_all(format!("{message}\n").as_bytes()).await?)
    }

    /// Waits as long as it takes; only a bridge that ends is broken, and none may.
    pub(crate) async fn ask(&mut self, request: &Value, signs: &mut u64) -> Result<Value, Broken> {
        self.say(request).await?;
        let answer = self.answer(signs).await?;
        Ok(answer.unwrap_or_else(|| panic!("`tasuki mcp` ended: {:?}", self.process)))
    }

    /// `None`: it ended.
    async fn answer(&mut self, signs: &mut u64) -> Result<Option<Value>, Broken> {
        while let Some(line) = self.lines.next_line().await? {
            let message: Value = serde_json::from_str(&line).unwrap();
            if message.get("id").is_some() && message.get("method").is_none() {
                return Ok(Some(message));
            }
            *signs += u64::from(message["method"] == "notifications/progress");
        }
        Ok(None)
    }
}
