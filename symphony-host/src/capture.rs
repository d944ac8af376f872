//! The end of what a command prints: bounded, however much it is.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::io::AsyncReadExt;

use crate::running::Output;

/// How much is kept (contract 9.5).
pub const MAX_TAIL_BYTES: usize = 64 * 1024;

/// What was captured. Its text form replaces what is not UTF-8; it is still a stranger's text, not
/// fit for a log or a terminal as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The last [`MAX_TAIL_BYTES`] bytes.
    pub tail: Vec<u8>,
    /// How much there was in all.
    pub total: u64,
}

impl fmt::Display for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.tail))
    }
}

/// Reads an output and keeps its end.
pub(crate) struct Capture {
    output: Option<Output>,
    chunk: Box<[u8]>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Capture {
    pub(crate) fn new(output: Option<Output>) -> Self {
        let chunk = vec![0; 8 * 1024].into_boxed_slice();
        Self { output, chunk, tail: VecDeque::new(), total: 0 }
    }

    /// Goes on reading while something else happens.
    pub(crate) async fn during<F: Future>(&mut self, other: F) -> F::Output {
        let mut other = pin!(other);
        loop {
            tokio::select! {
                biased;
                result = &mut other => return result,
                _ = self.read(), if self.output.is_some() => {}
            }
        }
    }

    /// Takes what is there already, and no more than a pipe holds: a background process may go on
    /// writing for ever.
    pub(crate) async fn drain(&mut self) -> Captured {
        let mut taken = 0;
        while self.output.is_some() && taken < MAX_TAIL_BYTES {
            let now = async {
                tokio::select! {
                    biased;
                    read = self.read() => read,
                    () = std::future::ready(()) => 0,
                }
            };
            // The runtime's fairness must not look like an empty pipe.
            match tokio::task::unconstrained(now).await {
                0 => break,
                read => taken += read,
            }
        }
        Captured { tail: self.tail.iter().copied().collect(), total: self.total }
    }

    /// Drains the output, slowly, until every writer has closed it.
    pub(crate) async fn discard(mut self) {
        while self.output.is_some() {
            if self.read().await == self.chunk.len() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            self.tail.clear();
        }
    }

    /// Reads once. Safe to drop: what was read is kept.
    async fn read(&mut self) -> usize {
        let Some(output) = &mut self.output else { return 0 };
        let read = output.read(&mut self.chunk).await.unwrap_or(0);
        if read == 0 {
            self.output = None;
        }
        self.tail.extend(&self.chunk[..read]);
        self.tail.drain(..self.tail.len().saturating_sub(MAX_TAIL_BYTES));
        self.total = self.total.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        read
    }
}
