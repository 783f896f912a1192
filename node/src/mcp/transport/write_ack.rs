//! Knows when an answer was written to the agent's connection, and only then reports the turn it
//! gave as handed, or the mail it showed.
//!
//! Each request carries a [`WriteAck`]. The tool leaves in it what becomes true once its answer is
//! written; the transport fires it when the answer left for the socket, and drops it when the
//! connection went first. A probe also keeps the server from stopping before its answer is out.
//!
//! What an answer grants can be given back until it is [given](Fate): a client may take its request
//! back after the tool is done and before the answer is sent, and then hears nothing of it.

use std::{
    collections::HashMap,
    fmt,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
};

use axum::body::Body;
use bytes::Bytes;
use http_body::Frame;
use parking_lot::{Mutex, MutexGuard};
use rmcp::{
    RoleServer,
    model::{ClientNotification, GetExtensions, JsonRpcMessage, RequestId},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
};
use tasuki_proto::{
    id::{LoopId, Turn},
    mail::MessageId,
    swarm::IssueId,
    wire::MailMark,
};
use tokio::sync::watch;
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

use super::errors::with_event_cut;
use crate::{
    mcp::{hold::Held, in_flight_acks::InFlightAck},
    outbox::Untold,
    role::Actions,
};

/// Requests of one connection that are not answered yet; more are refused.
const IN_FLIGHT_MAX: usize = 256;

/// What an answer gives.
#[derive(Debug)]
pub(in crate::mcp) enum Mark {
    Turn {
        actions: Arc<dyn Actions>,
        loop_id: LoopId,
        turn: Turn,
    },
    /// Entries of a thread up to `through`, of which their role learns so much.
    Mail {
        actions: Arc<dyn Actions>,
        message: MessageId,
        through: u32,
        mark: MailMark,
        on_its_way: InFlightAck,
    },
    /// Something that the lead of an issue is to know of.
    Item {
        actions: Arc<dyn Actions>,
        issue: IssueId,
        number: u64,
        on_its_way: InFlightAck,
    },
    /// What of the outbox was refused late.
    Told {
        actions: Arc<dyn Actions>,
        told: Untold,
    },
}

impl Mark {
    fn tell(self) {
        match self {
            Self::Turn { actions, loop_id, turn } => actions.mark_handed(&loop_id, turn),
            Self::Mail { actions, message, through, mark, on_its_way } => {
                actions.mark_mail(message, through, mark);
                drop(on_its_way);
            }
            Self::Item { actions, issue, number, on_its_way } => {
                actions.mark_item(issue, number, Box::new(on_its_way));
            }
            Self::Told { actions, told } => actions.mark_told(told),
        }
    }
}

#[derive(Debug, Clone)]
pub(in crate::mcp) struct WriteAck(Arc<Inner>);

struct Inner {
    /// What is done once the answer is written.
    then: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
    held: Mutex<Option<Held>>,
    /// Streams on which the answer is waited for.
    readers: watch::Sender<usize>,
    fate: Fate,
    _unwritten: TaskTrackerToken,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").finish_non_exhaustive()
    }
}

impl WriteAck {
    /// A probe that `unwritten` counts until it is gone.
    pub(in crate::mcp) fn new(unwritten: &TaskTracker) -> Self {
        Self(Arc::new(Inner {
            then: Mutex::default(),
            held: Mutex::default(),
            readers: watch::Sender::new(1),
            fate: Fate::default(),
            _unwritten: unwritten.token(),
        }))
    }

    pub(in crate::mcp) fn when_written(&self, mark: Mark) {
        self.then(move || mark.tell());
    }

    /// Does something short once the answer is written.
    pub(in crate::mcp) fn then(&self, what: impl FnOnce() + Send + 'static) {
        self.0.then.lock().push(Box::new(what));
    }

    /// The answer is held back; when its stream goes first, its client gave up.
    pub(in crate::mcp) fn when_cut(&self, held: Held) {
        *self.0.held.lock() = Some(held);
    }

    /// Resolves when the answer's stream went first, and nobody resumed it.
    pub(in crate::mcp) async fn is_cut(&self) {
        self.until(|readers| readers == 0).await;
    }

    /// Resolves when somebody resumed the answer's stream.
    pub(in crate::mcp) async fn is_resumed(&self) {
        self.until(|readers| 0 < readers).await;
    }

    async fn until(&self, is_so: impl Fn(usize) -> bool) {
        // Its sender is there as long as this is.
        let _ = self.0.readers.subscribe().wait_for(|readers| is_so(*readers)).await;
    }

    /// What of it outlives the request: somebody who resumes hears the answer in its place.
    pub(super) fn resumable(&self) -> Resumable {
        Resumable(Arc::downgrade(&self.0))
    }

    /// What becomes of the answer.
    pub(in crate::mcp) fn fate(&self) -> &Fate {
        &self.0.fate
    }

    fn cut(&self) {
        self.0.readers.send_modify(|readers| *readers = readers.saturating_sub(1));
        if let Some(held) = self.0.held.lock().take() {
            held.cut();
        }
    }

    pub(in crate::mcp) fn written(&self) {
        if !self.0.fate.give() {
            return;
        }
        let then = std::mem::take(&mut *self.0.then.lock());
        for what in then {
            what();
        }
    }
}

/// A request's answer, as long as there is none.
#[derive(Debug, Clone, Default)]
pub(super) struct Resumable(Weak<Inner>);

impl Resumable {
    /// Its stream is resumed. `None`: it was answered before, and what it gave is given again.
    pub(super) fn resume(&self) -> Option<Resumed> {
        let probe = WriteAck(self.0.upgrade()?);
        probe.0.readers.send_modify(|readers| *readers += 1);
        Some(Resumed(Some(probe)))
    }
}

/// An answer that is waited for on a stream that was resumed.
#[derive(Debug)]
pub(super) struct Resumed(Option<WriteAck>);

impl Resumed {
    pub(super) fn written(mut self) {
        if let Some(probe) = self.0.take() {
            probe.written();
        }
    }
}

impl Drop for Resumed {
    fn drop(&mut self) {
        if let Some(probe) = &self.0 {
            probe.cut();
        }
    }
}

/// What becomes of an answer: it is given, or its request was taken back before that.
#[derive(Clone, Default)]
pub(in crate::mcp) struct Fate(Arc<Mutex<Ahead>>);

/// How far it is.
#[derive(Default)]
struct Ahead {
    is_given: bool,
    is_disowned: bool,
    /// How what it grants is given back, and whether its request may be said again.
    undo: Vec<(bool, Box<dyn FnOnce() + Send>)>,
}

impl fmt::Debug for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ahead { is_given, is_disowned, undo: _ } = &*self.ahead();
        let mut debug = f.debug_struct("Fate");
        debug.field("is_given", is_given).field("is_disowned", is_disowned).finish_non_exhaustive()
    }
}

impl Fate {
    fn ahead(&self) -> MutexGuard<'_, Ahead> {
        self.0.lock()
    }

    /// Whether nobody will ask for what comes of the request again, by any means.
    pub(in crate::mcp) fn is_disowned(&self) -> bool {
        self.ahead().is_disowned
    }

    /// The answer is on its way to the client: from here on nothing is taken back. False: it was
    /// before.
    pub(super) fn give(&self) -> bool {
        let mut ahead = self.ahead();
        ahead.is_given = !ahead.is_disowned;
        ahead.undo.clear();
        ahead.is_given
    }

    /// Its client took the request back, or has another answer.
    pub(in crate::mcp) fn disown(&self) {
        let mut ahead = self.ahead();
        if ahead.is_given {
            return;
        }
        ahead.is_disowned = true;
        let undo = std::mem::take(&mut ahead.undo);
        drop(ahead);
        undo.into_iter().for_each(|(_, undo)| undo());
    }

    /// Nothing carries the answer any more. A request that may be said again has the same one.
    fn lose(&self) {
        let mut ahead = self.ahead();
        let kept = ahead.undo.extract_if(.., |(is_said_again, _)| !*is_said_again);
        let undo: Vec<_> = kept.collect();
        drop(ahead);
        undo.into_iter().for_each(|(_, undo)| undo());
    }

    /// Gives back what the answer grants if it is not given: at once if the request is disowned
    /// already.
    pub(in crate::mcp) fn unless_given(
        &self,
        is_said_again: bool,
        undo: impl FnOnce() + Send + 'static,
    ) {
        let mut ahead = self.ahead();
        if !ahead.is_disowned {
            return ahead.undo.push((is_said_again, Box::new(undo)));
        }
        drop(ahead);
        undo();
    }
}

/// An answer on its way over one connection, with which it is lost.
#[derive(Debug)]
pub(in crate::mcp) struct Sent(Option<WriteAck>);

impl Sent {
    pub(in crate::mcp) fn written(mut self) {
        if let Some(probe) = self.0.take() {
            probe.written();
        }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        if let Some(probe) = &self.0 {
            probe.fate().lose();
        }
    }
}

/// A response body that fires its probe when the connection took the answer: when it asks for
/// what comes after. Many clients hang up as soon as they have read it.
#[derive(Debug)]
pub(in crate::mcp) struct Watched {
    body: Body,
    probe: Option<WriteAck>,
    /// What is not read from it can be had on another.
    may_resume: bool,
    is_answered: bool,
}

impl Watched {
    pub(in crate::mcp) fn new(body: Body, probe: WriteAck, may_resume: bool) -> Self {
        Self { body, probe: Some(probe), may_resume, is_answered: false }
    }
}

impl Watched {
    /// Nothing more goes over it.
    fn lost(&mut self) {
        if let Some(probe) = self.probe.take().filter(|_| !self.is_answered) {
            probe.cut();
            if !self.may_resume {
                probe.fate().lose();
            }
        }
    }
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.is_answered
            && let Some(probe) = &self.probe
        {
            probe.written();
        }
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        let polled = polled.map_ok(|frame| frame.map_data(with_event_cut));
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                self.is_answered |= frame.data_ref().is_some_and(|data| has_answer(data));
            }
            Poll::Ready(None) => {
                // Of an answer it was said above. Without one, its request was taken back, or its
                // session ended.
                self.lost();
            }
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }

    // The end is told by `poll_frame` alone, so that the connection asks until it is there.
    fn is_end_stream(&self) -> bool {
        self.probe.is_none()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // A session outlives its streams, and a call of it goes on; that it was given up shows
        // only here.
        self.lost();
    }
}

/// Whether an event is an answer with a result. Within a text the quotes would be escaped.
pub(super) fn has_result(event: &[u8]) -> bool {
    has(event, br#""result":"#)
}

fn has_answer(event: &[u8]) -> bool {
    has_result(event) || has(event, br#""error":{"code":"#)
}

fn has(event: &[u8], wanted: &[u8]) -> bool {
    event.windows(wanted.len()).any(|part| part == wanted)
}

/// The probes of the requests on one connection that carries many.
#[derive(Debug)]
pub(in crate::mcp) struct Probes {
    unwritten: TaskTracker,
    open: Mutex<HashMap<RequestId, WriteAck>>,
}

/// Why a request is not taken.
#[derive(Debug)]
pub(in crate::mcp) enum NotTaken {
    /// The connection has [`IN_FLIGHT_MAX`] requests open.
    TooMany(RequestId),
    /// One of the same id is open, said before: its answer is the answer to both. Taken as well,
    /// it would end the wait of the first, and only one of the two answers would be sent.
    Repeated,
}

impl Probes {
    pub(in crate::mcp) fn new(unwritten: TaskTracker) -> Self {
        Self { unwritten, open: Mutex::default() }
    }

    /// Puts a probe into a request that came in.
    pub(in crate::mcp) fn received(
        &self,
        message: &mut RxJsonRpcMessage<RoleServer>,
    ) -> Result<(), NotTaken> {
        let mut open = self.open.lock();
        match message {
            JsonRpcMessage::Request(request) => {
                if open.contains_key(&request.id) {
                    return Err(NotTaken::Repeated);
                }
                if IN_FLIGHT_MAX <= open.len() {
                    return Err(NotTaken::TooMany(request.id.clone()));
                }
                let probe = WriteAck::new(&self.unwritten);
                request.request.extensions_mut().insert(probe.clone());
                open.insert(request.id.clone(), probe);
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                    && let Some(probe) = open.remove(id)
                {
                    probe.fate().disown();
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        Ok(())
    }

    /// The client closed the connection: it takes back all that is open.
    pub(in crate::mcp) fn disown(&self) {
        let open = self.open.lock();
        #[allow(clippy::disallowed_methods, reason = "each is disowned by itself, in any order")]
        open.values().for_each(|probe| probe.fate().disown());
    }

    /// What is done once `message` is written. `None`: it answers a request that was taken back,
    /// and is not sent.
    pub(in crate::mcp) fn answered(&self, message: &TxJsonRpcMessage<RoleServer>) -> Option<Sent> {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let Some(id) = id else { return Some(Sent(None)) };
        let probe = self.open.lock().remove(id)?;
        Some(Sent(Some(probe)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// How often what follows an answer is done, once a body was read to its end.
    async fn told(body: &'static str, is_taken_back: bool) -> usize {
        let probe = WriteAck::new(&TaskTracker::new());
        let told = Arc::new(AtomicUsize::new(0));
        let tell = told.clone();
        probe.then(move || _ = tell.fetch_add(1, Ordering::Relaxed));
        if is_taken_back {
            probe.fate().disown();
        }
        let read = Body::new(Watched::new(Body::from(body), probe, true));
        axum::body::to_bytes(read, usize::MAX).await.unwrap();
        told.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn whoever_resumes_waits_in_the_place_of_who_is_gone() {
        let probe = WriteAck::new(&TaskTracker::new());
        let told = Arc::new(AtomicUsize::new(0));
        let tell = told.clone();
        probe.then(move || _ = tell.fetch_add(1, Ordering::Relaxed));
        let resumable = probe.resumable();
        drop(Watched::new(Body::empty(), probe.clone(), true));
        probe.is_cut().await;
        let resumed = resumable.resume().unwrap();
        probe.is_resumed().await;
        drop(resumed);
        probe.is_cut().await;
        resumable.resume().unwrap().written();
        assert_eq!(told.load(Ordering::Relaxed), 1);
        // What was answered to nobody is given again, by whoever is asked next.
        drop(probe);
        assert!(resumable.resume().is_none());
    }

    #[tokio::test]
    async fn only_an_answer_that_was_read_is_told() {
        const ANSWER: &str = r#"data: {"jsonrpc":"2.0","id":1,"result":{}}"#;
        assert_eq!(told(ANSWER, false).await, 1);
        assert_eq!(told(ANSWER, true).await, 0);
        for ends_early in ["", ": keep alive", r#"data: {"method":"notifications/progress"}"#] {
            assert_eq!(told(ends_early, false).await, 0, "{ends_early}");
        }
    }
}
