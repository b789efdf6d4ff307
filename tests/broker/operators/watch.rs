//! `buckets --watch`: round after round, until an interrupt.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::support::{kafka::shared, process::Bus};

const SOON: Duration = Duration::from_secs(30);

#[test]
fn a_watch_shows_what_changes() {
    let bus = Bus::new("operators-watch", shared(), 2);
    let pod = bus.data_plane("dispatcher1");
    assert_eq!(pod.look(&["topics", "ensure"]).code, Some(0));
    let mut watch = pod.begin(&["buckets", "--watch", "1", "--output", "json"]);
    watch.until("a first round", SOON, |lines| (lines.len() >= 2).then_some(()));
    let sent = pod.look(&["send", "a/b", "t", "--output", "json"]).json();
    let bucket = sent["bucket"].as_i64().unwrap();
    let changed = watch.until("the message is seen waiting", SOON, |lines| {
        lines.iter().find(|line| line.number("bucket") == bucket && line.number("lag") == 1).cloned()
    });
    assert!(changed.text_of("at") > watch.lines()[0].text_of("at"), "each round has its own time");
    watch.signal(Signal::SIGINT);
    assert_eq!(watch.exit_code(SOON), 0, "an interrupt is how a watch ends");
    assert!(!watch.stdout().contains('\u{1b}'), "nothing is redrawn where there is no terminal");
}

#[test]
fn a_watch_of_nothing_is_an_error_at_once() {
    let bus = Bus::new("operators-watch-nothing", shared(), 2);
    let watch = bus.data_plane("dispatcher1").look(&["buckets", "--watch"]);
    assert_eq!(watch.code, Some(1), "{watch:?}");
    assert!(watch.stderr.contains("topics ensure"), "{watch:?}");
}
