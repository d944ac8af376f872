//! Lines out of a byte stream, however they are cut, and never more memory than one line.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The longest line that is read (contract 10.4), without its end.
pub(crate) const LONGEST: usize = 10 * 1024 * 1024;
/// How much is read at once.
const CHUNK: usize = 64 * 1024;

/// The lines of a stream.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    stream: R,
    buffer: BytesMut,
    /// So much of the buffer is known to hold no line end.
    searched: usize,
    /// The bytes of a line that is too long and is being skipped.
    skipped: usize,
    longest: usize,
    ended: bool,
}

/// One line, without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// As it came.
    Text(Bytes),
    /// It was too long and has been skipped; so many bytes.
    TooLong(usize),
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(stream: R) -> Self {
        Self::up_to(LONGEST, stream)
    }

    fn up_to(longest: usize, stream: R) -> Self {
        let buffer = BytesMut::new();
        Self { stream, buffer, searched: 0, skipped: 0, longest, ended: false }
    }

    /// The next line; what is left at the end of the stream is one too. Safe to drop at any await.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.split() {
                return Ok(Some(line));
            }
            if self.ended {
                return Ok(self.rest());
            }
            if self.buffer.is_empty() && self.buffer.capacity() > 4 * CHUNK {
                self.buffer = BytesMut::new(); // one long line must not be paid for ever after
            }
            self.buffer.reserve(CHUNK);
            self.ended = self.stream.read_buf(&mut self.buffer).await? == 0;
        }
    }

    /// A line that is wholly in the buffer.
    fn split(&mut self) -> Option<Line> {
        let unseen = self.buffer.get(self.searched..).unwrap_or_default();
        let Some(end) = unseen.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            // One more than the longest may still be a carriage return.
            if self.skipped > 0 || self.searched > self.longest + 1 {
                self.skipped += self.searched;
                self.buffer.clear();
                self.searched = 0;
            }
            return None;
        };
        let mut line = self.buffer.split_to(self.searched + end + 1);
        self.searched = 0;
        line.truncate(line.len() - 1);
        Some(self.finish(line))
    }

    fn rest(&mut self) -> Option<Line> {
        let line = self.buffer.split();
        self.searched = 0;
        (self.skipped > 0 || !line.is_empty()).then(|| self.finish(line))
    }

    fn finish(&mut self, mut line: BytesMut) -> Line {
        let skipped = std::mem::take(&mut self.skipped);
        if line.last() == Some(&b'\r') {
            line.truncate(line.len() - 1);
        }
        if skipped > 0 || line.len() > self.longest {
            return Line::TooLong(skipped + line.len());
        }
        Line::Text(line.freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt as _;

    /// What comes out when the pieces are written one by one.
    async fn lines_of(longest: usize, pieces: &[&[u8]]) -> Vec<Line> {
        let (mut ours, theirs) = tokio::io::duplex(1024);
        let mut lines = Lines::up_to(longest, theirs);
        let write = async move {
            for piece in pieces {
                ours.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let read = async {
            let mut all = Vec::new();
            while let Some(line) = lines.next().await.unwrap() {
                all.push(line);
            }
            all
        };
        tokio::join!(write, read).1
    }

    fn text(line: &str) -> Line {
        Line::Text(Bytes::copy_from_slice(line.as_bytes()))
    }

    #[tokio::test]
    async fn rule_10_4_lines_may_be_split_and_joined_anywhere() {
        let whole = b"one\ntwo\r\n\nfour";
        let expected = [text("one"), text("two"), text(""), text("four")];
        assert_eq!(lines_of(9, &[whole]).await, expected);
        for at in 0..whole.len() {
            assert_eq!(lines_of(9, &[&whole[..at], &whole[at..]]).await, expected, "cut at {at}");
        }
        let bytes: Vec<_> = whole.chunks(1).collect();
        assert_eq!(lines_of(9, &bytes).await, expected);
    }

    #[tokio::test]
    async fn rule_10_4_a_line_that_is_too_long_is_skipped_and_the_next_one_is_read() {
        let lines = lines_of(4, &[b"12345\n1234\r\n", b"123", b"4567", b"89\nend"]).await;
        assert_eq!(lines, [Line::TooLong(5), text("1234"), Line::TooLong(9), text("end")]);
        assert_eq!(lines_of(4, &[b"123456"]).await, [Line::TooLong(6)]);
    }

    #[tokio::test]
    async fn rule_10_4_ten_mebibytes_are_a_line_and_one_byte_more_is_none() {
        for (length, fits) in [(LONGEST, true), (LONGEST + 1, false), (11 << 20, false)] {
            let (mut ours, theirs) = tokio::io::duplex(CHUNK);
            let mut lines = Lines::new(theirs);
            let write = async move {
                ours.write_all(&vec![b'x'; length]).await.unwrap();
                ours.write_all(b"\nnext\n").await.unwrap();
            };
            let read = async { [lines.next().await.unwrap(), lines.next().await.unwrap()] };
            let ((), [long, next]) = tokio::join!(write, read);
            match long {
                Some(Line::Text(line)) => assert!(fits && line.len() == length),
                other => assert!(!fits && other == Some(Line::TooLong(length))),
            }
            assert_eq!(next, Some(text("next")));
            assert!(lines.buffer.capacity() <= LONGEST * 3);
        }
    }
}
