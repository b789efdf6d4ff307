//! `dead-letters replay`.
//!
//! Per bucket: the letters are read once to learn which states are among them, then the notifications after those,
//! to learn which are superseded, then the letters again, in small parts, to publish them one after another in
//! their order. So memory is bounded by a part and the states' keys. What is published between the reading and
//! the replay by others is not seen: a state that changes within that second can be set back once.

use std::{future::Future, sync::Arc};

use serde::Serialize;
use tokio::task::spawn_blocking;
use uuid::Uuid;

use super::{Selection, draft::Drafting, newest::Newest};
use crate::{
    cli::{Error, Row, Target, Tone, output::cell},
    kafka::{self, Isolation, LogReader},
    model::{Attribute, Bucket, ErrorKind, NextOffset, Outgoing, Record, RecordOffset},
    topics,
};

/// How many offsets of a bucket's letters are held at a time.
const PART: u64 = 100;

/// Writes records, for good.
pub trait Append {
    /// Writes a record to its bucket's partition of `topic`, and returns its offset once every in-sync replica
    /// has it.
    fn append(
        &self,
        topic: &str,
        outgoing: Outgoing,
    ) -> impl Future<Output = Result<RecordOffset, kafka::Error>> + Send;
}

/// What became of one letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It was published again.
    Replayed,
    /// It is a state, and the bus has something newer under its key: nothing was published.
    Superseded,
    /// It cannot be replayed.
    Refused,
    /// Kafka did not take it.
    Failed,
}

/// What became of one letter, and which.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The bucket.
    pub bucket: u16,
    /// The letter's own offset.
    pub offset: i64,
    /// Its id.
    pub id: Option<String>,
    /// What became of it.
    pub outcome: Outcome,
    /// The id that it was published under.
    pub new_id: Option<String>,
    /// The offset in the notifications' topic: of the replay, or of what supersedes it.
    pub new_offset: Option<i64>,
    /// Why not.
    pub detail: Option<String>,
}

impl Answer {
    /// Whether nothing is left to do about the letter.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self.outcome, Outcome::Replayed | Outcome::Superseded)
    }
}

impl Row for Answer {
    const COLUMNS: &'static [&'static str] =
        &["bucket", "offset", "id", "outcome", "new id", "new offset", "detail"];

    fn cells(&self) -> Vec<String> {
        let outcome = match self.outcome {
            Outcome::Replayed => "replayed",
            Outcome::Superseded => "superseded",
            Outcome::Refused => "refused",
            Outcome::Failed => "failed",
        };
        vec![
            self.bucket.to_string(),
            self.offset.to_string(),
            cell(self.id.as_deref()),
            outcome.to_owned(),
            cell(self.new_id.as_deref()),
            cell(self.new_offset),
            cell(self.detail.as_deref()),
        ]
    }

    fn tone(&self) -> Option<(usize, Tone)> {
        const OUTCOME: usize = 3;
        (!self.is_settled()).then_some((OUTCOME, Tone::Bad))
    }
}

/// Publishes dead letters again, each under a new id; what became of each is added to `answers`, also before an
/// error.
///
/// A letter that Kafka refuses for itself (it is too large) is answered and passed. Dropping the future leaves what
/// was published until then; the letter at that moment may be published or not.
///
/// # Errors
/// [`Error::NoLetter`] where none is the one that was asked for; where a topic is missing or has another number
/// of partitions, and where Kafka does not answer.
pub async fn replay<A: Append>(
    target: &Target,
    selection: &Selection,
    append: &A,
    answers: &mut Vec<Answer>,
) -> Result<(), Error> {
    let replaying = Replaying::new(target, selection).await?;
    let before = answers.len();
    for bucket in selection.buckets(target.buckets) {
        replaying.bucket(bucket, append, answers).await?;
    }
    match selection.wanted() {
        Some(what) if answers.len() == before => {
            Err(Error::NoLetter { what, topic: target.bus.dead_letters() })
        }
        _ => Ok(()),
    }
}

/// What replaying needs, shared with the threads that read.
#[derive(Clone)]
struct Replaying {
    shared: Arc<Shared>,
}

struct Shared {
    target: Target,
    selection: Selection,
    drafting: Drafting,
    reader: LogReader,
}

impl Replaying {
    async fn new(target: &Target, selection: &Selection) -> Result<Self, Error> {
        let Target { kafka, bus, buckets, name, timeout, .. } = target;
        let needed = [bus.dead_letters(), bus.notifications()];
        topics::check_buckets(&needed, *buckets, kafka, *timeout).await?;
        let shared = Shared {
            reader: LogReader::new(kafka, Isolation::ReadCommitted, None)?,
            drafting: Drafting {
                notifications: bus.notifications(),
                buckets: *buckets,
                fallback: name.clone(),
            },
            target: target.clone(),
            selection: selection.clone(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    async fn bucket<A: Append>(
        &self,
        bucket: Bucket,
        append: &A,
        answers: &mut Vec<Answer>,
    ) -> Result<(), Error> {
        let (mut from, to, newest) = self.blocking(move |shared| shared.look(bucket)).await?;
        while from < to {
            let part = from.advanced(PART).min(to);
            for record in self.blocking(move |shared| shared.letters(bucket, from, part)).await? {
                let (answer, error) = self.one(record, &newest, append).await;
                answers.push(answer);
                if let Some(error) = error {
                    return Err(error.into());
                }
            }
            from = part;
        }
        Ok(())
    }

    /// Replays one letter. The error is one that all others would meet as well.
    async fn one<A: Append>(
        &self,
        record: Record,
        newest: &Newest,
        append: &A,
    ) -> (Answer, Option<kafka::Error>) {
        let mut answer = Answer {
            bucket: record.bucket().get(),
            offset: record.offset().get(),
            id: record.text(Attribute::Id).map(str::to_owned),
            outcome: Outcome::Refused,
            new_id: None,
            new_offset: None,
            detail: None,
        };
        let Shared { drafting, .. } = &*self.shared;
        let draft = match drafting.draft(record, &Uuid::now_v7().to_string(), &now()) {
            Ok(draft) => draft,
            Err(why) => return (Answer { detail: Some(why.to_string()), ..answer }, None),
        };
        if let Some(newer) = newest.than(&draft) {
            answer.outcome = Outcome::Superseded;
            answer.new_offset = Some(newer.get());
            answer.detail = Some("the bus has something newer under its key".to_owned());
            return (answer, None);
        }
        match append.append(&drafting.notifications, draft.outgoing).await {
            Ok(offset) => {
                answer.outcome = Outcome::Replayed;
                (answer.new_id, answer.new_offset) = (Some(draft.id), Some(offset.get()));
                (answer, None)
            }
            Err(error) => {
                answer.outcome = Outcome::Failed;
                answer.detail = Some(format!("{error}: {}", error.code()));
                let all = error.kind() != ErrorKind::Invalid || error.is_authorization();
                (answer, all.then_some(error))
            }
        }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let shared = Arc::clone(&self.shared);
        spawn_blocking(move || work(&shared)).await.map_err(|_| Error::Interrupted)?
    }
}

impl Shared {
    /// The range of a bucket's letters, and what is newer than the states among them. Blocks.
    fn look(&self, bucket: Bucket) -> Result<(NextOffset, NextOffset, Newest), Error> {
        let timeout = self.target.timeout;
        let topic = self.target.bus.dead_letters();
        let (start, end) = self.reader.bounds(&topic, bucket, timeout)?;
        let (from, to) = self.selection.range(start, end);
        let (mut newest, now) = (Newest::default(), now());
        self.reader.read((&topic, bucket), (from, to), timeout, |record| {
            if self.selection.takes(&record)
                && let Ok(draft) = self.drafting.draft(record, "-", &now)
            {
                newest.ask(&draft);
            }
        })?;
        if let Some(after) = newest.from() {
            let topic = &self.drafting.notifications;
            let (start, end) = self.reader.bounds(topic, bucket, timeout)?;
            let range = (after.max(start), end);
            self.reader.read((topic, bucket), range, timeout, |record| newest.note(&record))?;
        }
        Ok((from, to, newest))
    }

    /// The letters that are meant in a part of a bucket. Blocks.
    fn letters(&self, bucket: Bucket, from: NextOffset, to: NextOffset) -> Result<Vec<Record>, Error> {
        let (mut found, topic) = (Vec::new(), self.target.bus.dead_letters());
        self.reader.read((&topic, bucket), (from, to), self.target.timeout, |record| {
            if self.selection.takes(&record) {
                found.push(record);
            }
        })?;
        Ok(found)
    }
}

/// The time by this machine's clock, RFC 3339.
fn now() -> String {
    jiff::Timestamp::now().to_string()
}
