//! Values with a unit: durations, sizes, and lists, as they are written in files and variables.

use std::{fmt, time::Duration};

use bytesize::ByteSize;
use humantime_serde::re::humantime;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A time span, written with its unit: `500ms`, `30s`, `5m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interval(pub(super) Duration);

/// A number of bytes, written plainly or with a unit: `65536`, `64KiB`, `16MiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size(pub(super) u64);

const INTERVAL: &str = "a duration with its unit, such as \"500ms\", \"30s\" or \"5m\"";
const SIZE: &str = "a number of bytes, plain or with its unit, such as 65536, \"64KiB\" or \"16MiB\"";

impl<'de> Deserialize<'de> for Interval {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IntervalVisitor)
    }
}

struct IntervalVisitor;

impl IntervalVisitor {
    fn without_unit<E: de::Error>(found: impl fmt::Display) -> E {
        E::custom(format_args!("{found} has no unit: expected {INTERVAL}"))
    }
}

impl de::Visitor<'_> for IntervalVisitor {
    type Value = Interval;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(INTERVAL)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Interval, E> {
        if text.parse::<f64>().is_ok() {
            return Err(Self::without_unit(text));
        }
        humantime::parse_duration(text)
            .map(Interval)
            .map_err(|error| E::custom(format_args!("{text:?} is not {INTERVAL}: {error}")))
    }

    fn visit_u64<E: de::Error>(self, found: u64) -> Result<Interval, E> {
        Err(Self::without_unit(found))
    }

    fn visit_i64<E: de::Error>(self, found: i64) -> Result<Interval, E> {
        Err(Self::without_unit(found))
    }

    fn visit_f64<E: de::Error>(self, found: f64) -> Result<Interval, E> {
        Err(Self::without_unit(found))
    }
}

impl Serialize for Interval {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(self.0))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SizeVisitor)
    }
}

struct SizeVisitor;

impl de::Visitor<'_> for SizeVisitor {
    type Value = Size;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SIZE)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
        let size: ByteSize = text.parse().map_err(|_| E::custom(format_args!("{text:?} is not {SIZE}")))?;
        Ok(Size(size.as_u64()))
    }

    fn visit_u64<E: de::Error>(self, found: u64) -> Result<Size, E> {
        Ok(Size(found))
    }

    fn visit_i64<E: de::Error>(self, found: i64) -> Result<Size, E> {
        u64::try_from(found)
            .map(Size)
            .map_err(|_| E::custom(format_args!("{found} is negative: expected {SIZE}")))
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn interval(value: serde_json::Value) -> Result<Duration, String> {
        serde_json::from_value::<Interval>(value).map(|found| found.0).map_err(|error| error.to_string())
    }

    fn size(value: serde_json::Value) -> Result<u64, String> {
        serde_json::from_value::<Size>(value).map(|found| found.0).map_err(|error| error.to_string())
    }

    #[test]
    fn a_duration_needs_its_unit() {
        assert_eq!(interval(json!("500ms")), Ok(Duration::from_millis(500)));
        assert_eq!(interval(json!("1m 30s")), Ok(Duration::from_secs(90)));
        for bare in [json!(30), json!(-1), json!(1.5), json!("30"), json!("0")] {
            let error = interval(bare.clone()).unwrap_err();
            assert!(error.contains("has no unit") && error.contains("30s"), "{bare}: {error}");
        }
        for wrong in [json!("30 parsecs"), json!(""), json!(true), json!(["30s"])] {
            let error = interval(wrong.clone()).unwrap_err();
            assert!(error.contains("30s"), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_size_is_bytes_or_has_its_unit() {
        assert_eq!(size(json!(65536)), Ok(65_536));
        assert_eq!(size(json!("65536")), Ok(65_536));
        assert_eq!(size(json!("16MiB")), Ok(16 << 20));
        assert_eq!(size(json!("1 MB")), Ok(1_000_000));
        for wrong in [json!("16 parsecs"), json!(-1), json!(1.5), json!(""), json!("-1MiB")] {
            let error = size(wrong.clone()).unwrap_err();
            assert!(error.contains("16MiB"), "{wrong}: {error}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for millis in [0, 1, 1500, 86_400_000] {
            let value = Interval(Duration::from_millis(millis));
            assert_eq!(interval(serde_json::to_value(value).unwrap()), Ok(value.0));
        }
    }
}
