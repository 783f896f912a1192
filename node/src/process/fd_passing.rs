//! Passes a file descriptor to another process over the socket between them (`SCM_RIGHTS`).
//!
//! What is opened for a command then never is inherited by anything else that is started meanwhile.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// The byte that a descriptor comes with: none comes alone.
const BESIDE: u8 = b'd';

/// Sends a descriptor.
pub(super) fn send(socket: BorrowedFd<'_>, what: OwnedFd) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    let what = [what.as_fd()];
    if !beside.push(SendAncillaryMessage::ScmRights(&what)) {
        return Err(io::Error::other("a descriptor does not fit"));
    }
    sendmsg(socket, &[IoSlice::new(&[BESIDE])], &mut beside, SendFlags::empty())?;
    Ok(())
}

/// Receives the one that was sent; waits for it.
pub(super) fn receive(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    #[cfg(target_os = "linux")]
    let flags = RecvFlags::CMSG_CLOEXEC;
    // Whoever takes it starts nothing else before it is used.
    #[cfg(not(target_os = "linux"))]
    let flags = RecvFlags::empty();
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut beside, flags)?;
    let handed = beside.drain().find_map(|it| {
        let RecvAncillaryMessage::ScmRights(mut all) = it else { return None };
        all.next()
    });
    handed.ok_or_else(|| io::Error::other("no descriptor was sent"))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        os::unix::net::UnixStream,
    };

    use super::*;

    #[test]
    fn the_descriptor_that_is_received_is_the_one_that_was_sent() {
        let (one, two) = UnixStream::pair().unwrap();
        let (mut reader, mut writer) = io::pipe().unwrap();
        send(one.as_fd(), reader.try_clone().unwrap().into()).unwrap();
        let taken = receive(two.as_fd()).unwrap();
        writer.write_all(b"hello").unwrap();
        let mut read = [0; 5];
        std::fs::File::from(taken).read_exact(&mut read).unwrap();
        assert_eq!(&read, b"hello");
        drop(one);
        receive(two.as_fd()).unwrap_err();
        drop(writer);
        assert_eq!(reader.read(&mut read).unwrap(), 0, "nobody else has its other end");
    }
}
