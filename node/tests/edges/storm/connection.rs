//! A connection on which many questions are open at once.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
    sync::{oneshot, watch},
    task::JoinHandle,
};

use crate::{
    agents::{Bridge, Broken, Manner, Stream, Transport, post, say},
    http::{BOTH, Client, Http, JSON, call, initialize, modern},
};

/// How long each question may stay open, in seconds: longer than a test has patience.
const HOLD_SECS: u64 = 900;

/// The version of a session's client.
const VERSION: &str = "2025-11-25";

#[derive(Clone)]
pub(crate) enum Wire {
    /// A connection for each question, under one session.
    Session(Client),
    /// A connection for each question.
    Stateless(SocketAddr, String),
    /// One connection for all answers. It ends when the last clone is dropped.
    Shared(Arc<Shared>),
}

pub(crate) struct Shared {
    asked: Arc<Asked>,
    reading: JoinHandle<()>,
    writing: Writing,
    freezer: Freezer,
}

/// Stops a client where it is, and lets it go on.
#[derive(Clone)]
pub(crate) enum Freezer {
    /// A process. Its descriptor is of no other, also once it is gone.
    Process(Arc<OwnedFd>),
    /// What reads a stream.
    Reading(Arc<watch::Sender<bool>>),
}

impl Freezer {
    pub(crate) fn freeze(&self) {
        self.set(true);
    }

    pub(crate) fn thaw(&self) {
        self.set(false);
    }

    fn set(&self, is_frozen: bool) {
        match self {
            Self::Process(process) => {
                let signal = if is_frozen { Signal::STOP } else { Signal::CONT };
                match pidfd_send_signal(process, signal) {
                    Ok(()) => {}
                    Err(why) => assert_eq!(why, rustix::io::Errno::SRCH, "it may be gone"),
                }
            }
            Self::Reading(reading) => drop(reading.send_replace(is_frozen)),
        }
    }
}

/// Who waits for which answer; `None` once no more come.
#[derive(Default)]
struct Asked(Mutex<Option<BTreeMap<u64, oneshot::Sender<Value>>>>);

enum Writing {
    Sse { addr: SocketAddr, endpoint: String },
    Stdio { stdin: tokio::sync::Mutex<ChildStdin>, process: Box<Child> },
}

enum Reading {
    Sse(Http),
    Stdio(Lines<BufReader<ChildStdout>>),
}

impl Reading {
    async fn next(&mut self) -> Option<Value> {
        match self {
            Self::Sse(events) => Some(events.next_event().await?.json()),
            Self::Stdio(lines) => {
                let line = lines.next_line().await.ok()??;
                Some(serde_json::from_str(&line).unwrap())
            }
        }
    }
}

impl Asked {
    fn with<T>(
        &self,
        f: impl FnOnce(&mut Option<BTreeMap<u64, oneshot::Sender<Value>>>) -> T,
    ) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl Shared {
    fn new(mut reading: Reading, writing: Writing) -> Self {
        let frozen = Arc::new(watch::Sender::new(false));
        let freezer = match &writing {
            Writing::Sse { .. } => Freezer::Reading(Arc::clone(&frozen)),
            Writing::Stdio { process, .. } => Freezer::Process(descriptor(process)),
        };
        let mut is_frozen = frozen.subscribe();
        let asked = Arc::new(Asked(Mutex::new(Some(BTreeMap::new()))));
        let heard = Arc::clone(&asked);
        let reading = tokio::spawn(async move {
            while let Some(message) = reading.next().await {
                // The sender lives as long as this.
                drop(is_frozen.wait_for(|is_frozen| !is_frozen).await);
                let id = message["id"].as_u64();
                let who = heard.with(|it| it.as_mut()?.remove(&id?));
                // Whoever asked may have tired of it.
                who.map(|who| who.send(message).ok());
            }
            heard.with(|it| *it = None);
        });
        Self { asked, reading, writing, freezer }
    }

    async fn say(&self, message: &Value) -> Result<(), Broken> {
        match &self.writing {
            Writing::Sse { addr, endpoint } => say(*addr, endpoint, message).await,
            Writing::Stdio { stdin, .. } => {
                Ok(stdin.lock().await.write_all(format!("{message}\n").as_bytes()).await?)
            }
        }
    }
}

impl Wire {
    pub(crate) async fn open(
        transport: Transport,
        role: &str,
        addr: SocketAddr,
        data: PathBuf,
    ) -> Result<Self, Broken> {
        let place = format!("{role}?hold={HOLD_SECS}");
        let (reading, writing) = match transport {
            Transport::Session => {
                return Ok(Self::Session(session(addr, format!("/mcp/{place}")).await?));
            }
            Transport::Stateless => return Ok(Self::Stateless(addr, format!("/mcp/{place}"))),
            Transport::Sse => {
                let Stream { events, endpoint } = Stream::open(addr, &place).await?;
                (Reading::Sse(events), Writing::Sse { addr, endpoint })
            }
            Transport::Stdio => {
                let manner = Manner { hold: Some(HOLD_SECS), ..Manner::default() };
                let Bridge { stdin, lines, process } =
                    Bridge::start(&["--role", role], data, manner).await?;
                (
                    Reading::Stdio(lines),
                    Writing::Stdio { stdin: stdin.into(), process: process.into() },
                )
            }
        };
        Ok(Self::Shared(Arc::new(Shared::new(reading, writing))))
    }

    /// No further answer can come.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Session(_) | Self::Stateless(..) => false,
            Self::Shared(shared) => shared.asked.with(|it| it.is_none()),
        }
    }

    /// `None`: nothing of it lasts longer than a question.
    pub(crate) fn freezer(&self) -> Option<Freezer> {
        match self {
            Self::Session(_) | Self::Stateless(..) => None,
            Self::Shared(shared) => Some(shared.freezer.clone()),
        }
    }

    /// The result of a tool.
    pub(crate) async fn ask(&self, id: u64, tool: &str, arguments: Value) -> Result<Value, Broken> {
        let request = call(id, tool, arguments);
        let mut answer = match self {
            Self::Session(client) => post(client, &request, &mut 0).await?,
            Self::Stateless(addr, path) => {
                let client = Client::modern(*addr, path, tool);
                post(&client, &modern(request, "storm"), &mut 0).await?
            }
            Self::Shared(shared) => {
                let (tell, told) = oneshot::channel();
                let is_open = shared.asked.with(|it| it.as_mut().map(|it| it.insert(id, tell)));
                is_open.ok_or_else(ended)?;
                shared.say(&request).await?;
                told.await.map_err(|_| ended())?
            }
        };
        assert_eq!(answer["id"], id, "{answer}");
        match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(Broken(answer.to_string())),
        }
    }

    /// Tells that nobody wants the answer any more. Without a session hanging up says it.
    pub(crate) async fn cancel(&self, id: u64) -> Result<(), Broken> {
        let message = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": { "requestId": id, "reason": "tired of it" } });
        match self {
            Self::Session(client) => match send(client, "POST", &message.to_string()).await?.status
            {
                202 => Ok(()),
                other => Err(Broken(format!("status {other}"))),
            },
            Self::Stateless(..) => Ok(()),
            Self::Shared(shared) => shared.say(&message).await,
        }
    }

    /// Ends a session in good order; elsewhere hanging up does.
    pub(crate) async fn leave(self) -> Result<(), Broken> {
        if let Self::Session(client) = self {
            let status = send(&client, "DELETE", "").await?.status;
            assert_eq!(status, 204);
        }
        Ok(())
    }
}

fn descriptor(process: &Child) -> Arc<OwnedFd> {
    let pid = process.id().and_then(|pid| Pid::from_raw(pid.cast_signed())).unwrap();
    Arc::new(pidfd_open(pid, PidfdFlags::empty()).unwrap())
}

fn ended() -> Broken {
    Broken("the stream ended".to_owned())
}

async fn send(client: &Client, method: &str, body: &str) -> Result<Http, Broken> {
    let mut http = Http::try_connect(client.addr).await?;
    let mut headers = vec![BOTH, JSON];
    headers.extend(client.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    http.try_send(&format!("{method} {}", client.path), &headers, body.as_bytes()).await?;
    Ok(http)
}

async fn session(addr: SocketAddr, path: String) -> Result<Client, Broken> {
    let mut client = Client { addr, path, session: String::new(), headers: Vec::new() };
    let http = send(&client, "POST", &initialize(VERSION, "storm").to_string()).await?;
    let id = http.headers.get("mcp-session-id").ok_or_else(|| Broken(http.status.to_string()))?;
    client.headers.push(("Mcp-Session-Id".to_owned(), id.clone()));
    client.headers.push(("MCP-Protocol-Version".to_owned(), VERSION.to_owned()));
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    match send(&client, "POST", &ready.to_string()).await?.status {
        202 => Ok(client),
        other => Err(Broken(format!("status {other}"))),
    }
}
