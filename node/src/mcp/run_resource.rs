//! Runs as MCP resources: `tasuki://run/{id}`, with the newest output of agents that are at work.
//!
//! The feed tells when a step begins or ends, and not what its agent says meanwhile. So each run that
//! a client subscribed to is watched at the broker; what comes is a change like those of the feed.
//! What it was is read when a client reads the resource.

use std::time::Duration;

use rmcp::{ErrorData, model::ReadResourceResult};
use serde_json::Value;
use tasuki_proto::{
    reason::Reason,
    run::RunId,
    wire::{RunStatus, WatchRunResponse},
};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    host::{Host, Scope},
    resources::{contents, failed},
    tools::{read_steps, run_resource_facts},
};
use crate::{
    role::{Refusal, news::News},
    runs::{
        client::{Follow, RunCaller, RunClient},
        view::RunView,
    },
    toolset::RUNS,
};

/// How long the broker may take to say how a run stands, in milliseconds.
const LOOK_MS_MAX: u64 = 2_000;

/// Looks at runs for an address; `None`: no role may that it shows.
pub(super) fn client(host: &Host, scope: &Scope) -> Option<RunClient> {
    let role = scope.shown_roles(host).into_iter().find(|role| host.has_set(role, RUNS))?;
    Some(host.runs.as_ref()?.client(RunCaller::Role(role.clone())))
}

/// The run at `uri`.
pub(super) async fn read(
    host: &Host,
    scope: &Scope,
    run: RunId,
    uri: &str,
) -> Result<ReadResourceResult, ErrorData> {
    let none = || ErrorData::invalid_request("this node has no runs", None);
    let client = client(host, scope).ok_or_else(none)?;
    let shown = look(&client, run).await.map_err(|refusal| failed(&refusal, Some(uri)))?;
    contents(&shown, uri)
}

/// A run as it is, with the words of its steps once it is over, and before that with their newest
/// output, as much of it as the broker tells at once.
async fn look(client: &RunClient, run: RunId) -> Result<Value, Refusal> {
    let mut changes = client.watch(run).await?;
    let first = timeout(Duration::from_millis(LOOK_MS_MAX), changes.message()).await;
    let change = first.ok().and_then(Result::ok).flatten().unwrap_or_default();
    let found = change.run.ok_or_else(|| Refusal {
        reason: Reason::Unavailable,
        message: "The broker did not say how the run stands. Read it again.".to_owned(),
    })?;
    let steps = match found.status() {
        RunStatus::Running => Vec::new(),
        RunStatus::Unspecified
        | RunStatus::Succeeded
        | RunStatus::Failed
        | RunStatus::Canceled
        | RunStatus::Lost
        | RunStatus::OutOfBudget => read_steps(client, run, &found).await?,
    };
    Ok(run_resource_facts(&RunView { run: found, steps }, &change.progress))
}

/// Tells `news` what happens in a run, until the result is dropped.
pub(super) fn watch_run(
    client: RunClient,
    run: RunId,
    news: News,
    stopping: &CancellationToken,
) -> DropGuard {
    let gone = stopping.child_token();
    let watched = gone.clone().drop_guard();
    tokio::spawn(async move { gone.run_until_cancelled(follow(&client, run, &news)).await });
    watched
}

/// Until the run has ended, or is not known.
async fn follow(client: &RunClient, run: RunId, news: &News) {
    let seen = |change: WatchRunResponse| {
        news.run_changed(run);
        match change.run.is_some_and(|it| it.status() != RunStatus::Running) {
            true => Follow::Stop,
            false => Follow::On,
        }
    };
    client.follow(run, seen).await;
}
