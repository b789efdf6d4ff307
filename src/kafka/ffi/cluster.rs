//! Describing the cluster, and what this client's user may do with topics.

use std::{ffi::CString, time::Duration};

use rdkafka::{
    ClientContext,
    bindings::{self, rd_kafka_AclOperation_t as Acl, rd_kafka_admin_op_t as Operation},
    client::Client,
    error::{KafkaError, RDKafkaErrorCode as Code},
};

use super::request::{Event, Owned, Request, ask, error_of, list, text};

/// A cluster as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::kafka) struct ClusterAnswer {
    /// Its id.
    pub(in crate::kafka) id: Option<String>,
    /// The brokers that are up, by their numbers.
    pub(in crate::kafka) brokers: Vec<i32>,
}

/// Asks the cluster about itself. Blocks for up to `timeout`.
///
/// # Errors
/// `KafkaError::Global` with the code of the request's error.
pub(in crate::kafka) fn describe_cluster<C: ClientContext>(
    client: &Client<C>,
    timeout: Duration,
) -> Result<ClusterAnswer, KafkaError> {
    let operation = Operation::RD_KAFKA_ADMIN_OP_DESCRIBECLUSTER;
    let request = Request { operation, broker: None, authorized: false, timeout };
    let event = ask(client, request, |client, options, queue| {
        // SAFETY: all are alive; the request copies what it needs of them.
        unsafe { bindings::rd_kafka_DescribeCluster(client, options, queue) };
    })?;
    // SAFETY: the event is alive for the whole function, and with it all that is taken from it; for another kind of
    // event the answer is null.
    let result = unsafe { bindings::rd_kafka_event_DescribeCluster_result(event.pointer) };
    if result.is_null() {
        return Err(KafkaError::Global(Code::BadMessage));
    }
    let mut count = 0;
    // SAFETY: as above.
    let nodes = unsafe { bindings::rd_kafka_DescribeCluster_result_nodes(result, &raw mut count) };
    // SAFETY: as above.
    let id = |node: &*const bindings::rd_kafka_Node_t| unsafe { bindings::rd_kafka_Node_id(*node) };
    Ok(ClusterAnswer {
        // SAFETY: as above.
        id: text(unsafe { bindings::rd_kafka_DescribeCluster_result_cluster_id(result) }),
        brokers: list(nodes.cast_const(), count).iter().map(id).collect(),
    })
}

/// What this client's user may do with a topic; `None` where the broker does not tell. Blocks for up to `timeout`.
///
/// # Errors
/// `KafkaError::Global` with the code of the request's error, or else of the topic's own.
pub(in crate::kafka) fn topic_operations<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    timeout: Duration,
) -> Result<Option<Vec<Acl>>, KafkaError> {
    let name = CString::new(topic)?;
    let mut names = [name.as_ptr()];
    // SAFETY: the name is ended by a zero byte and is copied.
    let topics =
        unsafe { bindings::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), names.len()) };
    let topics = Owned::new(topics, bindings::rd_kafka_TopicCollection_destroy)?;
    let operation = Operation::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
    let request = Request { operation, broker: None, authorized: true, timeout };
    let event = ask(client, request, |client, options, queue| {
        // SAFETY: all are alive; the request copies what it needs of them.
        unsafe { bindings::rd_kafka_DescribeTopics(client, topics.pointer, options, queue) };
    })?;
    topic_answer(&event)
}

fn topic_answer(event: &Event) -> Result<Option<Vec<Acl>>, KafkaError> {
    // SAFETY: the event is alive for the whole function, and with it all that is taken from it; for another kind of
    // event the answer is null.
    let result = unsafe { bindings::rd_kafka_event_DescribeTopics_result(event.pointer) };
    let mut count = 0;
    // SAFETY: as above.
    let topics = (!result.is_null())
        .then(|| unsafe { bindings::rd_kafka_DescribeTopics_result_topics(result, &raw mut count) });
    let topics = list(topics.unwrap_or_default().cast_const(), count);
    let topic = *topics.first().ok_or(KafkaError::Global(Code::BadMessage))?;
    // SAFETY: as above.
    error_of(unsafe { bindings::rd_kafka_TopicDescription_error(topic) })?;
    let mut count = 0;
    // SAFETY: as above.
    let operations =
        unsafe { bindings::rd_kafka_TopicDescription_authorized_operations(topic, &raw mut count) };
    Ok(told(operations, count))
}

/// Operations that something in an answer carries; null where the broker does not tell.
fn told(operations: *const Acl, count: usize) -> Option<Vec<Acl>> {
    (!operations.is_null()).then(|| list(operations, count).to_vec())
}
