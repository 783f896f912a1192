//! `[commands]`: what roles with the toolset `commands` may run, and what it may touch.
//!
//! It is the operator's word on running what agents ask for, as `[accept]` is.

use std::{path::Path, time::Duration};

use tasuki_proto::echo::echo;
use toml::{Spanned, de::DeValue};

use super::{
    Problem, Source, VARIABLE_PREFIX,
    accept::{items, parse_table, path, variable},
    file::{Wrong, text},
    hooks::number,
};
use crate::{
    accept::allowed::Pattern,
    commands::settings::{
        CommandSettings, FILE_MB_MAX, LIMIT_MAX, MEMORY_MB_MAX, PLACES_MAX, PROCESSES_MAX,
    },
    process::policy::Kind,
};

/// The table.
pub(super) const COMMANDS: &str = "commands";

/// What it may say.
const FIELDS: [&str; 10] = [
    "allow",
    "read",
    "write",
    "env",
    "sandbox",
    "timeout_sec",
    "memory_mb",
    "file_mb",
    "processes",
    "at_once",
];

/// Parses it; `at` says where an offset is, `home` is what `~` stands for.
pub(super) fn parse(
    item: &Spanned<DeValue<'_>>,
    home: Option<&Path>,
    at: &dyn Fn(usize) -> Source,
    problems: &mut Vec<Problem>,
) -> CommandSettings {
    let mut settings = CommandSettings::default();
    let set = |field: &str, item: &Spanned<DeValue<'_>>| set(&mut settings, field, item, home);
    parse_table(COMMANDS, &FIELDS, item, at, problems, set);
    settings
}

fn set(
    settings: &mut CommandSettings,
    field: &str,
    item: &Spanned<DeValue<'_>>,
    home: Option<&Path>,
) -> Result<(), Wrong> {
    match field {
        "allow" => {
            let pattern = |text: &String| {
                let wrong = |why: String| (None, format!("names {}, which {why}", echo(text)));
                Pattern::parse(text).map_err(wrong)
            };
            settings.allow = items(item)?.iter().map(pattern).collect::<Result<_, _>>()?;
        }
        "read" => {
            settings.read =
                items(item)?.iter().map(|it| path(it, home)).collect::<Result<_, _>>()?;
        }
        "write" => settings.write = items(item)?,
        "env" => {
            let all = items(item)?;
            let all: Vec<_> = all.iter().map(|it| variable(it, home)).collect::<Result<_, _>>()?;
            if let Some((own, _)) = all.iter().find(|it| it.0.starts_with(VARIABLE_PREFIX)) {
                return Err((None, format!("names {own}, which is Tasuki's own")));
            }
            settings.env = all;
        }
        "sandbox" => {
            settings.kind = match text(item)? {
                "landlock" => Kind::Landlock,
                "none" => Kind::None,
                other => {
                    let is = echo(other);
                    return Err((None, format!("is {is}; there are \"landlock\" and \"none\"")));
                }
            }
        }
        "timeout_sec" => {
            settings.limit = Duration::from_secs(number(item, 1, LIMIT_MAX.as_secs())?);
        }
        "memory_mb" => {
            settings.memory_mb = Some(number(item, 0, MEMORY_MB_MAX)?).filter(|it| *it != 0);
        }
        "file_mb" => settings.file_mb = number(item, 1, FILE_MB_MAX)?,
        "processes" => settings.processes = number(item, 1, PROCESSES_MAX)?,
        "at_once" => {
            let places = number(item, 1, PLACES_MAX as u64)?;
            settings.places = usize::try_from(places).unwrap_or(PLACES_MAX);
        }
        _ => unreachable!("FIELDS has no other"),
    }
    Ok(())
}
