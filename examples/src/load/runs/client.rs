//! Who starts runs of fake agents, waits for their end and watches them, over a connection of its
//! own.

use std::time::Duration;

use tasuki_proto::wire::{
    Caller, GetStepRequest, IdempotencyKey, NewStep, RunEndQuestion, RunMode, RunQuestion,
    RunStatus, RunText, StartRunRequest, WatchRunRequest, WatchRunResponse, run_question::Ask,
    runs_client::RunsClient,
};
use tokio::time::timeout;
use tonic::{
    Streaming,
    transport::{Channel, Endpoint},
};

use super::fake_agent::{AGENT, LABEL, RUNNER, TASK};
use crate::{Result, process::Process};

/// Who asks for all runs.
const ROLE: &str = "asker";

/// Longer than any run takes here.
const HOLD_MS: u64 = 60_000;

/// For what a watcher waits for.
const SEEN_WITHIN: Duration = Duration::from_secs(120);

pub(super) struct Client {
    runs: RunsClient<Channel>,
    /// The key used last.
    counter: u64,
}

impl Client {
    pub(super) async fn connect(broker: &Process) -> Result<Self> {
        let endpoint = Endpoint::from_shared(broker.url().to_owned())?.tcp_nodelay(true);
        Ok(Self { runs: RunsClient::new(endpoint.connect().await?), counter: 0 })
    }

    /// Starts a run whose agent writes what `file` holds. Returns the run's id.
    pub(super) async fn start(&mut self, file: &str) -> Result<String> {
        self.counter += 1;
        let step = NewStep {
            agent: AGENT.to_owned(),
            runner: RUNNER.to_owned(),
            model: file.to_owned(),
            on: LABEL.to_owned(),
            task: Some(RunText { text: TASK.to_owned(), sealed: None }),
            ..NewStep::default()
        };
        let request = StartRunRequest {
            caller: Some(Caller::default()),
            key: Some(IdempotencyKey { client_id: ROLE.to_owned(), counter: self.counter }),
            role: ROLE.to_owned(),
            mode: RunMode::Single.into(),
            steps: vec![step],
            ..StartRunRequest::default()
        };
        let started = self.runs.start_run(request).await?.into_inner();
        Ok(started.run.ok_or("no run was started")?.run_id)
    }

    /// Waits for the end of a run, which must be a success.
    pub(super) async fn end(&mut self, run_id: &str) -> Result<()> {
        let ask = Ask::Run(RunEndQuestion { run_id: run_id.to_owned(), after: 0 });
        let question = RunQuestion {
            caller: Some(Caller::default()),
            role: ROLE.to_owned(),
            hold_ms: HOLD_MS,
            ask: Some(ask),
            ..RunQuestion::default()
        };
        let answer = self.runs.await_run(question).await?.into_inner();
        let run = answer.run.ok_or("the answer says nothing of the run")?;
        if run.status() == RunStatus::Succeeded {
            return Ok(());
        }
        let request =
            GetStepRequest { caller: Some(Caller::default()), run_id: run_id.to_owned(), step: 1 };
        let step = self.runs.get_step(request).await?.into_inner();
        let (status, failure) = (run.status(), step.step.unwrap_or_default().failure());
        let error = step.error.unwrap_or_default().text;
        Err(format!("run {run_id}: {status:?}, {failure:?} {error}").into())
    }

    /// The run as it is, then each change.
    pub(super) async fn watch(&mut self, run_id: &str) -> Result<Streaming<WatchRunResponse>> {
        let (caller, run_id) = (Some(Caller::default()), run_id.to_owned());
        Ok(self.runs.watch_run(WatchRunRequest { caller, run_id }).await?.into_inner())
    }
}

/// Reads until something is told that is waited for.
pub(super) async fn follow(
    watch: &mut Streaming<WatchRunResponse>,
    is_there: impl Fn(&WatchRunResponse) -> bool,
) -> Result<()> {
    let told = timeout(SEEN_WITHIN, read_until(watch, is_there)).await;
    told.map_err(|_| "a watcher was not told of what an agent wrote")?
}

async fn read_until(
    watch: &mut Streaming<WatchRunResponse>,
    is_there: impl Fn(&WatchRunResponse) -> bool,
) -> Result<()> {
    loop {
        let told = watch.message().await?.ok_or("the run ended while it was watched")?;
        if is_there(&told) {
            return Ok(());
        }
    }
}
