//! The unit of ordering and of routing.

use std::{fmt, str::FromStr};

/// The most bytes either part of a resource's name may have.
const PART_LIMIT: usize = 253;

/// `namespace/name`: each part 1 to 253 bytes of UTF-8 without `/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceKey {
    text: Box<str>,
}

/// Text that is not a resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("resource {found:?} is not `namespace/name`, each part 1 to {PART_LIMIT} bytes without `/`: {why}")]
pub struct InvalidResource {
    found: String,
    why: &'static str,
}

impl ResourceKey {
    /// Whether `text` is `namespace/name`; nothing is copied.
    ///
    /// # Errors
    /// [`InvalidResource`], which says which part is wrong.
    pub fn check(text: &str) -> Result<(), InvalidResource> {
        let fail = |why| Err(InvalidResource { found: text.chars().take(80).collect(), why });
        let Some((namespace, name)) = text.split_once('/') else {
            return fail("there is no `/`");
        };
        if namespace.is_empty() || name.is_empty() {
            return fail("a part is empty");
        }
        if name.contains('/') {
            return fail("there is more than one `/`");
        }
        if namespace.len() > PART_LIMIT || name.len() > PART_LIMIT {
            return fail("a part is too long");
        }
        Ok(())
    }

    /// The namespace, before the `/`.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.text.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The name, after the `/`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text.split_once('/').map_or("", |(_, name)| name)
    }

    /// `namespace/name`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for ResourceKey {
    type Err = InvalidResource;

    fn from_str(text: &str) -> Result<Self, InvalidResource> {
        Self::check(text)?;
        Ok(Self { text: text.into() })
    }
}

impl fmt::Display for ResourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_exactly_two_parts() {
        let resource: ResourceKey = "default/trigger1".parse().unwrap();
        assert_eq!((resource.namespace(), resource.name()), ("default", "trigger1"));
        for wrong in ["", "/", "a", "a/", "/b", "a/b/c", "a//b"] {
            assert!(wrong.parse::<ResourceKey>().is_err(), "{wrong:?} was taken");
        }
    }

    #[test]
    fn a_part_ends_at_253_bytes() {
        let longest = "é".repeat(126) + "x";
        assert!(format!("{longest}/{longest}").parse::<ResourceKey>().is_ok());
        assert!(format!("{longest}y/a").parse::<ResourceKey>().is_err());
        assert!(format!("a/{longest}y").parse::<ResourceKey>().is_err());
    }
}
