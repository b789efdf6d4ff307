//! The end of a program's standard error.

use tokio::{io::AsyncReadExt as _, process::ChildStderr};

use crate::model::REASON_LIMIT;

/// How many bytes are kept.
const KEPT: usize = 64 * 1024;

/// The last bytes that were read.
#[derive(Debug, Default)]
pub(super) struct Tail {
    bytes: Vec<u8>,
}

impl Tail {
    /// Reads until the other end closes.
    pub(super) async fn read(&mut self, stderr: Option<ChildStderr>) {
        let Some(mut stderr) = stderr else { return };
        let mut buffer = [0; 4096];
        loop {
            match stderr.read(&mut buffer).await {
                Ok(0) => return,
                Ok(count) => self.push(buffer.get(..count).unwrap_or_default()),
                Err(error) => {
                    tracing::debug!(%error, "a handler's standard error cannot be read");
                    return;
                }
            }
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        // Twice as much is let in, so that moving what is kept costs little per byte.
        if self.bytes.len() > 2 * KEPT {
            self.bytes.drain(..self.bytes.len() - KEPT);
        }
    }

    /// The last line that has anything on it, at most as long as a dead letter's reason may be.
    pub(super) fn last_line(&self) -> Option<String> {
        let lines = self.bytes.rsplit(|byte| *byte == b'\n' || *byte == b'\r');
        let line = lines.map(<[u8]>::trim_ascii).find(|line| !line.is_empty())?;
        let mut text = String::from_utf8_lossy(line).into_owned();
        let mut end = text.len().min(REASON_LIMIT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(text: &[u8]) -> Option<String> {
        let mut tail = Tail::default();
        tail.push(text);
        tail.last_line()
    }

    #[test]
    fn the_last_line_with_anything_on_it_is_found() {
        assert_eq!(last(b"first\nlast\n\n  \r\n").as_deref(), Some("last"));
        assert_eq!(last(b"only \xff").as_deref(), Some("only \u{fffd}"));
        assert_eq!(last(b"\n \n"), None);
        assert_eq!(last("ü".repeat(REASON_LIMIT).as_bytes()).unwrap().len(), REASON_LIMIT);
    }

    #[test]
    fn memory_is_bounded_and_the_end_is_kept() {
        let mut tail = Tail::default();
        for number in 0..100_000 {
            tail.push(format!("line {number}\n").as_bytes());
            assert!(tail.bytes.len() <= 2 * KEPT);
        }
        assert_eq!(tail.last_line().as_deref(), Some("line 99999"));
    }
}
