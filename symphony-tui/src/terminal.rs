//! The terminal: taken, drawn on, and given back, whatever happens.
//!
//! It is written to and read from without the locks of the standard library: a blocked terminal
//! then blocks only the thread that draws.

use std::io::{self, IsTerminal as _, Write};
use std::mem::ManuallyDrop;
use std::os::fd::AsFd as _;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, queue, style};
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::termios::{tcgetpgrp, tcgetwinsize};
use tokio::sync::mpsc::Sender;

use crate::app::{App, Owner};
use crate::draw::{Palette, draw};
use crate::keys::{Key, KeyDecoder};

/// The name of the thread that draws.
pub(crate) const THREAD_NAME: &str = "dashboard";

/// Whether the terminal is ours.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// How long the rest of a key's bytes may take.
const KEY_TIMEOUT: Duration = Duration::from_millis(40);

/// How often it is looked whether keys are still wanted.
const READ_TIMEOUT: Duration = Duration::from_millis(200);

/// No screen has more columns and rows; what is beyond stays empty.
const MAX_SIZE: (u16, u16) = (2_000, 1_000);

/// Whether a person sits here: input and output are a terminal that is this process's to use.
///
/// A job in the background must not touch it: it would be stopped.
#[must_use]
pub fn is_for_people() -> bool {
    let stdin = io::stdin();
    let is_ours =
        || tcgetpgrp(stdin.as_fd()).is_ok_and(|group| group == rustix::process::getpgrp());
    stdin.is_terminal() && io::stdout().is_terminal() && is_ours()
}

/// Gives the terminal back as it was. Does nothing if it is not taken.
pub(crate) fn restore() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = leave(&mut Tty);
        let _ = disable_raw_mode();
    }
}

/// The same without a word to the terminal, which takes none.
pub(crate) fn restore_mode() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = disable_raw_mode();
    }
}

fn enter(out: &mut impl Write) -> io::Result<()> {
    queue!(out, EnterAlternateScreen, EnableBracketedPaste, cursor::Hide)?;
    out.flush()
}

fn leave(out: &mut impl Write) -> io::Result<()> {
    queue!(out, style::ResetColor, DisableBracketedPaste, LeaveAlternateScreen, cursor::Show)?;
    out.flush()
}

/// From now on a panic of the thread that draws gives the terminal back before it is told. Of
/// other threads only a visitor's do: a service goes on, and tells of its panics in the log.
pub(crate) fn restore_on_panic(owner: Owner) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if owner == Owner::Visitor || std::thread::current().name() == Some(THREAD_NAME) {
                restore();
            }
            before(info);
        }));
    });
}

/// Something to draw on.
pub(crate) trait TerminalScreen {
    /// Draws all of it.
    fn draw(&mut self, app: &mut App, log: &[String], look: Palette) -> io::Result<()>;

    /// Forgets what it has drawn, because something else may have been.
    fn forget(&mut self) -> io::Result<()>;
}

/// The terminal of this process.
#[derive(Debug)]
pub(crate) struct Taken {
    /// Never dropped: it would print to standard error that a terminal is gone, and panic because
    /// that is gone too. [`restore`] does what it would do.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<io::BufWriter<Tty>>>>,
    area: Rect,
}

impl Taken {
    /// Takes the terminal without writing to it, so that nothing blocks; dropped, it is given back.
    pub(crate) fn take() -> io::Result<Self> {
        let area = size()?;
        let backend = CrosstermBackend::new(io::BufWriter::with_capacity(64 * 1024, Tty));
        let options = TerminalOptions { viewport: Viewport::Fixed(area) };
        let terminal = Terminal::with_options(backend, options)?;
        enable_raw_mode()?;
        TAKEN.store(true, Ordering::SeqCst);
        Ok(Self { terminal: ManuallyDrop::new(terminal), area })
    }

    /// Begins a picture of its own, beside what was there.
    pub(crate) fn enter(&mut self) -> io::Result<()> {
        enter(&mut Tty)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        restore();
    }
}

impl TerminalScreen for Taken {
    fn draw(&mut self, app: &mut App, log: &[String], look: Palette) -> io::Result<()> {
        let area = size()?;
        if area != self.area {
            self.area = area;
            self.terminal.resize(area)?;
        }
        self.terminal.draw(|frame| draw(frame, app, log, look))?;
        Ok(())
    }

    fn forget(&mut self) -> io::Result<()> {
        // Not `clear`: it asks the terminal where the cursor is, and the answer comes as keys.
        self.terminal.resize(self.area)
    }
}

/// Asked of the terminal itself: the backend would run a program where there is none.
fn size() -> io::Result<Rect> {
    let size = tcgetwinsize(io::stdout().as_fd())?;
    Ok(bounded(size.ws_col, size.ws_row))
}

/// A terminal may claim billions of cells, and each takes memory.
fn bounded(columns: u16, rows: u16) -> Rect {
    Rect::new(0, 0, columns.min(MAX_SIZE.0), rows.min(MAX_SIZE.1))
}

/// Standard output, without its lock.
#[derive(Debug)]
pub(crate) struct Tty;

impl Write for Tty {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(retry_on_intr(|| rustix::io::write(io::stdout().as_fd(), bytes))?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Passes keys on until the receiver or the terminal is gone.
pub(crate) fn read_keys(to: &Sender<Key>) {
    let mut keys = KeyDecoder::default();
    let mut bytes = [0; 1024];
    while !to.is_closed() {
        let patience = if keys.is_partial() { KEY_TIMEOUT } else { READ_TIMEOUT };
        let came = match read(&mut bytes, patience) {
            Ok(Some(0)) | Err(_) => return,
            Ok(Some(length)) => keys.feed(&bytes[..length]),
            Ok(None) => keys.pause().into_iter().collect(),
        };
        for key in came {
            // A full channel drops keys.
            let _ = to.try_send(key);
        }
    }
}

/// What was typed; nothing when it takes too long.
fn read(bytes: &mut [u8], patience: Duration) -> Result<Option<usize>, Errno> {
    let stdin = io::stdin();
    let patience = Timespec::try_from(patience).ok();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut fds, patience.as_ref()) {
        Ok(0) | Err(Errno::INTR) => Ok(None),
        Ok(_) => match rustix::io::read(stdin.as_fd(), bytes) {
            Ok(length) => Ok(Some(length)),
            Err(Errno::INTR | Errno::AGAIN) => Ok(None),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_13_4_a_terminal_of_any_size_takes_little_memory() {
        assert_eq!(bounded(0, 0), Rect::new(0, 0, 0, 0));
        assert_eq!(bounded(500, 200), Rect::new(0, 0, 500, 200));
        let largest = bounded(u16::MAX, u16::MAX);
        assert!(usize::from(largest.width) * usize::from(largest.height) <= 2_000_000);
    }
}
