//! Defaults, file and environment: each checked alone, then merged; and who set what.

use std::path::{Path, PathBuf};

use config::{Config, ConfigError, FileFormat, Map, Value, ValueKind};
use serde::{Deserialize, Deserializer};

use super::{
    defaults,
    environment::{self, Tree},
    error::{Error, Given, Origin},
    layer::Layer,
    properties,
};

type Json = serde_json::Value;

/// All sources merged, and where each key came from.
pub(super) struct Merged {
    pub(super) layer: Layer,
    pub(super) origins: Origins,
}

/// Who set what. Holds secrets, so it has no `Debug`.
pub(super) struct Origins {
    path: PathBuf,
    file: Json,
    environment: Json,
}

impl Merged {
    /// Checks `text`, the content of the file at `path`, and `variables`, each alone, and merges them over the
    /// defaults.
    ///
    /// # Errors
    /// [`Error::Syntax`] or [`Error::Key`], for the first thing that is wrong with a source.
    pub(super) fn new(
        path: &Path,
        text: &str,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Error> {
        let file = from_file(path, text)?;
        let environment = from_environment(variables)?;
        let layers = [json(&defaults::layer())?, json(&file)?, json(&environment)?];
        let mut builder = Config::builder();
        for layer in &layers {
            builder = builder.add_source(Said(table(layer)));
        }
        let merged =
            builder.build().and_then(Config::try_deserialize::<Layer>).map_err(|error| merge(&error))?;
        let [_, file, environment] = layers;
        Ok(Self { layer: merged, origins: Origins { path: path.to_owned(), file, environment } })
    }
}

#[cfg(test)]
impl Merged {
    /// What one file says, checked alone.
    pub(super) fn check_file(path: &Path, text: &str) -> Result<Layer, Error> {
        from_file(path, text)
    }
}

impl Origins {
    /// Who set `key`.
    pub(super) fn of(&self, key: &str) -> Origin {
        if find(&self.environment, key) {
            Origin::Variable(environment::variable(key))
        } else if find(&self.file, key) {
            Origin::File(self.path.clone())
        } else {
            Origin::Default
        }
    }

    /// `key`'s value is wrong.
    pub(super) fn key(&self, key: &str, reason: impl Into<String>) -> Error {
        Error::Key { origin: self.of(key), key: key.to_owned(), reason: reason.into() }
    }

    /// Nothing set `key`.
    pub(super) fn missing(&self, key: &'static str) -> Error {
        Error::Missing { key, path: self.path.clone() }
    }

    /// Two keys do not go together.
    pub(super) fn conflict(&self, key: &str, other: &str, why: impl Into<String>) -> Error {
        let given = |key: &str| Box::new(Given { key: key.to_owned(), origin: self.of(key) });
        Error::Conflict { one: given(key), other: given(other), why: why.into() }
    }
}

fn from_file(path: &Path, text: &str) -> Result<Layer, Error> {
    let parsed = Config::builder().add_source(config::File::from_str(text, FileFormat::Toml)).build();
    let tree = parsed
        // JSON's types are as strict as TOML's; `config`'s own reading would take "16" for 16.
        .and_then(Config::try_deserialize::<Json>)
        .map_err(|error| Error::Syntax { path: path.to_owned(), reason: without_lines(&error) })?;
    check(tree, |_| Origin::File(path.to_owned()))
}

fn from_environment(variables: impl IntoIterator<Item = (String, String)>) -> Result<Layer, Error> {
    check(Tree::new(variables)?, |key| Origin::Variable(environment::variable(key)))
}

/// Reads one source by itself.
fn check<'de, D: Deserializer<'de>>(source: D, origin: impl Fn(&str) -> Origin) -> Result<Layer, Error> {
    let mut track = serde_path_to_error::Track::new();
    Layer::deserialize(serde_path_to_error::Deserializer::new(source, &mut track)).map_err(|error| {
        let key = track.path().to_string();
        Error::Key { origin: origin(&key), key, reason: in_words(&error.to_string()) }
    })
}

/// serde's message with words for its types.
fn in_words(message: &str) -> String {
    const WORDS: [(&str, &str); 4] = [
        ("expected u32", "expected a whole number"),
        ("expected u64", "expected a whole number"),
        ("expected i32", "expected a whole number"),
        ("expected a sequence", "expected a list"),
    ];
    WORDS.iter().fold(message.to_owned(), |text, (serde, words)| text.replace(serde, words))
}

/// A parser's message without the lines it quotes, since one of them may hold a secret.
fn without_lines(error: &ConfigError) -> String {
    let quoted = |line: &&str| {
        line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit()).trim_start().starts_with('|')
    };
    let text = match error {
        ConfigError::FileParse { cause, .. } => cause.to_string(),
        other => other.to_string(),
    };
    text.lines().filter(|line| !quoted(line)).collect::<Vec<_>>().join(": ")
}

fn json(layer: &Layer) -> Result<Json, Error> {
    serde_json::to_value(layer).map_err(|error| Error::Merge { reason: error.to_string() })
}

fn merge(error: &ConfigError) -> Error {
    Error::Merge { reason: error.to_string() }
}

/// Whether a layer says anything about `key`.
fn find(layer: &Json, key: &str) -> bool {
    let found = match key.strip_prefix(properties::PREFIX) {
        // A property's name has dots of its own.
        Some(property) => layer.pointer("/kafka/properties").and_then(|table| table.get(property)),
        None => layer.pointer(&format!("/{}", key.replace('.', "/"))),
    };
    found.is_some_and(|value| !value.is_null())
}

/// A checked layer as a source of the `config` crate.
#[derive(Clone)]
struct Said(Map<String, Value>);

impl std::fmt::Debug for Said {
    /// Says nothing: secrets are in it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Said")
    }
}

impl config::Source for Said {
    fn clone_into_box(&self) -> Box<dyn config::Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        Ok(self.0.clone())
    }
}

/// What a layer says; what it does not say is left out.
fn table(layer: &Json) -> Map<String, Value> {
    let entries = layer.as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), Value::new(None, kind(value)?)))).collect()
}

fn kind(value: &Json) -> Option<ValueKind> {
    Some(match value {
        Json::Null => return None,
        Json::Bool(value) => ValueKind::Boolean(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => ValueKind::I64(value),
            (None, Some(value)) => ValueKind::U64(value),
            (None, None) => ValueKind::Float(number.as_f64()?),
        },
        Json::String(text) => ValueKind::String(text.clone()),
        Json::Array(elements) => ValueKind::Array(
            elements.iter().filter_map(|element| Some(Value::new(None, kind(element)?))).collect(),
        ),
        Json::Object(_) => ValueKind::Table(table(value)),
    })
}
