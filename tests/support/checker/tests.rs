use super::*;

/// A run of two controllers, whose lines are given one after another, 10 ms apart.
struct Plot {
    began: Instant,
    lines: u64,
    checker: Checker,
}

impl Plot {
    fn new() -> Self {
        let mut checker = Checker::default();
        checker.controller("c1", vec![], Fate::Orderly);
        checker.controller("c2", vec![], Fate::Orderly);
        Self { began: Instant::now(), lines: 0, checker }
    }

    fn line(&mut self, text: String) -> Line {
        self.lines += 1;
        let json = serde_json::from_str(&text).unwrap();
        Line { at: self.began + Duration::from_millis(10 * self.lines), text, json }
    }

    fn sent(mut self, kind: &str, resource: &str, offsets: impl IntoIterator<Item = i64>) -> Self {
        for offset in offsets {
            let input = format!(
                r#"{{"resource":"{resource}","type":"t","kind":"{kind}","id":"i{offset}","data":{offset}}}"#
            );
            let answer = self.line(format!(
                r#"{{"id":"i{offset}","resource":"{resource}","bucket":0,"offset":{offset}}}"#
            ));
            assert_eq!(self.checker.pod("p", &[input], &[answer]), 0);
        }
        self
    }

    fn wrote(mut self, story: usize, text: String) -> Self {
        let line = self.line(text);
        self.checker.stories[story].lines.push(line);
        self
    }

    fn acquired(self, story: usize, epoch: i64) -> Self {
        self.wrote(story, format!(r#"{{"acquired":{{"bucket":0,"epoch":{epoch},"controller":"c"}}}}"#))
    }

    fn released(self, story: usize, epoch: i64, why: &str) -> Self {
        self.wrote(
            story,
            format!(r#"{{"released":{{"bucket":0,"epoch":{epoch},"controller":"c","why":"{why}"}}}}"#),
        )
    }

    fn handled(
        self,
        story: usize,
        epoch: i64,
        resource: &str,
        offsets: impl IntoIterator<Item = i64>,
    ) -> Self {
        offsets.into_iter().fold(self, |plot, offset| {
            let kind = if plot.checker.accepted.iter().any(|sent| sent.is_event()) { "event" } else { "state" };
            plot.wrote(
                story,
                format!(
                    r#"{{"id":"i{offset}","resource":"{resource}","source":"p","pod":"p","type":"t","kind":"{kind}",
                    "bucket":0,"offset":{offset},"epoch":{epoch},"data":{offset}}}"#
                ),
            )
        })
    }

    fn killed(mut self, story: usize) -> Self {
        let at = self.began + Duration::from_millis(10 * self.lines);
        self.checker.stories[story].fate = Fate::Interrupted(at);
        self
    }

    fn verdict(&self) -> Verdict {
        self.checker.verdict()
    }
}

/// How many faults of each kind: lost, disorder, epochs, strange.
fn faults(plot: &Plot) -> [usize; 4] {
    let verdict = plot.verdict();
    [verdict.lost.len(), verdict.disorder.len(), verdict.epochs.len(), verdict.strange.len()]
}

/// Three events of one resource; the first controller has handled them all.
fn handled_by_the_first() -> Plot {
    Plot::new().sent("event", "a/b", 0..3).acquired(0, 1).handled(0, 1, "a/b", 0..3)
}

#[test]
fn a_sound_run_has_no_fault() {
    let plot = handled_by_the_first().released(0, 1, "shutdown").acquired(1, 2);
    assert_eq!(faults(&plot), [0; 4]);
    let verdict = plot.verdict();
    assert_eq!((verdict.sent, verdict.handled, verdict.superseded, verdict.repeats.len()), (3, 3, 0, 0));
    verdict.assert_sound();
}

#[test]
fn an_event_that_is_not_handled_is_lost() {
    let plot = Plot::new().sent("event", "a/b", 0..3).acquired(0, 1).handled(0, 1, "a/b", [0, 2]);
    assert_eq!(faults(&plot), [1, 0, 0, 0]);
}

#[test]
#[should_panic(expected = "1 lost")]
fn a_fault_fails_the_test() {
    Plot::new().sent("event", "a/b", [0]).verdict().assert_sound();
}

#[test]
fn the_last_state_is_lost_when_it_is_not_handled_and_an_older_one_is_superseded() {
    let plot = || Plot::new().sent("state", "a/b", 0..3).acquired(0, 1);
    let good = plot().handled(0, 1, "a/b", [0, 2]);
    assert_eq!((faults(&good), good.verdict().superseded), ([0; 4], 1));
    assert_eq!(faults(&plot().handled(0, 1, "a/b", [0, 1])), [1, 0, 0, 0]);
}

#[test]
fn states_of_different_sources_do_not_supersede_each_other() {
    let mut plot = Plot::new().sent("state", "a/b", 0..2).acquired(0, 1).handled(0, 1, "a/b", [1]);
    assert_eq!(faults(&plot), [0; 4]);
    plot.checker.accepted[0].input["source"] = "other".into();
    assert_eq!(faults(&plot), [1, 0, 0, 0]);
}

#[test]
fn a_first_delivery_behind_a_later_one_is_disorder() {
    let plot = Plot::new().sent("event", "a/b", 0..4).acquired(0, 1).handled(0, 1, "a/b", [0, 2, 1, 3]);
    assert_eq!(faults(&plot), [0, 1, 0, 0]);
    let across = Plot::new()
        .sent("event", "a/b", 0..3)
        .acquired(0, 1)
        .handled(0, 1, "a/b", [0, 2])
        .killed(0)
        .acquired(1, 2)
        .handled(1, 2, "a/b", [1, 2]);
    assert_eq!(faults(&across), [0, 1, 0, 0]);
}

#[test]
fn a_superseded_state_may_come_after_a_kill_if_the_newer_one_follows() {
    let plot = || Plot::new().sent("state", "a/b", 0..2).acquired(0, 1).handled(0, 1, "a/b", [1]);
    let again = |plot: Plot| plot.acquired(1, 2).handled(1, 2, "a/b", [0, 1]);
    assert_eq!(faults(&again(plot().killed(0))), [0; 4]);
    assert_eq!(faults(&again(plot().released(0, 1, "shutdown"))), [0, 1, 0, 0]);
    let left_behind = plot().killed(0).acquired(1, 2).handled(1, 2, "a/b", [0]);
    assert_eq!(faults(&left_behind), [0, 1, 0, 0]);
}

#[test]
fn a_repeat_that_is_not_followed_by_what_came_after_it_is_disorder() {
    let plot = handled_by_the_first().killed(0).acquired(1, 2).handled(1, 2, "a/b", [1]);
    assert_eq!(faults(&plot), [0, 1, 0, 0]);
}

#[test]
fn different_resources_have_no_order() {
    let plot = Plot::new()
        .sent("event", "a/b", [0])
        .sent("event", "a/c", [1])
        .acquired(0, 1)
        .handled(0, 1, "a/c", [1])
        .handled(0, 1, "a/b", [0]);
    assert_eq!(faults(&plot), [0; 4]);
}

#[test]
fn a_repeat_after_a_kill_may_go_back_and_is_excused() {
    let plot = handled_by_the_first().killed(0).acquired(1, 2).handled(1, 2, "a/b", 1..3);
    assert_eq!(faults(&plot), [0; 4]);
    let verdict = plot.verdict();
    assert_eq!((verdict.repeats.len(), verdict.inexcusable().len(), verdict.repeats_of(0).len()), (2, 0, 2));
}

#[test]
fn a_repeat_after_an_orderly_end_is_not_excused() {
    for plot in [
        handled_by_the_first().released(0, 1, "shutdown").acquired(1, 2).handled(1, 2, "a/b", [2]),
        // Killed later, when the bucket had been handed over.
        handled_by_the_first().released(0, 1, "revoked").acquired(1, 2).handled(1, 2, "a/b", [2]).killed(0),
        // No `released`, but nobody interrupted it.
        handled_by_the_first().acquired(1, 2).handled(1, 2, "a/b", [2]),
    ] {
        assert_eq!(plot.verdict().inexcusable().len(), 1);
    }
}

#[test]
fn a_repeat_within_a_tenure_is_disorder_and_not_excused() {
    let plot = handled_by_the_first().handled(0, 1, "a/b", [2]).killed(0);
    assert_eq!(faults(&plot), [0, 1, 0, 0]);
    assert_eq!(plot.verdict().inexcusable().len(), 1);
}

#[test]
fn an_owner_that_writes_after_its_successor_is_seen() {
    let late = || {
        let plot = Plot::new().sent("event", "a/b", 0..1).sent("event", "a/c", 1..3).acquired(0, 1);
        plot.handled(0, 1, "a/b", [0]).acquired(1, 2).handled(1, 2, "a/c", [1, 2])
    };
    assert_eq!(faults(&late()), [0; 4]);
    let zombie = late().sent("event", "a/d", [3]).handled(0, 1, "a/d", [3]);
    assert_eq!(faults(&zombie), [0, 0, 1, 0]);
    let frozen = late().killed(0).sent("event", "a/d", [3]).handled(0, 1, "a/d", [3]);
    assert_eq!(faults(&frozen), [0; 4]);
}

#[test]
fn a_line_outside_of_its_tenure_is_seen() {
    let before = Plot::new().sent("event", "a/b", [0]).handled(0, 1, "a/b", [0]).acquired(0, 1);
    let after = handled_by_the_first().released(0, 1, "revoked").sent("event", "a/b", [3]);
    let after = after.handled(0, 1, "a/b", [3]);
    let other = Plot::new().sent("event", "a/b", [0]).acquired(0, 1).handled(0, 2, "a/b", [0]);
    for plot in [before, after, other] {
        assert_eq!(faults(&plot), [0, 0, 1, 0]);
    }
}

#[test]
fn an_epoch_that_is_taken_twice_is_seen() {
    assert_eq!(faults(&handled_by_the_first().killed(0).acquired(1, 1)), [0, 0, 1, 0]);
    let back = Plot::new().acquired(0, 2).released(0, 2, "revoked").acquired(0, 1);
    assert_eq!(faults(&back), [0, 0, 1, 0]);
    assert_eq!(faults(&Plot::new().acquired(0, 1).released(0, 2, "revoked")), [0, 0, 1, 0]);
}

#[test]
fn a_line_that_was_not_sent_so_is_strange() {
    let unknown = Plot::new().acquired(0, 1).handled(0, 1, "a/b", [0]);
    assert_eq!(faults(&unknown), [0, 0, 0, 1]);
    for field in ["resource", "type", "data"] {
        let mut changed = handled_by_the_first();
        changed.checker.accepted[1].input[field] = "x".into();
        assert_eq!(faults(&changed)[3], 1, "{field}");
    }
    let twice = handled_by_the_first().sent("event", "a/b", [2]);
    assert_eq!(faults(&twice), [0, 0, 0, 1]);
}

#[test]
fn an_error_is_no_receipt_and_all_buckets_are_one_record_each() {
    let mut plot = Plot::new();
    let input = r#"{"resource":"a/b","type":"t","kind":"event","to":"all-buckets"}"#.to_owned();
    let error = plot.line(r#"{"error":"x","error_kind":"retryable","line":1,"id":"1"}"#.to_owned());
    let all = r#"{"id":"1","resource":"a/b","buckets":[{"bucket":0,"offset":5},{"bucket":1,"offset":6}]}"#;
    let all = plot.line(all.to_owned());
    assert_eq!(plot.checker.pod("p", &[input.clone(), input], &[error, all]), 1);
    let verdict = plot.verdict();
    assert_eq!((verdict.sent, verdict.lost.len()), (2, 2));
}

#[test]
fn silence_is_measured_from_the_edges_too() {
    let plot = Plot::new().sent("event", "a/b", [0]).acquired(0, 1).handled(0, 1, "a/b", [0]); // at 30 ms
    let at = |millis| plot.began + Duration::from_millis(millis);
    let silence = |bucket, from, to| plot.checker.longest_silence(bucket, at(from), at(to)).as_millis();
    assert_eq!(silence(0, 0, 40), 30);
    assert_eq!(silence(0, 25, 80), 50);
    assert_eq!(silence(1, 0, 40), 40);
}
