//! What the service and a helper say to each other, over a socket that is the helper's stdin.
//!
//! First the command's three streams and its folder go down as descriptors; then orders go down and
//! reports come up, a line each. The socket's end is an order too: the service is gone.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::str::FromStr;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::process::ProcessId;
use crate::running::{Exit, StopOrder};

/// Stdin, stdout, stderr and the folder.
pub(crate) const DESCRIPTOR_COUNT: usize = 4;

/// Hands the descriptors to the other side.
pub(crate) fn send_descriptors(
    socket: impl AsFd,
    descriptors: [BorrowedFd<'_>; DESCRIPTOR_COUNT],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTOR_COUNT))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    sendmsg(socket, &[IoSlice::new(b"\n")], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Takes them. None of them goes to a child by itself.
pub(crate) fn receive_descriptors(socket: impl AsFd) -> io::Result<[OwnedFd; DESCRIPTOR_COUNT]> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTOR_COUNT))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0; 1];
    #[cfg(target_os = "linux")]
    let flags = RecvFlags::CMSG_CLOEXEC;
    // A helper has one thread, and marks all it has before it starts anything.
    #[cfg(not(target_os = "linux"))]
    let flags = RecvFlags::empty();
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)?;
    let mut taken = Vec::with_capacity(DESCRIPTOR_COUNT);
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            taken.extend(descriptors);
        }
    }
    taken.try_into().map_err(|_| io::ErrorKind::UnexpectedEof.into())
}

impl fmt::Display for StopOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stop(grace) => {
                writeln!(f, "stop {}", u64::try_from(grace.as_millis()).unwrap_or(u64::MAX))
            }
            Self::Kill => writeln!(f, "kill"),
        }
    }
}

impl FromStr for StopOrder {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        match line.split_once(' ') {
            Some(("stop", millis)) => {
                millis.parse().map(|millis| Self::Stop(Duration::from_millis(millis))).map_err(drop)
            }
            None if line == "kill" => Ok(Self::Kill),
            _ => Err(()),
        }
    }
}

/// What a helper tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The command runs.
    Started(Option<ProcessId>),
    /// Its folder cannot be entered: an error number.
    NoFolder(i32),
    /// It could not be started: an error number.
    Failed(i32),
    /// It has ended.
    Exited(Exit),
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started(Some(leader)) => writeln!(f, "started {leader}"),
            Self::Started(None) => writeln!(f, "started"),
            Self::NoFolder(errno) => writeln!(f, "folder {errno}"),
            Self::Failed(errno) => writeln!(f, "failed {errno}"),
            Self::Exited(Exit::Code(code)) => writeln!(f, "code {code}"),
            Self::Exited(Exit::Signal(signal)) => writeln!(f, "signal {signal}"),
            Self::Exited(Exit::Lost) => writeln!(f, "lost"),
        }
    }
}

impl FromStr for Report {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let number = || rest.parse().map_err(drop);
        match word {
            "started" => Ok(Self::Started(rest.parse().ok())),
            "folder" => Ok(Self::NoFolder(number()?)),
            "failed" => Ok(Self::Failed(number()?)),
            "code" => Ok(Self::Exited(Exit::Code(number()?))),
            "signal" => Ok(Self::Exited(Exit::Signal(number()?))),
            "lost" => Ok(Self::Exited(Exit::Lost)),
            _ => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        for order in [
            StopOrder::Kill,
            StopOrder::Stop(Duration::ZERO),
            StopOrder::Stop(Duration::from_secs(5)),
        ] {
            assert_eq!(order.to_string().trim_end().parse(), Ok(order));
        }
        let endless = StopOrder::Stop(Duration::MAX).to_string();
        assert_eq!(
            endless.trim_end().parse(),
            Ok(StopOrder::Stop(Duration::from_millis(u64::MAX)))
        );
        let leader = ProcessId::from_pid(std::process::id());
        for report in [
            Report::Started(leader),
            Report::Started(None),
            Report::NoFolder(20),
            Report::Failed(2),
            Report::Exited(Exit::Code(3)),
            Report::Exited(Exit::Signal(9)),
            Report::Exited(Exit::Lost),
        ] {
            assert_eq!(report.to_string().trim_end().parse(), Ok(report));
        }
    }

    #[test]
    fn what_is_not_understood_is_nothing() {
        for line in ["", "stop", "stop x", "stop -1", "kill now", "sing"] {
            assert_eq!(line.parse::<StopOrder>(), Err(()), "{line}");
        }
        for line in ["", "failed", "folder", "code x", "gone"] {
            assert_eq!(line.parse::<Report>(), Err(()), "{line}");
        }
    }

    #[test]
    fn descriptors_arrive_in_their_order() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let (reader, writer) = io::pipe().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        send_descriptors(&ours, [reader.as_fd(), writer.as_fd(), null.as_fd(), null.as_fd()])
            .unwrap();
        let [mut reader, mut writer, ..] =
            receive_descriptors(&theirs).unwrap().map(std::fs::File::from);
        io::Write::write_all(&mut writer, b"x").unwrap();
        let mut byte = [0];
        io::Read::read_exact(&mut reader, &mut byte).unwrap();
        assert_eq!(byte, *b"x");
        drop(ours);
        assert!(receive_descriptors(&theirs).is_err());
    }
}
