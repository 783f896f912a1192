//! Runs as MCP resources: `tasuki://run/{id}`, with the newest output of agents that are at work.
//!
//! The feed tells when a step begins or ends, and not what its agent says meanwhile. So each run that
//! a client of this node subscribed to is watched at the broker, once for all of them; what comes is
//! a change like those of the feed. What it was is read when a client reads the resource.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use prost::Message as _;
use rmcp::{ErrorData, model::ReadResourceResult};
use tasuki_proto::{reason::Reason, run::RunId, wire};
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    host::{Host, Scope},
    resources::{contents, failed},
    tools::{read_steps, run_resource_facts},
};
use crate::{
    role::{Refusal, news::News},
    runs::{
        client::{RunClient, Speaker},
        host::RunsHost,
        view::RunView,
    },
    toolset::RUNS,
};

/// Before a run is watched again, in milliseconds, after the broker ended that or was away.
const AGAIN_MS: u64 = 1_000;

/// How long the next part of a run's state may take, in milliseconds, when it comes in several.
const PART_MS_MAX: u64 = 2_000;

/// A part of that size, in bytes, may be followed by another: outputs beyond 1 MiB are.
const PART_BYTES: usize = 900 * 1024;

/// Whether any role of an address may look at runs.
pub(super) fn shows_runs(host: &Host, scope: &Scope) -> bool {
    let has_set = || scope.roles(host).into_iter().any(|role| host.has_set(role, RUNS));
    host.runs.is_some() && has_set()
}

/// The run at `uri`.
pub(super) async fn read(
    host: &Host,
    run: RunId,
    uri: &str,
) -> Result<ReadResourceResult, ErrorData> {
    let none = || ErrorData::invalid_request("this node has no runs", None);
    let runs = host.runs.as_deref().ok_or_else(none)?;
    let looked = look(host, runs, run).await;
    let (view, progress) = looked.map_err(|refusal| failed(&refusal, Some(uri)))?;
    contents(&run_resource_facts(&view, &progress), uri)
}

/// A run as it is, with the words of its steps once it is over, and before that with their newest
/// output.
async fn look(
    host: &Host,
    runs: &RunsHost,
    run: RunId,
) -> Result<(RunView, Vec<wire::StepProgress>), Refusal> {
    let mut changes = runs.link.watch_run(run.to_string()).await?;
    let mut found: Option<wire::Run> = None;
    let mut progress = Vec::new();
    let part = Duration::from_millis(PART_MS_MAX);
    while let Ok(Ok(Some(change))) = timeout(part, changes.message()).await {
        let bytes: usize = change.progress.iter().map(wire::StepProgress::encoded_len).sum();
        found = change.run.or(found);
        progress.extend(change.progress);
        if bytes < PART_BYTES {
            break;
        }
    }
    let unavailable = || Refusal {
        reason: Reason::Unavailable,
        message: "The broker did not say how the run stands. Read it again.".to_owned(),
    };
    let run_now = found.ok_or_else(unavailable)?;
    let is_over = run_now.status() != wire::RunStatus::Running;
    // Whoever reads, no role is spoken for.
    let speaker = host.roles.keys().next().cloned().map(Speaker::Role);
    let steps = match speaker.filter(|_| is_over) {
        Some(speaker) => {
            let client = RunClient::new(runs.link.clone(), speaker);
            read_steps(&client, run, &run_now).await?
        }
        None => Vec::new(),
    };
    Ok((RunView { run: run_now, steps }, progress))
}

/// The runs that are watched for clients of this node.
#[derive(Debug, Default)]
pub(super) struct WatchedRuns(Mutex<BTreeMap<RunId, Weak<WatchedRun>>>);

/// A run is watched for as long as this lives.
#[derive(Debug)]
pub(super) struct WatchedRun(#[expect(dead_code, reason = "kept for its drop")] DropGuard);

impl WatchedRuns {
    /// Tells `news` what happens in a run, until nobody has the result any more.
    pub(super) fn watch(
        &self,
        run: RunId,
        runs: &Arc<RunsHost>,
        news: &News,
        stopping: &CancellationToken,
    ) -> Arc<WatchedRun> {
        let mut all = self.0.lock();
        if let Some(known) = all.get(&run).and_then(Weak::upgrade) {
            return known;
        }
        all.retain(|_, it| it.strong_count() != 0);
        let gone = stopping.child_token();
        let watched = Arc::new(WatchedRun(gone.clone().drop_guard()));
        all.insert(run, Arc::downgrade(&watched));
        let (runs, news) = (Arc::clone(runs), news.clone());
        tokio::spawn(async move { gone.run_until_cancelled(follow(&runs, run, &news)).await });
        watched
    }
}

/// Until the run has ended, or is not known.
async fn follow(runs: &RunsHost, run: RunId, news: &News) {
    loop {
        match runs.link.watch_run(run.to_string()).await {
            Ok(mut changes) => {
                while let Ok(Some(change)) = changes.message().await {
                    news.run_changed(run);
                    let is_open = |it: &wire::Run| it.status() == wire::RunStatus::Running;
                    if change.run.as_ref().is_some_and(|it| !is_open(it)) {
                        return;
                    }
                }
            }
            Err(why) if why.reason == Reason::UnknownRun => return,
            Err(_) => {}
        }
        sleep(Duration::from_millis(AGAIN_MS)).await;
    }
}
