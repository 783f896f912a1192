//! Holds that were learnt, kept in a small file: a shell around [`Cuts`].
//!
//! The file is a convenience: one that cannot be read is ignored, and whoever wants to begin
//! anew deletes it while the node is stopped.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use rmcp::model::Implementation;
use tasuki_proto::host::checked;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::learned_timeouts::{Cuts, Lesson};
use crate::{
    clock::{Clock, Moment},
    paths,
};

/// The file, in bytes: a larger one is not ours.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

#[derive(Debug)]
pub(in crate::mcp) struct Learning {
    cuts: Mutex<Cuts>,
    /// `None`: what is learnt is forgotten with the process.
    file: Option<Arc<File>>,
    /// Writing happens beside the calls, and before the node ends.
    tasks: TaskTracker,
    clock: Clock,
    /// What ends from here on is ended by the node.
    stopping: CancellationToken,
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    /// One writes at a time, so that the latest is written last.
    writing: Mutex<()>,
}

impl Learning {
    pub(in crate::mcp) fn new(
        path: Option<PathBuf>,
        clock: Clock,
        stopping: CancellationToken,
    ) -> Self {
        let cuts = path.as_deref().and_then(read).unwrap_or_default();
        let file = path.map(|path| Arc::new(File { path, writing: Mutex::default() }));
        Self { cuts: Mutex::new(cuts), file, tasks: TaskTracker::new(), clock, stopping }
    }

    /// Resolves when what was learnt is written.
    pub(in crate::mcp) async fn written(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn cuts(&self) -> MutexGuard<'_, Cuts> {
        self.cuts.lock()
    }

    /// How long this client may be held by what was learnt of it.
    pub(in crate::mcp) fn hold(&self, client: &Implementation) -> Option<Duration> {
        self.cuts().hold(&client.name, &client.version)
    }

    /// A call of `client` is held from here on, for `hold` at most.
    pub(in crate::mcp) fn begin(
        self: &Arc<Self>,
        client: Option<&Implementation>,
        hold: Duration,
        is_configured: bool,
    ) -> Held {
        Held(Arc::new(Mutex::new(client.map(|client| Holding {
            learning: Arc::clone(self),
            client: client.clone(),
            hold,
            is_configured,
            since: self.clock.now(),
        }))))
    }

    fn was_cut(self: &Arc<Self>, it: &Holding) {
        let after = self.clock.now().since(it.since);
        if self.stopping.is_cancelled() || it.hold <= after {
            return;
        }
        let Implementation { name, version, .. } = &it.client;
        let lesson = self.cuts().cut(name, version, after);
        let (after, held) = (after.as_secs(), it.hold.as_secs());
        match lesson {
            Lesson::None => return,
            Lesson::Noted => {
                tracing::info!(name, version, after, held, "a client gave a held call up");
            }
            Lesson::Learnt(_) if it.is_configured => tracing::warn!(
                name,
                version,
                after,
                held,
                "a client gave held calls up twice after as many seconds, before the hold it is \
                 configured with: configure a shorter hold, or a longer limit of the client's own"
            ),
            Lesson::Learnt(hold) => {
                let hold = hold.as_secs();
                tracing::info!(name, version, after, hold, "learnt how long a client waits");
            }
        }
        self.write();
    }

    fn write(self: &Arc<Self>) {
        let Some(file) = self.file.clone() else { return };
        let learning = Arc::clone(self);
        self.tasks.spawn_blocking(move || {
            let _alone = file.writing.lock();
            let json = checked::to_vec(&*learning.cuts());
            let written =
                json.map_err(io::Error::from).and_then(|json| paths::replace(&file.path, &json));
            if let Err(error) = written {
                let path = file.path.display();
                tracing::warn!(%path, %error, "what was learnt of clients is not written");
            }
        });
    }
}

fn read(path: &Path) -> Option<Cuts> {
    let size = std::fs::metadata(path).ok()?.len();
    let cuts = match size {
        0..=FILE_BYTES_MAX => {
            std::fs::read(path).and_then(|json| Cuts::read(&json).map_err(io::Error::other))
        }
        _ => Err(io::Error::other(format!("{size} bytes; the limit is {FILE_BYTES_MAX}"))),
    };
    let ignored = |error: &io::Error| {
        let path = path.display();
        tracing::warn!(%path, %error, "what was learnt of clients cannot be read; it is ignored");
    };
    cuts.inspect_err(ignored).ok()
}

/// A call that is held. Dropped before it was answered, it was cut.
#[derive(Debug, Clone)]
pub(in crate::mcp) struct Held(Arc<Mutex<Option<Holding>>>);

#[derive(Debug)]
struct Holding {
    learning: Arc<Learning>,
    client: Implementation,
    hold: Duration,
    /// Whether somebody said how long.
    is_configured: bool,
    since: Moment,
}

impl Held {
    fn take(&self) -> Option<Holding> {
        self.0.lock().take()
    }

    /// There is an answer, or an end that says nothing of the client's patience.
    pub(in crate::mcp) fn ended(&self) {
        drop(self.take());
    }

    /// The client gave up.
    pub(in crate::mcp) fn cut(&self) {
        if let Some(it) = self.take() {
            it.learning.was_cut(&it);
        }
    }
}
