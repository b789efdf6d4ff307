//! What a value may be, by itself and beside others.

use std::{fmt::Display, net::SocketAddr, ops::RangeInclusive, time::Duration};

use super::{
    error::{Error, Origin},
    layer::Role,
    settings::Settings,
    sources::Origins,
    value::{Interval, Size},
};

pub(super) const HOUR: Duration = Duration::from_secs(3600);
pub(super) const DAY: Duration = Duration::from_secs(24 * 3600);

/// The longest that librdkafka lets a record wait for others.
const LONGEST_LINGER: Duration = Duration::from_secs(900);

/// The least that a publisher may hold: smaller, and one ordinary record could not be accepted.
const LEAST_BYTES: usize = 1024 * 1024;

/// The most bytes that a limit of memory may be set to: librdkafka counts kilobytes in 31 bits.
const MOST_BYTES: u64 = (1 << 41) - 1024;

/// Reads single keys out of the merged layer.
pub(super) struct Read<'a> {
    origins: &'a Origins,
}

impl<'a> Read<'a> {
    pub(super) fn new(origins: &'a Origins) -> Self {
        Self { origins }
    }

    /// A key that has a default, or is required.
    pub(super) fn needed<T>(&self, key: &'static str, value: Option<T>) -> Result<T, Error> {
        value.ok_or_else(|| self.origins.missing(key))
    }

    /// A needed key with a type of its own.
    pub(super) fn parsed<T, U, E: Display>(
        &self,
        key: &'static str,
        value: Option<T>,
        parse: impl FnOnce(T) -> Result<U, E>,
    ) -> Result<U, Error> {
        parse(self.needed(key, value)?).map_err(|error| self.origins.key(key, error.to_string()))
    }

    /// A needed number.
    pub(super) fn within<T: PartialOrd + Display>(
        &self,
        key: &'static str,
        value: Option<T>,
        range: RangeInclusive<T>,
    ) -> Result<T, Error> {
        let value = self.needed(key, value)?;
        if range.contains(&value) {
            return Ok(value);
        }
        let (least, most) = (range.start(), range.end());
        Err(self.origins.key(key, format!("{value} is out of range: expected {least} to {most}")))
    }

    /// A number that may be absent.
    pub(super) fn optional<T: PartialOrd + Display>(
        &self,
        key: &'static str,
        value: Option<T>,
        range: RangeInclusive<T>,
    ) -> Result<Option<T>, Error> {
        value.map(|value| self.within(key, Some(value), range)).transpose()
    }

    /// A number of things in memory.
    pub(super) fn count(
        &self,
        key: &'static str,
        value: Option<u64>,
        range: RangeInclusive<u64>,
    ) -> Result<usize, Error> {
        let value = self.within(key, value, range)?;
        usize::try_from(value).map_err(|error| self.origins.key(key, error.to_string()))
    }

    /// A number of bytes in memory.
    pub(super) fn size(&self, key: &'static str, value: Option<Size>) -> Result<usize, Error> {
        self.count(key, value.map(|size| size.0), 1..=MOST_BYTES)
    }

    /// A time span from a millisecond to `most`.
    pub(super) fn time(
        &self,
        key: &'static str,
        value: Option<Interval>,
        most: Duration,
    ) -> Result<Duration, Error> {
        self.span(key, value, Duration::from_millis(1)..=most)
    }

    /// A time span that may be nothing.
    pub(super) fn short(&self, key: &'static str, value: Option<Interval>) -> Result<Duration, Error> {
        self.span(key, value, Duration::ZERO..=LONGEST_LINGER)
    }

    fn span(
        &self,
        key: &'static str,
        value: Option<Interval>,
        range: RangeInclusive<Duration>,
    ) -> Result<Duration, Error> {
        let Interval(value) = self.needed(key, value)?;
        if range.contains(&value) {
            return Ok(value);
        }
        let (least, most) = (range.start(), range.end());
        Err(self.origins.key(key, format!("{value:?} is out of range: expected {least:?} to {most:?}")))
    }

    /// A program and its arguments.
    pub(super) fn command(
        &self,
        key: &'static str,
        value: Option<Vec<String>>,
    ) -> Result<Option<Vec<String>>, Error> {
        match value.as_deref() {
            Some([]) => Err(self.origins.key(key, "it is empty: expected [\"program\", \"argument\", …]")),
            Some([program, ..]) if program.is_empty() => Err(self
                .origins
                .key(key, "the program's name is empty: expected [\"program\", \"argument\", …]")),
            _ => Ok(value),
        }
    }

    /// An address to listen on.
    pub(super) fn address(
        &self,
        key: &'static str,
        value: Option<String>,
    ) -> Result<Option<SocketAddr>, Error> {
        let parse = |text: String| {
            text.parse().map_err(|_| {
                let expected = "an IP address and a port, such as \"0.0.0.0:9090\" or \"[::]:9090\"";
                self.origins.key(key, format!("found {text:?}, expected {expected}"))
            })
        };
        value.map(parse).transpose()
    }

    /// A filter for log lines.
    pub(super) fn filter(&self, key: &'static str, value: Option<String>) -> Result<String, Error> {
        let value = self.needed(key, value)?;
        match tracing_subscriber::EnvFilter::builder().parse(&value) {
            Ok(_) if !value.trim().is_empty() => Ok(value),
            _ => {
                let expected = "a level (error, warn, info, debug, trace), or directives such as \"info,control_bus=debug\"";
                Err(self.origins.key(key, format!("found {value:?}, expected {expected}")))
            }
        }
    }
}

impl Settings {
    /// Lets a default give way to what was set: who shortens one time span need not know every other.
    pub(super) fn yield_defaults(&mut self, origins: &Origins) {
        let lower = |key: &str, value: Duration, most: Duration| match origins.of(key) {
            Origin::Default => value.min(most),
            Origin::File(_) | Origin::Variable(_) => value,
        };
        self.heartbeat = lower("group.heartbeat", self.heartbeat, self.session_timeout / 3);
        self.retry.initial = lower("retry.initial", self.retry.initial, self.retry.max);
        let drain = self.shutdown.grace.min(self.max_poll_interval) / 2;
        self.shutdown.drain = lower("shutdown.drain", self.shutdown.drain, drain);
        if origins.of("handler.concurrency") == Origin::Default {
            self.handler_concurrency = self.handler_concurrency.min(self.window.max_records);
        }
    }

    /// Checks the limits across keys.
    ///
    /// # Errors
    /// [`Error::Conflict`] for two keys that do not go together, [`Error::Key`] for one that this role does
    /// not have.
    pub(super) fn validate(&self, origins: &Origins) -> Result<(), Error> {
        self.validate_role(origins)?;
        let time = |key: &'static str, value: Duration| (key, value);
        let session = time("group.session_timeout", self.session_timeout);
        let heartbeat = time("group.heartbeat", self.heartbeat);
        let poll = time("group.max_poll_interval", self.max_poll_interval);
        let drain = time("shutdown.drain", self.shutdown.drain);
        let grace = time("shutdown.grace", self.shutdown.grace);
        let (initial, longest) =
            (time("retry.initial", self.retry.initial), time("retry.max", self.retry.max));
        let linger = time("publisher.linger", self.publishing.linger);
        let delivery = time("publisher.delivery_timeout", self.publishing.delivery_timeout);
        let rule = |holds: bool, one: (&str, Duration), other: (&str, Duration), rule: &str| {
            let why = format!("found {:?} and {:?}, but {rule}", one.1, other.1);
            if holds { Ok(()) } else { Err(origins.conflict(one.0, other.0, why)) }
        };
        let fits = heartbeat.1.saturating_mul(3) <= session.1;
        rule(fits, heartbeat, session, "three heartbeats must fit into the session time-out")?;
        rule(session.1 <= poll.1, session, poll, "the session time-out must not be the longer one")?;
        rule(drain.1 < poll.1, drain, poll, "draining must end before the group takes this member for dead")?;
        rule(drain.1 < grace.1, drain, grace, "after draining there must be time for the last commits")?;
        rule(initial.1 <= longest.1, initial, longest, "the first wait must not be longer than the longest")?;
        rule(linger.1 < delivery.1, linger, delivery, "a record must not linger until it has timed out")?;
        self.validate_sizes(origins)
    }

    fn validate_role(&self, origins: &Origins) -> Result<(), Error> {
        let (key, only) = match self.role {
            Role::Controller => ("input.at_end", "data-plane"),
            Role::DataPlane => ("handler.command", "controller"),
        };
        if origins.of(key) == Origin::Default {
            return Ok(());
        }
        let why = format!("only the role {only:?} has `{key}`: remove it, or change the role");
        Err(origins.conflict(key, "role", why))
    }

    fn validate_sizes(&self, origins: &Origins) -> Result<(), Error> {
        let (concurrency, records) = (self.handler_concurrency, self.window.max_records);
        if concurrency > records {
            let why =
                format!("found {concurrency} and {records}, but no more can be handled than may be read");
            return Err(origins.conflict("handler.concurrency", "bucket.max_records", why));
        }
        let bytes = self.publishing.max_bytes;
        if bytes < LEAST_BYTES {
            let reason = format!("found {bytes} bytes, expected at least {LEAST_BYTES} (1MiB)");
            return Err(origins.key("publisher.max_bytes", reason));
        }
        Ok(())
    }
}
