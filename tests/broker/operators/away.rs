//! Commands that go on, while Kafka goes away and comes back.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::support::{
    kafka::Cluster,
    process::{Bus, eventually},
};

const SOON: Duration = Duration::from_secs(90);

#[test]
fn following_and_watching_outlast_an_outage() {
    let cluster = Cluster::start(1, &[]);
    let bus = Bus::new("operators-away", cluster.bootstrap(), 1);
    let pod = bus.data_plane("dispatcher1");
    assert_eq!(pod.look(&["topics", "ensure"]).code, Some(0));
    assert_eq!(pod.look(&["send", "a/b", "t", "--id", "before"]).code, Some(0));
    let mut tail = pod.begin(&["tail", "--from", "beginning", "--output", "json"]);
    let mut watch = pod.begin(&["buckets", "--watch", "1", "--timeout", "3s", "--output", "json"]);
    tail.until("the first message", SOON, |lines| lines.first().map(drop));
    watch.until("the first round", SOON, |lines| lines.first().map(drop));

    cluster.stop_all();
    for process in [&tail, &watch] {
        eventually("trouble is told", SOON, &[process], || {
            process.stderr().contains("still trying").then_some(())
        });
    }
    cluster.restart_all();
    assert_eq!(pod.look(&["send", "a/b", "t", "--id", "after", "--timeout", "30s"]).code, Some(0));
    tail.until("the message after the outage", SOON, |lines| {
        lines.iter().find(|line| line.text_of("id") == "after").map(drop)
    });
    watch.until("the round after the outage", SOON, |lines| {
        lines.iter().find(|line| line.number("lag") == 2).map(drop)
    });
    for process in [&mut tail, &mut watch] {
        process.signal(Signal::SIGINT);
        assert_eq!(process.exit_code(SOON), 0);
    }
    let ids: Vec<_> = tail.lines().iter().map(|line| line.text_of("id").to_owned()).collect();
    assert_eq!(ids, ["before", "after"], "nothing is shown twice");
}
