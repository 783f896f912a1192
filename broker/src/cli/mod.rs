//! The commands of `tasuki-broker`: what they take, where their data is, how they end.
//!
//! Stdout carries the answer alone; everything else goes to stderr as log lines.
//!
//! Not here: serving itself (`tasuki_broker::server`), what a data directory holds (`journal`).

mod administer;
mod backup;
mod compact;
mod export;
mod invite;
mod reindex;
mod scope;
mod serve;
mod table;
mod token;
mod verify;

use std::{
    ffi::OsStr,
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use self::administer::Administer;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use clap_complete::{CompleteEnv, Shell, env::Shells};
use serde_json::json;
use tasuki_broker::journal::{JournalError, sled};
use tasuki_proto::host::{config, files, logs, trust::TrustStore};

/// Everything is as it should be.
const EXIT_OK: u8 = 0;
/// The broker says no; the reason's code is printed.
const EXIT_REFUSED: u8 = 1;
/// The command line or the configuration makes no sense.
const EXIT_USAGE: u8 = 2;
/// The data is damaged, or of a newer release.
const EXIT_DAMAGED: u8 = 65;
/// The data directory or the address is in use or cannot be used.
const EXIT_UNAVAILABLE: u8 = 69;
/// A durable write failed while running; start again once the disk is well.
const EXIT_DISK: u8 = 74;

/// Run and manage a Tasuki broker, which keeps the work of coding agents in a journal.
///
/// Exit codes: 0 done; 1 refused by the broker; 2 invalid command line or configuration; 65 damaged
/// data; 69 the data directory or the address cannot be used, or the broker cannot be reached; 74 a
/// durable write failed.
#[derive(Parser)]
#[command(name = "tasuki-broker", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Format of log lines on standard error; RUST_LOG sets what is logged
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

#[derive(Subcommand)]
enum Command {
    /// Serve gRPC from a data directory until SIGTERM or Ctrl-C.
    Serve(serve::Serve),
    /// Check every commit, record, snapshot and body in a data directory.
    ///
    /// A running broker checks its own data, as of one commit, while it serves.
    Verify(Administer),
    /// Show how much there is of what, in each workspace and in all.
    Stats(Administer),
    /// Write all data as of one commit to a file, also while the broker serves.
    ///
    /// In it: every workspace, tokens as hashes, and the broker's own certificate with its key. Not
    /// in it: search indexes, which are made again, and the data of nodes.
    Backup(backup::Backup),
    /// Make a data directory from a backup.
    ///
    /// Only a new or empty directory is written to. Nothing that was granted before holds in it:
    /// turns, claims, locks and nodes' registrations have new numbers.
    Restore(backup::Restore),
    /// Write what is kept as JSON lines, to read it, move it or work on it.
    ///
    /// Also while the broker serves, as of one commit. In it: every workspace with its loops, mail,
    /// issues, runs and files, and tokens as hashes. Not in it: certificates and keys, and the data
    /// of nodes. Private mail stays sealed.
    Export(export::Export),
    /// Make a data directory from an export.
    ///
    /// Only a new or empty directory is written to. Nothing that was granted before holds in it, as
    /// after `restore`, and the broker gets a new certificate.
    Import(export::Import),
    /// Replace a lost or damaged log, after checking everything else.
    ///
    /// The newest changes may be in the log alone: for about a second after they were made, and
    /// until a start after a crash. What comes before the damage is kept. What only the rest of the
    /// log had is lost, so use this only if you know why the log is lost. If changes may be lost,
    /// turns, claims and locks get new numbers, as after `restore`: agents that use an old one are
    /// refused and ask again.
    #[command(alias = "repair-mark")]
    RepairLog(Data),
    /// Remove what has been over for long, or show what that is.
    ///
    /// Resolved and canceled threads, closed issues, runs that ended, old handovers and old versions
    /// of shared documents. Never what is open, held or not seen yet. Without `--yes` nothing is
    /// removed.
    Compact(compact::Compact),
    /// Rebuild the search index of a workspace's mail.
    ///
    /// Needs data that no broker serves. It is rarely needed: the next search rebuilds an index
    /// that is damaged, missing or from another release.
    Reindex(reindex::Reindex),
    /// Invite one machine: print the command with which it joins.
    ///
    /// It contains the broker's fingerprint and a code that works once. The running broker is found
    /// through its data directory, which only its owner can read.
    Invite(invite::Invite),
    /// Manage invitations.
    #[command(subcommand)]
    Invitations(invite::Invitations),
    /// Manage access tokens.
    #[command(subcommand)]
    Token(token::Command),
    /// Print a completion script for a shell.
    #[command(after_help = "For bash: source <(tasuki-broker completions bash)")]
    Completions {
        /// Shell
        shell: Shell,
    },
    /// Write a man page for every command, for packages.
    #[command(hide = true)]
    ManPages {
        /// Directory for the pages; it is created if missing
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
}

#[derive(Debug, Args)]
struct Data {
    /// Data directory, as for `tasuki up`; the broker uses `broker` in it
    /// [default: the platform's]
    #[arg(long, env = "TASUKI_DATA", value_name = "DIR")]
    data: Option<PathBuf>,

    /// Configuration file [default: tasuki.toml here, in the data or the configuration directory]
    #[arg(long, env = "TASUKI_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

/// The environment variable by which a completion script says that a shell asks, and which one.
const COMPLETIONS_VARIABLE: &str = "_TASUKI_BROKER_COMPLETE";

pub(crate) fn main() -> ExitCode {
    // Ends this process where a shell asks.
    CompleteEnv::with_factory(Cli::command).var(COMPLETIONS_VARIABLE).complete();
    let matches = without_empty_variables(Cli::command()).get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|why| why.exit());
    if let Err(why) = logs::start("info", matches!(cli.log_format, LogFormat::Json)) {
        tracing::debug!(%why, "logs are set up already");
    }
    let code = match cli.command {
        Command::Serve(it) => serve::run(it),
        Command::Verify(it) => verify::verify(it),
        Command::Stats(it) => verify::stats(it),
        Command::Backup(it) => backup::backup(it),
        Command::Restore(it) => backup::restore(&it),
        Command::Export(it) => export::export(it),
        Command::Import(it) => export::import(&it),
        Command::RepairLog(it) => verify::repair_log(&it),
        Command::Compact(it) => compact::compact(it),
        Command::Reindex(it) => reindex::run(&it),
        Command::Invite(it) => invite::invite(it),
        Command::Invitations(it) => invite::run(it),
        Command::Token(it) => token::run(it),
        Command::Completions { shell } => completions(shell),
        Command::ManPages { dir } => man_pages(&dir),
    };
    logs::end();
    ExitCode::from(code)
}

/// A variable that is empty is as one that is not set.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|it| it.is_empty());
    let set = |arg: clap::Arg| match arg.get_env().is_some_and(is_empty) {
        true => arg.env(None::<&'static str>),
        false => arg,
    };
    command.mut_args(set).mut_subcommands(without_empty_variables)
}

/// The script asks this program for what fits where the cursor is, so it is short.
fn completions(shell: Shell) -> u8 {
    let (name, mut script) = ("tasuki-broker", Vec::new());
    let shells = Shells::builtins();
    let written = shells.completer(&shell.to_string()).is_some_and(|shell| {
        shell.write_registration(COMPLETIONS_VARIABLE, name, name, name, &mut script).is_ok()
    });
    if !written {
        return EXIT_USAGE;
    }
    say(String::from_utf8_lossy(&script).trim_end());
    EXIT_OK
}

fn man_pages(dir: &Path) -> u8 {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    match std::fs::create_dir_all(dir).and_then(|()| write_pages(&command, dir)) {
        Ok(()) => EXIT_OK,
        Err(why) => {
            tracing::error!("cannot write to {}: {why}", dir.display());
            EXIT_UNAVAILABLE
        }
    }
}

/// Writes the page of a command and those of its subcommands, in section 8: in section 1
/// `tasuki-broker-token` is the page of `tasuki broker-token`.
fn write_pages(command: &clap::Command, dir: &Path) -> std::io::Result<()> {
    for subcommand in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        write_pages(subcommand, dir)?;
    }
    clap_mangen::Man::new(command.clone()).section("8").generate_to(dir).map(drop)
}

fn exit_code(error: &JournalError) -> u8 {
    match error {
        JournalError::Damaged { .. } | JournalError::Newer { .. } | JournalError::Older { .. } => {
            EXIT_DAMAGED
        }
        JournalError::InUse(_) => EXIT_UNAVAILABLE,
        JournalError::Storage(_) | JournalError::Compacted { .. } | JournalError::Closed => {
            EXIT_DISK
        }
    }
}

/// The configuration file; `None` when it cannot be used, which was said.
fn file(data: &Data) -> Option<config::File> {
    let read = config::read(data.config.as_deref(), data.data.as_deref());
    read.inspect_err(|error| tracing::error!("{error}")).ok()
}

/// The broker's part of the data directory; `None` when it cannot be used, which was said.
fn directory(data: &Data, file: &config::File) -> Option<PathBuf> {
    let Some(chosen) = named_directory(data, file).or_else(config::data_directory) else {
        tracing::error!("{}", config::NO_DATA_DIRECTORY);
        return None;
    };
    if let Err(why) = files::check_data_directory(&chosen) {
        tracing::error!("{why}");
        return None;
    }
    if let Some(here) = directory_here(data, file)
        && let Err(why) = TrustStore::of_user().check_data(Path::new(""), &here)
    {
        tracing::error!("{why}");
        return None;
    }
    Some(chosen.join(config::FOLDER))
}

fn named_directory(data: &Data, file: &config::File) -> Option<PathBuf> {
    data.data.clone().or_else(|| file.data.clone())
}

/// The data directory, where its name is a path from the current directory, or is of a file that
/// came with that: then it may have come with it, too.
fn directory_here(data: &Data, file: &config::File) -> Option<PathBuf> {
    let chosen = named_directory(data, file)?;
    if !chosen.is_absolute() {
        return Some(chosen);
    }
    if data.data.is_some() {
        return None;
    }
    let here = std::env::current_dir().ok()?;
    let store = TrustStore::of_user();
    let found = config::find(data.config.as_deref(), &here, None, &store).ok()??;
    (found.is_here && chosen.starts_with(here)).then_some(chosen)
}

/// Notes such a directory as this user's, where there is no data in it yet.
fn claim_directory(data: &Data, file: &config::File) {
    let Some(here) = directory_here(data, file) else { return };
    if let Err(why) = TrustStore::of_user().claim_data(&here) {
        tracing::warn!(
            "it cannot be noted that {} is yours: {why}; from the next start on name it by its \
             absolute path",
            here.display()
        );
    }
}

/// The same where a broker kept something; otherwise how to exit, once it was said why.
fn used_directory(data: &Data) -> Result<PathBuf, u8> {
    let file = file(data).ok_or(EXIT_USAGE)?;
    let directory = directory(data, &file).ok_or(EXIT_USAGE)?;
    if sled::is_used(&directory) {
        return Ok(directory);
    }
    let why = format!(
        "no broker ever kept anything in {}; name the directory that `broker` is in with --data",
        directory.display()
    );
    if data.json {
        say(&json!({ "error": why }).to_string());
    }
    tracing::error!("{why}");
    Err(EXIT_UNAVAILABLE)
}

/// The only place that writes to stdout. A reader that went away is no reason to stop.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// The only place that writes to stderr beside the log: what a person should know.
fn tell(lines: &str) {
    if !lines.is_empty() {
        let mut err = std::io::stderr().lock();
        let _ = writeln!(err, "{lines}").and_then(|()| err.flush());
    }
}
