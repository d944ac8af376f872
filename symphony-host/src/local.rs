//! This machine.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use rustix::fs::{FileType, Mode, OFlags};
use tokio::process::{Child, Command as Process};
use tokio::runtime::Handle;

use crate::cgroup::{self, ControlGroup};
use crate::command::{Folder, HostCommand};
use crate::guarantees::Guarantees;
use crate::helper::{self, Launch};
use crate::host::{EarlierLife, Host, SpawnError, SweepError};
use crate::mark::{self, MARK_VARIABLE, Mark, Trace};
use crate::running::{RunningCommand, Survivor, Survivors, supervision};
use crate::streams::{Streams, Theirs};
use crate::supervisor::{self, ProcessTree};
use crate::targets::Targets;
use crate::{harden, wire};

/// How long an earlier life's processes may take to end.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(5);

/// This machine, as a [`Host`]. To be used in a tokio runtime with I/O and time.
#[derive(Clone, Debug)]
pub struct LocalHost {
    /// The program that serves as helper.
    helper: Option<PathBuf>,
    /// Whether commands get control groups where that is possible.
    groups: bool,
}

impl LocalHost {
    /// Commands run below a helper if the program called [`init`](crate::init).
    #[must_use]
    pub fn new() -> Self {
        Self { helper: helper::is_available().then(own_program).flatten(), groups: true }
    }

    /// Another program serves as helper: one of this version that calls [`init`](crate::init), such
    /// as `symphony-helper`. For programs whose `main` is not theirs.
    #[must_use]
    pub fn with_helper(program: impl Into<PathBuf>) -> Self {
        Self { helper: Some(program.into()), groups: true }
    }

    /// Commands run without a helper.
    #[must_use]
    pub const fn without_helper() -> Self {
        Self { helper: None, groups: false }
    }

    /// Makes no control groups, also where it could: for places where another manager owns them.
    #[must_use]
    pub const fn without_control_groups(mut self) -> Self {
        self.groups = false;
        self
    }
}

impl Default for LocalHost {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(target_os = "linux")]
fn own_program() -> Option<PathBuf> {
    // Still this program when its file has been replaced by a newer one.
    Some("/proc/self/exe".into())
}

#[cfg(not(target_os = "linux"))]
fn own_program() -> Option<PathBuf> {
    std::env::current_exe().ok()
}

#[async_trait]
impl Host for LocalHost {
    fn guarantees(&self) -> Guarantees {
        let linux = cfg!(target_os = "linux");
        let helper = self.helper.is_some();
        let tags = mark::is_possible();
        Guarantees {
            whole_tree: linux && helper,
            service_killed: linux && helper,
            helper_killed: tags,
            control_groups: helper && self.groups && cgroup::is_possible(),
            descriptors_closed: helper,
        }
    }

    fn start(&self, command: &HostCommand, mark: &Mark) -> Result<RunningCommand, SpawnError> {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let cannot = |error: io::Error| SpawnError::Helper(Arc::new(error));
        Handle::try_current().map_err(|error| cannot(io::Error::other(error)))?;
        if command.argv().is_empty() {
            return Err(SpawnError::program(&[], io::ErrorKind::InvalidInput.into()));
        }
        let folder = open(command.folder())?;
        let streams = Streams::open(command).map_err(cannot)?;
        let (control, orders, state) = supervision();
        let targets = Targets::new(Trace::command(mark, number), []);
        if let Some(helper) = &self.helper {
            let group = self.groups.then(|| ControlGroup::new(mark.tag(number))).flatten();
            let launch = Launch {
                mark: mark.of_command(number),
                tag: mark.tag(number),
                descriptor_limit: harden::soft_limit_before(),
                service_pid: std::process::id(),
                cgroup: group.as_ref().map(|group| group.folder().into()),
                command: command.argv(),
            };
            let mut process = Process::new(helper);
            set_environment(&mut process, command, mark, number);
            let (child, socket) =
                start_helper(process, launch, &streams.theirs, &folder).map_err(cannot)?;
            let socket = tokio::net::UnixStream::from_std(socket).map_err(cannot)?;
            let tree = ProcessTree {
                command: command.argv(),
                folder: command.folder().clone(),
                targets,
                group,
            };
            tokio::spawn(supervisor::helped(child, socket, tree, orders, state));
        } else {
            let child = directly(command, mark, number, streams.theirs, &folder)
                .map_err(|error| SpawnError::program(&command.argv(), error))?;
            tokio::spawn(supervisor::direct(child, targets, orders, state));
        }
        let ours = streams.ours;
        Ok(RunningCommand::new(control, ours.stdin, ours.stdout, ours.stderr))
    }

    async fn end_leftovers(&self, earlier: &EarlierLife) -> Result<Vec<Survivor>, SweepError> {
        let trace = Trace::service(&earlier.service);
        // Any process of our user can write a record: alone it proves nothing.
        let records: Vec<_> =
            earlier.records.iter().copied().filter(|&process| trace.is_named_by(process)).collect();
        let targets = Targets::new(trace, records);
        let found = targets.find().map_err(SweepError::Table)?;
        let tag = Mark::new(&earlier.service, "").tag(0);
        let hunt = tokio::task::spawn_blocking(move || {
            cgroup::end_leftovers(tag);
            let left = targets.kill_all(SWEEP_TIMEOUT);
            // Now the groups are empty, and can go.
            cgroup::end_leftovers(tag);
            left
        });
        let left = hunt.await.map_err(io::Error::other).and_then(|left| left);
        let left: Vec<_> =
            left.map_err(SweepError::Table)?.into_iter().map(Survivor::from).collect();
        if !left.is_empty() {
            return Err(SweepError::Survivors(Survivors { processes: left.into() }));
        }
        Ok(found.rows.into_iter().map(Survivor::from).collect())
    }
}

/// Opens the folder, to be sure that it is one and stays the same.
fn open(folder: &Folder) -> Result<Arc<OwnedFd>, SpawnError> {
    match folder {
        Folder::Handle(handle) => match rustix::fs::fstat(handle) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_dir() => Ok(Arc::clone(handle)),
            Ok(_) => Err(SpawnError::folder(folder, io::ErrorKind::NotADirectory.into())),
            Err(error) => Err(SpawnError::folder(folder, error.into())),
        },
        Folder::Path(path) => {
            #[cfg(target_os = "linux")]
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            #[cfg(not(target_os = "linux"))]
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let opened = rustix::fs::open(path, flags, Mode::empty());
            opened.map(Arc::new).map_err(|error| SpawnError::folder(folder, error.into()))
        }
    }
}

/// Starts a helper, and hands it the streams and the folder.
fn start_helper(
    mut process: Process,
    launch: Launch,
    theirs: &Theirs,
    folder: &OwnedFd,
) -> io::Result<(Child, UnixStream)> {
    let (socket, stdin) = UnixStream::pair()?;
    let [input, output, errors] = theirs;
    wire::send_descriptors(
        &socket,
        [input.as_fd(), output.as_fd(), errors.as_fd(), folder.as_fd()],
    )?;
    socket.set_nonblocking(true)?;
    process.arg0(std::ffi::OsStr::from_bytes(helper::NAME.to_bytes())).args(launch.into_args());
    process.stdin(OwnedFd::from(stdin)).stdout(Stdio::null()).stderr(Stdio::null());
    Ok((process.spawn()?, socket))
}

/// Starts the command itself, and tags it. A child that it starts before that is not found if it
/// hides.
fn directly(
    command: &HostCommand,
    mark: &Mark,
    number: u32,
    theirs: Theirs,
    folder: &OwnedFd,
) -> io::Result<Child> {
    let argv = command.argv();
    let (program, args) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut process = Process::new(program);
    let [stdin, stdout, stderr] = theirs;
    process.args(args).stdin(stdin).stdout(stdout).stderr(stderr).process_group(0);
    match command.folder() {
        Folder::Path(path) if !cfg!(target_os = "linux") => process.current_dir(path),
        _ => process.current_dir(format!("/proc/self/fd/{}", folder.as_raw_fd())),
    };
    set_environment(&mut process, command, mark, number);
    let child = process.spawn()?;
    let pid = child.id().and_then(|pid| rustix::process::Pid::from_raw(i32::try_from(pid).ok()?));
    if let Some(pid) = pid {
        mark::put(mark.tag(number), Some(pid));
    }
    Ok(child)
}

fn set_environment(process: &mut Process, command: &HostCommand, mark: &Mark, number: u32) {
    for (name, value) in command.changes() {
        match value {
            Some(value) => process.env(name, value),
            None => process.env_remove(name),
        };
    }
    process.env(MARK_VARIABLE, mark.of_command(number));
}
