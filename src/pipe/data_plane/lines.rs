//! Lines of a stream, each held whole only up to a limit.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// The lines of `input`.
#[derive(Debug)]
pub(super) struct Lines<R> {
    input: R,
    limit: usize,
    /// The line so far; empty once it is too long.
    buffer: Vec<u8>,
    /// How many bytes of the line were read.
    length: usize,
    /// Whether the line was given out, and the next is to begin.
    given: bool,
}

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// More than the limit; how many bytes it had.
    TooLong(usize),
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    /// Lines of at most `limit` bytes, their end not counted; longer ones are read and dropped.
    pub(super) fn new(input: R, limit: usize) -> Self {
        Self { input, limit, buffer: Vec::new(), length: 0, given: false }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// The next line, or `None` at the end. The last line needs no end of its own. Cancel safe.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        if self.given {
            self.buffer.clear();
            (self.length, self.given) = (0, false);
        }
        loop {
            let available = self.input.fill_buf().await?;
            if available.is_empty() {
                self.given = true;
                return Ok((self.length > 0).then(|| self.line()));
            }
            let mut parts = available.splitn(2, |byte| *byte == b'\n');
            let part = parts.next().unwrap_or_default();
            let is_end = parts.next().is_some();
            self.length = self.length.saturating_add(part.len());
            if self.length <= self.limit {
                self.buffer.extend_from_slice(part);
            } else {
                self.buffer = Vec::new();
            }
            let used = part.len() + usize::from(is_end);
            self.input.consume(used);
            if is_end {
                self.given = true;
                return Ok(Some(self.line()));
            }
        }
    }

    fn line(&self) -> Line<'_> {
        if self.length > self.limit { Line::TooLong(self.length) } else { Line::Whole(&self.buffer) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::BufReader;

    use super::*;

    fn all(bytes: &[u8], limit: usize, capacity: usize) -> Vec<Result<Vec<u8>, usize>> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut lines = Lines::new(BufReader::with_capacity(capacity, bytes), limit);
            let mut found = Vec::new();
            while let Some(line) = lines.next().await.unwrap() {
                found.push(match line {
                    Line::Whole(line) => Ok(line.to_vec()),
                    Line::TooLong(size) => Err(size),
                });
            }
            assert_eq!(lines.next().await.unwrap(), None);
            found
        })
    }

    #[test]
    fn a_line_over_the_limit_is_dropped_and_the_next_one_is_whole() {
        let found = all(b"12345\n123456\n\n1", 5, 3);
        assert_eq!(found, [Ok(b"12345".to_vec()), Err(6), Ok(vec![]), Ok(b"1".to_vec())]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_split_at_each_line_end_and_nowhere_else(
            bytes in prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..200),
            limit in 0..40_usize,
            capacity in 1..50_usize,
        ) {
            let mut expected: Vec<_> = bytes.split(|byte| *byte == b'\n').collect();
            if expected.last().is_some_and(|last| last.is_empty()) {
                expected.pop();
            }
            let expected: Vec<_> = expected
                .into_iter()
                .map(|line| if line.len() > limit { Err(line.len()) } else { Ok(line.to_vec()) })
                .collect();
            prop_assert_eq!(all(&bytes, limit, capacity), expected);
        }
    }
}
