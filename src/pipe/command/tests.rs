use std::path::Path;

use tokio::io::{AsyncReadExt as _, DuplexStream, duplex};

use super::*;
use crate::pipe::lines::tests::delivery;

fn handler(program: &str, arguments: &[&str]) -> CommandHandler {
    let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let (lines, _) = Lines::new(duplex(16).0);
    CommandHandler::new(program, &arguments, lines, PodName::new("c1").unwrap())
}

async fn shell(script: &str) -> Outcome {
    handler("sh", &["-c", script]).handle(delivery(&[], b"x")).await
}

#[tokio::test]
async fn exit_codes_are_outcomes_and_the_last_line_is_the_reason() {
    assert_eq!(shell("exit 0").await, Outcome::Handled);
    assert_eq!(shell("echo first >&2; echo why >&2; exit 65").await, Outcome::Reject("why".to_owned()));
    assert_eq!(shell("echo busy >&2; exit 75").await, Outcome::Unavailable("busy".to_owned()));
    let Outcome::Retry(reason) = shell("echo broken >&2; exit 3").await else { panic!() };
    assert!(reason.contains("exit status: 3") && reason.ends_with(": broken"), "{reason}");
    let Outcome::Retry(reason) = shell("kill -TERM $$").await else { panic!() };
    assert!(reason.contains("signal: 15"), "{reason}");
    let Outcome::Reject(reason) = shell("exit 65").await else { panic!() };
    assert!(reason.contains("65"), "{reason}");
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_unavailable() {
    let outcome = handler("/no/such/program", &[]).handle(delivery(&[], b"x")).await;
    let Outcome::Unavailable(reason) = outcome else { panic!("{outcome:?}") };
    assert!(reason.contains("/no/such/program"), "{reason}");
}

#[tokio::test]
async fn the_program_reads_the_messages_line_to_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("copy");
    // More than a pipe holds, so that it is read while it is written.
    let data = format!("\"{}\"", "y".repeat(300_000));
    let delivery = delivery(&[("content-type", "application/json")], data.as_bytes());
    let expected = line::message(&delivery, &PodName::new("c1").unwrap());
    let script = format!("echo noise; cat > '{}'", copy.display());
    assert_eq!(handler("sh", &["-c", &script]).handle(delivery).await, Outcome::Handled);
    assert_eq!(std::fs::read(copy).unwrap(), expected);
}

#[tokio::test]
async fn a_program_that_does_not_read_its_message_is_judged_by_its_exit() {
    let data = vec![0; 300_000];
    let outcome = handler("true", &[]).handle(delivery(&[], &data)).await;
    assert_eq!(outcome, Outcome::Handled);
}

#[tokio::test]
async fn much_on_standard_error_neither_blocks_nor_grows() {
    let script = "i=0; while [ $i -lt 20000 ]; do echo 'a line of some length, many times' >&2; i=$((i+1)); done; \
                  echo the end >&2; exit 65";
    assert_eq!(shell(script).await, Outcome::Reject("the end".to_owned()));
}

#[tokio::test]
async fn something_left_behind_does_not_hold_up_the_outcome() {
    let outcome = shell("sleep 5 & echo why >&2; exit 65").await;
    assert_eq!(outcome, Outcome::Reject("why".to_owned()));
}

/// A pipe with a name, whose reader sees its end once no process has it open for writing any more.
fn named_pipe(path: &Path) -> tokio::net::unix::pipe::Receiver {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    tokio::net::unix::pipe::OpenOptions::new().open_receiver(path).unwrap()
}

#[tokio::test]
async fn an_attempt_that_is_given_up_ends_the_program_and_what_it_started() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe");
    let mut alive = named_pipe(&path);
    // Both hold the pipe open; the inner one would go on for long after its parent's death.
    let script =
        format!("exec 3> '{}'; sh -c 'echo inner >&3; sleep 600' & echo outer >&3; wait", path.display());
    let handler = handler("sh", &["-c", &script]);
    let mut text = String::new();
    {
        let mut handling = std::pin::pin!(handler.handle(delivery(&[], b"x")));
        let mut buffer = [0; 64];
        while !(text.contains("inner") && text.contains("outer")) {
            tokio::select! {
                outcome = &mut handling => panic!("it ended: {outcome:?}"),
                ready = alive.readable() => ready.unwrap(),
            }
            match alive.try_read(&mut buffer) {
                Ok(count) => text.push_str(std::str::from_utf8(&buffer[..count]).unwrap()),
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
        }
    }
    let mut rest = Vec::new();
    timeout(Duration::from_secs(60), alive.read_to_end(&mut rest))
        .await
        .expect("a process lives on")
        .unwrap();
}

#[tokio::test]
async fn only_lines_about_buckets_go_to_standard_output() {
    let (out, mut reader): (DuplexStream, _) = duplex(4096);
    let (lines, writer) = Lines::new(out);
    let writer = tokio::spawn(writer.run());
    let arguments = ["-c".to_owned(), "echo noise".to_owned()];
    let handler = CommandHandler::new("sh", &arguments, lines, PodName::new("c1").unwrap());
    let bucket = Bucket::from_partition(1).unwrap();
    handler.acquired(bucket, Epoch::new(4)).await;
    assert_eq!(handler.handle(delivery(&[], b"x")).await, Outcome::Handled);
    handler.released(bucket, Epoch::new(4), Released::Lost).await;
    drop(handler);
    writer.await.unwrap().unwrap();
    let mut text = String::new();
    reader.read_to_string(&mut text).await.unwrap();
    let expected = "{\"acquired\":{\"bucket\":1,\"epoch\":4,\"controller\":\"c1\"}}\n\
                    {\"released\":{\"bucket\":1,\"epoch\":4,\"controller\":\"c1\",\"why\":\"lost\"}}\n";
    assert_eq!(text, expected);
}

#[tokio::test(start_paused = true)]
async fn standard_output_that_nobody_reads_does_not_hold_up_a_bucket() {
    let (out, _reader) = duplex(8);
    let (lines, writer) = Lines::new(out);
    tokio::spawn(writer.run());
    let handler = CommandHandler::new("true", &[], lines, PodName::new("c1").unwrap());
    handler.acquired(Bucket::from_partition(1).unwrap(), Epoch::new(4)).await;
}
