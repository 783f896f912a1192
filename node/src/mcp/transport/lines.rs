//! JSON-RPC, one message a line, as a transport.
//!
//! A line that is no message is answered with an error and the connection goes on; a line over
//! the limit is dropped as it comes in, so that it takes no memory.

use std::{io, sync::Arc};

use rmcp::{
    RoleServer,
    model::{ClientJsonRpcMessage, ErrorData, JsonRpcMessage, RequestId},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::{mpsc, oneshot},
};
use tokio_util::sync::CancellationToken;

use super::{
    handed::{NotTaken, Probe, Probes},
    server::Life,
};

/// One line, in bytes: what clients' own libraries take.
pub(in crate::mcp) const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Messages on their way out.
const CHANNEL_CAPACITY: usize = 256;

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

/// What is said to a line that is no message.
pub(in crate::mcp) fn complaint(line: &[u8], error: &serde_json::Error) -> String {
    let value: Option<serde_json::Value> = serde_json::from_slice(line).ok();
    let (code, id) = match value {
        None => (-32700, serde_json::Value::Null),
        Some(value) => (-32600, value.get("id").cloned().unwrap_or_default()),
    };
    let message = format!("not a JSON-RPC message: {error}");
    serde_json::json!({
        "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message }
    })
    .to_string()
}

/// What is said to a line over the limit.
pub(in crate::mcp) fn too_long() -> String {
    let message = format!("a line is longer than {LINE_BYTES_MAX} bytes");
    serde_json::json!({
        "jsonrpc": "2.0", "id": null, "error": { "code": -32600, "message": message }
    })
    .to_string()
}

struct Outgoing {
    line: String,
    probe: Option<Probe>,
    written: Option<oneshot::Sender<()>>,
}

/// The server's side of one connection.
pub(in crate::mcp) struct Connection<R> {
    reader: Reader<R>,
    outgoing: Option<mpsc::Sender<Outgoing>>,
    probes: Arc<Probes>,
    stopping: CancellationToken,
    gone: CancellationToken,
}

impl<R: AsyncBufRead + Unpin> Connection<R> {
    /// `gone` is cancelled when the agent is, so that its waits end with it.
    pub(in crate::mcp) fn new(
        reader: R,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        life: &Life,
        gone: CancellationToken,
    ) -> Self {
        let (outgoing, to_write) = mpsc::channel(CHANNEL_CAPACITY);
        life.tasks.spawn(async move {
            if let Err(error) = write(writer, to_write).await {
                tracing::debug!(%error, "an agent's connection broke");
            }
        });
        Self {
            reader: Reader::new(reader),
            outgoing: Some(outgoing),
            probes: Arc::new(Probes::new(life.unwritten.clone())),
            stopping: life.stopping.clone(),
            gone,
        }
    }

    /// Says something of the transport's own; lost if the client does not read.
    fn say(&self, line: String) {
        if let Some(outgoing) = &self.outgoing
            && outgoing.try_send(Outgoing { line, probe: None, written: None }).is_err()
        {
            tracing::debug!("an agent does not read its answers");
        }
    }

    fn too_many(id: RequestId) -> String {
        let error = ErrorData::internal_error("too many requests are not answered yet", None);
        let message: TxJsonRpcMessage<RoleServer> = JsonRpcMessage::error(error, Some(id));
        serde_json::to_string(&message).unwrap_or_default()
    }
}

async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut to_write: mpsc::Receiver<Outgoing>,
) -> io::Result<()> {
    while let Some(Outgoing { mut line, probe, written }) = to_write.recv().await {
        line.push('\n');
        writer.write_all(line.as_bytes()).await?;
        writer.flush().await?;
        if let Some(probe) = probe {
            probe.written();
        }
        if let Some(written) = written {
            // Whoever asked may have gone; the line is written all the same.
            written.send(()).ok();
        }
    }
    writer.shutdown().await
}

fn broken() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

impl<R: AsyncBufRead + Unpin + Send> Transport<RoleServer> for Connection<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let outgoing = self.outgoing.clone();
        let probe = self.probes.answered(&message);
        async move {
            let line = serde_json::to_string(&message)?;
            let (written, is_written) = oneshot::channel();
            let outgoing = outgoing.ok_or_else(broken)?;
            let message = Outgoing { line, probe, written: Some(written) };
            outgoing.send(message).await.map_err(|_| broken())?;
            is_written.await.map_err(|_| broken())
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
        self.outgoing = None;
        Ok(())
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
