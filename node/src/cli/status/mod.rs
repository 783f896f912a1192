//! `tasuki status`: everything at a glance.
//!
//! - [`gather`]: what is asked, once. [`problems`]: what is wrong.
//! - [`view`]: its lines.

mod gather;
mod problems;
mod view;

use std::time::Duration;

use owo_colors::OwoColorize as _;
use serde_json::{Value, json};
use tasuki_broker::overview::{problems::Problem, role::RoleStatus};
use tasuki_proto::{id::RoleId, reason::Reason};
use tonic_health::pb::health_check_response::ServingStatus;

use self::{
    gather::{Gathered, Tools, gather, told_by_node},
    problems::problems,
};
use super::{Failure, Output, access::Access, broker::Broker, outbox::Waiting, text::line};
use crate::{config::Config, paths::NodeFile};

/// Show what is wrong, who plays each role, and who waits for what
///
/// While the broker is unreachable, shows what waits in the outbox, and the loops as this machine's
/// node last saw them, with their age; with --json beside `error`. The exit code is that of an
/// unreachable broker.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show only this role; can be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    role: Vec<RoleId>,
    /// Show all roles, however many there are
    #[arg(long)]
    all: bool,
}

pub(crate) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let broker = Broker::new(config);
    let mut seen = match gather(&broker, config).await {
        Ok(seen) => seen,
        Err(failure) => return Err(unreached(failure, &broker, config, output).await?),
    };
    let problems = problems(&seen);
    if !args.role.is_empty() {
        choose(&mut seen, &args.role)?;
    }
    let is_all = args.all || !args.role.is_empty();
    output.answer(|| value(&seen, &problems), || view::lines(&seen, &problems, is_all))
}

/// Leaves only these roles.
fn choose(seen: &mut Gathered, roles: &[RoleId]) -> Result<(), Failure> {
    let has = |role: &&RoleId| seen.overview.roles.iter().any(|it| it.role.role == role.as_str());
    if let Some(unknown) = roles.iter().find(|role| !has(role)) {
        let text = format!(
            "No node hosts {unknown} in workspace {}, and it takes part in no loop. \
             `tasuki status --all` shows all roles.",
            seen.workspace
        );
        return Err(Failure::usage(text));
    }
    seen.overview.roles.retain(|it| roles.iter().any(|role| it.role.role == role.as_str()));
    Ok(())
}

/// Shows what is known without the broker.
async fn unreached(
    failure: Failure,
    broker: &Broker,
    config: &Config,
    output: &mut Output,
) -> Result<Failure, Failure> {
    let waiting = Waiting::count(&config.data.value);
    output.guide(|| waiting.lines())?;
    output.beside("outbox", waiting.value());
    if failure.as_reason() == Some(Reason::Unavailable)
        && let Some(told) = remembered(broker, config).await
        && let Some(lines) = from_memory(&told)
    {
        output.guide(|| lines)?;
        output.beside("loops", told["loops"].clone());
    }
    Ok(failure)
}

/// What the node here last saw of that broker, if it is of the same workspace.
async fn remembered(broker: &Broker, config: &Config) -> Option<Value> {
    let is_meant = |node: &NodeFile| broker.has(node);
    let mut told = told_by_node(config, is_meant).await?;
    told.get_mut("broker").map(Value::take)
}

fn from_memory(told: &Value) -> Option<String> {
    let loops = told["loops"].as_array().filter(|loops| !loops.is_empty())?;
    let ago = Duration::from_secs(loops[0]["seen_ms_ago"].as_u64()? / 1000);
    let ago = humantime::format_duration(ago);
    let mut out = format!("{}\n", format!("loops as the node here saw them {ago} ago").bold());
    for of in loops {
        let text = |field: &str| line(of[field].as_str().unwrap_or_default());
        let (name, status, holder) = (text("loop"), text("status"), text("holder"));
        let turn = &of["turn"];
        out += &format!("  {} {status}: {holder} had turn {turn}\n", name.bold());
    }
    Some(out)
}

fn value(seen: &Gathered, problems: &[Problem]) -> Value {
    let health = match seen.health {
        ServingStatus::Serving => "serving",
        ServingStatus::NotServing => "not_serving",
        ServingStatus::Unknown | ServingStatus::ServiceUnknown => "unknown",
    };
    let nodes = seen.overview.nodes.iter().map(|node| {
        let mut value = json!(node);
        value["is_here"] = (seen.here.as_ref() == Some(&node.node)).into();
        value
    });
    let role = |of: &RoleStatus| {
        let tools = seen.tools.get(&of.role.role).copied().unwrap_or_default();
        let Tools { count, bytes } = tools;
        let mut value = of.value();
        value["tools"] = count.into();
        value["tools_bytes"] = bytes.into();
        value["tools_tokens_about"] = tools.tokens().into();
        value
    };
    json!({
        "problems": problems,
        "broker": {"url": seen.url, "health": health, "software": seen.overview.software},
        "access": seen.access.as_ref().map(Access::value),
        "workspace": seen.workspace,
        "now_ms": seen.overview.now_ms,
        "nodes": nodes.collect::<Vec<_>>(),
        "roles": seen.overview.roles.iter().map(role).collect::<Vec<_>>(),
        "loops": seen.overview.loops,
        "unlisted": {
            "locks": seen.overview.unlisted.locks,
            "deliveries": seen.overview.unlisted.deliveries,
            "runs": seen.overview.unlisted.has_more_runs,
        },
        "hooks": seen.hooks,
        "outbox": seen.outbox.value(),
        "mirror": seen.mailboxes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_node_remembers_is_shown_with_its_age() {
        let of = json!({
            "seen_ms_ago": 102_400, "loop": "main", "status": "working", "turn": 7,
            "holder": "B\u{1b}[31m",
        });
        let told = from_memory(&json!({ "loops": [of] })).expect("something");
        let plain = anstream::adapter::strip_str(&told).to_string();
        let expected = "loops as the node here saw them 1m 42s ago\n  main working: B had turn 7\n";
        assert_eq!(plain, expected);
        assert_eq!(from_memory(&json!({ "url": "u" })), None);
        assert_eq!(from_memory(&Value::Null), None);
    }
}
