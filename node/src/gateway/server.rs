//! One server: started, listed, called, and started again when it ended.
//!
//! - **GW2** What one server does or leaves undone delays, breaks or changes nothing of another: each
//!   has a task, connection and limits of its own, and nobody holds a lock over a wait.
//! - **GW3** No program outlives the node that started it: each runs under a keeper.
//!
//! What a server listed last stays while it is away: for [`GRACE`](super::view::GRACE) its tools are shown as offline,
//! then they are gone until it is back.

#![expect(deprecated, reason = "servers of earlier versions log so")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use parking_lot::Mutex;
use rmcp::{
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResponse, ClientRequest, ErrorData,
        LoggingLevel, ProtocolVersion, ServerCapabilities, ServerResult, SetLevelRequest,
        SetLevelRequestParams,
    },
    service::{
        ClientCacheConfig, ClientLifecycleMode, ClientServiceExt as _, RoleClient, RunningService,
    },
};
use serde_json::json;
use tasuki_proto::id::RoleId;
use tokio::{
    sync::{Notify, watch},
    task::spawn_blocking,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    breaker::{Admission, Breaker, FAILURES_MAX},
    call::{Caller, Failed, Live, TIMED_OUT, ask},
    changes::{ResourceSubscription, ServerChanges},
    clean,
    client::{Calls, Handler},
    listing::{LIST_MAX, judge, pages},
    names,
    ordered::Ordered,
    pins::Pins,
    program::Program,
    provider::ToolProvider,
    remote,
    settings::{ServerSettings, ServerTransport},
    view::{Phase, View},
};
use crate::{
    client::retry::{Backoff, chance},
    clock::Clock,
    limiter::Limiter,
    link::news::News,
};

/// For a server to be ready, from its start on: its first start may download it.
pub(super) const START_MAX: Duration = Duration::from_secs(120);

/// Changes that a server tells of within this time are one.
const DEBOUNCE: Duration = Duration::from_secs(1);

/// Every server is listed again after so long: not every one tells of changes, and one may not answer
/// any more.
const REFRESH: Duration = Duration::from_secs(60);

/// Between two starts of a server that ends, in milliseconds: the first pause, and the longest.
const BACKOFF_MS: u64 = 1_000;
const BACKOFF_MS_MAX: u64 = 60_000;

/// After it was ready for so long, pauses begin at the first again.
const STEADY: Duration = Duration::from_secs(60);

/// Calls of one server that are under way.
pub(super) const CALLS_PER_SERVER_MAX: usize = 256;

/// A server's name and version, as it says, in bytes.
const VERSION_BYTES_MAX: usize = 120;

/// Why a server ends that nothing is wrong with.
const STOPS: &str = "the node stops";

/// One of the servers behind a node.
pub struct Server {
    pub settings: ServerSettings,
    view: watch::Sender<View>,
    live: Mutex<Option<Live>>,
    breaker: Mutex<Breaker>,
    pins: Arc<Mutex<Pins>>,
    /// Why it is not started at all.
    disabled: Option<String>,
    calls: Limiter,
    relist: Notify,
    changes: Arc<ServerChanges>,
    /// Changes with each start of a program: ids that it gave out before mean nothing to it then.
    incarnation: AtomicU64,
    /// How much it logs, if anybody said so.
    log_level: Mutex<Option<LoggingLevel>>,
    /// This program, under which others run.
    keeper: PathBuf,
    clock: Clock,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl Server {
    pub(super) fn new(
        settings: ServerSettings,
        pins: Result<Pins, String>,
        keeper: PathBuf,
        clock: Clock,
        news: News,
    ) -> Self {
        let (pins, disabled) = match pins {
            Ok(pins) => (pins, None),
            Err(why) => (Pins::default(), Some(why)),
        };
        let view = View {
            phase: Phase::Starting,
            offer: Arc::default(),
            is_settled: false,
            restarts: 0,
            version: String::new(),
            protocol: String::new(),
            capabilities: None,
        };
        let changes = ServerChanges::new(settings.name.to_string(), news);
        let incarnation = match &settings.transport {
            // What it gave out may outlive a connection, and this node.
            ServerTransport::Http { url, .. } => {
                let hash = blake3::hash(url.as_bytes());
                u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash is longer"))
            }
            ServerTransport::Stdio { .. } => chance(),
        };
        Self {
            settings,
            view: watch::Sender::new(view),
            live: Mutex::default(),
            breaker: Mutex::default(),
            pins: Arc::new(Mutex::new(pins)),
            disabled,
            calls: Limiter::new("calls of this MCP server", CALLS_PER_SERVER_MAX),
            relist: Notify::new(),
            changes: Arc::new(changes),
            incarnation: AtomicU64::new(incarnation),
            log_level: Mutex::default(),
            keeper,
            clock,
        }
    }

    pub fn name(&self) -> &str {
        self.settings.name.as_str()
    }

    pub fn watch(&self) -> watch::Receiver<View> {
        self.view.subscribe()
    }

    pub fn view(&self) -> View {
        self.view.borrow().clone()
    }

    /// Whether it can do something, by what it said. Of one that said nothing yet everything is
    /// possible.
    pub fn can(&self, is_said: impl FnOnce(&ServerCapabilities) -> bool) -> bool {
        self.view.borrow().capabilities.as_ref().is_none_or(is_said)
    }

    /// Calls that are under way.
    pub fn in_flight(&self) -> usize {
        self.calls.in_use()
    }

    pub fn is_failing(&self) -> bool {
        self.breaker.lock().is_open()
    }

    /// Keeps it running until `stopping`.
    pub async fn run(self: Arc<Self>, stopping: CancellationToken) {
        if let Some(why) = &self.disabled {
            self.set_offline(why.clone());
            return stopping.cancelled().await;
        }
        let mut backoff = Backoff::between(BACKOFF_MS, BACKOFF_MS_MAX);
        loop {
            let mut ready = None;
            let why = Box::pin(self.run_once(&stopping, &mut ready)).await;
            if stopping.is_cancelled() {
                return;
            }
            let why = self.set_offline(why);
            tracing::info!(server = self.name(), why, "an MCP server is offline");
            self.view.send_modify(|view| view.restarts += 1);
            if ready.is_some_and(|it: Instant| STEADY <= it.elapsed()) {
                backoff.reset();
            }
            tokio::select! {
                () = sleep(backoff.pause(chance())) => {}
                () = stopping.cancelled() => return,
            }
        }
    }

    /// From here on no call is sent to it. Says why, as agents may read it.
    fn set_offline(&self, why: String) -> String {
        *self.live.lock() = None;
        let why = self.without_address(&why);
        self.view.send_modify(|view| {
            // It has been since it was last ready, however often it is started meanwhile.
            let since = match &view.phase {
                Phase::Offline { since, .. } => *since,
                Phase::Starting | Phase::Ready => Instant::now(),
            };
            view.phase = Phase::Offline { why: why.clone(), since };
            view.is_settled = true;
        });
        why
    }

    /// What went wrong, as agents may read it: an address may have a key in it.
    fn without_address(&self, why: &str) -> String {
        match &self.settings.transport {
            ServerTransport::Http { url, .. } => why.replace(url.as_str(), self.name()),
            ServerTransport::Stdio { .. } => why.to_owned(),
        }
    }

    /// Starts it and stays with it. Says why it is over, and since when it was ready.
    async fn run_once(&self, stopping: &CancellationToken, ready: &mut Option<Instant>) -> String {
        let calls: Arc<Calls> = Arc::default();
        let protocol = self.settings.protocol.clone();
        let handler = Handler {
            calls: Arc::clone(&calls),
            changes: Arc::clone(&self.changes),
            protocol: protocol.unwrap_or(ProtocolVersion::LATEST_WITH_INITIALIZE),
        };
        let mut program = None;
        let started = tokio::select! {
            started = self.start(handler, &mut program) => started,
            () = sleep(START_MAX) => Err(format!("it did not start within {} s", START_MAX.as_secs())),
            () = stopping.cancelled() => Err(STOPS.to_owned()),
        };
        let running = match started {
            Ok(running) => running,
            Err(why) => return ended(program, why).await,
        };
        *ready = Some(Instant::now());
        let peer = running.peer().clone();
        peer.set_response_cache_config(ClientCacheConfig::disabled()).await;
        let live = Live { peer: peer.clone(), calls };
        let level = *self.log_level.lock();
        if let Some(level) = level.filter(|_| !live.takes_meta()) {
            timeout(LIST_MAX, peer.set_level(SetLevelRequestParams::new(level))).await.ok();
        }
        let why = tokio::select! {
            why = self.follow(&live) => why,
            quit = running.waiting() => quit.map_or_else(|e| e.to_string(), |_| "it ended".to_owned()),
            () = stopping.cancelled() => STOPS.to_owned(),
        };
        // Ending a program takes its time.
        self.set_offline(why.clone());
        ended(program, why).await
    }

    async fn start(
        &self,
        handler: Handler,
        program: &mut Option<Program>,
    ) -> Result<RunningService<RoleClient, Handler>, String> {
        let lifecycle = match &self.settings.protocol {
            None => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::LATEST],
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
            Some(version) if version.has_initialize() => ClientLifecycleMode::Initialize,
            Some(version) => {
                ClientLifecycleMode::Discover { preferred_versions: vec![version.clone()] }
            }
        };
        let calls = Arc::clone(&handler.calls);
        let running = match &self.settings.transport {
            ServerTransport::Stdio { words, env, directory } => {
                self.incarnation.store(chance(), Ordering::Relaxed);
                let (started, transport) =
                    Program::start(self.name(), &self.keeper, words, env, directory)
                        .map_err(|why| format!("it cannot be started: {why}"))?;
                *program = Some(started);
                handler
                    .serve_with_lifecycle(Ordered::new(self.name(), transport, calls), lifecycle)
                    .await
            }
            ServerTransport::Http { url, token_env } => {
                let transport = remote::transport(url, token_env.as_deref())?;
                handler
                    .serve_with_lifecycle(Ordered::new(self.name(), transport, calls), lifecycle)
                    .await
            }
        };
        running.map_err(|why| remote::plain_cause(&why.to_string()).to_owned())
    }

    /// Lists what it has, whenever that may have changed. Ends when it does not answer any more.
    async fn follow(&self, live: &Live) -> String {
        let mut failures = 0;
        let mut changed = BTreeSet::new();
        let mut listening = pin!(self.changes.listen(live));
        loop {
            changed.append(&mut self.changes.take());
            let mut listed = Box::pin(self.list(live));
            let listed = tokio::select! {
                listed = &mut listed => listed,
                never = &mut listening => match never {},
            };
            let pause = match listed {
                Ok(()) => {
                    self.changes.publish(std::mem::take(&mut changed));
                    failures = 0;
                    REFRESH
                }
                // One that does one thing at a time answers when it is done, or reports progress.
                Err(_)
                    if 0 < self.in_flight() && live.calls.silence() < self.settings.longest() =>
                {
                    REFRESH
                }
                Err(why) => {
                    failures += 1;
                    // The last good answer stays until it is started anew.
                    if FAILURES_MAX <= failures {
                        return why;
                    }
                    DEBOUNCE
                }
            };
            let changed = async {
                self.changes.changed().await;
                sleep(DEBOUNCE).await;
            };
            tokio::select! {
                () = sleep(pause) => {}
                () = changed => {}
                () = self.relist.notified() => {}
                never = &mut listening => match never {},
            }
        }
    }

    async fn list(&self, live: &Live) -> Result<(), String> {
        let info = live.peer.peer_info();
        let info = info.ok_or("it said nothing of itself")?;
        let has = &info.capabilities;
        let peer = &live.peer;
        let (tools, prompts, resources, templates) = tokio::join!(
            pages("tools", has.tools.is_some(), |page| async move {
                let it = peer.list_tools(page).await?;
                Ok((it.tools, it.next_cursor))
            }),
            pages("prompts", has.prompts.is_some(), |page| async move {
                let it = peer.list_prompts(page).await?;
                Ok((it.prompts, it.next_cursor))
            }),
            pages("resources", has.resources.is_some(), |page| async move {
                let it = peer.list_resources(page).await?;
                Ok((it.resources, it.next_cursor))
            }),
            pages("templates of resources", has.resources.is_some(), |page| async move {
                let it = peer.list_resource_templates(page).await?;
                Ok((it.resource_templates, it.next_cursor))
            }),
        );
        let before = self.view().offer;
        let tools = tools?;
        let pins = Arc::clone(&self.pins);
        let name = self.settings.name.clone();
        let expose = move |own: &str| names::exposed(&name, own);
        let judged = spawn_blocking(move || judge(expose, tools, &mut pins.lock())).await;
        let mut offer = judged.map_err(|why| why.to_string())?;
        // Only tools are worth a failure: a server may offer the others and not have them.
        offer.prompts = prompts.map_or_else(|_| before.prompts.clone(), clean::prompts);
        offer.resources = resources.map_or_else(|_| before.resources.clone(), clean::resources);
        offer.templates = templates.map_or_else(|_| before.templates.clone(), clean::templates);
        let version = info.server_info.as_ref().map(|it| format!("{} {}", it.name, it.version));
        let version = clean::text(&version.unwrap_or_default(), VERSION_BYTES_MAX);
        let protocol = info.protocol_version.to_string();
        *self.live.lock() = Some(live.clone());
        self.view.send_if_modified(|view| {
            let was_ready = view.phase == Phase::Ready;
            if !was_ready {
                // It was started anew: what was before says nothing.
                self.breaker.lock().succeeded();
            }
            if was_ready && *view.offer == offer && view.version == version {
                return false;
            }
            view.phase = Phase::Ready;
            view.offer = Arc::new(offer);
            view.is_settled = true;
            (view.version, view.protocol) = (version, protocol);
            view.capabilities = Some(has.clone());
            true
        });
        Ok(())
    }

    /// Changes with each start of a program, and with the address of another server.
    pub fn incarnation(&self) -> u64 {
        self.incarnation.load(Ordering::Relaxed)
    }

    /// How much it logs from now on, for all its callers, also once it is started again.
    pub async fn set_log_level(
        &self,
        level: LoggingLevel,
        caller: &dyn Caller,
    ) -> Result<(), ErrorData> {
        *self.log_level.lock() = Some(level);
        let live = self.live.lock().clone();
        if live.is_some_and(|it| it.takes_meta()) {
            // It is told with each call.
            return Ok(());
        }
        let request = SetLevelRequest::new(SetLevelRequestParams::new(level));
        self.request(ClientRequest::SetLevelRequest(request), caller).await.map(|_| ())
    }

    /// Subscribes to a resource, by the server's own address for it.
    pub fn subscribe_resource(&self, uri: &str) -> Option<ResourceSubscription> {
        self.changes.subscribe_resource(uri)
    }

    /// Approves changes of tools, each by the digest of what somebody looked at. Answers which.
    pub async fn approve(&self, tools: &BTreeMap<String, String>) -> Result<Vec<String>, String> {
        let approved = Pins::approve_held(&self.pins, &self.view().offer.held, tools).await?;
        self.relist.notify_one();
        Ok(approved)
    }

    /// Calls a tool by its server's own name for it.
    pub async fn call(
        &self,
        request: CallToolRequestParams,
        caller: &dyn Caller,
    ) -> Result<CallToolResponse, ErrorData> {
        let timeout = self.settings.timeout_of(&request.name);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(request));
        match self.ask(request, timeout, caller).await {
            Ok(ServerResult::CallToolResult(result)) => Ok(CallToolResponse::Complete(result)),
            Ok(ServerResult::InputRequiredResult(it)) => Ok(CallToolResponse::InputRequired(it)),
            Ok(ServerResult::CreateTaskResult(result)) => Ok(CallToolResponse::Task(result)),
            Ok(_) => Err(self.error("answered with what is no result of a tool")),
            Err(error) => Err(error),
        }
    }

    /// Sends a request of another kind.
    pub async fn request(
        &self,
        request: ClientRequest,
        caller: &dyn Caller,
    ) -> Result<ServerResult, ErrorData> {
        self.ask(request, self.settings.timeout, caller).await
    }

    /// What went wrong, said of the server.
    pub fn error(&self, why: &str) -> ErrorData {
        let name = self.name();
        let text = format!("the server {name} {why}");
        ErrorData::internal_error(text, Some(json!({ "server": name })))
    }

    async fn ask(
        &self,
        request: ClientRequest,
        timeout: Duration,
        caller: &dyn Caller,
    ) -> Result<ServerResult, ErrorData> {
        let place = self.calls.try_acquire();
        let _place = place.map_err(|refusal| ErrorData::internal_error(refusal.message, None))?;
        let live = self.live.lock().clone();
        let Some(live) = live else {
            return Err(match self.view().phase {
                Phase::Offline { why, .. } => self.error(&format!("is offline: {why}")),
                Phase::Starting | Phase::Ready => self.error("is not ready yet"),
            });
        };
        let admission = self.breaker.lock().admit(self.clock.now()).map_err(|left| {
            let left = left.as_secs() + 1;
            self.error(&format!(
                "failed several times in a row; calls are accepted again in {left} s"
            ))
        })?;
        let mut pending = AdmissionGuard { breaker: &self.breaker, admission: Some(admission) };
        let level = *self.log_level.lock();
        let asked = ask(&live, request, level, timeout, caller).await;
        pending.admission = None;
        let mut breaker = self.breaker.lock();
        match asked {
            Ok(result) => {
                breaker.succeeded();
                Ok(result)
            }
            // It answered: that is no failure of the server.
            Err(Failed::Refused(error)) => {
                breaker.succeeded();
                Err(error)
            }
            Err(Failed::TimedOut) => {
                breaker.failed(self.clock.now());
                self.relist.notify_one();
                let (name, secs) = (self.name(), timeout.as_secs_f64());
                let text = format!("the server {name} did not answer within {secs} s");
                let data = json!({ "server": name, "timeout_sec": secs });
                Err(ErrorData::new(TIMED_OUT, text, Some(data)))
            }
            Err(Failed::Gone(why)) => {
                breaker.failed(self.clock.now());
                // Whether it is there at all is found out now, not in a minute.
                self.relist.notify_one();
                let text = match &self.settings.transport {
                    ServerTransport::Stdio { .. } => "ended before it answered",
                    ServerTransport::Http { .. } => "did not answer",
                };
                let why = self.without_address(remote::plain_cause(&why));
                Err(self
                    .error(&format!("{text}; the call may or may not have taken effect: {why}")))
            }
        }
    }
}

#[async_trait]
impl ToolProvider for Server {
    fn name(&self) -> &str {
        Self::name(self)
    }

    fn allows(&self, role: &RoleId, tool: &str) -> bool {
        self.settings.access.allows(role, tool)
    }

    async fn call(
        &self,
        _: &RoleId,
        request: CallToolRequestParams,
        caller: &dyn Caller,
    ) -> Result<CallToolResponse, ErrorData> {
        Self::call(self, request, caller).await
    }

    fn asks_during_calls(&self) -> bool {
        self.live.lock().as_ref().is_some_and(|it| !it.takes_meta())
    }

    fn error(&self, why: &str) -> ErrorData {
        Self::error(self, why)
    }
}

/// A call of which nothing has become yet; dropped before that, it was taken back.
struct AdmissionGuard<'a> {
    breaker: &'a Mutex<Breaker>,
    admission: Option<Admission>,
}

impl Drop for AdmissionGuard<'_> {
    fn drop(&mut self) {
        if let Some(admission) = self.admission {
            self.breaker.lock().canceled(admission);
        }
    }
}

/// Ends what is left of a program, and says why it is over in words that its user can go by.
async fn ended(program: Option<Program>, why: String) -> String {
    match program {
        Some(program) => program.end(why).await,
        None => why,
    }
}
