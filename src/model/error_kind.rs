//! What a caller may do about an error. Policy reads only this, never a message's text.

use std::fmt;

/// The class of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Trying again later can succeed.
    Retryable,
    /// Nothing in this process will make it succeed; restart or repair.
    Fatal,
    /// Somebody else owns the bucket now.
    Fenced,
    /// The input itself is wrong; it must be changed.
    Invalid,
}

impl ErrorKind {
    /// The lower-case word that programs read, in JSON lines and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retryable => "retryable",
            Self::Fatal => "fatal",
            Self::Fenced => "fenced",
            Self::Invalid => "invalid",
        }
    }
}

/// An error with its causes, on one line: what a person reads in a log or an answer. A cause that the error before it
/// has told already is not told again.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let told = error.to_string();
        if !text.ends_with(&told) {
            text.push_str(": ");
            text.push_str(&told);
        }
        cause = error.source();
    }
    text
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Told(&'static str, #[source] Option<Box<Told>>);

    #[test]
    fn each_cause_is_told_once() {
        let root = Told("no such topic", None);
        let repeating = Told("Global error: no such topic", Some(Box::new(root)));
        assert_eq!(
            chain(&Told("reading failed", Some(Box::new(repeating)))),
            "reading failed: Global error: no such topic"
        );
    }
}
