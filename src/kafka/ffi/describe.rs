//! Describing settings: rdkafka's own call does not tell a resource's error, so that a topic which is missing, or which
//! this user may not see, looks like one without settings.

use std::{
    ffi::{CStr, CString, c_char},
    ptr,
    time::Duration,
};

use rdkafka::{
    ClientContext,
    bindings::{self, rd_kafka_ResourceType_t as ResourceType, rd_kafka_admin_op_t as Operation},
    client::Client,
    error::{KafkaError, RDKafkaErrorCode as Code},
};

/// What has settings.
#[derive(Debug, Clone, Copy)]
pub(in crate::kafka) enum Resource<'a> {
    /// A topic.
    Topic(&'a str),
    /// A broker, by its number.
    Broker(i32),
}

/// The settings of `resource` that are no secret, by name. Blocks for up to `timeout`.
///
/// `broker` is the one to ask; `None` leaves the choice to librdkafka.
///
/// # Errors
/// `KafkaError::Global` with the code of the request's error, or else of the resource's own.
pub(in crate::kafka) fn describe_configs<C: ClientContext>(
    client: &Client<C>,
    resource: Resource<'_>,
    broker: Option<i32>,
    timeout: Duration,
) -> Result<Vec<(String, String)>, KafkaError> {
    let (kind, name) = match resource {
        Resource::Topic(name) => (ResourceType::RD_KAFKA_RESOURCE_TOPIC, CString::new(name)?),
        Resource::Broker(id) => (ResourceType::RD_KAFKA_RESOURCE_BROKER, CString::new(id.to_string())?),
    };
    // SAFETY: the name is ended by a zero byte and is copied.
    let resource = unsafe { bindings::rd_kafka_ConfigResource_new(kind, name.as_ptr()) };
    let resource = Owned::new(resource, bindings::rd_kafka_ConfigResource_destroy)?;
    let options = options(client, broker, timeout)?;
    // SAFETY: the client is alive for the whole function, as is what was made from it.
    let queue = unsafe { bindings::rd_kafka_queue_new(client.native_ptr()) };
    let queue = Owned::new(queue, bindings::rd_kafka_queue_destroy)?;
    let mut list = [resource.pointer];
    // SAFETY: all are alive; the request copies what it needs of them.
    unsafe {
        bindings::rd_kafka_DescribeConfigs(
            client.native_ptr(),
            list.as_mut_ptr(),
            list.len(),
            options.pointer,
            queue.pointer,
        );
    }
    // The request itself ends with its time-out, a little before.
    let patience = milliseconds(timeout).saturating_add(1000);
    // SAFETY: the queue is alive.
    let event = unsafe { bindings::rd_kafka_queue_poll(queue.pointer, patience) };
    if event.is_null() {
        return Err(KafkaError::Global(Code::OperationTimedOut));
    }
    answer(&Owned::new(event, bindings::rd_kafka_event_destroy)?)
}

fn options<C: ClientContext>(
    client: &Client<C>,
    broker: Option<i32>,
    timeout: Duration,
) -> Result<Owned<bindings::rd_kafka_AdminOptions_t>, KafkaError> {
    let operation = Operation::RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS;
    // SAFETY: the client is alive.
    let options = unsafe { bindings::rd_kafka_AdminOptions_new(client.native_ptr(), operation) };
    let options = Owned::new(options, bindings::rd_kafka_AdminOptions_destroy)?;
    let mut reason: [c_char; 256] = [0; 256];
    // SAFETY: the options are alive, and the buffer has the size that is given with it.
    let mut set = unsafe {
        bindings::rd_kafka_AdminOptions_set_request_timeout(
            options.pointer,
            milliseconds(timeout),
            reason.as_mut_ptr(),
            reason.len(),
        )
    };
    if let (Some(broker), bindings::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR) = (broker, set) {
        // SAFETY: as above.
        set = unsafe {
            bindings::rd_kafka_AdminOptions_set_broker(
                options.pointer,
                broker,
                reason.as_mut_ptr(),
                reason.len(),
            )
        };
    }
    match Code::from(set) {
        Code::NoError => Ok(options),
        code => Err(KafkaError::Global(code)),
    }
}

/// Takes the answer about one resource apart.
fn answer(event: &Owned<bindings::rd_kafka_event_t>) -> Result<Vec<(String, String)>, KafkaError> {
    // SAFETY: the event is alive for the whole function, and with it all that is taken from it.
    let code = Code::from(unsafe { bindings::rd_kafka_event_error(event.pointer) });
    if code != Code::NoError {
        return Err(KafkaError::Global(code));
    }
    // SAFETY: as above; for another kind of event the answer is null.
    let result = unsafe { bindings::rd_kafka_event_DescribeConfigs_result(event.pointer) };
    let mut count = 0;
    // SAFETY: as above.
    let resources = (!result.is_null())
        .then(|| unsafe { bindings::rd_kafka_DescribeConfigs_result_resources(result, &raw mut count) });
    let Some(resources) = resources.filter(|list| !list.is_null() && count > 0) else {
        return Err(KafkaError::Global(Code::BadMessage));
    };
    // SAFETY: the list has at least one entry.
    let resource = unsafe { *resources };
    // SAFETY: as above.
    let code = Code::from(unsafe { bindings::rd_kafka_ConfigResource_error(resource) });
    if code != Code::NoError {
        return Err(KafkaError::Global(code));
    }
    let mut count = 0;
    // SAFETY: as above.
    let entries = unsafe { bindings::rd_kafka_ConfigResource_configs(resource, &raw mut count) };
    if entries.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the list has `count` entries.
    let entries = unsafe { std::slice::from_raw_parts(entries, count) };
    Ok(entries.iter().filter_map(|entry| named(*entry)).collect())
}

/// A setting's name and value; `None` for a secret, whose value Kafka does not tell.
fn named(entry: *const bindings::rd_kafka_ConfigEntry_t) -> Option<(String, String)> {
    // SAFETY: the entry belongs to an event that is alive, and its texts are null or ended by a zero byte.
    let text = |text: *const c_char| {
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    };
    // SAFETY: as above.
    let (name, value) =
        unsafe { (bindings::rd_kafka_ConfigEntry_name(entry), bindings::rd_kafka_ConfigEntry_value(entry)) };
    Some((text(name)?, text(value)?))
}

fn milliseconds(timeout: Duration) -> i32 {
    i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX)
}

/// Something that librdkafka made for us, given back at the drop.
struct Owned<T> {
    pointer: *mut T,
    destroy: unsafe extern "C" fn(*mut T),
}

impl<T> Owned<T> {
    fn new(pointer: *mut T, destroy: unsafe extern "C" fn(*mut T)) -> Result<Self, KafkaError> {
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
