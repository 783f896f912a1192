//! What runs of sub-agents need in a node that a command hosts: which agents and runners there are,
//! and the worker that takes steps.

use std::{path::PathBuf, sync::Arc};

use super::Failure;
use crate::{
    config::{Config, RunSettings},
    node::Node,
    paths::NodeFile,
    runner::runners::RunnerTable,
    runs::{host::RunsHost, live::LiveSteps, own::OwnRunners},
    toolset::RUNS,
};

/// Where a step keeps its files, in the data directory.
pub(super) const RUNS_FOLDER: &str = "runs";

/// Where the broker of a node is. Whoever runs a broker elsewhere can start agents on this machine
/// once the node takes steps, so that has to be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BrokerPlace {
    /// In this process.
    Here,
    Elsewhere,
}

/// Runs of one node.
pub(super) struct RunsSetup {
    pub(super) host: Arc<RunsHost>,
    #[cfg(unix)]
    worker: Option<crate::runs::worker::Worker>,
}

impl RunsSetup {
    pub(super) fn start(
        config: &Config,
        node: &Node,
        file: &NodeFile,
        place: BrokerPlace,
    ) -> Result<Self, Failure> {
        let settings = settings(config);
        let own = Arc::new(own_runners(config, &settings)?);
        #[cfg(unix)]
        let worker = takes_steps(config, place)
            .then(|| start_worker(config, node, file, own.clone(), &settings));
        #[cfg(unix)]
        let steps = worker.as_ref().map_or_else(LiveSteps::default, |it| it.live_steps());
        #[cfg(not(unix))]
        let steps = LiveSteps::default();
        let host = RunsHost {
            link: node.link().clone(),
            own,
            default_runner: default_runner(&settings),
            steps,
            directory: config.data.value.join(RUNS_FOLDER),
        };
        Ok(Self {
            host: Arc::new(host),
            #[cfg(unix)]
            worker,
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
    settings.runner.clone().unwrap_or_else(|| crate::runner::stream::Dialect::Pi.to_string())
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

fn takes_steps(config: &Config, place: BrokerPlace) -> bool {
    let is_given = |role: &crate::config::Role| role.toolsets.iter().any(|it| it.set == RUNS);
    match place {
        BrokerPlace::Here => true,
        BrokerPlace::Elsewhere => config.runs.is_some() || config.roles.value.iter().any(is_given),
    }
}

#[cfg(unix)]
fn start_worker(
    config: &Config,
    node: &Node,
    file: &NodeFile,
    own: Arc<OwnRunners>,
    settings: &RunSettings,
) -> crate::runs::worker::Worker {
    use crate::runs::worker::{StepEndpoint, Worker, WorkerSettings};
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
    let settings = WorkerSettings {
        own,
        labels: settings.labels.clone(),
        places: settings.places,
        accepts_elsewhere: settings.accept_elsewhere,
        limit: settings.timeout,
        env: settings.env.clone(),
        directory: config.data.value.join(RUNS_FOLDER),
        endpoint: Some(endpoint),
    };
    Worker::start(node.link().clone(), settings)
}
