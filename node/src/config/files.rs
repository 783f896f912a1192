//! `[files]`: the directory that roles with the toolset `files` work in.
//!
//! It opens a part of this machine to agents, so it is the operator's to say, as `[accept]` is.

use std::path::Path;

use tasuki_proto::echo::echo;
use toml::{Spanned, de::DeValue};

use super::{
    Problem, Source,
    accept::{items, parse_table, path, yes_or_no},
    file::{Wrong, text},
};
use crate::file_access::{FileSettings, protect::Pattern};

/// The table.
pub(super) const FILES: &str = "files";

/// What it may say.
const FIELDS: [&str; 3] = ["root", "write", "protect"];

/// Parses it; `at` says where an offset is, `home` is what `~` stands for.
pub(super) fn parse(
    item: &Spanned<DeValue<'_>>,
    home: Option<&Path>,
    at: &dyn Fn(usize) -> Source,
    problems: &mut Vec<Problem>,
) -> FileSettings {
    let mut settings = FileSettings::default();
    let set = |field: &str, item: &Spanned<DeValue<'_>>| set(&mut settings, field, item, home);
    parse_table(FILES, &FIELDS, item, at, problems, set);
    settings
}

fn set(
    settings: &mut FileSettings,
    field: &str,
    item: &Spanned<DeValue<'_>>,
    home: Option<&Path>,
) -> Result<(), Wrong> {
    match field {
        "root" => settings.root = Some(path(text(item)?, home)?),
        "write" => settings.may_write = yes_or_no(item)?,
        "protect" => {
            let pattern = |text: &String| {
                let wrong = |why: String| (None, format!("names {}, which {why}", echo(text)));
                Pattern::parse(text).map_err(wrong)
            };
            settings.protect = items(item)?.iter().map(pattern).collect::<Result<_, _>>()?;
        }
        _ => unreachable!("FIELDS has no other"),
    }
    Ok(())
}
