//! Backpressure: how many messages, and bytes of them, may be accepted and not yet answered.
//!
//! First come, first served: whoever waits, waits in a row, and nobody overtakes. A message that alone is
//! larger than all the room there is counts as all of it.

use std::sync::Arc;

use tokio::sync::{Mutex, MutexGuard, OwnedSemaphorePermit, Semaphore, TryAcquireError};

/// The room there is.
#[derive(Debug)]
pub(super) struct Room {
    turn: Mutex<()>,
    records: Limit,
    bytes: Limit,
}

/// A part of it that is taken; dropping it gives it back.
#[derive(Debug)]
pub(super) struct Held {
    _records: OwnedSemaphorePermit,
    _bytes: OwnedSemaphorePermit,
}

/// Being the first in the row. It is kept until the message is accepted, so that those are accepted in the
/// order of the row.
pub(super) type Turn<'a> = MutexGuard<'a, ()>;

/// Why no room was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// Not now.
    Full,
    /// Never again.
    Closed,
}

impl Room {
    pub(super) fn new(max_records: usize, max_bytes: usize) -> Self {
        Self { turn: Mutex::new(()), records: Limit::new(max_records), bytes: Limit::new(max_bytes) }
    }

    /// Waits for room. Cancel safe: a caller that stops waiting holds nothing.
    pub(super) async fn wait(&self, records: usize, bytes: usize) -> Result<(Turn<'_>, Held), NoRoom> {
        let turn = self.turn.lock().await;
        let records = self.records.wait(records).await?;
        let bytes = self.bytes.wait(bytes).await?;
        Ok((turn, Held { _records: records, _bytes: bytes }))
    }

    /// Takes room if there is some now and nobody is before this caller.
    pub(super) fn take(&self, records: usize, bytes: usize) -> Result<(Turn<'_>, Held), NoRoom> {
        let Ok(turn) = self.turn.try_lock() else { return Err(NoRoom::Full) };
        let records = self.records.take(records)?;
        let bytes = self.bytes.take(bytes)?;
        Ok((turn, Held { _records: records, _bytes: bytes }))
    }

    /// Gives no more room; those who wait are told.
    pub(super) fn close(&self) {
        self.records.semaphore.close();
        self.bytes.semaphore.close();
    }
}

/// One of the two counts.
#[derive(Debug)]
struct Limit {
    semaphore: Arc<Semaphore>,
    most: u32,
}

impl Limit {
    fn new(limit: usize) -> Self {
        let limit = limit.clamp(1, Semaphore::MAX_PERMITS);
        Self { semaphore: Arc::new(Semaphore::new(limit)), most: u32::try_from(limit).unwrap_or(u32::MAX) }
    }

    fn permits(&self, count: usize) -> u32 {
        u32::try_from(count).unwrap_or(u32::MAX).min(self.most)
    }

    async fn wait(&self, count: usize) -> Result<OwnedSemaphorePermit, NoRoom> {
        let semaphore = Arc::clone(&self.semaphore);
        semaphore.acquire_many_owned(self.permits(count)).await.map_err(|_| NoRoom::Closed)
    }

    fn take(&self, count: usize) -> Result<OwnedSemaphorePermit, NoRoom> {
        let semaphore = Arc::clone(&self.semaphore);
        semaphore.try_acquire_many_owned(self.permits(count)).map_err(|error| match error {
            TryAcquireError::NoPermits => NoRoom::Full,
            TryAcquireError::Closed => NoRoom::Closed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(room: &Room, records: usize, bytes: usize) -> Result<Held, NoRoom> {
        room.take(records, bytes).map(|(_, held)| held)
    }

    #[tokio::test]
    async fn room_is_bounded_by_records_and_by_bytes_and_given_back() {
        let room = Room::new(2, 100);
        let first = take(&room, 1, 60).unwrap();
        assert_eq!(take(&room, 1, 60).unwrap_err(), NoRoom::Full, "bytes");
        let second = take(&room, 1, 10).unwrap();
        assert_eq!(take(&room, 1, 1).unwrap_err(), NoRoom::Full, "records");
        drop((first, second));
        assert!(take(&room, 2, 100).is_ok(), "also what a refusal had taken in passing is given back");
    }

    #[tokio::test]
    async fn a_message_larger_than_all_room_is_let_in_alone() {
        let room = Room::new(2, 100);
        let small = take(&room, 1, 1).unwrap();
        assert_eq!(take(&room, 5, 1000).unwrap_err(), NoRoom::Full);
        drop(small);
        let large = take(&room, 5, 1000).unwrap();
        assert_eq!(take(&room, 1, 1).unwrap_err(), NoRoom::Full);
        drop(large);
    }

    #[tokio::test]
    async fn nobody_overtakes_one_who_waits() {
        let room = Room::new(10, 100);
        let first = take(&room, 1, 60).unwrap();
        let mut large = std::pin::pin!(room.wait(1, 100));
        tokio::select! {
            biased;
            _ = &mut large => panic!("there is no room"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(take(&room, 1, 1).unwrap_err(), NoRoom::Full);
        drop(first);
        assert!(large.await.is_ok());
    }

    #[tokio::test]
    async fn closing_tells_those_who_wait() {
        let room = Room::new(1, 1);
        let _held = take(&room, 1, 1).unwrap();
        let (waited, ()) = tokio::join!(room.wait(1, 1), async { room.close() });
        assert_eq!(waited.unwrap_err(), NoRoom::Closed);
    }
}
