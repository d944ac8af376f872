//! Processes as the kernel lists them, and signals that reach the right one.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::str::FromStr;
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use crate::mark;

/// How far up a process is followed: deeper than any tree that people make.
const MAX_GENERATIONS: usize = 1_000;

/// One process for as long as it lives. A number alone is used again, within a boot and after it.
///
/// Its text form is what a run record keeps:
///
/// ```
/// # #[cfg(target_os = "linux")] {
/// use symphony_host::ProcessId;
///
/// let me = ProcessId::from_pid(std::process::id()).unwrap();
/// assert_eq!(me.to_string().parse(), Ok(me));
/// assert!(me.is_alive());
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId {
    pid: u32,
    /// In clock ticks since the boot.
    start: u64,
    boot: u128,
}

impl ProcessId {
    /// The process that has this number now.
    #[must_use]
    pub fn from_pid(pid: u32) -> Option<Self> {
        let row = row(Pid::from_raw(i32::try_from(pid).ok()?)?)?;
        Some(row.id())
    }

    /// Its number.
    #[must_use]
    pub const fn pid(self) -> u32 {
        self.pid
    }

    /// Whether it still runs. One that has ended and waits to be collected does not.
    #[must_use]
    pub fn is_alive(self) -> bool {
        self.row().is_some_and(|row| !row.is_dead())
    }

    /// Whether this program has started it: it is below this process, or carries a tag. That is what
    /// is left of a command whose helper was killed, until the hunt for it is over.
    #[must_use]
    pub fn is_of_command(self) -> bool {
        // The tag first: a command can make the line of its parents long. The row last: the number
        // may have changed hands meanwhile.
        self.raw().and_then(mark::is_limited) != Some(false)
            || self.descends_from(std::process::id())
            || self.row().is_none()
    }

    /// Whether it is below this process, as far as the table of processes shows it. A child of one
    /// that has ended counts, where a subreaper took it.
    fn descends_from(self, ancestor: u32) -> bool {
        let mut at = self.row();
        // The table may change while it is read, so a circle is possible.
        for _ in 0..MAX_GENERATIONS {
            let Some(parent) = at.and_then(|row| u32::try_from(row.parent).ok()) else { break };
            if parent == ancestor {
                return true;
            }
            at = i32::try_from(parent).ok().and_then(Pid::from_raw).and_then(row);
        }
        false
    }

    /// What the kernel lists for it, if the number still means this process.
    pub(crate) fn row(self) -> Option<ProcessRow> {
        row(self.raw()?).filter(|row| row.id() == self)
    }

    pub(crate) fn raw(self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.pid).ok()?)
    }

    /// Sends a signal to this process and to no other; a process that is gone is not an error.
    pub(crate) fn signal(self, signal: Signal) -> io::Result<()> {
        let Some(pid) = self.raw() else { return Ok(()) };
        let sent = match handle(pid) {
            // The handle is held before the check, so the number cannot change hands after it.
            Ok(handle) if self.row().is_some() => send(&handle, signal),
            // A number can also be a thread's: a signal to that would reach its process.
            Ok(_) | Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => Ok(()),
            // A kernel without such handles leaves a moment between the check and the signal.
            Err(_) if self.row().is_some() => rustix::process::kill_process(pid, signal),
            Err(_) => Ok(()),
        };
        match sent {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// A handle on the process that has a number now.
#[cfg(target_os = "linux")]
pub(crate) fn handle(pid: Pid) -> Result<OwnedFd, Errno> {
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
}

#[cfg(target_os = "linux")]
fn send(handle: &OwnedFd, signal: Signal) -> Result<(), Errno> {
    rustix::process::pidfd_send_signal(handle, signal)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn handle(_pid: Pid) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

#[cfg(not(target_os = "linux"))]
fn send(_handle: &OwnedFd, _signal: Signal) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{:032x}", self.pid, self.start, self.boot)
    }
}

impl FromStr for ProcessId {
    type Err = NotAProcessId;

    fn from_str(text: &str) -> Result<Self, NotAProcessId> {
        let parse = || {
            let mut parts = text.split(':');
            let id = Self {
                pid: parts.next()?.parse().ok()?,
                start: parts.next()?.parse().ok()?,
                boot: u128::from_str_radix(parts.next()?, 16).ok()?,
            };
            parts.next().is_none().then_some(id)
        };
        parse().ok_or(NotAProcessId)
    }
}

/// A text that is not a [`ProcessId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a process id: expected pid:start:boot")]
pub struct NotAProcessId;

/// A line of the process table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcessRow {
    pub(crate) pid: Pid,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) state: u8,
    pub(crate) start: u64,
    pub(crate) name: String,
}

impl ProcessRow {
    pub(crate) fn id(&self) -> ProcessId {
        ProcessId { pid: self.number().unsigned_abs(), start: self.start, boot: boot() }
    }

    /// The bare number, as parents and groups are given.
    pub(crate) fn number(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    pub(crate) const fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }

    pub(crate) const fn is_stopped(&self) -> bool {
        matches!(self.state, b'T' | b't')
    }

    /// Reads `pid (name) state parent group session ... start`. The name may hold brackets too.
    fn parse(stat: &[u8]) -> Option<Self> {
        let open = stat.iter().position(|&byte| byte == b'(')?;
        let close = stat.iter().rposition(|&byte| byte == b')')?;
        let pid = str::from_utf8(&stat[..open]).ok()?.trim().parse().ok()?;
        let name = String::from_utf8_lossy(stat.get(open + 1..close)?).into_owned();
        let mut fields = str::from_utf8(&stat[close + 1..]).ok()?.split_ascii_whitespace();
        Some(Self {
            pid: Pid::from_raw(pid)?,
            name,
            state: *fields.next()?.as_bytes().first()?,
            parent: fields.next()?.parse().ok()?,
            group: fields.next()?.parse().ok()?,
            start: fields.nth(16)?.parse().ok()?,
        })
    }
}

/// The line of one process.
#[cfg(target_os = "linux")]
pub(crate) fn row(pid: Pid) -> Option<ProcessRow> {
    ProcessRow::parse(&fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?)
}

/// Where there is no table in files: whether the process, or the group it leads, is there. The
/// start is not known, so a number that is used again is not noticed.
#[cfg(not(target_os = "linux"))]
pub(crate) fn row(pid: Pid) -> Option<ProcessRow> {
    use rustix::process::{test_kill_process, test_kill_process_group};
    let is_there = test_kill_process(pid).is_ok() || test_kill_process_group(pid).is_ok();
    let group = pid.as_raw_nonzero().get();
    let row = ProcessRow { pid, parent: 0, group, state: b'?', start: 0, name: String::new() };
    is_there.then_some(row)
}

/// The numbers of all visible processes, the newest first as long as numbers grow: a process that
/// forks without pause is most likely still there when it is looked at.
pub(crate) fn numbers() -> io::Result<Vec<Pid>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        numbers.extend(name.to_str().and_then(|name| Pid::from_raw(name.parse().ok()?)));
    }
    numbers.reverse();
    Ok(numbers)
}

/// Every process that can be seen.
pub(crate) fn table() -> io::Result<Vec<ProcessRow>> {
    Ok(numbers()?.into_iter().filter_map(row).collect())
}

/// The processes that may have been started last: the last PID that was assigned, and some before it.
pub(crate) fn newest() -> Vec<Pid> {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let last = load.split_ascii_whitespace().last().and_then(|last| last.parse().ok()).unwrap_or(0);
    let numbers = (i32::saturating_sub(last, 7)..=last).rev().filter_map(Pid::from_raw);
    numbers.filter(|&pid| is_process(pid)).collect()
}

/// Whether a number is a process and not one of its threads, which have numbers too.
fn is_process(pid: Pid) -> bool {
    let pid = pid.as_raw_nonzero().to_string();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("Tgid:")).is_some_and(|id| id.trim() == pid)
}

/// `roots` and everything below them, in the order of the table.
pub(crate) fn with_descendants(table: Vec<ProcessRow>, roots: &BTreeSet<i32>) -> Vec<ProcessRow> {
    let mut family = roots.clone();
    // A child may stand before its parent once PIDs have wrapped around: repeat until none is added.
    loop {
        let before = family.len();
        let children: Vec<i32> = table
            .iter()
            .filter(|row| family.contains(&row.parent))
            .map(ProcessRow::number)
            .collect();
        family.extend(children);
        if family.len() == before {
            break;
        }
    }
    table.into_iter().filter(|row| family.contains(&row.number())).collect()
}

/// The children of this process: those of its main thread, which are all there are in a process
/// of one thread, and all the orphans that a process with several adopts.
pub(crate) fn own_children() -> io::Result<Vec<Pid>> {
    let me = rustix::process::getpid().as_raw_nonzero().get();
    match fs::read_to_string(format!("/proc/self/task/{me}/children")) {
        Ok(list) => Ok(list
            .split_ascii_whitespace()
            .filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
            .collect()),
        // The list is a build option of the kernel.
        Err(_) => {
            Ok(table()?.into_iter().filter(|row| row.parent == me).map(|row| row.pid).collect())
        }
    }
}

/// This boot of the machine; zero where that is not told.
fn boot() -> u128 {
    static BOOT: OnceLock<u128> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        u128::from_str_radix(&text.trim().replace('-', ""), 16).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(pid: i32, parent: i32) -> ProcessRow {
        let pid = Pid::from_raw(pid).unwrap();
        ProcessRow { pid, parent, group: 1, state: b'S', start: 0, name: String::new() }
    }

    #[test]
    fn a_name_may_hold_brackets_and_spaces() {
        let stat = b"42 (a) (b c) T 7 41 40 0 -1 4194560 1 0 0 0 1 2 3 4 20 0 1 0 98765 1 2\n";
        let expected = ProcessRow {
            pid: Pid::from_raw(42).unwrap(),
            parent: 7,
            group: 41,
            state: b'T',
            start: 98765,
            name: "a) (b c".into(),
        };
        assert_eq!(ProcessRow::parse(stat), Some(expected));
    }

    #[test]
    fn a_broken_line_is_no_row() {
        for stat in [&b""[..], b"42", b"42 (", b")(", b"42 (x)", b"42 (x) S 1 2", b"0 (x) S 1 2 3"]
        {
            assert_eq!(ProcessRow::parse(stat), None, "{stat:?}");
        }
    }

    #[test]
    fn a_family_is_found_whatever_the_order_of_numbers() {
        let table = vec![line(3, 90), line(5, 1), line(80, 2), line(90, 80)];
        let pids = |rows: Vec<ProcessRow>| rows.iter().map(ProcessRow::number).collect::<Vec<_>>();
        assert_eq!(pids(with_descendants(table.clone(), &BTreeSet::from([80]))), [3, 80, 90]);
        assert_eq!(pids(with_descendants(table, &BTreeSet::new())), [0; 0]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_signal_to_a_reused_pid_reaches_no_process() {
        let me = ProcessId::from_pid(std::process::id()).unwrap();
        let earlier = ProcessId { start: me.start - 1, ..me };
        let other_boot = ProcessId { boot: me.boot ^ 1, ..me };
        for other in [earlier, other_boot] {
            assert!(!other.is_alive());
            other.signal(Signal::KILL).unwrap();
        }
    }
}
