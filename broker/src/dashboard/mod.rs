//! Pages for people: who holds what, since when, what came before, why nothing moves; and what a
//! person does about it.
//!
//! A page is one more client of the API. It asks and acts through the same guard as everybody, with
//! the token of whoever looks, over any [`Carrier`]: in the broker's own process, or from a node.
//!
//! - **WD1** Nothing is read or done but by a call of the API with the visitor's own token; what MCP
//!   servers a node has is the node's own to say ([`ToolServers`]), on pages that it serves itself.
//! - **WD2** What agents wrote is text. It is escaped, or sanitised where it is Markdown, and nothing
//!   in it makes a browser load, run or send anything.
//! - **WD3** What changes something carries a token that only this server's own pages have.
//!
//! `visit` is the way from a request to the API; `session` who is logged in; `headers` what a browser
//! may do with a page; `view` and `markdown` how things look; `live` tells open pages that something
//! happened. A noun has a folder in `pages`, and a line in `pages::ALL`.
//!
//! Not here: the listener, its certificate, and which names a request may use ([`crate::server`]).

mod assets;
mod form;
mod headers;
mod keys;
mod live;
mod login;
mod markdown;
mod pages;
mod session;
mod view;
mod visit;

use std::{any::Any, collections::BTreeMap, fmt, sync::Arc};

use axum::{Router, middleware, routing::get};
use futures::future::BoxFuture;
use tasuki_proto::id::WorkspaceId;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use self::{
    keys::Keys,
    live::Streams,
    session::{OwnScope, Sessions},
    visit::Trouble,
};
use crate::grpc::Carrier;

/// The role that a person acts as.
pub const HUMAN: &str = tasuki_proto::limits::ROLE_HUMAN;

/// Makes sealed words readable, where whoever serves the pages holds the keys.
pub trait Words: Send + Sync {
    /// Opens what a response shows of mail, as far as this machine may read it.
    fn open<'a>(&'a self, response: &'a mut Box<dyn Any + Send>) -> BoxFuture<'a, ()>;
}

/// The MCP servers of the node that serves the pages.
pub trait ToolServers: Send + Sync {
    fn list(&self) -> Vec<ToolServer>;

    /// Approves changes of tools of a server, each by the digest of what a person looked at.
    ///
    /// The future's error says why nothing was approved.
    fn approve(
        &self,
        server: String,
        digests: BTreeMap<String, String>,
    ) -> BoxFuture<'_, Result<(), String>>;
}

/// One of them, or a role of another node, as a person is shown it.
#[derive(Debug, Clone, Default)]
pub struct ToolServer {
    pub name: String,
    /// Its command or address.
    pub endpoint: String,
    pub state: String,
    pub is_ready: bool,
    /// Why it is not.
    pub why: String,
    /// Its name and version, as it says.
    pub version: String,
    pub restarts: u64,
    /// Calls under way.
    pub in_flight: usize,
    /// Names as agents see them, with what each does.
    pub tools: Vec<(String, String)>,
    /// Tools that changed and wait for a person.
    pub held: Vec<ChangedTool>,
    /// Tools that are not shown, and why.
    pub refused: Vec<(String, String)>,
}

/// A tool before and after it changed.
#[derive(Debug, Clone)]
pub struct ChangedTool {
    pub tool: String,
    /// Names this change.
    pub digest: String,
    /// As JSON.
    pub approved: String,
    pub current: String,
}

/// How pages are served.
pub struct Settings {
    pub carrier: Carrier,
    /// Visitors log in with a token; else whoever reaches a page acts without one.
    pub asks_for_token: bool,
    /// Pages come over TLS on this port, and cookies go over nothing else.
    pub secure_port: Option<u16>,
    /// `None`: sealed words stay sealed.
    pub words: Option<Arc<dyn Words>>,
    /// `None`: whoever serves the pages has no MCP servers.
    pub servers: Option<Arc<dyn ToolServers>>,
    /// The workspace to begin with.
    pub home: WorkspaceId,
    /// Ends streams when the server stops.
    pub stopping: CancellationToken,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("asks_for_token", &self.asks_for_token)
            .finish_non_exhaustive()
    }
}

/// What all pages share.
struct App {
    settings: Settings,
    sessions: Sessions,
    own_scope: OwnScope,
    streams: Streams,
    /// Places for searches: each looks through a lot.
    searches: Semaphore,
    keys: Keys,
}

/// Searches under way, of all visitors.
const SEARCHES_MAX: usize = 2;

/// All pages, without the check of who may reach them at all.
pub fn router(settings: Settings) -> Router {
    let sessions = Sessions::new(settings.secure_port);
    let asks_for_token = settings.asks_for_token;
    let app = Arc::new(App {
        settings,
        sessions,
        own_scope: OwnScope::default(),
        streams: Streams::default(),
        searches: Semaphore::new(SEARCHES_MAX),
        keys: Keys::new(),
    });
    let mut router = pages::without_tab(Router::new())
        .route("/", get(pages::home))
        .merge(assets::router())
        .merge(login::router())
        .merge(live::router());
    for page in pages::ALL {
        router = (page.routes)(router);
    }
    let mut router = router
        .fallback(async || Trouble::NotFound)
        .method_not_allowed_fallback(async || Trouble::OnlyForms);
    if !asks_for_token {
        router = router.layer(middleware::map_response(login::turned_away));
    }
    router.layer(middleware::from_fn(headers::protect)).with_state(app)
}
