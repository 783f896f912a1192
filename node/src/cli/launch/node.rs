//! The broker and the node that launched agents need: those that run, else new ones in the
//! background.

use std::ffi::OsString;

use tasuki_proto::{counted::listed_names, id::RoleId};

use super::report::{Report, Went};
use crate::{
    cli::{Failure, Global, Look, background::detach, hosting},
    config::{Config, Source},
    credentials::Joined,
};

/// Sees to a node that hosts these roles. Returns the settings as they are then.
pub(super) async fn ensure(
    roles: &[&RoleId],
    global: &Global,
    config: &Config,
    look: &Look<'_>,
    is_dry: bool,
    report: &mut Report<'_>,
) -> Result<Config, Failure> {
    if let Some(node) = config.running_node() {
        let hosts = |role: &&&RoleId| node.roles.iter().any(|it| it == role.as_str());
        if let Some(missing) = roles.iter().find(|role| !hosts(role)) {
            return Err(Failure::usage(format!(
                "The running node does not host {missing}. It hosts: {}. Name {missing} among the \
                 `roles` of tasuki.toml, then `tasuki stop` and launch again.",
                listed_names(&node.roles)
            )));
        }
        let text = format!("workspace {} runs at {} (pid {})", node.workspace, node.mcp, node.pid);
        report.step(None, "node", Went::Unneeded, &text)?;
        return Ok(config.clone());
    }
    let more = unnamed(roles, config)?;
    let verb = if is_joined(config)? { "node" } else { "up" };
    let mut arguments = global_arguments(global);
    arguments.push(verb.into());
    if matches!(config.workspace.source, Source::Flag(_)) {
        let workspace = config.workspace.value.as_str();
        arguments.extend(["--workspace".into(), workspace.into()]);
    }
    for role in more {
        arguments.extend(["--role".into(), role.as_str().into()]);
    }
    let typed: Vec<String> = arguments.iter().map(|it| it.to_string_lossy().into_owned()).collect();
    if is_dry {
        hosting::refuse_untrusted(config)?;
        let text = format!("tasuki {} --detach", typed.join(" "));
        report.step(None, "node", Went::Would, &text)?;
        return Ok(config.clone());
    }
    let node = detach::start_with(config, arguments.into_iter()).await?;
    let text = format!("workspace {} started at {} (pid {})", node.workspace, node.mcp, node.pid);
    report.step(None, "node", Went::Done, &text)?;
    // A project that is not the first has its own place since then.
    let (config, problems) = look();
    if problems.is_empty() { Ok(config) } else { Err(Failure::configuration(&problems)) }
}

/// The roles that a new node has to be told: none, where it hosts them anyhow.
fn unnamed<'a>(roles: &[&'a RoleId], config: &Config) -> Result<Vec<&'a RoleId>, Failure> {
    let is_known = |role: &&&RoleId| config.roles.value.iter().any(|it| it.name == ***role);
    let Some(missing) = roles.iter().find(|role| !is_known(role)) else { return Ok(Vec::new()) };
    if config.roles.source == Source::Default {
        return Ok(roles.to_vec());
    }
    let names: Vec<&str> = config.roles.value.iter().map(|it| it.name.as_str()).collect();
    Err(Failure::usage(format!(
        "{missing} is to be launched and is not among the roles ({}, from {}). Name it there.",
        names.join(", "),
        config.roles.source
    )))
}

/// Whether the broker is another machine's.
fn is_joined(config: &Config) -> Result<bool, Failure> {
    let joined = Joined::read(&config.root).map_err(|why| Failure::local(format!("{why}.")))?;
    Ok(joined.is_some() || config.broker.value.is_some())
}

/// The options that say which data and which settings are meant, for another process of this
/// program that is started in the same directory.
pub(super) fn global_arguments(global: &Global) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    if let Some(data) = &global.data {
        arguments.extend(["--data".into(), data.into()]);
    }
    if let Some(file) = &global.config {
        arguments.extend(["--config".into(), file.into()]);
    }
    arguments
}
