//! This process's standard input and output.
//!
//! A client that starts a server gives it pipes or sockets. Those are waited for like any
//! connection; what else it may be (a file, a terminal) is read and written on a thread beside,
//! which costs each message two more changes of thread.
//!
//! **Invariant:** whoever shares them finds them as they were: what is waited for must not block,
//! and that is a mode of the open file, not of this process.

use tokio::io::{AsyncRead, AsyncWrite};

type Input = Box<dyn AsyncRead + Send + Unpin>;
type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// Both, until it is dropped.
pub(super) struct Pipes {
    pub stdin: Input,
    pub stdout: Output,
    /// Dropped after those that need them so.
    #[cfg(unix)]
    _modes: Vec<unix::Mode>,
}

#[cfg(unix)]
pub(super) fn open() -> Pipes {
    let mut modes = Vec::new();
    let stdin = unix::stdin(&mut modes).unwrap_or_else(|| Box::new(tokio::io::stdin()));
    let stdout = unix::stdout(&mut modes).unwrap_or_else(|| Box::new(tokio::io::stdout()));
    Pipes { stdin, stdout, _modes: modes }
}

#[cfg(not(unix))]
pub(super) fn open() -> Pipes {
    Pipes { stdin: Box::new(tokio::io::stdin()), stdout: Box::new(tokio::io::stdout()) }
}

#[cfg(unix)]
mod unix {
    use std::{
        io,
        os::{
            fd::{AsFd as _, BorrowedFd, OwnedFd},
            unix::net,
        },
    };

    use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
    use tokio::net::{UnixStream, unix::pipe};

    use super::{Input, Output};

    /// An open file's mode as it was found, and is again when this is dropped.
    pub(super) struct Mode {
        of: OwnedFd,
        flags: OFlags,
    }

    impl Drop for Mode {
        fn drop(&mut self) {
            if let Err(why) = fcntl_setfl(&self.of, self.flags) {
                tracing::debug!(%why, "a stream's mode stays as it is");
            }
        }
    }

    pub(super) fn stdin(modes: &mut Vec<Mode>) -> Option<Input> {
        let stdin = io::stdin();
        if is(stdin.as_fd(), FileType::Fifo) {
            return Some(Box::new(pipe::OpenOptions::new().open_receiver("/proc/self/fd/0").ok()?));
        }
        Some(Box::new(socket(stdin.as_fd(), modes).ok()??))
    }

    pub(super) fn stdout(modes: &mut Vec<Mode>) -> Option<Output> {
        let stdout = io::stdout();
        if is(stdout.as_fd(), FileType::Fifo) {
            return Some(Box::new(pipe::OpenOptions::new().open_sender("/proc/self/fd/1").ok()?));
        }
        Some(Box::new(socket(stdout.as_fd(), modes).ok()??))
    }

    fn is(fd: BorrowedFd<'_>, kind: FileType) -> bool {
        fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == kind)
    }

    /// A pipe that is opened once more has a mode of its own; a socket cannot be. `None`: it is
    /// none.
    fn socket(fd: BorrowedFd<'_>, modes: &mut Vec<Mode>) -> io::Result<Option<UnixStream>> {
        if !is(fd, FileType::Socket) {
            return Ok(None);
        }
        let flags = fcntl_getfl(fd)?;
        // Input and output may be one; the first look found it as it was.
        if !flags.contains(OFlags::NONBLOCK) {
            modes.push(Mode { of: fd.try_clone_to_owned()?, flags });
        }
        let socket = net::UnixStream::from(fd.try_clone_to_owned()?);
        socket.set_nonblocking(true)?;
        UnixStream::from_std(socket).map(Some)
    }
}
