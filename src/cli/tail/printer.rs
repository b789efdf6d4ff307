//! Writing what is followed: for people in columns that stay in place, else as any other result.

use std::io::{self, Write};

use super::Seen;
use crate::cli::{
    Error, Format, Paint, Tone,
    output::{brief, cell, harmless},
};

/// How many characters of data a line has.
const SHORT: usize = 120;

/// Writes records, one a line.
pub(super) struct Printer {
    format: Format,
    paint: Paint,
    full: bool,
}

impl Printer {
    pub(super) fn new(format: Format, paint: Paint, full: bool) -> Self {
        Self { format, paint, full }
    }

    /// Writes the headings.
    pub(super) fn begin(&self, out: &mut impl Write) -> Result<(), Error> {
        let written = match self.format {
            Format::Table => {
                let heading =
                    columns(["TIME", "PLACE", "KIND", "RESOURCE", "TYPE", "POD", "ID"].map(str::to_owned));
                writeln!(out, "{}", self.paint.text(Tone::Quiet, &format!("{heading}  DATA")))
            }
            Format::Plain | Format::Json => self.format.begin::<Seen>(out),
        };
        written.and_then(|()| out.flush()).map_err(Error::Output)
    }

    /// Writes one record; `None` writes out what was written.
    pub(super) fn print(&mut self, seen: Option<&Seen>, out: &mut impl Write) -> Result<(), Error> {
        let written = match (seen, self.format) {
            (None, _) => out.flush(),
            (Some(seen), Format::Json) => self.format.append(seen, out),
            (Some(seen), Format::Plain) => self.format.append(&self.shortened(seen), out),
            (Some(seen), Format::Table) => self.line(seen, out),
        };
        written.map_err(Error::Output)
    }

    fn shortened(&self, seen: &Seen) -> Seen {
        Seen { text: self.data(seen), ..seen.clone() }
    }

    fn data(&self, seen: &Seen) -> String {
        if self.full { seen.text.clone() } else { short(&seen.text) }
    }

    fn line(&self, seen: &Seen, out: &mut impl Write) -> io::Result<()> {
        let cells = [
            cell(seen.time.as_deref().map(|time| brief(time, 3))),
            format!("{}/{}", seen.bucket, seen.offset),
            seen.kind.to_owned(),
            cell(seen.resource.as_deref()),
            cell(seen.ty.as_deref()),
            cell(seen.pod.as_deref()),
            cell(seen.id.as_deref()),
        ];
        let head = columns(cells.map(|cell| harmless(&cell)));
        let head = match seen.kind {
            "tombstone" => self.paint.text(Tone::Quiet, &head),
            _ if seen.dead_letter.is_some() || seen.problem.is_some() => self.paint.text(Tone::Bad, &head),
            _ => head,
        };
        let note = seen.note().map(|note| format!("[{}]", harmless(&note)));
        let note = note.map(|note| self.paint.text(Tone::Caution, &note) + " ").unwrap_or_default();
        writeln!(out, "{head}  {note}{}", harmless(&self.data(seen)))
    }
}

/// Cells in columns: each as wide as its contents usually are.
fn columns([time, place, kind, resource, ty, pod, id]: [String; 7]) -> String {
    format!("{time:<24}  {place:>8}  {kind:<9}  {resource:<20}  {ty:<12}  {pod:<12}  {id:<36}")
}

/// The beginning of a text, and how much more there is.
fn short(text: &str) -> String {
    let length = text.chars().count();
    if length <= SHORT {
        return text.to_owned();
    }
    let kept: String = text.chars().take(SHORT).collect();
    format!("{kept}… ({} more)", length - SHORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_data_is_cut_between_characters_and_says_so() {
        assert_eq!(short("short"), "short");
        let long = short(&"é".repeat(SHORT + 5));
        assert!(long.ends_with("é… (5 more)"), "{long}");
    }
}
