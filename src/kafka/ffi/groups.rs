//! A consumer group with its members, by librdkafka's older call for that: `rd_kafka_DescribeConsumerGroups` aborts the
//! process when its time-out passes while the coordinator is away, and that comes back (librdkafka#4605, open). The
//! older one knows classic groups only, which ours are, and does not tell permissions.

use std::{
    ffi::{CString, c_int, c_void},
    ptr,
    time::Duration,
};

use rdkafka::{
    ClientContext,
    bindings::{self, rd_kafka_resp_err_t as Response},
    client::Client,
    error::KafkaError,
};

use super::request::{checked, list, milliseconds, text};

/// A group as its coordinator describes it.
pub(in crate::kafka) struct GroupAnswer {
    /// What it is doing, in Kafka's words.
    pub(in crate::kafka) state: String,
    /// Its members.
    pub(in crate::kafka) members: Vec<MemberAnswer>,
}

/// A member of a group.
pub(in crate::kafka) struct MemberAnswer {
    /// Its client's name for itself.
    pub(in crate::kafka) client: String,
    /// Where it is, as the broker sees it.
    pub(in crate::kafka) host: String,
    /// What is assigned to it, as the group's protocol writes it.
    pub(in crate::kafka) assignment: Vec<u8>,
}

/// Asks all brokers for a group, and its coordinator about it; `None` where there is none, or where this user may not
/// see it. Blocks for up to `timeout`, and for all of it where a broker is away.
///
/// # Errors
/// `KafkaError::Global` with the code of the request's error, or else of the group's own.
pub(in crate::kafka) fn describe_group<C: ClientContext>(
    client: &Client<C>,
    group: &str,
    timeout: Duration,
) -> Result<Option<GroupAnswer>, KafkaError> {
    let name = CString::new(group)?;
    let mut found: *const bindings::rd_kafka_group_list = ptr::null();
    // SAFETY: the client and the name are alive; the list is ours to give back where there is one.
    let code = unsafe {
        bindings::rd_kafka_list_groups(
            client.native_ptr(),
            name.as_ptr(),
            &raw mut found,
            milliseconds(timeout),
        )
    };
    // A broker that did not answer may be any but the coordinator, or the list would be empty.
    if code != Response::RD_KAFKA_RESP_ERR__PARTIAL {
        checked(code)?;
    }
    let found = Found(found);
    let Some(group) = found.groups().first() else { return Ok(None) };
    checked(group.err)?;
    let members = list(group.members.cast_const(), size(group.member_cnt));
    Ok(Some(GroupAnswer {
        state: text(group.state).unwrap_or_default(),
        members: members.iter().map(member).collect(),
    }))
}

fn member(member: &bindings::rd_kafka_group_member_info) -> MemberAnswer {
    let assignment: *const c_void = member.member_assignment;
    MemberAnswer {
        client: text(member.client_id).unwrap_or_default(),
        host: text(member.client_host).unwrap_or_default(),
        assignment: list(assignment.cast::<u8>(), size(member.member_assignment_size)).to_vec(),
    }
}

fn size(count: c_int) -> usize {
    usize::try_from(count).unwrap_or(0)
}

/// A list of groups, given back at the drop.
struct Found(*const bindings::rd_kafka_group_list);

impl Found {
    fn groups(&self) -> &[bindings::rd_kafka_group_info] {
        if self.0.is_null() {
            return &[];
        }
        // SAFETY: the list is ours until the drop, and says how many groups it has.
        let (first, count) = unsafe { ((*self.0).groups, (*self.0).group_cnt) };
        list(first.cast_const(), size(count))
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the list is ours, and is not used again.
            unsafe { bindings::rd_kafka_group_list_destroy(self.0) };
        }
    }
}
