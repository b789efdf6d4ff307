//! Describing settings: rdkafka's own call does not tell a resource's error, so that a topic which is missing, or which
//! this user may not see, looks like one without settings.

use std::{ffi::CString, time::Duration};

use rdkafka::{
    ClientContext,
    bindings::{self, rd_kafka_ResourceType_t as ResourceType, rd_kafka_admin_op_t as Operation},
    client::Client,
    error::{KafkaError, RDKafkaErrorCode as Code},
};

use super::request::{Event, Owned, Request, ask, checked, list, text};

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
    let operation = Operation::RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS;
    let mut resources = [resource.pointer];
    let request = Request { operation, broker, authorized: false, timeout };
    let event = ask(client, request, |client, options, queue| {
        // SAFETY: all are alive; the request copies what it needs of them.
        unsafe {
            bindings::rd_kafka_DescribeConfigs(
                client,
                resources.as_mut_ptr(),
                resources.len(),
                options,
                queue,
            );
        }
    })?;
    answer(&event)
}

/// Takes the answer about one resource apart.
fn answer(event: &Event) -> Result<Vec<(String, String)>, KafkaError> {
    // SAFETY: the event is alive for the whole function, and with it all that is taken from it; for another kind of
    // event the answer is null.
    let result = unsafe { bindings::rd_kafka_event_DescribeConfigs_result(event.pointer) };
    let mut count = 0;
    // SAFETY: as above.
    let resources = (!result.is_null())
        .then(|| unsafe { bindings::rd_kafka_DescribeConfigs_result_resources(result, &raw mut count) });
    let resources = list(resources.unwrap_or_default().cast_const(), count);
    let resource = *resources.first().ok_or(KafkaError::Global(Code::BadMessage))?;
    // SAFETY: as above.
    checked(unsafe { bindings::rd_kafka_ConfigResource_error(resource) })?;
    let mut count = 0;
    // SAFETY: as above.
    let entries = unsafe { bindings::rd_kafka_ConfigResource_configs(resource, &raw mut count) };
    Ok(list(entries.cast_const(), count).iter().filter_map(|entry| named(*entry)).collect())
}

/// A setting's name and value; `None` for a secret, whose value Kafka does not tell.
fn named(entry: *const bindings::rd_kafka_ConfigEntry_t) -> Option<(String, String)> {
    // SAFETY: the entry belongs to an event that is alive, and its texts are null or ended by a zero byte.
    let (name, value) =
        unsafe { (bindings::rd_kafka_ConfigEntry_name(entry), bindings::rd_kafka_ConfigEntry_value(entry)) };
    Some((text(name)?, text(value)?))
}
