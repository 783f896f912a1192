//! `tasuki service`: a node that starts with its user's session, by systemd or launchd.
//!
//! **Invariant:** a file is written over or removed only if this command wrote it: its first lines
//! say so, with the data directory that it is for.

mod launchd;
mod systemd;

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command as Process, Stdio},
};

use serde_json::json;
use tasuki_proto::host::files;

use crate::{
    cli::{
        Failure, Output, hosting,
        text::{line, word},
    },
    config::{Config, Source, VARIABLE_PREFIX},
    credentials::Joined,
    holder::Holder,
    paths,
};

/// How much of a file is looked through for the mark.
const MARK_LINES: usize = 2;

/// How it starts before anybody logs in, where that is possible.
const WITH_MACHINE: &str = if cfg!(target_os = "macos") {
    ""
} else {
    "; `loginctl enable-linger` starts it with the machine"
};

/// What the mark begins with; which node follows.
const MARK: &str = "Written by `tasuki service install`, removed by `tasuki service uninstall`: ";

/// Run the node as a service that starts when you log in
///
/// On Linux a user unit of systemd, on macOS an agent of launchd. For a machine that joined a broker it
/// runs `tasuki node`, else `tasuki up`.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub enum Command {
    /// Write the service's file, start it now and at each login
    ///
    /// Without systemd, or outside of its session, prints the commands that start it.
    Install(Which),
    /// Stop the service and remove its file; data is kept
    Uninstall(Which),
    /// Show whether the service is installed and runs
    Status(Which),
}

#[derive(Debug, clap::Args)]
pub struct Which {
    /// Name of the service, where there are several [default: tasuki]
    #[arg(long, value_name = "NAME", default_value = "tasuki", hide_default_value = true,
        value_parser = service_name)]
    name: String,
}

fn service_name(text: &str) -> Result<String, String> {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.chars().all(is_fit) {
        return Ok(text.to_owned());
    }
    Err(format!("a service's name has up to {NAME_BYTES_MAX} letters, digits, - and _"))
}

/// A name is part of a file's name.
const NAME_BYTES_MAX: usize = 64;

/// What a service runs.
#[derive(Debug, Clone)]
struct Service {
    program: PathBuf,
    command: &'static str,
    data: PathBuf,
    /// The configuration, where one was named.
    config: Option<PathBuf>,
    /// Where it runs, if the configuration is that directory's.
    directory: Option<PathBuf>,
}

impl Service {
    fn new(config: &Config) -> Result<Self, Failure> {
        let local = |why: io::Error| Failure::local(format!("This service has no place: {why}."));
        let absolute = |path: &Path| std::path::absolute(path).map_err(local);
        let joined = Joined::read(&config.root);
        let joined = joined.map_err(|why| Failure::local(format!("{why}.")))?;
        let mut named = (None, None);
        if let Some(found) = &config.file {
            let path = absolute(&found.path)?;
            let directory = path.parent().map(Path::to_owned);
            let usual = [Some(absolute(&config.root)?), paths::config_directory()];
            if found.is_here && directory == std::env::current_dir().ok() {
                named = (None, directory);
            } else if !usual.contains(&directory) {
                // Others are found by the service as they are here.
                named = (Some(path), None);
            }
        }
        let (config_file, directory) = named;
        Ok(Self {
            program: std::env::current_exe().map_err(local)?,
            command: if joined.is_some() { "node" } else { "up" },
            data: absolute(&config.root)?,
            config: config_file,
            directory,
        })
    }

    /// Which node it runs.
    fn subject(&self) -> String {
        let data = self.data.display();
        match &self.directory {
            Some(directory) => format!("data in {data}, project {}", directory.display()),
            None => format!("data in {data}"),
        }
    }

    /// Its command line.
    fn words(&self) -> impl Iterator<Item = String> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let config = self.config.iter().flat_map(move |it| ["--config".to_owned(), text(it)]);
        let own = [text(&self.program), self.command.to_owned()];
        own.into_iter().chain(["--data".to_owned(), text(&self.data)]).chain(config)
    }
}

/// A path that no file of a service can hold.
#[derive(Debug)]
struct Unwritable;

/// What manages services here.
struct Manager {
    file: PathBuf,
    name: String,
}

impl Manager {
    fn new(which: Which) -> Result<Self, Failure> {
        let missing = || Failure::local("Without a home directory there are no services of yours.");
        let base = directories::BaseDirs::new().ok_or_else(missing)?;
        let name = which.name;
        let file = if cfg!(target_os = "macos") {
            launchd::path(base.home_dir(), &name)
        } else {
            systemd::path(base.config_dir(), &name)
        };
        Ok(Self { file, name })
    }

    fn text(&self, service: &Service) -> Result<String, Failure> {
        let mark = format!("{MARK}{}", service.subject());
        let text = if cfg!(target_os = "macos") {
            launchd::plist(service, &self.name, &mark)
        } else {
            systemd::unit(service, &mark)
        };
        text.map_err(|Unwritable| {
            Failure::usage("A path with a line break or another control character fits no service.")
        })
    }

    fn turn_on(&self) -> Vec<Vec<String>> {
        if cfg!(target_os = "macos") {
            launchd::turn_on(&self.file, user())
        } else {
            systemd::turn_on(&self.name)
        }
    }

    fn turn_off(&self) -> Vec<String> {
        if cfg!(target_os = "macos") {
            launchd::turn_off(&self.name, user())
        } else {
            systemd::turn_off(&self.name)
        }
    }

    fn is_active(&self) -> bool {
        let ask = if cfg!(target_os = "macos") {
            launchd::ask(&self.name, user())
        } else {
            systemd::ask(&self.name)
        };
        run_process(&ask).is_ok()
    }

    /// Which node the file is for, if this command wrote it. `None`: there is none.
    fn installed(&self) -> Result<Option<String>, Failure> {
        let file = self.file.display();
        let text = match fs::read_to_string(&self.file) {
            Ok(text) => text,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(Failure::local(format!("{file} cannot be read: {why}."))),
        };
        let mut head = text.lines().take(MARK_LINES);
        let subject = head.find_map(|line| line.split_once(MARK)).map(|(_, subject)| subject);
        let subject = subject.map(|it| it.strip_suffix(" -->").unwrap_or(it).to_owned());
        subject.map(Some).ok_or_else(|| {
            Failure::local(format!(
                "{file} was not written by `tasuki service install`, and stays as it is. Choose \
                 another name with --name NAME, or remove it."
            ))
        })
    }
}

fn user() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Why a command did not do what was asked.
fn run_process(words: &[String]) -> Result<(), String> {
    let [program, arguments @ ..] = words else { return Ok(()) };
    let mut process = Process::new(program);
    let ended = process.args(arguments).stdin(Stdio::null()).output();
    let ended = ended.map_err(|why| format!("{program}: {why}"))?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
    Err(if said.is_empty() { format!("{program}: {}", ended.status) } else { said })
}

pub(crate) fn run(command: Command, config: &Config, output: &mut Output) -> Result<(), Failure> {
    match command {
        Command::Install(which) => install(&Manager::new(which)?, config, output),
        Command::Uninstall(which) => uninstall(&Manager::new(which)?, output),
        Command::Status(which) => status(&Manager::new(which)?, output),
    }
}

fn install(manager: &Manager, config: &Config, output: &mut Output) -> Result<(), Failure> {
    hosting::refuse_untrusted(config)?;
    let service = Service::new(config)?;
    let text = manager.text(&service)?;
    let file = manager.file.display();
    let subject = service.subject();
    let installed = manager.installed()?;
    if installed.is_none()
        && let Some(holder) = Holder::read(&config.data.value)
    {
        return Err(Failure::local(format!(
            "A node runs already with data in {} (pid {}), and the service could not start. Run \
             `tasuki stop` first.",
            config.data.value.display(),
            holder.pid
        )));
    }
    if let Some(other) = installed.filter(|installed| *installed != subject) {
        return Err(Failure::local(format!(
            "{file} runs Tasuki with {other}. Choose another name for this one with --name NAME, \
             or run `tasuki service uninstall` first."
        )));
    }
    let written = fs::create_dir_all(files::directory_of(&manager.file));
    written.and_then(|()| fs::write(&manager.file, text)).map_err(|why| {
        Failure::local(format!("{file} cannot be written: {why}. Nothing was installed."))
    })?;
    let commands = manager.turn_on();
    let failed = commands.iter().find_map(|words| run_process(words).err());
    let by_hand = failed.as_ref().map(|_| shell(&commands));
    output.answer(
        || {
            json!({
                "file": manager.file,
                "is_running": failed.is_none(),
                "why_not": failed,
                "commands": by_hand.as_deref().unwrap_or_default().lines().collect::<Vec<_>>(),
            })
        },
        || match (&failed, &by_hand) {
            (Some(why), Some(commands)) => {
                format!("Wrote {file}. It was not started: {why}. To start it:\n{commands}")
            }
            (_, _) => format!(
                "Wrote {file} and started it. It starts at each login{WITH_MACHINE}. `tasuki logs` \
                 says where its log is.\n"
            ),
        },
    )?;
    for variable in variables(config) {
        output.note(&format!(
            "{variable} is set here, and not for the service: set it in a tasuki.toml instead."
        ));
    }
    Ok(())
}

fn uninstall(manager: &Manager, output: &mut Output) -> Result<(), Failure> {
    let file = manager.file.display();
    if manager.installed()?.is_none() {
        return output.answer(
            || json!({ "removed": [] }),
            || format!("No service is installed: {file} does not exist.\n"),
        );
    }
    let off = manager.turn_off();
    let failed = run_process(&off).err();
    fs::remove_file(&manager.file)
        .map_err(|why| Failure::local(format!("{file} cannot be removed: {why}.")))?;
    if !cfg!(target_os = "macos") {
        // What runs no more need not be told.
        run_process(&systemd::forget()).ok();
    }
    output.answer(
        || json!({ "removed": [manager.file], "why_not_stopped": failed }),
        || match &failed {
            None => format!("Stopped the service and removed {file}. Data is kept.\n"),
            Some(why) => format!(
                "Removed {file}. It could not be stopped: {why}. If it runs, `tasuki stop` ends \
                 it. Data is kept.\n"
            ),
        },
    )
}

fn status(manager: &Manager, output: &mut Output) -> Result<(), Failure> {
    let installed = manager.installed()?;
    let is_running = installed.is_some() && manager.is_active();
    let file = manager.file.display();
    output.answer(
        || json!({ "file": manager.file, "serves": installed, "is_running": is_running }),
        || match &installed {
            None => "Not installed. `tasuki service install` does that.\n".to_owned(),
            Some(subject) => {
                let state = if is_running { "Running" } else { "Installed, not running" };
                format!("{state}: {file}, {}\n", line(subject))
            }
        },
    )
}

/// What a person types.
fn shell(commands: &[Vec<String>]) -> String {
    let line = |words: &Vec<String>| {
        let words: Vec<String> = words.iter().map(|it| word(it)).collect();
        format!("  {}\n", words.join(" "))
    };
    commands.iter().map(line).collect()
}

/// Variables that make a setting here.
fn variables(config: &Config) -> Vec<&'static str> {
    let sources = [
        &config.workspace.source,
        &config.listen.source,
        &config.broker_listen.source,
        &config.broker.source,
        &config.lease.source,
        &config.hold.source,
        &config.roles.source,
        &config.shared.source,
        &config.secure.source,
        &config.mirror.source,
    ];
    let of_env = |source: &&Source| match source {
        Source::Env(name) if name.starts_with(VARIABLE_PREFIX) => Some(*name),
        Source::Env(_)
        | Source::Default
        | Source::File { .. }
        | Source::Filebox(_)
        | Source::Flag(_) => None,
    };
    sources.iter().filter_map(of_env).collect()
}
