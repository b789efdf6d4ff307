use std::{net::SocketAddr, sync::Mutex};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    task::JoinHandle,
};

use super::*;
use crate::model::Bucket;

/// A running listener, and what it is told to answer.
struct Running {
    address: SocketAddr,
    metrics: Arc<Metrics>,
    reasons: Arc<Mutex<Vec<String>>>,
    defect: Arc<Mutex<Option<String>>>,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

async fn start() -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let metrics = Arc::new(Metrics::new().unwrap());
    let reasons = Arc::new(Mutex::new(Vec::new()));
    let defect = Arc::new(Mutex::new(None));
    let shutdown = CancellationToken::new();
    let readiness = {
        let reasons = reasons.clone();
        move || reasons.lock().unwrap().clone()
    };
    let liveness = {
        let defect = defect.clone();
        move || defect.lock().unwrap().clone()
    };
    let task = tokio::spawn(serve(listener, metrics.clone(), readiness, liveness, shutdown.clone()));
    Running { address, metrics, reasons, defect, shutdown, task }
}

/// The whole answer to a GET, as text.
async fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

#[tokio::test]
async fn metrics_are_served_in_the_text_format() {
    let running = start().await;
    running.metrics.bucket(Bucket::from_partition(1).unwrap()).handled.inc_by(7);
    let answer = get(running.address, "/metrics").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("content-type: text/plain; version=0.0.4"), "{answer}");
    assert!(answer.contains("control_bus_bucket_handled_records_total{bucket=\"1\"} 7\n"), "{answer}");
}

#[tokio::test]
async fn readiness_lists_its_reasons() {
    let running = start().await;
    let answer = get(running.address, "/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(body(&answer), r#"{"ready":true,"reasons":[]}"#);
    *running.reasons.lock().unwrap() = vec!["bucket 3 is restoring".to_owned(), "x".to_owned()];
    let answer = get(running.address, "/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("content-type: application/json"), "{answer}");
    assert_eq!(body(&answer), r#"{"ready":false,"reasons":["bucket 3 is restoring","x"]}"#);
}

#[tokio::test]
async fn liveness_fails_with_its_reason() {
    let running = start().await;
    let answer = get(running.address, "/livez").await;
    assert!(answer.starts_with("HTTP/1.1 200") && body(&answer) == r#"{"live":true}"#, "{answer}");
    *running.defect.lock().unwrap() = Some("the client has failed for good".to_owned());
    let answer = get(running.address, "/livez").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert_eq!(body(&answer), r#"{"live":false,"reason":"the client has failed for good"}"#);
}

#[tokio::test]
async fn nothing_else_is_served() {
    let running = start().await;
    assert!(get(running.address, "/").await.starts_with("HTTP/1.1 404"));
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(b"POST /livez HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
}

#[tokio::test]
async fn a_connection_serves_several_requests() {
    let running = start().await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let mut buffer = vec![0; 4096];
    for _ in 0..3 {
        stream.write_all(b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        while !answer.ends_with(r#"{"live":true}"#) {
            let count = stream.read(&mut buffer).await.unwrap();
            assert_ne!(count, 0, "closed after {answer:?}");
            answer.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
        }
    }
}

#[tokio::test]
async fn stuck_clients_never_keep_a_probe_out() {
    let running = start().await;
    let started = std::time::Instant::now();
    let mut stuck = Vec::new();
    for number in 0..3 * CONNECTIONS {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        if number % 2 == 0 {
            stream.write_all(b"GET /met").await.unwrap();
        }
        stuck.push(stream);
        if number % CONNECTIONS == 0 {
            assert!(get(running.address, "/livez").await.starts_with("HTTP/1.1 200"));
        }
    }
    assert!(get(running.address, "/livez").await.starts_with("HTTP/1.1 200"));
    // The oldest is cut to make room, long before its own time is over.
    let end = stuck[0].read(&mut [0; 16]).await;
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    assert!(started.elapsed() < HEAD, "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_no_request_is_cut_in_time() {
    let running = start().await;
    let started = tokio::time::Instant::now();
    let mut idle = TcpStream::connect(running.address).await.unwrap();
    let mut half = TcpStream::connect(running.address).await.unwrap();
    half.write_all(b"GET /livez HT").await.unwrap();
    let mut rest = Vec::new();
    for stream in [&mut idle, &mut half] {
        stream.read_to_end(&mut rest).await.ok();
    }
    assert!(started.elapsed() < LIFETIME, "{:?}", started.elapsed());
}

#[tokio::test]
async fn it_ends_in_order_although_clients_are_idle_or_stuck() {
    let running = start().await;
    let mut idle = TcpStream::connect(running.address).await.unwrap();
    idle.write_all(b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
    idle.readable().await.unwrap();
    let mut stuck = TcpStream::connect(running.address).await.unwrap();
    stuck.write_all(b"GET /liv").await.unwrap();
    running.shutdown.cancel();
    running.task.await.unwrap();
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).await.unwrap();
    assert!(String::from_utf8(rest).unwrap().ends_with(r#"{"live":true}"#));
    assert!(TcpStream::connect(running.address).await.is_err());
}

/// Every metric's name, whether or not it has a value yet.
fn names(metrics: &Metrics) -> std::collections::BTreeSet<String> {
    metrics.bucket(Bucket::from_partition(0).unwrap()).clear();
    metrics.handler_seconds.with_label_values(&["x"]).observe(1.0);
    metrics.transaction_seconds.with_label_values(&["x"]).observe(1.0);
    for family in
        [&metrics.publish_failed, &metrics.rebalances, &metrics.tenures_ended, &metrics.kafka_errors]
    {
        family.with_label_values(&["x"]).inc();
    }
    let text = String::from_utf8(metrics.render().unwrap()).unwrap();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.filter_map(|line| line.split(['{', ' ']).next()).map(str::to_owned).collect()
}

#[test]
fn alerts_name_only_metrics_that_exist() {
    const ALERTS: &str = include_str!("../../../deploy/prometheus/alerts.yml");
    let exist = names(&Metrics::new().unwrap());
    let expressions: String =
        ALERTS.lines().filter(|line| !line.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n");
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let named: Vec<&str> = expressions.split(word).filter(|word| word.starts_with("control_bus_")).collect();
    assert!(named.len() >= 10, "only {named:?} were found");
    for name in named {
        assert!(exist.contains(name), "{name} does not exist; there are {exist:#?}");
    }
}
