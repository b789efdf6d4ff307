//! The judge of the show: what the processes' lines say about the bus's promises.
//!
//! It knows nothing but lines: the receipts that dispatchers wrote, and what each controller process wrote, in its
//! order and with the time at which it was read. It is pure, so that every rule can be shown a violation.
//!
//! Lines of two processes are never compared by the time of reading alone, since a busy reader mixes them up: a
//! bucket's history is put together from its epochs, and within an epoch from the order of its process's lines.
//!
//! The rules:
//! - every accepted event was handled at least once, and of every key the last state; a state that a newer one
//!   superseded may have been skipped;
//! - within a tenure the messages of a resource come in the order of their offsets and without a gap, and a tenure
//!   begins nowhere behind what the ones before it had handled: repeats may go back, but never skip;
//! - a message comes again only if its tenure had ended without order, and only if it was handled shortly before: what
//!   had been finished since the last commit may be repeated, nothing else ([`Repeatable`]);
//! - an epoch belongs to one process, and no process goes back to an earlier one, or goes on after `released`;
//! - every line is about a message that was sent, where its receipt says it is.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    time::Duration,
};

#[cfg(test)]
mod tests;

/// How much later a line may be read than one that was written after it by another process.
const READING: Duration = Duration::from_secs(1);

/// A record that Kafka has, by its receipt. A broadcast is one record per bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The message's id.
    pub id: String,
    /// What it is about.
    pub resource: String,
    /// Where it went.
    pub bucket: u16,
    /// Its offset there.
    pub offset: i64,
    /// For a state, what it is the state of; `None` for an event.
    pub state: Option<String>,
}

/// A message that a controller handled, by its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handled {
    /// The message's id.
    pub id: String,
    /// What it is about.
    pub resource: String,
    /// The bucket it came from.
    pub bucket: u16,
    /// Its offset there.
    pub offset: i64,
    /// The tenure that handled it.
    pub epoch: u64,
}

/// One line of a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A tenure began.
    Acquired {
        /// The bucket.
        bucket: u16,
        /// The tenure.
        epoch: u64,
    },
    /// A tenure ended.
    Released {
        /// The bucket.
        bucket: u16,
        /// The tenure.
        epoch: u64,
        /// Whether the bucket was lost, and not given up in good order.
        lost: bool,
    },
    /// A message was handled.
    Handled(Handled),
}

/// How a process ended, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It has not.
    Running,
    /// In good order.
    Stopped,
    /// By SIGKILL, sent at this time.
    Killed(Duration),
}

/// Everything that one controller process wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transcript {
    /// The controller's name; a later process may have it again.
    pub controller: String,
    /// Its lines in order, each with the time at which it was read.
    pub lines: Vec<(Duration, Line)>,
    /// How it ended.
    pub end: End,
}

/// All that is known of a show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// What Kafka has.
    pub accepted: Vec<Accepted>,
    /// The messages that were answered with an error, or not at all, by id, and why; Kafka may have them all the
    /// same.
    pub refused: BTreeMap<String, String>,
    /// What the controllers wrote.
    pub transcripts: Vec<Transcript>,
}

/// Which promise was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A message was never handled.
    Lost,
    /// A message was handled again without need.
    Duplicated,
    /// A resource's messages came in another order, or with a gap.
    OutOfOrder,
    /// A tenure was not the only one, or came back.
    Epoch,
    /// A line is about nothing that was sent.
    Unknown,
    /// A message was not accepted.
    Refused,
}

/// A broken promise, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which.
    pub rule: Rule,
    /// What happened.
    pub text: String,
}

/// How long before the end of a tenure without order a message may have been handled that comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeatable {
    /// Before a kill: the time between two commits, and what a commit takes.
    pub killed: Duration,
    /// Before the last message of a tenure that was lost: its owner was out of touch with the group and could commit
    /// nothing, but goes on for a session time-out before it holds back.
    pub lost: Duration,
}

/// What is to be said about a show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Records that were sent: a broadcast counts once per bucket.
    pub sent: usize,
    /// Records that were handled, each counted once.
    pub handled: usize,
    /// States that were skipped, since a newer one had superseded them.
    pub superseded: usize,
    /// Repeats that the end of a tenure without order explains.
    pub repeated: usize,
    /// What was broken.
    pub findings: Vec<Finding>,
}

impl Verdict {
    /// Whether every promise was kept.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.findings.is_empty()
    }

    /// How often a promise was broken.
    #[must_use]
    pub fn count(&self, rule: Rule) -> usize {
        self.findings.iter().filter(|finding| finding.rule == rule).count()
    }
}

impl fmt::Display for Verdict {
    /// One line that programs can take apart.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lost, order) = (self.count(Rule::Lost), self.count(Rule::OutOfOrder));
        let excess = self.count(Rule::Duplicated);
        let others = self.findings.len() - lost - order - excess;
        let word = if self.is_good() { "good" } else { "bad" };
        write!(f, "{word}: sent {}, handled {}", self.sent, self.handled)?;
        write!(f, ", superseded {}, lost {lost}", self.superseded)?;
        write!(f, ", duplicated {} ({} of them allowed)", self.repeated + excess, self.repeated)?;
        write!(f, ", out of order {order}, other faults {others}")
    }
}

/// Judges a show.
#[must_use]
pub fn judge(account: &Account, repeatable: Repeatable) -> Verdict {
    let mut judge = Judge::new(account, repeatable);
    judge.collect();
    for (process, transcript) in account.transcripts.iter().enumerate() {
        judge.one_process(process, transcript);
    }
    judge.epochs_over_time();
    judge.repeats();
    judge.losses();
    judge.order();
    judge.verdict
}

/// A handled line, with its record and where it was read.
#[derive(Clone, Copy)]
struct Delivery {
    process: usize,
    at: Duration,
    epoch: u64,
    /// Its place in [`Account::accepted`].
    record: usize,
}

struct Judge<'a> {
    account: &'a Account,
    repeatable: Repeatable,
    verdict: Verdict,
    /// Records by bucket and offset.
    places: HashMap<(u16, i64), usize>,
    /// The last state of each key, by bucket and key.
    last: HashMap<(u16, &'a str), i64>,
    /// Every bucket's deliveries by epoch, each in its process's order.
    tenures: BTreeMap<(u16, u64), Vec<Delivery>>,
    /// Which process an epoch belongs to.
    owners: BTreeMap<(u16, u64), usize>,
    /// When tenures ended without order, and how long before that what is repeated may have been handled.
    broken: BTreeMap<(u16, u64), (Duration, Duration)>,
}

impl<'a> Judge<'a> {
    fn new(account: &'a Account, repeatable: Repeatable) -> Self {
        let mut places = HashMap::new();
        let mut last: HashMap<(u16, &str), i64> = HashMap::new();
        for (index, record) in account.accepted.iter().enumerate() {
            places.insert((record.bucket, record.offset), index);
            if let Some(key) = &record.state {
                let newest = last.entry((record.bucket, key)).or_insert(record.offset);
                *newest = record.offset.max(*newest);
            }
        }
        let sent = account.accepted.len() + account.refused.len();
        Self {
            account,
            repeatable,
            verdict: Verdict { sent, ..Verdict::default() },
            places,
            last,
            tenures: BTreeMap::new(),
            owners: BTreeMap::new(),
            broken: BTreeMap::new(),
        }
    }

    fn find(&mut self, rule: Rule, text: String) {
        self.verdict.findings.push(Finding { rule, text });
    }

    fn name(&self, process: usize) -> &'a str {
        self.account.transcripts.get(process).map_or("?", |transcript| &transcript.controller)
    }

    fn record(&self, index: usize) -> Option<&'a Accepted> {
        self.account.accepted.get(index)
    }

    /// Whether a newer state has taken a record's place.
    fn is_superseded(&self, record: &'a Accepted) -> bool {
        let last = record.state.as_deref().and_then(|key| self.last.get(&(record.bucket, key)));
        last.is_some_and(|last| *last > record.offset)
    }

    /// Sorts handled lines by tenure; those about nothing that was sent are findings.
    fn collect(&mut self) {
        for (process, transcript) in self.account.transcripts.iter().enumerate() {
            for (at, line) in &transcript.lines {
                let Line::Handled(line) = line else { continue };
                let place = self.places.get(&(line.bucket, line.offset)).copied();
                let known = place.filter(|index| {
                    self.record(*index).is_some_and(|r| r.id == line.id && r.resource == line.resource)
                });
                let Handled { id, resource, bucket, offset, epoch } = line;
                match known {
                    Some(record) => {
                        let delivery = Delivery { process, at: *at, epoch: *epoch, record };
                        self.tenures.entry((*bucket, *epoch)).or_default().push(delivery);
                    }
                    None if place.is_none() && self.account.refused.contains_key(id) => {}
                    None => {
                        let who = &transcript.controller;
                        let text = format!(
                            "{who} handled {id} of {resource} at offset {offset} of bucket {bucket}, where no receipt has it"
                        );
                        self.find(Rule::Unknown, text);
                    }
                }
            }
        }
        for (id, why) in &self.account.refused {
            self.find(Rule::Refused, format!("{id} was not accepted: {why}"));
        }
    }

    /// What one process says about its tenures is consistent.
    fn one_process(&mut self, process: usize, transcript: &'a Transcript) {
        let (mut newest, mut open) = (BTreeMap::new(), BTreeSet::new());
        for (at, line) in &transcript.lines {
            let (bucket, epoch) = tenure_of(line);
            let tenure = format!("{}, bucket {bucket}, epoch {epoch}", transcript.controller);
            let newest = newest.entry(bucket).or_insert(epoch);
            if epoch < *newest {
                self.find(Rule::Epoch, format!("{tenure}: a line came after one of epoch {newest}"));
            }
            *newest = epoch.max(*newest);
            let owner = *self.owners.entry((bucket, epoch)).or_insert(process);
            if owner != process {
                self.find(Rule::Epoch, format!("{tenure}: {} has that epoch too", self.name(owner)));
            }
            let fits = match line {
                Line::Acquired { .. } => open.insert((bucket, epoch)),
                Line::Released { lost, .. } => {
                    if *lost {
                        let last = self.tenures.get(&(bucket, epoch)).and_then(|lines| lines.last());
                        let last = last.map_or(*at, |delivery| delivery.at);
                        self.broken.insert((bucket, epoch), (last, self.repeatable.lost));
                    }
                    open.remove(&(bucket, epoch))
                }
                Line::Handled(_) => open.contains(&(bucket, epoch)),
            };
            if !fits {
                self.find(
                    Rule::Epoch,
                    format!("{tenure}: a line outside of acquired and released: {line:?}"),
                );
            }
        }
        if let End::Killed(at) = transcript.end {
            let end = (at, self.repeatable.killed);
            self.broken.extend(open.into_iter().map(|tenure| (tenure, end)));
        }
    }

    /// Nobody goes on in an epoch when another process has long begun a later one; a process that was killed or
    /// stopped may have left lines behind that are read late.
    fn epochs_over_time(&mut self) {
        let mut lines = Vec::new();
        for (process, transcript) in self.account.transcripts.iter().enumerate() {
            lines.extend(
                transcript.lines.iter().map(|(at, line)| (*at, process, transcript.end, tenure_of(line))),
            );
        }
        lines.sort_by_key(|(at, ..)| *at);
        let mut newest: BTreeMap<u16, (u64, Duration)> = BTreeMap::new();
        for (at, process, end, (bucket, epoch)) in lines {
            let (highest, since) = *newest.entry(bucket).or_insert((epoch, at));
            if epoch > highest {
                newest.insert(bucket, (epoch, at));
            } else if epoch < highest && end == End::Running && at > since + READING {
                let who = self.name(process);
                let text = format!(
                    "{who}, bucket {bucket}: a line of epoch {epoch} {:?} after epoch {highest} had begun",
                    at.saturating_sub(since)
                );
                self.find(Rule::Epoch, text);
            }
        }
    }

    /// Every repeat is explained by a tenure that ended without order shortly after.
    fn repeats(&mut self) {
        let mut before: HashMap<usize, Delivery> = HashMap::new();
        let deliveries: Vec<Delivery> = self.tenures.values().flatten().copied().collect();
        for delivery in deliveries {
            let Some(last) = before.insert(delivery.record, delivery) else {
                self.verdict.handled += 1;
                continue;
            };
            let Some(record) = self.record(delivery.record) else { continue };
            let ended = self.broken.get(&(record.bucket, last.epoch)).copied();
            let before_end = ended.map(|(end, most)| (end.saturating_sub(last.at), most));
            let why = match before_end {
                _ if last.epoch == delivery.epoch => "twice in one epoch".to_owned(),
                None => format!("after epoch {} had ended in good order", last.epoch),
                Some((time, most)) if time > most => {
                    format!("although that was {time:?} before epoch {}'s end", last.epoch)
                }
                Some(_) => {
                    self.verdict.repeated += 1;
                    continue;
                }
            };
            let (first, again) = (self.name(last.process), self.name(delivery.process));
            let text = format!("{first} handled {}, and {again} again, {why}", place(record));
            self.find(Rule::Duplicated, text);
        }
    }

    /// Everything was handled but superseded states.
    fn losses(&mut self) {
        let handled: BTreeSet<usize> =
            self.tenures.values().flatten().map(|delivery| delivery.record).collect();
        for (index, record) in self.account.accepted.iter().enumerate() {
            if handled.contains(&index) {
                continue;
            }
            if self.is_superseded(record) {
                self.verdict.superseded += 1;
            } else {
                self.find(Rule::Lost, format!("{} was never handled", place(record)));
            }
        }
    }

    /// Per resource: no gap within a tenure, none before it.
    fn order(&mut self) {
        let mut queues: HashMap<(u16, &str), Queue<'a>> = HashMap::new();
        let mut sorted: Vec<&Accepted> = self.account.accepted.iter().collect();
        sorted.sort_by_key(|record| (record.bucket, record.offset));
        for record in sorted {
            let skippable = self.is_superseded(record);
            queues.entry((record.bucket, &record.resource)).or_default().push(record, skippable);
        }
        let mut findings = Vec::new();
        for ((bucket, epoch), deliveries) in &self.tenures {
            for delivery in deliveries {
                let Some(record) = self.record(delivery.record) else { continue };
                let queue = queues.get_mut(&(*bucket, record.resource.as_str()));
                if let Some(wrong) = queue.and_then(|queue| queue.take(*epoch, record.offset)) {
                    let who = self.name(delivery.process);
                    findings.push(format!("{who}, epoch {epoch}, handled {} {wrong}", place(record)));
                }
            }
        }
        for text in findings {
            self.find(Rule::OutOfOrder, text);
        }
    }
}

/// One resource's records in one bucket, in the order of their offsets.
#[derive(Default)]
struct Queue<'a> {
    records: Vec<&'a Accepted>,
    /// Of each: whether it was handled, or need not be.
    done: Vec<bool>,
    skippable: Vec<bool>,
    /// How many at the beginning are done.
    complete: usize,
    /// The tenure at work, and the place it has come to.
    current: Option<(u64, usize)>,
}

impl<'a> Queue<'a> {
    fn push(&mut self, record: &'a Accepted, skippable: bool) {
        self.records.push(record);
        self.skippable.push(skippable);
        self.done.push(skippable);
    }

    /// Takes a delivery in; says what is wrong with its place.
    fn take(&mut self, epoch: u64, offset: i64) -> Option<String> {
        let place = self.records.binary_search_by_key(&offset, |record| record.offset).ok()?;
        let wrong = match self.current {
            Some((same, last)) if same == epoch => match place.cmp(&(last + 1)) {
                std::cmp::Ordering::Less => Some(format!("after offset {}", self.offset(last))),
                _ => self.gap(last + 1, place, &self.skippable),
            },
            _ => {
                self.complete += self.done.iter().skip(self.complete).take_while(|done| **done).count();
                self.gap(self.complete, place, &self.done)
            }
        };
        self.current = Some((epoch, place));
        if let Some(done) = self.done.get_mut(place) {
            *done = true;
        }
        wrong
    }

    /// The first record from `from` up to `to` that may not be left out.
    fn gap(&self, from: usize, to: usize, allowed: &[bool]) -> Option<String> {
        let left_out = (from..to).find(|place| !allowed.get(*place).copied().unwrap_or(false))?;
        Some(format!("before offset {}", self.offset(left_out)))
    }

    fn offset(&self, place: usize) -> i64 {
        self.records.get(place).map_or(-1, |record| record.offset)
    }
}

fn tenure_of(line: &Line) -> (u16, u64) {
    match line {
        Line::Acquired { bucket, epoch } | Line::Released { bucket, epoch, .. } => (*bucket, *epoch),
        Line::Handled(handled) => (handled.bucket, handled.epoch),
    }
}

fn place(record: &Accepted) -> String {
    let Accepted { id, resource, bucket, offset, .. } = record;
    format!("{id} of {resource} (bucket {bucket}, offset {offset})")
}
