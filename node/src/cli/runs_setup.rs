//! What runs of sub-agents need in a node that a command hosts: which agents and runners there are,
//! and the worker that takes steps.

use std::{path::PathBuf, sync::Arc};

use super::Failure;
#[cfg(unix)]
use crate::{
    config::Role,
    runs::worker::{StepEndpoint, Worker, WorkerSettings},
    toolset::RUNS,
};
use crate::{
    config::{Config, RunSettings},
    node::Node,
    paths::NodeFile,
    runner::{runners::RunnerTable, stream::Dialect},
    runs::{host::RunsHost, live::LiveSteps, own::OwnRunners},
};

/// Where a step keeps its files, in the data directory.
pub(super) const RUNS_FOLDER: &str = "runs";

/// Where the broker of a node is. Whoever runs a broker elsewhere can start agents on this machine
/// once the node takes steps, so that has to be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BrokerPlace {
    /// In this process.
    Here,
    /// The same, for as long as one command takes.
    HereBriefly,
    Elsewhere,
}

/// Runs of one node.
pub(super) struct RunsSetup {
    pub(super) host: Arc<RunsHost>,
    #[cfg(unix)]
    worker: Option<Worker>,
}

impl RunsSetup {
    pub(super) fn start(
        config: &Config,
        node: &Node,
        file: &NodeFile,
        place: BrokerPlace,
    ) -> Result<Self, Failure> {
        let settings = settings(config);
        let directory = config.data.value.join(RUNS_FOLDER);
        let host = RunsHost {
            link: node.link().clone(),
            own: Arc::new(own_runners(config, &settings)?),
            default_runner: default_runner(&settings),
            steps: LiveSteps::default(),
            directory: std::path::absolute(&directory).unwrap_or(directory),
        };
        Ok(Self {
            #[cfg(unix)]
            worker: takes_steps(config, place).then(|| start_worker(&host, settings, file)),
            host: Arc::new(host),
        })
    }

    /// Ends what runs here.
    pub(super) async fn shutdown(self) {
        #[cfg(unix)]
        if let Some(worker) = self.worker {
            worker.shutdown().await;
        }
    }
}

/// What the configuration says of runs; the defaults where it says nothing.
pub(super) fn settings(config: &Config) -> RunSettings {
    config.runs.as_ref().map(|runs| runs.value.clone()).unwrap_or_default()
}

/// The runner of an agent that names none.
pub(super) fn default_runner(settings: &RunSettings) -> String {
    settings.runner.clone().unwrap_or_else(|| Dialect::Pi.to_string())
}

/// The agents and runners of this machine.
pub(super) fn own_runners(config: &Config, settings: &RunSettings) -> Result<OwnRunners, Failure> {
    let named = settings.directory.clone().or_else(|| config.mirror_root.value.clone());
    let project = named.unwrap_or_else(|| PathBuf::from("."));
    let project = std::path::absolute(&project).map_err(|why| {
        Failure::local(format!("{} has no absolute path: {why}.", project.display()))
    })?;
    let table = config.runners.as_ref().map_or_else(RunnerTable::default, |it| it.value.clone());
    Ok(OwnRunners { table, project })
}

#[cfg(unix)]
fn takes_steps(config: &Config, place: BrokerPlace) -> bool {
    let is_given = |role: &Role| role.toolsets.iter().any(|it| it.set == RUNS);
    match place {
        BrokerPlace::Here | BrokerPlace::HereBriefly => true,
        BrokerPlace::Elsewhere => {
            config.runs.is_some()
                || config.roles.value.iter().any(is_given)
                || config.services.iter().any(|it| it.value.runs_here())
        }
    }
}

#[cfg(unix)]
fn start_worker(host: &RunsHost, runs: RunSettings, file: &NodeFile) -> Worker {
    // An agent CLI trusts no certificate that a node made itself.
    let mcp = match (&file.fingerprint, &file.vouched) {
        (None, _) => Some(&file.mcp),
        (Some(_), vouched) => vouched.as_ref(),
    };
    let endpoint = StepEndpoint {
        mcp_url: mcp.map(|url| format!("{url}{}", crate::mcp::STEP_PATH)),
        node_url: file.mcp.clone(),
        fingerprint: file.fingerprint.clone(),
    };
    let (own, directory) = (host.own.clone(), host.directory.clone());
    let settings = WorkerSettings { own, runs, directory, endpoint };
    Worker::start(host.link.clone(), settings, host.steps.clone())
}
