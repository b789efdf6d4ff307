//! Variables as a source: `CONTROL_BUS__SECTION__KEY`, whose text is read as the key's own type.

use std::collections::{BTreeMap, btree_map::Entry};

use serde::{
    Deserializer,
    de::{self, IntoDeserializer, Visitor, value::Error as ValueError},
    forward_to_deserialize_any,
};

use super::{error::Error, properties};

/// What all our variables begin with.
pub(super) const PREFIX: &str = "CONTROL_BUS__";

/// Variables by the path of their key.
pub(super) enum Tree {
    /// A variable's text.
    Leaf(String),
    /// A section.
    Table(BTreeMap<String, Tree>),
}

impl Tree {
    /// The variables that are ours, as a tree; all others are left alone.
    ///
    /// # Errors
    /// [`Error::Key`] when two variables mean the same key, or one is a section to the other.
    pub(super) fn new(variables: impl IntoIterator<Item = (String, String)>) -> Result<Self, Error> {
        let mut root = BTreeMap::new();
        for (variable, value) in variables {
            if let Some(key) = variable.strip_prefix(PREFIX) {
                insert(&mut root, &path(key), value).map_err(|reason| Error::Key {
                    origin: super::Origin::Variable(variable.clone()),
                    key: path(key).join("."),
                    reason: reason.to_owned(),
                })?;
            }
        }
        Ok(Self::Table(root))
    }
}

/// The variable that sets a key.
pub(super) fn variable(key: &str) -> String {
    match key.strip_prefix(properties::PREFIX) {
        Some(property) => format!("{PREFIX}KAFKA__PROPERTIES__{}", property.replace('.', "_").to_uppercase()),
        None => format!("{PREFIX}{}", key.replace('.', "__").to_uppercase()),
    }
}

/// The key's path. In a librdkafka property a single underscore stands for the dot.
fn path(key: &str) -> Vec<String> {
    let mut path: Vec<String> = key.to_lowercase().split("__").map(str::to_owned).collect();
    if let [kafka, table, property, ..] = path.as_slice()
        && kafka == "kafka"
        && table == "properties"
        && !property.is_empty()
    {
        let property = properties::from_variable(&path.split_off(2).join("_"));
        path.push(property);
    }
    path
}

fn insert(root: &mut BTreeMap<String, Tree>, path: &[String], value: String) -> Result<(), &'static str> {
    let Some((last, sections)) = path.split_last() else { return Ok(()) };
    let mut table = root;
    for section in sections {
        let next = table.entry(section.clone()).or_insert_with(|| Tree::Table(BTreeMap::new()));
        match next {
            Tree::Table(inner) => table = inner,
            Tree::Leaf(_) => return Err("another variable gives a value to its section"),
        }
    }
    match table.entry(last.clone()) {
        Entry::Vacant(free) => {
            free.insert(Tree::Leaf(value));
            Ok(())
        }
        Entry::Occupied(_) => Err("another variable already sets it, or a key below it"),
    }
}

impl IntoDeserializer<'_, ValueError> for Tree {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// A method that parses the text as a number.
macro_rules! number {
    ($($method:ident => $type:ty, $visit:ident, $expected:literal;)+) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
            match self {
                Self::Leaf(text) => match text.parse::<$type>() {
                    Ok(number) => visitor.$visit(number),
                    Err(_) => Err(unexpected(&text, $expected)),
                },
                table @ Self::Table(_) => table.deserialize_any(visitor),
            }
        })+
    };
}

fn unexpected(text: &str, expected: &str) -> ValueError {
    de::Error::custom(format_args!("found {text:?}, expected {expected}"))
}

impl<'de> Deserializer<'de> for Tree {
    type Error = ValueError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        match self {
            Self::Leaf(text) => visitor.visit_string(text),
            Self::Table(table) => visitor.visit_map(de::value::MapDeserializer::new(table.into_iter())),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        match self {
            Self::Leaf(text) => match text.as_str() {
                "true" => visitor.visit_bool(true),
                "false" => visitor.visit_bool(false),
                _ => Err(unexpected(&text, "true or false")),
            },
            table @ Self::Table(_) => table.deserialize_any(visitor),
        }
    }

    number! {
        deserialize_u32 => u32, visit_u32, "a whole number";
        deserialize_u64 => u64, visit_u64, "a whole number";
        deserialize_i32 => i32, visit_i32, "a whole number";
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_some(self)
    }

    /// Separated by commas, or a JSON array of strings where an element itself has a comma.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        let text = match self {
            Self::Leaf(text) => text,
            table @ Self::Table(_) => return table.deserialize_any(visitor),
        };
        let elements: Vec<String> = if text.trim_start().starts_with('[') {
            serde_json::from_str(&text)
                .map_err(|_| unexpected(&text, "a JSON array of strings, or a list separated by commas"))?
        } else {
            text.split(',').map(|element| element.trim().to_owned()).collect()
        };
        visitor.visit_seq(de::value::SeqDeserializer::new(elements.into_iter()))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        match self {
            Self::Leaf(text) => IntoDeserializer::<ValueError>::into_deserializer(text)
                .deserialize_enum(name, variants, visitor),
            table @ Self::Table(_) => table.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        i8 i16 i64 i128 u8 u16 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct
        tuple tuple_struct map struct identifier ignored_any
    }
}
