//! The parsed tree: every value has its line, so that each field can be checked by itself.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_saphyr::Spanned;

/// A value and the line on which it begins.
#[derive(Debug)]
pub struct Node {
    pub line: u64,
    pub value: Value,
}

/// A map's key and its line.
#[derive(Debug)]
pub struct Key {
    pub line: u64,
    pub name: String,
}

#[derive(Debug)]
pub enum Value {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

impl Node {
    /// The type in words, for messages.
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    /// Adds an offset to all lines, after a part of a text was parsed.
    pub fn move_down(&mut self, lines: u64) {
        self.line += lines;
        match &mut self.value {
            Value::List(items) => items.iter_mut().for_each(|item| item.move_down(lines)),
            Value::Map(entries) => {
                for (key, value) in entries {
                    key.line += lines;
                    value.move_down(lines);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => {}
        }
    }

    /// The entries of a map. Empty for any other value.
    pub fn into_entries(self) -> Vec<(Key, Node)> {
        match self.value {
            Value::Map(entries) => entries,
            _ => Vec::new(),
        }
    }

    /// The value without its lines.
    pub fn into_json(self) -> serde_json::Value {
        match self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => value.into(),
            Value::Number(value) => value.into(),
            Value::Text(value) => value.into(),
            Value::List(list) => list.into_iter().map(Node::into_json).collect(),
            Value::Map(map) => {
                let entries = map.into_iter().map(|(key, value)| (key.name, value.into_json()));
                serde_json::Value::Object(entries.collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned { value, referenced, .. } = Spanned::deserialize(deserializer)?;
        Ok(Self { line: referenced.line(), value })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, a number, true, false, a list or a map")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value);
        number.map(Value::Number).ok_or_else(|| E::custom("a number must be finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = list.next_element()? {
            nodes.push(node);
        }
        Ok(Value::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let key = Key { line: key.referenced.line(), name: key.value };
            entries.push((key, map.next_value()?));
        }
        Ok(Value::Map(entries))
    }
}
