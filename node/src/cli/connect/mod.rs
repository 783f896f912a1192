//! `tasuki connect` and `tasuki disconnect`: writes the MCP configuration of coding agents.
//!
//! `client` has a row for each client, `config_paths` where their files are, `request` what is wanted,
//! `plan` what that changes in which file, `configured` which clients are connected. `client_files`
//! edits the files and keeps the log. `prepared` joins them; `wanted` is for another command that
//! connects a client.

mod client;
mod config_paths;
pub(in crate::cli) mod configured;
mod disconnect;
pub(in crate::cli) mod entry;
mod plan;
mod prepared;
mod report;
mod request;
pub(in crate::cli) mod wanted;

use std::path::{Path, PathBuf};

use tasuki_proto::id::RoleId;

use self::{
    client::{Client, Scope, Transport},
    config_paths::ConfigPaths,
    plan::Refused,
    prepared::Prepared,
};
use super::{Failure, Flags, Output, node_address::NodeArgs};
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
    let prepared = Prepared::new(&args, config, config_paths()?).await?;
    if args.print || prepared.targets().is_none() {
        return report::print(&prepared.request, &prepared.plans, prepared.note, output);
    }
    let written = prepared.write(config, args.force).await?;
    report::connected(&prepared.request, &written, prepared.note, output)
}

fn config_paths() -> Result<ConfigPaths, Failure> {
    let directory = std::env::current_dir()
        .map_err(|why| Failure::local(format!("Cannot find the current directory: {why}.")))?;
    config_paths_in(directory)
}

/// The clients' files, for a project that is here.
fn config_paths_in(directory: PathBuf) -> Result<ConfigPaths, Failure> {
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
