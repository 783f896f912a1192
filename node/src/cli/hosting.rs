//! A node with its MCP side, as `tasuki up` and `tasuki node` run it.

use std::{net::SocketAddr, time::Duration};

use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{Failure, Output};
use crate::{
    config::Config,
    mcp,
    node::{Node, RoleSpec, Settings},
    paths::NodeFile,
};

/// For commands and receipts of agents to reach the broker when the node stops: with the MCP
/// side's own patience it is within what a service manager waits.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Where sessions are remembered, in the data directory.
const SESSIONS: &str = "sessions";

/// A running node and its MCP side.
pub(super) struct Hosting {
    node: Node,
    file: NodeFile,
    stop: CancellationToken,
    mcp: JoinHandle<std::io::Result<()>>,
}

/// Takes an address; nobody else may have it.
pub(super) async fn listen(flag: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|why| {
        Failure::local(format!("Nothing can listen on {address}: {why}. Choose another {flag}."))
    })
}

impl Hosting {
    /// Starts the roles and serves MCP on `listener`.
    pub(super) async fn start(
        config: &Config,
        broker: String,
        take_over: bool,
        listener: TcpListener,
        output: &mut Output,
    ) -> Result<Self, Failure> {
        let data = &config.data.value;
        let address = listener.local_addr().map_err(|why| Failure::local(why.to_string()))?;
        let spec = |role: &crate::config::Role| RoleSpec {
            role: role.name.clone(),
            toolsets: role.sets(),
        };
        let roles: Vec<RoleSpec> = config.roles.value.iter().map(spec).collect();
        let names: Vec<String> = roles.iter().map(|spec| spec.role.to_string()).collect();
        let workspace = config.workspace.value.clone();
        let file = NodeFile {
            pid: std::process::id(),
            mcp: format!("http://{address}"),
            broker: broker.clone(),
            workspace: workspace.to_string(),
            roles: names,
        };
        let settings = Settings { broker, workspace, roles, data: data.clone(), take_over };
        let node = Node::start(settings).await;
        let node = node.map_err(|why| Failure::local(sentence(&why)))?;
        let actions =
            node.roles().iter().filter_map(|spec| node.actions(&spec.role)).collect::<Vec<_>>();
        let stop = CancellationToken::new();
        let settings =
            mcp::Settings { sessions_dir: Some(data.join(SESSIONS)), hold: config.hold.value };
        let mcp = tokio::spawn(mcp::serve(listener, actions, settings, stop.clone()));
        file.write(data).map_err(|why| {
            Failure::local(format!("{} cannot be written to: {why}.", data.display()))
        })?;
        output.line(&format!("listening on http://{address} (MCP)"))?;
        Ok(Self { node, file, stop, mcp })
    }

    /// Resolves when the MCP side ends though nobody asked it to.
    pub(super) async fn ended(&mut self) -> Failure {
        let why = match (&mut self.mcp).await {
            Ok(Ok(())) => "without a word".to_owned(),
            Ok(Err(why)) => why.to_string(),
            Err(why) => why.to_string(),
        };
        Failure::local(format!("The node's MCP side ended: {why}."))
    }

    /// Answers waits, lets commands end, gives the data directory free.
    pub(super) async fn shut_down(self, config: &Config) {
        self.file.remove(&config.data.value);
        self.stop.cancel();
        if !self.mcp.is_finished()
            && let Err(error) = self.mcp.await
        {
            tracing::warn!(%error, "the MCP side had failed");
        }
        self.node.shutdown(LAST_WORDS).await;
    }
}

/// An error and what is behind it.
pub(super) fn sentence(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<String> = chain.map(ToString::to_string).collect();
    format!("{}.", texts.join(": ").trim_end_matches('.'))
}
