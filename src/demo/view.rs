//! The show on standard output: lines with the time, and on a terminal a board below them that is kept up to date.
//!
//! The board is written over, never cleared first, and everything that changes at a time is one write: nothing
//! flickers. The terminal itself cuts board lines at its edge, so its width need not be known.

use std::{
    io::{self, IsTerminal as _, Write},
    time::{Duration, Instant},
};

use super::error::Error;

/// How a line is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// What happens next.
    Step,
    /// Something that happened.
    News,
    /// Of less interest.
    Aside,
    Good,
    Bad,
}

impl Tone {
    /// The terminal's code for it.
    fn code(self) -> &'static str {
        match self {
            Self::Step => "1;36",
            Self::News => "0",
            Self::Aside => "2",
            Self::Good => "1;32",
            Self::Bad => "1;31",
        }
    }
}

/// How much a line can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Lines only.
    Plain,
    /// A terminal: with a board, and with colours unless they are not wanted.
    Live {
        /// Whether there are colours.
        colours: bool,
    },
}

impl Style {
    /// What standard output can do.
    pub(super) fn of_stdout() -> Self {
        let says = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        if !io::stdout().is_terminal() || says("TERM").is_none_or(|term| term == "dumb") {
            return Self::Plain;
        }
        Self::Live { colours: says("NO_COLOR").is_none() }
    }
}

/// Where the show is seen.
pub(super) struct View<W> {
    out: W,
    style: Style,
    began: Instant,
    board: Vec<String>,
    /// How many board lines stand above the cursor.
    drawn: usize,
}

impl<W: Write> View<W> {
    pub(super) fn new(out: W, style: Style, began: Instant) -> Self {
        Self { out, style, began, board: Vec::new(), drawn: 0 }
    }

    /// Whether there is a board.
    pub(super) fn is_live(&self) -> bool {
        self.style != Style::Plain
    }

    /// Says something, with the time before it.
    pub(super) fn say(&mut self, tone: Tone, text: &str) -> Result<(), Error> {
        let time = format!("{:>5.1} s", self.began.elapsed().as_secs_f64());
        let line = match self.style {
            Style::Live { colours: true } => {
                format!("\x1b[2m{time}\x1b[0m  \x1b[{}m{text}\x1b[0m", tone.code())
            }
            _ => format!("{time}  {text}"),
        };
        self.print(&line)
    }

    /// Prints lines as they are.
    pub(super) fn print(&mut self, lines: &str) -> Result<(), Error> {
        let mut text = String::new();
        if self.drawn > 0 {
            text.push_str(&format!("\x1b[{}A\x1b[J", self.drawn));
            self.drawn = 0;
        }
        text.push_str(lines);
        text.push('\n');
        self.draw(&mut text);
        self.write(&text)
    }

    /// Shows the board anew.
    pub(super) fn show(&mut self, board: Vec<String>) -> Result<(), Error> {
        if self.style == Style::Plain || board == self.board {
            return Ok(());
        }
        self.board = board;
        let mut text = String::new();
        if self.drawn > 0 {
            text.push_str(&format!("\x1b[{}A", self.drawn));
        }
        self.draw(&mut text);
        self.write(&text)
    }

    /// Leaves the board where it stands; there is none until it is shown again.
    pub(super) fn settle(&mut self) {
        self.board.clear();
        self.drawn = 0;
    }

    /// Adds the board, from its first line on.
    fn draw(&mut self, text: &mut String) {
        if self.board.is_empty() {
            return;
        }
        text.push_str("\x1b[?7l");
        for line in &self.board {
            text.push_str(line);
            text.push_str("\x1b[K\n");
        }
        text.push_str("\x1b[?7h");
        // Below it there may be the rest of a longer one.
        text.push_str("\x1b[J");
        self.drawn = self.board.len();
    }

    fn write(&mut self, text: &str) -> Result<(), Error> {
        self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).map_err(Error::Output)
    }
}

/// A number with its thousands apart.
pub(super) fn count(number: impl ToString) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time span for people.
pub(super) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(style: Style) -> View<Vec<u8>> {
        View::new(Vec::new(), style, Instant::now())
    }

    fn written(view: View<Vec<u8>>) -> String {
        String::from_utf8(view.out).unwrap()
    }

    /// What a terminal shows after `text`, which has only what is written here.
    fn screen(text: &str) -> Vec<String> {
        let (mut lines, mut row, mut column) = (vec![Vec::new()], 0_usize, 0_usize);
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            match c {
                '\x1b' => {
                    let code: String = rest.by_ref().take_while(|c| !c.is_ascii_alphabetic()).collect();
                    match text[..text.len() - rest.as_str().len()].chars().next_back() {
                        Some('A') => row -= code[1..].parse::<usize>().unwrap(),
                        Some('J') => {
                            lines.truncate(row + 1);
                            lines[row].truncate(column);
                        }
                        Some('K') => lines[row].truncate(column),
                        _ => {}
                    }
                }
                '\n' => {
                    (row, column) = (row + 1, 0);
                    lines.resize(lines.len().max(row + 1), Vec::new());
                }
                c => {
                    let width = lines[row].len().max(column + 1);
                    lines[row].resize(width, ' ');
                    lines[row][column] = c;
                    column += 1;
                }
            }
        }
        lines.into_iter().map(|line| line.into_iter().collect()).collect()
    }

    #[test]
    fn plain_output_has_no_codes_and_no_board() {
        let mut view = view(Style::Plain);
        view.say(Tone::Bad, "one").unwrap();
        view.show(vec!["board".to_owned()]).unwrap();
        view.say(Tone::Good, "two").unwrap();
        assert_eq!(written(view), "  0.0 s  one\n  0.0 s  two\n");
    }

    #[test]
    fn the_board_stays_below_the_lines_and_only_once() {
        let mut view = view(Style::Live { colours: false });
        let board = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        view.print("one").unwrap();
        view.show(board(&["a: 1", "b: 1", "c"])).unwrap();
        view.print("two").unwrap();
        view.show(board(&["a: 2", "b: 2"])).unwrap();
        view.print("three").unwrap();
        view.settle();
        view.print("four").unwrap();
        assert_eq!(screen(&written(view)), ["one", "two", "three", "a: 2", "b: 2", "four", ""]);
    }

    #[test]
    fn thousands_are_apart() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }
}
