//! `tasuki mcp`: carries lines between an agent's stdio and the running node.
//!
//! - **B1** Nothing but MCP goes to the agent.
//! - **B2** The agent does not notice a restart of the node: the handshake is repeated for it,
//!   and requests that were not answered are sent again, except those it cancelled. Each tool
//!   call is marked as one intent, so that sent twice it takes effect once.
//!   So are its subscriptions, with a word of what it may have missed.
//! - **B3** A request is answered once, and soon also while the node is away: then with what is
//!   known about it, before its client gives it up. It is not sent again after that.
//!
//! The node is looked for as long as the agent is there, each time where it says it is.
//! What the lines mean is otherwise the node's business.

mod conversation;

use std::{fmt, io, pin::Pin, sync::Arc, time::Duration};

use tasuki_proto::id::{InstanceId, RoleId};
use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _,
        BufReader, ReadHalf, WriteHalf,
    },
    time::Instant,
};

use self::conversation::{Conversation, ToDo};
use super::{
    dial::{NodeAt, Undialled, Wire},
    intent::Intents,
    transport::{
        lines::{Read, Reader, too_long},
        stdio::UPGRADE,
    },
};

/// For the node to take a connection, in milliseconds.
const CONNECT_MS_MAX: u64 = 10_000;

/// Between attempts to reach a node that went away, in milliseconds: doubled from the first to
/// the second.
const RETRY_MS: (u64, u64) = (100, 5_000);

/// Until requests to a node that went away are answered without it, in milliseconds: longer than
/// a restart takes, and shorter than any client waits for an answer.
pub const AWAY_ANSWER_MS: u64 = 20_000;

/// For open requests to be answered when the agent has closed its side, in milliseconds.
const LAST_WORDS_MS: u64 = 2_000;

/// The head of the node's answer, in bytes.
const HEAD_BYTES_MAX: u64 = 16 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0:?} is not a node's address; one looks like http://127.0.0.1:7421")]
    Address(String),
    #[error(
        "no node answers at {url} ({why}); start one with `tasuki up`, or with `tasuki node` \
         beside a broker"
    )]
    NoNode { url: String, why: io::Error },
    #[error("the node at {url} is not spoken to: {why}")]
    Unsafe { url: String, why: String },
    #[error("the node at {url} refused: {message}")]
    Refused { url: String, message: String },
    #[error("the agent's side broke")]
    Agent(#[source] io::Error),
    #[error("the system's random source failed")]
    Random(#[from] getrandom::Error),
}

/// Whom to speak for, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// `None`: the agent says it in each call.
    pub role: Option<RoleId>,
    /// Which agent this is of those that may play the role.
    pub instance: Option<InstanceId>,
    /// How long one wait is held, in seconds; `None`: as long as the client allows.
    pub hold: Option<u64>,
    /// As [`AWAY_ANSWER_MS`].
    pub away_answer_ms: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { role: None, instance: None, hold: None, away_answer_ms: AWAY_ANSWER_MS }
    }
}

/// Carries lines until the agent closes its side. `node` says where the node is, and is asked
/// again each time it is looked for.
pub async fn bridge<N: Into<NodeAt>>(
    node: impl Fn() -> N + Send + Sync + 'static,
    options: &Options,
    stdin: impl AsyncRead + Unpin,
    stdout: impl AsyncWrite + Unpin,
) -> Result<(), Error> {
    match carry(node, options, stdin, stdout).await {
        // It closed both sides at once, or did not read to the end. It may.
        Err(Error::Agent(why))
            if matches!(why.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) =>
        {
            Ok(())
        }
        ended => ended,
    }
}

async fn carry<N: Into<NodeAt>>(
    node: impl Fn() -> N + Send + Sync + 'static,
    options: &Options,
    stdin: impl AsyncRead + Unpin,
    mut stdout: impl AsyncWrite + Unpin,
) -> Result<(), Error> {
    let place = Place::new(node, options);
    let mut node = Some(place.connect().await?);
    let mut away: Option<Away> = None;
    let mut agent = Reader::new(BufReader::new(stdin));
    let hold = options.hold.map(Duration::from_secs);
    let mut conversation = Conversation::new(Intents::new()?, hold);
    let mut agent_left: Option<Instant> = None;
    loop {
        let answer_at = away.as_ref().and_then(|away| away.answer_at);
        let overdue_at = answer_at.and_then(|_| conversation.next_overdue());
        tokio::select! {
            read = agent.next(), if agent_left.is_none() => {
                let to_do = match read.map_err(Error::Agent)? {
                    Read::Line(line) => conversation.agent_said(line, Instant::now()),
                    Read::TooLong => ToDo::Answer(too_long()),
                    Read::End => {
                        agent_left =
                            Some(Instant::now() + Duration::from_millis(LAST_WORDS_MS));
                        ToDo::Nothing
                    }
                };
                match to_do {
                    ToDo::Forward(line) => {
                        // A write that fails is found out by reading, and the line is kept.
                        if let Some(node) = &mut node {
                            node.write(&line).await.ok();
                        }
                        if let Some(away) = &mut away {
                            away.asked(&place);
                        }
                    }
                    ToDo::Answer(line) => say(&mut stdout, line.as_bytes()).await?,
                    ToDo::Nothing => {}
                }
            }
            read = read(&mut node) => match read {
                Ok(Read::Line(line)) => {
                    for line in conversation.node_said(line) {
                        say(&mut stdout, &line).await?;
                    }
                }
                Ok(Read::TooLong) => tracing::warn!("the node sent a line over the limit"),
                Ok(Read::End) | Err(_) => {
                    tracing::warn!("the node went away; looking for it");
                    node = None;
                    away = Some(Away::begin(&place, options.away_answer_ms));
                }
            },
            attempt = attempt(&mut away) => match attempt {
                Ok(mut back) => {
                    tracing::info!("the node is back");
                    for line in conversation.again(Instant::now()) {
                        back.write(&line).await.ok();
                    }
                    node = Some(back);
                    away = None;
                }
                Err(error) => {
                    tracing::debug!(%error, "the node is not back");
                    if let Some(away) = &mut away {
                        away.failed(&error, &place);
                    }
                }
            },
            () = at(answer_at) => {
                if let Some(away) = &mut away {
                    away.answer_at = None;
                }
            }
            () = at(overdue_at) => {
                if let Some(Away { why, .. }) = &away {
                    for line in conversation.answer_overdue(Instant::now(), why) {
                        say(&mut stdout, line.as_bytes()).await?;
                    }
                }
            }
            () = at(agent_left) => return Ok(()),
        }
        if let Some(Away { answer_at: None, is_asked: false, why, .. }) = &away {
            for line in conversation.answer_all(why) {
                say(&mut stdout, line.as_bytes()).await?;
            }
        }
        if agent_left.is_some() && conversation.is_answered() {
            return Ok(());
        }
    }
}

type Attempt = Pin<Box<dyn Future<Output = Result<Node, Error>> + Send>>;

/// A node that went away and is being looked for.
struct Away {
    /// When what is open is answered without it; `None`: that time has come.
    answer_at: Option<Instant>,
    /// Something was asked since that time had come, and the node is looked for on its account.
    is_asked: bool,
    attempt: Attempt,
    /// Before the next attempt, in milliseconds.
    pause_ms: u64,
    /// What the latest attempt found.
    why: String,
}

impl Away {
    fn begin(place: &Place, answer_ms: u64) -> Self {
        Self {
            answer_at: Some(Instant::now() + Duration::from_millis(answer_ms)),
            is_asked: false,
            // A node that takes connections only to close them is not asked without a pause.
            attempt: place.attempt(RETRY_MS.0),
            pause_ms: RETRY_MS.0 * 2,
            why: "the node closed the connection".to_owned(),
        }
    }

    /// What was found before says nothing about now: people start a node and ask again.
    fn asked(&mut self, place: &Place) {
        if self.answer_at.is_none() && !self.is_asked {
            self.is_asked = true;
            self.attempt = place.attempt(0);
        }
    }

    fn failed(&mut self, error: &Error, place: &Place) {
        self.is_asked = false;
        self.why = match error {
            Error::NoNode { url, why } => format!("no node answers at {url}: {why}"),
            Error::Address(_)
            | Error::Unsafe { .. }
            | Error::Refused { .. }
            | Error::Agent(_)
            | Error::Random(_) => error.to_string(),
        };
        self.attempt = place.attempt(self.pause_ms);
        self.pause_ms = (self.pause_ms * 2).min(RETRY_MS.1);
    }
}

async fn attempt(away: &mut Option<Away>) -> Result<Node, Error> {
    match away {
        Some(away) => away.attempt.as_mut().await,
        None => std::future::pending().await,
    }
}

async fn read(node: &mut Option<Node>) -> io::Result<Read> {
    match node {
        Some(node) => node.reader.next().await,
        None => std::future::pending().await,
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

async fn say(stdout: &mut (impl AsyncWrite + Unpin), line: &[u8]) -> Result<(), Error> {
    let line = [line, b"\n"].concat();
    stdout.write_all(&line).await.map_err(Error::Agent)?;
    stdout.flush().await.map_err(Error::Agent)
}

struct Node {
    reader: Reader<BufReader<ReadHalf<Box<dyn Wire>>>>,
    writer: WriteHalf<Box<dyn Wire>>,
}

impl Node {
    async fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.writer.write_all(&[line, b"\n"].concat()).await?;
        self.writer.flush().await
    }
}

/// Where the node is, as far as anybody knows.
#[derive(Clone)]
struct Place {
    node: Arc<dyn Fn() -> NodeAt + Send + Sync>,
    path: String,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Place {
    fn new<N: Into<NodeAt>>(
        node: impl Fn() -> N + Send + Sync + 'static,
        options: &Options,
    ) -> Self {
        let role = options.role.as_ref().map(|role| format!("/{role}")).unwrap_or_default();
        let instance = options.instance.as_ref().map(|id| format!("as={id}"));
        let hold = options.hold.map(|hold| format!("hold={hold}"));
        let said: Vec<String> = instance.into_iter().chain(hold).collect();
        let query = if said.is_empty() { String::new() } else { format!("?{}", said.join("&")) };
        Self { node: Arc::new(move || node().into()), path: format!("/stdio{role}{query}") }
    }

    async fn connect(&self) -> Result<Node, Error> {
        let at = (self.node)();
        let connecting = Duration::from_millis(CONNECT_MS_MAX);
        let timed_out = |_| Err(no_node(&at, io::ErrorKind::TimedOut.into()));
        tokio::time::timeout(connecting, self.try_connect(&at)).await.unwrap_or_else(timed_out)
    }

    fn attempt(&self, pause_ms: u64) -> Attempt {
        let place = self.clone();
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            place.connect().await
        })
    }

    async fn try_connect(&self, at: &NodeAt) -> Result<Node, Error> {
        let url = || at.url.clone();
        let authority = at.authority().ok_or_else(|| Error::Address(url()))?;
        let stream = at.dial().await.map_err(|why| match why {
            Undialled::Address => Error::Address(url()),
            Undialled::Silent(why) => no_node(at, why),
            Undialled::Unsafe(why) => Error::Unsafe { url: url(), why },
        })?;
        let credentials = at.credentials().map(|it| format!("Authorization: {it}\r\n"));
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {authority}\r\n{}Connection: Upgrade\r\n\
             Upgrade: {UPGRADE}\r\n\r\n",
            self.path,
            credentials.unwrap_or_default()
        );
        let (reader, mut writer) = tokio::io::split(stream);
        let sent = async {
            writer.write_all(request.as_bytes()).await?;
            writer.flush().await
        };
        sent.await.map_err(|why| no_node(at, why))?;
        let mut reader = BufReader::new(reader);
        let mut head = String::new();
        let mut limited = (&mut reader).take(HEAD_BYTES_MAX);
        while !head.ends_with("\r\n\r\n") {
            let read = limited.read_line(&mut head).await.map_err(|why| no_node(at, why))?;
            if read == 0 {
                return Err(no_node(at, io::ErrorKind::UnexpectedEof.into()));
            }
        }
        let status = head.split(' ').nth(1).unwrap_or_default();
        if status != "101" {
            return Err(refused(at, status, &head, &mut reader).await);
        }
        Ok(Node { reader: Reader::new(reader), writer })
    }
}

fn no_node(at: &NodeAt, why: io::Error) -> Error {
    Error::NoNode { url: at.url.clone(), why }
}

/// What the node says instead of taking the connection.
async fn refused(
    at: &NodeAt,
    status: &str,
    head: &str,
    reader: &mut BufReader<ReadHalf<Box<dyn Wire>>>,
) -> Error {
    let length = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, length)| length.trim().parse().ok())
        .unwrap_or(0);
    let mut body = Vec::new();
    // Whatever can be read of it is better than nothing.
    reader.take(HEAD_BYTES_MAX.min(length)).read_to_end(&mut body).await.ok();
    let told: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
    let message = told
        .and_then(|told| Some(told.get("message")?.as_str()?.to_owned()))
        .unwrap_or_else(|| format!("HTTP status {status}; is this a Tasuki node?"));
    Error::Refused { url: at.url.clone(), message }
}
