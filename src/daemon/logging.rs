//! Log lines on standard error: text for people, with colours on a terminal only, or one JSON object a line.
//!
//! Standard output is never written to: it belongs to messages.

use std::io::{self, IsTerminal as _};

use tracing::Subscriber;
use tracing_subscriber::{EnvFilter, fmt::MakeWriter, util::SubscriberInitExt as _};

use crate::config::{Log, LogFormat};

/// Logging could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The filter is none. A configuration that was loaded has been checked for that.
    #[error("log filter {level:?} cannot be read: expected a level or tracing directives in `log.level`")]
    Filter {
        /// What was found.
        level: String,
        /// Why.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// The process logs already.
    #[error("logging is already set up in this process")]
    AlreadySet(#[source] tracing_subscriber::util::TryInitError),
}

/// Sets up this process's logging, once. Lines of the `log` crate are not taken.
///
/// Colours are used where standard error is a terminal and `NO_COLOR` is not set.
///
/// # Errors
/// [`Error`] when the filter cannot be read, or the process logs already.
pub fn init(log: &Log) -> Result<(), Error> {
    let wants_none = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let colours = io::stderr().is_terminal() && !wants_none;
    subscriber(log, colours, io::stderr)?.try_init().map_err(Error::AlreadySet)
}

fn subscriber<W>(log: &Log, colours: bool, writer: W) -> Result<Box<dyn Subscriber + Send + Sync>, Error>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::builder()
        .parse(&log.level)
        .map_err(|source| Error::Filter { level: log.level.clone(), source })?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    Ok(match log.format {
        LogFormat::Text => Box::new(lines.with_ansi(colours).finish()),
        LogFormat::Json => Box::new(lines.json().flatten_event(true).finish()),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, level: &str, colours: bool) -> String {
        let written = Written::default();
        let writer = written.clone();
        let log = Log { format, level: level.to_owned() };
        let subscriber = subscriber(&log, colours, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(bucket = 3, "a bucket was acquired");
            tracing::debug!("a detail");
        });
        let bytes = written.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn json_has_one_object_a_line_with_its_fields_at_the_top() {
        let text = logged(LogFormat::Json, "debug", true);
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(lines[0]["message"], "a bucket was acquired");
        assert_eq!((&lines[0]["bucket"], &lines[0]["level"]), (&3.into(), &"INFO".into()));
    }

    #[test]
    fn text_has_colours_only_where_they_are_wanted() {
        let plain = logged(LogFormat::Text, "info", false);
        assert!(plain.contains("a bucket was acquired") && plain.contains("bucket=3"), "{plain}");
        assert!(!plain.contains('\u{1b}') && !plain.contains("a detail"), "{plain}");
        assert!(logged(LogFormat::Text, "info", true).contains('\u{1b}'));
    }

    #[test]
    fn directives_choose_by_target() {
        assert_eq!(logged(LogFormat::Text, "info,control_bus=warn", false), "");
    }
}
