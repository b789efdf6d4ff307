//! What can be wrong with a configuration.

use std::{fmt, io, path::PathBuf};

use super::environment;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nothing set it.
    Default,
    /// A file.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("the default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable(name) => write!(f, "environment variable {name}"),
        }
    }
}

/// A key, and where its value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// The key.
    pub key: String,
    /// Who set it.
    pub origin: Origin,
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` ({})", self.key, self.origin)
    }
}

/// A configuration that cannot be used. Nothing was started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("configuration file {} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is no TOML.
    #[error("configuration file {} is not valid TOML: {reason}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, column, and what the parser expected; never the line itself, which may hold a secret.
        reason: String,
    },
    /// A variable of ours whose value is not text.
    #[error("environment variable {name} is not UTF-8 text")]
    NotText {
        /// The variable.
        name: String,
    },
    /// One key is unknown, or its value is wrong.
    #[error("{origin}: `{key}`: {reason}")]
    Key {
        /// Where it was set.
        origin: Origin,
        /// The key.
        key: String,
        /// What was found, and what was expected.
        reason: String,
    },
    /// A required key is nowhere set.
    #[error("`{key}` is not set: set it in {} or as environment variable {}", path.display(), environment::variable(key))]
    Missing {
        /// The key.
        key: &'static str,
        /// The file that was read.
        path: PathBuf,
    },
    /// Two keys that cannot go together.
    #[error("{one} and {other} do not go together: {why}")]
    Conflict {
        /// The one.
        one: Box<Given>,
        /// The other.
        other: Box<Given>,
        /// The rule, and both values.
        why: String,
    },
    /// The sources could not be put together, which would be a defect.
    #[error("the configuration's sources cannot be merged: {reason}")]
    Merge {
        /// In the library's words.
        reason: String,
    },
}
