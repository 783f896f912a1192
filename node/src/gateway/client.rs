//! What a server says and asks by itself, and which call it is about.
//!
//! Progress goes to the call whose token it names. A question goes to the call whose answer it came
//! on the stream of, else to the only call under way: where there are several, nobody can know who
//! is meant, and it is refused.

#![expect(deprecated, reason = "servers and clients of earlier versions ask and log so")]

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
        ElicitRequestParams, ElicitResult, Implementation, LoggingMessageNotificationParam,
        ProgressNotificationParam, ProgressToken, ProtocolVersion, RequestId,
        ResourceUpdatedNotificationParam,
    },
    service::{InboundStreamOrigin, NotificationContext, RequestContext},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::changes::ServerChanges;
use crate::link::news::ServerPart;

/// Progress of one call that was not passed on yet. What is more is left out: the next one says
/// more.
const PROGRESS_MAX: usize = 64;

/// The words of one, in bytes.
const PROGRESS_BYTES_MAX: usize = 2048;

/// For whoever sends a call to wait for its answer, once it is sent.
const CLAIMED_WITHIN: Duration = Duration::from_secs(10);

/// What a server asks of whoever called it.
#[derive(Debug)]
pub enum Asked {
    Elicit(ElicitRequestParams),
    Sample(Box<CreateMessageRequestParams>),
}

/// What that one said.
#[derive(Debug)]
pub enum Told {
    Elicited(ElicitResult),
    Sampled(Box<CreateMessageResult>),
}

/// A question, and where its answer goes.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) what: Asked,
    pub(super) answer: oneshot::Sender<Result<Told, ErrorData>>,
}

/// What comes from a server for one call.
#[derive(Debug)]
pub(super) enum News {
    Progress(ProgressNotificationParam),
    Ask(Ask),
    Log(LoggingMessageNotificationParam),
}

#[derive(Debug)]
struct OpenCall {
    token: ProgressToken,
    request: RequestId,
    news: mpsc::Sender<News>,
    /// Until somebody waits for the answer: what came meanwhile, and since when.
    unclaimed: Option<(mpsc::Receiver<News>, Instant)>,
}

impl OpenCall {
    fn new(token: ProgressToken, request: RequestId) -> (Self, mpsc::Receiver<News>) {
        let (sender, news) = mpsc::channel(PROGRESS_MAX);
        (Self { token, request, news: sender, unclaimed: None }, news)
    }

    /// Nobody will wait for it any more.
    fn is_abandoned(&self) -> bool {
        self.unclaimed.as_ref().is_some_and(|(_, since)| CLAIMED_WITHIN < since.elapsed())
    }
}

/// The calls of one connection that are under way.
#[derive(Debug)]
pub(super) struct Calls {
    open: Mutex<Vec<OpenCall>>,
    /// When the server last said anything.
    heard: Mutex<Instant>,
}

impl Default for Calls {
    fn default() -> Self {
        Self { open: Mutex::default(), heard: Mutex::new(Instant::now()) }
    }
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(super) struct Registered {
    calls: Arc<Calls>,
    token: ProgressToken,
    pub(super) news: mpsc::Receiver<News>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.calls.open.lock().retain(|it| it.token != self.token);
    }
}

impl Calls {
    /// The server said something.
    pub(super) fn hear(&self) {
        *self.heard.lock() = Instant::now();
    }

    /// How long the server has said nothing.
    pub(super) fn silence(&self) -> Duration {
        self.heard.lock().elapsed()
    }

    /// A call is being sent: the server may say something of it before its sender registers it, or
    /// after.
    pub(super) fn begin(&self, token: ProgressToken, request: RequestId) {
        let mut open = self.open.lock();
        open.retain(|it| !it.is_abandoned());
        if open.iter().any(|it| it.request == request) {
            return;
        }
        let (mut call, news) = OpenCall::new(token, request);
        call.unclaimed = Some((news, Instant::now()));
        open.push(call);
    }

    /// What the server says of a call that was sent.
    pub(super) fn register(
        self: &Arc<Self>,
        token: ProgressToken,
        request: RequestId,
    ) -> Registered {
        let mut open = self.open.lock();
        let begun = open.iter_mut().find(|it| it.request == request);
        let news = begun.and_then(|it| it.unclaimed.take()).map(|(news, _)| news);
        let news = news.unwrap_or_else(|| {
            let (call, news) = OpenCall::new(token.clone(), request);
            open.push(call);
            news
        });
        drop(open);
        Registered { calls: Arc::clone(self), token, news }
    }

    /// Progress of one of them. What it does not take is left out: the next one says more.
    pub(super) fn progress(&self, mut progress: ProgressNotificationParam) {
        progress.meta = None;
        if let Some(message) = &mut progress.message {
            message.truncate(message.floor_char_boundary(PROGRESS_BYTES_MAX));
        }
        let open = self.open.lock();
        if let Some(call) = open.iter().find(|it| it.token == progress.progress_token) {
            call.news.try_send(News::Progress(progress)).ok();
        }
    }

    /// A log message, for the call that it is about.
    pub(super) fn log(
        &self,
        origin: Option<&InboundStreamOrigin>,
        message: LoggingMessageNotificationParam,
    ) {
        if let Some(call) = self.find(origin) {
            call.try_send(News::Log(message)).ok();
        }
    }

    /// The call that a message of the server's is about.
    fn find(&self, origin: Option<&InboundStreamOrigin>) -> Option<mpsc::Sender<News>> {
        let open = self.open.lock();
        if let Some(InboundStreamOrigin::OutboundRequest(request)) = origin {
            return open.iter().find(|it| it.request == *request).map(|it| it.news.clone());
        }
        let mut open = open.iter().filter(|it| !it.is_abandoned());
        let only = open.next().filter(|_| open.next().is_none());
        only.map(|it| it.news.clone())
    }
}

/// The client's side of one connection to a server.
pub(super) struct Handler {
    pub(super) calls: Arc<Calls>,
    pub(super) changes: Arc<ServerChanges>,
    /// For servers that begin with a handshake.
    pub(super) protocol: ProtocolVersion,
}

impl Handler {
    async fn ask(
        &self,
        context: RequestContext<RoleClient>,
        what: Asked,
    ) -> Result<Told, ErrorData> {
        let call = self.calls.find(context.extensions.get());
        let call = call.ok_or_else(|| {
            let why =
                "there is not exactly one call under way, so it is not known which client to ask";
            ErrorData::invalid_request(why, None)
        })?;
        let (answer, told) = oneshot::channel();
        let gone = || ErrorData::internal_error("the calling client is gone", None);
        call.send(News::Ask(Ask { what, answer })).await.map_err(|_| gone())?;
        tokio::select! {
            told = told => told.map_err(|_| gone())?,
            () = context.ct.cancelled() => Err(gone()),
        }
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(Default::default());
        if let Some(elicitation) = &mut capabilities.elicitation {
            elicitation.form = Some(Default::default());
            elicitation.url = Some(Default::default());
        }
        capabilities.sampling = Some(Default::default());
        let own = Implementation::new("tasuki", env!("CARGO_PKG_VERSION"));
        let mut config = ClientConfig::new(capabilities, own);
        config.protocol_version = self.protocol.clone();
        config
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        match self.ask(context, Asked::Elicit(request)).await? {
            Told::Elicited(result) => Ok(result),
            Told::Sampled(_) => Err(ErrorData::internal_error("another question's answer", None)),
        }
    }

    async fn create_message(
        &self,
        request: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        match self.ask(context, Asked::Sample(Box::new(request))).await? {
            Told::Sampled(result) => Ok(*result),
            Told::Elicited(_) => Err(ErrorData::internal_error("another question's answer", None)),
        }
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changes.record(ServerPart::Tools);
    }

    async fn on_resource_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changes.record(ServerPart::Resources);
    }

    async fn on_prompt_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changes.record(ServerPart::Prompts);
    }

    async fn on_resource_updated(
        &self,
        updated: ResourceUpdatedNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.changes.record(ServerPart::Resource(updated.uri));
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use rmcp::model::{LoggingLevel, NumberOrString};

    use super::*;

    fn token(number: i64) -> ProgressToken {
        ProgressToken(NumberOrString::Number(number))
    }

    fn log(calls: &Calls, origin: Option<&InboundStreamOrigin>) {
        let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, "x".into());
        calls.log(origin, message);
    }

    /// What a server said of a call, in order.
    fn received(call: &mut Registered) -> String {
        let mut all = String::new();
        while let Some(Some(news)) = call.news.recv().now_or_never() {
            all += match news {
                News::Progress(_) => "progress ",
                News::Log(_) => "log ",
                News::Ask(_) => "ask ",
            };
        }
        all
    }

    #[test]
    fn what_comes_before_anybody_waits_is_kept_in_order() {
        let calls: Arc<Calls> = Arc::default();
        let of = |number| InboundStreamOrigin::OutboundRequest(NumberOrString::Number(number));
        calls.begin(token(1), NumberOrString::Number(1));
        log(&calls, None);
        calls.progress(ProgressNotificationParam::new(token(1), 1.0));
        calls.begin(token(2), NumberOrString::Number(2));
        log(&calls, Some(&of(1)));
        log(&calls, Some(&of(2)));
        // It could be of either.
        log(&calls, None);
        let mut first = calls.register(token(1), NumberOrString::Number(1));
        let mut second = calls.register(token(2), NumberOrString::Number(2));
        assert_eq!(
            (&*received(&mut first), &*received(&mut second)),
            ("log progress log ", "log ")
        );
        drop(second);
        // It was registered before it was sent.
        calls.begin(token(1), NumberOrString::Number(1));
        log(&calls, None);
        assert_eq!(received(&mut first), "log ");
        // One that nobody ever waited for leaves no doubt after a while.
        calls.begin(token(3), NumberOrString::Number(3));
        log(&calls, None);
        for call in &mut *calls.open.lock() {
            if let Some((_, since)) = &mut call.unclaimed {
                *since -= CLAIMED_WITHIN * 2;
            }
        }
        log(&calls, None);
        assert_eq!(received(&mut first), "log ");
    }
}
