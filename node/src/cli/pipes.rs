//! This process's standard input and output.
//!
//! A client that starts a server gives it pipes or sockets. Those are waited for like any
//! connection; what else it may be (a file, a terminal) is read and written on a thread beside,
//! which costs each message two more changes of thread.

use tokio::io::{AsyncRead, AsyncWrite};

pub(super) type Input = Box<dyn AsyncRead + Send + Unpin>;
pub(super) type Output = Box<dyn AsyncWrite + Send + Unpin>;

pub(super) fn stdin() -> Input {
    #[cfg(unix)]
    if let Some(input) = unix::stdin() {
        return input;
    }
    Box::new(tokio::io::stdin())
}

pub(super) fn stdout() -> Output {
    #[cfg(unix)]
    if let Some(output) = unix::stdout() {
        return output;
    }
    Box::new(tokio::io::stdout())
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

    use rustix::fs::FileType;
    use tokio::net::{UnixStream, unix::pipe};

    use super::{Input, Output};

    enum Kind {
        Pipe(OwnedFd),
        Socket(UnixStream),
    }

    /// `None`: nothing that can be waited for.
    fn kind(fd: BorrowedFd<'_>) -> io::Result<Option<Kind>> {
        let is = FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode);
        let fd = fd.try_clone_to_owned()?;
        if is == FileType::Fifo {
            return Ok(Some(Kind::Pipe(fd)));
        }
        if is != FileType::Socket {
            return Ok(None);
        }
        let socket = net::UnixStream::from(fd);
        socket.set_nonblocking(true)?;
        Ok(Some(Kind::Socket(UnixStream::from_std(socket)?)))
    }

    pub(super) fn stdin() -> Option<Input> {
        match kind(io::stdin().as_fd()).ok()?? {
            Kind::Pipe(fd) => Some(Box::new(pipe::Receiver::from_owned_fd(fd).ok()?)),
            Kind::Socket(socket) => Some(Box::new(socket)),
        }
    }

    pub(super) fn stdout() -> Option<Output> {
        match kind(io::stdout().as_fd()).ok()?? {
            Kind::Pipe(fd) => Some(Box::new(pipe::Sender::from_owned_fd(fd).ok()?)),
            Kind::Socket(socket) => Some(Box::new(socket)),
        }
    }
}
