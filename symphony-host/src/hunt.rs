//! Ends processes that this process does not supervise (any more): those of a helper that was
//! killed, of a command without a helper, and of an earlier life of the service.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};

use crate::mark::Trace;
use crate::process::{self, ProcessId, Row, Table};
use crate::running::Survivor;

/// Looks in a row that must find nobody. One during which processes vanished proves little.
const EMPTY_LOOKS: u32 = 2;
/// So many prove it all the same: on a busy machine somebody vanishes all the time.
const DOUBTFUL_LOOKS: u32 = 20;

/// The processes to be ended.
#[derive(Clone, Debug)]
pub(crate) struct Quarry {
    trace: Trace,
    records: BTreeSet<ProcessId>,
}

impl Quarry {
    pub(crate) fn new(trace: Trace, records: impl IntoIterator<Item = ProcessId>) -> Self {
        Self { trace, records: records.into_iter().collect() }
    }

    /// With one more process that is known by its number.
    pub(crate) fn add(&mut self, process: Option<ProcessId>) {
        self.records.extend(process);
    }

    /// Those that live now: recorded or marked ones and all below them, but never this process or
    /// one above it, which a service that was started from one of its own runs would otherwise hit.
    pub(crate) fn find(&self) -> io::Result<Table> {
        if !cfg!(target_os = "linux") {
            let rows = self.records.iter().filter_map(|process| process.row()).collect();
            return Ok(Table { rows, is_whole: true });
        }
        let mut table = process::table()?;
        let above = ancestry(&table.rows, rustix::process::getpid());
        table.rows.retain(|row| !above.contains(&row.number()));
        let roots = table
            .rows
            .iter()
            .filter(|row| self.records.contains(&row.id()) || self.trace.is_on(row.pid))
            .map(Row::number)
            .collect();
        table.rows = process::with_descendants(table.rows, &roots);
        table.rows.retain(|row| !row.is_dead());
        Ok(table)
    }

    /// SIGTERM for everyone; a stopped process hears it when it is woken.
    pub(crate) fn ask_to_end(&self) {
        for row in self.find().unwrap_or_default().rows {
            let _ = row.id().signal(Signal::TERM);
            if row.is_stopped() {
                let _ = row.id().signal(Signal::CONT);
            }
        }
    }

    /// Whether one look finds nobody, and misses nobody.
    pub(crate) fn looks_empty(&self) -> bool {
        self.find().is_ok_and(|found| found.is_whole && found.rows.is_empty())
    }

    /// Kills until nobody is found, or until the time is up; tells who is left.
    pub(crate) fn hunt(&self, limit: Duration) -> io::Result<Vec<Row>> {
        let until = Instant::now() + limit;
        let (mut empty, mut doubtful) = (0, 0);
        loop {
            let chased = self.chase();
            let found = self.strike()?;
            if chased || !found.rows.is_empty() {
                (empty, doubtful) = (0, 0);
            } else if found.is_whole {
                empty += 1;
            } else {
                doubtful += 1;
            }
            if empty >= EMPTY_LOOKS || doubtful >= DOUBTFUL_LOOKS {
                return Ok(Vec::new());
            }
            if Instant::now() >= until {
                return Ok(found.rows);
            }
        }
    }

    /// Kills what one look at all processes finds, and tells what that was.
    fn strike(&self) -> io::Result<Table> {
        let found = self.find()?;
        // A helper ends its own tree better than we can: it goes last.
        let only_helpers = found.rows.iter().all(is_helper);
        for row in found.rows.iter().filter(|row| only_helpers || !is_helper(row)) {
            // Who may not be signalled is found again, and named when time is up.
            let _ = row.id().signal(Signal::KILL);
            if !cfg!(target_os = "linux") {
                let _ = rustix::process::kill_process_group(row.pid, Signal::KILL);
            }
        }
        Ok(found)
    }

    /// Kills those among the newest processes: whoever forks all the time to get away is there.
    fn chase(&self) -> bool {
        let mut any = false;
        for row in process::newest().into_iter().filter_map(process::row) {
            if !row.is_dead() && !is_helper(&row) && self.trace.is_on(row.pid) {
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
            if process::row(child).is_some_and(|row| row.is_dead()) && self.trace.is_on(child) {
                let _ = rustix::process::waitpid(Some(child), WaitOptions::NOHANG);
            }
        }
    }
}

fn is_helper(row: &Row) -> bool {
    row.name.as_bytes() == crate::helper::NAME.to_bytes()
}

/// A process and all above it.
fn ancestry(table: &[Row], pid: Pid) -> BTreeSet<i32> {
    let parents: BTreeMap<i32, i32> = table.iter().map(|row| (row.number(), row.parent)).collect();
    let mut line = BTreeSet::new();
    let mut next = Some(pid.as_raw_nonzero().get());
    while let Some(pid) = next.filter(|&pid| pid > 0 && line.insert(pid)) {
        next = parents.get(&pid).copied();
    }
    line
}

impl From<Row> for Survivor {
    fn from(row: Row) -> Self {
        Self { pid: row.id().pid(), name: row.name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_ancestors_ends_at_the_first_process_or_in_a_loop() {
        let row = |pid, parent| Row {
            pid: Pid::from_raw(pid).unwrap(),
            parent,
            group: 0,
            state: b'S',
            start: 0,
            name: String::new(),
        };
        let table = [row(1, 0), row(5, 1), row(7, 5), row(9, 5), row(20, 21), row(21, 20)];
        assert_eq!(ancestry(&table, Pid::from_raw(7).unwrap()), BTreeSet::from([1, 5, 7]));
        assert_eq!(ancestry(&table, Pid::from_raw(20).unwrap()), BTreeSet::from([20, 21]));
        assert_eq!(ancestry(&table, Pid::from_raw(4).unwrap()), BTreeSet::from([4]));
    }
}
