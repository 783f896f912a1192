//! Sessions of clients that speak a version of MCP from before 2026-07-28.
//!
//! Their number is bounded: the one that has been idle longest gives way, and is taken up again
//! where its client left it when the client returns. What each client said when it began is
//! kept in a small file, so that a session also outlives the node's process: a client that is
//! told its session is gone gives the server up, often for good.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::Arc,
};

use futures::{Stream, StreamExt as _, future::ready, stream::once};
use parking_lot::{Mutex, MutexGuard};
use rmcp::{
    model::{
        ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorData, Extensions,
        GetExtensions as _, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
    },
    transport::streamable_http_server::session::{
        RestoreOutcome, ServerSseMessage, SessionId, SessionManager,
    },
};

use tasuki_proto::id::TokenId;
use tokio_util::sync::CancellationToken;

use super::{
    events::{Events, StreamName, UnknownEvent, ends_stream, stream_name, stream_of},
    service::ConnectionGuard,
    session_streams::{SessionEnded, SessionStreams, SessionTransport, is_of_own_stream},
    write_ack::{Fate, Resumable, Resumed, WriteAck},
};
use crate::{
    mcp::{address::Address, notices::SubscriptionRegistry, tools::label},
    role::player::Ended,
};

/// Sessions of one address in memory: each holds a task and a queue.
const SESSIONS_MAX: usize = 256;

/// Answers of one session that were not read yet and can be taken back.
const AHEAD_MAX: usize = 256;

pub(super) struct Sessions {
    events: Events,
    doors: SubscriptionRegistry,
    known: Mutex<Known>,
    owners: Owners,
}

/// The token that each session in memory was begun with, where tokens are asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct Owners(Arc<Mutex<BTreeMap<String, TokenId>>>);

impl Owners {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, TokenId>> {
        self.0.lock()
    }

    pub(super) fn of(&self, id: &str) -> Option<TokenId> {
        self.all().get(id).cloned()
    }
}

#[derive(Debug, Default)]
struct Known {
    /// Counts uses; the order of use is all that is asked.
    clock: u64,
    sessions: BTreeMap<SessionId, Session>,
}

#[derive(Debug)]
struct Session {
    streams: Arc<SessionStreams>,
    used: u64,
    /// Empty when it was taken up again: its client's next call says it.
    client: String,
    /// It was begun before this process, and its client has not been introduced anew.
    is_restoring: bool,
    /// One more for each stream that is open.
    open: Arc<()>,
    asked: Asked,
    /// Cancelled when it is closed, so that its calls end with it.
    gone: CancellationToken,
}

/// A session's requests.
#[derive(Debug, Clone, Default)]
struct Asked(Arc<Mutex<Requests>>);

#[derive(Debug, Default)]
struct Requests {
    /// The ids of those that are not answered, and whose streams are open.
    open: HashSet<RequestId>,
    /// The answers that were not read yet, of those too whose streams broke; the oldest first. Their
    /// number is bounded: of those that broke the oldest goes first, and beside so many that did not
    /// no request is taken.
    ahead: VecDeque<Ahead>,
}

/// An answer that is to come. Its request's id may be in use again before it does.
#[derive(Debug)]
struct Ahead {
    stream: StreamName,
    id: RequestId,
    fate: Fate,
    resumable: Resumable,
    /// Its stream did not break.
    is_open: bool,
}

/// Why a request is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum NotTaken {
    /// One with this id is not answered yet, and only one of the two would be.
    #[error("a request with this id is pending; the request was not accepted")]
    Twice,
    #[error(
        "{AHEAD_MAX} requests of this session are pending; this one was not accepted. Wait until \
         one is answered"
    )]
    TooMany,
}

/// An id in use until dropped.
#[derive(Debug)]
struct Asking {
    asked: Asked,
    id: RequestId,
    stream: StreamName,
}

impl Asked {
    fn all(&self) -> MutexGuard<'_, Requests> {
        self.0.lock()
    }

    fn begin(
        &self,
        id: &RequestId,
        stream: &StreamName,
        ack: Option<&WriteAck>,
    ) -> Result<Asking, NotTaken> {
        let mut all = self.all();
        if all.open.contains(id) {
            return Err(NotTaken::Twice);
        }
        if AHEAD_MAX <= all.ahead.len() {
            let broken = all.ahead.iter().position(|it| !it.is_open);
            all.ahead.remove(broken.ok_or(NotTaken::TooMany)?);
        }
        all.open.insert(id.clone());
        let (stream, id) = (Arc::clone(stream), id.clone());
        all.ahead.push_back(Ahead {
            stream: stream.clone(),
            id: id.clone(),
            fate: ack.map(|it| it.fate().clone()).unwrap_or_default(),
            resumable: ack.map(WriteAck::resumable).unwrap_or_default(),
            is_open: true,
        });
        Ok(Asking { asked: self.clone(), id, stream })
    }

    /// A stream is resumed. `None`: its answer was read, or waits to be.
    fn resume(&self, stream: &str) -> Option<Resumed> {
        let all = self.all();
        all.ahead.iter().find(|it| *it.stream == *stream)?.resumable.resume()
    }

    /// The answer on a stream is being read. False: its request was taken back.
    fn give(&self, stream: &str) -> bool {
        let mut all = self.all();
        let at = all.ahead.iter().position(|it| *it.stream == *stream);
        let given = at.and_then(|at| all.ahead.remove(at));
        drop(all);
        given.inspect(|it| _ = it.fate.give()).is_some()
    }

    /// The client took a request back.
    fn disown(&self, id: &RequestId) {
        let mut disowned = Vec::new();
        self.all().ahead.retain(|it| {
            let is_kept = it.id != *id;
            if !is_kept {
                disowned.push(it.fate.clone());
            }
            is_kept
        });
        disowned.iter().for_each(Fate::disown);
    }

    /// The client takes back all that was not answered.
    fn disown_all(&self) {
        let ahead = std::mem::take(&mut self.all().ahead);
        ahead.iter().for_each(|it| it.fate.disown());
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let mut all = self.asked.all();
        all.open.remove(&self.id);
        let own = all.ahead.iter_mut().find(|it| it.stream == self.stream);
        own.into_iter().for_each(|it| it.is_open = false);
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum SessionsError {
    #[error("{SESSIONS_MAX} sessions are open and none is idle")]
    Full,
    #[error("there is no such session")]
    Unknown,
    #[error(transparent)]
    Ended(#[from] SessionEnded),
    #[error(transparent)]
    Event(#[from] UnknownEvent),
}

impl Sessions {
    pub(super) fn new(doors: SubscriptionRegistry, owners: Owners) -> Self {
        Self { events: Events::default(), doors, known: Mutex::default(), owners }
    }

    /// Those in memory.
    pub(super) fn count(&self) -> usize {
        self.known().sessions.len()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    /// Notes that a session is used, and keeps it from giving way for as long as the result
    /// lives.
    fn used(&self, id: &SessionId) -> Option<Arc<()>> {
        let mut known = self.known();
        known.clock += 1;
        let clock = known.clock;
        let session = known.sessions.get_mut(id)?;
        session.used = clock;
        Some(Arc::clone(&session.open))
    }

    /// The client that a session began with; empty: not known.
    pub(super) fn client(&self, id: &str) -> String {
        self.known().sessions.get(id).map(|session| session.client.clone()).unwrap_or_default()
    }

    /// Whether requests of this session can be taken. One that is being restored is there, but
    /// a request would be taken for its introduction.
    pub(super) fn is_ready(&self, id: &str) -> bool {
        self.known().sessions.get(id).is_some_and(|session| !session.is_restoring)
    }

    /// Whether a client that resumes after this event has had all of its stream.
    pub(super) fn is_last(&self, event_id: &str) -> bool {
        self.events.is_last(event_id)
    }

    /// Whether a session in memory was begun with this token; `None`: it is not in memory.
    pub(super) fn is_of(&self, id: &str, token: Option<&TokenId>) -> Option<bool> {
        let is_there = self.known().sessions.contains_key(id);
        is_there.then(|| self.owners.of(id).as_ref() == token)
    }

    /// Ends those begun with a token that is no longer good.
    pub(super) async fn end_those(&self, is_good: &impl Fn(&TokenId) -> bool) {
        let all = self.owners.all().clone();
        for (id, _) in all.into_iter().filter(|(_, token)| !is_good(token)) {
            if let Err(error) = self.close_session(&id.into()).await {
                tracing::debug!(%error, "a session of a token that is gone");
            }
        }
    }

    /// Ends all of them.
    pub(super) async fn end_all(&self) {
        let all: Vec<SessionId> = self.known().sessions.keys().cloned().collect();
        for id in all {
            if let Err(error) = self.close_session(&id).await {
                tracing::debug!(%error, "a session that is to end");
            }
        }
    }

    fn asked(&self, id: &SessionId) -> Option<Asked> {
        self.known().sessions.get(id).map(|it| it.asked.clone())
    }

    fn streams(&self, id: &SessionId) -> Result<Arc<SessionStreams>, SessionsError> {
        let known = self.known();
        known.sessions.get(id).map(|it| Arc::clone(&it.streams)).ok_or(SessionsError::Unknown)
    }

    fn begin(&self, id: SessionId, is_restoring: bool) -> SessionTransport {
        self.doors.build(&id);
        let (streams, transport) = SessionStreams::open(Arc::clone(&id), self.events.clone());
        let mut known = self.known();
        known.clock += 1;
        let session = Session {
            streams,
            used: known.clock,
            client: String::new(),
            is_restoring,
            open: Arc::default(),
            asked: Asked::default(),
            gone: CancellationToken::new(),
        };
        known.sessions.insert(id, session);
        transport
    }

    async fn make_room(&self) -> Result<(), SessionsError> {
        let idlest = {
            let known = self.known();
            if known.sessions.len() < SESSIONS_MAX {
                return Ok(());
            }
            known
                .sessions
                .iter()
                .filter(|(_, session)| Arc::strong_count(&session.open) == 1)
                .min_by_key(|(_, session)| session.used)
                .map(|(id, _)| Arc::clone(id))
        };
        let idlest = idlest.ok_or(SessionsError::Full)?;
        self.close_session(&idlest).await
    }
}

impl SessionManager for Sessions {
    type Error = SessionsError;
    type Transport = SessionTransport;

    async fn create_session(&self) -> Result<(SessionId, SessionTransport), SessionsError> {
        self.make_room().await?;
        let id: SessionId = uuid::Uuid::new_v4().to_string().into();
        Ok((Arc::clone(&id), self.begin(id, false)))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionsError> {
        if let JsonRpcMessage::Request(request) = &message
            && let ClientRequest::InitializeRequest(initialize) = &request.request
            && let Some(session) = self.known().sessions.get_mut(id)
        {
            let parts = initialize.extensions.get::<http::request::Parts>();
            let address = parts.map(Address::of).unwrap_or_default();
            session.client = label(Some(&initialize.params.client_info));
            if let Some(token) = address.token {
                self.owners.all().insert(id.to_string(), token);
            }
        }
        Ok(self.streams(id)?.introduce(message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionsError> {
        Ok(self.known().sessions.contains_key(id))
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionsError> {
        let closed = self.known().sessions.remove(id);
        self.owners.all().remove(&**id);
        self.doors.remove(id);
        if let Some(it) = &closed {
            // First, so that nothing that is answered now counts as read; the streams would end as
            // if it were.
            it.gone.cancel();
            it.asked.disown_all();
            it.streams.end();
        }
        Ok(())
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        let used = self.used(id);
        let known = self.known().sessions.get(id).map(|it| (it.asked.clone(), it.gone.clone()));
        let (asked, gone) = known.unzip();
        if let (JsonRpcMessage::Request(request), Some(gone)) = (&mut message, gone) {
            let line = ConnectionGuard { what: Ended::Stream, gone };
            request.request.extensions_mut().insert(line);
        }
        let name = stream_name(id);
        let mut asking = match (&message, asked) {
            (JsonRpcMessage::Request(request), Some(asked)) => {
                match asked.begin(&request.id, &name, ack(request.request.extensions())) {
                    Ok(asking) => Some(asking),
                    Err(why) => return Ok(not_taken(why, request.id.clone()).left_stream()),
                }
            }
            (_, _) => None,
        };
        let stream = self.streams(id)?.ask(message, Arc::clone(&name)).await?;
        let stream = stream.filter(move |event| {
            // Free again before the client can have read the answer.
            let is_told =
                !ends_stream(event) || asking.take().is_none_or(|it| it.asked.give(&name));
            ready(is_told)
        });
        Ok(kept_with(stream, used).right_stream())
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionsError> {
        self.used(id);
        if let JsonRpcMessage::Notification(it) = &message
            && let ClientNotification::CancelledNotification(cancelled) = &it.notification
            && let Some(request) = &cancelled.params.request_id
            && let Some(asked) = self.asked(id)
        {
            asked.disown(request);
        }
        let is_introduced = matches!(
            &message,
            JsonRpcMessage::Notification(it)
                if matches!(it.notification, ClientNotification::InitializedNotification(_))
        );
        self.streams(id)?.say(message).await?;
        if is_introduced && let Some(session) = self.known().sessions.get_mut(id) {
            session.is_restoring = false;
        }
        Ok(())
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        let used = self.used(id);
        let stream = self.streams(id)?.listen()?;
        Ok(kept_with(stream, (used, self.doors.open(id))))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        let used = self.used(id);
        let is_standalone = is_of_own_stream(&last_event_id);
        let asked = self.asked(id);
        let stream = self.events.replay(id, &last_event_id)?;
        let mut resumed = asked.as_ref().and_then(|it| it.resume(stream_of(&last_event_id)));
        let mut is_given = false;
        // The answer is written when the connection asks for what comes after it.
        let stream = stream.map(Some).chain(once(ready(None))).filter_map(move |event| {
            if let Some(event) = event.as_ref().filter(|it| ends_stream(it))
                && let (Some(asked), Some(id)) = (&asked, &event.event_id)
            {
                is_given = asked.give(stream_of(id));
            }
            if event.is_none() && is_given {
                resumed.take().into_iter().for_each(Resumed::written);
            }
            ready(event)
        });
        let door = is_standalone.then(|| self.doors.open(id)).flatten();
        Ok(kept_with(stream, (used, door)))
    }

    async fn restore_session(
        &self,
        id: SessionId,
    ) -> Result<RestoreOutcome<SessionTransport>, SessionsError> {
        self.make_room().await?;
        if self.known().sessions.contains_key(&id) {
            return Ok(RestoreOutcome::AlreadyPresent);
        }
        Ok(RestoreOutcome::Restored(self.begin(id, true)))
    }

    // `event_store` stays `None`: requests without a session are cancelled when their client
    // goes away, and with a store they would not be.
}

/// What is done once a request with these extensions is answered.
fn ack(extensions: &Extensions) -> Option<&WriteAck> {
    extensions.get::<http::request::Parts>()?.extensions.get()
}

/// What is said to a request that is not taken.
fn not_taken(
    why: NotTaken,
    id: RequestId,
) -> impl Stream<Item = ServerSseMessage> + Send + Sync + 'static {
    let error = ErrorData::invalid_request(why.to_string(), None);
    // Nothing comes after it, so its event's id is of no stream that could be resumed.
    let refusal = ServerSseMessage::new("refused/1", JsonRpcMessage::error(error, Some(id)));
    futures::stream::iter([refusal])
}

/// The stream, and with it whatever must live as long.
fn kept_with<S, G>(stream: S, guard: G) -> impl Stream<Item = ServerSseMessage> + Send + Sync
where
    S: Stream<Item = ServerSseMessage> + Send + Sync + 'static,
    G: Send + Sync + 'static,
{
    stream.map(move |message| {
        let _held = &guard;
        message
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> RequestId {
        RequestId::Number(number.try_into().unwrap())
    }

    fn stream(number: usize) -> StreamName {
        format!("s:{number}").into()
    }

    #[test]
    fn no_request_takes_the_place_of_one_that_somebody_waits_for() {
        let asked = Asked::default();
        let begin = |number, stream_of| asked.begin(&id(number), &stream(stream_of), None);
        let live: Vec<Asking> = (0..AHEAD_MAX).map(|it| begin(it, it).unwrap()).collect();
        assert_eq!(begin(AHEAD_MAX, AHEAD_MAX).unwrap_err(), NotTaken::TooMany);
        assert_eq!(begin(0, AHEAD_MAX).unwrap_err(), NotTaken::Twice);
        drop(live);

        // One id is used again and again, and each of its streams breaks.
        let asked = Asked::default();
        let begin = |number, stream_of| asked.begin(&id(number), &stream(stream_of), None);
        let _live = begin(0, 0).unwrap();
        for number in 1..3 * AHEAD_MAX {
            drop(begin(1, number).unwrap());
        }
        assert!(asked.give(&stream(0)));
        assert_eq!(asked.all().ahead.len(), AHEAD_MAX - 1);
    }
}
