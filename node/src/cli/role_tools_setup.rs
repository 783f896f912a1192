//! What a node's roles do for others, and what their agents may do on its machine: services, phases of
//! pipelines, files and commands, as the configuration says.

use std::{path::PathBuf, sync::Arc};

use super::runs_setup::{self, BrokerPlace, RunsSetup};
use crate::{
    commands::Commands,
    config::Config,
    file_access::Files,
    node::Node,
    pipeline::{PipelineWorker, WorkerSettings},
    services::Services,
};

/// What the roles of this node do for others.
pub(super) fn services(config: &Config, runs: &RunsSetup) -> Arc<Services> {
    let services = config.services.iter().map(|it| it.value.clone()).collect();
    Arc::new(Services::new(services, Arc::clone(&runs.host)))
}

/// Does the phases of pipelines that are its roles'.
pub(super) fn pipelines(
    config: &Config,
    node: &Node,
    services: &Arc<Services>,
    place: BrokerPlace,
) -> PipelineWorker {
    let settings = WorkerSettings {
        services: Arc::clone(services),
        accepts_agents: runs_setup::settings(config).accept_elsewhere,
        is_broker_here: match place {
            BrokerPlace::Here | BrokerPlace::HereBriefly => true,
            BrokerPlace::Elsewhere => false,
        },
    };
    PipelineWorker::start(node.link().clone(), settings)
}

/// The files that agents work on, but for `private` ones; `Err`: why there are none, for agents.
pub(super) fn files(config: &Config, private: Vec<PathBuf>) -> Result<Arc<Files>, String> {
    let said = config.files_distrust.as_ref().map(ToString::to_string);
    let settings = config.files.as_ref().map(|it| it.value.clone()).unwrap_or_default();
    let is_meant = settings.root.is_some();
    let files = Files::open(settings, private).map(Arc::new);
    if let (Err(why), true) = (&files, is_meant) {
        tracing::warn!(why, "agents work on no files");
    } else if let Some(why) = said {
        tracing::warn!(why, "agents work on no files");
    }
    files
}

/// What agents may run; `Err`: why nothing, for agents.
pub(super) fn commands(
    config: &Config,
    files: &Result<Arc<Files>, String>,
) -> Result<Arc<Commands>, String> {
    let said = config.commands_distrust.as_ref().map(ToString::to_string);
    let settings = config.commands.as_ref().map(|it| it.value.clone()).unwrap_or_default();
    let is_meant = !settings.allow.is_empty();
    let commands = Commands::open(settings, files, &config.root).map(Arc::new);
    if let (Err(why), true) = (&commands, is_meant) {
        tracing::warn!(why, "agents run no commands");
    } else if let Some(why) = said {
        tracing::warn!(why, "agents run no commands");
    }
    commands
}
