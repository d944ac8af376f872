//! The write half: a bounded queue and a writer task, so that a server that stops reading can
//! neither block the reader nor exhaust memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use symphony_core::transcript::{Direction, Transcript};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::wire::Outgoing;

/// How many bytes may wait for a server that does not read.
const MAX_UNREAD_BYTES: usize = 8 * 1024 * 1024;
/// What each line counts besides its text: many short lines cost memory too.
const LINE_OVERHEAD_BYTES: usize = 1024;

/// Lines that wait to be written. Dropped, the server's input ends after them.
#[derive(Debug)]
pub(crate) struct Outbox {
    lines: mpsc::UnboundedSender<Vec<u8>>,
    unread: Arc<AtomicUsize>,
    transcript: Transcript,
}

/// The server does not read: what it asks can no longer be answered.
#[derive(Debug)]
pub(crate) struct OutboxFull;

impl Outbox {
    /// Begins to write.
    pub(crate) fn new(
        input: impl AsyncWrite + Send + Unpin + 'static,
        transcript: Transcript,
    ) -> (Self, AbortOnDropHandle<()>) {
        let (lines, queue) = mpsc::unbounded_channel();
        let unread = Arc::new(AtomicUsize::new(0));
        let writer = AbortOnDropHandle::new(tokio::spawn(write(input, queue, Arc::clone(&unread))));
        (Self { lines, unread, transcript }, writer)
    }

    /// Queues a message. The first in a queue may have any length. Only the reader task sends, so
    /// checking the bound and counting need not be one step.
    pub(crate) fn send(&self, message: &Outgoing<'_>) -> Result<(), OutboxFull> {
        let line = message.line();
        let before = self.unread.load(Ordering::Relaxed);
        if before > 0 && before + line.len() > MAX_UNREAD_BYTES {
            return Err(OutboxFull);
        }
        self.unread.fetch_add(line.len() + LINE_OVERHEAD_BYTES, Ordering::Relaxed);
        self.transcript.line(Direction::Out, line.trim_ascii_end());
        // A writer task that ended has met a closed pipe, which the reader notices too.
        let _ = self.lines.send(line);
        Ok(())
    }
}

async fn write(
    mut input: impl AsyncWrite + Unpin,
    mut lines: mpsc::UnboundedReceiver<Vec<u8>>,
    unread: Arc<AtomicUsize>,
) {
    while let Some(line) = lines.recv().await {
        if input.write_all(&line).await.is_err() || input.flush().await.is_err() {
            return;
        }
        unread.fetch_sub(line.len() + LINE_OVERHEAD_BYTES, Ordering::Relaxed);
    }
    let _ = input.shutdown().await;
}
