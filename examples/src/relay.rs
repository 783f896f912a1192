//! A broker and two nodes, one for role A and one for role B: three processes on one machine,
//! as they would be on three.

use std::path::{Path, PathBuf};

use tasuki_proto::wire::{self, turn_loop_client::TurnLoopClient};
use tempfile::TempDir;

use crate::{Result, mcp::Agent, process::Process};

/// The two roles, as they are called.
pub const ROLES: [&str; 2] = ["A", "B"];

#[derive(Debug)]
pub struct Relay {
    dir: TempDir,
    pub broker: Process,
    /// Of the roles, in order.
    pub nodes: [Process; 2],
}

impl Relay {
    /// Starts all three on empty data.
    ///
    /// # Errors
    /// When one of them does not start.
    pub async fn start() -> Result<Self> {
        Self::start_in(&std::env::temp_dir()).await
    }

    /// The same with data in a folder of its own in `dir`.
    ///
    /// # Errors
    /// As [`Relay::start`].
    pub async fn start_in(dir: &Path) -> Result<Self> {
        let dir = tempfile::tempdir_in(dir)?;
        let broker = Process::broker(&dir.path().join("broker")).await?;
        let [a, b] = ROLES.map(|role| dir.path().join(format!("node-{role}")));
        std::fs::create_dir(&a)?;
        std::fs::create_dir(&b)?;
        let nodes = [
            Process::node(&a, broker.url(), ROLES[0], "127.0.0.1:0").await?,
            Process::node(&b, broker.url(), ROLES[1], "127.0.0.1:0").await?,
        ];
        Ok(Self { dir, broker, nodes })
    }

    /// An agent at the address of its role.
    ///
    /// # Errors
    /// When the node does not answer.
    pub async fn agent(&self, role: usize) -> Result<Agent> {
        let uri = format!("{}/mcp/{}", self.nodes[role].url(), ROLES[role]);
        Agent::connect(&uri, "example").await
    }

    /// Starts the broker again where it was.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn restart_broker(&mut self) -> Result<()> {
        let address = self.broker.address().to_owned();
        self.broker = Process::broker_at(&self.data("broker"), &address).await?;
        Ok(())
    }

    /// Starts a node again where it was.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn restart_node(&mut self, role: usize) -> Result<()> {
        let (data, address) =
            (self.data(&format!("node-{}", ROLES[role])), self.nodes[role].address());
        self.nodes[role] = Process::node(&data, self.broker.url(), ROLES[role], address).await?;
        Ok(())
    }

    /// Everything that was handed over, as the broker has it.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn history(&self) -> Result<Vec<wire::Entry>> {
        let mut turns = TurnLoopClient::connect(self.broker.url().to_owned()).await?;
        let history = turns.history(wire::HistoryRequest::default()).await?;
        Ok(history.into_inner().entries)
    }

    /// Ends them in good order.
    ///
    /// # Errors
    /// When one of them does not end well.
    pub async fn stop(self) -> Result<()> {
        for node in self.nodes {
            node.stop().await?;
        }
        self.broker.stop().await
    }

    fn data(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}
