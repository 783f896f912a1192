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
        ClientJsonRpcMessage, ClientNotification, ErrorData, GetExtensions as _, GetMeta as _,
        JsonRpcMessage, ProgressToken, RequestId, ServerJsonRpcMessage, ServerNotification,
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

/// What is said to a client that comes back for an answer that there will not be.
const SESSION_LOST: &str = "the session was ended before this request was answered; it may or may \
                            not have taken effect. Check the state before you call again";

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
    fn take_back(&mut self, id: &RequestId) -> Vec<(RequestId, Asked)> {
        let taken = self.asked.extract_if(.., |_, it| it.id == *id);
        taken.map(|(number, asked)| (RequestId::Number(number), asked)).collect()
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
            for (number, asked) in taken {
                self.events.end(&asked.stream);
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
        state.own.clear();
        for Asked { id, stream, .. } in std::mem::take(&mut state.asked).into_values() {
            let lost = ErrorData::internal_error(SESSION_LOST, None);
            self.events.answer(&stream, JsonRpcMessage::error(lost, Some(id)));
        }
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
mod tests;
