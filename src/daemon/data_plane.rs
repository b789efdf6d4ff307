//! The data-plane role: lines on standard input are published, and answered on standard output.

use std::sync::Arc;

use super::{Error, Process};
use crate::{
    config::AtEnd,
    pipe::data_plane::{self, Options},
    publisher::Publisher,
    topics::Verified,
};

/// Publishes until the input ends, or until the shutdown; everything that was read is answered.
pub(super) async fn run(process: Process, verified: &Verified) -> Result<(), Error> {
    let config = process.settings.publisher(verified.notification_limit);
    let publisher = Publisher::start(config, &process.settings.kafka(), Arc::clone(&process.metrics))
        .map_err(Error::Publisher)?;
    process.status.data_plane(publisher.clone());
    let at_end = match process.settings.input_at_end() {
        AtEnd::Exit => data_plane::AtEnd::Exit,
        AtEnd::Stay => data_plane::AtEnd::Stay,
    };
    let input = tokio::io::BufReader::with_capacity(64 * 1024, tokio::io::stdin());
    let output = tokio::io::stdout();
    let done = data_plane::run(&publisher, input, output, Options { at_end }, process.shutdown.clone()).await;
    process.status.stopping();
    publisher.close().await;
    let summary = done.map_err(Error::Pipe)?;
    if summary.all_accepted() {
        return Ok(());
    }
    Err(Error::NotAllAccepted { refused: summary.lines - summary.accepted, lines: summary.lines })
}
