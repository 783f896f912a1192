//! `tasuki connect` and `tasuki disconnect`: writes the MCP configuration of coding agents.
//!
//! `client` has a row for each client, `config_paths` where their files are, `request` what is wanted,
//! `plan` what that changes in which file, `configured` which clients are connected. `client_files`
//! edits the files and keeps the log.

mod client;
mod config_paths;
pub(in crate::cli) mod configured;
mod disconnect;
pub(in crate::cli) mod entry;
mod plan;
mod report;
mod request;

use std::path::Path;

use tasuki_proto::id::RoleId;

use self::{
    client::{Client, Scope, Transport},
    config_paths::ConfigPaths,
    plan::Refused,
    request::Context,
};
use super::{
    Failure, Flags, Output,
    client_files::{
        Apply, Installer, Target,
        file_io::{self, NewMode},
        program,
    },
    node_address::{NodeArgs, TokenSource},
};
use crate::config::{Config, Key};

pub(super) use self::disconnect::{Args as DisconnectArgs, run as disconnect};

/// Connect a coding agent: write its MCP configuration.
///
/// Also raises the client's time limit of calls. Other entries and comments stay, the file as it was
/// is kept, and a second time changes nothing. `tasuki disconnect` undoes it. Two roles in one
/// client need two names.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    entry: EntryArgs,
    /// Role that it plays [default: the node's only one]
    #[arg(long, value_name = "ROLE")]
    role: Option<RoleId>,
    /// How the client reaches the node [default: stdio if the node is guarded, else http]
    #[arg(long, value_enum)]
    transport: Option<Transport>,
    #[command(flatten)]
    given: NodeArgs,
    /// How long one waiting call is held open, in seconds [default: by the table of clients]
    #[arg(long, value_name = "SECONDS")]
    hold: Option<String>,
    /// Let the client run Tasuki's tools without asking each time
    #[arg(long)]
    allow: bool,
    /// Replace an entry of this name that is not Tasuki's, or is for another role
    #[arg(long)]
    force: bool,
    /// Print what would be written and where, and write nothing
    #[arg(long)]
    print: bool,
}

/// Which entry of which client.
#[derive(Debug, clap::Args)]
struct EntryArgs {
    /// Coding agent
    #[arg(value_enum)]
    client: Client,
    /// Where the configuration applies: for this user everywhere, or for the project in this directory
    #[arg(long, value_enum, default_value = "user")]
    scope: Scope,
    /// Name of this server in the client
    #[arg(long, value_name = "NAME", default_value = "tasuki")]
    name: String,
}

impl Args {
    pub(super) fn flags(&self, flags: &mut Flags) {
        flags.set(Key::Hold, "--hold", self.hold.as_ref());
    }
}

/// The owner of an entry in the log of what was installed.
fn owner(name: &str) -> String {
    format!("connect {name}")
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let paths = config_paths()?;
    let program = program::path(&paths.directory)?;
    let running = config.running_node();
    let shown = TokenSource::of_process(None);
    let context = Context { config, running, paths: &paths, program: &program, shown: &shown };
    let mut request = request::request(&args, &context)?;
    request.ask_for_tools().await;
    let connection = &request.connection;
    let (plans, note) = plan::plan(connection, &paths);
    let is_private = connection.scope == Scope::User;
    let mode = if is_private { NewMode::Private } else { NewMode::Usual };
    let targets = plans
        .iter()
        .map(|plan| Some(Target { path: plan.path.clone()?, format: plan.format, mode }));
    let targets: Option<Vec<Target>> = targets.collect();
    let Some(targets) = targets.filter(|_| !args.print) else {
        return report::print(&request, &plans, note, output);
    };
    let is_project = connection.scope == Scope::Project && paths.directory != paths.home;
    let in_project = |target: &&Target| is_project && target.path.starts_with(&paths.directory);
    for target in targets.iter().filter(in_project) {
        file_io::refuse_link(&paths.directory, &target.path).map_err(Failure::local)?;
    }
    if let Some((path, token)) = &request.keep {
        let kept = crate::paths::replace(path, token.expose().as_bytes());
        kept.map_err(|why| {
            Failure::local(format!("{} cannot be written: {why}.", path.display()))
        })?;
    }
    let name = &connection.name;
    let mut installer = Installer::open(&config.data.value, owner(name)).await?;
    let applies: Vec<Box<Apply<'_>>> = plans
        .iter()
        .map(|plan| -> Box<Apply<'_>> {
            Box::new(move |path, document, is_logged| {
                plan::apply(plan, document, is_logged, args.force)
                    .map_err(|why| refused(path, &why, name))
            })
        })
        .collect();
    // What is refused is refused before the first file is written.
    for (target, apply) in targets.iter().zip(&applies) {
        installer.check(target, apply)?;
    }
    let mut written = Vec::new();
    for (target, apply) in targets.iter().zip(&applies) {
        written.push(installer.install(target, apply).await?);
    }
    report::connected(&request, &written, note, output)
}

fn config_paths() -> Result<ConfigPaths, Failure> {
    let directory = std::env::current_dir()
        .map_err(|why| Failure::local(format!("Cannot find the current directory: {why}.")))?;
    ConfigPaths::of_process(directory)
        .ok_or_else(|| Failure::local("Cannot find your home directory."))
}

fn refused(path: &Path, why: &Refused, name: &str) -> Failure {
    let at = path.display();
    match why {
        Refused::Edit(why) => why.at(path),
        Refused::Theirs { keys } => Failure::local(format!(
            "`{keys}` in {at} is not Tasuki's. Choose another --name, or replace it with --force."
        )),
        Refused::OtherRole { keys, role } => Failure::local(format!(
            "`{keys}` in {at} connects role {role}. Give this one another name, such as --name \
             {name}-2, or replace it with --force."
        )),
    }
}

#[cfg(test)]
mod tests;
