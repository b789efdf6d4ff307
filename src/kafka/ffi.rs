//! The calls into librdkafka that rdkafka's safe interface lacks. The only module with `unsafe`.
#![allow(unsafe_code, reason = "each call has its safety comment")]

mod cluster;
mod describe;
mod groups;
mod request;

use std::{
    ffi::{CStr, c_char, c_void},
    ptr,
};

pub(super) use cluster::{describe_cluster, topic_operations};
pub(super) use describe::{Resource, describe_configs};
pub(super) use groups::{MemberAnswer, describe_group};
use rdkafka::{ClientContext, bindings, client::Client, config::RDKafkaLogLevel, message::BorrowedMessage};

/// Calls `each` with every header's name and value.
///
/// rdkafka's own iterator panics on a name that is not UTF-8, which any producer may write.
pub(super) fn for_each_header(message: &BorrowedMessage<'_>, mut each: impl FnMut(&[u8], Option<&[u8]>)) {
    let mut headers: *mut bindings::rd_kafka_headers_t = ptr::null_mut();
    // SAFETY: the message is alive for the whole function, and owns the headers that are returned.
    let error = unsafe { bindings::rd_kafka_message_headers(message.ptr(), &raw mut headers) };
    if error != bindings::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR || headers.is_null() {
        return;
    }
    for index in 0.. {
        let mut name: *const c_char = ptr::null();
        let mut value: *const c_void = ptr::null();
        let mut size = 0;
        // SAFETY: `headers` is valid as said above; past its end the call answers with an error.
        let error = unsafe {
            bindings::rd_kafka_header_get_all(headers, index, &raw mut name, &raw mut value, &raw mut size)
        };
        if error != bindings::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR || name.is_null() {
            return;
        }
        // SAFETY: librdkafka ends every header's name with a zero byte.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        // SAFETY: a value that is not null has `size` bytes and lives as long as the message.
        let value = (!value.is_null()).then(|| unsafe { std::slice::from_raw_parts(value.cast(), size) });
        each(name, value);
    }
}

/// Waits up to `timeout_ms` milliseconds for what librdkafka has to tell the application, and serves it: log lines go
/// to the context, and token refreshes are carried out.
///
/// rdkafka does this for consumers and producers only; an administration client's queue nobody looks at.
pub(super) fn serve<C: ClientContext>(client: &Client<C>, timeout_ms: i32) {
    // SAFETY: the client is alive for the whole function; the queue's reference is given back below.
    let queue = unsafe { bindings::rd_kafka_queue_get_main(client.native_ptr()) };
    // SAFETY: the queue is valid as said above.
    let event = unsafe { bindings::rd_kafka_queue_poll(queue, timeout_ms) };
    if !event.is_null() {
        let (mut facility, mut message): (*const c_char, *const c_char) = (ptr::null(), ptr::null());
        let mut level = 0;
        // SAFETY: the event is ours until it is destroyed; for another kind of event the call answers with an error.
        let error = unsafe {
            bindings::rd_kafka_event_log(event, &raw mut facility, &raw mut message, &raw mut level)
        };
        if error == 0 && !facility.is_null() && !message.is_null() {
            // SAFETY: both are ended by a zero byte and live as long as the event.
            let (facility, message) = unsafe { (CStr::from_ptr(facility), CStr::from_ptr(message)) };
            let level = LEVELS.get(usize::try_from(level).unwrap_or(usize::MAX)).copied();
            client.context().log(
                level.unwrap_or(RDKafkaLogLevel::Debug),
                facility.to_string_lossy().trim(),
                message.to_string_lossy().trim(),
            );
        }
        // SAFETY: the event is ours, and is not used again.
        unsafe { bindings::rd_kafka_event_destroy(event) };
    }
    // SAFETY: the reference was taken above, and is not used again.
    unsafe { bindings::rd_kafka_queue_destroy(queue) };
}

/// librdkafka's log levels, which are syslog's, by their numbers.
const LEVELS: [RDKafkaLogLevel; 8] = [
    RDKafkaLogLevel::Emerg,
    RDKafkaLogLevel::Alert,
    RDKafkaLogLevel::Critical,
    RDKafkaLogLevel::Error,
    RDKafkaLogLevel::Warning,
    RDKafkaLogLevel::Notice,
    RDKafkaLogLevel::Info,
    RDKafkaLogLevel::Debug,
];
