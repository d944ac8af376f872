//! Lines out of a byte stream, however they are cut, and never more memory than one line.

use std::io;
use std::ops::Range;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The longest line that is read (contract 10.4), without its end.
pub(crate) const MAX_LINE_BYTES: usize = 10 * 1024 * 1024;
/// So much of a longer line is kept: it tells what the line was.
const KEPT_HEAD_BYTES: usize = 1024;
/// How much is read at once: little while little comes, for there may be many sessions.
const BUFFER_BYTES: Range<usize> = 4 * 1024..64 * 1024;

/// The lines of a stream.
#[derive(Debug)]
pub(crate) struct LineReader<R> {
    stream: R,
    /// What was read: lines that were taken, lines that were not, and the beginning of one.
    buffer: Vec<u8>,
    taken: usize,
    /// So much of the buffer is known to hold no line end beyond what was taken.
    searched: usize,
    /// A line that is too long and is being skipped.
    skipped: Option<OverlongLine>,
    longest: usize,
    room: usize,
    ended: bool,
}

/// One line, without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerLine<'a> {
    /// As it came.
    Text(&'a [u8]),
    /// It was too long and has been skipped.
    TooLong(OverlongLine),
}

/// What is left of a line that was too long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OverlongLine {
    pub(crate) length: usize,
    pub(crate) head: Vec<u8>,
}

impl OverlongLine {
    fn add(&mut self, bytes: &[u8]) {
        self.length += bytes.len();
        let missing = KEPT_HEAD_BYTES.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..missing]);
    }
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(crate) fn new(stream: R) -> Self {
        Self::up_to(MAX_LINE_BYTES, stream)
    }

    fn up_to(longest: usize, stream: R) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
            taken: 0,
            searched: 0,
            skipped: None,
            longest,
            room: BUFFER_BYTES.start,
            ended: false,
        }
    }

    /// Waits for more bytes, after which there may be lines to [take](Self::take). `false` at the
    /// end of the stream. Safe to drop.
    pub(crate) async fn read(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        self.make_room();
        let read = self.stream.read_buf(&mut self.buffer).await?;
        self.ended = read == 0;
        self.room = if read < self.room { BUFFER_BYTES.start } else { BUFFER_BYTES.end };
        Ok(true)
    }

    /// The next line that is there; what is left at the end of the stream is one too.
    pub(crate) fn take(&mut self) -> Option<ServerLine<'_>> {
        let unseen = self.buffer.get(self.searched..).unwrap_or_default();
        let (end, next) = match memchr::memchr(b'\n', unseen) {
            Some(at) => (self.searched + at, self.searched + at + 1),
            None if self.ended => (self.buffer.len(), self.buffer.len()),
            None => {
                self.searched = self.buffer.len();
                self.skip();
                return None;
            }
        };
        let is_rest = end == next;
        let mut line = self.taken..end;
        self.taken = next;
        self.searched = next;
        if is_rest && line.is_empty() && self.skipped.is_none() {
            return None;
        }
        if self.buffer[line.clone()].last() == Some(&b'\r') {
            line.end -= 1;
        }
        if self.skipped.is_some() || line.len() > self.longest {
            let mut long = self.skipped.take().unwrap_or_default();
            long.add(&self.buffer[line]);
            return Some(ServerLine::TooLong(long));
        }
        Some(ServerLine::Text(&self.buffer[line]))
    }

    /// Lets go of the beginning of a line that is already too long.
    fn skip(&mut self) {
        let begun = self.buffer.get(self.taken..).unwrap_or_default();
        // One more than the longest may still be a carriage return.
        if self.skipped.is_some() || begun.len() > self.longest + 1 {
            self.skipped.get_or_insert_default().add(begun);
            self.buffer.clear();
            (self.taken, self.searched) = (0, 0);
        }
    }

    /// Lets go of what was taken, and makes room for the next read.
    fn make_room(&mut self) {
        self.searched -= self.taken;
        self.buffer.drain(..self.taken);
        self.taken = 0;
        // One long line, or one flood, must not be paid for ever after.
        let begun = self.buffer.len();
        if begun <= BUFFER_BYTES.end && self.buffer.capacity() > begun + 4 * self.room {
            self.buffer.shrink_to(begun + self.room);
        }
        self.buffer.reserve(self.room);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt as _;

    const PIPE: usize = 64 * 1024;

    /// A line that is its own.
    #[derive(Debug, PartialEq, Eq)]
    enum Kept {
        Text(String),
        TooLong(usize),
    }

    fn text(line: &str) -> Kept {
        Kept::Text(line.to_owned())
    }

    async fn next<R: AsyncRead + Unpin>(lines: &mut LineReader<R>) -> Option<Kept> {
        loop {
            match lines.take() {
                Some(ServerLine::Text(line)) => {
                    return Some(Kept::Text(String::from_utf8_lossy(line).into_owned()));
                }
                Some(ServerLine::TooLong(long)) => return Some(Kept::TooLong(long.length)),
                None => {}
            }
            if !lines.read().await.unwrap() {
                return None;
            }
        }
    }

    /// What comes out when the pieces are written one by one.
    async fn lines_of(longest: usize, pieces: &[&[u8]]) -> Vec<Kept> {
        let (mut ours, theirs) = tokio::io::duplex(1024);
        let mut lines = LineReader::up_to(longest, theirs);
        let write = async move {
            for piece in pieces {
                ours.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let read = async {
            let mut all = Vec::new();
            while let Some(line) = next(&mut lines).await {
                all.push(line);
            }
            all
        };
        tokio::join!(write, read).1
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
        assert_eq!(lines, [Kept::TooLong(5), text("1234"), Kept::TooLong(9), text("end")]);
        assert_eq!(lines_of(4, &[b"123456"]).await, [Kept::TooLong(6)]);
    }

    #[tokio::test]
    async fn rule_10_4_of_a_line_that_is_too_long_the_beginning_is_kept() {
        let long = "0123456789".repeat(1000);
        let mut lines = LineReader::up_to(4, long.as_bytes());
        while lines.read().await.unwrap() && !lines.ended {
            assert_eq!(lines.take(), None);
        }
        let head = long.as_bytes()[..KEPT_HEAD_BYTES].to_vec();
        assert_eq!(lines.take(), Some(ServerLine::TooLong(OverlongLine { length: 10_000, head })));
    }

    #[tokio::test]
    async fn rule_10_4_ten_mebibytes_are_a_line_and_one_byte_more_is_none() {
        for (length, fits) in
            [(MAX_LINE_BYTES, true), (MAX_LINE_BYTES + 1, false), (11 << 20, false)]
        {
            let (mut ours, theirs) = tokio::io::duplex(PIPE);
            let mut lines = LineReader::new(theirs);
            let write = async move {
                ours.write_all(&vec![b'x'; length]).await.unwrap();
                ours.write_all(b"\nnext\n").await.unwrap();
            };
            let read = async { [next(&mut lines).await, next(&mut lines).await] };
            let ((), [long, next]) = tokio::join!(write, read);
            match long {
                Some(Kept::Text(line)) => assert!(fits && line.len() == length),
                other => assert!(!fits && other == Some(Kept::TooLong(length))),
            }
            assert_eq!(next, Some(text("next")));
            assert!(lines.buffer.capacity() <= MAX_LINE_BYTES * 2 + PIPE);
            assert!(lines.read().await.unwrap(), "and now its end is known");
            assert!(lines.buffer.capacity() <= 4 * PIPE, "{}", lines.buffer.capacity());
        }
    }

    #[tokio::test]
    async fn memory_grows_with_what_comes_and_goes_again() {
        let (mut ours, theirs) = tokio::io::duplex(PIPE);
        let mut lines = LineReader::new(theirs);
        ours.write_all(&b"12345\n".repeat(PIPE / 6)).await.unwrap();
        while lines.room < BUFFER_BYTES.end {
            assert!(lines.read().await.unwrap());
            while lines.take().is_some() {}
        }
        ours.write_all(b"x\n").await.unwrap();
        while lines.room > BUFFER_BYTES.start {
            assert!(lines.read().await.unwrap());
            while lines.take().is_some() {}
        }
        ours.write_all(b"y\n").await.unwrap();
        assert!(lines.read().await.unwrap());
        assert!(lines.buffer.capacity() <= 4 * BUFFER_BYTES.start, "{}", lines.buffer.capacity());
    }
}
