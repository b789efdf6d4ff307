//! `topics ensure` and `topics verify`.

use serde::Serialize;

use super::{Error, Row, Target};
use crate::topics::{self, Config, Verified, Warning};

/// One topic that is right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Checked {
    pub(super) topic: String,
    pub(super) partitions: u32,
    /// `created` by this call, or `there` before.
    pub(super) state: &'static str,
    /// What differs from the design without breaking a promise.
    pub(super) warnings: Vec<String>,
}

impl Row for Checked {
    const COLUMNS: &'static [&'static str] = &["topic", "partitions", "state", "warnings"];

    fn cells(&self) -> Vec<String> {
        let warnings = self.warnings.join("; ");
        vec![self.topic.clone(), self.partitions.to_string(), self.state.to_owned(), warnings]
    }
}

/// Verifies the topics, and first creates those that are missing if `create`.
pub(super) async fn checked(target: &Target, create: bool) -> Result<Vec<Checked>, Error> {
    let config = Config {
        bus: target.bus.clone(),
        buckets: target.buckets,
        slots: target.slots,
        create,
        replication_factor: target.replication_factor,
    };
    let Verified { created, warnings, .. } = topics::ensure(&config, &target.kafka, target.timeout).await?;
    let rows = topics::expected(&config).into_iter().map(|spec| Checked {
        state: if created.contains(&spec.name) { "created" } else { "there" },
        warnings: warnings.iter().filter(|warning| warning.topic == spec.name).map(said).collect(),
        partitions: spec.partitions,
        topic: spec.name,
    });
    Ok(rows.collect())
}

fn said(warning: &Warning) -> String {
    let Warning { what, found, expected, effect, .. } = warning;
    format!("{what} is {found}, expected {expected}: {effect}")
}
