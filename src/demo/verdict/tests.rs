use super::*;

const REPEATABLE: Repeatable =
    Repeatable { killed: Duration::from_millis(500), lost: Duration::from_millis(4000) };

/// A show that is put together by hand. Times are in milliseconds.
#[derive(Default)]
struct Played(Account);

impl Played {
    /// Events of one resource in bucket 0, at offsets 0, 1, 2 …
    fn with_events(count: i64) -> Self {
        (0..count).fold(Self::default(), |played, offset| played.accepted(offset, "default/r", None))
    }

    fn accepted(mut self, offset: i64, resource: &str, state: Option<&str>) -> Self {
        self.0.accepted.push(Accepted {
            id: format!("m{offset}"),
            resource: resource.to_owned(),
            bucket: 0,
            offset,
            state: state.map(str::to_owned),
        });
        self
    }

    /// A process with one tenure of bucket 0 that began at `at` and handled `offsets`, one each millisecond.
    fn tenure(self, name: &str, epoch: u64, at: u64, offsets: &[i64]) -> Self {
        let mut lines = vec![(at, Line::Acquired { bucket: 0, epoch })];
        let times = at + 1..;
        for (at, offset) in times.zip(offsets) {
            lines.push((at, self.handled(*offset, epoch)));
        }
        self.process(name, lines)
    }

    fn process(mut self, name: &str, lines: Vec<(u64, Line)>) -> Self {
        let lines = lines.into_iter().map(|(at, line)| (Duration::from_millis(at), line)).collect();
        self.0.transcripts.push(Transcript { controller: name.to_owned(), lines, end: End::Running });
        self
    }

    fn handled(&self, offset: i64, epoch: u64) -> Line {
        let record = self.0.accepted.iter().find(|record| record.offset == offset).unwrap();
        let (id, resource) = (record.id.clone(), record.resource.clone());
        Line::Handled(Handled { id, resource, bucket: 0, offset, epoch })
    }

    /// The last process releases its bucket.
    fn released(mut self, epoch: u64, at: u64, lost: bool) -> Self {
        let process = self.0.transcripts.last_mut().unwrap();
        process.lines.push((Duration::from_millis(at), Line::Released { bucket: 0, epoch, lost }));
        self
    }

    /// The last process is killed.
    fn killed(mut self, at: u64) -> Self {
        self.0.transcripts.last_mut().unwrap().end = End::Killed(Duration::from_millis(at));
        self
    }

    fn judged(&self) -> Verdict {
        judge(&self.0, REPEATABLE)
    }

    /// The rules that were broken.
    fn broken(&self) -> Vec<Rule> {
        self.judged().findings.iter().map(|finding| finding.rule).collect()
    }
}

#[test]
fn a_show_in_good_order_is_good() {
    let played = Played::with_events(4)
        .tenure("a", 1, 0, &[0, 1])
        .released(1, 10, false)
        .tenure("b", 2, 20, &[2, 3])
        .released(2, 30, false);
    let verdict = played.judged();
    assert!(verdict.is_good(), "{:?}", verdict.findings);
    assert_eq!((verdict.sent, verdict.handled, verdict.repeated), (4, 4, 0));
    assert_eq!(
        verdict.to_string(),
        "good: sent 4, handled 4, superseded 0, lost 0, duplicated 0 (0 of them allowed), out of order 0, other faults 0"
    );
}

#[test]
fn an_event_that_was_never_handled_is_lost() {
    assert_eq!(Played::with_events(3).tenure("a", 1, 0, &[0, 1]).broken(), [Rule::Lost]);
    assert_eq!(Played::with_events(1).broken(), [Rule::Lost]);
}

#[test]
fn the_last_state_of_a_key_is_lost_where_older_ones_are_superseded() {
    let states = || {
        let played =
            Played::default().accepted(0, "default/r", Some("k")).accepted(1, "default/r", Some("k"));
        played.accepted(2, "default/r", Some("other"))
    };
    let verdict = states().tenure("a", 1, 0, &[1, 2]).judged();
    assert!(verdict.is_good(), "{:?}", verdict.findings);
    assert_eq!((verdict.handled, verdict.superseded), (2, 1));
    assert_eq!(states().tenure("a", 1, 0, &[0, 2]).judged().count(Rule::Lost), 1);
    assert_eq!(states().tenure("a", 1, 0, &[0, 1]).broken(), [Rule::Lost]);
}

#[test]
fn what_a_kill_interrupts_may_come_again() {
    let played =
        Played::with_events(4).tenure("a", 1, 0, &[0, 1, 2]).killed(100).tenure("b", 2, 3000, &[1, 2, 3]);
    let verdict = played.judged();
    assert!(verdict.is_good(), "{:?}", verdict.findings);
    assert_eq!((verdict.handled, verdict.repeated), (4, 2));
}

#[test]
fn what_a_lost_tenure_could_not_commit_may_come_again() {
    let tenures = |lost| {
        Played::with_events(3).tenure("a", 1, 0, &[0, 1]).released(1, 100, lost).tenure("b", 2, 200, &[1, 2])
    };
    assert_eq!(tenures(true).broken(), []);
    assert_eq!(tenures(false).broken(), [Rule::Duplicated]);
    let slow = |second| {
        let played = Played::with_events(3);
        let lines = vec![
            (0, Line::Acquired { bucket: 0, epoch: 1 }),
            (1, played.handled(0, 1)),
            (second, played.handled(1, 1)),
        ];
        // However late it is noticed.
        played.process("a", lines).released(1, 60_000, true).tenure("b", 2, 60_000, &[0, 1, 2])
    };
    assert_eq!(slow(4001).broken(), []);
    assert_eq!(slow(4002).broken(), [Rule::Duplicated]);
}

#[test]
fn what_was_committed_long_before_a_kill_must_not_come_again() {
    let tenures = |killed| {
        Played::with_events(3).tenure("a", 1, 0, &[0, 1]).killed(killed).tenure("b", 2, 3000, &[0, 1, 2])
    };
    assert_eq!(tenures(501).broken(), []);
    assert_eq!(tenures(502).broken(), [Rule::Duplicated]);
}

#[test]
fn a_repeat_after_an_orderly_end_or_in_one_epoch_is_a_duplicate() {
    let graceful =
        Played::with_events(3).tenure("a", 1, 0, &[0, 1]).released(1, 10, false).tenure("b", 2, 20, &[1, 2]);
    assert_eq!(graceful.broken(), [Rule::Duplicated]);
    let twice = Played::with_events(2).tenure("a", 1, 0, &[0, 1, 1]).killed(10);
    assert_eq!(twice.judged().count(Rule::Duplicated), 1);
    // Of a process that still runs, nothing explains it.
    let running = Played::with_events(2).tenure("a", 1, 0, &[0]).tenure("b", 2, 20, &[0, 1]);
    assert_eq!(running.broken(), [Rule::Duplicated]);
}

#[test]
fn a_resource_in_another_order_is_caught_and_another_resource_is_none_of_its_business() {
    assert_eq!(
        Played::with_events(3).tenure("a", 1, 0, &[0, 2, 1]).broken(),
        [Rule::OutOfOrder, Rule::OutOfOrder]
    );
    let other = Played::with_events(2).accepted(2, "default/other", None).tenure("a", 1, 0, &[2, 0, 1]);
    assert_eq!(other.broken(), []);
}

#[test]
fn a_tenure_that_begins_behind_a_gap_is_caught_even_if_the_gap_is_filled_later() {
    let tenures = |second: &[i64], third: &[i64]| {
        Played::with_events(4)
            .tenure("a", 1, 0, &[0])
            .released(1, 10, false)
            .tenure("b", 2, 20, second)
            .released(2, 30, false)
            .tenure("c", 3, 40, third)
    };
    assert_eq!(tenures(&[1, 2], &[3]).broken(), []);
    assert_eq!(tenures(&[2], &[1, 3]).judged().count(Rule::OutOfOrder), 2);
    assert_eq!(tenures(&[1, 2], &[]).broken(), [Rule::Lost]);
}

#[test]
fn a_repeat_that_skips_is_caught() {
    let tenures = |again: &[i64]| {
        Played::with_events(4).tenure("a", 1, 0, &[0, 1, 2]).killed(10).tenure("b", 2, 3000, again)
    };
    assert_eq!(tenures(&[0, 1, 2, 3]).broken(), []);
    assert_eq!(tenures(&[0, 2, 3]).broken(), [Rule::OutOfOrder]);
    assert_eq!(tenures(&[0, 3]).broken(), [Rule::OutOfOrder]);
}

#[test]
fn only_a_superseded_state_may_be_left_out_in_between() {
    let played = |state: Option<&str>| {
        Played::default()
            .accepted(0, "default/r", None)
            .accepted(1, "default/r", state)
            .accepted(2, "default/r", None)
            .accepted(3, "default/r", Some("k"))
            .tenure("a", 1, 0, &[0, 2, 3])
    };
    assert_eq!(played(Some("k")).broken(), []);
    assert!(played(Some("other")).broken().contains(&Rule::OutOfOrder));
    assert!(played(None).broken().contains(&Rule::OutOfOrder));
}

#[test]
fn an_epoch_belongs_to_one_process() {
    let played = Played::with_events(2).tenure("a", 1, 0, &[0]).tenure("b", 1, 1, &[1]);
    assert!(played.broken().iter().all(|rule| *rule == Rule::Epoch) && !played.broken().is_empty());
}

#[test]
fn a_process_never_goes_back_to_an_earlier_epoch() {
    let played = Played::with_events(2);
    let late = played.handled(1, 1);
    let lines = vec![
        (0, Line::Acquired { bucket: 0, epoch: 1 }),
        (1, played.handled(0, 1)),
        (2, Line::Acquired { bucket: 0, epoch: 2 }),
        (3, late),
    ];
    assert_eq!(played.process("a", lines).judged().count(Rule::Epoch), 1);
}

#[test]
fn nothing_is_handled_outside_of_acquired_and_released() {
    let played = Played::with_events(2).tenure("a", 1, 0, &[0]).released(1, 10, false);
    assert_eq!(played.judged().count(Rule::Epoch), 0);
    let late = played.handled(1, 1);
    let mut played = played;
    played.0.transcripts[0].lines.push((Duration::from_millis(11), late));
    assert_eq!(played.broken(), [Rule::Epoch]);
    let played = Played::with_events(1);
    let early = vec![(0, played.handled(0, 1))];
    assert_eq!(played.process("a", early).broken(), [Rule::Epoch]);
}

#[test]
fn a_running_process_that_goes_on_after_another_took_over_is_caught() {
    let tenures = |at| {
        let played = Played::with_events(3).tenure("b", 2, 100, &[1, 2]);
        let lines = vec![(0, Line::Acquired { bucket: 0, epoch: 1 }), (at, played.handled(0, 1))];
        played.process("a", lines)
    };
    assert_eq!(tenures(900).broken(), []); // read late
    assert_eq!(tenures(1102).broken(), [Rule::Epoch]);
    assert_eq!(tenures(1102).killed(90).broken(), []); // left behind in its pipe
}

#[test]
fn a_line_about_nothing_that_was_sent_is_caught() {
    let mut played = Played::with_events(2).tenure("a", 1, 0, &[0, 1]);
    played.0.accepted[1].id = "another".to_owned();
    assert_eq!(played.broken(), [Rule::Unknown, Rule::Lost]);
    let mut played = Played::with_events(2).tenure("a", 1, 0, &[0, 1]);
    played.0.accepted[1].resource = "default/another".to_owned();
    assert!(played.broken().contains(&Rule::Unknown));
    let mut played = Played::with_events(2).tenure("a", 1, 0, &[0, 1]);
    played.0.accepted.pop();
    assert_eq!(played.broken(), [Rule::Unknown]);
    // Kafka may have what was answered with an error; that it was is a finding of its own.
    played.0.refused.insert("m1".to_owned(), "why".to_owned());
    assert_eq!(played.broken(), [Rule::Refused]);
    assert_eq!(played.judged().sent, 2);
}
