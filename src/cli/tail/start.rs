//! Where following begins.

use std::{str::FromStr, time::Duration};

use humantime_serde::re::humantime;

/// Where following begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Where the log begins.
    Beginning,
    /// Where it ends now.
    End,
    /// At an offset, of the one bucket that is followed.
    Offset(i64),
    /// With the first record that Kafka got at this time or later, in milliseconds since the Unix epoch.
    Time(i64),
    /// The same, so long ago.
    Ago(Duration),
}

/// Text that says no beginning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{found:?} is no place to begin: expected `beginning`, `end`, an offset, a time such as 2026-01-31T08:00:00Z, \
     or how long ago, such as 15m"
)]
pub struct InvalidStart {
    found: String,
}

impl FromStr for Start {
    type Err = InvalidStart;

    fn from_str(text: &str) -> Result<Self, InvalidStart> {
        match text {
            "beginning" => return Ok(Self::Beginning),
            "end" => return Ok(Self::End),
            _ => {}
        }
        if let Some(offset) = text.parse().ok().filter(|offset| *offset >= 0) {
            return Ok(Self::Offset(offset));
        }
        if let Ok(time) = text.parse::<jiff::Timestamp>() {
            return Ok(Self::Time(time.as_millisecond()));
        }
        match humantime::parse_duration(text) {
            Ok(ago) => Ok(Self::Ago(ago)),
            Err(_) => Err(InvalidStart { found: text.chars().take(80).collect() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_a_word_an_offset_a_time_or_how_long_ago() {
        for (text, expected) in [
            ("beginning", Start::Beginning),
            ("end", Start::End),
            ("0", Start::Offset(0)),
            ("1970-01-01T00:00:01Z", Start::Time(1000)),
            ("15m", Start::Ago(Duration::from_secs(900))),
            ("1h 30m", Start::Ago(Duration::from_secs(5400))),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for wrong in ["", "-1", "start", "15 parsecs", "2026-13-01T00:00:00Z"] {
            let error = wrong.parse::<Start>().unwrap_err().to_string();
            assert!(error.contains("15m"), "{wrong}: {error}");
        }
    }
}
