//! Judges a run by what its processes wrote, and by nothing else: what the data-plane processes were given and answered
//! (the receipts), and the controllers' lines in the order in which each wrote them.
//!
//! A record is known by its bucket and offset. The tenures of a bucket follow one another by their epochs, so a bucket's
//! deliveries have an order of their own that needs no common clock: by epoch, then as the epoch's one process wrote
//! them. Times of arrival are used only to see an owner that writes after its successor.
//!
//! A line that a killed process left in its pipe counts as written: its reader has it.

#![allow(dead_code, reason = "a test binary that includes this module need not use all of it")]
#![allow(clippy::expect_used, clippy::panic, reason = "test support: what fails here fails the test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::process::Line;

#[cfg(test)]
mod tests;

/// A place in the log: bucket and offset.
pub(crate) type Place = (i64, i64);

/// A message that Kafka has, as its data-plane process was given it and answered it.
#[derive(Debug, Clone)]
pub(crate) struct Accepted {
    pub(crate) pod: String,
    pub(crate) id: String,
    pub(crate) places: Vec<Place>,
    /// The line that it was given.
    pub(crate) input: Value,
}

impl Accepted {
    fn field(&self, name: &str) -> &str {
        self.input.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn source(&self) -> &str {
        match self.field("source") {
            "" => &self.pod,
            source => source,
        }
    }

    fn is_event(&self) -> bool {
        self.field("kind") == "event"
    }

    /// What a newer state replaces: a state of the same resource, pod, source and type.
    fn state_key(&self) -> (String, String, String, String) {
        let text = |name| self.field(name).to_owned();
        (text("resource"), self.pod.clone(), self.source().to_owned(), text("type"))
    }
}

/// How a controller's process ended, or did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It ran on, or ended in good order.
    Orderly,
    /// It was killed, or frozen for a while, at that moment.
    Interrupted(Instant),
}

/// One run of one controller.
#[derive(Debug, Clone)]
pub(crate) struct Story {
    pub(crate) name: String,
    pub(crate) lines: Vec<Line>,
    pub(crate) fate: Fate,
}

/// A record that was handled once more.
#[derive(Debug, Clone)]
pub(crate) struct Repeat {
    pub(crate) place: Place,
    /// When the line before this one arrived, and which story it belongs to.
    pub(crate) before: (Instant, usize),
    /// Whether the tenure before ended without `released`, in a process that was interrupted.
    pub(crate) excused: bool,
}

/// What a run looks like.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Records that Kafka has, a message to all buckets counting once for each.
    pub(crate) sent: usize,
    /// Records of these that were handled, once or more.
    pub(crate) handled: usize,
    /// States that were never handled, a newer one having been.
    pub(crate) superseded: usize,
    /// Events, and the last states of their keys, that were never handled.
    pub(crate) lost: Vec<String>,
    /// What was handled out of its resource's order.
    pub(crate) disorder: Vec<String>,
    /// Lines of an epoch that was over, or that stand outside of their tenure.
    pub(crate) epochs: Vec<String>,
    /// Lines that are not what was sent.
    pub(crate) strange: Vec<String>,
    /// Repeats.
    pub(crate) repeats: Vec<Repeat>,
}

impl Verdict {
    /// Panics when anything was lost, out of order, of a wrong epoch or strange.
    pub(crate) fn assert_sound(&self) {
        let faults = [&self.lost, &self.disorder, &self.epochs, &self.strange];
        let names = ["lost", "out of order", "wrong epoch", "strange"];
        let shown: Vec<String> = faults
            .iter()
            .zip(names)
            .filter(|(faults, _)| !faults.is_empty())
            .map(|(faults, name)| {
                format!("{} {name}, the first of them:\n  {}", faults.len(), first_few(faults))
            })
            .collect();
        assert!(shown.is_empty(), "{}", shown.join("\n"));
    }

    /// Repeats that nothing excuses: after an orderly handover, or within a tenure.
    pub(crate) fn inexcusable(&self) -> Vec<&Repeat> {
        self.repeats.iter().filter(|repeat| !repeat.excused).collect()
    }

    /// Repeats of what the interrupted run `story` had handled.
    pub(crate) fn repeats_of(&self, story: usize) -> Vec<&Repeat> {
        self.repeats.iter().filter(|repeat| repeat.excused && repeat.before.1 == story).collect()
    }
}

fn first_few(faults: &[String]) -> String {
    faults.iter().take(10).map(String::as_str).collect::<Vec<_>>().join("\n  ")
}

/// What is known of a run.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    pub(crate) accepted: Vec<Accepted>,
    pub(crate) stories: Vec<Story>,
}

/// A handled message's line, with where it stands.
#[derive(Debug, Clone, Copy)]
struct Handled<'a> {
    place: Place,
    epoch: i64,
    story: usize,
    line: &'a Line,
}

impl Checker {
    /// Adds what a data-plane process was given and has answered, line by line. Answers that are errors are left out;
    /// how many those are is returned.
    pub(crate) fn pod(&mut self, name: &str, inputs: &[String], answers: &[Line]) -> usize {
        assert!(answers.len() <= inputs.len(), "{name} answered more lines than it was given");
        let accepted: Vec<Accepted> =
            inputs.iter().zip(answers).filter_map(|(input, answer)| accepted(name, input, answer)).collect();
        let errors = answers.len() - accepted.len();
        self.accepted.extend(accepted);
        errors
    }

    /// Adds one run of a controller.
    pub(crate) fn controller(&mut self, name: &str, lines: Vec<Line>, fate: Fate) {
        self.stories.push(Story { name: name.to_owned(), lines, fate });
    }

    /// Judges all of it.
    pub(crate) fn verdict(&self) -> Verdict {
        let mut verdict = Verdict::default();
        let sent = self.sent(&mut verdict);
        let handled = self.handled();
        self.judge_losses(&handled, &mut verdict);
        self.judge_content(&sent, &handled, &mut verdict);
        self.judge_order(&handled, &mut verdict);
        self.judge_repeats(&handled, &mut verdict);
        self.judge_tenures(&mut verdict);
        self.judge_owners_in_time(&handled, &mut verdict);
        verdict
    }

    /// The longest time between `from` and `to` in which no line of `bucket` arrived.
    pub(crate) fn longest_silence(&self, bucket: i64, from: Instant, to: Instant) -> Duration {
        let lines = self.stories.iter().flat_map(|story| &story.lines);
        let ours = lines.filter(|line| line.is_message() && line.number("bucket") == bucket);
        let mut times: Vec<Instant> =
            ours.map(|line| line.at).filter(|at| (from..=to).contains(at)).collect();
        times.extend([from, to]);
        times.sort_unstable();
        let gaps = times.iter().zip(times.iter().skip(1)).map(|(earlier, later)| *later - *earlier);
        gaps.max().unwrap_or_default()
    }

    /// Every record that Kafka has, by its place.
    fn sent(&self, verdict: &mut Verdict) -> BTreeMap<Place, &Accepted> {
        let mut sent = BTreeMap::new();
        for message in &self.accepted {
            for place in &message.places {
                if let Some(other) = sent.insert(*place, message) {
                    verdict.strange.push(format!("{place:?} is the receipt of {other:?} and of {message:?}"));
                }
            }
        }
        verdict.sent = sent.len();
        sent
    }

    /// Every message line, in its bucket's own order.
    fn handled(&self) -> Vec<Handled<'_>> {
        let mut all = Vec::new();
        for (story, Story { lines, .. }) in self.stories.iter().enumerate() {
            for line in lines.iter().filter(|line| line.is_message()) {
                let place = (line.number("bucket"), line.number("offset"));
                all.push(Handled { place, epoch: line.number("epoch"), story, line });
            }
        }
        all.sort_by_key(|handled| (handled.place.0, handled.epoch)); // stable
        all
    }

    fn judge_losses(&self, handled: &[Handled<'_>], verdict: &mut Verdict) {
        let places: BTreeSet<Place> = handled.iter().map(|handled| handled.place).collect();
        let mut last = BTreeMap::new();
        for message in self.accepted.iter().filter(|message| !message.is_event()) {
            for (bucket, offset) in &message.places {
                let newest: &mut i64 = last.entry((*bucket, message.state_key())).or_insert(*offset);
                *newest = (*newest).max(*offset);
            }
        }
        for message in &self.accepted {
            for place in &message.places {
                let must = message.is_event() || last.get(&(place.0, message.state_key())) == Some(&place.1);
                match places.contains(place) {
                    true => verdict.handled += 1,
                    false if must => verdict.lost.push(format!("{place:?}: {message:?}")),
                    false => verdict.superseded += 1,
                }
            }
        }
    }

    /// What was handled is what was sent.
    fn judge_content(
        &self,
        sent: &BTreeMap<Place, &Accepted>,
        handled: &[Handled<'_>],
        verdict: &mut Verdict,
    ) {
        for Handled { place, line, .. } in handled {
            let Some(message) = sent.get(place) else {
                verdict.strange.push(format!("without a receipt: {}", line.text));
                continue;
            };
            let same = line.text_of("id") == message.id
                && line.text_of("pod") == message.pod
                && line.text_of("source") == message.source()
                && ["resource", "type", "kind"].iter().all(|name| line.text_of(name) == message.field(name))
                && line.json.get("data") == message.input.get("data");
            if !same {
                verdict.strange.push(format!("not what was sent: {} for {message:?}", line.text));
            }
        }
    }

    /// Per resource, what is handled for the first time comes in the order of the log; within a tenure everything does;
    /// and whatever was gone back to, the last line is of the newest record.
    ///
    /// One exception: a state that a newer one had superseded may come after it when the newer one's tenure broke off.
    fn judge_order(&self, handled: &[Handled<'_>], verdict: &mut Verdict) {
        let mut newest_of = BTreeMap::new();
        let mut newest_in_tenure = BTreeMap::new();
        let mut states: BTreeMap<_, Handled<'_>> = BTreeMap::new();
        let mut last_of = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for now in handled {
            let (Handled { place, epoch, line, .. }, (bucket, offset)) = (*now, now.place);
            let resource = line.text_of("resource");
            let in_tenure = newest_in_tenure.entry((bucket, epoch, resource)).or_insert(-1);
            let in_all = newest_of.entry((bucket, resource)).or_insert(-1);
            let key = (bucket, ["resource", "pod", "source", "type"].map(|name| line.text_of(name)));
            let newer = (line.text_of("kind") == "state").then(|| states.insert(key, *now)).flatten();
            let was_superseded = newer
                .is_some_and(|newer| newer.place > place && newer.epoch < epoch && self.broke_off(newer));
            if offset <= *in_tenure || (seen.insert(place) && offset <= *in_all && !was_superseded) {
                verdict.disorder.push(format!("after offset {}: {}", (*in_tenure).max(*in_all), line.text));
            }
            *in_tenure = offset.max(*in_tenure);
            *in_all = offset.max(*in_all);
            last_of.insert((bucket, resource), line);
        }
        for (of, line) in last_of {
            if newest_of.get(&of).is_some_and(|newest| line.number("offset") < *newest) {
                verdict
                    .disorder
                    .push(format!("the last line of {of:?} is of an older record: {}", line.text));
            }
        }
    }

    fn judge_repeats(&self, handled: &[Handled<'_>], verdict: &mut Verdict) {
        let mut before: BTreeMap<Place, Handled<'_>> = BTreeMap::new();
        for now in handled {
            let Some(earlier) = before.insert(now.place, *now) else { continue };
            let excused = earlier.epoch < now.epoch && self.broke_off(earlier);
            let before = (earlier.line.at, earlier.story);
            verdict.repeats.push(Repeat { place: now.place, before, excused });
        }
    }

    /// Whether the tenure of that line ended without a word, in a process that was interrupted.
    fn broke_off(&self, handled: Handled<'_>) -> bool {
        let Some(story) = self.stories.get(handled.story) else { return false };
        let released = notices(story, "released").any(|(_, bucket, epoch, why)| {
            (bucket, epoch) == (handled.place.0, handled.epoch) && why != "lost"
        });
        story.fate != Fate::Orderly && !released
    }

    /// Each line of an epoch stands between that epoch's `acquired` and `released`, and an epoch is one tenure's.
    fn judge_tenures(&self, verdict: &mut Verdict) {
        let mut epochs: BTreeMap<(i64, i64), &str> = BTreeMap::new();
        for story in &self.stories {
            let mut current: BTreeMap<i64, i64> = BTreeMap::new();
            let mut newest: BTreeMap<i64, i64> = BTreeMap::new();
            for line in &story.lines {
                let acquired = notice(line, "acquired");
                let released = notice(line, "released");
                let wrong = if let Some((bucket, epoch, _)) = acquired {
                    let taken = epochs.insert((bucket, epoch), &story.name);
                    let back = newest.insert(bucket, epoch).is_some_and(|newest| newest >= epoch);
                    taken.is_some() || back || current.insert(bucket, epoch).is_some()
                } else if let Some((bucket, epoch, _)) = released {
                    current.remove(&bucket) != Some(epoch)
                } else if line.is_message() {
                    current.get(&line.number("bucket")) != Some(&line.number("epoch"))
                } else {
                    true
                };
                if wrong {
                    verdict.epochs.push(format!("{}: {}", story.name, line.text));
                }
            }
        }
    }

    /// Nobody writes after its successor, save a process that was interrupted.
    fn judge_owners_in_time(&self, handled: &[Handled<'_>], verdict: &mut Verdict) {
        let mut by_time: Vec<&Handled<'_>> = handled.iter().collect();
        by_time.sort_by_key(|handled| handled.line.at);
        let mut newest: BTreeMap<i64, i64> = BTreeMap::new();
        for handled in by_time {
            let newest = newest.entry(handled.place.0).or_insert(handled.epoch);
            let fate = self.stories.get(handled.story).map(|story| story.fate);
            let excused = matches!(fate, Some(Fate::Interrupted(at)) if handled.line.at >= at);
            if handled.epoch < *newest && !excused {
                verdict.epochs.push(format!("after epoch {newest}: {}", handled.line.text));
            }
            *newest = handled.epoch.max(*newest);
        }
    }
}

/// A notice of one name: bucket, epoch, why.
fn notice<'a>(line: &'a Line, name: &str) -> Option<(i64, i64, &'a str)> {
    let notice = line.json.get(name)?;
    let number = |field| notice.get(field).and_then(Value::as_i64);
    let why = notice.get("why").and_then(Value::as_str).unwrap_or_default();
    Some((number("bucket")?, number("epoch")?, why))
}

/// A story's notices of one name, each with its time of arrival.
fn notices<'a>(
    story: &'a Story,
    name: &'a str,
) -> impl Iterator<Item = (Instant, i64, i64, &'a str)> + use<'a> {
    story.lines.iter().filter_map(move |line| {
        let (bucket, epoch, why) = notice(line, name)?;
        Some((line.at, bucket, epoch, why))
    })
}

fn accepted(pod: &str, input: &str, answer: &Line) -> Option<Accepted> {
    let id = answer.json.get("id")?.as_str()?.to_owned();
    let place = |value: &Value| Some((value.get("bucket")?.as_i64()?, value.get("offset")?.as_i64()?));
    if answer.json.get("error").is_some() {
        return None;
    }
    let places = match answer.json.get("buckets").and_then(Value::as_array) {
        Some(buckets) => buckets.iter().map(place).collect::<Option<Vec<Place>>>(),
        None => place(&answer.json).map(|place| vec![place]),
    };
    let places = places.unwrap_or_else(|| panic!("no receipt: {}", answer.text));
    let input: Value = serde_json::from_str(input).expect("an accepted line is JSON");
    let asked = |name: &str| input.get(name).is_none_or(|value| Some(value) == answer.json.get(name));
    assert!(asked("id") && asked("resource"), "{} was answered to {input}", answer.text);
    Some(Accepted { pod: pod.to_owned(), id, places, input })
}
