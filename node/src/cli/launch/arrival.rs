//! Whether agents have really connected: the node says which of them called.

use std::{process::Child, time::Duration};

use serde_json::Value;
use tasuki_broker::overview::every_role;
use tasuki_proto::{id::RoleId, wire};
use tokio::time::{Instant, sleep};

use super::order::State;
use crate::{
    agent_tokens::Bearing,
    cli::{Failure, broker::Broker, node_address, text::line},
    config::Config,
    mcp::{
        ask::{self, Error},
        dial::NodeAt,
    },
};

/// Between two questions.
const ASK_EVERY: Duration = Duration::from_millis(300);

/// An agent that was started and is waited for.
#[derive(Debug)]
pub(super) struct Expected {
    pub role: RoleId,
    /// Ids of the role's agents: one may be followed by the next before it has called.
    pub instances: Vec<String>,
    /// Of an editor: its launcher may fail.
    pub editor: Option<Child>,
}

/// What became of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Arrival {
    /// What it is, as it says.
    Connected(String),
    /// It ended before it called, and what it showed last.
    Ended { why: String, lines: Vec<String> },
    /// It has not called.
    Absent,
}

/// The node of this workspace; `None`: none runs.
pub(super) fn node(config: &Config) -> Option<NodeAt> {
    let file = config.running_node()?;
    Some(node_address::local(file, &config.data.value, &Bearing::Node))
}

/// Gives a role to an agent by its id.
pub(super) async fn take_over(
    role: &RoleId,
    instance: &str,
    config: &Config,
) -> Result<(), Failure> {
    let Some(node) = node(config) else { return Ok(()) };
    match ask::post(&node, &format!("/take-over/{role}?as={instance}")).await {
        // Several may play it.
        Ok(_) | Err(Error::Refused { .. }) => Ok(()),
        Err(why) => Err(node_address::failure(why)),
    }
}

/// The agents that the node knows of a role; `None`: several may play it, so it knows of none.
async fn agents(node: &NodeAt, role: &RoleId) -> Result<Option<Vec<Value>>, Failure> {
    match ask::get(node, &format!("/take-over/{role}")).await {
        Ok(mut told) => Ok(told["agents"].as_array_mut().map(std::mem::take)),
        Err(Error::Refused { .. }) => Ok(None),
        Err(why) => Err(node_address::failure(why)),
    }
}

/// Who plays a role, for people; `None`: nobody, or several may.
pub(super) async fn player(node: &NodeAt, role: &RoleId) -> Result<Option<String>, Failure> {
    let agents = agents(node, role).await?.unwrap_or_default();
    Ok(agents.iter().find(|it| it["plays"] == true).map(name))
}

fn name(agent: &Value) -> String {
    let text = |field: &str| line(agent[field].as_str().unwrap_or_default());
    match (text("client"), text("instance")) {
        (client, id) if client.is_empty() => id,
        (client, id) if id.is_empty() => client,
        (client, id) => format!("{client} ({id})"),
    }
}

/// Whether it is one of these agents, and called within this time or has something open.
fn has_called(agent: &Value, instances: &[String], within: Duration) -> bool {
    let is_recent = agent["quiet_ms"].as_u64().is_none_or(|ms| Duration::from_millis(ms) < within);
    instances.iter().any(|it| agent["instance"] == it.as_str()) && is_recent
}

/// Waits until each has called or ended, at most so long. `tell` hears of each once.
pub(super) async fn wait(
    expected: &mut [Expected],
    most: Duration,
    config: &Config,
    mut tell: impl FnMut(&RoleId, Duration, &Arrival) -> Result<(), Failure>,
) -> Result<Vec<Arrival>, Failure> {
    let (began, broker) = (Instant::now(), Broker::new(config));
    let mut arrivals = vec![Arrival::Absent; expected.len()];
    // Of roles that several may play the broker alone knows.
    let before = last_seen(&broker).await;
    loop {
        for (expected, arrival) in expected.iter_mut().zip(&mut arrivals) {
            if *arrival != Arrival::Absent {
                continue;
            }
            *arrival = look(expected, began.elapsed(), &before, &broker, config).await?;
            if *arrival != Arrival::Absent {
                tell(&expected.role, began.elapsed(), arrival)?;
            }
        }
        if most <= began.elapsed() || !arrivals.contains(&Arrival::Absent) {
            return Ok(arrivals);
        }
        sleep(ASK_EVERY.min(most.saturating_sub(began.elapsed()))).await;
    }
}

async fn look(
    expected: &mut Expected,
    elapsed: Duration,
    before: &[wire::Role],
    broker: &Broker,
    config: &Config,
) -> Result<Arrival, Failure> {
    let role = &expected.role;
    let Some(node) = node(config) else {
        return Err(Failure::local("The node ended. `tasuki logs` shows its log."));
    };
    match agents(&node, role).await? {
        Some(agents) => {
            // Its call may have come before the first question.
            let within = elapsed + ASK_EVERY;
            let found = agents.iter().find(|it| has_called(it, &expected.instances, within));
            if let Some(agent) = found {
                return Ok(Arrival::Connected(name(agent)));
            }
        }
        None => {
            let seen = |roles: &[wire::Role]| {
                roles.iter().find(|it| it.role == role.as_str()).map(|it| it.last_seen_ms)
            };
            if seen(before) < seen(&last_seen(broker).await) {
                return Ok(Arrival::Connected("an agent".to_owned()));
            }
        }
    }
    if let Some(editor) = &mut expected.editor
        && let Ok(Some(status)) = editor.try_wait()
        && !status.success()
    {
        return Ok(Arrival::Ended { why: status.to_string(), lines: Vec::new() });
    }
    let ended = State::read(&config.data.value, role);
    let ended = ended.and_then(|state| Some((state.ended?, state.lines)));
    Ok(ended.map_or(Arrival::Absent, |(why, lines)| Arrival::Ended { why, lines }))
}

async fn last_seen(broker: &Broker) -> Vec<wire::Role> {
    every_role(broker).await.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_agent_counts_once_it_called_after_it_was_started() {
        let (within, ids) = (Duration::from_secs(2), ["codex-1".to_owned()]);
        let called = |quiet_ms: Value| {
            let agent = json!({ "instance": "codex-1", "client": "", "quiet_ms": quiet_ms });
            has_called(&agent, &ids, within)
        };
        assert!(called(Value::Null) && called(json!(1500)) && !called(json!(2500)));
        assert!(!has_called(&json!({ "instance": "codex-2" }), &ids, within));
    }

    #[test]
    fn an_agent_is_named_by_its_client_and_its_id() {
        let told = |client: &str, id: Value| name(&json!({ "client": client, "instance": id }));
        assert_eq!(told("codex 1", json!("codex-1a")), "codex 1 (codex-1a)");
        assert_eq!(told("codex 1", Value::Null), "codex 1");
        assert_eq!(told("", json!("codex-1a")), "codex-1a");
    }
}
