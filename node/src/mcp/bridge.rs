//! `tasuki mcp`: carries lines between an agent's stdio and the running node.
//!
//! - **B1** Nothing but MCP goes to the agent.
//! - **B2** The agent does not notice a restart of the node: the handshake is repeated for it,
//!   and requests that were not answered are sent again, except those it cancelled. Each tool
//!   call is marked as one intent, so that sent twice it takes effect once.
//!
//! What the lines mean is otherwise the node's business.

mod conversation;

use std::{io, pin::Pin, time::Duration};

use http::{Uri, uri::Scheme};
use tasuki_proto::id::RoleId;
use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _,
        BufReader,
    },
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::Instant,
};

use self::conversation::{Conversation, ToDo};
use super::{
    intent::Intents,
    lines::{Read, Reader, too_long},
    stdio::UPGRADE,
};

/// For the node to take a connection, in milliseconds.
const CONNECT_MS_MAX: u64 = 10_000;

/// Between attempts to reach a node that went away, in milliseconds: doubled from the first to
/// the second.
const RETRY_MS: (u64, u64) = (100, 5_000);

/// Until a node that went away is given up, in milliseconds: longer than an upgrade takes.
const AWAY_MS_MAX: u64 = 10 * 60 * 1000;

/// For open requests to be answered when the agent has closed its side, in milliseconds.
const LAST_WORDS_MS: u64 = 2_000;

/// The head of the node's answer, in bytes.
const HEAD_BYTES_MAX: u64 = 16 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0:?} is not a node's address; one looks like http://127.0.0.1:7421")]
    Address(String),
    #[error(
        "no node answers at {url} ({source}); start one with `tasuki up`, or with `tasuki node` \
         beside a broker"
    )]
    NoNode { url: String, source: io::Error },
    #[error("the node at {url} refused: {message}")]
    Refused { url: String, is_final: bool, message: String },
    #[error("the agent's side broke")]
    Agent(#[source] io::Error),
    #[error("the system gives no random bytes")]
    Random(#[from] getrandom::Error),
}

type Returning = Pin<Box<dyn Future<Output = Result<Node, Error>> + Send>>;

/// Carries lines until the agent closes its side. `hold` is in seconds.
pub async fn bridge(
    node_url: &str,
    role: Option<&RoleId>,
    hold: Option<u64>,
    stdin: impl AsyncRead + Unpin,
    mut stdout: impl AsyncWrite + Unpin,
) -> Result<(), Error> {
    let address = Address::new(node_url, role, hold)?;
    let mut node = Some(address.connect().await?);
    let mut agent = Reader::new(BufReader::new(stdin));
    let mut conversation = Conversation::new(Intents::new()?);
    let mut returning: Option<Returning> = None;
    let mut agent_left: Option<Instant> = None;
    loop {
        tokio::select! {
            read = agent.next(), if agent_left.is_none() => {
                let to_do = match read.map_err(Error::Agent)? {
                    Read::Line(line) => conversation.agent_said(line),
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
                    }
                    ToDo::Answer(line) => say(&mut stdout, line.as_bytes()).await?,
                    ToDo::Nothing => {}
                }
            }
            read = read(&mut node) => match read {
                Ok(Read::Line(line)) => {
                    if let Some(line) = conversation.node_said(line) {
                        say(&mut stdout, &line).await?;
                    }
                }
                Ok(Read::TooLong) => tracing::warn!("the node sent a line over the limit"),
                Ok(Read::End) | Err(_) => {
                    tracing::warn!("the node went away; waiting for it to come back");
                    node = None;
                    let address = address.clone();
                    returning = Some(Box::pin(async move { address.reconnect().await }));
                }
            },
            back = back(&mut returning) => {
                returning = None;
                match back {
                    Ok(mut back) => {
                        tracing::info!("the node is back");
                        for line in conversation.again() {
                            back.write(&line).await.ok();
                        }
                        node = Some(back);
                    }
                    Err(error) => {
                        for line in conversation.give_up(&error.to_string()) {
                            say(&mut stdout, line.as_bytes()).await?;
                        }
                        return Err(error);
                    }
                }
            }
            () = at(agent_left) => return Ok(()),
        }
        if agent_left.is_some() && conversation.is_answered() {
            return Ok(());
        }
    }
}

async fn read(node: &mut Option<Node>) -> io::Result<Read> {
    match node {
        Some(node) => node.reader.next().await,
        None => std::future::pending().await,
    }
}

async fn back<F: Future + Unpin>(returning: &mut Option<F>) -> F::Output {
    match returning {
        Some(returning) => returning.await,
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

#[derive(Debug)]
struct Node {
    reader: Reader<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
}

impl Node {
    async fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.writer.write_all(&[line, b"\n"].concat()).await
    }
}

#[derive(Debug, Clone)]
struct Address {
    url: String,
    authority: String,
    path: String,
}

impl Address {
    fn new(url: &str, role: Option<&RoleId>, hold: Option<u64>) -> Result<Self, Error> {
        let invalid = || Error::Address(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| invalid())?;
        let authority = uri.authority().ok_or_else(invalid)?;
        if uri.scheme() != Some(&Scheme::HTTP) {
            return Err(invalid());
        }
        let role = role.map(|role| format!("/{role}")).unwrap_or_default();
        let hold = hold.map(|hold| format!("?hold={hold}")).unwrap_or_default();
        Ok(Self {
            url: url.to_owned(),
            authority: authority.to_string(),
            path: format!("/stdio{role}{hold}"),
        })
    }

    async fn connect(&self) -> Result<Node, Error> {
        let connecting = Duration::from_millis(CONNECT_MS_MAX);
        let no_node = |source| Error::NoNode { url: self.url.clone(), source };
        tokio::time::timeout(connecting, self.try_connect())
            .await
            .unwrap_or_else(|_| Err(no_node(io::ErrorKind::TimedOut.into())))
    }

    async fn try_connect(&self) -> Result<Node, Error> {
        let no_node = |source| Error::NoNode { url: self.url.clone(), source };
        let has_port =
            self.authority.parse::<http::uri::Authority>().is_ok_and(|it| it.port().is_some());
        let authority =
            if has_port { self.authority.clone() } else { format!("{}:80", self.authority) };
        let mut stream = TcpStream::connect(authority).await.map_err(no_node)?;
        stream.set_nodelay(true).map_err(no_node)?;
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: {UPGRADE}\r\n\r\n",
            self.path, self.authority
        );
        stream.write_all(request.as_bytes()).await.map_err(no_node)?;
        let (reader, writer) = stream.into_split();
        let mut reader = BufReader::new(reader);
        let mut head = String::new();
        let mut limited = (&mut reader).take(HEAD_BYTES_MAX);
        while !head.ends_with("\r\n\r\n") {
            if limited.read_line(&mut head).await.map_err(no_node)? == 0 {
                return Err(no_node(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        let status = head.split(' ').nth(1).unwrap_or_default().to_owned();
        if status != "101" {
            return Err(self.refused(&status, &head, &mut reader).await);
        }
        Ok(Node { reader: Reader::new(reader), writer })
    }

    /// What the node says instead of taking the connection.
    async fn refused(
        &self,
        status: &str,
        head: &str,
        reader: &mut BufReader<OwnedReadHalf>,
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
        Error::Refused { url: self.url.clone(), is_final: status.starts_with('4'), message }
    }

    async fn reconnect(self) -> Result<Node, Error> {
        let until = Instant::now() + Duration::from_millis(AWAY_MS_MAX);
        let (mut pause, longest) = RETRY_MS;
        loop {
            match self.connect().await {
                Ok(node) => return Ok(node),
                Err(error @ Error::Refused { is_final: true, .. }) => return Err(error),
                Err(error) if until <= Instant::now() => return Err(error),
                Err(error) => tracing::debug!(%error, "the node is not back"),
            }
            tokio::time::sleep(Duration::from_millis(pause)).await;
            pause = (pause * 2).min(longest);
        }
    }
}
