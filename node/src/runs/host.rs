//! What the MCP side of a node has of runs.

use std::{path::PathBuf, sync::Arc};

use tasuki_proto::run::StepId;
use tokio::task;

use super::{
    client::{RunCaller, RunClient},
    live::LiveSteps,
    output::Rest,
    own::OwnRunners,
};
use crate::{link::Link, refusal::Refusal};

/// All that the tools for runs need.
#[derive(Debug, Clone)]
pub struct RunsHost {
    pub link: Link,
    pub own: Arc<OwnRunners>,
    /// The runner of an agent that names none.
    pub default_runner: String,
    pub steps: LiveSteps,
    /// Where the steps of this node have their outputs that the broker does not have whole.
    pub directory: PathBuf,
}

impl RunsHost {
    pub fn client(&self, caller: RunCaller) -> RunClient {
        RunClient::new(self.link.clone(), caller)
    }

    /// A part of what the broker does not keep of an output: of this node's file, else from the node
    /// that ran the step.
    pub async fn rest(
        &self,
        client: &RunClient,
        step: StepId,
        offset: u64,
        limit: u32,
    ) -> Result<Rest, Refusal> {
        let directory = self.directory.clone();
        let own = task::spawn_blocking(move || Rest::own(&directory, step, offset, limit));
        match own.await.ok().flatten() {
            Some(rest) => Ok(rest),
            None => client.rest(step, offset, limit).await,
        }
    }
}
