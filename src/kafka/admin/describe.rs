//! Describing the cluster, the group, and what this client's user may do. It asks and decides nothing.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use rdkafka::{
    bindings::{rd_kafka_AclOperation_t as Acl, rd_kafka_consumer_group_state_t as State},
    error::{KafkaError, RDKafkaErrorCode as Code},
};
use tokio::task::spawn_blocking;

use super::{Admin, AdminError, client::Served};
use crate::{
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
    /// Read records, or a group's offsets.
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
    /// What this client's user may do with it; `None` where the broker does not tell.
    pub operations: Option<Operations>,
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

    /// A consumer group with its members; `topic` is the one that it shares, by bucket. A group that does not exist
    /// is like an empty one.
    ///
    /// # Errors
    /// [`AdminError::NotAuthorized`] (to describe the group), [`AdminError::Unreachable`],
    /// [`AdminError::Unsupported`].
    pub async fn group(&self, group: &str, topic: &str) -> Result<GroupInfo, AdminError> {
        let (timeout, name) = (self.timeout, group.to_owned());
        let deadline = Instant::now() + timeout;
        let asked = self.asked(format!("describing group {group:?}"), "", move |client| {
            loop {
                let left = deadline.saturating_duration_since(Instant::now()).max(ASK_AGAIN);
                match describe_group(client.get().inner(), &name, left) {
                    Err(KafkaError::Global(Code::GroupIdNotFound)) => return Ok(None),
                    // The coordinator moves, or comes into being with the first group of a cluster.
                    Err(KafkaError::Global(code)) if moves(code) && Instant::now() < deadline => {
                        std::thread::sleep(ASK_AGAIN);
                    }
                    answer => return answer.map(Some),
                }
            }
        });
        let Some(answer) = asked.await? else {
            return Ok(GroupInfo { state: GroupState::Empty, members: Vec::new(), operations: None });
        };
        Ok(GroupInfo {
            state: match answer.state {
                State::RD_KAFKA_CONSUMER_GROUP_STATE_STABLE => GroupState::Stable,
                State::RD_KAFKA_CONSUMER_GROUP_STATE_PREPARING_REBALANCE
                | State::RD_KAFKA_CONSUMER_GROUP_STATE_COMPLETING_REBALANCE => GroupState::Rebalancing,
                State::RD_KAFKA_CONSUMER_GROUP_STATE_EMPTY | State::RD_KAFKA_CONSUMER_GROUP_STATE_DEAD => {
                    GroupState::Empty
                }
                _ => GroupState::Unknown,
            },
            members: answer.members.into_iter().map(|found| member(found, topic)).collect(),
            operations: answer.operations.map(|found| Operations::of(&found)),
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

/// Whether asking again finds the coordinator.
fn moves(code: Code) -> bool {
    matches!(code, Code::NotCoordinator | Code::CoordinatorNotAvailable | Code::CoordinatorLoadInProgress)
}

fn member(found: MemberAnswer, topic: &str) -> Member {
    let ours = found.assigned.iter().filter(|(name, _)| name == topic);
    let mut buckets: Vec<_> = ours.filter_map(|(_, partition)| Bucket::from_partition(*partition)).collect();
    buckets.sort_unstable();
    Member { client: found.client, host: found.host, buckets }
}
