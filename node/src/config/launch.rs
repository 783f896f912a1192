//! `[launch]`: which agents `tasuki launch` starts, and how.
//!
//! It names programs and what they are told, so it is the operator's to say, as `[accept]` is.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use tasuki_proto::{echo::echo, host::config::duration, limits::TEXT_BYTES_MAX};
use toml::{Spanned, de::DeValue};

use super::{
    Problem, Source,
    accept::{at_home, items, parse_table, yes_or_no},
    file::{Wrong, text},
    hooks::number,
    value::duration_text,
};
use crate::launch::{
    program::Program,
    settings::{
        AGENTS_MAX, AgentSettings, LaunchSettings, OnExit, RESTARTS_MAX, Terminal, client_named,
    },
};

/// The table.
pub(super) const LAUNCH: &str = "launch";

/// What it may say.
const FIELDS: [&str; 3] = ["terminal", "wait", "agent"];

/// One of its agents, for messages.
const AGENT: &str = "launch.agent";

/// What each of them may say.
const AGENT_FIELDS: [&str; 10] = [
    "role",
    "client",
    "project",
    "command",
    "args",
    "prompt",
    "agents_md",
    "allow",
    "on_exit",
    "restarts",
];

/// The longest that agents are waited for.
const WAIT_MAX: Duration = Duration::from_secs(60 * 60);

/// Parses it. `file` is where a relative project begins, `home` is what `~` stands for, `at` says
/// where an offset is.
pub(super) fn parse(
    item: &Spanned<DeValue<'_>>,
    file: &Path,
    home: Option<&Path>,
    at: &dyn Fn(usize) -> Source,
    problems: &mut Vec<Problem>,
) -> LaunchSettings {
    let mut settings = LaunchSettings::default();
    let mut inner = Vec::new();
    let set = |field: &str, item: &Spanned<DeValue<'_>>| match field {
        "terminal" => named(item, &Terminal::NAMES).map(|it| settings.terminal = it),
        "wait" => wait(text(item)?).map(|it| settings.wait = it),
        "agent" => {
            let Some(all) = item.get_ref().as_array().filter(|all| all.len() <= AGENTS_MAX) else {
                let why =
                    format!("takes tables, at most {AGENTS_MAX}: write [[{AGENT}]] above each");
                return Err((None, why));
            };
            let of = |item| agent(item, file, home, at, &mut inner);
            settings.agents = all.iter().filter_map(of).collect();
            Ok(())
        }
        _ => unreachable!("FIELDS has no other"),
    };
    parse_table(LAUNCH, &FIELDS, item, at, problems, set);
    problems.append(&mut inner);
    settings
}

/// `None`: something is wrong with it, which was said.
fn agent(
    item: &Spanned<DeValue<'_>>,
    file: &Path,
    home: Option<&Path>,
    at: &dyn Fn(usize) -> Source,
    problems: &mut Vec<Problem>,
) -> Option<AgentSettings> {
    let (mut role, mut program) = (None, None);
    // Role and program are put in once both are known.
    let placeholder = AgentSettings::new("A".parse().ok()?, Program::find("idea")?);
    let mut agent = placeholder;
    let before = problems.len();
    let set = |field: &str, item: &Spanned<DeValue<'_>>| {
        let at_value = |why: String| -> Wrong { (Some(item.span().start), why) };
        match field {
            "role" => {
                let name = text(item)?;
                let wrong = |why| at_value(format!("is {}, which {why}", echo(name)));
                role = Some(name.parse().map_err(wrong)?);
            }
            "client" => program = Some(client_named(text(item)?).map_err(at_value)?),
            "project" => agent.project = Some(directory_from(text(item)?, file, home)?),
            "command" => {
                agent.command = words(item)?;
                if agent.command.is_empty() {
                    return Err(at_value("takes a program and its arguments".to_owned()));
                }
            }
            "args" => agent.args = words(item)?,
            "prompt" => {
                let goal = text(item)?;
                if TEXT_BYTES_MAX < goal.len() {
                    return Err(at_value(format!("is longer than {TEXT_BYTES_MAX} bytes")));
                }
                agent.prompt = Some(goal.to_owned());
            }
            "agents_md" => agent.agents_md = yes_or_no(item)?,
            "allow" => agent.allow = yes_or_no(item)?,
            "on_exit" => agent.on_exit = named(item, &OnExit::NAMES)?,
            "restarts" => {
                let restarts = number(item, 0, u64::from(RESTARTS_MAX))?;
                agent.restarts = u32::try_from(restarts).unwrap_or(RESTARTS_MAX);
            }
            _ => unreachable!("AGENT_FIELDS has no other"),
        }
        Ok(())
    };
    parse_table(AGENT, &AGENT_FIELDS, item, at, problems, set);
    match (role, program) {
        (Some(role), Some(program)) => Some(AgentSettings { role, program, ..agent }),
        (role, _) => {
            // What is wrong with one that is there was said.
            if problems.len() == before {
                let lacks = if role.is_none() { "role" } else { "client" };
                let message = format!("`{AGENT}` lacks `{lacks}`");
                problems.push(Problem { at: at(item.span().start), message });
            }
            None
        }
    }
}

fn named<T: Copy>(item: &Spanned<DeValue<'_>>, all: &[(&str, T)]) -> Result<T, Wrong> {
    let is = text(item)?;
    let found = all.iter().find(|(name, _)| *name == is);
    found.map(|(_, it)| *it).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        (None, format!("is {}; there are {}", echo(is), names.join(", ")))
    })
}

/// How long agents are waited for, as somebody writes it.
pub(crate) fn wait(text: &str) -> Result<Duration, Wrong> {
    let wait =
        if text == "0" { Duration::ZERO } else { duration(text).map_err(|why| (None, why))? };
    if wait <= WAIT_MAX {
        return Ok(wait);
    }
    let [is, most] = [wait, WAIT_MAX].map(duration_text);
    Err((None, format!("is {is}; it takes at most {most}")))
}

pub(super) fn words(item: &Spanned<DeValue<'_>>) -> Result<Vec<String>, Wrong> {
    let words = items(item)?;
    match words.iter().any(|word| word.contains('\0')) {
        true => Err((None, "has a word with a zero byte".to_owned())),
        false => Ok(words),
    }
}

/// A relative one begins at the file's own directory.
pub(super) fn directory_from(
    text: &str,
    file: &Path,
    home: Option<&Path>,
) -> Result<PathBuf, Wrong> {
    let directory = file.parent().unwrap_or_else(|| Path::new("")).join(at_home(text, home));
    std::path::absolute(directory).map_err(|_| (None, "names no directory".to_owned()))
}
