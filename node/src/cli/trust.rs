//! `tasuki trust`: files that came with a directory count, as they are: settings, and agents.
//!
//! **Invariant:** what is shown is what is trusted: each file is read once.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tasuki_proto::{
    host::{
        config::{kept_places, read_settings},
        trust::{FREE, Trusted, has_data},
    },
    id::RoleId,
};
use toml_edit::{DocumentMut, Item};

use super::{
    Failure, Output,
    text::{block, line, word},
};
use crate::{
    config::{Config, Environment, FILE, Key},
    filebox::{self, Settings},
    runs::agent_trust::{self, AgentFile},
};

/// Trust the settings of a directory, exactly as they are.
///
/// A tasuki.toml that came with a directory may name a workspace, roles, toolsets, groups, a lease
/// and a hold; a .filebox may name roles. Anything else in them (where data is kept, who listens,
/// which broker is used, what hooks run) applies only once you trust it. This command shows it and
/// trusts it. From then on your own tasuki.toml is not read in that directory. Any change to the
/// files ends the trust; run the command again after reading what changed.
///
/// Its sub-agents, in .tasuki/agents, .pi/agents and .claude/agents, run for your agents without a
/// question once you trust them.
///
/// A data directory that you name by a relative path, and that no command of yours made, is used
/// once you trust it: all that is kept in it counts then.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory [default: this one]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Stop trusting it
    #[arg(long)]
    revoke: bool,
    /// List the directories you trust
    #[arg(long, conflicts_with_all = ["revoke", "directory"])]
    list: bool,
}

pub(crate) fn run(args: &Args, around: &Environment, output: &mut Output) -> Result<(), Failure> {
    if args.list {
        return list(around, output);
    }
    let directory = match &args.directory {
        Some(directory) => around.directory.join(directory),
        None => around.directory.clone(),
    };
    if args.revoke { revoke(&directory, around, output) } else { trust(&directory, around, output) }
}

fn trust(directory: &Path, around: &Environment, output: &mut Output) -> Result<(), Failure> {
    let mut contents = Vec::new();
    for name in [FILE, filebox::FILE] {
        contents.extend(read(directory, name)?.map(|content| (name, content)));
    }
    let has_data = has_data(directory);
    let sub_agents = agent_trust::files_of(directory);
    if contents.is_empty() && !has_data && sub_agents.is_empty() {
        return Err(Failure::usage(format!(
            "{} has neither a {FILE} nor a {} nor sub-agents nor data in it; there is nothing to \
             trust.",
            line(&directory.to_string_lossy()),
            filebox::FILE,
        )));
    }
    let settings = match contents.iter().find(|(name, _)| *name == FILE) {
        Some((_, content)) => settings(directory, content, around)?,
        None => Vec::new(),
    };
    let agents = match contents.iter().find(|(name, _)| *name == filebox::FILE) {
        Some((name, content)) => agents(&directory.join(name), content)?,
        None => BTreeMap::new(),
    };
    // What needs no trust gets none: a file that is trusted stands in the place of the user's own.
    let needs_it =
        |name: &str| if name == FILE { !settings.is_empty() } else { !agents.is_empty() };
    let files = contents.iter().map(|(name, content)| (*name, content.as_slice()));
    let (needs_trust, free): (Vec<_>, Vec<_>) = files.partition(|(name, _)| needs_it(name));
    let names_of = |files: &[(&'static str, &[u8])]| {
        files.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" and ")
    };
    let shown = line(&directory.to_string_lossy());
    if needs_trust.is_empty() && !has_data && sub_agents.is_empty() {
        return output.answer(
            || {
                json!({ "trusted": {
                    "directory": directory, "files": [], "settings": [], "data": false,
                } })
            },
            || {
                format!(
                    "Nothing in {} in {shown} needs trust: it counts as it is.\n",
                    names_of(&free)
                )
            },
        );
    }
    let of_agents = sub_agents.iter().map(|it| (it.name.as_str(), it.content.as_slice()));
    let trusted: Vec<_> = needs_trust.iter().copied().chain(of_agents).collect();
    if !trusted.is_empty() {
        around.trusted.trust(directory, trusted).map_err(|why| unkept(&why))?;
    }
    if has_data {
        around.trusted.trust_data(directory).map_err(|why| unkept(&why))?;
    }
    if let Some(data) = data_of(directory, &settings) {
        output.note(&format!(
            "{} has data in it already. Whoever has a token of a broker that kept it may use it: \
             remove it, or run `tasuki trust` with it if you know whose it is.",
            data.display()
        ));
    }
    output.answer(
        || {
            let names: Vec<&str> = needs_trust.iter().map(|(name, _)| *name).collect();
            let settings: Vec<&str> = settings.iter().map(|it| it.name.as_str()).collect();
            let agents: BTreeMap<&str, &Path> =
                agents.iter().map(|(role, root)| (role.as_str(), root.as_path())).collect();
            json!({ "trusted": {
                "directory": directory,
                "files": names,
                "settings": settings,
                "agents": agents,
                "sub_agents": sub_agents.iter().map(|it| &it.name).collect::<Vec<_>>(),
                "data": has_data,
            } })
        },
        || {
            let names = names_of(&needs_trust);
            let mut out = match (needs_trust.is_empty(), has_data) {
                (true, true) => format!("You now trust the data in {shown}.\n"),
                (true, false) => String::new(),
                (false, true) => format!(
                    "You now trust {names} and the data in {shown}. These settings count:\n"
                ),
                (false, false) => {
                    format!("You now trust {names} in {shown}. These settings count:\n")
                }
            };
            for Setting { text, .. } in &settings {
                let text = block(text).replace('\n', "\n  ");
                out += &format!("  {text}\n");
            }
            for (role, root) in &agents {
                let root = line(&root.to_string_lossy());
                out += &format!("  {}: {role} is in {root}\n", filebox::FILE);
            }
            if !sub_agents.is_empty() {
                out += &format!("You now trust these sub-agents in {shown}:\n");
                out += &sub_agents.iter().map(sub_agent).collect::<String>();
            }
            if !free.is_empty() {
                let free = names_of(&free);
                out += &format!("Nothing in {free} needs trust: it counts as it is.\n");
            }
            if let Some(own) = own_file(around).filter(|_| !settings.is_empty()) {
                let own = line(&own.to_string_lossy());
                out += &format!(
                    "In that directory your own {own} is not read, but for [accept], [runner] and \
                     [runs].\n"
                );
            }
            let of = word(&directory.to_string_lossy());
            if !needs_trust.is_empty() || !sub_agents.is_empty() {
                out += "If a file changes, run `tasuki trust` again; ";
            }
            out + &format!("`tasuki trust --revoke {of}` ends it.\n")
        },
    )
}

/// What a sub-agent is, and what it may do.
fn sub_agent(it: &AgentFile) -> String {
    let agent = &it.entry.agent;
    let access = line(&agent_trust::access(agent));
    format!("  {}: {} ({access})\n", line(&it.name), agent.name)
}

fn revoke(directory: &Path, around: &Environment, output: &mut Output) -> Result<(), Failure> {
    let was_trusted = around.trusted.revoke(directory).map_err(|why| unkept(&why))?;
    let shown = line(&directory.to_string_lossy());
    output.answer(
        || json!({ "revoked": { "directory": directory, "was_trusted": was_trusted } }),
        || match was_trusted {
            true => format!("{shown} is no longer trusted.\n"),
            false => format!("{shown} was not trusted.\n"),
        },
    )
}

fn list(around: &Environment, output: &mut Output) -> Result<(), Failure> {
    let all = around.trusted.list().map_err(|why| unkept(&why))?;
    let all: Vec<(bool, Trusted)> =
        all.into_iter().map(|it| (is_unchanged(&it, around), it)).collect();
    output.answer(
        || {
            let value = |(is_unchanged, it): &(bool, Trusted)| -> Value {
                json!({
                    "directory": it.directory,
                    "files": it.files,
                    "data": it.data.is_some(),
                    "unchanged": is_unchanged,
                })
            };
            json!({ "trusted": all.iter().map(value).collect::<Vec<_>>() })
        },
        || {
            if all.is_empty() {
                return "No directory is trusted.\n".to_owned();
            }
            let row = |(is_unchanged, it): &(bool, Trusted)| {
                let changed = if *is_unchanged { "" } else { "  (changed since, so not trusted)" };
                format!("{}{changed}\n", line(&it.directory.to_string_lossy()))
            };
            all.iter().map(row).collect()
        },
    )
}

fn is_unchanged(it: &Trusted, around: &Environment) -> bool {
    let are_files_unchanged = it.files.keys().all(|name| {
        let read = read_settings(&it.directory.join(name));
        let content = read.map(|(content, _)| content).unwrap_or_default();
        around.trusted.distrust(&it.directory, name, &content).is_none()
    });
    are_files_unchanged && it.is_in_place()
}

/// A setting that counts only in a file that is trusted.
struct Setting {
    name: String,
    /// As the file has it.
    text: String,
}

/// What trusting a file lets it say. One that makes no sense is not worth trusting.
fn settings(
    directory: &Path,
    content: &[u8],
    around: &Environment,
) -> Result<Vec<Setting>, Failure> {
    let path = directory.join(FILE);
    let text = String::from_utf8_lossy(content);
    let problems = Config::problems_of(&path, &text, around);
    if !problems.is_empty() {
        return Err(Failure::configuration(&problems));
    }
    let document: DocumentMut = text.parse().map_err(|why| {
        Failure::usage(format!("{} is not TOML: {why}.", line(&path.to_string_lossy())))
    })?;
    let setting = |(name, item): (&str, &Item)| Setting {
        name: name.to_owned(),
        text: match item {
            Item::ArrayOfTables(tables) => {
                let table = |it| format!("[[{name}]]\n{it}");
                tables.iter().map(table).collect::<String>().trim_end().to_owned()
            }
            Item::Table(it) => format!("[{name}]\n{it}").trim_end().to_owned(),
            Item::Value(it) => format!("{name} = {}", it.to_string().trim()),
            Item::None => name.to_owned(),
        },
    };
    Ok(document.iter().filter(|(name, _)| !FREE.contains(name)).map(setting).collect())
}

/// Whose project a `.filebox` says is where.
fn agents(path: &Path, content: &[u8]) -> Result<BTreeMap<RoleId, PathBuf>, Failure> {
    let settings = Settings::parse(path, content.to_vec());
    let settings =
        settings.map_err(|why| Failure::usage(format!("{}.", line(&why.to_string()))))?;
    Ok(settings.agents)
}

/// What a trusted file stands in the place of.
fn own_file(around: &Environment) -> Option<PathBuf> {
    let data = around.env.get(Key::Data.env()).filter(|text| !text.is_empty()).map(Path::new);
    kept_places(data).map(|place| place.join(FILE)).find(|path| path.is_file())
}

/// The data directory that a file names, where it holds something already.
fn data_of(directory: &Path, settings: &[Setting]) -> Option<PathBuf> {
    let setting = settings.iter().find(|it| it.name == Key::Data.name())?;
    let table: toml::Table = setting.text.parse().ok()?;
    let data = directory.join(table.get(Key::Data.name())?.as_str()?);
    fs::read_dir(&data).ok()?.next().map(|_| data)
}

fn read(directory: &Path, name: &str) -> Result<Option<Vec<u8>>, Failure> {
    let path = directory.join(name);
    match read_settings(&path) {
        Ok((content, _)) => Ok(Some(content)),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => {
            Err(Failure::local(format!("{} cannot be read: {why}.", line(&path.to_string_lossy()))))
        }
    }
}

fn unkept(why: &io::Error) -> Failure {
    Failure::local(format!("What you trust cannot be read or kept: {why}."))
}
