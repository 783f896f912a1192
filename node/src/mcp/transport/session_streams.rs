//! The messages of one session: what its client says, in order, and the streams on which the
//! server's messages leave.
//!
//! A message goes to the stream of the request that it belongs to, or to the session's own. There is
//! no task and no queue between: whoever sends puts it on the stream.
//!
//! **Invariants**
//! - Each message is kept among the [events](Events) before it is on a stream.
//! - Messages of a session leave one after the other; a stream that is not read holds them up.
//! - The answer to a request that was taken back goes nowhere.
//! - The server knows each request by a number that no other of the session has. Its client may use
//!   an id again once the stream of an unanswered request broke; each of the two has its own answer.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc, time::Duration};

use futures::Stream;
use parking_lot::{Mutex, MutexGuard};
use rmcp::{
    RoleServer,
    model::{
        ClientJsonRpcMessage, ClientNotification, GetExtensions as _, GetMeta as _, JsonRpcMessage,
        ProgressToken, RequestId, ServerJsonRpcMessage, ServerNotification,
    },
    service::OriginatingRequestId,
    transport::{
        Transport,
        streamable_http_server::session::{ServerSseMessage, SessionId},
    },
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_stream::wrappers::ReceiverStream;

use super::events::{Events, StreamName, stream_of};

/// Messages on their way to one client, or to the server. A full queue holds up the whole session.
const QUEUE_MAX: usize = 256;

/// Streams of a session's own that are open at once; the second oldest gives way.
const OWN_STREAMS_MAX: usize = 33;

/// A session is ended when its client does not introduce itself for this long.
const INTRODUCTION_MAX: Duration = Duration::from_secs(60);

/// A silent session is ended after this long. Waits are silent, so it is far above any hold.
const IDLE: Duration = Duration::from_secs(24 * 60 * 60);

/// What comes after a session's id in the name of its own stream.
const OWN: &str = ":common";

/// The session's server is gone, or its client closed it.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the session has ended")]
pub(super) struct SessionEnded;

#[derive(Debug)]
pub(super) struct SessionStreams {
    id: SessionId,
    events: Events,
    state: Mutex<State>,
    /// Held by the message that is leaving.
    leaving: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct State {
    /// To the server; `None` once it is over.
    said: Option<mpsc::Sender<Box<ClientJsonRpcMessage>>>,
    /// Who waits for the answer to the introduction.
    introducing: Option<oneshot::Sender<ServerJsonRpcMessage>>,
    /// Of requests that are not answered, by the numbers that the server knows them by.
    asked: BTreeMap<i64, Asked>,
    /// Of the newest.
    number: i64,
    /// The session's own. What it says goes to the first that is open.
    own: Vec<Outlet>,
}

type Outlet = mpsc::Sender<ServerSseMessage>;

#[derive(Debug)]
struct Asked {
    /// Its client's.
    id: RequestId,
    stream: StreamName,
    outlet: Outlet,
    progress: Option<ProgressToken>,
    /// What the server asks its client meanwhile.
    questions: Vec<RequestId>,
}

/// Where a message leaves.
struct Route {
    stream: StreamName,
    outlet: Option<Outlet>,
}

/// The server's side of a session.
#[derive(Debug)]
pub(super) struct SessionTransport {
    heard: mpsc::Receiver<Box<ClientJsonRpcMessage>>,
    is_introduced: bool,
    streams: Arc<SessionStreams>,
}

impl State {
    /// Notes a request, and returns what the server knows it by.
    fn note(&mut self, asked: Asked) -> RequestId {
        self.number += 1;
        self.asked.insert(self.number, asked);
        RequestId::Number(self.number)
    }

    /// Takes the requests back to which the client gave this id.
    fn take_back(&mut self, id: &RequestId) -> Vec<RequestId> {
        let taken = self.asked.extract_if(.., |_, it| it.id == *id);
        taken.map(|(number, _)| RequestId::Number(number)).collect()
    }

    /// The request that a notification is about.
    fn asked_of(&self, notification: &ServerNotification) -> Option<&Asked> {
        if let ServerNotification::ProgressNotification(it) = notification {
            let token = Some(&it.params.progress_token);
            let all = || self.asked.values().filter(|it| it.progress.as_ref() == token);
            // A client whose stream broke may have asked once more with the same.
            all().find(|it| !it.outlet.is_closed()).or_else(|| all().next())
        } else if let ServerNotification::CancelledNotification(it) = notification {
            let question = it.params.request_id.as_ref()?;
            self.asked.values().find(|it| it.questions.contains(question))
        } else {
            None
        }
    }
}

impl SessionStreams {
    pub(super) fn open(id: SessionId, events: Events) -> (Arc<Self>, SessionTransport) {
        let (said, heard) = mpsc::channel(QUEUE_MAX);
        let state = State {
            said: Some(said),
            introducing: None,
            asked: BTreeMap::new(),
            number: 0,
            own: Vec::new(),
        };
        let (state, leaving) = (Mutex::new(state), tokio::sync::Mutex::default());
        let streams = Arc::new(Self { id, events, state, leaving });
        let transport =
            SessionTransport { heard, is_introduced: false, streams: Arc::clone(&streams) };
        (streams, transport)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Has the client introduced, and returns what the server answers.
    pub(super) async fn introduce(
        &self,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionEnded> {
        let (answer, answered) = oneshot::channel();
        self.state().introducing = Some(answer);
        self.say(message).await?;
        answered.await.map_err(|_| SessionEnded)
    }

    /// Passes on what its client says.
    pub(super) async fn say(&self, message: ClientJsonRpcMessage) -> Result<(), SessionEnded> {
        if let JsonRpcMessage::Notification(it) = &message
            && let ClientNotification::CancelledNotification(cancelled) = &it.notification
            && let Some(id) = &cancelled.params.request_id
        {
            let taken = self.state().take_back(id);
            for number in taken {
                let mut cancelled = cancelled.clone();
                cancelled.params.request_id = Some(number);
                self.pass(JsonRpcMessage::notification(cancelled.into())).await?;
            }
            return Ok(());
        }
        let answered = match &message {
            JsonRpcMessage::Response(it) => Some(&it.id),
            JsonRpcMessage::Error(it) => it.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        if let Some(question) = answered {
            let mut state = self.state();
            state.asked.values_mut().for_each(|it| it.questions.retain(|it| it != question));
        }
        self.pass(message).await
    }

    async fn pass(&self, message: ClientJsonRpcMessage) -> Result<(), SessionEnded> {
        let said = self.state().said.clone().ok_or(SessionEnded)?;
        said.send(Box::new(message)).await.map_err(|_| SessionEnded)
    }

    /// Passes on a request. Its stream has this name, and ends with its answer.
    pub(super) async fn ask(
        &self,
        mut message: ClientJsonRpcMessage,
        stream: StreamName,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + use<>, SessionEnded> {
        let (outlet, events) = mpsc::channel(QUEUE_MAX);
        if let JsonRpcMessage::Request(request) = &mut message {
            let progress = request.request.get_meta().get_progress_token();
            let id = request.id.clone();
            let asked = Asked { id, stream, outlet, progress, questions: Vec::new() };
            request.id = self.state().note(asked);
        }
        self.pass(message).await?;
        Ok(ReceiverStream::new(events))
    }

    /// What the server says to no request.
    pub(super) fn listen(
        &self,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + use<>, SessionEnded> {
        let (outlet, stream) = mpsc::channel(QUEUE_MAX);
        let mut state = self.state();
        state.said.as_ref().ok_or(SessionEnded)?;
        state.own.retain(|it| !it.is_closed());
        if OWN_STREAMS_MAX <= state.own.len() {
            state.own.remove(1);
        }
        state.own.push(outlet);
        Ok(ReceiverStream::new(stream))
    }

    /// Ends it for both sides.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.said = None;
        state.introducing = None;
        state.asked.clear();
        state.own.clear();
    }

    /// Sends what the server says.
    async fn send(&self, message: ServerJsonRpcMessage) -> Result<(), SessionEnded> {
        let _alone = self.leaving.lock().await;
        if self.state().said.is_none() {
            // Nobody is left to read an answer. Who asks or tells something learns that it is over.
            return if is_answer(&message) { Ok(()) } else { Err(SessionEnded) };
        }
        let Some(mut message) = self.introduced(message)? else { return Ok(()) };
        let Some(Route { stream, outlet }) = self.route(&mut message) else { return Ok(()) };
        let mut event = ServerSseMessage::from_message(message);
        event.event_id = Some(self.events.keep(&stream, &event));
        if let Some(outlet) = outlet {
            // Whoever read it is gone, and resumes, or does not.
            let _ = outlet.send(event).await;
        }
        Ok(())
    }

    /// Gives the answer to the introduction to whoever waits for it, and anything else back.
    fn introduced(
        &self,
        message: ServerJsonRpcMessage,
    ) -> Result<Option<ServerJsonRpcMessage>, SessionEnded> {
        if !is_answer(&message) {
            return Ok(Some(message));
        }
        let Some(introducing) = self.state().introducing.take() else { return Ok(Some(message)) };
        introducing.send(message).map(|()| None).map_err(|_| SessionEnded)
    }

    /// Where a message leaves; `None`: nobody wants it any more. An answer gets its client's id.
    fn route(&self, message: &mut ServerJsonRpcMessage) -> Option<Route> {
        let mut state = self.state();
        let answers = match message {
            JsonRpcMessage::Response(it) => Some(&mut it.id),
            JsonRpcMessage::Error(it) => it.id.as_mut(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        if let Some(answers) = answers {
            let Asked { id, stream, outlet, .. } = state.asked.remove(&number(answers)?)?;
            *answers = id;
            return Some(Route { stream, outlet: Some(outlet) });
        }
        let asked = match message {
            JsonRpcMessage::Request(it) => {
                let of = it.request.extensions().get::<OriginatingRequestId>();
                let asked = of.and_then(|of| state.asked.get_mut(&number(&of.0)?));
                asked.map(|asked| {
                    asked.questions.push(it.id.clone());
                    &*asked
                })
            }
            JsonRpcMessage::Notification(it) => state.asked_of(&it.notification),
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => None,
        };
        Some(match asked {
            Some(it) => Route { stream: Arc::clone(&it.stream), outlet: Some(it.outlet.clone()) },
            None => Route {
                stream: format!("{}{}", self.id, OWN).into(),
                outlet: state.own.iter().find(|it| !it.is_closed()).cloned(),
            },
        })
    }
}

/// Whether a message is the last on the stream of a request.
pub(super) fn is_answer(message: &ServerJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))
}

/// The number that the server knows a request by; `None`: it is no request of a client.
fn number(id: &RequestId) -> Option<i64> {
    match id {
        RequestId::Number(number) => Some(*number),
        RequestId::String(_) => None,
    }
}

/// Whether an event is of a session's own stream.
pub(super) fn is_of_own_stream(event_id: &str) -> bool {
    stream_of(event_id).ends_with(OWN)
}

impl Transport<RoleServer> for SessionTransport {
    type Error = SessionEnded;

    fn name() -> Cow<'static, str> {
        "session".into()
    }

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), SessionEnded>> + Send + 'static {
        let streams = Arc::clone(&self.streams);
        async move { streams.send(message).await }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let patience = if self.is_introduced { IDLE } else { INTRODUCTION_MAX };
        let message = timeout(patience, self.heard.recv()).await.ok().flatten()?;
        self.is_introduced = true;
        Some(*message)
    }

    async fn close(&mut self) -> Result<(), SessionEnded> {
        self.streams.end();
        Ok(())
    }
}

impl Drop for SessionTransport {
    fn drop(&mut self) {
        self.streams.end();
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use serde_json::json;
    use tasuki_proto::limits::HOLD_MS_MAX;

    use super::{super::events::stream_name, *};

    fn client(message: serde_json::Value) -> ClientJsonRpcMessage {
        serde_json::from_value(message).unwrap()
    }

    fn server(message: serde_json::Value) -> ServerJsonRpcMessage {
        serde_json::from_value(message).unwrap()
    }

    fn call(id: u64) -> ClientJsonRpcMessage {
        client(json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": "t", "_meta": { "progressToken": id + 100 } },
        }))
    }

    fn answer(id: u64) -> ServerJsonRpcMessage {
        server(json!({ "jsonrpc": "2.0", "id": id, "result": { "content": [] } }))
    }

    fn progress(id: u64) -> ServerJsonRpcMessage {
        server(json!({
            "jsonrpc": "2.0", "method": "notifications/progress",
            "params": { "progressToken": id + 100, "progress": 1 },
        }))
    }

    fn changed() -> ServerJsonRpcMessage {
        server(json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }))
    }

    fn open() -> (Arc<SessionStreams>, SessionTransport, Events) {
        let events = Events::default();
        let (streams, transport) = SessionStreams::open("s".into(), events.clone());
        (streams, transport, events)
    }

    async fn ask(
        streams: &SessionStreams,
        id: u64,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Unpin + use<>, SessionEnded> {
        streams.ask(call(id), stream_name("s")).await
    }

    /// What is on a stream by now, and whether it has ended.
    fn read(stream: &mut (impl Stream<Item = ServerSseMessage> + Unpin)) -> (Vec<String>, bool) {
        let mut read = Vec::new();
        loop {
            match futures::FutureExt::now_or_never(stream.next()) {
                Some(Some(event)) => read.push(event.event_id.unwrap()),
                Some(None) => return (read, true),
                None => return (read, false),
            }
        }
    }

    /// A silent wait must not be taken for a dead session.
    #[test]
    fn a_session_outlives_any_hold() {
        assert!(Duration::from_millis(HOLD_MS_MAX) < IDLE);
    }

    #[tokio::test]
    async fn an_answer_ends_its_own_stream_and_no_other() {
        let (streams, mut transport, _) = open();
        let mut first = ask(&streams, 1).await.unwrap();
        let mut second = ask(&streams, 2).await.unwrap();
        let mut own = streams.listen().unwrap();
        for message in [progress(2), answer(1), changed(), progress(1)] {
            transport.send(message).await.unwrap();
        }
        let ((first, is_over), (second, is_open)) = (read(&mut first), read(&mut second));
        assert!(first.len() == 1 && is_over && first[0].ends_with("/1"), "{first:?}");
        assert!(second.len() == 1 && !is_open, "{second:?}");
        // Progress of what was answered is nobody's.
        let (own, _) = read(&mut own);
        assert_eq!(own, ["s:common/1", "s:common/2"]);
        assert!(own.iter().all(|it| is_of_own_stream(it)) && !is_of_own_stream(&first[0]));
        assert!(matches!(transport.receive().await, Some(JsonRpcMessage::Request(_))));
    }

    #[tokio::test]
    async fn what_is_taken_back_is_not_answered() {
        let (streams, mut transport, _) = open();
        let mut stream = ask(&streams, 1).await.unwrap();
        let mut own = streams.listen().unwrap();
        let cancelled = json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 },
        });
        streams.say(client(cancelled)).await.unwrap();
        transport.send(answer(1)).await.unwrap();
        assert_eq!(read(&mut stream), (vec![], true));
        assert_eq!(read(&mut own), (vec![], false));
        assert!(matches!(transport.receive().await, Some(JsonRpcMessage::Request(_))));
        assert!(matches!(transport.receive().await, Some(JsonRpcMessage::Notification(_))));
    }

    /// What the server hears, as JSON.
    async fn heard(transport: &mut SessionTransport) -> serde_json::Value {
        serde_json::to_value(transport.receive().await.unwrap()).unwrap()
    }

    #[tokio::test]
    async fn an_id_that_is_used_again_has_an_answer_for_each() {
        let (streams, mut transport, events) = open();
        let (broken, name) = (streams.ask(call(7), stream_name("s")).await.unwrap(), "s:second");
        drop(broken);
        let mut second = Box::pin(streams.ask(call(7), name.into()).await.unwrap());
        let numbers = [heard(&mut transport).await, heard(&mut transport).await];
        let numbers = numbers.map(|it| it["id"].as_u64().unwrap());
        assert_ne!(numbers[0], numbers[1]);
        transport.send(answer(numbers[0])).await.unwrap();
        assert_eq!(read(&mut second), (vec![], false));
        transport.send(answer(numbers[1])).await.unwrap();
        assert_eq!(read(&mut second), (vec!["s:second/1".to_owned()], true));
        let told: Vec<_> = events.replay("s", "s:second/0").unwrap().collect().await;
        let told = serde_json::to_value(told[0].message.as_deref().unwrap()).unwrap();
        assert_eq!((told["id"].as_u64(), events.streams()), (Some(7), 2));
    }

    #[tokio::test]
    async fn an_id_that_is_taken_back_is_taken_back_for_each() {
        let (streams, mut transport, _) = open();
        for id in [7, 8, 7] {
            let _ = ask(&streams, id).await.unwrap();
        }
        let mut numbers = Vec::new();
        for _ in 0..3 {
            numbers.push(heard(&mut transport).await["id"].clone());
        }
        let cancelled = json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": { "requestId": 7, "reason": "enough" },
        });
        streams.say(client(cancelled)).await.unwrap();
        for number in [&numbers[0], &numbers[2]] {
            let params = json!({ "requestId": number, "reason": "enough" });
            assert_eq!(heard(&mut transport).await["params"], params);
        }
        assert_eq!(streams.state().asked.len(), 1);
    }

    #[tokio::test]
    async fn what_the_server_asks_and_takes_back_is_on_the_stream_of_its_request() {
        let (streams, mut transport, _) = open();
        let (mut first, mut second) =
            (ask(&streams, 1).await.unwrap(), ask(&streams, 2).await.unwrap());
        let question = |id: u64| {
            let mut question = server(json!({
                "jsonrpc": "2.0", "id": id, "method": "roots/list",
            }));
            let JsonRpcMessage::Request(it) = &mut question else { unreachable!() };
            let of = OriginatingRequestId(RequestId::Number(2));
            it.request.extensions_mut().insert(of);
            question
        };
        let taken_back = |id: u64| {
            server(json!({
                "jsonrpc": "2.0", "method": "notifications/cancelled",
                "params": { "requestId": id },
            }))
        };
        for message in [question(0), question(1), taken_back(1)] {
            transport.send(message).await.unwrap();
        }
        assert_eq!((read(&mut first).0.len(), read(&mut second).0.len()), (0, 3));
        let roots = json!({ "jsonrpc": "2.0", "id": 0, "result": { "roots": [] } });
        streams.say(client(roots)).await.unwrap();
        assert_eq!(streams.state().asked[&2].questions, [RequestId::Number(1)]);
    }

    #[tokio::test]
    async fn what_a_broken_stream_missed_is_kept() {
        let (streams, mut transport, events) = open();
        let stream = ask(&streams, 1).await.unwrap();
        drop(stream);
        transport.send(progress(1)).await.unwrap();
        transport.send(answer(1)).await.unwrap();
        let own = streams.listen().unwrap();
        let mut later = streams.listen().unwrap();
        drop(own);
        transport.send(changed()).await.unwrap();
        // The next of its own takes over.
        assert_eq!(read(&mut later), (vec!["s:common/1".to_owned()], false));
        assert_eq!(events.streams(), 2);
    }

    #[tokio::test]
    async fn the_introduction_is_answered_to_whoever_waits_for_it() {
        let (streams, mut transport, _) = open();
        let hello = json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": { "name": "c", "version": "1" },
            },
        });
        let serve = async {
            assert!(transport.receive().await.is_some());
            transport.send(answer(0)).await.unwrap();
        };
        let (answered, ()) = tokio::join!(streams.introduce(client(hello)), serve);
        assert!(matches!(answered, Ok(JsonRpcMessage::Response(_))));
    }

    #[tokio::test]
    async fn what_is_over_is_over_for_both_sides() {
        let (streams, mut transport, _) = open();
        let (mut stream, mut own) = (ask(&streams, 1).await.unwrap(), streams.listen().unwrap());
        streams.end();
        assert!(read(&mut stream).1 && read(&mut own).1);
        assert!(streams.say(call(2)).await.is_err() && streams.listen().is_err());
        // What was said before is still heard.
        assert!(transport.receive().await.is_some());
        assert!(transport.receive().await.is_none());
        // Nobody wants an answer any more; who asks or tells something learns that.
        assert!(transport.send(answer(1)).await.is_ok());
        assert!(transport.send(changed()).await.is_err());

        let (streams, transport, _) = open();
        drop(transport);
        assert!(ask(&streams, 1).await.is_err());
        assert!(streams.introduce(call(1)).await.is_err());
    }

    #[tokio::test]
    async fn streams_of_its_own_are_bounded() {
        let (streams, _transport, _) = open();
        let mut all: Vec<_> = (0..=OWN_STREAMS_MAX).map(|_| streams.listen().unwrap()).collect();
        let over: Vec<_> = all.iter_mut().map(|it| read(it).1).collect();
        assert_eq!(over.iter().position(|it| *it), Some(1));
        assert_eq!(over.iter().filter(|it| **it).count(), 1);
    }
}
