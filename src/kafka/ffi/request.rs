//! One administrative request and its answer, as librdkafka's C interface wants them.

use std::{
    ffi::{CStr, c_char},
    ptr,
    time::Duration,
};

use rdkafka::{
    ClientContext,
    bindings::{self, rd_kafka_admin_op_t as Operation},
    client::Client,
    error::{KafkaError, RDKafkaErrorCode as Code},
};

/// An answer, given back at the drop; what is taken from it lives as long.
pub(super) type Event = Owned<bindings::rd_kafka_event_t>;

/// How a request is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    /// What is asked.
    pub(super) operation: Operation,
    /// Which broker is asked; `None` leaves the choice to librdkafka.
    pub(super) broker: Option<i32>,
    /// Whether the answer is to say what this user may do.
    pub(super) authorized: bool,
    /// How long it may take.
    pub(super) timeout: Duration,
}

/// Makes a request, and waits for its answer. `send` is given the client, the options and the queue, all alive, and
/// calls the one function of librdkafka that goes with the operation.
///
/// # Errors
/// `KafkaError::Global` with the code of the request's error.
pub(super) fn ask<C: ClientContext>(
    client: &Client<C>,
    request: Request,
    send: impl FnOnce(
        *mut bindings::rd_kafka_t,
        *const bindings::rd_kafka_AdminOptions_t,
        *mut bindings::rd_kafka_queue_t,
    ),
) -> Result<Event, KafkaError> {
    let options = options(client, request)?;
    // SAFETY: the client is alive for the whole function, as is what was made from it.
    let queue = unsafe { bindings::rd_kafka_queue_new(client.native_ptr()) };
    let queue = Owned::new(queue, bindings::rd_kafka_queue_destroy)?;
    send(client.native_ptr(), options.pointer, queue.pointer);
    // The request itself ends with its time-out, a little before.
    let patience = milliseconds(request.timeout).saturating_add(1000);
    // SAFETY: the queue is alive.
    let event = unsafe { bindings::rd_kafka_queue_poll(queue.pointer, patience) };
    if event.is_null() {
        return Err(KafkaError::Global(Code::OperationTimedOut));
    }
    let event = Owned::new(event, bindings::rd_kafka_event_destroy)?;
    // SAFETY: the event is alive.
    checked(unsafe { bindings::rd_kafka_event_error(event.pointer) })?;
    Ok(event)
}

fn options<C: ClientContext>(
    client: &Client<C>,
    request: Request,
) -> Result<Owned<bindings::rd_kafka_AdminOptions_t>, KafkaError> {
    // SAFETY: the client is alive.
    let options = unsafe { bindings::rd_kafka_AdminOptions_new(client.native_ptr(), request.operation) };
    let options = Owned::new(options, bindings::rd_kafka_AdminOptions_destroy)?;
    let mut reason: [c_char; 256] = [0; 256];
    // SAFETY: the options are alive, and the buffer has the size that is given with it.
    checked(unsafe {
        bindings::rd_kafka_AdminOptions_set_request_timeout(
            options.pointer,
            milliseconds(request.timeout),
            reason.as_mut_ptr(),
            reason.len(),
        )
    })?;
    if let Some(broker) = request.broker {
        // SAFETY: as above.
        checked(unsafe {
            bindings::rd_kafka_AdminOptions_set_broker(
                options.pointer,
                broker,
                reason.as_mut_ptr(),
                reason.len(),
            )
        })?;
    }
    if request.authorized {
        // SAFETY: as above.
        let error =
            unsafe { bindings::rd_kafka_AdminOptions_set_include_authorized_operations(options.pointer, 1) };
        if !error.is_null() {
            let error = Owned::new(error, bindings::rd_kafka_error_destroy)?;
            error_of(error.pointer)?;
        }
    }
    Ok(options)
}

/// An answer's code as a result.
pub(super) fn checked(code: bindings::rd_kafka_resp_err_t) -> Result<(), KafkaError> {
    match Code::from(code) {
        Code::NoError => Ok(()),
        code => Err(KafkaError::Global(code)),
    }
}

/// The error that belongs to something in an answer that is alive; null is none.
pub(super) fn error_of(error: *const bindings::rd_kafka_error_t) -> Result<(), KafkaError> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's error is alive.
    checked(unsafe { bindings::rd_kafka_error_code(error) })
}

/// A text of something that is alive, ended by a zero byte; `None` for null.
pub(super) fn text(text: *const c_char) -> Option<String> {
    // SAFETY: the caller's text is alive and ended by a zero byte.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// A list of something that is alive; empty for null.
pub(super) fn list<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if first.is_null() {
        return &[];
    }
    // SAFETY: the caller's list is alive and has `count` entries.
    unsafe { std::slice::from_raw_parts(first, count) }
}

pub(super) fn milliseconds(timeout: Duration) -> i32 {
    i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX)
}

/// Something that librdkafka made for us, given back at the drop.
pub(super) struct Owned<T> {
    pub(super) pointer: *mut T,
    destroy: unsafe extern "C" fn(*mut T),
}

impl<T> Owned<T> {
    pub(super) fn new(pointer: *mut T, destroy: unsafe extern "C" fn(*mut T)) -> Result<Self, KafkaError> {
        if ptr::eq(pointer, ptr::null()) {
            return Err(KafkaError::Global(Code::CriticalSystemResource));
        }
        Ok(Self { pointer, destroy })
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer is ours, was made by the function that `destroy` goes with, and is not used again.
        unsafe { (self.destroy)(self.pointer) };
    }
}
