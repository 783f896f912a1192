//! Routes, and how the server starts and stops.
//!
//! Stopping goes in an order: no new connections; waits are answered; what is being answered is
//! written; streams end; what is left is cut. All of it is over within five seconds.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use axum::{
    Extension, Json, Router,
    body::Body,
    extract::{Path, Request, State},
    middleware,
    response::{IntoResponse as _, Response},
    routing::{any, get, post},
};
use http::StatusCode;
use serde_json::json;
use tasuki_proto::{
    counted::listed_names,
    echo::{bounded, echo},
    id::{RoleId, TokenId},
    limits::WORKSPACE_DEFAULT,
    nearest::did_you_mean,
    net::site::Site,
};
use tokio::{net::TcpListener, sync::watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    accept::accept,
    bearer::{Bearer, Bearers, authenticated, forbidden},
    guarded::Guard,
    security::{check_content_type, check_names},
    server_addresses::ServerAddresses,
    service::McpService,
    sse, stdio,
    step_access::{StepAccess, StepService, of_steps},
    streamable::Streamable,
};
use crate::mcp::{
    address::readable,
    agents::Agents,
    gateway, gateway_admin,
    host::{Host, Scope},
    letter,
    outbox_admin::settle,
    status,
    steps::LocalSteps,
    take_over::{candidates, take_over},
    tasks::TaskKey,
    tools, wake,
};
use crate::{
    agent_tokens::AgentTokens,
    clock::Clock,
    commands::{Commands, NOTHING_ALLOWED},
    file_access::{Files, NO_ROOT},
    gateway::Gateway,
    hooks::Hooks,
    mail_directories::Directories,
    mirror::Mirror,
    role::{Actions, Overview},
    runs::host::RunsHost,
    toolset::ToolsetChoice,
};

/// Until a client opens a broken stream of its session again, in milliseconds: those that do try
/// within seconds.
const RESUME_MS_MAX: u64 = 20_000;

/// Until answers in flight are written when the server stops, in milliseconds.
const WRITE_MS_MAX: u64 = 3_000;

/// Until what outlives a request has ended after that, in milliseconds.
const END_MS_MAX: u64 = 1_500;

/// The same of connections, in milliseconds: their answers are written, and whoever is on this machine
/// takes the end of a stream at once. What is left then are requests that never came whole.
const CLOSE_MS_MAX: u64 = 250;

#[derive(Debug, Clone)]
pub struct Settings {
    /// Where sessions are remembered across restarts of the node; `None`: nowhere.
    pub sessions_dir: Option<PathBuf>,
    /// Where it is remembered how long clients wait; `None`: nowhere.
    pub holds_file: Option<PathBuf>,
    /// Roles that several agents may play at once.
    pub shared: BTreeSet<RoleId>,
    /// How long a wait is held for a connection that does not say; `None`: by the table of
    /// clients.
    pub hold: Option<Duration>,
    /// The tools of each role; of one that is not named, what is usual for its name.
    pub toolsets: BTreeMap<RoleId, Vec<ToolsetChoice>>,
    /// The roles that take turns, the one that begins first; empty: names say who begins.
    pub order: Vec<RoleId>,
    /// Where loops are looked at for resources; `None`: there are none.
    pub overview: Option<Arc<dyn Overview>>,
    /// Names that stand for several receivers of mail.
    pub groups: BTreeMap<String, Vec<RoleId>>,
    /// Where mailboxes belong on disk.
    pub directories: Directories,
    /// What agents may attach files from, and save them to; `None`: nobody named it.
    pub project: Option<PathBuf>,
    /// Directories and keys of the node and its broker, which agents attach nothing of.
    pub private: Vec<PathBuf>,
    /// The mailboxes on disk; `None`: there are none.
    pub mirror: Option<Mirror>,
    /// What seals the ids of tasks; `None`: they end with this server.
    pub task_key: Option<TaskKey>,
    /// How long a session's wait goes on after its stream broke, for its client to come back.
    pub resume_within: Duration,
    /// What time it is for who plays a role, and for how long calls were held.
    pub clock: Clock,
    /// What is done when something happens to mail; `None`: nothing.
    pub hooks: Option<Hooks>,
    /// What runs of sub-agents need; `None`: this node has none.
    pub runs: Option<Arc<RunsHost>>,
    /// The tools of other MCP servers; `None`: there are none.
    pub gateway: Option<Arc<Gateway>>,
    /// The files that roles with the toolset `files` work on; `Err`: why there are none.
    pub files: Result<Arc<Files>, String>,
    /// What roles with the toolset `commands` may run; `Err`: why nothing.
    pub commands: Result<Arc<Commands>, String>,
    /// What people see who open the address of an open server; `None`: nothing.
    pub pages: Option<Router>,
    /// Where it is written down which clients are woken from outside; `None`: nowhere.
    pub wake_file: Option<PathBuf>,
    /// As agents are told it.
    pub workspace: String,
    /// Encrypts and asks for tokens; `None`: whoever reaches the listener is let in, so it must
    /// be on loopback.
    pub guard: Option<Guard>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sessions_dir: None,
            holds_file: None,
            shared: BTreeSet::new(),
            hold: None,
            toolsets: BTreeMap::new(),
            order: Vec::new(),
            overview: None,
            groups: BTreeMap::new(),
            directories: Directories::default(),
            project: None,
            private: Vec::new(),
            mirror: None,
            task_key: None,
            resume_within: Duration::from_millis(RESUME_MS_MAX),
            clock: Clock::default(),
            hooks: None,
            runs: None,
            gateway: None,
            files: Err(NO_ROOT.to_owned()),
            commands: Err(NOTHING_ALLOWED.to_owned()),
            pages: None,
            wake_file: None,
            workspace: WORKSPACE_DEFAULT.to_owned(),
            guard: None,
        }
    }
}

/// What the server's stopping waits for, and how the rest learns of it.
#[derive(Debug, Clone)]
pub(in crate::mcp) struct Life {
    /// Requests whose answer is not written yet.
    pub unwritten: TaskTracker,
    /// Open HTTP connections.
    pub connections: TaskTracker,
    /// Connections that outlive their HTTP request, and what serves them.
    pub tasks: TaskTracker,
    /// Stop taking requests; answer waits.
    pub stopping: CancellationToken,
    /// End what is still open.
    pub ending: CancellationToken,
}

impl Life {
    pub(super) fn new(stopping: CancellationToken) -> Self {
        let ending = CancellationToken::new();
        Self {
            unwritten: TaskTracker::new(),
            connections: TaskTracker::new(),
            tasks: TaskTracker::new(),
            stopping,
            ending,
        }
    }
}

pub(in crate::mcp) struct Server<S: McpService> {
    pub life: Life,
    pub sse: sse::Sessions,
    pub stdio: stdio::Lines,
    of_all: Address<S>,
    of_role: BTreeMap<RoleId, Address<S>>,
    of_server: ServerAddresses<S>,
}

/// What is served at one address.
struct Address<S: McpService> {
    served: Arc<S>,
    streamable: Streamable<S>,
}

impl<S: McpService> Address<S> {
    fn new(served: S, life: &Life, sessions_dir: Option<PathBuf>) -> io::Result<Self> {
        let served = Arc::new(served);
        Ok(Self { streamable: Streamable::new(Arc::clone(&served), life, sessions_dir)?, served })
    }
}

impl<S: McpService> Server<S> {
    /// Sessions of all addresses that are in memory.
    pub(in crate::mcp) fn sessions(&self) -> usize {
        let addresses = self.of_role.values().chain([&self.of_all]);
        let own: usize = addresses.map(|address| address.streamable.sessions()).sum();
        own + self.of_server.sessions()
    }

    pub(in crate::mcp) fn served_to_all(&self) -> Arc<S> {
        Arc::clone(&self.of_all.served)
    }

    /// What is served at an address that names `role`, or none, to whoever shows the token `by`.
    pub(in crate::mcp) fn served_at(
        &self,
        role: Option<&str>,
        by: Option<&Bearer>,
    ) -> Result<Arc<S>, Box<Response>> {
        Ok(Arc::clone(&self.at(role, by)?.served))
    }

    /// The one place that says which role a request may act as. With a role's own token an
    /// address that names none is that role's.
    fn at(&self, role: Option<&str>, by: Option<&Bearer>) -> Result<&Address<S>, Box<Response>> {
        match (role, by.and_then(Bearer::role)) {
            (None, None) => Ok(&self.of_all),
            (None, Some(own)) => self.of_role(own.as_str()),
            (Some(role), Some(own)) if role != own.as_str() => {
                Err(Box::new(forbidden("this token is not valid for the role in the address")))
            }
            (Some(role), Some(_) | None) => self.of_role(role),
        }
    }

    /// Ends the sessions of tokens that are no longer good.
    async fn end_sessions(&self, is_good: impl Fn(&TokenId) -> bool) {
        for address in self.of_role.values().chain([&self.of_all]) {
            address.streamable.end_sessions(&is_good).await;
        }
        self.of_server.end_sessions(&is_good).await;
    }

    /// The address that shows a server to a role.
    fn at_server(
        &self,
        role: &str,
        name: &str,
        by: Option<&Bearer>,
    ) -> Result<Arc<Streamable<S>>, Box<Response>> {
        self.at(Some(role), by)?;
        let id: RoleId = role.parse().map_err(|_| Box::new(self.unknown_role(role)))?;
        let failed = |error: io::Error| {
            let message = format!("cannot remember sessions: {error}");
            Box::new(refuse(StatusCode::INTERNAL_SERVER_ERROR, "disk", message))
        };
        self.of_server.at(&id, name).map_err(failed)?.ok_or_else(|| {
            let message = format!("this node has no MCP server {} for role {role}", echo(name));
            Box::new(refuse(StatusCode::NOT_FOUND, "unknown_server", message))
        })
    }

    fn of_role(&self, role: &str) -> Result<&Address<S>, Box<Response>> {
        let address = role.parse::<RoleId>().ok().and_then(|role| self.of_role.get(&role));
        address.ok_or_else(|| Box::new(self.unknown_role(role)))
    }

    fn unknown_role(&self, role: &str) -> Response {
        let names: Vec<&str> = self.of_role.keys().map(RoleId::as_str).collect();
        let hosted = if names.is_empty() { "none".to_owned() } else { listed_names(&names) };
        let near = did_you_mean(role, names.iter().copied());
        let role = echo(role);
        let message = format!("this node does not host the role {role}; it hosts: {hosted}{near}");
        let body = json!({ "error": "unknown_role", "message": message, "roles": names });
        (StatusCode::NOT_FOUND, Json(body)).into_response()
    }
}

/// Serves MCP on `listener` for `roles` until `shutdown`. Without a guard the listener must be on
/// loopback.
pub async fn serve(
    listener: TcpListener,
    roles: Vec<Arc<dyn Actions>>,
    settings: Settings,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let sessions_dir = settings.sessions_dir.clone();
    let (guard, clock) = (settings.guard.clone(), settings.clock.clone());
    let pages = settings.pages.clone();
    let host = Arc::new(Host::new(roles, settings, shutdown.clone()));
    let agents = |scope| Agents { host: Arc::clone(&host), scope };
    let of_role = host.roles.iter();
    let of_role = of_role.map(|(role, it)| (role.clone(), agents(Scope::One(Arc::clone(it)))));
    let of_role = of_role.collect();
    let of_all = agents(Scope::All);
    let of_server = {
        let host = Arc::clone(&host);
        move |role: &RoleId, name: &str| {
            let scope = gateway::scope_of_server(&host, role, name)?;
            Some(Agents { host: Arc::clone(&host), scope })
        }
    };
    let beside = Router::new()
        .route("/take-over/{role}", get(candidates).post(take_over))
        .route("/outbox/{number}/{how}", post(settle))
        .route("/mail/{role}", post(letter::send))
        .route("/wake", get(wake::report).post(wake::reload))
        .route("/wake/{role}", post(wake::hook))
        .merge(gateway_admin::routes())
        .with_state(Arc::clone(&host));
    let door = Door { listener, guard, pages, clock };
    let waking = tokio::spawn(host.waker.clone().run());
    let telling = tokio::spawn(tools::tell_changes(Arc::clone(&host)));
    let steps = LocalSteps::new(&host);
    let addresses = Addresses { of_all, of_role, of_server };
    let served = run(door, addresses, sessions_dir, beside, steps, shutdown).await;
    waking.abort();
    telling.abort();
    let written = host.learning.written();
    if tokio::time::timeout(Duration::from_millis(END_MS_MAX), written).await.is_err() {
        tracing::warn!("stopping before it is written what was learnt of clients");
    }
    served
}

/// Like [`serve`], for handlers of the caller's: `of_all` at the addresses that name no role,
/// `of_role` at those that do. Sessions are remembered in `sessions_dir`, if there is one.
pub async fn serve_with<S: McpService>(
    listener: TcpListener,
    of_all: S,
    of_role: BTreeMap<RoleId, S>,
    sessions_dir: Option<PathBuf>,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let door = Door { listener, guard: None, pages: None, clock: Clock::default() };
    let steps = None::<LocalSteps>;
    let addresses = Addresses { of_all, of_role, of_server: |_: &RoleId, _: &str| None };
    run(door, addresses, sessions_dir, Router::new(), steps, shutdown).await
}

/// Where clients come in.
struct Door {
    listener: TcpListener,
    guard: Option<Guard>,
    pages: Option<Router>,
    clock: Clock,
}

/// What is served where.
struct Addresses<S, F> {
    of_all: S,
    of_role: BTreeMap<RoleId, S>,
    /// What a role is served of another MCP server.
    of_server: F,
}

/// `beside` is what is served beside MCP, `steps` what sub-agents are.
async fn run<S, F, T>(
    door: Door,
    addresses: Addresses<S, F>,
    sessions_dir: Option<PathBuf>,
    beside: Router,
    steps: Option<T>,
    shutdown: CancellationToken,
) -> io::Result<()>
where
    S: McpService,
    F: Fn(&RoleId, &str) -> Option<S> + Send + Sync + 'static,
    T: StepService,
{
    let Addresses { of_all, of_role, of_server } = addresses;
    let Door { listener, guard, pages, clock } = door;
    let address = listener.local_addr()?;
    if guard.is_none() && !address.ip().is_loopback() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{address} is not a loopback address; MCP is served there only under guard"),
        ));
    }
    let life = Life::new(shutdown.clone());
    let dir = |name: &str| sessions_dir.as_ref().map(|dir| dir.join(name));
    let at_role = |(role, served): (RoleId, S)| {
        let address = Address::new(served, &life, dir(role.as_str()))?;
        Ok((role, address))
    };
    let server = Arc::new(Server {
        // No role can have a name that begins so.
        of_all: Address::new(of_all, &life, dir("_all"))?,
        of_role: of_role.into_iter().map(at_role).collect::<io::Result<_>>()?,
        of_server: ServerAddresses::new(of_server, life.clone(), sessions_dir.as_ref()),
        sse: sse::Sessions::default(),
        stdio: stdio::Lines::default(),
        life: life.clone(),
    });
    let steps = steps.map(|it| StepAccess::new(it, life.clone(), server.of_role.keys()));
    let app = routes(Arc::clone(&server)).merge(beside);
    let app = app.layer(middleware::from_fn(readable));
    let app = app.layer(middleware::from_fn(check_content_type));
    let app = match &guard {
        None => app,
        Some(guard) => {
            let bearers = Arc::new(Bearers::new(clock));
            bearers.replace(&guard.tokens.borrow());
            life.tasks.spawn(keep_to(guard.tokens.clone(), Arc::clone(&bearers), server));
            app.layer(middleware::from_fn_with_state(bearers, authenticated))
        }
    };
    // They have keys of their own.
    let app = match steps {
        None => app,
        Some(steps) => app.layer(middleware::from_fn_with_state(Arc::new(steps), of_steps::<T>)),
    };
    let app = match pages {
        // At a guarded one agents have tokens, and people have the broker's dashboard.
        Some(pages) if guard.is_none() => with_pages(app, &pages),
        Some(_) | None => app,
    };
    let is_named = guard.as_ref().map(|guard| Arc::clone(&guard.is_named));
    let site = Arc::new(Site::new(address, is_named));
    let app = app.layer(middleware::from_fn_with_state(site, check_names));
    let (connections, ended) = (life.connections.clone(), CancellationToken::new());
    let tls = guard.map(|guard| guard.tls);
    accept(listener, tls, app, shutdown, ended.clone(), connections.clone()).await;

    let within = |ms, tracker: TaskTracker| async move {
        tracker.close();
        let finished = tokio::time::timeout(Duration::from_millis(ms), tracker.wait()).await;
        finished.is_err().then(|| tracker.len())
    };
    if let Some(count) = within(WRITE_MS_MAX, life.unwritten.clone()).await {
        tracing::warn!(count, "stopping with answers that are not written");
    }
    life.ending.cancel();
    tokio::join!(within(END_MS_MAX, life.tasks.clone()), within(CLOSE_MS_MAX, connections.clone()));
    ended.cancel();
    Ok(())
}

/// Lets in who shows one of `tokens` as they are by now, and ends what others opened.
async fn keep_to<S: McpService>(
    mut tokens: watch::Receiver<AgentTokens>,
    bearers: Arc<Bearers>,
    server: Arc<Server<S>>,
) {
    let ending = server.life.ending.clone();
    loop {
        bearers.replace(&tokens.borrow_and_update());
        server.end_sessions(|token| bearers.is_good(token)).await;
        tokio::select! {
            changed = tokens.changed() => if changed.is_err() { return },
            () = ending.cancelled() => return,
        }
    }
}

/// The pages for people beside what programs ask for.
fn with_pages(app: Router, pages: &Router) -> Router {
    let paths = ["/", "/w/{*rest}", "/assets/{*rest}"];
    let pages = pages.clone().into_service::<Body>();
    let router = Router::new().fallback_service(app.into_service::<Body>());
    paths.into_iter().fold(router, |router, path| router.route_service(path, pages.clone()))
}

fn routes<S: McpService>(server: Arc<Server<S>>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/status", get(status::show::<S>))
        .route("/tools/{role}", get(tools_of_role::<S>))
        .route("/mcp", any(mcp_of_all::<S>))
        .route("/mcp/{role}", any(mcp_of_role::<S>))
        .route("/mcp/{role}/server/{name}", any(mcp_of_server::<S>))
        .route("/sse", get(sse::open_of_all::<S>))
        .route("/sse/{role}", get(sse::open_of_role::<S>))
        .route("/message", post(sse::message::<S>))
        .route("/stdio", get(stdio::open_of_all::<S>))
        .route("/stdio/{role}", get(stdio::open_of_role::<S>))
        .fallback(|| async {
            refuse(StatusCode::NOT_FOUND, "not_found", "nothing is served at this address")
        })
        .with_state(server)
}

/// The names of a role's tools, for who configures a client and is none.
async fn tools_of_role<S: McpService>(
    State(server): State<Arc<Server<S>>>,
    Path(role): Path<String>,
    by: Option<Extension<Bearer>>,
) -> Response {
    match server.served_at(Some(&role), by.as_deref()) {
        Ok(served) => Json(json!({ "role": role, "tools": served.tools() })).into_response(),
        Err(refusal) => *refusal,
    }
}

async fn mcp_of_all<S: McpService>(
    State(server): State<Arc<Server<S>>>,
    request: Request,
) -> Response {
    mcp(&server, None, request).await
}

async fn mcp_of_role<S: McpService>(
    State(server): State<Arc<Server<S>>>,
    Path(role): Path<String>,
    request: Request,
) -> Response {
    mcp(&server, Some(&role), request).await
}

async fn mcp_of_server<S: McpService>(
    State(server): State<Arc<Server<S>>>,
    Path((role, name)): Path<(String, String)>,
    request: Request,
) -> Response {
    match server.at_server(&role, &name, request.extensions().get()) {
        Ok(streamable) => streamable.handle(request).await,
        Err(refusal) => *refusal,
    }
}

async fn mcp<S: McpService>(server: &Server<S>, role: Option<&str>, request: Request) -> Response {
    match server.at(role, request.extensions().get()) {
        Ok(address) => address.streamable.handle(request).await,
        Err(refusal) => *refusal,
    }
}

/// A refusal below MCP.
pub(in crate::mcp) fn refuse(
    status: StatusCode,
    error: &str,
    message: impl Into<String>,
) -> Response {
    let message = bounded(&message.into());
    (status, Json(json!({ "error": error, "message": message }))).into_response()
}
