//! What stands between whoever starts a command and the command: a process of this program that
//! becomes the parent of whatever loses its own below it, and ends all of it.
//!
//! Its standard input is a socket. It writes there, once, how the command ended; when it reads
//! [`TERMINATE`] it asks the command to end, and when the other end is closed, by purpose or because
//! that process is gone, it ends the command (AC4). Below it is the same program once more, which
//! goes into the sandbox and becomes the command (AC3).
//!
//! Where the kernel can bound signals, what is in the sandbox is killed at one stroke, which nothing
//! outruns by starting itself over. The kernel limits no processes of root's; there, the keeper counts
//! them.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{net::UnixStream, process::CommandExt as _},
    },
    path::PathBuf,
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitOptions, geteuid, getppid, setsid, waitpid};
use serde::{Deserialize, Serialize};

use super::{
    fd_passing,
    policy::{Kind, PROCESSES_MAX, Policy},
    sandbox::{self, SignalScope},
    tree,
};

/// What the command is given its place by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    pub policy: Policy,
    /// The program first. They go as arguments of their own: the system bounds each, and quoting
    /// would make a long one longer.
    #[serde(skip)]
    pub words: Vec<String>,
    pub input: Input,
}

/// What a command reads on its standard input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Input {
    Empty,
    File(PathBuf),
    /// A pipe of whoever started it, whose end is passed over the sockets between the processes.
    Pipe,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Why it was not run at all: there was no sandbox.
    pub why_not: Option<String>,
    /// `None`: by the signal.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// It was asked to end, or was killed, before it had ended by itself.
    pub was_stopped: bool,
    /// Whether nothing of it is left.
    pub is_all_gone: bool,
}

/// The command could not be put into its sandbox, which is told by other means, too.
const NO_SANDBOX: i32 = 125;

/// As shells have it: a program that cannot be run, or is not there.
pub const NOT_RUN: i32 = 126;
pub const NOT_FOUND: i32 = 127;

/// Between looks at how many processes a command has, in milliseconds.
const WATCH_MS: u64 = 50;

/// For the words that say why a command was ended to be written, where its output is full.
const SAYING_MAX: Duration = Duration::from_secs(1);

/// Why there was no sandbox, in bytes.
const WHY_BYTES_MAX: u64 = 2048;

/// Asks the command's process group to end by itself.
pub const TERMINATE: u8 = b't';

/// The arguments with which this program is a keeper, and what is in the sandbox.
pub const KEEPER: &str = "keeper";
pub const INSIDE: &str = "inside";

/// This program, also after its file was replaced.
pub fn own_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// How far the command is that is kept.
#[derive(Default)]
struct CommandState {
    /// Until it is reaped its number is its own.
    is_over: bool,
    was_stopped: bool,
}

/// The limit of processes where the system does not keep it: for root.
struct ProcessWatch {
    scope: SignalScope,
    threads_max: u64,
    /// Held from before the command is ended until it is said why.
    saying: Arc<Mutex<()>>,
}

impl ProcessWatch {
    /// `None`: the system keeps it, or nobody can.
    fn new(policy: &Policy, scope: Option<SignalScope>) -> Option<Self> {
        let threads_max = policy.processes.map_or(PROCESSES_MAX, |it| it.min(PROCESSES_MAX));
        let saying = Arc::default();
        scope.filter(|_| geteuid().is_root()).map(|scope| Self { scope, threads_max, saying })
    }

    /// Ends what is more than the limit, and says so on the command's output.
    fn check(&self) {
        let most = self.threads_max;
        if tree::threads_of_machine().is_some_and(|all| all <= most)
            || tree::threads_below() <= most
        {
            return;
        }
        let _saying = self.saying.lock();
        self.scope.kill_others();
        writeln!(io::stderr(), "tasuki: the command was ended: more than {most} processes").ok();
    }
}

/// Keeps one command. Answers when all of it is over.
pub fn keep(order: &str, words: &[String]) -> io::Result<()> {
    tree::adopt()?;
    let ordered: Order = serde_json::from_str(order)?;
    // What is in no sandbox signals whom it wants.
    let scope = match ordered.policy.kind {
        Kind::Landlock => SignalScope::enter(),
        Kind::None => None,
    };
    let mut caller = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut command = Command::new(own_program()?);
    // What is inside says there why it did not go in; a command has nothing of it.
    let (mut own, theirs) = UnixStream::pair()?;
    command
        .args(["sandboxed", INSIDE, order])
        .args(words)
        .stdin(Stdio::from(OwnedFd::from(theirs)));
    let started = command.spawn()?;
    drop(command);
    if ordered.input == Input::Pipe {
        fd_passing::send(own.as_fd(), fd_passing::receive(caller.as_fd())?)?;
    }
    let child = i32::try_from(started.id()).ok().and_then(Pid::from_raw);
    let child = child.ok_or_else(|| io::Error::other("a process without a number"))?;
    let state = Arc::new(Mutex::new(CommandState::default()));
    let mut listening = caller.try_clone()?;
    let watch = ProcessWatch::new(&ordered.policy, scope);
    listening.set_read_timeout(watch.as_ref().map(|_| Duration::from_millis(WATCH_MS)))?;
    let saying = watch.as_ref().map(|it| Arc::clone(&it.saying));
    let state_there = Arc::clone(&state);
    thread::spawn(move || {
        let signal = |signal| {
            let mut state = state_there.lock();
            if !state.is_over {
                state.was_stopped = true;
                tree::signal_group(child, signal);
            }
        };
        loop {
            match listening.read(&mut [0]) {
                Ok(1..) => signal(Signal::TERM),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                    watch.iter().for_each(ProcessWatch::check);
                }
                Ok(0) | Err(_) => break,
            }
        }
        signal(Signal::KILL);
        scope.iter().for_each(SignalScope::kill_others);
    });
    tree::wait_for(child)?;
    let (status, was_stopped) = {
        let mut state = state.lock();
        state.is_over = true;
        // What stayed in its group goes at once, whatever it starts meanwhile.
        tree::signal_group(child, Signal::KILL);
        (waitpid(Some(child), WaitOptions::empty())?, state.was_stopped)
    };
    // Whoever says why it was ended is a thread of this process, and ends with it.
    if let Some(saying) = saying {
        drop(saying.try_lock_for(SAYING_MAX));
    }
    scope.iter().for_each(SignalScope::kill_others);
    let is_all_gone = tree::end_all();
    let status = status.map(|(_, status)| status);
    let mut why_not = String::new();
    // Everybody who could write there is gone.
    (&mut own).take(WHY_BYTES_MAX).read_to_string(&mut why_not).ok();
    let ended = Ended {
        why_not: (!why_not.is_empty()).then_some(why_not),
        code: status.and_then(|it| it.exit_status()),
        signal: status.and_then(|it| it.terminating_signal()),
        was_stopped,
        is_all_gone,
    };
    // Nobody may be left to be told.
    serde_json::to_writer(&caller, &ended).ok();
    caller.write_all(b"\n").ok();
    Ok(())
}

/// Goes into the sandbox and becomes the command. Returns only if that did not work, with the exit
/// code that says so.
pub fn inside(order: &str, words: &[String]) -> i32 {
    let stdin = match enter(order) {
        Ok(entered) => entered,
        Err(why) => {
            if let Ok(keeper) = io::stdin().as_fd().try_clone_to_owned() {
                write!(UnixStream::from(keeper), "{why}").ok();
            }
            return NO_SANDBOX;
        }
    };
    let Some((program, arguments)) = words.split_first() else { return NOT_FOUND };
    let why = Command::new(program).args(arguments).stdin(stdin).exec();
    // It is a line of the command's output; whoever reads that is told.
    writeln!(io::stderr(), "tasuki: {program} cannot be run: {why}").ok();
    if why.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN }
}

fn enter(order: &str) -> Result<Stdio, Box<dyn std::error::Error>> {
    let order: Order = serde_json::from_str(order)?;
    let stdin = match &order.input {
        Input::File(path) => File::open(path)?.into(),
        Input::Empty => Stdio::null(),
        Input::Pipe => fd_passing::receive(io::stdin().as_fd())?.into(),
    };
    close_around(&order.policy)?;
    Ok(stdin)
}

fn close_around(policy: &Policy) -> Result<(), Box<dyn std::error::Error>> {
    // A session of its own: no terminal, and a process group that is killed as a whole. With it and
    // its limits this one is known for what it is, whoever becomes its parent.
    setsid()?;
    sandbox::limit(policy)?;
    if !end_with_keeper()? {
        return Err("whoever was to watch over it has gone".into());
    }
    match policy.kind {
        Kind::Landlock => {
            sandbox::check_descriptors()?;
            sandbox::enter(policy)?;
        }
        Kind::None => {}
    }
    Ok(())
}

/// From here on this process ends with its keeper. `false`: that is gone already.
#[cfg(target_os = "linux")]
fn end_with_keeper() -> rustix::io::Result<bool> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // Whoever made the socket; in the place of one that was killed is whoever started that.
    let keeper = rustix::net::sockopt::socket_peercred(io::stdin())?.pid;
    Ok(getppid() == Some(keeper))
}

#[cfg(not(target_os = "linux"))]
fn end_with_keeper() -> rustix::io::Result<bool> {
    Ok(!getppid().is_none_or(Pid::is_init))
}
