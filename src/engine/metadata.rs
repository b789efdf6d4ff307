//! What is committed beside a bucket's offset: whose it is, and what the offset alone cannot say.
//!
//! `control-bus/<version> <epoch> <sequence>[ <body>]`, ASCII, at most 4,096 bytes (the broker's
//! `offset.metadata.max.bytes`). The part before the body is frozen: every version writes it so. The body of
//! version 1 is base64url, without padding, of the bytes that [`CommitMetadata::encode`] describes.
//!
//! A size is never mended by leaving something out: [`worst_case`] says beforehand how long the text can get,
//! and a record for which there might be no room is not started.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::OffsetRanges;
use crate::model::{Epoch, NextOffset, RecordOffset, TransactionSequence};

/// The most bytes that Kafka takes, by default.
pub const LIMIT: usize = 4096;

/// The longest text before the body: name, version, two numbers of 20 digits, separators.
const HEAD_LIMIT: usize = 64;

/// The most bytes of the body before it is encoded.
const BODY_LIMIT: usize = (LIMIT - HEAD_LIMIT) / 4 * 3;

const NAME: &str = "control-bus/";
const VERSION: u32 = 1;

/// The largest count of attempts that is written; larger ones are written as this.
const COUNT_LIMIT: u32 = 8191;

/// What has been tried with a record that is not finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attempts {
    /// How many attempts were begun, as far as that is durable.
    pub count: u32,
    /// Whether the last one has no outcome.
    pub open: bool,
}

/// What a committable offset alone cannot say.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Marks {
    /// Records beyond the committable offset that are finished.
    pub finished: OffsetRanges,
    /// Records that are not finished and have been tried.
    pub attempts: BTreeMap<RecordOffset, Attempts>,
}

/// Everything that is committed beside an offset.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CommitMetadata {
    /// The tenure that wrote it.
    pub epoch: Epoch,
    /// The number of the transaction within the tenure.
    pub sequence: TransactionSequence,
    /// Finished and tried records.
    pub marks: Marks,
}

/// What a text beside a committed offset turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParsedMetadata {
    /// Written by this version.
    Ours(CommitMetadata),
    /// Written by another version, or its body is damaged: the frozen part stands, the marks are not known, so
    /// records may be handled again.
    Unreadable {
        /// The tenure that wrote it.
        epoch: Epoch,
        /// The number of the transaction.
        sequence: TransactionSequence,
    },
    /// Not written by the bus at all.
    Foreign,
}

impl CommitMetadata {
    /// The text for `committable`.
    ///
    /// Body: the number of tried records; for each, its distance from the one before (the first from
    /// `committable`) and twice its count, plus one where the last attempt is open; then one byte, 0 where
    /// pairs of (distance, length) of finished ranges follow, 1 where a bitmap follows whose first bit
    /// is `committable`'s. Numbers are LEB128. The shorter of the two forms is taken.
    #[must_use]
    pub fn encode(&self, committable: NextOffset) -> String {
        let head = format!("{NAME}{VERSION} {} {}", self.epoch, self.sequence);
        if self.marks.finished.is_empty() && self.marks.attempts.is_empty() {
            return head;
        }
        let mut body = Vec::new();
        put(&mut body, u64::try_from(self.marks.attempts.len()).unwrap_or(u64::MAX));
        let mut last = committable;
        for (offset, attempts) in &self.marks.attempts {
            put(&mut body, last.distance_to(offset.position()));
            put(&mut body, u64::from(attempts.count.min(COUNT_LIMIT)) << 1 | u64::from(attempts.open));
            last = offset.next();
        }
        let (runs, bitmap) = (self.runs(committable), self.bitmap(committable, BODY_LIMIT));
        match bitmap {
            Some(bitmap) if bitmap.len() < runs.len() => {
                body.push(1);
                body.extend(bitmap);
            }
            _ => {
                body.push(0);
                body.extend(runs);
            }
        }
        format!("{head} {}", URL_SAFE_NO_PAD.encode(body))
    }

    /// Reads the text that was committed with `committed`. Never panics, whatever it is.
    #[must_use]
    pub fn decode(text: &str, committed: NextOffset) -> ParsedMetadata {
        let Some((version, epoch, sequence, rest)) = head(text) else { return ParsedMetadata::Foreign };
        let marks = if version == VERSION { decode_body(rest, committed) } else { None };
        match marks {
            Some(marks) => ParsedMetadata::Ours(Self { epoch, sequence, marks }),
            None => ParsedMetadata::Unreadable { epoch, sequence },
        }
    }

    fn runs(&self, committable: NextOffset) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut last = committable;
        for (start, end) in self.marks.finished.iter() {
            put(&mut bytes, last.distance_to(start));
            put(&mut bytes, start.distance_to(end));
            last = end;
        }
        bytes
    }

    /// The finished ranges as bits; `None` when they would take more than `limit` bytes.
    fn bitmap(&self, committable: NextOffset, limit: usize) -> Option<Vec<u8>> {
        let end = self.marks.finished.end().unwrap_or(committable);
        let length = usize::try_from(committable.distance_to(end).div_ceil(8)).ok()?;
        if length > limit {
            return None;
        }
        let mut bytes = vec![0_u8; length];
        for (start, end) in self.marks.finished.iter() {
            for bit in committable.distance_to(start)..committable.distance_to(end) {
                let byte = usize::try_from(bit / 8).ok().and_then(|index| bytes.get_mut(index))?;
                *byte |= 1 << (bit % 8);
            }
        }
        Some(bytes)
    }
}

/// How long the text can get, in bytes, in whatever order things end.
///
/// `unfinished` records are started and not finished, each may become a finished range of its own or a tried
/// record; `tried` further records carry attempts; `ranges` are finished; all lie within `span` offsets from the
/// committable one. Numbers that sum to `span` take at most one byte each and one more for every 127.
#[must_use]
pub(super) fn worst_case(unfinished: usize, tried: usize, ranges: usize, span: u64) -> usize {
    let span_bytes = |numbers: usize| {
        let by_sum = numbers.saturating_add(usize::try_from(span / 127).unwrap_or(usize::MAX));
        by_sum.min(numbers.saturating_mul(leb128_len(span)))
    };
    let attempts = unfinished.saturating_add(tried);
    let tried_bytes = span_bytes(attempts).saturating_add(attempts.saturating_mul(2));
    let runs = span_bytes(2 * ranges.saturating_add(unfinished));
    let bitmap = usize::try_from(span.div_ceil(8)).unwrap_or(usize::MAX);
    let body = 1 + 3 + tried_bytes.saturating_add(runs.min(bitmap));
    HEAD_LIMIT + body.div_ceil(3).saturating_mul(4)
}

fn head(text: &str) -> Option<(u32, Epoch, TransactionSequence, Option<&str>)> {
    let mut parts = text.strip_prefix(NAME)?.splitn(4, ' ');
    let version = parts.next()?.parse().ok()?;
    let epoch = Epoch::new(parts.next()?.parse().ok()?);
    let sequence = TransactionSequence::new(parts.next()?.parse().ok()?);
    Some((version, epoch, sequence, parts.next()))
}

fn decode_body(body: Option<&str>, committed: NextOffset) -> Option<Marks> {
    let mut marks = Marks::default();
    let Some(body) = body else { return Some(marks) };
    let bytes = URL_SAFE_NO_PAD.decode(body).ok()?;
    let mut rest = bytes.as_slice();
    let mut last = committed;
    for _ in 0..take(&mut rest)? {
        let offset = advance(last, take(&mut rest)?)?;
        let count = take(&mut rest)?;
        let attempts = Attempts { count: u32::try_from(count >> 1).ok()?, open: count & 1 == 1 };
        marks.attempts.insert(offset.record(), attempts);
        last = offset.record().next();
    }
    let (form, mut rest) = rest.split_first()?;
    let mut last = committed;
    match form {
        0 => {
            while !rest.is_empty() {
                let start = advance(last, take(&mut rest)?)?;
                let end = advance(start, take(&mut rest)?)?;
                marks.finished.insert(start, end);
                last = end;
            }
        }
        1 => {
            for (index, byte) in rest.iter().enumerate() {
                for bit in (0..8).filter(|bit| byte >> bit & 1 == 1) {
                    let start = advance(committed, u64::try_from(index).ok()? * 8 + bit)?;
                    marks.finished.insert(start, start.record().next());
                }
            }
        }
        _ => return None,
    }
    Some(marks)
}

fn advance(from: NextOffset, distance: u64) -> Option<NextOffset> {
    NextOffset::new(from.get().checked_add(i64::try_from(distance).ok()?)?)
}

/// Appends a number in LEB128.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or(0); // seven bits
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return;
        }
        bytes.push(low | 0x80);
    }
}

/// Takes a number in LEB128 off the front.
fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 0x7f).checked_shl(shift)?;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// How many bytes a number takes in LEB128.
fn leb128_len(number: u64) -> usize {
    usize::try_from((64 - number.leading_zeros()).div_ceil(7).max(1)).unwrap_or(10)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn next(offset: i64) -> NextOffset {
        NextOffset::new(offset).unwrap()
    }

    fn metadata(committable: i64, finished: &[(i64, i64)], attempts: &[(i64, u32, bool)]) -> CommitMetadata {
        let mut marks = Marks::default();
        for (start, length) in finished {
            marks.finished.insert(next(committable + start), next(committable + start + length));
        }
        for (offset, count, open) in attempts {
            let offset = RecordOffset::new(committable + offset).unwrap();
            marks.attempts.insert(offset, Attempts { count: *count, open: *open });
        }
        CommitMetadata { epoch: Epoch::new(7), sequence: TransactionSequence::new(9), marks }
    }

    #[test]
    fn the_text_is_as_published() {
        assert_eq!(metadata(5, &[], &[]).encode(next(5)), "control-bus/1 7 9");
        assert_eq!(metadata(5, &[(1, 2)], &[(0, 3, true)]).encode(next(5)), "control-bus/1 7 9 AQAHAQY");
    }

    #[test]
    fn a_newer_version_gives_its_frozen_part() {
        let expected =
            ParsedMetadata::Unreadable { epoch: Epoch::new(3), sequence: TransactionSequence::new(4) };
        for text in ["control-bus/2 3 4", "control-bus/2 3 4 whatever comes", "control-bus/1 3 4 !!!"] {
            assert_eq!(CommitMetadata::decode(text, next(0)), expected, "{text}");
        }
    }

    #[test]
    fn what_another_tool_wrote_is_foreign() {
        for text in ["", "x", "control-bus/", "control-bus/1 a b", "control-bus/1 1", "control-bus/-1 1 1"] {
            assert_eq!(CommitMetadata::decode(text, next(0)), ParsedMetadata::Foreign, "{text}");
        }
    }

    proptest! {
        #[test]
        fn marks_survive(
            committable in 0_i64..1_000_000,
            finished in proptest::collection::vec((0_i64..5000, 1_i64..50), 0..100),
            attempts in proptest::collection::vec((0_i64..5000, 1_u32..8191, any::<bool>()), 0..100),
        ) {
            let written = metadata(committable, &finished, &attempts);
            let text = written.encode(next(committable));
            prop_assert_eq!(CommitMetadata::decode(&text, next(committable)), ParsedMetadata::Ours(written));
        }

        #[test]
        fn reading_never_panics(text in "(control-bus/1 [0-9]{1,25} [0-9]{1,25} )?[A-Za-z0-9_-]{0,60}", offset in 0..i64::MAX) {
            drop(CommitMetadata::decode(&text, next(offset)));
        }

        #[test]
        fn no_order_of_ends_exceeds_the_worst_case(
            records in proptest::collection::btree_set(0_i64..40_000, 1..600),
            fates in proptest::collection::vec(0_u8..3, 600),
        ) {
            // Every record is started; each ends finished, tried, or not at all.
            let (mut finished, mut attempts) = (Vec::new(), Vec::new());
            for (offset, fate) in records.iter().zip(fates) {
                match fate {
                    0 => finished.push((*offset, 1)),
                    1 => attempts.push((*offset, 8191, true)),
                    _ => {}
                }
            }
            let text = metadata(0, &finished, &attempts).encode(next(0));
            let span = u64::try_from(records.last().unwrap() + 1).unwrap();
            let bound = worst_case(records.len(), 0, 0, span);
            prop_assert!(text.len() <= bound, "{} > {bound}", text.len());
            // And when some of them had already ended, the bound is no lower than what is written.
            let ranges = metadata(0, &finished, &[]).marks.finished.len();
            let later = worst_case(records.len() - finished.len(), 0, ranges, span);
            prop_assert!(text.len() <= later && later <= bound);
        }
    }
}
