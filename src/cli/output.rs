//! Results as text: a table for people, tabs for other programs, JSON for those that parse.

mod paint;

use std::io::{self, IsTerminal as _, Write};

use comfy_table::{Cell, ContentArrangement, Table, presets};
pub use paint::{Paint, Tone};
use serde::Serialize;

use super::Error;

/// How a result is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Format {
    /// Columns as wide as the terminal allows.
    Table,
    /// A line of headings, then one line each, with a tab between columns.
    Plain,
    /// One JSON object a line.
    Json,
}

/// One line of a result.
pub trait Row: Serialize {
    /// The headings, in the order of [`Row::cells`].
    const COLUMNS: &'static [&'static str];

    /// The line's cells; what is not known is empty.
    fn cells(&self) -> Vec<String>;

    /// A cell, by its place, that wants a look: coloured on a terminal.
    fn tone(&self) -> Option<(usize, Tone)> {
        None
    }
}

impl Format {
    /// The format where none was asked for: a table on a terminal, plain text elsewhere.
    #[must_use]
    pub fn of_stdout() -> Self {
        if io::stdout().is_terminal() { Self::Table } else { Self::Plain }
    }

    /// Writes the rows, in plain text and in a table after a line of headings.
    ///
    /// In a table and in plain text control characters become spaces: what a record says must not steer the
    /// terminal, or break a line.
    ///
    /// # Errors
    /// [`Error::Output`] when `out` does not take it.
    pub fn write<R: Row>(self, rows: &[R], paint: Paint, out: &mut impl Write) -> Result<(), Error> {
        let written = match self {
            Self::Table => writeln!(out, "{}", table(rows, paint)),
            Self::Plain => headings::<R>(out).and_then(|()| plain(rows, out)),
            Self::Json => json(rows, out),
        };
        written.and_then(|()| out.flush()).map_err(Error::Output)
    }

    /// Writes one more row of a result that goes on, without headings.
    pub(super) fn append<R: Row>(self, row: &R, out: &mut impl Write) -> io::Result<()> {
        let rows = std::slice::from_ref(row);
        if self == Self::Json { json(rows, out) } else { plain(rows, out) }
    }

    /// Writes what stands above a result that goes on.
    pub(super) fn begin<R: Row>(self, out: &mut impl Write) -> io::Result<()> {
        if self == Self::Plain { headings::<R>(out) } else { Ok(()) }
    }
}

/// A cell of something that may not be known.
pub(super) fn cell(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// A time of RFC 3339 with so many digits after the second; any other text as it is.
pub(super) fn brief(time: &str, digits: usize) -> String {
    match time.parse::<jiff::Timestamp>() {
        Ok(time) => format!("{time:.digits$}"),
        Err(_) => time.to_owned(),
    }
}

/// Text without control characters: each becomes a space.
pub(super) fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The rows as a table.
pub(super) fn table<R: Row>(rows: &[R], paint: Paint) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(R::COLUMNS.iter().map(|column| column.to_uppercase()));
    for row in rows {
        let toned = row.tone();
        let cells = row.cells().into_iter().enumerate().map(|(place, cell)| {
            let tone = toned.filter(|(toned, _)| *toned == place).map(|(_, tone)| tone);
            painted(Cell::new(harmless(&cell)), tone, paint)
        });
        table.add_row(cells);
    }
    table.trim_fmt()
}

fn painted(cell: Cell, tone: Option<Tone>, paint: Paint) -> Cell {
    match tone.filter(|_| paint.is_on()) {
        None => cell,
        Some(Tone::Good) => cell.fg(comfy_table::Color::Green),
        Some(Tone::Caution) => cell.fg(comfy_table::Color::Yellow),
        Some(Tone::Bad) => cell.fg(comfy_table::Color::Red),
        Some(Tone::Quiet) => cell.add_attribute(comfy_table::Attribute::Dim),
    }
}

fn headings<R: Row>(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", R::COLUMNS.join("\t"))
}

fn plain<R: Row>(rows: &[R], out: &mut impl Write) -> io::Result<()> {
    for row in rows {
        let cells: Vec<String> = row.cells().iter().map(|cell| harmless(cell)).collect();
        writeln!(out, "{}", cells.join("\t"))?;
    }
    Ok(())
}

fn json<R: Row>(rows: &[R], out: &mut impl Write) -> io::Result<()> {
    for row in rows {
        writeln!(out, "{}", serde_json::to_string(row)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Line {
        owner: Option<&'static str>,
        lag: u64,
    }

    impl Row for Line {
        const COLUMNS: &'static [&'static str] = &["owner", "lag"];

        fn cells(&self) -> Vec<String> {
            vec![cell(self.owner), self.lag.to_string()]
        }
    }

    fn written(format: Format) -> String {
        let rows = [Line { owner: Some("a\u{1b}[31m\tb\n"), lag: 1 }, Line { owner: None, lag: 22 }];
        let mut out = Vec::new();
        format.write(&rows, Paint::OFF, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn plain_text_has_headings_and_tabs() {
        assert_eq!(written(Format::Plain), "owner\tlag\na [31m b \t1\n\t22\n");
    }

    #[test]
    fn a_table_never_passes_control_characters_on() {
        let text = written(Format::Table);
        assert!(text.starts_with(" OWNER") && !text.contains('\u{1b}'), "{text:?}");
        assert_eq!(text.lines().count(), 3, "{text:?}");
    }

    #[test]
    fn only_a_time_is_shortened() {
        let time = "2026-01-31T08:00:00.123456789Z";
        assert_eq!(brief(time, 0), "2026-01-31T08:00:00Z");
        assert_eq!(brief(time, 3), "2026-01-31T08:00:00.123Z");
        assert_eq!(brief("yesterday", 3), "yesterday");
    }

    #[test]
    fn json_has_one_object_a_line_and_null_for_what_is_not_known() {
        let text = written(Format::Json);
        let last = text.lines().last().unwrap();
        assert_eq!(last, r#"{"owner":null,"lag":22}"#);
    }
}
