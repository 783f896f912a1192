//! JSON-RPC, one message a line, as a transport.
//!
//! A line that is no message is answered with an error and the connection goes on; a line over
//! the limit is dropped as it comes in, so that it takes no memory.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rmcp::{
    RoleServer,
    model::{ClientJsonRpcMessage, ErrorData, JsonRpcMessage, RequestId},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tasuki_proto::echo::bounded;
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::{Mutex, Semaphore},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    errors::with_error_cut,
    server::Life,
    write_ack::{NotTaken, Probes},
};

/// One line, in bytes: what clients' own libraries take.
pub(in crate::mcp) const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Complaints that a client has not read yet; more are dropped.
const UNREAD_MAX: usize = 256;

/// Lines of bounded length. Reading can be given up and taken up again at any await.
#[derive(Debug)]
pub(in crate::mcp) struct Reader<R> {
    inner: R,
    line: Vec<u8>,
    is_over: bool,
}

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::mcp) enum Read {
    Line(Vec<u8>),
    /// A line over [`LINE_BYTES_MAX`], dropped.
    TooLong,
    End,
}

impl<R: AsyncBufRead + Unpin> Reader<R> {
    pub(in crate::mcp) fn new(inner: R) -> Self {
        Self { inner, line: Vec::new(), is_over: false }
    }

    /// The next line that is not blank, without its end.
    pub(in crate::mcp) async fn next(&mut self) -> io::Result<Read> {
        loop {
            let available = self.inner.fill_buf().await?;
            if available.is_empty() {
                // A last line without its end is one, if nothing of it is missing.
                let line = std::mem::take(&mut self.line);
                let is_whole = serde_json::from_slice::<serde::de::IgnoredAny>(&line).is_ok();
                return Ok(if is_whole { Read::Line(line) } else { Read::End });
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let (taken, used) = end.map_or((available.len(), available.len()), |at| (at, at + 1));
            self.is_over |= LINE_BYTES_MAX < self.line.len() + taken;
            if self.is_over {
                self.line = Vec::new();
            } else {
                self.line.extend_from_slice(&available[..taken]);
            }
            self.inner.consume(used);
            if end.is_none() {
                continue;
            }
            if std::mem::take(&mut self.is_over) {
                return Ok(Read::TooLong);
            }
            let line = std::mem::take(&mut self.line);
            if !line.trim_ascii().is_empty() {
                return Ok(Read::Line(line));
            }
        }
    }
}

/// The id of a message that is said back, in bytes; a client's own is far shorter.
const ID_BYTES_MAX: usize = 256;

/// What is said to a line that is no message.
pub(in crate::mcp) fn complaint(line: &[u8], error: &serde_json::Error) -> String {
    let value: Option<serde_json::Value> = serde_json::from_slice(line).ok();
    let (code, id) = match value {
        None => (-32700, serde_json::Value::Null),
        Some(value) => {
            (-32600, value.get("id").filter(|id| is_id(id)).cloned().unwrap_or_default())
        }
    };
    let message = bounded(&format!("not a JSON-RPC message: {error}"));
    serde_json::json!({
        "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message }
    })
    .to_string()
}

/// Whether it may be said back as the id of a message: a number, or a text of a bounded length.
fn is_id(value: &serde_json::Value) -> bool {
    value.is_number() || value.as_str().is_some_and(|it| it.len() <= ID_BYTES_MAX)
}

/// What is said to a line over the limit.
pub(in crate::mcp) fn too_long() -> String {
    let message = format!("a line is longer than {LINE_BYTES_MAX} bytes");
    serde_json::json!({
        "jsonrpc": "2.0", "id": null, "error": { "code": -32600, "message": message }
    })
    .to_string()
}

/// The server's side of one connection.
pub(in crate::mcp) struct Connection<R, W> {
    reader: Reader<R>,
    /// Whoever has a line writes it: another task to do so would be one more to wake.
    writer: Arc<Mutex<W>>,
    /// Bounds what is said of the transport's own.
    unread: Arc<Semaphore>,
    probes: Arc<Probes>,
    stopping: CancellationToken,
    gone: CancellationToken,
    is_left: Arc<AtomicBool>,
    tasks: TaskTracker,
}

impl<R, W> Connection<R, W>
where
    R: AsyncBufRead + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// `gone` is cancelled when the agent is, so that its waits end with it.
    pub(in crate::mcp) fn new(reader: R, writer: W, life: &Life, gone: CancellationToken) -> Self {
        Self {
            reader: Reader::new(reader),
            writer: Arc::new(Mutex::new(writer)),
            unread: Arc::new(Semaphore::new(UNREAD_MAX)),
            probes: Arc::new(Probes::new(life.unwritten.clone())),
            stopping: life.stopping.clone(),
            gone,
            is_left: Arc::default(),
            tasks: life.tasks.clone(),
        }
    }

    /// Set once the agent has closed its side, which is its last word; a connection that broke may
    /// be followed by another.
    pub(in crate::mcp) fn is_left(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_left)
    }

    /// Says something of the transport's own; lost if the client does not read.
    fn say(&self, line: String) {
        let Ok(permit) = Arc::clone(&self.unread).try_acquire_owned() else {
            return tracing::debug!("an agent does not read its answers");
        };
        let (writer, gone) = (Arc::clone(&self.writer), self.gone.clone());
        self.tasks.spawn(async move {
            let _permit = permit;
            tokio::select! {
                written = write(&writer, line) => {
                    if let Err(error) = written {
                        tracing::debug!(%error, "an agent's connection broke");
                    }
                }
                () = gone.cancelled() => {}
            }
        });
    }

    fn too_many(id: RequestId) -> String {
        let error = ErrorData::internal_error("too many requests are not answered yet", None);
        let message: TxJsonRpcMessage<RoleServer> = JsonRpcMessage::error(error, Some(id));
        serde_json::to_string(&message).unwrap_or_default()
    }
}

async fn write(writer: &Mutex<impl AsyncWrite + Unpin>, mut line: String) -> io::Result<()> {
    line.push('\n');
    let mut writer = writer.lock().await;
    writer.write_all(line.as_bytes()).await?;
    writer.flush().await
}

impl<R, W> Transport<RoleServer> for Connection<R, W>
where
    R: AsyncBufRead + Unpin + Send,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let writer = Arc::clone(&self.writer);
        let sent = self.probes.answered(&message);
        async move {
            let Some(sent) = sent else { return Ok(()) };
            write(&writer, serde_json::to_string(&with_error_cut(message))?).await?;
            sent.written();
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let line = match self.reader.next().await {
                Ok(Read::Line(line)) => line,
                Ok(Read::TooLong) => {
                    self.say(too_long());
                    continue;
                }
                Ok(Read::End) => {
                    self.is_left.store(true, Ordering::Relaxed);
                    self.probes.disown();
                    self.gone.cancel();
                    return None;
                }
                Err(error) => {
                    tracing::debug!(%error, "an agent's connection broke");
                    self.gone.cancel();
                    return None;
                }
            };
            if self.stopping.is_cancelled() {
                // Left to the bridge, which says it again to the node that comes after this one.
                self.gone.cancelled().await;
                return None;
            }
            match serde_json::from_slice::<ClientJsonRpcMessage>(&line) {
                Ok(mut message) => match self.probes.received(&mut message) {
                    Ok(()) => return Some(message),
                    Err(NotTaken::TooMany(id)) => self.say(Self::too_many(id)),
                    Err(NotTaken::Repeated) => {}
                },
                Err(error) => self.say(complaint(&line, &error)),
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        match self.writer.try_lock() {
            Ok(mut writer) => writer.shutdown().await,
            // Its client does not read; the line that is stuck ends with its task.
            Err(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_over_the_limit_takes_no_memory_and_the_next_is_read() {
        let mut input = vec![b'x'; LINE_BYTES_MAX + 10];
        input.extend_from_slice(b"\n\n  \n{\"a\":1}\nrest");
        let mut reader = Reader::new(input.as_slice());
        assert_eq!(reader.next().await.unwrap(), Read::TooLong);
        assert_eq!(reader.next().await.unwrap(), Read::Line(b"{\"a\":1}".to_vec()));
        assert_eq!(reader.next().await.unwrap(), Read::End);
    }

    #[tokio::test]
    async fn a_last_line_without_its_end_is_read_if_it_is_whole() {
        let read = async |input: &str| {
            let mut reader = Reader::new(input.as_bytes());
            let read = [reader.next().await.unwrap(), reader.next().await.unwrap()];
            (read, reader.next().await.unwrap())
        };
        let line = |text: &str| Read::Line(text.into());
        let whole = read("{\"a\":1}\n{\"b\":2}").await;
        assert_eq!(whole, ([line("{\"a\":1}"), line("{\"b\":2}")], Read::End));
        let cut = read("{\"a\":1}\n{\"b\":").await;
        assert_eq!(cut, ([line("{\"a\":1}"), Read::End], Read::End));
    }

    #[test]
    fn a_line_that_is_no_message_is_told_why() {
        let error = serde_json::from_str::<u8>("x").unwrap_err();
        assert!(complaint(b"garbage", &error).contains("-32700"));
        let told = complaint(br#"{"id":7}"#, &error);
        assert!(told.contains("-32600") && told.contains("\"id\":7"), "{told}");
    }
}
