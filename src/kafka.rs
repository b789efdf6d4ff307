//! The only folder that sees rdkafka: client settings, callbacks, record encoding, errors, producer,
//! transactions, readers, administration.
//!
//! Everything here is a thin, blocking or callback-driven face of librdkafka in the words of `model`. It
//! decides nothing: what a failed transaction means for a tenure is `engine`'s.

mod admin;
mod client;
mod embedded;
mod error;
mod ffi;
mod follower;
mod group;
mod offsets;
mod producer;
mod reader;
mod record;
mod settings;
mod transaction;

pub use admin::{
    Admin, AdminError, ClusterInfo, Configs, Created, GroupInfo, GroupState, Layout, Member, Operation,
    Operations, TopicPlan,
};
pub use client::Statistics;
pub use embedded::{EmbeddedBroker, ProduceFault};
pub use error::Error;
pub use follower::{Followed, Follower};
pub use group::{GroupConsumer, GroupMetadata, GroupSettings, Polled, Rebalances};
pub use offsets::{Committed, OffsetReader};
pub use producer::{Completion, Producer, ProducerSettings, Unsent};
pub use reader::{Isolation, LogReader};
pub use settings::{InvalidProperty, Settings};
pub use transaction::{Refusal, Transaction, TransactionError, TransactionalProducer};
