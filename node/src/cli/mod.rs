//! The command `tasuki`: what people type, and what they get to read.
//!
//! Each command has a file with its arguments and what it does. A command builds its answer and
//! hands it to [`Output`]; one place prints. A failure is a [`Failure`]; one place words it and
//! one table says which exit code it is. Standard output only ever carries the answer.

#[cfg(unix)]
mod accept;
mod access;
mod agent_token;
mod background;
mod board;
mod broker;
mod broker_token;
mod budget;
mod client_files;
mod completions;
mod config_check;
mod connect;
mod doctor;
mod events;
mod export;
mod failure;
mod following;
mod gateway;
mod help;
mod hook;
mod hosting;
mod hosting_args;
mod import;
mod init;
mod join;
mod json;
mod keys;
mod labels;
mod launch;
mod lock_hook;
mod logs;
mod loop_view;
mod loops;
mod mail;
mod mail_crypto;
mod man_pages;
pub mod mcp;
mod mirror;
mod mirror_setup;
pub mod node;
mod node_address;
mod outbox;
mod output;
mod pipeline;
mod pipes;
mod prompt;
mod role_args;
mod role_tools_setup;
mod run;
mod runners;
mod runs;
mod runs_setup;
#[cfg(unix)]
mod sandboxed;
mod shared_broker;
mod start_failure;
mod status;
mod stop;
mod subcommands;
mod swarm;
mod take_over;
mod text;
mod titles;
mod tls_setup;
mod trust;
pub mod up;
mod waiting;
mod wake;
mod watch;
mod wrong_port;

use std::{path::PathBuf, process::ExitCode};

use clap::{
    Arg, ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, error::ErrorKind,
};
use tasuki_proto::echo::REFUSAL_BYTES_MAX;
use tokio::runtime;

use self::{
    background::{detach, logs as node_logs, service, stop as stop_node},
    help::{AGENTS, MACHINE, START, WORK},
    swarm::{
        delivery, doc,
        hints::{with_hint, with_run_hint},
        issue, lock, settings, task, worker,
    },
};
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

/// What every command takes.
#[derive(Debug, clap::Args)]
pub struct Global {
    /// Data directory [default: the platform's]
    #[arg(long, value_name = "DIR", global = true)]
    pub data: Option<String>,
    /// Configuration file [default: tasuki.toml here, in the data or the configuration directory]
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// Format of log lines on standard error: text or json
    #[arg(long, value_name = "FORMAT", global = true)]
    pub log_format: Option<String>,
    /// Print times in UTC [default: in this machine's time zone, or that of TZ]
    #[arg(long, global = true)]
    pub utc: bool,
}

/// The commands. Each has its description with its arguments, and as its `display_order` the
/// heading that it stands under in `tasuki --help`, where they keep their order.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum Command {
    #[command(display_order = START)]
    Init(init::Args),
    #[command(display_order = START)]
    Up(up::Args),
    #[command(display_order = START)]
    Node(node::Args),
    #[command(display_order = START, arg(workspace()))]
    Stop(stop_node::Args),
    #[command(display_order = START, arg(workspace()))]
    Logs(node_logs::Args),
    #[command(display_order = START)]
    Join(join::Args),
    #[command(display_order = START, arg(workspace()))]
    Connect(connect::Args),
    #[command(display_order = START, arg(workspace()))]
    Disconnect(connect::DisconnectArgs),
    #[command(display_order = START, arg(workspace()))]
    Launch(launch::Args),
    #[command(hide = true, arg(workspace()))]
    LaunchAgent(launch::supervise::Args),
    #[command(display_order = START, args(target()))]
    Status(status::Args),
    #[command(display_order = START, args(target()))]
    Watch(watch::Args),

    #[command(display_order = WORK, subcommand, args(target()))]
    Loop(loops::Command),
    #[command(display_order = WORK, subcommand, args(target()))]
    Budget(budget::Command),
    #[command(display_order = WORK, subcommand, args(target()))]
    Mail(mail::Command),
    #[command(display_order = WORK, subcommand, args(target()))]
    Issue(issue::Command),
    #[command(display_order = WORK, subcommand, args(target()))]
    Task(task::Command),
    #[command(display_order = WORK, subcommand, args(target()))]
    Delivery(delivery::Command),
    #[command(display_order = WORK, subcommand, args(target()))]
    Lock(lock::Command),
    #[command(display_order = WORK, subcommand, args(target()))]
    Doc(doc::Command),
    #[command(display_order = WORK, subcommand, args(target()))]
    Board(board::Command),
    #[command(display_order = WORK, subcommand, args(target()))]
    Pipeline(pipeline::Command),
    #[command(display_order = WORK, subcommand, args(target()))]
    Worker(worker::Command),
    #[cfg(unix)]
    #[command(display_order = WORK, args(target()))]
    Accept(Box<accept::Args>),

    #[command(display_order = AGENTS, arg(workspace()))]
    Prompt(prompt::Args),
    #[command(display_order = AGENTS, arg(workspace()))]
    TakeOver(take_over::Args),
    #[command(display_order = AGENTS, arg(workspace()))]
    AgentToken(agent_token::Args),
    #[command(display_order = AGENTS, arg(workspace()))]
    Mcp(mcp::Args),
    #[command(display_order = AGENTS, subcommand, args(target()))]
    Wake(wake::Command),
    #[command(display_order = AGENTS, args(target()))]
    Run(Box<run::Args>),
    #[command(display_order = AGENTS, subcommand, args(target()))]
    Runs(runs::Command),
    #[command(display_order = AGENTS, subcommand)]
    Runners(runners::Command),
    #[command(display_order = AGENTS, subcommand)]
    LockHook(lock_hook::Command),
    #[command(display_order = AGENTS, subcommand, alias = "mail-hook")]
    Hook(hook::Command),

    /// Manage this machine's broker token
    #[command(display_order = MACHINE, subcommand)]
    BrokerToken(broker_token::Command),
    #[command(display_order = MACHINE, subcommand)]
    Service(service::Command),
    #[command(display_order = MACHINE, subcommand, arg(workspace().global(true)))]
    Gateway(gateway::Command),
    #[command(display_order = MACHINE, arg(workspace()))]
    Outbox(outbox::Args),
    #[command(display_order = MACHINE, subcommand)]
    Mirror(mirror::Command),
    #[command(display_order = MACHINE, arg(workspace()))]
    Doctor(doctor::Args),
    #[command(display_order = MACHINE, subcommand)]
    Config(config_check::Command),
    #[command(display_order = MACHINE, args(target()))]
    Settings(settings::Args),
    #[command(display_order = MACHINE)]
    Trust(trust::Args),
    #[command(display_order = MACHINE, subcommand, args(target()))]
    Import(import::Command),
    #[command(display_order = MACHINE, args(target()))]
    Export(export::Args),
    #[command(display_order = MACHINE)]
    Completions(completions::Args),
    #[command(hide = true)]
    ManPages(man_pages::Args),
}

impl Command {
    /// How it runs without a terminal, if it may.
    const fn background(&self) -> Option<&detach::Args> {
        if let Self::Up(up::Args { hosted, .. }) | Self::Node(node::Args { hosted, .. }) = self {
            Some(&hosted.background)
        } else {
            None
        }
    }

    /// Whether it has several things to do at once.
    fn is_multi_threaded(&self) -> bool {
        #[cfg(unix)]
        if matches!(self, Self::Accept(_)) {
            return true;
        }
        matches!(
            self,
            Self::Up(_)
                | Self::Node(_)
                | Self::Launch(_)
                | Self::LaunchAgent(_)
                | Self::Run(_)
                | Self::Worker(_)
        )
    }

    /// Whether it may be the first that keeps something in its data directory.
    fn keeps_data(&self) -> bool {
        match self {
            Self::Init(_)
            | Self::Up(_)
            | Self::Node(_)
            | Self::Join(_)
            | Self::Connect(_)
            | Self::Launch(_)
            | Self::LaunchAgent(_)
            | Self::Loop(_)
            | Self::Budget(_)
            | Self::Mail(_)
            | Self::Issue(_)
            | Self::Task(_)
            | Self::Delivery(_)
            | Self::Lock(_)
            | Self::Doc(_)
            | Self::Board(_)
            | Self::Pipeline(_)
            | Self::Worker(_)
            | Self::Run(_)
            | Self::Runs(_)
            | Self::TakeOver(_)
            | Self::AgentToken(_)
            | Self::BrokerToken(_)
            | Self::Settings(_)
            | Self::Import(_) => true,
            #[cfg(unix)]
            Self::Accept(_) => true,
            Self::LockHook(command) => matches!(command, lock_hook::Command::Install(_)),
            Self::Wake(command) => {
                matches!(command, wake::Command::Setup(_) | wake::Command::Test(_))
            }
            Self::Disconnect(_)
            | Self::Status(_)
            | Self::Stop(_)
            | Self::Logs(_)
            | Self::Service(_)
            | Self::Watch(_)
            | Self::Prompt(_)
            | Self::Mcp(_)
            | Self::Hook(_)
            | Self::Runners(_)
            | Self::Gateway(_)
            | Self::Outbox(_)
            | Self::Mirror(_)
            | Self::Config(_)
            | Self::Doctor(_)
            | Self::Trust(_)
            | Self::Export(_)
            | Self::Completions(_)
            | Self::ManPages(_) => false,
        }
    }
}

/// The options of commands that ask a broker. [`Flags::target`] reads them.
fn target() -> [Arg; 2] {
    let broker = broker_url("the running node's or broker's, else http://127.0.0.1:7420");
    [broker.global(true).display_order(TARGET), workspace().global(true)]
}

/// Which of this machine's nodes a command is about. [`Flags::target`] reads it.
fn workspace() -> Arg {
    Arg::new(WORKSPACE)
        .long(WORKSPACE)
        .value_name("NAME")
        .help("Workspace [default: the running node's, else default]")
        .display_order(TARGET)
}

fn broker_url(default: &str) -> Arg {
    let help = format!("URL of the broker [default: {default}]");
    Arg::new(BROKER).long(BROKER).value_name("URL").help(help)
}

/// Where the two stand on a page: after a command's own options, before `--help`, which has 999.
const TARGET: usize = 998;

const BROKER: &str = "broker";
const WORKSPACE: &str = "workspace";

/// Options of the command line that are settings.
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

    /// Takes the options of [`target`], with whichever verb they were given.
    fn target(&mut self, mut matches: &ArgMatches) {
        while let Some((_, inner)) = matches.subcommand() {
            matches = inner;
        }
        for (id, key, flag) in
            [(BROKER, Key::Broker, "--broker"), (WORKSPACE, Key::Workspace, "--workspace")]
        {
            self.set(key, flag, matches.try_get_one(id).ok().flatten());
        }
    }
}

/// Parses the command line, runs the command, reports the failure.
pub fn main() -> ExitCode {
    #[cfg(unix)]
    if let Some(args) = sandboxed::Args::of_process() {
        return sandboxed::run(&args);
    }
    completions::answer();
    let (cli, flags) = match parse() {
        Ok(parsed) => parsed,
        Err(why) => return mistyped(&why),
    };
    text::set_zone(cli.global.utc);
    let mut output = Output::of_process(cli.global.json);
    let result = run(cli, flags, &mut output);
    let result = result.and_then(|()| output.flush());
    match result {
        Ok(()) => Exit::Ok.into(),
        Err(failure) => {
            output.failure(&failure);
            failure.exit().into()
        }
    }
}

/// The command line, and the options in it that are settings.
fn parse() -> Result<(Cli, Flags), clap::Error> {
    let mut matches = match Cli::command().try_get_matches() {
        Ok(matches) => matches,
        Err(why) if why.kind() == ErrorKind::DisplayVersion => return Err(why),
        // Help and errors show more than the command that was typed.
        Err(_) => help::with_headings(help::whole()).try_get_matches()?,
    };
    let mut flags = Flags::default();
    flags.target(&matches);
    let cli = Cli::from_arg_matches_mut(&mut matches);
    Ok((cli.map_err(|why| why.format(&mut help::whole()))?, flags))
}

/// Reports a command line that cannot be parsed: to programs, and if it is too long, like any other
/// failure.
fn mistyped(why: &clap::Error) -> ExitCode {
    let words = std::env::args_os().skip(1).take_while(|word| word != "--");
    let is_json = words.into_iter().any(|word| word == "--json");
    let is_refusal = why.exit_code() == Exit::Usage as i32 && why.kind() != HELP_INSTEAD;
    let text = why.render().to_string();
    // It quotes what was typed, however long that is.
    let is_long = REFUSAL_BYTES_MAX < text.len();
    if !is_refusal || !(is_json || is_long) {
        why.exit();
    }
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    // Usage and a pointer to the help follow, for people.
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

fn run(cli: Cli, mut flags: Flags, output: &mut Output) -> Result<(), Failure> {
    if let Command::ManPages(args) = &cli.command {
        return man_pages::run(args, help::whole(), output);
    }
    if let Command::Completions(args) = &cli.command {
        return completions::run(args, output);
    }
    flags.set(Key::Data, "--data", cli.global.data.as_ref());
    flags.set(Key::LogFormat, "--log-format", cli.global.log_format.as_ref());
    if let Command::Init(args) = &cli.command {
        args.flags(&mut flags);
    } else if let Command::Up(args) = &cli.command {
        args.flags(&mut flags);
    } else if let Command::Node(args) = &cli.command {
        args.hosted.flags(&mut flags);
    } else if let Command::Connect(args) = &cli.command {
        args.flags(&mut flags);
    } else if let Command::Mcp(args) = &cli.command {
        args.flags(&mut flags);
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
    let is_wake_hook = matches!(cli.command, Command::Wake(wake::Command::Hook(_)));
    if is_wake_hook && !problems.is_empty() {
        // A client would take the exit code for a refusal.
        return Ok(());
    }
    let is_doctor = matches!(cli.command, Command::Doctor(_));
    if !problems.is_empty() && !is_doctor {
        return Err(Failure::configuration(&problems));
    }
    let background = cli.command.background();
    if background.is_some_and(detach::Args::is_detached) {
        detach::begin(&config)?;
    } else {
        let is_quiet = is_doctor || matches!(cli.command, Command::Run(_));
        logs::start(config.log_format.value, is_quiet);
    }
    if cli.command.keeps_data() {
        config.claim_data(&around);
    }
    // Most do one thing at a time, and a second thread would only be one more to start and to wake.
    let mut threads = if cli.command.is_multi_threaded() {
        runtime::Builder::new_multi_thread()
    } else {
        runtime::Builder::new_current_thread()
    };
    let runtime = threads
        .enable_all()
        .build()
        .map_err(|why| Failure::local(format!("The program cannot start its threads: {why}.")))?;
    let result = runtime.block_on(async {
        match dispatch(cli.command, &cli.global, &config, &look, output).await {
            Ok(()) => Ok(()),
            Err(failure) => Err(wrong_port::explain(failure, &config).await),
        }
    });
    // A read of standard input cannot be cut short; nobody waits for it.
    runtime.shutdown_background();
    tasuki_proto::host::logs::end();
    result
}

/// Reads the configuration again.
pub(crate) type Look<'a> = dyn Fn() -> (Config, Vec<Problem>) + 'a;

async fn dispatch(
    command: Command,
    global: &Global,
    config: &Config,
    look: &Look<'_>,
    output: &mut Output,
) -> Result<(), Failure> {
    if command.background().is_some_and(detach::Args::is_asked) {
        return detach::start(config, output).await;
    }
    match command {
        Command::Init(args) => init::run(args, config, output).await,
        Command::Up(args) => up::run(&args, config, output).await,
        Command::Node(args) => node::run(args, config, output).await,
        Command::Stop(args) => stop_node::run(args, config, output).await,
        Command::Logs(args) => node_logs::run(args, config, output).await,
        Command::Service(command) => service::run(command, config, output),
        Command::Join(args) => join::run(args, config, look, output).await,
        Command::BrokerToken(command) => broker_token::run(command, config, output).await,
        Command::Connect(args) => connect::run(args, config, output).await,
        Command::Disconnect(args) => connect::disconnect(args, config, output).await,
        Command::Launch(args) => Box::pin(launch::run(args, global, config, look, output)).await,
        Command::LaunchAgent(args) => Box::pin(launch::supervise::run(args, config, output)).await,
        Command::Mcp(args) => mcp::run(args, config).await,
        Command::Loop(command) => loops::run(command, config, output).await,
        Command::Budget(command) => budget::run(command, config, output).await,
        Command::Mail(command) => mail::run(command, config, output).await,
        Command::Issue(command) => issue::run(command, config, output).await.map_err(with_hint),
        Command::Task(command) => task::run(command, config, output).await.map_err(with_hint),
        Command::Delivery(command) => {
            delivery::run(command, config, output).await.map_err(with_hint)
        }
        Command::Lock(command) => lock::run(command, config, output).await.map_err(with_hint),
        Command::Doc(command) => doc::run(command, config, output).await.map_err(with_hint),
        Command::Board(command) => board::run(command, config, output).await,
        Command::Pipeline(command) => pipeline::run(command, config, output).await,
        Command::Worker(command) => worker::run(command, config, output).await.map_err(with_hint),
        Command::Settings(args) => settings::run(args, config, output).await.map_err(with_hint),
        #[cfg(unix)]
        Command::Accept(args) => {
            Box::pin(accept::run(*args, config, output)).await.map_err(with_hint)
        }
        Command::Watch(args) => watch::run(args, config, output).await,
        Command::Import(command) => import::run(command, config, output).await,
        Command::Export(args) => export::run(args, config, output).await,
        Command::Status(args) => status::run(args, config, output).await,
        Command::Gateway(command) => gateway::run(command, config, output).await,
        Command::Outbox(args) => outbox::run(args, config, output).await,
        Command::Mirror(command) => mirror::run(command, config, output).await,
        Command::TakeOver(args) => take_over::run(args, config, output).await,
        Command::AgentToken(args) => agent_token::run(args, config, output),
        Command::LockHook(command) => lock_hook::run(command, config, output).await,
        Command::Wake(command) => wake::run(command, config, output).await,
        Command::Hook(command) => hook::run(command, config, output),
        Command::Run(args) => {
            Box::pin(run::run(*args, config, output)).await.map_err(with_run_hint)
        }
        Command::Runs(command) => runs::run(command, config, output).await.map_err(with_run_hint),
        Command::Runners(command) => runners::run(command, config, output).await,
        Command::Prompt(args) => prompt::run(&args, config, output),
        Command::Doctor(doctor::Args {}) => Box::pin(doctor::run(look, output)).await,
        Command::Config(_) | Command::Trust(_) | Command::Completions(_) | Command::ManPages(_) => {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests;
