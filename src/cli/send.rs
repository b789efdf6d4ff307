//! `send`: one message, as the pod that the configuration names.

use std::{
    io::{self, Read},
    path::PathBuf,
    sync::Arc,
};

use clap::{Args, ValueEnum};
use serde::Serialize;
use tokio::task::spawn_blocking;

use super::{Error, Row, Target};
use crate::{
    config::Settings,
    model::{Kind, Message, ResourceKey},
    publisher::{Publisher, Receipt},
    telemetry::Metrics,
    topics,
};

/// Where standard input is meant.
const STDIN: &str = "-";

/// The message.
#[derive(Debug, Clone, Args)]
pub struct SendArgs {
    /// What it is about: namespace/name; decides the bucket.
    #[arg(value_name = "RESOURCE")]
    pub resource: ResourceKey,
    /// CloudEvents' type.
    #[arg(value_name = "TYPE")]
    pub ty: String,
    /// `event`: every one is delivered; `state`: the latest wins.
    #[arg(long, value_enum, value_name = "KIND", default_value = "event")]
    pub kind: KindArg,
    /// The data itself. Without data of either kind the message is empty.
    #[arg(long, value_name = "DATA", conflicts_with = "file", allow_hyphen_values = true)]
    pub data: Option<String>,
    /// A file with the data; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The data's media type; without it `application/json` for data that is JSON, and none for other data.
    #[arg(long, value_name = "TYPE")]
    pub content_type: Option<String>,
    /// CloudEvents' id; without it a new one.
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// CloudEvents' source; without it the pod's name.
    #[arg(long, value_name = "SOURCE")]
    pub source: Option<String>,
    /// One record in every bucket instead of one in the resource's own.
    #[arg(long)]
    pub all_buckets: bool,
}

/// State or event, as it is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub enum KindArg {
    /// Every one is delivered.
    Event,
    /// The latest wins.
    State,
}

/// Where a message is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Sent {
    /// Its id.
    pub(super) id: String,
    /// The resource.
    pub(super) resource: String,
    /// The bucket.
    pub(super) bucket: u16,
    /// The record's offset there.
    pub(super) offset: i64,
}

impl Row for Sent {
    const COLUMNS: &'static [&'static str] = &["id", "resource", "bucket", "offset"];

    fn cells(&self) -> Vec<String> {
        vec![self.id.clone(), self.resource.clone(), self.bucket.to_string(), self.offset.to_string()]
    }
}

impl SendArgs {
    /// The message; `data` is what was read.
    fn message(&self, data: Vec<u8>) -> Result<Message, Error> {
        let kind = match self.kind {
            KindArg::Event => Kind::Event,
            KindArg::State => Kind::State,
        };
        let json =
            || serde_json::from_slice::<serde::de::IgnoredAny>(&data).is_ok().then_some("application/json");
        let content_type = self.content_type.as_deref().or_else(json).map(str::to_owned);
        let mut message =
            Message::new(self.resource.clone(), kind, &self.ty, data).map_err(Error::Message)?;
        if let Some(content_type) = content_type {
            message = message.with_content_type(content_type).map_err(Error::Message)?;
        }
        if let Some(id) = &self.id {
            message = message.with_id(id).map_err(Error::Message)?;
        }
        if let Some(source) = &self.source {
            message = message.with_source(source).map_err(Error::Message)?;
        }
        Ok(message)
    }

    /// The data, but not much more than `limit` bytes: more would be refused anyway.
    async fn read(&self, limit: usize) -> Result<Vec<u8>, Error> {
        let Some(path) = self.file.clone() else {
            return Ok(self.data.clone().unwrap_or_default().into_bytes());
        };
        let from =
            if path.as_os_str() == STDIN { "standard input".to_owned() } else { path.display().to_string() };
        let read = spawn_blocking(move || {
            if path.as_os_str() == STDIN {
                limited(io::stdin().lock(), limit)
            } else {
                limited(std::fs::File::open(path)?, limit)
            }
        });
        let data = read.await.map_err(|_| Error::Interrupted)?;
        data.map_err(|source| Error::Data { from, source })
    }
}

fn limited(from: impl Read, limit: usize) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    let limit = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    from.take(limit).read_to_end(&mut data)?;
    Ok(data)
}

/// Publishes one message and waits until all in-sync replicas have it: one row, or one for each bucket.
///
/// Dropping the future may leave the message published or not.
///
/// # Errors
/// Wrong arguments, data that cannot be read, topics that are not as they must be, and a message that Kafka does not
/// take.
pub(super) async fn send(settings: &Settings, target: &Target, args: &SendArgs) -> Result<Vec<Sent>, Error> {
    // Wrong arguments need no broker to be found.
    args.message(Vec::new())?;
    let verified = topics::verify(&settings.topics(), &target.kafka, target.timeout).await?;
    let message = args.message(args.read(verified.notification_limit).await?)?;
    let mut config = settings.publisher(verified.notification_limit);
    config.delivery_timeout = target.timeout.max(config.linger * 2).max(std::time::Duration::from_secs(1));
    let metrics = Arc::new(Metrics::new().map_err(|_| Error::Interrupted)?);
    let publisher = Publisher::start(config, &target.kafka, metrics)?;
    let resource = args.resource.to_string();
    let receipts = if args.all_buckets {
        publisher.publish_to_all_buckets(message).await
    } else {
        publisher.publish(message).await.map(|receipt| vec![receipt])
    };
    let receipts = receipts.map_err(|error| Error::Publish(Box::new(error)))?;
    let sent = |Receipt { id, bucket, offset }| Sent {
        id,
        resource: resource.clone(),
        bucket: bucket.get(),
        offset: offset.get(),
    };
    Ok(receipts.into_iter().map(sent).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Buckets, PodName};

    fn args() -> SendArgs {
        SendArgs {
            resource: "default/trigger1".parse().unwrap(),
            ty: "ready".to_owned(),
            kind: KindArg::Event,
            data: None,
            file: None,
            content_type: None,
            id: None,
            source: None,
            all_buckets: false,
        }
    }

    fn header(args: &SendArgs, data: &[u8], name: &str) -> Option<String> {
        let message = args.message(data.to_vec()).unwrap();
        let pod = PodName::new("pod").unwrap();
        let outgoing = message.encode(&pod, Buckets::new(1).unwrap(), "2026-01-01T00:00:00Z");
        let found = outgoing.headers.into_iter().find(|(found, _)| found == name)?;
        Some(String::from_utf8(found.1?.to_vec()).unwrap())
    }

    #[test]
    fn json_is_recognised_unless_something_else_is_said() {
        let named = SendArgs { content_type: Some("text/plain".to_owned()), ..args() };
        assert_eq!(header(&args(), b"{\"a\":1}", "content-type").as_deref(), Some("application/json"));
        assert_eq!(header(&args(), b"hello", "content-type"), None);
        assert_eq!(header(&args(), b"", "content-type"), None);
        assert_eq!(header(&named, b"1", "content-type").as_deref(), Some("text/plain"));
    }

    #[test]
    fn what_is_given_is_what_is_sent() {
        let given = SendArgs {
            kind: KindArg::State,
            id: Some("7".to_owned()),
            source: Some("urn:x".to_owned()),
            ..args()
        };
        let sent =
            ["ce_kind", "ce_id", "ce_source", "ce_type"].map(|name| header(&given, b"", name).unwrap());
        assert_eq!(sent, ["state", "7", "urn:x", "ready"]);
        let wrong = SendArgs { id: Some("a\nb".to_owned()), ..args() }.message(Vec::new()).unwrap_err();
        assert_eq!(wrong.exit_code(), 64);
    }

    #[test]
    fn no_more_is_read_than_could_be_sent() {
        assert_eq!(limited(&[1_u8; 100][..], 10).unwrap().len(), 11);
        assert_eq!(limited(&[1_u8; 5][..], 10).unwrap().len(), 5);
    }
}
