//! `tasuki prompt`: what to tell an agent that plays a role.
//!
//! The same text as the MCP prompt of the role; no node has to run for it. What the role can do,
//! and whether it begins, say the argument, the running node and the settings, in this order.

use serde_json::json;
use tasuki_proto::{id::RoleId, nearest::did_you_mean, reason::Reason};

use super::{Failure, Output, broker, text::line};
use crate::{
    config::{Config, Role, Source},
    mcp,
    paths::NodeFile,
    toolset::{ToolsetChoice, usual_toolsets},
};

/// Print how to play a role, for an agent's first message.
#[derive(Debug, clap::Args)]
#[command(after_help = "For example: tasuki prompt A --goal 'Make the tests pass' >> AGENTS.md")]
pub struct Args {
    /// Role, such as A or lead, with its toolsets in the running node or the settings; or with
    /// toolsets as for `tasuki node --role`
    #[arg(value_name = "NAME[=SET,…]")]
    role: Role,
    /// Goal of the work
    #[arg(long, value_name = "TEXT")]
    goal: Option<String>,
}

pub(crate) fn run(args: &Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let prompt = text(&args.role, args.goal.as_deref(), config)?;
    output
        .answer(|| json!({ "role": args.role.name.as_str(), "prompt": prompt }), || prompt.clone())
}

/// How to play a role.
pub(super) fn text(role: &Role, goal: Option<&str>, config: &Config) -> Result<String, Failure> {
    let workspace = broker::workspace(config);
    let running = config.running_node();
    let running = running.filter(|node| node.workspace == workspace.as_str());
    let (toolsets, order) = part(role, config, running.as_ref())?;
    let name = &role.name;
    mcp::prompt(name, &toolsets, &order, goal).ok_or_else(|| {
        Failure::usage(format!(
            "{name} has no toolset that there is a prompt for. Give it one, such as {name}=loop or \
             {name}=mail."
        ))
    })
}

/// The toolsets of a role, and the order in which it takes turns with others. A node that runs
/// counts before the settings: it may have been started with other ones, and its tools are what the
/// agent is shown.
fn part(
    asked: &Role,
    config: &Config,
    running: Option<&NodeFile>,
) -> Result<(Vec<ToolsetChoice>, Vec<RoleId>), Failure> {
    let hosted = running.map(roles_of).unwrap_or_default();
    let is_set = config.roles.source != Source::Default;
    let set: &[Role] = if is_set { config.roles.value.as_slice() } else { &[] };
    let found = [hosted.as_slice(), set].into_iter().find_map(|roles| {
        let own = roles.iter().find(|role| role.name == asked.name)?;
        Some((own.toolsets.clone(), mcp::turn_order(roles)))
    });
    let given = (!asked.toolsets.is_empty()).then(|| asked.toolsets.clone());
    match (given, found) {
        (given, Some((own, order))) => Ok((given.unwrap_or(own), order)),
        (Some(given), None) => Ok((given, Vec::new())),
        // Nothing says which roles there are.
        (None, None) if hosted.is_empty() && set.is_empty() => {
            Ok((usual_toolsets(&asked.name), Vec::new()))
        }
        (None, None) => Err(unknown(&asked.name, &hosted, set)),
    }
}

/// The roles of a node with their toolsets: a node of an older version does not say which.
pub(super) fn roles_of(node: &NodeFile) -> Vec<Role> {
    let role = |name: &String| {
        let name: RoleId = name.parse().ok()?;
        let toolsets = match node.toolsets.get(name.as_str()) {
            Some(sets) => sets.iter().filter_map(|set| set.parse().ok()).collect(),
            None => usual_toolsets(&name),
        };
        Some(Role { name, toolsets })
    };
    node.roles.iter().filter_map(role).collect()
}

fn unknown(name: &RoleId, hosted: &[Role], set: &[Role]) -> Failure {
    let names = |roles: &[Role]| {
        let names: Vec<&str> = roles.iter().map(|role| role.name.as_str()).collect();
        line(&names.join(", "))
    };
    let all = hosted.iter().chain(set).map(|role| role.name.as_str());
    let near = did_you_mean(name.as_str(), all);
    let there_are = match (hosted.is_empty(), set.is_empty()) {
        (false, true) => {
            format!("The running node does not host {name}. It hosts: {}{near}.", names(hosted))
        }
        (false, false) => format!(
            "Neither the running node nor the settings have a role {name}. The node hosts: {}. The \
             settings name: {}{near}.",
            names(hosted),
            names(set)
        ),
        (true, _) => {
            format!("The settings have no role {name}. They name: {}{near}.", names(set))
        }
    };
    Failure::reason(
        Reason::UnknownRole,
        format!(
            "{there_are} For a role of another machine, name its toolsets: `tasuki prompt {name}=loop`."
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, Key, Layer, Raw};

    #[test]
    fn a_role_has_the_toolsets_and_the_place_of_its_node_or_of_the_settings() {
        let place = tempfile::tempdir().unwrap();
        let around = Environment::within(place.path());
        let texts = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let found = |asked: &str, hosted: &str, set: &str| {
            let mut layer = Layer::new();
            if !set.is_empty() {
                let raw = Raw { source: Source::Env("TASUKI_ROLES"), texts: texts(set) };
                layer.insert(Key::Roles, raw);
            }
            let config = Config::load(layer, None, &around).unwrap();
            let roles: Vec<Role> = texts(hosted).iter().map(|it| it.parse().unwrap()).collect();
            let sets = |role: &Role| -> Vec<String> {
                role.toolsets.iter().map(ToString::to_string).collect()
            };
            let with_sets = roles.iter().filter(|role| !role.toolsets.is_empty());
            let node = NodeFile {
                roles: roles.iter().map(|role| role.name.to_string()).collect(),
                toolsets: with_sets.map(|role| (role.name.to_string(), sets(role))).collect(),
                ..NodeFile::example("default")
            };
            let node = (!hosted.is_empty()).then_some(node);
            match part(&asked.parse().unwrap(), &config, node.as_ref()) {
                Ok((sets, order)) => {
                    let sets: Vec<_> = sets.iter().map(ToString::to_string).collect();
                    let order: Vec<_> = order.iter().map(RoleId::as_str).collect();
                    format!("{} of {}", sets.join(","), order.join(","))
                }
                Err(failure) => format!("{}: {}", failure.code(), failure.message),
            }
        };
        for (asked, hosted, set, expected) in [
            ("dev", "qa=loop dev=mail", "", "mail of qa"),
            ("qa", "qa dev=mail", "", "loop,mail of qa"),
            ("dev", "", "dev=mail qa", "mail of qa"),
            ("dev", "dev=mail qa", "dev=loop", "mail of qa"),
            ("dev=loop", "qa dev=mail", "", "loop of qa"),
            ("Z=mail", "qa dev", "", "mail of "),
            ("Z", "", "", "loop,mail of "),
            (
                "Z",
                "qa dev",
                "",
                "unknown_role: The running node does not host Z. It hosts: qa, dev. For a role of \
                 another machine, name its toolsets: `tasuki prompt Z=loop`.",
            ),
            (
                "Z",
                "qa dev",
                "dev ops",
                "unknown_role: Neither the running node nor the settings have a role Z. The node \
                 hosts: qa, dev. The settings name: dev, ops. For a role of another machine, name \
                 its toolsets: `tasuki prompt Z=loop`.",
            ),
            (
                "dve",
                "dev",
                "dev",
                "unknown_role: Neither the running node nor the settings have a role dve. The node \
                 hosts: dev. The settings name: dev (did you mean dev?). For a role of another \
                 machine, name its toolsets: `tasuki prompt dve=loop`.",
            ),
            (
                "Z",
                "",
                "dev",
                "unknown_role: The settings have no role Z. They name: dev. For a role of another \
                 machine, name its toolsets: `tasuki prompt Z=loop`.",
            ),
        ] {
            assert_eq!(found(asked, hosted, set), expected, "{asked}; {hosted}; {set}");
        }
    }
}
