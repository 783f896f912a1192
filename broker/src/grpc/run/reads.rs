//! `ReadOutput`: a part of a long output, from the node that ran the step.
//!
//! A node keeps a stream open (`WatchReads`) on which it is told what others want to read, and
//! answers by calls of its own (`AnswerRead`). Nothing of it is kept: a read waits for a moment, and
//! is told where the node is away.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{Stream, StreamExt as _};
use parking_lot::Mutex;
use tasuki_proto::{
    id::{Epoch, NodeId, WorkspaceId},
    limits::OUTPUT_READ_BYTES_MAX,
    reason::Reason,
    wire,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tonic::{Status, Streaming, codegen::BoxStream};

use super::{
    super::{
        Admitted, Answer, Endpoint, Services, WorkspaceSession, at_once, only, parse::check_size,
        status::invalid,
    },
    parse,
};
use crate::workspace::View;

/// For a node's answer: a second less than nodes wait for a call of theirs.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);

/// Reads that one node was sent and has not taken yet.
const UNTAKEN_MAX: usize = 16;

/// Reads in one workspace that wait for an answer, each of up to [`OUTPUT_READ_BYTES_MAX`].
const WAITING_MAX: usize = 64;

/// The same for one node: one that does not answer is in nobody else's way.
const WAITING_OF_NODE_MAX: usize = 32;

impl Endpoint for wire::ReadOutputRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let step = parse::step_id(&self.run_id, self.step)?;
        parse::number("limit", self.limit.into(), 1..=OUTPUT_READ_BYTES_MAX.into())?;
        let find = move |view: &View<'_>| {
            let (_, state) = view.workspace.runs.step(step)?;
            let found = state.ended().and_then(|it| it.ran.clone()).map(|(node, _)| {
                let epoch = view.workspace.directory.nodes.get(&node).map(|it| it.epoch);
                (node, epoch)
            });
            let is_private = view.workspace.privacy.check_words(false).is_err();
            Ok((found, is_private, view.now.as_millis()))
        };
        let (found, is_private, now_ms) = session.query(None, find).await?;
        let Some((node, epoch)) = found else {
            return Ok(wire::ReadOutputResponse { now_ms, ..Default::default() });
        };
        // Nodes do not seal what they answer (Y5).
        if is_private {
            return Err(Reason::PrivateWorkspace.status(format!(
                "this workspace is private, and outputs are not encrypted. The rest of this one is \
                 read where node {node} is, with `tasuki runs output {} {}`",
                step.run, step.number
            )));
        }
        let read = wire::OutputRead {
            number: 0,
            run_id: step.run.to_string(),
            step: step.number,
            offset: self.offset,
            limit: self.limit,
        };
        let place = (session.workspace.clone(), node);
        let asking = session.services.reads.ask(&place, epoch, read, ANSWER_WITHIN);
        let answered = session.services.stopping.run_until_cancelled(asking).await;
        let stopping = || Reason::Unavailable.status("the broker is stopping; ask again");
        match answered.ok_or_else(stopping)? {
            Ok(mut answer) => {
                answer.content.truncate(self.limit as usize);
                Ok(wire::ReadOutputResponse { now_ms, ..answer })
            }
            // Streams of nodes end then, too.
            Err(Unanswered::Away) if session.services.stopping.is_cancelled() => Err(stopping()),
            Err(Unanswered::Away) => {
                Ok(wire::ReadOutputResponse { is_away: true, now_ms, ..Default::default() })
            }
            Err(Unanswered::TooMany) => Err(Reason::Overloaded.status(format!(
                "{WAITING_MAX} reads of outputs wait for nodes of this workspace, or \
                 {WAITING_OF_NODE_MAX} for this one, which is the limit; try again shortly"
            ))),
        }
    }
}

impl Endpoint for wire::AnswerReadRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        check_size("content", self.content.len(), OUTPUT_READ_BYTES_MAX as usize)?;
        let (node, _) = session.reading_node()?;
        let caller = session.caller.clone();
        let answered = session.show(None, move |view| {
            view.workspace.directory.check(&caller, None)?;
            Ok(at_once(wire::AnswerReadResponse::default()))
        });
        let answered = answered.await?;
        let (is_kept, content) = (self.is_kept, self.content);
        let answer = wire::ReadOutputResponse { is_kept, content, ..Default::default() };
        session.services.reads.answer(&(session.workspace.clone(), node), self.number, answer);
        Ok(answered)
    }
}

pub(in crate::grpc) async fn watch_reads(
    services: Services,
    admitted: Admitted,
    asked: Streaming<wire::WatchReadsRequest>,
) -> Result<BoxStream<wire::OutputRead>, Status> {
    let it = only(asked).await?;
    let session = services.enter(&admitted, it.caller.as_ref())?;
    let (node, epoch) = session.reading_node()?;
    let caller = session.caller.clone();
    let check = move |view: &View<'_>| view.workspace.directory.check(&caller, None);
    session.query(None, check).await?;
    let reads = services.reads.watch((session.workspace, node), epoch);
    Ok(Box::pin(reads.take_until(services.stopping.cancelled_owned())))
}

impl WorkspaceSession {
    /// The node that calls, and its epoch.
    fn reading_node(&self) -> Result<(NodeId, Epoch), Status> {
        let why = "is missing: only a node has outputs that others read";
        self.caller.node.clone().ok_or_else(|| invalid("caller.node", &why))
    }
}

/// Why a read has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unanswered {
    /// The node is not connected, or does not answer.
    Away,
    TooMany,
}

/// A node of a workspace.
type Place = (WorkspaceId, NodeId);

/// Reads under way, and the nodes that can be asked. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(in crate::grpc) struct Reads(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    streams: BTreeMap<Place, NodeStream>,
    waiting: BTreeMap<(WorkspaceId, u64), Waiting>,
    /// Of streams and reads alike: none comes again.
    last_number: u64,
}

impl Open {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Whoever waits for an answer by this stream has none.
    fn fail(&mut self, stream: u64) {
        self.waiting.retain(|_, it| it.stream != stream);
    }
}

#[derive(Debug)]
struct NodeStream {
    number: u64,
    /// Of the registration that it was opened by.
    epoch: Epoch,
    reads: mpsc::Sender<wire::OutputRead>,
}

#[derive(Debug)]
struct Waiting {
    node: NodeId,
    stream: u64,
    answer: oneshot::Sender<wire::ReadOutputResponse>,
}

impl Reads {
    /// What a node is to read from here on. Ends when it is watched anew.
    fn watch(&self, place: Place, epoch: Epoch) -> ReadStream {
        let (reads, told) = mpsc::channel(UNTAKEN_MAX);
        let mut open = self.0.lock();
        let number = open.next_number();
        let stream = NodeStream { number, epoch, reads };
        if let Some(former) = open.streams.insert(place.clone(), stream) {
            open.fail(former.number);
        }
        drop(open);
        ReadStream { reads: self.clone(), place, number, told }
    }

    /// Asks a node, of which `epoch` is the registration that may act.
    async fn ask(
        &self,
        place: &Place,
        epoch: Option<Epoch>,
        read: wire::OutputRead,
        within: Duration,
    ) -> Result<wire::ReadOutputResponse, Unanswered> {
        let (_waiting, answer) = self.begin(place, epoch, read)?;
        match timeout(within, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            // Its stream ended, or its time is over.
            Ok(Err(_)) | Err(_) => Err(Unanswered::Away),
        }
    }

    fn begin(
        &self,
        place: &Place,
        epoch: Option<Epoch>,
        read: wire::OutputRead,
    ) -> Result<(WaitingRead, oneshot::Receiver<wire::ReadOutputResponse>), Unanswered> {
        let (workspace, node) = place;
        let mut open = self.0.lock();
        let number = open.next_number();
        let key = (workspace.clone(), number);
        let own = (workspace.clone(), 0)..key.clone();
        let of_node = open.waiting.range(own.clone()).filter(|(_, it)| it.node == *node);
        if WAITING_OF_NODE_MAX <= of_node.count() || WAITING_MAX <= open.waiting.range(own).count()
        {
            return Err(Unanswered::TooMany);
        }
        let stream = open.streams.get(place).filter(|it| Some(it.epoch) == epoch);
        let stream = stream.ok_or(Unanswered::Away)?;
        // One that takes nothing is as good as away.
        let sent = stream.reads.try_send(wire::OutputRead { number, ..read });
        sent.map_err(|_| Unanswered::Away)?;
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting { node: node.clone(), stream: stream.number, answer };
        open.waiting.insert(key.clone(), waiting);
        drop(open);
        Ok((WaitingRead { reads: self.clone(), key }, answered))
    }

    /// Takes an answer of the node that was asked; any other is none.
    fn answer(&self, (workspace, node): &Place, number: u64, answer: wire::ReadOutputResponse) {
        let (mut open, key) = (self.0.lock(), (workspace.clone(), number));
        if open.waiting.get(&key).is_some_and(|it| it.node == *node)
            && let Some(waiting) = open.waiting.remove(&key)
        {
            // Who asked may be gone.
            let _ = waiting.answer.send(answer);
        }
    }
}

/// A read that waits for its answer, and is forgotten when this is dropped.
#[derive(Debug)]
struct WaitingRead {
    reads: Reads,
    key: (WorkspaceId, u64),
}

impl Drop for WaitingRead {
    fn drop(&mut self) {
        self.reads.0.lock().waiting.remove(&self.key);
    }
}

/// What a node is told to read. Its reads have no answer once this is dropped.
#[derive(Debug)]
struct ReadStream {
    reads: Reads,
    place: Place,
    number: u64,
    told: mpsc::Receiver<wire::OutputRead>,
}

impl Stream for ReadStream {
    type Item = Result<wire::OutputRead, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.told.poll_recv(cx).map(|read| read.map(Ok))
    }
}

impl Drop for ReadStream {
    fn drop(&mut self) {
        let mut open = self.reads.0.lock();
        if open.streams.get(&self.place).is_some_and(|it| it.number == self.number) {
            open.streams.remove(&self.place);
        }
        open.fail(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(node: &str) -> Place {
        ("w".parse().unwrap(), node.parse().unwrap())
    }

    fn epoch(number: u64) -> Option<Epoch> {
        Some(number.into())
    }

    fn content(content: &str) -> wire::ReadOutputResponse {
        wire::ReadOutputResponse { is_kept: true, content: content.into(), ..Default::default() }
    }

    fn watch(reads: &Reads, number: u64) -> ReadStream {
        reads.watch(place("n1"), number.into())
    }

    async fn ask(reads: &Reads, within: Duration) -> Result<Vec<u8>, Unanswered> {
        let answered = reads.ask(&place("n1"), epoch(1), wire::OutputRead::default(), within).await;
        answered.map(|it| it.content)
    }

    /// A read that the node at `stream` was told of.
    async fn asking(
        reads: &Reads,
        stream: &mut ReadStream,
    ) -> (u64, tokio::task::JoinHandle<Result<Vec<u8>, Unanswered>>) {
        let reads = reads.clone();
        let asking = tokio::spawn(async move { ask(&reads, ANSWER_WITHIN).await });
        (stream.next().await.unwrap().unwrap().number, asking)
    }

    fn is_idle(reads: &Reads) -> bool {
        reads.0.lock().waiting.is_empty()
    }

    #[tokio::test]
    async fn an_answer_is_taken_of_the_node_that_was_asked_and_once() {
        let reads = Reads::default();
        let mut stream = watch(&reads, 1);
        let _other = reads.watch(place("n2"), 1.into());
        let (number, first) = asking(&reads, &mut stream).await;
        let (next, second) = asking(&reads, &mut stream).await;
        let elsewhere = ("v".parse().unwrap(), place("n1").1);
        for (from, number) in [(place("n2"), number), (elsewhere, number), (place("n1"), next + 9)]
        {
            reads.answer(&from, number, content("forged"));
        }
        reads.answer(&place("n1"), next, content("second"));
        reads.answer(&place("n1"), number, content("first"));
        reads.answer(&place("n1"), number, content("again"));
        assert_eq!(first.await.unwrap(), Ok(b"first".to_vec()));
        assert_eq!(second.await.unwrap(), Ok(b"second".to_vec()));
        assert!(is_idle(&reads));
    }

    #[tokio::test]
    async fn a_node_that_is_away_or_silent_has_no_answer() {
        let reads = Reads::default();
        assert_eq!(ask(&reads, ANSWER_WITHIN).await, Err(Unanswered::Away), "it never came");
        let former = watch(&reads, 7);
        assert_eq!(ask(&reads, ANSWER_WITHIN).await, Err(Unanswered::Away), "it may not act");
        drop(former);
        let _stream = watch(&reads, 1);
        let little = Duration::from_millis(1);
        assert_eq!(ask(&reads, little).await, Err(Unanswered::Away), "it says nothing");
        assert!(is_idle(&reads), "what nobody waits for is forgotten");
    }

    #[tokio::test]
    async fn a_stream_that_ends_ends_its_reads_and_not_those_of_the_next() {
        let reads = Reads::default();
        let mut former = watch(&reads, 1);
        let (_, lost) = asking(&reads, &mut former).await;
        let mut stream = watch(&reads, 1);
        assert_eq!(lost.await.unwrap(), Err(Unanswered::Away), "by a newer one");
        assert!(former.next().await.is_none());
        let (number, kept) = asking(&reads, &mut stream).await;
        drop(former);
        reads.answer(&place("n1"), number, content("kept"));
        assert_eq!(kept.await.unwrap(), Ok(b"kept".to_vec()));
        let (_, lost) = asking(&reads, &mut stream).await;
        drop(stream);
        assert_eq!(lost.await.unwrap(), Err(Unanswered::Away), "with its connection");
        assert!(is_idle(&reads) && reads.0.lock().streams.is_empty());
    }

    #[tokio::test]
    async fn reads_that_wait_are_bounded_and_given_back() {
        let reads = Reads::default();
        let (mut waiting, mut streams) = (Vec::new(), Vec::new());
        let begin = |place: &Place| reads.begin(place, epoch(1), wire::OutputRead::default());
        for node in ["n1", "n2"] {
            let place = place(node);
            let mut stream = reads.watch(place.clone(), 1.into());
            for _ in 0..UNTAKEN_MAX {
                waiting.push(begin(&place).unwrap());
            }
            assert_eq!(begin(&place).unwrap_err(), Unanswered::Away, "it takes none");
            for _ in UNTAKEN_MAX..WAITING_OF_NODE_MAX {
                stream.next().await.unwrap().unwrap();
                waiting.push(begin(&place).unwrap());
            }
            stream.next().await.unwrap().unwrap();
            assert_eq!(begin(&place).unwrap_err(), Unanswered::TooMany, "of {node}");
            streams.push(stream);
        }
        assert_eq!(waiting.len(), WAITING_MAX);
        let elsewhere: Place = ("v".parse().unwrap(), place("n1").1);
        streams.extend([place("n3"), elsewhere.clone()].map(|it| reads.watch(it, 1.into())));
        assert_eq!(begin(&place("n3")).unwrap_err(), Unanswered::TooMany, "of all");
        assert!(begin(&elsewhere).is_ok(), "in another workspace");
        waiting.pop();
        assert!(begin(&place("n3")).is_ok());
    }
}
