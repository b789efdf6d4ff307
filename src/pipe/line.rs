//! What a line says. Programs rely on the names and on their order.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    model::{Bucket, Epoch, PodName},
    owner::{Delivery, Released},
};

/// One message.
#[derive(Serialize)]
struct Message<'a> {
    id: &'a str,
    resource: &'a str,
    source: &'a str,
    pod: &'a str,
    r#type: &'a str,
    kind: &'a str,
    bucket: u16,
    offset: i64,
    epoch: u64,
    attempt: u32,
    time: Option<Cow<'a, str>>,
    controller: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Cow<'a, RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_base64: Option<String>,
}

/// The start or the end of a tenure.
#[derive(Serialize)]
struct Tenure<'a> {
    bucket: u16,
    epoch: u64,
    controller: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
}

/// A line that is no message.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Notice<'a> {
    Acquired(Tenure<'a>),
    Released(Tenure<'a>),
}

/// The line of one attempt, with its newline.
pub(super) fn message(delivery: &Delivery, controller: &PodName) -> Vec<u8> {
    let notification = &delivery.notification;
    let data = json_data(notification.content_type(), notification.data());
    let data_base64 = data.is_none().then(|| STANDARD.encode(notification.data()));
    let time = notification.time().filter(|text| is_rfc3339(text)).map(Cow::Borrowed);
    let time = time.or_else(|| kafkas_time(notification.record().timestamp()?).map(Cow::Owned));
    line(&Message {
        id: notification.id(),
        resource: notification.resource(),
        source: notification.source(),
        pod: notification.pod(),
        r#type: notification.ty(),
        kind: notification.kind().as_str(),
        bucket: delivery.bucket.get(),
        offset: notification.offset().get(),
        epoch: delivery.epoch.get(),
        attempt: delivery.attempt,
        time,
        controller: controller.as_str(),
        data,
        data_base64,
    })
}

/// The line that begins a tenure.
pub(super) fn acquired(bucket: Bucket, epoch: Epoch, controller: &PodName) -> Vec<u8> {
    line(&Notice::Acquired(tenure(bucket, epoch, controller, None)))
}

/// The line that ends a tenure.
pub(super) fn released(bucket: Bucket, epoch: Epoch, controller: &PodName, why: Released) -> Vec<u8> {
    line(&Notice::Released(tenure(bucket, epoch, controller, Some(why.as_str()))))
}

fn tenure<'a>(bucket: Bucket, epoch: Epoch, controller: &'a PodName, why: Option<&'a str>) -> Tenure<'a> {
    Tenure { bucket: bucket.get(), epoch: epoch.get(), controller: controller.as_str(), why }
}

#[expect(
    clippy::expect_used,
    reason = "text, numbers and checked JSON always serialise, and memory never fails"
)]
fn line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("a line of text and numbers serialises");
    line.push(b'\n');
    line
}

/// The data as JSON, if it is said to be JSON and is; without white space, so that it fits on a line, and
/// otherwise untouched: numbers keep their digits.
pub(crate) fn json_data<'a>(content_type: Option<&str>, data: &'a [u8]) -> Option<Cow<'a, RawValue>> {
    if !content_type.is_some_and(is_json) {
        return None;
    }
    let raw: &RawValue = serde_json::from_slice(data).ok()?;
    match compact(raw.get()) {
        None => Some(Cow::Borrowed(raw)),
        Some(text) => RawValue::from_string(text).ok().map(Cow::Owned),
    }
}

/// Whether a media type is JSON: `application/json`, or one with the suffix `+json`.
fn is_json(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media_type == "application/json" || media_type.ends_with("+json")
}

/// Valid JSON without the white space between its tokens; `None` where there is none.
fn compact(json: &str) -> Option<String> {
    let (mut inside, mut escaped, mut removed) = (false, false, false);
    let kept: String = json
        .chars()
        .filter(|c| {
            if inside {
                inside = escaped || *c != '"';
                escaped = !escaped && *c == '\\';
                return true;
            }
            inside = *c == '"';
            let space = matches!(c, ' ' | '\t' | '\n' | '\r');
            removed |= space;
            !space
        })
        .collect();
    removed.then_some(kept)
}

/// Kafka's timestamp, in milliseconds since the Unix epoch, as RFC 3339.
fn kafkas_time(milliseconds: i64) -> Option<String> {
    jiff::Timestamp::from_millisecond(milliseconds).ok().map(|time| time.to_string())
}

/// Whether `text` is a time of RFC 3339 (`jiff` alone takes more than that).
fn is_rfc3339(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let Some(rest) = shape.to_ascii_uppercase().strip_prefix("0000-00-00T00:00:00").map(str::to_owned) else {
        return false;
    };
    let zone = match rest.strip_prefix('.') {
        Some(fraction) if fraction.starts_with('0') => fraction.trim_start_matches('0'),
        Some(_) => return false,
        None => rest.as_str(),
    };
    matches!(zone, "Z" | "+00:00" | "-00:00") && text.parse::<jiff::Timestamp>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipe::lines::tests::delivery;

    fn written(headers: &[(&str, &str)], data: &str) -> String {
        let line = message(&delivery(headers, data.as_bytes()), &PodName::new("c1").unwrap());
        String::from_utf8(line).unwrap()
    }

    fn data_of(content_type: &str, data: &str) -> String {
        let line = written(&[("content-type", content_type)], data);
        assert_eq!(line.matches('\n').count(), 1, "{line:?}");
        let (_, data) = line.split_once("\"controller\":\"c1\",").unwrap();
        data.trim_end_matches("}\n").to_owned()
    }

    #[test]
    fn a_line_has_its_fields_in_the_documented_order() {
        let headers = [("ce_time", "2026-01-02T03:04:05+01:00"), ("content-type", "application/json")];
        assert_eq!(
            written(&headers, r#"{"a": 1}"#),
            concat!(
                r#"{"id":"1","resource":"default/trigger1","source":"urn:s","pod":"p1","type":"t","#,
                r#""kind":"event","bucket":3,"offset":7,"epoch":2,"attempt":1,"#,
                r#""time":"2026-01-02T03:04:05+01:00","controller":"c1","data":{"a":1}}"#,
                "\n"
            )
        );
    }

    #[test]
    fn json_passes_through_on_one_line_with_its_digits() {
        let json = "{ \"a\\\" b\" :\r\n\t[1.50, 12345678901234567890123, \"x \\\\\" , null ]\n}";
        let expected = "\"data\":{\"a\\\" b\":[1.50,12345678901234567890123,\"x \\\\\",null]}";
        assert_eq!(data_of("application/json", json), expected);
        assert_eq!(data_of("Application/CloudEvents+JSON; charset=utf-8", " 5\n"), "\"data\":5");
    }

    #[test]
    fn data_that_is_no_json_is_base64() {
        assert_eq!(data_of("application/json", "{"), r#""data_base64":"ew==""#);
        assert_eq!(data_of("application/json", ""), r#""data_base64":"""#);
        assert_eq!(data_of("text/plain", "5"), r#""data_base64":"NQ==""#);
        assert_eq!(data_of("application/jsonl", "5"), r#""data_base64":"NQ==""#);
        let without_type = written(&[], "5");
        assert!(without_type.ends_with("\"data_base64\":\"NQ==\"}\n"), "{without_type}");
    }

    #[test]
    fn a_time_that_is_not_rfc_3339_gives_way_to_kafkas() {
        let time = |headers: &[(&str, &str)]| {
            let line: serde_json::Value = serde_json::from_str(&written(headers, "")).unwrap();
            line["time"].as_str().unwrap().to_owned()
        };
        for good in ["2026-01-02T03:04:05Z", "2026-01-02t03:04:05.123z", "2026-01-02T03:04:05.000001-07:30"] {
            assert_eq!(time(&[("ce_time", good)]), good);
        }
        for bad in [
            "yesterday",
            "",
            "2026-01-02",
            "2026-01-02 03:04:05Z",
            "2026-01-02T03:04:05",
            "2026-13-02T03:04:05Z",
            "2026-01-02T03:04:05.Z",
            "2026-01-02T03:04:05Z[UTC]",
        ] {
            assert_eq!(time(&[("ce_time", bad)]), "2026-01-01T00:00:00.123Z", "{bad}");
        }
        assert_eq!(time(&[]), "2026-01-01T00:00:00.123Z");
    }

    #[test]
    fn notices_have_one_top_level_key() {
        let (bucket, epoch) = (Bucket::from_partition(3).unwrap(), Epoch::new(2));
        let name = PodName::new("c1").unwrap();
        let text = |line: Vec<u8>| String::from_utf8(line).unwrap();
        assert_eq!(
            text(acquired(bucket, epoch, &name)),
            "{\"acquired\":{\"bucket\":3,\"epoch\":2,\"controller\":\"c1\"}}\n"
        );
        assert_eq!(
            text(released(bucket, epoch, &name, Released::Revoked)),
            "{\"released\":{\"bucket\":3,\"epoch\":2,\"controller\":\"c1\",\"why\":\"revoked\"}}\n"
        );
    }
}
