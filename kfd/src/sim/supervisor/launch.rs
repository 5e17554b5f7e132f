//! Starting the program: fork, filter, hand over the listener, exec.
//!
//! The child puts itself under the filter between fork and exec and sends the listener through a socket; nothing it
//! does after that stops before exec has happened. The program dies with its supervisor.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use super::Error;
use super::filter;
use super::listener::Listener;

/// Starts `command` under the filter; `more`: calls that stop besides those about devices.
pub(crate) fn launch(mut command: Command, more: &[libc::c_long]) -> Result<(Child, Listener), Error> {
    let (here, there) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(|error| Error::System("socketpair", error.into()))?;
    let program = filter::program(more);
    let socket = there.as_raw_fd();
    let under_filter = move || {
        let fd = filter::install(&program)?;
        send(socket, fd)
    };
    // SAFETY: between fork and exec the closure only makes system calls (prctl, seccomp, sendmsg) on memory that was
    // allocated before; it takes no lock and allocates nothing.
    unsafe { command.pre_exec(under_filter) };
    let started = command.spawn();
    drop(there);
    let listener = receive(&here);
    match (started, listener) {
        (Ok(child), Ok(listener)) => Ok((child, Listener::new(listener))),
        (Err(error), Ok(_)) => Err(Error::Program(command.get_program().to_string_lossy().into_owned(), error)),
        (Err(error), Err(_)) => Err(Error::NoNotification(error)),
        (Ok(_), Err(error)) => Err(Error::System("the listener", error)),
    }
}

/// Sends a descriptor. Allocates nothing.
fn send(socket: i32, fd: i32) -> io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes a signal number and touches no memory (prctl(2)).
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    // SAFETY: the socket was opened before the fork and is closed by exec, after this.
    let socket = unsafe { BorrowedFd::borrow_raw(socket) };
    // SAFETY: seccomp(2) has just returned this descriptor, and exec closes it, after this.
    let listener = [unsafe { BorrowedFd::borrow_raw(fd) }];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&listener));
    sendmsg(socket, &[IoSlice::new(b"l")], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn receive(socket: &OwnedFd) -> io::Result<OwnedFd> {
    let mut byte = [0u8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut fds) = message
            && let Some(fd) = fds.next()
        {
            return Ok(fd);
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}
