//! A server's standard input and output, a JSON-RPC message a line, with everything that a server
//! may print bounded.
//!
//! A line that is no message is passed over, as other SDKs do, at a bounded rate; one that is too
//! long is passed over, and the call that it answers is told so.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use rmcp::{
    RoleClient,
    model::{ErrorCode, ErrorData, JsonRpcMessage, NumberOrString, RequestId},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    sync::Mutex,
};
use tokio_util::sync::CancellationToken;

use super::ordered::FloodLimit;

/// One message of a server, in bytes.
pub(super) const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Of a line that is too long so much is kept of its begin and of its end, in bytes: a message's id
/// is there.
const EDGE_BYTES: usize = 256;

/// What it reads at once, in bytes.
const READ_BYTES: usize = 64 * 1024;

/// Both ends of a server.
pub(super) struct Stdio<R, W> {
    server: String,
    reader: BufReader<R>,
    line: Line,
    writer: Arc<Mutex<Option<W>>>,
    /// Lines that are no message.
    garbage: FloodLimit,
    /// Messages that wait to be written, and their bytes.
    unwritten: Arc<(AtomicUsize, AtomicUsize)>,
    /// The server reads too little of what it is sent.
    unread: CancellationToken,
}

/// Messages that a server may leave unread: more than all calls that it is sent at once.
const UNWRITTEN_MAX: usize = 4_096;

/// The same in bytes.
const UNWRITTEN_BYTES_MAX: usize = 128 * 1024 * 1024;

/// A message that waits to be written, until it is dropped.
struct Unwritten {
    all: Arc<(AtomicUsize, AtomicUsize)>,
    bytes: usize,
}

impl Unwritten {
    fn add(all: &Arc<(AtomicUsize, AtomicUsize)>, bytes: usize) -> Self {
        all.0.fetch_add(1, Ordering::Relaxed);
        all.1.fetch_add(bytes, Ordering::Relaxed);
        Self { all: Arc::clone(all), bytes }
    }

    fn is_within(&self) -> bool {
        let load = |it: &AtomicUsize| it.load(Ordering::Relaxed);
        load(&self.all.0) <= UNWRITTEN_MAX && load(&self.all.1) <= UNWRITTEN_BYTES_MAX
    }
}

impl Drop for Unwritten {
    fn drop(&mut self) {
        self.all.0.fetch_sub(1, Ordering::Relaxed);
        self.all.1.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What was read of a line so far.
#[derive(Default)]
struct Line {
    text: Vec<u8>,
    /// The last bytes of one that is too long; `None`: it is not.
    end: Option<VecDeque<u8>>,
}

impl Line {
    fn push(&mut self, bytes: &[u8]) {
        if let Some(end) = &mut self.end {
            let kept = &bytes[bytes.len().saturating_sub(EDGE_BYTES)..];
            end.extend(kept);
            end.drain(..end.len().saturating_sub(EDGE_BYTES));
        } else if self.text.len() + bytes.len() <= MESSAGE_BYTES_MAX {
            self.text.extend_from_slice(bytes);
        } else {
            let mut end: VecDeque<u8> = VecDeque::with_capacity(2 * EDGE_BYTES);
            let before = &self.text[self.text.len().saturating_sub(EDGE_BYTES)..];
            end.extend(before);
            self.text.truncate(EDGE_BYTES);
            self.text.shrink_to_fit();
            self.end = Some(end);
            self.push(bytes);
        }
    }

    /// What the line is; the next one begins.
    fn take(&mut self, server: &str) -> Option<RxJsonRpcMessage<RoleClient>> {
        let Self { mut text, end } = std::mem::take(self);
        match end {
            None => {
                let message = serde_json::from_slice(&text).ok();
                // The room stays for the next one, unless it is much.
                if text.capacity() <= READ_BYTES {
                    text.clear();
                    self.text = text;
                }
                message
            }
            Some(end) => {
                let end: Vec<u8> = end.into();
                let id = id_in(&text, &end)?;
                let why = format!(
                    "the answer of the server {server} is larger than {MESSAGE_BYTES_MAX} bytes"
                );
                let error = ErrorData::new(ErrorCode::INTERNAL_ERROR, why, None);
                Some(JsonRpcMessage::error(error, Some(id)))
            }
        }
    }
}

/// The number of the request that a message answers, by its begin or its end. What is between them
/// may hold anything, so both are looked at for what SDKs write there.
fn id_in(begin: &[u8], end: &[u8]) -> Option<RequestId> {
    let begin = String::from_utf8_lossy(begin);
    // It asks or tells something, and answers nothing.
    if begin.contains(r#""method""#) {
        return None;
    }
    let head = begin.split(r#""result""#).next()?.split(r#""error""#).next()?;
    let end = String::from_utf8_lossy(end);
    let tail = end.rsplit(['}', ']']).nth(1);
    let number = |text: &str| {
        let after = text.rsplit_once(r#""id":"#)?.1.trim_start();
        let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<i64>().ok().map(NumberOrString::Number)
    };
    number(head).or_else(|| number(tail?))
}

impl<R, W> Stdio<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(super) fn new(server: &str, reader: R, writer: W) -> Self {
        Self {
            server: server.to_owned(),
            reader: BufReader::with_capacity(READ_BYTES, reader),
            line: Line::default(),
            writer: Arc::new(Mutex::new(Some(writer))),
            garbage: FloodLimit::new(server),
            unwritten: Arc::default(),
            unread: CancellationToken::new(),
        }
    }

    /// Reads on until a line has ended. `false`: there is none. May be dropped and called again.
    async fn read_line(&mut self) -> bool {
        loop {
            let Ok(read) = self.reader.fill_buf().await else { return false };
            if read.is_empty() {
                return false;
            }
            let end = read.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(read.len(), |end| end + 1);
            self.line.push(&read[..end.unwrap_or(read.len())]);
            self.reader.consume(taken);
            if end.is_some() {
                return true;
            }
        }
    }
}

impl<R, W> Transport<RoleClient> for Stdio<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let writer = Arc::clone(&self.writer);
        let line = serde_json::to_vec(&message).map(|mut line| {
            line.push(b'\n');
            line
        });
        let bytes = line.as_ref().map_or(0, Vec::len);
        let unwritten = Unwritten::add(&self.unwritten, bytes);
        if !unwritten.is_within() {
            tracing::warn!(server = self.server, "a server does not read: disconnected");
            self.unread.cancel();
        }
        async move {
            let _unwritten = unwritten;
            let line = line?;
            match &mut *writer.lock().await {
                Some(writer) => {
                    writer.write_all(&line).await?;
                    writer.flush().await
                }
                None => Err(io::ErrorKind::NotConnected.into()),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let unread = self.unread.clone();
            let has_line = tokio::select! {
                biased;
                () = unread.cancelled() => false,
                has_line = self.read_line() => has_line,
            };
            if !has_line {
                return None;
            }
            let bytes = self.line.text.len();
            let message = self.line.take(&self.server);
            if message.is_some() {
                return message;
            }
            if !self.garbage.admit(bytes) {
                return None;
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        // The server reads the end of its input, and ends.
        if let Some(mut writer) = self.writer.lock().await.take() {
            writer.shutdown().await.ok();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::ServerResult;
    use tokio::io::duplex;

    use super::{super::ordered::UNASKED_MAX, *};

    async fn read(text: &[u8]) -> Vec<RxJsonRpcMessage<RoleClient>> {
        let (ours, mut theirs) = duplex(1024 * 1024);
        let text = text.to_vec();
        let writing = tokio::spawn(async move { theirs.write_all(&text).await.ok() });
        let (reader, writer) = tokio::io::split(ours);
        let mut stdio = Stdio::new("files", reader, writer);
        let mut all = Vec::new();
        while let Some(message) = stdio.receive().await {
            all.push(message);
        }
        drop(stdio);
        writing.await.unwrap();
        all
    }

    fn id(message: &RxJsonRpcMessage<RoleClient>) -> Option<RequestId> {
        match message {
            JsonRpcMessage::Response(it) => Some(it.id.clone()),
            JsonRpcMessage::Error(it) => it.id.clone(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        }
    }

    #[tokio::test]
    async fn what_is_no_message_is_passed_over() {
        let text = b"npm warn deprecated\n\n{\"a\":1}\n[1,2\n\xff\xfe\n\
            {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"tools\":[]}}\r\n{\"jsonrpc\":\"2.0\"";
        let read = read(text).await;
        assert_eq!(read.iter().map(id).collect::<Vec<_>>(), [Some(NumberOrString::Number(7))]);
        assert!(
            matches!(&read[0], JsonRpcMessage::Response(it) if matches!(it.result, ServerResult::ListToolsResult(_)))
        );
    }

    #[tokio::test]
    async fn a_call_whose_answer_is_too_large_is_told_so() {
        let large = "x".repeat(MESSAGE_BYTES_MAX);
        for text in [
            format!(
                r#"{{"jsonrpc":"2.0","id":12,"result":{{"content":[{{"type":"text","text":"{large}"}}]}}}}"#
            ),
            format!(
                r#"{{"result":{{"content":[{{"type":"text","text":"\"id\":3{large}"}}]}},"jsonrpc":"2.0","id":12}}"#
            ),
        ] {
            let text = format!("{text}\n{{\"jsonrpc\":\"2.0\",\"id\":13,\"result\":{{}}}}\n");
            let read = read(text.as_bytes()).await;
            let ids: Vec<_> = read.iter().map(id).collect();
            assert_eq!(ids, [12, 13].map(|it| Some(NumberOrString::Number(it))));
            let JsonRpcMessage::Error(error) = &read[0] else { panic!("{:?}", read[0]) };
            assert!(error.error.message.contains("larger than 16777216 bytes"));
        }
    }

    #[tokio::test]
    async fn a_large_line_that_answers_nothing_is_passed_over() {
        let mut text = vec![b'x'; MESSAGE_BYTES_MAX + 5];
        text.extend(b"\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
        assert_eq!(read(&text).await.len(), 1);
    }

    #[tokio::test]
    async fn a_server_that_prints_garbage_without_end_is_left() {
        let garbage = b"building...\n".repeat(UNASKED_MAX);
        let message = &b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n"[..];
        assert_eq!(read(&[&garbage, message].concat()).await.len(), 1);
        assert!(read(&[&garbage, &garbage[..24], message].concat()).await.is_empty());
    }
}
