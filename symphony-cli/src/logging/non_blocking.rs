//! A non-blocking, lossy log writer: a full queue drops lines instead of blocking.
//!
//! A terminal can be stopped with Ctrl-S, a pager reads no further, a disk hangs: then lines are
//! lost, and the service goes on (contract 13.1).

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How much may wait for a reader that stands still.
const MAX_QUEUED_BYTES: usize = 1 << 20;

/// How long the last lines may take when the program ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Lines on their way to a writer with a thread of its own.
#[derive(Clone, Debug)]
pub(super) struct NonBlockingWriter(Arc<Queue>);

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    lost: u64,
    /// Whether one is being written now.
    writing: bool,
}

impl NonBlockingWriter {
    /// Lines go to this writer, whose errors mean nothing.
    pub(super) fn new(writer: impl Write + Send + 'static) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let lines = Arc::clone(&queue);
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || lines.write_lines(writer))?;
        Ok(Self(queue))
    }

    /// Waits until all is written, but not for ever.
    pub(super) fn finish(&self) {
        let is_busy = |waiting: &mut Waiting| waiting.writing || !waiting.lines.is_empty();
        let _ = self.0.changed.wait_timeout_while(self.0.lock(), FLUSH_TIMEOUT, is_busy);
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_lines(&self, mut writer: impl Write) {
        loop {
            let mut waiting = self
                .changed
                .wait_while(self.lock(), |waiting| waiting.lines.is_empty())
                .unwrap_or_else(PoisonError::into_inner);
            let Some(line) = waiting.lines.pop_front() else { continue };
            waiting.bytes -= line.len();
            waiting.writing = true;
            let lost = std::mem::take(&mut waiting.lost);
            drop(waiting);
            let _ = writer.write_all(&line);
            if lost > 0 {
                tracing::warn!(lines = lost, "dropped log lines: the output is blocked");
            }
            self.lock().writing = false;
            self.changed.notify_all();
        }
    }
}

impl Write for &NonBlockingWriter {
    /// Takes a whole line, or loses it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut waiting = self.0.lock();
        if waiting.bytes.saturating_add(line.len()) > MAX_QUEUED_BYTES {
            waiting.lost += 1;
        } else {
            waiting.bytes += line.len();
            waiting.lines.push_back(line.to_owned());
        }
        drop(waiting);
        self.0.changed.notify_all();
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Writes a line whenever it is let.
    struct Slow(Receiver<()>, Sender<Vec<u8>>);

    impl Write for Slow {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            let _ = self.1.send(line.to_owned());
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn rule_13_1_a_writer_that_panics_drops_lines_and_blocks_no_caller() {
        struct Broken;
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                panic!("a bug")
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let log = NonBlockingWriter::new(Broken).unwrap();
        for _ in 0..3 {
            (&log).write_all(&vec![b'x'; MAX_QUEUED_BYTES]).unwrap();
        }
        log.finish();
        assert!(log.0.lock().bytes <= MAX_QUEUED_BYTES, "what waits is bounded");
    }

    #[test]
    fn rule_13_1_a_blocked_writer_drops_lines_and_blocks_no_caller() {
        let ((go, gate), (out, written)) = (channel(), channel());
        let log = NonBlockingWriter::new(Slow(gate, out)).unwrap();
        (&log).write_all(b"first").unwrap();
        for _ in 0..3 {
            (&log).write_all(&vec![b'x'; MAX_QUEUED_BYTES / 2]).unwrap();
        }
        log.finish();
        assert!(written.try_recv().is_err(), "it stands still");
        drop(go);
        log.finish();
        let lengths: Vec<usize> = written.try_iter().map(|line| line.len()).collect();
        assert_eq!(lengths.first(), Some(&5));
        assert!(lengths.len() < 4 && lengths.contains(&(MAX_QUEUED_BYTES / 2)), "{lengths:?}");
        (&log).write_all(b"last").unwrap();
        log.finish();
        assert_eq!(written.try_iter().last().as_deref(), Some(&b"last"[..]));
    }
}
