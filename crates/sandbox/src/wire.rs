//! The protocol between the runtime and an init: frames with a length, and file descriptors beside them.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest message. Linux's longest argument and an environment fit.
const FRAME_MAX_BYTES: usize = 1024 * 1024;
/// Limit of file descriptors beside one message.
const FDS_MAX: usize = 5;
const HEADER: usize = size_of::<u32>();

/// Sends a message, with file descriptors on its first byte.
pub(super) fn send(socket: &UnixStream, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= FRAME_MAX_BYTES);
    let length =
        length.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the message is too long"))?;
    let header = length.to_le_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many file descriptors"));
    }
    let sent = retry(|| sendmsg(socket, &[IoSlice::new(&header)], &mut control, SendFlags::NOSIGNAL))?;
    (&mut &*socket).write_all(&header[sent..])?;
    (&mut &*socket).write_all(&body)
}

/// Receives a message and its file descriptors; `None` at the end of the stream.
pub(super) fn receive<T: DeserializeOwned>(socket: &UnixStream) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut header = [0; HEADER];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = retry(|| {
        recvmsg(socket, &mut [IoSliceMut::new(&mut header)], &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    if got.bytes == 0 {
        return Ok(None);
    }
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    (&mut &*socket).read_exact(&mut header[got.bytes..])?;
    let length = u32::from_le_bytes(header) as usize;
    if length > FRAME_MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long"));
    }
    let mut body = vec![0; length];
    (&mut &*socket).read_exact(&mut body)?;
    Ok(Some((serde_json::from_slice(&body)?, fds)))
}

/// Repeats a call that a signal interrupted.
pub(super) fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_message_and_its_descriptors_arrive_and_the_end_is_seen() {
        let (here, there) = UnixStream::pair().expect("a pair");
        let (kept, passed) = UnixStream::pair().expect("a pair");
        let long = "x".repeat(FRAME_MAX_BYTES / 2);
        let sender = std::thread::spawn(move || {
            send(&here, &long, &[passed.as_fd()]).expect("sent");
            send(&here, &"short", &[]).expect("sent");
            let refused = send(&here, &"x".repeat(FRAME_MAX_BYTES), &[]).expect_err("too long");
            assert_eq!(refused.to_string(), "the message is too long");
        });
        let (text, fds) = receive::<String>(&there).expect("received").expect("a message");
        assert_eq!((text.len(), fds.len()), (FRAME_MAX_BYTES / 2, 1));
        (&kept).write_all(b"!").expect("written");
        let mut byte = [0];
        UnixStream::from(fds.into_iter().next().expect("one")).read_exact(&mut byte).expect("read");
        assert_eq!(&byte, b"!");
        assert_eq!(receive::<String>(&there).expect("received").expect("a message").0, "short");
        sender.join().expect("joined");
        assert!(receive::<String>(&there).expect("the end").is_none());
    }

    #[test]
    fn a_length_from_nowhere_is_refused() {
        let (here, there) = UnixStream::pair().expect("a pair");
        (&here).write_all(&u32::MAX.to_le_bytes()).expect("written");
        assert!(receive::<String>(&there).is_err());
    }
}
