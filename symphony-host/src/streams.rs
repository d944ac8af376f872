//! The pipes between a command and us.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use tokio::net::unix::pipe;

use crate::command::{HostCommand, Stderr, Stdin};
use crate::running::{Input, Output};

/// The command's ends: stdin, stdout, stderr.
pub(crate) type Theirs = [OwnedFd; 3];

/// Our ends.
pub(crate) struct Ours {
    pub(crate) stdin: Option<Input>,
    pub(crate) stdout: Option<Output>,
    pub(crate) stderr: Option<Output>,
}

pub(crate) struct Streams {
    pub(crate) ours: Ours,
    pub(crate) theirs: Theirs,
}

impl Streams {
    /// Both ends of each; none of them goes to another child.
    pub(crate) fn open(command: &HostCommand) -> io::Result<Self> {
        let (stdin, input) = match command.stdin() {
            Stdin::Empty => (None, File::open("/dev/null")?.into()),
            Stdin::Piped => {
                let (theirs, ours) = io::pipe()?;
                let ours = pipe::Sender::from_owned_fd(ours.into())?;
                (Some(Box::new(ours) as Input), OwnedFd::from(theirs))
            }
        };
        let (stdout, output) = read_from()?;
        let (stderr, errors) = match command.stderr() {
            Stderr::Merged => (None, output.try_clone()?),
            Stderr::Apart => {
                let (ours, theirs) = read_from()?;
                (Some(ours), theirs)
            }
        };
        let ours = Ours { stdin, stdout: Some(stdout), stderr };
        Ok(Self { ours, theirs: [input, output, errors] })
    }
}

fn read_from() -> io::Result<(Output, OwnedFd)> {
    let (ours, theirs) = io::pipe()?;
    Ok((Box::new(pipe::Receiver::from_owned_fd(ours.into())?), theirs.into()))
}
