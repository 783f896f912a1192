//! Where a run that somebody types is asked for: what runs already, and what has to be started.

use tasuki_proto::wire;

use super::Failure;
use crate::{
    cli::{
        broker::{Broker, workspace},
        text::line,
        up,
    },
    config::Config,
    identity::Identity,
    paths::NodeFile,
};

/// What a run needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// All of it is there.
    There,
    /// It has to be started in this process.
    Here(Missing),
}

/// What does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    BrokerAndNode,
    Node,
}

/// Finds out what runs. `is_own`: the run is this machine's node's; another node may do it otherwise.
///
/// A broker that nobody named is not looked for: whatever answers at its usual address belongs to
/// another data directory.
pub(super) async fn find(config: &Config, is_own: bool) -> Result<Place, Failure> {
    let broker = Broker::new(config);
    if let Some(node) = NodeFile::read(&config.data.value) {
        return match own_differs(&node, &broker, config) {
            Some(why) if is_own => Err(Failure::usage(why)),
            Some(_) | None => Ok(Place::There),
        };
    }
    if config.broker.value.is_none() {
        up::refuse_joined(config)?;
        return Ok(Place::Here(Missing::BrokerAndNode));
    }
    // Whoever is away is not waited for.
    broker.call(&wire::ListNodesRequest::default()).await?;
    Ok(if is_own { Place::Here(Missing::Node) } else { Place::There })
}

/// Why the node that runs here is not one of the broker and workspace that are asked.
fn own_differs(node: &NodeFile, broker: &Broker, config: &Config) -> Option<String> {
    let next = "Name another node with --on, or another data directory with --data DIR.";
    if !node.is_at(&broker.url) {
        let (own, asked) = (line(&node.broker), line(&broker.url));
        return Some(format!("The node that runs here uses the broker {own}, not {asked}. {next}"));
    }
    let asked = workspace(config);
    (node.workspace != asked.as_str()).then(|| {
        let own = line(&node.workspace);
        format!("The node that runs here is in workspace {own}, not in {asked}. {next}")
    })
}

/// This machine's node as the broker has it, while it runs.
pub(super) async fn own_node(
    config: &Config,
    broker: &Broker,
) -> Result<Option<wire::Node>, Failure> {
    let is_its =
        |it: &NodeFile| it.is_at(&broker.url) && it.workspace == broker.workspace().as_str();
    if !NodeFile::read(&config.data.value).is_some_and(|it| is_its(&it)) {
        return Ok(None);
    }
    let known = Identity::known(&config.data.value);
    let known = known.map_err(|why| Failure::local(format!("{why}.")))?;
    let Some(name) = known.map(|name| name.to_string()) else { return Ok(None) };
    let nodes = broker.call(&wire::ListNodesRequest::default()).await?.nodes;
    Ok(nodes.into_iter().find(|it| it.node == name))
}
