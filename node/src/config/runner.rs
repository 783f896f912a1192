//! `[runner.NAME]`: agent CLIs that runs are started with, beside the built-in ones or in their place.
//!
//! It names programs, so it is the operator's to say, as `[accept]` is.

use std::collections::BTreeMap;

use tasuki_proto::echo::echo;
use toml::{Spanned, de::DeValue};

use super::{
    Problem, Source,
    file::{Wrong, list, text},
};
use crate::runner::runners::{RunnerConfig, RunnerTable};

/// The table of tables.
pub(super) const RUNNER: &str = "runner";

/// What each may say.
const FIELDS: [&str; 2] = ["command", "stream"];

/// Runners of one file.
const RUNNERS_MAX: usize = 64;

/// Parses them; `at` says where an offset is.
pub(super) fn parse(
    item: &Spanned<DeValue<'_>>,
    at: &dyn Fn(usize) -> Source,
    problems: &mut Vec<Problem>,
) -> RunnerTable {
    let mut say = |offset: usize, message: String| {
        problems.push(Problem { at: at(offset), message });
    };
    let Some(table) = item.get_ref().as_table() else {
        say(
            item.span().start,
            format!("`{RUNNER}` takes tables: write [{RUNNER}.NAME] above each"),
        );
        return RunnerTable::default();
    };
    if RUNNERS_MAX < table.len() {
        let count = table.len();
        say(
            item.span().start,
            format!("`{RUNNER}` has {count} entries; the limit is {RUNNERS_MAX}"),
        );
        return RunnerTable::default();
    }
    let mut configs = BTreeMap::new();
    let mut places = BTreeMap::new();
    for (key, value) in table {
        let name: &str = key.get_ref();
        match config(value) {
            Ok(it) => {
                places.insert(name.to_owned(), key.span().start);
                configs.insert(name.to_owned(), it);
            }
            Err((offset, why)) => {
                say(
                    offset.unwrap_or_else(|| key.span().start),
                    format!("`{RUNNER}.{}` {why}", echo(name)),
                );
            }
        }
    }
    RunnerTable::new(&configs).unwrap_or_else(|wrong| {
        for it in wrong {
            let start = places.get(&it.name).copied().unwrap_or_else(|| item.span().start);
            say(start, format!("`{RUNNER}.{}`: {}", echo(&it.name), it.text));
        }
        RunnerTable::default()
    })
}

fn config(item: &Spanned<DeValue<'_>>) -> Result<RunnerConfig, Wrong> {
    let table = item.get_ref().as_table().ok_or_else(|| {
        let is = item.get_ref().type_str();
        (Some(item.span().start), format!("takes a table, not this {is}"))
    })?;
    let mut config = RunnerConfig::default();
    for (key, value) in table {
        let name: &str = key.get_ref();
        match name {
            "command" => config.command = Some(list(value)?),
            "stream" => config.stream = Some(text(value)?.to_owned()),
            _ => {
                let why =
                    format!("has no setting {}; there are {}", echo(name), FIELDS.join(" and "));
                return Err((Some(key.span().start), why));
            }
        }
    }
    Ok(config)
}
