//! A command under its keeper, as whoever started it has it.
//!
//! - The command is over when [`Kept::told`] says so, and nothing of it is left then.
//! - When a [`Kept`] is dropped its socket closes, and the keeper ends everything.
//! - What is left of a command whose keeper was killed comes to this process, and [`Kept::gone`]
//!   ends it. A command of the same user that is in no sandbox can kill this process as well: then
//!   nobody is left to do that.

use std::{
    ffi::OsString,
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream as Pair,
    },
    path::Path,
    process::Stdio,
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{UnixStream, unix::pipe},
    process::{Child, Command},
    task::spawn_blocking,
    time::timeout,
};

use super::{
    fd_passing,
    keeper::{Ended, KEEPER, Order, TERMINATE},
    tree,
};

/// For a keeper to end what it keeps, in milliseconds, once it was asked to.
const END_MS: u64 = 10_000;

/// What a keeper says, in bytes: one line of its own.
const TOLD_BYTES_MAX: usize = 4096;

/// Where a command runs.
#[derive(Debug)]
pub struct Surroundings<'a> {
    pub directory: &'a Path,
    /// All of it: nothing else is passed on.
    pub environment: &'a [(String, OsString)],
}

/// What a command prints, read by whoever started it.
#[derive(Debug)]
pub struct Pipes {
    pub stdout: pipe::Receiver,
    /// `None`: it goes where standard output goes, in the order in which both were written.
    pub stderr: Option<pipe::Receiver>,
}

/// Whether the two outputs of a command are read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outputs {
    Together,
    Apart,
}

/// What keeps a command that runs.
#[derive(Debug)]
pub struct Kept {
    keeper: Child,
    own: UnixStream,
    /// What it said so far.
    line: Vec<u8>,
}

impl Kept {
    /// Starts a command. Its standard input is what the order names: `input` where that is a
    /// [pipe](super::keeper::Input::Pipe).
    ///
    /// # Errors
    /// When no keeper can be started. That a command is not there, the keeper tells.
    pub fn start(
        program: &Path,
        order: &Order,
        at: &Surroundings<'_>,
        outputs: Outputs,
        input: Option<OwnedFd>,
    ) -> io::Result<(Self, Pipes)> {
        // What is left when a keeper is killed by somebody else comes to this process.
        tree::adopt()?;
        let (own, theirs) = Pair::pair()?;
        own.set_nonblocking(true)?;
        let mut command = Command::new(program);
        command.args(["sandboxed", KEEPER]).arg(serde_json::to_string(order)?).args(&order.words);
        command.current_dir(at.directory).env_clear();
        command.envs(at.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        let (stdout, writer) = io::pipe()?;
        let stdout = pipe::Receiver::from_owned_fd(OwnedFd::from(stdout))?;
        let stderr = match outputs {
            Outputs::Together => {
                command.stderr(Stdio::from(OwnedFd::from(writer.try_clone()?)));
                None
            }
            Outputs::Apart => {
                let (stderr, writer) = io::pipe()?;
                command.stderr(Stdio::from(OwnedFd::from(writer)));
                Some(pipe::Receiver::from_owned_fd(OwnedFd::from(stderr))?)
            }
        };
        command.stdout(Stdio::from(OwnedFd::from(writer)));
        // A terminal's interrupt is this process's to pass on.
        command.process_group(0);
        let keeper = command.spawn()?;
        if let Some(input) = input {
            fd_passing::send(own.as_fd(), input)?;
        }
        let own = UnixStream::from_std(own)?;
        Ok((Self { keeper, own, line: Vec::new() }, Pipes { stdout, stderr }))
    }

    /// How the command ended; `None`: the keeper is gone without a word. May be dropped and called
    /// again.
    pub async fn told(&mut self) -> Option<Ended> {
        while !self.line.contains(&b'\n') {
            if TOLD_BYTES_MAX <= self.line.len() {
                return None;
            }
            let Ok(1..) = self.own.read_buf(&mut self.line).await else { return None };
        }
        self.ended()
    }

    /// What it has said.
    fn ended(&self) -> Option<Ended> {
        let end = self.line.iter().position(|byte| *byte == b'\n')?;
        serde_json::from_slice(&self.line[..end]).ok()
    }

    /// Asks the command to end by itself (SIGTERM, to its process group).
    pub async fn terminate(&mut self) {
        // Who is gone needs not be asked.
        self.own.write_all(&[TERMINATE]).await.ok();
    }

    /// Ends the command, and says how it ended.
    pub async fn end(&mut self) -> Option<Ended> {
        self.own.shutdown().await.ok()?;
        timeout(Duration::from_millis(END_MS), self.told()).await.ok()?
    }

    /// Waits for the keeper to be gone, and ends it if it does not. What it did not end is ended.
    /// Whether nothing of the command is left.
    pub async fn gone(&mut self) -> bool {
        let limit = Duration::from_millis(END_MS);
        if timeout(limit, self.keeper.wait()).await.is_err() {
            self.keeper.kill().await.ok();
        }
        if self.ended().is_some_and(|it| it.is_all_gone) {
            return true;
        }
        matches!(timeout(limit, spawn_blocking(tree::end_strays)).await, Ok(Ok(true)))
    }
}
