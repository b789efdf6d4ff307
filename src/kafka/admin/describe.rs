//! Describing the cluster, the group, and what this client's user may do. It asks and decides nothing.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use rdkafka::{bindings::rd_kafka_AclOperation_t as Acl, error::KafkaError};
use tokio::task::spawn_blocking;

use super::{Admin, AdminError, client::Served};
use crate::{
    kafka::error::coordinator_moves,
    kafka::ffi::{MemberAnswer, describe_cluster, describe_group, topic_operations},
    model::Bucket,
};

/// How long to wait before a coordinator is looked for again.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// A cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterInfo {
    /// Its id, where it tells one.
    pub id: Option<String>,
    /// The brokers that are up, by their numbers.
    pub brokers: Vec<i32>,
}

/// What Kafka lets a user do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Read records.
    Read,
    /// Write records.
    Write,
    /// Create the topic.
    Create,
    /// See that it is there.
    Describe,
    /// See how it is set.
    DescribeConfigs,
}

impl Operation {
    /// As Kafka's own tools write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "Read",
            Self::Write => "Write",
            Self::Create => "Create",
            Self::Describe => "Describe",
            Self::DescribeConfigs => "DescribeConfigs",
        }
    }
}

/// What a user may do with one thing. Kafka answers with all that holds, also what follows from other permissions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Operations(Vec<Operation>);

impl Operations {
    /// Whether this is among them.
    #[must_use]
    pub fn has(&self, operation: Operation) -> bool {
        self.0.contains(&operation)
    }

    fn of(found: &[Acl]) -> Self {
        let one = |acl: &Acl| match acl {
            Acl::RD_KAFKA_ACL_OPERATION_READ => Some(Operation::Read),
            Acl::RD_KAFKA_ACL_OPERATION_WRITE => Some(Operation::Write),
            Acl::RD_KAFKA_ACL_OPERATION_CREATE => Some(Operation::Create),
            Acl::RD_KAFKA_ACL_OPERATION_DESCRIBE => Some(Operation::Describe),
            Acl::RD_KAFKA_ACL_OPERATION_DESCRIBE_CONFIGS => Some(Operation::DescribeConfigs),
            _ => None,
        };
        Self(found.iter().filter_map(one).collect())
    }
}

impl FromIterator<Operation> for Operations {
    fn from_iter<I: IntoIterator<Item = Operation>>(operations: I) -> Self {
        Self(operations.into_iter().collect())
    }
}

/// What a consumer group is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GroupState {
    /// Nobody is in it, or it does not exist.
    Empty,
    /// Members are joining, or being told what is theirs.
    Rebalancing,
    /// Every member knows what is its own.
    Stable,
    /// Kafka says something else.
    Unknown,
}

/// A consumer group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupInfo {
    /// What it is doing.
    pub state: GroupState,
    /// Who is in it.
    pub members: Vec<Member>,
}

/// A member of a consumer group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its client's name for itself (`client.id`).
    pub client: String,
    /// Where it is, as the broker sees it.
    pub host: String,
    /// The buckets that are assigned to it, in order.
    pub buckets: Vec<Bucket>,
}

impl GroupInfo {
    /// Who has each bucket, as far as anybody has.
    #[must_use]
    pub fn assignments(&self) -> BTreeMap<Bucket, &Member> {
        let pairs =
            self.members.iter().flat_map(|member| member.buckets.iter().map(move |one| (*one, member)));
        pairs.collect()
    }
}

impl Admin {
    /// The cluster's id and brokers.
    ///
    /// # Errors
    /// [`AdminError::Unreachable`], [`AdminError::Unsupported`].
    pub async fn cluster(&self) -> Result<ClusterInfo, AdminError> {
        let timeout = self.timeout;
        let asked = self.asked("describing the cluster".to_owned(), "", move |client| {
            describe_cluster(client.get().inner(), timeout)
        });
        asked.await.map(|answer| ClusterInfo { id: answer.id, brokers: answer.brokers })
    }

    /// What this client's user may do with a topic; `None` where the broker does not tell.
    ///
    /// # Errors
    /// [`AdminError::Missing`], [`AdminError::NotAuthorized`] (to describe the topic),
    /// [`AdminError::Unreachable`], [`AdminError::Unsupported`].
    pub async fn operations(&self, topic: &str) -> Result<Option<Operations>, AdminError> {
        let (timeout, name) = (self.timeout, topic.to_owned());
        let operation = format!("asking what is allowed with topic {topic:?}");
        let asked = self
            .asked(operation, topic, move |client| topic_operations(client.get().inner(), &name, timeout))
            .await?;
        Ok(asked.map(|found| Operations::of(&found)))
    }

    /// A consumer group with its members; `topic` is the one that it shares, by bucket. A group that does not exist, or
    /// that this user may not see, is like an empty one.
    ///
    /// # Errors
    /// [`AdminError::NotAuthorized`] (to describe the group), [`AdminError::Unreachable`],
    /// [`AdminError::Unsupported`].
    pub async fn group(&self, group: &str, topic: &str) -> Result<GroupInfo, AdminError> {
        let (timeout, name, shared) = (self.timeout, group.to_owned(), topic.to_owned());
        let deadline = Instant::now() + timeout;
        let asked = self.asked(format!("describing group {group:?}"), "", move |client| {
            let client = client.get().inner();
            // Brokers that are gone need not be asked.
            client.fetch_metadata(Some(&shared), timeout)?;
            loop {
                let left = deadline.saturating_duration_since(Instant::now()).max(ASK_AGAIN);
                match describe_group(client, &name, left) {
                    // The coordinator moves, or comes into being with the first group of a cluster.
                    Err(error) if coordinator_moves(&error) && Instant::now() < deadline => {
                        std::thread::sleep(ASK_AGAIN);
                    }
                    answer => return answer,
                }
            }
        });
        let Some(answer) = asked.await? else {
            return Ok(GroupInfo { state: GroupState::Empty, members: Vec::new() });
        };
        Ok(GroupInfo {
            state: match answer.state.as_str() {
                "Stable" => GroupState::Stable,
                "PreparingRebalance" | "CompletingRebalance" | "AwaitingSync" => GroupState::Rebalancing,
                "Empty" | "Dead" => GroupState::Empty,
                _ => GroupState::Unknown,
            },
            members: answer.members.into_iter().map(|found| member(found, topic)).collect(),
        })
    }

    /// Asks on a thread that may block.
    async fn asked<T: Send + 'static>(
        &self,
        operation: String,
        topic: &str,
        ask: impl FnOnce(&Served) -> Result<T, KafkaError> + Send + 'static,
    ) -> Result<T, AdminError> {
        self.supported(&operation)?;
        let client = Arc::clone(&self.client);
        let answer = spawn_blocking(move || ask(&client)).await.unwrap_or(Err(KafkaError::Canceled));
        answer.map_err(|error| self.sorted(operation, topic, error))
    }
}

fn member(found: MemberAnswer, topic: &str) -> Member {
    Member {
        client: found.client,
        host: found.host,
        buckets: assigned(&found.assignment, topic).unwrap_or_default(),
    }
}

/// The buckets of `topic` in an assignment, in order; `None` where the bytes are none. Source of the format: Kafka's
/// `ConsumerProtocolAssignment`, whose first two members every version has.
fn assigned(bytes: &[u8], topic: &str) -> Option<Vec<Bucket>> {
    let mut rest = bytes;
    let _version = take::<2>(&mut rest)?;
    let topics = number(&mut rest)?;
    let mut buckets = Vec::new();
    for _ in 0..topics {
        let length = usize::try_from(i16::from_be_bytes(take(&mut rest)?)).ok()?;
        let (name, behind) = rest.split_at_checked(length)?;
        rest = behind;
        for _ in 0..number(&mut rest)? {
            let partition = i32::from_be_bytes(take(&mut rest)?);
            if name == topic.as_bytes() {
                buckets.extend(Bucket::from_partition(partition));
            }
        }
    }
    buckets.sort_unstable();
    Some(buckets)
}

fn number(rest: &mut &[u8]) -> Option<i32> {
    take(rest).map(i32::from_be_bytes)
}

fn take<const SIZE: usize>(rest: &mut &[u8]) -> Option<[u8; SIZE]> {
    let (taken, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Version 1; topic "a": 2 and 0; topic "bc": 1; no user data.
    const ASSIGNMENT: &[u8] =
        b"\0\x01\0\0\0\x02\0\x01a\0\0\0\x02\0\0\0\x02\0\0\0\0\0\x02bc\0\0\0\x01\0\0\0\x01\xff\xff\xff\xff";

    #[test]
    fn an_assignment_tells_the_buckets_of_a_topic() {
        let of = |topic| {
            assigned(ASSIGNMENT, topic).map(|found| found.iter().map(|one| one.get()).collect::<Vec<_>>())
        };
        assert_eq!(of("a"), Some(vec![0, 2]));
        assert_eq!(of("bc"), Some(vec![1]));
        assert_eq!(of("b"), Some(vec![]));
    }

    #[test]
    fn an_assignment_that_is_cut_off_is_none() {
        for length in 0..ASSIGNMENT.len() - 4 {
            assert_eq!(assigned(&ASSIGNMENT[..length], "a"), None, "{length}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            drop(assigned(&bytes, "a"));
        }
    }
}
