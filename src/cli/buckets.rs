//! `buckets`: every bucket of the bus, by what its records say; once, or again and again.

use std::{
    io::{self, IsTerminal as _, Write},
    time::Duration,
};

use serde::Serialize;

use super::{
    BucketStatus, Error, Format, Paint, Row, Target,
    output::{harmless, table},
    status::Looking,
};
use crate::model::{ErrorKind, chain};

/// To the upper left corner, and everything below it away.
const REDRAW: &str = "\u{1b}[H\u{1b}[J";

/// Tells about every bucket, in order.
///
/// Writes nothing, so dropping the future has no effect on Kafka.
///
/// # Errors
/// Where the topics are missing or have another number of partitions, where Kafka does not answer, and
/// where a claim cannot be read.
pub async fn buckets(target: &Target) -> Result<Vec<BucketStatus>, Error> {
    Looking::new(target).await?.statuses(target.buckets.iter().collect()).await
}

/// A bucket's status with the time at which it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Watched {
    /// When, RFC 3339.
    pub(super) at: String,
    /// What was found.
    #[serde(flatten)]
    pub(super) status: BucketStatus,
}

impl Row for Watched {
    const COLUMNS: &'static [&'static str] = &[
        "at",
        "bucket",
        "owner",
        "epoch",
        "released",
        "time",
        "committed",
        "end",
        "lag",
        "assigned",
        "retrying",
    ];

    fn cells(&self) -> Vec<String> {
        std::iter::once(self.at.clone()).chain(self.status.cells()).collect()
    }
}

/// Looks again and again: a table that is drawn anew on a terminal, else line after line. While Kafka is away it says
/// so and goes on. Returns only with an error.
///
/// # Errors
/// As [`buckets`], in the first round; later ones only for what does not pass by itself, and when `out` is closed.
pub(super) async fn watch(
    target: &Target,
    every: Duration,
    (format, paint): (Format, Paint),
    out: &mut impl Write,
) -> Result<(), Error> {
    let looking = Looking::new(target).await?;
    let mut screen = Screen {
        title: format!("bus {}, every {} s; Ctrl-C ends", target.bus, every.as_secs()),
        format,
        paint,
        redraw: format == Format::Table && io::stdout().is_terminal(),
        last: Vec::new(),
    };
    format.begin::<Watched>(out).map_err(Error::Output)?;
    let mut first = true;
    loop {
        match looking.statuses(target.buckets.iter().collect()).await {
            Ok(rows) => screen.show(rows, out).map_err(Error::Output)?,
            Err(error) if first || error.kind() != ErrorKind::Retryable => return Err(error),
            Err(error) => screen.trouble(&chain(&error), out).map_err(Error::Output)?,
        }
        first = false;
        tokio::time::sleep(every).await;
    }
}

/// Where rounds are shown.
struct Screen {
    title: String,
    format: Format,
    paint: Paint,
    redraw: bool,
    last: Vec<BucketStatus>,
}

impl Screen {
    fn show(&mut self, rows: Vec<BucketStatus>, out: &mut impl Write) -> io::Result<()> {
        if self.format == Format::Table {
            self.last = rows;
            return self.draw(&now(), None, out);
        }
        let at = now();
        for status in rows {
            self.format.append(&Watched { at: at.clone(), status }, out)?;
        }
        out.flush()
    }

    /// Kafka is away: what was seen last stays, with the reason.
    fn trouble(&self, what: &str, out: &mut impl Write) -> io::Result<()> {
        if self.redraw {
            return self.draw(&now(), Some(what), out);
        }
        writeln!(io::stderr(), "control-bus: {}: {}; still trying", now(), harmless(what))
    }

    fn draw(&self, at: &str, trouble: Option<&str>, out: &mut impl Write) -> io::Result<()> {
        let mut text = if self.redraw { REDRAW.to_owned() } else { String::new() };
        text.push_str(&format!("{at}  {}\n\n{}\n", self.title, table(&self.last, self.paint)));
        if let Some(what) = trouble {
            let what = format!("as last seen; still trying: {}", harmless(what));
            text.push_str(&format!("\n{}\n", self.paint.text(super::Tone::Bad, &what)));
        }
        if !self.redraw {
            text.push('\n');
        }
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

/// The time by this machine's clock, RFC 3339, in whole seconds.
fn now() -> String {
    format!("{:.0}", jiff::Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(format: Format, redraw: bool) -> Screen {
        Screen { title: "bus b".to_owned(), format, paint: Paint::OFF, redraw, last: Vec::new() }
    }

    fn shown(format: Format, redraw: bool) -> String {
        let (mut screen, mut out) = (screen(format, redraw), Vec::new());
        for lag in [7, 8] {
            screen.show(vec![BucketStatus { lag, ..BucketStatus::default() }], &mut out).unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_terminal_is_drawn_anew_each_round_and_nothing_else_is() {
        assert_eq!(shown(Format::Table, true).matches(REDRAW).count(), 2);
        for format in [Format::Table, Format::Plain, Format::Json] {
            assert!(!shown(format, false).contains('\u{1b}'), "{format:?}");
        }
        assert_eq!(shown(Format::Json, false).lines().count(), 2, "one object for each bucket and round");
        assert_eq!(shown(Format::Plain, false).lines().count(), 2);
    }

    #[test]
    fn what_was_seen_last_stays_while_kafka_is_away() {
        let (mut screen, mut out) = (screen(Format::Table, true), Vec::new());
        screen.show(vec![BucketStatus { lag: 4711, ..BucketStatus::default() }], &mut Vec::new()).unwrap();
        screen.trouble("no broker answered", &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("4711") && text.contains("no broker answered"), "{text}");
    }
}
