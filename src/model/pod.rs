//! The name of a process on the bus.

use std::fmt;

/// The most bytes a pod's name may have, as for a Kubernetes name.
const LIMIT: usize = 253;

/// The stable, unique name of a data-plane process: 1 to 253 bytes of UTF-8 without control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodName(String);

/// Text that is not a pod's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "pod name {found:?} is not 1 to {LIMIT} bytes without control characters; set `name` to the pod's own, stable name"
)]
pub struct InvalidPodName {
    found: String,
}

impl PodName {
    /// Checks `name`.
    ///
    /// # Errors
    /// [`InvalidPodName`] when it is empty, longer than 253 bytes, or has a control character.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidPodName> {
        let name = name.into();
        if name.is_empty() || name.len() > LIMIT || name.chars().any(char::is_control) {
            return Err(InvalidPodName { found: name.chars().take(80).collect() });
        }
        Ok(Self(name))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
