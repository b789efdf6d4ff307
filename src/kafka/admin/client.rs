//! The administration client with what rdkafka leaves out: somebody who listens to what librdkafka tells.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use rdkafka::{ClientContext, admin::AdminClient, config::RDKafkaLogLevel, error::KafkaError};

use crate::kafka::{Settings, client::Context, ffi};

/// How long the listening thread waits at a time, in milliseconds: at most so long does a drop take.
const LISTEN_MS: i32 = 100;

/// A client, and the thread that serves its queue until the drop.
pub(super) struct Served {
    client: Arc<AdminClient<Remembering>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    pub(super) fn new(settings: &Settings) -> Result<Self, KafkaError> {
        let remembering = Remembering { context: Context::new(None), last: Mutex::new(None) };
        let client: Arc<AdminClient<_>> = Arc::new(settings.client().create_with_context(remembering)?);
        let stop = Arc::new(AtomicBool::new(false));
        let (served, stopped) = (Arc::clone(&client), Arc::clone(&stop));
        let listen = move || {
            while !stopped.load(Ordering::Relaxed) {
                ffi::serve(served.inner(), LISTEN_MS);
            }
        };
        let thread = thread::Builder::new()
            .name("kafka-admin".to_owned())
            .spawn(listen)
            .map_err(|error| KafkaError::ClientCreation(format!("no thread for it: {error}")))?;
        Ok(Self { client, stop, thread: Some(thread) })
    }

    pub(super) fn get(&self) -> &AdminClient<Remembering> {
        &self.client
    }

    /// What last went wrong with a connection, in librdkafka's words.
    pub(super) fn last_error(&self) -> Option<String> {
        self.client.inner().context().last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            tracing::warn!("the administration client's thread ended with a panic");
        }
    }
}

/// Remembers what last went wrong with a connection, since a time-out alone does not say why.
#[derive(Debug)]
pub(super) struct Remembering {
    context: Context,
    last: Mutex<Option<String>>,
}

impl ClientContext for Remembering {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        // librdkafka's name for what ends a connection, or keeps it from being made.
        if facility == "FAIL" {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(for_people(message).to_owned());
        }
        self.context.log(level, facility, message);
    }

    fn stats_raw(&self, _: &[u8]) {}
}

/// A log line without what only librdkafka's own developers read: its thread's name in front, and its counts behind.
fn for_people(message: &str) -> &str {
    let rest = message.strip_prefix("[thrd:").and_then(|rest| rest.split_once("]: "));
    let rest = rest.map_or(message, |(_, rest)| rest);
    rest.split_once(" (after ").map_or(rest, |(rest, _)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connections_end_is_told_in_few_words() {
        let line = "[thrd:a:1/bootstrap]: a:1/bootstrap: Connect to ipv4#1.2.3.4:1 failed: Connection refused (after 0ms \
                    in state CONNECT, 1 identical error(s) suppressed)";
        assert_eq!(for_people(line), "a:1/bootstrap: Connect to ipv4#1.2.3.4:1 failed: Connection refused");
        assert_eq!(for_people("anything else"), "anything else");
    }
}
