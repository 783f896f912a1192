//! `tasuki-broker reindex`: the index of a workspace's mail, made anew from the journal.
//!
//! Of a data directory that nobody serves: a running broker notices by itself when an index is
//! damaged or gone.

use std::{path::Path, sync::Arc};

use clap::Args;
use serde_json::json;
use tasuki_broker::{
    clock::Clock,
    journal::{
        Journal, JournalError,
        sled::{Options, SledJournal},
    },
    search::Search,
    workspace::{IDLE_MS, Settings, Workspaces},
};
use tasuki_proto::{
    host::progress::{Progress, Unit},
    id::WorkspaceId,
    limits::LEASE_MS,
};
use tokio_util::sync::CancellationToken;

use super::{Data, EXIT_OK, EXIT_UNAVAILABLE, EXIT_USAGE, exit_code, say, used_directory};

#[derive(Args)]
pub(super) struct Reindex {
    #[command(flatten)]
    data: Data,

    /// Only this workspace, even if it has no index yet [default: every workspace that has one]
    #[arg(long, value_name = "WORKSPACE")]
    workspace: Option<WorkspaceId>,
}

pub(super) fn run(it: &Reindex) -> u8 {
    let directory = match used_directory(&it.data) {
        Ok(directory) => directory,
        Err(code) => return code,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(reindex(it, &directory)),
        Err(error) => {
            tracing::error!(%error, "cannot start");
            EXIT_UNAVAILABLE
        }
    }
}

async fn reindex(it: &Reindex, data: &Path) -> u8 {
    let journal = match SledJournal::open(data, Options::default()) {
        Ok(journal) => Arc::new(journal),
        Err(error) => {
            tracing::error!("{error}");
            if matches!(error, JournalError::InUse(_)) {
                tracing::error!(
                    "stop it first; a running broker rebuilds a damaged or missing index by itself"
                );
            }
            return exit_code(&error);
        }
    };
    let code = rebuild(it, data, journal.clone()).await;
    match journal.close().await {
        Ok(()) => code,
        Err(error) => {
            tracing::error!("{error}");
            exit_code(&error)
        }
    }
}

async fn rebuild(it: &Reindex, data: &Path, journal: Arc<SledJournal>) -> u8 {
    let all = journal.workspaces();
    let fatal = Arc::new(|why: &str| tracing::error!("{why}"));
    let settings = Settings { lease_ms: LEASE_MS, idle_ms: IDLE_MS };
    let workspaces = Workspaces::start(journal, Clock::system(), settings, fatal).await;
    let stopping = CancellationToken::new();
    let search = Search::start(data, &workspaces, stopping.clone());
    let wanted: Vec<_> = match &it.workspace {
        Some(workspace) if !all.contains(workspace) => {
            tracing::error!("there is no workspace {workspace}");
            return EXIT_USAGE;
        }
        Some(workspace) => vec![workspace.clone()],
        None => all.into_iter().filter(|it| search.has_index(it)).collect(),
    };
    let mut code = EXIT_OK;
    let mut made = serde_json::Map::new();
    if wanted.is_empty() && !it.data.json {
        say("no workspace has an index");
    }
    for workspace in wanted {
        let what = format!("indexing {workspace}");
        let progress = Progress::start(&what, Unit::Time, it.data.json);
        let rebuilt = search.rebuild(&workspace).await;
        progress.finish();
        match rebuilt {
            Ok(entries) if it.data.json => {
                made.insert(workspace.to_string(), json!({ "entries": entries }));
            }
            Ok(entries) => say(&format!("{workspace}: {entries} entries")),
            Err(error) => {
                tracing::error!("{workspace}: {error}");
                made.insert(workspace.to_string(), json!({ "error": error.to_string() }));
                code = EXIT_UNAVAILABLE;
            }
        }
    }
    if it.data.json {
        say(&json!({ "workspaces": made }).to_string());
    }
    stopping.cancel();
    code
}
