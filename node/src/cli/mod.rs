//! The command `tasuki`: what people type, and what they get to read.
//!
//! Each command has a file with its arguments and what it does. A command builds its answer and
//! hands it to [`Output`]; one place prints. A failure is a [`Failure`]; one place words it and
//! one table says which exit code it is. Standard output only ever carries the answer.

#[cfg(unix)]
mod accept;
mod access;
mod acting;
mod agent_token;
mod broker;
mod broker_token;
mod client_files;
mod completions;
mod config_check;
mod connect;
mod events;
mod export;
mod failure;
mod following;
mod guarding;
mod help;
mod hosted;
mod hosting;
mod import;
mod join;
mod json;
mod keys;
mod lock_hook;
mod logs;
mod loops;
mod mail;
mod mail_hook;
mod man_pages;
pub mod mcp;
mod mirror;
mod mirroring;
pub mod node;
mod outbox;
mod output;
mod pipes;
mod prompt;
mod reach;
#[cfg(unix)]
mod sandboxed;
mod sealing;
mod show;
mod status;
mod stop;
mod swarm;
mod take_over;
mod text;
mod trust;
pub mod up;
mod waiting;
mod watch;

use std::{path::PathBuf, process::ExitCode};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand, error::ErrorKind};
use tasuki_proto::echo::REFUSAL_BYTES_MAX;
use tokio::runtime;

use crate::config::{Config, Environment, Key, Layer, Problem, Raw, Source};

pub use failure::{Exit, Failure};
pub use output::Output;
pub use stop::stopped;

/// Carry work between coding agents: whose turn it is, what was done, what comes next.
#[derive(Debug, Parser)]
#[command(name = "tasuki", version, propagate_version = true, after_long_help = failure::HELP)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// The heading of what every command takes.
const EVERYWHERE: &str = "Options of every command";

/// What every command takes.
#[derive(Debug, clap::Args)]
pub struct Global {
    /// Directory of everything that is kept [default: the platform's data directory]
    #[arg(long, value_name = "DIR", global = true, help_heading = EVERYWHERE)]
    pub data: Option<String>,
    /// Configuration file [default: tasuki.toml here, in the data or the configuration directory]
    #[arg(long, value_name = "FILE", global = true, help_heading = EVERYWHERE)]
    pub config: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub json: bool,
    /// How log lines on standard error are written: text or json
    #[arg(long, value_name = "FORMAT", global = true, help_heading = EVERYWHERE)]
    pub log_format: Option<String>,
}

/// What one can ask for. Each command says with its arguments what it does.
#[derive(Debug, Subcommand)]
pub enum Command {
    Up(up::Args),
    Node(node::Args),
    Join(join::Args),
    /// Manage this machine's broker token
    #[command(subcommand)]
    BrokerToken(broker_token::Command),
    Connect(connect::Args),
    Disconnect(connect::DisconnectArgs),
    Mcp(mcp::Args),
    #[command(subcommand)]
    Loop(loops::Command),
    #[command(subcommand)]
    Mail(mail::Command),
    #[command(flatten)]
    Swarm(swarm::Command),
    #[cfg(unix)]
    Accept(Box<accept::Args>),
    Watch(watch::Args),
    #[command(subcommand)]
    Import(import::Command),
    Export(export::Args),
    Status(status::Args),
    Outbox(outbox::Args),
    #[command(subcommand)]
    Mirror(mirror::Command),
    TakeOver(take_over::Args),
    AgentToken(agent_token::Args),
    #[command(subcommand)]
    LockHook(lock_hook::Command),
    #[command(subcommand)]
    MailHook(mail_hook::Command),
    #[command(subcommand)]
    Config(config_check::Command),
    Trust(trust::Args),
    Prompt(prompt::Args),
    Completions(completions::Args),
    #[command(hide = true)]
    ManPages(man_pages::Args),
}

/// Which broker, and which workspace there.
#[derive(Debug, clap::Args)]
pub struct Target {
    /// URL of the broker [default: the running node's, else http://127.0.0.1:7420]
    #[arg(long, value_name = "URL")]
    pub broker: Option<String>,
    /// Workspace [default: the running node's, else default]
    #[arg(long, value_name = "NAME")]
    pub workspace: Option<String>,
}

/// Puts what flags said where configuration is looked for.
#[derive(Debug, Default)]
pub(crate) struct Flags(Layer);

impl Flags {
    pub(crate) fn set(&mut self, key: Key, flag: &'static str, text: Option<&String>) {
        self.set_all(key, flag, text.map(std::slice::from_ref).unwrap_or_default());
    }

    pub(crate) fn set_all(&mut self, key: Key, flag: &'static str, texts: &[String]) {
        if !texts.is_empty() {
            self.0.insert(key, Raw { source: Source::Flag(flag), texts: texts.to_vec() });
        }
    }

    fn target(&mut self, target: &Target) {
        self.set(Key::Broker, "--broker", target.broker.as_ref());
        self.set(Key::Workspace, "--workspace", target.workspace.as_ref());
    }
}

/// Parses the command line, runs the command, words the failure.
pub fn main() -> ExitCode {
    #[cfg(unix)]
    if let Some(args) = sandboxed::Args::of_process() {
        return sandboxed::run(&args);
    }
    let cli = match parse() {
        Ok(cli) => cli,
        Err(why) => return mistyped(&why),
    };
    let mut output = Output::of_process(cli.global.json);
    let result = run(cli, &mut output);
    let result = result.and_then(|()| output.flush());
    match result {
        Ok(()) => Exit::Ok.into(),
        Err(failure) => {
            output.failure(&failure);
            failure.exit().into()
        }
    }
}

fn parse() -> Result<Cli, clap::Error> {
    let mut matches = help::with_headings(Cli::command()).try_get_matches()?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|why| why.format(&mut Cli::command()))
}

/// What is said of a command line that makes no sense: to programs, and where it is too long, as of
/// anything else that failed.
fn mistyped(why: &clap::Error) -> ExitCode {
    let words = std::env::args_os().skip(1).take_while(|word| word != "--");
    let is_json = words.into_iter().any(|word| word == "--json");
    let is_refusal = why.exit_code() == Exit::Usage as i32 && why.kind() != HELP_INSTEAD;
    let text = why.render().to_string();
    // It says back what was typed, however long that is.
    let is_long = REFUSAL_BYTES_MAX < text.len();
    if !is_refusal || !(is_json || is_long) {
        why.exit();
    }
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    // How it is used and where help is follow; people read that.
    let ends = ["\n\nUsage: ", "\n\nFor more information"];
    let end = ends.iter().filter_map(|it| text.find(it)).min().unwrap_or(text.len());
    let parts = text[..end].split("\n\n");
    let parts = parts.map(|it| it.split_whitespace().collect::<Vec<_>>().join(" "));
    let message = parts.collect::<Vec<_>>().join("; ");
    Output::of_process(is_json).failure(&Failure::usage(format!("{message}.")));
    Exit::Usage.into()
}

/// Where a command is missing, all of them are shown.
const HELP_INSTEAD: ErrorKind = ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;

fn run(cli: Cli, output: &mut Output) -> Result<(), Failure> {
    if let Command::ManPages(args) = &cli.command {
        return man_pages::run(args, Cli::command(), output);
    }
    if let Command::Completions(args) = &cli.command {
        return completions::run(args, &mut Cli::command(), output);
    }
    let mut flags = Flags::default();
    flags.set(Key::Data, "--data", cli.global.data.as_ref());
    flags.set(Key::LogFormat, "--log-format", cli.global.log_format.as_ref());
    match &cli.command {
        Command::Up(args) => args.flags(&mut flags),
        Command::Node(args) => args.flags(&mut flags),
        Command::Connect(args) => args.flags(&mut flags),
        Command::Mcp(args) => args.flags(&mut flags),
        Command::BrokerToken(broker_token::Command::Set(args)) => {
            flags.set(Key::Broker, "--broker", args.broker.as_ref());
        }
        Command::Loop(command) => flags.target(command.target()),
        Command::Mail(command) => flags.target(command.target()),
        Command::Swarm(command) => flags.target(command.target()),
        #[cfg(unix)]
        Command::Accept(args) => flags.target(&args.target),
        Command::Watch(args) => flags.target(&args.target),
        Command::Import(command) => flags.target(command.target()),
        Command::Export(args) => flags.target(&args.target),
        Command::Status(args) => flags.target(&args.target),
        Command::LockHook(command) => flags.target(command.target()),
        Command::TakeOver(_)
        | Command::Outbox(_)
        | Command::AgentToken(_)
        | Command::Disconnect(_)
        | Command::Join(_)
        | Command::BrokerToken(_)
        | Command::MailHook(_)
        | Command::Config(_)
        | Command::Trust(_)
        | Command::Mirror(_)
        | Command::Completions(_)
        | Command::ManPages(_)
        | Command::Prompt(_) => {}
    }
    let around = Environment::of_process();
    if let Command::Trust(args) = &cli.command {
        return trust::run(args, &around, output);
    }
    let look = || Config::look(flags.0.clone(), cli.global.config.as_deref(), &around);
    let (config, problems) = look();
    if let Command::Config(config_check::Command::Check) = &cli.command {
        return config_check::run(&config, &problems, &around, output);
    }
    if let Command::LockHook(command) = &cli.command
        && !problems.is_empty()
        && let Some(said) = command.misconfigured(&config, &problems, output)
    {
        return said;
    }
    if !problems.is_empty() {
        return Err(Failure::configuration(&problems));
    }
    logs::start(config.log_format.value);
    if keeps_data(&cli.command) {
        config.claim_data(&around);
    }
    // A bridge does one thing at a time, and a second thread would only be one more to wake.
    let mut threads = if matches!(cli.command, Command::Mcp(_)) {
        runtime::Builder::new_current_thread()
    } else {
        runtime::Builder::new_multi_thread()
    };
    let runtime = threads
        .enable_all()
        .build()
        .map_err(|why| Failure::local(format!("The program cannot start its threads: {why}.")))?;
    let result = runtime.block_on(dispatch(cli.command, &config, &look, output));
    // A read of standard input cannot be cut short; nobody waits for it.
    runtime.shutdown_background();
    result
}

/// Whether a command may be the first that keeps something in its data directory.
fn keeps_data(command: &Command) -> bool {
    match command {
        Command::Up(_)
        | Command::Node(_)
        | Command::Join(_)
        | Command::BrokerToken(_)
        | Command::Connect(_)
        | Command::Loop(_)
        | Command::Mail(_)
        | Command::Swarm(_)
        | Command::Import(_)
        | Command::TakeOver(_)
        | Command::AgentToken(_) => true,
        #[cfg(unix)]
        Command::Accept(_) => true,
        Command::LockHook(command) => matches!(command, lock_hook::Command::Install(_)),
        Command::Disconnect(_)
        | Command::Mcp(_)
        | Command::Watch(_)
        | Command::Export(_)
        | Command::Status(_)
        | Command::Outbox(_)
        | Command::Mirror(_)
        | Command::MailHook(_)
        | Command::Config(_)
        | Command::Trust(_)
        | Command::Prompt(_)
        | Command::Completions(_)
        | Command::ManPages(_) => false,
    }
}

/// Reads the configuration again.
pub(crate) type Look<'a> = dyn Fn() -> (Config, Vec<Problem>) + 'a;

async fn dispatch(
    command: Command,
    config: &Config,
    look: &Look<'_>,
    output: &mut Output,
) -> Result<(), Failure> {
    match command {
        Command::Up(args) => up::run(&args, config, output).await,
        Command::Node(args) => node::run(args, config, output).await,
        Command::Join(args) => join::run(args, config, look, output).await,
        Command::BrokerToken(command) => broker_token::run(command, config, output).await,
        Command::Connect(args) => connect::run(args, config, output).await,
        Command::Disconnect(args) => connect::disconnect(args, config, output).await,
        Command::Mcp(args) => mcp::run(args, config).await,
        Command::Loop(command) => loops::run(command, config, output).await,
        Command::Mail(command) => mail::run(command, config, output).await,
        Command::Swarm(command) => Box::pin(swarm::run(command, config, output)).await,
        #[cfg(unix)]
        Command::Accept(args) => {
            let accepted = Box::pin(accept::run(*args, config, output)).await;
            accepted.map_err(swarm::ways::with_way)
        }
        Command::Watch(args) => watch::run(args, config, output).await,
        Command::Import(command) => import::run(command, config, output).await,
        Command::Export(args) => export::run(args, config, output).await,
        Command::Status(_) => status::run(config, output).await,
        Command::Outbox(args) => outbox::run(args, config, output).await,
        Command::Mirror(command) => mirror::run(command, config, output).await,
        Command::TakeOver(args) => take_over::run(args, config, output).await,
        Command::AgentToken(args) => agent_token::run(args, config, output),
        Command::LockHook(command) => lock_hook::run(command, config, output).await,
        Command::MailHook(command) => mail_hook::run(command, config, output),
        Command::Prompt(args) => prompt::run(&args, config, output),
        Command::Config(_) | Command::Trust(_) | Command::Completions(_) | Command::ManPages(_) => {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests;
