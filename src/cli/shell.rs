//! What is written about the program itself: completions for shells, and manual pages.

use std::io::Write;

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;

use super::{Cli, Error};

/// Writes a shell's completions.
///
/// # Errors
/// [`Error::Output`].
pub(super) fn completions(shell: Shell, out: &mut impl Write) -> Result<(), Error> {
    // The generator panics where its writer fails, so it gets memory.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "control-bus", &mut script);
    out.write_all(&script).and_then(|()| out.flush()).map_err(Error::Output)
}

/// Writes the manual page of the program, or of one of its commands: `["dead-letters", "list"]`.
///
/// # Errors
/// [`Error::NoCommand`], [`Error::Output`].
pub(super) fn man(path: &[String], out: &mut impl Write) -> Result<(), Error> {
    let mut root = Cli::command();
    root.build();
    let mut command = &root;
    for name in path {
        let visible = |command: &&Command| command.get_name() == name && !command.is_hide_set();
        let found = command.get_subcommands().find(visible);
        command = found.ok_or_else(|| Error::NoCommand { found: path.join(" ") })?;
    }
    // The commands' own help is a page too, but nobody needs it.
    let page = clap_mangen::Man::new(command.clone().disable_help_subcommand(true));
    let mut text = Vec::new();
    page.render(&mut text)
        .and_then(|()| out.write_all(&text))
        .and_then(|()| out.flush())
        .map_err(Error::Output)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    fn page(path: &[&str]) -> Result<String, Error> {
        let path: Vec<String> = path.iter().map(|name| (*name).to_owned()).collect();
        let mut out = Vec::new();
        man(&path, &mut out).map(|()| String::from_utf8(out).unwrap())
    }

    /// Every command that people see, by its names.
    fn commands(command: &Command, path: &[String]) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        for one in command.get_subcommands().filter(|one| !one.is_hide_set()) {
            let path = [path, &[one.get_name().to_owned()]].concat();
            found.extend(commands(one, &path));
            found.push(path);
        }
        found
    }

    #[test]
    fn every_command_has_a_page_with_its_examples() {
        let all = commands(&Cli::command(), &[]);
        assert!(all.len() >= 14, "{all:?}");
        for path in all {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let text = page(&path).unwrap().replace("\\-", "-");
            let name = path.join(" ");
            assert!(text.contains("Examples"), "{path:?}: {text}");
            assert!(text.contains(&format!("control-bus {name}")), "{path:?}: {text}");
        }
        assert!(page(&[]).unwrap().contains("Exit codes"));
    }

    #[test]
    fn a_page_about_nothing_is_refused() {
        for wrong in [&["other"][..], &["buckets", "other"], &["demo-guard"]] {
            assert!(matches!(page(wrong), Err(Error::NoCommand { .. })), "{wrong:?}");
        }
    }

    #[test]
    fn every_shell_is_told_every_command() {
        for shell in Shell::value_variants() {
            let mut out = Vec::new();
            completions(*shell, &mut out).unwrap();
            let script = String::from_utf8(out).unwrap();
            for name in ["buckets", "dead-letters", "check", "tail"] {
                assert!(script.contains(name), "{shell}: {name}");
            }
            // What only the demo calls is not for people.
            assert!(!script.contains("control-bus demo-guard --"), "{shell}");
        }
    }
}
