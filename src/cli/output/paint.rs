//! Colours, where there is somebody to see them.

use std::io::{self, IsTerminal as _};

/// What a colour says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tone {
    /// As it should be.
    Good,
    /// Worth a look.
    Caution,
    /// Something is wrong.
    Bad,
    /// Of less interest.
    Quiet,
}

/// Whether text is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paint(bool);

impl Paint {
    /// No colours.
    pub const OFF: Self = Self(false);
    /// Colours.
    pub const ON: Self = Self(true);

    /// Colours where standard output is a terminal that can show them, and `NO_COLOR` is not set.
    #[must_use]
    pub fn of_stdout() -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self(io::stdout().is_terminal() && !set("NO_COLOR") && !dumb)
    }

    /// Whether there are colours.
    #[must_use]
    pub const fn is_on(self) -> bool {
        self.0
    }

    /// The text in its tone.
    #[must_use]
    pub fn text(self, tone: Tone, text: &str) -> String {
        if !self.0 {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Good => 32,
            Tone::Caution => 33,
            Tone::Bad => 31,
            Tone::Quiet => 2,
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colours_a_text_is_left_alone() {
        assert_eq!(Paint::OFF.text(Tone::Bad, "x"), "x");
        assert_eq!(Paint::ON.text(Tone::Bad, "x"), "\u{1b}[31mx\u{1b}[0m");
    }
}
