//! Where lines for people go: to standard error, or to a dashboard for as long as it has the
//! terminal.

use std::io::{self, Write};
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anstream::adapter::strip_str;
use symphony_tui::LogTail;

/// The dashboard that has the terminal. One per process, as there is one log.
static DASHBOARD: Mutex<Option<LogTail>> = Mutex::new(None);

/// How long the lines of a dashboard may take on their way to standard error.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// How many of them are worth repeating.
const MAX_REPEATED_LINES: usize = 100;

fn dashboard() -> MutexGuard<'static, Option<LogTail>> {
    DASHBOARD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Standard error, unless a dashboard has the terminal.
#[derive(Debug)]
pub(super) struct Screen;

impl Write for Screen {
    /// Takes a whole line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // Not while it is locked: standard error may take no more bytes, and a dashboard is to come.
        let dashboard = dashboard().clone();
        match dashboard {
            Some(lines) => lines.push(&strip_str(&String::from_utf8_lossy(line)).to_string()),
            None => io::stderr().write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lines go to a dashboard until this is dropped. Then those that it had are told again where
/// they would have gone: its picture is gone.
#[derive(Debug)]
pub(crate) struct Diverted(LogTail);

/// Sends lines to a dashboard.
pub(crate) fn divert(lines: &LogTail) -> Diverted {
    *dashboard() = Some(lines.clone());
    Diverted(lines.clone())
}

impl Drop for Diverted {
    fn drop(&mut self) {
        let lines = self.0.clone();
        let (told, all_told) = channel();
        // In a thread of its own: a blocked terminal must not block the caller.
        let teller = std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            let mut dashboard = dashboard();
            for line in lines.last(MAX_REPEATED_LINES) {
                let _ = writeln!(io::stderr(), "{line}");
            }
            *dashboard = None;
            drop(dashboard);
            let _ = told.send(());
        });
        match teller {
            Ok(_) => drop(all_told.recv_timeout(FLUSH_TIMEOUT)),
            Err(_) => *dashboard() = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_13_1_a_dashboard_gets_the_lines_without_their_colours_while_it_has_the_terminal() {
        let lines = LogTail::default();
        let diverted = divert(&lines);
        Screen.write_all(b"\x1b[32m INFO\x1b[0m run started\n").unwrap();
        drop(diverted);
        Screen.write_all(b"later\n").unwrap();
        assert_eq!(lines.last(10), [" INFO run started"]);
    }
}
