//! Records between rdkafka's types and ours: one copy in, one copy out.

use bytes::Bytes;
use rdkafka::{
    Message as _, Timestamp,
    message::{BorrowedMessage, Header, OwnedHeaders},
};

use super::ffi::for_each_header;
use crate::model::{Bucket, Record, RecordOffset};

/// Copies a record out of the client's memory; `None` for a partition or offset that no record has.
pub(super) fn copied(message: &BorrowedMessage<'_>) -> Option<Record> {
    let bucket = Bucket::from_partition(message.partition())?;
    let offset = RecordOffset::new(message.offset())?;
    let timestamp = match message.timestamp() {
        Timestamp::NotAvailable => None,
        Timestamp::CreateTime(ms) | Timestamp::LogAppendTime(ms) => Some(ms),
    };
    let (key, payload) = (message.key(), message.payload());
    let size = key.map_or(0, <[u8]>::len) + payload.map_or(0, <[u8]>::len);
    let mut record =
        Record::builder(bucket, offset, timestamp, size + HEADERS_GUESS).key(key).payload(payload);
    for_each_header(message, |name, value| record.header(&String::from_utf8_lossy(name), value));
    Some(record.finish())
}

/// About what CloudEvents' headers take; only saves growing the buffer.
const HEADERS_GUESS: usize = 256;

/// The headers as rdkafka wants them.
pub(super) fn headers(headers: &[(String, Option<Bytes>)]) -> OwnedHeaders {
    headers.iter().fold(OwnedHeaders::new_with_capacity(headers.len()), |list, (name, value)| {
        list.insert(Header { key: name, value: value.as_deref() })
    })
}
