//! `tasuki.toml`, read so that every problem in it is found at once and has a line.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use tasuki_proto::{
    echo::bounded,
    host::{
        config::Found,
        trust::{Distrust, FREE},
    },
    id::RoleId,
};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    Key, Layer, Problem, Raw, Source, Sourced,
    accept::{self, ACCEPT},
    commands::{self, COMMANDS},
    export::{self, ROLE},
    files::{self, FILES},
    gateway::{self, GATEWAY},
    hooks::{self, HOOKS},
    launch::{self, LAUNCH},
    runner::{self, RUNNER},
    runs::{self, RUNS, RunSettings},
    service::{self, SERVICE},
    value,
};
use crate::{
    accept::settings::Settings,
    commands::CommandSettings,
    file_access::FileSettings,
    gateway::settings::{Export, GatewaySettings},
    hooks::spec::Hook,
    launch::settings::LaunchSettings,
    runner::runners::RunnerTable,
    service_settings::Service,
    toolset::ToolsetChoice,
};

/// The table that gives toolsets to roles by name.
const TOOLSETS: &str = "toolsets";

/// The table that names several roles at once.
const GROUPS: &str = "groups";

/// Tables, which have no variable.
pub(super) const TABLES: [&str; 12] = [
    TOOLSETS, GROUPS, HOOKS, ACCEPT, RUNNER, RUNS, LAUNCH, GATEWAY, ROLE, SERVICE, FILES, COMMANDS,
];

/// Problems told of one file. Nobody mends more in one go, and a repository's file may be made to have
/// a hundred thousand.
const PROBLEMS_MAX: usize = 100;

/// A file, in bytes, of which every error is told that makes it no TOML: each byte may be one, and
/// each is kept with some 500 bytes until it is told.
const RECOVERED_BYTES_MAX: usize = 64 * 1024;

/// Entries of one table of names, `[toolsets]` or `[groups]`. It is more than a workspace has roles
/// that are in use, and a file of 1 MiB has room for many more.
const NAMES_MAX: usize = 1000;

/// Settings of the broker's program alone, which judges them itself.
pub(super) const OF_THE_BROKER: [&str; 5] =
    ["secure", "advertise", "tls_cert", "tls_key", "client_ca"];

/// One of these as a file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfBroker {
    pub name: &'static str,
    pub at: Source,
    /// As one would write it, or what is wrong with it.
    pub value: Result<String, String>,
}

/// What a file says.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) layer: Layer,
    pub(super) toolsets: BTreeMap<String, Vec<ToolsetChoice>>,
    pub(super) groups: Groups,
    pub(super) hooks: Vec<Sourced<Hook>>,
    /// Why those of the file do not count.
    pub(super) distrust: Option<Problem>,
    pub(super) accept: Option<Counted<Settings>>,
    pub(super) runners: Option<Counted<RunnerTable>>,
    pub(super) runs: Option<Counted<RunSettings>>,
    pub(super) launch: Option<Counted<LaunchSettings>>,
    pub(super) gateway: Option<Counted<GatewaySettings>>,
    pub(super) exports: Option<Counted<Vec<Export>>>,
    pub(super) services: Option<Counted<Vec<Sourced<Service>>>>,
    pub(super) files: Option<Counted<FileSettings>>,
    pub(super) commands: Option<Counted<CommandSettings>>,
    pub(super) of_broker: Vec<OfBroker>,
    /// Where the file's user may have said what a hook does, in a way that cannot be read or does not
    /// count.
    pub(super) hook_fail_lost: Option<Source>,
}

impl Contents {
    /// Leaves out what makes no sense beside `upper`, whose word counts more: which roles there are
    /// and which of them are shared is one decision, and no group is called like a role.
    pub(super) fn give_way_to(&mut self, upper: &Self) {
        if [Key::Roles, Key::Shared].iter().any(|key| upper.layer.contains_key(key)) {
            self.layer.remove(&Key::Roles);
            self.layer.remove(&Key::Shared);
        }
        if let Some(roles) = upper.layer.get(&Key::Roles) {
            let name = |text: &String| text.split('=').next().map(str::to_owned);
            let names: BTreeSet<String> = roles.texts.iter().filter_map(name).collect();
            self.groups.retain(|group, _| !names.contains(group));
        }
    }

    /// Adds what a file below says; its settings with a key of their own are given back.
    pub(super) fn add_below(&mut self, lower: Self) -> Layer {
        for (role, sets) in lower.toolsets {
            self.toolsets.entry(role).or_insert(sets);
        }
        for (group, roles) in lower.groups {
            self.groups.entry(group).or_insert(roles);
        }
        // Only the lowest has hooks that count.
        self.hooks.extend(lower.hooks);
        self.distrust = self.distrust.take().or(lower.distrust);
        self.of_broker.extend(lower.of_broker);
        self.hook_fail_lost = self.hook_fail_lost.take().or(lower.hook_fail_lost);
        lower.layer
    }
}

/// What a file says that only an operator may: its settings, or why they do not count.
pub(super) type Counted<T> = Result<Sourced<T>, Problem>;

/// Looks at such a table only where it counts: else what is wrong in it is nobody's concern.
fn counted<T>(
    table: &str,
    source: &Source,
    distrust: Option<Distrust>,
    parse: impl FnOnce() -> T,
) -> Counted<T> {
    match distrust {
        Some(why) => Err(Problem { at: source.clone(), message: why.of(&[table]) }),
        None => Ok(Sourced { value: parse(), source: source.clone() }),
    }
}

/// Roles by the name of their group, and where the file says so.
pub(super) type Groups = BTreeMap<String, (Source, Vec<RoleId>)>;

/// `home` is what `~` stands for.
pub(super) fn parse(found: &Found, home: Option<&Path>, problems: &mut Vec<Problem>) -> Contents {
    let mut own = Vec::new();
    let contents = parse_all(found, home, &mut own);
    let more = own.len().saturating_sub(PROBLEMS_MAX);
    own.truncate(PROBLEMS_MAX);
    problems.append(&mut own);
    if 0 < more {
        let at = Source::File { path: found.path.clone(), line: 0 };
        let message = format!("has {more} more problems; mend these first");
        problems.push(Problem { at, message });
    }
    contents
}

fn parse_all(found: &Found, home: Option<&Path>, problems: &mut Vec<Problem>) -> Contents {
    let Found { path, content, is_here, distrust, unreadable, .. } = found;
    let mut contents = Contents::default();
    if let Some(why) = unreadable {
        let at = Source::File { path: path.to_owned(), line: 0 };
        problems.push(Problem { at, message: format!("cannot be read: {why}") });
        return contents;
    }
    let lines = Lines::of(content);
    let at = |offset: usize| Source::File { path: path.to_owned(), line: lines.line(offset) };
    // Whether its user may have written what it says.
    let is_own = !is_here || distrust.is_none();
    let table = match table(content) {
        Ok(table) => table,
        // What is left of it would only look like other problems, which nobody wrote.
        Err(errors) => {
            for error in errors {
                let offset = error.span().map_or(0, |span| span.start);
                problems.push(Problem { at: at(offset), message: bounded(error.message()) });
            }
            if is_own && content.contains(Key::HookFail.name()) {
                contents.hook_fail_lost = Some(Source::File { path: path.to_owned(), line: 0 });
            }
            return contents;
        }
    };
    let mut refused = Vec::new();
    for (name, item) in table.get_ref() {
        let key_offset = name.span().start;
        let source = at(key_offset);
        let name: &str = name.get_ref();
        let is_known = OF_THE_BROKER.contains(&name) || Key::parse(name).is_some();
        let said = if distrust.is_some() && is_known && !FREE.contains(&name) {
            refused.push((key_offset, name));
            if is_own && name == Key::HookFail.name() {
                contents.hook_fail_lost = Some(source.clone());
            }
            Ok(())
        } else if let Some(known) = OF_THE_BROKER.into_iter().find(|it| *it == name) {
            let value = of_broker(known, item);
            contents.of_broker.push(OfBroker { name: known, at: source.clone(), value });
            Ok(())
        } else if name == TOOLSETS {
            toolsets(item, &mut contents.toolsets, &at, problems)
        } else if name == GROUPS {
            groups(item, &mut contents.groups, &at, problems)
        } else if name == HOOKS {
            match distrust {
                // What is wrong in them is nobody's concern then.
                Some(why) => {
                    let (at, message) = (source.clone(), why.of(&[HOOKS]));
                    contents.distrust = Some(Problem { at, message });
                }
                None => contents.hooks = hooks::parse(item, path, &at, problems),
            }
            Ok(())
        } else if name == ACCEPT {
            let value = || accept::parse(item, home, &at, problems);
            contents.accept = Some(counted(ACCEPT, &source, *distrust, value));
            Ok(())
        } else if name == RUNNER {
            let value = || runner::parse(item, &at, problems);
            contents.runners = Some(counted(RUNNER, &source, *distrust, value));
            Ok(())
        } else if name == RUNS {
            let value = || runs::parse(item, home, &at, problems);
            contents.runs = Some(counted(RUNS, &source, *distrust, value));
            Ok(())
        } else if name == LAUNCH {
            let value = || launch::parse(item, path, home, &at, problems);
            contents.launch = Some(counted(LAUNCH, &source, *distrust, value));
            Ok(())
        } else if name == GATEWAY {
            let value = || gateway::parse(item, path, home, &at, problems);
            contents.gateway = Some(counted(GATEWAY, &source, *distrust, value));
            Ok(())
        } else if name == ROLE {
            let value = || export::parse(item, &at, problems);
            contents.exports = Some(counted(ROLE, &source, *distrust, value));
            Ok(())
        } else if name == SERVICE {
            let value = || service::parse(item, path, home, &at, problems);
            contents.services = Some(counted(SERVICE, &source, *distrust, value));
            Ok(())
        } else if name == FILES {
            let value = || files::parse(item, home, &at, problems);
            contents.files = Some(counted(FILES, &source, *distrust, value));
            Ok(())
        } else if name == COMMANDS {
            let value = || commands::parse(item, home, &at, problems);
            contents.commands = Some(counted(COMMANDS, &source, *distrust, value));
            Ok(())
        } else if let Some(key) = Key::parse(name) {
            match texts(key, item).and_then(|texts| from_here(key, texts, path)) {
                Ok(texts) => {
                    contents.layer.insert(key, Raw { source: source.clone(), texts });
                    Ok(())
                }
                Err(why) => {
                    if key == Key::HookFail {
                        contents.hook_fail_lost = Some(source.clone());
                    }
                    Err(why)
                }
            }
        } else {
            Err((None, stranger(problems.len())))
        };
        if let Err((offset, why)) = said {
            let at = offset.map_or(source, at);
            let name = value::name(name);
            problems.push(Problem { at, message: format!("`{name}` {why}") });
        }
    }
    refused.sort_unstable();
    if let (Some(distrust), Some((first, _))) = (distrust, refused.first()) {
        let names: Vec<&str> = refused.iter().map(|(_, name)| *name).collect();
        problems.push(Problem { at: at(*first), message: distrust.of(&names) });
    }
    contents
}

/// What a file says, or each error in it; of a large one, the first.
fn table(content: &str) -> Result<Spanned<DeTable<'_>>, Vec<toml::de::Error>> {
    let first = match DeTable::parse(content) {
        Ok(table) => return Ok(table),
        Err(why) => why,
    };
    if RECOVERED_BYTES_MAX < content.len() {
        return Err(vec![first]);
    }
    Err(DeTable::parse_recoverable(content).1)
}

/// What is said of a name that is no setting, beside `others` problems: nobody reads this a hundred
/// thousand times.
fn stranger(others: usize) -> String {
    if PROBLEMS_MAX <= others {
        return "is not a setting".to_owned();
    }
    let names: Vec<&str> = Key::ALL.iter().map(|key| key.name()).collect();
    format!(
        "is not a setting; there are {}, {}, and of the broker {}",
        names.join(", "),
        TABLES.join(", "),
        OF_THE_BROKER.join(", ")
    )
}

/// Where a key names a file or a directory: a relative path starts at the file's own directory. From
/// the current one it would lead to whatever a repository has there. A project is another thing in
/// each directory, so that is meant from the current one (`mirror_root`).
fn from_here(key: Key, texts: Vec<String>, file: &Path) -> Result<Vec<String>, Wrong> {
    if !matches!(key, Key::Data | Key::TlsCert | Key::TlsKey) {
        return Ok(texts);
    }
    let directory = file.parent().unwrap_or_else(|| Path::new(""));
    let whole = |text: String| {
        if text.is_empty() {
            return Ok(text);
        }
        directory.join(text).into_os_string().into_string().map_err(|_| {
            let why = "starts at the directory of this file, whose name is no text; write the \
                       whole path";
            (None, why.to_owned())
        })
    };
    texts.into_iter().map(whole).collect()
}

/// What a file that is not the one that holds says of what only an operator may say.
pub(super) fn of_operator(
    found: &Found,
    home: Option<&Path>,
    problems: &mut Vec<Problem>,
) -> Contents {
    let mut own = Vec::new();
    let contents = parse(found, home, &mut own);
    let is_told = |it: &Problem| {
        contents.accept.is_some() && it.message.starts_with("`accept`")
            || contents.runners.is_some() && it.message.starts_with("`runner")
            || contents.runs.is_some() && it.message.starts_with("`runs`")
            || contents.launch.is_some() && it.message.starts_with("`launch")
            || contents.gateway.is_some() && it.message.starts_with("`gateway")
            || contents.exports.is_some() && it.message.starts_with("`role")
            || contents.services.is_some() && it.message.starts_with("`service")
            || contents.files.is_some() && it.message.starts_with("`files`")
            || contents.commands.is_some() && it.message.starts_with("`commands`")
    };
    problems.extend(own.into_iter().filter(is_told));
    contents
}

fn of_broker(name: &str, item: &Spanned<DeValue<'_>>) -> Result<String, String> {
    if name != "secure" {
        return text(item).map(str::to_owned).map_err(|(_, why)| why);
    }
    let is_on = item.get_ref().as_bool().ok_or_else(|| {
        let is = item.get_ref().type_str();
        format!("takes true or false, not this {is}")
    })?;
    Ok(is_on.to_string())
}

/// Where in the file, if it is not where the name is; and what is wrong.
pub(super) type Wrong = (Option<usize>, String);

fn texts(key: Key, item: &Spanned<DeValue<'_>>) -> Result<Vec<String>, Wrong> {
    if let Some(is_on) = item.get_ref().as_bool().filter(|_| key.is_switch()) {
        return Ok(vec![if is_on { "yes" } else { "no" }.to_owned()]);
    }
    if !key.is_list() {
        return Ok(vec![text(item)?.to_owned()]);
    }
    list(item)
}

pub(super) fn text<'a>(item: &'a Spanned<DeValue<'_>>) -> Result<&'a str, Wrong> {
    item.get_ref().as_str().ok_or_else(|| {
        let is = item.get_ref().type_str();
        (Some(item.span().start), format!("takes a text in quotes, not this {is}"))
    })
}

pub(super) fn list(item: &Spanned<DeValue<'_>>) -> Result<Vec<String>, Wrong> {
    let items = item.get_ref().as_array().ok_or_else(|| {
        let is = item.get_ref().type_str();
        (Some(item.span().start), format!("takes a list of texts, not this {is}"))
    })?;
    items.iter().map(|item| text(item).map(str::to_owned)).collect()
}

fn toolsets(
    item: &Spanned<DeValue<'_>>,
    roles: &mut BTreeMap<String, Vec<ToolsetChoice>>,
    at: &dyn Fn(usize) -> Source,
    problems: &mut Vec<Problem>,
) -> Result<(), Wrong> {
    let table = item.get_ref().as_table().ok_or_else(|| {
        (Some(item.span().start), "takes a table: a list of toolsets for each role".to_owned())
    })?;
    if NAMES_MAX < table.len() {
        return Err((None, format!("has {} roles; the limit is {NAMES_MAX}", table.len())));
    }
    for (role, sets) in table {
        let start = role.span().start;
        let chosen = list(sets).and_then(|names| {
            if names.is_empty() {
                let why = "has no toolsets; name at least one, or leave the role out";
                return Err(entry(start, role.get_ref(), why));
            }
            let chosen = value::toolsets(names.iter().map(String::as_str));
            chosen.map_err(|why| entry(start, role.get_ref(), &why))
        });
        match chosen {
            Ok(chosen) => drop(roles.insert(role.get_ref().to_string(), chosen)),
            Err(wrong) => problems.push(problem(TOOLSETS, wrong, start, at)),
        }
    }
    Ok(())
}

fn groups(
    item: &Spanned<DeValue<'_>>,
    groups: &mut Groups,
    at: &dyn Fn(usize) -> Source,
    problems: &mut Vec<Problem>,
) -> Result<(), Wrong> {
    let table = item.get_ref().as_table().ok_or_else(|| {
        (Some(item.span().start), "takes a table: a list of roles for each group".to_owned())
    })?;
    if NAMES_MAX < table.len() {
        return Err((None, format!("has {} groups; the limit is {NAMES_MAX}", table.len())));
    }
    for (name, roles) in table {
        let start = name.span().start;
        let roles = list(roles).and_then(|roles| {
            value::group(name.get_ref(), &roles).map_err(|why| entry(start, name.get_ref(), &why))
        });
        match roles {
            Ok(roles) => drop(groups.insert(name.get_ref().to_string(), (at(start), roles))),
            Err(wrong) => problems.push(problem(GROUPS, wrong, start, at)),
        }
    }
    Ok(())
}

/// What is wrong with one entry of a table.
fn entry(start: usize, name: &str, why: &str) -> Wrong {
    (Some(start), format!("of {} {why}", value::name(name)))
}

fn problem(table: &str, wrong: Wrong, start: usize, at: &dyn Fn(usize) -> Source) -> Problem {
    let (offset, why) = wrong;
    Problem { at: at(offset.unwrap_or(start)), message: format!("`{table}` {why}") }
}

/// Where the lines of a file end. A file may ask for the line of each of its keys, so they are counted
/// once.
struct Lines(Vec<usize>);

impl Lines {
    fn of(content: &str) -> Self {
        Self(content.match_indices('\n').map(|(end, _)| end).collect())
    }

    fn line(&self, offset: usize) -> usize {
        1 + self.0.partition_point(|end| *end < offset)
    }
}
