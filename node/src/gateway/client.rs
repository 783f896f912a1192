//! What a server says and asks by itself, and which call it is about.
//!
//! Progress goes to the call whose token it names. A question goes to the call whose answer it came
//! on the stream of, else to the only call under way: where there are several, nobody can know who
//! is meant, and it is refused.

#![expect(deprecated, reason = "servers and clients of earlier versions ask and log so")]

use std::sync::Arc;

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
use tokio::sync::{mpsc, oneshot};

use super::changes::Changes;
use crate::link::news::ServerPart;

/// Progress of one call that was not passed on yet. What is more is left out: the next one says
/// more.
const PROGRESS_MAX: usize = 64;

/// The words of one, in bytes.
const PROGRESS_BYTES_MAX: usize = 2048;

/// Progress that came before its call was known under its token.
const EARLY_MAX: usize = 64;

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
}

/// The calls of one connection that are under way.
#[derive(Debug, Default)]
pub(super) struct Calls(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    calls: Vec<OpenCall>,
    early: Vec<ProgressNotificationParam>,
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
        self.calls.0.lock().calls.retain(|it| it.token != self.token);
    }
}

impl Calls {
    pub(super) fn register(
        self: &Arc<Self>,
        token: ProgressToken,
        request: RequestId,
    ) -> Registered {
        let (sender, news) = mpsc::channel(PROGRESS_MAX);
        let mut open = self.0.lock();
        for progress in open.early.extract_if(.., |it| it.progress_token == token) {
            sender.try_send(News::Progress(progress)).ok();
        }
        open.calls.push(OpenCall { token: token.clone(), request, news: sender });
        drop(open);
        Registered { calls: Arc::clone(self), token, news }
    }

    /// Progress of one of them. What it does not take is left out: the next one says more.
    pub(super) fn progress(&self, mut progress: ProgressNotificationParam) {
        progress.meta = None;
        if let Some(message) = &mut progress.message {
            message.truncate(message.floor_char_boundary(PROGRESS_BYTES_MAX));
        }
        let mut open = self.0.lock();
        if let Some(call) = open.calls.iter().find(|it| it.token == progress.progress_token) {
            call.news.try_send(News::Progress(progress)).ok();
            return;
        }
        // Some of these are of calls that are over.
        if open.early.len() == EARLY_MAX {
            open.early.remove(0);
        }
        open.early.push(progress);
    }

    /// The call that a message of the server's is about.
    fn meant(&self, origin: Option<&InboundStreamOrigin>) -> Option<mpsc::Sender<News>> {
        let open = &self.0.lock().calls;
        if let Some(InboundStreamOrigin::OutboundRequest(request)) = origin {
            return open.iter().find(|it| it.request == *request).map(|it| it.news.clone());
        }
        match &open[..] {
            [only] => Some(only.news.clone()),
            [] | [..] => None,
        }
    }
}

/// The client's side of one connection to a server.
pub(super) struct Handler {
    pub(super) calls: Arc<Calls>,
    pub(super) changes: Arc<Changes>,
    /// For servers that begin with a handshake.
    pub(super) protocol: ProtocolVersion,
}

impl Handler {
    async fn ask(
        &self,
        context: RequestContext<RoleClient>,
        what: Asked,
    ) -> Result<Told, ErrorData> {
        let call = self.calls.meant(context.extensions.get());
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

    async fn on_logging_message(
        &self,
        message: LoggingMessageNotificationParam,
        context: NotificationContext<RoleClient>,
    ) {
        if let Some(call) = self.calls.meant(context.extensions.get()) {
            call.try_send(News::Log(message)).ok();
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
