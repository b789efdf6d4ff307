//! What was found about one thing, and what to do.

use std::io::Write;

use serde::Serialize;

use crate::cli::{
    Error, Format, Paint, Row, Tone,
    output::{cell, harmless},
};

/// Whether a thing is as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::cli) enum Verdict {
    /// It is, as far as this user may see.
    Ok,
    /// The bus works, and somebody should look.
    Warning,
    /// Something does not work.
    Failed,
}

/// One line of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct Finding {
    /// What was looked at.
    pub(in crate::cli) check: &'static str,
    /// Whether it is as it should be.
    pub(in crate::cli) result: Verdict,
    /// What was found.
    pub(in crate::cli) found: String,
    /// What to do; `None` where nothing is to be done.
    pub(in crate::cli) todo: Option<String>,
}

impl Verdict {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }

    fn tone(self) -> Tone {
        match self {
            Self::Ok => Tone::Good,
            Self::Warning => Tone::Caution,
            Self::Failed => Tone::Bad,
        }
    }
}

impl Finding {
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, result: Verdict::Ok, found: found.into(), todo: None }
    }

    pub(super) fn warning(check: &'static str, found: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { check, result: Verdict::Warning, found: found.into(), todo: Some(todo.into()) }
    }

    pub(super) fn failed(check: &'static str, found: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { check, result: Verdict::Failed, found: found.into(), todo: Some(todo.into()) }
    }

    /// Writes findings: for people one line each with what to do below it, else as any other result.
    ///
    /// # Errors
    /// [`Error::Output`].
    pub(in crate::cli) fn write(
        findings: &[Self],
        (format, paint): (Format, Paint),
        out: &mut impl Write,
    ) -> Result<(), Error> {
        if format != Format::Table {
            return format.write(findings, paint, out);
        }
        for Self { check, result, found, todo } in findings {
            let word = paint.text(result.tone(), &format!("{:<7}", result.as_str()));
            writeln!(out, "{word}  {check:<15}  {}", harmless(found)).map_err(Error::Output)?;
            if let Some(todo) = todo {
                let todo = harmless(todo);
                writeln!(out, "{:<9}{:<15}  -> {todo}", "", "").map_err(Error::Output)?;
            }
        }
        out.flush().map_err(Error::Output)
    }
}

impl Row for Finding {
    const COLUMNS: &'static [&'static str] = &["check", "result", "found", "todo"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.check.to_owned(),
            self.result.as_str().to_owned(),
            self.found.clone(),
            cell(self.todo.as_deref()),
        ]
    }
}
