//! What a takeover found, and where it goes on.

use crate::{
    engine::{Marks, ParsedMetadata},
    model::{Claim, Epoch, NextOffset, TransactionSequence},
};

/// What stands in Kafka about a bucket, read after its producer id was initialised.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reading {
    /// The stable committed offset and what was written beside it.
    pub committed: Option<(NextOffset, String)>,
    /// The latest claim.
    pub claim: Option<Claim>,
    /// Where the bucket's log starts.
    pub log_start: NextOffset,
    /// Where it ends, as a read-uncommitted client sees it.
    pub log_end: NextOffset,
}

/// Where a tenure goes on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Resume {
    /// The new epoch.
    pub epoch: Epoch,
    /// The first offset to read.
    pub offset: NextOffset,
    /// What the predecessor left beside it.
    pub marks: Marks,
    /// Below this, records may have been started by a predecessor that did not release the bucket: no attempt
    /// begins there before it is durable. Equal to `offset` after an orderly release.
    pub cautious_until: NextOffset,
    /// Why reading begins at the log's start although somebody owned the bucket before.
    pub lost: Option<OffsetsLost>,
    /// Whether the text beside the offset was not understood, so that its marks are not known.
    pub unreadable: bool,
}

/// What happened to a committed offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OffsetsLost {
    /// There is none, although the bucket was owned before.
    Missing,
    /// It lies below the log's start: records were deleted unread.
    BelowStart(NextOffset),
    /// It lies beyond the log's end: the log is another one.
    BeyondEnd(NextOffset),
}

impl Reading {
    /// Decides where to go on: step (4) of the takeover, but for writing it.
    #[must_use]
    pub fn resume(&self) -> Resume {
        let (written, _) = self.written_by();
        let claimed = self.claim.as_ref().map_or(Epoch::NONE, |claim| claim.epoch);
        let epoch = written.max(claimed).next();
        let owned_before = written.max(claimed) > Epoch::NONE || self.committed.is_some();
        // A claim that is older than the offset's own epoch says nothing about the last owner.
        let released = self.claim.as_ref().is_some_and(|claim| claim.released && claim.epoch >= written);
        let (offset, marks, lost, unreadable) = match self.offset() {
            Err(lost) => (self.log_start, Marks::default(), lost.filter(|_| owned_before), false),
            Ok((offset, text)) => match super::super::CommitMetadata::decode(text, offset) {
                ParsedMetadata::Ours(metadata) => (offset, metadata.marks, None, false),
                ParsedMetadata::Unreadable { .. } => (offset, Marks::default(), None, true),
                ParsedMetadata::Foreign => (offset, Marks::default(), None, !text.is_empty()),
            },
        };
        let inherited = self.claim.as_ref().and_then(|claim| claim.cautious_until).and_then(NextOffset::new);
        let suspect = match (owned_before, released) {
            (false, _) => offset,
            (true, true) => inherited.unwrap_or(offset).min(self.log_end),
            (true, false) => self.log_end,
        };
        let cautious_until = suspect.max(offset);
        Resume { epoch, offset, marks, cautious_until, lost, unreadable }
    }

    /// The tenure and transaction that wrote the committed offset.
    #[must_use]
    pub fn written_by(&self) -> (Epoch, TransactionSequence) {
        let parsed =
            self.committed.as_ref().map(|(offset, text)| super::super::CommitMetadata::decode(text, *offset));
        match parsed {
            Some(ParsedMetadata::Ours(metadata)) => (metadata.epoch, metadata.sequence),
            Some(ParsedMetadata::Unreadable { epoch, sequence }) => (epoch, sequence),
            Some(ParsedMetadata::Foreign) | None => (Epoch::NONE, TransactionSequence::CLAIM),
        }
    }

    /// Whether somebody has claimed the bucket with a later epoch.
    #[must_use]
    pub fn claimed_above(&self, epoch: Epoch) -> bool {
        self.claim.as_ref().is_some_and(|claim| claim.epoch > epoch)
    }

    fn offset(&self) -> Result<(NextOffset, &str), Option<OffsetsLost>> {
        match &self.committed {
            None => Err(Some(OffsetsLost::Missing)),
            Some((offset, _)) if *offset < self.log_start => Err(Some(OffsetsLost::BelowStart(*offset))),
            Some((offset, _)) if *offset > self.log_end => Err(Some(OffsetsLost::BeyondEnd(*offset))),
            Some((offset, text)) => Ok((*offset, text)),
        }
    }
}
