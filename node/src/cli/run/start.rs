//! Starts a run as this machine's node's, once somebody is there who runs it.

use std::time::Duration;

use tasuki_broker::overview::every_node;
use tasuki_proto::{reason::Reason, wire};
use tokio::time::sleep;

use super::{Asked, Broker, Failure};
use crate::{
    cli::{runs::client::RunsClient, text::line, up},
    client::retry::{Backoff, chance},
    clock,
    config::Config,
    identity::Identity,
    paths::NodeFile,
    runs::plan::nobody_runs,
};

/// How long a node may be without a wait for steps: it has none while it takes one in, and when it
/// has just been connected.
const OFFERED_WITHIN: Duration = Duration::from_secs(5);

/// Between two looks, in milliseconds: nobody says when a node waits for steps.
const LOOK_MS_MIN: u64 = 50;
const LOOK_MS_MAX: u64 = 1_000;

/// Why this machine's node does not take a run.
const NO_AGENTS: &str = "This machine's node runs no agents. Write [runs] into its tasuki.toml and \
                         start it again, or name another node with --on; `tasuki runs runners` \
                         shows them.";
const NO_NODE: &str = "No node of this machine is connected to the broker. Start `tasuki node`, or \
                       name another node with --on; `tasuki runs runners` shows them.";

/// What has to be started in this process.
#[derive(Debug, Clone, Copy)]
pub(super) enum Missing {
    BrokerAndNode,
    Node,
}

/// Finds out what does not run; `None`: all that is needed does. `is_own`: the run is this machine's
/// node's; another node may do it otherwise.
///
/// A broker that nobody named is not looked for: whatever answers at its usual address belongs to
/// another data directory.
pub(super) async fn missing(config: &Config, is_own: bool) -> Result<Option<Missing>, Failure> {
    let broker = Broker::new(config);
    if let Some(node) = NodeFile::read(&config.data.value) {
        if !is_own || broker.has(&node) {
            return Ok(None);
        }
        return Err(Failure::usage(format!(
            "The node that runs here is in workspace {} of {}, not in {} of {}. Start one for this \
             workspace with `tasuki up`, or name another node with --on.",
            line(&node.workspace),
            line(&node.broker),
            broker.workspace(),
            line(&broker.url)
        )));
    }
    if config.broker.value.is_none() {
        up::refuse_joined(config)?;
        return Ok(Some(Missing::BrokerAndNode));
    }
    // Whoever is away is not waited for.
    broker.call(&wire::ListNodesRequest::default()).await?;
    Ok(is_own.then_some(Missing::Node))
}

/// This machine's node as the broker has it, while it runs.
async fn own_node(config: &Config, broker: &Broker) -> Result<Option<wire::Node>, Failure> {
    let data = &config.data.value;
    if !NodeFile::read(data).is_some_and(|it| broker.has(&it)) {
        return Ok(None);
    }
    let known = Identity::known(data).map_err(|why| Failure::local(format!("{why}.")))?;
    let Some(name) = known.map(|name| name.to_string()) else { return Ok(None) };
    let (nodes, _) = every_node(broker).await?;
    Ok(nodes.into_iter().find(|it| it.node == name))
}

/// The request, once it is known that somebody runs all of it.
pub(super) async fn prepare(
    asked: &Asked,
    config: &Config,
    runs: &RunsClient,
) -> Result<wire::StartRunRequest, Failure> {
    let own = own_node(config, &runs.broker).await?.map(|node| node.node);
    let is_own = is_own(&asked.plan.request);
    let until = clock::now().after(OFFERED_WITHIN);
    let mut pauses = Backoff::between(LOOK_MS_MIN, LOOK_MS_MAX);
    loop {
        let offers = runs.broker.call(&wire::ListRunnersRequest::default()).await?.offers;
        let is_offered = !is_own || offers.iter().any(|offer| Some(&offer.node) == own.as_ref());
        let why = match (nobody_runs(&asked.plan, &offers, &asked.own), &own) {
            // What is not installed here is not there in a moment.
            (Some(why), _) if is_own => return Err(Failure::usage(why)),
            (Some(why), _) => why,
            (None, _) if is_offered => break,
            (None, Some(_)) => NO_AGENTS.to_owned(),
            (None, None) => NO_NODE.to_owned(),
        };
        if until <= clock::now() {
            return Err(Failure::usage(why));
        }
        sleep(pauses.pause(chance())).await;
    }
    let (role, person, parent) = runs.speaker.clone();
    Ok(wire::StartRunRequest { role, person, parent, ..asked.plan.request.clone() })
}

/// Whether a step of it is this machine's node's.
fn is_own(request: &wire::StartRunRequest) -> bool {
    request.steps.iter().any(|step| step.on.is_empty())
}

/// Starts it. It is asked for as this machine's node, where one runs: on a broker that asks for no
/// tokens, its name is all that tells which machine is the own one.
pub(super) async fn start(
    request: wire::StartRunRequest,
    config: &Config,
    runs: &RunsClient,
) -> Result<wire::StartRunResponse, Failure> {
    // A node speaks for its own roles alone.
    let may_speak = |node: &wire::Node| {
        is_own(&request) || request.role.is_empty() || node.roles.contains(&request.role)
    };
    let mut is_again = false;
    loop {
        let broker = match own_node(config, &runs.broker).await?.filter(may_speak) {
            Some(node) => runs.broker.as_node(&node),
            None => runs.broker.clone(),
        };
        match broker.call(&request).await {
            // The node connected anew meanwhile.
            Err(why) if why.as_reason() == Some(Reason::StaleEpoch) && !is_again => is_again = true,
            // Roles need no such right.
            Err(mut why)
                if why.as_reason() == Some(Reason::RightForbidden)
                    && !request.person.is_empty()
                    && why.message.contains("`steer`") =>
            {
                why.message.push_str(" --role ROLE asks as a role of this machine's node.");
                return Err(why);
            }
            answer => return answer,
        }
    }
}
