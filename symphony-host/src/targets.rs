//! Ends processes that this process does not supervise (any more): those of a helper that was
//! killed, of a command without a helper, and of an earlier life of the service.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};

use crate::mark::Trace;
use crate::process::{self, ProcessId, ProcessRow};
use crate::running::Survivor;

/// Scans in a row that must certainly find no process.
const EMPTY_SCANS: u32 = 2;
/// A scan during which a process ended proves little: it may have been the parent of a new one.
/// On a busy machine processes end all the time, so this long without a find must do.
const CHURN_TIMEOUT: Duration = Duration::from_millis(250);

/// What one look showed.
#[derive(Clone, Debug, Default)]
pub(crate) struct TargetScan {
    pub(crate) rows: Vec<ProcessRow>,
    /// Those that have ended and wait to be collected.
    dead: BTreeSet<ProcessId>,
    /// No process vanished during the scan.
    is_whole: bool,
}

/// What several scans have shown.
#[derive(Debug, Default)]
struct ScanHistory {
    /// How many in a row have certainly found no process.
    empty: u32,
    dead: BTreeSet<ProcessId>,
}

impl ScanHistory {
    /// Adds a scan. A process that vanished or ended since the last one may have had a child that was
    /// not seen.
    fn add(&mut self, found: &TargetScan) {
        let is_sure = found.is_whole && found.dead.is_subset(&self.dead);
        self.dead.extend(&found.dead);
        if !found.rows.is_empty() {
            self.empty = 0;
        } else if is_sure {
            self.empty += 1;
        }
    }

    const fn are_empty(&self) -> bool {
        self.empty >= EMPTY_SCANS
    }
}

/// The processes to be ended.
#[derive(Clone, Debug)]
pub(crate) struct Targets {
    trace: Trace,
    records: BTreeSet<ProcessId>,
}

impl Targets {
    pub(crate) fn new(trace: Trace, records: impl IntoIterator<Item = ProcessId>) -> Self {
        Self { trace, records: records.into_iter().collect() }
    }

    /// With one more process that is known by its number.
    pub(crate) fn add(&mut self, process: Option<ProcessId>) {
        self.records.extend(process);
    }

    /// Those that live now: recorded or marked ones and all below them, but never this process or
    /// one above it, which a service that was started from one of its own runs would otherwise hit.
    pub(crate) fn find(&self) -> io::Result<TargetScan> {
        if !cfg!(target_os = "linux") {
            let rows = self.records.iter().filter_map(|process| process.row()).collect();
            return Ok(TargetScan { rows, dead: BTreeSet::new(), is_whole: true });
        }
        let own = own_line();
        let (mut rows, mut roots, mut is_whole) = (Vec::new(), BTreeSet::new(), true);
        for pid in process::numbers()? {
            let Some(row) = process::row(pid) else {
                is_whole = false;
                continue;
            };
            if own.contains(&row.number()) {
                continue;
            }
            match self.trace.carried_by(pid) {
                Some(is_marked) if is_marked || self.records.contains(&row.id()) => {
                    roots.insert(row.number());
                }
                Some(_) => {}
                None => is_whole = false,
            }
            rows.push(row);
        }
        let (dead, rows): (Vec<_>, _) =
            process::with_descendants(rows, &roots).into_iter().partition(ProcessRow::is_dead);
        Ok(TargetScan { rows, dead: dead.iter().map(ProcessRow::id).collect(), is_whole })
    }

    /// Sends SIGTERM to every process; a stopped one handles it when it is woken.
    pub(crate) fn ask_to_end(&self) {
        for row in self.find().unwrap_or_default().rows {
            let _ = row.id().signal(Signal::TERM);
            if row.is_stopped() {
                let _ = row.id().signal(Signal::CONT);
            }
        }
    }

    /// Whether certainly no process is left. Only when the command itself has been waited for.
    pub(crate) fn is_gone(&self) -> bool {
        self.collect();
        let mut scans = ScanHistory::default();
        // One more, for those that the first one finds dead.
        for _ in 0..=EMPTY_SCANS {
            scans.add(&self.find().unwrap_or_default());
        }
        scans.are_empty()
    }

    /// Kills until no process is found, or until the time is up; returns those that are left.
    pub(crate) fn kill_all(&self, limit: Duration) -> io::Result<Vec<ProcessRow>> {
        let until = Instant::now() + limit;
        let (mut scans, mut since) = (ScanHistory::default(), Instant::now());
        loop {
            let killed_newest = self.kill_newest();
            let found = self.kill_found()?;
            scans.add(&found);
            if killed_newest || !found.rows.is_empty() {
                (scans.empty, since) = (0, Instant::now());
                if since >= until {
                    return Ok(found.rows);
                }
            } else if scans.are_empty() || since.elapsed() >= CHURN_TIMEOUT {
                return Ok(Vec::new());
            }
        }
    }

    /// Kills what one look at all processes finds, and tells what that was.
    fn kill_found(&self) -> io::Result<TargetScan> {
        let found = self.find()?;
        // A helper ends its own tree better than we can: it goes last.
        let only_helpers = found.rows.iter().all(is_helper);
        for row in found.rows.iter().filter(|row| only_helpers || !is_helper(row)) {
            // A process that may not be signalled is found again, and named when time is up.
            let _ = row.id().signal(Signal::KILL);
            if !cfg!(target_os = "linux") {
                let _ = rustix::process::kill_process_group(row.pid, Signal::KILL);
            }
        }
        Ok(found)
    }

    /// Kills those among the newest processes: a process that forks all the time to escape is there.
    fn kill_newest(&self) -> bool {
        let mut any = false;
        let own = own_line();
        for row in process::newest().into_iter().filter_map(process::row) {
            let is_candidate = !row.is_dead() && !is_helper(&row) && !own.contains(&row.number());
            if is_candidate && self.trace.carried_by(row.pid) == Some(true) {
                let _ = row.id().signal(Signal::KILL);
                any = true;
            }
        }
        any
    }

    /// Collects those that have ended as children of this process, which it gets as the first
    /// process of a container. Only when the command itself has been waited for.
    pub(crate) fn collect(&self) {
        for child in process::own_children().unwrap_or_default() {
            let is_dead = process::row(child).is_some_and(|row| row.is_dead());
            if is_dead && self.trace.carried_by(child) == Some(true) {
                let _ = rustix::process::waitpid(Some(child), WaitOptions::NOHANG);
            }
        }
    }
}

fn is_helper(row: &ProcessRow) -> bool {
    row.name.as_bytes() == crate::helper::NAME.to_bytes()
}

/// This process and all above it.
fn own_line() -> BTreeSet<i32> {
    line_of(rustix::process::getpid(), |pid| process::row(pid).map(|row| row.parent))
}

fn line_of(pid: Pid, parent: impl Fn(Pid) -> Option<i32>) -> BTreeSet<i32> {
    let mut line = BTreeSet::new();
    let mut next = Some(pid);
    while let Some(pid) = next.filter(|pid| line.insert(pid.as_raw_nonzero().get())) {
        next = parent(pid).and_then(Pid::from_raw);
    }
    line
}

impl From<ProcessRow> for Survivor {
    fn from(row: ProcessRow) -> Self {
        // A process gives itself its name: it must not become a line of a log, or move a cursor.
        let is_plain = |&c: &char| c == ' ' || c.is_ascii_graphic();
        let name = row.name.chars().map(|c| if is_plain(&c) { c } else { '?' }).collect();
        Self { pid: row.id().pid(), name }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_line_of_ancestors_ends_at_the_first_process_or_in_a_loop() {
        let parents = BTreeMap::from([(1, 0), (5, 1), (7, 5), (9, 5), (20, 21), (21, 20)]);
        let line = |pid| {
            line_of(Pid::from_raw(pid).unwrap(), |pid| {
                parents.get(&pid.as_raw_nonzero().get()).copied()
            })
        };
        assert_eq!(line(7), BTreeSet::from([1, 5, 7]));
        assert_eq!(line(20), BTreeSet::from([20, 21]));
        assert_eq!(line(4), BTreeSet::from([4]));
    }

    #[test]
    fn a_name_cannot_be_a_line_or_an_escape_sequence() {
        let pid = Pid::INIT;
        let name = "a b\n\u{1b}[2J\u{202e}x".to_owned();
        let row = ProcessRow { pid, parent: 0, group: 1, state: b'S', start: 0, name };
        assert_eq!(Survivor::from(row).name, "a b??[2J?x");
    }

    #[test]
    fn a_scan_counts_only_if_no_process_can_have_been_missed() {
        let id = ProcessId::from_pid(std::process::id()).into_iter().collect::<BTreeSet<_>>();
        let found = |dead: &BTreeSet<_>, is_whole| TargetScan {
            rows: vec![],
            dead: dead.clone(),
            is_whole,
        };
        let mut scans = ScanHistory::default();
        for (dead, is_whole, empty) in
            [(&id, true, 0), (&id, false, 0), (&id, true, 1), (&BTreeSet::new(), true, 2)]
        {
            scans.add(&found(dead, is_whole));
            assert_eq!(scans.empty, empty);
        }
        assert!(scans.are_empty());
    }
}
