//! Which dead letters are meant.

use clap::{ArgGroup, Args};

use crate::{
    cli::Error,
    model::{Attribute, Bucket, Buckets, NextOffset, Record, RecordOffset},
};

/// The arguments that say which dead letters to replay.
#[derive(Debug, Clone, Default, Args)]
#[command(group = ArgGroup::new("which").required(true).args(["offset", "all", "id"]))]
pub struct ReplayArgs {
    /// The bucket of the letter; with --all, only this bucket.
    #[arg(long, value_name = "BUCKET", required_unless_present_any = ["all", "id"])]
    pub bucket: Option<u16>,
    /// The letter's own offset, as listed.
    #[arg(long, value_name = "OFFSET", requires = "bucket")]
    pub offset: Option<i64>,
    /// Every letter there is, also those that were replayed before.
    #[arg(long)]
    pub all: bool,
    /// Every letter with this id.
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
}

/// Which dead letters are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// The one at this place.
    At(Bucket, RecordOffset),
    /// Those with this id, in one bucket or in any.
    Id(String, Option<Bucket>),
    /// All, of one bucket or of all of them.
    All(Option<Bucket>),
}

impl ReplayArgs {
    /// The letters that the arguments mean.
    ///
    /// # Errors
    /// [`Error::NoBucket`], [`Error::NoOffset`].
    pub fn selection(&self, buckets: Buckets) -> Result<Selection, Error> {
        let bucket = self.bucket.map(|number| bucket_of(number, buckets)).transpose()?;
        match (bucket, self.offset, &self.id) {
            (Some(bucket), Some(offset), _) => {
                let offset = RecordOffset::new(offset).ok_or(Error::NoOffset { found: offset })?;
                Ok(Selection::At(bucket, offset))
            }
            (bucket, _, Some(id)) => Ok(Selection::Id(id.clone(), bucket)),
            (bucket, ..) => Ok(Selection::All(bucket)),
        }
    }
}

impl Selection {
    /// The buckets to look into.
    pub(super) fn buckets(&self, buckets: Buckets) -> Vec<Bucket> {
        match self {
            Self::At(bucket, _) | Self::Id(_, Some(bucket)) | Self::All(Some(bucket)) => vec![*bucket],
            Self::Id(_, None) | Self::All(None) => buckets.iter().collect(),
        }
    }

    /// What of a log from `start` to `end` to read.
    pub(super) fn range(&self, start: NextOffset, end: NextOffset) -> (NextOffset, NextOffset) {
        match self {
            Self::At(_, offset) => (offset.position().max(start), offset.next().min(end)),
            _ => (start, end),
        }
    }

    /// Whether a record of these buckets and that range is meant.
    pub(super) fn takes(&self, record: &Record) -> bool {
        match self {
            Self::Id(id, _) => record.attribute(Attribute::Id) == Some(id.as_bytes()),
            _ => true,
        }
    }

    /// How to name it when there is nothing; `None` where nothing is a good answer.
    pub(super) fn wanted(&self) -> Option<String> {
        match self {
            Self::At(bucket, offset) => Some(format!("at offset {offset} of bucket {bucket}")),
            Self::Id(id, _) => Some(format!("with id {id:?}")),
            Self::All(_) => None,
        }
    }
}

/// The bucket with this number.
pub(in crate::cli) fn bucket_of(number: u16, buckets: Buckets) -> Result<Bucket, Error> {
    buckets.get(number).ok_or(Error::NoBucket { found: number, buckets: buckets.count() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_or_offset_that_cannot_be_is_refused() {
        let buckets = Buckets::new(3).unwrap();
        let at = |bucket, offset| ReplayArgs {
            bucket: Some(bucket),
            offset: Some(offset),
            ..ReplayArgs::default()
        };
        assert!(matches!(at(3, 0).selection(buckets), Err(Error::NoBucket { found: 3, buckets: 3 })));
        assert!(matches!(at(2, -1).selection(buckets), Err(Error::NoOffset { found: -1 })));
        let Ok(Selection::At(bucket, offset)) = at(2, 7).selection(buckets) else { panic!("it was refused") };
        assert_eq!((bucket.get(), offset.get()), (2, 7));
    }

    #[test]
    fn one_letter_is_read_alone() {
        let at = |offset| NextOffset::new(offset).unwrap();
        let bucket = Bucket::from_partition(0).unwrap();
        let range = |offset| Selection::At(bucket, RecordOffset::new(offset).unwrap()).range(at(5), at(9));
        assert_eq!(range(7), (at(7), at(8)));
        let (from, to) = range(9);
        assert!(from >= to, "there is nothing beyond the end");
        let (from, to) = range(4);
        assert!(from >= to, "there is nothing before the start");
    }
}
