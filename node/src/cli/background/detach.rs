//! `--detach`: this program starts itself again in the background, and stays until that one listens
//! or has failed.
//!
//! The new process has a session of its own, so no terminal ends it. Until it listens, what it prints
//! goes where the command's own output goes, so a start that fails says the same as in the
//! foreground. Its log goes to a file from the beginning.

use std::{
    ffi::OsString,
    fmt::Write as _,
    fs::File,
    io,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::stdio::{dup2_stderr, dup2_stdout};
use serde_json::json;
use tasuki_proto::{counted::listed_names, host::logs::start_in};
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, Command},
    time::timeout,
};

use super::log_file::{LOG, LogFile, appending};
use crate::{
    cli::{Exit, Failure, Output, hosting, logs, stopped, text::line},
    config::{Config, LogFormat},
    holder::Holder,
    paths::NodeFile,
};

/// For the new process to listen or fail: a large journal is read through before it does.
const START_WITHIN: Duration = Duration::from_secs(60);

/// The last byte of what the new process prints: it listens. No answer of a command has it.
const READY: u8 = 0;

const DETACH: &str = "--detach";
const DETACHED: &str = "--detached";

#[derive(Debug, clap::Args)]
// Part of the options of two commands, whose group has this name.
#[group(skip)]
pub(crate) struct Args {
    /// Run in the background, and return once it listens
    ///
    /// `tasuki logs` shows its log, `tasuki stop` ends it. If it runs already, nothing is done.
    #[arg(long)]
    detach: bool,
    /// What `--detach` starts.
    #[arg(long, hide = true, conflicts_with = "detach")]
    detached: bool,
}

impl Args {
    /// Whether another process is to be started.
    pub(crate) const fn is_asked(&self) -> bool {
        self.detach
    }

    /// Whether this is that process.
    pub(crate) const fn is_detached(&self) -> bool {
        self.detached
    }

    /// Says to whoever waits that this process listens, and keeps nothing of theirs any more.
    pub(crate) fn ready(&self, config: &Config, output: &mut Output) -> Result<(), Failure> {
        if !self.detached {
            return Ok(());
        }
        output.bytes(&[READY])?;
        let let_go = || -> io::Result<()> {
            dup2_stdout(File::options().write(true).open("/dev/null")?)?;
            // What has no other way to be told, such as a panic.
            dup2_stderr(appending(&config.data.value)?)?;
            Ok(())
        };
        let_go().map_err(|why| unstarted(&why))
    }
}

/// Makes this process one of the background: without a terminal, and with its log in a file.
pub(crate) fn begin(config: &Config) -> Result<(), Failure> {
    hosting::refuse_untrusted(config)?;
    // It fails where this process leads a session already, as it should.
    rustix::process::setsid().ok();
    let config = hosting::claim_node(config)?;
    let data = &config.data.value;
    let log = LogFile::open(data).map_err(|why| {
        Failure::local(format!("The log {} cannot be written: {why}.", data.join(LOG).display()))
    })?;
    let is_json = matches!(config.log_format.value, LogFormat::Json);
    if let Err(why) = start_in(logs::FILTER, is_json, log) {
        tracing::debug!(%why, "logs are set up already");
    }
    Ok(())
}

/// What became of starting one.
enum Started {
    /// It ran already.
    Already(NodeFile),
    /// It listens. What it said meanwhile.
    Listening { pid: u32, said: String },
    /// It ended without that, with what it said and left.
    Ended { said: String, status: ExitStatus },
}

/// Starts it and waits until it listens.
pub(crate) async fn start(config: &Config, output: &mut Output) -> Result<(), Failure> {
    match spawn(config, arguments(std::env::args_os().skip(1))).await? {
        Started::Already(node) => say_running(&node, output),
        Started::Listening { pid, said } => {
            output.raw(&said)?;
            output.guide(|| how_to_go_on(config, pid))
        }
        Started::Ended { said, status } => {
            output.raw(&said)?;
            failure(config, status).map_or(Ok(()), Err)
        }
    }
}

/// The same for another command, whose answer is its own: `arguments` are those of the new process.
pub(crate) async fn start_with(
    config: &Config,
    arguments: impl Iterator<Item = OsString>,
) -> Result<NodeFile, Failure> {
    let unknown = || Failure::local("The node that was started is not found.");
    match spawn(config, arguments.chain([DETACHED.into()])).await? {
        Started::Already(node) => Ok(node),
        Started::Listening { pid, .. } => {
            let written = NodeFile::read(&config.data.value).or_else(|| {
                // A project that is not the first has its place since then.
                let claimed = hosting::claim_node(config).ok()?;
                NodeFile::read(&claimed.data.value)
            });
            written.filter(|node| node.pid == pid).ok_or_else(unknown)
        }
        Started::Ended { status, .. } => Err(failure(config, status).unwrap_or_else(unknown)),
    }
}

async fn spawn(
    config: &Config,
    arguments: impl Iterator<Item = OsString>,
) -> Result<Started, Failure> {
    hosting::refuse_untrusted(config)?;
    if let Some(node) = running(config) {
        return Ok(Started::Already(node));
    }
    let program = std::env::current_exe().map_err(|why| unstarted(&why))?;
    let mut command = Command::new(program);
    command.args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|why| unstarted(&why))?;
    let pid = child.id().unwrap_or_default();
    let mut said = Vec::new();
    tokio::select! {
        read = timeout(START_WITHIN, read(&mut child, &mut said)) => match read {
            Ok(read) => read.map_err(|why| unstarted(&why))?,
            Err(_) => return Err(too_slow(pid, &hosting::node_flags(config))),
        },
        () = stopped() => {
            child.start_kill().ok();
            drop(child.wait().await);
            return Err(Failure::local("Interrupted; nothing was started."));
        }
    }
    let is_ready = said.pop_if(|last| *last == READY).is_some();
    let said = String::from_utf8_lossy(&said).into_owned();
    if is_ready {
        return Ok(Started::Listening { pid, said });
    }
    let status = child.wait().await.map_err(|why| unstarted(&why))?;
    Ok(Started::Ended { said, status })
}

/// Why one ended that was to listen. What it printed says more.
fn failure(config: &Config, status: ExitStatus) -> Option<Failure> {
    match status.code().map(Exit::of_code) {
        Some(Some(Exit::Ok)) => None,
        Some(Some(exit)) => Some(Failure::told(exit)),
        Some(None) | None => Some(Failure::local(format!(
            "The node ended before it listened ({status}). `tasuki{} logs` shows its log.",
            hosting::node_flags(config)
        ))),
    }
}

async fn read(child: &mut Child, said: &mut Vec<u8>) -> io::Result<()> {
    if let Some(out) = &mut child.stdout {
        out.read_to_end(said).await?;
    }
    Ok(())
}

/// The command line of the new process: this one's, as the process that was asked for.
fn arguments(own: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    own.map(|argument| if argument == DETACH { DETACHED.into() } else { argument })
}

/// What serves this data directory and workspace already, and stays.
fn running(config: &Config) -> Option<NodeFile> {
    let data = &config.data.value;
    let holder = Holder::read(data)?;
    let node = NodeFile::read(data)?;
    let is_meant = node.pid == holder.pid
        && node.workspace == config.workspace.value.as_str()
        && !node.has_brief_broker;
    is_meant.then_some(node)
}

fn say_running(node: &NodeFile, output: &mut Output) -> Result<(), Failure> {
    let NodeFile { pid, mcp, broker, roles, workspace, .. } = node;
    output.answer(
        || {
            json!({
                "listening": { "mcp": mcp, "broker": broker },
                "roles": roles,
                "pid": pid,
                "already_running": true,
            })
        },
        || {
            let (roles, workspace) = (line(&listed_names(roles)), line(workspace));
            format!(
                "Already running (pid {pid}): workspace {workspace}, roles {roles}.\n\
                 listening on {mcp} (MCP)\n"
            )
        },
    )
}

fn how_to_go_on(config: &Config, pid: u32) -> String {
    let flags = hosting::node_flags(config);
    let role = config.roles.value.first().map(|role| role.name.as_str()).unwrap_or_default();
    let commands = [
        (format!("connect claude-code --role {role}"), "connects an agent"),
        ("logs -f".to_owned(), "shows the log"),
        ("stop".to_owned(), "stops it; data is kept"),
    ];
    let width = commands.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    let mut text = format!("\nRunning in the background (pid {pid}).\n");
    for (command, what) in commands {
        _ = writeln!(text, "  tasuki{flags} {command:width$}  {what}");
    }
    text
}

fn too_slow(pid: u32, flags: &str) -> Failure {
    let seconds = START_WITHIN.as_secs();
    Failure::local(format!(
        "The node (pid {pid}) does not listen after {seconds} s and goes on starting. \
         `tasuki{flags} logs -f` shows what it does, `tasuki{flags} stop` ends it."
    ))
}

fn unstarted(why: &io::Error) -> Failure {
    Failure::local(format!("The program cannot start itself in the background: {why}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_process_is_told_all_that_this_one_was() {
        let line = ["--data", "a b", "up", "--detach", "--role", "A=loop"];
        let told: Vec<OsString> = arguments(line.into_iter().map(OsString::from)).collect();
        assert_eq!(told, ["--data", "a b", "up", "--detached", "--role", "A=loop"]);
    }
}
