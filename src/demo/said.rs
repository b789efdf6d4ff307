//! What the children's lines say.

use serde::Deserialize;

use super::verdict::{Handled, Line};

/// A controller's line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) line: Line,
    /// The pod that a handled message is from; empty otherwise.
    pub(super) pod: String,
}

/// A dispatcher's answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Kafka has it, in these buckets at these offsets.
    Accepted { id: String, resource: String, places: Vec<(u16, i64)> },
    /// It was not accepted.
    Refused { id: Option<String>, why: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Notice {
    Acquired { bucket: u16, epoch: u64 },
    Released { bucket: u16, epoch: u64, why: String },
}

#[derive(Deserialize)]
struct Message {
    id: String,
    resource: String,
    pod: String,
    bucket: u16,
    offset: i64,
    epoch: u64,
}

#[derive(Deserialize)]
struct RawAnswer {
    id: Option<String>,
    #[serde(default)]
    resource: String,
    bucket: Option<u16>,
    offset: Option<i64>,
    #[serde(default)]
    buckets: Vec<Place>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Place {
    bucket: u16,
    offset: i64,
}

impl Said {
    /// Reads a controller's line.
    pub(super) fn parse(line: &str) -> Result<Self, serde_json::Error> {
        let line = match line {
            notice if notice.starts_with("{\"acquired\"") || notice.starts_with("{\"released\"") => {
                match serde_json::from_str(notice)? {
                    Notice::Acquired { bucket, epoch } => Line::Acquired { bucket, epoch },
                    Notice::Released { bucket, epoch, why } => {
                        Line::Released { bucket, epoch, lost: why == "lost" }
                    }
                }
            }
            message => {
                let Message { id, resource, pod, bucket, offset, epoch } = serde_json::from_str(message)?;
                let line = Line::Handled(Handled { id, resource, bucket, offset, epoch });
                return Ok(Self { line, pod });
            }
        };
        Ok(Self { line, pod: String::new() })
    }
}

impl Answer {
    /// Reads a dispatcher's line.
    pub(super) fn parse(line: &str) -> Result<Self, serde_json::Error> {
        let RawAnswer { id, resource, bucket, offset, buckets, error } = serde_json::from_str(line)?;
        let places = bucket.zip(offset).into_iter();
        let places = places.chain(buckets.into_iter().map(|place| (place.bucket, place.offset))).collect();
        Ok(match (error, id) {
            (None, Some(id)) => Self::Accepted { id, resource, places },
            (error, id) => Self::Refused { id, why: error.unwrap_or_default() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controllers_lines_are_read() {
        let said = Said::parse(r#"{"acquired":{"bucket":1,"epoch":4,"controller":"c"}}"#).unwrap();
        assert_eq!(said.line, Line::Acquired { bucket: 1, epoch: 4 });
        let released = |why: &str| {
            let line = format!(r#"{{"released":{{"bucket":1,"epoch":4,"controller":"c","why":"{why}"}}}}"#);
            Said::parse(&line).unwrap().line
        };
        assert_eq!(released("lost"), Line::Released { bucket: 1, epoch: 4, lost: true });
        assert_eq!(released("shutdown"), Line::Released { bucket: 1, epoch: 4, lost: false });
        let said = Said::parse(
            r#"{"id":"i","resource":"a/b","source":"s","pod":"p","type":"t","kind":"event","bucket":1,"offset":7,"epoch":4,"attempt":1,"time":null,"controller":"c","data":{"acquired":1}}"#,
        )
        .unwrap();
        let (id, resource) = ("i".to_owned(), "a/b".to_owned());
        assert_eq!(said.line, Line::Handled(Handled { id, resource, bucket: 1, offset: 7, epoch: 4 }));
        assert_eq!(said.pod, "p");
        assert!(Said::parse("{}").is_err() && Said::parse("x").is_err());
    }

    #[test]
    fn a_dispatchers_answers_are_read() {
        let accepted = |line: &str| match Answer::parse(line).unwrap() {
            Answer::Accepted { places, .. } => places,
            Answer::Refused { why, .. } => panic!("{why}"),
        };
        assert_eq!(accepted(r#"{"id":"i","resource":"a/b","bucket":1,"offset":7}"#), [(1, 7)]);
        let all =
            r#"{"id":"i","resource":"a/b","buckets":[{"bucket":0,"offset":3},{"bucket":1,"offset":9}]}"#;
        assert_eq!(accepted(all), [(0, 3), (1, 9)]);
        let refused = Answer::parse(r#"{"error":"too large","error_kind":"invalid","line":3,"id":"i"}"#);
        assert_eq!(
            refused.unwrap(),
            Answer::Refused { id: Some("i".to_owned()), why: "too large".to_owned() }
        );
    }
}
