//! `control-bus demo`: the case that the bus exists for, played with real processes, and judged.
//!
//! Three dispatchers have something to say about two triggers, whose buckets two controllers share. One controller is
//! killed, a third is added, another is stopped in good order, the first comes back; every message must have been
//! handled all the same. Controllers and dispatchers are child processes of this same program; Kafka is an embedded
//! broker in this process, or a real cluster.
//!
//! - [`verdict`] judges by the children's lines alone, without I/O;
//! - `show` holds everything together, `script` is what is played, `standing` is what is known at each moment;
//! - nothing outlives the show: see `guard`.
//!
//! It shows the bus; it is no test of Kafka, and the embedded broker knows neither transactions nor fencing.

mod board;
mod error;
mod guard;
mod load;
mod process;
mod said;
mod script;
mod setting;
mod show;
mod standing;
mod stay;
pub mod verdict;
mod view;

use tokio_util::sync::CancellationToken;

pub use self::{
    error::Error,
    guard::{COMMAND as GUARD_COMMAND, stand as stand_guard},
};
use self::{script::play, show::Show, stay::stay};

/// What can be chosen.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Play on these brokers instead of an embedded one: host:port, several separated by commas. The show has a bus
    /// of its own there, and deletes its topics at the end, unless --stay.
    #[arg(long, value_name = "BROKERS")]
    pub brokers: Option<String>,
    /// A librdkafka property for these brokers, as under `kafka.properties`; can be given several times. A secret is
    /// better given as NAME_file=PATH.
    #[arg(long = "property", value_name = "NAME=VALUE", requires = "brokers", value_parser = property)]
    pub properties: Vec<(String, String)>,
    /// How many messages are sent each second, 12 to 500.
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(12..=500))]
    pub rate: u32,
    /// Keep the bus and its broker running after the verdict, and say what can be tried in another terminal; Ctrl-C
    /// ends it.
    #[arg(long)]
    pub stay: bool,
}

fn property(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

/// Plays the show on standard output, until its verdict or `shutdown`; with `stay` until `shutdown`. Returns whether
/// the verdict is good. Children and files are gone when it returns, except that the children's logs are left, and
/// said where, when they can explain a bad end.
///
/// Cancel safety: dropped, it leaves the children to its guard, which ends them with this process.
///
/// # Errors
/// [`Error`], when there is no verdict.
pub async fn run(options: Options, shutdown: CancellationToken) -> Result<bool, Error> {
    let mut show = Show::open(&options, shutdown).await?;
    let result = async {
        let verdict = play(&mut show).await?;
        if options.stay {
            stay(&mut show).await?;
        }
        Ok::<_, Error>(verdict)
    }
    .await;
    let keep = match &result {
        Ok(verdict) => !verdict.is_good(),
        Err(error) => error.needs_logs(),
    };
    show.close(keep, options.stay).await?;
    result.map(|verdict| verdict.is_good())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_is_a_name_and_a_value() {
        assert_eq!(property("a.b=c=d"), Ok(("a.b".to_owned(), "c=d".to_owned())));
        assert!(property("a").is_err() && property("=a").is_err());
    }
}
