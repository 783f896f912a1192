//! `tasuki init`: the settings of a project, and its workspace.

use std::{
    fs::{self, OpenOptions},
    io::{self, BufRead, IsTerminal as _, Write as _},
    path::Path,
};

use serde_json::json;
use tasuki_proto::{id::WorkspaceId, limits::ID_BYTES_MAX, wire};

use super::{
    Failure, Flags, Output,
    broker::Broker,
    hosting,
    shared_broker::RunningBroker,
    text::{line, word},
};
use crate::{
    config::{Config, FILE, Key, Role, Source, Sourced},
    credentials::Joined,
    identity::{Identity, IdentityError},
    projects,
    toolset::usual_toolsets,
};

/// What a project is called whose directory has no name that could be a workspace's.
const NAMELESS: &str = "project";

/// Make this directory a project: write its tasuki.toml.
///
/// A workspace is one project: its roles, turns, mail and issues are apart from those of others. It
/// is named after the directory. Without --role you are asked for the roles on a terminal; else they
/// are A and B. The file takes effect for every command in this directory, and holds nothing that
/// needs `tasuki trust`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Workspace [default: named after the directory]
    #[arg(long, value_name = "NAME")]
    workspace: Option<String>,
    /// Role with its toolsets, in the order of turns; repeatable [default: A and B]
    #[arg(long = "role", value_name = "NAME[=SET,SET…]")]
    roles: Vec<String>,
    /// Replace a tasuki.toml that is here
    #[arg(long)]
    force: bool,
}

impl Args {
    pub(super) fn flags(&self, flags: &mut Flags) {
        flags.set(Key::Workspace, "--workspace", self.workspace.as_ref());
        flags.set_all(Key::Roles, "--role", &self.roles);
    }
}

pub(crate) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let here = std::env::current_dir()
        .map_err(|why| Failure::local(format!("Cannot find the current directory: {why}.")))?;
    let path = here.join(FILE);
    let before = fs::read_to_string(&path).ok();
    if path.symlink_metadata().is_ok() && !args.force {
        return Err(Failure::usage(format!(
            "{} is there already{}. Edit it, or replace it with --force.",
            path.display(),
            before.as_deref().map(contents).unwrap_or_default()
        )));
    }
    let workspace = match &config.workspace.source {
        Source::Flag(_) | Source::Env(_) => config.workspace.value.clone(),
        Source::File { path: file, .. } if *file == path => config.workspace.value.clone(),
        Source::File { .. } | Source::Default | Source::Filebox(_) => free_name(&here, config)?,
    };
    let roles = if args.roles.is_empty() { ask(config, output)? } else { args.roles };
    write(&path, &text(&workspace, &roles), args.force)
        .map_err(|why| Failure::local(format!("{} cannot be written: {why}.", path.display())))?;
    let source = Source::File { path: path.clone(), line: 0 };
    let named = Sourced { value: workspace.clone(), source };
    let config = hosting::claim_node(&Config { workspace: named, ..config.clone() })?;
    let made_at = match make(&config).await {
        Ok(made) => made,
        Err(why) => {
            output.note(&format!("The broker did not make the workspace: {why}"));
            None
        }
    };
    let has_joined = Joined::read(&config.root).ok().flatten().is_some();
    let (data, host) = (hosting::data_flag(&config), if has_joined { "node" } else { "up" });
    let first = roles.first().and_then(|role| role.split('=').next()).unwrap_or_default();
    let next = [
        format!("tasuki{data} {host}"),
        format!("tasuki{data} connect claude-code --role {}", word(first)),
    ];
    output.answer(
        || {
            json!({
                "file": path.to_string_lossy(),
                "workspace": workspace.as_str(),
                "roles": roles,
                "made_at": made_at,
                "next": next,
            })
        },
        || {
            let made = match &made_at {
                Some(url) => format!("The broker at {} has the workspace.", line(url)),
                None => format!("`tasuki{data} {host}` makes the workspace."),
            };
            format!(
                "Wrote {}: workspace {workspace}, roles {}.\n{made}\n\nNext:\n  {}\n  {}\n",
                path.display(),
                roles.join(" "),
                next[0],
                next[1]
            )
        },
    )
}

/// What such a file has, in a few words.
fn contents(text: &str) -> String {
    let Ok(table) = text.parse::<toml::Table>() else {
        return ", and is not valid TOML".to_owned();
    };
    let of_workspace = table.get("workspace").and_then(toml::Value::as_str);
    let mut told: Vec<String> =
        of_workspace.map(|it| format!("workspace {it}")).into_iter().collect();
    if let Some(roles) = table.get("roles").and_then(toml::Value::as_array) {
        let roles: Vec<&str> = roles.iter().filter_map(toml::Value::as_str).collect();
        told.push(format!("roles {}", roles.join(" ")));
    }
    told.extend(
        table.keys().filter(|key| !["workspace", "roles"].contains(&key.as_str())).cloned(),
    );
    if told.is_empty() { String::new() } else { format!(" ({})", line(&told.join(", "))) }
}

/// The directory's name as a workspace's, which no other project here may have.
fn free_name(here: &Path, config: &Config) -> Result<WorkspaceId, Failure> {
    let workspace = name(&here.file_name().unwrap_or_default().to_string_lossy());
    let place = projects::place(&config.root, &workspace);
    let place = place.map_err(|why| Failure::local(format!("{why}.")))?;
    let owner = projects::owner(&config.root);
    let owner = owner.map_err(|why| Failure::local(format!("{why}.")))?;
    if place != config.root || owner.as_ref() == Some(&workspace) {
        return Err(Failure::usage(format!(
            "This machine has a workspace {workspace} already. If it is this project's, run `tasuki \
             init --workspace {workspace}`; otherwise choose another name."
        )));
    }
    Ok(workspace)
}

/// A valid id that is as near as can be.
fn name(directory: &str) -> WorkspaceId {
    let letter = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '-' };
    let name: String = directory.chars().map(letter).collect();
    let name = name.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    // Each character is one byte.
    let name: String = name.chars().take(ID_BYTES_MAX).collect();
    name.trim_end_matches('-')
        .parse()
        .or_else(|_| NAMELESS.parse())
        .expect("a name of these characters is an id")
}

/// The roles as their user writes them.
fn ask(config: &Config, output: &mut Output) -> Result<Vec<String>, Failure> {
    let written = |role: &Role| {
        let is_usual = role.toolsets == usual_toolsets(&role.name);
        if is_usual { role.name.to_string() } else { role.to_string() }
    };
    let usual = config.roles.value.iter().map(written).collect();
    let input = io::stdin();
    if !input.is_terminal() || !io::stderr().is_terminal() || output.is_json() {
        return Ok(usual);
    }
    read_roles(&mut input.lock(), usual, |text| output.note(text))
}

/// Asks until all that was typed are roles.
fn read_roles(
    input: &mut dyn BufRead,
    usual: Vec<String>,
    mut say: impl FnMut(&str),
) -> Result<Vec<String>, Failure> {
    say(&format!(
        "Which roles take part, in the order of their turns? Press Enter for {}.",
        usual.join(" ")
    ));
    loop {
        let mut typed = String::new();
        let read = input.read_line(&mut typed);
        read.map_err(|why| Failure::local(format!("Standard input cannot be read: {why}.")))?;
        let roles: Vec<String> = typed.split_whitespace().map(str::to_owned).collect();
        if roles.is_empty() {
            return Ok(usual);
        }
        match roles.iter().find_map(|role| role.parse::<Role>().err()) {
            Some(why) => say(&format!("A role {why}. Type them again.")),
            None => return Ok(roles),
        }
    }
}

/// What the file says. All of it any file may say, so nobody is asked to trust it.
fn text(workspace: &WorkspaceId, roles: &[String]) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let all: Vec<String> = roles.iter().map(|role| quoted(role)).collect();
    let names: Vec<String> =
        roles.iter().filter_map(|role| role.split('=').next()).map(quoted).collect();
    let first = names.first().map_or("", String::as_str);
    format!(
        "\
# Tasuki's settings for this project. `tasuki config check` shows what counts.

# A workspace is one project: its roles, turns, mail and issues are apart from those of others.
workspace = {}

# The roles that this machine hosts, in the order of their turns; the first begins. \"NAME=SET,SET\"
# gives one its tools by name; without, it has `loop` and `mail`.
roles = [{}]

# Roles that several agents may play at the same time.
# shared = [{first}]

# How long a turn is kept after the last sign of life of its holder.
# lease = \"15m\"

# How long one waiting call is held open. Without it, as long as the client allows.
# hold = \"10m\"

# Names that stand for several receivers of mail.
# [groups]
# all = [{}]
",
        quoted(workspace.as_str()),
        all.join(", "),
        names.join(", ")
    )
}

/// Writes it whole or not at all, and over nothing that was not looked at.
fn write(path: &Path, text: &str, is_forced: bool) -> io::Result<()> {
    if !is_forced {
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        return file.write_all(text.as_bytes());
    }
    let new = path.with_extension(format!("new-{}", std::process::id()));
    let written = OpenOptions::new().write(true).create_new(true).open(&new);
    let written = written.and_then(|mut file| file.write_all(text.as_bytes()));
    written.and_then(|()| fs::rename(&new, path)).inspect_err(|_| drop(fs::remove_file(&new)))
}

/// Makes the workspace at the broker of this data directory, where one runs; answers where that is.
/// A node that registers makes one, so the project's does, without roles until it is started.
async fn make(config: &Config) -> Result<Option<String>, Failure> {
    if config.broker.value.is_some() {
        return Ok(None);
    }
    let Some(running) = RunningBroker::find(config) else { return Ok(None) };
    let identity = match Identity::open(&config.data.value) {
        Ok(identity) => identity,
        // Its node runs, so there is the workspace.
        Err(IdentityError::InUse(_)) => return Ok(Some(running.url)),
        Err(why) => return Err(Failure::local(hosting::sentence(&why))),
    };
    let mut config = config.clone();
    config.broker.value = Some(running.url.clone());
    let request = wire::RegisterRequest {
        node: identity.node().to_string(),
        software: concat!("tasuki ", env!("CARGO_PKG_VERSION")).to_owned(),
        ..Default::default()
    };
    Broker::new(&config).call(&request).await?;
    Ok(Some(running.url))
}

#[cfg(test)]
mod tests {
    use tasuki_proto::host::trust::TrustStore;

    use super::*;
    use crate::config::Environment;

    #[test]
    fn a_project_is_named_after_its_directory() {
        for (directory, expected) in [
            ("api", "api"),
            ("My Project (2)", "My-Project--2"),
            (".config", "config"),
            ("über", "ber"),
            ("--", "project"),
            ("", "project"),
            ("日本", "project"),
            (&"x".repeat(200), &"x".repeat(ID_BYTES_MAX)),
        ] {
            assert_eq!(name(directory).as_str(), expected);
        }
    }

    #[test]
    fn what_is_written_is_what_counts_and_nobody_is_asked_to_trust_it() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(FILE);
        let roles = ["dev", "qa=loop,mail:full"].map(str::to_owned);
        let text = text(&"api".parse().unwrap(), &roles);
        // Also what is left to be uncommented.
        let whole = text.replace("\n# shared", "\nshared").replace("\n# lease", "\nlease");
        let whole =
            whole.replace("\n# hold", "\nhold").replace("\n# [groups]\n# all", "\n[groups]\nall");
        let data = place.path().join("data").to_string_lossy().into_owned();
        let around = Environment {
            env: [("TASUKI_DATA".to_owned(), data)].into(),
            directory: place.path().to_owned(),
            home: None,
            trusted: TrustStore::within(place.path()),
        };
        for text in [&text, &whole] {
            fs::write(&path, text).unwrap();
            let config = Config::load(Default::default(), None, &around).unwrap();
            assert_eq!(config.workspace.value.as_str(), "api");
            let roles = config.roles.value.iter().map(|role| role.name.as_str());
            assert_eq!(roles.collect::<Vec<_>>(), ["dev", "qa"]);
            assert!(config.distrust.is_none() && config.file.is_some_and(|file| file.is_here));
        }
        assert_ne!(text, whole);
        assert_eq!(contents(&text), " (workspace api, roles dev qa=loop,mail:full)");
    }

    #[test]
    fn a_file_that_is_there_is_replaced_only_where_that_was_said() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(FILE);
        write(&path, "one", false).unwrap();
        assert_eq!(write(&path, "two", false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        write(&path, "two", true).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn roles_are_asked_for_until_they_are_some() {
        let asked = |typed: &str| {
            let mut said = 0;
            let usual = vec!["A".to_owned(), "B".to_owned()];
            let roles = read_roles(&mut typed.as_bytes(), usual, |_| said += 1).unwrap();
            (roles.join(" "), said)
        };
        assert_eq!(asked("\n"), ("A B".to_owned(), 1));
        assert_eq!(asked(""), ("A B".to_owned(), 1));
        assert_eq!(asked("dev qa=mail\n"), ("dev qa=mail".to_owned(), 1));
        assert_eq!(asked("a/b\ndev=nothing\ndev\n"), ("dev".to_owned(), 3));
    }
}
