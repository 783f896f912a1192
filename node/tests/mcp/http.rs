//! HTTP by hand, so that nothing a client library would smooth over goes unseen.

use std::{collections::BTreeMap, io, net::SocketAddr};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

use crate::world::soon;

/// One connection.
#[derive(Debug)]
pub(crate) struct Http {
    pub(crate) stream: BufReader<TcpStream>,
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    left: usize,
    is_chunked: bool,
    body: Vec<u8>,
}

/// One event of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) data: String,
}

impl Event {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }
}

impl Http {
    pub(crate) async fn connect(addr: SocketAddr) -> Self {
        Self::try_connect(addr).await.unwrap()
    }

    pub(crate) async fn try_connect(addr: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
            status: 0,
            headers: BTreeMap::new(),
            left: 0,
            is_chunked: false,
            body: Vec::new(),
        })
    }

    /// Sends a request and reads the answer's head.
    pub(crate) async fn send(&mut self, request: &str, headers: &[(&str, &str)], body: &[u8]) {
        soon(self.try_send(request, headers, body)).await.unwrap();
    }

    pub(crate) async fn try_send(
        &mut self,
        request: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<()> {
        let mut head = format!("{request} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head += "Host: localhost\r\n";
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            && !request.starts_with("GET")
        {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        head += "\r\n";
        self.stream.write_all(&[head.as_bytes(), body].concat()).await?;
        self.try_head().await
    }

    pub(crate) async fn head(&mut self) {
        soon(self.try_head()).await.unwrap();
    }

    async fn try_head(&mut self) -> io::Result<()> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.status = line.split(' ').nth(1).unwrap_or_else(|| panic!("{line:?}")).parse().unwrap();
        self.headers.clear();
        self.body.clear();
        loop {
            line.clear();
            self.stream.read_line(&mut line).await?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            self.headers.insert(name.to_lowercase(), value.to_owned());
        }
        self.is_chunked = self.headers.get("transfer-encoding").is_some_and(|it| it == "chunked");
        self.left = self.headers.get("content-length").map_or(0, |it| it.parse().unwrap());
        Ok(())
    }

    /// Reads more of the body; false at its end.
    async fn more(&mut self) -> bool {
        if !self.is_chunked {
            let mut rest = vec![0; std::mem::take(&mut self.left)];
            if self.stream.read_exact(&mut rest).await.is_err() {
                return false;
            }
            self.body.extend_from_slice(&rest);
            return !rest.is_empty();
        }
        let mut line = String::new();
        if self.stream.read_line(&mut line).await.unwrap_or(0) == 0 {
            return false;
        }
        let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        if self.stream.read_exact(&mut chunk).await.is_err() {
            return false;
        }
        self.body.extend_from_slice(&chunk[..size]);
        size != 0
    }

    pub(crate) async fn text(&mut self) -> String {
        while soon(self.more()).await {}
        String::from_utf8(std::mem::take(&mut self.body)).unwrap()
    }

    /// The next event; `None` at the end of the stream. Waits as long as it takes.
    pub(crate) async fn next_event(&mut self) -> Option<Event> {
        loop {
            let end = self.body.windows(2).position(|two| two == b"\n\n");
            let Some(end) = end else {
                if !self.more().await {
                    return None;
                }
                continue;
            };
            let text: Vec<u8> = self.body.drain(..end + 2).collect();
            let text = String::from_utf8(text).unwrap();
            let mut event = Event::default();
            let mut is_event = false;
            for line in text.lines() {
                let (field, value) = line.split_once(':').unwrap_or((line, ""));
                let value = value.strip_prefix(' ').unwrap_or(value);
                match field {
                    "event" => event.name = value.to_owned(),
                    "id" => event.id = value.to_owned(),
                    "data" => event.data += value,
                    _ => continue,
                }
                is_event = true;
            }
            if is_event {
                return Some(event);
            }
        }
    }

    pub(crate) async fn event(&mut self) -> Event {
        soon(self.next_event()).await.expect("an event")
    }

    /// The answer to a request, be it an event or the whole body.
    pub(crate) async fn answer_or_body(&mut self) -> Value {
        if self.headers["content-type"].starts_with("text/event-stream") {
            return self.answer().await;
        }
        let body = self.text().await;
        serde_json::from_str(&body).unwrap_or_else(|_| panic!("no JSON: {body:?}"))
    }

    /// The next event that answers a request.
    pub(crate) async fn answer(&mut self) -> Value {
        loop {
            let message = self.event().await.json();
            if message.get("id").is_some() {
                return message;
            }
        }
    }
}

pub(crate) const BOTH: (&str, &str) = ("Accept", "application/json, text/event-stream");
pub(crate) const JSON: (&str, &str) = ("Content-Type", "application/json");

pub(crate) fn initialize(version: &str, client: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": {},
        "clientInfo": { "name": client, "version": "9.9" } } })
}

pub(crate) fn call(id: u64, tool: &str, arguments: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": tool, "arguments": arguments } })
}

pub(crate) fn with_progress(mut call: Value) -> Value {
    call["params"]["_meta"]["progressToken"] = "p".into();
    call
}

/// The same call as 2026-07-28 words it.
pub(crate) fn modern(mut call: Value, client: &str) -> Value {
    call["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    call["params"]["_meta"]["io.modelcontextprotocol/clientInfo"] =
        json!({ "name": client, "version": "9.9" });
    call
}

/// A session of a client from before 2026-07-28, or a client of that version without one.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) addr: SocketAddr,
    pub(crate) path: String,
    pub(crate) session: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl Client {
    pub(crate) async fn new(addr: SocketAddr, path: &str) -> Self {
        Self::of(addr, path, "test").await
    }

    pub(crate) async fn of(addr: SocketAddr, path: &str, client: &str) -> Self {
        Self::with(addr, path, client, Vec::new()).await
    }

    /// With headers of its own.
    pub(crate) async fn with(
        addr: SocketAddr,
        path: &str,
        client: &str,
        headers: Vec<(String, String)>,
    ) -> Self {
        let mut it = Self { addr, path: path.to_owned(), session: String::new(), headers };
        let mut http = it.post(&initialize("2025-06-18", client)).await;
        assert_eq!(http.status, 200);
        it.session = http.headers["mcp-session-id"].clone();
        it.headers.push(("Mcp-Session-Id".to_owned(), it.session.clone()));
        assert_eq!(http.answer().await["result"]["protocolVersion"], "2025-06-18");
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(it.post(&ready).await.status, 202);
        it
    }

    /// Of version 2026-07-28, for one tool.
    pub(crate) fn modern(addr: SocketAddr, path: &str, tool: &str) -> Self {
        let headers = [
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", tool),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Self { addr, path: path.to_owned(), session: String::new(), headers }
    }

    pub(crate) async fn post(&self, message: &Value) -> Http {
        let mut http = Http::connect(self.addr).await;
        self.post_on(&mut http, message).await;
        http
    }

    pub(crate) async fn post_on(&self, http: &mut Http, message: &Value) {
        let mut headers = vec![BOTH, JSON];
        headers.extend(self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let request = format!("POST {}", self.path);
        http.send(&request, &headers, message.to_string().as_bytes()).await;
    }

    pub(crate) async fn get(&self, last_event: Option<&str>) -> Http {
        let mut http = Http::connect(self.addr).await;
        let mut headers = vec![("Accept", "text/event-stream")];
        headers.extend(self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        headers.extend(last_event.map(|id| ("Last-Event-ID", id)));
        http.send(&format!("GET {}", self.path), &headers, b"").await;
        http
    }

    /// The result of a tool call.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        let mut http = self.post(&call(7, tool, arguments)).await;
        assert_eq!(http.status, 200);
        let answer = http.answer().await;
        assert_eq!(answer["id"], 7, "{answer}");
        answer["result"].clone()
    }
}

pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}
