//! What a call or a command asks for, as steps that the broker hands out.
//!
//! Everything that can be known beforehand is checked here, so that a run is refused before any of it
//! starts.
//!
//! Not here: whether a project's agents may run, which is asked of [`Plan::project_agents`]; whether a
//! directory is there and in the project, which is checked by the node that runs the step.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path},
    slice,
    time::Duration,
};

use serde_json::Value;
use tasuki_proto::{
    echo::echo,
    id::{NodeLabel, RunnerName},
    limits::{LABEL_BYTES_MAX, SYSTEM_PROMPT_BYTES_MAX, TEXT_BYTES_MAX},
    schema::{check_schema, instruction},
    visible::is_visible,
    wire::{self, RunMode},
};

use super::{convert, own::OwnRunners, spec::Spec};
use crate::runner::{
    discovery::{AgentEntry, Agents, Source},
    modes::{Mode, Step, unknown_agent},
    runners::canonical,
};

/// Nodes, runners or labels that one sentence names.
const NAMED_MAX: usize = 20;

/// What somebody wants done.
#[derive(Debug, Clone, Copy)]
pub struct RunRequest<'a> {
    pub mode: &'a Mode,
    /// A node, or a label of nodes. Empty: the own node.
    pub on: &'a str,
    /// Of each step; `None`: the agent's.
    pub timeout: Option<Duration>,
    /// The form of the final output: of the last step of a chain, else of every step.
    pub output_schema: Option<&'a Value>,
    /// In place of what the agents name.
    pub runner: Option<&'a str>,
    /// Of agents that name none.
    pub default_runner: &'a str,
    /// In place of what the agents name.
    pub model: Option<&'a str>,
    pub budget: wire::RunBudget,
    /// Steps of a parallel run at the same time. 0: four.
    pub concurrency: u32,
}

/// A run that can be asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Without who asks.
    pub request: wire::StartRunRequest,
    /// The agents that it uses, each once, by name.
    pub agents: Vec<AgentEntry>,
}

impl Plan {
    /// Those that came with the project, not from the user.
    pub fn project_agents(&self) -> impl Iterator<Item = &AgentEntry> {
        self.agents.iter().filter(|entry| entry.source == Source::Project)
    }
}

/// Makes steps of what is asked. An error is a sentence: what of it is not there, or cannot be passed
/// on.
pub fn plan(asked: &RunRequest<'_>, agents: &Agents) -> Result<Plan, String> {
    if let Some(schema) = asked.output_schema {
        check_schema(schema).map_err(|why| format!("`output_schema` {why}."))?;
    }
    check_place(asked.on)?;
    let (mode, steps) = match asked.mode {
        Mode::Single(step) => (RunMode::Single, slice::from_ref(step)),
        Mode::Parallel(steps) => (RunMode::Parallel, steps.as_slice()),
        Mode::Chain(steps) => (RunMode::Chain, steps.as_slice()),
    };
    let mut used = BTreeMap::new();
    let mut planned = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let available = || agents.agents.keys().map(String::as_str);
        let entry = agents.agents.get(&step.agent);
        let entry = entry.ok_or_else(|| unknown_agent(&step.agent, available()))?;
        let is_final = mode != RunMode::Chain || at + 1 == steps.len();
        let schema = asked.output_schema.filter(|_| is_final);
        planned.push(plan_step(asked, step, entry, schema)?);
        used.entry(entry.agent.name.as_str()).or_insert(entry);
    }
    let request = wire::StartRunRequest {
        mode: mode.into(),
        steps: planned,
        concurrency: asked.concurrency,
        budget: Some(asked.budget),
        ..Default::default()
    };
    Ok(Plan { request, agents: used.into_values().cloned().collect() })
}

fn plan_step(
    asked: &RunRequest<'_>,
    step: &Step,
    entry: &AgentEntry,
    schema: Option<&Value>,
) -> Result<wire::NewStep, String> {
    let agent = &entry.agent;
    let name = agent.name.as_str();
    if step.task.trim().is_empty() {
        return Err(format!("The task for agent `{name}` is empty."));
    }
    let checked = |what: &str, text: &str, bytes_max: usize| {
        let bytes = text.len();
        if bytes > bytes_max {
            return Err(format!(
                "The {what} of agent `{name}` has {bytes} bytes; the limit is {bytes_max}."
            ));
        }
        match text.contains('\0') {
            true => Err(format!("The {what} of agent `{name}` contains a NUL character.")),
            false => Ok(convert::text(text)),
        }
    };
    let task = checked("task", &step.task, TEXT_BYTES_MAX)?;
    let system = with_instruction(&agent.system_prompt, schema);
    let system = checked("system prompt", &system, SYSTEM_PROMPT_BYTES_MAX)?;
    let cwd = step.cwd.as_ref().or(agent.cwd.as_ref());
    if let Some(cwd) = cwd {
        checked("`cwd`", cwd, usize::MAX)?;
        if leaves(cwd) {
            let cwd = echo(cwd);
            return Err(format!(
                "`cwd` of agent `{name}` is {cwd}, which leaves the project; name a directory in \
                 it."
            ));
        }
    }
    let spec = Spec {
        tools: agent.tools.clone(),
        cwd: cwd.cloned(),
        env: agent.env.clone(),
        sandbox: agent.sandbox,
        output_schema: schema.cloned(),
    };
    let timeout = asked.timeout.or(agent.timeout).unwrap_or_default();
    Ok(wire::NewStep {
        agent: name.to_owned(),
        runner: find_runner(asked, entry)?,
        model: find_model(asked, entry)?,
        on: asked.on.to_owned(),
        timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        task: Some(task),
        system: Some(system).filter(|system| !system.text.is_empty()),
        spec: Some(checked("settings", &spec.to_text(), SYSTEM_PROMPT_BYTES_MAX)?),
    })
}

fn find_runner(asked: &RunRequest<'_>, entry: &AgentEntry) -> Result<String, String> {
    let agent = &entry.agent.name;
    let runner = asked.runner.or_else(|| entry.runner()).unwrap_or(asked.default_runner);
    if runner.is_empty() {
        return Err(format!("Agent `{agent}` names no runner, and there is no default; name one."));
    }
    let named = canonical(runner).parse::<RunnerName>();
    named.map(|it| it.to_string()).map_err(|why| {
        format!("The runner {} of agent `{agent}` is no name: it {why}.", echo(runner))
    })
}

/// Empty: the runner's own choice.
fn find_model(asked: &RunRequest<'_>, entry: &AgentEntry) -> Result<String, String> {
    let Some(model) = asked.model.or(entry.agent.model.as_deref()) else {
        return Ok(String::new());
    };
    let is_name = (1..=LABEL_BYTES_MAX).contains(&model.len())
        && !model.starts_with('-')
        && model.chars().all(is_visible);
    is_name.then(|| model.to_owned()).ok_or_else(|| {
        format!(
            "The model {} of agent `{}` is no name: use 1 to {LABEL_BYTES_MAX} printable bytes that \
             do not begin with `-`.",
            echo(model),
            entry.agent.name
        )
    })
}

fn check_place(on: &str) -> Result<(), String> {
    match on.parse::<NodeLabel>() {
        Err(why) if !on.is_empty() => {
            Err(format!("`on` is {}, which is no name of a node or a label: it {why}.", echo(on)))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Whether a path plainly leads out of a project, whichever that is.
fn leaves(cwd: &str) -> bool {
    let mut depth = 0_usize;
    for component in Path::new(cwd).components() {
        match component {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth == 0 => return true,
            Component::ParentDir => depth -= 1,
            // The node that runs the step knows where its project is.
            Component::Prefix(_) | Component::RootDir => return false,
        }
    }
    false
}

/// A system prompt that also says what form the output is to have.
fn with_instruction(system: &str, schema: Option<&Value>) -> String {
    let parts = [Some(system.to_owned()), schema.map(instruction)].into_iter().flatten();
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// Why nobody can run it at present, with what to do; `None` if every step has somebody.
pub fn nobody_runs(plan: &Plan, offers: &[wire::RunnerOffer], own: &OwnRunners) -> Option<String> {
    let installed = own.installed();
    plan.request.steps.iter().find_map(|step| match step.on.is_empty() {
        true if installed.contains(&step.runner) => None,
        true => Some(nobody_here(step, offers, own)),
        false => nobody_there(step, offers),
    })
}

/// The own node does not run it.
fn nobody_here(step: &wire::NewStep, offers: &[wire::RunnerOffer], own: &OwnRunners) -> String {
    let wire::NewStep { agent, runner, .. } = step;
    let why = if own.table.get(runner).is_some() {
        format!(
            "Runner `{runner}` of agent `{agent}` is not installed on this machine. Run `tasuki \
             runners check` to see what is."
        )
    } else {
        let known = listed(own.table.iter().map(|runner| runner.name.as_str()));
        format!(
            "Runner `{runner}` of agent `{agent}` is not known on this machine. Available: {known}."
        )
    };
    let others = offers.iter().filter(|offer| offer.accepts_elsewhere && has(offer, runner));
    match listed(others.map(|offer| offer.node.as_str())) {
        others if others.is_empty() => why,
        others => format!("{why} Nodes that offer it: {others}; name one with `on`."),
    }
}

/// No node of this name or with this label runs it.
fn nobody_there(step: &wire::NewStep, offers: &[wire::RunnerOffer]) -> Option<String> {
    let wire::NewStep { agent, runner, on, .. } = step;
    // A node's name goes before a label that is the same.
    let is_node = offers.iter().any(|offer| offer.node == *on);
    let is_meant = |offer: &&wire::RunnerOffer| {
        if is_node { offer.node == *on } else { offer.labels.contains(on) }
    };
    let meant: Vec<_> = offers.iter().filter(is_meant).collect();
    if meant.iter().any(|offer| has(offer, runner)) {
        return None;
    }
    let why = if meant.is_empty() {
        format!("No connected node that runs agents is called `{on}` or has this label.")
    } else {
        let nodes = listed(meant.iter().map(|offer| offer.node.as_str()));
        let offered: BTreeSet<_> = meant.iter().flat_map(|offer| &offer.runners).collect();
        let offered = listed(offered.into_iter().map(String::as_str));
        let offered = if offered.is_empty() { "none".to_owned() } else { offered };
        format!(
            "Runner `{runner}` of agent `{agent}` is not offered by {nodes}; runners there: \
             {offered}. Run `tasuki runners check` there to see why."
        )
    };
    let others = offers.iter().filter(|offer| has(offer, runner));
    Some(match listed(others.map(|offer| offer.node.as_str())) {
        others if others.is_empty() => format!("{why} No connected node offers `{runner}`."),
        others => format!("{why} Nodes that offer `{runner}`: {others}."),
    })
}

fn has(offer: &wire::RunnerOffer, runner: &str) -> bool {
    offer.runners.iter().any(|offered| offered == runner)
}

/// `a, b, c`; of many the first.
fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let mut names = names.fuse();
    let first: Vec<_> = names.by_ref().take(NAMED_MAX).collect();
    let more = if names.next().is_some() { ", …" } else { "" };
    format!("{}{more}", first.join(", "))
}

#[cfg(test)]
mod tests;
