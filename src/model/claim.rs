//! The record by which an owner says that a bucket is its own.

use serde::{Deserialize, Serialize};

use super::Epoch;

/// The value of the `claim` record in a bucket's partition of `<bus>.ownership`: a JSON object.
///
/// `epoch`, `owner` and `released` are frozen: every later version writes them with this meaning. Members
/// that a reader does not know are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Claim {
    /// The tenure's number.
    pub epoch: Epoch,
    /// The controller's name, for people.
    pub owner: String,
    /// When it was written, RFC 3339, by the owner's clock; for people only.
    #[serde(default)]
    pub time: String,
    /// Whether the owner gave the bucket up in good order: all it had started has an outcome that is durable.
    #[serde(default)]
    pub released: bool,
    /// With a release: up to where an earlier owner, that did not release, may have started records; the next owner is
    /// cautious with what is left below. Absent when nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cautious_until: Option<i64>,
}

/// Bytes that are no claim.
#[derive(Debug, thiserror::Error)]
#[error("the claim record is not the expected JSON object with `epoch` and `owner`")]
pub struct InvalidClaim(#[source] serde_json::Error);

impl Claim {
    /// Reads a claim's value.
    ///
    /// # Errors
    /// [`InvalidClaim`] when it is not JSON or lacks `epoch` or `owner`.
    pub fn decode(value: &[u8]) -> Result<Self, InvalidClaim> {
        serde_json::from_slice(value).map_err(InvalidClaim)
    }

    /// The value to write.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default() // strings, a number and a bool always serialise
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_of_a_newer_version_is_read() {
        let newer =
            br#"{"epoch":7,"owner":"controller1","time":"2030-01-01T00:00:00Z","released":true,"zone":"b"}"#;
        let claim = Claim::decode(newer).unwrap();
        assert_eq!((claim.epoch, claim.released), (Epoch::new(7), true));
        assert_eq!(Claim::decode(&claim.encode()).unwrap(), claim);
    }

    #[test]
    fn bytes_that_are_no_claim_are_an_error() {
        for wrong in [&b""[..], b"\xff", b"{}", b"[]", br#"{"epoch":-1,"owner":"x"}"#] {
            assert!(Claim::decode(wrong).is_err());
        }
    }
}
