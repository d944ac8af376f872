//! The helper: a small process above each command that outlives neither its service nor its tree.
//!
//! It is a subreaper: an orphan below it becomes its child. So the tree is gone exactly when the
//! helper has no child left, which `wait` tells without a race; and then it ends. It has one thread
//! and reaps no child between listing and killing, so a PID cannot have been reused.

use std::env;
use std::ffi::{CStr, OsString};
use std::io::{self, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

use crate::cgroup;
use crate::mark::{self, Tag};
use crate::process;
use crate::running::{Exit, StopOrder};
use crate::wire::{self, Report};

/// What a helper is called, and how it knows that it is one.
pub(crate) const NAME: &CStr = c"symphony-helper";

/// Signals that would end a helper by default. They are caught: only its service, or the death of
/// its service, ends a helper.
const HANDLED_SIGNALS: [i32; 7] = {
    use signal_hook::consts::signal::{
        SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2,
    };
    [SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2]
};

/// The pause between two rounds of kills: it doubles from the first to the second while no child
/// dies.
const MIN_KILL_PAUSE: Duration = Duration::from_millis(1);
const MAX_KILL_PAUSE: Duration = Duration::from_secs(1);

static INITIALISED: AtomicBool = AtomicBool::new(false);

/// Lets this program serve as its own helper. Call it first thing in `main`:
///
/// ```
/// symphony_host::init();
/// // ... the program
/// ```
///
/// Commands run below a second process of the same program. In that one this call does the work
/// and never returns. A program that does not call it gets weaker guarantees: see
/// [`Guarantees`](crate::Guarantees).
pub fn init() {
    let mut args = env::args_os();
    if args.next().is_some_and(|name| name.as_bytes() == NAME.to_bytes()) {
        let code = match serve(args) {
            Ok(()) => 0,
            Err(error) => {
                let _ = writeln!(io::stderr(), "symphony-helper: {error}");
                1
            }
        };
        #[expect(clippy::exit, reason = "the program itself must not run in a helper")]
        std::process::exit(code);
    }
    INITIALISED.store(true, Ordering::Relaxed);
}

/// Whether [`init`] was called.
pub(crate) fn is_available() -> bool {
    INITIALISED.load(Ordering::Relaxed)
}

/// What a helper is told when it starts. The command's environment is the helper's own.
#[derive(Debug)]
pub(crate) struct Launch {
    /// The mark, as an argument, so that the process list shows it.
    pub(crate) mark: OsString,
    pub(crate) tag: Tag,
    /// The soft limit of descriptors that the command is to have.
    pub(crate) descriptor_limit: Option<u64>,
    pub(crate) service_pid: u32,
    /// The folder of the control group to run in.
    pub(crate) cgroup: Option<PathBuf>,
    pub(crate) command: Vec<OsString>,
}

impl Launch {
    pub(crate) fn into_args(self) -> Vec<OsString> {
        let descriptor_limit =
            self.descriptor_limit.map_or_else(|| "-".into(), |limit| limit.to_string());
        let mut args = vec![
            self.mark,
            self.tag.number().to_string().into(),
            descriptor_limit.into(),
            self.service_pid.to_string().into(),
            self.cgroup.map_or_else(|| "-".into(), PathBuf::into_os_string),
        ];
        args.extend(self.command);
        args
    }

    fn from_args(mut args: impl Iterator<Item = OsString>) -> Option<Self> {
        Some(Self {
            mark: args.next()?,
            tag: Tag::from_number(args.next()?.to_str()?.parse().ok()?),
            descriptor_limit: args.next()?.to_str()?.parse().ok(),
            service_pid: args.next()?.to_str()?.parse().ok()?,
            cgroup: args.next().filter(|group| group != "-").map(Into::into),
            command: args.collect(),
        })
    }
}

/// A helper's whole life.
fn serve(args: impl Iterator<Item = OsString>) -> io::Result<()> {
    let launch = Launch::from_args(args).ok_or(io::ErrorKind::InvalidInput)?;
    let wakeup = register_signals()?;
    prepare(&launch)?;
    let service = service_handle(launch.service_pid)?;
    let served = match start(&launch) {
        Ok(leader) => {
            send_report(Report::Started(process::row(leader).map(|row| row.id())));
            let socket = rustix::stdio::stdin();
            let mut helper = Helper { socket, service, wakeup, leader, leader_running: true };
            // After an error, too, nothing may be left behind.
            helper.follow_orders().or_else(|_| helper.kill())
        }
        Err(report) => {
            send_report(report);
            Ok(())
        }
    };
    if let (Ok(()), Some(group)) = (&served, &launch.cgroup) {
        let _ = cgroup::leave(group);
    }
    served
}

/// Turns each signal, SIGCHLD too, into a byte on the returned socket (the self-pipe trick).
fn register_signals() -> io::Result<UnixStream> {
    let (wakeup, sender) = UnixStream::pair()?;
    wakeup.set_nonblocking(true)?;
    for signal in HANDLED_SIGNALS.into_iter().chain([signal_hook::consts::SIGCHLD]) {
        signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
    }
    Ok(wakeup)
}

/// Makes this process a session leader and a child subreaper, and sets its tag, control group and
/// limits.
fn prepare(launch: &Launch) -> io::Result<()> {
    // In a session of its own, so that no group below can hold a process that is not ours, and
    // no command can reach the terminal.
    rustix::process::setsid()?;
    close_fds::set_fds_cloexec(3, &[]);
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_child_subreaper, set_dumpable_behavior};
        set_child_subreaper(Some(rustix::process::getpid()))?;
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        rustix::thread::set_name(NAME)?;
    }
    mark::put(launch.tag, None);
    if let Some(group) = &launch.cgroup {
        // An extra: the tag is there in any case.
        let _ = cgroup::join(group);
    }
    if let Some(limit) = launch.descriptor_limit {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum })?;
    }
    Ok(())
}

/// Opens a handle (pidfd) that is ready when the service is gone, even if a copy of its socket is
/// open elsewhere. Returns `None` where there are no such handles: then only the socket's end
/// tells.
///
/// # Errors
/// The service is gone already.
fn service_handle(service_pid: u32) -> io::Result<Option<OwnedFd>> {
    let service = i32::try_from(service_pid).ok().and_then(Pid::from_raw);
    // Opened before the check: after it the PID cannot be reused.
    let handle = service.and_then(|service| process::handle(service).ok());
    if rustix::process::getppid() != service {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(handle)
}

/// Starts the command in a group of its own, with the streams and in the folder it was handed.
fn start(launch: &Launch) -> Result<Pid, Report> {
    let failed = |error: io::Error| Report::Failed(error.raw_os_error().unwrap_or_default());
    let [stdin, stdout, stderr, folder] =
        wire::receive_descriptors(rustix::stdio::stdin()).map_err(failed)?;
    rustix::process::fchdir(&folder).map_err(|error| Report::NoFolder(error.raw_os_error()))?;
    let Some((program, args)) = launch.command.split_first() else {
        return Err(failed(io::ErrorKind::InvalidInput.into()));
    };
    let child = Command::new(program)
        .args(args)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr)
        .process_group(0)
        .spawn();
    // The helper itself stays out of the workspace.
    let _ = rustix::process::chdir("/");
    let number = i32::try_from(child.map_err(failed)?.id()).ok();
    number.and_then(Pid::from_raw).ok_or_else(|| failed(io::ErrorKind::Other.into()))
}

/// Sends a report to the service. If the service is gone, the socket's end says so next.
fn send_report(report: Report) {
    let _ = rustix::io::write(rustix::stdio::stdin(), report.to_string().as_bytes());
}

struct Helper<'a> {
    /// Where the service sends its orders.
    socket: BorrowedFd<'a>,
    /// Ready when the service is gone.
    service: Option<OwnedFd>,
    /// Ready when a signal has come.
    wakeup: UnixStream,
    /// The command itself, and its group.
    leader: Pid,
    /// Whether the leader has not been reaped yet: after that its PID may be reused.
    leader_running: bool,
}

impl Helper<'_> {
    /// Follows orders until the tree is gone.
    fn follow_orders(&mut self) -> io::Result<()> {
        let mut orders = OrderBuffer::default();
        let mut deadline = None;
        while !self.reap()? {
            match self.next(&mut orders, deadline)? {
                Next::Reap => {}
                Next::StopOrder(StopOrder::Kill) => return self.kill(),
                Next::StopOrder(StopOrder::Stop(grace)) => {
                    if deadline.is_none() {
                        self.ask_to_end();
                    }
                    deadline = deadline.into_iter().chain(Instant::now().checked_add(grace)).min();
                }
            }
        }
        Ok(())
    }

    /// Waits for an order, a child that ends, the deadline, or the service's end.
    fn next(&self, orders: &mut OrderBuffer, deadline: Option<Instant>) -> io::Result<Next> {
        if let Some(order) = orders.next() {
            return Ok(Next::StopOrder(order));
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(Next::StopOrder(StopOrder::Kill));
        }
        let mut sources = vec![
            PollFd::new(&self.socket, PollFlags::IN),
            PollFd::new(&self.wakeup, PollFlags::IN),
        ];
        sources.extend(self.service.as_ref().map(|service| PollFd::new(service, PollFlags::IN)));
        wait(&mut sources, left)?;
        let is_ready = |source: usize| sources.get(source).is_some_and(|s| !s.revents().is_empty());
        drain(&self.wakeup);
        if is_ready(2) || (is_ready(0) && !orders.receive(self.socket)?) {
            return Ok(Next::StopOrder(StopOrder::Kill));
        }
        Ok(Next::Reap)
    }

    /// Reaps children that have ended, and says whether none is left.
    fn reap(&mut self) -> io::Result<bool> {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if self.leader_running && pid == self.leader => {
                    self.leader_running = false;
                    send_report(Report::Exited(
                        match (status.exit_status(), status.terminating_signal()) {
                            (Some(code), _) => Exit::Code(code),
                            (None, Some(signal)) => Exit::Signal(signal),
                            (None, None) => Exit::Lost,
                        },
                    ));
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return Ok(false),
                Err(Errno::CHILD) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends SIGTERM to every process, once: first to the group as a whole, then to those that have
    /// left it. A stopped process handles it when it is woken.
    fn ask_to_end(&self) {
        if self.leader_running {
            let _ = rustix::process::kill_process_group(self.leader, Signal::TERM);
        }
        let me = rustix::process::getpid();
        let tree = process::table()
            .map(|table| process::with_descendants(table, &[me.as_raw_nonzero().get()].into()));
        for row in tree.unwrap_or_default().iter().filter(|row| row.pid != me) {
            if !self.leader_running || row.group != self.leader.as_raw_nonzero().get() {
                let _ = row.id().signal(Signal::TERM);
            }
            if row.is_stopped() {
                let _ = row.id().signal(Signal::CONT);
            }
        }
    }

    /// Kills children until there are none: those of a killed one become ours and are next.
    fn kill(&mut self) -> io::Result<()> {
        let mut pause = MIN_KILL_PAUSE;
        while !self.reap()? {
            self.kill_children();
            if wait(&mut [PollFd::new(&self.wakeup, PollFlags::IN)], Some(pause)).is_err() {
                std::thread::sleep(pause);
            }
            // Only what cannot be killed (another user's, or stuck in the kernel) makes this long.
            pause =
                if drain(&self.wakeup) { MIN_KILL_PAUSE } else { (pause * 2).min(MAX_KILL_PAUSE) };
        }
        Ok(())
    }

    /// Kills each child and its whole group: a group dies at once, however fast its members fork.
    fn kill_children(&self) {
        let Ok(children) = process::own_children() else {
            // Without a process table the command's own group is all that is known.
            if self.leader_running {
                let _ = rustix::process::kill_process_group(self.leader, Signal::KILL);
            }
            return;
        };
        let own = rustix::process::getpgrp();
        for child in children {
            if let Ok(group) = rustix::process::getpgid(Some(child))
                && group != own
            {
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
            }
            let _ = rustix::process::kill_process(child, Signal::KILL);
        }
    }
}

enum Next {
    Reap,
    StopOrder(StopOrder),
}

/// Waits until a source is ready, a signal comes, or the limit has passed.
fn wait(sources: &mut [PollFd<'_>], limit: Option<Duration>) -> io::Result<()> {
    // What does not fit is far away: then there is no limit.
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    match poll(sources, limit.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Empties the wake-up socket, and says whether there was anything.
fn drain(mut wakeup: &UnixStream) -> bool {
    let mut any = false;
    while io::Read::read(&mut wakeup, &mut [0; 64]).is_ok_and(|read| read > 0) {
        any = true;
    }
    any
}

/// What the service has written, as far as it has arrived.
#[derive(Default)]
struct OrderBuffer(Vec<u8>);

impl OrderBuffer {
    /// Reads what there is; false when the service is gone.
    fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        let mut bytes = [0; 64];
        match rustix::io::read(socket, &mut bytes) {
            Ok(0) => Ok(false),
            Ok(read) => {
                self.0.extend_from_slice(&bytes[..read]);
                Ok(true)
            }
            Err(Errno::INTR | Errno::AGAIN) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the next whole line that is an order. Both ends are one program, so that any other
    /// line can only come from a later version.
    fn next(&mut self) -> Option<StopOrder> {
        loop {
            let end = self.0.iter().position(|&byte| byte == b'\n')?;
            let line: Vec<u8> = self.0.drain(..=end).collect();
            if let Some(order) =
                str::from_utf8(&line).ok().and_then(|line| line.trim().parse().ok())
            {
                return Some(order);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn rule_10_9_a_stop_kills_in_time_while_signals_keep_arriving() {
        let (socket, _service) = UnixStream::pair().unwrap();
        let (wakeup, mut signals) = UnixStream::pair().unwrap();
        wakeup.set_nonblocking(true).unwrap();
        signals.write_all(&[0; 8]).unwrap();
        let leader = rustix::process::getpid();
        let helper =
            Helper { socket: socket.as_fd(), service: None, wakeup, leader, leader_running: false };
        let next = helper.next(&mut OrderBuffer::default(), Some(Instant::now())).unwrap();
        assert!(matches!(next, Next::StopOrder(StopOrder::Kill)));
    }
}
