//! Events of streams whose client may come back for what it missed.
//!
//! Kept in memory: a client whose node restarted asks its question again. An event's id is its
//! stream's name, a slash, and its number from 1; a stream's name begins with its session's id.
//!
//! - **EV1** What is replayed begins strictly after the event named, and ends with the answer.
//! - **EV2** A stream is replayed in its own session alone.
//! - **EV3** A replay ends where nothing more will come, answered or not.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use rmcp::{
    model::ServerJsonRpcMessage, transport::streamable_http_server::session::ServerSseMessage,
};
use tokio::sync::watch;
use tokio_stream::wrappers::ReceiverStream;

use super::session_streams::is_answer;
use crate::json_size::json_size;

/// Events of one stream: an hour and a half of progress; the oldest go first.
const EVENTS_PER_STREAM_MAX: usize = 512;

/// Streams remembered; the oldest go first.
const STREAMS_MAX: usize = 1024;

/// Everything kept, in bytes of JSON: a few dozen of the largest handovers.
const BYTES_MAX: usize = 32 * 1024 * 1024;

/// Events on their way to one client that resumes.
const REPLAY_MAX: usize = 16;

/// What the events of one stream are kept under.
pub(super) type StreamName = Arc<str>;

/// A stream cannot be resumed.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the event is of no stream that is kept")]
pub(super) struct UnknownEvent;

#[derive(Debug, Clone, Default)]
pub(super) struct Events(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    streams: BTreeMap<String, Stream>,
    /// By age.
    order: VecDeque<String>,
    bytes: usize,
}

#[derive(Debug)]
struct Stream {
    events: VecDeque<Event>,
    /// Number of the latest.
    latest: watch::Sender<u64>,
    /// Nothing comes after what is there: it was answered, or will never be.
    is_over: bool,
}

#[derive(Debug)]
struct Event {
    number: u64,
    bytes: usize,
    message: ServerSseMessage,
}

/// A name for a stream of a request.
pub(super) fn stream_name(session: &str) -> StreamName {
    format!("{session}:{}", uuid::Uuid::new_v4()).into()
}

/// The name of the stream that an event is of.
pub(super) fn stream_of(event_id: &str) -> &str {
    event_id.rsplit_once('/').map_or(event_id, |(stream, _)| stream)
}

/// Whether an event is the last of a request's stream.
pub(super) fn ends_stream(event: &ServerSseMessage) -> bool {
    event.message.as_deref().is_some_and(is_answer)
}

fn session_of(stream: &str) -> Option<&str> {
    stream.rsplit_once(':').map(|(session, _)| session)
}

impl Kept {
    fn store(&mut self, stream_id: &str, event: &ServerSseMessage) -> String {
        if !self.streams.contains_key(stream_id) {
            let stream =
                Stream { events: VecDeque::new(), latest: watch::Sender::new(0), is_over: false };
            self.streams.insert(stream_id.to_owned(), stream);
            self.order.push_back(stream_id.to_owned());
        }
        let bytes = event.message.as_deref().and_then(json_size).unwrap_or(0);
        let mut id = String::new();
        if let Some(stream) = self.streams.get_mut(stream_id) {
            let number = *stream.latest.borrow() + 1;
            id = format!("{stream_id}/{number}");
            let mut message = event.clone();
            message.event_id = Some(id.clone());
            stream.is_over |= ends_stream(event);
            stream.events.push_back(Event { number, bytes, message });
            self.bytes += bytes;
            if EVENTS_PER_STREAM_MAX < stream.events.len()
                && let Some(oldest) = stream.events.pop_front()
            {
                self.bytes -= oldest.bytes;
            }
            stream.latest.send_replace(number);
        }
        while (BYTES_MAX < self.bytes && 1 < self.order.len()) || STREAMS_MAX < self.order.len() {
            // Rather one that had its answer than one whose client waits for it.
            let is_over = |it: &str| self.streams.get(it).is_some_and(|it| it.is_over);
            let others = || self.order.iter().enumerate().filter(|(_, it)| *it != stream_id);
            let over = others().find(|(_, it)| is_over(it));
            let at = over.or_else(|| others().next()).map_or(0, |(at, _)| at);
            let Some(oldest) = self.order.remove(at) else { break };
            if let Some(stream) = self.streams.remove(&oldest) {
                self.bytes -= stream.events.iter().map(|event| event.bytes).sum::<usize>();
            }
        }
        id
    }
}

impl Events {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock()
    }

    /// Whether nothing will ever come after this event.
    pub(super) fn is_last(&self, event_id: &str) -> bool {
        let Some((stream_id, number)) = event_id.rsplit_once('/') else { return false };
        let kept = self.kept();
        let stream = kept.streams.get(stream_id).filter(|it| it.is_over);
        stream.is_some_and(|it| number.parse() == Ok(*it.latest.borrow()))
    }

    /// What came after `number`, and whether that is all; `None` when the stream is gone.
    fn after(&self, stream_id: &str, number: u64) -> Option<(Vec<(u64, ServerSseMessage)>, bool)> {
        let kept = self.kept();
        let stream = kept.streams.get(stream_id)?;
        let later = stream.events.iter().filter(|event| number < event.number);
        let later = later.map(|event| (event.number, event.message.clone())).collect();
        Some((later, stream.is_over))
    }

    #[cfg(test)]
    pub(super) fn streams(&self) -> usize {
        self.kept().streams.len()
    }

    /// Keeps an event of a stream, and returns its id.
    pub(super) fn keep(&self, stream_id: &str, event: &ServerSseMessage) -> String {
        self.kept().store(stream_id, event)
    }

    /// A stream will never be answered.
    pub(super) fn end(&self, stream_id: &str) {
        if let Some(stream) = self.kept().streams.get_mut(stream_id) {
            stream.is_over = true;
            // Whoever replays it looks again.
            stream.latest.send_modify(|_| {});
        }
    }

    /// Answers a stream in place of the server that is gone, if its client could resume it.
    pub(super) fn answer(&self, stream_id: &str, answer: ServerJsonRpcMessage) {
        let mut kept = self.kept();
        if kept.streams.get(stream_id).is_some_and(|it| !it.is_over) {
            kept.store(stream_id, &ServerSseMessage::from_message(answer));
        }
    }

    /// What came and will come after an event of a session's stream, to its answer.
    ///
    /// # Errors
    /// When that is no event of a stream that is kept for this session.
    pub(super) fn replay(
        &self,
        session: &str,
        last: &str,
    ) -> Result<ReceiverStream<ServerSseMessage>, UnknownEvent> {
        let (stream_id, number) = last.rsplit_once('/').ok_or(UnknownEvent)?;
        if session_of(stream_id) != Some(session) {
            return Err(UnknownEvent);
        }
        let mut number: u64 = number.parse().map_err(|_| UnknownEvent)?;
        let mut latest = {
            let kept = self.kept();
            kept.streams.get(stream_id).ok_or(UnknownEvent)?.latest.subscribe()
        };
        let (events, stream_id) = (self.clone(), stream_id.to_owned());
        let (sender, receiver) = tokio::sync::mpsc::channel(REPLAY_MAX);
        tokio::spawn(async move {
            while let Some((later, is_over)) = {
                latest.mark_unchanged();
                events.after(&stream_id, number)
            } {
                for (at, message) in later {
                    number = at;
                    if sender.send(message).await.is_err() {
                        return;
                    }
                }
                if is_over {
                    return;
                }
                tokio::select! {
                    changed = latest.changed() => if changed.is_err() { return },
                    () = sender.closed() => return,
                }
            }
        });
        Ok(ReceiverStream::new(receiver))
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use rmcp::model::ErrorData;

    use super::*;

    fn event(text: String, is_answer: bool) -> ServerSseMessage {
        let error = ErrorData::internal_error(text, None);
        if is_answer {
            ServerSseMessage::from_message(ServerJsonRpcMessage::error(error, None))
        } else {
            ServerSseMessage::retry(std::time::Duration::from_secs(1))
        }
    }

    /// Holds EV1.
    #[tokio::test]
    async fn a_replay_begins_after_the_event_named_and_ends_with_the_answer() {
        let events = Events::default();
        let first = events.keep("s:1", &event("1".into(), false));
        let mut live = events.replay("s", &first).unwrap();
        let second = events.keep("s:1", &event("2".into(), false));
        assert_eq!(live.next().await.unwrap().event_id.as_deref(), Some(second.as_str()));
        let answer = events.keep("s:1", &event("3".into(), true));
        assert_eq!(live.next().await.unwrap().event_id.as_deref(), Some(answer.as_str()));
        assert!(live.next().await.is_none());
        let again: Vec<_> = events.replay("s", &second).unwrap().collect().await;
        assert_eq!(again.len(), 1);
        assert_eq!(events.replay("s", &answer).unwrap().count().await, 0);
        assert!(events.is_last(&answer) && !events.is_last(&second));
        assert!(!events.is_last("s:gone/1") && !events.is_last("garbage"));
        assert!(events.replay("s", "s:gone/1").is_err());
        assert!(events.replay("s", "garbage").is_err());
    }

    /// Holds EV2.
    #[tokio::test]
    async fn a_stream_is_replayed_in_its_own_session_alone() {
        let events = Events::default();
        let first = events.keep(&stream_name("s"), &event("1".into(), false));
        assert!(events.replay("s", &first).is_ok());
        for other in ["", "t", "s:", "ss"] {
            assert!(events.replay(other, &first).is_err(), "{other}");
        }
    }

    /// Holds EV3.
    #[tokio::test]
    async fn a_replay_ends_where_nothing_more_will_come() {
        let events = Events::default();
        let names = ["s:cancelled", "s:gone"];
        let firsts = names.map(|it| events.keep(it, &event("1".into(), false)));
        let replays = [0, 1].map(|at| events.replay("s", &firsts[at]).unwrap());
        events.end(names[0]);
        let lost = ErrorData::internal_error("gone", None);
        events.answer(names[1], ServerJsonRpcMessage::error(lost.clone(), None));
        let [cancelled, gone] = replays.map(|it| it.count());
        assert_eq!((cancelled.await, gone.await), (0, 1));
        assert!(events.is_last(&firsts[0]) && !events.is_last(&firsts[1]));
        // Nobody knows an event of a stream that has none.
        events.answer("s:other", ServerJsonRpcMessage::error(lost, None));
        events.end("s:other");
        assert_eq!(events.streams(), 2);
    }

    #[tokio::test]
    async fn a_stream_that_is_waited_for_outlives_those_that_were_answered() {
        let events = Events::default();
        let first = events.keep("s:waits", &event("1".into(), false));
        for number in 0..STREAMS_MAX + 10 {
            events.keep(&format!("s:{number}"), &event(String::new(), true));
        }
        let replayed = events.replay("s", &first).unwrap();
        let answer = events.keep("s:waits", &event("2".into(), true));
        let ids: Vec<_> = replayed.map(|it| it.event_id.unwrap()).collect().await;
        assert_eq!((ids, events.streams()), (vec![answer], STREAMS_MAX));
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded() {
        let events = Events::default();
        for _ in 0..EVENTS_PER_STREAM_MAX + 10 {
            events.keep("long", &event(String::new(), false));
        }
        assert_eq!(events.kept().streams["long"].events.len(), EVENTS_PER_STREAM_MAX);
        let mib = "x".repeat(1024 * 1024);
        for number in 0..40 {
            events.keep(&format!("s{number}"), &event(mib.clone(), true));
        }
        assert!(events.kept().bytes <= BYTES_MAX);
        for number in 0..STREAMS_MAX + 10 {
            events.keep(&format!("t{number}"), &event("".into(), true));
        }
        assert_eq!(events.kept().streams.len(), STREAMS_MAX);
        assert_eq!(events.kept().order.len(), STREAMS_MAX);
    }
}
