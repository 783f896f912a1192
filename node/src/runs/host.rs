//! What the MCP side of a node has of runs.

use std::{path::PathBuf, sync::Arc};

use super::{
    client::{RunClient, Speaker},
    live::LiveSteps,
    own::OwnRunners,
};
use crate::link::Link;

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
    pub fn client(&self, speaker: Speaker) -> RunClient {
        RunClient::new(self.link.clone(), speaker)
    }
}
