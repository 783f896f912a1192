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
    id::{InvalidId, NodeLabel, RunnerName},
    limits::{SYSTEM_PROMPT_BYTES_MAX, TEXT_BYTES_MAX},
    visible::is_visible,
    wire::{self, RunMode},
};

use super::{
    convert::text,
    own::OwnRunners,
    schema::{SchemaError, check_schema, instruction},
    spec::Spec,
};
use crate::runner::{
    discovery::{AgentEntry, Agents, Source},
    modes::{Mode, Step, unknown_agent},
    runners::canonical,
};

/// A model's name, as a label of a step.
const MODEL_BYTES_MAX: usize = 200;

/// Nodes, runners or labels that one sentence names.
const NAMED_MAX: usize = 20;

/// What somebody wants done.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
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

    pub fn runners(&self) -> BTreeSet<&str> {
        self.request.steps.iter().map(|step| step.runner.as_str()).collect()
    }
}

/// Why nothing can be asked for; says it to the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("{0}")]
    UnknownAgent(String),
    #[error("Agent `{agent}` names no runner, and there is no default; name one.")]
    NoRunner { agent: String },
    #[error("The runner {runner} of agent `{agent}` is no name: it {why}.")]
    Runner { agent: String, runner: String, why: InvalidId },
    #[error("`on` is {on}, which is no name of a node or a label: it {why}.")]
    Place { on: String, why: InvalidId },
    #[error(
        "The model {model} of agent `{agent}` is no name: use 1 to {MODEL_BYTES_MAX} printable \
         bytes that do not begin with `-`."
    )]
    Model { agent: String, model: String },
    #[error("The task for agent `{agent}` is empty.")]
    EmptyTask { agent: String },
    #[error("The {what} of agent `{agent}` has {bytes} bytes; the limit is {bytes_max}.")]
    TooLong { what: &'static str, agent: String, bytes: usize, bytes_max: usize },
    #[error("The {what} of agent `{agent}` contains a NUL character.")]
    Nul { what: &'static str, agent: String },
    #[error("`cwd` of agent `{agent}` is {cwd}, which leaves the project; name a directory in it.")]
    Cwd { agent: String, cwd: String },
    #[error("`output_schema` {0}.")]
    OutputSchema(#[from] SchemaError),
}

/// Makes steps of what is wanted.
///
/// # Errors
/// When something of it is not there, or cannot be passed on.
pub fn plan(wanted: &Wanted<'_>, agents: &Agents) -> Result<Plan, PlanError> {
    if let Some(schema) = wanted.output_schema {
        check_schema(schema)?;
    }
    check_place(wanted.on)?;
    let (mode, steps) = match wanted.mode {
        Mode::Single(step) => (RunMode::Single, slice::from_ref(step)),
        Mode::Parallel(steps) => (RunMode::Parallel, steps.as_slice()),
        Mode::Chain(steps) => (RunMode::Chain, steps.as_slice()),
    };
    let mut used = BTreeMap::new();
    let mut planned = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let Some(entry) = agents.agents.get(&step.agent) else {
            let available = agents.agents.keys().map(String::as_str);
            return Err(PlanError::UnknownAgent(unknown_agent(&step.agent, available)));
        };
        let is_final = mode != RunMode::Chain || at + 1 == steps.len();
        let schema = wanted.output_schema.filter(|_| is_final);
        planned.push(plan_step(wanted, step, entry, schema)?);
        used.entry(entry.agent.name.as_str()).or_insert(entry);
    }
    let request = wire::StartRunRequest {
        mode: mode.into(),
        steps: planned,
        concurrency: wanted.concurrency,
        budget: Some(wanted.budget),
        ..Default::default()
    };
    Ok(Plan { request, agents: used.into_values().cloned().collect() })
}

fn plan_step(
    wanted: &Wanted<'_>,
    step: &Step,
    entry: &AgentEntry,
    schema: Option<&Value>,
) -> Result<wire::NewStep, PlanError> {
    let agent = &entry.agent;
    let checked = |what, text: String, bytes_max| check_text(&agent.name, what, text, bytes_max);
    if step.task.trim().is_empty() {
        return Err(PlanError::EmptyTask { agent: agent.name.clone() });
    }
    let task = checked("task", step.task.clone(), TEXT_BYTES_MAX)?;
    let prompt = with_instruction(&agent.system_prompt, schema);
    let system = checked("system prompt", prompt, SYSTEM_PROMPT_BYTES_MAX)?;
    let cwd = step.cwd.as_ref().or(agent.cwd.as_ref());
    if let Some(cwd) = cwd {
        check_cwd(&agent.name, cwd)?;
    }
    let spec = Spec {
        tools: agent.tools.clone(),
        cwd: cwd.cloned(),
        env: (!agent.env.is_empty()).then(|| agent.env.clone()),
        sandbox: agent.sandbox,
        output_schema: schema.cloned(),
        source: entry.source,
    };
    let spec = checked("settings", spec.to_text(), SYSTEM_PROMPT_BYTES_MAX)?;
    let timeout = wanted.timeout.or(agent.timeout).unwrap_or_default();
    Ok(wire::NewStep {
        agent: agent.name.clone(),
        runner: find_runner(wanted, entry)?,
        model: find_model(wanted, entry)?,
        on: wanted.on.to_owned(),
        timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        task: Some(text(task)),
        system: (!system.is_empty()).then(|| text(system)),
        spec: Some(text(spec)),
    })
}

fn find_runner(wanted: &Wanted<'_>, entry: &AgentEntry) -> Result<String, PlanError> {
    let agent = || entry.agent.name.clone();
    let runner = wanted.runner.or_else(|| entry.runner()).unwrap_or(wanted.default_runner);
    if runner.is_empty() {
        return Err(PlanError::NoRunner { agent: agent() });
    }
    match canonical(runner).parse::<RunnerName>() {
        Ok(runner) => Ok(runner.to_string()),
        Err(why) => {
            Err(PlanError::Runner { agent: agent(), runner: echo(runner).to_string(), why })
        }
    }
}

/// Empty: the runner's own choice.
fn find_model(wanted: &Wanted<'_>, entry: &AgentEntry) -> Result<String, PlanError> {
    let Some(model) = wanted.model.or(entry.agent.model.as_deref()) else {
        return Ok(String::new());
    };
    let is_name = (1..=MODEL_BYTES_MAX).contains(&model.len())
        && !model.starts_with('-')
        && model.chars().all(is_visible);
    if is_name {
        Ok(model.to_owned())
    } else {
        let (agent, model) = (entry.agent.name.clone(), echo(model).to_string());
        Err(PlanError::Model { agent, model })
    }
}

fn check_place(on: &str) -> Result<(), PlanError> {
    match on.parse::<NodeLabel>() {
        Err(why) if !on.is_empty() => Err(PlanError::Place { on: echo(on).to_string(), why }),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn check_text(
    agent: &str,
    what: &'static str,
    text: String,
    bytes_max: usize,
) -> Result<String, PlanError> {
    let agent = || agent.to_owned();
    if text.len() > bytes_max {
        Err(PlanError::TooLong { what, agent: agent(), bytes: text.len(), bytes_max })
    } else if text.contains('\0') {
        Err(PlanError::Nul { what, agent: agent() })
    } else {
        Ok(text)
    }
}

/// Refuses what plainly leads out of a project, whichever that is.
fn check_cwd(agent: &str, cwd: &str) -> Result<(), PlanError> {
    if cwd.contains('\0') {
        return Err(PlanError::Nul { what: "`cwd`", agent: agent.to_owned() });
    }
    let mut depth = 0_usize;
    for component in Path::new(cwd).components() {
        depth = match component {
            Component::Normal(_) => Some(depth + 1),
            Component::CurDir => Some(depth),
            Component::ParentDir => depth.checked_sub(1),
            // The node that runs the step knows where its project is.
            Component::Prefix(_) | Component::RootDir => return Ok(()),
        }
        .ok_or_else(|| PlanError::Cwd { agent: agent.to_owned(), cwd: echo(cwd).to_string() })?;
    }
    Ok(())
}

/// A system prompt that also says what form the output is to have.
fn with_instruction(system: &str, schema: Option<&Value>) -> String {
    match schema.map(instruction) {
        None => system.to_owned(),
        Some(instruction) if system.is_empty() => instruction,
        Some(instruction) => format!("{system}\n\n{instruction}"),
    }
}

/// Why nobody can run it at present, with what to do; `None` if every step has somebody.
pub fn nobody_runs(plan: &Plan, offers: &[wire::RunnerOffer], own: &OwnRunners) -> Option<String> {
    let installed = own.installed();
    plan.request.steps.iter().find_map(|step| {
        if step.on.is_empty() {
            let is_installed = installed.contains(&step.runner);
            (!is_installed).then(|| nobody_here(step, offers, own))
        } else {
            nobody_there(step, offers)
        }
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
