//! How things stand, as text: the board of a terminal, and one line for elsewhere.

use std::time::Instant;

use super::{
    load::DISPATCHERS,
    show::Show,
    standing::{BucketState, Controller, State},
    view::{count, seconds},
};

impl Show {
    /// The board: buckets, controllers, and the sums.
    pub(super) fn board(&self) -> Vec<String> {
        let mut lines = vec![String::new()];
        lines.push(format!(
            "  {:<20}{:<22}{:>8}{:>12}{:>10}",
            "bucket", "owner", "epoch", "received", "waiting"
        ));
        for (number, bucket) in self.standing.buckets.iter().enumerate() {
            let (owner, epoch) = self.owner(bucket);
            let name = format!("{number}  {}", short(bucket.resource));
            let (received, waiting) = (count(bucket.received), count(bucket.waiting()));
            lines.push(format!("  {name:<20}{owner:<22}{epoch:>8}{received:>12}{waiting:>10}"));
        }
        lines.push(String::new());
        lines.extend(self.received());
        let (sent, accepted, handled) = self.standing.totals();
        lines.push(String::new());
        lines.push(format!(
            "  records sent {}    in Kafka {}    received {}",
            count(sent),
            count(accepted),
            count(handled)
        ));
        lines
    }

    /// What each controller received from each dispatcher.
    pub(super) fn received(&self) -> Vec<String> {
        let names = DISPATCHERS.map(|(name, ..)| format!("{name:>13}")).concat();
        let mut lines =
            vec![format!("  {:<20}{:<11}{:<11}{:>8}{names}", "controller", "state", "owns", "received")];
        for controller in &self.standing.controllers {
            let from = |name| count(controller.received.get(name).copied().unwrap_or(0));
            let from = DISPATCHERS.map(|(name, ..)| format!("{:>13}", from(name))).concat();
            let (name, state) = (self.crew.name(controller.id), state(controller.state));
            let (owns, total) = (self.owns(controller), count(controller.total()));
            lines.push(format!("  {name:<20}{state:<11}{owns:<11}{total:>8}{from}"));
        }
        lines
    }

    /// One line for where there is no board.
    pub(super) fn summary(&self) -> String {
        let (sent, _, handled) = self.standing.totals();
        let buckets = self.standing.buckets.iter().enumerate().map(|(number, bucket)| {
            let (owner, _) = self.owner(bucket);
            format!("; bucket {number}: {owner}, {} waiting", count(bucket.waiting()))
        });
        let buckets: String = buckets.collect();
        format!("sent {}, received {}{buckets}", count(sent), count(handled))
    }

    fn owner(&self, bucket: &BucketState) -> (String, String) {
        match bucket.owner {
            Some((id, epoch)) => (self.crew.name(id).to_owned(), epoch.to_string()),
            None => {
                let time = Instant::now().saturating_duration_since(bucket.since);
                (format!("nobody for {}", seconds(time)), "-".to_owned())
            }
        }
    }

    fn owns(&self, controller: &Controller) -> String {
        let buckets: Vec<String> =
            self.standing.owned(controller.id).map(|bucket| format!("bucket {bucket}")).collect();
        match buckets.as_slice() {
            [] => "-".to_owned(),
            [one] => one.clone(),
            _ => "both".to_owned(),
        }
    }
}

/// A resource without its namespace, which is always the same.
pub(super) fn short(resource: &str) -> &str {
    resource.split_once('/').map_or(resource, |(_, name)| name)
}

fn state(state: State) -> &'static str {
    match state {
        State::Running => "running",
        State::Stopping => "stopping",
        State::Stopped => "stopped",
        State::Killed => "killed",
    }
}
