//! `[accept]`: which commands of others may be run again here, and what they may touch.
//!
//! It is the operator's word on running what others wrote: in a file that came with a directory it
//! counts only once its user trusts it (`tasuki_proto::host::trust`). `tasuki accept` is usually called
//! inside of a repository: where that has a `tasuki.toml` of its own that does not say, the table
//! is taken from the operator's file.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use tasuki_proto::echo::echo;
use toml::{Spanned, de::DeValue};

use super::{
    Problem, Source,
    file::{Wrong, list, text},
    hooks::number,
};
use crate::{
    accept::{
        allowed::Pattern,
        settings::{LIMIT_MAX, MEMORY_MB_MAX, Settings},
    },
    process::policy::Kind,
};

/// The table.
pub(super) const ACCEPT: &str = "accept";

/// What it may say.
const FIELDS: [&str; 10] = [
    "allow",
    "read",
    "write",
    "env",
    "network",
    "unix_sockets",
    "sandbox",
    "timeout_sec",
    "memory_mb",
    "directory",
];

/// Patterns, paths and variables in one list.
const ITEMS_MAX: usize = 256;

/// Parses it; `at` says where an offset is, `home` is what `~` stands for.
pub(super) fn parse(
    item: &Spanned<DeValue<'_>>,
    home: Option<&Path>,
    at: &dyn Fn(usize) -> Source,
    problems: &mut Vec<Problem>,
) -> Settings {
    let mut settings = Settings::default();
    let set = |field: &str, item: &Spanned<DeValue<'_>>| set(&mut settings, field, item, home);
    parse_table(ACCEPT, &FIELDS, item, at, problems, set);
    settings
}

/// Reads a table that may say what is in `known`: `set` takes each of it.
pub(super) fn parse_table(
    name: &str,
    known: &[&'static str],
    item: &Spanned<DeValue<'_>>,
    at: &dyn Fn(usize) -> Source,
    problems: &mut Vec<Problem>,
    mut set: impl FnMut(&str, &Spanned<DeValue<'_>>) -> Result<(), Wrong>,
) {
    let mut say = |offset: usize, message: String| {
        problems.push(Problem { at: at(offset), message });
    };
    let Some(table) = item.get_ref().as_table() else {
        return say(item.span().start, format!("`{name}` takes a table: write [{name}] above it"));
    };
    let mut fields = BTreeMap::new();
    for (key, value) in table {
        let (start, said): (usize, &str) = (key.span().start, key.get_ref());
        match known.iter().find(|field| **field == said) {
            Some(field) => drop(fields.insert(*field, (start, value))),
            None => {
                let (said, known) = (echo(said), known.join(", "));
                say(start, format!("`{name}` has no setting {said}; there are {known}"));
            }
        }
    }
    for (field, (start, value)) in fields {
        if let Err((offset, why)) = set(field, value) {
            say(offset.unwrap_or(start), format!("`{name}` has `{field}`, which {why}"));
        }
    }
}

fn set(
    settings: &mut Settings,
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
        "read" => settings.read = paths(item, home)?,
        "write" => settings.write = paths(item, home)?,
        "env" => {
            let variable = |text: &String| variable(text, home);
            settings.env = items(item)?.iter().map(variable).collect::<Result<_, _>>()?;
        }
        "network" => settings.is_network_open = yes_or_no(item)?,
        "unix_sockets" => settings.has_unix_sockets = yes_or_no(item)?,
        "sandbox" => {
            settings.kind = match text(item)? {
                "landlock" => Kind::Landlock,
                "none" => Kind::None,
                other => {
                    let is = echo(other);
                    let why = format!("is {is}; there are \"landlock\" and \"none\"");
                    return Err((None, why));
                }
            }
        }
        "timeout_sec" => {
            settings.limit = Duration::from_secs(number(item, 1, LIMIT_MAX.as_secs())?);
        }
        "memory_mb" => {
            settings.memory_mb = Some(number(item, 0, MEMORY_MB_MAX)?).filter(|it| *it != 0);
        }
        "directory" => settings.directory = Some(path(text(item)?, home)?),
        _ => unreachable!("FIELDS has no other"),
    }
    Ok(())
}

pub(super) fn items(item: &Spanned<DeValue<'_>>) -> Result<Vec<String>, Wrong> {
    let items = list(item)?;
    if ITEMS_MAX < items.len() {
        return Err((None, format!("has {} entries; the limit is {ITEMS_MAX}", items.len())));
    }
    Ok(items)
}

pub(super) fn yes_or_no(item: &Spanned<DeValue<'_>>) -> Result<bool, Wrong> {
    let is = item.get_ref().type_str();
    item.get_ref().as_bool().ok_or_else(|| (None, format!("takes true or false, not this {is}")))
}

fn paths(item: &Spanned<DeValue<'_>>, home: Option<&Path>) -> Result<Vec<PathBuf>, Wrong> {
    items(item)?.iter().map(|it| path(it, home)).collect()
}

/// Relative ones would be of a directory that nobody meant.
pub(super) fn path(text: &str, home: Option<&Path>) -> Result<PathBuf, Wrong> {
    let path = PathBuf::from(at_home(text, home));
    if path.is_absolute() && path.parent().is_some() {
        return Ok(path);
    }
    let named = echo(text);
    Err((None, format!("names {named}; it takes absolute paths below /, or such as \"~/.cargo\"")))
}

pub(super) fn at_home(text: &str, home: Option<&Path>) -> String {
    match (text.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest).display().to_string(),
        _ => text.to_owned(),
    }
}

pub(super) fn variable(text: &str, home: Option<&Path>) -> Result<(String, Option<String>), Wrong> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(at_home(value, home))),
        None => (text, None),
    };
    if !is_variable(name) || text.contains('\0') {
        return Err((None, format!("names {}; it takes NAME or NAME=VALUE", echo(text))));
    }
    Ok((name.to_owned(), value))
}

/// Whether it can be the name of a variable.
pub(super) fn is_variable(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| !c.is_ascii_digit()) && name.chars().all(is_letter)
}
