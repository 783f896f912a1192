//! Starts a run as this machine's node's, once somebody is there who runs it.

use std::time::Duration;

use tasuki_proto::{reason::Reason, wire};
use tokio::time::sleep;

use super::{Asked, Broker, Failure, place::own_node};
use crate::{
    cli::runs::client::{RunsClient, offers},
    clock,
    config::Config,
    runs::plan::nobody_runs,
};

/// How long a node may be without a wait for steps: it has none while it takes one in, and when it
/// has just been connected.
const OFFERED_WITHIN: Duration = Duration::from_secs(5);

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The request, once it is known that somebody runs all of it.
pub(super) async fn prepare(
    asked: &Asked,
    config: &Config,
    runs: &RunsClient,
) -> Result<wire::StartRunRequest, Failure> {
    let own = own_node(config, &runs.broker).await?;
    let own = own.map(|node| node.node);
    let until = clock::now().after(OFFERED_WITHIN);
    loop {
        let offers = offers(&runs.broker).await?;
        let Some(refusal) = refusal(asked, own.as_deref(), &offers, &runs.broker) else { break };
        if !refusal.may_pass || until.since(clock::now()).is_zero() {
            return Err(Failure::usage(refusal.text));
        }
        sleep(LOOK_EVERY).await;
    }
    let (role, person, parent) = runs.speaker.to_wire();
    Ok(wire::StartRunRequest { role, person, parent, ..asked.plan.request.clone() })
}

/// Why nobody runs it.
#[derive(Debug)]
struct Refusal {
    text: String,
    /// A node that is not seen may be seen in a moment.
    may_pass: bool,
}

fn refusal(
    asked: &Asked,
    own: Option<&str>,
    offers: &[wire::RunnerOffer],
    broker: &Broker,
) -> Option<Refusal> {
    let is_own = asked.plan.request.steps.iter().any(|step| step.on.is_empty());
    if let Some(text) = nobody_runs(&asked.plan, offers, &asked.own) {
        return Some(Refusal { text, may_pass: !is_own });
    }
    if !is_own {
        return None;
    }
    let Some(own) = own else {
        let text = format!(
            "No node of this machine is connected to {}. Start `tasuki node`, or name another node \
             with --on; `tasuki runs runners` shows them.",
            broker.url
        );
        return Some(Refusal { text, may_pass: false });
    };
    let is_offered = offers.iter().any(|offer| offer.node == own);
    (!is_offered).then(|| Refusal {
        text: "This machine's node runs no agents. Write [runs] into its tasuki.toml and start it \
               again, or name another node with --on; `tasuki runs runners` shows them."
            .to_owned(),
        may_pass: true,
    })
}

/// Starts it.
pub(super) async fn start(
    request: wire::StartRunRequest,
    config: &Config,
    runs: &RunsClient,
) -> Result<wire::StartRunResponse, Failure> {
    match attempt(&request, config, runs).await {
        // The node connected anew meanwhile.
        Err(why) if why.as_reason() == Some(Reason::StaleEpoch) => {
            attempt(&request, config, runs).await
        }
        answer => answer,
    }
}

/// It is asked for as this machine's node, where one runs: on a broker that asks for no tokens, its
/// name is all that tells which machine is the own one.
async fn attempt(
    request: &wire::StartRunRequest,
    config: &Config,
    runs: &RunsClient,
) -> Result<wire::StartRunResponse, Failure> {
    let is_own = request.steps.iter().any(|step| step.on.is_empty());
    // A node speaks for its own roles alone.
    let may_speak =
        |node: &wire::Node| is_own || request.role.is_empty() || node.roles.contains(&request.role);
    match own_node(config, &runs.broker).await?.filter(may_speak) {
        Some(node) => runs.broker.as_node(&node).call(request).await,
        None => runs.broker.call(request).await,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::{
        config::{Environment, Layer},
        runner::runners::RunnerTable,
        runs::{own::OwnRunners, plan::Plan},
    };

    fn asked(on: &str, runner: &str) -> Asked {
        let step = wire::NewStep {
            agent: "scout".to_owned(),
            runner: runner.to_owned(),
            on: on.to_owned(),
            ..Default::default()
        };
        let request = wire::StartRunRequest { steps: vec![step], ..Default::default() };
        let own = OwnRunners { table: RunnerTable::default(), project: PathBuf::from("/") };
        Asked { plan: Plan { request, agents: Vec::new() }, own }
    }

    #[test]
    fn a_run_that_nobody_takes_is_refused_before_it_starts() {
        let place = tempfile::tempdir().unwrap();
        let around = Environment::within(place.path());
        let broker = Broker::new(&Config::load(Layer::new(), None, &around).unwrap());
        let offer = |node: &str| wire::RunnerOffer {
            node: node.to_owned(),
            runners: vec!["pi".to_owned()],
            ..Default::default()
        };
        let said = |asked: &Asked, own: Option<&str>, offers: &[wire::RunnerOffer]| {
            refusal(asked, own, offers, &broker).map(|it| (it.text, it.may_pass))
        };
        let there = asked("desk-2", "pi");
        assert_eq!(said(&there, None, &[offer("desk-2")]), None);
        let (text, may_pass) = said(&there, Some("desk-1"), &[offer("desk-1")]).unwrap();
        assert!(may_pass && text.contains("desk-2"), "{text}");
        // There is no such runner anywhere, so nobody waits for it.
        let here = asked("", "no-such-runner");
        let (text, may_pass) = said(&here, Some("desk-1"), &[offer("desk-1")]).unwrap();
        assert!(!may_pass && text.contains("no-such-runner"), "{text}");
    }
}
