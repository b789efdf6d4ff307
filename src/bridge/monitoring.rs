//! The monitoring listener: `/metrics`, `/livez` and `/readyz` over HTTP/1.1, on a port of their own.
//!
//! Invariants: it holds at most 64 connections, each for at most two minutes; when another comes, the oldest is
//! cut, so that clients that are stuck never keep a probe out. It decides nothing: what ready means is said by
//! whoever starts it.

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use serde::Serialize;
use tokio::{
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::telemetry::Metrics;

/// How many connections are held at a time: a few probes and scrapers need one each.
const CONNECTIONS: usize = 64;

/// How long a request's head may take to arrive, and a connection may be idle.
const HEAD: Duration = Duration::from_secs(10);

/// How long a connection may last; then it is ended after the response that is under way.
const LIFETIME: Duration = Duration::from_secs(120);

/// How long a response that is under way may take when its connection is to end.
const LAST_RESPONSE: Duration = Duration::from_secs(2);

/// How long accepting pauses when the process has no file descriptors left.
const EXHAUSTED: Duration = Duration::from_millis(100);

/// Prometheus' text format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What a probe is answered.
#[derive(Serialize)]
struct Ready {
    ready: bool,
    reasons: Vec<String>,
}

/// What a liveness probe is answered.
#[derive(Serialize)]
struct Live {
    live: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Serves until `shutdown` is cancelled; then it takes no more connections, and gives responses under way two
/// seconds.
///
/// `readiness` gives the reasons why the process is not ready, none when it is; `liveness` the reason why it
/// should be restarted, if it should. Both are called for each probe, on the runtime, and must not block.
///
/// `/readyz` answers 200 or 503 with `{"ready": …, "reasons": […]}`, `/livez` 200 or 503 with
/// `{"live": …}`, `/metrics` Prometheus' text format 0.0.4.
///
/// Cancel safety: dropping it closes everything at once.
pub async fn serve(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    readiness: impl Fn() -> Vec<String> + Send + Sync + 'static,
    liveness: impl Fn() -> Option<String> + Send + Sync + 'static,
    shutdown: CancellationToken,
) {
    let service = router(metrics, readiness, liveness);
    let mut connections = JoinSet::new();
    let mut oldest_first: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                oldest_first.retain(|connection| !connection.is_finished());
                if oldest_first.len() >= CONNECTIONS
                    && let Some(oldest) = oldest_first.pop_front()
                {
                    oldest.abort();
                }
                let connection = connection(stream, service.clone(), shutdown.clone());
                oldest_first.push_back(connections.spawn(connection));
            }
            Err(error) => after_refusal(&error).await,
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// A connection that failed before it was accepted concerns only its client; all else passes with time.
async fn after_refusal(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        return;
    }
    tracing::warn!(%error, "the monitoring listener cannot accept a connection");
    sleep(EXHAUSTED).await;
}

/// Serves one connection, until its client closes it, its time is over, or the process ends.
async fn connection(stream: TcpStream, service: Router, shutdown: CancellationToken) {
    let service = TowerToHyperService::new(service);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = shutdown.cancelled() => None,
        () = sleep(LIFETIME) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            // A client that does not read its response is cut.
            timeout(LAST_RESPONSE, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a monitoring connection failed");
    }
}

fn router(
    metrics: Arc<Metrics>,
    readiness: impl Fn() -> Vec<String> + Send + Sync + 'static,
    liveness: impl Fn() -> Option<String> + Send + Sync + 'static,
) -> Router {
    let (readiness, liveness) = (Arc::new(readiness), Arc::new(liveness));
    let ready = move || {
        let reasons = readiness();
        let ready = reasons.is_empty();
        std::future::ready(answer(ready, &Ready { ready, reasons }))
    };
    let live = move || {
        let reason = liveness();
        let live = reason.is_none();
        std::future::ready(answer(live, &Live { live, reason }))
    };
    Router::new()
        .route("/metrics", get(move || std::future::ready(rendered(&metrics))))
        .route("/readyz", get(ready))
        .route("/livez", get(live))
}

fn answer(good: bool, body: &impl Serialize) -> Response {
    let status = if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    match serde_json::to_vec(body) {
        Ok(body) => (status, [(header::CONTENT_TYPE, "application/json")], Body::from(body)).into_response(),
        Err(error) => failed(&error),
    }
}

fn rendered(metrics: &Metrics) -> Response {
    match metrics.render() {
        Ok(text) => ([(header::CONTENT_TYPE, TEXT)], Body::from(text)).into_response(),
        Err(error) => failed(&error),
    }
}

fn failed(error: &dyn std::error::Error) -> Response {
    tracing::error!(%error, "a monitoring response cannot be written");
    StatusCode::INTERNAL_SERVER_ERROR.into_response()
}

#[cfg(test)]
mod tests;
