//! SIGTERM and SIGINT: the first asks for an orderly end, the second ends the process at once.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The exit code after a second signal.
const INTERRUPTED: i32 = 130;

/// Cancels the returned token at the first SIGTERM or SIGINT; a second one ends the process with exit code 130.
///
/// # Errors
/// When the signals cannot be listened for.
pub fn shutdown_on_signals() -> io::Result<CancellationToken> {
    let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let shutdown = CancellationToken::new();
    tokio::spawn(listen(terminate, interrupt, shutdown.clone()));
    Ok(shutdown)
}

async fn listen(mut terminate: Signal, mut interrupt: Signal, shutdown: CancellationToken) {
    either(&mut terminate, &mut interrupt).await;
    tracing::info!("a signal was received; ending in good order");
    shutdown.cancel();
    either(&mut terminate, &mut interrupt).await;
    tracing::warn!("a second signal was received; ending at once");
    #[expect(clippy::disallowed_methods, reason = "the one place besides main that ends the process")]
    std::process::exit(INTERRUPTED);
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
