//! Which agents are to be launched, by role: from the command line, the configuration, or the
//! variables of the original launcher.

use std::{
    env,
    path::{Path, PathBuf},
};

use tasuki_proto::id::RoleId;

use super::Args;
use crate::{
    cli::Failure,
    config::{Config, launch_wait},
    launch::settings::{AgentSettings, LaunchSettings, Terminal, from_variables},
};

/// The agents of one role, in order: the first is launched, the others when its session ends.
#[derive(Debug)]
pub(super) struct RoleAgents {
    pub role: RoleId,
    pub agents: Vec<AgentSettings>,
}

const NONE: &str = "There are no agents to launch. Name them, such as `tasuki launch A=claude-code \
                    B=codex`, or write them into tasuki.toml under [[launch.agent]].";

/// What is to be launched.
pub(super) fn settings(args: &Args, config: &Config) -> Result<LaunchSettings, Failure> {
    let configured = config.launch.as_ref().map(|launch| launch.value.clone());
    let mut settings = configured.unwrap_or_default();
    if !args.agents.is_empty() {
        let parse = |text: &String| {
            AgentSettings::parse(text).map_err(|why| Failure::usage(format!("{text:?} {why}.")))
        };
        settings.agents = args.agents.iter().map(parse).collect::<Result<_, _>>()?;
    } else if let (true, Some(why)) = (config.launch.is_none(), &config.launch_distrust) {
        // It would start programs that somebody else named.
        return Err(Failure::configuration(std::slice::from_ref(why)));
    } else if settings.agents.is_empty() {
        settings.agents = from_variables(|name| env::var(name).ok());
    }
    if settings.agents.is_empty() {
        return Err(Failure::usage(NONE));
    }
    if let Some(terminal) = &args.terminal {
        let found = Terminal::NAMES.iter().find(|(name, _)| name == terminal);
        settings.terminal = found.map_or(settings.terminal, |(_, terminal)| *terminal);
    }
    if let Some(wait) = &args.wait {
        let wait = launch_wait(wait);
        settings.wait = wait.map_err(|(_, why)| Failure::usage(format!("--wait {why}.")))?;
    }
    for agent in &mut settings.agents {
        agent.allow |= args.allow;
        agent.agents_md |= args.agents_md;
        if args.goal.is_some() {
            agent.prompt.clone_from(&args.goal);
        }
    }
    Ok(settings)
}

/// The agents by their roles, in the order in which these come; `only` leaves out all others.
pub(super) fn by_role(
    agents: Vec<AgentSettings>,
    only: &[RoleId],
) -> Result<Vec<RoleAgents>, Failure> {
    let mut roles: Vec<RoleAgents> = Vec::new();
    for agent in agents {
        match roles.iter_mut().find(|it| it.role == agent.role) {
            Some(role) => role.agents.push(agent),
            None => roles.push(RoleAgents { role: agent.role.clone(), agents: vec![agent] }),
        }
    }
    if let Some(unknown) = only.iter().find(|role| roles.iter().all(|it| it.role != **role)) {
        let names: Vec<&str> = roles.iter().map(|it| it.role.as_str()).collect();
        let text =
            format!("No agent of {unknown} is to be launched. There are: {}.", names.join(", "));
        return Err(Failure::usage(text));
    }
    roles.retain(|it| only.is_empty() || only.contains(&it.role));
    for RoleAgents { role, agents } in &roles {
        // Nothing tells when the session of an editor ends.
        if let Some((_, before)) = agents.split_last()
            && let Some(editor) = before.iter().find(|it| !it.program.is_terminal())
        {
            return Err(Failure::usage(format!(
                "{role} has another agent behind {}, which is never started: only sessions in a \
                 terminal are seen to end. Put the agents in a terminal first.",
                editor.program.name
            )));
        }
    }
    Ok(roles)
}

/// Where an agent works.
pub(super) fn project(agent: &AgentSettings, here: &Path) -> PathBuf {
    let project = agent.project.as_ref().map_or_else(|| here.to_owned(), |it| here.join(it));
    project.canonicalize().unwrap_or(project)
}

/// Whether an agent's entry is written for its project alone. Editors cannot be told to leave a
/// server alone, so with two roles in two projects each project names its own.
pub(super) fn is_for_project(agent: &AgentSettings, all: &[RoleAgents], here: &Path) -> bool {
    let client = agent.program.client;
    let mut others = all.iter().filter(|it| it.role != agent.role).flat_map(|it| &it.agents);
    !agent.program.is_terminal()
        && others.any(|it| it.program.client == client && project(it, here) != project(agent, here))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agents(texts: &[&str]) -> Vec<AgentSettings> {
        texts.iter().map(|text| AgentSettings::parse(text).unwrap()).collect()
    }

    fn roles(texts: &[&str], only: &[&str]) -> Result<String, String> {
        let only: Vec<RoleId> = only.iter().map(|role| role.parse().unwrap()).collect();
        let roles = by_role(agents(texts), &only).map_err(|why| why.message)?;
        let names = |it: &RoleAgents| {
            let names: Vec<_> = it.agents.iter().map(|it| it.program.name).collect();
            format!("{}: {}", it.role, names.join(" then "))
        };
        Ok(roles.iter().map(names).collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn several_agents_of_a_role_follow_each_other() {
        for (agents, only, expected) in [
            (&["A=claude-code", "B=codex"][..], &[][..], Ok("A: claude-code; B: codex")),
            (&["B=codex", "A=idea", "B=gemini"], &[], Ok("B: codex then gemini; A: idea")),
            (&["A=codex", "B=codex"], &["B"], Ok("B: codex")),
            (&["A=codex"], &["C"], Err("No agent of C is to be launched. There are: A.")),
            (
                &["A=zed", "A=codex"],
                &[],
                Err("A has another agent behind zed, which is never started: only sessions in a \
                     terminal are seen to end. Put the agents in a terminal first."),
            ),
        ] {
            let told = roles(agents, only);
            assert_eq!(told.as_deref().map_err(String::as_str), expected);
        }
    }

    #[test]
    fn editors_of_two_projects_are_connected_in_each() {
        let place = tempfile::tempdir().unwrap();
        let told = |texts: [&str; 2], projects: [&str; 2]| {
            let mut agents = agents(&texts);
            for (agent, project) in agents.iter_mut().zip(projects) {
                agent.project = Some(project.into());
            }
            let roles = by_role(agents, &[]).unwrap();
            is_for_project(&roles[0].agents[0], &roles, place.path())
        };
        assert!(told(["A=cursor", "B=cursor"], ["a", "b"]));
        assert!(!told(["A=cursor", "B=cursor"], ["a", "a"]));
        assert!(!told(["A=cursor", "B=zed"], ["a", "b"]));
        assert!(!told(["A=codex", "B=codex"], ["a", "b"]));
    }
}
