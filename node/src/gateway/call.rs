//! One request to a server, from its sending to its answer: progress, questions, time and cancels.

#![expect(deprecated, reason = "servers and clients of earlier versions ask and log so")]

use std::{pin::Pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use rmcp::{
    Peer, RoleClient,
    model::{
        CancelledNotificationParam, ClientCapabilities, ClientRequest, ErrorCode, ErrorData,
        LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, RequestId,
        RequestMetaObject, ServerResult,
    },
    service::{PeerRequestOptions, ServiceError},
};
use tokio::{
    sync::oneshot::{self, error::RecvError},
    time::{Instant, sleep_until, timeout},
};

use super::{
    client::{Ask, Asked, Calls, News, Registered, Told},
    listing::LIST_MAX,
};

/// For whoever called to take progress. One that does not read does not get it.
const PROGRESS_TAKEN_WITHIN: Duration = Duration::from_secs(1);

/// For a user to answer a question of a server.
const USER_ANSWERS_WITHIN: Duration = Duration::from_secs(10 * 60);

/// The error that says that a server took too long: JSON-RPC leaves the code to implementations.
pub const TIMED_OUT: ErrorCode = ErrorCode(-32001);

/// Whoever called, as a server reaches it.
#[async_trait]
pub trait Caller: Send + Sync {
    /// What the caller's client can do and wants to be told, for servers that take it with each
    /// request. By default nothing can be asked of it.
    fn meta(&self) -> RequestMetaObject {
        let mut meta = RequestMetaObject::default();
        meta.set_client_capabilities(ClientCapabilities::default());
        meta
    }

    async fn progress(&self, progress: ProgressNotificationParam);
    async fn log(&self, message: LoggingMessageNotificationParam);
    async fn ask(&self, what: Asked) -> Result<Told, ErrorData>;
}

/// A connection that stands.
#[derive(Clone)]
pub(super) struct Live {
    pub(super) peer: Peer<RoleClient>,
    pub(super) calls: Arc<Calls>,
}

impl Live {
    /// Whether the server is told of a caller's client with each request.
    pub(super) fn takes_meta(&self) -> bool {
        self.peer.peer_info().is_some_and(|it| !it.protocol_version.has_initialize())
    }

    fn options(&self, level: Option<LoggingLevel>, caller: &dyn Caller) -> PeerRequestOptions {
        let mut options = PeerRequestOptions::no_options();
        if self.takes_meta() {
            let mut meta = caller.meta();
            if let (None, Some(level)) = (meta.log_level(), level) {
                meta.set_log_level(level);
            }
            options.meta = Some(meta);
        }
        options
    }
}

/// How a call went that has no result.
pub(super) enum Failed {
    Refused(ErrorData),
    TimedOut,
    Gone(String),
}

/// Sends it and waits for its answer.
pub(super) async fn ask(
    live: &Live,
    request: ClientRequest,
    level: Option<LoggingLevel>,
    timeout_after: Duration,
    caller: &dyn Caller,
) -> Result<ServerResult, Failed> {
    let sent = live.peer.send_request_with_option(request, live.options(level, caller)).await;
    let mut sent = sent.map_err(|why| Failed::Gone(why.to_string()))?;
    let registered = live.calls.register(sent.progress_token.clone(), sent.id.clone());
    let answered = answer(&mut sent.rx, registered, timeout_after, caller);
    let mut cancelling = Cancelling { peer: live.peer.clone(), id: Some(sent.id.clone()) };
    let answered = answered.await;
    if !matches!(answered, Err(Failed::TimedOut)) {
        cancelling.id = None;
    }
    answered
}

type Answer = oneshot::Receiver<Result<ServerResult, ServiceError>>;

async fn answer(
    answer: &mut Answer,
    mut registered: Registered,
    timeout_after: Duration,
    caller: &dyn Caller,
) -> Result<ServerResult, Failed> {
    let mut deadline = Instant::now() + timeout_after;
    let mut highest = f64::NEG_INFINITY;
    let mut takes_news = true;
    let (mut asking, mut asked_until): (Option<Asking<'_>>, _) = (None, deadline);
    loop {
        tokio::select! {
            biased;
            // What came before the answer is told before it.
            Some(news) = registered.news.recv() => match news {
                News::Progress(progress) => {
                    deadline = Instant::now() + timeout_after;
                    // The protocol lets progress grow only; not every server keeps to that.
                    if highest < progress.progress {
                        highest = progress.progress;
                        tell(&mut takes_news, caller.progress(progress)).await;
                    }
                }
                News::Log(message) => tell(&mut takes_news, caller.log(message)).await,
                News::Ask(Ask { what, mut answer }) if asking.is_none() => {
                    asked_until = Instant::now() + USER_ANSWERS_WITHIN;
                    asking = Some(Box::pin(async move {
                        let told = tokio::select! {
                            told = caller.ask(what) => told,
                            // The server takes its question back.
                            () = answer.closed() => return,
                        };
                        answer.send(told).ok();
                    }));
                }
                News::Ask(Ask { answer, .. }) => {
                    let why = "another question is open";
                    answer.send(Err(ErrorData::invalid_request(why, None))).ok();
                }
            },
            answered = &mut *answer => return result(answered),
            () = asked(&mut asking) => {
                asking = None;
                deadline = Instant::now() + timeout_after;
            }
            // A person takes the time that they take; one whose client is gone says nothing.
            () = sleep_until(asked_until), if asking.is_some() => {
                asking = None;
                deadline = Instant::now() + timeout_after;
            }
            () = sleep_until(deadline), if asking.is_none() => return Err(Failed::TimedOut),
        }
    }
}

/// Tells whoever called, unless that one did not take what was told before.
pub(super) async fn tell(takes_news: &mut bool, telling: impl Future<Output = ()>) {
    *takes_news = *takes_news && timeout(PROGRESS_TAKEN_WITHIN, telling).await.is_ok();
}

type Asking<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

async fn asked(asking: &mut Option<Asking<'_>>) {
    match asking {
        Some(asking) => asking.await,
        None => std::future::pending().await,
    }
}

fn result(
    answered: Result<Result<ServerResult, ServiceError>, RecvError>,
) -> Result<ServerResult, Failed> {
    match answered {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(ServiceError::McpError(error))) => Err(Failed::Refused(error)),
        Ok(Err(why)) => Err(Failed::Gone(why.to_string())),
        Err(_) => Err(Failed::Gone("its connection closed".to_owned())),
    }
}

/// Tells a server that nobody waits for its answer any more, unless it answered.
struct Cancelling {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for Cancelling {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let peer = self.peer.clone();
        tokio::spawn(async move {
            let cancelled = CancelledNotificationParam::new(Some(id), None);
            timeout(LIST_MAX, peer.notify_cancelled(cancelled)).await.ok();
        });
    }
}
