//! The calls into librdkafka that rdkafka's safe interface lacks. The only module with `unsafe`.
#![allow(unsafe_code, reason = "each call has its safety comment")]

use std::{
    ffi::{CStr, c_char, c_void},
    ptr,
};

use rdkafka::{bindings, message::BorrowedMessage};

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
