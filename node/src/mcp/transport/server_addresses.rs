//! Addresses below a role's that show one other MCP server: `/mcp/{role}/server/{name}`.
//!
//! Each is opened by the first request to it. There are as many as roles times servers at most.

use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc};

use parking_lot::Mutex;
use tasuki_proto::id::{RoleId, TokenId};

use super::{server::Life, service::McpService, streamable::Streamable};

/// Where their sessions are remembered: no role can have a name that begins so.
const DIRECTORY: &str = "_server";

/// What is served of a server to a role; `None`: that role has no such server.
type Serve<S> = Box<dyn Fn(&RoleId, &str) -> Option<S> + Send + Sync>;

type Opened<S> = BTreeMap<(RoleId, String), Arc<Streamable<S>>>;

pub(super) struct ServerAddresses<S: McpService> {
    serve: Serve<S>,
    life: Life,
    sessions_dir: Option<PathBuf>,
    opened: Mutex<Opened<S>>,
}

impl<S: McpService> ServerAddresses<S> {
    pub(super) fn new(
        serve: impl Fn(&RoleId, &str) -> Option<S> + Send + Sync + 'static,
        life: Life,
        sessions_dir: Option<&PathBuf>,
    ) -> Self {
        let sessions_dir = sessions_dir.map(|dir| dir.join(DIRECTORY));
        Self { serve: Box::new(serve), life, sessions_dir, opened: Mutex::default() }
    }

    /// The address of a server for a role.
    pub(super) fn at(&self, role: &RoleId, name: &str) -> io::Result<Option<Arc<Streamable<S>>>> {
        let key = (role.clone(), name.to_owned());
        let mut opened = self.opened.lock();
        if let Some(streamable) = opened.get(&key) {
            return Ok(Some(Arc::clone(streamable)));
        }
        let Some(served) = (self.serve)(role, name) else { return Ok(None) };
        let dir = self.sessions_dir.as_ref().map(|dir| dir.join(role.as_str()).join(name));
        let streamable = Arc::new(Streamable::new(Arc::new(served), &self.life, dir)?);
        opened.insert(key, Arc::clone(&streamable));
        Ok(Some(streamable))
    }

    fn all(&self) -> Vec<Arc<Streamable<S>>> {
        self.opened.lock().values().cloned().collect()
    }

    /// Sessions in memory.
    pub(super) fn sessions(&self) -> usize {
        self.all().iter().map(|it| it.sessions()).sum()
    }

    /// Ends the sessions begun with a token that is no longer good.
    pub(super) async fn end_sessions(&self, is_good: &impl Fn(&TokenId) -> bool) {
        for streamable in self.all() {
            streamable.end_sessions(is_good).await;
        }
    }
}
