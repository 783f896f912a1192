//! `[runs]`: where agents work on this machine, how many at once, and whether others may start them.
//!
//! It opens this machine to others, so it is the operator's to say, as `[accept]` is.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use tasuki_proto::{echo::echo, host::config::duration, id::NodeLabel, limits::RUNNERS_MAX};
use toml::{Spanned, de::DeValue};

use super::{
    Problem, Source, Sourced, VARIABLE_PREFIX,
    accept::{is_variable, items, parse_table, path, yes_or_no},
    file::{Wrong, text},
    hooks::number,
    value::duration_text,
};
use crate::runner::{agent_file::TIMEOUT_MAX, runners::RunnerTable};

/// The table.
pub(super) const RUNS: &str = "runs";

/// What it may say.
const FIELDS: [&str; 7] =
    ["accept_elsewhere", "labels", "places", "timeout", "env", "directory", "runner"];

/// Steps that run here at once unless configured, and the most: each is an agent with tools of its
/// own.
const PLACES: u32 = 4;
const PLACES_MAX: u32 = 64;

/// How long a step may run that names no limit.
const TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// The shortest that one may name.
const TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// What the operator says of agents that run on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSettings {
    /// Steps that other machines ask for are taken, too.
    pub accept_elsewhere: bool,
    /// Other names of this node, which `on` may ask for.
    pub labels: Vec<String>,
    /// Steps that run here at once; 0 takes none.
    pub places: u32,
    /// Of a step that names none.
    pub timeout: Duration,
    /// Variables that agents with an `env` list may be given when another machine asks for them.
    pub env: Vec<String>,
    /// Where agents work; `None`: in `mirror_root`, else in the current directory.
    pub directory: Option<PathBuf>,
    /// The runner of agents that name none; `None`: pi.
    pub runner: Option<String>,
}

impl Default for RunSettings {
    fn default() -> Self {
        Self {
            accept_elsewhere: false,
            labels: Vec::new(),
            places: PLACES,
            timeout: TIMEOUT,
            env: Vec::new(),
            directory: None,
            runner: None,
        }
    }
}

/// Parses it; `at` says where an offset is, `home` is what `~` stands for.
pub(super) fn parse(
    item: &Spanned<DeValue<'_>>,
    home: Option<&Path>,
    at: &dyn Fn(usize) -> Source,
    problems: &mut Vec<Problem>,
) -> RunSettings {
    let mut settings = RunSettings::default();
    let set = |field: &str, item: &Spanned<DeValue<'_>>| set(&mut settings, field, item, home);
    parse_table(RUNS, &FIELDS, item, at, problems, set);
    settings
}

fn set(
    settings: &mut RunSettings,
    field: &str,
    item: &Spanned<DeValue<'_>>,
    home: Option<&Path>,
) -> Result<(), Wrong> {
    match field {
        "accept_elsewhere" => settings.accept_elsewhere = yes_or_no(item)?,
        "labels" => settings.labels = labels(&items(item)?)?,
        "places" => {
            let places = number(item, 0, u64::from(PLACES_MAX))?;
            settings.places = u32::try_from(places).unwrap_or(PLACES_MAX);
        }
        "timeout" => {
            let timeout = step_timeout(text(item)?);
            settings.timeout = timeout.map_err(|why| -> Wrong { (None, why) })?;
        }
        "env" => settings.env = variables(items(item)?)?,
        "directory" => settings.directory = Some(path(text(item)?, home)?),
        "runner" => settings.runner = Some(text(item)?.to_owned()),
        _ => unreachable!("FIELDS has no other"),
    }
    Ok(())
}

fn labels(texts: &[String]) -> Result<Vec<String>, Wrong> {
    if RUNNERS_MAX < texts.len() {
        return Err((None, format!("has {} entries; the limit is {RUNNERS_MAX}", texts.len())));
    }
    let mut known = BTreeSet::new();
    for text in texts {
        let named = echo(text);
        let label = text.parse::<NodeLabel>();
        let label =
            label.map_err(|why| -> Wrong { (None, format!("names {named}, which {why}")) })?;
        if !known.insert(label) {
            return Err((None, format!("names {named} twice")));
        }
    }
    Ok(texts.to_vec())
}

/// How long a step may run, as somebody writes it.
pub(crate) fn step_timeout(text: &str) -> Result<Duration, String> {
    let timeout = duration(text)?;
    if (TIMEOUT_MIN..=TIMEOUT_MAX).contains(&timeout) {
        return Ok(timeout);
    }
    let [is, least, most] = [timeout, TIMEOUT_MIN, TIMEOUT_MAX].map(duration_text);
    Err(format!("is {is}; it takes {least} to {most}"))
}

fn variables(names: Vec<String>) -> Result<Vec<String>, Wrong> {
    for name in &names {
        let is = echo(name);
        if !is_variable(name) {
            return Err((None, format!("names {is}; it takes names of variables, without values")));
        }
        if name.starts_with(VARIABLE_PREFIX) {
            return Err((None, format!("names {is}, which is Tasuki's own; no agent is given it")));
        }
    }
    Ok(names)
}

/// Puts the name that the table has for the usual runner in the place of the one that was said.
///
/// # Errors
/// When there is no such runner.
pub(super) fn resolve_runner(
    runs: Option<&mut Sourced<RunSettings>>,
    configured: Option<&Sourced<RunnerTable>>,
) -> Result<(), Problem> {
    let Some(runs) = runs else { return Ok(()) };
    let Some(said) = &mut runs.value.runner else { return Ok(()) };
    let builtin = RunnerTable::default();
    let table = configured.map_or(&builtin, |it| &it.value);
    if let Some(found) = table.get(said) {
        said.clone_from(&found.name);
        return Ok(());
    }
    let names: Vec<&str> = table.iter().map(|it| it.name.as_str()).collect();
    let message =
        format!("`{RUNS}` has `runner`, which is {}; there are {}", echo(said), names.join(", "));
    Err(Problem { at: runs.source.clone(), message })
}
