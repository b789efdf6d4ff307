//! librdkafka's properties as the user gives them, and secrets in files of their own.

use std::{collections::BTreeMap, fmt, path::Path};

use serde::{Deserialize, Deserializer, Serialize, de};

use super::{error::Error, sources::Origins};
use crate::kafka;

/// The path of the table, with the dot that follows it.
pub(super) const PREFIX: &str = "kafka.properties.";

/// What a property's name ends with where its value is in a file.
const FILE: &str = "_file";

/// Properties by name, all values as text. Never printed: it has no `Debug`.
#[derive(Default, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub(super) struct Properties(pub(super) BTreeMap<String, String>);

/// A value, or a table of them: TOML makes one of each unquoted dot.
enum Node {
    Value(String),
    Table(BTreeMap<String, Node>),
}

impl<'de> Deserialize<'de> for Properties {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut flat = BTreeMap::new();
        // serde's own message would show a value that stands where the table should.
        let Node::Table(table) = Node::deserialize(deserializer)? else {
            return Err(de::Error::custom("found a single value, expected a table of properties"));
        };
        flatten(&mut flat, "", table).map_err(|name| {
            de::Error::custom(format_args!("property {name:?} is given twice, with and without quotes"))
        })?;
        Ok(Self(flat))
    }
}

/// Joins nested names with dots; the error is a name that appears twice.
fn flatten(
    flat: &mut BTreeMap<String, String>,
    prefix: &str,
    table: BTreeMap<String, Node>,
) -> Result<(), String> {
    for (name, node) in table {
        let name = format!("{prefix}{name}");
        match node {
            Node::Table(inner) => flatten(flat, &format!("{name}."), inner)?,
            Node::Value(value) => {
                if flat.insert(name.clone(), value).is_some() {
                    return Err(name);
                }
            }
        }
    }
    Ok(())
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> de::Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, a number, or true or false")
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Value(value.to_owned()))
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Value(value.to_string()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Value(value.to_string()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Value(value.to_string()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Value(value.to_string()))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Node, A::Error> {
        BTreeMap::deserialize(de::value::MapAccessDeserializer::new(map)).map(Node::Table)
    }
}

/// A property's name from the part of a variable's name that stands for it.
pub(super) fn from_variable(name: &str) -> String {
    let dotted = |name: &str| name.replace('_', ".");
    match name.strip_suffix(FILE).map(dotted) {
        Some(secret) if kafka::Settings::is_secret(&secret) => format!("{secret}{FILE}"),
        _ => dotted(name),
    }
}

/// The properties with every `<name>_file` replaced by what its file holds.
///
/// # Errors
/// [`Error`] when a secret is given in both forms, its file cannot be read or is empty, or the property is no
/// secret.
pub(super) fn resolve(given: Properties, origins: &Origins) -> Result<BTreeMap<String, String>, Error> {
    let mut resolved = BTreeMap::new();
    for (name, value) in &given.0 {
        let Some(secret) = name.strip_suffix(FILE) else {
            resolved.insert(name.clone(), value.clone());
            continue;
        };
        let key = format!("{PREFIX}{name}");
        if !kafka::Settings::is_secret(secret) {
            let reason = format!("{secret:?} is no secret that could be given as a file: set it directly");
            return Err(origins.key(&key, reason));
        }
        if given.0.contains_key(secret) {
            let why = "the secret is given directly and as a file: give it once";
            return Err(origins.conflict(&format!("{PREFIX}{secret}"), &key, why));
        }
        let secret_value = read(Path::new(value)).map_err(|reason| origins.key(&key, reason))?;
        resolved.insert(secret.to_owned(), secret_value);
    }
    Ok(resolved)
}

/// A secret file's text, without the newline at its end.
fn read(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let bytes =
        std::fs::read(path).map_err(|error| format!("the secret's file {shown} cannot be read: {error}"))?;
    let text =
        String::from_utf8(bytes).map_err(|_| format!("the secret's file {shown} is not UTF-8 text"))?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.is_empty() {
        return Err(format!("the secret's file {shown} is empty"));
    }
    Ok(text.to_owned())
}
