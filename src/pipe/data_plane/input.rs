//! One input line: the message it asks for, or what is wrong with it.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::model::{ErrorKind, InvalidMessage, Kind, Message};

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Input {
    pub(super) message: Message,
    pub(super) to_all: bool,
}

/// A line that was not published.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bad {
    pub(super) error: String,
    pub(super) kind: ErrorKind,
    /// The message's id, where the line has one that can be read.
    pub(super) id: Option<String>,
}

impl Bad {
    pub(super) fn invalid(error: String) -> Self {
        Self { error, kind: ErrorKind::Invalid, id: None }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw<'a> {
    resource: String,
    #[serde(rename = "type")]
    ty: String,
    kind: RawKind,
    #[serde(borrow, default, deserialize_with = "written")]
    data: Option<&'a RawValue>,
    data_base64: Option<String>,
    id: Option<String>,
    source: Option<String>,
    content_type: Option<String>,
    to: Option<RawTo>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawKind {
    Event,
    State,
}

#[derive(Deserialize)]
enum RawTo {
    #[serde(rename = "all-buckets")]
    AllBuckets,
}

/// `"data": null` is data like any other, which `Option` alone would take for none.
fn written<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Reads a line, without its end. Never panics, whatever it holds.
///
/// # Errors
/// [`Bad`], which names the key that is wrong.
pub(super) fn parse(line: &[u8]) -> Result<Input, Bad> {
    let text = std::str::from_utf8(line).map_err(|error| {
        Bad::invalid(format!("the line is not UTF-8: byte {} is wrong", error.valid_up_to() + 1))
    })?;
    let with_id = |error| Bad { id: id_of(text), ..Bad::invalid(error) };
    // An array with the values in order would be taken for the object.
    match text.trim_start().chars().next() {
        Some('{') => {}
        Some(_) => return Err(Bad::invalid("the line is no JSON object".to_owned())),
        None => return Err(Bad::invalid("the line is empty: expected a JSON object".to_owned())),
    }
    let raw = deserialize(text).map_err(with_id)?;
    let to_all = raw.to.is_some();
    let message = message(raw).map_err(with_id)?;
    Ok(Input { message, to_all })
}

fn deserialize(text: &str) -> Result<Raw<'_>, String> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let raw = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let reason = without_position(error.inner());
        if path == "." { reason } else { format!("{path:?}: {reason}") }
    })?;
    deserializer.end().map_err(|error| without_position(&error))?;
    Ok(raw)
}

/// The error's text with its place in the line; serde_json's own ends with "at line 1 column N", and it is
/// line 1 always.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&position) {
        Some(reason) => format!("{reason} at column {}", error.column()),
        None => text,
    }
}

fn message(raw: Raw<'_>) -> Result<Message, String> {
    let named = |error: InvalidMessage| error.to_string();
    let (data, default_type) = match (raw.data, raw.data_base64) {
        (None, None) => (Bytes::new(), None),
        (Some(json), None) => (Bytes::copy_from_slice(json.get().as_bytes()), Some("application/json")),
        (None, Some(text)) => {
            let data = STANDARD.decode(text).map_err(|error| {
                format!("\"data_base64\" is not base64 (standard alphabet, padded): {error}")
            })?;
            (Bytes::from(data), Some("application/octet-stream"))
        }
        (Some(_), Some(_)) => return Err("\"data\" and \"data_base64\" are both given".to_owned()),
    };
    let kind = match raw.kind {
        RawKind::Event => Kind::Event,
        RawKind::State => Kind::State,
    };
    let resource = raw.resource.parse().map_err(|error: crate::model::InvalidResource| error.to_string())?;
    let mut message = Message::new(resource, kind, raw.ty, data).map_err(named)?;
    if let Some(id) = raw.id {
        message = message.with_id(id).map_err(named)?;
    }
    if let Some(source) = raw.source {
        message = message.with_source(source).map_err(named)?;
    }
    if let Some(content_type) = raw.content_type.as_deref().or(default_type) {
        message = message.with_content_type(content_type).map_err(named)?;
    }
    Ok(message)
}

/// The id of a line that is wrong elsewhere.
fn id_of(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Id {
        id: String,
    }
    serde_json::from_str::<Id>(text).ok().map(|found| found.id)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::{Buckets, PodName};

    const HEAD: &str = r#""resource":"default/trigger1","type":"t","kind":"event""#;

    fn taken(rest: &str) -> Message {
        parse(format!("{{{HEAD}{rest}}}").as_bytes()).unwrap().message
    }

    fn refused(line: &str) -> String {
        let bad = parse(line.as_bytes()).unwrap_err();
        assert_eq!(bad.kind, ErrorKind::Invalid);
        bad.error
    }

    fn header(message: &Message, name: &str) -> Option<String> {
        let outgoing = message.encode(&PodName::new("pod").unwrap(), Buckets::new(1).unwrap(), "now");
        let found = outgoing.headers.into_iter().find(|(header, _)| header == name)?;
        Some(String::from_utf8(found.1?.to_vec()).unwrap())
    }

    #[test]
    fn data_passes_through_as_it_is_written() {
        for data in [r#"{"b" : 1.0e0, "a":[ ]}"#, "null", "1E400", r#""\u00e9""#] {
            let message = taken(&format!(r#", "data" : {data} "#));
            assert_eq!(message.data(), data);
            assert_eq!(header(&message, "content-type").as_deref(), Some("application/json"));
        }
    }

    #[test]
    fn data_may_be_bytes_or_empty_and_its_type_may_be_given() {
        let message = taken(r#","data_base64":"AP8=""#);
        assert_eq!(&message.data()[..], [0, 255]);
        assert_eq!(header(&message, "content-type").as_deref(), Some("application/octet-stream"));
        let message = taken("");
        assert_eq!((message.data().len(), header(&message, "content-type")), (0, None));
        let message = taken(r#","data":"x","content_type":"text/x","id":"1","source":"s""#);
        assert_eq!(header(&message, "content-type").as_deref(), Some("text/x"));
        assert_eq!((message.id(), header(&message, "ce_source").as_deref()), (Some("1"), Some("s")));
    }

    #[test]
    fn all_buckets_are_asked_for_by_their_word_only() {
        let line = |to: &str| format!(r#"{{{HEAD},"to":{to}}}"#);
        assert!(parse(line(r#""all-buckets""#).as_bytes()).unwrap().to_all);
        assert!(!parse(line("null").as_bytes()).unwrap().to_all);
        assert!(refused(&line(r#""all""#)).contains("\"to\""), "{}", refused(&line(r#""all""#)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, named) in [
            ("", "empty"),
            (" \t\r", "empty"),
            ("[\"a/b\",\"t\",\"event\"]", "no JSON object"),
            ("{", "EOF"),
            (r#"{"resource":"a/b","type":"t"}"#, "`kind`"),
            (r#"{"resource":"a/b","type":"t","kind":"event","extra":1}"#, "`extra`"),
            (r#"{"resource":"a/b","type":"t","kind":"event","kind":"event"}"#, "`kind`"),
            (r#"{"resource":"a/b","type":"t","kind":"other"}"#, "\"kind\""),
            (r#"{"resource":"a/b","type":5,"kind":"event"}"#, "\"type\""),
            (r#"{"resource":"a","type":"t","kind":"event"}"#, "resource \"a\""),
            (r#"{"resource":"a/b","type":"","kind":"event"}"#, "type"),
            (r#"{"resource":"a/b","type":"t","kind":"event","data":{]}"#, "data"),
            (r#"{"resource":"a/b","type":"t","kind":"event","data_base64":"?"}"#, "data_base64"),
            (r#"{"resource":"a/b","type":"t","kind":"event","data":1,"data_base64":""}"#, "both"),
            (r#"{"resource":"a/b","type":"t","kind":"event"} {}"#, "trailing"),
        ] {
            let error = refused(line);
            assert!(error.contains(named), "{line}: {error}");
            assert!(!error.contains("line 1"), "{error}");
        }
        assert!(parse(b"\xff").unwrap_err().error.contains("UTF-8"));
    }

    #[test]
    fn the_id_of_a_bad_line_is_told_where_it_can_be_read() {
        let id = |line: &str| parse(line.as_bytes()).unwrap_err().id;
        assert_eq!(id(r#"{"id":"7","resource":"a"}"#).as_deref(), Some("7"));
        assert_eq!(id(r#"{"id":"7","resource":"a","type":"t","kind":"event"}"#).as_deref(), Some("7"));
        assert_eq!(id(r#"{"id":7}"#), None);
        assert_eq!(id(r#"{"id":"7""#), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(parse(&bytes).is_err());
        }

        #[test]
        fn no_change_of_a_good_line_makes_it_panic(at in 0..100_usize, byte in any::<u8>()) {
            let mut line = format!("{{{HEAD},\"data\":[1,\"x\"],\"id\":\"é\"}}").into_bytes();
            let at = at % line.len();
            line[at] = byte;
            if let Err(bad) = parse(&line) {
                prop_assert!(!bad.error.is_empty());
            }
        }
    }
}
