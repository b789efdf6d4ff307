//! With in-memory pipes, on the embedded broker.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use proptest::prelude::*;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use super::*;
use crate::{
    kafka::{EmbeddedBroker, Settings},
    model::{Buckets, Bus, PodName},
    telemetry::Metrics,
};

const EXIT: Options = Options { at_end: AtEnd::Exit };

fn start(broker: &EmbeddedBroker, delivery_timeout: Duration, max_records: usize) -> Publisher {
    let settings = Settings::new(broker.bootstrap(), "pod", BTreeMap::new(), true).unwrap();
    let config = Config {
        bus: Bus::new("bus").unwrap(),
        buckets: Buckets::new(4).unwrap(),
        name: PodName::new("pod").unwrap(),
        delivery_timeout,
        linger: Duration::ZERO,
        max_records,
        max_bytes: 10_000_000,
        max_message_bytes: 100_000,
    };
    Publisher::start(config, &settings, Arc::new(Metrics::new().unwrap())).unwrap()
}

fn broker() -> EmbeddedBroker {
    let broker = EmbeddedBroker::start(1).unwrap();
    broker.create_topic("bus.notifications", 4, 1).unwrap();
    broker
}

fn line(id: impl std::fmt::Display) -> String {
    format!(r#"{{"resource":"ns/{id}","type":"t","kind":"event","data":{{"n":1}},"id":"{id}"}}"#)
}

async fn run_on(publisher: &Publisher, input: &[u8]) -> (Summary, Vec<Value>) {
    let mut output = Vec::new();
    let summary = run(publisher, input, &mut output, EXIT, CancellationToken::new()).await.unwrap();
    (summary, parsed(&output))
}

fn parsed(output: &[u8]) -> Vec<Value> {
    assert!(output.is_empty() || output.ends_with(b"\n"));
    let text = std::str::from_utf8(output).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_line_is_answered_in_order_and_a_bad_one_ends_nothing() {
    let broker = broker();
    let publisher = start(&broker, Duration::from_secs(20), 100);
    let mut input = Vec::new();
    for number in 0..1000 {
        match number % 10 {
            3 => input.extend(b"\n"),
            5 => input.extend(b"\xff{}\n"),
            7 => input.extend(format!("{{\"id\":\"{number}\"}}\n").bytes()),
            _ => input.extend(format!("{}\n", line(number)).bytes()),
        }
    }
    input.extend(line("last").bytes());
    let (summary, answers) = run_on(&publisher, &input).await;
    assert_eq!((summary.lines, summary.accepted), (1001, 701));
    assert!(!summary.all_accepted());
    for (number, answer) in answers[..1000].iter().enumerate() {
        match number % 10 {
            3 | 5 => {
                assert_eq!(
                    (&answer["error_kind"], &answer["line"]),
                    (&"invalid".into(), &(number + 1).into())
                );
                assert!(answer["error"].is_string() && answer.get("id").is_none(), "{answer}");
            }
            7 => assert_eq!(answer["id"], number.to_string()),
            _ => {
                let keys: Vec<_> = answer.as_object().unwrap().keys().map(String::as_str).collect();
                assert_eq!(keys, ["bucket", "id", "offset", "resource"]);
                assert_eq!(
                    (&answer["id"], &answer["resource"]),
                    (&number.to_string().into(), &format!("ns/{number}").into())
                );
                assert!(answer["offset"].is_u64() && answer["bucket"].is_u64());
            }
        }
    }
    assert_eq!(answers[1000]["id"], "last");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_to_all_buckets_is_answered_with_each() {
    let broker = broker();
    let publisher = start(&broker, Duration::from_secs(20), 100);
    let input = br#"{"resource":"a/b","type":"t","kind":"state","to":"all-buckets","data_base64":"AA=="}"#;
    let (summary, answers) = run_on(&publisher, input).await;
    assert!(summary.all_accepted());
    let places: Vec<_> = (0..4).map(|bucket| serde_json::json!({"bucket": bucket, "offset": 0})).collect();
    assert_eq!((&answers[0]["buckets"], &answers[0]["resource"]), (&places.into(), &"a/b".into()));
    assert!(answers[0]["id"].is_string() && answers[0].get("bucket").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_and_messages_over_their_limits_are_refused_and_reading_goes_on() {
    let broker = broker();
    let publisher = start(&broker, Duration::from_secs(20), 100);
    let large = "x".repeat(100_000);
    let huge = "x".repeat(MIN_LINE_LIMIT);
    let with =
        |data: &str| format!(r#"{{"resource":"a/b","type":"t","kind":"event","id":"1","data":"{data}"}}"#);
    let input = format!("{}\n{}\n{}\n", with(&large), with(&huge), with("small"));
    let (summary, answers) = run_on(&publisher, input.as_bytes()).await;
    assert_eq!((summary.lines, summary.accepted), (3, 1));
    assert!(answers[0]["error"].as_str().unwrap().contains("the topic takes 100000"), "{}", answers[0]);
    assert!(answers[1]["error"].as_str().unwrap().contains(&format!("at most {MIN_LINE_LIMIT}")));
    assert_eq!(
        (&answers[0]["error_kind"], &answers[1]["error_kind"]),
        (&"invalid".into(), &"invalid".into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_broker_away_lines_are_answered_retryable_with_their_ids() {
    let broker = broker();
    let publisher = start(&broker, Duration::from_secs(1), 100);
    broker.broker_down(-1).unwrap();
    let (summary, answers) = run_on(&publisher, format!("{}\n{}\n", line(1), line(2)).as_bytes()).await;
    assert_eq!((summary.lines, summary.accepted), (2, 0));
    for (number, answer) in (1..).zip(&answers) {
        assert_eq!((&answer["error_kind"], &answer["line"]), (&"retryable".into(), &number.into()));
        assert_eq!(answer["id"], number.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_written_before_the_next_line_comes() {
    let broker = broker();
    let publisher = start(&broker, Duration::from_secs(20), 100);
    let (mut input, piped_input) = tokio::io::duplex(1000);
    let (piped_output, output) = tokio::io::duplex(1000);
    let shutdown = CancellationToken::new();
    let stay = Options { at_end: AtEnd::Stay };
    let running = tokio::spawn({
        let (publisher, shutdown) = (publisher.clone(), shutdown.clone());
        async move { run(&publisher, BufReader::new(piped_input), piped_output, stay, shutdown).await }
    });
    let mut answers = BufReader::new(output).lines();
    for number in 0..3 {
        input.write_all(format!("{}\n", line(number)).as_bytes()).await.unwrap();
        let answer = answers.next_line().await.unwrap().unwrap();
        assert!(answer.contains(&format!("\"id\":\"{number}\"")), "{answer}");
    }
    drop(input);
    // The output ends with the pipe's writer, and it stays on after that until the shutdown.
    assert_eq!(answers.next_line().await.unwrap(), None);
    assert!(!running.is_finished());
    shutdown.cancel();
    assert!(running.await.unwrap().unwrap().all_accepted());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_answers_what_was_read_and_reads_no_more() {
    let broker = broker();
    let publisher = start(&broker, Duration::from_secs(20), 1);
    broker.broker_down(-1).unwrap();
    let (mut input, piped_input) = tokio::io::duplex(1000);
    let (piped_output, mut output) = tokio::io::duplex(10_000);
    let shutdown = CancellationToken::new();
    let running = tokio::spawn({
        let (publisher, shutdown) = (publisher.clone(), shutdown.clone());
        async move { run(&publisher, BufReader::new(piped_input), piped_output, EXIT, shutdown).await }
    });
    // The first takes all the room, the second waits for it, the third is not whole.
    let third = line(3);
    let (begun, _) = third.split_at(10);
    input.write_all(format!("{}\n{}\n{begun}", line(1), line(2)).as_bytes()).await.unwrap();
    while publisher.oldest_unanswered().is_none() {
        tokio::task::yield_now().await;
    }
    shutdown.cancel();
    broker.broker_up(-1).unwrap();
    let summary = running.await.unwrap().unwrap();
    let mut text = Vec::new();
    output.read_to_end(&mut text).await.unwrap();
    let answers = parsed(&text);
    assert_eq!(summary.lines, answers.len() as u64);
    assert_eq!((&answers[0]["id"], answers[0].get("offset").is_some()), (&"1".into(), true));
    for answer in &answers[1..] {
        assert_eq!((&answer["error_kind"], &answer["id"]), (&"retryable".into(), &"2".into()));
    }
    assert!(answers.len() <= 2, "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_output_ends_it_with_an_error_after_a_flush() {
    let broker = broker();
    let publisher = start(&broker, Duration::from_secs(20), 100);
    let (mut input, piped_input) = tokio::io::duplex(1000);
    let (piped_output, output) = tokio::io::duplex(1000);
    drop(output);
    input.write_all(format!("{}\n", line(1)).as_bytes()).await.unwrap();
    let error = run(&publisher, BufReader::new(piped_input), piped_output, EXIT, CancellationToken::new())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Output { .. }), "{error:?}");
    assert_eq!(publisher.oldest_unanswered(), None);
    drop(input);
}

/// One broker and publisher for all cases.
fn shared() -> &'static (tokio::runtime::Runtime, EmbeddedBroker, Publisher) {
    static SHARED: OnceLock<(tokio::runtime::Runtime, EmbeddedBroker, Publisher)> = OnceLock::new();
    SHARED.get_or_init(|| {
        let broker = broker();
        let publisher = start(&broker, Duration::from_secs(20), 100);
        (tokio::runtime::Runtime::new().unwrap(), broker, publisher)
    })
}

fn any_line() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[a-z]{1,3}".prop_map(|id| line(id).into_bytes()),
        "[a-z]{1,3}".prop_map(|id| (line(id) + "\r").into_bytes()),
        (0..60_usize, any::<u8>()).prop_map(|(at, byte)| {
            let mut line = line("x").into_bytes();
            line[at] = byte;
            line
        }),
        prop::collection::vec(any::<u8>(), 0..50),
        "[{}\\[\\]\",: a-z0-9]{0,50}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_or_skip_a_line(lines in prop::collection::vec(any_line(), 0..20), end in any::<bool>()) {
        let mut input = lines.join(&b'\n');
        if end {
            input.push(b'\n');
        }
        let ends = input.iter().filter(|byte| **byte == b'\n').count();
        let expected = ends + usize::from(input.last().is_some_and(|last| *last != b'\n'));
        let (runtime, _, publisher) = shared();
        let (summary, answers) = runtime.block_on(run_on(publisher, &input));
        prop_assert_eq!((summary.lines, answers.len()), (expected as u64, expected));
        for (number, answer) in (1_u64..).zip(&answers) {
            prop_assert!(answer.get("offset").is_some() || answer["line"] == number);
        }
    }
}
