//! Calls that go on while their client asks its user.
//!
//! A server of before 2026-07-28 asks its user while its call is open. A client of 2026-07-28 is
//! answered with the question instead, and calls again with what its user said. Between the two, the
//! call is suspended here: nobody is connected to it.
//!
//! - Only the agent that made a call goes on with it, and only within [`SUSPENDED_FOR`].

#![expect(deprecated, reason = "servers and clients of earlier versions ask and log so")]

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use parking_lot::Mutex;
use rmcp::{
    ErrorData,
    model::{
        CallToolRequestParams, CallToolResponse, CreateMessageRequest, ElicitRequest, InputRequest,
        InputRequiredResult, InputResponses, LoggingMessageNotificationParam,
        ProgressNotificationParam, RequestMetaObject,
    },
};
use serde_json::Value;
use tasuki_proto::id::RoleId;
use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use crate::{
    gateway::{Asked, Caller, Told, ToolProvider},
    hex::hex,
    mcp::gateway::AgentCaller,
    role::player::Instance,
};

/// For a person to answer.
const SUSPENDED_FOR: Duration = Duration::from_secs(10 * 60);

/// Suspended calls of one role.
const SUSPENDED_PER_ROLE: usize = 16;

/// Progress and log messages that were not passed on yet. What is more is left out.
const EVENTS_MAX: usize = 64;

/// What the states of suspended calls begin with, and those of no server.
const STATE_PREFIX: &str = "tasuki.suspended.";

/// The name of the one question.
const QUESTION: &str = "question";

/// By what the client repeats with its answer.
#[derive(Default)]
pub(in crate::mcp) struct SuspendedCalls(Arc<Mutex<BTreeMap<String, Suspended>>>);

impl fmt::Debug for SuspendedCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SuspendedCalls").field(&self.0.lock().len()).finish()
    }
}

struct Suspended {
    role: RoleId,
    who: Instance,
    call: RunningCall,
    asks_model: bool,
    answer: oneshot::Sender<Result<Told, ErrorData>>,
    _expiry: AbortOnDropHandle<()>,
}

/// A call that goes on by itself until this is dropped.
pub(super) struct RunningCall {
    events: mpsc::Receiver<Event>,
    _task: AbortOnDropHandle<()>,
}

enum Event {
    Progress(ProgressNotificationParam),
    Log(LoggingMessageNotificationParam),
    Ask(Asked, oneshot::Sender<Result<Told, ErrorData>>),
    Done(Result<CallToolResponse, ErrorData>),
}

impl RunningCall {
    pub(super) fn start(
        provider: Arc<dyn ToolProvider>,
        role: RoleId,
        request: CallToolRequestParams,
        meta: RequestMetaObject,
    ) -> Self {
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let call = async move {
            let caller = DetachedCaller { meta, events: sender };
            let done = provider.call(&role, request, &caller).await;
            caller.events.send(Event::Done(done)).await.ok();
        };
        let task = tokio::spawn(call.in_current_span());
        Self { events, _task: AbortOnDropHandle::new(task) }
    }
}

/// Whoever follows the call, if anybody does.
struct DetachedCaller {
    meta: RequestMetaObject,
    events: mpsc::Sender<Event>,
}

#[async_trait]
impl Caller for DetachedCaller {
    fn meta(&self) -> RequestMetaObject {
        self.meta.clone()
    }

    async fn progress(&self, progress: ProgressNotificationParam) {
        self.events.try_send(Event::Progress(progress)).ok();
    }

    async fn log(&self, message: LoggingMessageNotificationParam) {
        self.events.try_send(Event::Log(message)).ok();
    }

    async fn ask(&self, what: Asked) -> Result<Told, ErrorData> {
        let gone = || ErrorData::internal_error("the calling client is gone", None);
        let (answer, answered) = oneshot::channel();
        self.events.send(Event::Ask(what, answer)).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

impl SuspendedCalls {
    /// Follows a call until it is over or asks.
    pub(super) async fn follow(
        &self,
        mut call: RunningCall,
        (role, who): (&RoleId, &Instance),
        caller: &AgentCaller<'_>,
    ) -> Result<CallToolResponse, ErrorData> {
        while let Some(event) = call.events.recv().await {
            match event {
                Event::Progress(progress) => caller.progress(progress).await,
                Event::Log(message) => caller.log(message).await,
                Event::Done(done) => return done,
                Event::Ask(what, answer) => {
                    if let Err(why) =
                        caller.check_can_answer(&what).and_then(|()| self.check_room(role))
                    {
                        answer.send(Err(why)).ok();
                        continue;
                    }
                    return self.suspend(call, (role, who), what, answer);
                }
            }
        }
        Err(ErrorData::internal_error("the call was dropped", None))
    }

    fn check_room(&self, role: &RoleId) -> Result<(), ErrorData> {
        let own = self.0.lock().values().filter(|it| it.role == *role).count();
        let too_many = || {
            let why = format!("{SUSPENDED_PER_ROLE} calls of {role} already wait for their user");
            ErrorData::invalid_request(why, None)
        };
        (own < SUSPENDED_PER_ROLE).then_some(()).ok_or_else(too_many)
    }

    fn suspend(
        &self,
        call: RunningCall,
        (role, who): (&RoleId, &Instance),
        what: Asked,
        answer: oneshot::Sender<Result<Told, ErrorData>>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut state = [0; 16];
        getrandom::fill(&mut state)
            .map_err(|_| ErrorData::internal_error("the system's random source failed", None))?;
        let state = format!("{STATE_PREFIX}{}", hex(&state));
        let (asks_model, question) = match what {
            Asked::Elicit(it) => (false, InputRequest::Elicitation(ElicitRequest::new(it))),
            Asked::Sample(it) => {
                (true, InputRequest::CreateMessage(CreateMessageRequest::new(*it)))
            }
        };
        let expiry = {
            let (all, state) = (Arc::clone(&self.0), state.clone());
            tokio::spawn(async move {
                sleep(SUSPENDED_FOR).await;
                let expired = all.lock().remove(&state);
                drop(expired);
            })
        };
        let _expiry = AbortOnDropHandle::new(expiry);
        let (role, who) = (role.clone(), who.clone());
        let suspended = Suspended { role, who, call, asks_model, answer, _expiry };
        self.0.lock().insert(state.clone(), suspended);
        let questions = [(QUESTION.to_owned(), question)].into();
        Ok(CallToolResponse::InputRequired(InputRequiredResult::new(Some(questions), Some(state))))
    }

    /// Answers the question of a suspended call. `None`: this is not the state of one. An answer is
    /// taken once: said again, it begins no other call.
    pub(super) fn resume(
        &self,
        state: &str,
        (role, who): (&RoleId, &Instance),
        responses: &InputResponses,
    ) -> Option<Result<RunningCall, ErrorData>> {
        if !state.starts_with(STATE_PREFIX) {
            return None;
        }
        let mut all = self.0.lock();
        let is_own = |it: &Suspended| it.role == *role && it.who == *who;
        let Some(suspended) = all.get(state).filter(|it| is_own(it)) else {
            let why = "the call that asked this was answered already, or has ended; it may or may \
                       not have taken effect";
            return Some(Err(ErrorData::invalid_params(why, None)));
        };
        let Some(told) = parse_answer(responses.get(QUESTION), suspended.asks_model) else {
            let why = format!("inputResponses has no answer to `{QUESTION}` that can be read");
            return Some(Err(ErrorData::invalid_params(why, None)));
        };
        let suspended = all.remove(state)?;
        drop(all);
        let Suspended { call, answer, .. } = suspended;
        answer.send(Ok(told)).ok();
        Some(Ok(call))
    }
}

fn parse_answer(response: Option<&Value>, asks_model: bool) -> Option<Told> {
    let response = response?.clone();
    match asks_model {
        true => serde_json::from_value(response).ok().map(|it| Told::Sampled(Box::new(it))),
        false => serde_json::from_value(response).ok().map(Told::Elicited),
    }
}
