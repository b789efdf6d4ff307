//! Describing a consumer group.

use std::{ffi::CString, time::Duration};

use rdkafka::{
    ClientContext,
    bindings::{
        self, rd_kafka_AclOperation_t as Acl, rd_kafka_admin_op_t as Operation,
        rd_kafka_consumer_group_state_t as State,
    },
    client::Client,
    error::{KafkaError, RDKafkaErrorCode as Code},
};

use super::{
    cluster::told,
    request::{Event, Request, ask, error_of, list, text},
};

/// A group as its coordinator describes it.
pub(in crate::kafka) struct GroupAnswer {
    /// What it is doing.
    pub(in crate::kafka) state: State,
    /// Its members.
    pub(in crate::kafka) members: Vec<MemberAnswer>,
    /// What this client's user may do with it; `None` where the broker does not tell.
    pub(in crate::kafka) operations: Option<Vec<Acl>>,
}

/// A member of a group.
pub(in crate::kafka) struct MemberAnswer {
    /// Its client's name for itself.
    pub(in crate::kafka) client: String,
    /// Where it is, as the broker sees it.
    pub(in crate::kafka) host: String,
    /// What is assigned to it: topic and partition.
    pub(in crate::kafka) assigned: Vec<(String, i32)>,
}

/// Asks a group's coordinator about it. Blocks for up to `timeout`.
///
/// # Errors
/// `KafkaError::Global` with the code of the request's error, or else of the group's own.
pub(in crate::kafka) fn describe_group<C: ClientContext>(
    client: &Client<C>,
    group: &str,
    timeout: Duration,
) -> Result<GroupAnswer, KafkaError> {
    let name = CString::new(group)?;
    let mut names = [name.as_ptr()];
    let operation = Operation::RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS;
    let request = Request { operation, broker: None, authorized: true, timeout };
    let event = ask(client, request, |client, options, queue| {
        // SAFETY: all are alive; the request copies what it needs of them.
        unsafe {
            bindings::rd_kafka_DescribeConsumerGroups(
                client,
                names.as_mut_ptr(),
                names.len(),
                options,
                queue,
            );
        }
    })?;
    answer(&event)
}

fn answer(event: &Event) -> Result<GroupAnswer, KafkaError> {
    // SAFETY: the event is alive for the whole function, and with it all that is taken from it; for another kind of
    // event the answer is null.
    let result = unsafe { bindings::rd_kafka_event_DescribeConsumerGroups_result(event.pointer) };
    let mut count = 0;
    // SAFETY: as above.
    let groups = (!result.is_null())
        .then(|| unsafe { bindings::rd_kafka_DescribeConsumerGroups_result_groups(result, &raw mut count) });
    let groups = list(groups.unwrap_or_default().cast_const(), count);
    let group = *groups.first().ok_or(KafkaError::Global(Code::BadMessage))?;
    // SAFETY: as above.
    error_of(unsafe { bindings::rd_kafka_ConsumerGroupDescription_error(group) })?;
    let mut count = 0;
    // SAFETY: as above.
    let operations =
        unsafe { bindings::rd_kafka_ConsumerGroupDescription_authorized_operations(group, &raw mut count) };
    // SAFETY: as above.
    let members = unsafe { bindings::rd_kafka_ConsumerGroupDescription_member_count(group) };
    // SAFETY: as above; every index is below the count.
    let at = |index| unsafe { bindings::rd_kafka_ConsumerGroupDescription_member(group, index) };
    Ok(GroupAnswer {
        // SAFETY: as above.
        state: unsafe { bindings::rd_kafka_ConsumerGroupDescription_state(group) },
        members: (0..members).map(at).map(member).collect(),
        operations: told(operations, count),
    })
}

fn member(member: *const bindings::rd_kafka_MemberDescription_t) -> MemberAnswer {
    // SAFETY: the member belongs to an event that is alive, and so does all that is taken from it.
    let (client, host, assignment) = unsafe {
        (
            bindings::rd_kafka_MemberDescription_client_id(member),
            bindings::rd_kafka_MemberDescription_host(member),
            bindings::rd_kafka_MemberDescription_assignment(member),
        )
    };
    let (client, host) = (text(client).unwrap_or_default(), text(host).unwrap_or_default());
    let mut assigned = Vec::new();
    if !assignment.is_null() {
        // SAFETY: as above.
        let partitions = unsafe { bindings::rd_kafka_MemberAssignment_partitions(assignment) };
        // SAFETY: as above; a list that is not null says how many elements it has.
        let elements = (!partitions.is_null()).then(|| unsafe { ((*partitions).elems, (*partitions).cnt) });
        let (first, count) = elements.unwrap_or((std::ptr::null_mut(), 0));
        for element in list(first.cast_const(), usize::try_from(count).unwrap_or(0)) {
            assigned.push((text(element.topic).unwrap_or_default(), element.partition));
        }
    }
    MemberAnswer { client, host, assigned }
}
