//! What a takeover reads: the committed offset, the claim, and the log's bounds.

use std::{sync::Arc, time::Duration};

use crate::{
    engine::Reading,
    kafka::{Error, Isolation, LogReader, OffsetReader, Settings},
    model::{Bucket, Bus, Claim, RecordKey},
    telemetry::Metrics,
};

/// How long one question may take. A pending transaction ends within a second of its producer's initialisation.
const TIMEOUT: Duration = Duration::from_secs(3);

/// How many claims can be read at the same time.
const CLAIM_READERS: usize = 4;

/// Clients that all buckets share: they stay connected, so that a takeover need not connect first.
pub(super) struct Readers {
    notifications: String,
    ownership: String,
    offsets: OffsetReader,
    bounds: LogReader,
    claims: Vec<LogReader>,
}

impl Readers {
    pub(super) fn new(settings: &Settings, bus: &Bus, metrics: &Arc<Metrics>) -> Result<Self, Error> {
        let reader = |isolation| LogReader::new(settings, isolation, Some(Arc::clone(metrics)));
        let claims: Result<Vec<_>, _> =
            (0..CLAIM_READERS).map(|_| reader(Isolation::ReadCommitted)).collect();
        Ok(Self {
            notifications: bus.notifications(),
            ownership: bus.ownership(),
            offsets: OffsetReader::new(
                settings,
                &bus.group(),
                Isolation::ReadCommitted,
                Some(Arc::clone(metrics)),
            )?,
            bounds: reader(Isolation::ReadUncommitted)?,
            claims: claims?,
        })
    }

    /// Reads everything about a bucket. Blocks. Only meaningful after its producer id was initialised: until
    /// then the former owner can still write.
    pub(super) fn read(&self, bucket: Bucket) -> Result<Reading, Error> {
        let committed = self.offsets.committed(&self.notifications, bucket, TIMEOUT)?;
        let claim = self.claim(bucket)?;
        let (log_start, log_end) = self.bounds.bounds(&self.notifications, bucket, TIMEOUT)?;
        Ok(Reading {
            committed: committed.map(|committed| (committed.offset, committed.metadata)),
            claim,
            log_start,
            log_end,
        })
    }

    fn claim(&self, bucket: Bucket) -> Result<Option<Claim>, Error> {
        let bounds = self.bounds.bounds(&self.ownership, bucket, TIMEOUT)?;
        let Some(reader) = self.claims.get(usize::from(bucket.get()) % CLAIM_READERS) else {
            return Ok(None);
        };
        let mut claim: Option<Claim> = None;
        reader.read((&self.ownership, bucket), bounds, TIMEOUT, |record| {
            if record.key() != Some(RecordKey::CLAIM.as_bytes()) {
                return;
            }
            match record.payload().map(Claim::decode) {
                // Claims only grow; one that does not was written by another tool.
                Some(Ok(found)) if claim.as_ref().is_none_or(|known| found.epoch >= known.epoch) => {
                    claim = Some(found);
                }
                Some(Ok(_)) | None => {}
                Some(Err(error)) => {
                    tracing::warn!(%bucket, %error, "a claim could not be read and is passed over");
                }
            }
        })?;
        Ok(claim)
    }
}
